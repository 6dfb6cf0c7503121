"""ELF64 files as far as AMD GPU objects need them: segments, sections, symbols, relocations, notes.

Read by hand with records rather than through a library, for the reasons that `image.elf` gives. (An ELF library is the
oracle of the tests.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from understudy.core.record import Record, i64, raw, reserved, u8, u16, u32, u64
from understudy.image.elf.checked_bytes import MAX_NAME_BYTES, ElfBytes, check_magic, wrong
from understudy.image.hsa.dynamic import DynamicSegment, Span

MACHINE_AMDGPU: Final = 224
MACHINES_AMDCL2: Final = {0xAF5A: 32, 0xAF5B: 64}
"""e_machine of AMD OpenCL 2.0 programs, which `image.amdcl2` reads, with the word size of their code."""
ET_REL: Final = 1
ET_EXEC: Final = 2
ET_DYN: Final = 3
PT_LOAD: Final = 1
PT_DYNAMIC: Final = 2
PT_NOTE: Final = 4
PT_HSA_LOAD_CODE_AGENT: Final = 0x6000_0003
PT_HSA_LOADS: Final = (0x6000_0000, 0x6000_0001, 0x6000_0002, PT_HSA_LOAD_CODE_AGENT)
"""What V1 objects have instead of PT_LOAD: program globals, agent globals, read-only data of an agent, code."""
LOADS: Final = (PT_LOAD, *PT_HSA_LOADS)
PF_X: Final = 1
PF_W: Final = 2
SHT_NULL: Final = 0
SHT_PROGBITS: Final = 1
SHT_SYMTAB: Final = 2
SHT_STRTAB: Final = 3
SHT_RELA: Final = 4
SHT_NOTE: Final = 7
SHT_NOBITS: Final = 8
SHT_REL: Final = 9
SHT_DYNSYM: Final = 11
SHF_WRITE: Final = 1
SHF_ALLOC: Final = 2
SHF_EXECINSTR: Final = 4
SHF_HSA_CODE: Final = 0x40_0000
SHF_HSA_AGENT: Final = 0x80_0000
SHN_UNDEF: Final = 0
SHN_ABS: Final = 0xFFF1
SHN_COMMON: Final = 0xFFF2
STT_OBJECT: Final = 1
STT_FUNC: Final = 2
STT_SECTION: Final = 3
STT_FILE: Final = 4
STT_HSA_KERNEL: Final = 10
PN_XNUM: Final = 0xFFFF


class FileHeader(Record, size=64):
    """Elf64_Ehdr."""

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
    entry: int = u64()
    phoff: int = u64()
    shoff: int = u64()
    flags: int = u32()
    ehsize: int = u16()
    phentsize: int = u16()
    phnum: int = u16()
    shentsize: int = u16()
    shnum: int = u16()
    shstrndx: int = u16()


class ProgramHeader(Record, size=56):
    """Elf64_Phdr."""

    type: int = u32()
    flags: int = u32()
    offset: int = u64()
    vaddr: int = u64()
    paddr: int = u64()
    filesz: int = u64()
    memsz: int = u64()
    align: int = u64()


class SectionHeader(Record, size=64):
    """Elf64_Shdr."""

    name_offset: int = u32()
    type: int = u32()
    flags: int = u64()
    addr: int = u64()
    offset: int = u64()
    size: int = u64()
    link: int = u32()
    info: int = u32()
    addralign: int = u64()
    entsize: int = u64()


class SymbolEntry(Record, size=24):
    """Elf64_Sym."""

    name_offset: int = u32()
    info: int = u8()
    other: int = u8()
    section: int = u16()
    value: int = u64()
    size: int = u64()


class RelEntry(Record, size=16):
    """Elf64_Rel: the addend stands in the bytes that are relocated."""

    offset: int = u64()
    type: int = u32()
    symbol: int = u32()


class RelaEntry(Record, size=24):
    """Elf64_Rela."""

    offset: int = u64()
    type: int = u32()
    symbol: int = u32()
    addend: int = i64()


@dataclass(frozen=True, slots=True)
class Section:
    """A section. `place` is the byte of its header, for messages."""

    index: int
    name: str
    place: int
    header: SectionHeader


@dataclass(frozen=True, slots=True)
class Symbol:
    """An entry of a symbol table. `value` counts from its section in ET_REL files and V1, else it is an address."""

    name: str
    value: int
    size: int
    kind: int
    binding: int
    visibility: int
    section: int
    place: int

    @property
    def is_defined(self) -> bool:
        """Whether the file says where it is."""
        return self.section != SHN_UNDEF

    @property
    def is_global(self) -> bool:
        """Global or weak."""
        return self.binding != 0

    @property
    def is_weak(self) -> bool:
        """May stay undefined: its address is then 0."""
        return self.binding == 2


@dataclass(frozen=True, slots=True)
class Relocation:
    """One entry of a relocation table. `addend` None: it stands in place. `section`: what is relocated, or 0."""

    offset: int
    type: int
    symbol: Symbol | None
    addend: int | None
    section: int
    place: int


@dataclass(frozen=True, slots=True)
class Note:
    """An entry of a note section or segment."""

    owner: str
    type: int
    data: bytes
    place: int


class ElfFile(ElfBytes):
    """An ELF64 file whose tables have been checked. `warnings` tells of notes that cannot be read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        check_magic(data)
        self.header = header = FileHeader.parse(data)
        if header.machine in MACHINES_AMDCL2:
            text = f"e_machine is {header.machine:#x}, that of AMD OpenCL 2.0 programs, which host.amdcl2 runs"
            raise wrong(f"{text}: expected {MACHINE_AMDGPU} (AMD GPU)", 18)
        if header.file_class != 2:
            raise wrong(f"EI_CLASS is {header.file_class:#x}, expected 2 (64-bit)", 4)
        if header.data_encoding != 1:
            raise wrong(f"EI_DATA is {header.data_encoding:#x}, expected 1 (little-endian)", 5)
        if header.machine != MACHINE_AMDGPU:
            raise wrong(f"e_machine is {header.machine}, expected {MACHINE_AMDGPU} (AMD GPU)", 18)
        if header.type not in (ET_REL, ET_EXEC, ET_DYN):
            raise wrong(f"e_type is {header.type}, expected 1 (relocatable), 2 (executable) or 3 (shared)", 16)
        self.segments = tuple(self._segments())
        self.warnings: list[str] = []
        self.sections = tuple(self._sections()) or tuple(self._dynamic_sections())
        self.symbols = self._table(SHT_SYMTAB)
        self.dynamic_symbols = self._table(SHT_DYNSYM)
        self.relocations = tuple(self._relocations())
        self.notes = tuple(self._notes())

    def contents(self, section: Section) -> bytes:
        """The bytes of a section that has some in the file."""
        header = section.header
        if header.type == SHT_NOBITS:
            return b""
        self.inside(f"section {section.name}", header.offset, header.size, section.place)
        return self.data[header.offset : header.offset + header.size]

    def _segments(self) -> Iterator[ProgramHeader]:
        header = self.header
        if header.phnum == PN_XNUM:
            raise wrong("e_phnum is 0xffff: more program headers than fit the ELF header, expected fewer", 56)
        entries = self.records("program header table", header.phoff, header.phnum, header.phentsize, ProgramHeader)
        claimed = 0
        for number, entry in enumerate(entries):
            place = header.phoff + number * header.phentsize
            if entry.type in LOADS:
                self.inside("segment", entry.offset, entry.filesz, place)
                if entry.filesz > entry.memsz:
                    raise wrong(f"segment has p_filesz {entry.filesz:#x} above its p_memsz {entry.memsz:#x}", place)
                claimed += entry.filesz
                self.claim("segments", claimed, place)
            yield entry

    def _sections(self) -> Iterator[Section]:
        header = self.header
        if not header.shoff:
            return
        entries = self.records("section header table", header.shoff, header.shnum, header.shentsize, SectionHeader)
        headers = list(entries)
        names = headers[header.shstrndx] if header.shstrndx < len(headers) else None
        claimed = 0
        for index, entry in enumerate(headers):
            place = header.shoff + index * header.shentsize
            name = self._name(names, entry.name_offset, place) if names is not None else ""
            claimed += len(name)
            self.claim("section names", claimed, place)
            yield Section(index, name, place, entry)

    def _dynamic_sections(self) -> Iterator[Section]:
        """Sections as the dynamic segment describes them, where their headers were stripped."""
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

    def _name(self, table: SectionHeader, offset: int, place: int) -> str:
        if not offset:
            return ""
        if table.type != SHT_STRTAB or offset >= table.size:
            raise wrong(f"a name at {offset:#x} does not lie in the string table of {table.size:#x} bytes", place)
        self.inside("string table", table.offset, table.size, place)
        start = table.offset + offset
        name = self.name_at(start, table.offset + table.size)
        if name is None:
            raise wrong(f"a name does not end within its string table and {MAX_NAME_BYTES} bytes", start)
        return name

    def _table(self, kind: int) -> tuple[Symbol, ...]:
        """The symbols of the first table of a kind; real files have one of each."""
        section = next((each for each in self.sections if each.header.type == kind), None)
        if section is None:
            return ()
        header = section.header
        if header.link >= len(self.sections):
            raise wrong(f"sh_link of {section.name} is {header.link}, expected a string table", section.place)
        names = self.sections[header.link].header
        count = header.size // SymbolEntry.size_bytes
        entries = self.records(section.name, header.offset, count, SymbolEntry.size_bytes, SymbolEntry)
        found, claimed = [], 0
        for number, entry in enumerate(entries):
            place = header.offset + number * SymbolEntry.size_bytes
            name = self._name(names, entry.name_offset, place)
            claimed += len(name)
            self.claim("symbol names", claimed, place)
            kind_, binding = entry.info & 15, entry.info >> 4
            visible = entry.other & 3
            found.append(Symbol(name, entry.value, entry.size, kind_, binding, visible, entry.section, place))
        return tuple(found)

    def _relocations(self) -> Iterator[Relocation]:
        claimed = 0
        for section in self.sections:
            header = section.header
            if header.type not in (SHT_REL, SHT_RELA):
                continue
            record: type[RelEntry] | type[RelaEntry] = RelaEntry if header.type == SHT_RELA else RelEntry
            claimed += header.size
            self.claim("relocations", claimed, section.place)
            symbols = self._linked_symbols(section)
            count = header.size // record.size_bytes
            table = self.records(section.name, header.offset, count, record.size_bytes, record)
            for number, entry in enumerate(table):
                place = header.offset + number * record.size_bytes
                if entry.symbol >= len(symbols) and entry.symbol:
                    raise wrong(f"relocation names symbol {entry.symbol} of {len(symbols)}", place)
                symbol = symbols[entry.symbol] if entry.symbol else None
                addend = entry.addend if isinstance(entry, RelaEntry) else None
                yield Relocation(entry.offset, entry.type, symbol, addend, header.info, place)

    def _linked_symbols(self, section: Section) -> tuple[Symbol, ...]:
        link = section.header.link
        kind = self.sections[link].header.type if link < len(self.sections) else 0
        return {SHT_SYMTAB: self.symbols, SHT_DYNSYM: self.dynamic_symbols}.get(kind, ())

    def _notes(self) -> Iterator[Note]:
        """Notes of all note sections; of note segments where there are no sections.

        No launch depends on them: one that cannot be read ends its section, with a warning.
        """
        places = [(each.header.offset, each.header.size, each.place) for each in self.sections if _is_note(each)]
        if not places:
            head = self.header.phoff
            places = [(each.offset, each.filesz, head) for each in self.segments if each.type == PT_NOTE]
        claimed = 0
        for start, size, place in places:
            end = min(start + size, len(self.data))
            if end < start + size:
                text = f"notes at {start:#x}..{start + size:#x} run over the file's {len(self.data):#x} bytes"
                self.warnings.append(f"{text}, at byte {place:#x}")
            claimed += max(end - start, 0)
            self.claim("notes", claimed, place)
            yield from self._notes_in(start, end)

    def _notes_in(self, at: int, end: int) -> Iterator[Note]:
        while at + 12 <= end:
            name_size, data_size, kind = (int.from_bytes(self.data[at + n : at + n + 4], "little") for n in (0, 4, 8))
            data_at = at + 12 + (name_size + 3 & ~3)
            if data_at + data_size > end:
                text = f"note of {name_size} and {data_size} bytes runs over the end at {end:#x}"
                self.warnings.append(f"{text}, at byte {at:#x}")
                return
            owner = self.data[at + 12 : at + 12 + name_size].split(b"\0")[0].decode("utf-8", "backslashreplace")
            yield Note(owner, kind, self.data[data_at : data_at + data_size], at)
            at = data_at + (data_size + 3 & ~3)
        if any(self.data[at:end]):
            self.warnings.append(f"{end - at} bytes behind the last note are no note, at byte {at:#x}")


def _is_note(section: Section) -> bool:
    return section.header.type == SHT_NOTE
