"""Search for the first difference of two traces, with the common events before it.

Both traces are read in parallel, in constant memory; lines with equal bytes are not parsed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Final

from softcard.core.errors import WireError
from softcard.trace.values import Plain, Record, read_records

SEARCHED: Final = 1000
"""The number of events after a difference in which a common continuation of the traces is searched."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """The fields and events that a comparison ignores.

    - `fields`: names of fields that are ignored in any event
    - `pairs`: (kind of event, field) pairs
    - `kinds`: kinds of events that are ignored as a whole

    Ignored fields are also ignored in records within events."""

    fields: frozenset[str] = frozenset()
    pairs: frozenset[tuple[str, str]] = frozenset()
    kinds: frozenset[str] = frozenset()

    @classmethod
    def of(cls, names: Iterable[str]) -> Ignored:
        """Return the ignored items for `names` of the forms FIELD, KIND.FIELD and KIND.*.

        Any other form raises `WireError`.
        """
        fields, pairs, kinds = set(), set(), set()
        for name in names:
            kind, dot, field = name.rpartition(".")
            if not field or (dot and not kind):
                raise WireError(f"cannot ignore {name!r}, expected FIELD, KIND.FIELD or KIND.*")
            if not dot:
                fields.add(name)
            elif field == "*":
                kinds.add(kind)
            else:
                pairs.add((kind, field))
        return cls(frozenset(fields), frozenset(pairs), frozenset(kinds))

    def of_kind(self, kind: str) -> frozenset[str]:
        """Return the names of the ignored fields in events of the given kind."""
        return self.fields | {field for of, field in self.pairs if of == kind}

    def differs(self, one: Record, other: Record) -> list[str]:
        """Return the names of the fields in which two events differ, in order.

        If the kinds of the events differ, the only name is ``event``.
        """
        kinds = str(one["event"]), str(other["event"])
        if kinds[0] != kinds[1]:
            return ["event"]
        skipped = self.of_kind(kinds[0])
        names = dict.fromkeys((*one, *other))
        return [name for name in names if name not in skipped and not _alike(one, other, name, skipped)]


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two traces at event `number`, counted from 1 without ignored events.

    - `one`, `other`: the event of each trace; None if the trace has ended
    - `fields`: the names of the fields that differ
    - `before`: the last common events, as in the first trace
    - `missing`: the number of events of the first trace that the second one lacks
    - `added`: the number of events of the second trace that the first one lacks

    If the traces agree again after some events of one trace are skipped, either `missing` or `added` is the
    number of these events. Otherwise both are None."""

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
    """Return the number of common events of two traces, and the difference after them, or None.

    `one` and `other` are the lines of the traces; `context` is the number of common events to include in the
    difference. A line that is not an event raises `WireError` with the line number.
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
    """A reader of the lines of a trace that skips empty lines and events of the ignored `kinds`."""

    def __init__(self, lines: Iterable[bytes], kinds: frozenset[str]) -> None:
        self._lines = iter(lines)
        self._kinds = kinds
        self._number = 0

    def __iter__(self) -> Iterator[bytes]:
        for line in self._lines:
            self._number += 1
            if line.strip() and not (self._kinds and self.parsed(line)["event"] in self._kinds):
                yield line.rstrip(b"\r\n")

    def following(self) -> Iterator[Record]:
        """Yield the next events, at most `SEARCHED` and only up to the first line that is not an event."""
        with suppress(WireError):
            for line in islice(self, SEARCHED):
                yield self.parsed(line)

    def parsed(self, line: bytes) -> Record:
        """Return the event in `line`, the last line read; raise `WireError` with its number if it is not an event."""
        try:
            return next(read_records([line]))
        except WireError as error:
            raise WireError(error.message).at("line", self._number) from None


def _moved(
    left: _Lines, right: _Lines, a: Record | None, b: Record | None, ignored: Ignored
) -> tuple[int | None, int | None]:
    """Return how many events to skip in the first trace, or in the second one, so that both traces agree again.

    `a` and `b` are the events that differ; `left` and `right` return the following lines. One result is the
    number, and the other is None. Both are None if the traces do not agree again."""
    skipped = Ignored(ignored.fields | {"time"}, ignored.pairs, ignored.kinds)
    if a is None or b is None:
        return None, None
    rest_a, rest_b = [a, *left.following()], [b, *right.following()]
    for count in range(1, SEARCHED + 1):
        if count < len(rest_a) and _go_on_alike(rest_a[count:], rest_b, skipped):
            return count, None
        if count < len(rest_b) and _go_on_alike(rest_a, rest_b[count:], skipped):
            return None, count
    return None, None


def _go_on_alike(one: list[Record], other: list[Record], ignored: Ignored) -> bool:
    """Return True if the next three events (or all remaining ones, if fewer) of both traces are equal."""
    return not any(ignored.differs(a, b) for a, b in zip(one[:3], other[:3], strict=False))


def _alike(one: Record, other: Record, name: str, skipped: frozenset[str]) -> bool:
    return (name in one) == (name in other) and _same(one.get(name), other.get(name), skipped)


def _same(one: Plain, other: Plain, skipped: frozenset[str]) -> bool:
    """Return True if two values are equal; fields of records that are in `skipped` are not compared."""
    match one, other:
        case dict(), dict():
            return all(_alike(one, other, name, skipped) for name in {*one, *other} - skipped)
        case list(), list():
            return len(one) == len(other) and all(_same(a, b, skipped) for a, b in zip(one, other, strict=True))
        case _:
            return type(one) is type(other) and one == other
