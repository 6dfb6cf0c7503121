"""Image resources (T#) and samplers (S#): the scalar words of an image instruction, decoded.

Only linear images are modelled (GFX7, GFX8: tiling index 8, linear aligned; GFX9: swizzle mode 0), of one mip level and
one sample: other layouts are the driver's business. An image of 128 bits (r128) has no pitch: its width, rounded up to
64 texels or 256 bytes, is taken (Choice ``gcn/image-r128``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from understudy.core.errors import BeyondModel
from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics import memory_formats as formats
from understudy.isa.gcn.semantics.access import sregs
from understudy.isa.gcn.target import GFX9

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
    """A T#: sizes in texels, `slices` how many slices (or depth) from `first_slice` on."""

    kind: int
    base: int
    dfmt: int
    nfmt: int
    width: int
    height: int
    pitch: int
    slices: int
    first_slice: int
    select: tuple[int, ...]
    min_lod: float

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


def image(b: Builder, i: Insn) -> Image:
    """The image of an instruction; `BeyondModel` for what is not modelled."""
    short = bool(i["r128"]) and i.target.level < GFX9
    return decoded(i.name, i.target.level, *(word.number for word in sregs(b, i["srsrc"], 4 if short else 8)))


@lru_cache(256)
def decoded(name: str, level: int, *words: int) -> Image:
    """The image of a T# of four or eight words, for an operation and a generation."""
    short = len(words) == 4
    w = [*words, 0, 0, 0, 0] if short else words
    kind = bits(w[3], 28, 4)
    if kind not in DIMENSIONS:
        raise BeyondModel(f"{name}: resource type {kind} is not modelled: it must be 8 to 13, an image of one sample")
    check_layout(name, level, w)
    dfmt, width, height = bits(w[1], 20, 6), bits(w[2], 0, 14) + 1, bits(w[2], 14, 14) + 1
    depth, last = bits(w[4], 0, 13), bits(w[5], 13, 13)
    first = 0 if kind == IMAGE_3D else bits(w[5], 0, 13)
    if kind == IMAGE_3D:
        slices = depth + 1
    elif kind in (IMAGE_1D, IMAGE_2D):
        slices = 1
    else:
        slices = max((depth if level == GFX9 else last) - first + 1, 0)
    if short:
        unit = max(64, 256 // max(formats.element_bytes(dfmt, image=True), 1))
        pitch = -(-width // unit) * unit
    else:
        pitch = bits(w[4], 13, 16 if level == GFX9 else 14) + 1
    select = tuple(bits(w[3], 3 * k, 3) for k in range(4))
    base = (w[0] | bits(w[1], 0, 8) << 32) << 8
    one_row = DIMENSIONS[kind] == 1
    nfmt = bits(w[1], 26, 4)
    return Image(
        kind, base, dfmt, nfmt, width, 1 if one_row else height, pitch, slices, first, select, bits(w[1], 8, 12) / 256
    )


def check_layout(operation: str, level: int, w: Sequence[int]) -> None:
    """Refuse tiled images and mip levels."""
    mode, name, wanted = bits(w[3], 20, 5), "tiling index", LINEAR_ALIGNED
    if level == GFX9:
        name, wanted = "swizzle mode", LINEAR
    if mode != wanted:
        raise BeyondModel(f"{operation}: {name} {mode} of the image is not modelled: it must be {wanted}, linear")
    first, last = bits(w[3], 12, 4), bits(w[3], 16, 4)
    if first or last:
        raise BeyondModel(
            f"{operation}: mip levels {first} to {last} of the image are not modelled: it must have level 0 only"
        )


WRAP, MIRROR, CLAMP, MIRROR_CLAMP, HALF_BORDER, MIRROR_HALF_BORDER, BORDER, MIRROR_BORDER = range(8)
"""Addressing modes; "mirror" from 3 on means one mirroring, at 0."""


@dataclass(frozen=True, slots=True)
class Sampler:
    """An S#. Filters: True for linear. `border`: 0 transparent black, 1 opaque black, 2 opaque white."""

    clamp: tuple[int, int, int]
    compare: int
    unnormalised: bool
    reduction: int
    min_lod: float
    max_lod: float
    lod_bias: float
    magnify: bool
    minify: bool
    depth_filter: int
    border: int


def sampler(b: Builder, i: Insn) -> Sampler:
    """The sampler of an instruction; `BeyondModel` for border colours from the driver's table."""
    w0, w1, w2, w3 = (word.number for word in sregs(b, i["ssamp"], 4))
    border = bits(w3, 30, 2)
    if border == 3:
        raise BeyondModel(f"{i.name}: border colour {bits(w3, 0, 12)} of the driver's table is not modelled")
    bias = bits(w2, 0, 14)
    return Sampler(
        clamp=(bits(w0, 0, 3), bits(w0, 3, 3), bits(w0, 6, 3)),
        compare=bits(w0, 12, 3),
        unnormalised=bool(bits(w0, 15, 1)) or bool(i["unorm"]),
        reduction=bits(w0, 29, 2),
        min_lod=bits(w1, 0, 12) / 256,
        max_lod=bits(w1, 12, 12) / 256,
        lod_bias=(bias - (1 << 14) if bias >> 13 else bias) / 256,
        magnify=bool(bits(w2, 20, 2) & 1),
        minify=bool(bits(w2, 22, 2) & 1),
        depth_filter=bits(w2, 24, 2),
        border=border,
    )
