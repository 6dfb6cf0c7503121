"""The memory layout of device-side queues: header, slots, events, and the sizes and addresses of all parts.

The AMD OpenCL 2.0 ABI specification names only the two pointers to these structures (vqueue_pointer,
aqlwrap_pointer); the layouts are those of AMD's runtime. Pointers in these records have 64 bits in 32-bit
code, too. The entries of `kernel_table` and `wait_list` are of type size_t and have 4 bytes in 32-bit code."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from softcard.core.errors import WireError
from softcard.core.record import Record, nested, reserved, u32, u64, words
from softcard.core.words import align_up
from softcard.device.hsa.queues.packets import KernelDispatchPacket


class WrapState(IntEnum):
    """The states of a slot of a device-side queue."""

    FREE = 0
    RESERVED = 1
    READY = 2
    MARKER = 3
    BUSY = 4
    DONE = 5


class EnqueueFlags(IntEnum):
    """The conditions under which an enqueued child kernel may start, as encoded in the slot's `enqueue_flags`."""

    NO_WAIT = 0
    WAIT_KERNEL = 1
    WAIT_WORK_GROUP = 2


class VirtualQueue(Record, size=64):
    """The header of a device-side queue; its slots follow it."""

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
    """A slot of a device-side queue: the enqueued command, and a reference to its parent.

    When the queue is created, the packet in `aql` refers to a kernarg segment of arg_size bytes that only this slot
    uses.
    """

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
    """The object that a clk_event_t points to. `state` is an OpenCL execution status, negative for errors."""

    state: int = u32()
    counter: int = u32()
    timer: tuple[int, ...] = words(64, 3)  # start, end, complete
    capture_info: int = u64()


# ---- sizes and addresses ---------------------------------------------------------------------------------------------
# The sizes of a device-side queue, and the addresses of its parts.


PREFERRED_BYTES: Final = 256 * 1024
"""CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE: the default size of a queue in bytes."""
LEAST_BYTES: Final = 16 * 1024
MOST_BYTES: Final = 8 * 1024 * 1024
"""CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE: the maximum size of a queue in bytes."""
MASK_SLOTS: Final = 32
"""The number of slots whose state one 32-bit word of the slot mask describes."""
GROUP_BYTES: Final = 512 * 1024
"""The bytes of queue slots for which the slot mask has one group of words (`mask_groups`).

One work-item of the scheduler kernel in AMD's runtime handles one mask word of each group.
"""


@dataclass(frozen=True, slots=True)
class QueueParts:
    """The addresses of the parts of a device-side queue that follow its slots.

    `parent` is the address of an additional slot, for the kernel that the host launches."""

    slot_mask: int
    event_mask: int
    events: int
    wait_lists: int
    parent: int


@dataclass(frozen=True, slots=True)
class QueueShape:
    """The sizes of a device-side queue. The default values are those of AMD's runtime.

    - `slots`: the number of slots, a multiple of 32.
    - `events`: the number of events.
    - `wait_size`: the number of entries of a wait list.
    - `arg_size`: the bytes of arguments of each slot: the largest parameter size of AMD's devices plus 64 bytes.
    - `mask_groups`: the number of groups into which the words of the slot mask are divided."""

    slots: int = PREFERRED_BYTES // AqlWrap.size_bytes
    events: int = 1024
    wait_size: int = 8
    arg_size: int = 1024 + 64
    mask_groups: int = 1

    @classmethod
    def of_size(cls, size_bytes: int) -> QueueShape:
        """Return the shape that AMD's runtime gives a queue of CL_QUEUE_SIZE `size_bytes`.

        Raise `WireError` if the size is too large.
        """
        if not 0 < size_bytes <= MOST_BYTES:
            raise WireError(f"the size of the device queue is {size_bytes} bytes, expected 1 to {MOST_BYTES}")
        size = max(size_bytes, LEAST_BYTES)
        groups = max(size // GROUP_BYTES, 1)
        unit = MASK_SLOTS * groups
        return cls(slots=-(-size // (AqlWrap.size_bytes * unit)) * unit, mask_groups=groups)

    @property
    def kernarg_bytes(self) -> int:
        """The total bytes of the argument buffers of all slots."""
        return self.slots * self.arg_size

    @property
    def size_bytes(self) -> int:
        """The total bytes of all parts of the queue except for the argument buffers."""
        return self.parts(0).parent + AqlWrap.size_bytes

    def parts(self, address: int) -> QueueParts:
        """Return the addresses of the parts of a queue whose header is at `address`.

        The slots follow the header, and the other parts follow the slots.
        """
        slot_mask = address + VirtualQueue.size_bytes + self.slots * AqlWrap.size_bytes
        event_mask = slot_mask + self.slots // 8
        events = align_up(event_mask + self.events // 8, 64)
        wait_lists = align_up(events + self.events * QueueEvent.size_bytes, 64)
        parent = align_up(wait_lists + self.slots * self.wait_size * 8, 128)
        return QueueParts(slot_mask, event_mask, events, wait_lists, parent)
