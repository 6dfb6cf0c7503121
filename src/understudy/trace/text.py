"""Events as lines of text, for people and for ``diff``.

A line is ``time kind field=value ...``, e.g. ``120 dma-transfer unit=unit(kind=3 index=0) id=1 source=0x40000000``.
Text is quoted where it is empty or holds anything but letters, digits and ``_.:/+-``; lists stand in ``[]``.
"""

from __future__ import annotations

import json
import re

from understudy.core.event import Event
from understudy.trace.reading import Record
from understudy.trace.values import Plain, to_object
from understudy.trace.writer import TraceWriter

_BARE = re.compile(r"[\w.:/+-]+", re.ASCII)


def line(event: Event) -> str:
    """One event as a line, without its end."""
    return record_line(to_object(event))


def record_line(record: Record) -> str:
    """Likewise one that is a record already."""
    parts = [str(record["time"]), str(record["event"])]
    parts += [f"{name}={value_text(value)}" for name, value in record.items() if name not in ("time", "event")]
    return " ".join(parts)


class TextTrace(TraceWriter):
    """Writes one line per event."""

    def write(self, record: Record) -> None:
        """Write one line."""
        self._out.write(record_line(record) + "\n")


def value_text(value: Plain) -> str:
    """A value of a record as it stands in a line."""
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
