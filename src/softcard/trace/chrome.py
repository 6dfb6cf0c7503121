"""Writer of a device's events as a Chrome trace, for a viewer such as ``chrome://tracing`` or Perfetto.

One guest step is shown as one microsecond. The process is the device, and each unit is a thread. An event belongs to
the thread of the first of its fields called ``unit``, ``hart``, ``wave``, ``queue`` or ``context``; an event without
such a field belongs to the thread ``device``. The waves of each queue are threads of a separate process, since viewers
can fold processes.

A pair of events that `softcard.trace.spans` finds is written as a complete span. A span that is still open at the end
of the trace ends there, with the argument ``unfinished``. The spans of a thread must nest; a span that does not nest
(concurrent packets of a queue) is written as a pair of asynchronous events. All other events are instants; faults,
traps and errors are global ones, drawn across all threads.

Arrows (flow events) lead from a submission by the host (a doorbell, a command, a buffer) to the work, and from there to
the event that signals completion to the host. Arrows must begin and end at a span, so each event of the host is a span
of one step on the thread ``host``. Queue lengths and amounts of moved data are counters.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Final, TextIO

from softcard.core.space import Unit
from softcard.trace.counters import Counters
from softcard.trace.spans import OpenSpans, Span
from softcard.trace.values import DIAGNOSTIC, Record
from softcard.trace.writer import TraceWriter

# ---- causal flows ----------------------------------------------------------------------------------------------------
# Causal flows through a trace: from a submission by the host, over the device's work, to its completion.


MOST: Final = 1024
"""The maximum number of packets of one doorbell for which arrows are drawn."""


@dataclass(frozen=True, slots=True)
class Point:
    """An event as a point of the flow (arrow) `key`.

    `is_host` is True if the event is a submission by the host or signals completion to the host, and False if it
    is work of the device."""

    key: Hashable
    is_host: bool = False


class Flows:
    """A tracker of the flows (arrows from submission to completion) of packets, commands, buffers and kernels."""

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
        """Yield a `Point` for each flow to which the event belongs."""
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
        """Yield the point that a starting packet adds to its flow; `kind` is the kind of the event.

        When a packet completes, its completion signal is remembered: the next change of that signal belongs to the
        packet's flow."""
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
        """Yield the points of the flows of a RefSi kernel, one flow for each hart that runs it.

        The launch is the first point of each flow. The first instance that a hart starts after the launch is the
        second point of that hart's flow."""
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
        """Yield the point that an event adds to the flow of a Fletcher kernel.

        Such events are the write that starts the kernel, the start itself, and the first read of status "done"."""
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
    """Return True if a write of Fletcher's control register sets bit 0 (start)."""
    value = record.get("value")
    return isinstance(value, str) and value[-1:] in _ODD


_ODD: Final = tuple("13579bdf")


# ---- Chrome traces ---------------------------------------------------------------------------------------------------


UNIT_FIELDS: Final = ("unit", "hart", "wave", "queue", "context")
FAULTS: Final = ("fault", "trap", "error")

WAVE: Final = re.compile(r"(?:(queue \d+) )?wave \d+")
_PID = 1
HOST: Final = "host"
"""The name of the thread with the submissions and completions of the host."""


def default_unit_name(unit: Unit) -> str:
    """Return the default name of a unit, such as ``unit 3:0``: its kind and its index as numbers."""
    return f"unit {unit.kind}:{unit.index}"


class ChromeTrace(TraceWriter):
    """A writer of a Chrome trace as one JSON document.

    `device` is the name of the process; `unit_name` returns the thread name of a `Unit`.
    """

    def __init__(
        self,
        to: str | os.PathLike[str] | TextIO,
        device: str = "device",
        unit_name: Callable[[Unit], str] = default_unit_name,
    ) -> None:
        super().__init__(to)
        self._device = device
        self._unit_name = unit_name
        self._processes: dict[str, int] = {}
        self._threads: dict[str, tuple[int, int]] = {}
        self._open = OpenSpans()
        self._counters = Counters()
        self._flows = Flows()
        self._arrows: dict[Hashable, list[tuple[int, str]]] = {}
        self._last_time = 0
        self._count = 0
        self._out.write('{"displayTimeUnit":"ms","traceEvents":[\n')
        self._out.write(_dump({"name": "process_name", "ph": "M", "pid": _PID, "args": {"name": device}}))

    def write(self, record: Record) -> None:
        """Write an event as a span or an instant; an event that begins a span is kept until the span ends."""
        time, name, thread = _time(record), str(record["event"]), thread_name(record, self._unit_name)
        self._last_time = max(self._last_time, time)
        self._count += 1
        points = list(self._flows.take(record))
        for point in points:
            self._arrows.setdefault(point.key, []).append((time, HOST if point.is_host else thread))
        for counter, value in self._counters.take(record):
            self._next({"name": counter, "ph": "C", "pid": _PID, "ts": time, "args": {"value": value}})
        if self._open.begin(record, thread, self._count):
            return
        if span := self._open.end(record, thread):
            self._span(span, time, span.fields(record), nested=not self._open.since(span))
            return
        fields = {key: value for key, value in record.items() if key not in ("time", "event", DIAGNOSTIC)}
        if any(point.is_host for point in points):
            self._emit({"name": name, "cat": "event", "ph": "X", "ts": time, "dur": 1}, HOST, fields)
            return
        is_fault = name.endswith(FAULTS)
        shown: Record = {
            "name": name,
            "cat": "fault" if is_fault else "event",
            "ph": "i",
            "s": "g" if is_fault else "t",
            "ts": time,
        }
        self._emit(shown, thread, fields)

    def finish(self) -> None:
        """Close open spans, write the arrows, and end the document."""
        for span in self._open.rest():
            self._span(span, self._last_time, {**span.fields({}), "unfinished": True})
        # Arrows are last: each must follow the spans that it joins.
        for number, (key, points) in enumerate(self._arrows.items(), 1):
            kind = str(key[0]) if isinstance(key, tuple) else "flow"
            for place, (time, thread) in enumerate(points if len(points) > 1 else ()):
                phase = "s" if not place else "f" if place == len(points) - 1 else "t"
                arrow: Record = {"name": kind, "cat": "flow", "ph": phase, "id": number, "bp": "e", "ts": time}
                self._emit(arrow, thread, {})
        self._out.write("\n]}\n")

    def _span(self, span: Span, end_time: int, args: Record, *, nested: bool = True) -> None:
        begin = _time(span.start)
        if not nested:
            shared: Record = {"name": span.name, "cat": span.stem, "id": span.order}
            self._emit({**shared, "ph": "b", "ts": begin}, span.thread, args)
            self._emit({**shared, "ph": "e", "ts": end_time}, span.thread, {})
            return
        self._emit(
            {"name": span.name, "cat": span.stem, "ph": "X", "ts": begin, "dur": end_time - begin}, span.thread, args
        )

    def _emit(self, record: Record, thread: str, args: Record) -> None:
        if thread not in self._threads:
            pid, tid = self._threads[thread] = self._process(thread), len(self._threads)
            self._next({"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": thread}})
        pid, tid = self._threads[thread]
        self._next({**record, "pid": pid, "tid": tid, "args": args})

    def _process(self, thread: str) -> int:
        """Return the process id of a thread: that of the queue's waves for a thread of a wave, else that of the
        device."""
        found = WAVE.fullmatch(thread)
        if found is None:
            return _PID
        name = f"{self._device}: waves of {found[1]}" if found[1] else f"{self._device}: waves"
        if name not in self._processes:
            self._processes[name] = _PID + 1 + len(self._processes)
            pid = self._processes[name]
            self._next({"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}})
        return self._processes[name]

    def _next(self, record: Record) -> None:
        self._out.write(",\n" + _dump(record))


def thread_name(record: Record, unit_name: Callable[[Unit], str] = default_unit_name) -> str:
    """Return the name of the thread to which an event belongs, such as ``hart 3`` or ``queue 1``.

    Each wave of a queue is a thread, ``queue 1 wave 3``. An event without a unit belongs to ``device``.
    """
    if record.get("wave") is not None and record.get("queue") is not None:
        return f"queue {record['queue']} wave {record['wave']}"
    for name in UNIT_FIELDS:
        match record.get(name):
            case None:
                continue
            case {"type": "unit", "kind": int(kind), "index": int(index)}:
                return unit_name(Unit(kind, index))
            case value:
                return f"{name} {value}"
    return "device"


def _time(record: Record) -> int:
    time = record["time"]
    assert isinstance(time, int)
    return time


def _dump(record: Record) -> str:
    return json.dumps(record, separators=(",", ":"))
