"""Code objects written from kernels: V1, V2 and mesa3d with amd_kernel_code_t, V3 to V6 with kernel descriptors.

What is written is a shared object without dynamic section: what `read_code_object` and LLVM's tools read. Addresses are
file offsets; headers and notes lie in a read-only segment, code in one of its own. V1 is as AMD's finalizer writes it:
an executable file with one segment of a type of its own, and symbols that count from their section.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from understudy.core.errors import WireError
from understudy.core.words import align_up
from understudy.image.hsa import elf, msgpack, targets
from understudy.image.hsa.elf import FileHeader, ProgramHeader, SectionHeader, SymbolEntry
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
    plan = _Plan(version, _machine(version, target))
    plan.add(".note", elf.SHT_NOTE, 0 if version == "V1" else elf.SHF_ALLOC, _notes(version, target, kernels), 4)
    if version in WITH_DESCRIPTORS:
        _descriptors(plan, kernels)
    else:
        _codes(plan, kernels)
    return plan.pack()


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


def _codes(plan: _Plan, kernels: Sequence[KernelSource]) -> None:
    """Headers in front of their instructions."""
    text = bytearray()
    for kernel in kernels:
        text += bytes(-len(text) % ENTRY_ALIGNMENT)
        header = replace(kernel.header, kernel_code_entry_byte_offset=KernelCode.size_bytes)
        plan.symbol(kernel.name, plan.text, len(text), KernelCode.size_bytes + len(kernel.code), elf.STT_HSA_KERNEL)
        text += header.pack() + kernel.code
    own = elf.SHF_WRITE | elf.SHF_HSA_CODE | elf.SHF_HSA_AGENT if plan.version == "V1" else 0
    plan.add(plan.text, elf.SHT_PROGBITS, elf.SHF_ALLOC | elf.SHF_EXECINSTR | own, bytes(text), PAGE)


def _descriptors(plan: _Plan, kernels: Sequence[KernelSource]) -> None:
    """Descriptors in read-only data, which point at the instructions."""
    size = KernelDescriptor.size_bytes
    start = plan.next(KERNEL_CODE_ALIGNMENT)
    text_at = align_up(start + size * len(kernels), PAGE)
    text, rodata = bytearray(), bytearray()
    for kernel in kernels:
        text += bytes(-len(text) % ENTRY_ALIGNMENT)
        offset = text_at + len(text) - (start + len(rodata))
        plan.symbol(kernel.name, ".text", len(text), len(kernel.code), elf.STT_FUNC)
        plan.symbol(f"{kernel.name}.kd", ".rodata", len(rodata), size, elf.STT_OBJECT)
        rodata += replace(kernel.header, kernel_code_entry_byte_offset=offset).pack()
        text += kernel.code
    plan.add(".rodata", 1, elf.SHF_ALLOC, bytes(rodata), KERNEL_CODE_ALIGNMENT)
    plan.add(".text", 1, elf.SHF_ALLOC | elf.SHF_EXECINSTR, bytes(text), PAGE)


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


def note(owner: str, kind: int, data: bytes) -> bytes:
    """An ELF note."""
    name = owner.encode() + b"\0"
    head = b"".join(number.to_bytes(4, "little") for number in (len(name), len(data), kind))
    return head + name + bytes(-len(name) % 4) + data + bytes(-len(data) % 4)


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


# -- the file


@dataclass(slots=True)
class _Plan:
    """A file that grows section by section; addresses are offsets."""

    version: str
    machine: int
    body: bytearray = field(default_factory=lambda: bytearray(FileHeader.size_bytes + 3 * ProgramHeader.size_bytes))
    sections: list[tuple[str, SectionHeader]] = field(default_factory=list)
    symbols: list[tuple[str, str, int, int, int]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Name of the section of code."""
        return ".hsatext" if self.version == "V1" else ".text"

    def next(self, alignment: int) -> int:
        """Where a section of this alignment would begin."""
        return align_up(len(self.body), alignment)

    def add(self, name: str, kind: int, flags: int, data: bytes, alignment: int, link: int = 0) -> int:
        """One more section; its number."""
        start = self.next(alignment)
        self.body += bytes(start - len(self.body)) + data
        address = start if flags & elf.SHF_ALLOC else 0
        tables = (elf.SHT_SYMTAB, elf.SHT_DYNSYM)
        header = SectionHeader(
            name_offset=0,
            type=kind,
            flags=flags,
            addr=address,
            offset=start,
            size=len(data),
            link=link,
            info=1 if kind in tables else 0,
            addralign=alignment,
            entsize=SymbolEntry.size_bytes if kind in tables else 0,
        )
        self.sections.append((name, header))
        return len(self.sections)

    def symbol(self, name: str, section: str, offset: int, size: int, kind: int) -> None:
        """A global symbol in a section that is to come."""
        self.symbols.append((name, section, offset, size, kind))

    def pack(self) -> bytes:
        """The whole file."""
        names = bytearray(b"\0")
        table = bytearray(SymbolEntry.size_bytes)
        numbers = {name: (number, header) for number, (name, header) in enumerate(self.sections, 1)}
        for name, where, offset, size, kind in self.symbols:
            number, header = numbers[where]
            entry = SymbolEntry(
                name_offset=len(names),
                info=1 << 4 | kind,
                other=0 if self.version == "V1" else 3,
                section=number,
                value=offset if self.version == "V1" else header.addr + offset,
                size=size,
            )
            table += entry.pack()
            names += name.encode() + b"\0"
        segments = self._segments()
        self.add(".symtab", elf.SHT_SYMTAB, 0, bytes(table), 8, link=len(self.sections) + 2)
        self.add(".strtab", elf.SHT_STRTAB, 0, bytes(names), 1)
        heads, offsets = bytearray(b"\0"), []
        for name in [*(name for name, _ in self.sections), ".shstrtab"]:
            offsets.append(len(heads))
            heads += name.encode() + b"\0"
        self.add(".shstrtab", elf.SHT_STRTAB, 0, bytes(heads), 1)
        at = self.next(8)
        self.body += bytes(at - len(self.body)) + bytes(SectionHeader.size_bytes)
        for (_, header), offset in zip(self.sections, offsets, strict=True):
            self.body += replace(header, name_offset=offset).pack()
        self.body[: FileHeader.size_bytes] = self._header(at, len(segments)).pack()
        for number, segment in enumerate(segments):
            start = FileHeader.size_bytes + number * ProgramHeader.size_bytes
            self.body[start : start + ProgramHeader.size_bytes] = segment.pack()
        return bytes(self.body)

    def _segments(self) -> list[ProgramHeader]:
        text = next(header for name, header in self.sections if name == self.text)
        if self.version == "V1":
            return [_segment(elf.PT_HSA_LOAD_CODE_AGENT, 4 | elf.PF_W | elf.PF_X, text.offset, text.size, PAGE)]
        before = [header for _, header in self.sections if header.offset < text.offset]
        read_only = max(header.offset + header.size for header in before)
        notes = self.sections[0][1]
        return [
            _segment(elf.PT_LOAD, 4, 0, read_only, PAGE),
            _segment(elf.PT_LOAD, 4 | elf.PF_X, text.offset, text.size, PAGE),
            _segment(elf.PT_NOTE, 4, notes.offset, notes.size, 4),
        ]

    def _header(self, sections_at: int, segments: int) -> FileHeader:
        return FileHeader(
            magic=b"\x7fELF",
            file_class=2,
            data_encoding=1,
            ident_version=1,
            os_abi=OS_ABI[self.version],
            abi_version=ABI_VERSION.get(self.version, 0),
            type=elf.ET_EXEC if self.version == "V1" else elf.ET_DYN,
            machine=elf.MACHINE_AMDGPU,
            version=1,
            entry=0,
            phoff=FileHeader.size_bytes,
            shoff=sections_at,
            flags=self.machine,
            ehsize=FileHeader.size_bytes,
            phentsize=ProgramHeader.size_bytes,
            phnum=segments,
            shentsize=SectionHeader.size_bytes,
            shnum=len(self.sections) + 1,
            shstrndx=len(self.sections),
        )


def _segment(kind: int, flags: int, offset: int, size: int, alignment: int) -> ProgramHeader:
    return ProgramHeader(
        type=kind, flags=flags, offset=offset, vaddr=offset, paddr=offset, filesz=size, memsz=size, align=alignment
    )
