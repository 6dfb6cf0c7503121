"""Commands that read, write, fill, copy and map images."""

from __future__ import annotations

import struct
from functools import cache
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.reference.lane_float import quiet
from softcard.engine.gcn.reference.lanes import Lanes
from softcard.host.opencl import constants as cl
from softcard.host.opencl.calls import Call, Performed, entry
from softcard.host.opencl.errors import OpenClError, require
from softcard.host.opencl.events import Command, CommandQueue, Event
from softcard.host.opencl.images import WITH_SLICES, Region, Steps, check_image
from softcard.host.opencl.memory import (
    WRITING,
    Mapping,
    Memory,
    Place,
    Sizes,
    check_buffer,
    check_context,
    check_host_access,
    check_map_flags,
    check_region,
    map_memory,
    transfer,
)
from softcard.image.amdcl2.formats import ImageFormat, ImageKind
from softcard.isa.gcn.semantics import memory_formats
from softcard.isa.gcn.word import Word
from softcard.isa.word import Value

COLOR_BYTES: Final = 16
"""The size of a fill color of four components."""


def _region(queue: CommandQueue, memory: Memory, origin: Sizes | None, size: Sizes | None) -> Region:
    """Return a region of an image; raise `OpenClError` for other objects, contexts and regions."""
    image = check_image(memory)
    check_context(queue, image)
    return Region.of(image, origin, size)


# ---- reading and writing ---------------------------------------------------------------------------------------------


def _host_steps(region: Region, row_pitch: int, slice_pitch: int) -> Steps:
    """Return the distances in the program's memory for the pitches of a call; raise `OpenClError` for wrong ones."""
    kind, width = region.image.texels.kind, region.row_bytes
    row = row_pitch or width
    require(row >= width, cl.INVALID_VALUE, f"the row pitch is {row}, expected 0 or at least {width} bytes")
    if kind not in WITH_SLICES:
        require(
            not slice_pitch,
            cl.INVALID_VALUE,
            f"the slice pitch is {slice_pitch}, expected 0 for a {region.image.title}",
        )
        return Steps(0, row, 0)
    least = row if kind is ImageKind.ARRAY_1D else row * region.size[1]
    slice = slice_pitch or least
    require(slice >= least, cl.INVALID_VALUE, f"the slice pitch is {slice}, expected 0 or at least {least} bytes")
    return Steps(0, slice if kind is ImageKind.ARRAY_1D else row, slice)


@entry("clEnqueueReadImage", "clEnqueueWriteImage")
def enqueue_image(
    call: Call,
    queue: CommandQueue,
    image: Memory,
    blocking: int,
    origin: Sizes | None,
    region: Sizes | None,
    row_pitch: int,
    slice_pitch: int,
    host: int,
    waits: list[Event] | None,
    event: Place,
) -> Performed | None:
    """Read or write a region of an image."""
    found = _region(queue, image, origin, region)
    writes = call.name == "clEnqueueWriteImage"
    require(host, cl.INVALID_VALUE, f"{call.name}: the pointer is NULL, expected the program's memory")
    steps = _host_steps(found, row_pitch, slice_pitch)
    check_host_access(image, writes=writes)
    copies = [found.copy(host, steps, writes=writes)]
    return transfer(call, queue, image, copies, waits, event, spans=found, writes=writes, blocking=blocking)


# ---- filling ---------------------------------------------------------------------------------------------------------


@cache
def _lanes() -> Lanes:
    """Return the operations of the reference engine, which define how components become texels."""
    return Lanes(GpuMemory())


def texel_of(format: ImageFormat, color: bytes) -> NDArray[np.uint8]:
    """Return the bytes of a texel with a color of four components, as a kernel's write_image stores it."""
    words = [Word(_lanes(), 32, cast("Value", np.full(64, each, np.uint32))) for each in struct.unpack("<4I", color)]
    parts = dict(reversed([(source, word) for source, word in zip(format.swizzle, words, strict=True) if source >= 4]))
    zero = words[0].const(0)
    with quiet():
        made = memory_formats.write(format.dfmt, format.nfmt, [parts.get(4 + k, zero) for k in range(4)], image=True)
    data = np.array([memory_formats.lanes(each)[0] for each in made], "<u4")
    return data.view(np.uint8)[: format.texel_bytes]


@entry("clEnqueueFillImage")
def enqueue_fill_image(
    call: Call,
    queue: CommandQueue,
    image: Memory,
    color: bytes | None,
    origin: Sizes | None,
    region: Sizes | None,
    waits: list[Event] | None,
    event: Place,
) -> None:
    """Fill a region of an image with a color. The color of a depth image is one number."""
    found = _region(queue, image, origin, region)
    if color is None:
        raise OpenClError(cl.INVALID_VALUE, "the fill color is NULL, expected the components of a color")
    texel = texel_of(found.image.texels.format, color[:COLOR_BYTES].ljust(COLOR_BYTES, b"\0"))

    def fill() -> None:
        found.view[...] = np.tile(texel, found.size[0])  # rows are copied faster than single texels
        image.host_accesses(found, writes=True)

    queue.enqueue(Command(queue, waits, queue.event(event), fill, uses=[image]))


# ---- copying ---------------------------------------------------------------------------------------------------------


@entry("clEnqueueCopyImage")
def enqueue_copy_image(
    call: Call,
    queue: CommandQueue,
    source: Memory,
    target: Memory,
    source_origin: Sizes | None,
    target_origin: Sizes | None,
    region: Sizes | None,
    waits: list[Event] | None,
    event: Place,
) -> None:
    """Copy a region of an image to another image of the same format, or to another region of the same one."""
    first = _region(queue, source, source_origin, region)
    second = _region(queue, target, target_origin, region)
    require(
        first.image.structure == second.image.structure,
        cl.IMAGE_FORMAT_MISMATCH,
        f"the {first.image.title} and the {second.image.title} differ in their formats, expected the same one",
    )
    overlaps = source is target and first.intersects(second)
    require(not overlaps, cl.MEM_COPY_OVERLAP, "the source and the target of the copy overlap")

    def copy() -> None:
        source.host_accesses(first, writes=False)
        second.view[...] = first.view
        target.host_accesses(second, writes=True)

    queue.enqueue(Command(queue, waits, queue.event(event), copy, uses=[source, target]))


def _in_buffer(region: Region, buffer: Memory, offset: int) -> NDArray[np.uint8]:
    """Return the bytes of a buffer from `offset` on as an array of the shape of a region's view.

    Raise `OpenClError` if they exceed the buffer, or if the region's image is the buffer as a 1D image.
    """
    size = region.count * region.image.steps.texel
    check_region(buffer, offset, size)
    is_own = region.image.texels.kind is ImageKind.BUFFER_1D and region.image.parent is buffer
    require(not is_own, cl.INVALID_MEM_OBJECT, f"the {region.image.title} was made from this buffer, expected another")
    return buffer.data[offset : offset + size].reshape(region.size[2], region.size[1], region.row_bytes)


@entry("clEnqueueCopyImageToBuffer")
def enqueue_copy_image_to_buffer(
    call: Call,
    queue: CommandQueue,
    source: Memory,
    target: Memory,
    source_origin: Sizes | None,
    region: Sizes | None,
    target_offset: int,
    waits: list[Event] | None,
    event: Place,
) -> None:
    """Copy a region of an image to contiguous bytes of a buffer."""
    found = _region(queue, source, source_origin, region)
    check_buffer(queue, target)
    flat = _in_buffer(found, target, target_offset)

    def copy() -> None:
        source.host_accesses(found, writes=False)
        flat[...] = found.view
        target.host_writes(target_offset, flat.size)

    queue.enqueue(Command(queue, waits, queue.event(event), copy, uses=[source, target]))


@entry("clEnqueueCopyBufferToImage")
def enqueue_copy_buffer_to_image(
    call: Call,
    queue: CommandQueue,
    source: Memory,
    target: Memory,
    source_offset: int,
    target_origin: Sizes | None,
    region: Sizes | None,
    waits: list[Event] | None,
    event: Place,
) -> None:
    """Copy contiguous bytes of a buffer to a region of an image."""
    check_buffer(queue, source)
    found = _region(queue, target, target_origin, region)
    flat = _in_buffer(found, source, source_offset)

    def copy() -> None:
        source.host_reads(source_offset, flat.size)
        found.view[...] = flat
        target.host_accesses(found, writes=True)

    queue.enqueue(Command(queue, waits, queue.event(event), copy, uses=[source, target]))


# ---- mapping ---------------------------------------------------------------------------------------------------------


@entry("clEnqueueMapImage")
def enqueue_map_image(
    call: Call,
    queue: CommandQueue,
    image: Memory,
    blocking: int,
    flags: int,
    origin: Sizes | None,
    region: Sizes | None,
    row_pitch: int,
    slice_pitch: int,
    waits: list[Event] | None,
    event: Place,
) -> Performed:
    """Map a region of an image; return the pointer and the pitches. `row_pitch` and `slice_pitch` are 0 for NULL."""
    found = _region(queue, image, origin, region)
    has_slices = found.image.texels.kind in WITH_SLICES
    require(row_pitch, cl.INVALID_VALUE, "image_row_pitch is NULL, expected a place for the row pitch")
    require(
        slice_pitch or not has_slices,
        cl.INVALID_VALUE,
        f"image_slice_pitch is NULL, expected a place for the slice pitch of a {found.image.title}",
    )
    check_map_flags(image, flags)
    host = image.own_host()
    steps = found.image.host_steps if host else found.image.steps
    pointer = (host or image.address) + steps.at(found.origin)
    back = [found.copy(pointer, steps, writes=True)] if host and flags & WRITING else []
    mapping = Mapping(pointer, flags, found, back)
    copies = [found.copy(pointer, steps, writes=False)] if host and not flags & cl.MAP_WRITE_INVALIDATE_REGION else []
    own = (found.image.texels.row_bytes, steps.slice if has_slices else 0)
    pitches = found.image.pitches if host else own
    return map_memory(call, queue, image, blocking, mapping, copies, pitches, waits, event)
