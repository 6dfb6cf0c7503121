"""Registers, signals, interrupts and busy units as waves in a VCD file (GTKWave, Surfer); needs pyvcd, the extra `vcd`.

One guest step is one nanosecond. Scopes: ``registers`` (64 bits, the value last read or written), ``signals``,
``interrupts`` (a line each, high while it is active; what is only sent is an event), ``busy`` (how many things a thread
has begun and not ended), ``counters`` (what waits in queues, and how much was moved).
"""

from __future__ import annotations

import os
import re
from typing import Any, Final, TextIO

from understudy.core.errors import NotInstalled, WireError
from understudy.trace.chrome import thread_name
from understudy.trace.counters import Counters
from understudy.trace.reading import Record
from understudy.trace.registers import register_of
from understudy.trace.spans import OpenSpans
from understudy.trace.values import Plain
from understudy.trace.writer import TraceWriter

_BITS: Final = {"registers": 64, "signals": 64, "interrupts": 1, "busy": 32, "counters": 64}


class VcdTrace(TraceWriter):
    """Writes at the end, since a VCD file begins with the names of all that changes."""

    def __init__(self, to: str | os.PathLike[str] | TextIO) -> None:
        super().__init__(to)
        self._open = OpenSpans()
        self._counters = Counters()
        self._busy: dict[str, int] = {}
        self._changes: list[tuple[int, tuple[str, str], int | None]] = []
        self._time = 0

    def write(self, record: Record) -> None:
        """Remember what the event changes."""
        self._time = max(self._time, int(str(record["time"])))
        kind, thread = str(record["event"]), thread_name(record)
        for name, value in self._counters.take(record):
            self._change("counters", name, value)
        if self._open.begin(record, thread):
            self._count(thread, 1)
        elif self._open.end(record, thread):
            self._count(thread, -1)
        elif kind == "register-access":
            self._change("registers", register_name(record), _number(record.get("value")))
        elif kind == "signal-changed":
            self._change("signals", f"signal {record.get('signal')}", _number(record.get("value")))
        elif kind in ("interrupt-raised", "interrupt-cleared"):
            for name in str(record.get("interrupt", record.get("interrupts"))).split("|"):
                self._change("interrupts", name, int(kind == "interrupt-raised"))
        elif kind.startswith("interrupt-"):
            self._change("interrupts", kind, None)

    def finish(self) -> None:
        """Write the file."""
        try:
            from vcd import VCDWriter
        except ImportError:
            raise NotInstalled("VCD needs pyvcd: pip install 'understudy[vcd]'") from None
        variables: dict[tuple[str, str], Any] = {}
        with VCDWriter(self._out, timescale="1 ns", comment="one guest step is one nanosecond") as writer:
            for _, key, value in self._changes:
                if key not in variables:
                    scope, name = key
                    variables[key] = writer.register_var(
                        scope,
                        re.sub(r"[^\w.\[\]]+", "_", name),
                        "event" if value is None else "wire",
                        size=1 if value is None else _BITS[scope],
                        init=None if value is None or scope in ("registers", "signals") else 0,
                    )
            for time, key, value in self._changes:
                writer.change(variables[key], time, True if value is None else value)
            writer.close(self._time)

    def _count(self, thread: str, more: int) -> None:
        self._busy[thread] = self._busy.get(thread, 0) + more
        self._change("busy", thread, self._busy[thread])

    def _change(self, scope: str, name: str, value: int | None) -> None:
        self._changes.append((self._time, (scope, name), value if value is None else value % (1 << _BITS[scope])))


def register_name(record: Record) -> str:
    """What a register access is of: the register's name, after its unit if it has one."""
    name = register_of(record)
    thread = thread_name(record)
    return name if thread == "device" else f"{thread} {name}"


def _number(value: Plain) -> int:
    try:
        return int(str(value or 0), 0)
    except ValueError:
        raise WireError(f"value {value!r} of a register or signal is no number") from None
