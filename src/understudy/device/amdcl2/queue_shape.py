"""How large a device-side queue is, and where its parts lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from understudy.core.errors import WireError
from understudy.core.words import align_up
from understudy.device.amdcl2.queue_records import AqlWrap, QueueEvent, VirtualQueue

PREFERRED_BYTES: Final = 256 * 1024
"""CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE: the size of a queue for which none is asked."""
LEAST_BYTES: Final = 16 * 1024
MOST_BYTES: Final = 8 * 1024 * 1024
"""CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE."""
MASK_SLOTS: Final = 32
"""Slots of one word of the mask."""
GROUP_BYTES: Final = 512 * 1024
"""Bytes of slots for each word of the mask that a work-item of the runtime's scheduler looks after."""


@dataclass(frozen=True, slots=True)
class QueueParts:
    """Addresses of what a queue's header points to, and of the slot for the kernel that the host launches."""

    slot_mask: int
    event_mask: int
    events: int
    wait_lists: int
    parent: int


@dataclass(frozen=True, slots=True)
class QueueShape:
    """Sizes of a queue: `slots` (a multiple of 32), `events`, what a wait list may hold, bytes of arguments.

    They are those of AMD's runtime: for arguments the largest parameter size of its devices and 64 bytes.
    """

    slots: int = PREFERRED_BYTES // AqlWrap.size_bytes
    events: int = 1024
    wait_size: int = 8
    arg_size: int = 1024 + 64
    mask_groups: int = 1

    @classmethod
    def of_size(cls, size_bytes: int) -> QueueShape:
        """The queue that AMD's runtime makes for CL_QUEUE_SIZE; `WireError` for more than the device has."""
        if not 0 < size_bytes <= MOST_BYTES:
            raise WireError(f"a device queue of {size_bytes} bytes, expected 1 to {MOST_BYTES}")
        size = max(size_bytes, LEAST_BYTES)
        groups = max(size // GROUP_BYTES, 1)
        unit = MASK_SLOTS * groups
        return cls(slots=-(-size // (AqlWrap.size_bytes * unit)) * unit, mask_groups=groups)

    @property
    def kernarg_bytes(self) -> int:
        """Bytes of the argument buffers of all slots."""
        return self.slots * self.arg_size

    @property
    def size_bytes(self) -> int:
        """Bytes of everything else."""
        return self.parts(0).parent + AqlWrap.size_bytes

    def parts(self, address: int) -> QueueParts:
        """Where the parts of a queue at `address` lie: behind the slots, one after the other."""
        slot_mask = address + VirtualQueue.size_bytes + self.slots * AqlWrap.size_bytes
        event_mask = slot_mask + self.slots // 8
        events = align_up(event_mask + self.events // 8, 64)
        wait_lists = align_up(events + self.events * QueueEvent.size_bytes, 64)
        parent = align_up(wait_lists + self.slots * self.wait_size * 8, 128)
        return QueueParts(slot_mask, event_mask, events, wait_lists, parent)
