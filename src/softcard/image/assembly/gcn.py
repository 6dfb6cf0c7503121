"""The assembler's back end for AMD GPUs: it makes code objects V2 to V6 from text of clang and llvm-mc.

In code object V2, an amd_kernel_code_t describes each kernel.

Sources: LLVM's "User Guide for AMDGPU Backend", chapters "Source Languages, Assembler" (directives of code object V2
and of V3 and later) and "Relocation Records". Details that they omit follow LLVM's assembler.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any, Final

from softcard.core.errors import WireError, close_to
from softcard.core.record import AnyRecord, Record
from softcard.core.words import align_up
from softcard.image.assembly.assembly import Assembly, Attributes, Section, Symbol, defined
from softcard.image.assembly.expressions import NAME, Function
from softcard.image.assembly.source import GCN, Statement, operands, string
from softcard.image.elf.layout import SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE, SHT_NOBITS, SHT_PROGBITS, STT_OBJECT
from softcard.image.elf.writer import SectionPart, note
from softcard.image.hsa import msgpack, targets, yaml_text
from softcard.image.hsa.elf import STT_HSA_KERNEL
from softcard.image.hsa.notes import (
    NT_AMD_CODE_OBJECT_VERSION,
    NT_AMD_ISA_NAME,
    NT_AMD_ISA_VERSION,
    NT_AMD_METADATA,
    NT_AMDGPU_METADATA,
    CodeObjectVersionNote,
    IsaVersionNote,
)
from softcard.image.hsa.records import (
    ACCUM_GRANULE,
    KERNEL_CODE_ALIGNMENT,
    MOST_USER_SGPRS,
    SGPR_GRANULE,
    USER_SGPRS,
    CodeProperties,
    DescriptorProperties,
    KernelCode,
    KernelDescriptor,
    Rsrc1,
    Rsrc2,
    Rsrc3,
)
from softcard.image.hsa.writer import (
    METADATA_VERSION,
    PAGE,
    Marked,
    machine_flags,
    notes_part,
    pack_object,
    section_places,
)
from softcard.isa.gcn.asm.assembler import assemble_one, split
from softcard.isa.gcn.asm.constants import register
from softcard.isa.gcn.target import GFX8, GFX9, TARGETS, Target

# ---- headers of kernels ----------------------------------------------------------------------------------------------
# Headers of kernels from the blocks that describe them: ``.amdhsa_kernel`` and ``.amd_kernel_code_t``.


SGPRS_OF_BUG: Final = 96
"""The number of SGPRs that every kernel on gfx800 and gfx802 must allocate.

With another number, a hardware bug makes waves start wrongly.
"""
WITH_BUG: Final = ("gfx800", "gfx802")


@dataclass(slots=True)
class Block:
    """A block of directives that describes a kernel (``.amdhsa_kernel`` or ``.amd_kernel_code_t``).

    It has a name, an end directive, the number of its first line, and the values that directives set.
    """

    name: str
    end: str
    line: int
    fields: dict[str, int] = field(default_factory=dict)
    lines: dict[str, Statement] = field(default_factory=dict)
    """The statement of each directive."""


# For each directive: record ("" for the descriptor), its field, and bits.
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
_NEW: Final = {
    "accum_offset": ("rsrc3", "granulated_accum_offset", 9),
    "tg_split": ("rsrc3", "tg_split", 1),
    "user_sgpr_kernarg_preload_length": ("", "kernarg_preload_length", 7),
    "user_sgpr_kernarg_preload_offset": ("", "kernarg_preload_offset", 9),
}
"""The directives in ``.amdhsa_kernel`` that only gfx90a and later have.

Values are the record and the field that a directive sets ("" for the descriptor itself), and the least GFX generation.
"""
_SCRATCH: Final = ("user_sgpr_private_segment_buffer", "user_sgpr_flat_scratch_init", "reserve_flat_scratch",
                   "system_sgpr_private_segment_wavefront_offset")  # fmt: skip
"""The directives in ``.amdhsa_kernel`` that gfx942 and later do not have."""
_ENABLE_PRIVATE: Final = "enable_private_segment"
"""The directive by which gfx942 and later set the bit of ``system_sgpr_private_segment_wavefront_offset``."""
_ASSUMED: Final = {"float_denorm_mode_16_64": 3, "dx10_clamp": 1, "ieee_mode": 1, "system_sgpr_workgroup_id_x": 1}
_PREFIX: Final = ".amdhsa_"


def descriptor(block: Block, processor: str, features: dict[str, str]) -> KernelDescriptor:
    """Return the kernel descriptor that an ``.amdhsa_kernel`` block describes.

    Its entry offset is not set, since it depends on the addresses of code and descriptor."""
    said = {name.removeprefix(_PREFIX): value for name, value in block.fields.items()}
    target = TARGETS[targets.read_as(processor)]
    directives = _DIRECT | (_NEW if target.has_unified_registers else {})
    known = (*directives, *_OTHERS)
    if target.has_architected_scratch:
        directives = directives | {_ENABLE_PRIVATE: _DIRECT[_SCRATCH[-1]]}
        known = tuple(name for name in (*directives, *_OTHERS) if name not in _SCRATCH)
    for name in block.fields:
        bare = name.removeprefix(_PREFIX)
        if bare not in known or bare == name:
            near = close_to(name, [_PREFIX + each for each in known])
            text = f"{processor} has no {name} in an .amdhsa_kernel block{near}"
            raise block.lines[name].locate(WireError(text))
    for name in ("next_free_vgpr", "next_free_sgpr"):
        if name not in said:
            raise WireError(f"{_PREFIX}{name} is missing")
    parts: dict[str, dict[str, int]] = {"": {}, "properties": {}, "rsrc1": {}, "rsrc2": {}, "rsrc3": {}}
    for name, (part, to, bits) in directives.items():
        if name not in known:
            continue
        value = said.get(name, _ASSUMED.get(name, 0))
        if not 0 <= value < 1 << bits:
            text = f"{_PREFIX}{name} is {value}, expected 0 to {(1 << bits) - 1}"
            raise block.lines[_PREFIX + name].locate(WireError(text))
        parts[part][to] = value
    preloaded = parts[""].get("kernarg_preload_length", 0)
    implied = sum(count for name, count in USER_SGPRS if parts["properties"].get(name)) + preloaded
    if preloaded and not parts["properties"]["enable_sgpr_kernarg_segment_ptr"]:
        raise WireError(f"{_PREFIX}user_sgpr_kernarg_preload_length needs {_PREFIX}user_sgpr_kernarg_segment_ptr 1")
    if preloaded and implied > MOST_USER_SGPRS:
        raise WireError(
            f"{_PREFIX}user_sgpr_kernarg_preload_length is {preloaded}, which makes {implied} user SGPRs, expected at "
            f"most {MOST_USER_SGPRS}"
        )
    users = said.get("user_sgpr_count", implied)
    if not implied <= users <= 31:
        raise WireError(f"{_PREFIX}user_sgpr_count is {users}, expected {implied} to 31, since {implied} are enabled")
    vgprs, sgprs = _granules(said, processor, features)
    if target.has_unified_registers:
        parts["rsrc3"]["granulated_accum_offset"] = _accum_offset(said)
    return _made(
        KernelDescriptor,
        **parts[""],
        compute_pgm_rsrc3=int.from_bytes(_made(Rsrc3, **parts["rsrc3"]).pack(), "little"),
        compute_pgm_rsrc1=_made(
            Rsrc1, granulated_workitem_vgpr_count=vgprs, granulated_wavefront_sgpr_count=sgprs, **parts["rsrc1"]
        ),
        compute_pgm_rsrc2=_made(Rsrc2, user_sgpr_count=users, **parts["rsrc2"]),
        kernel_code_properties=_made(DescriptorProperties, **parts["properties"]),
    )


def _made(record: type[AnyRecord], **values: Any) -> AnyRecord:
    """Return a record of class `record` with the given fields; all other fields are 0."""
    return record(**vars(record.parse(bytes(record.size_bytes))) | values)


def extra_sgprs(level: int, vcc: bool, flat_scratch: bool, xnack: bool) -> int:
    """Return the number of SGPRs that a kernel allocates for VCC, FLAT_SCRATCH and XNACK_MASK.

    They follow the SGPRs that the kernel's code accesses by number."""
    if flat_scratch:
        return 4 if level < GFX8 else 6
    if xnack and level >= GFX8:
        return 4
    return 2 if vcc else 0


def _accum_offset(said: dict[str, int]) -> int:
    """Return the number of the first accumulation register in the encoding of compute_pgm_rsrc3.

    `said` holds the values of the directives in the kernel's block.
    """
    if "accum_offset" not in said:
        raise WireError(f"{_PREFIX}accum_offset is missing")
    offset = said["accum_offset"]
    if not ACCUM_GRANULE <= offset <= 256 or offset % ACCUM_GRANULE:
        raise WireError(f"{_PREFIX}accum_offset is {offset}, expected a multiple of {ACCUM_GRANULE} from 4 to 256")
    allocated = align_up(max(said["next_free_vgpr"], 1), ACCUM_GRANULE)
    if offset > allocated:
        found = f"{_PREFIX}accum_offset is {offset}"
        raise WireError(f"{found}, expected at most {allocated}, the registers that {_PREFIX}next_free_vgpr allocates")
    return offset // ACCUM_GRANULE - 1


def _granules(said: dict[str, int], processor: str, features: dict[str, str]) -> tuple[int, int]:
    """Return the VGPR and SGPR counts of a kernel in the encoding of compute_pgm_rsrc1.

    `said` holds the values of the directives in the kernel's block. The SGPR count includes VCC, FLAT_SCRATCH and
    XNACK_MASK.
    """
    known = targets.read_as(processor)
    target = TARGETS[known]
    level = target.level
    by_default = processor in ("gfx801", "gfx810") or level == GFX9
    has_xnack = by_default and features.get("xnack", "any") != "off"
    xnack = bool(said.get("reserve_xnack_mask", int(has_xnack)))
    flat_scratch = target.has_architected_scratch or bool(said.get("reserve_flat_scratch", 1))
    extra = extra_sgprs(level, bool(said.get("reserve_vcc", 1)), flat_scratch, xnack)
    vgprs, sgprs = said["next_free_vgpr"], said["next_free_sgpr"]
    most_vgprs = 512 if target.has_unified_registers else 256
    if not 0 <= vgprs <= most_vgprs:
        raise WireError(f"{_PREFIX}next_free_vgpr is {vgprs}, expected 0 to {most_vgprs}")
    most = 104 if level < GFX8 else 102
    if not 0 <= sgprs <= most:
        raise WireError(f"{_PREFIX}next_free_sgpr is {sgprs}, expected 0 to {most}")
    total = SGPRS_OF_BUG if known in WITH_BUG else max(sgprs + extra, 1)
    return -(-max(vgprs, 1) // target.vgpr_granule) - 1, -(-total // SGPR_GRANULE) - 1


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
"""The directives of ``.amd_kernel_code_t`` that do not correspond to exactly one field of a record.

Values are the word, the lowest bit and the number of bits that a directive sets.
"""
_PARTS: Final = {"rsrc1": "compute_pgm_rsrc1", "rsrc2": "compute_pgm_rsrc2", "properties": "kernel_code_properties"}
_RECORDS: Final[dict[str, type[Record]]] = {"rsrc1": Rsrc1, "rsrc2": Rsrc2, "properties": CodeProperties}


def amd_kernel_code(block: Block, processor: str) -> KernelCode:
    """Return the kernel header of an ``.amd_kernel_code_t`` block.

    Fields that the block does not set have LLVM's defaults.
    """
    if not processor[3:].isalnum():
        raise WireError(f"{processor} has no version for .amd_kernel_code_t, since it is generic: use .amdhsa_kernel")
    digits = processor[3:]
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


# ---- files -----------------------------------------------------------------------------------------------------------


S_NOP: Final = bytes.fromhex("000080bf")
DEFAULT_PROCESSOR: Final = "gfx900"
NEWEST: Final = "V5"
"""The code object version that is written if the file does not name one."""
_RELOCATION: Final = re.compile(rf"({NAME})@((?:abs32|rel32|gotpcrel32)@(?:lo|hi)|rel32)(.*)")
_WORD: Final = re.compile(rf"(?<![\w.$]){NAME}(?![\w.$\[@])|(?<![\w.$])\d+[bf]\b")
LABEL: Final = ".goal"
"""The label for the target of a branch, used in text that is passed to the instruction encoder."""
_BRANCHES: Final = re.compile(r"s_(c?branch\w*|call_b64|subvector_loop\w*)")
_METADATA: Final = (".amdgpu_metadata", ".amd_amdgpu_hsa_metadata")
_ENDS: Final = {".amdhsa_kernel": ".end_amdhsa_kernel", ".amd_kernel_code_t": ".end_amd_kernel_code_t"}


@dataclass(slots=True)
class Object:
    """The properties of a code object that directives set: processor, features and version."""

    processor: str
    features: dict[str, str]
    version: str = ""


class GcnMachine:
    """The assembler's target for AMD GPUs of GFX7 to GFX9.

    `processor` may include features (``gfx906:xnack+``). If the source names a processor, it must be the same
    one."""

    syntax = GCN
    align_is_power = False

    def __init__(self, processor: str = "") -> None:
        self._wanted, features = targets.of_target_id(processor) if processor else ("", {})
        if processor and self._wanted not in TARGETS and targets.read_as(self._wanted) not in TARGETS:
            raise WireError(f"unknown processor {processor!r}, expected one of {', '.join(TARGETS)}")
        self._features = features
        self._block: Block | None = None
        self._has_kernels = False
        self._notes = b""
        self.relocations: list[tuple[str, int, int]] = []
        """The addresses in data that need a relocation, as (section, offset in it, address)."""
        self._got: dict[str, int] = {}
        self.object = Object(DEFAULT_PROCESSOR, {})

    @property
    def functions(self) -> Mapping[str, Function]:
        """The functions that expressions may call, by name; see `Machine`.

        The output of newer LLVM versions calls them to compute the register counts of a kernel from those of its
        callees."""
        level = self.target.level
        return {
            "max": max,
            "or": lambda *values: reduce(or_, values),
            "alignto": lambda value, step: align_up(value, max(step, 1)),
            "totalnumvgprs": lambda accumulators, vgprs: max(accumulators, vgprs),
            "extrasgprs": lambda vcc, flat, xnack: extra_sgprs(level, bool(vcc), bool(flat), bool(xnack)),
        }

    @property
    def target(self) -> Target:
        """The processor that the code is assembled for."""
        return TARGETS[targets.read_as(self.object.processor)]

    def begin(self, assembly: Assembly) -> None:
        """Reset the state at the start of a pass; see `Machine`."""
        self.object = Object(self._wanted or DEFAULT_PROCESSOR, dict(self._features))
        self._block, self._has_kernels, self._notes = None, False, b""
        self.relocations, self._got = [], {}

    def mode(self) -> str:
        """Return as text the state that affects the encoding of instructions; see `Machine`."""
        return self.object.processor

    # ---- instructions ----------------------------------------------------------------------------------------------

    def instruction(self, assembly: Assembly, statement: Statement) -> bytes:
        """Return the bytes of an instruction; see `Machine`."""
        name, rest = statement.name, statement.rest
        named = self._symbols(assembly, rest)
        if not named:
            return assemble_one(self.target, statement.text, 0, {})
        if not (_BRANCHES.fullmatch(name) and named == [rest]):
            return assemble_one(self.target, f"{name} {self._resolved(assembly, rest)}", 0, {})
        goal = assembly.value_of(rest)
        labels = {LABEL: goal.number if goal.is_known else assembly.pc}
        try:
            return assemble_one(self.target, f"{name} {LABEL}", assembly.pc, labels)
        except WireError as error:
            raise WireError(error.message.replace(LABEL, rest)).in_operand(rest) from None

    def _symbols(self, assembly: Assembly, text: str) -> list[str]:
        """Return the symbols that occur in the operands `text` of an instruction."""
        return [
            word
            for word in _WORD.findall(text)
            if word[0].isdigit() or (assembly.is_symbol(word) and not register(self.target, word))
        ] + [found[1] for found in _RELOCATION.finditer(text)]

    def _resolved(self, assembly: Assembly, rest: str) -> str:
        """Return the operands `rest` with each expression replaced by its number."""
        parts = split(rest, ",")
        modifiers: list[str] = []
        if " " in parts[-1] and not self._symbols(assembly, parts[-1].partition(" ")[2]):
            parts[-1], *modifiers = split(parts[-1], " ")
        found = [self._operand(assembly, each) if self._symbols(assembly, each) else each for each in parts]
        return " ".join((", ".join(found), *modifiers))

    def _operand(self, assembly: Assembly, text: str) -> str:
        relocation = _RELOCATION.fullmatch(text)
        if relocation:
            return f"lit({self._relocated(assembly, *relocation.groups()):#x})"
        value = assembly.value(text)
        if value.is_known and all(not assembly.value_of(word).section for word in self._symbols(assembly, text)):
            return str(value.number)  # its value does not matter yet
        return f"lit({value.number & 0xFFFF_FFFF:#x})"

    def _relocated(self, assembly: Assembly, name: str, kind: str, addend: str) -> int:
        """Return the 32-bit literal of an instruction that refers to the symbol `name` plus `addend`.

        The literal follows the instruction's first word. `kind` is the relocation, such as ``rel32@lo``.
        """
        place = assembly.pc + 4
        value = assembly.value_of(name).number
        if kind.startswith("gotpcrel32"):
            value = assembly.bases.get(".got", 0) + self._got.setdefault(name, 8 * len(self._got))
        elif kind.startswith("abs32"):
            if assembly.value_of(name).section:
                raise WireError(
                    f"{name}@{kind} cannot be used, since code objects are position-independent: use @rel32 or "
                    "@gotpcrel32"
                )
            place = 0
        value += assembly.value(addend).number if addend.strip() else 0
        if not kind.startswith("abs32"):
            value -= place
        return value >> (32 if kind.endswith("@hi") else 0) & 0xFFFF_FFFF

    # ---- directives ------------------------------------------------------------------------------------------------

    def directive(self, assembly: Assembly, statement: Statement) -> bool:
        """Execute a directive of this machine; see `Machine`."""
        name, rest = statement.name, statement.rest
        if self._block is not None:
            self._in_block(assembly, statement)
        elif name in _ENDS:
            self._block = Block(rest, _ENDS[name], statement.line)
        elif name == ".amdgcn_target":
            self._is_for(*targets.of_name(string(rest).decode("utf-8", "replace")), rest)
        elif name == ".hsa_code_object_isa":
            self._isa(assembly, rest)
        elif name == ".hsa_code_object_version":
            self.object.version = "V2"
            major, minor = (assembly.value(word).number for word in (*operands(rest), "0", "0")[:2])
            self._notes += note(
                "AMD", NT_AMD_CODE_OBJECT_VERSION, CodeObjectVersionNote(major=major, minor=minor).pack()
            )
        elif name == ".amd_amdgpu_isa":
            self.object.version = "V2"
            self._notes += note("AMD", NT_AMD_ISA_NAME, string(rest))
        elif name == ".amdgpu_hsa_kernel":
            self.object.version = "V2"
            assembly.attribute(rest).kind = STT_HSA_KERNEL
        elif name == ".amdhsa_code_object_version":
            version = f"V{assembly.number_of(rest, 2, 6, 'the code object version')}"
            self.object.version = version
        elif name in _METADATA:
            self._metadata(statement)
        else:
            return False
        return True

    def _in_block(self, assembly: Assembly, statement: Statement) -> None:
        block = self._block
        assert block is not None
        if statement.name != block.end:
            name, _, value = statement.rest.partition(",") if statement.name == ".set" else (
                statement.name, "", statement.rest
            )  # fmt: skip
            if name in block.fields:
                raise WireError(f"{name} occurs twice")
            block.fields[name] = assembly.value(value).number
            block.lines[name] = statement
            return
        self._block = None
        if block.end == _ENDS[".amdhsa_kernel"]:
            self._describe(assembly, block, statement)
        else:
            assembly.emit(amd_kernel_code(block, self.object.processor).pack(), statement)

    def _is_for(self, processor: str, features: dict[str, str], shown: str) -> None:
        if not processor:
            raise WireError(f'{shown} is not a target, expected one such as "amdgcn-amd-amdhsa--gfx900:xnack+"')
        known = targets.read_as(processor)
        if known not in TARGETS:
            raise WireError(f"unknown processor {processor!r}, expected one of {', '.join(TARGETS)}")
        if self._wanted and not targets.runs_on(processor, self._wanted):
            raise WireError(f"the file is for {processor}, expected {self._wanted}")
        self.object.processor = processor
        self.object.features = self._features | features

    def _isa(self, assembly: Assembly, rest: str) -> None:
        words = operands(rest)
        if len(words) not in (0, 3, 5):
            raise WireError('.hsa_code_object_isa takes major, minor, stepping, "AMD", "AMDGPU"')
        if words:
            version = [assembly.number_of(word, 0, 99, "a version") for word in words[:3]]
            self._is_for(targets.of_version(version[0], version[1], version[2]), {}, rest)
        name = self.object.processor.removeprefix("gfx")
        isa = IsaVersionNote(
            vendor_name_size=4,
            architecture_name_size=7,
            major=int(name[:-2]),
            minor=int(name[-2]),
            stepping=int(name[-1], 16),
        )
        self.object.version = "V2"
        self._notes += note("AMD", NT_AMD_ISA_VERSION, isa.pack() + b"AMD\0AMDGPU\0")

    def _metadata(self, statement: Statement) -> None:
        name, body = statement.name, statement.body
        if name == ".amd_amdgpu_hsa_metadata":
            self.object.version = "V2"
            self._notes += note("AMD", NT_AMD_METADATA, body.strip("\n").encode() + b"\n")
            return
        try:
            document = yaml_text.parse(body)
        except WireError as error:  # its lines are counted from the line after the directive
            error.path = tuple(
                replace(each, where=str(statement.line + int(each.where))) if each.kind == "line" else each
                for each in error.path
            )
            raise
        if not isinstance(document, dict):
            raise WireError(f"the metadata is a {type(document).__name__}, expected a map")
        said = document.get("amdhsa.version")
        found = next((version for version, pair in METADATA_VERSION.items() if list(pair) == said), "")
        self.object.version = self.object.version or found
        self._notes += note("AMDGPU", NT_AMDGPU_METADATA, msgpack.pack(_ordered(document)))

    def absolute(self, assembly: Assembly, offset: int, address: int, size: int) -> None:
        """Record an address in data that needs a relocation; see `Machine`."""
        if not assembly.current.is_loaded:
            return
        if size != 8:
            raise WireError("an absolute address needs 8 bytes (.quad): code objects are position-independent")
        self.relocations.append((assembly.current.name, offset, address))

    def padding(self, size: int) -> bytes:
        """Return bytes that fill a gap between instructions; see `Machine`."""
        return bytes(size % 4) + S_NOP * (size // 4)

    # ---- the file --------------------------------------------------------------------------------------------------

    @property
    def version(self) -> str:
        """The version of the code object."""
        return self.object.version or NEWEST

    @property
    def has_kernels(self) -> bool:
        """True if the file describes kernels or names its processor; False for bare code."""
        return self._has_kernels or bool(self._notes)

    def finish(self, assembly: Assembly) -> None:
        """Append sections that the source does not contain, at the end of a pass; see `Machine`."""
        if self._block is not None:
            raise WireError(f"{self._block.end} is missing").at("line", self._block.line)
        if self._got:
            assembly.current = assembly.section(".got", "aw")
            assembly.align(8, Statement(0, ".got"))
            for name in self._got:
                address = assembly.address(name)
                self.absolute(assembly, assembly.current.size, address, 8)
                assembly.emit(address.to_bytes(8, "little"), Statement(0, ".got"))

    def _describe(self, assembly: Assembly, block: Block, statement: Statement) -> None:
        """Append the descriptor of the kernel that `block` describes, aligned as the hardware requires."""
        if not assembly.is_symbol(block.name):
            raise WireError(f"kernel {block.name} is not defined in this file")
        if not assembly.current.is_loaded:
            raise WireError(f'section {assembly.current.name} is not loaded: write .section .rodata,"a" before it')
        self._has_kernels = True
        made = descriptor(block, self.object.processor, self.object.features)
        assembly.align(KERNEL_CODE_ALIGNMENT, statement)
        entry = assembly.value_of(block.name).number - assembly.pc
        name = f"{block.name}.kd"
        assembly.define(name)
        code = assembly.attribute(block.name)
        assembly.attributes[name] = Attributes(code.binding, STT_OBJECT, code.visibility, KernelDescriptor.size_bytes)
        assembly.emit(replace(made, kernel_code_entry_byte_offset=entry).pack(), statement)

    def addresses(self, assembly: Assembly) -> Mapping[str, int]:
        """Return the address of each loaded section; see `Machine`."""
        return section_places(self.version, self._parts(assembly))

    def _parts(self, assembly: Assembly) -> list[SectionPart]:
        """Return the sections in file order: notes, read-only data, code, data, sections without bytes."""
        found = [notes_part(self.version, self._notes)]
        rank = -1
        for each in sorted(assembly.sections.values(), key=_rank):
            if not each.is_loaded or not (each.size or each.name == ".text"):
                continue
            alignment = max(each.alignment, PAGE if _rank(each) != rank and _rank(each) in (1, 2) else 1)
            if _rank(each) == 3 and rank < 2:
                alignment = max(alignment, PAGE)
            rank = _rank(each)
            flags = SHF_ALLOC | SHF_EXECINSTR * each.is_code | SHF_WRITE * ("w" in each.flags)
            kind = SHT_NOBITS if each.is_empty else SHT_PROGBITS
            bss = each.size if each.is_empty else 0
            found.append(
                SectionPart(each.name, kind, bytes(each.data), flags, alignment, bss_bytes=bss, is_loaded=True)
            )
        return found

    def write(self, assembly: Assembly) -> bytes:
        """Return the bytes of the code object."""
        flags = machine_flags(self.version, self.object.processor, self.object.features)
        symbols = [_marked(symbol, said) for symbol, said in defined(assembly)]
        relocations = [
            (assembly.bases[section] + offset, address) for section, offset, address in self.relocations
        ]  # fmt: skip
        return pack_object(self.version, flags, self._parts(assembly), symbols, relocations)


def _ordered(value: object) -> object:
    """Return `value` with the keys of all maps in it sorted, as LLVM writes metadata."""
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    return [_ordered(each) for each in value] if isinstance(value, list) else value


def _rank(section: Section) -> int:
    return 1 if section.is_code else 0 if "w" not in section.flags else 3 if section.is_empty else 2


def _marked(symbol: Symbol, said: Attributes) -> Marked:
    value = symbol.value & (1 << 64) - 1
    return Marked(symbol.name, symbol.section, value, said.size, said.kind, said.binding, said.visibility)
