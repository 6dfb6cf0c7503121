"""The loader of GPU ELF files: it places segments or sections, applies relocations, and finds globals.

- Linked objects (ET_DYN) are placed as their program headers require, relative to a base.
- Unlinked objects (ET_REL, as llvmlite writes them) have their sections placed one after another, with a table of
  addresses (GOT) if relocations need one.
- V1 objects (ET_EXEC) are placed as their program headers require, but their symbols and relocations are relative to
  sections, as in AMD's loader (ROCR, amd_hsa_code and loader/executable).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from softcard.core.errors import BeyondModel, WireError
from softcard.core.words import align_up, signed
from softcard.image.elf.layout import (
    ET_REL,
    PF_X,
    PT_LOAD,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHN_ABS,
    SHN_COMMON,
    SHT_NOTE,
    STT_FILE,
    STT_SECTION,
)
from softcard.image.elf.reader import MAX_ALIGNMENT, NO_SYMBOL, Relocation, Symbol, wrong
from softcard.image.hsa.elf import LOADS, HsaElf
from softcard.image.hsa.records import ENTRY_ALIGNMENT

MAX_IMAGE_BYTES: Final = 1 << 28
"""The largest accepted size in bytes of a loaded object."""
PAGE: Final = 4096
MASK64: Final = (1 << 64) - 1

Formula = Callable[[int, int, int, int, int], int]


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of relocation: its name, the number of bytes that it sets, and the function that computes them.

    The function's arguments are S (symbol), A (addend), P (position), B (base) and G (address of the GOT entry).
    """

    name: str
    size: int
    value: Formula
    uses_got: bool = False
    is_modelled: bool = True


# fmt: off
KINDS: Final = {
    0:  Kind("R_AMDGPU_NONE",           0, lambda s, a, p, b, g: 0),
    1:  Kind("R_AMDGPU_ABS32_LO",       4, lambda s, a, p, b, g: s + a),
    2:  Kind("R_AMDGPU_ABS32_HI",       4, lambda s, a, p, b, g: (s + a) >> 32),
    3:  Kind("R_AMDGPU_ABS64",          8, lambda s, a, p, b, g: s + a),
    4:  Kind("R_AMDGPU_REL32",          4, lambda s, a, p, b, g: s + a - p),
    5:  Kind("R_AMDGPU_REL64",          8, lambda s, a, p, b, g: s + a - p),
    6:  Kind("R_AMDGPU_ABS32",          4, lambda s, a, p, b, g: s + a),
    7:  Kind("R_AMDGPU_GOTPCREL",       4, lambda s, a, p, b, g: g + a - p, uses_got=True),
    8:  Kind("R_AMDGPU_GOTPCREL32_LO",  4, lambda s, a, p, b, g: g + a - p, uses_got=True),
    9:  Kind("R_AMDGPU_GOTPCREL32_HI",  4, lambda s, a, p, b, g: (g + a - p) >> 32, uses_got=True),
    10: Kind("R_AMDGPU_REL32_LO",       4, lambda s, a, p, b, g: s + a - p),
    11: Kind("R_AMDGPU_REL32_HI",       4, lambda s, a, p, b, g: (s + a - p) >> 32),
    13: Kind("R_AMDGPU_RELATIVE64",     8, lambda s, a, p, b, g: b + a),
    14: Kind("R_AMDGPU_REL16",          2, lambda s, a, p, b, g: (s + a - p - 4) >> 2),
}

V1_KINDS: Final = {
    0:  Kind("R_AMDGPU_NONE",           0, lambda s, a, p, b, g: 0),
    1:  Kind("R_AMDGPU_32_LOW",         4, lambda s, a, p, b, g: s + a),
    2:  Kind("R_AMDGPU_32_HIGH",        4, lambda s, a, p, b, g: (s + a) >> 32),
    3:  Kind("R_AMDGPU_64",             8, lambda s, a, p, b, g: s + a),
    4:  Kind("R_AMDGPU_INIT_SAMPLER",   0, lambda s, a, p, b, g: 0, is_modelled=False),
    5:  Kind("R_AMDGPU_INIT_IMAGE",     0, lambda s, a, p, b, g: 0, is_modelled=False),
}
# fmt: on
"""The relocation types of V1 objects, by number.

From 4 on, the numbers have other meanings than in later versions.
"""


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes at `address` of the loaded image, followed by zeros up to `size`."""

    address: int
    data: bytes | memoryview = field(repr=False)
    size: int
    name: str
    executable: bool


@dataclass(frozen=True)
class Layout:
    """The memory layout of a code object: the addresses of parts, sections and symbols, relative to the base."""

    parts: tuple[Part, ...]
    size: int
    first: int
    """The lowest link address in the file; it becomes address 0 of the image."""
    sections: Mapping[int, int]
    """The addresses of sections by number, in ET_REL files and V1 objects.

    Symbols and relocations of these files are relative to sections.
    """
    commons: Mapping[int, int]
    """The addresses of common symbols (SHN_COMMON), by the file offset of their symbol table entry."""
    got: Mapping[str, int]
    """The addresses of GOT entries by symbol, in ET_REL files."""
    is_first: bool = False
    """True for a V1 object in the form that AMD's tools write, with symbols relative to sections."""

    @property
    def kinds(self) -> Mapping[int, Kind]:
        """The relocation types that apply to the object, by number."""
        return V1_KINDS if self.is_first else KINDS

    def place(self, symbol: Symbol) -> int | None:
        """Return the address of a symbol relative to the base.

        The result is None if the symbol is undefined or in a section that is not loaded.
        """
        if not symbol.is_defined or symbol.section == SHN_ABS:
            return None
        if symbol.section == SHN_COMMON:
            return self.commons.get(symbol.place)
        if not self.sections:
            return symbol.value - self.first
        section = self.sections.get(symbol.section)
        return None if section is None else section + symbol.value


def lay_out(elf: HsaElf, version: str = "") -> Layout:
    """Return the memory layout of an object; raise `WireError` for sizes that no real object has.

    `version` is the code object version."""
    if elf.header.type == ET_REL:
        return _unlinked(elf)
    layout = _linked(elf)
    if version == "V1" and _counts_from_sections(elf):
        return replace(layout, sections=_placed_sections(elf, layout), is_first=True)
    return layout


def _linked(elf: HsaElf) -> Layout:
    segments = [each for each in elf.segments if each.type in LOADS and each.memsz]
    if not segments:
        raise wrong("the linked object has no segment to load, expected at least one PT_LOAD", elf.header.phoff)
    first = min(each.vaddr for each in segments) & -PAGE
    end = max(each.vaddr + each.memsz for each in segments)
    _believable(end - first, elf.header.phoff)
    view = memoryview(elf.data)
    parts = tuple(
        Part(
            each.vaddr - first,
            view[each.offset : each.offset + each.filesz],
            each.memsz,
            f"segment {number}",
            bool(each.flags & PF_X),
        )
        for number, each in enumerate(segments)
    )
    return Layout(parts, end - first, first, {}, {}, {})


def _counts_from_sections(elf: HsaElf) -> bool:
    """Return True if a V1 object's symbols are relative to their sections, as AMD's tools write them.

    Files of early LLVM versions have V1 notes, too, but their symbols are addresses, and they have PT_LOAD
    segments. If only one interpretation puts all symbols into their sections, it is chosen; otherwise PT_LOAD
    segments decide."""
    placed = [
        (each.value, elf.sections[each.section].header)
        for each in (*elf.symbols, *elf.dynamic_symbols)
        if each.is_defined and each.section < len(elf.sections) and each.kind not in (STT_SECTION, STT_FILE)
    ]
    from_section = all(value <= header.size for value, header in placed)
    addresses = all(header.addr <= value <= header.addr + header.size for value, header in placed)
    if from_section == addresses:
        return all(each.type != PT_LOAD for each in elf.segments)
    return from_section


def _placed_sections(elf: HsaElf, layout: Layout) -> dict[int, int]:
    """Return the addresses of the sections that lie in loaded segments."""
    return {
        each.index: each.header.addr - layout.first
        for each in elf.sections
        if each.header.flags & SHF_ALLOC and 0 <= each.header.addr - layout.first < layout.size
    }


def _unlinked(elf: HsaElf) -> Layout:
    parts: list[Part] = []
    sections: dict[int, int] = {}
    end = 0
    for section in elf.sections:
        header = section.header
        if not header.flags & SHF_ALLOC or header.type == SHT_NOTE:
            continue
        executable = bool(header.flags & SHF_EXECINSTR)
        end = elf.aligned(end, max(header.addralign, ENTRY_ALIGNMENT if executable else 1), section.name, section.place)
        sections[section.index] = end
        parts.append(Part(end, elf.contents(section), header.size, section.name, executable))
        end += header.size
        _believable(end, section.place)
    commons: dict[int, int] = {}
    for symbol in elf.symbols:
        if symbol.section == SHN_COMMON:  # its value is its alignment
            end = align_up(end, max(1, min(symbol.value, MAX_ALIGNMENT)))
            commons[symbol.place] = end
            end += symbol.size
            _believable(end, symbol.place)
    got: dict[str, int] = {}
    end = align_up(end, 8)
    for entry in elf.relocations:
        kind = KINDS.get(entry.type)
        if kind is not None and kind.uses_got and entry.symbol is not NO_SYMBOL and entry.symbol.name not in got:
            got[entry.symbol.name] = end
            end += 8
    if not sections:
        raise wrong("the object has no section to load, expected at least one", elf.header.shoff)
    return Layout(tuple(parts), max(end, 1), 0, sections, commons, got)


def _believable(size: int, place: int) -> None:
    if size > MAX_IMAGE_BYTES:
        raise wrong(f"the object needs {size:#x} bytes of memory, expected at most {MAX_IMAGE_BYTES:#x}", place)


class Loading:
    """The state and functions that load an object at `base`.

    `externals` are addresses of symbols that the object does not define itself. If the set `missing` is given,
    undefined symbols are added to it, and no error is raised for them.
    """

    def __init__(
        self,
        elf: HsaElf,
        layout: Layout,
        base: int,
        externals: Mapping[str, int],
        missing: list[str] | None = None,
    ) -> None:
        self.elf = elf
        self.layout = layout
        self.base = base
        self.externals = externals
        self.missing = missing
        named = {each.symbol.name: each.symbol for each in elf.relocations if each.symbol is not NO_SYMBOL}
        for name, place in layout.got.items():
            self._store(place, 8, self.address(named[name]))
        for relocation in elf.relocations:
            self._relocate(relocation)

    @cached_property
    def data(self) -> bytearray:
        """All bytes of the object, made and relocated on first use."""
        data = bytearray(self.layout.size)
        for part in self.layout.parts:
            data[part.address : part.address + len(part.data)] = part.data
        return data

    def pieces(self) -> Iterator[tuple[int, bytes | bytearray | memoryview]]:
        """Yield pairs of an address and the bytes to write there; the caller writes them in this order.

        If the object has no relocations, `data` is not built."""
        if self.elf.relocations:
            yield 0, self.data
            return
        end = 0
        for part in sorted(self.layout.parts, key=lambda part: part.address):
            if end < part.address:
                yield end, bytes(part.address - end)
            end = max(end, part.address + len(part.data))
        if end < self.layout.size:
            yield end, bytes(self.layout.size - end)
        yield from ((part.address, part.data) for part in self.layout.parts)

    def read(self, place: int, size: int) -> bytes | bytearray | None:
        """Return `size` bytes at the address `place` of the loaded image; None if they exceed the image.

        If the object has no relocations, `data` is not built."""
        if not 0 <= place <= self.layout.size - size:
            return None
        if self.elf.relocations:
            return self.data[place : place + size]
        found = bytearray(size)
        for part in self.layout.parts:
            start, end = max(place, part.address), min(place + size, part.address + len(part.data))
            if start < end:
                found[start - place : end - place] = part.data[start - part.address : end - part.address]
        return found

    def address(self, symbol: Symbol) -> int:
        """Return the address of a symbol after loading.

        Raise `WireError` if it is undefined and not in `externals`.
        """
        if symbol is NO_SYMBOL:
            return 0
        if symbol.section == SHN_ABS:
            return symbol.value
        place = self.layout.place(symbol)
        if place is not None:
            return self.base + place & MASK64
        if symbol.name in self.externals:
            return self.externals[symbol.name]
        if symbol.is_weak:
            return 0
        if self.missing is None:
            raise WireError(f"symbol {symbol.name!r} is undefined: pass its address in externals").at(
                "byte", symbol.place
            )
        if symbol.name not in self.missing:
            self.missing.append(symbol.name)
        return 0

    def _relocate(self, entry: Relocation) -> None:
        kind = self.layout.kinds.get(entry.type)
        if kind is None:
            raise wrong(f"relocation type {entry.type} is unknown for AMD GPUs", entry.place)
        if not kind.is_modelled:
            raise BeyondModel(
                f"relocation {kind.name} is not supported: it needs images or samplers that a loader creates"
            ).at("byte", entry.place)
        place = self._place(entry)
        if place is None or not kind.size:
            return
        if not 0 <= place <= len(self.data) - kind.size:
            raise wrong(f"relocation {kind.name} at {entry.offset:#x} lies outside of the loaded bytes", entry.place)
        got = 0
        if kind.uses_got:
            if entry.symbol is NO_SYMBOL or entry.symbol.name not in self.layout.got:
                text = f"relocation {kind.name} refers to a symbol, but the linked object has no symbol table"
                raise wrong(text, entry.place)
            got = self.base + self.layout.got[entry.symbol.name]
        addend = entry.addend
        if entry.is_in_place:
            addend = signed(int.from_bytes(self.data[place : place + kind.size], "little"), kind.size * 8)
        if kind.name == "R_AMDGPU_RELATIVE64":
            addend -= self.layout.first
        value = kind.value(self.address(entry.symbol), addend, self.base + place, self.base, got)
        self._store(place, kind.size, value)

    def _place(self, entry: Relocation) -> int | None:
        if self.layout.sections:
            section = self.layout.sections.get(entry.section)
            return None if section is None else section + entry.offset  # debug sections are not loaded
        if entry.section:  # applied by the linker already and kept on request: dynamic tables name no section
            return None
        return entry.offset - self.layout.first

    def _store(self, place: int, size: int, value: int) -> None:
        self.data[place : place + size] = (value & (1 << size * 8) - 1).to_bytes(size, "little")
