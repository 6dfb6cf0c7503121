"""Traces as columns of numbers, which a report stores and draws; with register snapshots and a summary.

Events are placed on *tracks*. Each lane (a queue, a hart, the registers) has one track for instants, and as many tracks
for spans as are needed so that the spans of a track do not overlap. Every event has two positions: its guest step, and
its number in the trace. For each kind of event there is a table with a column for each field.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from typing import Any, Final

import numpy as np

from softcard.core.checks import CHECKS
from softcard.core.display import demangled
from softcard.device.kfd.loaded_code import UNNAMED, is_of_runtime
from softcard.device.refsi.spec.windows import unit_name
from softcard.trace import counters
from softcard.trace.chrome import FAULTS, thread_name
from softcard.trace.code import CommandCode
from softcard.trace.counters import LEVELS, Counters
from softcard.trace.spans import INSTANCE, LAUNCH, OpenSpans, Span
from softcard.trace.text import value_text
from softcard.trace.values import DIAGNOSTIC, Plain, Record

# ---- register snapshots ----------------------------------------------------------------------------------------------
# Register snapshots for a report: the events that hold them (`registers-taken`), and their locations.
#
# Errors of kernels have `registers`, too: the ones that are known even if no snapshot was requested.


MOST: Final = 64
"""The maximum number of register snapshots that a report shows."""
VALUES: Final = frozenset({"scalars", "vectors"})
"""The event fields that a report shows with the register snapshot, not with the event."""
REGISTERS: Final = "registers"
"""The name of the event field that holds the registers of a kernel at an error."""
FAULT: Final = "fault"
FINDING: Final = "finding"
"""The reason of the snapshot of a finding's registers, and the kind of the event of a finding."""
_PLACE: Final = ("hart", "instance", "wave", "group", "index", "queue")


class Snapshots:
    """The first register snapshots of a trace, and their total number."""

    def __init__(self) -> None:
        self.count = 0
        self._taken: list[tuple[int, Record]] = []
        self._fault = ""
        """The pc of the last fault that has a snapshot of all registers, or ""."""
        self._faults: set[str] = set()
        """The pcs of all errors with registers."""
        self._held: Any = None
        """The registers of the last error; they identify events that report the same error."""

    def take(self, record: Record, order: int) -> None:
        """Count `record`, the snapshot of event number `order`; store it unless `MOST` snapshots are already stored."""
        self.count += 1
        if len(self._taken) < MOST:
            self._taken.append((order, record))
        if record["why"] == FAULT:
            self._fault = str(record.get("pc", ""))

    def take_fault(self, record: Record, order: int) -> None:
        """Add the registers in the event `record`, which reports an error, as a snapshot.

        They are not added if a snapshot of all registers exists for that error. `order` is the number of the event
        in the trace."""
        held: Any = record[REGISTERS]
        if not isinstance(held, dict) or held == self._held or held.get("pc") == self._fault:
            return
        why = FINDING if record["event"] == FINDING else FAULT
        if why == FINDING and held.get("pc") in self._faults:  # the access failed, too
            return
        self._held = held
        self._faults.add(str(held.get("pc")))
        places: dict[str, Any] = {name: record[name] for name in _PLACE if name in record}
        values: dict[str, Any] = dict(_pairs(held.get("scalars")) + _pairs(held.get("vectors")))
        self.take({**held, **places, "scalars": values, "vectors": {}, "why": why}, order)
        self._fault = ""

    def columns(self, event_of: Sequence[int] | Any) -> list[list[Any]]:
        """Return a list for each snapshot: event, reason, location, pc, instruction, scalar and vector registers.

        `event_of` converts the number of an event in the trace to its number in the sorted table of events."""
        return [
            [
                *(int(event_of[order]), str(record["why"]), _place(record), str(record.get("pc", ""))),
                str(record.get("instruction") or ""),
                *(_pairs(record.get(name)) for name in ("scalars", "vectors")),
            ]
            for order, record in self._taken
        ]


def _place(record: Record) -> str:
    parts = [(name, record[name]) for name in _PLACE if record.get(name) is not None]
    names = {"index": "packet"}
    place = [str(record["place"])] if record.get("place") else []
    return ", ".join(place + [f"{names.get(name, name)} {_shown(value)}" for name, value in parts])


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else value_text(value)


def _pairs(values: Any) -> list[list[str]]:
    return [[name, str(value)] for name, value in values.items()] if isinstance(values, dict) else []


# ---- timeline --------------------------------------------------------------------------------------------------------


MOST_TRACKS: Final = 24
"""The maximum number of tracks for spans in one lane; further spans are drawn as instants."""
MOST_PLACES: Final = 500
"""The maximum number of rows in the table of executed code addresses."""
MOST_FINDINGS: Final = 500
"""The maximum number of findings that are listed; all are drawn."""
LISTED: Final = "findings"
"""The lane of findings whose kernel or wave is not in the trace."""
CATEGORIES: Final = ("kernel", "run-time kernel", "waves", "commands", "transfers", "registers", "other")
"""The categories of events, which decide their colours in a report; the page has their display names."""
_CATEGORY: Final = {
    "buffer": "commands", "child": "kernel", "command": "commands", "dma": "transfers", "doorbell": "commands",
    "instance": "waves", "interrupt": "registers", "kernel": "kernel", "packet": "commands", "register": "registers",
    "rows": "transfers", "signal": "registers", "user": "commands", "wave": "waves",
}  # fmt: skip
"""The category of events by the first word of their kind."""
MOST_COUNTERS: Final = 16
"""The maximum number of counters that are drawn."""

_FAMILIES: Final = {
    "command": "commands",
    "buffer": "buffers",
    "kernel": "kernels",
    "dma": "DMA",
    "register": "registers",
    "signal": "signals",
    "interrupt": "registers",
    "packet": "packets",
    "doorbell": "doorbells",
    "rows": "rows",
    "child": "kernels",
}
"""The names of the lanes for events without a unit, by the first word of their kind."""
_ORDER: Final = (
    *("commands", "buffers", "queue", "doorbells", "packets", "kernels", "context", "hart", "wave", "unit", "DMA"),
    *("rows", "signals", "registers", "interrupts", "device"),
)
_HEX: Final = re.compile(r"0x[0-9a-f]{1,13}")
_ADDRESS: Final = re.compile(r"0x[0-9a-f]{1,16}")
CLAUSE: Final = re.compile(r"\[([\w-]+/[\w.-]+): ([^\]]*)\]")
"""The pattern of the part of a message that has the id of the broken rule and its clause."""
PC: Final = re.compile(r"at pc (0x[0-9a-f]+)")
_ADDRESSES: Final = frozenset({"address", "addr", "base", "entry", "pc", "source", "target"})
_PLACES: Final = ("pc", "offset", "kernel_object", "entry", "kernel")
_EXACT: Final = 1 << 53


@dataclass(frozen=True, slots=True)
class Finding:
    """An event that reports a certain or likely mistake: its number, its text, and the broken rule and clause.

    `diagnostic` is a record with source lines and notes (`softcard.trace.diagnostic`), or text.
    """

    event: int
    what: str
    message: str
    rule: str
    clause: str
    diagnostic: Any = ""
    pc: str = ""
    """The address of the instruction, in hex, or that of a user command; "" if it is unknown."""

    @property
    def mistake(self) -> object:
        """The key of the mistake: events with equal keys report the same finding."""
        known = self.diagnostic
        if isinstance(known, dict):
            return known.get("id"), known.get("message"), known.get("at")
        return self.message.partition(", at ")[0], self.rule, self.pc, str(known)


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
    """A collector of the events of a trace; `columns` returns the data of a report page."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._open = OpenSpans()
        self._tables: dict[str, _Table] = {}
        self._lanes: dict[str, list[int]] = {}
        """The number of the last event on each track for spans, a list for each lane."""
        self._tracks: dict[tuple[str, int], list[int]] = {}
        self._names: dict[str, int] = {}
        self._kinds: dict[str, int] = {}
        self._events: list[tuple[int, int, int, int, int, int, int]] = []
        """A tuple for each event: first and last guest step, first and last number in the trace, kind, name, row.

        The row is that of the table for the kind.
        """
        self._spans: list[tuple[Span, int, int, Record]] = []
        self._findings: list[Finding] = []
        self._placed: list[tuple[int, Record]] = []
        """The findings of checks, which belong to the kernels and waves that they name: number, and record."""
        self._units: dict[tuple[str, ...], list[int]] = {}
        """The events of waves by wave and work-group, of instances by hart, and of kernels by name."""
        self._categories: list[str] = []
        """The category of each event."""
        self.commands = CommandCode()
        self._touched: list[tuple[int, int, int, int, int]] = []
        """Accesses to addresses: number in the trace, guest step, address, size in bytes, and kind.

        The kind is 0 for an address that an event names, 1 for a read, 2 for a write.
        """
        self._faults: set[str] = set()
        """The pcs that findings name."""
        self._places: Counter[tuple[str, str, str]] = Counter()
        self.operations: Counter[tuple[str, str]] = Counter()
        """The number of commands and packets that started, by (kind of event, type of command or packet)."""
        self.ran_kernels = False
        """True if the trace contains the launch of a kernel."""
        self.first_rules: dict[str, tuple[str, int]] = {}
        """The clause of each rule that findings name, and the number of these findings, by the rule's id."""
        self.snapshots = Snapshots()
        self._counters = Counters()
        self._changes: dict[str, list[tuple[int, int, int]]] = {}
        """The changes of each counter, by name: number in the trace, guest step and new value."""
        self._time = self._count = 0
        for record in records:
            self.take(record)

    def take(self, record: Record) -> None:
        """Add the next event of the trace."""
        if "scalars" in record and "why" in record:
            self.snapshots.take(record, self._count)
            record = {name: value for name, value in record.items() if name not in VALUES}
        elif REGISTERS in record:
            self.snapshots.take_fault(record, self._count)
            record = {name: value for name, value in record.items() if name != REGISTERS}
        if record["event"] == counters.KIND:
            record = {**record, "name": counters.register_of(record)}
        order, time = self._count, int(str(record["time"]))
        self._time, self._count = max(self._time, time), order + 1
        for name, value in self._counters.take(record):
            self._changes.setdefault(name, []).append((order, self._time, value))
        lane = _lane(record)
        self._note(record, lane, order)
        if record["event"] == FINDING and DIAGNOSTIC in record:
            self._placed.append((order, record))
            return
        if self._open.begin(record, lane, order):
            return
        if span := self._open.end(record, lane):
            self._spans.append((span, self._time, order, span.fields(record)))
            return
        kind = str(record["event"])
        fields = {name: value for name, value in record.items() if name not in ("time", "event", DIAGNOSTIC)}
        self._add(lane, 0, kind, kind, (self._time, self._time, order, order), fields)

    def _note(self, record: Record, lane: str, order: int) -> None:
        kind = str(record["event"])
        if kind == "user-command-started":
            self.commands.take(record.get("context"), _number(record.get("offset")), command_text(record["command"]))
        if kind != counters.KIND:  # a register's address is not a memory address
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
                command = record.get("command")
                if kind == "user-command-started" and isinstance(command, dict):
                    subject = command_text(command)
                self._places[lane, place, demangled(self._open.kernel(record)) or subject or kind] += 1
        found = finding_of(order, record)
        if found is not None:
            if kind == "context-errored":
                found = replace(found, pc=self.commands.fail(record.get("context")))
            if found.rule:
                before = self.first_rules.get(found.rule, (found.clause, 0))
                self.first_rules[found.rule] = (before[0] or found.clause, before[1] + 1)
            self._findings.append(found)
            self._faults.update([found.pc] if found.pc else [])

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
        self, lane: str, depth: int, kind: str, name: str, place: tuple[int, int, int, int], fields: Record,
        category: str = "",
    ) -> None:  # fmt: skip
        self._categories.append(category or _CATEGORY.get(kind.partition("-")[0], "other"))
        self._lanes.setdefault(lane, [])
        self._tracks.setdefault((lane, depth), []).append(len(self._events))
        row = self._tables.setdefault(kind, _Table()).add(fields)
        number = self._kinds.setdefault(kind, len(self._kinds))
        name = demangled(name)
        self._events.append((*place, number, self._names.setdefault(name, len(self._names)), row))

    def _stack(self) -> None:
        """Place each span on the first track of its lane that is free, so that open spans are stacked."""
        for span, end, last, fields in sorted(self._spans, key=lambda done: done[0].order):
            ends = self._lanes.setdefault(span.thread, [])
            depth = next((index for index, free in enumerate(ends) if free < span.order), len(ends))
            begin = int(str(span.start["time"]))
            category = self._category(span)
            self._remember(span, category)
            place = (begin, end, span.order, last)
            if depth == MOST_TRACKS:
                self._add(
                    span.thread, 0, span.stem, span.name, (begin, begin, span.order, span.order), fields, category
                )
                continue
            if depth == len(ends):
                ends.append(last)
            ends[depth] = last
            self._add(span.thread, depth + 1, span.stem, span.name, place, fields, category)
        self._spans.clear()

    def _category(self, span: Span) -> str:
        """Return the category of a span: the category of its kind, or a category of kernels if it runs a kernel."""
        is_kernel = bool(span.kernel) and span.stem in ("packet", "command")
        found = "kernel" if is_kernel else _CATEGORY.get(span.stem.partition("-")[0], "other")
        if found != "kernel" or not is_of_runtime(span.kernel):
            return found
        # Without the name of any kernel, no kernel is known to be one of the run-time library.
        return "run-time kernel" if span.kernel and self._open.has_own_kernels else found

    def _remember(self, span: Span, category: str) -> None:
        """Record which wave, hart or kernel a span shows, for the findings that name it."""
        start, number = span.start, len(self._events)
        if span.stem == "wave" and isinstance(group := start.get("group"), list):
            self._units.setdefault((f"wave {start.get('wave')}", ",".join(map(str, group))), []).append(number)
        elif span.stem == INSTANCE:
            self._units.setdefault((f"hart {start.get('hart')}", ""), []).append(number)
        elif category == "kernel":
            self._units.setdefault((demangled(span.kernel or span.name),), []).append(number)
            self._units.setdefault((), []).append(number)

    def _place(self) -> dict[int, int]:
        """Place the findings of checks: return the events that show their waves or kernels, by number in the trace.

        A finding becomes an event of its own if the trace has no such event for it, or several.
        """
        found = {}
        for order, record in self._placed:
            wave = (str(record.get("by", "")), str(record.get("work_group", "")))
            kernel = (demangled(str(record.get("kernel", ""))),)
            candidates = (self._units.get(key, []) for key in (wave, kernel, ()))
            only = next((each[0] for each in candidates if len(each) == 1), None)
            if only is not None:
                found[order] = only
                continue
            fields = {name: value for name, value in record.items() if name not in ("time", "event", DIAGNOSTIC)}
            self._add(LISTED, 0, FINDING, FINDING, (self._time, self._time, order, order), fields)
        self._placed.clear()
        return found

    def columns(
        self, kernels: Mapping[int, str] | None = None
    ) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """Return the data of the page: names and shapes, and arrays by name. Events are sorted by track.

        `kernels` has the names of functions by address, for kernels that no event names. This ends all open spans;
        afterwards no event may be added.
        """
        for span in self._open.rest():
            self._spans.append((span, self._time, self._count - 1, {**span.fields({}), "unfinished": True}))
        self._stack()
        placed = self._place()
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
        event_of[table[:, 2]] = np.arange(len(table))  # an event that ends a span stands for that span
        row_of = np.empty(len(table), dtype=np.int64)
        row_of[np.array(order, dtype=np.int64)] = np.arange(len(table))
        for number, event in placed.items():
            event_of[number] = row_of[event]
        arrays["category"] = narrow(np.array([CATEGORIES.index(self._categories[each]) for each in order], np.int64))
        marks = np.zeros(len(table), dtype=np.uint8)
        marks[[int(event_of[each.event]) for each in self._findings]] = 1
        arrays["marks"] = marks
        snapshots = self.snapshots.columns(event_of)
        found = _merged(self._findings)
        findings = [self._finding(each, event_of, table, snapshots) for each in found[:MOST_FINDINGS]]
        named = {f"{UNNAMED}{address:#x}": name for address, name in (kernels or {}).items()}
        about = {
            "kinds": list(self._kinds),
            "names": [named.get(each, each) for each in self._names],
            "tracks": tracks,
            "tables": [self._columns(kind, arrays) for kind in self._kinds],
            "findings": findings,
            "findingCount": len(found),
            "snapshots": snapshots,
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

    def _finding(
        self, group: Sequence[Finding], event_of: Any, table: Any, snapshots: Sequence[Sequence[Any]]
    ) -> dict[str, Any]:
        """Return a finding as data for the page; `group` has its reports by events, the fullest one first."""
        first = group[0]
        events = sorted({int(event_of[each.event]) for each in group}, key=lambda event: int(table[event, 2]))
        spans = [event for event in events if table[event, 2] != table[event, 3]]
        pc = next((each.pc for each in group if each.pc), "")
        taken = [number for number, each in enumerate(snapshots) if (each[3] == pc if pc else each[0] in events)]
        taken.sort(key=lambda number: snapshots[number][0] not in events)  # the finding's launch is first
        rule, clause = next(((each.rule, each.clause) for each in group if each.rule), ("", ""))
        return {
            "event": (spans or events)[0],
            "events": events,
            "what": first.what,
            "message": first.message,
            "rule": rule,
            "clause": clause,
            "diagnostic": first.diagnostic,
            "pc": pc,
            "snapshot": taken[0] if taken else -1,
        }

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
        """Return the counters to draw as curves, each with its name; add arrays with their changes to `arrays`."""
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
        """Return the address ranges that events access; nearby ranges are merged.

        The accesses are added to `arrays`."""
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
    """Convert an array of numbers to the smallest element type of JavaScript's typed arrays that can hold them.

    Numbers from 2**32 on and negative numbers become doubles."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    kind = "u1" if high < 1 << 8 else "u2" if high < 1 << 16 else "u4" if high < 1 << 32 else "f8"
    return values.astype(f"<{kind}" if low >= 0 else "<f8")


def finding_of(order: int, record: Record) -> Finding | None:
    """Return the definite or likely mistake that event number `order` reports; None if it reports none."""
    kind = str(record["event"])
    if not _is_finding(kind, record):
        return None
    texts = (record[name] for name in ("error", "message", "finding", "text") if record.get(name) is not None)
    message = str(next(texts, ""))
    rule, clause = str(record.get("rule") or ""), ""
    if named := CLAUSE.search(message):
        rule, clause = named.groups()
        message = message.replace(named.group(), "").rstrip(", ")
    known: Any = record.get(DIAGNOSTIC) or ""
    if message and not known and record.get("pc") is not None and "pc 0x" not in message:
        places = ((name, record.get(name)) for name in ("pc", "hart", "instance"))
        message = ", ".join([message, *(f"at {name} {place}" for name, place in places if place is not None)])
    what = str(record.get("check") or kind)
    fields = {name: value for name, value in record.items() if name not in ("time", "event")}
    message = message or " ".join(f"{name}={value_text(value)}" for name, value in fields.items())
    pc = str(known.get("pc") or "") if isinstance(known, dict) else ""
    named = PC.search(message)
    pc = pc or (named[1] if named else "") or (str(record["pc"]) if record.get("pc") else "")
    return Finding(order, what, message, rule, clause, known, pc)


def _merged(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Group reports by their mistake, in the order of the first reports; the fullest report of a group comes first.

    Several events report one error on its way through the device. A wrong access that fails is reported by a fault and
    by the check of memory, whose diagnostic is the fuller one.
    """
    groups: dict[object, list[Finding]] = {}
    for each in findings:
        groups.setdefault(each.mistake, []).append(each)
    by_pc: dict[str, list[Finding]] = {}
    for group in groups.values():
        if group[0].pc and not _is_of_check(group[0]):
            by_pc.setdefault(group[0].pc, group)
    merged = []
    for group in groups.values():
        if _is_of_check(group[0]) and (fault := by_pc.get(group[0].pc)) is not None:
            fault[:0] = group
        else:
            merged.append(group)
    return merged


def _is_of_check(found: Finding) -> bool:
    """Return True for a finding of a check of allocations, which also examines accesses that fault."""
    kind = CHECKS.get(found.what.partition("/")[0])
    return kind is not None and kind.guards_allocations


def _is_finding(kind: str, record: Record) -> bool:
    return _sounds_bad(kind) or record.get("error") is not None or ("check" in record and "message" in record)


@lru_cache(1024)
def _sounds_bad(kind: str) -> bool:
    endings = (*FAULTS, "-errored", "-failed", "-aborted", "hazard")
    return kind.endswith(endings) or kind in ("stale-read", "incoherent", "trapped")


def record_text(record: dict[str, Any]) -> str:
    """Return a command or packet as text: its name and its fields, with large numbers in hex.

    Fields that repeat the name, or that the document reserves, are left out.
    """
    fields = (
        f"{name}={hex(value) if type(value) is int and value > 9 else value_text(value)}"
        for name, value in record.items()
        if name not in ("type", "type_value") and not name.startswith(("unused", "reserved"))
    )
    return " ".join((str(record.get("type", "")), *fields)).rstrip()


def command_text(command: Any) -> str:
    """Return a user command of Acceldev as text, with its name as in the document."""
    if not isinstance(command, dict):
        return value_text(command)
    name, _, fields = record_text(command).partition(" ")
    return f"{name.upper()} {fields}".rstrip()


def _number(value: Any) -> int:
    """Return a number that a trace has as an int or in hex."""
    return value if isinstance(value, int) else int(str(value), 0)


def _subject(record: Record) -> str:
    """Return as text the command or packet that an event starts, such as ``write-reg64(index=8 value=0x10000)``."""
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
    """Return the value of a field as a table cell: text unchanged, "" for a missing value, a command as in a list."""
    if isinstance(value, dict) and "type" in value:
        return record_text(value)
    return "" if value is None else value if isinstance(value, str) else value_text(value)


def _rank(lane: str) -> tuple[int, str, tuple[int, ...]]:
    word = lane.partition(" ")[0]
    digits = tuple(map(int, re.findall(r"\d+", lane)))
    return _ORDER.index(word) if word in _ORDER else len(_ORDER), re.sub(r"\d+", "", lane), digits


# ---- summary ---------------------------------------------------------------------------------------------------------
# A summary of a trace, as data: the number of events of each kind, duration, and findings.


Document = dict[str, Any]

MOST_WRONG: Final = 20
"""The maximum number of findings that a summary shows; all are counted."""


def describe(records: Iterable[Record]) -> Document:
    """Return a summary of a trace as data; times are in guest instructions.

    The events are read one by one.
    """
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
            if wrong <= MOST_WRONG:
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
    """Yield the lines of a summary that `describe` returned."""
    yield f"trace: {document['events']} events, from time {document['first_time']} to {document['last_time']}"
    width = max(map(len, document["kinds"]), default=0)
    for kind, count in document["kinds"].items():
        yield f"  {kind:<{width}}  {count}"
    if document["findings"]:
        yield f"errors and warnings: {document['findings']}"
    for each in document["first_findings"]:
        rule = f" [{each['rule']}]" if each["rule"] else ""
        yield f"  event {each['event']}: {each['what']}: {each['message']}{rule}"
