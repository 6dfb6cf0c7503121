"""Writer of spans as a profile for speedscope (https://www.speedscope.app): guest steps per thread.

Each thread is a profile, in guest steps, in which spans are stacked as they nest. A span that overlaps
another one without nesting (concurrent packets of one queue) goes to an additional profile of its thread,
``queue 1 (2)``. A span that runs a kernel has the kernel's name. If instructions were counted, the code of
each program is a profile too: its functions, each with its source lines, weighted by retired instructions."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from softcard.trace.chrome import thread_name
from softcard.trace.spans import OpenSpans, Span
from softcard.trace.values import Record
from softcard.trace.writer import TraceWriter

if TYPE_CHECKING:
    from softcard.trace.code import Listing


@dataclass(frozen=True, slots=True)
class _Done:
    span: Span
    last: int
    end: int


class SpeedscopeTrace(TraceWriter):
    """A writer of a speedscope profile: one JSON document, written at the end, with the name `device`."""

    def __init__(self, to: str | os.PathLike[str] | TextIO, device: str = "device") -> None:
        super().__init__(to)
        self._device = device
        self._open = OpenSpans()
        self._done: dict[str, list[_Done]] = {}
        self._count = 0
        self._time = 0
        self._code: list[Listing] = []

    def listing(self, listing: Listing) -> None:
        """Add the functions of a program as a profile, weighted by retired instructions."""
        self._code.append(listing)

    def write(self, record: Record) -> None:
        """Record the span that an event begins or ends."""
        thread = thread_name(record)
        self._time = max(self._time, int(str(record["time"])))
        self._count += 1
        if not self._open.begin(record, thread, self._count) and (span := self._open.end(record, thread)):
            self._done.setdefault(thread, []).append(_Done(span, self._count, self._time))

    def finish(self) -> None:
        """Write the document; spans that are still open end at the end of the trace."""
        for span in self._open.rest():
            self._count += 1
            self._done.setdefault(span.thread, []).append(_Done(span, self._count, self._time))
        stacks = [(listing, _stacks(listing)) for listing in self._code]
        names = dict.fromkeys(done.span.frame for spans in self._done.values() for done in spans)
        names |= dict.fromkeys(name for _, found in stacks for stack in found for name in stack)
        frames = {name: index for index, name in enumerate(names)}
        document = {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "name": self._device,
            "exporter": "softcard",
            "shared": {"frames": [{"name": name} for name in frames]},
            "profiles": [
                self._profile(thread if not number else f"{thread} ({number + 1})", part, frames)
                for thread, spans in self._done.items()
                for number, part in enumerate(_nested(spans))
            ]
            + [_sampled(f"instructions of {listing.name}", found, frames) for listing, found in stacks if found],
        }
        json.dump(document, self._out, separators=(",", ":"))
        self._out.write("\n")

    def _profile(self, name: str, spans: list[_Done], frames: dict[str, int]) -> dict[str, Any]:
        moments = [(done.span.order, "O", done) for done in spans] + [(done.last, "C", done) for done in spans]
        events = [
            {"type": kind, "frame": frames[done.span.frame], "at": done.span.start["time"] if kind == "O" else done.end}
            for _, kind, done in sorted(moments, key=lambda moment: moment[0])
        ]
        return {
            "type": "evented",
            "name": name,
            "unit": "none",
            "startValue": events[0]["at"],
            "endValue": self._time,
            "events": events,
        }


def _stacks(listing: Listing) -> Counter[tuple[str, ...]]:
    """Return the number of retired instructions by stack: function and, if known, line."""
    found: Counter[tuple[str, ...]] = Counter()
    for function in listing.functions:
        for row in function.rows:
            if row.count:
                found[(function.name,) if row.place is None else (function.name, str(row.place))] += row.count
    return found


def _sampled(name: str, stacks: Counter[tuple[str, ...]], frames: dict[str, int]) -> dict[str, Any]:
    return {
        "type": "sampled",
        "name": name,
        "unit": "none",
        "startValue": 0,
        "endValue": stacks.total(),
        "samples": [[frames[each] for each in stack] for stack in stacks],
        "weights": list(stacks.values()),
    }


def _nested(spans: list[_Done]) -> list[list[_Done]]:
    """Distribute spans over as few lists as possible, so that the spans of a list nest or do not overlap."""
    lists: list[list[_Done]] = []
    around: list[list[_Done]] = []
    for done in sorted(spans, key=lambda done: done.span.order):
        for stack in around:
            while stack and stack[-1].last < done.span.order:
                stack.pop()
        fits = (index for index, stack in enumerate(around) if not stack or done.last < stack[-1].last)
        index = next(fits, len(lists))
        if index == len(lists):
            lists.append([])
            around.append([])
        lists[index].append(done)
        around[index].append(done)
    return lists
