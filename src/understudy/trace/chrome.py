"""Events as a Chrome trace, to be opened in a trace viewer (``chrome://tracing``, Perfetto).

One guest step is shown as one microsecond. The process is the device, each unit is a thread: an event belongs to the
first of its fields called ``unit``, ``hart``, ``wave``, ``queue`` or ``context``, and to thread ``device`` without one.

``XStarted`` (or ``XBegun``) opens a span and ``XFinished`` (or ``XEnded``) of the same unit closes the latest open one
whose common fields hold the same values; what is still open at the end is closed there and marked ``unfinished``.
All other events are instants; those called ``...Fault``, ``...Trap`` or ``...Error`` cross the whole picture.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from enum import Enum
from typing import Any, TextIO

from understudy.core.event import Event
from understudy.core.space import Unit
from understudy.trace.values import Plain, event_fields, kebab, kind, plain
from understudy.trace.writer import TraceWriter

UNIT_FIELDS = ("unit", "hart", "wave", "queue", "context")
STARTS = ("-started", "-begun")
ENDS = ("-finished", "-ended")
FAULTS = ("fault", "trap", "error")

_PID = 1


@dataclass(frozen=True, slots=True)
class _Open:
    stem: str
    thread: str
    start: Event


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
        self._unit_name = unit_name
        self._threads: dict[str, int] = {}
        self._open: list[_Open] = []
        self._last_time = 0
        self._out.write('{"displayTimeUnit":"ms","traceEvents":[\n')
        self._out.write(_dump({"name": "process_name", "ph": "M", "pid": _PID, "args": {"name": device}}))

    def __call__(self, event: Event) -> None:
        """Write a complete span or an instant, or remember the beginning of a span."""
        self._last_time = max(self._last_time, event.time)
        name, thread = kind(event), self._thread(event)
        start, end = _stem(name, STARTS), _stem(name, ENDS)
        if start:
            self._open.append(_Open(start, thread, event))
        elif end and (opened := self._close(end, thread, event)):
            args = {**_args(opened.start), **_args(event)}
            self._span(opened, event.time, args)
        else:
            is_fault = name.endswith(FAULTS)
            self._emit(
                {
                    "name": name,
                    "cat": "fault" if is_fault else "event",
                    "ph": "i",
                    "s": "g" if is_fault else "t",
                    "ts": event.time,
                },
                thread,
                _args(event),
            )

    def finish(self) -> None:
        """Close what is still open, and the document."""
        for opened in self._open:
            self._span(opened, self._last_time, {**_args(opened.start), "unfinished": True})
        self._open.clear()
        self._out.write("\n]}\n")

    def _close(self, stem: str, thread: str, end: Event) -> _Open | None:
        for index in range(len(self._open) - 1, -1, -1):
            opened = self._open[index]
            if opened.stem == stem and opened.thread == thread and _agree(opened.start, end):
                return self._open.pop(index)
        return None

    def _span(self, opened: _Open, end_time: int, args: dict[str, Plain]) -> None:
        begin = opened.start.time
        self._emit(
            {"name": _span_name(opened), "cat": opened.stem, "ph": "X", "ts": begin, "dur": end_time - begin},
            opened.thread,
            args,
        )

    def _emit(self, record: dict[str, Plain], thread: str, args: dict[str, Plain]) -> None:
        if thread not in self._threads:
            self._threads[thread] = len(self._threads)
            tid = self._threads[thread]
            self._next({"name": "thread_name", "ph": "M", "pid": _PID, "tid": tid, "args": {"name": thread}})
        self._next({**record, "pid": _PID, "tid": self._threads[thread], "args": args})

    def _next(self, record: dict[str, Plain]) -> None:
        self._out.write(",\n" + _dump(record))

    def _thread(self, event: Event) -> str:
        values = dict(event_fields(event))
        for name in UNIT_FIELDS:
            unit = values.get(name)
            if isinstance(unit, Unit):
                return self._unit_name(unit)
            if unit is not None:
                return f"{name} {plain('', unit)}"
        return "device"


def _stem(name: str, suffixes: tuple[str, ...]) -> str:
    return next((name.removesuffix(suffix) for suffix in suffixes if name.endswith(suffix)), "")


def _agree(start: Event, end: Event) -> bool:
    before = dict(event_fields(start))
    return all(before[name] == value for name, value in event_fields(end) if name in before)


def _span_name(opened: _Open) -> str:
    """The stem, made telling by the field of the same name: ``instance 3``, ``write-reg64`` for a command record."""
    subject: Any = dict(event_fields(opened.start)).get(opened.stem.replace("-", "_"))
    if subject is None:
        return opened.stem
    if isinstance(subject, (str, Enum)):
        return str(plain("", subject))
    return kebab(type(subject).__name__) if is_dataclass(subject) else f"{opened.stem} {plain('', subject)}"


def _args(event: Event) -> dict[str, Plain]:
    return {name: plain(name, value) for name, value in event_fields(event)}


def _dump(record: dict[str, Plain]) -> str:
    return json.dumps(record, separators=(",", ":"))
