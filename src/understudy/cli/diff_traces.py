"""The difference of two traces, as `understudy diff` tells it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

from understudy.cli.diff_sides import EQUAL, Found, Side, Wanted
from understudy.cli.tables import aligned
from understudy.cli.trace import lines_of
from understudy.core.errors import WireError
from understudy.trace.chrome import thread_name
from understudy.trace.difference import Ignored, first_difference
from understudy.trace.page_file import find_rule
from understudy.trace.reading import Record
from understudy.trace.text import record_line, value_text
from understudy.trace.timeline import CLAUSE

WIDE: Final = 50
"""Characters of a value that are shown."""


def traces(one: Side, other: Side, wanted: Wanted) -> Found:
    """The first event that differs, what led there, and the clauses it names."""
    ignored = Ignored.of(wanted.ignored)
    current: list[Path] = [one.path]

    def lines(side: Side) -> Iterator[bytes]:
        for line in lines_of(side.file, side.path):
            current[0] = side.path
            yield line

    try:
        common, found = first_difference(lines(one), lines(other), ignored, wanted.context)
    except WireError as error:
        raise error.at("file", str(current[0])) from None
    if found is None:
        return {"equal": True, "common": common, "lines": [f"{EQUAL}: {common:,} events"]}
    names = str(one.path), str(other.path)
    rules = _rules(found.one, found.other)
    text = [f"event {found.number:,} differs" + _where(found.one or found.other)]
    text += [f"  {line}" for line in _told(found.one, found.other, names, found.missing, found.added)]
    if found.one and found.other and not (found.missing or found.added):
        skipped = ignored.of_kind(str(found.one["event"]))
        text += ["", *_fields(found.one, found.other, skipped, names)]
    else:
        text += [
            f"  {name}: {'has ended' if event is None else record_line(event)}"
            for name, event in zip(names, (found.one, found.other), strict=True)
        ]
    for each in rules:
        text += ["", f"clause {each['clause']} [{each['rule']}]", f"  {each['text']}"]
    if found.before:
        text += ["", f"before it, in both ({min(common, wanted.context)} of {common:,} common events):"]
        text += [f"  {record_line(event)}" for event in found.before]
    document = asdict(found)
    return {"equal": False, "common": common, **document, "rules": rules, "lines": text}


def _where(event: Record | None) -> str:
    return "" if event is None else f": time {event['time']}, {thread_name(event)}, {event['event']}"


def _told(
    one: Record | None, other: Record | None, names: tuple[str, str], missing: int | None, added: int | None
) -> Iterator[str]:
    if one is None or other is None:
        lacks, has = names if one is None else names[::-1]
        yield f"{lacks} ends here, {has} goes on"
    elif missing or added:
        count, has, lacks = (missing, *names) if missing else (added, *names[::-1])
        yield f"{count} event{'s' if count != 1 else ''} of {has} {'are' if count != 1 else 'is'} missing in {lacks}"
    elif one["event"] != other["event"]:
        yield f"{one['event']} in {names[0]}, {other['event']} in {names[1]}"


def _fields(one: Record, other: Record, skipped: frozenset[str], names: tuple[str, str]) -> list[str]:
    """The fields of both events, records in them taken apart; those that differ, and are not skipped, are marked."""
    sides = _flat(one), _flat(other)
    rows: list[tuple[str, ...]] = [("  field", *names, "")]
    for name in dict.fromkeys((*sides[0], *sides[1])):
        cells = [value_text(side[name]) if name in side else "absent" for side in sides]
        is_marked = cells[0] != cells[1] and skipped.isdisjoint(name.split("."))
        rows.append((f"  {name}", *_windows(*cells), "differs" if is_marked else ""))
    return aligned(rows)


def _flat(record: Record, prefix: str = "") -> Record:
    found: Record = {}
    for name, value in record.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def _windows(one: str, other: str) -> tuple[str, str]:
    """Two texts where they first differ, if they are long."""
    if max(len(one), len(other)) <= WIDE:
        return one, other
    pairs = enumerate(zip(one, other, strict=False))
    at = next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
    start = max(at - WIDE // 4, 0) if at > WIDE // 2 else 0

    def cut(text: str) -> str:
        return f"{'...' if start else ''}{text[start : start + WIDE]}{'...' if len(text) > start + WIDE else ''}"

    return cut(one), cut(other)


def _rules(*events: Record | None) -> list[dict[str, str]]:
    """The rules that events name, and what they say."""
    named: dict[str, str] = {}
    for event in events:
        for name, value in (event or {}).items():
            if isinstance(value, str):
                named |= dict(CLAUSE.findall(value))
                if name == "rule":
                    named.setdefault(value, "")
    found = []
    for name, clause in named.items():
        rule = find_rule(name)
        said = (rule.clause, rule.text) if rule else (clause, "")
        found.append({"rule": name, "clause": said[0], "text": said[1]})
    return found
