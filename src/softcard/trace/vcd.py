"""Writer of registers, signals, interrupts and busy units as waveforms in a VCD file (GTKWave, Surfer).

The module needs the package pyvcd (the extra `vcd`). One guest step is one nanosecond. The scopes are:

- ``registers``: the last value read from or written to each register, 64 bits
- ``signals``: the values of signals
- ``interrupts``: a wire for each interrupt, high while it is active; a message-signalled interrupt is a VCD
  event
- ``busy``: the number of open spans of each thread
- ``counters``: queue lengths, and amounts of moved data"""

from __future__ import annotations

import os
import re
from typing import Any, Final, TextIO

from softcard.core.errors import NotInstalled, WireError
from softcard.trace.chrome import thread_name
from softcard.trace.counters import Counters, register_of
from softcard.trace.spans import OpenSpans
from softcard.trace.values import Plain, Record
from softcard.trace.writer import TraceWriter

_BITS: Final = {"registers": 64, "signals": 64, "interrupts": 1, "busy": 32, "counters": 64}


class VcdTrace(TraceWriter):
    """A writer of a VCD file.

    The file is written on closing, since it begins with the declarations of all variables."""

    def __init__(self, to: str | os.PathLike[str] | TextIO) -> None:
        super().__init__(to)
        self._open = OpenSpans()
        self._counters = Counters()
        self._busy: dict[str, int] = {}
        self._changes: list[tuple[int, tuple[str, str], int | None]] = []
        self._time = 0

    def write(self, record: Record) -> None:
        """Record the changes of variables that an event causes."""
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
        """Write the VCD file."""
        try:
            from vcd import VCDWriter
        except ImportError:
            raise NotInstalled("VCD needs pyvcd: pip install 'softcard[vcd]'") from None
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
    """Return the name of the register that an event accesses, prefixed with its unit if it has one."""
    name = register_of(record)
    thread = thread_name(record)
    return name if thread == "device" else f"{thread} {name}"


def _number(value: Plain) -> int:
    try:
        return int(str(value or 0), 0)
    except ValueError:
        raise WireError(f"the value of a register or signal is {value!r}, expected a number") from None
