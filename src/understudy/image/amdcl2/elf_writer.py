"""ELF files of either word size, written section by section in a given order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from understudy.core.words import align_up
from understudy.image.amdcl2.elf import FileHeader32, SectionHeader32, SymbolEntry32
from understudy.image.elf.checked_bytes import MAGIC
from understudy.image.hsa.elf import SHT_NOBITS, SHT_NULL, FileHeader, ProgramHeader, SectionHeader, SymbolEntry

SHSTRTAB: Final = ".shstrtab"


@dataclass(frozen=True, slots=True)
class SectionPart:
    """A section to be written. `link` and `info` name other sections; `bss_bytes` is the size of one without bytes.

    Sections that are loaded have addresses: one behind the other from 0, in their order.
    """

    name: str
    type: int
    data: bytes = field(default=b"", repr=False)
    flags: int = 0
    alignment: int = 1
    entry_bytes: int = 0
    link: str = ""
    info: str = ""
    bss_bytes: int = 0
    is_loaded: bool = False

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
        addresses = self._addresses()
        for section, place, address in zip(self.sections, places, addresses, strict=True):
            size = len(names) if section.name == SHSTRTAB else section.size
            start = 0 if section.type == SHT_NOBITS else place
            out += self._section_header(section, offsets[section.name], start, size, address)
        out[:head] = self._header(table)
        for number, segment in enumerate(self.segments):
            at = head + number * ProgramHeader.size_bytes
            out[at : at + ProgramHeader.size_bytes] = self._segment(segment, places, addresses)
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

    def _addresses(self) -> list[int]:
        found, at = [], 0
        for section in self.sections:
            at = align_up(at, section.alignment) if section.is_loaded else at
            found.append(at if section.is_loaded else 0)
            at += section.size if section.is_loaded else 0
        return found

    def _section_header(self, section: SectionPart | None, name: int, place: int, size: int, address: int = 0) -> bytes:
        values = {
            "name_offset": name, "type": SHT_NULL, "flags": 0, "addr": address, "offset": place, "size": size,
            "link": 0, "info": 0, "addralign": 0, "entsize": 0,
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

    def _segment(self, segment: SegmentPart, places: list[int], addresses: list[int]) -> bytes:
        numbers = [self.index(name) - 1 for name in segment.sections]
        parts = [self.sections[n] for n in numbers]
        start = places[numbers[0]]
        in_file = [places[n] + len(self.sections[n].data) for n in numbers]
        return ProgramHeader(
            type=segment.type,
            flags=segment.flags,
            offset=start,
            vaddr=addresses[numbers[0]],
            paddr=0,
            filesz=max(in_file) - start,
            memsz=addresses[numbers[-1]] + parts[-1].size - addresses[numbers[0]],
            align=parts[0].alignment,
        ).pack()


@dataclass(slots=True)
class SymbolWriter:
    """A symbol table and its names, symbol after symbol.

    With `has_null` names and symbols begin as in most files, with a 0 and a null symbol; without, with a name and a
    symbol, and what has no name points to the 0 behind the first one.
    """

    bits: int
    has_null: bool = True
    names: bytearray = field(default_factory=bytearray)
    table: bytearray = field(default_factory=bytearray)
    count: int = 0

    def add(self, name: str, section: int, value: int, size: int, kind: int, binding: int = 0) -> int:
        """One more; its number."""
        record: type[SymbolEntry] | type[SymbolEntry32] = SymbolEntry if self.bits == 64 else SymbolEntry32
        offset = len(self.names) if name else max(self.names.find(0), 0)
        if name:
            self.names += name.encode("utf-8", "surrogateescape") + b"\0"
        entry = record(name_offset=offset, info=binding << 4 | kind, other=0, section=section, value=value, size=size)
        self.table += entry.pack()
        self.count += 1
        return self.count - 1

    def __post_init__(self) -> None:
        """The beginning of most tables."""
        if self.has_null:
            self.names += b"\0"
            self.add("", 0, 0, 0, 0)


def _align(out: bytearray, alignment: int) -> None:
    out += bytes(-len(out) % max(alignment, 1))
