"""Headers of kernels from the blocks that describe them: ``.amdhsa_kernel`` and ``.amd_kernel_code_t``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from understudy.core.errors import WireError, close_to
from understudy.core.record import AnyRecord, Record
from understudy.image.hsa import targets
from understudy.image.hsa.records import (
    SGPR_GRANULE,
    USER_SGPRS,
    VGPR_GRANULE,
    CodeProperties,
    DescriptorProperties,
    KernelCode,
    KernelDescriptor,
    Rsrc1,
    Rsrc2,
)
from understudy.isa.gcn.target import GFX8, GFX9, TARGETS

SGPRS_OF_BUG: Final = 96
"""SGPRs that every kernel of gfx800 and gfx802 is given: their hardware starts waves wrongly with another number."""
WITH_BUG: Final = ("gfx800", "gfx802")


@dataclass(slots=True)
class Block:
    """A block of directives: the kernel's name, how it ends, its line, and the values of its lines."""

    name: str
    end: str
    line: int
    fields: dict[str, int] = field(default_factory=dict)


# Directive, record ("" for the descriptor), its field, and bits.
_DIRECT: Final = {
    "group_segment_fixed_size": ("", "group_segment_fixed_size", 32),
    "private_segment_fixed_size": ("", "private_segment_fixed_size", 32),
    "kernarg_size": ("", "kernarg_size", 32),
    "user_sgpr_private_segment_buffer": ("properties", "enable_sgpr_private_segment_buffer", 1),
    "user_sgpr_dispatch_ptr": ("properties", "enable_sgpr_dispatch_ptr", 1),
    "user_sgpr_queue_ptr": ("properties", "enable_sgpr_queue_ptr", 1),
    "user_sgpr_kernarg_segment_ptr": ("properties", "enable_sgpr_kernarg_segment_ptr", 1),
    "user_sgpr_dispatch_id": ("properties", "enable_sgpr_dispatch_id", 1),
    "user_sgpr_flat_scratch_init": ("properties", "enable_sgpr_flat_scratch_init", 1),
    "user_sgpr_private_segment_size": ("properties", "enable_sgpr_private_segment_size", 1),
    "uses_dynamic_stack": ("properties", "uses_dynamic_stack", 1),
    "system_sgpr_private_segment_wavefront_offset": ("rsrc2", "enable_sgpr_private_segment_wave_byte_offset", 1),
    "system_sgpr_workgroup_id_x": ("rsrc2", "enable_sgpr_workgroup_id_x", 1),
    "system_sgpr_workgroup_id_y": ("rsrc2", "enable_sgpr_workgroup_id_y", 1),
    "system_sgpr_workgroup_id_z": ("rsrc2", "enable_sgpr_workgroup_id_z", 1),
    "system_sgpr_workgroup_info": ("rsrc2", "enable_sgpr_workgroup_info", 1),
    "system_vgpr_workitem_id": ("rsrc2", "enable_vgpr_workitem_id", 2),
    "float_round_mode_32": ("rsrc1", "float_mode_round_32", 2),
    "float_round_mode_16_64": ("rsrc1", "float_mode_round_16_64", 2),
    "float_denorm_mode_32": ("rsrc1", "float_mode_denorm_32", 2),
    "float_denorm_mode_16_64": ("rsrc1", "float_mode_denorm_16_64", 2),
    "dx10_clamp": ("rsrc1", "enable_dx10_clamp", 1),
    "ieee_mode": ("rsrc1", "enable_ieee_mode", 1),
    "fp16_overflow": ("rsrc1", "fp16_overflow", 1),
    "exception_fp_ieee_invalid_op": ("rsrc2", "enable_exception_ieee_754_fp_invalid_operation", 1),
    "exception_fp_denorm_src": ("rsrc2", "enable_exception_fp_denormal_source", 1),
    "exception_fp_ieee_div_zero": ("rsrc2", "enable_exception_ieee_754_fp_division_by_zero", 1),
    "exception_fp_ieee_overflow": ("rsrc2", "enable_exception_ieee_754_fp_overflow", 1),
    "exception_fp_ieee_underflow": ("rsrc2", "enable_exception_ieee_754_fp_underflow", 1),
    "exception_fp_ieee_inexact": ("rsrc2", "enable_exception_ieee_754_fp_inexact", 1),
    "exception_int_div_zero": ("rsrc2", "enable_exception_int_divide_by_zero", 1),
}
_OTHERS: Final = ("user_sgpr_count", "next_free_vgpr", "next_free_sgpr", "reserve_vcc", "reserve_flat_scratch",
                  "reserve_xnack_mask")  # fmt: skip
_ASSUMED: Final = {"float_denorm_mode_16_64": 3, "dx10_clamp": 1, "ieee_mode": 1, "system_sgpr_workgroup_id_x": 1}
_PREFIX: Final = ".amdhsa_"


def descriptor(block: Block, processor: str, features: dict[str, str]) -> KernelDescriptor:
    """The kernel descriptor of an ``.amdhsa_kernel`` block, without its entry offset."""
    said = {name.removeprefix(_PREFIX): value for name, value in block.fields.items()}
    known = (*_DIRECT, *_OTHERS)
    for name in block.fields:
        bare = name.removeprefix(_PREFIX)
        if bare not in known or bare == name:
            near = close_to(name, [_PREFIX + each for each in known])
            raise WireError(f"{processor} has no {name} in an .amdhsa_kernel block{near}")
    for name in ("next_free_vgpr", "next_free_sgpr"):
        if name not in said:
            raise WireError(f"{_PREFIX}{name} is missing")
    parts: dict[str, dict[str, int]] = {"": {}, "properties": {}, "rsrc1": {}, "rsrc2": {}}
    for name, (part, to, bits) in _DIRECT.items():
        value = said.get(name, _ASSUMED.get(name, 0))
        if not 0 <= value < 1 << bits:
            raise WireError(f"{_PREFIX}{name} is {value}, expected 0 to {(1 << bits) - 1}")
        parts[part][to] = value
    implied = sum(count for name, count in USER_SGPRS if parts["properties"].get(name))
    users = said.get("user_sgpr_count", implied)
    if not implied <= users <= 31:
        raise WireError(f"{_PREFIX}user_sgpr_count is {users}, expected {implied} to 31: so many registers are enabled")
    vgprs, sgprs = _granules(said, processor, features)
    return _made(
        KernelDescriptor,
        **parts[""],
        compute_pgm_rsrc1=_made(
            Rsrc1, granulated_workitem_vgpr_count=vgprs, granulated_wavefront_sgpr_count=sgprs, **parts["rsrc1"]
        ),
        compute_pgm_rsrc2=_made(Rsrc2, user_sgpr_count=users, **parts["rsrc2"]),
        kernel_code_properties=_made(DescriptorProperties, **parts["properties"]),
    )


def _made(record: type[AnyRecord], **values: Any) -> AnyRecord:
    """A record of these fields; all others are 0."""
    return record(**vars(record.parse(bytes(record.size_bytes))) | values)


def extra_sgprs(level: int, vcc: bool, flat_scratch: bool, xnack: bool) -> int:
    """SGPRs behind those that code names by number, up to the last special one that it uses."""
    if flat_scratch:
        return 4 if level < GFX8 else 6
    if xnack and level >= GFX8:
        return 4
    return 2 if vcc else 0


def _granules(said: dict[str, int], processor: str, features: dict[str, str]) -> tuple[int, int]:
    """Registers of a kernel as rsrc1 counts them: those that it uses, and those that the hardware adds."""
    known = targets.read_as(processor)
    level = TARGETS[known].level
    by_default = processor in ("gfx801", "gfx810") or level == GFX9
    has_xnack = by_default and features.get("xnack", "any") != "off"
    xnack = bool(said.get("reserve_xnack_mask", int(has_xnack)))
    extra = extra_sgprs(level, bool(said.get("reserve_vcc", 1)), bool(said.get("reserve_flat_scratch", 1)), xnack)
    vgprs, sgprs = said["next_free_vgpr"], said["next_free_sgpr"]
    if not 0 <= vgprs <= 256:
        raise WireError(f"{_PREFIX}next_free_vgpr is {vgprs}, expected 0 to 256")
    most = 104 if level < GFX8 else 102
    if not 0 <= sgprs <= most:
        raise WireError(f"{_PREFIX}next_free_sgpr is {sgprs}, expected 0 to {most}")
    total = SGPRS_OF_BUG if known in WITH_BUG else max(sgprs + extra, 1)
    return -(-max(vgprs, 1) // VGPR_GRANULE) - 1, -(-total // SGPR_GRANULE) - 1


_CODE: Final = {
    "amd_code_version_major": "amd_kernel_code_version_major",
    "amd_code_version_minor": "amd_kernel_code_version_minor",
}
_BITS: Final = {
    "float_mode": ("rsrc1", 12, 8),
    "enable_exception_msb": ("rsrc2", 13, 2),
    "enable_exception": ("rsrc2", 24, 7),
    "enable_wgp_mode": ("rsrc1", 29, 1),
    "enable_mem_ordered": ("rsrc1", 30, 1),
    "enable_fwd_progress": ("rsrc1", 31, 1),
    "enable_wavefront_size32": ("properties", 10, 1),
}
"""What the text has in one name and the record in several fields, or has not."""
_PARTS: Final = {"rsrc1": "compute_pgm_rsrc1", "rsrc2": "compute_pgm_rsrc2", "properties": "kernel_code_properties"}
_RECORDS: Final[dict[str, type[Record]]] = {"rsrc1": Rsrc1, "rsrc2": Rsrc2, "properties": CodeProperties}


def amd_kernel_code(block: Block, processor: str) -> KernelCode:
    """The header of an ``.amd_kernel_code_t`` block; what it does not say is as LLVM has it."""
    digits = targets.read_as(processor).removeprefix("gfx") if not processor[3:].isalnum() else processor[3:]
    whole: dict[str, Any] = {
        "amd_kernel_code_version_major": 1,
        "amd_kernel_code_version_minor": 2,
        "amd_machine_kind": 1,
        "amd_machine_version_major": int(digits[:-2]),
        "amd_machine_version_minor": int(digits[-2]),
        "amd_machine_version_stepping": int(digits[-1], 16),
        "kernel_code_entry_byte_offset": KernelCode.size_bytes,
        "wavefront_size": 6,
        "call_convention": -1,
        "kernarg_segment_alignment": 4,
        "group_segment_alignment": 4,
        "private_segment_alignment": 4,
    }
    words = {"rsrc1": 0, "rsrc2": 0, "properties": 0}
    own = {each.name for each in KernelCode.slots} - {*_PARTS.values(), "control_directives"}
    by_name = {each.name: (part, each.spec) for part, record in _RECORDS.items() for each in record.slots}
    for name, value in block.fields.items():
        name = _CODE.get(name, name)
        if name in own:
            whole[name] = value
        elif name in _BITS:
            part, low, bits = _BITS[name]
            words[part] |= _fitting(name, value, bits) << low
        elif name in by_name:
            part, spec = by_name[name]
            words[part] |= _fitting(name, value, spec.high - spec.low + 1) << spec.low
        else:
            near = close_to(name, [*own, *_BITS, *by_name])
            raise WireError(f"amd_kernel_code_t has no field {name!r}{near}")
    parts = {_PARTS[part]: _RECORDS[part].parse(word.to_bytes(4, "little")) for part, word in words.items()}
    return _made(KernelCode, **whole, **parts)


def _fitting(name: str, value: int, bits: int) -> int:
    if not 0 <= value < 1 << bits:
        raise WireError(f"{name} is {value}, expected 0 to {(1 << bits) - 1}")
    return value
