"""ELF files of RISC-V kernels: their segments and symbols, and the visibility of symbols.

The rules are those of the RefSi driver's loader:

- Files are little-endian RISC-V files of either class.
- PT_LOAD segments with a memory size above zero are placed at their *virtual* address, and filled with zeros from file
  size to memory size. Flags and physical addresses do not matter.
- Kernels are found by symbol name, for which ``.symtab`` and ``.strtab`` are necessary.

Kinds of files, and relocations, are handled in `image.riscv.kind`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from softcard.core.errors import WireError, close_to
from softcard.image.elf.layout import (
    MACHINE_RISCV,
    PN_XNUM,
    PT_DYNAMIC,
    PT_LOAD,
    PT_TLS,
    SHN_UNDEF,
    SHT_STRTAB,
    SHT_SYMTAB,
    STT_FILE,
    STT_FUNC,
    STT_SECTION,
    ProgramHeader,
    SectionHeader,
    SymbolEntry,
    layout_of,
)
from softcard.image.elf.reader import MAX_NAME_BYTES, ElfFile, check_encoding, check_magic, wrong

HIDDEN: Final = (1, 2)
"""The visibilities STV_INTERNAL and STV_HIDDEN; other files cannot refer to a symbol that has one of them."""
MAX_SEGMENT_BYTES: Final = 1 << 32
"""The largest accepted p_memsz, and also the largest sum of all p_memsz in a file.

No modelled device has more memory.
"""


@dataclass(frozen=True, slots=True)
class Segment:
    """A PT_LOAD segment: `data` is placed at `address`, followed by zeros up to `memory_size` bytes.

    `flags` are PF_X, PF_W and PF_R; `offset` is the segment's offset in the file.
    """

    address: int
    data: bytes
    memory_size: int
    flags: int
    offset: int = 0

    @property
    def end(self) -> int:
        """The first address past the end of the segment."""
        return self.address + self.memory_size


@dataclass(frozen=True, slots=True)
class Symbol:
    """A defined symbol. `kind` is its STT_ number (2 is a function).

    `is_global` is True for global and weak symbols, unless they are hidden.
    """

    name: str
    address: int
    size: int
    kind: int
    is_global: bool


@dataclass(frozen=True)
class ElfImage:
    """The facts in an ELF file that a loader needs. `symbols` is None if the file is stripped.

    `kind` is e_type. `dynamic` describes the first PT_DYNAMIC segment, unchecked, by the offset of its program header,
    its file offset, and its size in the file; see `image.riscv.kind`. `headers_at` is the address of the program
    headers in memory, or 0 if no segment contains them, and `num_headers` is their number.
    """

    machine: int
    bits: int
    entry: int
    segments: tuple[Segment, ...]
    symbols: Mapping[str, Symbol] | None = field(repr=False)
    kind: int = 2
    dynamic: tuple[int, int, int] | None = None
    headers_at: int = 0
    num_headers: int = 0

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of all global symbols in executable segments.

        Symbols that linkers define (without a type, or beginning with ``__``) are left out.
        """
        code = [segment for segment in self.segments if segment.flags & 1]
        return tuple(
            name
            for name, symbol in (self.symbols or {}).items()
            if symbol.is_global and (symbol.kind == STT_FUNC or not name.startswith("__"))
            if any(segment.address <= symbol.address < segment.end for segment in code)
        )

    def symbol(self, name: str) -> Symbol:
        """Return the symbol called `name`; raise `WireError` if there is none.

        The error message lists similar names, or reports that the file is stripped."""
        if self.symbols is None:
            raise WireError(
                f"the ELF file has no symbol table (stripped), expected .symtab and .strtab to look up {name!r}"
            )
        found = self.symbols.get(name)
        if found is None:
            hint = close_to(name, self.symbols)
            raise WireError(f"the ELF file has no symbol {name!r} among its {len(self.symbols)}{hint}")
        return found

    def name_at(self, address: int) -> str:
        """Return an address in a loaded segment as symbol and offset, such as ``k_vecadd+0x1c``.

        Return "" if no symbol precedes the address.
        """
        name, start = self.before(address)
        return name + (f"+{address - start:#x}" if name and address > start else "")

    def before(self, address: int) -> tuple[str, int]:
        """Return the name and address of the last global symbol at or before an address.

        Return ("", 0) if there is none, or if the address is not in a loaded segment."""
        if not any(segment.address <= address < segment.end for segment in self.segments):
            return "", 0
        addresses, names = self._by_address
        index = bisect_right(addresses, address) - 1
        return (names[index], addresses[index]) if index >= 0 else ("", 0)

    def read(self, address: int, size: int) -> bytes:
        """Return up to `size` bytes that the file has for `address`.

        The result is shorter if the segment's bytes in the file end earlier, and empty outside of all segments."""
        for segment in self.segments:
            if segment.address <= address < segment.end:
                return segment.data[address - segment.address :][:size]
        return b""

    @cached_property
    def _by_address(self) -> tuple[list[int], list[str]]:
        # Locals are left out: assemblers fill them with mapping symbols such as $x.
        best: dict[int, str] = {}
        for symbol in (self.symbols or {}).values():
            if symbol.is_global:
                best.setdefault(symbol.address, symbol.name)
        order = sorted(best)
        return order, [best[address] for address in order]


def read_elf(data: bytes) -> ElfImage:
    """Return the ELF image in `data`, the bytes of a RISC-V ELF file.

    Raise `WireError` with the byte offset of the first error. A file without symbol table is accepted; looking up a
    symbol in it fails.
    """
    elf = _opened(data)
    header = elf.header
    if header.machine != MACHINE_RISCV:
        raise wrong(f"e_machine is {header.machine}, expected {MACHINE_RISCV} (RISC-V)", 18)
    if header.phnum == PN_XNUM:
        raise wrong("e_phnum is 0xffff (PN_XNUM), expected a number of program headers that fits e_phnum", 16)
    headers = list(elf.program_headers()) if header.phnum else []
    segments = tuple(_segments(elf, headers))
    dynamic = next((each for each in headers if each[1].type == PT_DYNAMIC), None)
    where = (dynamic[0], dynamic[1].offset, dynamic[1].filesz) if dynamic else None
    at = next((s.address + header.phoff - s.offset for s in segments if 0 <= header.phoff - s.offset < len(s.data)), 0)
    symbols = _symbols(elf)
    return ElfImage(header.machine, elf.bits, header.entry, segments, symbols, header.type, where, at, len(headers))


def _opened(data: bytes) -> ElfFile:
    check_magic(data)
    if len(data) < 16:
        raise wrong(f"file ends inside e_ident, after {len(data)} of 16 bytes", len(data))
    if data[4] not in (1, 2):
        raise wrong(f"EI_CLASS is {data[4]:#x}, expected 1 (32-bit) or 2 (64-bit)", 4)
    check_encoding(data[5])
    size = layout_of(32 * data[4]).header.size_bytes
    if len(data) < size:
        raise wrong(f"file ends inside the ELF header, after {len(data)} of {size} bytes", len(data))
    return ElfFile(data, 32 * data[4])


def _segments(elf: ElfFile, headers: list[tuple[int, ProgramHeader]]) -> Iterator[Segment]:
    claimed = memory = 0
    for place, entry in headers:
        size = entry.memsz
        if entry.type != PT_LOAD or size == 0:
            continue
        if entry.filesz > size:
            raise wrong(f"segment has p_filesz {entry.filesz:#x} above its p_memsz {size:#x}", place)
        if size > MAX_SEGMENT_BYTES:
            raise wrong(f"segment has p_memsz {size:#x}, expected at most {MAX_SEGMENT_BYTES:#x}", place)
        memory += size
        if memory > MAX_SEGMENT_BYTES:
            limit = f"at most {MAX_SEGMENT_BYTES:#x}"
            raise wrong(f"segments up to here claim {memory:#x} bytes of memory, expected {limit}", place)
        if entry.vaddr + size > 1 << elf.bits:
            raise wrong(f"the segment at {entry.vaddr:#x} with p_memsz {size:#x} exceeds the address space", place)
        elf.inside("segment", entry.offset, entry.filesz, place)
        claimed = elf.claim("segments", claimed + entry.filesz, place)
        data = elf.data[entry.offset : entry.offset + entry.filesz]
        yield Segment(entry.vaddr, data, size, entry.flags, entry.offset)


def _symbols(elf: ElfFile) -> Mapping[str, Symbol] | None:
    sections = elf.section_headers() if elf.header.shoff and elf.header.shnum else []
    at, table = next(((place, each) for place, each in sections if each.type == SHT_SYMTAB), (0, None))
    if table is None:
        return None
    if table.link >= len(sections) or sections[table.link][1].type != SHT_STRTAB:
        raise wrong(f"sh_link of .symtab is {table.link}, expected the number of a string table", at)
    record = elf.layout.symbol
    if table.entsize != record.size_bytes:
        raise wrong(f"sh_entsize of .symtab is {table.entsize:#x}, expected {record.size_bytes:#x}", at)
    strings_at, strings = sections[table.link]
    elf.inside(".symtab", table.offset, table.size, at)
    elf.inside(".strtab", strings.offset, strings.size, strings_at)
    symbols: dict[str, Symbol] = {}
    claimed = 0
    count = table.size // record.size_bytes
    for place, entry in elf.records(".symtab", table.offset, count, record.size_bytes, record):
        symbol = _symbol(elf, entry, place, strings)
        if symbol is None:
            continue
        claimed = elf.claim("symbol names", claimed + len(symbol.name), place)
        # The first definition wins, but a global one beats a local one.
        known = symbols.get(symbol.name)
        if known is None or (symbol.is_global and not known.is_global):
            symbols[symbol.name] = symbol
    return symbols


def _symbol(elf: ElfFile, entry: SymbolEntry, place: int, strings: SectionHeader) -> Symbol | None:
    kind, offset = entry.info & 15, entry.name_offset
    if offset == 0 or entry.section == SHN_UNDEF or kind in (STT_SECTION, STT_FILE):
        return None
    if offset >= strings.size:
        raise wrong(f"st_name is {offset:#x}, expected an offset below the {strings.size:#x} bytes of .strtab", place)
    start, end = strings.offset + offset, strings.offset + strings.size
    name = elf.name_at(start, end)
    if name is None:
        raise wrong(f"symbol name does not end within .strtab and {MAX_NAME_BYTES} bytes", start)
    return Symbol(name, entry.value, entry.size, kind, entry.info >> 4 != 0 and entry.other & 3 not in HIDDEN)


# ---- linked programs -------------------------------------------------------------------------------------------------
# Facts and changes of linked programs: visibility of symbols, thread-local memory.


STV_HIDDEN: Final = 2
"""The symbol visibility STV_HIDDEN."""
OTHER: Final = 5
"""The offset of the byte st_other in a symbol table entry."""


def hidden_but(linked: bytes, part: bytes) -> bytes:
    """Return a linked 64-bit program with all global symbols hidden, except those that `part` defines.

    `part` is the bytes of an object file.
    """
    mine = {each.name for each in ElfFile(part, 64).symbol_table(SHT_SYMTAB) if each.is_global and each.is_defined}
    made = bytearray(linked)
    for symbol in ElfFile(linked, 64).symbol_table(SHT_SYMTAB):
        if symbol.is_global and symbol.is_defined and symbol.name not in mine:
            made[symbol.place + OTHER] = symbol.other & ~3 | STV_HIDDEN
    return bytes(made)


def thread_local_bytes(linked: bytes) -> int:
    """Return the size in bytes of the thread-local memory that each thread of a 64-bit program needs."""
    return sum(header.memsz for _, header in ElfFile(linked, 64).program_headers() if header.type == PT_TLS)
