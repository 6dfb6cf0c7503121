"""The initial machine state of AMD OpenCL 2.0 kernels: user data registers, and the buffers that they point to.

Most of this state is computed as for HSA kernels (`launch.hsa`). CLRX's documentation of this ABI has other
names for the same structures: the kernel setup buffer is a kernel dispatch packet, the argument buffer is the
kernarg segment, and the special buffer is an amd_queue_t. This module adds the user data registers that a
kernel's features (in CLRX's assembler) select, the six setup arguments, and the encoding of argument values
as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from softcard.core.errors import WireError
from softcard.core.record import Record, u32
from softcard.core.words import U16, U32
from softcard.device.hsa.launch.first_state import Surroundings
from softcard.device.hsa.launch.plan import read_plan
from softcard.device.hsa.queues.packets import KernelDispatchPacket
from softcard.device.hsa.queues.records import AmdQueue
from softcard.engine.gcn.memory import GpuMemory
from softcard.image.amdcl2.arguments import Argument, Element, KernargLayout, Kind, Slot
from softcard.image.hsa.records import KernelCode
from softcard.isa.gcn.target import Target

LDS_ARGUMENT_ALIGNMENT: Final = 16
"""The alignment in bytes of a local pointer argument's dynamic LDS if metadata lacks the argument's type."""


def special_buffer(around: Surroundings, lane_bytes: int) -> AmdQueue:
    """Return the buffer that S[6:7] point to in kernels with the feature usegeneric.

    It is an amd_queue_t for private memory of `lane_bytes` per work-item. The ABI specification defines its
    dwords 16 and 17 only: the upper halves of the base addresses of LDS and scratch. `around` has these
    addresses."""
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
    """Return the kernel setup buffer, an AQL packet with all of its 16 dwords.

    `global_size` and `local_size` are in work-items and have 1 to 3 dimensions. `lds` is the number of LDS bytes
    of local pointer arguments. The packet does not include the private memory and LDS that the kernel's own
    header requires; see `launched`. Raise `WireError` for sizes that do not fit their fields; a work-group may
    have up to 65535 work-items in each dimension."""
    dimensions = len(global_size)
    if not 1 <= dimensions <= 3 or len(local_size) != dimensions:
        raise WireError(
            f"global size {tuple(global_size)} and local size {tuple(local_size)} must have the same number of "
            "dimensions, 1 to 3"
        )
    grid = [*map(int, global_size), 1, 1][:3]
    group = [*map(int, local_size), 1, 1][:3]
    if not all(0 < size <= U32 for size in grid) or not all(0 < size <= U16 for size in group):
        raise WireError(
            f"global size is {tuple(grid)} and local size {tuple(group)}, expected global sizes from 1 to 2^32 - 1 and "
            "local sizes from 1 to 65535"
        )
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
    """The requirements in a kernel's header, in bytes: private memory per work-item, and LDS per work-group."""

    private_bytes: int = u32()
    group_bytes: int = u32()


def launched(memory: GpuMemory, packet: KernelDispatchPacket, target: Target) -> KernelDispatchPacket:
    """Return a copy of `packet` to which the private memory and LDS that the kernel's header requires are added.

    In this ABI, a packet's LDS size counts only the LDS of local pointer arguments. Raise `DispatchRefused` if
    `packet.kernel_object` is not the address of a kernel."""
    read_plan(memory, packet.kernel_object, target)
    at = packet.kernel_object + KernelCode.offset_of("workitem_private_segment_byte_size")
    own = SegmentSizes.parse(memory.read(at, SegmentSizes.size_bytes))
    return replace(
        packet,
        private_segment_size=max(packet.private_segment_size, own.private_bytes),
        group_segment_size=packet.group_segment_size + own.group_bytes,
    )


Number = int | float | np.generic
Value = Number | Sequence[Number] | np.ndarray
"""The types of a by-value argument; a vector is a sequence or array of its elements."""


def pack_arguments(
    layout: KernargLayout, values: Mapping[int, Value], hidden: Mapping[str, int], size: int = 0
) -> bytes:
    """Return the contents of the kernarg segment, `size` bytes or more.

    `values` maps the index of each argument to its value. The value of a pointer, image, sampler, queue or
    structure is an address; that of a local pointer is an offset in LDS. `hidden` maps the names of setup
    arguments in the ABI specification to their values; missing setup arguments are 0."""
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
    """Return the `size` bytes that encode `value` for `argument`.

    Raise `ValueError`, `OverflowError` or `TypeError` if the value does not fit the argument.
    """
    if argument.kind is not Kind.VALUE or argument.element is None:
        if not isinstance(value, (int, np.integer)):
            raise TypeError(f"expected an address, not {type(value).__name__}")
        if not 0 <= value < 1 << size * 8:
            raise OverflowError(f"expected an address of {size * 8} bits, not {int(value):#x}")
        return int(value).to_bytes(size, "little")
    dtype = np.dtype(DTYPES[argument.element])
    try:
        given = np.atleast_1d(np.asarray(value))
    except ValueError:
        raise ValueError(
            f"expected {argument.length} values of type {argument.element.opencl}, not a ragged sequence"
        ) from None
    if argument.length == 3 and given.shape == (4,):
        given = given[: size // dtype.itemsize]  # OpenCL's host types for vectors of 3 have 4 elements
    elif given.shape != (argument.length,):
        raise ValueError(
            f"expected {argument.length} values of type {argument.element.opencl}, not an array of shape {given.shape}"
        )
    if dtype.kind in "iu":
        out = b"".join(_integer(argument.element, item, dtype) for item in given.tolist())
    else:
        if not all(isinstance(item, (int, float)) for item in given.tolist()):
            raise TypeError(f"expected numbers for {argument.element.opencl}, not {value!r}")
        with np.errstate(over="ignore"):
            out = given.astype(dtype).tobytes()
    return out.ljust(size, b"\0")


def _integer(element: Element, item: object, dtype: np.dtype[np.generic]) -> bytes:
    """Return the bytes of the integer `item` as an element of type `dtype`.

    As in C, signed and unsigned values are accepted for either kind of integer type.
    """
    if not isinstance(item, int):
        raise TypeError(f"expected an integer for {element.opencl}, not {item!r}")
    bits = dtype.itemsize * 8
    if not -(1 << bits - 1) <= item < 1 << bits:
        raise OverflowError(f"{item} does not fit {element.opencl}")
    return (item & (1 << bits) - 1).to_bytes(dtype.itemsize, "little")


def local_offsets(static_bytes: int, blocks: Iterable[tuple[int, int]]) -> tuple[list[int], int]:
    """Return the offsets of dynamic LDS blocks after `static_bytes` of static LDS, and the total LDS in bytes.

    Each item of `blocks` is a pair of a size and an alignment in bytes. The alignment is that of the local pointer's
    target type, or 0 if the type is unknown.
    """
    offsets, at = [], static_bytes
    for size, alignment in blocks:
        alignment = alignment or LDS_ARGUMENT_ALIGNMENT
        at = -(-at // alignment) * alignment
        offsets.append(at)
        at += size
    return offsets, at - static_bytes
