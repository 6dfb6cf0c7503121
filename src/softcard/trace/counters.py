"""Counters that are computed from a device's events, for graphs; and names of accessed registers.

The counters are submissions that are not completed, and amounts of moved data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from math import prod
from typing import Final

from softcard.core.register import RegisterMap
from softcard.trace.values import Record

LEVELS: Final = "open "
"""The prefix of the names of counters of unfinished work, whose values grow and shrink."""
Change = tuple[str, int]
"""The name of a counter that changes, and its new value."""


class Counters:
    """The counters of a device, which its events update.

    If a trace begins in the middle of a run, submissions before its beginning are not counted."""

    def __init__(self) -> None:
        self._values: dict[str, int] = {}
        self._limits: dict[str, int] = {}
        self._done: dict[str, int] = {}

    def take(self, record: Record) -> Iterator[Change]:
        """Update the counters by an event; yield each counter that changes, with its new value."""
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


def _decrement(name: str) -> Callable[[Counters, Record], Iterator[Change]]:
    """Return an update that subtracts one from counter `name`; it does nothing if the counter has never changed."""
    return lambda counters, _: counters._add(name, -1) if name in counters._values else iter(())


def _step(name: str, more: int) -> Callable[[Counters, Record], Iterator[Change]]:
    return lambda counters, _: counters._add(name, more)


_KINDS: Final[dict[str, Callable[[Counters, Record], Iterator[Change]]]] = {
    "doorbell-rung": Counters._doorbell,
    "packet-started": Counters._packet,
    "packet-completed": Counters._completed,
    "command-queued": _step("open commands", 1),
    "buffer-submitted": _step("open buffers", 1),
    "command-finished": _decrement("open commands"),
    "buffer-finished": _decrement("open buffers"),
    "instance-started": _step("open instances", 1),
    "instance-ended": _decrement("open instances"),
    "dma-transfer": Counters._dma,
    "user-command-started": Counters._user_command,
    "rows-moved": Counters._rows,
}


def _number(record: Record, name: str) -> int:
    value = record.get(name)
    return value if isinstance(value, int) else 0


# ---- names of registers ----------------------------------------------------------------------------------------------
# Names of accessed registers: RefSi's events have file and number, those of other devices a name.


KIND: Final = "register-access"


def register_of(record: Record) -> str:
    """Return the name of the register that an event accesses.

    If neither the event nor a register map has a name, the result is the register file and the number:
    ``file[5]``."""
    if record.get("name") is not None:
        return str(record["name"])
    file, index = str(record.get("file", "register")), record.get("index")
    return _names(file).get(index, f"{file}[{index}]") if isinstance(index, int) else f"{file}[{index}]"


@cache
def _names(file: str) -> dict[int, str]:
    from softcard.device.refsi import registers  # few traces have any

    found = next(
        (each for each in vars(registers).values() if isinstance(each, RegisterMap) and each.name == file), None
    )
    return {offset: each.element(index) for each, index, offset in found.elements()} if found else {}
