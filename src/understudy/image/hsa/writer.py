"""Code objects written from kernels: V1, V2 and mesa3d with amd_kernel_code_t, V3 to V6 with kernel descriptors.

What is written is a shared object without dynamic section: what `read_code_object` and LLVM's tools read. Addresses are
file offsets; headers and notes lie in a read-only segment, code in one of its own. V1 is as AMD's finalizer writes it:
an executable file with one segment of a type of its own, and symbols that count from their section.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from understudy.core.errors import WireError
from understudy.core.words import align_up
from understudy.image.elf.layout import (
    ET_DYN,
    ET_EXEC,
    MACHINE_AMDGPU,
    PF_R,
    PF_W,
    PF_X,
    PT_LOAD,
    PT_NOTE,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHF_WRITE,
    SHN_ABS,
    SHT_NOTE,
    SHT_PROGBITS,
    SHT_RELA,
    STB_GLOBAL,
    STT_FUNC,
    STT_OBJECT,
    STV_PROTECTED,
    RelaEntry,
)
from understudy.image.elf.writer import ElfPlan, SectionPart, SegmentPart, SymbolWriter, note
from understudy.image.hsa import msgpack, targets
from understudy.image.hsa.elf import PT_HSA_LOAD_CODE_AGENT, SHF_HSA_AGENT, SHF_HSA_CODE, STT_HSA_KERNEL
from understudy.image.hsa.metadata import KernelMetadata
from understudy.image.hsa.notes import (
    NT_AMD_CODE_OBJECT_VERSION,
    NT_AMD_ISA_VERSION,
    NT_AMD_METADATA,
    NT_AMDGPU_METADATA,
    CodeObjectVersionNote,
    IsaVersionNote,
)
from understudy.image.hsa.records import ENTRY_ALIGNMENT, KERNEL_CODE_ALIGNMENT, Header, KernelCode, KernelDescriptor
from understudy.isa.gcn.target import TARGETS

PAGE: Final = 4096
OS_ABI: Final = {"V1": 64, "V2": 64, "V3": 64, "V4": 64, "V5": 64, "V6": 64, "mesa3d": 66}
GENERIC_VERSION: Final = 1 << 24
"""Version 1 of a generic processor, in e_flags."""
ABI_VERSION: Final = {"V3": 1, "V4": 2, "V5": 3, "V6": 4}
METADATA_VERSION: Final = {"V3": (1, 0), "V4": (1, 1), "V5": (1, 2), "V6": (1, 2)}
WITH_DESCRIPTORS: Final = tuple(ABI_VERSION)
HAS_XNACK: Final = ("gfx801", "gfx810", "gfx900", "gfx902", "gfx904", "gfx906", "gfx908", "gfx909", "gfx90a", "gfx90c")
HAS_SRAMECC: Final = ("gfx906", "gfx908", "gfx90a")
"""Processors that have a feature which code may rely on."""
NOTES: Final = ".note"
RELATIVE64: Final = 13
"""R_AMDGPU_RELATIVE64."""


@dataclass(frozen=True, slots=True)
class KernelSource:
    """A kernel to be written: its instructions and its header, whose entry offset is filled in."""

    name: str
    code: bytes = field(repr=False)
    header: Header
    metadata: KernelMetadata | None = None


def write_code_object(version: str, target: str, kernels: Sequence[KernelSource]) -> bytes:
    """The bytes of a code object; `WireError` where a kernel has the wrong kind of header or a name is there twice.

    Processors for which e_flags have no number, such as gfx804, can be named by the notes of V1 and V2 only.
    """
    _check(version, target, kernels)
    make = _descriptors if version in WITH_DESCRIPTORS else _codes
    parts, symbols = make(version, notes_part(version, _notes(version, target, kernels)), kernels)
    return pack_object(version, _machine(version, target), parts, symbols)


@dataclass(frozen=True, slots=True)
class Marked:
    """A symbol: its section's name ("" for a number), its place in it, and the numbers of the symbol table."""

    name: str
    section: str
    value: int
    size: int
    kind: int
    binding: int = STB_GLOBAL
    visibility: int = STV_PROTECTED


def notes_part(version: str, notes: bytes) -> SectionPart:
    """The section of notes, with which an object begins."""
    is_first = version == "V1"
    return SectionPart(NOTES, SHT_NOTE, notes, 0 if is_first else SHF_ALLOC, 4, is_loaded=not is_first)


def section_places(version: str, parts: Sequence[SectionPart]) -> dict[str, int]:
    """Addresses of the sections of an object that is made of these parts."""
    plan = _plan(version, 0, *parts)
    return {part.name: address for part, address in zip(plan.sections, plan.addresses, strict=True)}


def pack_object(
    version: str,
    flags: int,
    parts: Sequence[SectionPart],
    symbols: Sequence[Marked],
    relocations: Sequence[tuple[int, int]] = (),
) -> bytes:
    """The bytes of an object of these sections: notes, then read-only data, code, data, as `section_places` has them.

    `flags` are e_flags; symbols stand in the order of their bindings; `relocations` are addresses that hold addresses.
    """
    is_first = version == "V1"
    places = section_places(version, parts)
    numbers = {part.name: number for number, part in enumerate(parts, 1)}
    table = SymbolWriter(64)
    for each in symbols:
        base = 0 if is_first or not each.section else places[each.section]
        number = numbers[each.section] if each.section else SHN_ABS
        other = 0 if is_first else each.visibility
        table.add(each.name, number, base + each.value, each.size, each.kind, each.binding, other)
    local = sum(not each.binding for each in symbols)
    tables = list(table.sections(1 + local))
    if relocations:
        entries = b"".join(
            RelaEntry(offset=place, type=RELATIVE64, symbol=0, addend=address).pack() for place, address in relocations
        )
        tables.insert(0, SectionPart(".rela.dyn", SHT_RELA, entries, 0, 8, RelaEntry.size_bytes, ".symtab"))
    return _plan(version, flags, *parts, *tables).pack()


def _plan(version: str, machine: int, *sections: SectionPart) -> ElfPlan:
    """The file of these sections, which begin with the notes, read-only data and code."""
    loaded = [each for each in sections if each.is_loaded]
    code = tuple(each.name for each in sections if each.flags & SHF_EXECINSTR)
    segments: tuple[SegmentPart, ...] = (SegmentPart(PT_HSA_LOAD_CODE_AGENT, PF_R | PF_W | PF_X, code),)
    if version != "V1":
        fixed = tuple(each.name for each in loaded if not each.flags & (SHF_EXECINSTR | SHF_WRITE))
        data = tuple(each.name for each in loaded if each.flags & SHF_WRITE and not each.flags & SHF_EXECINSTR)
        segments = (
            SegmentPart(PT_LOAD, PF_R, fixed, PAGE, with_headers=True),
            SegmentPart(PT_LOAD, PF_R | PF_X, code, PAGE),
            *([SegmentPart(PT_LOAD, PF_R | PF_W, data, PAGE)] if data else []),
            SegmentPart(PT_NOTE, PF_R, (sections[0].name,)),
        )
    kind = ET_EXEC if version == "V1" else ET_DYN
    return ElfPlan(
        64, MACHINE_AMDGPU, kind, machine, sections, segments, OS_ABI[version], ABI_VERSION.get(version, 0),
        is_mapped=True, room=4 if len(segments) > 3 else 3,
    )  # fmt: skip


def _check(version: str, target: str, kernels: Sequence[KernelSource]) -> None:
    if version not in OS_ABI:
        raise WireError(f"no code object version {version!r}: there are {', '.join(OS_ABI)}")
    if not _machine(version, target) and not (version in ("V1", "V2") and target in TARGETS):
        raise WireError(f"{version} objects cannot name processor {target!r}: e_flags have no number for it")
    wanted = KernelDescriptor if version in WITH_DESCRIPTORS else KernelCode
    for kernel in kernels:
        if not isinstance(kernel.header, wanted):
            raise WireError(f"kernel {kernel.name}: {version} objects have a {wanted.__name__} for each")
    if len({kernel.name for kernel in kernels}) < len(kernels):
        raise WireError("two kernels have the same name")


def _machine(version: str, target: str) -> int:
    """The number in e_flags, with the version of a generic processor; 0 where there is none."""
    is_generic = target.endswith("-generic")
    if version == "V1" or (is_generic and version != "V6"):
        return 0
    number = next((number for number, name in targets.MACHINES.items() if name == target), 0)
    return number | GENERIC_VERSION if number and is_generic else number


def machine_flags(version: str, processor: str, features: Mapping[str, str]) -> int:
    """e_flags of an object: the processor, and what it asks of the features that the processor has.

    `features` say "on" or "off" by name; code for a processor that has a feature runs with both else.
    """
    flags = _machine(version, targets.WITH_XNACK.get(processor, processor) if version == "V2" else processor)
    if not flags and version != "V2":
        raise WireError(f"{version} objects cannot name processor {processor!r}: e_flags have no number for it")
    for name, bit, known in (("xnack", 8, HAS_XNACK), ("sramecc", 10, HAS_SRAMECC)):
        setting = features.get(name, "any")
        if version == "V3":
            flags |= (setting == "on") << (8 if name == "xnack" else 9)
        elif version in WITH_DESCRIPTORS and processor in known:
            flags |= {"any": 1, "off": 2, "on": 3}[setting] << bit
    return flags


def _text(version: str) -> str:
    """Name of the section of code."""
    return ".hsatext" if version == "V1" else ".text"


_Sections = tuple[list[SectionPart], list[Marked]]
"""Sections, of which the notes are the first, and symbols."""


def _codes(version: str, notes: SectionPart, kernels: Sequence[KernelSource]) -> _Sections:
    """Headers in front of their instructions."""
    text, symbols = bytearray(), []
    for kernel in kernels:
        text += bytes(-len(text) % ENTRY_ALIGNMENT)
        header = replace(kernel.header, kernel_code_entry_byte_offset=KernelCode.size_bytes)
        size = KernelCode.size_bytes + len(kernel.code)
        symbols.append(Marked(kernel.name, _text(version), len(text), size, STT_HSA_KERNEL))
        text += header.pack() + kernel.code
    own = SHF_WRITE | SHF_HSA_CODE | SHF_HSA_AGENT if version == "V1" else 0
    flags = SHF_ALLOC | SHF_EXECINSTR | own
    return [notes, SectionPart(_text(version), SHT_PROGBITS, bytes(text), flags, PAGE, is_loaded=True)], symbols


def _descriptors(version: str, notes: SectionPart, kernels: Sequence[KernelSource]) -> _Sections:
    """Descriptors in read-only data, which point at the instructions."""
    size = KernelDescriptor.size_bytes
    text, symbols = bytearray(), []
    for number, kernel in enumerate(kernels):
        text += bytes(-len(text) % ENTRY_ALIGNMENT)
        symbols.append(Marked(kernel.name, ".text", len(text), len(kernel.code), STT_FUNC))
        symbols.append(Marked(f"{kernel.name}.kd", ".rodata", number * size, size, STT_OBJECT))
        text += kernel.code
    descriptors = SectionPart(
        ".rodata", SHT_PROGBITS, bytes(size * len(kernels)), SHF_ALLOC, KERNEL_CODE_ALIGNMENT, is_loaded=True
    )
    code = SectionPart(".text", SHT_PROGBITS, bytes(text), SHF_ALLOC | SHF_EXECINSTR, PAGE, is_loaded=True)
    places = section_places(version, (notes, descriptors, code))
    start, text_at = places[descriptors.name], places[code.name]
    data = b"".join(
        replace(kernel.header, kernel_code_entry_byte_offset=text_at + entry.value - (start + number * size)).pack()
        for number, (kernel, entry) in enumerate(zip(kernels, symbols[::2], strict=True))
    )
    return [notes, replace(descriptors, data=data), code], symbols


# -- notes and metadata


def _notes(version: str, target: str, kernels: Sequence[KernelSource]) -> bytes:
    described = [kernel.metadata for kernel in kernels if kernel.metadata is not None]
    if version == "mesa3d":
        return b""
    if version in WITH_DESCRIPTORS:
        document = {
            "amdhsa.kernels": [_described(each) for each in described],
            "amdhsa.target": f"amdgcn-amd-amdhsa--{target}",
            "amdhsa.version": list(METADATA_VERSION[version]),
        }
        return note("AMDGPU", NT_AMDGPU_METADATA, msgpack.pack(document))
    major, minor = (1, 0) if version == "V1" else (2, 1)
    out = note("AMD", NT_AMD_CODE_OBJECT_VERSION, CodeObjectVersionNote(major=major, minor=minor).pack())
    digits = target.removeprefix("gfx")
    isa = IsaVersionNote(
        vendor_name_size=4,
        architecture_name_size=7,
        major=int(digits[:-2]),
        minor=int(digits[-2]),
        stepping=int(digits[-1], 16),
    )
    out += note("AMD", NT_AMD_ISA_VERSION, isa.pack() + b"AMD\0AMDGPU\0")
    if described and version == "V2":
        out += note("AMD", NT_AMD_METADATA, _yaml(described).encode())
    return out


def _described(kernel: KernelMetadata) -> dict[str, Any]:
    arguments = []
    for each in kernel.arguments:
        argument: dict[str, Any] = {".offset": each.offset, ".size": each.size, ".value_kind": each.kind}
        texts = {".name": each.name, ".type_name": each.type_name, ".address_space": each.address_space}
        texts[".access"] = each.access
        if each.pointee_align:
            argument[".pointee_align"] = each.pointee_align
        arguments.append(argument | {key: value for key, value in texts.items() if value})
    document = {
        ".name": kernel.name,
        ".symbol": kernel.symbol or f"{kernel.name}.kd",
        ".args": arguments,
        ".kernarg_segment_size": kernel.kernarg_size,
        ".kernarg_segment_align": kernel.kernarg_align,
        ".group_segment_fixed_size": kernel.group_size,
        ".private_segment_fixed_size": kernel.private_size,
        ".sgpr_count": kernel.sgprs,
        ".vgpr_count": kernel.vgprs,
        ".wavefront_size": kernel.wavefront_size,
        ".max_flat_workgroup_size": kernel.max_workgroup_size,
    }
    optional: dict[str, Any] = {
        ".reqd_workgroup_size": list(kernel.required_workgroup_size),
        ".language": kernel.language,
    }
    return document | {key: value for key, value in optional.items() if value}


def _yaml(kernels: Sequence[KernelMetadata]) -> str:
    """V2 metadata. Each argument is aligned to what its offset allows, so that readers find it where it is."""
    lines = ["---", "Version: [ 1, 0 ]", "Kernels:"]
    for kernel in kernels:
        lines += [f"  - Name: {_quoted(kernel.name)}", f"    SymbolName: {_quoted(kernel.name + '@kd')}"]
        if kernel.language:
            lines.append(f"    Language: {_quoted(kernel.language)}")
        if kernel.required_workgroup_size:
            sizes = ", ".join(map(str, kernel.required_workgroup_size))
            lines += ["    Attrs:", f"      ReqdWorkGroupSize: [ {sizes} ]"]
        lines += ["    Args:"] if kernel.arguments else []
        end = 0
        for each in kernel.arguments:
            align = next((n for n in (1, 2, 4, 8, 16) if align_up(end, n) == each.offset), 0)
            if not align:
                raise WireError(f"V2 metadata cannot put argument {each.name!r} at {each.offset} behind {end}")
            end = each.offset + each.size
            kind = "".join(part.capitalize() for part in each.kind.replace("multigrid", "multi_grid").split("_"))
            lines += [f"      - Name: {_quoted(each.name)}", f"        Size: {each.size}", f"        Align: {align}"]
            lines.append(f"        ValueKind: {kind}")
            optional = {"TypeName": _quoted(each.type_name), "AddrSpaceQual": each.address_space.capitalize()}
            lines += [f"        {key}: {value}" for key, value in optional.items() if value.strip("'")]
        properties = {
            "KernargSegmentSize": kernel.kernarg_size,
            "GroupSegmentFixedSize": kernel.group_size,
            "PrivateSegmentFixedSize": kernel.private_size,
            "KernargSegmentAlign": kernel.kernarg_align,
            "WavefrontSize": kernel.wavefront_size,
            "NumSGPRs": kernel.sgprs,
            "NumVGPRs": kernel.vgprs,
            "MaxFlatWorkGroupSize": kernel.max_workgroup_size,
        }
        lines += ["    CodeProps:", *(f"      {key}: {value}" for key, value in properties.items())]
    return "\n".join([*lines, "...", ""])


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
