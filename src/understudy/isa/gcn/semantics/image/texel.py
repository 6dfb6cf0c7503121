"""Texels: where they lie, reading and writing them, and the registers of image instructions."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics import memory_formats as formats
from understudy.isa.gcn.semantics.access import set_vregs, vregs
from understudy.isa.gcn.semantics.buffer_format import pack, unpack
from understudy.isa.gcn.semantics.image.resource import CUBE, Image
from understudy.isa.gcn.target import GFX9
from understudy.isa.gcn.word import Word


def short_addresses(i: Insn) -> bool:
    """Whether coordinates have 16 bits, two to a register (a16: GFX9's meaning of the r128 bit)."""
    return i.target.level == GFX9 and bool(i["r128"] or i.get("a16"))


class Addresses:
    """The address registers of an instruction, taken one after the other."""

    def __init__(self, b: Builder, i: Insn) -> None:
        self._builder, self._next, self._short = b, i["vaddr"], short_addresses(i)

    def word(self) -> Word:
        """A whole register."""
        self._next += 1
        return vregs(self._builder, self._next - 1, 1)[0]

    def group(self, count: int) -> list[Word]:
        """`count` coordinates, each in a register, or two in one where they have 16 bits; as integers."""
        if not self._short:
            return [self.word() for _ in range(count)]
        registers = [self.word() for _ in range((count + 1) // 2)]
        return [registers[k // 2][31:16] if k % 2 else registers[k // 2][15:0] for k in range(count)]

    def floats(self, count: int) -> list[Word]:
        """Likewise as binary32."""
        group = self.group(count)
        return [formats.half_bits(c) for c in group] if self._short else group


def coordinates(i: Insn, image: Image) -> int:
    """How many coordinates a texel has in this instruction: with da, images of one and two dimensions have a slice."""
    slice_too = image.kind == CUBE or bool(i["da"])
    return image.dimensions + (slice_too and image.dimensions < 3)


def within(image: Image, x: Word, y: Word, z: Word) -> Word:
    """The lanes whose texel (unsigned coordinates, z counted from the first slice) lies in the image."""
    inside = (x < image.width) & (y < image.height) & (z < image.slices)
    return inside if image.dfmt else inside & 0


def places(image: Image, x: Word, y: Word, z: Word) -> Word:
    """Addresses of texels, 64 bits; wherever outside of the image."""
    row = (z + image.first_slice) * image.height + y
    texel = row.zext(64) * image.pitch.zext(64) + x.zext(64)
    return image.base + texel * image.element_bytes


def raw(b: Builder, image: Image, at: Word, inside: Word) -> list[Word]:
    """The dwords of texels; anything outside."""
    return b.load("global", 8 * image.element_bytes, at, inside)


def put(b: Builder, image: Image, at: Word, dwords: Sequence[Word], inside: Word) -> None:
    """Store the dwords of texels, none outside."""
    b.store("global", 8 * image.element_bytes, at, dwords, inside)


def components(b: Builder, image: Image, x: Word, y: Word, z: Word, inside: Word) -> list[Word]:
    """The four components of texels as registers get them; outside the image 0 (and no access)."""
    if not image.dfmt:
        return [b.const(32, 0)] * 4
    found = formats.read(image.dfmt, image.nfmt, raw(b, image, places(image, x, y, z), inside), image=True)
    return [inside.select(v, 0) for v in found]


def selected(image: Image, values: Sequence[Word]) -> list[Word]:
    """The components in the order of DST_SEL; 1 is the number 1 of the format."""
    one = values[0].const(formats.one(image.nfmt))
    return [values[s - 4] if s >= 4 else one if s == 1 else one.const(0) for s in image.select]


def give(b: Builder, i: Insn, nfmt: int, values: Sequence[Word]) -> None:
    """Write the loaded registers: 16 bits each with d16, and 0 ("no fail") behind them with tfe or lwe."""
    registers = list(values)
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


def masked(i: Insn, values: Sequence[Word]) -> list[Word]:
    """The components that dmask names."""
    return [v for k, v in enumerate(values) if i["dmask"] >> k & 1]
