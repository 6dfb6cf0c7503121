"""Events as JSON lines: one object per line, ``{"time": 120, "event": "dma-transfer", "id": 1, ...}``.

Keys come in declaration order. Numbers are JSON numbers except addresses and bit patterns, which are hex strings (see
`understudy.trace.values`); anything outside ASCII is escaped, so that the bytes do not depend on an encoding.
"""

from __future__ import annotations

import json

from understudy.core.errors import ModelBug
from understudy.core.event import Event
from understudy.trace.values import Plain, event_fields, kind, plain
from understudy.trace.writer import TraceWriter


def to_object(event: Event) -> dict[str, Plain]:
    """One event as the object that its line holds."""
    result: dict[str, Plain] = {"time": event.time, "event": kind(event)}
    for name, value in event_fields(event):
        if name in result:
            raise ModelBug(f"fields of {type(event).__name__} must not be called {name}: traces use that name")
        result[name] = plain(name, value)
    return result


class JsonlTrace(TraceWriter):
    """Writes one JSON object per line."""

    def __call__(self, event: Event) -> None:
        """Write one object."""
        self._out.write(json.dumps(to_object(event), separators=(",", ":")) + "\n")
