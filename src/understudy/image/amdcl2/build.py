"""Metadata of kernels that nobody has compiled: from arguments to the bytes that a driver would have written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from understudy.core.words import align_up
from understudy.image.amdcl2.arguments import (
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
from understudy.image.amdcl2.code_object import Features, KernelNeeds, kernel_code
from understudy.image.amdcl2.generations import NAMED_ARCHITECTURE, Generation, generation_of, level_of
from understudy.image.amdcl2.metadata import KernelMetadata
from understudy.image.amdcl2.records import (
    MEMORY_SCRATCH,
    OPTION_64_BIT,
    OPTION_REQUIRED_WORK_GROUP_SIZE,
    OPTION_USES_MEMORY,
    ArgumentEntry,
    Hint,
    metadata_layout,
)
from understudy.image.amdcl2.writer import CodeRelocation, KernelSource

FIRST_NAME: Final = "__OpenCL_dummy_kernel"
TAIL_WORDS: Final = 6
FIRST_KERNEL_ID: Final = 1024
ALL_ONES: Final = 0xFFFF_FFFF
_TYPE: Final = re.compile(r"([a-z]+)(2|3|4|8|16)?\**$")
_ELEMENTS: Final = {element.opencl: element for element in Element}
_SIGNED: Final = {signed: unsigned for unsigned, signed in UNSIGNED.items()}
_TYPES: Final = {element: number for number, element in ELEMENT_TYPES.items()}


def vector(name: str, type_name: str) -> Argument:
    """A value of an OpenCL type by its name: ``int``, ``float4``."""
    match = _TYPE.match(type_name)
    assert match is not None, type_name
    return Argument(name, type_name, Kind.VALUE, _ELEMENTS[match[1]], int(match[2] or 1))


def pointer(name: str, type_name: str, space: Space = Space.GLOBAL, *, is_const: bool = False) -> Argument:
    """A pointer to an OpenCL type: ``uint*``."""
    return Argument(name, type_name, Kind.POINTER, space=space, is_const=is_const)


def setup_arguments(bits: int) -> tuple[Argument, ...]:
    """The six setup arguments, as metadata lists them."""
    element = Element.LONG if bits == 64 else Element.INT
    names = [HIDDEN_PREFIX + name for name in HIDDEN]
    found = [Argument(name, "size_t", Kind.VALUE, element) for name in names]
    found[3] = Argument(names[3], "size_t", Kind.POINTER, space=Space.GLOBAL, access=ACCESS[READ_ONLY])
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Described:
    """What metadata says of a kernel besides its arguments."""

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
    """Metadata of a kernel, setup arguments among `arguments`."""
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
    """The end of the header, which grew from generation to generation."""
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
    """Steps of the metadata's own offsets: what an argument took of the constant buffers of older drivers."""
    size = {Kind.IMAGE: 32, Kind.STRUCTURE: argument.structure_bytes, Kind.POINTER: 8, Kind.CLK_EVENT: 8}.get(
        argument.kind, 16
    )
    if argument.kind is Kind.VALUE and argument.element is not None:
        size = max(4, argument.element.size_bytes) * _length(argument.length, generation)
    return align_up(size, 16)


def _value_type(element: Element, length: int, generation: Generation) -> int:
    """The number of a type; signed scalars have their own from driver 2004.06 on."""
    if length > 1 or generation is not Generation.CRIMSON_16_4:
        element = _SIGNED.get(element, element)
    return _TYPES[element]


def _pointee(argument: Argument, generation: Generation) -> tuple[int, int]:
    """Type and alignment of what a pointer points to, by the type's name."""
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
    """The fields of an entry that differ between kinds of arguments."""
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
    """The metadata entry of an argument; `offset` is the metadata's own."""
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
    """A kernel with setup arguments before `arguments`, ready to be written."""
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
