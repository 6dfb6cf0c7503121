"""The events of the driver KFD, for which programs wait with the ioctl WAIT_EVENTS.

An interrupt wakes threads that wait for signal events. A page has a slot for each event. A wave writes to
the slot of the event that it signals, so that the driver can identify the event."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from softcard.device.kfd.client import Client
from softcard.device.kfd.ioctls import CreateEvent, EventData, EventKind, Refused, WaitEvents, WaitResult

SIGNAL_EVENTS: Final = 4096
"""The number of slots in the page of events.

Slot 0 is not used, because the numbers of signal events begin with 1.
"""
FIRST_OTHER: Final = 1 << 31
"""The number of the first event that is not a signal event, and so has no slot."""
MOST_OTHERS: Final = 4096
UNWRITTEN: Final = (1 << 64) - 1
"""The value of an event's slot that no wave has written since it was reset."""
PAGE_OFFSET: Final = 1 << 12
"""The mmap offset of the page of events. If it were 0, a run-time library would not use mailboxes."""
AGE_BYTES: Final = 8
NEVER_MS: Final = 0xFFFF_FFFE
"""The smallest timeout in milliseconds that never expires."""
MOST_WAITED: Final = SIGNAL_EVENTS + MOST_OTHERS


@dataclass(slots=True, eq=False)
class Event:
    """One event of the driver KFD. `data` describes its cause; only some kinds of events have it.

    `age` begins with 1 and counts how often the event was set.
    """

    number: int
    kind: int
    is_reset_by_wait: bool
    is_set: bool = False
    data: bytes = bytes(32)
    age: int = 1
    waiters: list[threading.Condition] = field(default_factory=list)

    def set(self) -> None:
        """Set the event, and wake the threads that wait for it."""
        self.is_set = True
        self.age += 1
        self.wake()

    def has_happened(self, known_age: int) -> bool:
        """Return True if the event is set, or was set since its age was `known_age`; 0 is no age."""
        return self.is_set or (known_age != 0 and known_age != self.age)

    def wake(self) -> None:
        """Wake the threads that wait for this event.

        Other threads are not woken, as each thread that wakes up delays kernels.
        """
        for each in self.waiters:
            each.notify()


class Events:
    """The events of one process that uses the driver KFD."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._known: dict[int, Event] = {}
        self._slots: Any = None
        self._is_closed = False
        self.waiting = 0
        """The number of threads that are waiting for events."""

    def __len__(self) -> int:
        return len(self._known)

    def create(self, arguments: CreateEvent, page_of: Callable[[int], npt.NDArray[np.uint8]]) -> CreateEvent:
        """Carry out the ioctl CREATE_EVENT; return its argument as the program gets it back.

        The argument of the program's first call contains the handle of the page of slots. `page_of` returns the bytes
        of the allocation with a given handle."""
        with self._lock:
            if arguments.event_page_offset:
                self._take_page(page_of(arguments.event_page_offset))
            is_signal = arguments.event_type == EventKind.SIGNAL
            first, most = (1, SIGNAL_EVENTS - 1) if is_signal else (FIRST_OTHER, MOST_OTHERS)
            number = next((each for each in range(first, first + most) if each not in self._known), 0)
            if not number:
                raise Refused(f"all {most} events are in use", errno.ENOSPC)
            self._known[number] = Event(number, arguments.event_type, bool(arguments.auto_reset))
        return CreateEvent(
            event_page_offset=PAGE_OFFSET if is_signal else 0,
            event_trigger_data=number,
            event_type=arguments.event_type,
            auto_reset=arguments.auto_reset,
            node_id=arguments.node_id,
            event_id=number,
            event_slot_index=number if is_signal else 0,
        )

    def _take_page(self, page: npt.NDArray[np.uint8]) -> None:
        if self._slots is not None:
            return
        if page.nbytes < 8 * SIGNAL_EVENTS:
            raise Refused(f"the page for events has {page.nbytes:#x} bytes, expected {8 * SIGNAL_EVENTS:#x} or more")
        self._slots = page[: 8 * SIGNAL_EVENTS].view(np.uint64)
        self._slots[:] = UNWRITTEN

    def destroy(self, number: int) -> None:
        """Carry out the ioctl DESTROY_EVENT for event `number`."""
        with self._lock:
            event = self._find(number)
            del self._known[number]
            event.wake()

    def set(self, number: int) -> None:
        """Carry out the ioctl SET_EVENT for event `number`."""
        with self._lock:
            event = self._find(number)
            if event.kind != EventKind.SIGNAL:
                raise Refused(f"event {number} is not a signal event and cannot be set")
            event.set()

    def reset(self, number: int) -> None:
        """Carry out the ioctl RESET_EVENT for event `number`."""
        with self._lock:
            event = self._find(number)
            if event.kind != EventKind.SIGNAL:
                raise Refused(f"event {number} is not a signal event and cannot be reset")
            event.is_set = False

    def set_all(self, kind: EventKind, data: bytes) -> None:
        """Set all events of kind `kind`, with `data`, which describes the cause."""
        with self._lock:
            for event in self._known.values():
                if event.kind == kind:
                    event.data = data
                    event.set()

    def interrupt(self, partial: int, valid_bits: int = 8) -> None:
        """Handle an interrupt; `partial` has the low `valid_bits` bits of the event's number.

        Set the events whose numbers have these low bits and whose slots in the page were written. If there are none,
        set all events whose slots were written, as the kernel driver does."""
        with self._lock:
            if self._slots is None:
                return
            step = 1 << valid_bits
            if not self._set_written(range(partial % step, SIGNAL_EVENTS, step)):
                self._set_written(range(SIGNAL_EVENTS))

    def _set_written(self, numbers: range) -> bool:
        """Set the events with these numbers whose slots were written; return True if there are any."""
        is_any = False
        for number in (np.flatnonzero(self._slots[numbers.start :: numbers.step] != UNWRITTEN) * numbers.step).tolist():
            event = self._known.get(number + numbers.start)
            if event is not None:
                self._slots[event.number] = UNWRITTEN
                is_any = True
                event.set()
        return is_any

    def wait(self, arguments: WaitEvents) -> WaitResult:
        """Carry out the ioctl WAIT_EVENTS: wait until one of the events is set, or until all of them are set.

        The wait also ends at the timeout, and when `close` is called. For a signal event, the program may pass the age
        that it knows. The wait then also ends if the event was set since, and returns the present age."""
        if arguments.num_events > MOST_WAITED:
            raise Refused(f"the wait names {arguments.num_events} events, expected {MOST_WAITED} at most")
        size = EventData.size_bytes
        raw = self._client.read(arguments.events_ptr, size * arguments.num_events)
        wanted = [EventData.parse(raw, size * index) for index in range(arguments.num_events)]
        enough = all if arguments.wait_for_all else any
        with self._lock:
            events = [self._find(each.event_id) for each in wanted]
            ages = [
                each.known_age if event.kind == EventKind.SIGNAL else 0
                for each, event in zip(wanted, events, strict=True)
            ]
            seconds = None if arguments.timeout >= NEVER_MS else arguments.timeout / 1000
            with self._waiter(events) as woken:
                done = woken.wait_for(
                    lambda: self._is_over(events) or enough(map(Event.has_happened, events, ages)), seconds
                )
            if self._is_over(events):
                raise Refused("an event was destroyed while a thread waited for it", errno.EIO)
            if not done:
                return WaitResult.TIMEOUT
            answer = bytearray(raw)
            happened = list(map(Event.has_happened, events, ages))
            for index, (event, age) in enumerate(zip(events, ages, strict=True)):
                if not happened[index]:
                    continue
                if event.kind != EventKind.SIGNAL:
                    answer[size * index : size * index + len(event.data)] = event.data
                elif age:
                    answer[size * index : size * index + AGE_BYTES] = event.age.to_bytes(AGE_BYTES, "little")
                event.is_set = event.is_set and not event.is_reset_by_wait
        self._client.write(arguments.events_ptr, bytes(answer))
        return WaitResult.COMPLETE

    def close(self) -> None:
        """End all waits with an error, because the process ends."""
        with self._lock:
            self._is_closed = True
            for event in self._known.values():
                event.wake()
            self._known.clear()
            self._slots = None

    @contextmanager
    def _waiter(self, events: list[Event]) -> Iterator[threading.Condition]:
        """Return a context manager with a condition that is notified when one of `events` wakes waiting threads.

        The caller holds the lock."""
        woken, once = threading.Condition(self._lock), set(events)
        self.waiting += 1
        for event in once:
            event.waiters.append(woken)
        try:
            yield woken
        finally:
            self.waiting -= 1
            for event in once:
                event.waiters.remove(woken)

    def _is_over(self, events: list[Event]) -> bool:
        return self._is_closed or any(self._known.get(event.number) is not event for event in events)

    def _find(self, number: int) -> Event:
        event = self._known.get(number)
        if event is None:
            raise Refused(f"no event has number {number}")
        return event
