"""Events: what programs wait for. Signal events are woken by interrupts, which the page of slots tells apart."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from understudy.device.kfd.client import Client
from understudy.device.kfd.errors import Refused
from understudy.device.kfd.ioctls import CreateEvent, EventData, EventKind, WaitEvents, WaitResult

SIGNAL_EVENTS: Final = 4096
"""As many slots has the page; number 0 is not used, since that is no event to signals."""
FIRST_OTHER: Final = 1 << 31
"""Number of the first event without a slot."""
MOST_OTHERS: Final = 4096
UNWRITTEN: Final = (1 << 64) - 1
"""A slot that no interrupt was sent for."""
PAGE_OFFSET: Final = 1 << 12
"""What programs are told of the page's place: anything but 0, with which a library would have no mailboxes."""
NEVER_MS: Final = 0xFFFF_FFFE
"""A timeout of so many milliseconds or more is none."""
MOST_WAITED: Final = SIGNAL_EVENTS + MOST_OTHERS


@dataclass(slots=True, eq=False)
class Event:
    """One event; `data` tells what happened, for those kinds that do."""

    number: int
    kind: int
    is_reset_by_wait: bool
    is_set: bool = False
    data: bytes = bytes(32)
    waiters: list[threading.Condition] = field(default_factory=list)

    def wake(self) -> None:
        """Have those look who wait for this one: nobody else, as each thread that wakes up keeps kernels waiting."""
        for each in self.waiters:
            each.notify()


class Events:
    """The events of one process."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._known: dict[int, Event] = {}
        self._slots: Any = None
        self._is_closed = False
        self.waiting = 0
        """Threads that wait for events just now."""

    def __len__(self) -> int:
        return len(self._known)

    def create(self, asked: CreateEvent, page_of: Callable[[int], npt.NDArray[np.uint8]]) -> CreateEvent:
        """CREATE_EVENT. `page_of` gives the bytes of an allocation: the first event brings the handle of the page."""
        with self._lock:
            if asked.event_page_offset:
                self._take_page(page_of(asked.event_page_offset))
            is_signal = asked.event_type == EventKind.SIGNAL
            first, most = (1, SIGNAL_EVENTS - 1) if is_signal else (FIRST_OTHER, MOST_OTHERS)
            number = next((each for each in range(first, first + most) if each not in self._known), 0)
            if not number:
                raise Refused(f"all {most} events are in use", errno.ENOSPC)
            self._known[number] = Event(number, asked.event_type, bool(asked.auto_reset))
        return CreateEvent(
            event_page_offset=PAGE_OFFSET if is_signal else 0,
            event_trigger_data=number,
            event_type=asked.event_type,
            auto_reset=asked.auto_reset,
            node_id=asked.node_id,
            event_id=number,
            event_slot_index=number if is_signal else 0,
        )

    def _take_page(self, page: npt.NDArray[np.uint8]) -> None:
        if self._slots is not None:
            return
        if page.nbytes < 8 * SIGNAL_EVENTS:
            raise Refused(f"a page of {page.nbytes:#x} bytes, expected {8 * SIGNAL_EVENTS:#x} for events")
        self._slots = page[: 8 * SIGNAL_EVENTS].view(np.uint64)
        self._slots[:] = UNWRITTEN

    def destroy(self, number: int) -> None:
        """DESTROY_EVENT."""
        with self._lock:
            event = self._find(number)
            del self._known[number]
            event.wake()

    def set(self, number: int) -> None:
        """SET_EVENT."""
        with self._lock:
            event = self._find(number)
            if event.kind != EventKind.SIGNAL:
                raise Refused(f"event {number}, which is no signal's, cannot be set")
            event.is_set = True
            event.wake()

    def reset(self, number: int) -> None:
        """RESET_EVENT."""
        with self._lock:
            event = self._find(number)
            if event.kind != EventKind.SIGNAL:
                raise Refused(f"event {number}, which is no signal's, cannot be reset")
            event.is_set = False

    def tell(self, kind: EventKind, data: bytes) -> None:
        """Something happened: all events of a kind are set."""
        with self._lock:
            for event in self._known.values():
                if event.kind == kind:
                    event.is_set, event.data = True, data
                    event.wake()

    def interrupt(self, partial: int) -> None:
        """An interrupt came, with the low bits of the number of an event: those are set whose slot was written."""
        with self._lock:
            if self._slots is None:
                return
            for number in range(partial & 0xFF, SIGNAL_EVENTS, 0x100):
                event = self._known.get(number)
                if event is not None and int(self._slots[number]) != UNWRITTEN:
                    self._slots[number] = UNWRITTEN
                    event.is_set = True
                    event.wake()

    def wait(self, asked: WaitEvents) -> WaitResult:
        """WAIT_EVENTS: until one event, or all, are set, or the time is over. Nobody waits any more after `close`."""
        if asked.num_events > MOST_WAITED:
            raise Refused(f"{asked.num_events} events to wait for, expected {MOST_WAITED} at most")
        size = EventData.size_bytes
        raw = self._client.read(asked.events_ptr, size * asked.num_events)
        wanted = [EventData.parse(raw, size * index) for index in range(asked.num_events)]
        enough = all if asked.wait_for_all else any
        with self._lock:
            events = [self._find(each.event_id) for each in wanted]
            seconds = None if asked.timeout >= NEVER_MS else asked.timeout / 1000
            with self._waiter(events) as woken:
                done = woken.wait_for(lambda: self._is_over(events) or enough(e.is_set for e in events), seconds)
            if self._is_over(events):
                raise Refused("what was waited for has gone", errno.EIO)
            if not done:
                return WaitResult.TIMEOUT
            answer = bytearray(raw)
            for index, event in enumerate(events):
                if not event.is_set:
                    continue
                if event.kind != EventKind.SIGNAL:
                    answer[size * index : size * index + len(event.data)] = event.data
                event.is_set = not event.is_reset_by_wait
        self._client.write(asked.events_ptr, bytes(answer))
        return WaitResult.COMPLETE

    def close(self) -> None:
        """The process ends: whoever waits is refused."""
        with self._lock:
            self._is_closed = True
            for event in self._known.values():
                event.wake()
            self._known.clear()
            self._slots = None

    @contextmanager
    def _waiter(self, events: list[Event]) -> Iterator[threading.Condition]:
        """What wakes a thread that waits for these; the lock is held."""
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
            raise Refused(f"no event {number}")
        return event
