"""Submission of commands as in a kernel driver: fences, and a software queue that feeds the device's queue.

The device's queue holds 255 commands and drops further ones. Its interrupt for fences compares the fence counter with
one value only, CMD_FENCE_WAIT. So commands wait in the software queue, and are submitted in batches that each end with
a FENCE. CMD_FENCE_WAIT always contains the number of the oldest unfinished batch's fence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from softcard.core.record import Record
from softcard.core.words import U32
from softcard.device.acceldev import registers as r
from softcard.device.acceldev.commands import FenceCommand, words_of
from softcard.host.acceldev.port import AcceldevPort

Done = Callable[[], None]


def reached(counter: int, fence: int) -> bool:
    """Return True if a 32-bit fence counter has reached or passed `fence`, allowing for wrap-around.

    The counter counts as past the fence if it is ahead by less than half of the range.
    """
    return counter - fence & U32 < 1 << 31


@dataclass(frozen=True, slots=True)
class _Entry:
    words: tuple[int, ...]
    done: Done | None


@dataclass(slots=True)
class _Batch:
    """A batch of commands in the device's queue. It ends with the FENCE whose number is `number`."""

    number: int
    entries: list[_Entry] = field(default_factory=list)


class CommandQueue:
    """The queue of commands that were submitted and that the device has not finished.

    Callers must hold the driver's lock."""

    def __init__(self, port: AcceldevPort) -> None:
        self._port = port
        self._waiting: deque[_Entry] = deque()
        self._batches: deque[_Batch] = deque()
        self._number = 0
        self.submitted = 0
        """The number of commands submitted so far."""
        self.finished = 0
        """The number of commands that the device has finished; it finishes them in order."""
        self._is_feeding = False

    @property
    def is_empty(self) -> bool:
        """True if the device has finished all submitted commands."""
        return not self._waiting and not self._batches

    def put(self, command: Record, done: Done | None = None) -> None:
        """Add a command to the software queue, from which it moves to the device's queue when that has room.

        `done` is called when the device has finished the command."""
        self._waiting.append(_Entry(words_of(command), done))
        self.submitted += 1
        self.feed()

    def feed(self) -> None:
        """Move waiting commands into the device's queue.

        A nested call, from an interrupt handler, does nothing: the outer call goes on to move commands.
        """
        if self._is_feeding:
            return
        self._is_feeding = True
        try:
            while self._waiting and (room := self._port.read(r.CMD_MANUAL_FREE.offset)) >= 2:
                self._feed_batch(room - 1)
        finally:
            self._is_feeding = False

    def complete(self) -> None:
        """Handle the FENCE_WAIT interrupt: remove finished batches, and set CMD_FENCE_WAIT for the next one."""
        while True:
            last = self._port.read(r.CMD_FENCE_LAST.offset)
            while self._batches and reached(last, self._batches[0].number):
                for entry in self._batches.popleft().entries:
                    self.finished += 1
                    if entry.done is not None:
                        entry.done()
            if not self._batches:
                return
            # The batch may finish just before this write; only reading CMD_FENCE_LAST after it shows that.
            self._port.write(r.CMD_FENCE_WAIT.offset, self._batches[0].number)
            if not reached(self._port.read(r.CMD_FENCE_LAST.offset), self._batches[0].number):
                return

    def drop(self) -> None:
        """Treat all unfinished commands as done, because the device is closed and does not use memory any more."""
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
