"""Writing of code objects, from the metadata of kernels or for bare code.

V1, V2 and mesa3d objects have amd_kernel_code_t headers, V3 to V6 have kernel descriptors. The result is a shared
object without a dynamic section, readable by `read_code_object` and LLVM's tools. Addresses are file offsets. Headers
and notes are in a read-only segment, code is in a separate one. V1 is written as by AMD's finalizer: an executable file
with one segment of a type of its own, and symbols relative to their section.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from softcard.core.errors import WireError
from softcard.core.words import align_up
from softcard.image.elf.layout import (
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
from softcard.image.elf.writer import ElfPlan, SectionPart, SegmentPart, SymbolWriter, note
from softcard.image.hsa import msgpack, targets
from softcard.image.hsa.elf import PT_HSA_LOAD_CODE_AGENT, SHF_HSA_AGENT, SHF_HSA_CODE, STT_HSA_KERNEL
from softcard.image.hsa.metadata import KernelMetadata
from softcard.image.hsa.notes import (
    NT_AMD_CODE_OBJECT_VERSION,
    NT_AMD_ISA_VERSION,
    NT_AMD_METADATA,
    NT_AMDGPU_METADATA,
    CodeObjectVersionNote,
    IsaVersionNote,
)
from softcard.image.hsa.records import (
    ACCUM_GRANULE,
    ENTRY_ALIGNMENT,
    KERNEL_CODE_ALIGNMENT,
    SGPR_GRANULE,
    USER_SGPRS,
    VGPR_GRANULE,
    CodeProperties,
    DescriptorProperties,
    Header,
    KernelCode,
    KernelDescriptor,
    Rsrc1,
    Rsrc2,
    Rsrc3,
)
from softcard.isa.gcn.target import TARGETS

PAGE: Final = 4096
OS_ABI: Final = {"V1": 64, "V2": 64, "V3": 64, "V4": 64, "V5": 64, "V6": 64, "mesa3d": 66}
GENERIC_VERSION: Final = 1 << 24
"""The value of the bits in e_flags that hold the version of a generic processor, for version 1."""
ABI_VERSION: Final = {"V3": 1, "V4": 2, "V5": 3, "V6": 4}
METADATA_VERSION: Final = {"V3": (1, 0), "V4": (1, 1), "V5": (1, 2), "V6": (1, 2)}
WITH_DESCRIPTORS: Final = tuple(ABI_VERSION)
HAS_SRAMECC: Final = ("gfx906", "gfx908", "gfx90a", "gfx940", "gfx941", "gfx942", "gfx950", "gfx9-4-generic")
HAS_XNACK: Final = (
    "gfx801", "gfx810", "gfx900", "gfx902", "gfx904", "gfx909", "gfx90c", "gfx9-generic", *HAS_SRAMECC,
)  # fmt: skip
"""The processors with XNACK, on whose state code may depend."""
NOTES: Final = ".note"
RELATIVE64: Final = 13
"""The relocation type R_AMDGPU_RELATIVE64."""


@dataclass(frozen=True, slots=True)
class KernelSource:
    """A kernel to be written: its instructions, its header, and its metadata.

    The writer sets the entry offset in the header."""

    name: str
    code: bytes = field(repr=False)
    header: Header
    metadata: KernelMetadata | None = None


def write_code_object(version: str, target: str, kernels: Sequence[KernelSource]) -> bytes:
    """Return the bytes of a code object.

    Raise `WireError` if a kernel has the wrong kind of header or names are not unique. Processors without a
    number in e_flags, such as gfx804, are possible in V1 and V2 only, whose notes name the processor."""
    _check(version, target, kernels)
    make = _descriptors if version in WITH_DESCRIPTORS else _codes
    parts, symbols = make(version, notes_part(version, _notes(version, target, kernels)), kernels)
    return pack_object(version, _machine(version, target), parts, symbols)


@dataclass(frozen=True, slots=True)
class Marked:
    """A symbol to be written.

    `section` is the name of its section, or "" for a plain number; `value` is its offset in the section, or the number.
    `kind`, `binding` and `visibility` are the STT_, STB_ and STV_ numbers of the symbol table entry.
    """

    name: str
    section: str
    value: int
    size: int
    kind: int
    binding: int = STB_GLOBAL
    visibility: int = STV_PROTECTED


def notes_part(version: str, notes: bytes) -> SectionPart:
    """Return the note section with the content `notes`; it is the first section of an object."""
    is_first = version == "V1"
    return SectionPart(NOTES, SHT_NOTE, notes, 0 if is_first else SHF_ALLOC, 4, is_loaded=not is_first)


def section_places(version: str, parts: Sequence[SectionPart]) -> dict[str, int]:
    """Return the address of each section in an object that consists of `parts`."""
    plan = _plan(version, 0, *parts)
    return {part.name: address for part, address in zip(plan.sections, plan.addresses, strict=True)}


def pack_object(
    version: str,
    flags: int,
    parts: Sequence[SectionPart],
    symbols: Sequence[Marked],
    relocations: Sequence[tuple[int, int]] = (),
) -> bytes:
    """Return the bytes of an object with the given sections: notes, then read-only data, code, data.

    Their addresses are those that `section_places` returns. `flags` are e_flags. Symbols are sorted by binding. Each
    item of `relocations` is the address of a word that holds an address, and that address.
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
    """Return the file plan for `sections`, which begin with the notes, read-only data and code."""
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
        raise WireError(f"unknown code object version {version!r}, expected one of {', '.join(OS_ABI)}")
    if not _machine(version, target) and not (version in ("V1", "V2") and target in TARGETS):
        raise WireError(
            f"code objects of version {version} do not support processor {target!r}: e_flags have no number for it"
        )
    wanted = KernelDescriptor if version in WITH_DESCRIPTORS else KernelCode
    for kernel in kernels:
        if not isinstance(kernel.header, wanted):
            raise WireError(
                f"kernel {kernel.name}: code objects of version {version} need a {wanted.__name__} for each kernel"
            )
    names = [kernel.name for kernel in kernels]
    if len(set(names)) < len(names):
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise WireError(f"two kernels have the name {twice!r}")


def _machine(version: str, target: str) -> int:
    """Return the bits of e_flags that state the processor; 0 if the version has no number for it.

    For a generic processor they include its version."""
    is_generic = target.endswith("-generic")
    if version == "V1" or (is_generic and version != "V6"):
        return 0
    number = next((number for number, name in targets.MACHINES.items() if name == target), 0)
    return number | GENERIC_VERSION if number and is_generic else number


def machine_flags(version: str, processor: str, features: Mapping[str, str]) -> int:
    """Return the e_flags of an object: the processor, and the feature states that its code requires.

    `features` maps names of features to "on" or "off". Code runs with either state of a feature that is not in the map.
    """
    flags = _machine(version, targets.WITH_XNACK.get(processor, processor) if version == "V2" else processor)
    if not flags and version != "V2":
        raise WireError(
            f"code objects of version {version} do not support processor {processor!r}: e_flags have no number for it"
        )
    for name, bit, known in (("xnack", 8, HAS_XNACK), ("sramecc", 10, HAS_SRAMECC)):
        setting = features.get(name, "any")
        if version == "V3":
            flags |= (setting == "on") << (8 if name == "xnack" else 9)
        elif version in WITH_DESCRIPTORS and processor in known:
            flags |= {"any": 1, "off": 2, "on": 3}[setting] << bit
    return flags


def _text(version: str) -> str:
    """Return the name of the section that holds machine code in code objects of version `version`."""
    return ".hsatext" if version == "V1" else ".text"


_Sections = tuple[list[SectionPart], list[Marked]]
"""The sections of an object, beginning with the notes, and its symbols."""


def _codes(version: str, notes: SectionPart, kernels: Sequence[KernelSource]) -> _Sections:
    """Return the sections and symbols of an object in which each kernel's header precedes its instructions."""
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
    """Return the sections and symbols of an object with kernel descriptors in read-only data."""
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
        argument |= {f".{name}": True for name in ("is_const", "is_restrict", "is_volatile") if getattr(each, name)}
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
    """Return V2 metadata as YAML.

    V2 stores no argument offsets, but readers compute them from sizes and alignments. Each argument gets the
    smallest alignment from which a reader computes its real offset. Raise `WireError` if there is none."""
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
                raise WireError(
                    f"argument {each.name!r} has offset {each.offset}, expected in V2 metadata: the first multiple of "
                    f"its alignment (1, 2, 4, 8 or 16) after the previous argument, which ends at {end}"
                )
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


# ---- bare code -------------------------------------------------------------------------------------------------------
# Code objects for bare code: a kernel from words and header fields.


RESERVED_SGPRS: Final = 6
"""The number of SGPRs for VCC, FLAT_SCRATCH and XNACK_MASK, which follow the SGPRs that code names by number."""
MAX_VGPRS: Final = 256
MAX_SGPRS: Final = 102
_USERS: Final = {name.removeprefix("enable_sgpr_"): count for name, count in USER_SGPRS}
_OLD_USERS: Final = tuple(f"grid_workgroup_count_{axis}" for axis in "xyz")
"""The user SGPRs that only amd_kernel_code_t can enable, and kernel descriptors cannot."""
_SCRATCH: Final = ("private_segment_buffer", "flat_scratch_init")


def bare_code_object(
    code: bytes,
    agent: str,
    *,
    name: str = "kernel",
    vgprs: int = MAX_VGPRS,
    accs: int = 0,
    sgprs: int = 96,
    kernarg_bytes: int = 256,
    lds_bytes: int = 0,
    scratch_bytes: int = 0,
    user_sgprs: Sequence[str] = ("kernarg_segment_ptr",),
) -> bytes:
    """Return a code object with one kernel that begins with the first byte of `code`; it has no metadata.

    The initial registers of its waves are:

    - The user SGPRs that `user_sgprs` names, as in amd_kernel_code_t without ``enable_sgpr_``, in the order of the ROCm
      Code Object document.
    - In the next SGPRs, the work-group's x, y and z, and with `scratch_bytes` per work-item the wave's offset in
      private memory. From gfx942 on, FLAT_SCRATCH has the address of the private memory instead.
    - In v0 to v2 the work-item's x, y and z; from gfx90a on, all three are in v0.

    Denormals of binary32 are flushed, as is the default of an ``.amdhsa_kernel`` block. The version is V2, or V5 from
    gfx90a on, where `accs` accumulation registers follow the `vgprs` vector registers. Raise `WireError` for an unknown
    agent or user SGPR, or for counts that no wave can have.
    """
    target = TARGETS.get(agent)
    is_new = target is not None and target.has_unified_registers
    has_scratch_users = bool(scratch_bytes) and not (target is not None and target.has_architected_scratch)
    users = {*user_sgprs, *(_SCRATCH if has_scratch_users else ())}
    known = [each for each in _USERS if not (is_new and each in _OLD_USERS)]
    if unknown := sorted(users.difference(known)):
        raise WireError(f"unknown user SGPRs {unknown[0]!r}, expected any of {', '.join(known)}")
    most_accs = MAX_VGPRS if is_new else 0
    for what, count, least, most in (
        ("VGPRs", vgprs, 1, MAX_VGPRS), ("accumulation VGPRs", accs, 0, most_accs), ("SGPRs", sgprs, 1, MAX_SGPRS),
    ):  # fmt: skip
        if not least <= count <= most:
            raise WireError(f"the number of {what} is {count}, expected {least} to {most}")
    digits = agent.removeprefix("gfx")
    if len(digits) < 3 or not digits[:-1].isdigit():
        raise WireError(f"unknown processor {agent!r}, expected a name like gfx900")
    rsrc2 = replace(
        Rsrc2.parse(bytes(Rsrc2.size_bytes)),
        user_sgpr_count=sum(_USERS[each] for each in users),
        enable_sgpr_private_segment_wave_byte_offset=int(bool(scratch_bytes)),
        enable_sgpr_workgroup_id_x=1,
        enable_sgpr_workgroup_id_y=1,
        enable_sgpr_workgroup_id_z=1,
        enable_vgpr_workitem_id=2,
    )
    rsrc1 = replace(
        Rsrc1.parse(bytes(Rsrc1.size_bytes)),
        granulated_workitem_vgpr_count=(vgprs - 1) // VGPR_GRANULE,
        granulated_wavefront_sgpr_count=(sgprs + RESERVED_SGPRS - 1) // SGPR_GRANULE,
        float_mode_denorm_16_64=3,
        enable_dx10_clamp=1,
        enable_ieee_mode=1,
    )
    enabled = {f"enable_sgpr_{each}": 1 for each in users}
    header: Header
    if is_new:
        assert target is not None
        first_acc = align_up(vgprs, ACCUM_GRANULE)
        rsrc3 = replace(Rsrc3.parse(bytes(Rsrc3.size_bytes)), granulated_accum_offset=first_acc // ACCUM_GRANULE - 1)
        header = replace(
            KernelDescriptor.parse(bytes(KernelDescriptor.size_bytes)),
            group_segment_fixed_size=lds_bytes,
            private_segment_fixed_size=scratch_bytes,
            kernarg_size=kernarg_bytes,
            compute_pgm_rsrc1=replace(
                rsrc1, granulated_workitem_vgpr_count=(first_acc + accs - 1) // target.vgpr_granule
            ),
            compute_pgm_rsrc2=rsrc2,
            compute_pgm_rsrc3=int.from_bytes(rsrc3.pack(), "little"),
            kernel_code_properties=replace(
                DescriptorProperties.parse(bytes(DescriptorProperties.size_bytes)), **enabled
            ),
        )
        return write_code_object("V5", agent, [KernelSource(name, code, header)])
    empty = KernelCode.parse(bytes(KernelCode.size_bytes))
    header = replace(
        empty,
        amd_kernel_code_version_major=1,
        amd_kernel_code_version_minor=2,
        amd_machine_kind=1,
        amd_machine_version_major=int(digits[:-2]),
        amd_machine_version_minor=int(digits[-2]),
        amd_machine_version_stepping=int(digits[-1], 16),
        compute_pgm_rsrc1=rsrc1,
        compute_pgm_rsrc2=rsrc2,
        kernel_code_properties=replace(
            CodeProperties.parse(bytes(CodeProperties.size_bytes)),
            private_element_size=1,
            is_ptr64=1,
            **enabled,
        ),
        workitem_private_segment_byte_size=scratch_bytes,
        workgroup_group_segment_byte_size=lds_bytes,
        kernarg_segment_byte_size=kernarg_bytes,
        wavefront_sgpr_count=sgprs,
        workitem_vgpr_count=vgprs,
        kernarg_segment_alignment=4,
        group_segment_alignment=4,
        private_segment_alignment=4,
        wavefront_size=6,
        call_convention=-1,
    )
    return write_code_object("V2", agent, [KernelSource(name, code, header)])
