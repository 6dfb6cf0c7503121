"""Traces in JSON lines, read back: one object per event, as `understudy.trace.jsonl` writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from understudy.core.errors import WireError
from understudy.trace.values import Plain

Record = dict[str, Plain]
"""One event: ``time``, ``event`` (its kind), and its fields."""


def read_records(lines: Iterable[bytes]) -> Iterator[Record]:
    """The events of a trace, in its order; empty lines count for nothing.

    `WireError` with its line where one is no event, also where a trace breaks off in the middle of its last line.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise WireError("no JSON object; a trace has one in each line (JsonlTrace)").at("line", number) from None
        if not isinstance(record, dict):
            raise WireError("no JSON object; a trace has one in each line (JsonlTrace)").at("line", number)
        time, kind = record.get("time"), record.get("event")
        if type(time) is not int or not 0 <= time < 1 << 53 or not isinstance(kind, str) or not kind:
            raise WireError('no event: it needs "time", an integer, and "event", its kind').at("line", number)
        yield record
