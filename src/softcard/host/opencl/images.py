"""Images: their kinds and formats, their memory, and how kernels receive them.

The texels of an image lie in the arena, or in the memory of the buffer or image from which the program makes it, in the
linear layout that image instructions address. A kernel receives the address of an image object, which is made once for
each device and refers to these texels. Therefore a launch copies no texels.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from softcard.host.hsa.arguments import Given
from softcard.host.opencl import constants as cl
from softcard.host.opencl.calls import Call, Made, entry, query, u32, u64
from softcard.host.opencl.device_info import PITCH_TEXELS, device_info, has_images
from softcard.host.opencl.errors import OpenClError, require
from softcard.host.opencl.memory import (
    ALL_FLAGS,
    HOST_POINTER,
    KERNEL_ACCESS,
    Memory,
    Sizes,
    Span,
    check_flags,
    narrowed_flags,
)
from softcard.host.opencl.objects import Context, Copy, Device
from softcard.image.amdcl2.arguments import IMAGE_TYPES
from softcard.image.amdcl2.formats import PACKED, ChannelOrder, ChannelType, ImageFormat, ImageKind, supported_formats
from softcard.image.amdcl2.objects import MAX_SIZE, MAX_SLICES, ImageObject, Texels, image_object, texels
from softcard.image.hsa.metadata import Argument
from softcard.isa.gcn.semantics.memory_formats import SRGB

KINDS: Final = {
    cl.MEM_OBJECT_IMAGE1D: ImageKind.IMAGE_1D,
    cl.MEM_OBJECT_IMAGE1D_BUFFER: ImageKind.BUFFER_1D,
    cl.MEM_OBJECT_IMAGE1D_ARRAY: ImageKind.ARRAY_1D,
    cl.MEM_OBJECT_IMAGE2D: ImageKind.IMAGE_2D,
    cl.MEM_OBJECT_IMAGE2D_ARRAY: ImageKind.ARRAY_2D,
    cl.MEM_OBJECT_IMAGE3D: ImageKind.IMAGE_3D,
}
"""The kinds of images by CL_MEM_OBJECT_TYPE."""
TITLES: Final = {
    ImageKind.IMAGE_1D: "1D image",
    ImageKind.BUFFER_1D: "1D image buffer",
    ImageKind.ARRAY_1D: "1D image array",
    ImageKind.IMAGE_2D: "2D image",
    ImageKind.ARRAY_2D: "2D image array",
    ImageKind.IMAGE_3D: "3D image",
}
"""The names of the kinds in messages."""
WITH_SLICES: Final = (ImageKind.ARRAY_1D, ImageKind.ARRAY_2D, ImageKind.IMAGE_3D)
"""The kinds that have a slice pitch."""
O, T = ChannelOrder, ChannelType  # noqa: E741  # short names keep the tables readable
ORDERS: Final = {
    cl.R: O.CL_R,
    cl.A: O.CL_A,
    cl.RG: O.CL_RG,
    cl.RA: O.CL_RA,
    cl.RGB: O.CL_RGB,
    cl.RGBA: O.CL_RGBA,
    cl.BGRA: O.CL_BGRA,
    cl.ARGB: O.CL_ARGB,
    cl.INTENSITY: O.CL_INTENSITY,
    cl.LUMINANCE: O.CL_LUMINANCE,
    cl.Rx: O.CL_Rx,
    cl.RGx: O.CL_RGx,
    cl.RGBx: O.CL_RGBx,
    cl.DEPTH: O.CL_DEPTH,
    cl.SRGB: O.CL_sRGB,
    cl.SRGBX: O.CL_sRGBx,
    cl.SRGBA: O.CL_sRGBA,
    cl.SBGRA: O.CL_sBGRA,
    cl.ABGR: O.CL_ABGR,
}
"""The channel orders by their numbers in ``cl_image_format``."""
TYPES: Final = {
    cl.SNORM_INT8: T.CL_SNORM_INT8,
    cl.SNORM_INT16: T.CL_SNORM_INT16,
    cl.UNORM_INT8: T.CL_UNORM_INT8,
    cl.UNORM_INT16: T.CL_UNORM_INT16,
    cl.UNORM_SHORT_565: T.CL_UNORM_SHORT_565,
    cl.UNORM_SHORT_555: T.CL_UNORM_SHORT_555,
    cl.UNORM_INT_101010: T.CL_UNORM_INT_101010,
    cl.SIGNED_INT8: T.CL_SIGNED_INT8,
    cl.SIGNED_INT16: T.CL_SIGNED_INT16,
    cl.SIGNED_INT32: T.CL_SIGNED_INT32,
    cl.UNSIGNED_INT8: T.CL_UNSIGNED_INT8,
    cl.UNSIGNED_INT16: T.CL_UNSIGNED_INT16,
    cl.UNSIGNED_INT32: T.CL_UNSIGNED_INT32,
    cl.HALF_FLOAT: T.CL_HALF_FLOAT,
    cl.FLOAT: T.CL_FLOAT,
}
"""The channel data types by their numbers in ``cl_image_format``."""
COMPATIBLE: Final = {(O.CL_sRGBA, O.CL_RGBA), (O.CL_RGBA, O.CL_sRGBA), (O.CL_DEPTH, O.CL_R)}
"""The channel orders of a 2D image made from another 2D image, and of that other one, where they differ."""
WRITTEN: Final = cl.MEM_READ_WRITE | cl.MEM_WRITE_ONLY | cl.MEM_KERNEL_READ_AND_WRITE
"""The flags of images that kernels may write."""
ACCESS_FLAGS: Final = {
    "read_only": cl.MEM_READ_ONLY,
    "write_only": cl.MEM_WRITE_ONLY,
    "read_write": cl.MEM_KERNEL_READ_AND_WRITE,
}
"""The flags that select the formats for the access qualifier of an argument."""
ACCESSED, IS_DEPTH, IS_SRGB = 1 << 16, 1 << 19, 1 << 20
"""The bits above the CL_MEM_OBJECT_TYPE in the number of an image: the lowest of three about accesses, and two others.

The library has this number of 24 bits, because objects with equal numbers are accepted by the same arguments.
"""
BASE_ALIGNMENT: Final = 256
"""The alignment in bytes of the texels of all images but 1D image buffers."""
DESCRIPTION: Final = struct.Struct("<I4x6QIIQ")
"""The structure ``cl_image_desc``."""


# ---- formats ---------------------------------------------------------------------------------------------------------


@cache
def known_formats(type: int, flags: int) -> tuple[tuple[bytes, ImageFormat], ...]:
    """Return the formats of images of a CL_MEM_OBJECT_TYPE with flags, each with its structure ``cl_image_format``."""
    orders = {order: number for number, order in ORDERS.items()}
    types = {kind: number for number, kind in TYPES.items()}
    kind = KINDS[type]
    found = []
    for each in supported_formats():
        is_flat = kind in (ImageKind.IMAGE_2D, ImageKind.ARRAY_2D)
        is_packed = each.type in PACKED and each.type is not ChannelType.CL_UNORM_INT_101010
        if each.order is ChannelOrder.CL_DEPTH and not is_flat:
            continue
        if kind is ImageKind.BUFFER_1D and (is_packed or each.nfmt == SRGB):
            continue  # buffer instructions lack these formats
        if each.nfmt == SRGB and flags & WRITTEN:
            continue  # the devices lack cl_khr_srgb_image_writes
        found.append((struct.pack("<II", orders[each.order], types[each.type]), each))
    return tuple(found)


def format_of(data: bytes | None, type: int, flags: int) -> ImageFormat:
    """Return the format of a structure ``cl_image_format``; raise `OpenClError` if images of this kind lack it."""
    require(data is not None, cl.INVALID_IMAGE_FORMAT_DESCRIPTOR, "the image format is NULL, expected a structure")
    assert data is not None
    order, kind = struct.unpack("<II", data)
    is_known = order in ORDERS and kind in TYPES
    require(
        is_known,
        cl.INVALID_IMAGE_FORMAT_DESCRIPTOR,
        f"channel order {order:#x} with type {kind:#x} is unknown, expected numbers of cl_channel_order and "
        "cl_channel_type",
    )
    is_rgb = ORDERS[order] in (ChannelOrder.CL_RGB, ChannelOrder.CL_RGBx)
    require(
        is_rgb == (TYPES[kind] in PACKED),
        cl.INVALID_IMAGE_FORMAT_DESCRIPTOR,
        f"channel order {ORDERS[order].name} with type {TYPES[kind].name} is invalid: CL_RGB and CL_RGBx need a type "
        "that packs three channels into one word, and other orders need another type",
    )
    for structure, each in known_formats(type, flags):
        if structure == data:
            return each
    raise OpenClError(
        cl.IMAGE_FORMAT_NOT_SUPPORTED,
        f"{TITLES[KINDS[type]]}s with flags {flags:#x} cannot have channel order {ORDERS[order].name} with type "
        f"{TYPES[kind].name}: see clGetSupportedImageFormats",
    )


@entry("clGetSupportedImageFormats")
def get_supported_image_formats(call: Call, context: Context, flags: int, kind: int, formats: int = 0) -> bytes:
    """Return the formats of images of a kind with flags, in the order of the product's table."""
    require(kind in KINDS, cl.INVALID_VALUE, f"the image type is {kind:#x}, expected a CL_MEM_OBJECT_IMAGE* number")
    only = (flags & KERNEL_ACCESS).bit_count() <= 1 and not flags & ~ALL_FLAGS
    require(only, cl.INVALID_VALUE, f"the flags {flags:#x} are invalid, expected memory flags")
    if not flags & (KERNEL_ACCESS | cl.MEM_KERNEL_READ_AND_WRITE):
        flags |= cl.MEM_READ_WRITE
    if not any(has_images(each.agent) for each in context.devices):
        return b""
    return b"".join(structure for structure, _ in known_formats(kind, flags))


# ---- images ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Steps:
    """The distances in bytes between neighbouring texels, rows and slices, as `Region` counts them.

    The rows of a 1D image array are its slices.
    """

    texel: int
    row: int
    slice: int

    def at(self, origin: Sizes) -> int:
        """Return the distance in bytes of a texel from the first one."""
        return origin[0] * self.texel + origin[1] * self.row + origin[2] * self.slice


class Image(Memory):
    """An image. `structure` is its ``cl_image_format``, `texels` is the layout of its texels in the arena.

    `pitches` are the row pitch and the slice pitch that the program passed or that follow from the sizes.
    """

    def __init__(
        self,
        context: Context,
        handle: int,
        flags: int,
        structure: bytes,
        texels: Texels,
        pitches: tuple[int, int],
        *,
        host: int = 0,
        parent: Memory | None = None,
        properties: tuple[int, ...] | None = None,
        type: int,
    ) -> None:
        super().__init__(
            context,
            handle,
            flags,
            texels.size_bytes,
            host=host,
            parent=parent,
            properties=properties,
            type=type,
        )
        self.structure = structure
        self.texels = texels
        self.pitches = pitches
        self._objects: dict[Device, int] = {}

    @cached_property
    def title(self) -> str:  # the checks of each call need it
        """The name of the image in messages."""
        return image_title(self.texels)

    @cached_property
    def extent(self) -> Sizes:
        """The sizes in texels of the three axes of regions."""
        found = self.texels
        if found.kind is ImageKind.ARRAY_1D:
            return found.width, found.slices, 1
        return found.width, found.height, found.slices

    @cached_property
    def steps(self) -> Steps:
        """The distances between texels in the image's own memory."""
        row = self.texels.row_bytes
        return Steps(self.texels.format.texel_bytes, row, row * self.texels.height)

    @property
    def host_steps(self) -> Steps:
        """The distances between texels in the memory that the program has, with CL_MEM_USE_HOST_PTR."""
        if self.parent is not None:
            return self.parent.host_steps if isinstance(self.parent, Image) else self.steps
        row, slice = self.pitches
        return Steps(self.texels.format.texel_bytes, slice if self.texels.kind is ImageKind.ARRAY_1D else row, slice)

    @property
    def number(self) -> int:
        """The number that the library stores: the same for images that arguments of kernels accept alike."""
        order, nfmt = self.texels.format.order, self.texels.format.nfmt
        found = self.type | (self.flags & KERNEL_ACCESS) * ACCESSED
        return found | (IS_DEPTH if order is ChannelOrder.CL_DEPTH else 0) | (IS_SRGB if nfmt == SRGB else 0)

    # ---- arguments of kernels ------------------------------------------------------------------------------------

    def argument(self, device: Device) -> Given:
        """Return the address of the image object on a device, which refers to the texels there."""
        place = self.on(device)
        with self._lock:
            found = self._objects.get(device)
            if found is None:
                gpu = device.gpu.device
                made = image_object(gpu.agent.target.level, self.texels, place).pack()
                found = self._objects[device] = gpu.allocate(ImageObject.size_bytes, name="image object")
                gpu.memory.write(found, made)
        return found

    def check_argument(self, argument: Argument, title: str) -> None:
        """Raise `OpenClError` unless an argument takes images of this kind, order, format and access."""
        kind = IMAGE_TYPES.get(argument.type_name)
        is_depth = "depth" in argument.type_name
        require(
            kind is self.texels.kind and is_depth == (self.texels.format.order is ChannelOrder.CL_DEPTH),
            cl.INVALID_MEM_OBJECT,
            f"{title} is {argument.type_name}, which takes another image than a {self.title}",
        )
        refused = {
            "read_only": cl.MEM_WRITE_ONLY,
            "write_only": cl.MEM_READ_ONLY,
            "read_write": cl.MEM_READ_ONLY | cl.MEM_WRITE_ONLY,
        }.get(argument.access, 0)
        require(
            not self.flags & refused,
            cl.INVALID_ARG_VALUE,
            f"{title} is {argument.access}, which the flags {self.flags:#x} of the {self.title} do not allow",
        )
        known = known_formats(self.type, ACCESS_FLAGS.get(argument.access, cl.MEM_READ_ONLY))
        require(
            any(structure == self.structure for structure, _ in known),
            cl.INVALID_ARG_VALUE,
            f"{title} is {argument.access}, which the format of the {self.title} does not allow",
        )

    def _free(self) -> None:
        for device, address in self._objects.items():
            if not device.gpu.device.is_closed:
                device.gpu.device.free(address)
        super()._free()


def image_title(texels: Texels) -> str:
    """Return the name of an image in messages: its kind, sizes and format."""
    sizes = [texels.width]
    sizes += [texels.height] if texels.kind.axes - texels.kind.is_array >= 2 else []
    sizes += [texels.slices] if texels.kind in WITH_SLICES else []
    return (
        f"{TITLES[texels.kind]} of {' x '.join(map(str, sizes))} texels "
        f"({texels.format.order.name}, {texels.format.type.name})"
    )


@dataclass(frozen=True, slots=True)
class Region:
    """A region of an image: the first texel, and the sizes in texels. Iteration yields the bytes of the rows."""

    image: Image
    origin: Sizes
    size: Sizes

    @classmethod
    def of(cls, image: Image, origin: Sizes | None, size: Sizes | None) -> Region:
        """Return a region; raise `OpenClError` unless it has texels and lies in the image."""
        if origin is None or size is None or not all(size):
            raise OpenClError(
                cl.INVALID_VALUE,
                f"the region of the {image.title} is {size} from {origin} on, expected sizes of 1 or more",
            )
        require(
            all(at + count <= whole for at, count, whole in zip(origin, size, image.extent, strict=True)),
            cl.INVALID_VALUE,
            f"the region of {size} texels from {origin} on exceeds {image.extent}, the extent of the {image.title}",
        )
        return cls(image, origin, size)

    @property
    def start(self) -> int:
        """The distance in bytes of the first texel from the start of the image."""
        return self.image.steps.at(self.origin)

    @property
    def row_bytes(self) -> int:
        """The size in bytes of the texels of one row."""
        return self.size[0] * self.image.steps.texel

    @property
    def count(self) -> int:
        """The number of texels."""
        return self.size[0] * self.size[1] * self.size[2]

    @property
    def view(self) -> NDArray[np.uint8]:
        """The bytes of the region as an array of slices, rows and bytes, which shares them."""
        steps = self.image.steps
        flat = self.image.data[self.start :]
        shape = (self.size[2], self.size[1], self.row_bytes)
        return np.lib.stride_tricks.as_strided(flat, shape, (steps.slice, steps.row, 1))

    def __iter__(self) -> Iterator[Span]:
        """Yield the byte offsets and sizes of the rows; those of the whole image if the region is all of it."""
        if self.size == self.image.extent:
            yield 0, self.image.size
            return
        for z in range(self.size[2]):
            for y in range(self.size[1]):
                yield self.start + z * self.image.steps.slice + y * self.image.steps.row, self.row_bytes

    def copy(self, host: int, steps: Steps, *, writes: bool) -> Copy:
        """Return the copy between the region and the program's memory at `host`; it goes to the image if `writes`."""
        own = self.image.steps
        here = (self.image.address + self.start, own.row, own.slice)
        there = (host, steps.row, steps.slice)
        return Copy(*(here if writes else there), *(there if writes else here), self.row_bytes, *self.size[1:])

    def intersects(self, other: Region) -> bool:
        """Return True if both regions have a common texel, given that they are of one image."""
        return all(abs(a - b) < size for a, b, size in zip(self.origin, other.origin, self.size, strict=True))


# ---- creation --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Description:
    """The structure ``cl_image_desc``; `source` is the handle of the object from which the image is made, or 0."""

    type: int
    width: int
    height: int = 0
    depth: int = 0
    slices: int = 0
    row_pitch: int = 0
    slice_pitch: int = 0
    mip_levels: int = 0
    samples: int = 0
    source: int = 0

    @property
    def kind(self) -> ImageKind:
        """The kind of the image."""
        return KINDS[self.type]

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes that images of this kind have, slices or depth first."""
        return {
            ImageKind.ARRAY_1D: (self.slices, self.width),
            ImageKind.IMAGE_2D: (self.height, self.width),
            ImageKind.ARRAY_2D: (self.slices, self.height, self.width),
            ImageKind.IMAGE_3D: (self.depth, self.height, self.width),
        }.get(self.kind, (self.width,))

    def pitches(self, format: ImageFormat, status: int = cl.INVALID_IMAGE_DESCRIPTOR) -> tuple[int, int]:
        """Return the row pitch and the slice pitch of the texels in the program's memory.

        Raise `OpenClError` with the code `status` for wrong pitches.
        """
        size = format.texel_bytes
        row = self.row_pitch or self.width * size
        require(
            row >= self.width * size and row % size == 0,
            status,
            f"the row pitch is {row}, expected 0 or a multiple of {size} bytes from {self.width * size} on",
        )
        if self.kind not in WITH_SLICES:
            return row, 0
        least = row if self.kind is ImageKind.ARRAY_1D else row * self.height
        slice = self.slice_pitch or least
        require(
            slice >= least and slice % row == 0,
            status,
            f"the slice pitch is {slice}, expected 0 or a multiple of the row pitch {row} from {least} on",
        )
        return row, slice


@cache
def _most_in_buffer(agent: str) -> int:
    return int(struct.unpack("<Q", device_info(agent)[cl.DEVICE_IMAGE_MAX_BUFFER_SIZE])[0])


def _check_sizes(context: Context, description: Description) -> None:
    """Raise `OpenClError` for sizes that are 0 or too large for the devices."""
    kind, shape = description.kind, description.shape
    if kind is ImageKind.BUFFER_1D:
        limits: tuple[int, ...] = (max(_most_in_buffer(each.agent) for each in context.devices),)
    else:
        limits = (*[MAX_SLICES] * (kind in WITH_SLICES), MAX_SIZE, MAX_SIZE)[: len(shape)]
    require(
        all(0 < size <= most for size, most in zip(shape, limits, strict=True)),
        cl.INVALID_IMAGE_SIZE,
        f"the sizes of a {TITLES[kind]} are {shape}, slowest axis first, expected 1 to {limits}",
    )


@entry("clCreateImage")
def create_image(call: Call, context: Context, flags: int, format: bytes | None, desc: bytes | None, host: int) -> Made:
    """Make an image."""
    return create_image_with_properties(call, context, None, flags, format, desc, host)


@entry("clCreateImageWithProperties")
def create_image_with_properties(
    call: Call,
    context: Context,
    properties: tuple[int, ...] | None,
    flags: int,
    format: bytes | None,
    desc: bytes | None,
    host: int,
) -> Made:
    """Make an image."""
    require(not properties, cl.INVALID_PROPERTY, "images have no properties, expected NULL or an empty list")
    require(desc is not None, cl.INVALID_IMAGE_DESCRIPTOR, "the image description is NULL, expected a structure")
    assert desc is not None
    found = Description(*DESCRIPTION.unpack(desc))
    require(
        found.type in KINDS,
        cl.INVALID_IMAGE_DESCRIPTOR,
        f"the image type is {found.type:#x}, expected a CL_MEM_OBJECT_IMAGE* number",
    )
    require(
        not found.mip_levels and not found.samples,
        cl.INVALID_IMAGE_DESCRIPTOR,
        f"num_mip_levels is {found.mip_levels} and num_samples is {found.samples}, expected 0: images have one level "
        "and one sample",
    )
    return _made(call, context, flags, format, found, host, properties)


@entry("clCreateImage2D")
def create_image_2d(
    call: Call,
    context: Context,
    flags: int,
    format: bytes | None,
    width: int,
    height: int,
    row_pitch: int,
    host: int,
) -> Made:
    """Make a 2D image, as OpenCL 1.1 does."""
    found = Description(cl.MEM_OBJECT_IMAGE2D, width, height, row_pitch=row_pitch)
    return _made(call, context, flags, format, found, host, None, of_pitch=cl.INVALID_IMAGE_SIZE)


@entry("clCreateImage3D")
def create_image_3d(
    call: Call,
    context: Context,
    flags: int,
    format: bytes | None,
    width: int,
    height: int,
    depth: int,
    row_pitch: int,
    slice_pitch: int,
    host: int,
) -> Made:
    """Make a 3D image, as OpenCL 1.1 does."""
    found = Description(cl.MEM_OBJECT_IMAGE3D, width, height, depth, 0, row_pitch, slice_pitch)
    return _made(call, context, flags, format, found, host, None, of_pitch=cl.INVALID_IMAGE_SIZE)


def _made(
    call: Call,
    context: Context,
    flags: int,
    format: bytes | None,
    description: Description,
    host: int,
    properties: tuple[int, ...] | None,
    of_pitch: int = cl.INVALID_IMAGE_DESCRIPTOR,
) -> Made:
    """Make an image; `of_pitch` is the error code for wrong pitches."""
    check_support(context)
    if description.source or description.kind is ImageKind.BUFFER_1D:
        return _made_from(call, context, flags, format, description, host, properties)
    flags = check_flags(flags, host)
    found = format_of(format, description.type, flags)
    _check_sizes(context, description)
    require(
        host or not (description.row_pitch or description.slice_pitch),
        of_pitch,
        "the row pitch and the slice pitch must be 0, since host_ptr is NULL",
    )
    pitches = description.pitches(found, of_pitch)
    layout = texels(description.kind, found, description.shape)
    assert format is not None
    made = Image(
        context, call.made, flags, format, layout, pitches, host=host, properties=properties, type=description.type
    )
    whole = Region(made, (0, 0, 0), made.extent)
    copies = [whole.copy(host, made.host_steps, writes=True)] if host else []
    return Made(made, made.number, copies=copies)


def _made_from(
    call: Call,
    context: Context,
    flags: int,
    format: bytes | None,
    description: Description,
    host: int,
    properties: tuple[int, ...] | None,
) -> Made:
    """Make an image whose texels are those of a buffer or of another 2D image."""
    kind = description.kind
    source = call.platform.objects.get(description.source)
    is_buffer = isinstance(source, Memory) and source.type == cl.MEM_OBJECT_BUFFER
    is_image = isinstance(source, Image) and source.type == cl.MEM_OBJECT_IMAGE2D
    if not isinstance(source, Memory) or not (
        (is_buffer and kind in (ImageKind.BUFFER_1D, ImageKind.IMAGE_2D)) or (is_image and kind is ImageKind.IMAGE_2D)
    ):
        raise OpenClError(
            cl.INVALID_IMAGE_DESCRIPTOR,
            f"mem_object is {description.source:#x}, expected a buffer for a 1D image buffer, a buffer, a 2D image or "
            "NULL for a 2D image, and NULL for other images",
        )
    require(source.context is context, cl.INVALID_IMAGE_DESCRIPTOR, f"the {source.title} belongs to another context")
    require(not host, cl.INVALID_HOST_PTR, "host_ptr must be NULL for an image that is made from another object")
    require(not flags & ~ALL_FLAGS, cl.INVALID_VALUE, f"the memory flags {flags:#x} have unknown bits")
    require(
        not flags & HOST_POINTER,
        cl.INVALID_VALUE,
        "an image that is made from another object takes no flags about a host pointer",
    )
    flags = narrowed_flags(flags, source)
    found = format_of(format, description.type, cl.MEM_READ_ONLY if isinstance(source, Image) else flags)
    _check_sizes(context, description)
    if isinstance(source, Image):
        layout = _same_texels(source, found, description)
        pitches = source.pitches
    else:
        layout = _texels_in_buffer(source, found, description)
        pitches = (layout.row_bytes, 0)
    assert format is not None
    made = Image(
        context, call.made, flags, format, layout, pitches, parent=source, properties=properties, type=description.type
    )
    return Made(made, made.number)


def _same_texels(source: Image, format: ImageFormat, description: Description) -> Texels:
    """Return the layout of a 2D image made from another one; raise `OpenClError` if they do not agree."""
    own, other = format, source.texels.format
    require(
        own.type is other.type and (own.order, other.order) in COMPATIBLE,
        cl.INVALID_IMAGE_FORMAT_DESCRIPTOR,
        f"an image of {own.order.name}, {own.type.name} cannot be made from one of {other.order.name}, "
        f"{other.type.name}: expected the same type, and orders that differ in sRGB or are CL_DEPTH and CL_R",
    )
    same = (description.width, description.height) == (source.texels.width, source.texels.height)
    require(
        same and description.row_pitch in (0, source.pitches[0]) and not description.slice_pitch,
        cl.INVALID_IMAGE_DESCRIPTOR,
        f"the sizes and pitches of the description differ from those of the {source.title}",
    )
    return replace(source.texels, format=format)


def _texels_in_buffer(source: Memory, format: ImageFormat, description: Description) -> Texels:
    """Return the layout of an image made from a buffer; raise `OpenClError` if it does not fit the buffer."""
    size, kind = format.texel_bytes, description.kind
    row, _ = description.pitches(format)
    height = description.height if kind is ImageKind.IMAGE_2D else 1
    if kind is ImageKind.IMAGE_2D:
        unit, host = PITCH_TEXELS * size, source.host_pointer
        require(
            row % unit == 0 and row <= MAX_SIZE * size,
            cl.INVALID_IMAGE_FORMAT_DESCRIPTOR,
            f"the row pitch is {row}, expected a multiple of {unit} bytes, which are CL_DEVICE_IMAGE_PITCH_ALIGNMENT "
            f"({PITCH_TEXELS}) texels, up to {MAX_SIZE * size}",
        )
        require(
            source.address % BASE_ALIGNMENT == 0 and host % unit == 0,
            cl.INVALID_IMAGE_FORMAT_DESCRIPTOR,
            f"the {source.title} begins at a wrong place, expected sub-buffers at multiples of {BASE_ALIGNMENT} bytes, "
            f"and a host_ptr that is a multiple of {unit} bytes",
        )
    require(
        row * height <= source.size,
        cl.INVALID_IMAGE_SIZE,
        f"{height} rows of {row} bytes exceed the {source.title}",
    )
    return Texels(kind, format, description.width, height, 1, row // size)


# ---- queries ---------------------------------------------------------------------------------------------------------


def check_support(context: Context) -> None:
    """Raise `OpenClError` if a context has no device with images and samplers."""
    require(
        any(has_images(each.agent) for each in context.devices),
        cl.INVALID_OPERATION,
        f"no device of the context supports images ({', '.join(each.agent for each in context.devices)}), expected one "
        "for which CL_DEVICE_IMAGE_SUPPORT is CL_TRUE",
    )


def check_image(memory: Memory) -> Image:
    """Return a memory object as an image; raise `OpenClError` if it is a buffer."""
    if not isinstance(memory, Image):
        raise OpenClError(cl.INVALID_MEM_OBJECT, f"the object is a {memory.title}, expected an image")
    return memory


@entry("clGetImageInfo")
def get_image_info(call: Call, image: Memory, name: int) -> bytes:
    """Answer a query of an image."""
    found = check_image(image)
    own, kind = found.texels, found.texels.kind
    is_flat = kind in (ImageKind.IMAGE_2D, ImageKind.ARRAY_2D, ImageKind.IMAGE_3D)
    buffer = found.parent.handle if found.parent is not None and not isinstance(found.parent, Image) else 0
    return query(
        name,
        {
            cl.IMAGE_FORMAT: lambda: found.structure,
            cl.IMAGE_ELEMENT_SIZE: lambda: u64(own.format.texel_bytes),
            cl.IMAGE_ROW_PITCH: lambda: u64(found.pitches[0]),
            cl.IMAGE_SLICE_PITCH: lambda: u64(found.pitches[1]),
            cl.IMAGE_WIDTH: lambda: u64(own.width),
            cl.IMAGE_HEIGHT: lambda: u64(own.height if is_flat else 0),
            cl.IMAGE_DEPTH: lambda: u64(own.slices if kind is ImageKind.IMAGE_3D else 0),
            cl.IMAGE_ARRAY_SIZE: lambda: u64(own.slices if kind.is_array else 0),
            cl.IMAGE_BUFFER: lambda: u64(buffer),
            cl.IMAGE_NUM_MIP_LEVELS: lambda: u32(0),
            cl.IMAGE_NUM_SAMPLES: lambda: u32(0),
        },
        "clGetImageInfo",
    )
