"""Events as lines of text, readable and suited for ``diff``, or as JSON.

A line is ``time kind field=value ...``, for example ``120 dma-transfer unit=unit(kind=3 index=0) id=1
source=0x40000000``. Text is quoted if it is empty or contains other characters than letters, digits and ``_.:/+-``;
lists are enclosed in ``[]``.
"""

from __future__ import annotations

import json
import re
from typing import Final

from softcard.core.event import Event
from softcard.trace.values import DIAGNOSTIC, Plain, Record, to_object
from softcard.trace.writer import TraceWriter

_BARE = re.compile(r"[\w.:/+-]+", re.ASCII)
NOT_SHOWN: Final = frozenset({"time", "event", DIAGNOSTIC})
"""The fields of a record that its line does not show as NAME=VALUE."""


def line(event: Event) -> str:
    """Return an event as a line of text, without the line end."""
    return record_line(to_object(event))


def record_line(record: Record) -> str:
    """Return a record (see `softcard.trace.values`) as a line of text, without the line end."""
    parts = [str(record["time"]), str(record["event"])]
    parts += [f"{name}={value_text(value)}" for name, value in record.items() if name not in NOT_SHOWN]
    return " ".join(parts)


class TextTrace(TraceWriter):
    """A writer of a trace with one line of text for each event."""

    def write(self, record: Record) -> None:
        """Write one event as a line."""
        self._out.write(record_line(record) + "\n")


def value_text(value: Plain) -> str:
    """Return the value of a record's field as it appears in a line."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) and value != "-" else json.dumps(value)
    if isinstance(value, list):
        return "[" + " ".join(map(value_text, value)) + "]"
    if isinstance(value, dict):
        rest = " ".join(f"{name}={value_text(item)}" for name, item in value.items() if name != "type")
        return f"{value.get('type', '')}({rest})"
    return str(value)


# ---- JSON lines ------------------------------------------------------------------------------------------------------
# Events as JSON lines: one object per line, ``{"time": 120, "event": "dma-transfer", "id": 1, ...}``.
#
# Keys come in declaration order. Numbers are JSON numbers except addresses and bit patterns, which are hex strings (see
# `softcard.trace.values`); anything outside ASCII is escaped, so that the bytes do not depend on an encoding.


class JsonlTrace(TraceWriter):
    """A writer of a trace with one JSON object per line, one for each event."""

    def __call__(self, event: Event) -> None:
        """Write one event, with the diagnostic of its error."""
        from softcard.trace.diagnostic import with_diagnostic  # here, since it imports the reader of debug information

        self.write(with_diagnostic(event))

    def write(self, record: Record) -> None:
        """Write one event as a JSON object."""
        self._out.write(json.dumps(record, separators=(",", ":")) + "\n")
