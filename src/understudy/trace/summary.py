"""What stands in a trace, as data: how many events of each kind, how long, what went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from understudy.trace.reading import Record
from understudy.trace.timeline import finding_of

Document = dict[str, Any]

MOST: Final = 20
"""Findings that are shown; all are counted."""


def describe(records: Iterable[Record]) -> Document:
    """A summary of the events, which are taken one by one. Times are guest instructions."""
    kinds: Counter[str] = Counter()
    first = last = None
    found: list[Document] = []
    wrong = 0
    for number, record in enumerate(records):
        kind, time = str(record["event"]), int(str(record["time"]))
        kinds[kind] += 1
        first, last = time if first is None else first, time if last is None else max(last, time)
        finding = finding_of(number, record)
        if finding is not None:
            wrong += 1
            if wrong <= MOST:
                found.append({"event": number, "what": finding.what, "message": finding.message, "rule": finding.rule})
    return {
        "format": "trace",
        "events": kinds.total(),
        "first_time": first,
        "last_time": last,
        "kinds": dict(kinds.most_common()),
        "findings": wrong,
        "first_findings": found,
    }


def lines(document: Document) -> Iterator[str]:
    """The text of what `describe` gave."""
    yield f"trace: {document['events']} events, from time {document['first_time']} to {document['last_time']}"
    width = max(map(len, document["kinds"]), default=0)
    for kind, count in document["kinds"].items():
        yield f"  {kind:<{width}}  {count}"
    if document["findings"]:
        yield f"what went wrong, or most likely did: {document['findings']}"
    for each in document["first_findings"]:
        rule = f" [{each['rule']}]" if each["rule"] else ""
        yield f"  event {each['event']}: {each['what']}: {each['message']}{rule}"
