"""Image and sampler objects in memory, which a kernel receives as pointer arguments.

An image object is 12 dwords: the resource descriptor that image instructions take (a T#; a V# for 1D buffers), then
channel data type, channel order and width. A sampler object is 8 dwords, of which the first 4 are the S#. Both are the
hardware's bit patterns: compiled kernels load them, and compute sizes from their fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from softcard.core.errors import WireError
from softcard.core.record import Record, reserved, u32, words
from softcard.core.words import align_up
from softcard.image.amdcl2.formats import PACKED, ChannelOrder, ChannelType, ImageFormat, ImageKind
from softcard.image.amdcl2.records import SamplerInit
from softcard.isa.gcn.semantics.image.resource import BORDER, CLAMP, LINEAR, LINEAR_ALIGNED, MIRROR, WRAP
from softcard.isa.gcn.semantics.memory_formats import SRGB
from softcard.isa.gcn.target import GFX8, GFX9

MAX_SIZE: Final = 1 << 14
"""The largest size of an image along one axis in texels."""
MAX_SLICES: Final = 1 << 13
"""The largest number of array slices, or the largest depth of a 3D image."""
MASK32: Final = 0xFFFF_FFFF
_TYPE_BIT: Final = 28


class ImageObject(Record, size=48):
    """An image object of 12 dwords; the CLRX documentation does not describe dwords 10 and 11."""

    resource: tuple[int, ...] = words(32, 8)
    channel_type: int = u32()
    channel_order: int = u32()
    width: int = u32()
    reserved_2c: bytes = reserved(4)


class Addressing(IntEnum):
    """The addressing mode of a sampler in OpenCL; values are the numbers of HSA."""

    NONE = 0
    CLAMP_TO_EDGE = 1
    CLAMP = 2
    REPEAT = 3
    MIRRORED_REPEAT = 4


class Filter(IntEnum):
    """The filter mode of a sampler in OpenCL; values are the numbers of HSA."""

    NEAREST = 0
    LINEAR = 1


CLAMPS: Final = {
    Addressing.NONE: WRAP,
    Addressing.CLAMP_TO_EDGE: CLAMP,
    Addressing.CLAMP: BORDER,
    Addressing.REPEAT: WRAP,
    Addressing.MIRRORED_REPEAT: MIRROR,
}
"""The clamp field of the S# descriptor for each addressing mode."""
MAX_LOD: Final = 0xFFF


class SamplerObject(Record, size=32):
    """A sampler object of 8 dwords, of which the first 4 are used."""

    resource: tuple[int, ...] = words(32, 4)
    reserved_10: bytes = reserved(16)

    @classmethod
    def of(cls, normalised: bool, addressing: Addressing, filtering: Filter) -> SamplerObject:
        """Return the sampler object for the properties of an OpenCL sampler."""
        clamp = CLAMPS[addressing]
        linear = int(filtering is Filter.LINEAR)
        word0 = clamp | clamp << 3 | clamp << 6 | (not normalised) << 15
        return cls(resource=(word0, MAX_LOD << 12, linear << 20 | linear << 22, 0))

    @classmethod
    def of_init(cls, init: SamplerInit) -> SamplerObject:
        """Return the sampler object for a sampler that the program defines.

        Raise `WireError` if `init` contains an unknown addressing or filter mode."""
        try:
            addressing, filtering = Addressing(init.addressing), Filter(init.filter)
        except ValueError as error:
            raise WireError(f"sampler of the program: {error}") from None
        return cls.of(bool(init.coordinate), addressing, filtering)


@dataclass(frozen=True, slots=True)
class Texels:
    """The memory layout of an image; sizes are in texels.

    `pitch` is the distance between the starts of rows; `slices` is the depth or the number of array slices.
    """

    kind: ImageKind
    format: ImageFormat
    width: int
    height: int = 1
    slices: int = 1
    pitch: int = 0

    @property
    def row_bytes(self) -> int:
        """The distance in bytes between the starts of rows."""
        return self.pitch * self.format.texel_bytes

    @property
    def size_bytes(self) -> int:
        """The size in bytes of the whole image."""
        return self.row_bytes * self.height * self.slices


def texels(kind: ImageKind, format: ImageFormat, shape: tuple[int, ...]) -> Texels:
    """Return the memory layout of an image of `shape`: slices or depth, rows, columns.

    `shape` has only the axes that images of this kind have. The pitch is that of linear images: a multiple of 64 texels
    and of 256 bytes. Raise `WireError` for sizes that do not fit the descriptor's fields, and for formats that a 1D
    buffer cannot have.
    """
    if len(shape) != kind.axes or not all(shape):
        raise WireError(f"the shape of a {kind.name} image is {shape}, expected {kind.axes} sizes of 1 or more")
    width = shape[-1]
    if kind is ImageKind.BUFFER_1D:
        if (format.type in PACKED and format.type is not ChannelType.CL_UNORM_INT_101010) or format.nfmt == SRGB:
            raise WireError(
                f"a 1D image buffer cannot have channel order {format.order.name} with type {format.type.name}"
            )
        if width * format.texel_bytes > MASK32:
            most = MASK32 // format.texel_bytes
            raise WireError(f"the 1D image buffer has {width} texels, expected at most {most} for {format.type.name}")
        return Texels(kind, format, width, pitch=width)
    is_flat = kind in (ImageKind.IMAGE_1D, ImageKind.ARRAY_1D)
    height = 1 if is_flat else shape[-2]
    slices = shape[0] if kind.is_array or kind is ImageKind.IMAGE_3D else 1
    if max(width, height) > MAX_SIZE or slices > MAX_SLICES:
        text = (
            f"the shape of a {kind.name} image is {shape}, expected at most {MAX_SIZE} texels along an axis and "
            f"{MAX_SLICES} slices"
        )
        raise WireError(text)
    unit = max(64, 256 // format.texel_bytes)
    return Texels(kind, format, width, height, slices, align_up(width, unit))


def image_object(level: int, image: Texels, address: int) -> ImageObject:
    """Return the image object of an image on the GCN generation `level` (GFX7, GFX8 or GFX9).

    The texels of the image begin at `address`, a multiple of 256.
    """
    if address & 0xFF and image.kind is not ImageKind.BUFFER_1D:
        raise WireError(f"the address of the texels is {address:#x}, expected a multiple of 256")
    resource = _buffer(level, image, address) if image.kind is ImageKind.BUFFER_1D else _image(level, image, address)
    return ImageObject(
        resource=resource,
        channel_type=int(image.format.type),
        channel_order=int(image.format.order),
        width=image.width,
    )


def _select(format: ImageFormat) -> int:
    return sum(source << 3 * k for k, source in enumerate(format.swizzle))


def _image(level: int, image: Texels, address: int) -> tuple[int, ...]:
    """Return the T# descriptor of a linear image with one mip level and one sample."""
    layout = LINEAR if level == GFX9 else LINEAR_ALIGNED
    last = image.slices - 1
    word3 = _select(image.format) | layout << 20 | int(image.kind) << _TYPE_BIT
    last_array = last << 13 if level != GFX9 and image.kind.is_array else 0
    return (
        address >> 8 & MASK32,
        address >> 40 & 0xFF | image.format.dfmt << 20 | image.format.nfmt << 26,
        (image.width - 1) | (image.height - 1) << 14,
        word3,
        last | (image.pitch - 1) << 13,
        last_array,
        0,
        0,
    )


def _buffer(level: int, image: Texels, address: int) -> tuple[int, ...]:
    """Return the V# descriptor of a 1D buffer.

    Its field NUM_RECORDS is the number of bytes on GFX8, and the number of texels on other generations."""
    size = image.format.texel_bytes
    records = image.width * size if level == GFX8 else image.width
    word3 = _select(image.format) | image.format.nfmt << 12 | image.format.dfmt << 15
    return (address & MASK32, address >> 32 & 0xFFFF | size << 16, records, word3, 0, 0, 0, 0)


def described(words_: tuple[int, ...]) -> tuple[ChannelType, ChannelOrder]:
    """Return the channel data type and order in the 12 dwords of an image object.

    The bits around them in dwords 8 and 9 are masked off as the CLRX documentation requires.
    """
    return ChannelType.of_dword(words_[8]), ChannelOrder.of_dword(words_[9])
