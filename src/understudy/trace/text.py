"""Events as lines of text, for people and for ``diff``.

A line is ``time kind field=value ...``, e.g. ``120 dma-transfer unit=unit(kind=3 index=0) id=1 source=0x40000000``.
Text is quoted where it is empty or holds anything but letters, digits and ``_.:/+-``; lists stand in ``[]``.
"""

from __future__ import annotations

import json
import re

from understudy.core.event import Event
from understudy.trace.values import Plain, event_fields, kind, plain
from understudy.trace.writer import TraceWriter

_BARE = re.compile(r"[\w.:/+-]+", re.ASCII)


def line(event: Event) -> str:
    """One event as a line, without its end."""
    parts = [str(event.time), kind(event)]
    parts += [f"{name}={_text(plain(name, value))}" for name, value in event_fields(event)]
    return " ".join(parts)


class TextTrace(TraceWriter):
    """Writes one line per event."""

    def __call__(self, event: Event) -> None:
        """Write one line."""
        self._out.write(line(event) + "\n")


def _text(value: Plain) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) and value != "-" else json.dumps(value)
    if isinstance(value, list):
        return "[" + " ".join(map(_text, value)) + "]"
    if isinstance(value, dict):
        rest = " ".join(f"{name}={_text(item)}" for name, item in value.items() if name != "type")
        return f"{value.get('type', '')}({rest})"
    return str(value)
