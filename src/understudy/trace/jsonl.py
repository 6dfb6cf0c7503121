"""Events as JSON lines: one object per line, ``{"time": 120, "event": "dma-transfer", "id": 1, ...}``.

Keys come in declaration order. Numbers are JSON numbers except addresses and bit patterns, which are hex strings (see
`understudy.trace.values`); anything outside ASCII is escaped, so that the bytes do not depend on an encoding.
"""

from __future__ import annotations

import json

from understudy.trace.reading import Record
from understudy.trace.writer import TraceWriter


class JsonlTrace(TraceWriter):
    """Writes one JSON object per line."""

    def write(self, record: Record) -> None:
        """Write one object."""
        self._out.write(json.dumps(record, separators=(",", ":")) + "\n")
