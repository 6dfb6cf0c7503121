"""Texels: where they lie, reading and writing them, and the registers of image instructions.

Addresses, coordinates and components are NumPy arrays of 64 lanes: image operations run on the reference engine only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics import memory_formats as formats
from understudy.isa.gcn.semantics.access import set_vregs, vregs
from understudy.isa.gcn.semantics.buffer_format import pack, unpack
from understudy.isa.gcn.semantics.image.resource import CUBE, Image
from understudy.isa.gcn.semantics.memory_formats import Lanes, lanes
from understudy.isa.gcn.target import GFX9
from understudy.isa.gcn.word import Word


def of_lanes(b: Builder, values: Sequence[Lanes]) -> list[Word]:
    """Arrays of 64 lanes as 32-bit values."""
    return [b.word(32, v) for v in values]


def short_addresses(i: Insn) -> bool:
    """Whether coordinates have 16 bits, two to a register (a16: GFX9's meaning of the r128 bit)."""
    return i.target.level == GFX9 and bool(i["r128"] or i.get("a16"))


class Addresses:
    """The address registers of an instruction, taken one after the other."""

    def __init__(self, b: Builder, i: Insn) -> None:
        self._builder, self._next, self._short = b, i["vaddr"], short_addresses(i)

    def word(self) -> Lanes:
        """A whole register."""
        self._next += 1
        return lanes(vregs(self._builder, self._next - 1, 1)[0])

    def group(self, count: int) -> list[Lanes]:
        """`count` coordinates, each in a register, or two in one where they have 16 bits; as integers."""
        if not self._short:
            return [self.word() for _ in range(count)]
        registers = [self.word() for _ in range((count + 1) // 2)]
        return [registers[k // 2] >> np.uint32(k % 2 * 16) & np.uint32(0xFFFF) for k in range(count)]

    def floats(self, count: int) -> list[Lanes]:
        """Likewise as float64 numbers."""
        group = self.group(count)
        if self._short:
            group = [lanes(formats.half_bits(self._builder.word(32, c))) for c in group]
        return [formats.numbers(c) for c in group]


def coordinates(i: Insn, image: Image) -> int:
    """How many coordinates a texel has in this instruction: with da, images of one and two dimensions have a slice."""
    slice_too = image.kind == CUBE or bool(i["da"])
    return image.dimensions + (slice_too and image.dimensions < 3)


def within(image: Image, x: Lanes, y: Lanes, z: Lanes) -> Lanes:
    """The lanes whose texel (int64 coordinates, z counted from the first slice) lies in the image."""
    inside = (x >= 0) & (x < image.width) & (y >= 0) & (y < image.height) & (z >= 0) & (z < image.slices)
    return np.asarray(inside & bool(image.dfmt))


def places(image: Image, x: Lanes, y: Lanes, z: Lanes) -> Lanes:
    """Addresses of texels, uint64; wherever outside of the image."""
    row = (z + image.first_slice) * image.height + y
    return np.asarray(image.base + (row * image.pitch + x) * image.element_bytes).astype(np.uint64)


def raw(b: Builder, image: Image, at: Lanes, inside: Lanes) -> list[Word]:
    """The dwords of texels; anything outside."""
    return b.load("global", 8 * image.element_bytes, b.word(64, at), b.word(1, inside))


def put(b: Builder, image: Image, at: Lanes, dwords: Sequence[Word], inside: Lanes) -> None:
    """Store the dwords of texels, none outside."""
    b.store("global", 8 * image.element_bytes, b.word(64, at), dwords, b.word(1, inside))


def components(b: Builder, image: Image, x: Lanes, y: Lanes, z: Lanes, inside: Lanes) -> list[Lanes]:
    """The four components of texels as registers get them; outside the image 0 (and no access)."""
    if not image.dfmt:
        return [np.zeros(64, np.uint32)] * 4
    found = formats.read(image.dfmt, image.nfmt, raw(b, image, places(image, x, y, z), inside), image=True)
    return [np.where(inside, lanes(v), np.uint32(0)) for v in found]


def selected(image: Image, values: Sequence[Lanes]) -> list[Lanes]:
    """The components in the order of DST_SEL; 1 is the number 1 of the format."""
    one = np.full(64, formats.one(image.nfmt), np.uint32)
    zero = np.zeros(64, np.uint32)
    return [values[s - 4] if s >= 4 else one if s == 1 else zero for s in image.select]


def give(b: Builder, i: Insn, nfmt: int, values: Sequence[Lanes]) -> None:
    """Write the loaded registers: 16 bits each with d16, and 0 ("no fail") behind them with tfe or lwe."""
    registers = of_lanes(b, values)
    if i.get("d16"):
        registers = pack(i, [formats.to_d16(nfmt, v) for v in registers])
    if i["tfe"] or i["lwe"]:
        registers.append(b.const(32, 0))
    set_vregs(b, i["vdata"], registers)


def taken(b: Builder, i: Insn, nfmt: int, count: int) -> list[Word]:
    """The components that a store has in its registers."""
    if i.get("d16"):
        return [formats.from_d16(nfmt, v) for v in unpack(b, i, count)]
    return vregs(b, i["vdata"], count)


def masked(i: Insn, values: Sequence[Lanes]) -> list[Lanes]:
    """The components that dmask names."""
    return [v for k, v in enumerate(values) if i["dmask"] >> k & 1]
