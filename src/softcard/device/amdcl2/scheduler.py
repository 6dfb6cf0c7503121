"""The scheduler of a device-side queue, which launches enqueued kernels, completes them and frees their slots.

AMD's runtime uses a kernel for this, which runs repeatedly. This scheduler is Python code that runs between two
launches. It handles one slot at a time, lowest slot first; a program that waits correctly cannot observe the
difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from softcard.core.device import Telemetry
from softcard.core.errors import AccessFault, GuestFault
from softcard.core.event import Event
from softcard.device.amdcl2.queue_records import (
    CL_COMPLETE,
    CL_SUBMITTED,
    AqlWrap,
    EnqueueFlags,
    QueueEvent,
    QueueShape,
    VirtualQueue,
    WrapState,
)
from softcard.device.hsa.queues.packets import KernelDispatchPacket
from softcard.engine.gcn.memory import GpuMemory

Launch = Callable[[KernelDispatchPacket, int], int]
"""A function that runs the given packet, which is at the given address, to its end.

It returns the time that the packet took, in retired instructions.
"""
PACKET: Final = AqlWrap.offset_of("aql")
SIGN: Final = 1 << 31
FAILED: Final = 0xFFFF_FFFF
MAX_LAUNCHES: Final = 1 << 20
"""The maximum number of direct and indirect children of one parent kernel.

A parent with more children is treated as an endless loop.
"""


@dataclass(frozen=True, slots=True)
class ChildLaunched(Event):
    """The event of the start of a kernel that another kernel enqueued."""

    slot: int
    command_id: int
    kernel_object: int


@dataclass(frozen=True, slots=True)
class ChildCompleted(Event):
    """The event of a queue slot that is free again: its kernel and all kernels that it enqueued have ended."""

    slot: int
    command_id: int


class Scheduler:
    """The scheduler of the device-side queue whose header is at `address`.

    `pointer_bytes` is 8, or 4 for 32-bit code.
    """

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
        """Run all enqueued kernels, and those that they enqueue, until none is left; return the number of launches.

        `parent` is the address of the slot of the kernel that the host launched and that has just ended. Raise
        `GuestFault` if the remaining kernels wait for an event that cannot happen any more, or if the queue's
        records point outside of memory."""
        self._set(parent, "state", WrapState.DONE)
        launched = 0
        try:
            while True:
                found = self._pass()
                if found is None:
                    break
                launched += found
                if launched > MAX_LAUNCHES:
                    raise GuestFault(
                        f"kernels have enqueued more than {MAX_LAUNCHES} kernels, which is the limit for one run"
                    )
        except AccessFault as fault:
            raise fault.at("device queue", f"{self.address:#x}") from None
        stuck = [slot for slot, wrap in self._taken() if wrap.state not in (WrapState.FREE, WrapState.RESERVED)]
        if stuck:
            raise GuestFault(f"enqueued kernels in slots {stuck} wait for events that will never complete")
        return launched

    # -- one step ----------------------------------------------------------------------------------------------------

    def _pass(self) -> int | None:
        """Go through the occupied slots once, until a slot allows a step of progress; do this step.

        A step starts a kernel that is ready, processes a marker, or completes a kernel whose children have ended.
        Return 1 if a kernel was launched, 0 for any other step, and None if no slot allows a step."""
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
        """Launch the child kernel in `slot`; if an event in its wait list has failed, let the kernel fail instead.

        Return the number of launches.
        """
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
        """Complete the kernel in `slot`, whose children have all ended.

        Set its event, notify its parent, and free the slot.
        """
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
        """Process the OpenCL marker command in `slot`; return True if it is complete.

        A marker without a wait list waits for all older commands. A marker with a wait list waits for the events in it.
        """
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
        """Yield the occupied slots, those whose bit in the slot mask is set, as pairs of index and contents."""
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
            raise GuestFault(
                f"the wait list of an enqueued kernel has {wrap.wait_num} events, but the queue allows "
                f"{self._header().wait_size}"
            )
        size = self.pointer_bytes
        data = self.memory.read(wrap.wait_list, size * wrap.wait_num)
        return [int.from_bytes(data[n : n + size], "little") for n in range(0, len(data), size)]

    def _status(self, wrap: AqlWrap) -> int | None:
        """Return the status of the wait list of `wrap`.

        It is 0 if all its events are complete, -1 if one has failed, and None if one is pending.
        """
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
    """Write an empty queue of the given `shape` to `address`; return the address of the host's slot.

    This is the slot for the kernel that the host launches, the parent of the kernels that it enqueues. The
    memory at `address` must have `shape.size_bytes` bytes. The argument buffers at `kernarg` must have
    `shape.kernarg_bytes` bytes. `kernels` is the address of the table of kernels."""
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
