"""What leads to what: from what the host submits, to the work of the device, to what tells the host that it is done."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final

from understudy.trace.reading import Record

MOST: Final = 1024
"""Packets of one doorbell that are followed."""


@dataclass(frozen=True, slots=True)
class Point:
    """An event is part of the flow `key`; `is_host`: as what the host does or is told, not as work of the device."""

    key: Hashable
    is_host: bool = False


class Flows:
    """Follows packets, commands, buffers and kernels; `take` gives the flows that an event is part of."""

    def __init__(self) -> None:
        self._limits: dict[object, int] = {}
        self._signals: dict[object, Hashable] = {}
        self._signalled: dict[Hashable, object] = {}
        self._command: Hashable = None
        self._launches = 0
        self._harts: set[object] = set()
        self._kernels = 0
        self._is_done = False

    def take(self, record: Record) -> Iterator[Point]:
        """The flows that go through an event."""
        kind = str(record["event"])
        match kind:
            case "doorbell-rung":
                yield from self._doorbell(record)
            case "packet-started" | "packet-completed":
                yield from self._packet(record, kind)
            case "signal-changed":
                key = self._signals.pop(record.get("signal"), None)
                if key is not None:
                    yield Point(key, True)
            case "command-queued":
                yield Point(("command", record.get("index")), True)
            case "command-started" | "command-finished" if "chunk" not in record:
                self._command = ("command", record.get("index")) if kind == "command-started" else None
                if self._command is not None:
                    yield Point(self._command)
            case "interrupt-raised" if self._command is not None:
                yield Point(self._command, True)
            case "buffer-submitted":
                yield Point(("buffer", record.get("ticket")), True)
            case "buffer-started":
                yield Point(("buffer", record.get("ticket")))
            case "kernel-launch" | "instance-started":
                yield from self._instance(record, kind)
            case "register-access" | "kernel-started" | "kernel-finished":
                yield from self._kernel(record, kind)

    def _doorbell(self, record: Record) -> Iterator[Point]:
        queue, limit = record.get("queue"), record.get("limit")
        if isinstance(limit, int):
            for index in range(max(self._limits.get(queue, limit - 1), limit - MOST), limit):
                yield Point(("packet", queue, index), True)
            self._limits[queue] = max(limit, self._limits.get(queue, 0))

    def _packet(self, record: Record, kind: str) -> Iterator[Point]:
        """A packet's signal changes right after it is completed."""
        key = ("packet", record.get("queue"), record.get("index"))
        packet = record.get("packet")
        if kind == "packet-completed":
            signal = self._signalled.pop(key, None)
            if signal is not None:
                self._signals[signal] = key
            return
        signal = packet.get("completion_signal") if isinstance(packet, dict) else None
        if signal not in (None, 0, "0x0"):
            self._signalled[key] = hex(signal) if isinstance(signal, int) else signal
        yield Point(key)

    def _instance(self, record: Record, kind: str) -> Iterator[Point]:
        """From a launch to the first instance on each hart."""
        if kind == "kernel-launch":
            self._launches += 1
            self._harts = set()
            harts = record.get("harts")
            for hart in range(min(harts, MOST) if isinstance(harts, int) else 0):
                yield Point(("launch", self._launches, hart))
        elif record.get("hart") not in self._harts:
            self._harts.add(record.get("hart"))
            yield Point(("launch", self._launches, record.get("hart")))

    def _kernel(self, record: Record, kind: str) -> Iterator[Point]:
        """From the write of Fletcher's control register to the first read of its status that says done."""
        key = ("kernel", self._kernels)
        if kind == "kernel-finished":
            self._is_done = True
        elif kind == "kernel-started":
            yield Point(key)
        elif record.get("name") == "control" and record.get("write") is True and _starts(record):
            self._kernels += 1
            self._is_done = False
            yield Point(("kernel", self._kernels), True)
        elif record.get("name") == "status" and record.get("write") is False and self._is_done:
            self._is_done = False
            yield Point(key, True)


def _starts(record: Record) -> bool:
    """Whether a write of Fletcher's control register sets bit 0, start."""
    value = record.get("value")
    return isinstance(value, str) and value[-1:] in _ODD


_ODD: Final = tuple("13579bdf")
