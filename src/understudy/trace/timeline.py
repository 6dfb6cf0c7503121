"""A trace as columns of numbers, the form in which a report carries and draws a million events.

Events lie in *tracks*: each lane (a queue, a hart, the registers) has one for what happens at a moment and as many as
it takes for what lasts, so that nothing in a track overlaps and positions grow along it. Every event has two positions:
its guest step, and its number in the trace. Fields stand in a table per kind, a column each.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any, Final

import numpy as np

from understudy.device.refsi.spec.windows import unit_name
from understudy.trace import registers
from understudy.trace.chrome import FAULTS, thread_name
from understudy.trace.counters import LEVELS, Counters
from understudy.trace.reading import Record
from understudy.trace.snapshots import REGISTERS, VALUES, Snapshots
from understudy.trace.spans import LAUNCH, OpenSpans, Span
from understudy.trace.text import value_text
from understudy.trace.values import Plain

MOST_TRACKS: Final = 24
"""Things of one lane that are drawn side by side; what is more is drawn as moments."""
MOST_PLACES: Final = 500
"""Rows of the table of executed places."""
MOST_FINDINGS: Final = 500
"""Findings that are listed; all are drawn."""
MOST_COUNTERS: Final = 16
"""Counters that are drawn."""

_FAMILIES: Final = {
    "command": "commands",
    "buffer": "buffers",
    "kernel": "kernels",
    "dma": "DMA",
    "register": "registers",
    "signal": "signals",
    "interrupt": "interrupts",
    "packet": "packets",
    "doorbell": "doorbells",
    "rows": "rows",
    "child": "kernels",
}
"""Lanes of events that name no unit, by the first word of their kind."""
_ORDER: Final = (
    *("commands", "buffers", "queue", "doorbells", "packets", "kernels", "context", "hart", "wave", "unit", "DMA"),
    *("rows", "signals", "registers", "interrupts", "device"),
)
_HEX: Final = re.compile(r"0x[0-9a-f]{1,13}")
_ADDRESS: Final = re.compile(r"0x[0-9a-f]{1,16}")
CLAUSE: Final = re.compile(r"\[([\w-]+/[\w.-]+): ([^\]]*)\]")
"""How a message names the rule that is broken, and its clause."""
PC: Final = re.compile(r"at pc (0x[0-9a-f]+)")
_ADDRESSES: Final = frozenset({"address", "addr", "base", "entry", "pc", "source", "target"})
_PLACES: Final = ("pc", "offset", "kernel_object", "entry", "kernel")
_EXACT: Final = 1 << 53


@dataclass(frozen=True, slots=True)
class Finding:
    """What the trace says went wrong, or most likely did: an event of it, its text, and the clause it names."""

    event: int
    what: str
    message: str
    rule: str
    clause: str


@dataclass(slots=True)
class _Table:
    rows: int = 0
    columns: dict[str, list[Plain]] = field(default_factory=dict)

    def add(self, fields: Record) -> int:
        for name, value in fields.items():
            column = self.columns.get(name)
            if column is None:
                column = self.columns[name] = [None] * self.rows
            column.append(value)
        self.rows += 1
        for column in self.columns.values():
            if len(column) < self.rows:
                column.append(None)
        return self.rows - 1


class Timeline:
    """Gathers the events of a trace, those given or one by one; `columns` is what a page needs of them, in the end."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._open = OpenSpans()
        self._tables: dict[str, _Table] = {}
        self._lanes: dict[str, list[int]] = {}
        """Lanes by name, and where each of a lane's tracks of spans ends, in order of events."""
        self._tracks: dict[tuple[str, int], list[int]] = {}
        self._names: dict[str, int] = {}
        self._kinds: dict[str, int] = {}
        self._events: list[tuple[int, int, int, int, int, int, int]] = []
        """Begin, end, first and last in the trace, kind, name, row."""
        self._spans: list[tuple[Span, int, int, Record]] = []
        self._findings: list[tuple[int, Finding]] = []
        self._touched: list[tuple[int, int, int, int, int]] = []
        """Number in the trace, guest step, address, bytes, what (0 named, 1 read, 2 written)."""
        self._faults: set[str] = set()
        """Instructions that findings name."""
        self._places: Counter[tuple[str, str, str]] = Counter()
        self.operations: Counter[tuple[str, str]] = Counter()
        """How often commands and packets of each type began, by kind of event and type."""
        self.ran_kernels = False
        """Whether a kernel was launched."""
        self.first_rules: dict[str, tuple[str, int]] = {}
        """Clauses of the rules that findings name, by id, and how many findings do."""
        self.snapshots = Snapshots()
        self._counters = Counters()
        self._changes: dict[str, list[tuple[int, int, int]]] = {}
        """Number in the trace, guest step and value, by counter."""
        self._time = self._count = 0
        for record in records:
            self.take(record)

    def take(self, record: Record) -> None:
        """Add an event."""
        if "scalars" in record and "why" in record:
            self.snapshots.take(record, self._count)
            record = {name: value for name, value in record.items() if name not in VALUES}
        elif REGISTERS in record:
            self.snapshots.take_fault(record, self._count)
            record = {name: value for name, value in record.items() if name != REGISTERS}
        if record["event"] == registers.KIND:
            record = {**record, "name": registers.register_of(record)}
        order, time = self._count, int(str(record["time"]))
        self._time, self._count = max(self._time, time), order + 1
        for name, value in self._counters.take(record):
            self._changes.setdefault(name, []).append((order, self._time, value))
        lane = _lane(record)
        self._note(record, lane, order)
        if self._open.begin(record, lane, order):
            return
        if span := self._open.end(record, lane):
            self._spans.append((span, self._time, order, span.fields(record)))
            return
        kind = str(record["event"])
        fields = {name: value for name, value in record.items() if name not in ("time", "event")}
        self._add(lane, 0, kind, kind, (self._time, self._time, order, order), fields)

    def _note(self, record: Record, lane: str, order: int) -> None:
        kind = str(record["event"])
        if kind != registers.KIND:  # the address of a register is none of memory
            self._touch(record, order)
        if kind.endswith(("-started", "-launched", "-launch", "-begun")):
            subject = _subject(record)
            inner = [value for value in record.values() if isinstance(value, dict)]
            self.ran_kernels |= kind == LAUNCH or any("kernel_object" in each for each in inner)
            places = [record[name] for name in _PLACES if record.get(name) is not None]
            places += [each[name] for each in inner for name in ("kernel_object", "entry") if name in each]
            place = hex(places[0]) if places and type(places[0]) is int else str(places[0]) if places else ""
            if subject:
                self.operations[kind, subject.partition("(")[0]] += 1
            if place:
                self._places[lane, place, self._open.kernel(record) or subject or kind] += 1
        found = finding_of(order, record)
        if found is not None:
            if found.rule:
                before = self.first_rules.get(found.rule, (found.clause, 0))
                self.first_rules[found.rule] = (before[0] or found.clause, before[1] + 1)
            self._findings.append((order, found))
            named = PC.search(found.message)
            self._faults.update([named[1]] if named else [str(record["pc"])] if record.get("pc") else [])

    def _touch(self, record: Record, order: int) -> None:
        for name, value in record.items():
            if isinstance(value, dict):
                self._touch(value, order)
            elif name.rpartition("_")[2] in _ADDRESSES and isinstance(value, str) and _ADDRESS.fullmatch(value):
                last = name.rpartition("_")[2]
                size = record.get("size")
                if isinstance(sizes := record.get("sizes"), list):
                    size = prod(each for each in sizes if isinstance(each, int))
                way = {True: 2, False: 1}.get(write, 0) if isinstance(write := record.get("write"), bool) else 0
                what = {"source": 1, "target": 2}.get(last, way)
                length = min(size, _EXACT) if isinstance(size, int) and size > 0 else 1
                self._touched.append((order, self._time, int(value, 16), length, what))

    def _add(
        self, lane: str, depth: int, kind: str, name: str, place: tuple[int, int, int, int], fields: Record
    ) -> None:
        self._lanes.setdefault(lane, [])
        self._tracks.setdefault((lane, depth), []).append(len(self._events))
        row = self._tables.setdefault(kind, _Table()).add(fields)
        number = self._kinds.setdefault(kind, len(self._kinds))
        self._events.append((*place, number, self._names.setdefault(name, len(self._names)), row))

    def _stack(self) -> None:
        """Lay each span on the first track of its lane that is free."""
        for span, end, last, fields in sorted(self._spans, key=lambda done: done[0].order):
            ends = self._lanes.setdefault(span.thread, [])
            depth = next((index for index, free in enumerate(ends) if free < span.order), len(ends))
            begin = int(str(span.start["time"]))
            place = (begin, end, span.order, last)
            if depth == MOST_TRACKS:
                self._add(span.thread, 0, span.stem, span.name, (begin, begin, span.order, span.order), fields)
                continue
            if depth == len(ends):
                ends.append(last)
            ends[depth] = last
            self._add(span.thread, depth + 1, span.stem, span.name, place, fields)
        self._spans.clear()

    def columns(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """What the page reads: names and shapes, and arrays by name. Events stand in the order of their tracks.

        What is still open ends here: no event may come after it.
        """
        for span in self._open.rest():
            self._spans.append((span, self._time, self._count - 1, {**span.fields({}), "unfinished": True}))
        self._stack()
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        tracks, order, start = [], [], 0
        for lane, depth in sorted(self._tracks, key=lambda key: (_rank(key[0]), key[1])):
            rows = sorted(self._tracks[lane, depth], key=lambda number: self._events[number][2])
            order += rows
            tracks.append([lane, depth, start, start + len(rows)])
            start += len(rows)
        table = np.array(self._events, dtype=np.int64).reshape(-1, 7)[np.array(order, dtype=np.int64)]
        for index, name in enumerate(("begin", "end", "first", "last", "kind", "name", "row")):
            arrays[name] = narrow(table[:, index])
        event_of = np.full(self._count, 0, dtype=np.int64)
        event_of[table[:, 3]] = np.arange(len(table))
        event_of[table[:, 2]] = np.arange(len(table))  # an event that only ends something leads to what it ends
        marks = np.zeros(len(table), dtype=np.uint8)
        found = [int(event_of[number]) for number, _ in self._findings]
        marks[found] = 1
        arrays["marks"] = marks
        findings = [
            [event, each.what, each.message, each.rule, each.clause]
            for event, (_, each) in zip(found[:MOST_FINDINGS], self._findings, strict=False)
        ]
        about = {
            "kinds": list(self._kinds),
            "names": list(self._names),
            "tracks": tracks,
            "tables": [self._columns(kind, arrays) for kind in self._kinds],
            "findings": findings,
            "findingCount": len(found),
            "snapshots": self.snapshots.columns(event_of),
            "snapshotCount": self.snapshots.count,
            "regions": self._regions(arrays),
            "counters": self._curves(arrays),
            "faults": sorted(self._faults),
            "places": [[*key, count] for key, count in self._places.most_common(MOST_PLACES)],
            "placeCount": len(self._places),
            "operations": [[*key, count] for key, count in self.operations.most_common()],
            "count": self._count,
            "time": self._time,
        }
        return about, arrays

    def _columns(self, kind: str, arrays: dict[str, np.ndarray[Any, Any]]) -> list[dict[str, Any]]:
        found = []
        for name, values in self._tables[kind].columns.items():
            key = f"{kind}/{name}"
            column: dict[str, Any] = {"name": name, "array": key}
            if all(type(value) is int and -_EXACT < value < _EXACT for value in values):
                arrays[key] = narrow(np.array(values, dtype=np.int64))
            elif all(isinstance(value, str) and _HEX.fullmatch(value) for value in values):
                arrays[key] = narrow(np.array([int(str(value), 16) for value in values], dtype=np.int64))
                column["hex"] = True
            else:
                texts: dict[str, int] = {}
                keys = [_cell(value) for value in values]
                arrays[key] = narrow(np.array([texts.setdefault(text, len(texts)) for text in keys], dtype=np.int64))
                column["texts"] = list(texts)
            found.append(column)
        return found

    def _curves(self, arrays: dict[str, np.ndarray[Any, Any]]) -> list[dict[str, Any]]:
        """The counters: names, and where their changes stand."""
        found = []
        for number, (name, changes) in enumerate(self._changes.items()):
            if number == MOST_COUNTERS:
                break
            table = np.array(changes, dtype=np.int64).reshape(-1, 3)
            for index, part in enumerate(("order", "time", "value")):
                arrays[f"counter {number} {part}"] = narrow(table[:, index])
            found.append({"name": name, "array": f"counter {number}", "level": name.startswith(LEVELS)})
        return found

    def _regions(self, arrays: dict[str, np.ndarray[Any, Any]]) -> list[list[str | int]]:
        """The ranges of addresses that events name, those that lie near each other as one."""
        regions: list[list[int]] = []
        for low, high in sorted({(address, address + size) for _, _, address, size, _ in self._touched}):
            if regions and low - regions[-1][1] <= 1 << 16:
                regions[-1][1] = max(regions[-1][1], high)
            else:
                regions.append([low, high])
        starts = [low for low, _ in regions]
        touched = self._touched if regions else []
        where = [int(np.searchsorted(np.array(starts, dtype=np.uint64), np.uint64(t[2]), "right")) - 1 for t in touched]
        arrays["memoryOrder"] = narrow(np.array([each[0] for each in touched], dtype=np.int64))
        arrays["memoryTime"] = narrow(np.array([each[1] for each in touched], dtype=np.int64))
        arrays["memoryRegion"] = narrow(np.array(where, dtype=np.int64))
        offsets = [min(each[2] - starts[region], _EXACT) for each, region in zip(touched, where, strict=True)]
        arrays["memoryOffset"] = narrow(np.array(offsets, dtype=np.int64))
        arrays["memorySize"] = narrow(np.array([each[3] for each in touched], dtype=np.int64))
        arrays["memoryWhat"] = narrow(np.array([each[4] for each in touched], dtype=np.int64))
        return [[hex(low), high - low] for low, high in regions]


def narrow(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same numbers in the smallest type that JavaScript has an array of; doubles for large and negative ones."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    kind = "u1" if high < 1 << 8 else "u2" if high < 1 << 16 else "u4" if high < 1 << 32 else "f8"
    return values.astype(f"<{kind}" if low >= 0 else "<f8")


def finding_of(order: int, record: Record) -> Finding | None:
    """What event number `order` says went wrong, or most likely did; None where it says nothing of that kind."""
    kind = str(record["event"])
    if not _is_finding(kind, record):
        return None
    said = (record[name] for name in ("error", "message", "finding", "text") if record.get(name) is not None)
    message = str(next(said, ""))
    rule, clause = str(record.get("rule") or ""), ""
    if named := CLAUSE.search(message):
        rule, clause = named.groups()
        message = message.replace(named.group(), "").rstrip(", ")
    if message and record.get("pc") is not None and "pc 0x" not in message:
        places = ((name, record.get(name)) for name in ("pc", "hart", "instance"))
        message = ", ".join([message, *(f"at {name} {place}" for name, place in places if place is not None)])
    what = str(record.get("check") or kind)
    fields = {name: value for name, value in record.items() if name not in ("time", "event")}
    message = message or " ".join(f"{name}={value_text(value)}" for name, value in fields.items())
    return Finding(order, what, message, rule, clause)


def _is_finding(kind: str, record: Record) -> bool:
    return _sounds_bad(kind) or record.get("error") is not None or ("check" in record and "message" in record)


@lru_cache(1024)
def _sounds_bad(kind: str) -> bool:
    endings = (*FAULTS, "-errored", "-failed", "-aborted", "hazard")
    return kind.endswith(endings) or kind in ("stale-read", "incoherent", "trapped")


def _subject(record: Record) -> str:
    """What a started command or packet is, as text: ``write-reg64(index=8 value=0x10000)``."""
    kind = record.get("type")
    for value in record.values():
        if isinstance(value, dict) and "type" in value and value["type"] != "unit":
            return value_text(value) if kind is None else str(kind)
    return str(kind or "")


def _lane(record: Record) -> str:
    thread = thread_name(record, unit_name)
    kind = str(record["event"])
    family = _FAMILIES.get(kind.partition("-")[0], "device")
    if thread == "device":
        return family
    return f"DMA of {thread}" if family == "DMA" else f"registers of {thread}" if family == "registers" else thread


def _cell(value: Plain) -> str:
    """A field as it is shown: text as it is, nothing for what is not there."""
    return "" if value is None else value if isinstance(value, str) else value_text(value)


def _rank(lane: str) -> tuple[int, str, tuple[int, ...]]:
    word = lane.partition(" ")[0]
    digits = tuple(map(int, re.findall(r"\d+", lane)))
    return _ORDER.index(word) if word in _ORDER else len(_ORDER), re.sub(r"\d+", "", lane), digits
