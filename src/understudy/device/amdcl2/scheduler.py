"""The scheduler of a device-side queue: launches what kernels have enqueued, completes it, frees its slots.

AMD's runtime does this with a kernel of its own that runs again and again; here it is Python between two launches. It
does one thing at a time, lowest slot first: what a program that waits rightly can see is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from understudy.core.errors import AccessFault, GuestFault
from understudy.core.event import Event
from understudy.core.telemetry import Telemetry
from understudy.device.amdcl2.queue_records import (
    CL_COMPLETE,
    CL_SUBMITTED,
    AqlWrap,
    EnqueueFlags,
    QueueEvent,
    VirtualQueue,
    WrapState,
)
from understudy.device.amdcl2.queue_shape import QueueShape
from understudy.device.hsa.launch.packet import KernelDispatchPacket
from understudy.engine.gcn.memory import GpuMemory

Launch = Callable[[KernelDispatchPacket, int], int]
"""Runs a packet that lies at an address to its end; gives the time it took, in retired instructions."""
PACKET: Final = AqlWrap.offset_of("aql")
SIGN: Final = 1 << 31
FAILED: Final = 0xFFFF_FFFF
MAX_LAUNCHES: Final = 1 << 20
"""Children of one parent, and of theirs, before they count as a loop."""


@dataclass(frozen=True, slots=True)
class ChildLaunched(Event):
    """A kernel that another one enqueued starts."""

    slot: int
    command_id: int
    kernel_object: int


@dataclass(frozen=True, slots=True)
class ChildCompleted(Event):
    """A slot is free again: its kernel and all that it enqueued have ended."""

    slot: int
    command_id: int


class Scheduler:
    """Serves the queue whose header lies at `address`. `pointer_bytes`: 8, or 4 where kernels are 32-bit code."""

    def __init__(
        self,
        memory: GpuMemory,
        address: int,
        launch: Launch,
        telemetry: Telemetry | None = None,
        pointer_bytes: int = 8,
    ) -> None:
        self.memory = memory
        self.address = address
        self.launch = launch
        self.pointer_bytes = pointer_bytes
        self.telemetry = telemetry if telemetry is not None else Telemetry()
        self.time = 0

    def drain(self, parent: int) -> int:
        """Run everything that was enqueued, and what that enqueues, until nothing is left; how many were launched.

        `parent` is the slot of the kernel that has just ended. `GuestFault` where what is left waits for something that
        can no longer happen, or where the queue's records lead out of memory.
        """
        self._set(parent, "state", WrapState.DONE)
        launched = 0
        try:
            while True:
                found = self._pass()
                if found is None:
                    break
                launched += found
                if launched > MAX_LAUNCHES:
                    raise GuestFault(f"more than {MAX_LAUNCHES} kernels were enqueued by kernels")
        except AccessFault as fault:
            raise fault.at("device queue", f"{self.address:#x}") from None
        stuck = [slot for slot, wrap in self._taken() if wrap.state not in (WrapState.FREE, WrapState.RESERVED)]
        if stuck:
            raise GuestFault(f"enqueued kernels in slots {stuck} wait for events that nobody completes")
        return launched

    # -- one step ----------------------------------------------------------------------------------------------------

    def _pass(self) -> int | None:
        """One step of progress: 1 for a launch, 0 for anything else, None where there is none to be made."""
        for slot, wrap in self._taken():
            if wrap.state == WrapState.READY and self._may_start(wrap):
                return self._start(slot, wrap)
            if wrap.state == WrapState.MARKER and self._marker(slot, wrap):
                return 0
            if wrap.state == WrapState.DONE and wrap.child_counter == 0:
                self._complete(slot, wrap)
                return 0
        return None

    def _may_start(self, wrap: AqlWrap) -> bool:
        waits = wrap.enqueue_flags in (EnqueueFlags.WAIT_KERNEL, EnqueueFlags.WAIT_WORK_GROUP)
        if waits and wrap.parent_wrap and self._get(wrap.parent_wrap, "state") != WrapState.DONE:
            return False
        return self._status(wrap) is not None

    def _start(self, slot: int, wrap: AqlWrap) -> int:
        """Launch a child, or fail it where an event that it waited for has failed."""
        at = self._slot_address(slot)
        failed = bool(self._status(wrap))
        self._set(at, "state", WrapState.BUSY)
        self._release_waits(wrap)
        if wrap.completion:
            self._set_timer(wrap.completion, 0)
            if failed:
                self._set_event(wrap.completion, FAILED)
        if not failed:
            self.telemetry.emit(lambda time: ChildLaunched(time, slot, wrap.command_id, wrap.aql.kernel_object))
            self.time += self.launch(wrap.aql, at + PACKET)
        if wrap.completion:
            self._set_timer(wrap.completion, 1)
        self._set(at, "state", WrapState.DONE)
        return int(not failed)

    def _complete(self, slot: int, wrap: AqlWrap) -> None:
        """A kernel and all its children have ended: tell its event and its parent, free the slot."""
        if wrap.completion:
            self._set_timer(wrap.completion, 2)
            event = QueueEvent.parse(self.memory.read(wrap.completion, QueueEvent.size_bytes))
            if event.capture_info:
                start, end, complete = event.timer
                times = (end - start).to_bytes(8, "little") + (complete - start).to_bytes(8, "little")
                self.memory.write(event.capture_info, times)
            self._finish_event(wrap.completion)
        self._free(slot, wrap)

    def _marker(self, slot: int, wrap: AqlWrap) -> bool:
        """A marker without a list waits for all older commands, one with a list for its events."""
        if wrap.wait_num:
            status = self._status(wrap)
            if status is None:
                return False
            self._release_waits(wrap)
            if status and wrap.completion:
                self._set_event(wrap.completion, FAILED)
        elif any(each.command_id < wrap.command_id for number, each in self._taken() if number != slot):
            return False
        if wrap.completion:
            self._finish_event(wrap.completion)
        self._free(slot, wrap)
        return True

    def _free(self, slot: int, wrap: AqlWrap) -> None:
        if wrap.parent_wrap:
            self._set(wrap.parent_wrap, "child_counter", self._get(wrap.parent_wrap, "child_counter") - 1)
        self._set(self._slot_address(slot), "state", WrapState.FREE)
        self._clear_bit(self._header().aql_slot_mask, slot)
        self.telemetry.emit(lambda time: ChildCompleted(time, slot, wrap.command_id))

    # -- slots -------------------------------------------------------------------------------------------------------

    def _header(self) -> VirtualQueue:
        return VirtualQueue.parse(self.memory.read(self.address, VirtualQueue.size_bytes))

    def _slot_address(self, slot: int) -> int:
        return self.address + VirtualQueue.size_bytes + slot * AqlWrap.size_bytes

    def _taken(self) -> Iterator[tuple[int, AqlWrap]]:
        """Slots whose bit in the mask is set."""
        header = self._header()
        mask = int.from_bytes(self.memory.read(header.aql_slot_mask, header.aql_slot_num // 8), "little")
        while mask:
            slot = (mask & -mask).bit_length() - 1
            mask &= mask - 1
            yield slot, AqlWrap.parse(self.memory.read(self._slot_address(slot), AqlWrap.size_bytes))

    def _get(self, wrap: int, field: str) -> int:
        return int.from_bytes(self.memory.read(wrap + AqlWrap.offset_of(field), 4), "little")

    def _set(self, wrap: int, field: str, value: int) -> None:
        self.memory.write(wrap + AqlWrap.offset_of(field), (value & FAILED).to_bytes(4, "little"))

    def _clear_bit(self, mask: int, index: int) -> None:
        at = mask + index // 32 * 4
        word = int.from_bytes(self.memory.read(at, 4), "little")
        self.memory.write(at, (word & ~(1 << index % 32)).to_bytes(4, "little"))

    # -- events ------------------------------------------------------------------------------------------------------

    def _waits(self, wrap: AqlWrap) -> list[int]:
        if not wrap.wait_num:
            return []
        if wrap.wait_num > self._header().wait_size:
            raise GuestFault(f"a wait list of {wrap.wait_num} events, the queue allows {self._header().wait_size}")
        size = self.pointer_bytes
        data = self.memory.read(wrap.wait_list, size * wrap.wait_num)
        return [int.from_bytes(data[n : n + size], "little") for n in range(0, len(data), size)]

    def _status(self, wrap: AqlWrap) -> int | None:
        """0 where all events of the wait list are complete, -1 where one has failed, None where one is awaited."""
        for event in self._waits(wrap):
            state = int.from_bytes(self.memory.read(event, 4), "little")
            if state & SIGN:
                return -1
            if state != CL_COMPLETE:
                return None
        return 0

    def _release_waits(self, wrap: AqlWrap) -> None:
        for event in self._waits(wrap):
            self._release_event(event)

    def _finish_event(self, event: int) -> None:
        state = int.from_bytes(self.memory.read(event, 4), "little")
        if not state & SIGN:
            self._set_event(event, CL_COMPLETE)
        self._release_event(event)

    def _release_event(self, event: int) -> None:
        at = event + QueueEvent.offset_of("counter")
        count = int.from_bytes(self.memory.read(at, 4), "little") - 1
        self.memory.write(at, (count & FAILED).to_bytes(4, "little"))
        header = self._header()
        index, rest = divmod(event - header.event_slots, QueueEvent.size_bytes)
        if count == 0 and not rest and 0 <= index < header.event_slot_num:
            self._clear_bit(header.event_slot_mask, index)

    def _set_event(self, event: int, state: int) -> None:
        self.memory.write(event, state.to_bytes(4, "little"))

    def _set_timer(self, event: int, which: int) -> None:
        self.memory.write(event + QueueEvent.offset_of("timer") + 8 * which, self.time.to_bytes(8, "little"))


def make_queue(memory: GpuMemory, address: int, kernarg: int, shape: QueueShape, kernels: int) -> int:
    """Write an empty queue to `address`, with argument buffers at `kernarg`; the parent's slot lies at the result.

    The block must have `shape.size_bytes`, the argument buffers `shape.kernarg_bytes`.
    """
    parts = shape.parts(address)
    header = VirtualQueue(
        aql_slot_num=shape.slots,
        event_slot_num=shape.events,
        event_slot_mask=parts.event_mask,
        event_slots=parts.events,
        aql_slot_mask=parts.slot_mask,
        command_counter=0,
        wait_size=shape.wait_size,
        arg_size=shape.arg_size,
        mask_groups=shape.mask_groups,
        kernel_table=kernels,
    )
    memory.write(address, header.pack())
    slots = np.tile(np.frombuffer(AqlWrap(aql=KernelDispatchPacket()).pack(), np.uint64), (shape.slots, 1))
    numbers = np.arange(shape.slots, dtype=np.uint64)
    slots[:, AqlWrap.offset_of("wait_list") // 8] = parts.wait_lists + numbers * (8 * shape.wait_size)
    slots[:, (PACKET + KernelDispatchPacket.offset_of("kernarg_address")) // 8] = kernarg + numbers * shape.arg_size
    memory.write(address + VirtualQueue.size_bytes, slots.tobytes())
    empty = QueueEvent(state=CL_SUBMITTED, counter=0, timer=(0, 0, 0), capture_info=0)
    memory.write(parts.events, empty.pack() * shape.events)
    return parts.parent
