"""ELF files of either word size, as the containers use them: sections, symbols, relocations with addend, notes.

Three oddities of these files are taken as they are: ET_REL files whose symbol 0 is a real symbol (driver 1912.05),
string tables that do not begin with a 0, so that a name may stand at offset 0 (the same driver), and string tables
whose last name lacks its 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from understudy.core.record import Record, i32, raw, reserved, u8, u16, u32
from understudy.image.elf.checked_bytes import MAX_NAME_BYTES, ElfBytes, check_magic, wrong
from understudy.image.hsa.elf import (
    SHT_NOBITS,
    SHT_NOTE,
    SHT_NULL,
    SHT_RELA,
    SHT_STRTAB,
    SHT_SYMTAB,
    FileHeader,
    Note,
    ProgramHeader,
    RelaEntry,
    SectionHeader,
    SymbolEntry,
)


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

    @property
    def is_null(self) -> bool:
        """Whether nothing is said of it, as of symbol 0 of most tables."""
        return not (self.name or self.value or self.size or self.kind or self.binding or self.section or self.other)


@dataclass(frozen=True, slots=True)
class Relocation:
    """An entry of a relocation table: `type` at `offset` of the section that the table is for."""

    offset: int
    type: int
    symbol: Symbol
    addend: int
    place: int


class Elf(ElfBytes):
    """An ELF file; `base` is where it begins in the file around it, for messages."""

    def __init__(self, data: bytes, header: FileHeader | FileHeader32, base: int = 0) -> None:
        super().__init__(data, base)
        self.header = header

    @property
    def bits(self) -> int:
        """32 or 64."""
        return 64 if isinstance(self.header, FileHeader) else 32

    @cached_property
    def segments(self) -> tuple[ProgramHeader, ...]:
        """Program headers; 32-bit files have none."""
        header = self.header
        if isinstance(header, FileHeader32) or not header.phnum:
            return ()
        return tuple(self.records("program header table", header.phoff, header.phnum, header.phentsize, ProgramHeader))

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """All sections in their order."""
        header = self.header
        record: type[SectionHeader] | type[SectionHeader32] = SectionHeader if self.bits == 64 else SectionHeader32
        if not header.shnum:
            return ()
        table = self.records("section header table", header.shoff, header.shnum, header.shentsize, record)
        headers: list[SectionHeader | SectionHeader32] = list(table)
        names = headers[header.shstrndx] if header.shstrndx < len(headers) else None
        found, claimed = [], 0
        for index, entry in enumerate(headers):
            place = header.shoff + index * header.shentsize
            if names is None or entry.type == SHT_NULL:
                name = ""
            else:
                name = self._name(names, entry.name_offset, place)
            claimed = self.claim("section names", claimed + len(name), place)
            found.append(Section(index, name, place, entry))
        return tuple(found)

    def _name(self, table: SectionHeader | SectionHeader32, offset: int, place: int) -> str:
        if not offset and (table.type != SHT_STRTAB or not table.size):
            return ""  # a file without names; in one with names, offset 0 is a place like any other
        if table.type != SHT_STRTAB or offset >= table.size:
            text = f"a name at {offset:#x} does not lie in the string table of {table.size:#x} bytes"
            raise self.wrong(text, place)
        self.inside("string table", table.offset, table.size, place)
        start, end = table.offset + offset, table.offset + table.size
        name = self.name_at(start, end)
        if name is None and end - start > MAX_NAME_BYTES:
            raise self.wrong(f"a name does not end within {MAX_NAME_BYTES} bytes", start)
        return self.data[start:end].decode("utf-8", "backslashreplace") if name is None else name

    def section(self, name: str) -> Section | None:
        """The first section of that name."""
        return next((each for each in self.sections if each.name == name), None)

    def contents(self, section: Section | None) -> bytes:
        """The bytes of a section; none where it has none in the file."""
        start, size = self.extent(section)
        return self.data[start : start + size]

    def extent(self, section: Section | None) -> tuple[int, int]:
        """Where the bytes of a section begin in the file, and how many there are."""
        if section is None or section.header.type in (SHT_NOBITS, SHT_NULL):
            return 0, 0
        header = section.header
        self.inside(f"section {section.name}", header.offset, header.size, section.place)
        return header.offset, header.size

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
        for number, entry in enumerate(self.records(section.name, header.offset, count, record.size_bytes, record)):
            place = header.offset + number * record.size_bytes
            is_null = not number and not any(self.data[place : place + record.size_bytes])
            name = "" if is_null else self._name(names, entry.name_offset, place)
            claimed = self.claim("symbol names", claimed + len(name), place)
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
        for number, entry in enumerate(self.records(name, header.offset, count, record.size_bytes, record)):
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
    check_magic(data, base)
    kinds: dict[int, type[FileHeader] | type[FileHeader32]] = {1: FileHeader32, 2: FileHeader}
    kind = kinds.get(data[4]) if len(data) > 4 else None
    if kind is None:
        raise wrong("EI_CLASS must be 1 (32-bit) or 2 (64-bit)", base + 4)
    header = kind.parse(data)
    if header.data_encoding != 1:
        raise wrong(f"EI_DATA is {header.data_encoding:#x}, expected 1 (little-endian)", base + 5)
    return Elf(data, header, base)
