"""ELF files of AMD GPU objects: numbers of their own, and what is asked of their tables before anything is used.

All tables are read and checked at once, in one order, so that what is wrong first is what is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

from understudy.image.elf.layout import (
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
from understudy.image.elf.reader import ElfFile, Note, Relocation, Section, check_encoding, check_magic, wrong
from understudy.image.hsa.dynamic import DynamicSegment, Span

MACHINES_AMDCL2: Final = {0xAF5A: 32, 0xAF5B: 64}
"""e_machine of AMD OpenCL 2.0 programs, which `image.amdcl2` reads, with the word size of their code."""
PT_HSA_LOAD_CODE_AGENT: Final = 0x6000_0003
PT_HSA_LOADS: Final = (0x6000_0000, 0x6000_0001, 0x6000_0002, PT_HSA_LOAD_CODE_AGENT)
"""What V1 objects have instead of PT_LOAD: program globals, agent globals, read-only data of an agent, code."""
LOADS: Final = (PT_LOAD, *PT_HSA_LOADS)
SHF_HSA_CODE: Final = 0x40_0000
SHF_HSA_AGENT: Final = 0x80_0000
STT_HSA_KERNEL: Final = 10


class HsaElf(ElfFile):
    """An ELF64 file whose tables have been checked.

    `value` of a symbol counts from its section in ET_REL files and V1, else it is an address.
    """

    def __init__(self, data: bytes) -> None:
        check_magic(data)
        super().__init__(data, 64)
        header = self.header
        if header.machine in MACHINES_AMDCL2:
            text = f"e_machine is {header.machine:#x}, that of AMD OpenCL 2.0 programs, which host.amdcl2 runs"
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
        """All sections, those that the dynamic segment describes where their headers were stripped."""
        return (self.named_sections() if self.header.shoff else ()) or tuple(self._dynamic_sections())

    def _segments(self) -> Iterator[ProgramHeader]:
        if self.header.phnum == PN_XNUM:
            raise wrong("e_phnum is 0xffff: more program headers than fit the ELF header, expected fewer", 56)
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
        """Notes of all note sections; of note segments where there are no sections.

        No launch depends on them: one that cannot be read ends its section, with a warning.
        """
        sections = [each for each in self.sections if each.header.type == SHT_NOTE]
        places = [(each.header.offset, each.header.size, each.place) for each in sections]
        if not places:
            head = self.header.phoff
            places = [(each.offset, each.filesz, head) for each in self.segments if each.type == PT_NOTE]
        claimed = 0
        for start, size, place in places:
            end = min(start + size, len(self.data))
            if end < start + size:
                text = f"notes at {start:#x}..{start + size:#x} run over the file's {len(self.data):#x} bytes"
                self.warnings.append(f"{text}, at byte {place:#x}")
            claimed = self.claim("notes", claimed + max(end - start, 0), place)
            yield from self.notes_in(start, end)
