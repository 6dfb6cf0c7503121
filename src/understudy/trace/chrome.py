"""Events as a Chrome trace, to be opened in a trace viewer (``chrome://tracing``, Perfetto).

One guest step is shown as one microsecond. The process is the device, each unit is a thread: an event belongs to the
first of its fields called ``unit``, ``hart``, ``wave``, ``queue`` or ``context``, and to thread ``device`` without one.
Waves are threads of processes of their own, one for each queue: viewers fold processes.

What `understudy.trace.spans` pairs is a complete span; what is still open at the end is closed there and marked
``unfinished``. Spans of a thread must lie in each other: one that ends before what began after it (packets side by
side on a queue) is a pair of asynchronous events instead. All other events are instants; those called ``...Fault``,
``...Trap`` or ``...Error`` cross the whole picture.

Arrows (flow events) lead from what the host submits (a doorbell, a command, a buffer) to the work and on to what tells
the host of its end; as arrows need something to begin and end at, the host's part is drawn as one step on thread
``host``. How much waits in queues and was moved are counters.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Hashable
from typing import Final, TextIO

from understudy.core.space import Unit
from understudy.trace.counters import Counters
from understudy.trace.flows import Flows
from understudy.trace.reading import Record
from understudy.trace.spans import OpenSpans, Span
from understudy.trace.writer import TraceWriter

UNIT_FIELDS: Final = ("unit", "hart", "wave", "queue", "context")
FAULTS: Final = ("fault", "trap", "error")

WAVE: Final = re.compile(r"(?:(queue \d+) )?wave \d+")
_PID = 1
HOST: Final = "host"
"""The thread of what the host does and is told."""


def default_unit_name(unit: Unit) -> str:
    """``unit 3:0``: kind and index as the interface numbers them."""
    return f"unit {unit.kind}:{unit.index}"


class ChromeTrace(TraceWriter):
    """Writes one JSON document; `device` names the process, `unit_name` the threads of `Unit` values."""

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
        """Write a complete span or an instant, or remember the beginning of a span."""
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
        fields = {key: value for key, value in record.items() if key not in ("time", "event")}
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
        """Close what is still open, and the document."""
        for span in self._open.rest():
            self._span(span, self._last_time, {**span.fields({}), "unfinished": True})
        for number, (key, points) in enumerate(self._arrows.items(), 1):  # last: they go to what has begun before them
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
        """The process of a thread: the device, or the waves of a queue."""
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
    """The thread that an event belongs to: ``hart 3``, ``queue 1``, and ``device`` where it names none.

    A wave of a queue has one of its own: ``queue 1 wave 3``.
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
