"""Differences between two campaigns, or between two selections of the tasks of one campaign.

This module computes them and writes them as text, JUnit XML and HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from html import escape
from typing import Final
from xml.etree import ElementTree

from softcard.campaign.task import COLUMNS, CampaignError, Row, column
from softcard.core.display import encodable
from softcard.core.errors import close_to

GOOD: Final = "ok"
FACTOR: Final = 1.5
"""The ratio of two run times from which on a task counts as slower or faster."""
LEAST_SECONDS: Final = 0.01
"""The shortest run time that is compared; differences between shorter times are noise."""
Key = tuple[object, ...]


class Kind(StrEnum):
    """The kinds of differences between two runs of a task, the worst first."""

    NEW = "new failure"
    OTHER = "other failure"
    CHANGED = "changed digest"
    FIXED = "fixed"
    SLOWER = "slower"
    FASTER = "faster"
    MISSING = "missing"
    ADDED = "added"


@dataclass(frozen=True, slots=True)
class Difference:
    """A task whose two runs differ.

    `before` or `after` is None if that campaign, or that selection of tasks, does not contain the task."""

    kind: Kind
    before: Row | None
    after: Row | None

    @property
    def row(self) -> Row:
        """The result row of the later run, or of the only run if the task was run once."""
        found = self.after if self.after is not None else self.before
        assert found is not None
        return found

    def description(self) -> str:
        """Return the difference as text."""
        if self.before is None or self.after is None:
            return f"{self.row['outcome']} {self.row['message'].splitlines()[0] if self.row['message'] else ''}".strip()
        if self.kind in (Kind.SLOWER, Kind.FASTER):
            return f"{_ms(self.before)} before, {_ms(self.after)} after"
        if self.kind is Kind.CHANGED:
            return f"{self.before['digest']} before, {self.after['digest']} after"
        return f"{_outcome(self.before)} before, {_outcome(self.after)} after"


@dataclass(frozen=True, slots=True)
class Comparison:
    """All differences between the two campaigns `names`, and the number of tasks that both have."""

    names: tuple[str, str]
    keys: tuple[str, ...]
    common: int
    differences: tuple[Difference, ...] = field(repr=False)

    @property
    def is_worse(self) -> bool:
        """True if a task newly fails, fails in another way, or gives another result."""
        return any(each.kind in (Kind.NEW, Kind.OTHER, Kind.CHANGED) for each in self.differences)

    def counts(self) -> dict[Kind, int]:
        """Return the number of differences of each kind that occurs."""
        found = {kind: sum(each.kind is kind for each in self.differences) for kind in Kind}
        return {kind: count for kind, count in found.items() if count}

    def of(self, kind: Kind) -> Iterator[Difference]:
        """Yield the differences of the given kind."""
        return (each for each in self.differences if each.kind is kind)


def compare(before: Iterable[Row], after: Iterable[Row], names: tuple[str, str]) -> Comparison:
    """Return the differences between two campaigns, whose result rows are `before` and `after`."""
    return _compared(_by_key(before, COLUMNS), _by_key(after, COLUMNS), names, COLUMNS)


def compare_columns(rows: Iterable[Row], one: str, other: str) -> Comparison:
    """Return the differences between two selections of one campaign's tasks.

    A selection is written like ``options=-O0`` or ``compiler=a,options=-O2``. Two tasks correspond if all columns that
    the selections do not name are equal.
    """
    wanted = _parsed(one), _parsed(other)
    if wanted[0].keys() != wanted[1].keys():
        raise CampaignError(f"{one!r} and {other!r} must name the same columns")
    keys = tuple(name for name in COLUMNS if name not in wanted[0])
    sides = []
    known = list(rows)
    for each in wanted:
        chosen = [row for row in known if all(str(column(row, name)) == value for name, value in each.items())]
        if not chosen:
            values = {name: ", ".join(sorted({str(column(row, name)) for row in known})) for name in each}
            listed = "; ".join(f"{name} is {text}" for name, text in values.items())
            text = ",".join(f"{name}={value}" for name, value in each.items())
            raise CampaignError(f"no task has {text}: in the results, {listed if known else 'there are no tasks'}")
        sides.append(_by_key(chosen, keys))
    return _compared(sides[0], sides[1], (one, other), keys)


def _parsed(text: str) -> dict[str, str]:
    found = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or name not in COLUMNS:
            raise CampaignError(
                f"unknown column {part!r}, expected NAME=VALUE with a NAME of {', '.join(COLUMNS)}"
                f"{close_to(name, COLUMNS)}"
            )
        found[name] = value
    return found


def _by_key(rows: Iterable[Row], keys: tuple[str, ...]) -> dict[Key, Row]:
    return {tuple(column(row, name) for name in keys): row for row in rows}


def _compared(
    before: Mapping[Key, Row], after: Mapping[Key, Row], names: tuple[str, str], keys: tuple[str, ...]
) -> Comparison:
    found = []
    for key, row in before.items():
        if key not in after:
            found.append(Difference(Kind.MISSING, row, None))
        elif (kind := _kind(row, after[key])) is not None:
            found.append(Difference(kind, row, after[key]))
    found += [Difference(Kind.ADDED, None, row) for key, row in after.items() if key not in before]
    order = list(Kind)
    found.sort(key=lambda each: order.index(each.kind))
    return Comparison(names, keys, len(before.keys() & after.keys()), tuple(found))


def _kind(before: Row, after: Row) -> Kind | None:
    """Return the kind of difference between the runs `before` and `after`; None if they do not differ."""
    was_good, is_good = before["outcome"] == GOOD, after["outcome"] == GOOD
    if was_good != is_good:
        return Kind.FIXED if is_good else Kind.NEW
    if not is_good:
        return Kind.OTHER if before["signature"] != after["signature"] else None
    if before["digest"] != after["digest"]:
        return Kind.CHANGED
    times = before["seconds"], after["seconds"]
    if max(times) < LEAST_SECONDS or max(times) < FACTOR * min(times):
        return None
    return Kind.SLOWER if times[1] > times[0] else Kind.FASTER


def _ms(row: Row) -> str:
    return f"{row['seconds'] * 1e3:.1f} ms"


def _outcome(row: Row) -> str:
    return f"{row['outcome']}{' (' + row['signature'] + ')' if row['signature'] else ''}"


# ---- output ----------------------------------------------------------------------------------------------------------
# A comparison as text, as JUnit XML, and as an HTML page.


MOST_SHOWN: Final = 20
"""The maximum number of differences of each kind that the text shows."""
BAD: Final = (Kind.NEW, Kind.OTHER, Kind.CHANGED)
_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin-bottom: 2rem; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #8884; vertical-align: top; }
td { font-family: ui-monospace, monospace; font-size: 13px; overflow-wrap: anywhere; }
h2.bad { color: #c33; }
"""


def name_of(difference: Difference, comparison: Comparison) -> str:
    """Return text that identifies the task of `difference`: the columns in `comparison.keys`, as ``name=value``."""
    words = (
        f"{name}={column(difference.row, name)}"
        for name in comparison.keys
        if column(difference.row, name) not in ("", None)
    )
    return " ".join(words)


def as_text(comparison: Comparison) -> str:
    """Return a text with the number of differences of each kind and the first MOST_SHOWN differences of each kind."""
    counts = comparison.counts()
    listed = ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "no difference"
    lines = [f"{comparison.names[0]} and {comparison.names[1]}: {comparison.common} tasks of both, {listed}"]
    for kind, count in counts.items():
        lines += ["", f"{kind}:"]
        for number, each in enumerate(comparison.of(kind)):
            if number == MOST_SHOWN:
                lines.append(f"  ... and {count - MOST_SHOWN} more")
                break
            lines.append(f"  {each.row['id']}  {name_of(each, comparison)}: {each.description()}")
    return "\n".join(lines)


def as_junit(comparison: Comparison) -> str:
    """Return JUnit XML for build servers.

    Each regression is a failed test, and each other difference is a passed test. One more passed test stands
    for all tasks without a difference."""
    failed = sum(each.kind in BAD for each in comparison.differences)
    same = comparison.common - sum(
        each.before is not None and each.after is not None for each in comparison.differences
    )
    suite = ElementTree.Element(
        "testsuite", name=encodable(" and ".join(comparison.names)), tests=str(1 + len(comparison.differences)),
        failures=str(failed), errors="0",
    )  # fmt: skip
    ElementTree.SubElement(suite, "testcase", classname="tasks", name=f"{same} without a difference", time="0")
    for each in comparison.differences:
        case = ElementTree.SubElement(
            suite, "testcase", classname=encodable(each.row["program"]), name=encodable(name_of(each, comparison)),
            time=f"{each.row['seconds']:.6f}",
        )  # fmt: skip
        if each.kind in BAD:
            failure = ElementTree.SubElement(
                case, "failure", type=str(each.kind), message=encodable(each.description())
            )
            failure.text = encodable(f"task {each.row['id']}\n{each.row['message']}")
        else:
            ElementTree.SubElement(case, "system-out").text = encodable(f"{each.kind}: {each.description()}")
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, "unicode", xml_declaration=True) + "\n"


def _escape(text: str) -> str:
    return escape(encodable(text))


def as_html(comparison: Comparison) -> str:
    """Return a comparison as a self-contained HTML page."""
    title = _escape(" and ".join(comparison.names))
    parts = [f"<!doctype html><meta charset=utf-8><title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>"]
    parts.append(f"<p>{comparison.common} tasks of both.</p>")
    for kind, count in comparison.counts().items():
        bad = " class=bad" if kind in BAD else ""
        head = "".join(f"<th>{escape(name)}</th>" for name in ("task", *comparison.keys, "what"))
        parts.append(f"<h2{bad}>{escape(str(kind))}: {count}</h2><table><tr>{head}</tr>")
        for each in comparison.of(kind):
            cells = [each.row["id"], *(str(column(each.row, name)) for name in comparison.keys), each.description()]
            parts.append(f"<tr>{''.join(f'<td>{_escape(cell)}</td>' for cell in cells)}</tr>")
        parts.append("</table>")
    return "\n".join(parts) + "\n"
