"""What grows and shrinks while a device works: how much is submitted and not done, how much was moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Final

from understudy.trace.reading import Record

LEVELS: Final = "open "
"""How names of counters begin that grow and shrink: what is submitted or begun, and not done."""
Change = tuple[str, int]
"""A counter's name, and its value from now on."""


class Counters:
    """The counters of a device. `take` gives what an event changes.

    Where a trace begins in the middle, what was submitted before is not counted.
    """

    def __init__(self) -> None:
        self._values: dict[str, int] = {}
        self._limits: dict[str, int] = {}
        self._done: dict[str, int] = {}

    def take(self, record: Record) -> Iterator[Change]:
        """What changes with an event."""
        found = _KINDS.get(str(record["event"]))
        if found is not None:
            yield from found(self, record)

    def _add(self, name: str, more: int) -> Iterator[Change]:
        now = self._values[name] = max(self._values.get(name, 0) + more, 0)
        yield name, now

    def _doorbell(self, record: Record) -> Iterator[Change]:
        queue = str(record.get("queue"))
        self._limits[queue] = max(_number(record, "limit"), self._limits.get(queue, 0))
        yield from self._queue(queue)

    def _packet(self, record: Record) -> Iterator[Change]:
        self._done.setdefault(str(record.get("queue")), _number(record, "index"))
        yield from ()

    def _completed(self, record: Record) -> Iterator[Change]:
        queue = str(record.get("queue"))
        self._done[queue] = self._done.get(queue, _number(record, "index")) + 1
        yield from self._queue(queue)

    def _queue(self, queue: str) -> Iterator[Change]:
        limit = self._limits.get(queue, 0)
        yield f"open packets of queue {queue}", max(limit - self._done.get(queue, max(limit - 1, 0)), 0)

    def _dma(self, record: Record) -> Iterator[Change]:
        sizes = record.get("sizes")
        moved = prod(each for each in sizes if isinstance(each, int)) if isinstance(sizes, list) else 0
        yield from self._add("bytes moved by DMA", moved)

    def _user_command(self, record: Record) -> Iterator[Change]:
        command = record.get("command")
        length = command.get("length") if isinstance(command, dict) else None
        if isinstance(length, int):
            yield from self._add("bytes of user commands", length)

    def _rows(self, record: Record) -> Iterator[Change]:
        way = "written" if record.get("write") is True else "read"
        yield from self._add(f"rows {way}, {record.get('batch')}", _number(record, "rows"))


def _leave(name: str) -> Callable[[Counters, Record], Iterator[Change]]:
    """One less is open, if what was begun is in the trace."""
    return lambda counters, _: counters._add(name, -1) if name in counters._values else iter(())


def _step(name: str, more: int) -> Callable[[Counters, Record], Iterator[Change]]:
    return lambda counters, _: counters._add(name, more)


_KINDS: Final[dict[str, Callable[[Counters, Record], Iterator[Change]]]] = {
    "doorbell-rung": Counters._doorbell,
    "packet-started": Counters._packet,
    "packet-completed": Counters._completed,
    "command-queued": _step("open commands", 1),
    "buffer-submitted": _step("open buffers", 1),
    "command-finished": _leave("open commands"),
    "buffer-finished": _leave("open buffers"),
    "instance-started": _step("open instances", 1),
    "instance-ended": _leave("open instances"),
    "dma-transfer": Counters._dma,
    "user-command-started": Counters._user_command,
    "rows-moved": Counters._rows,
}


def _number(record: Record, name: str) -> int:
    value = record.get(name)
    return value if isinstance(value, int) else 0
