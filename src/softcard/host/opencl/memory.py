"""Buffers, shared virtual memory, and the commands that read, write, copy, fill and map them.

The memory of a buffer lies in the arena, which the program, the server and the devices share. A buffer with
CL_MEM_USE_HOST_PTR has such memory as well; the program copies it from and to its own memory when it is mapped.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from softcard.core.space import PAGE_SIZE
from softcard.core.words import align_up
from softcard.host.hsa.arguments import Given
from softcard.host.opencl import constants as cl
from softcard.host.opencl.calls import Call, Made, Performed, entry, query, u32, u64, words
from softcard.host.opencl.device_info import device_info
from softcard.host.opencl.errors import OpenClError, require
from softcard.host.opencl.events import Command, CommandQueue, Event
from softcard.host.opencl.objects import Callback, Context, Copy, Device, Object
from softcard.image.hsa.metadata import Argument

Sizes = tuple[int, int, int]
Place = tuple[int, int]
"""The handle and the slot of a new event; the handle is 0 if the program wants no event."""

KERNEL_ACCESS: Final = cl.MEM_READ_WRITE | cl.MEM_WRITE_ONLY | cl.MEM_READ_ONLY
HOST_ACCESS: Final = cl.MEM_HOST_WRITE_ONLY | cl.MEM_HOST_READ_ONLY | cl.MEM_HOST_NO_ACCESS
HOST_POINTER: Final = cl.MEM_USE_HOST_PTR | cl.MEM_ALLOC_HOST_PTR | cl.MEM_COPY_HOST_PTR
ALL_FLAGS: Final = KERNEL_ACCESS | HOST_POINTER | HOST_ACCESS | cl.MEM_KERNEL_READ_AND_WRITE
SVM_FLAGS: Final = KERNEL_ACCESS | cl.MEM_SVM_FINE_GRAIN_BUFFER | cl.MEM_SVM_ATOMICS
SUB_BUFFER_ALIGNMENT: Final = 128
"""The alignment of sub-buffers in bytes, which CL_DEVICE_MEM_BASE_ADDR_ALIGN gives in bits."""
WRITING: Final = cl.MAP_WRITE | cl.MAP_WRITE_INVALIDATE_REGION
MOST_SPANS: Final = 256
"""The number of writes before the first mapping that are remembered; with more of them, all bytes count as written."""
PATTERNS: Final = (1, 2, 4, 8, 16, 32, 64, 128)
"""The sizes in bytes that the pattern of a fill command may have."""


Span = tuple[int, int]
"""The offset and the size in bytes of a part of an object."""


@dataclass(frozen=True, slots=True, eq=False)
class Mapping:
    """A mapped region: the pointer that the program has, the flags, the bytes, and the copies at unmapping."""

    pointer: int
    flags: int
    spans: Iterable[Span]
    back: Sequence[Copy]


class Memory(Object):
    """A buffer or image: `size` bytes at the program's address `address`.

    `flags` are those of the creation. `host` is the program's own memory with CL_MEM_USE_HOST_PTR, else 0. A sub-buffer
    has a `parent` and begins at byte `origin` of it. `type` is the CL_MEM_OBJECT_TYPE.
    """

    kind = "mem"

    def __init__(
        self,
        context: Context,
        handle: int,
        flags: int,
        size: int,
        *,
        host: int = 0,
        parent: Memory | None = None,
        origin: int = 0,
        properties: tuple[int, ...] | None = None,
        type: int = cl.MEM_OBJECT_BUFFER,
    ) -> None:
        super().__init__(context.platform, handle)
        self.context = context
        self.flags = flags
        self.size = size
        self.host_pointer = host if flags & cl.MEM_USE_HOST_PTR else 0
        """The pointer that CL_MEM_HOST_PTR returns."""
        self.parent = parent
        self.origin = origin
        self.properties = properties
        self.type = type
        self.maps: list[Mapping] = []
        self.destructors: list[Callback] = []
        self.svm: SvmBlock | None = parent if isinstance(parent, SvmBlock) else parent.svm if parent else None
        """The shared virtual memory that contains the object, or None."""
        self.address: int = parent.address + origin if parent is not None else self.platform.arena.allocate(size)
        self.host = 0 if self.svm is not None else self.host_pointer
        self._on: dict[Device, int] = {}
        self._written: list[Span] = []
        """The bytes that the host has written before the memory was mapped; the checks record them at the mapping."""
        self._uses = 1
        self._lock = threading.Lock()
        if parent is not None:
            parent.begin_use()

    @property
    def data(self) -> NDArray[np.uint8]:
        """The bytes of the object."""
        return self.platform.arena.bytes(self.address, self.size)

    @property
    def title(self) -> str:
        """The name of the object in messages."""
        what = f"{'sub-buffer' if self.parent else 'buffer'} of {self.size} bytes"
        return f"{what} (CL_MEM_READ_ONLY)" if self.flags & cl.MEM_READ_ONLY else what

    def on(self, device: Device) -> int:
        """Return the address of the object on a device, where it is mapped first if that is necessary."""
        if self.parent is not None:
            return self.parent.on(device) + self.origin
        found = self._on.get(device)
        if found is None:
            with self._lock:
                found = self._on.get(device)
                if found is None:
                    found = self._on[device] = self._map(device)
        return found

    def _map(self, device: Device) -> int:
        """Map the memory on a device; return its address there."""
        whole = self.platform.arena.bytes(self.address, align_up(self.size, PAGE_SIZE))
        gpu = device.gpu.device
        address = gpu.map(whole, True, self.title, used=self.size)
        if gpu.checks.every and not self.flags & (cl.MEM_COPY_HOST_PTR | cl.MEM_USE_HOST_PTR):
            gpu.checks.host_allocates(address, self.size, is_blank=not self._on)  # another device may have written it
            for offset, size in self._written:
                gpu.checks.host_writes(address + offset, size)
        return address

    @property
    def number(self) -> int:
        """The number that the library stores: the same for objects that arguments of kernels accept alike."""
        return self.type

    def argument(self, device: Device) -> Given:
        """Return the value of a kernel's argument in a launch on a device: the address."""
        return self.on(device)

    def check_argument(self, argument: Argument, title: str) -> None:
        """Raise `OpenClError` if the object cannot be this argument of a kernel; `title` is the argument's name."""

    # ---- lifetime --------------------------------------------------------------------------------------------------

    def begin_use(self) -> None:
        """Handle the enqueueing of a command that uses the object."""
        with self._lock:
            self._uses += 1

    def end_use(self) -> None:
        """Handle the end of a command that uses the object, or of its handle; free the memory after the last one."""
        with self._lock:
            self._uses -= 1
            if self._uses:
                return
        self._free()
        self.platform.call_destructors(self.destructors, self.handle)

    def forgotten(self) -> None:
        """Free the memory when no command uses it any more, and call the program's destructor callbacks."""
        self.end_use()

    def _free(self) -> None:
        if self.parent is not None:
            self.parent.end_use()
            return
        for device, address in self._on.items():
            if not device.gpu.device.is_closed:
                device.gpu.device.unmap(address)
        self.platform.arena.free(self.address)

    # ---- accesses by the host, for checks --------------------------------------------------------------------------

    def host_writes(self, offset: int = 0, size: int | None = None) -> None:
        """Record a write by the host to bytes of the object for the checks."""
        count = self.size - offset if size is None else size
        if self.parent is not None:
            self.parent.host_writes(self.origin + offset, count)
            return
        if not self._on:
            whole = len(self._written) >= MOST_SPANS
            self._written = [(0, self.size)] if whole else [*self._written, (offset, count)]
        for device in self._checked():
            device.gpu.device.checks.host_writes(self.on(device) + offset, count)

    def host_reads(self, offset: int = 0, size: int | None = None) -> None:
        """Record a read by the host of bytes of the object for the checks."""
        for device in self._checked():
            count = self.size - offset if size is None else size
            device.gpu.device.checks.host_reads(self.on(device) + offset, count)

    def host_accesses(self, spans: Iterable[Span], *, writes: bool) -> None:
        """Record accesses of the host to parts of the object for the checks."""
        if self._checked() or (writes and not self._is_mapped):
            for offset, size in spans:
                self.host_writes(offset, size) if writes else self.host_reads(offset, size)

    @property
    def _is_mapped(self) -> bool:
        """True if a device has mapped the memory."""
        return bool(self._on) if self.parent is None else self.parent._is_mapped

    def _checked(self) -> list[Device]:
        return [each for each in self.context.devices if each.is_open and each.gpu.device.checks.every]

    # ---- copies by the program -------------------------------------------------------------------------------------

    def from_host(self, offset: int, size: int) -> list[Copy]:
        """Return the copies from the program's own memory; none without CL_MEM_USE_HOST_PTR."""
        host = self.own_host()
        return [line(self.address + offset, host + offset, size)] if host else []

    def to_host(self, offset: int, size: int) -> list[Copy]:
        """Return the copies to the program's own memory; none without CL_MEM_USE_HOST_PTR."""
        host = self.own_host()
        return [line(host + offset, self.address + offset, size)] if host else []

    def own_host(self) -> int:
        """Return the address of the object in the program's own memory with CL_MEM_USE_HOST_PTR, else 0."""
        if self.host or self.parent is None or self.svm is not None:
            return self.host
        above = self.parent.own_host()
        return above + self.origin if above else 0

    def pointer(self, offset: int) -> int:
        """Return the address that the program gets for byte `offset` when it maps the object."""
        return (self.own_host() or self.address) + offset


class SvmBlock(Memory):
    """Shared virtual memory: its address on every device is the program's own address."""

    def _map(self, device: Device) -> int:
        whole = self.platform.arena.bytes(self.address, align_up(self.size, PAGE_SIZE))
        device.gpu.device.map_at(self.address, whole, True, f"shared virtual memory of {self.size} bytes")
        if device.gpu.device.checks.every:
            device.gpu.device.checks.host_passes(self.address, self.size)
        return self.address

    def _free(self) -> None:
        for device in self._on:
            if not device.gpu.device.is_closed:
                device.gpu.device.unmap_at(self.address, align_up(self.size, PAGE_SIZE))
        self.platform.arena.free(self.address)


def line(target: int, source: int, size: int) -> Copy:
    """Return a copy of contiguous bytes."""
    return Copy(target, 0, 0, source, 0, 0, size)


# ---- creation --------------------------------------------------------------------------------------------------------


def check_flags(flags: int, host: int) -> int:
    """Check the flags of a new memory object; return them with CL_MEM_READ_WRITE if no access is named."""
    require(not flags & ~ALL_FLAGS, cl.INVALID_VALUE, f"the memory flags {flags:#x} have unknown bits")
    for group, names in (
        (KERNEL_ACCESS, "CL_MEM_READ_WRITE, CL_MEM_WRITE_ONLY and CL_MEM_READ_ONLY"),
        (HOST_ACCESS, "CL_MEM_HOST_WRITE_ONLY, CL_MEM_HOST_READ_ONLY and CL_MEM_HOST_NO_ACCESS"),
    ):
        require((flags & group).bit_count() <= 1, cl.INVALID_VALUE, f"the flags {names} exclude each other")
    uses, copies = flags & cl.MEM_USE_HOST_PTR, flags & cl.MEM_COPY_HOST_PTR
    require(
        not (uses and flags & (cl.MEM_ALLOC_HOST_PTR | cl.MEM_COPY_HOST_PTR)),
        cl.INVALID_VALUE,
        "CL_MEM_USE_HOST_PTR excludes CL_MEM_ALLOC_HOST_PTR and CL_MEM_COPY_HOST_PTR",
    )
    require(
        bool(host) == bool(uses or copies),
        cl.INVALID_HOST_PTR,
        "host_ptr is required with CL_MEM_USE_HOST_PTR and CL_MEM_COPY_HOST_PTR, and must be NULL without them",
    )
    return flags if flags & KERNEL_ACCESS else flags | cl.MEM_READ_WRITE


@cache
def _largest(agent: str) -> int:
    return int(struct.unpack("<Q", device_info(agent)[cl.DEVICE_MAX_MEM_ALLOC_SIZE])[0])


def largest(context: Context) -> int:
    """Return the largest size in bytes of a buffer of a context."""
    return max(_largest(each.agent) for each in context.devices)


def svm_block(context: Context, pointer: int, size: int = 1) -> SvmBlock | None:
    """Return the block of shared virtual memory that contains `size` bytes at a pointer, or None."""
    for each in tuple(context.svm.values()):
        if each.address <= pointer and pointer + size <= each.address + each.size and isinstance(each, SvmBlock):
            return each
    return None


@entry("clCreateBuffer")
def create_buffer(call: Call, context: Context, flags: int, size: int, host: int) -> Made:
    """Make a buffer."""
    return create_buffer_with_properties(call, context, None, flags, size, host)


@entry("clCreateBufferWithProperties")
def create_buffer_with_properties(
    call: Call, context: Context, properties: tuple[int, ...] | None, flags: int, size: int, host: int
) -> Made:
    """Make a buffer."""
    require(not properties, cl.INVALID_PROPERTY, "buffers have no properties, expected NULL or an empty list")
    flags = check_flags(flags, host)
    most = largest(context)
    require(0 < size <= most, cl.INVALID_BUFFER_SIZE, f"the buffer has {size} bytes, expected 1 to {most}")
    block = svm_block(context, host) if flags & cl.MEM_USE_HOST_PTR else None
    if block is not None:
        room = block.address + block.size - host
        require(
            size <= room, cl.INVALID_BUFFER_SIZE, f"{size} bytes at host_ptr exceed its shared memory of {room} bytes"
        )
    origin = host - block.address if block is not None else 0
    made = Memory(context, call.made, flags, size, host=host, parent=block, origin=origin, properties=properties)
    return Made(made, made.number, copies=[line(made.address, host, size)] if host and block is None else ())


def narrowed_flags(flags: int, source: Memory) -> int:
    """Return the flags of an object made from another one, from which it inherits those that are not given.

    Raise `OpenClError` for flags that allow accesses that those of `source` do not allow.
    """
    for group, what in ((KERNEL_ACCESS, "of kernels"), (HOST_ACCESS, "of the host")):
        wanted, allowed = flags & group, source.flags & group
        require(wanted.bit_count() <= 1, cl.INVALID_VALUE, f"the flags {wanted:#x} about accesses exclude each other")
        is_narrower = not wanted or not allowed or wanted == allowed or allowed == cl.MEM_READ_WRITE
        require(
            is_narrower or wanted == cl.MEM_HOST_NO_ACCESS,
            cl.INVALID_VALUE,
            f"the flags {flags:#x} allow accesses {what} that the {source.title} does not allow",
        )
        flags |= 0 if wanted else allowed
    return flags | source.flags & HOST_POINTER


@entry("clCreateSubBuffer")
def create_sub_buffer(call: Call, buffer: Memory, flags: int, kind: int, region: bytes | None) -> Made:
    """Make a sub-buffer, a region of a buffer."""
    own = buffer.parent is None or isinstance(buffer.parent, SvmBlock)
    require(
        buffer.type == cl.MEM_OBJECT_BUFFER and own,
        cl.INVALID_MEM_OBJECT,
        "the object is an image or a sub-buffer, expected a buffer",
    )
    require(
        kind == cl.BUFFER_CREATE_TYPE_REGION and region is not None,
        cl.INVALID_VALUE,
        "expected CL_BUFFER_CREATE_TYPE_REGION and a region",
    )
    assert region is not None
    require(not flags & ~ALL_FLAGS, cl.INVALID_VALUE, f"the memory flags {flags:#x} have unknown bits")
    require(not flags & HOST_POINTER, cl.INVALID_VALUE, "a sub-buffer takes no flags about a host pointer")
    flags = narrowed_flags(flags, buffer)
    origin, size = struct.unpack("<QQ", region)
    require(size, cl.INVALID_BUFFER_SIZE, "the sub-buffer has 0 bytes, expected 1 or more")
    require(
        origin + size <= buffer.size,
        cl.INVALID_VALUE,
        f"the region from byte {origin} to {origin + size} exceeds the buffer of {buffer.size} bytes",
    )
    require(
        origin % SUB_BUFFER_ALIGNMENT == 0,
        cl.MISALIGNED_SUB_BUFFER_OFFSET,
        f"the region begins at byte {origin}, expected a multiple of {SUB_BUFFER_ALIGNMENT}",
    )
    host = buffer.host_pointer + origin if buffer.host_pointer else 0
    made = Memory(buffer.context, call.made, flags, size, host=host, parent=buffer, origin=origin)
    return Made(made, made.number)


@entry("clCreatePipe")
def create_pipe(
    call: Call, context: Context, flags: int, packet_size: int, packets: int, properties: tuple[int, ...] | None
) -> Made:
    """Refuse the call, because the devices do not support pipes."""
    raise OpenClError(cl.INVALID_OPERATION, "the devices do not support pipes: use a buffer")


@entry("clGetPipeInfo")
def get_pipe_info(call: Call, pipe: Memory, name: int) -> bytes:
    """Refuse the call, because the devices do not support pipes."""
    raise OpenClError(
        cl.INVALID_MEM_OBJECT, "the object is a buffer or an image, expected a pipe, which the devices do not support"
    )


@entry("clGetMemObjectInfo")
def get_mem_object_info(call: Call, memory: Memory, name: int) -> bytes:
    """Answer a query of a buffer or image."""
    shown = memory.parent if memory.parent is not None and not isinstance(memory.parent, SvmBlock) else None
    return query(
        name,
        {
            cl.MEM_TYPE: lambda: u32(memory.type),
            cl.MEM_FLAGS: lambda: u64(memory.flags),
            cl.MEM_SIZE: lambda: u64(memory.size),
            cl.MEM_HOST_PTR: lambda: u64(memory.host_pointer),
            cl.MEM_MAP_COUNT: lambda: u32(len(memory.maps)),
            cl.MEM_CONTEXT: lambda: u64(memory.context.handle),
            cl.MEM_ASSOCIATED_MEMOBJECT: lambda: u64(shown.handle if shown is not None else 0),
            cl.MEM_OFFSET: lambda: u64(memory.origin if shown is not None else 0),
            cl.MEM_USES_SVM_POINTER: lambda: u32(memory.svm is not None),
            cl.MEM_PROPERTIES: lambda: words(memory.properties),
        },
        "clGetMemObjectInfo",
    )


@entry("clSetMemObjectDestructorCallback")
def set_mem_object_destructor_callback(call: Call, memory: Memory, notify: Callback) -> None:
    """Register a function that is called when the object ends."""
    require(notify[0], cl.INVALID_VALUE, "clSetMemObjectDestructorCallback: pfn_notify is NULL, expected a function")
    memory.destructors.append(notify)


# ---- commands --------------------------------------------------------------------------------------------------------


def check_context(queue: CommandQueue, *objects: Memory) -> None:
    """Raise `OpenClError` if an object belongs to another context than the queue."""
    for each in objects:
        require(
            each.context is queue.context,
            cl.INVALID_CONTEXT,
            f"the {each.title} belongs to another context than the queue, expected the same one",
        )


def check_buffer(queue: CommandQueue, *buffers: Memory) -> None:
    """Raise `OpenClError` unless objects are buffers of the queue's context."""
    for each in buffers:
        require(
            each.type == cl.MEM_OBJECT_BUFFER, cl.INVALID_MEM_OBJECT, f"the object is a {each.title}, expected a buffer"
        )
        misaligned = each.parent is not None and each.origin % SUB_BUFFER_ALIGNMENT and each.svm is None
        require(not misaligned, cl.MISALIGNED_SUB_BUFFER_OFFSET, "the sub-buffer is misaligned for the device")
    check_context(queue, *buffers)


def check_region(memory: Memory, offset: int, size: int) -> None:
    """Raise `OpenClError` unless the bytes lie in the object, and there is at least one."""
    require(
        offset + size <= memory.size,
        cl.INVALID_VALUE,
        f"the region from byte {offset} to {offset + size} exceeds the {memory.title}",
    )


def check_host_access(memory: Memory, *, writes: bool) -> None:
    """Raise `OpenClError` if the flags of an object forbid the host to read or write it."""
    refused = cl.MEM_HOST_NO_ACCESS | (cl.MEM_HOST_READ_ONLY if writes else cl.MEM_HOST_WRITE_ONLY)
    require(
        not memory.flags & refused,
        cl.INVALID_OPERATION,
        f"the flags of the {memory.title} forbid the host to {'write' if writes else 'read'} it",
    )


def transfer(
    call: Call,
    queue: CommandQueue,
    memory: Memory,
    copies: Sequence[Copy],
    waits: list[Event] | None,
    event: Place,
    *,
    spans: Iterable[Span],
    writes: bool,
    blocking: int,
) -> Performed | None:
    """Enqueue copies between the program's memory and an object; wait for their turn if the call blocks.

    `spans` are the bytes of the object that the copies read or write.
    """

    def after() -> None:
        memory.host_accesses(spans, writes=writes)

    command = Command(
        queue, waits, queue.event(event), uses=[memory], copies=copies, after=after, performs=bool(blocking)
    )
    queue.enqueue(command)
    return performed(call, command) if blocking else None


def performed(call: Call, command: Command, extra: tuple[int, ...] = ()) -> Performed:
    """Wait until it is the program's turn to perform a command, and return the reply that lets it do so."""
    call.proceed()
    command.queue.work(lambda: command.is_due or command.is_complete)
    require(
        command.is_due,
        cl.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
        "the command did not run, since a command of its wait list has failed",
    )
    return Performed(command, command.copies, extra)


@entry("clEnqueueReadBuffer", "clEnqueueWriteBuffer")
def enqueue_buffer(
    call: Call,
    queue: CommandQueue,
    buffer: Memory,
    blocking: int,
    offset: int,
    size: int,
    host: int,
    waits: list[Event] | None,
    event: Place,
) -> Performed | None:
    """Read or write bytes of a buffer."""
    check_buffer(queue, buffer)
    check_region(buffer, offset, size)
    writes = call.name == "clEnqueueWriteBuffer"
    require(host and size, cl.INVALID_VALUE, f"{call.name}: expected a pointer and 1 byte or more")
    check_host_access(buffer, writes=writes)
    here = buffer.address + offset
    copies = [line(here, host, size) if writes else line(host, here, size)]
    return transfer(call, queue, buffer, copies, waits, event, spans=[(offset, size)], writes=writes, blocking=blocking)


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A region of a buffer in up to three dimensions: the first byte, the pitches, and the bytes after the last one."""

    start: int
    row: int
    slice: int
    end: int

    @classmethod
    def of(cls, origin: Sizes | None, region: Sizes | None, row: int, slice: int) -> Rectangle:
        """Return a rectangle; raise `OpenClError` for a wrong pitch or an empty region."""
        if origin is None or region is None or not all(region):
            raise OpenClError(cl.INVALID_VALUE, f"the region is {region}, expected sizes of 1 or more and an origin")
        row = row or region[0]
        slice = slice or region[1] * row
        require(row >= region[0], cl.INVALID_VALUE, f"the row pitch {row} is less than the width {region[0]}")
        require(
            slice >= region[1] * row and slice % row == 0,
            cl.INVALID_VALUE,
            f"the slice pitch is {slice}, expected a multiple of the row pitch {row} of {region[1]} rows or more",
        )
        start = origin[0] + origin[1] * row + origin[2] * slice
        return cls(start, row, slice, start + (region[2] - 1) * slice + (region[1] - 1) * row + region[0])

    def spans(self, region: Sizes) -> Iterator[Span]:
        """Yield the offsets and sizes of the rows."""
        width, rows, slices = region
        return ((self.start + z * self.slice + y * self.row, width) for z in range(slices) for y in range(rows))


@entry("clEnqueueReadBufferRect", "clEnqueueWriteBufferRect")
def enqueue_buffer_rect(
    call: Call,
    queue: CommandQueue,
    buffer: Memory,
    blocking: int,
    origin: Sizes | None,
    host_origin: Sizes | None,
    region: Sizes | None,
    row_pitch: int,
    slice_pitch: int,
    host_row_pitch: int,
    host_slice_pitch: int,
    host: int,
    waits: list[Event] | None,
    event: Place,
) -> Performed | None:
    """Read or write a rectangular region of a buffer."""
    check_buffer(queue, buffer)
    writes = call.name == "clEnqueueWriteBufferRect"
    require(host, cl.INVALID_VALUE, f"{call.name}: the pointer is NULL, expected the program's memory")
    own = Rectangle.of(origin, region, row_pitch, slice_pitch)
    other = Rectangle.of(host_origin, region, host_row_pitch, host_slice_pitch)
    check_region(buffer, own.start, own.end - own.start)
    check_host_access(buffer, writes=writes)
    assert region is not None
    here = (buffer.address + own.start, own.row, own.slice)
    there = (host + other.start, other.row, other.slice)
    copies = [Copy(*(here if writes else there), *(there if writes else here), *region)]
    spans = own.spans(region)
    return transfer(call, queue, buffer, copies, waits, event, spans=spans, writes=writes, blocking=blocking)


def _view(memory: Memory, place: Rectangle, region: Sizes) -> NDArray[np.uint8]:
    """Return a rectangle of a buffer as an array that shares its bytes."""
    flat = memory.data[place.start : place.end]
    return np.lib.stride_tricks.as_strided(flat, region[::-1], (place.slice, place.row, 1))


@entry("clEnqueueCopyBuffer")
def enqueue_copy_buffer(
    call: Call,
    queue: CommandQueue,
    source: Memory,
    target: Memory,
    source_offset: int,
    target_offset: int,
    size: int,
    waits: list[Event] | None,
    event: Place,
) -> None:
    """Copy bytes of a buffer to another one, or to other bytes of the same one."""
    check_buffer(queue, source, target)
    require(size, cl.INVALID_VALUE, "clEnqueueCopyBuffer: the size is 0, expected 1 byte or more")
    check_region(source, source_offset, size)
    check_region(target, target_offset, size)
    first, second = source.address + source_offset, target.address + target_offset
    require(abs(first - second) >= size, cl.MEM_COPY_OVERLAP, "the source and the target of the copy overlap")

    def copy() -> None:
        source.host_reads(source_offset, size)
        target.data[target_offset : target_offset + size] = source.data[source_offset : source_offset + size]
        target.host_writes(target_offset, size)

    queue.enqueue(Command(queue, waits, queue.event(event), copy, uses=[source, target]))


@entry("clEnqueueCopyBufferRect")
def enqueue_copy_buffer_rect(
    call: Call,
    queue: CommandQueue,
    source: Memory,
    target: Memory,
    source_origin: Sizes | None,
    target_origin: Sizes | None,
    region: Sizes | None,
    source_row_pitch: int,
    source_slice_pitch: int,
    target_row_pitch: int,
    target_slice_pitch: int,
    waits: list[Event] | None,
    event: Place,
) -> None:
    """Copy a rectangular region of a buffer."""
    check_buffer(queue, source, target)
    first = Rectangle.of(source_origin, region, source_row_pitch, source_slice_pitch)
    second = Rectangle.of(target_origin, region, target_row_pitch, target_slice_pitch)
    check_region(source, first.start, first.end - first.start)
    check_region(target, second.start, second.end - second.start)
    assert region is not None
    assert source_origin is not None
    assert target_origin is not None
    if source is target:
        same = (first.row, first.slice) == (second.row, second.slice)
        require(same, cl.INVALID_VALUE, "the pitches of a copy within a buffer differ, expected equal ones")
        apart = any(abs(a - b) >= size for a, b, size in zip(source_origin, target_origin, region, strict=True))
        require(apart, cl.MEM_COPY_OVERLAP, "the source and the target of the copy overlap")

    def copy() -> None:
        source.host_accesses(first.spans(region), writes=False)
        _view(target, second, region)[...] = _view(source, first, region)
        target.host_accesses(second.spans(region), writes=True)

    queue.enqueue(Command(queue, waits, queue.event(event), copy, uses=[source, target]))


@entry("clEnqueueFillBuffer")
def enqueue_fill_buffer(
    call: Call,
    queue: CommandQueue,
    buffer: Memory,
    pattern: bytes | None,
    offset: int,
    size: int,
    waits: list[Event] | None,
    event: Place,
) -> None:
    """Fill bytes of a buffer with a pattern."""
    check_buffer(queue, buffer)
    check_region(buffer, offset, size)
    data = _pattern(pattern, offset, size)

    def fill() -> None:
        buffer.data[offset : offset + size].reshape(-1, len(data))[...] = data
        buffer.host_writes(offset, size)

    queue.enqueue(Command(queue, waits, queue.event(event), fill, uses=[buffer]))


def _pattern(pattern: bytes | None, offset: int, size: int) -> NDArray[np.uint8]:
    """Return the bytes of a pattern; raise `OpenClError` unless `offset` and `size` are multiples of its size."""
    require(
        pattern is not None and len(pattern) in PATTERNS,
        cl.INVALID_VALUE,
        f"the pattern has {len(pattern or b'')} bytes, expected one of {', '.join(map(str, PATTERNS))}",
    )
    assert pattern is not None
    require(
        offset % len(pattern) == 0 and size % len(pattern) == 0,
        cl.INVALID_VALUE,
        f"the offset {offset} and the size {size} must be multiples of the pattern's {len(pattern)} bytes",
    )
    return np.frombuffer(pattern, np.uint8)


# ---- mapping ---------------------------------------------------------------------------------------------------------


def check_map_flags(memory: Memory, flags: int) -> None:
    """Raise `OpenClError` for flags of a map command that are wrong for the object."""
    known = cl.MAP_READ | WRITING
    only = not flags & cl.MAP_WRITE_INVALIDATE_REGION or flags == cl.MAP_WRITE_INVALIDATE_REGION
    require(
        not flags & ~known and only,
        cl.INVALID_VALUE,
        f"the map flags are {flags:#x}, expected CL_MAP_READ and CL_MAP_WRITE, or only CL_MAP_WRITE_INVALIDATE_REGION",
    )
    if flags & cl.MAP_READ:
        check_host_access(memory, writes=False)
    if flags & WRITING:
        check_host_access(memory, writes=True)


def _check_overlap(memory: Memory, mapping: Mapping) -> None:
    """Warn of a region that overlaps a mapped one if one of them is mapped for writing (OpenCL 3.0, 5.4.3)."""
    for each in memory.maps:
        if (each.flags | mapping.flags) & WRITING and _overlap(each.spans, mapping.spans):
            memory.platform.warn(
                "overlapping-maps",
                f"two mapped regions of the {memory.title} overlap, and one of them is mapped for writing",
                memory.context,
                "unmap the first region before you map one that overlaps it (OpenCL 3.0, 5.4.3)",
            )


def _overlap(some: Iterable[Span], others: Iterable[Span]) -> bool:
    """Return True if a span of `some` shares a byte with one of `others`; both are in ascending order."""
    first, second = iter(some), iter(others)
    one, other = next(first, None), next(second, None)
    while one is not None and other is not None:
        if one[0] < other[0] + other[1] and other[0] < one[0] + one[1]:
            return True
        if one[0] < other[0]:
            one = next(first, None)
        else:
            other = next(second, None)
    return False


def map_memory(
    call: Call,
    queue: CommandQueue,
    memory: Memory,
    blocking: int,
    mapping: Mapping,
    copies: Sequence[Copy],
    pitches: tuple[int, int],
    waits: list[Event] | None,
    event: Place,
) -> Performed:
    """Enqueue a command that maps a region, and return the pointer and the pitches."""
    _check_overlap(memory, mapping)

    def after() -> None:
        if mapping.flags & cl.MAP_READ:
            memory.host_accesses(mapping.spans, writes=False)

    command = Command(
        queue, waits, queue.event(event), uses=[memory], copies=copies, after=after, performs=bool(blocking)
    )
    queue.enqueue(command)
    memory.maps.append(mapping)
    extra = (mapping.pointer, *pitches)
    if not blocking:
        return Performed(None, (), extra)
    try:
        return performed(call, command, extra)
    except OpenClError:
        memory.maps.remove(mapping)
        raise


@entry("clEnqueueMapBuffer")
def enqueue_map_buffer(
    call: Call,
    queue: CommandQueue,
    buffer: Memory,
    blocking: int,
    flags: int,
    offset: int,
    size: int,
    waits: list[Event] | None,
    event: Place,
) -> Performed:
    """Map a region of a buffer; the program accesses it through the pointer that this returns."""
    check_buffer(queue, buffer)
    require(size, cl.INVALID_VALUE, "clEnqueueMapBuffer: the size is 0, expected 1 byte or more")
    check_region(buffer, offset, size)
    check_map_flags(buffer, flags)
    back = buffer.from_host(offset, size) if flags & WRITING else ()
    mapping = Mapping(buffer.pointer(offset), flags, [(offset, size)], back)
    copies = () if flags & cl.MAP_WRITE_INVALIDATE_REGION else buffer.to_host(offset, size)
    return map_memory(call, queue, buffer, blocking, mapping, copies, (0, 0), waits, event)


@entry("clEnqueueUnmapMemObject")
def enqueue_unmap_mem_object(
    call: Call, queue: CommandQueue, memory: Memory, mapped: int, waits: list[Event] | None, event: Place
) -> None:
    """Unmap a region."""
    check_context(queue, memory)
    found = next((each for each in memory.maps if each.pointer == mapped), None)
    if found is None:
        raise OpenClError(cl.INVALID_VALUE, f"{mapped:#x} is not a pointer to a mapped region of the {memory.title}")

    def after() -> None:
        if found.flags & WRITING:
            memory.host_accesses(found.spans, writes=True)

    queue.enqueue(Command(queue, waits, queue.event(event), uses=[memory], copies=found.back, after=after))
    memory.maps.remove(found)


@entry("clEnqueueMigrateMemObjects")
def enqueue_migrate_mem_objects(
    call: Call,
    queue: CommandQueue,
    objects: list[Memory] | None,
    flags: int,
    waits: list[Event] | None,
    event: Place,
) -> None:
    """Enqueue a command without effect: all devices share the memory of the objects."""
    require(objects, cl.INVALID_VALUE, "clEnqueueMigrateMemObjects: the list of objects is empty, expected one or more")
    known = cl.MIGRATE_MEM_OBJECT_HOST | cl.MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED
    require(not flags & ~known, cl.INVALID_VALUE, f"the migration flags {flags:#x} have unknown bits")
    check_context(queue, *(objects or ()))
    queue.enqueue(Command(queue, waits, queue.event(event), uses=objects or ()))


# ---- shared virtual memory -------------------------------------------------------------------------------------------


@entry("clSVMAlloc")
def svm_alloc(call: Call, context: Context, flags: int, size: int, alignment: int) -> Performed:
    """Allocate shared virtual memory; return its address."""
    fine = flags & cl.MEM_SVM_FINE_GRAIN_BUFFER
    require(
        not flags & ~SVM_FLAGS and (fine or not flags & cl.MEM_SVM_ATOMICS),
        cl.INVALID_VALUE,
        f"the flags {flags:#x} are invalid for shared virtual memory",
    )
    require((flags & KERNEL_ACCESS).bit_count() <= 1, cl.INVALID_VALUE, "the flags about accesses exclude each other")
    require(0 < size <= largest(context), cl.INVALID_VALUE, f"the size is {size}, expected 1 to {largest(context)}")
    require(
        alignment & (alignment - 1) == 0 and alignment <= PAGE_SIZE,
        cl.INVALID_VALUE,
        f"the alignment is {alignment}, expected a power of two up to {PAGE_SIZE}",
    )
    block = SvmBlock(context, 0, flags, size)
    context.svm[block.address] = block
    context.platform.version += 1
    return Performed(None, (), (block.address, 0, 0))


@entry("clSVMFree")
def svm_free(call: Call, context: Context, pointer: int) -> None:
    """Free shared virtual memory."""
    block = context.svm.pop(pointer, None)
    if block is not None:
        context.platform.version += 1
        block.end_use()


@entry("clEnqueueSVMFree")
def enqueue_svm_free(
    call: Call,
    queue: CommandQueue,
    pointers: tuple[int, ...] | None,
    notify: Callback,
    waits: list[Event] | None,
    event: Place,
) -> None:
    """Free shared virtual memory after earlier commands, or let a function of the program do so."""
    require(pointers and all(pointers), cl.INVALID_VALUE, "clEnqueueSVMFree: expected one or more pointers, not NULL")
    assert pointers is not None

    def free() -> None:
        if notify[0]:
            queue.platform.client.call_free(notify, queue.handle, pointers)
            return
        for each in pointers:
            svm_free(call, queue.context, each)

    queue.enqueue(Command(queue, waits, queue.event(event), free))


def _svm_data(queue: CommandQueue, pointer: int, size: int) -> NDArray[np.uint8] | None:
    """Return bytes of shared virtual memory, or None for memory of the program's own."""
    block = svm_block(queue.context, pointer, size)
    return None if block is None else queue.platform.arena.bytes(pointer, size)


@entry("clEnqueueSVMMemcpy")
def enqueue_svm_memcpy(
    call: Call,
    queue: CommandQueue,
    blocking: int,
    target: int,
    source: int,
    size: int,
    waits: list[Event] | None,
    event: Place,
) -> Performed | None:
    """Copy between shared virtual memory and memory of the program."""
    require(target and source, cl.INVALID_VALUE, "clEnqueueSVMMemcpy: a pointer is NULL, expected addresses")
    require(abs(target - source) >= size, cl.MEM_COPY_OVERLAP, "the source and the target of the copy overlap")
    copies = [line(target, source, size)] if size else []
    command = Command(queue, waits, queue.event(event), copies=copies, performs=bool(blocking))
    queue.enqueue(command)
    return performed(call, command) if blocking else None


@entry("clEnqueueSVMMemFill")
def enqueue_svm_mem_fill(
    call: Call,
    queue: CommandQueue,
    pointer: int,
    pattern: bytes | None,
    size: int,
    waits: list[Event] | None,
    event: Place,
) -> None:
    """Fill shared virtual memory with a pattern."""
    data = _pattern(pattern, pointer, size)
    found = _svm_data(queue, pointer, size)
    if found is None:
        raise OpenClError(cl.INVALID_VALUE, f"{pointer:#x} is not shared virtual memory of {size} bytes")

    def fill() -> None:
        found.reshape(-1, len(data))[...] = data

    queue.enqueue(Command(queue, waits, queue.event(event), fill))


@entry("clEnqueueSVMMap")
def enqueue_svm_map(
    call: Call,
    queue: CommandQueue,
    blocking: int,
    flags: int,
    pointer: int,
    size: int,
    waits: list[Event] | None,
    event: Place,
) -> Performed | None:
    """Map shared virtual memory, which the program can always access: wait for earlier commands."""
    require(pointer and size, cl.INVALID_VALUE, "clEnqueueSVMMap: expected a pointer and 1 byte or more")
    require(
        flags and not flags & ~(cl.MAP_READ | WRITING),
        cl.INVALID_VALUE,
        f"the map flags are {flags:#x}, expected CL_MAP_READ and CL_MAP_WRITE, or only CL_MAP_WRITE_INVALIDATE_REGION",
    )
    command = Command(queue, waits, queue.event(event), performs=bool(blocking))
    queue.enqueue(command)
    return performed(call, command) if blocking else None


@entry("clEnqueueSVMUnmap")
def enqueue_svm_unmap(call: Call, queue: CommandQueue, pointer: int, waits: list[Event] | None, event: Place) -> None:
    """Unmap shared virtual memory."""
    require(pointer, cl.INVALID_VALUE, "clEnqueueSVMUnmap: the pointer is NULL, expected an address")
    queue.enqueue(Command(queue, waits, queue.event(event)))


@entry("clEnqueueSVMMigrateMem")
def enqueue_svm_migrate_mem(
    call: Call,
    queue: CommandQueue,
    pointers: tuple[int, ...] | None,
    sizes: tuple[int, ...] | None,
    flags: int,
    waits: list[Event] | None,
    event: Place,
) -> None:
    """Enqueue a command without effect: all devices share the memory."""
    require(pointers, cl.INVALID_VALUE, "clEnqueueSVMMigrateMem: the list of pointers is empty, expected one or more")
    for number, each in enumerate(pointers or ()):
        known = svm_block(queue.context, each, sizes[number] if sizes else 1)
        require(known is not None, cl.INVALID_VALUE, f"{each:#x} is not shared virtual memory")
    queue.enqueue(Command(queue, waits, queue.event(event)))
