"""Where two traces part: the first event in which they differ, and what both have before it.

Both are read side by side and none is kept: lines that are equal byte by byte are not even parsed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Final

from understudy.core.errors import WireError
from understudy.trace.reading import Record, read_records
from understudy.trace.values import Plain

SEARCHED: Final = 1000
"""Events behind the difference that are looked through for where both go on alike."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """What may differ: `fields` of any event, (kind, field) of `pairs`, and events of the `kinds`, as if not there.

    Fields of records in events count as well.
    """

    fields: frozenset[str] = frozenset()
    pairs: frozenset[tuple[str, str]] = frozenset()
    kinds: frozenset[str] = frozenset()

    @classmethod
    def of(cls, names: Iterable[str]) -> Ignored:
        """From FIELD, KIND.FIELD and KIND.*; `WireError` for a name that is none of these."""
        fields, pairs, kinds = set(), set(), set()
        for name in names:
            kind, dot, field = name.rpartition(".")
            if not field or (dot and not kind):
                raise WireError(f"{name!r} is nothing to ignore, expected FIELD, KIND.FIELD or KIND.*")
            if not dot:
                fields.add(name)
            elif field == "*":
                kinds.add(kind)
            else:
                pairs.add((kind, field))
        return cls(frozenset(fields), frozenset(pairs), frozenset(kinds))

    def of_kind(self, kind: str) -> frozenset[str]:
        """Fields that may differ in events of a kind."""
        return self.fields | {field for of, field in self.pairs if of == kind}

    def differs(self, one: Record, other: Record) -> list[str]:
        """Names of the fields in which two events differ, in order; ``event`` alone where they are of two kinds."""
        kinds = str(one["event"]), str(other["event"])
        if kinds[0] != kinds[1]:
            return ["event"]
        skipped = self.of_kind(kinds[0])
        names = dict.fromkeys((*one, *other))
        return [name for name in names if name not in skipped and not _alike(one, other, name, skipped)]


@dataclass(frozen=True, slots=True)
class Difference:
    """Two traces part at event `number`, counted from 1 without what is ignored. None: that trace has ended.

    `fields` are those that differ. `before` are the last common events as the first trace has them. `missing` and
    `added` count the events of the first trace that the second lacks there, and the other way round; None where it is
    not as simple as that.
    """

    number: int
    one: Record | None
    other: Record | None
    fields: list[str]
    before: list[Record]
    missing: int | None = None
    added: int | None = None


def first_difference(
    one: Iterable[bytes], other: Iterable[bytes], ignored: Ignored | None = None, context: int = 5
) -> tuple[int, Difference | None]:
    """The number of common events of two traces, by their lines, and the difference behind them.

    `context`: how many common events to give. `WireError` with its line for what is no event.
    """
    skipped = ignored or Ignored()
    last: deque[bytes] = deque(maxlen=context)
    count = 0
    left, right = _Lines(one, skipped.kinds), _Lines(other, skipped.kinds)
    for mine, theirs in zip_longest(left, right):
        if mine != theirs:
            a = None if mine is None else left.parsed(mine)
            b = None if theirs is None else right.parsed(theirs)
            fields = [] if a is None or b is None else skipped.differs(a, b)
            if a is None or b is None or fields:
                before = [next(read_records([line])) for line in last]
                missing, added = _moved(left, right, a, b, skipped)
                return count, Difference(count + 1, a, b, fields, before, missing, added)
        count += 1
        last.append(mine or b"")
    return count, None


class _Lines:
    """The lines of a trace that are events, without those of kinds that are skipped."""

    def __init__(self, lines: Iterable[bytes], kinds: frozenset[str]) -> None:
        self._lines = iter(lines)
        self._kinds = kinds
        self._number = 0

    def __iter__(self) -> Iterator[bytes]:
        for line in self._lines:
            self._number += 1
            if line.strip() and not (self._kinds and self.parsed(line)["event"] in self._kinds):
                yield line.rstrip(b"\r\n")

    def ahead(self) -> Iterator[Record]:
        """The next events, up to what is none."""
        with suppress(WireError):
            for line in islice(self, SEARCHED):
                yield self.parsed(line)

    def parsed(self, line: bytes) -> Record:
        """The event of a line that was just read."""
        try:
            return next(read_records([line]))
        except WireError as error:
            raise WireError(error.message).at("line", self._number) from None


def _moved(
    left: _Lines, right: _Lines, a: Record | None, b: Record | None, ignored: Ignored
) -> tuple[int | None, int | None]:
    """How many events of one trace come before the other's event; the times of events that moved may differ."""
    skipped = Ignored(ignored.fields | {"time"}, ignored.pairs, ignored.kinds)
    if a is None or b is None:
        return None, None
    behind_a, behind_b = [a, *left.ahead()], [b, *right.ahead()]
    for count in range(1, SEARCHED + 1):
        if count < len(behind_a) and _go_on_alike(behind_a[count:], behind_b, skipped):
            return count, None
        if count < len(behind_b) and _go_on_alike(behind_a, behind_b[count:], skipped):
            return None, count
    return None, None


def _go_on_alike(one: list[Record], other: list[Record], ignored: Ignored) -> bool:
    """Whether the next three events, or all that there are, are the same."""
    return not any(ignored.differs(a, b) for a, b in zip(one[:3], other[:3], strict=False))


def _alike(one: Record, other: Record, name: str, skipped: frozenset[str]) -> bool:
    return (name in one) == (name in other) and _same(one.get(name), other.get(name), skipped)


def _same(one: Plain, other: Plain, skipped: frozenset[str]) -> bool:
    """Whether two values are the same, but for fields of records that are skipped."""
    match one, other:
        case dict(), dict():
            return all(_alike(one, other, name, skipped) for name in {*one, *other} - skipped)
        case list(), list():
            return len(one) == len(other) and all(_same(a, b, skipped) for a, b in zip(one, other, strict=True))
        case _:
            return type(one) is type(other) and one == other
