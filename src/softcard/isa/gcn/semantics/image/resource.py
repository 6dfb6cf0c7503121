"""Image resources (T#) and samplers (S#): decoding of the scalar words of an image instruction.

Fields that select the variant of an instruction (type, formats, layout, order of components) are numbers; sizes and
addresses are words.

Only linear images with one mip level and one sample are modelled (GFX7, GFX8: tiling index 8, linear aligned; GFX9:
swizzle mode 0), since other layouts depend on the driver. A T# of 128 bits (r128) has no pitch; the width rounded up to
64 texels or 256 bytes is used instead (Choice ``gcn/image-r128``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from softcard.core.errors import BeyondModel
from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.semantics import memory_formats as formats
from softcard.isa.gcn.semantics.access import pair, sregs
from softcard.isa.gcn.target import GFX9
from softcard.isa.gcn.word import Word

LINEAR_ALIGNED: Final = 8
"""The tiling index of linear aligned images on GFX7 and GFX8."""
LINEAR: Final = 0
"""The swizzle mode of linear images on GFX9."""
IMAGE_1D, IMAGE_2D, IMAGE_3D, CUBE, ARRAY_1D, ARRAY_2D = 8, 9, 10, 11, 12, 13
DIMENSIONS: Final = {IMAGE_1D: 1, IMAGE_2D: 2, IMAGE_3D: 3, CUBE: 2, ARRAY_1D: 1, ARRAY_2D: 2}
"""The number of coordinates of a texel by resource type, without the one that selects a slice of an array."""


def bits(word: int, low: int, width: int) -> int:
    """Return the field of `width` bits of `word` that starts at bit `low`."""
    return word >> low & (1 << width) - 1


@dataclass(frozen=True, slots=True)
class Image:
    """A decoded T# descriptor. Sizes are in texels, as 32-bit words; `base` has 64 bits.

    `slices` is the number of slices from `first_slice` on, or the depth of a 3D image.
    """

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
        """The size of a texel in bytes."""
        return formats.element_bytes(self.dfmt, image=True)

    @property
    def dimensions(self) -> int:
        """The number of dimensions: 1, 2 or 3."""
        return DIMENSIONS[self.kind]

    @property
    def is_array(self) -> bool:
        """True if a coordinate selects a slice of the image (arrays and cubes)."""
        return self.kind in (CUBE, ARRAY_1D, ARRAY_2D)

    @property
    def integer(self) -> bool:
        """True if the format's components are integers in the registers."""
        return self.nfmt in formats.INTEGERS


def selectors(b: Builder, i: Insn) -> list[Word]:
    """Return the T# bits that select the variant, as two scalars.

    The first holds the formats, the second the type, the layout, the mip levels and the component order."""
    w = sregs(b, i["srsrc"], 4)
    return [w[1][29:20], w[3] & 0xF1FF_FFFF]


def image(b: Builder, i: Insn, numbers: Sequence[int]) -> Image:
    """Return the decoded image resource of an instruction; raise `BeyondModel` if it is not modelled.

    `numbers` are the two resource words that hold the format and the kind of the image, as integers. They are known
    when the instruction is compiled, because the code is specialised for their values.
    """
    level, (form, word) = i.target.level, numbers
    kind, dfmt, nfmt = bits(word, 28, 4), bits(form, 0, 6), bits(form, 6, 4)
    if kind not in DIMENSIONS:
        raise BeyondModel(f"{i.name}: resource type {kind} is not modelled, expected 8 to 13 (an image of one sample)")
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
    """Raise `BeyondModel` for tiled images and images with several mip levels; `word` has the T# bits."""
    mode, name, wanted = bits(word, 20, 5), "tiling index", LINEAR_ALIGNED
    if level == GFX9:
        name, wanted = "swizzle mode", LINEAR
    if mode != wanted:
        raise BeyondModel(f"{operation}: {name} {mode} of the image is not modelled, only {wanted} (linear) is")
    first, last = bits(word, 12, 4), bits(word, 16, 4)
    if first or last:
        raise BeyondModel(
            f"{operation}: mip levels {first} to {last} of the image are not modelled, expected only level 0"
        )


WRAP, MIRROR, CLAMP, MIRROR_CLAMP, HALF_BORDER, MIRROR_HALF_BORDER, BORDER, MIRROR_BORDER = range(8)
"""The addressing modes of samplers. From value 3 on, "mirror" means that coordinates are mirrored once, at 0."""


@dataclass(frozen=True, slots=True)
class Sampler:
    """A decoded S# descriptor. A filter field is True if the filter is linear.

    `border` is 0 for transparent black, 1 for opaque black, 2 for opaque white. `min_lod` and `max_lod` are
    12-bit unsigned LODs in units of 1/256. `lod_bias` is a 14-bit signed LOD in the same unit."""

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


def sampler_selectors(b: Builder, i: Insn) -> list[Word]:
    """Return the S# bits that select the variant, as three scalars.

    They are: (1) addressing modes, comparison, coordinates and reduction; (2) filters; (3) the border.
    """
    w = sregs(b, i["ssamp"], 4)
    border = w[3] & 0xC000_0000
    return [w[0] & 0x6000_F1FF, w[2] & 0x0350_0000, (border == 0xC000_0000).select(w[3] & 0xC000_0FFF, border)]


def sampler(b: Builder, i: Insn, numbers: Sequence[int]) -> Sampler:
    """Return the decoded sampler of an instruction.

    `numbers` are the values of the scalars that select the variant. Raise `BeyondModel` if the border colour
    comes from the driver's table of colours."""
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
