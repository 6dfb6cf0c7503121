"""Image channel types and orders: their numbers in image objects, and the hardware's formats for them.

The numbers are those of dwords 8 and 9 of an image object, named as in the CLRX documentation. The supported
combinations, and the order of components, are those of AMD's OpenCL run-time for the same chips.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from softcard.core.errors import WireError
from softcard.isa.gcn.semantics.memory_formats import FLOAT, SINT, SNORM, SRGB, UINT, UNORM

CHANNEL_TYPE_MASK: Final = 0xF
CHANNEL_ORDER_MASK: Final = 0x1F


class ChannelType(IntEnum):
    """The channel data type of an image; values are the low 4 bits of dword 8 of the image object."""

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
        """Return the channel data type in dword 8 of an image object."""
        return cls(word & CHANNEL_TYPE_MASK)


class ChannelOrder(IntEnum):
    """The channel order of an image; values are the low 5 bits of dword 9 of the image object."""

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
        """Return the channel order in dword 9 of an image object.

        Raise `WireError` for numbers from 20 on, which are undefined.
        """
        try:
            return cls(word & CHANNEL_ORDER_MASK)
        except ValueError:
            raise WireError(f"the channel order is {word & CHANNEL_ORDER_MASK}, expected 0 to 19") from None


class ImageKind(IntEnum):
    """The kind of an OpenCL image; values are resource types in a T# (a 1D buffer has a V# instead)."""

    BUFFER_1D = 0
    IMAGE_1D = 8
    IMAGE_2D = 9
    IMAGE_3D = 10
    ARRAY_1D = 12
    ARRAY_2D = 13

    @property
    def axes(self) -> int:
        """The number of axes of an array of texels for an image of this kind.

        The axes are slices, z, y and x, in this order, without those that an image of this kind lacks."""
        return {self.IMAGE_2D: 2, self.ARRAY_1D: 2, self.IMAGE_3D: 3, self.ARRAY_2D: 3}.get(self, 1)

    @property
    def is_array(self) -> bool:
        """True if the image is an array: its first axis counts slices."""
        return self in (ImageKind.ARRAY_1D, ImageKind.ARRAY_2D)


# Selectors of a component in DST_SEL: 0, 1, and the components of the data format.
_0, _1, _X, _Y, _Z, _W = 0, 1, 4, 5, 6, 7
Swizzle = tuple[int, int, int, int]

T, O = ChannelType, ChannelOrder  # noqa: E741  # short names keep the tables below readable

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
"""The source of red, green, blue and alpha in the texel, by channel order.

In packed formats the lowest bits hold blue.
"""

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
"""The format of channel types that store each component as a number of its own.

Values are the bits of a component, the hardware's number format, and the NumPy type.
"""
PACKED: Final[dict[ChannelType, tuple[int, str]]] = {
    T.CL_UNORM_SHORT_555:  (17, "uint16"),
    T.CL_UNORM_SHORT_565:  (16, "uint16"),
    T.CL_UNORM_INT_101010: (9,  "uint32"),
}
"""The data format and NumPy type of channel types that pack several components into one word."""
DATA_FORMATS: Final = {
    (8, 1):  1,  (16, 1): 2,  (8, 2):  3,  (32, 1): 4,
    (16, 2): 5,  (8, 4):  10, (32, 2): 11, (16, 4): 12, (32, 4): 14,
}
"""The hardware's data format numbers, by the bits of a component and the number of components."""
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
"""The number of words of a texel and the supported channel types, by channel order."""
# fmt: on


@dataclass(frozen=True, slots=True)
class ImageFormat:
    """The hardware's format for a combination of channel order and channel type.

    A texel consists of `words` elements of the NumPy type `dtype`.
    """

    order: ChannelOrder
    type: ChannelType
    dfmt: int
    nfmt: int
    words: int
    dtype: str
    texel_bytes: int

    @property
    def swizzle(self) -> Swizzle:
        """The descriptor field DST_SEL: the source of each component that an image instruction returns."""
        return SWIZZLES[self.order]


def image_format(order: ChannelOrder, kind: ChannelType) -> ImageFormat:
    """Return the hardware format for a channel order and type; raise `WireError` if the hardware lacks it."""
    words, types = SUPPORTED.get(order, (0, frozenset()))
    if kind not in types:
        raise WireError(
            f"no image format has channel order {order.name} and type {kind.name} (CL_IMAGE_FORMAT_NOT_SUPPORTED)"
        )
    if kind in PACKED:
        dfmt, dtype = PACKED[kind]
        return ImageFormat(order, kind, dfmt, UNORM, 1, dtype, 4 if dtype == "uint32" else 2)
    bits, nfmt, dtype = PLAIN[kind]
    nfmt = SRGB if order is ChannelOrder.CL_sRGBA else nfmt
    return ImageFormat(order, kind, DATA_FORMATS[bits, words], nfmt, words, dtype, bits * words // 8)


def supported_formats() -> list[ImageFormat]:
    """Return the formats of all supported combinations of channel order and channel type."""
    return [image_format(order, kind) for order, (_, types) in SUPPORTED.items() for kind in sorted(types)]
