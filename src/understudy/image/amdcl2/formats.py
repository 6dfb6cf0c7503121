"""Image channel types and orders: the numbers of the document's tables, and the hardware's formats for them.

Numbers are those of dwords 8 and 9 of an image object; OpenCL's names are the document's. Which combinations have a
format, and how components are swizzled, is what AMD's runtime for the same chips does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from understudy.core.errors import WireError
from understudy.isa.gcn.semantics.memory_formats import FLOAT, SINT, SNORM, SRGB, UINT, UNORM

CHANNEL_TYPE_MASK: Final = 0xF
CHANNEL_ORDER_MASK: Final = 0x1F


class ChannelType(IntEnum):
    """Image channel data types: dword 8, masked with 0xf."""

    CL_SNORM_INT8 = 0
    CL_SNORM_INT16 = 1
    CL_UNORM_INT8 = 2
    CL_UNORM_INT16 = 3
    CL_UNORM_INT24 = 4
    CL_UNORM_SHORT_555 = 5
    CL_UNORM_SHORT_565 = 6
    CL_UNORM_INT_101010 = 7
    CL_SIGNED_INT8 = 8
    CL_SIGNED_INT16 = 9
    CL_SIGNED_INT32 = 10
    CL_UNSIGNED_INT8 = 11
    CL_UNSIGNED_INT16 = 12
    CL_UNSIGNED_INT32 = 13
    CL_HALF_FLOAT = 14
    CL_FLOAT = 15

    @classmethod
    def of_dword(cls, word: int) -> ChannelType:
        """The type in dword 8 of an image object."""
        return cls(word & CHANNEL_TYPE_MASK)


class ChannelOrder(IntEnum):
    """Image channel orders: dword 9, masked with 0x1f."""

    CL_A = 0
    CL_R = 1
    CL_Rx = 2
    CL_RG = 3
    CL_RGx = 4
    CL_RA = 5
    CL_RGB = 6
    CL_RGBx = 7
    CL_RGBA = 8
    CL_BGRA = 9
    CL_ARGB = 10
    CL_ABGR = 11
    CL_sRGB = 12
    CL_sRGBx = 13
    CL_sRGBA = 14
    CL_sBGRA = 15
    CL_INTENSITY = 16
    CL_LUMINANCE = 17
    CL_DEPTH = 18
    CL_DEPTH_STENCIL = 19

    @classmethod
    def of_dword(cls, word: int) -> ChannelOrder:
        """The order in dword 9 of an image object; `WireError` for numbers from 20 on, which no table has."""
        try:
            return cls(word & CHANNEL_ORDER_MASK)
        except ValueError:
            raise WireError(f"channel order {word & CHANNEL_ORDER_MASK}, expected 0 to 19") from None


class ImageKind(IntEnum):
    """OpenCL's kinds of images, with the resource type in the T#; a 1D buffer has a V# instead."""

    BUFFER_1D = 0
    IMAGE_1D = 8
    IMAGE_2D = 9
    IMAGE_3D = 10
    ARRAY_1D = 12
    ARRAY_2D = 13

    @property
    def axes(self) -> int:
        """Axes of an array of texels: slices, then z, y, x, as far as there are any."""
        return {self.IMAGE_2D: 2, self.ARRAY_1D: 2, self.IMAGE_3D: 3, self.ARRAY_2D: 3}.get(self, 1)

    @property
    def is_array(self) -> bool:
        """Whether the first axis counts slices."""
        return self in (ImageKind.ARRAY_1D, ImageKind.ARRAY_2D)


# Selectors of a component in DST_SEL: 0, 1, and the components of the data format.
_0, _1, _X, _Y, _Z, _W = 0, 1, 4, 5, 6, 7
Swizzle = tuple[int, int, int, int]

T, O = ChannelType, ChannelOrder  # noqa: E741  # the tables below are read as tables

# fmt: off
SWIZZLES: Final[dict[ChannelOrder, Swizzle]] = {
    O.CL_A:             (_0, _0, _0, _X),
    O.CL_R:             (_X, _0, _0, _1),
    O.CL_Rx:            (_X, _0, _0, _1),
    O.CL_RG:            (_X, _Y, _0, _1),
    O.CL_RGx:           (_X, _Y, _0, _1),
    O.CL_RA:            (_X, _0, _0, _Y),
    O.CL_RGB:           (_Z, _Y, _X, _1),
    O.CL_RGBx:          (_Z, _Y, _X, _1),
    O.CL_RGBA:          (_X, _Y, _Z, _W),
    O.CL_BGRA:          (_Z, _Y, _X, _W),
    O.CL_ARGB:          (_Y, _Z, _W, _X),
    O.CL_ABGR:          (_Y, _X, _W, _Z),
    O.CL_sRGB:          (_X, _Y, _Z, _1),
    O.CL_sRGBx:         (_X, _Y, _Z, _1),
    O.CL_sRGBA:         (_X, _Y, _Z, _W),
    O.CL_sBGRA:         (_Z, _Y, _X, _W),
    O.CL_INTENSITY:     (_X, _X, _X, _X),
    O.CL_LUMINANCE:     (_X, _X, _X, _1),
    O.CL_DEPTH:         (_X, _0, _0, _0),
    O.CL_DEPTH_STENCIL: (_Y, _0, _0, _0),
}
"""Where red, green, blue and alpha come from. The packed formats have blue in the lowest bits."""

PLAIN: Final[dict[ChannelType, tuple[int, int, str]]] = {
    T.CL_SNORM_INT8:      (8,  SNORM, "int8"),
    T.CL_SNORM_INT16:     (16, SNORM, "int16"),
    T.CL_UNORM_INT8:      (8,  UNORM, "uint8"),
    T.CL_UNORM_INT16:     (16, UNORM, "uint16"),
    T.CL_SIGNED_INT8:     (8,  SINT,  "int8"),
    T.CL_SIGNED_INT16:    (16, SINT,  "int16"),
    T.CL_SIGNED_INT32:    (32, SINT,  "int32"),
    T.CL_UNSIGNED_INT8:   (8,  UINT,  "uint8"),
    T.CL_UNSIGNED_INT16:  (16, UINT,  "uint16"),
    T.CL_UNSIGNED_INT32:  (32, UINT,  "uint32"),
    T.CL_HALF_FLOAT:      (16, FLOAT, "float16"),
    T.CL_FLOAT:           (32, FLOAT, "float32"),
}
"""Bits of a component, number format and NumPy type of the types with one number a component."""
PACKED: Final[dict[ChannelType, tuple[int, str]]] = {
    T.CL_UNORM_SHORT_555:  (17, "uint16"),
    T.CL_UNORM_SHORT_565:  (16, "uint16"),
    T.CL_UNORM_INT_101010: (9,  "uint32"),
}
"""Data format and NumPy type of the types with several components in a word."""
DATA_FORMATS: Final = {
    (8, 1):  1,  (16, 1): 2,  (8, 2):  3,  (32, 1): 4,
    (16, 2): 5,  (8, 4):  10, (32, 2): 11, (16, 4): 12, (32, 4): 14,
}
"""Data formats by bits and number of components."""
_ANY: Final = frozenset(PLAIN)
_BYTES: Final = frozenset({T.CL_SNORM_INT8, T.CL_UNORM_INT8, T.CL_SIGNED_INT8, T.CL_UNSIGNED_INT8})
_REAL: Final = frozenset({
    T.CL_SNORM_INT8, T.CL_SNORM_INT16, T.CL_UNORM_INT8, T.CL_UNORM_INT16, T.CL_HALF_FLOAT, T.CL_FLOAT,
})
SUPPORTED: Final[dict[ChannelOrder, tuple[int, frozenset[ChannelType]]]] = {
    O.CL_A:         (1, _ANY),
    O.CL_R:         (1, _ANY),
    O.CL_RG:        (2, _ANY),
    O.CL_RA:        (2, _ANY),
    O.CL_RGB:       (1, frozenset(PACKED)),
    O.CL_RGBA:      (4, _ANY),
    O.CL_BGRA:      (4, _BYTES),
    O.CL_ARGB:      (4, _BYTES),
    O.CL_sRGBA:     (4, frozenset({T.CL_UNORM_INT8})),
    O.CL_INTENSITY: (1, _REAL),
    O.CL_LUMINANCE: (1, _REAL),
    O.CL_DEPTH:     (1, frozenset({T.CL_UNORM_INT16, T.CL_FLOAT})),
}
"""Words of a texel and the channel types that an order can have: all others have no format."""
# fmt: on


@dataclass(frozen=True, slots=True)
class ImageFormat:
    """The hardware's format for a channel order and type. `words` of NumPy type `dtype` make a texel."""

    order: ChannelOrder
    type: ChannelType
    dfmt: int
    nfmt: int
    words: int
    dtype: str
    texel_bytes: int

    @property
    def swizzle(self) -> Swizzle:
        """DST_SEL."""
        return SWIZZLES[self.order]


def image_format(order: ChannelOrder, kind: ChannelType) -> ImageFormat:
    """The format of a combination; `WireError` where the hardware has none."""
    words, types = SUPPORTED.get(order, (0, frozenset()))
    if kind not in types:
        raise WireError(f"{order.name} of {kind.name} has no format: CL_IMAGE_FORMAT_NOT_SUPPORTED")
    if kind in PACKED:
        dfmt, dtype = PACKED[kind]
        return ImageFormat(order, kind, dfmt, UNORM, 1, dtype, 4 if dtype == "uint32" else 2)
    bits, nfmt, dtype = PLAIN[kind]
    nfmt = SRGB if order is ChannelOrder.CL_sRGBA else nfmt
    return ImageFormat(order, kind, DATA_FORMATS[bits, words], nfmt, words, dtype, bits * words // 8)


def supported_formats() -> list[ImageFormat]:
    """All combinations that have a format, in the order of the tables."""
    return [image_format(order, kind) for order, (_, types) in SUPPORTED.items() for kind in sorted(types)]
