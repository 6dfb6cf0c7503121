"""ELF files of either word size, as the containers use them: sections, symbols, relocations with addend, notes.

Everything comes from outside: each length and offset is checked against the file before it is used, and every refusal
is a `WireError` that names the byte. Two oddities of these files are taken as they are: ET_REL files whose symbol 0 is
a real symbol (drivers before 2004.06), and string tables whose last name lacks its 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeVar

from understudy.core.errors import WireError
from understudy.core.record import Record, i32, raw, reserved, u8, u16, u32
from understudy.image.hsa.elf import (
    FileHeader,
    Note,
    ProgramHeader,
    RelaEntry,
    SectionHeader,
    SymbolEntry,
    wrong,
)

MAGIC: Final = b"\x7fELF"
SHT_NULL: Final = 0
SHT_PROGBITS: Final = 1
SHT_SYMTAB: Final = 2
SHT_STRTAB: Final = 3
SHT_RELA: Final = 4
SHT_NOTE: Final = 7
SHT_NOBITS: Final = 8
SHF_ALLOC: Final = 2
MAX_NAME_BYTES: Final = 4096
"""Longest name that is believed."""
MAX_OVERLAP: Final = 4
"""How often the file's bytes may be claimed by names and tables: real files claim each once."""


class FileHeader32(Record, size=52):
    """Elf32_Ehdr."""

    magic: bytes = raw(4)
    file_class: int = u8()
    data_encoding: int = u8()
    ident_version: int = u8()
    os_abi: int = u8()
    abi_version: int = u8()
    padding: bytes = reserved(7)
    type: int = u16()
    machine: int = u16()
    version: int = u32()
    entry: int = u32()
    phoff: int = u32()
    shoff: int = u32()
    flags: int = u32()
    ehsize: int = u16()
    phentsize: int = u16()
    phnum: int = u16()
    shentsize: int = u16()
    shnum: int = u16()
    shstrndx: int = u16()


class SectionHeader32(Record, size=40):
    """Elf32_Shdr."""

    name_offset: int = u32()
    type: int = u32()
    flags: int = u32()
    addr: int = u32()
    offset: int = u32()
    size: int = u32()
    link: int = u32()
    info: int = u32()
    addralign: int = u32()
    entsize: int = u32()


class SymbolEntry32(Record, size=16):
    """Elf32_Sym."""

    name_offset: int = u32()
    value: int = u32()
    size: int = u32()
    info: int = u8()
    other: int = u8()
    section: int = u16()


class RelaEntry32(Record, size=12):
    """Elf32_Rela; `info` is the symbol << 8 | the type."""

    offset: int = u32()
    info: int = u32()
    addend: int = i32()


@dataclass(frozen=True, slots=True)
class Section:
    """A section; `place` is the byte of its header, for messages."""

    index: int
    name: str
    place: int
    header: SectionHeader | SectionHeader32


@dataclass(frozen=True, slots=True)
class Symbol:
    """An entry of the symbol table; `place` is its byte."""

    name: str
    value: int
    size: int
    kind: int
    binding: int
    section: int
    place: int
    other: int = 0


@dataclass(frozen=True, slots=True)
class Relocation:
    """An entry of a relocation table: `type` at `offset` of the section that the table is for."""

    offset: int
    type: int
    symbol: Symbol
    addend: int
    place: int


AnyRecord = TypeVar("AnyRecord", bound=Record)


@dataclass(frozen=True)
class Elf:
    """An ELF file; `base` is where it begins in the file around it, for messages."""

    data: bytes = field(repr=False)
    header: FileHeader | FileHeader32
    base: int = 0

    @property
    def bits(self) -> int:
        """32 or 64."""
        return 64 if isinstance(self.header, FileHeader) else 32

    def wrong(self, message: str, byte: int) -> WireError:
        """A refusal with the byte of the outermost file."""
        return wrong(message, self.base + byte)

    def _table(self, what: str, at: int, count: int, entry: int, record: type[AnyRecord]) -> Iterator[AnyRecord]:
        if count and entry < record.size_bytes:
            raise self.wrong(f"entries of the {what} have {entry} bytes, expected {record.size_bytes}", at)
        self.inside(what, at, count * entry, at)
        return (record.parse(self.data, at + n * entry) for n in range(count))

    def inside(self, what: str, start: int, size: int, place: int) -> None:
        """`size` bytes at `start` must lie in the file; `place` is the byte that claims so."""
        if start + size > len(self.data):
            text = f"{what} at {start:#x}..{start + size:#x} runs over the file's {len(self.data):#x} bytes"
            raise self.wrong(text, place)

    @cached_property
    def segments(self) -> tuple[ProgramHeader, ...]:
        """Program headers; 32-bit files have none."""
        header = self.header
        if isinstance(header, FileHeader32) or not header.phnum:
            return ()
        return tuple(self._table("program header table", header.phoff, header.phnum, header.phentsize, ProgramHeader))

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """All sections in their order."""
        header = self.header
        record: type[SectionHeader] | type[SectionHeader32] = SectionHeader if self.bits == 64 else SectionHeader32
        if not header.shnum:
            return ()
        table = self._table("section header table", header.shoff, header.shnum, header.shentsize, record)
        headers: list[SectionHeader | SectionHeader32] = list(table)
        names = headers[header.shstrndx] if header.shstrndx < len(headers) else None
        found, claimed = [], 0
        for index, entry in enumerate(headers):
            place = header.shoff + index * header.shentsize
            name = self._name(names, entry.name_offset, place) if names is not None else ""
            claimed = self._claim("section names", claimed + len(name), place)
            found.append(Section(index, name, place, entry))
        return tuple(found)

    def _claim(self, what: str, claimed: int, place: int) -> int:
        if claimed > MAX_OVERLAP * len(self.data):
            text = f"{what} up to here claim {claimed:#x} bytes of a file of {len(self.data):#x}"
            raise self.wrong(text, place)
        return claimed

    def _name(self, table: SectionHeader | SectionHeader32, offset: int, place: int) -> str:
        if not offset:
            return ""
        if table.type != SHT_STRTAB or offset >= table.size:
            text = f"a name at {offset:#x} does not lie in the string table of {table.size:#x} bytes"
            raise self.wrong(text, place)
        self.inside("string table", table.offset, table.size, place)
        start, end = table.offset + offset, table.offset + table.size
        stop = self.data.find(b"\0", start, min(end, start + MAX_NAME_BYTES + 1))
        if stop < 0 and end - start > MAX_NAME_BYTES:
            raise self.wrong(f"a name does not end within {MAX_NAME_BYTES} bytes", start)
        return self.data[start : stop if stop >= 0 else end].decode("utf-8", "backslashreplace")

    def section(self, name: str) -> Section | None:
        """The first section of that name."""
        return next((each for each in self.sections if each.name == name), None)

    def contents(self, section: Section | None) -> bytes:
        """The bytes of a section; none where it has none in the file."""
        if section is None or section.header.type in (SHT_NOBITS, SHT_NULL):
            return b""
        header = section.header
        self.inside(f"section {section.name}", header.offset, header.size, section.place)
        return self.data[header.offset : header.offset + header.size]

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbol table, the first one where there are several; nothing is left out of it."""
        section = next((each for each in self.sections if each.header.type == SHT_SYMTAB), None)
        if section is None:
            return ()
        header = section.header
        if header.link >= len(self.sections):
            raise self.wrong(f"sh_link of {section.name} is {header.link}, expected a string table", section.place)
        names = self.sections[header.link].header
        record: type[SymbolEntry] | type[SymbolEntry32] = SymbolEntry if self.bits == 64 else SymbolEntry32
        count = header.size // record.size_bytes
        found, claimed = [], 0
        for number, entry in enumerate(self._table(section.name, header.offset, count, record.size_bytes, record)):
            place = header.offset + number * record.size_bytes
            name = self._name(names, entry.name_offset, place)
            claimed = self._claim("symbol names", claimed + len(name), place)
            kind, binding = entry.info & 15, entry.info >> 4
            found.append(Symbol(name, entry.value, entry.size, kind, binding, entry.section, place, entry.other))
        return tuple(found)

    def relocations(self, name: str) -> tuple[Relocation, ...]:
        """Those of the table `name`; a `WireError` for one that names no symbol."""
        section = self.section(name)
        if section is None or section.header.type != SHT_RELA:
            return ()
        header = section.header
        found = []
        record: type[RelaEntry] | type[RelaEntry32] = RelaEntry if self.bits == 64 else RelaEntry32
        count = header.size // record.size_bytes
        for number, entry in enumerate(self._table(name, header.offset, count, record.size_bytes, record)):
            place = header.offset + number * record.size_bytes
            if isinstance(entry, RelaEntry):
                index, kind = entry.symbol, entry.type
            else:
                index, kind = entry.info >> 8, entry.info & 0xFF
            if index >= len(self.symbols):
                raise self.wrong(f"relocation names symbol {index} of {len(self.symbols)}", place)
            found.append(Relocation(entry.offset, kind, self.symbols[index], entry.addend, place))
        return tuple(found)

    @cached_property
    def notes(self) -> tuple[Note, ...]:
        """The notes of all note sections; one that runs over the end of its section ends it."""
        return tuple(
            note
            for section in self.sections
            if section.header.type == SHT_NOTE
            for note in _notes(self.contents(section), section.header.offset)
        )


def _notes(data: bytes, place: int) -> Iterator[Note]:
    at = 0
    while at + 12 <= len(data):
        name_size, size, kind = (int.from_bytes(data[at + n : at + n + 4], "little") for n in (0, 4, 8))
        start = at + 12 + (name_size + 3 & ~3)
        if start + size > len(data):
            return
        owner = data[at + 12 : at + 12 + name_size].split(b"\0")[0].decode("utf-8", "backslashreplace")
        yield Note(owner, kind, data[start : start + size], place + at)
        at = start + (size + 3 & ~3)


def read_elf(data: bytes, base: int = 0) -> Elf:
    """The headers of an ELF file; `WireError` where there is none or it is not little-endian."""
    if data[:4] != MAGIC:
        raise wrong(f"file starts with {data[:4].hex(' ') or 'nothing'}, expected 7f 45 4c 46 (ELF)", base)
    kinds: dict[int, type[FileHeader] | type[FileHeader32]] = {1: FileHeader32, 2: FileHeader}
    kind = kinds.get(data[4]) if len(data) > 4 else None
    if kind is None:
        raise wrong("EI_CLASS must be 1 (32-bit) or 2 (64-bit)", base + 4)
    header = kind.parse(data)
    if header.data_encoding != 1:
        raise wrong(f"EI_DATA is {header.data_encoding:#x}, expected 1 (little-endian)", base + 5)
    return Elf(data, header, base)
