"""First machine state of AMD OpenCL 2.0 kernels: user data registers by feature, the buffers that they point to.

The state itself is that of HSA (`launch.hsa`): what the document calls kernel setup buffer is a kernel dispatch packet,
its argument buffer the kernarg segment, its special buffer an amd_queue_t. What is only here: which user data registers
a kernel with CLRX's features gets, the six setup arguments, and how values become argument bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from understudy.core.errors import WireError
from understudy.core.record import Record, u32
from understudy.device.hsa.launch.first_state import Surroundings
from understudy.device.hsa.launch.packet import KernelDispatchPacket
from understudy.device.hsa.launch.plan import read_plan
from understudy.device.hsa.records import AmdQueue
from understudy.engine.gcn.memory import GpuMemory
from understudy.image.amdcl2.arguments import Argument, Element, KernargLayout, Kind, Slot
from understudy.image.hsa.records import KernelCode

MASK32: Final = 0xFFFF_FFFF
LDS_ARGUMENT_ALIGNMENT: Final = 16
"""Dynamic LDS of a local argument begins at a multiple of this where metadata does not say what it points to."""


def special_buffer(around: Surroundings, lane_bytes: int) -> AmdQueue:
    """What S[6:7] point to with usegeneric, for private memory of `lane_bytes` for each work-item.

    An amd_queue_t, of which the document names dwords 16 and 17: the upper halves of the bases of LDS and scratch.
    """
    scratch = around.scratch
    return AmdQueue(
        group_segment_aperture_base_hi=around.shared_base >> 32,
        private_segment_aperture_base_hi=around.private_base >> 32,
        read_dispatch_id_field_base_byte_offset=0,
        scratch_resource_descriptor=around.v_sharp,
        scratch_backing_memory_location=scratch.address if scratch else 0,
        scratch_backing_memory_byte_size=scratch.size_bytes if scratch else 0,
        scratch_workitem_byte_size=lane_bytes,
    )


def setup_buffer(
    global_size: Sequence[int],
    local_size: Sequence[int],
    header: KernelCode,
    kernel_object: int,
    kernarg: int,
    lds: int,
) -> KernelDispatchPacket:
    """The kernel setup buffer, which is an AQL packet: all 16 dwords of it. `lds` are the bytes of local pointers.

    What the kernel's own header asks for is not among them: see `launched`. `WireError` where the sizes do not fit
    their fields: 1 to 3 sizes, work-groups of up to 65535 in a direction.
    """
    dimensions = len(global_size)
    if not 1 <= dimensions <= 3 or len(local_size) != dimensions:
        raise WireError(f"global size {tuple(global_size)} and local size {tuple(local_size)}: expected 1 to 3 of each")
    grid = [*map(int, global_size), 1, 1][:3]
    group = [*map(int, local_size), 1, 1][:3]
    if not all(0 < size <= 0xFFFF_FFFF for size in grid) or not all(0 < size <= 0xFFFF for size in group):
        raise WireError(f"global size {tuple(grid)} of work-groups {tuple(group)}: a size is 0 or too large")
    return KernelDispatchPacket.over(
        dimensions,
        grid,
        group,
        private_segment_size=header.workitem_private_segment_byte_size,
        group_segment_size=lds,
        kernel_object=kernel_object,
        kernarg_address=kernarg,
    )


class SegmentSizes(Record, size=8):
    """What a kernel's header asks for: private memory of a work-item, LDS of a work-group, in bytes."""

    private_bytes: int = u32()
    group_bytes: int = u32()


def launched(memory: GpuMemory, packet: KernelDispatchPacket) -> KernelDispatchPacket:
    """The packet as it is launched: with the private memory and the LDS that the kernel's header in memory asks for.

    A packet of this ABI has only the LDS that comes on top. `DispatchRefused` where it names no kernel.
    """
    read_plan(memory, packet.kernel_object)
    at = packet.kernel_object + KernelCode.offset_of("workitem_private_segment_byte_size")
    own = SegmentSizes.parse(memory.read(at, SegmentSizes.size_bytes))
    return replace(
        packet,
        private_segment_size=max(packet.private_segment_size, own.private_bytes),
        group_segment_size=packet.group_segment_size + own.group_bytes,
    )


Number = int | float | np.generic
Value = Number | Sequence[Number] | np.ndarray
"""What a value argument may be given as; vectors as a sequence or array of their elements."""


def pack_arguments(
    layout: KernargLayout, values: Mapping[int, Value], hidden: Mapping[str, int], size: int = 0
) -> bytes:
    """The kernarg segment of `size` bytes or more: `values` by index among the caller's arguments.

    Pointers, images, samplers, queues, structures are given as addresses, local pointers as offsets in LDS. `hidden`
    are the setup arguments by the document's names; those that are not given are 0.
    """
    data = bytearray(max(size, layout.size))
    for name, slot in layout.hidden.items():
        _put(data, slot, hidden.get(name, 0).to_bytes(8, "little")[: slot.size])
    for index, slot in enumerate(layout.user):
        try:
            _put(data, slot, value_bytes(slot.argument, values[index], slot.size))
        except (OverflowError, ValueError, TypeError) as error:
            raise WireError(str(error)).at("argument", index, slot.argument.name) from None
    return bytes(data)


def _put(data: bytearray, slot: Slot, raw_bytes: bytes) -> None:
    data[slot.offset : slot.offset + slot.size] = raw_bytes


DTYPES: Final = {
    Element.CHAR: "<i1", Element.UCHAR: "<u1", Element.SHORT: "<i2", Element.USHORT: "<u2", Element.INT: "<i4",
    Element.UINT: "<u4", Element.LONG: "<i8", Element.ULONG: "<u8", Element.HALF: "<f2", Element.FLOAT: "<f4",
    Element.DOUBLE: "<f8",
}  # fmt: skip


def value_bytes(argument: Argument, value: Value, size: int) -> bytes:
    """The bytes of one argument, `size` of them; `ValueError`, `OverflowError` or `TypeError` where it does not fit."""
    if argument.kind is not Kind.VALUE or argument.element is None:
        if not isinstance(value, (int, np.integer)):
            raise TypeError(f"expected an address, not {type(value).__name__}")
        if not 0 <= value < 1 << size * 8:
            raise OverflowError(f"an address of {size * 8} bits is expected, not {int(value):#x}")
        return int(value).to_bytes(size, "little")
    dtype = np.dtype(DTYPES[argument.element])
    try:
        given = np.atleast_1d(np.asarray(value))
    except ValueError:
        raise ValueError(f"expected {argument.length} of {argument.element.opencl}, not a ragged sequence") from None
    if argument.length == 3 and given.shape == (4,):
        given = given[: size // dtype.itemsize]  # OpenCL's host types for vectors of 3 have 4
    elif given.shape != (argument.length,):
        raise ValueError(f"expected {argument.length} of {argument.element.opencl}, not shape {given.shape}")
    if dtype.kind in "iu":
        out = b"".join(_integer(argument.element, item, dtype) for item in given.tolist())
    else:
        if not all(isinstance(item, (int, float)) for item in given.tolist()):
            raise TypeError(f"expected numbers for {argument.element.opencl}, not {value!r}")
        with np.errstate(over="ignore"):
            out = given.astype(dtype).tobytes()
    return out.ljust(size, b"\0")


def _integer(element: Element, item: object, dtype: np.dtype[np.generic]) -> bytes:
    """An integer of either sign: both readings of the bits are taken, as C would."""
    if not isinstance(item, int):
        raise TypeError(f"expected an integer for {element.opencl}, not {item!r}")
    bits = dtype.itemsize * 8
    if not -(1 << bits - 1) <= item < 1 << bits:
        raise OverflowError(f"{item} does not fit {element.opencl}")
    return (item & (1 << bits) - 1).to_bytes(dtype.itemsize, "little")


def local_offsets(static_bytes: int, blocks: Iterable[tuple[int, int]]) -> tuple[list[int], int]:
    """Offsets of dynamic LDS behind `static_bytes` of static LDS, and the bytes behind the latter.

    Each of `blocks` is a size and an alignment in bytes: that of what the local pointer points to, 0 where not known.
    """
    offsets, at = [], static_bytes
    for size, alignment in blocks:
        alignment = alignment or LDS_ARGUMENT_ALIGNMENT
        at = -(-at // alignment) * alignment
        offsets.append(at)
        at += size
    return offsets, at - static_bytes
