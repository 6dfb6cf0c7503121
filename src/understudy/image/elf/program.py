"""ELF files of RISC-V kernels: what is loaded where, and under which name.

Read by hand rather than through a library, because these bytes come from outside: every length and offset is
checked against the file before it is used, nothing is allocated on a header's word, no work grows faster than the
file, and every refusal is a `WireError` that names the byte. (An ELF library is the oracle of the tests.)

The rules are those of the RefSi driver's loader: little-endian RISC-V files of either class; PT_LOAD segments with a
memory size above zero go to their *virtual* address, zero-filled from file size to memory size; flags and physical
addresses do not matter; kernels are found by symbol name, which needs ``.symtab`` and ``.strtab``. The type of file and
relocations are the matter of `image.elf_kind`.
"""

from __future__ import annotations

import difflib
import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from understudy.core.errors import WireError
from understudy.image.elf.checked_bytes import MAX_NAME_BYTES, ElfBytes, check_magic, wrong

MACHINE_RISCV: Final = 243
MAX_SEGMENT_BYTES: Final = 1 << 32
"""Largest p_memsz that is believed, and largest sum of all of them; no device of ours has more memory."""

PT_LOAD: Final = 1
PT_DYNAMIC: Final = 2
SHT_SYMTAB: Final = 2
SHT_STRTAB: Final = 3
STT_SECTION: Final = 3
STT_FILE: Final = 4
SHN_UNDEF: Final = 0
PN_XNUM: Final = 0xFFFF


@dataclass(frozen=True, slots=True)
class Segment:
    """A PT_LOAD segment: `data` goes to `address`, zeros follow up to `memory_size` bytes. `flags` are PF_X|W|R and
    `offset` is where the file has it."""

    address: int
    data: bytes
    memory_size: int
    flags: int
    offset: int = 0

    @property
    def end(self) -> int:
        """First address behind the segment."""
        return self.address + self.memory_size


@dataclass(frozen=True, slots=True)
class Symbol:
    """A defined symbol. `kind` is its STT_ number (2 is a function), `is_global` also for weak ones."""

    name: str
    address: int
    size: int
    kind: int
    is_global: bool


@dataclass(frozen=True)
class ElfImage:
    """What a loader needs of an ELF file. `symbols` is None where the file has no symbol table (stripped).

    `kind` is e_type; `dynamic` is the first PT_DYNAMIC segment as (byte of its header, file offset, size in the file),
    which nobody has checked. See `image.elf_kind`.
    """

    machine: int
    bits: int
    entry: int
    segments: tuple[Segment, ...]
    symbols: Mapping[str, Symbol] | None = field(repr=False)
    kind: int = 2
    dynamic: tuple[int, int, int] | None = None

    def symbol(self, name: str) -> Symbol:
        """The symbol called `name`; a `WireError` that says whether the file is stripped or what is near."""
        if self.symbols is None:
            raise WireError(
                f"ELF file has no symbol table (stripped), expected .symtab and .strtab to look up {name!r}"
            )
        found = self.symbols.get(name)
        if found is None:
            near = difflib.get_close_matches(name, self.symbols, n=3)
            hint = f"; close to it: {', '.join(near)}" if near else ""
            raise WireError(f"ELF file has no symbol {name!r} among its {len(self.symbols)}{hint}")
        return found

    def name_at(self, address: int) -> str:
        """``k_vecadd+0x1c`` for an address inside a loaded segment, or '' where no symbol precedes it."""
        name, start = self.before(address)
        return name + (f"+{address - start:#x}" if name and address > start else "")

    def before(self, address: int) -> tuple[str, int]:
        """The last global symbol at or before an address inside a loaded segment, and its address; ("", 0) if none."""
        if not any(segment.address <= address < segment.end for segment in self.segments):
            return "", 0
        addresses, names = self._by_address
        index = bisect_right(addresses, address) - 1
        return (names[index], addresses[index]) if index >= 0 else ("", 0)

    def read(self, address: int, size: int) -> bytes:
        """Bytes of a loaded segment as the file has them, fewer than `size` where it ends."""
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
    """Read a RISC-V ELF file held in memory.

    Raises `WireError` with the byte offset of the first thing that is wrong. A file without symbol table is
    accepted; asking it for a symbol is what fails.
    """
    layout = _Layout.of(data)
    header = layout.header
    if header.machine != MACHINE_RISCV:
        raise wrong(f"e_machine is {header.machine}, expected {MACHINE_RISCV} (RISC-V)", 18)
    segments = tuple(_segments(layout))
    return ElfImage(
        header.machine, layout.bits, header.entry, segments, _symbols(layout), header.kind, _dynamic(layout)
    )


@dataclass(frozen=True, slots=True)
class _Header:
    machine: int
    entry: int
    phoff: int
    shoff: int
    phentsize: int
    phnum: int
    shentsize: int
    shnum: int
    kind: int


@dataclass(frozen=True, slots=True)
class _Section:
    offset: int  # of the header itself, for messages
    type: int
    start: int
    size: int
    link: int
    entry_size: int


# Header, program header, section header and symbol of ELF32 and ELF64, all little-endian.
_FORMATS: Final = {
    32: (struct.Struct("<HHIIIIIHHHHHH"), struct.Struct("<8I"), struct.Struct("<10I"), struct.Struct("<IIIBBH")),
    64: (
        struct.Struct("<HHIQQQIHHHHHH"),
        struct.Struct("<IIQQQQQQ"),
        struct.Struct("<IIQQQQIIQQ"),
        struct.Struct("<IBBHQQ"),
    ),
}


class _Layout(ElfBytes):
    """A file with its class known: unpacks records with their bounds checked."""

    def __init__(self, data: bytes, bits: int, header: _Header) -> None:
        super().__init__(data)
        self.bits = bits
        self.header = header

    @classmethod
    def of(cls, data: bytes) -> _Layout:
        check_magic(data)
        if len(data) < 16:
            raise wrong(f"file ends inside e_ident, after {len(data)} of 16 bytes", len(data))
        if data[4] not in (1, 2):
            raise wrong(f"EI_CLASS is {data[4]:#x}, expected 1 (32-bit) or 2 (64-bit)", 4)
        if data[5] != 1:
            raise wrong(f"EI_DATA is {data[5]:#x}, expected 1 (little-endian)", 5)
        bits = 32 * data[4]
        form = _FORMATS[bits][0]
        if len(data) < 16 + form.size:
            raise wrong(f"file ends inside the ELF header, after {len(data)} of {16 + form.size} bytes", len(data))
        kind, machine, _, entry, phoff, shoff, _, _, phentsize, phnum, shentsize, shnum, _ = form.unpack_from(data, 16)
        return cls(data, bits, _Header(machine, entry, phoff, shoff, phentsize, phnum, shentsize, shnum, kind))

    def table(self, what: str, start: int, count: int, entry_size: int, form: struct.Struct) -> range:
        """Offsets of the entries of a header table, which must lie in the file as a whole."""
        return self.entries(what, start, count, entry_size, form.size) if count else range(0)


def _segments(layout: _Layout) -> Iterator[Segment]:
    header = layout.header
    if header.phnum == PN_XNUM:
        raise wrong("e_phnum is 0xffff: more program headers than fit the ELF header, expected fewer", 16)
    form = _FORMATS[layout.bits][1]
    claimed = memory = 0
    for place in layout.table("program header table", header.phoff, header.phnum, header.phentsize, form):
        if layout.bits == 64:
            kind, flags, start, address, _, file_size, memory_size, _ = form.unpack_from(layout.data, place)
        else:
            kind, start, address, _, file_size, memory_size, flags, _ = form.unpack_from(layout.data, place)
        if kind != PT_LOAD or memory_size == 0:
            continue
        if file_size > memory_size:
            raise wrong(f"segment has p_filesz {file_size:#x} above its p_memsz {memory_size:#x}", place)
        if memory_size > MAX_SEGMENT_BYTES:
            raise wrong(f"segment has p_memsz {memory_size:#x}, expected at most {MAX_SEGMENT_BYTES:#x}", place)
        memory += memory_size
        if memory > MAX_SEGMENT_BYTES:
            limit = f"at most {MAX_SEGMENT_BYTES:#x}"
            raise wrong(f"segments up to here claim {memory:#x} bytes of memory, expected {limit}", place)
        if address + memory_size > 1 << layout.bits:
            raise wrong(f"segment at {address:#x} with p_memsz {memory_size:#x} leaves the address space", place)
        layout.inside("segment", start, file_size, place)
        claimed += file_size
        layout.claim("segments", claimed, place)
        yield Segment(address, layout.data[start : start + file_size], memory_size, flags, start)


def _dynamic(layout: _Layout) -> tuple[int, int, int] | None:
    header = layout.header
    form = _FORMATS[layout.bits][1]
    for place in layout.table("program header table", header.phoff, header.phnum, header.phentsize, form):
        fields = form.unpack_from(layout.data, place)
        if fields[0] == PT_DYNAMIC:
            return (place, fields[2], fields[5]) if layout.bits == 64 else (place, fields[1], fields[4])
    return None


def _sections(layout: _Layout) -> list[_Section]:
    header = layout.header
    if header.shoff == 0:
        return []
    form = _FORMATS[layout.bits][2]
    sections = []
    for place in layout.table("section header table", header.shoff, header.shnum, header.shentsize, form):
        _, kind, _, _, start, size, link, _, _, entry_size = form.unpack_from(layout.data, place)
        sections.append(_Section(place, kind, start, size, link, entry_size))
    return sections


def _symbols(layout: _Layout) -> Mapping[str, Symbol] | None:
    sections = _sections(layout)
    table = next((section for section in sections if section.type == SHT_SYMTAB), None)
    if table is None:
        return None
    if table.link >= len(sections) or sections[table.link].type != SHT_STRTAB:
        raise wrong(f"sh_link of .symtab is {table.link}, expected the number of a string table", table.offset)
    form = _FORMATS[layout.bits][3]
    if table.entry_size != form.size:
        raise wrong(f"sh_entsize of .symtab is {table.entry_size:#x}, expected {form.size:#x}", table.offset)
    strings = sections[table.link]
    layout.inside(".symtab", table.start, table.size, table.offset)
    layout.inside(".strtab", strings.start, strings.size, strings.offset)
    symbols: dict[str, Symbol] = {}
    claimed = 0
    for place in range(table.start, table.start + table.size // form.size * form.size, form.size):
        symbol = _symbol(layout, form, place, strings)
        if symbol is None:
            continue
        claimed += len(symbol.name)
        layout.claim("symbol names", claimed, place)
        # The first definition wins, but a global one beats a local one.
        known = symbols.get(symbol.name)
        if known is None or (symbol.is_global and not known.is_global):
            symbols[symbol.name] = symbol
    return symbols


def _symbol(layout: _Layout, form: struct.Struct, place: int, strings: _Section) -> Symbol | None:
    if layout.bits == 64:
        name_at, info, _, section, address, size = form.unpack_from(layout.data, place)
    else:
        name_at, address, size, info, _, section = form.unpack_from(layout.data, place)
    kind = info & 15
    if name_at == 0 or section == SHN_UNDEF or kind in (STT_SECTION, STT_FILE):
        return None
    if name_at >= strings.size:
        raise wrong(f"st_name is {name_at:#x}, expected below the {strings.size:#x} bytes of .strtab", place)
    start, end = strings.start + name_at, strings.start + strings.size
    name = layout.name_at(start, end)
    if name is None:
        raise wrong(f"symbol name does not end within .strtab and {MAX_NAME_BYTES} bytes", start)
    return Symbol(name, address, size, kind, info >> 4 != 0)
