"""How large a device-side queue is, and where its parts lie."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.launch.amdcl2_queue import AqlWrap, QueueEvent, VirtualQueue


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
    """Sizes of a queue: `slots` (a multiple of 64), `events`, what a wait list may hold, bytes of arguments."""

    slots: int = 64
    events: int = 64
    wait_size: int = 8
    arg_size: int = 1024

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
        events = -(-(event_mask + self.events // 8) // 64) * 64
        wait_lists = -(-(events + self.events * QueueEvent.size_bytes) // 64) * 64
        parent = -(-(wait_lists + self.slots * self.wait_size * 8) // 128) * 128
        return QueueParts(slot_mask, event_mask, events, wait_lists, parent)
