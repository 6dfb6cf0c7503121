"""Device-side queues: the virtual queue that kernels enqueue into, its slots and its events. Layout only.

The document names only the two pointers (vqueue_pointer, aqlwrap_pointer); these are the layouts of AMD's runtime.
Pointers in these records are 64 bits wide in files of either word size; the entries of what `kernel_table` and
`wait_list` point to are size_t, and so 4 bytes wide where the code is 32-bit code.
"""

from __future__ import annotations

from enum import IntEnum

from understudy.core.record import Record, nested, reserved, u32, u64, words
from understudy.device.hsa.launch.packet import KernelDispatchPacket


class WrapState(IntEnum):
    """States of a slot."""

    FREE = 0
    RESERVED = 1
    READY = 2
    MARKER = 3
    BUSY = 4
    DONE = 5


class EnqueueFlags(IntEnum):
    """When a child may start."""

    NO_WAIT = 0
    WAIT_KERNEL = 1
    WAIT_WORK_GROUP = 2


class VirtualQueue(Record, size=64):
    """The header; slots follow it."""

    aql_slot_num: int = u32()
    event_slot_num: int = u32()
    event_slot_mask: int = u64()
    event_slots: int = u64()
    aql_slot_mask: int = u64()
    command_counter: int = u32()
    wait_size: int = u32()
    arg_size: int = u32()
    mask_groups: int = u32()
    kernel_table: int = u64()
    reserved_38: bytes = reserved(8)


class AqlWrap(Record, size=128):
    """A slot: what is to be done, and for whom. `aql` has its own kernarg segment of arg_size bytes from the start."""

    state: int = u32(default=WrapState.FREE)
    enqueue_flags: int = u32(default=0)
    command_id: int = u32(default=0)
    child_counter: int = u32(default=0)
    completion: int = u64(default=0)
    parent_wrap: int = u64(default=0)
    wait_list: int = u64(default=0)
    wait_num: int = u32(default=0)
    reserved_2c: bytes = reserved(20)
    aql: KernelDispatchPacket = nested(KernelDispatchPacket)


CL_COMPLETE = 0
CL_SUBMITTED = 2


class QueueEvent(Record, size=40):
    """A clk_event_t's object. `state` is an OpenCL execution status, negative for errors."""

    state: int = u32()
    counter: int = u32()
    timer: tuple[int, ...] = words(64, 3)  # start, end, complete
    capture_info: int = u64()
