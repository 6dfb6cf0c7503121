"""The loader of AMD OpenCL 2.0 containers: it places code and data, relocates them, and adds sampler objects.

The relocation types are not those of LLVM: type 1 is the low half of an address, type 2 the high half, and type 3 all
64 bits. Type 4 is the address of a sampler object, which the loader makes and places after the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from softcard.core.errors import WireError
from softcard.core.words import align_up
from softcard.image.amdcl2.container import SAMPLERS, STT_HSA_SAMPLER, TEXT, Container
from softcard.image.amdcl2.elf import Elf
from softcard.image.amdcl2.objects import SamplerObject
from softcard.image.amdcl2.records import SamplerInit
from softcard.image.elf.layout import SHF_ALLOC, SHT_NOBITS, SHT_RELA
from softcard.image.elf.reader import Relocation, Section, Symbol

MAX_IMAGE_BYTES: Final = 1 << 28
"""The largest accepted size of a loaded program in bytes."""
CODE_ALIGNMENT: Final = 256
R_LOW, R_HIGH, R_64, R_SAMPLER = 1, 2, 3, 4
RELOCATIONS: Final = {R_LOW: (4, 0), R_HIGH: (4, 32), R_64: (8, 0), R_SAMPLER: (8, 0)}
"""For each relocation type: the number of bytes that it sets, and the lowest address bit stored in them."""
RELA: Final = ".rela"
MASK64: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Part:
    """A range of the loaded program: `data`, then zeros up to `size`."""

    name: str
    place: int
    data: bytes = field(repr=False)
    size: int


@dataclass(frozen=True, slots=True)
class LoadedProgram:
    """A program loaded at `base`: its bytes and addresses.

    The addresses are those of code objects, by kernel name, and those of all symbols, by symbol name.
    """

    base: int
    data: bytearray = field(repr=False)
    kernels: Mapping[str, int]
    symbols: Mapping[str, int]
    samplers: tuple[int, ...]
    parts: tuple[Part, ...] = field(repr=False)


def load(container: Container, base: int) -> LoadedProgram:
    """Return the program of a container, loaded at the address `base`, a multiple of 4 KiB.

    Raise `WireError` if a relocation cannot be applied.
    """
    if base & 0xFFF:
        raise WireError(f"base is {base:#x}, expected a multiple of 4 KiB")
    parts = list(_parts(container))
    end = _end(parts)
    samplers = tuple(base + end + n * SamplerObject.size_bytes for n in range(len(container.samplers)))
    data = bytearray(_size(end, len(samplers)))
    for part in parts:
        data[part.place : part.place + len(part.data)] = part.data
    for number, init in enumerate(container.samplers):
        at = end + number * SamplerObject.size_bytes
        data[at : at + SamplerObject.size_bytes] = SamplerObject.of_init(init).pack()
    places = {part.name: part.place for part in parts}
    symbols: dict[str, int] = {}
    if container.inner is None:
        kernels = {name: base + places[name] for name in container.kernels}
    else:
        kernels = {name: base + places[TEXT] + kernel.offset for name, kernel in container.kernels.items()}
        _Linker(container.inner, data, base, places, samplers).link()
        symbols = dict(_addresses(container.inner, base, places))
    return LoadedProgram(base, data, kernels, symbols, samplers, tuple(parts))


def loaded_bytes(container: Container) -> int:
    """Return the size in bytes of the loaded program."""
    return _size(_end(list(_parts(container))), len(container.samplers))


def _is_loaded(section: Section) -> bool:
    return bool(section.header.flags & SHF_ALLOC) or section.name == TEXT


def _end(parts: list[Part]) -> int:
    return align_up(max((part.place + part.size for part in parts), default=0), 16)


def _size(end: int, samplers: int) -> int:
    size = end + samplers * SamplerObject.size_bytes
    if size > MAX_IMAGE_BYTES:
        raise WireError(f"the program needs {size:#x} bytes of memory, expected at most {MAX_IMAGE_BYTES:#x}")
    return max(size, 1)


def _parts(container: Container) -> Iterator[Part]:
    """Yield the ranges of the loaded program.

    In files of driver 15.7 each range is a kernel; in others it is a section that is loaded to the GPU's memory.
    """
    place = 0
    if container.inner is None:
        for kernel in container.kernels.values():
            code = kernel.header.pack().ljust(kernel.header.kernel_code_entry_byte_offset, b"\0") + kernel.code
            yield Part(kernel.name, place, code, len(code))
            place = align_up(place + len(code), CODE_ALIGNMENT)
        return
    inner = container.inner
    allocated = [section for section in inner.sections if _is_loaded(section)]
    for section in sorted(allocated, key=lambda each: each.name != TEXT):  # the code comes first
        name = section.name
        place = inner.aligned(place, max(section.header.addralign, CODE_ALIGNMENT), section.name, section.place)
        size = section.header.size
        if place + size > MAX_IMAGE_BYTES:
            raise inner.wrong(
                f"section {name} would end at {place + size:#x} of the program's memory, expected at most "
                f"{MAX_IMAGE_BYTES:#x}",
                section.place,
            )
        yield Part(name, place, inner.contents(section) if section.header.type != SHT_NOBITS else b"", size)
        place += size


def _addresses(inner: Elf, base: int, places: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    for symbol in inner.symbols:
        name = inner.sections[symbol.section].name if 0 < symbol.section < len(inner.sections) else ""
        if symbol.name and name in places:
            yield symbol.name, base + places[name] + symbol.value


def relocated(inner: Elf) -> list[tuple[str, str]]:
    """Return pairs of a relocation table's name and the name of the loaded section to which the table applies."""
    loaded = {each.name for each in inner.sections if _is_loaded(each)}
    tables = [each.name for each in inner.sections if each.header.type == SHT_RELA]
    found = [(name, name.removeprefix(RELA)) for name in tables]
    return [(name, section) for name, section in found if section in loaded]


@dataclass(frozen=True, slots=True)
class _Linker:
    """The state and functions that apply relocations to one loaded program."""

    inner: Elf
    data: bytearray
    base: int
    places: Mapping[str, int]
    samplers: tuple[int, ...]

    def link(self) -> None:
        for table, section in relocated(self.inner):
            for relocation in self.inner.relocations(table):
                self._apply(relocation, section)

    def _apply(self, entry: Relocation, section: str) -> None:
        kind = RELOCATIONS.get(entry.type)
        if kind is None:
            raise self.inner.wrong(f"the relocation type is {entry.type}, expected 1, 2, 3 or 4", entry.place)
        size, shift = kind
        found = self.inner.section(section)
        if found is None or entry.offset + size > found.header.size or found.header.type == SHT_NOBITS:
            text = f"the relocation of {size} bytes at {entry.offset:#x} does not lie in the bytes of section {section}"
            raise self.inner.wrong(text, entry.place)
        value = self._sampler(entry) if entry.type == R_SAMPLER else self._address(entry)
        at = self.places[section] + entry.offset
        value = (value + entry.addend & MASK64) >> shift
        self.data[at : at + size] = (value & (1 << size * 8) - 1).to_bytes(size, "little")

    def _section_of(self, symbol: Symbol) -> str:
        sections = self.inner.sections
        return sections[symbol.section].name if 0 < symbol.section < len(sections) else ""

    def _address(self, entry: Relocation) -> int:
        name = self._section_of(entry.symbol)
        if name not in self.places:
            text = (
                f"the relocation refers to symbol {entry.symbol.name!r} in {name or 'no section'}, expected a section "
                "that is loaded"
            )
            raise self.inner.wrong(text, entry.place)
        return self.base + self.places[name] + entry.symbol.value

    def _sampler(self, entry: Relocation) -> int:
        symbol = entry.symbol
        number, rest = divmod(symbol.value, SamplerInit.size_bytes)
        if self._section_of(symbol) != SAMPLERS or rest or number >= len(self.samplers):
            text = f"the relocation refers to {symbol.name!r}, expected one of the {len(self.samplers)} samplers"
            raise self.inner.wrong(text, entry.place)
        if symbol.kind != STT_HSA_SAMPLER:
            raise self.inner.wrong(
                f"the sampler symbol has type {symbol.kind}, expected {STT_HSA_SAMPLER}", entry.place
            )
        return self.samplers[number]
