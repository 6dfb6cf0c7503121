"""Construction of kernels from machine code without a driver's compiler.

The module makes their code object headers, and the metadata that a driver would have written for their arguments.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from softcard.core.errors import WireError
from softcard.core.words import align_up
from softcard.image.amdcl2.arguments import (
    ACCESS,
    ACCESS_NUMBERS,
    ELEMENT_TYPES,
    HIDDEN,
    HIDDEN_PREFIX,
    IMAGE_FLAGS,
    IMAGE_TYPES,
    IS_2D,
    KIND_IMAGE,
    KIND_POINTER,
    KIND_QUEUE,
    KIND_SAMPLER,
    KIND_VALUE,
    READ_ONLY,
    READ_WRITE,
    TYPE_QUEUE,
    TYPE_STRUCTURE,
    UNSIGNED,
    Argument,
    Element,
    Kind,
    Space,
    lay_out,
)
from softcard.image.amdcl2.generations import NAMED_ARCHITECTURE, Generation, generation_of, level_of
from softcard.image.amdcl2.metadata import KernelMetadata
from softcard.image.amdcl2.records import (
    MEMORY_SCRATCH,
    OPTION_64_BIT,
    OPTION_REQUIRED_WORK_GROUP_SIZE,
    OPTION_USES_MEMORY,
    ArgumentEntry,
    Hint,
    metadata_layout,
)
from softcard.image.amdcl2.writer import CodeRelocation, KernelSource
from softcard.image.hsa.records import CodeProperties, ControlDirectives, KernelCode, Rsrc1, Rsrc2, user_sgprs
from softcard.isa.gcn.target import GFX8, GFX9

# ---- code objects ----------------------------------------------------------------------------------------------------
# Code objects of kernels from their requirements: CLRX's features, dimensions, registers, memory.
#
# The document's "Passing options" gives the number of user data registers for each feature; its rules for GFX9 and for
# single features were made precise by assembling every combination.


FLOAT_DENORM_16_64: Final = 3
"""The float mode of compiled kernels: denormals of binary16 and binary64 are kept, those of binary32 flushed."""


@dataclass(frozen=True, slots=True)
class Features:
    """The requests of a kernel for values in its initial SGPRs, with the names of the CLRX assembler.

    If several are set, the strongest one determines which values the kernel receives. From strongest to weakest
    they are: generic, enqueue, setup, args."""

    usesetup: bool = False
    useargs: bool = False
    useenqueue: bool = False
    usegeneric: bool = False


def code_properties(
    level: int, features: Features, bits: int = 64, generation: Generation = Generation.CRIMSON_16_4
) -> CodeProperties:
    """Return the `CodeProperties` word of a code object for a combination of features, on GFX7, GFX8 or GFX9."""
    has_dispatch = features.usegeneric or features.useenqueue or features.usesetup
    # GFX9 always initialises FLAT_SCRATCH, whether or not the kernel asks for it.
    has_flat_scratch = features.usegeneric or features.useenqueue or level == GFX9
    return CodeProperties(
        enable_sgpr_private_segment_buffer=1,
        enable_sgpr_dispatch_ptr=int(has_dispatch),
        enable_sgpr_queue_ptr=int(features.usegeneric),
        enable_sgpr_kernarg_segment_ptr=int(has_dispatch or features.useargs),
        enable_sgpr_dispatch_id=0,
        enable_sgpr_flat_scratch_init=int(has_flat_scratch),
        enable_sgpr_private_segment_size=0,
        enable_sgpr_grid_workgroup_count_x=0,
        enable_sgpr_grid_workgroup_count_y=0,
        enable_sgpr_grid_workgroup_count_z=0,
        enable_ordered_append_gds=0,
        private_element_size=1,
        is_ptr64=int(bits == 64),
        is_dynamic_callstack=0,
        is_debug_enabled=0,
        is_xnack_enabled=int(level >= GFX8 and generation is Generation.CRIMSON),
    )


@dataclass(frozen=True, slots=True)
class KernelNeeds:
    """The registers, memory and ids that a kernel needs, in addition to its `Features`.

    `dimensions` ("x", "xy" or "xyz") selects the work-group and work-item ids that the kernel receives.
    """

    dimensions: str = "x"
    sgprs: int = 32
    vgprs: int = 32
    lds_bytes: int = 0
    scratch_bytes: int = 0
    kernarg_bytes: int = 0
    work_group_info: bool = False


def kernel_code(level: int, features: Features, needs: KernelNeeds, bits: int, generation: Generation) -> KernelCode:
    """Return the code object header of a kernel whose code follows the header directly.

    Raise `WireError` for invalid dimensions in `needs`.
    """
    if needs.dimensions not in ("x", "xy", "xyz"):
        raise WireError(f"dimensions is {needs.dimensions!r}, expected x, xy or xyz")
    is_new = generation.has_inner_elf
    properties = code_properties(level, features, bits, generation)
    ids = len(needs.dimensions)
    return KernelCode(
        amd_kernel_code_version_major=1,
        amd_kernel_code_version_minor=int(is_new),
        amd_machine_kind=1,
        amd_machine_version_major=0,
        amd_machine_version_minor=0,
        amd_machine_version_stepping=0,
        kernel_code_entry_byte_offset=KernelCode.size_bytes,
        kernel_code_prefetch_byte_offset=0,
        kernel_code_prefetch_byte_size=0,
        max_scratch_backing_memory_byte_size=0,
        compute_pgm_rsrc1=_rsrc1(needs, is_new),
        compute_pgm_rsrc2=_rsrc2(needs, user_sgprs(properties), ids, 3 if features.useenqueue else ids),
        kernel_code_properties=properties,
        workitem_private_segment_byte_size=needs.scratch_bytes,
        workgroup_group_segment_byte_size=needs.lds_bytes,
        gds_segment_byte_size=0,
        kernarg_segment_byte_size=needs.kernarg_bytes,
        workgroup_fbarrier_count=0,
        wavefront_sgpr_count=needs.sgprs,
        workitem_vgpr_count=needs.vgprs,
        reserved_vgpr_first=0,
        reserved_vgpr_count=0,
        reserved_sgpr_first=0,
        reserved_sgpr_count=0,
        debug_wavefront_private_segment_offset_sgpr=0,
        debug_private_segment_buffer_sgpr=0,
        kernarg_segment_alignment=4 if is_new else 3,
        group_segment_alignment=4,
        private_segment_alignment=4,
        wavefront_size=6,
        call_convention=0,
        runtime_loader_kernel_symbol=0,
        control_directives=ControlDirectives.parse(bytes(ControlDirectives.size_bytes)),
    )


def _rsrc1(needs: KernelNeeds, is_new: bool) -> Rsrc1:
    return Rsrc1(
        granulated_workitem_vgpr_count=(max(needs.vgprs, 1) - 1) // 4,
        granulated_wavefront_sgpr_count=(max(needs.sgprs, 1) - 1) // 8,
        priority=0,
        float_mode_round_32=0,
        float_mode_round_16_64=0,
        float_mode_denorm_32=0,
        float_mode_denorm_16_64=FLOAT_DENORM_16_64,
        priv=0,
        enable_dx10_clamp=int(is_new),
        debug_mode=0,
        enable_ieee_mode=0,
        bulky=0,
        cdbg_user=0,
        fp16_overflow=0,
    )


def _rsrc2(needs: KernelNeeds, user: int, groups: int, items: int) -> Rsrc2:
    return Rsrc2(
        enable_sgpr_private_segment_wave_byte_offset=int(needs.scratch_bytes > 0),
        user_sgpr_count=user,
        enable_trap_handler=0,
        enable_sgpr_workgroup_id_x=1,
        enable_sgpr_workgroup_id_y=int(groups > 1),
        enable_sgpr_workgroup_id_z=int(groups > 2),
        enable_sgpr_workgroup_info=int(needs.work_group_info),
        enable_vgpr_workitem_id=items - 1,
        enable_exception_address_watch=0,
        enable_exception_memory_violation=0,
        granulated_lds_size=0,
        enable_exception_ieee_754_fp_invalid_operation=0,
        enable_exception_fp_denormal_source=0,
        enable_exception_ieee_754_fp_division_by_zero=0,
        enable_exception_ieee_754_fp_overflow=0,
        enable_exception_ieee_754_fp_underflow=0,
        enable_exception_ieee_754_fp_inexact=0,
        enable_exception_int_divide_by_zero=0,
    )


# ---- metadata --------------------------------------------------------------------------------------------------------


FIRST_NAME: Final = "__OpenCL_dummy_kernel"
TAIL_WORDS: Final = 6
FIRST_KERNEL_ID: Final = 1024
ALL_ONES: Final = 0xFFFF_FFFF
_TYPE: Final = re.compile(r"([a-z]+)(2|3|4|8|16)?\**$")
_ELEMENTS: Final = {element.opencl: element for element in Element}
_SIGNED: Final = {signed: unsigned for unsigned, signed in UNSIGNED.items()}
_TYPES: Final = {element: number for number, element in ELEMENT_TYPES.items()}


def vector(name: str, type_name: str) -> Argument:
    """Return a by-value argument named `name` of the OpenCL type `type_name`, for example ``int`` or ``float4``."""
    match = _TYPE.match(type_name)
    assert match is not None, type_name
    return Argument(name, type_name, Kind.VALUE, _ELEMENTS[match[1]], int(match[2] or 1))


def pointer(name: str, type_name: str, space: Space = Space.GLOBAL, *, is_const: bool = False) -> Argument:
    """Return a pointer argument named `name`; `type_name` is its OpenCL type, such as ``uint*``."""
    return Argument(name, type_name, Kind.POINTER, space=space, is_const=is_const)


def setup_arguments(bits: int) -> tuple[Argument, ...]:
    """Return the six hidden setup arguments, which precede a kernel's own arguments in its metadata."""
    element = Element.LONG if bits == 64 else Element.INT
    names = [HIDDEN_PREFIX + name for name in HIDDEN]
    found = [Argument(name, "size_t", Kind.VALUE, element) for name in names]
    found[3] = Argument(names[3], "size_t", Kind.POINTER, space=Space.GLOBAL, access=ACCESS[READ_ONLY])
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Described:
    """The values that a kernel's metadata records in addition to the arguments, such as the work-group size hint."""

    index: int = 0
    required_work_group_size: tuple[int, int, int] = (0, 0, 0)
    work_group_size_hint: tuple[int, int, int] = (0, 0, 0)
    vector_type_hint: str = ""
    uses_enqueue: bool = False
    uses_memory: bool = False
    scratch_bytes: int = 0


def build_metadata(
    device: str, driver: int, bits: int, arguments: Sequence[Argument], described: Described
) -> KernelMetadata:
    """Return the metadata of a kernel as `driver` writes it; `arguments` must begin with the setup arguments."""
    generation = generation_of(driver)
    second = f"GFX{level_of(device)}" if driver >= NAMED_ARCHITECTURE else "generic"
    names: tuple[str, ...] = (FIRST_NAME, second)
    hint, rest = _hint(bits, generation, described)
    if hint is not None:
        names = (*names, described.vector_type_hint)
    entries, offset = [], 0
    for argument in arguments:
        entries.append((entry_of(argument, bits, generation, offset), argument.name, argument.type_name))
        offset += _virtual_bytes(argument, generation)
    layout, wide = metadata_layout(bits), bits == 64
    entries_bytes = layout.entry.size_bytes * (len(entries) + 1)
    header_bytes = layout.header.size_bytes + layout.queue.size_bytes + (hint.size_bytes if hint else 0) + len(rest)
    tail = bytes(TAIL_WORDS * bits // 8)
    texts = [*names, *(text for argument in arguments for text in (argument.name, argument.type_name))]
    total = header_bytes + sum(len(text) + 1 for text in texts) + entries_bytes + len(tail)
    needs_memory = not generation.has_inner_elf and (described.uses_memory or described.scratch_bytes > 0)
    scratch = 0 if generation.has_inner_elf else described.scratch_bytes
    options = OPTION_64_BIT * wide | OPTION_REQUIRED_WORK_GROUP_SIZE * bool(described.required_work_group_size[0])
    header = layout.header(
        struct_bytes=header_bytes,
        data_bytes=total,
        version=(3, 1, 0x68),
        gpu_capabilities=options | OPTION_USES_MEMORY * needs_memory,
        function_id=FIRST_KERNEL_ID + described.index,
        gpu_resources=(0, 8, 1, 1, 2),
        required_work_group_size=described.required_work_group_size,
        work_region_size=(0,) * 3,
        kernel_name_bytes=len(names[0]),
        device_name_bytes=len(names[1]),
        memory_bytes=tuple(scratch if n == MEMORY_SCRATCH else 0 for n in range(6)),
        argument_count=len(entries),
    )
    queue = layout.queue(pointers=(0,) * 4, uses_enqueue=int(described.uses_enqueue), kernel_index=described.index)
    return KernelMetadata(bits, generation, header, queue, hint, rest, names, tuple(entries), tail)


def _hint(bits: int, generation: Generation, described: Described) -> tuple[Hint | None, bytes]:
    """Return the end of the metadata header, which depends on the driver generation.

    From driver 2004.06 on, the result is a `Hint` record and no bytes. For older drivers it is None and the
    bytes that the header has in place of that record, if any."""
    marks = 0 if described.uses_enqueue else ALL_ONES
    if generation is Generation.CATALYST_15_7:
        return None, b""
    if generation is Generation.CRIMSON:
        return None, len(HIDDEN).to_bytes(4, "little") + marks.to_bytes(4, "little")
    return metadata_layout(bits).hint(
        hidden_argument_count=len(HIDDEN),
        waves_per_simd_hint=marks,
        work_group_size_hint=described.work_group_size_hint,
        vector_type_hint_bytes=len(described.vector_type_hint),
    ), b""


def _length(length: int, generation: Generation) -> int:
    return 4 if length == 3 and generation.has_inner_elf else length


def _virtual_bytes(argument: Argument, generation: Generation) -> int:
    """Return the number of bytes that an argument occupies in the constant buffer of older drivers.

    Newer metadata still records the offsets of arguments in such a buffer.
    """
    size = {Kind.IMAGE: 32, Kind.STRUCTURE: argument.structure_bytes, Kind.POINTER: 8, Kind.CLK_EVENT: 8}.get(
        argument.kind, 16
    )
    if argument.kind is Kind.VALUE and argument.element is not None:
        size = max(4, argument.element.size_bytes) * _length(argument.length, generation)
    return align_up(size, 16)


def _value_type(element: Element, length: int, generation: Generation) -> int:
    """Return the number that stands for a value type in metadata.

    Signed scalars have numbers of their own from driver 2004.06 on. Otherwise a signed type has the number of the
    unsigned type of the same size."""
    if length > 1 or generation is not Generation.CRIMSON_16_4:
        element = _SIGNED.get(element, element)
    return _TYPES[element]


def _pointee(argument: Argument, generation: Generation) -> tuple[int, int]:
    """Return a pointer target's type number and alignment, determined from the name of the pointer's type."""
    match = _TYPE.match(argument.type_name)
    element = _ELEMENTS.get(match[1]) if match else None
    if argument.type_name == "size_t":
        return _TYPES[Element.UCHAR], 1
    if match is None or element is None:
        return TYPE_STRUCTURE, 1
    size = element.size_bytes * _length(int(match[2] or 1), generation)
    return _TYPES[_SIGNED.get(element, element)], 1 << (size - 1).bit_length()


_NOTHING: Final = {"length": 1, "type": 0, "alignment": 0, "pointee": 0, "space": 0, "access": 0, "kind": KIND_VALUE}


def _entry_values(argument: Argument, generation: Generation) -> dict[str, Any]:
    """Return the fields of an argument's metadata entry that depend on the kind of argument."""
    is_new = generation.has_inner_elf
    access = ACCESS_NUMBERS.get(argument.access, READ_WRITE)
    pointer_type = _TYPES[Element.USHORT]
    match argument.kind:
        case Kind.VALUE if argument.element is not None:
            number = _value_type(argument.element, argument.length, generation)
            return {"length": _length(argument.length, generation), "type": number}
        case Kind.STRUCTURE:
            return {"length": argument.structure_bytes, "type": TYPE_STRUCTURE}
        case Kind.POINTER:
            pointee, alignment = _pointee(argument, generation)
            alignment = argument.alignment or alignment
            found = {"type": pointer_type, "alignment": alignment, "pointee": pointee}
            found["access"] = access if is_new else READ_WRITE
            return found | {"space": argument.space.value, "kind": KIND_POINTER}
        case Kind.IMAGE:
            flags = argument.image_flags or IMAGE_FLAGS.get(IMAGE_TYPES.get(argument.type_name), IS_2D)
            number = ACCESS_NUMBERS[argument.access]
            return {"length": argument.resource_id, "type": number, "alignment": flags, "kind": KIND_IMAGE}
        case Kind.SAMPLER:
            return {"length": argument.resource_id, "kind": KIND_SAMPLER}
        case Kind.QUEUE:
            return {"type": TYPE_QUEUE, "alignment": 4 if is_new else 2, "kind": KIND_QUEUE}
        case Kind.PIPE:
            found = {"type": pointer_type, "alignment": 256, "pointee": TYPE_STRUCTURE, "kind": KIND_POINTER}
            return found | {"space": Space.GLOBAL.value, "access": access}
    return {"type": pointer_type, "alignment": 4, "pointee": TYPE_QUEUE, "kind": KIND_POINTER,
            "access": access if is_new else READ_WRITE}  # fmt: skip


def entry_of(argument: Argument, bits: int, generation: Generation, offset: int) -> ArgumentEntry:
    """Return the metadata entry of an argument; `offset` is its offset in the constant buffer of older drivers."""
    kind = metadata_layout(bits).entry
    values = dict(_NOTHING) | _entry_values(argument, generation)
    return kind(
        entry_bytes=kind.size_bytes,
        name_bytes=len(argument.name.encode()),
        type_name_bytes=len(argument.type_name.encode()),
        pointers=(0, 0),
        constant_buffer=int(argument.kind is not Kind.SAMPLER),
        offset=offset,
        is_volatile=int(argument.is_volatile),
        is_restrict=int(argument.is_restrict),
        is_pipe=int(argument.kind is Kind.PIPE),
        is_const=int(argument.is_const),
        **values,
    )


def build_kernel(
    device: str,
    driver: int,
    bits: int,
    name: str,
    code: bytes,
    arguments: Sequence[Argument],
    features: Features,
    needs: KernelNeeds,
    described: Described | None = None,
    relocations: tuple[CodeRelocation, ...] = (),
) -> KernelSource:
    """Return a kernel that `write_container` can write; the hidden setup arguments are put before `arguments`."""
    generation = generation_of(driver)
    everything = (*setup_arguments(bits), *arguments)
    if described is None:
        described = Described()
    described = replace(
        described,
        uses_enqueue=features.useenqueue or described.uses_enqueue,
        uses_memory=features.useenqueue or needs.lds_bytes > 0,
        scratch_bytes=needs.scratch_bytes,
    )
    needs = replace(needs, kernarg_bytes=lay_out(everything, bits, generation).size)
    return KernelSource(
        name,
        kernel_code(level_of(device), features, needs, bits, generation),
        code,
        build_metadata(device, driver, bits, everything, described).pack(),
        relocations=relocations,
    )
