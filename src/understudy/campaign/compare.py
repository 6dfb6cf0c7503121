"""What is different between two campaigns, or between two columns of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from understudy.campaign.errors import CampaignError
from understudy.campaign.task import COLUMNS
from understudy.core.errors import close_to

GOOD: Final = "ok"
FACTOR: Final = 1.5
"""What takes so many times as long, or as short, is told as slower or faster."""
LEAST_SECONDS: Final = 0.01
"""Times below are noise."""
Row = Mapping[str, Any]
Key = tuple[Any, ...]


class Kind(StrEnum):
    """How two runs of the same differ, the worst first."""

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
    """One task that differs; None on the side that does not have it."""

    kind: Kind
    before: Row | None
    after: Row | None

    @property
    def row(self) -> Row:
        """Whichever there is, the later one first."""
        found = self.after if self.after is not None else self.before
        assert found is not None
        return found

    def told(self) -> str:
        """What is different."""
        if self.before is None or self.after is None:
            return f"{self.row['outcome']} {self.row['message'].splitlines()[0] if self.row['message'] else ''}".strip()
        if self.kind in (Kind.SLOWER, Kind.FASTER):
            return f"{_ms(self.before)} before, {_ms(self.after)} after"
        if self.kind is Kind.CHANGED:
            return f"{self.before['digest']} before, {self.after['digest']} after"
        return f"{_outcome(self.before)} before, {_outcome(self.after)} after"


@dataclass(frozen=True, slots=True)
class Comparison:
    """All differences between `names`, and how many tasks both sides have."""

    names: tuple[str, str]
    keys: tuple[str, ...]
    common: int
    differences: tuple[Difference, ...] = field(repr=False)

    @property
    def is_worse(self) -> bool:
        """Whether something fails, or gives another result, that did not before."""
        return any(each.kind in (Kind.NEW, Kind.OTHER, Kind.CHANGED) for each in self.differences)

    def counts(self) -> dict[Kind, int]:
        """How many differences there are of each kind that there is."""
        found = {kind: sum(each.kind is kind for each in self.differences) for kind in Kind}
        return {kind: count for kind, count in found.items() if count}

    def of(self, kind: Kind) -> Iterator[Difference]:
        """Differences of one kind."""
        return (each for each in self.differences if each.kind is kind)


def compare(before: Iterable[Row], after: Iterable[Row], names: tuple[str, str]) -> Comparison:
    """What is different between two campaigns."""
    return _compared(_by_key(before, COLUMNS), _by_key(after, COLUMNS), names, COLUMNS)


def compare_columns(rows: Iterable[Row], one: str, other: str) -> Comparison:
    """What is different between two columns of a campaign, each like ``options=-O0`` or ``compiler=a,options=-O2``.

    Tasks are the same where all columns are that are not named.
    """
    wanted = _parsed(one), _parsed(other)
    if wanted[0].keys() != wanted[1].keys():
        raise CampaignError(f"{one!r} and {other!r} do not name the same columns")
    keys = tuple(name for name in COLUMNS if name not in wanted[0])
    sides = []
    known = list(rows)
    for each in wanted:
        chosen = [row for row in known if all(str(row[name]) == value for name, value in each.items())]
        if not chosen:
            values = {name: ", ".join(sorted({str(row[name]) for row in known})) for name in each}
            listed = "; ".join(f"{name} is {text}" for name, text in values.items())
            text = ",".join(f"{name}={value}" for name, value in each.items())
            raise CampaignError(f"no task has {text}: {listed or 'there are no results'}")
        sides.append(_by_key(chosen, keys))
    return _compared(sides[0], sides[1], (one, other), keys)


def _parsed(text: str) -> dict[str, str]:
    found = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or name not in COLUMNS:
            raise CampaignError(
                f"no column {part!r}{close_to(name, COLUMNS)}: expected NAME=VALUE, of {', '.join(COLUMNS)}"
            )
        found[name] = value
    return found


def _by_key(rows: Iterable[Row], keys: tuple[str, ...]) -> dict[Key, Row]:
    return {tuple(row[name] for name in keys): row for row in rows}


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
    """How they differ, if they do."""
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
