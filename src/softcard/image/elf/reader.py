"""A reader for untrusted ELF files: everything is checked against the file before it is used.

The files are parsed here rather than by a library: every length and offset is checked before it is used, a header
cannot cause large allocations, work grows no faster than the file, and every error is a `WireError` that names the
byte. (The tests compare with an ELF library.) Format-specific rules (kinds of files, loaded segments) are in
`image.riscv.program`, `image.hsa.elf` and `image.amdcl2.elf`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final, overload

import numpy as np
from numpy.typing import NDArray

from softcard.core.errors import WireError
from softcard.core.record import AnyRecord
from softcard.core.words import align_up
from softcard.image.elf.layout import (
    DT_NULL,
    MAGIC,
    SHN_UNDEF,
    SHT_NOBITS,
    SHT_NULL,
    SHT_RELA,
    SHT_STRTAB,
    ProgramHeader,
    RelaEntry,
    RelEntry,
    SectionHeader,
    layout_of,
)

MAX_NAME_BYTES: Final = 4096
"""The size in bytes of the longest accepted name."""
MAX_ALIGNMENT: Final = 1 << 16
"""The largest accepted alignment in bytes."""
MAX_OVERLAP: Final = 4
"""The limit on the total size of all items of one kind (such as sections), as a multiple of the file's size.

In real files each byte belongs to one item only.
"""


def wrong(message: str, byte: int) -> WireError:
    """Return a `WireError` with `message` and the offset `byte` of the wrong byte."""
    return WireError(message).at("byte", byte)


def check_magic(data: bytes, base: int = 0) -> None:
    """Raise a `WireError` if `data` is not an ELF file; `base` is the offset of `data` in the enclosing file."""
    if data[:4] != MAGIC:
        raise wrong(f"file starts with {data[:4].hex(' ') or 'nothing'}, expected 7f 45 4c 46 (ELF)", base)


def check_encoding(encoding: int, base: int = 0) -> None:
    """Raise a `WireError` if `encoding`, a file's EI_DATA byte, is not little-endian.

    `base` is the file's offset in the enclosing file."""
    if encoding != 1:
        raise wrong(f"EI_DATA is {encoding:#x}, expected 1 (little-endian)", base + 5)


class CheckedBytes:
    """The bytes of an ELF file, with checked access; `base` is its offset in the enclosing file, for messages."""

    def __init__(self, data: bytes, base: int = 0) -> None:
        self.data = data
        self.base = base

    def wrong(self, message: str, byte: int) -> WireError:
        """Return a `WireError` with `message` that names the byte at offset `byte` of these bytes.

        The error contains the byte's offset in the outermost file."""
        return wrong(message, self.base + byte)

    def inside(self, what: str, start: int, size: int, place: int) -> None:
        """Raise a `WireError` unless `size` bytes at `start` lie in the file.

        `what` names the bytes in the error; `place` is the offset of the field that refers to them.
        """
        if start + size > len(self.data):
            text = f"{what} at {start:#x}..{start + size:#x} exceeds the file's {len(self.data):#x} bytes"
            raise self.wrong(text, place)

    def aligned(self, end: int, alignment: int, section: str, place: int) -> int:
        """Return `end` rounded up to a multiple of `alignment`; raise `WireError` if the alignment is invalid.

        `place` is the offset of the field that holds the alignment of the section `section`."""
        if alignment & alignment - 1 or alignment > MAX_ALIGNMENT:
            text = f"section {section} has alignment {alignment:#x}, expected a power of two up to {MAX_ALIGNMENT:#x}"
            raise self.wrong(text, place)
        return align_up(end, alignment)

    def claim(self, what: str, claimed: int, place: int) -> int:
        """Return `claimed`, the number of bytes to which the items read so far refer, if it is plausible.

        Raise `WireError` if it exceeds a fixed multiple of the file's size. This limit prevents overlapping items
        of a malicious file from causing much work. `what` names the items; `place` is the offset of the last item."""
        if claimed > MAX_OVERLAP * len(self.data):
            text = f"the {what} up to here claim {claimed:#x} bytes, but the file has {len(self.data):#x}"
            raise self.wrong(text, place)
        return claimed

    def records(
        self, what: str, at: int, count: int, entry: int, record: type[AnyRecord]
    ) -> Iterator[tuple[int, AnyRecord]]:
        """Yield each record of a table with its offset.

        The table begins at `at` and has `count` entries of `entry` bytes. Raise `WireError` if it does not lie in the
        file.
        """
        if count and entry < record.size_bytes:
            raise self.wrong(f"entries of the {what} have {entry} bytes, expected {record.size_bytes}", at)
        self.inside(what, at, count * entry, at)
        return ((place, record.parse(self.data, place)) for place in range(at, at + count * entry, max(entry, 1)))

    def name_at(self, start: int, end: int) -> str | None:
        """Return the 0-terminated name at `start`; None if it does not end before `end`, or is too long."""
        stop = self.data.find(b"\0", start, min(end, start + MAX_NAME_BYTES + 1))
        return None if stop < 0 else self.data[start:stop].decode("utf-8", "backslashreplace")

    def dynamic_tags(self, what: str, start: int, size: int, place: int) -> dict[int, tuple[int, int]]:
        """Return the value of each tag of a dynamic section, and the offset of its entry.

        If a tag occurs several times, its first entry counts. Entries consist of 64-bit words.
        """
        self.inside(what, start, size, place)
        tags: dict[int, tuple[int, int]] = {}
        for at in range(start, start + size // 16 * 16, 16):
            tag, value = struct.unpack_from("<QQ", self.data, at)
            if tag == DT_NULL:
                break
            tags.setdefault(tag, (value, at))
        return tags


@dataclass(frozen=True, slots=True)
class Section:
    """A section of an ELF file. `place` is the offset of its header, for messages."""

    index: int
    name: str
    place: int
    header: SectionHeader


@dataclass(frozen=True, slots=True)
class Symbol:
    """An entry of a symbol table; `place` is its offset. The file format determines the base of `value`."""

    name: str
    value: int
    size: int
    kind: int
    binding: int
    other: int
    section: int
    place: int

    @property
    def is_defined(self) -> bool:
        """True if the file itself defines the symbol."""
        return self.section != SHN_UNDEF

    @property
    def is_global(self) -> bool:
        """True if the symbol is global or weak."""
        return self.binding != 0

    @property
    def is_weak(self) -> bool:
        """True if the symbol is weak: if undefined, its address is 0."""
        return self.binding == 2

    @property
    def visibility(self) -> int:
        """The symbol's STV_ number; 0 is default visibility."""
        return self.other & 3

    @property
    def is_null(self) -> bool:
        """True if all fields of the symbol are empty, as those of symbol 0 in most tables."""
        return not (self.name or self.value or self.size or self.kind or self.binding or self.section or self.other)


NO_SYMBOL: Final = Symbol("", 0, 0, 0, 0, 0, SHN_UNDEF, 0)
"""The symbol of relocations that do not refer to a symbol."""


@dataclass(frozen=True, slots=True)
class Relocation:
    """A relocation of type `type`, at `offset` of the section with number `section`.

    `section` is 0 if the relocation table does not name a section. `place` is the offset of the table entry. With
    `is_in_place`, the addend is in the relocated bytes.
    """

    offset: int
    type: int
    symbol: Symbol
    addend: int
    section: int
    place: int
    is_in_place: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """An entry of a note section or note segment; `place` is its offset in the file."""

    owner: str
    type: int
    data: bytes
    place: int


class SymbolTable(Sequence[Symbol]):
    """The symbols of a symbol table section, decoded on access.

    `names` is the header of the section with their names. `entries` are the records as a view of the file, `kinds` the
    types of the symbols. The table is empty if `section` is None.
    """

    def __init__(self, file: ElfFile, section: Section | None, names: SectionHeader | None) -> None:
        self._file, self._record, self._names = file, file.layout.symbol, names
        self._at, count = 0, 0
        if section is not None:
            self._at, count = section.header.offset, section.header.size // self._record.size_bytes
            file.records(section.name, self._at, count, self._record.size_bytes, self._record)
        self.entries: NDArray[np.void] = np.frombuffer(file.data, _dtype(self._record), count, self._at if count else 0)
        self.kinds: NDArray[np.uint8] = self.entries["info"] & np.uint8(15)
        self._is_first_null = bool(count) and not any(file.data[self._at : self._at + self._record.size_bytes])

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, index: int) -> Symbol: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Symbol, ...]: ...
    def __getitem__(self, index: int | slice) -> Symbol | tuple[Symbol, ...]:
        if isinstance(index, slice):
            return tuple(self._symbol(each) for each in range(*index.indices(len(self))))
        return self._symbol(range(len(self))[index])

    def __iter__(self) -> Iterator[Symbol]:
        return map(self._symbol, range(len(self)))

    def _symbol(self, index: int) -> Symbol:
        place = self._at + index * self._record.size_bytes
        entry = self._record.parse(self._file.data, place)
        name = ""
        if self._names is not None and (index or not self._is_first_null):
            name = self._file.name(self._names, entry.name_offset, place)
        kind, binding = entry.info & 15, entry.info >> 4
        return Symbol(name, entry.value, entry.size, kind, binding, entry.other, entry.section, place)

    def is_sound(self) -> bool:
        """Return True if no symbol can have an invalid name, as in all real files.

        If it is False, the caller must read the symbols in order to find the invalid name.
        """
        file, names = self._file, self._names
        offsets = self.entries["name_offset"]
        if file.is_odd or names is None:
            return names is None
        if names.type != SHT_STRTAB or names.offset + names.size > len(file.data) or not names.size:
            return not offsets.any()
        if offsets.max(initial=0) >= names.size or file.data[names.offset + names.size - 1]:
            return False
        lengths = _next_zero(self._text(), offsets) - offsets
        return int(lengths.max(initial=0)) <= MAX_NAME_BYTES and int(lengths.sum()) <= len(file.data)

    def ending(self, suffix: bytes) -> NDArray[np.intp]:
        """Return the numbers of the symbols whose names end with `suffix`, which is ASCII."""
        named = np.flatnonzero(self.entries["name_offset"])
        if not len(named):
            return named
        text = self._text()
        starts = self.entries["name_offset"][named]
        ends = _next_zero(text, starts)
        long = ends - starts >= len(suffix)
        named, ends = named[long], ends[long]
        fits = np.ones(len(named), np.bool_)
        for back, byte in enumerate(reversed(suffix), 1):
            fits &= text[ends - back] == byte
        numbers: NDArray[np.intp] = named[fits]
        return numbers

    def _text(self) -> NDArray[np.uint8]:
        assert self._names is not None
        return np.frombuffer(self._file.data, np.uint8, self._names.size, self._names.offset)


def _next_zero(text: NDArray[np.uint8], starts: NDArray[np.uint32]) -> NDArray[np.int64]:
    zeros = np.flatnonzero(text == 0)
    found: NDArray[np.int64] = zeros[np.searchsorted(zeros, starts)]
    return found


def _dtype(record: type[AnyRecord]) -> np.dtype[np.void]:
    """Return the NumPy type of a record that consists of words."""
    fields = [(slot.name, f"<u{slot.size_bytes}") for slot in record.slots]
    return np.dtype(fields)


class ElfFile(CheckedBytes):
    """An ELF file with words of `bits` bits; the base class of the readers for each file format.

    `base` is its offset in the enclosing file. The constructor's caller has checked the magic and the class. `warnings`
    has a text for each unreadable note.
    """

    is_odd: ClassVar[bool] = False
    """True for a file format whose files may deviate from the ELF standard.

    Symbol 0 may be a real symbol, a name may be at offset 0, and the last name may lack its terminating 0.
    """

    def __init__(self, data: bytes, bits: int, base: int = 0) -> None:
        super().__init__(data, base)
        self.bits = bits
        self.layout = layout_of(bits)
        self.header = self.layout.header.parse(data)
        self.warnings: list[str] = []

    def program_headers(self) -> Iterator[tuple[int, ProgramHeader]]:
        """Yield all program headers with their offsets."""
        header = self.header
        return self.records("program header table", header.phoff, header.phnum, header.phentsize, self.layout.segment)

    def section_headers(self) -> list[tuple[int, SectionHeader]]:
        """Return all section headers with their offsets."""
        header = self.header
        table = self.records("section header table", header.shoff, header.shnum, header.shentsize, self.layout.section)
        return list(table)

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """All sections in their order."""
        return self.named_sections() if self.header.shnum else ()

    def named_sections(self) -> tuple[Section, ...]:
        """Return the sections of the section header table, with their names."""
        headers, number = self.section_headers(), self.header.shstrndx
        names = headers[number][1] if number < len(headers) else None
        found, claimed = [], 0
        for index, (place, entry) in enumerate(headers):
            is_nameless = self.is_odd and entry.type == SHT_NULL
            name = "" if names is None or is_nameless else self.name(names, entry.name_offset, place)
            claimed = self.claim("section names", claimed + len(name), place)
            found.append(Section(index, name, place, entry))
        return tuple(found)

    def section(self, name: str) -> Section | None:
        """Return the first section with the name `name`; None if the file has no such section."""
        return next((each for each in self.sections if each.name == name), None)

    def extent(self, section: Section | None) -> tuple[int, int]:
        """Return the offset and the size of a section's bytes in the file; the size is 0 if `section` is None."""
        if section is None or section.header.type == SHT_NOBITS:
            return 0, 0
        header = section.header
        self.inside(f"section {section.name}", header.offset, header.size, section.place)
        return header.offset, header.size

    def contents(self, section: Section | None) -> bytes:
        """Return the bytes of a section; b"" if it has none in the file."""
        start, size = self.extent(section)
        return self.data[start : start + size]

    def name(self, table: SectionHeader, offset: int, place: int) -> str:
        """Return the name at `offset` of a string table; `place` is the offset of the reference, for errors."""
        if not offset and not (self.is_odd and table.type == SHT_STRTAB and table.size):
            return ""
        if table.type != SHT_STRTAB or offset >= table.size:
            raise self.wrong(f"a name at {offset:#x} does not lie in the string table of {table.size:#x} bytes", place)
        self.inside("string table", table.offset, table.size, place)
        start, end = table.offset + offset, table.offset + table.size
        name = self.name_at(start, end)
        if name is not None:
            return name
        if self.is_odd and end - start <= MAX_NAME_BYTES:
            return self.data[start:end].decode("utf-8", "backslashreplace")
        limit = "" if self.is_odd else " that lie in the string table"
        raise self.wrong(f"a name has no terminating 0 in its first {MAX_NAME_BYTES + 1} bytes{limit}", start)

    def table(self, section: Section, record: type[AnyRecord]) -> Iterator[tuple[int, AnyRecord]]:
        """Yield the records of a section with their offsets."""
        header, size = section.header, record.size_bytes
        return self.records(section.name, header.offset, header.size // size, size, record)

    def symbol_table(self, kind: int) -> SymbolTable:
        """Return the symbols of the first symbol table of type `kind`; real files have one of each type."""
        section = next((each for each in self.sections if each.header.type == kind), None)
        if section is None:
            return SymbolTable(self, None, None)
        link = section.header.link
        if link >= len(self.sections):
            text = f"sh_link of {section.name} is {link}, expected the number of a string table"
            raise self.wrong(text, section.place)
        table = SymbolTable(self, section, self.sections[link].header)
        if not table.is_sound():
            claimed = 0
            for symbol in table:
                claimed = self.claim("symbol names", claimed + len(symbol.name), symbol.place)
        return table

    def relocation_table(self, section: Section, symbols: Sequence[Symbol]) -> Iterator[Relocation]:
        """Yield the relocations of a section of type SHT_RELA or SHT_REL.

        Raise a `WireError` if one refers to a missing symbol.
        """
        is_in_place = section.header.type != SHT_RELA
        record: type[RelEntry] | type[RelaEntry] = self.layout.rel if is_in_place else self.layout.rela
        for place, entry in self.table(section, record):
            symbol = NO_SYMBOL
            if entry.symbol or self.is_odd:
                if entry.symbol >= len(symbols):
                    text = f"a relocation refers to symbol {entry.symbol}, but the table has {len(symbols)} symbols"
                    raise self.wrong(text, place)
                symbol = symbols[entry.symbol]
            addend = getattr(entry, "addend", 0)
            yield Relocation(entry.offset, entry.type, symbol, addend, section.header.info, place, is_in_place)

    def notes_in(self, at: int, end: int) -> Iterator[Note]:
        """Yield the notes from offset `at` to `end`; an unreadable note ends the iteration with a warning."""
        while at + 12 <= end:
            name_size, data_size, kind = struct.unpack_from("<3I", self.data, at)
            data_at = at + 12 + (name_size + 3 & ~3)
            if data_at + data_size > end:
                text = f"a note of {name_size} and {data_size} bytes exceeds the end at {end:#x}"
                self.warnings.append(f"{text}, at byte {at:#x}")
                return
            owner = self.data[at + 12 : at + 12 + name_size].split(b"\0")[0].decode("utf-8", "backslashreplace")
            yield Note(owner, kind, self.data[data_at : data_at + data_size], at)
            at = data_at + (data_size + 3 & ~3)
        if any(self.data[at:end]):
            self.warnings.append(f"the {end - at} bytes after the last note are not a note, at byte {at:#x}")
