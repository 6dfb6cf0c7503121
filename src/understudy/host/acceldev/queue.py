"""Submission as a kernel driver does it: a queue in software before the device's, fences to know what has finished.

The device's queue takes 255 commands and drops what comes too much; its interrupt for fences compares one value only.
So commands wait here, go down in batches that end with a FENCE, and CMD_FENCE_WAIT always names the oldest batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from understudy.core.record import Record
from understudy.core.words import U32
from understudy.device.acceldev import registers as r
from understudy.device.acceldev.commands import FenceCommand, words_of
from understudy.host.acceldev.port import AcceldevPort

Done = Callable[[], None]


def reached(counter: int, fence: int) -> bool:
    """Whether a 32-bit counter is at `fence` or behind it, where half of the numbers count as behind."""
    return counter - fence & U32 < 1 << 31


@dataclass(frozen=True, slots=True)
class _Entry:
    words: tuple[int, ...]
    done: Done | None


@dataclass(slots=True)
class _Batch:
    """Commands in the device's queue, up to the FENCE `number`."""

    number: int
    entries: list[_Entry] = field(default_factory=list)


class CommandQueue:
    """Commands on their way to the device. The caller holds the driver's lock in every call."""

    def __init__(self, port: AcceldevPort) -> None:
        self._port = port
        self._waiting: deque[_Entry] = deque()
        self._batches: deque[_Batch] = deque()
        self._number = 0
        self.submitted = 0
        """Commands put so far."""
        self.finished = 0
        """Those of them that the device has finished, which it does in order."""
        self._is_feeding = False

    @property
    def is_empty(self) -> bool:
        """Whether the device has finished everything."""
        return not self._waiting and not self._batches

    def put(self, command: Record, done: Done | None = None) -> None:
        """Submit a command as soon as there is room; `done` is called once the device has finished it."""
        self._waiting.append(_Entry(words_of(command), done))
        self.submitted += 1
        self.feed()

    def feed(self) -> None:
        """Move waiting commands into the device's queue; a nested call, by an interrupt, leaves it to the outer one."""
        if self._is_feeding:
            return
        self._is_feeding = True
        try:
            while self._waiting and (room := self._port.read(r.CMD_MANUAL_FREE.offset)) >= 2:
                self._feed_batch(room - 1)
        finally:
            self._is_feeding = False

    def complete(self) -> None:
        """FENCE_WAIT has occurred: find out which batches are done, then wait for the oldest that is not."""
        while True:
            last = self._port.read(r.CMD_FENCE_LAST.offset)
            while self._batches and reached(last, self._batches[0].number):
                for entry in self._batches.popleft().entries:
                    self.finished += 1
                    if entry.done is not None:
                        entry.done()
            if not self._batches:
                return
            # The batch may finish just before this write; only reading CMD_FENCE_LAST after it tells.
            self._port.write(r.CMD_FENCE_WAIT.offset, self._batches[0].number)
            if not reached(self._port.read(r.CMD_FENCE_LAST.offset), self._batches[0].number):
                return

    def drop(self) -> None:
        """The device is gone, and uses nothing any more: what was not finished never is, but counts as done."""
        entries = [*(entry for batch in self._batches for entry in batch.entries), *self._waiting]
        self._batches.clear()
        self._waiting.clear()
        for entry in entries:
            if entry.done is not None:
                entry.done()

    def _feed_batch(self, most: int) -> None:
        self._number = self._number + 1 & U32
        batch = _Batch(self._number, [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))])
        if not self._batches:
            self._port.write(r.CMD_FENCE_WAIT.offset, batch.number)
        self._batches.append(batch)
        for entry in batch.entries:
            self._feed_words(entry.words)
        self._feed_words(words_of(FenceCommand(value=batch.number)))

    def _feed_words(self, words: tuple[int, ...]) -> None:
        for offset, word in zip(range(r.CMD_MANUAL_FEED.offset, r.FEED_END, r.REGISTER_BYTES), words, strict=True):
            self._port.write(offset, word)
