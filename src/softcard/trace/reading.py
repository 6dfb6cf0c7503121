"""Reader of traces in JSON lines, with one object per event, as `softcard.trace.text` writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from softcard.core.errors import WireError
from softcard.trace.values import Plain

Record = dict[str, Plain]
"""One event as a dict: ``time``, ``event`` (its kind), and its fields."""


def read_records(lines: Iterable[bytes]) -> Iterator[Record]:
    """Yield the events of a trace in order; empty lines are skipped.

    A line that is not an event, such as the truncated last line of a trace, raises `WireError` with the line number.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise WireError("the line is not a JSON object, expected a trace as JsonlTrace writes it").at(
                "line", number
            ) from None
        if not isinstance(record, dict):
            raise WireError("the line is not a JSON object, expected a trace as JsonlTrace writes it").at(
                "line", number
            )
        time, kind = record.get("time"), record.get("event")
        if type(time) is not int or not 0 <= time < 1 << 53 or not isinstance(kind, str) or not kind:
            raise WireError('the object is not an event, expected "time" (an integer) and "event" (its kind)').at(
                "line", number
            )
        yield record
