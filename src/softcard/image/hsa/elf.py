"""ELF files of AMD GPU objects: their constants, and checks of their tables before use.

The constructor of `HsaElf` reads and checks all tables in a fixed order, so the first error is always the
same."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from softcard.image.elf.layout import (
    DT_GNU_HASH,
    DT_HASH,
    DT_REL,
    DT_RELA,
    DT_RELASZ,
    DT_RELSZ,
    DT_STRSZ,
    DT_STRTAB,
    DT_SYMTAB,
    ET_DYN,
    ET_EXEC,
    ET_REL,
    MACHINE_AMDGPU,
    PN_XNUM,
    PT_DYNAMIC,
    PT_LOAD,
    PT_NOTE,
    SHF_ALLOC,
    SHT_DYNSYM,
    SHT_NOTE,
    SHT_NULL,
    SHT_REL,
    SHT_RELA,
    SHT_STRTAB,
    SHT_SYMTAB,
    ProgramHeader,
    RelaEntry,
    RelEntry,
    SectionHeader,
    SymbolEntry,
)
from softcard.image.elf.reader import (
    CheckedBytes,
    ElfFile,
    Note,
    Relocation,
    Section,
    check_encoding,
    check_magic,
    wrong,
)

# ---- tables of the dynamic segment -----------------------------------------------------------------------------------
# Tables found through the dynamic segment of a linked file, the only way in a file without section headers.


GNU_HEADER_WORDS: Final = 4


@dataclass(frozen=True, slots=True)
class Span:
    """A file range that is mapped to memory: `size` bytes at `offset`, mapped at `address`.

    All fields are 0 for a table that the file lacks."""

    address: int = 0
    offset: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class DynamicTables:
    """The tables to which a dynamic segment refers."""

    strings: Span
    symbols: Span
    rela: Span
    rel: Span


class DynamicSegment:
    """A reader of the dynamic segment at `where`; `loads` are the segments that map addresses to file offsets."""

    def __init__(self, file: CheckedBytes, where: Span, loads: Sequence[Span]) -> None:
        self.file = file
        self.place = where.offset
        self.loads = loads
        tags = file.dynamic_tags("dynamic segment", where.offset, where.size, where.offset)
        self.tags = {tag: value for tag, (value, _) in tags.items()}

    def tables(self) -> DynamicTables:
        """Return all tables; raise a `WireError` if one does not lie in the file."""
        return DynamicTables(
            strings=self.span("string table", DT_STRTAB, self.tags.get(DT_STRSZ, 0)),
            symbols=self.span("symbol table", DT_SYMTAB, self.symbol_count() * SymbolEntry.size_bytes),
            rela=self.span("relocation table", DT_RELA, self.tags.get(DT_RELASZ, 0)),
            rel=self.span("relocation table", DT_REL, self.tags.get(DT_RELSZ, 0)),
        )

    def span(self, what: str, tag: int, size: int) -> Span:
        """Return the file range of the table to whose address `tag` refers; an empty range without that tag.

        `size` is the size of the table in bytes, and `what` its name in errors.
        """
        if tag not in self.tags or not size:
            return Span()
        address = self.tags[tag]
        return Span(address, self.offset(what, address, size), size)

    def offset(self, what: str, address: int, size: int) -> int:
        """Return the file offset of the `size` bytes at the address `address`.

        `what` names the bytes in errors. Raise `WireError` if the file does not contain them."""
        for load in self.loads:
            if load.address <= address and address + size <= load.address + load.size:
                return address - load.address + load.offset
        raise self.file.wrong(
            f"the dynamic {what} at {address:#x}..{address + size:#x} lies outside of all segments", self.place
        )

    def symbol_count(self) -> int:
        """Return the number of symbols in the dynamic symbol table.

        No tag of the dynamic segment states it, so it is taken from a hash table of the symbols; 0 without one."""
        if DT_HASH in self.tags:
            return self.words(self.tags[DT_HASH], 2)[1]  # as many chains as symbols
        return self.gnu_count(self.tags[DT_GNU_HASH]) if DT_GNU_HASH in self.tags else 0

    def gnu_count(self, address: int) -> int:
        """Return the number of dynamic symbols, found from the GNU hash table at `address`.

        The last chain of the table ends with the last symbol; the last word of a chain is odd."""
        buckets, first_symbol, bloom_words, _ = self.words(address, GNU_HEADER_WORDS)
        buckets_at = address + 4 * GNU_HEADER_WORDS + 8 * bloom_words
        last = max(self.words(buckets_at, buckets), default=0)
        if last < first_symbol:
            return first_symbol
        data = self.file.data
        at = self.offset("hash table", buckets_at + 4 * (buckets + last - first_symbol), 4)
        for more, (word,) in enumerate(struct.iter_unpack("<I", data[at : at + (len(data) - at) // 4 * 4])):
            if word & 1:
                return last + more + 1
        raise self.file.wrong("the last chain of the dynamic hash table does not end", at)

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Return the `count` words of 32 bits at `address`."""
        return struct.unpack_from(f"<{count}I", self.file.data, self.offset("hash table", address, 4 * count))


# ---- files -----------------------------------------------------------------------------------------------------------


MACHINES_AMDCL2: Final = {0xAF5A: 32, 0xAF5B: 64}
"""The e_machine values of AMD OpenCL 2.0 programs (see `image.amdcl2`), with the word size of their code."""
PT_HSA_LOAD_CODE_AGENT: Final = 0x6000_0003
PT_HSA_LOADS: Final = (0x6000_0000, 0x6000_0001, 0x6000_0002, PT_HSA_LOAD_CODE_AGENT)
"""The types of loaded segments in V1 objects, which have no PT_LOAD segments.

They are, in this order: program globals, agent globals, read-only data of an agent, and code.
"""
LOADS: Final = (PT_LOAD, *PT_HSA_LOADS)
SHF_HSA_CODE: Final = 0x40_0000
SHF_HSA_AGENT: Final = 0x80_0000
STT_HSA_KERNEL: Final = 10


class HsaElf(ElfFile):
    """An ELF64 file of AMD GPU code whose tables have been checked.

    The `value` of a symbol is relative to its section in ET_REL files and V1 objects; in others it is an address.
    """

    def __init__(self, data: bytes) -> None:
        check_magic(data)
        super().__init__(data, 64)
        header = self.header
        if header.machine in MACHINES_AMDCL2:
            text = f"e_machine is {header.machine:#x}, that of AMD OpenCL 2.0 programs: open them with softcard.amdcl2"
            raise wrong(f"{text}: expected {MACHINE_AMDGPU} (AMD GPU)", 18)
        if header.file_class != 2:
            raise wrong(f"EI_CLASS is {header.file_class:#x}, expected 2 (64-bit)", 4)
        check_encoding(header.data_encoding)
        if header.machine != MACHINE_AMDGPU:
            raise wrong(f"e_machine is {header.machine}, expected {MACHINE_AMDGPU} (AMD GPU)", 18)
        if header.type not in (ET_REL, ET_EXEC, ET_DYN):
            raise wrong(f"e_type is {header.type}, expected 1 (relocatable), 2 (executable) or 3 (shared)", 16)
        self.segments = tuple(self._segments())
        _ = self.sections
        self.symbols = self.symbol_table(SHT_SYMTAB)
        self.dynamic_symbols = self.symbol_table(SHT_DYNSYM)
        self.relocations = tuple(self._relocations())
        self.notes = tuple(self._notes())

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """All sections; in a stripped file, sections made from the dynamic segment's tables."""
        return (self.named_sections() if self.header.shoff else ()) or tuple(self._dynamic_sections())

    def _segments(self) -> Iterator[ProgramHeader]:
        if self.header.phnum == PN_XNUM:
            raise wrong("e_phnum is 0xffff (PN_XNUM), expected a number of program headers that fits e_phnum", 56)
        claimed = 0
        for place, entry in self.program_headers():
            if entry.type in LOADS:
                self.inside("segment", entry.offset, entry.filesz, place)
                if entry.filesz > entry.memsz:
                    raise wrong(f"segment has p_filesz {entry.filesz:#x} above its p_memsz {entry.memsz:#x}", place)
                claimed = self.claim("segments", claimed + entry.filesz, place)
            yield entry

    def _dynamic_sections(self) -> Iterator[Section]:
        spans = {kind: [Span(each.vaddr, each.offset, each.filesz) for each in self.segments if each.type == kind]
                 for kind in (PT_LOAD, PT_DYNAMIC)}  # fmt: skip
        for where in spans[PT_DYNAMIC][:1]:
            tables = DynamicSegment(self, where, spans[PT_LOAD]).tables()
            rows = (
                ("", SHT_NULL, Span(), 0, 0),
                (".dynstr", SHT_STRTAB, tables.strings, 0, 0),
                (".dynsym", SHT_DYNSYM, tables.symbols, 1, SymbolEntry.size_bytes),
                (".rela.dyn", SHT_RELA, tables.rela, 2, RelaEntry.size_bytes),
                (".rel.dyn", SHT_REL, tables.rel, 2, RelEntry.size_bytes),
            )
            for index, (name, kind, span, link, entry) in enumerate(rows):
                header = SectionHeader(
                    name_offset=0, type=kind, flags=SHF_ALLOC if index else 0, addr=span.address, offset=span.offset,
                    size=span.size, link=link, info=0, addralign=1, entsize=entry,
                )  # fmt: skip
                yield Section(index, name, where.offset, header)

    def _relocations(self) -> Iterator[Relocation]:
        claimed = 0
        for section in self.sections:
            header = section.header
            if header.type in (SHT_REL, SHT_RELA):
                claimed = self.claim("relocations", claimed + header.size, section.place)
                kind = self.sections[header.link].header.type if header.link < len(self.sections) else 0
                symbols = {SHT_SYMTAB: self.symbols, SHT_DYNSYM: self.dynamic_symbols}.get(kind, ())
                yield from self.relocation_table(section, symbols)

    def _notes(self) -> Iterator[Note]:
        """Yield the notes of all note sections, or of note segments in files without note sections.

        An unreadable note causes a warning, and the rest of its section is ignored; launches do not depend on
        notes."""
        sections = [each for each in self.sections if each.header.type == SHT_NOTE]
        places = [(each.header.offset, each.header.size, each.place) for each in sections]
        if not places:
            head = self.header.phoff
            places = [(each.offset, each.filesz, head) for each in self.segments if each.type == PT_NOTE]
        claimed = 0
        for start, size, place in places:
            end = min(start + size, len(self.data))
            if end < start + size:
                text = f"notes at {start:#x}..{start + size:#x} exceed the file's {len(self.data):#x} bytes"
                self.warnings.append(f"{text}, at byte {place:#x}")
            claimed = self.claim("notes", claimed + max(end - start, 0), place)
            yield from self.notes_in(start, end)
