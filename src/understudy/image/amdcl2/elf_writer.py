"""ELF files of either word size, written section by section in a given order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from understudy.core.words import align_up
from understudy.image.amdcl2.elf import FileHeader32, SectionHeader32, SymbolEntry32
from understudy.image.elf_bytes import MAGIC
from understudy.image.hsa.elf import SHT_NOBITS, SHT_NULL, FileHeader, ProgramHeader, SectionHeader, SymbolEntry

SHSTRTAB: Final = ".shstrtab"


@dataclass(frozen=True, slots=True)
class SectionPart:
    """A section to be written. `link` and `info` name other sections; `bss_bytes` is the size of one without bytes."""

    name: str
    type: int
    data: bytes = field(default=b"", repr=False)
    flags: int = 0
    alignment: int = 1
    entry_bytes: int = 0
    link: str = ""
    info: str = ""
    bss_bytes: int = 0

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self.bss_bytes if self.type == SHT_NOBITS else len(self.data)


@dataclass(frozen=True, slots=True)
class SegmentPart:
    """A program header over sections next to each other."""

    type: int
    flags: int
    sections: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ElfPlan:
    """A file to be written; the section .shstrtab is filled in, its data does not matter."""

    bits: int
    machine: int
    type: int
    flags: int
    sections: tuple[SectionPart, ...]
    segments: tuple[SegmentPart, ...] = ()
    os_abi: int = 0

    def pack(self) -> bytes:
        """The bytes: headers, sections in order, section headers."""
        wide = self.bits == 64
        head = FileHeader.size_bytes if wide else FileHeader32.size_bytes
        names, offsets = self._names()
        out = bytearray(head + ProgramHeader.size_bytes * len(self.segments))
        places = []
        for section in self.sections:
            _align(out, section.alignment)
            places.append(len(out))
            out += names if section.name == SHSTRTAB else section.data
        _align(out, 8 if wide else 4)
        table = len(out)
        out += self._section_header(None, 0, 0, 0)
        for section, place in zip(self.sections, places, strict=True):
            size = len(names) if section.name == SHSTRTAB else section.size
            out += self._section_header(section, offsets[section.name], place, size)
        out[:head] = self._header(table)
        for number, segment in enumerate(self.segments):
            at = head + number * ProgramHeader.size_bytes
            out[at : at + ProgramHeader.size_bytes] = self._segment(segment, places)
        return bytes(out)

    def index(self, name: str) -> int:
        """Number of a section; 0 for none."""
        return next((n + 1 for n, each in enumerate(self.sections) if each.name == name), 0)

    def _names(self) -> tuple[bytes, dict[str, int]]:
        out, offsets = bytearray(b"\0"), {}
        for section in self.sections:
            offsets[section.name] = len(out)
            out += section.name.encode() + b"\0"
        return bytes(out), offsets

    def _section_header(self, section: SectionPart | None, name: int, place: int, size: int) -> bytes:
        values = {
            "name_offset": name, "type": SHT_NULL, "flags": 0, "addr": 0, "offset": place, "size": size, "link": 0,
            "info": 0, "addralign": 0, "entsize": 0,
        }  # fmt: skip
        if section is not None:
            values |= {
                "type": section.type,
                "flags": section.flags,
                "link": self.index(section.link),
                "info": self.index(section.info),
                "addralign": section.alignment,
                "entsize": section.entry_bytes,
            }
        record = SectionHeader if self.bits == 64 else SectionHeader32
        return record(**values).pack()

    def _header(self, table: int) -> bytes:
        wide = self.bits == 64
        kind: type[FileHeader] | type[FileHeader32] = FileHeader if wide else FileHeader32
        return kind(
            magic=MAGIC,
            file_class=2 if wide else 1,
            data_encoding=1,
            ident_version=1,
            os_abi=self.os_abi,
            abi_version=0,
            type=self.type,
            machine=self.machine,
            version=1,
            entry=0,
            phoff=kind.size_bytes if self.segments else 0,
            shoff=table,
            flags=self.flags,
            ehsize=kind.size_bytes,
            phentsize=ProgramHeader.size_bytes if self.segments else 0,
            phnum=len(self.segments),
            shentsize=SectionHeader.size_bytes if wide else SectionHeader32.size_bytes,
            shnum=len(self.sections) + 1,
            shstrndx=self.index(SHSTRTAB),
        ).pack()

    def _segment(self, segment: SegmentPart, places: list[int]) -> bytes:
        numbers = [self.index(name) - 1 for name in segment.sections]
        parts = [self.sections[n] for n in numbers]
        start = places[numbers[0]]
        in_file = [places[n] + len(self.sections[n].data) for n in numbers]
        in_memory = 0
        for part in parts:
            in_memory = align_up(in_memory, part.alignment) + part.size
        return ProgramHeader(
            type=segment.type,
            flags=segment.flags,
            offset=start,
            vaddr=0,
            paddr=0,
            filesz=max(in_file) - start,
            memsz=in_memory,
            align=max(part.alignment for part in parts),
        ).pack()


@dataclass(slots=True)
class SymbolWriter:
    """A symbol table and its names, symbol after symbol."""

    bits: int
    names: bytearray = field(default_factory=lambda: bytearray(b"\0"))
    table: bytearray = field(default_factory=bytearray)
    count: int = 0

    def add(self, name: str, section: int, value: int, size: int, kind: int, binding: int = 0) -> int:
        """One more; its number."""
        record: type[SymbolEntry] | type[SymbolEntry32] = SymbolEntry if self.bits == 64 else SymbolEntry32
        offset = len(self.names) if name else 0
        if name:
            self.names += name.encode("utf-8", "surrogateescape") + b"\0"
        entry = record(name_offset=offset, info=binding << 4 | kind, other=0, section=section, value=value, size=size)
        self.table += entry.pack()
        self.count += 1
        return self.count - 1

    def null(self) -> None:
        """The symbol that begins most tables."""
        self.add("", 0, 0, 0, 0)


def _align(out: bytearray, alignment: int) -> None:
    out += bytes(-len(out) % max(alignment, 1))
