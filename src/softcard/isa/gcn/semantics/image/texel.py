"""Access to texels: their addresses, loads and stores, and the registers of image instructions."""

from __future__ import annotations

from collections.abc import Sequence

from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.semantics import memory_formats as formats
from softcard.isa.gcn.semantics.access import set_vregs, vregs
from softcard.isa.gcn.semantics.buffer_format import pack, unpack
from softcard.isa.gcn.semantics.image.resource import CUBE, Image
from softcard.isa.gcn.state import VGPRS
from softcard.isa.gcn.target import GFX9
from softcard.isa.gcn.word import Word


def short_addresses(i: Insn) -> bool:
    """Return True if coordinates have 16 bits, two per register (bit a16, which on GFX9 is the bit r128)."""
    return i.target.level == GFX9 and bool(i["r128"] or i.get("a16"))


class Addresses:
    """A reader of an instruction's address registers; each call continues after the registers read so far."""

    def __init__(self, b: Builder, i: Insn) -> None:
        self._builder, self._next, self._short = b, i["vaddr"], short_addresses(i)

    def word(self) -> Word:
        """Return the next address register as a 32-bit word."""
        number, self._next = self._next, self._next + 1
        return self._builder.v(number if number < VGPRS else 0)  # accumulation registers follow v255 in the numbering

    def group(self, count: int) -> list[Word]:
        """Return the next `count` coordinates as integers; two are in one register if they have 16 bits."""
        if not self._short:
            return [self.word() for _ in range(count)]
        registers = [self.word() for _ in range((count + 1) // 2)]
        return [registers[k // 2][31:16] if k % 2 else registers[k // 2][15:0] for k in range(count)]

    def floats(self, count: int) -> list[Word]:
        """Return the next `count` coordinates as binary32; two are in one register if they have 16 bits."""
        group = self.group(count)
        return [formats.half_bits(c) for c in group] if self._short else group


def coordinates(i: Insn, image: Image) -> int:
    """Return the number of coordinates that identify a texel.

    With the da flag, images of one and two dimensions have one more coordinate for the slice."""
    slice_too = image.kind == CUBE or bool(i["da"])
    return image.dimensions + (slice_too and image.dimensions < 3)


def within(image: Image, x: Word, y: Word, z: Word) -> Word:
    """Return a mask of the lanes whose texel lies in the image.

    The coordinates are unsigned, and z is relative to the first slice.
    """
    inside = (x < image.width) & (y < image.height) & (z < image.slices)
    return inside if image.dfmt else inside & 0


def places(image: Image, x: Word, y: Word, z: Word) -> Word:
    """Return the 64-bit addresses of texels; they are unspecified outside of the image."""
    row = (z + image.first_slice) * image.height + y
    texel = row.zext(64) * image.pitch.zext(64) + x.zext(64)
    return image.base + texel * image.element_bytes


def raw(b: Builder, image: Image, at: Word, inside: Word) -> list[Word]:
    """Load the dwords of texels, not yet converted, at the addresses `at`.

    Lanes outside of the mask `inside` get unspecified values."""
    return b.load("global", 8 * image.element_bytes, at, inside)


def put(b: Builder, image: Image, at: Word, dwords: Sequence[Word], inside: Word) -> None:
    """Store the dwords of texels at the addresses `at`, in the lanes of the mask `inside`."""
    b.store("global", 8 * image.element_bytes, at, dwords, inside)


def components(b: Builder, image: Image, x: Word, y: Word, z: Word, inside: Word) -> list[Word]:
    """Load texels and return their four components, converted to register values.

    Lanes outside of the mask `inside` get 0 and access no memory.
    """
    if not image.dfmt:
        return [b.const(32, 0)] * 4
    found = formats.read(image.dfmt, image.nfmt, raw(b, image, places(image, x, y, z), inside), image=True)
    return [inside.select(v, 0) for v in found]


def selected(image: Image, values: Sequence[Word]) -> list[Word]:
    """Return four components, each of which a part of DST_SEL selects from `values`.

    The DST_SEL code for the constant 1 selects 1 in the number format of the image."""
    one = values[0].const(formats.one(image.nfmt))
    return [values[s - 4] if s >= 4 else one if s == 1 else one.const(0) for s in image.select]


def give(b: Builder, i: Insn, nfmt: int, values: Sequence[Word]) -> None:
    """Write loaded values to the data registers; with d16 they have 16 bits each.

    With tfe or lwe, the register after the last data register is set to 0 ("no fail")."""
    registers = list(values)
    if i.get("d16"):
        registers = pack(i, [formats.to_d16(nfmt, v) for v in registers])
    if i.get("tfe") or i["lwe"]:
        registers.append(b.const(32, 0))
    set_vregs(b, i["vdata"], registers)


def taken(b: Builder, i: Insn, nfmt: int, count: int) -> list[Word]:
    """Return the `count` components that a store takes from its data registers; with d16 they are widened."""
    if i.get("d16"):
        return [formats.from_d16(nfmt, v) for v in unpack(b, i, count)]
    return vregs(b, i["vdata"], count)


def masked(i: Insn, values: Sequence[Word]) -> list[Word]:
    """Return those of four components that dmask selects."""
    return [v for k, v in enumerate(values) if i["dmask"] >> k & 1]
