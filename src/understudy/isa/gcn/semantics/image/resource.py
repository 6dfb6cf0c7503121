"""Image resources (T#) and samplers (S#): the scalar words of an image instruction, decoded.

What decides the meaning of an instruction (type, formats, layout, order of components) is told it; sizes and places are
words.

Only linear images are modelled (GFX7, GFX8: tiling index 8, linear aligned; GFX9: swizzle mode 0), of one mip level and
one sample: other layouts are the driver's business. An image of 128 bits (r128) has no pitch: its width, rounded up to
64 texels or 256 bytes, is taken (Choice ``gcn/image-r128``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from understudy.core.errors import BeyondModel
from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics import memory_formats as formats
from understudy.isa.gcn.semantics.access import pair, sregs
from understudy.isa.gcn.target import GFX9
from understudy.isa.gcn.word import Word

LINEAR_ALIGNED: Final = 8
"""Tiling index of GFX7 and GFX8."""
LINEAR: Final = 0
"""Swizzle mode of GFX9."""
IMAGE_1D, IMAGE_2D, IMAGE_3D, CUBE, ARRAY_1D, ARRAY_2D = 8, 9, 10, 11, 12, 13
DIMENSIONS: Final = {IMAGE_1D: 1, IMAGE_2D: 2, IMAGE_3D: 3, CUBE: 2, ARRAY_1D: 1, ARRAY_2D: 2}
"""Coordinates of a texel within its slice (or volume) by resource type."""


def bits(word: int, low: int, width: int) -> int:
    """A field of a word."""
    return word >> low & (1 << width) - 1


@dataclass(frozen=True, slots=True)
class Image:
    """A T#: sizes in texels, 32 bits; `slices`: how many slices (or depth) from `first_slice` on; `base`: 64 bits."""

    kind: int
    dfmt: int
    nfmt: int
    select: tuple[int, ...]
    base: Word
    width: Word
    height: Word
    pitch: Word
    slices: Word
    first_slice: Word
    min_lod: Word

    @property
    def element_bytes(self) -> int:
        """Bytes of a texel."""
        return formats.element_bytes(self.dfmt, image=True)

    @property
    def dimensions(self) -> int:
        """1, 2 or 3."""
        return DIMENSIONS[self.kind]

    @property
    def is_array(self) -> bool:
        """Whether slices are addressed as such (cubes too)."""
        return self.kind in (CUBE, ARRAY_1D, ARRAY_2D)

    @property
    def integer(self) -> bool:
        """Whether registers hold integers."""
        return self.nfmt in formats.INTEGERS


def told(b: Builder, i: Insn) -> list[Word]:
    """Formats; then type, layout, levels and order of components of the image of an instruction."""
    w = sregs(b, i["srsrc"], 4)
    return [w[1][29:20], w[3] & 0xF1FF_FFFF]


def image(b: Builder, i: Insn, numbers: Sequence[int]) -> Image:
    """The image of an instruction that was told these numbers; `BeyondModel` for what is not modelled."""
    level, (form, word) = i.target.level, numbers
    kind, dfmt, nfmt = bits(word, 28, 4), bits(form, 0, 6), bits(form, 6, 4)
    if kind not in DIMENSIONS:
        raise BeyondModel(f"{i.name}: resource type {kind} is not modelled: it must be 8 to 13, an image of one sample")
    check_layout(i.name, level, word)
    short = bool(i["r128"]) and level < GFX9
    w = sregs(b, i["srsrc"], 4 if short else 8) + [b.const(32, 0)] * (4 if short else 0)
    width, height, depth = w[2][13:0] + 1, w[2][27:14] + 1, w[4][12:0]
    first, last = w[5][12:0], depth if level == GFX9 else w[5][25:13]
    if kind == IMAGE_3D:
        first, slices = b.const(32, 0), depth + 1
    elif kind in (IMAGE_1D, IMAGE_2D):
        slices = b.const(32, 1)
    else:
        slices = (last - first + 1).smax(0)
    if short:
        unit = max(64, 256 // max(formats.element_bytes(dfmt, image=True), 1))
        pitch = width + (unit - 1) & -unit
    else:
        pitch = w[4][28 if level == GFX9 else 26 : 13] + 1
    return Image(
        kind,
        dfmt,
        nfmt,
        tuple(bits(word, 3 * k, 3) for k in range(4)),
        base=pair(w[0], w[1])[39:0] << 8,
        width=width,
        height=b.const(32, 1) if DIMENSIONS[kind] == 1 else height,
        pitch=pitch,
        slices=slices,
        first_slice=first,
        min_lod=w[1][19:8],
    )


def check_layout(operation: str, level: int, word: int) -> None:
    """Refuse tiled images and mip levels."""
    mode, name, wanted = bits(word, 20, 5), "tiling index", LINEAR_ALIGNED
    if level == GFX9:
        name, wanted = "swizzle mode", LINEAR
    if mode != wanted:
        raise BeyondModel(f"{operation}: {name} {mode} of the image is not modelled: it must be {wanted}, linear")
    first, last = bits(word, 12, 4), bits(word, 16, 4)
    if first or last:
        raise BeyondModel(
            f"{operation}: mip levels {first} to {last} of the image are not modelled: it must have level 0 only"
        )


WRAP, MIRROR, CLAMP, MIRROR_CLAMP, HALF_BORDER, MIRROR_HALF_BORDER, BORDER, MIRROR_BORDER = range(8)
"""Addressing modes; "mirror" from 3 on means one mirroring, at 0."""


@dataclass(frozen=True, slots=True)
class Sampler:
    """An S#. Filters: True for linear. `border`: 0 transparent black, 1 opaque black, 2 opaque white.

    Of LODs: `min_lod` and `max_lod` in 1/256, 12 bits, and `lod_bias`, 14 bits with a sign.
    """

    clamp: tuple[int, int, int]
    compare: int
    unnormalised: bool
    reduction: int
    magnify: bool
    minify: bool
    depth_filter: int
    border: int
    min_lod: Word
    max_lod: Word
    lod_bias: Word


def told_of_sampler(b: Builder, i: Insn) -> list[Word]:
    """Addressing modes, comparison, coordinates, reduction; filters; and the border of an instruction's sampler."""
    w = sregs(b, i["ssamp"], 4)
    border = w[3] & 0xC000_0000
    return [w[0] & 0x6000_F1FF, w[2] & 0x0350_0000, (border == 0xC000_0000).select(w[3] & 0xC000_0FFF, border)]


def sampler(b: Builder, i: Insn, numbers: Sequence[int]) -> Sampler:
    """The sampler of an instruction that was told these numbers; `BeyondModel` for colours from the driver's table."""
    w0, w2, w3 = numbers
    border = bits(w3, 30, 2)
    if border == 3:
        raise BeyondModel(f"{i.name}: border colour {bits(w3, 0, 12)} of the driver's table is not modelled")
    w = sregs(b, i["ssamp"], 4)
    return Sampler(
        clamp=(bits(w0, 0, 3), bits(w0, 3, 3), bits(w0, 6, 3)),
        compare=bits(w0, 12, 3),
        unnormalised=bool(bits(w0, 15, 1)) or bool(i["unorm"]),
        reduction=bits(w0, 29, 2),
        magnify=bool(bits(w2, 20, 2) & 1),
        minify=bool(bits(w2, 22, 2) & 1),
        depth_filter=bits(w2, 24, 2),
        border=border,
        min_lod=w[1][11:0],
        max_lod=w[1][23:12],
        lod_bias=w[2][13:0],
    )
