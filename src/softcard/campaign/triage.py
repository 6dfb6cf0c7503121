"""The triage of a campaign's failures: it groups equal failures.

A program of one generator and seed has one result for all compilers, options, engines and checks. The
expected result is the result of the engine ``native`` if the campaign includes this engine, or else the most
frequent result. A run is a failure if it does not end normally or has another result. Failures are grouped by
signature. The signature is the outcome and its message, or, for different results, the compilers and engines
that disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from softcard.campaign.compare import GOOD
from softcard.campaign.compilation import NATIVE
from softcard.campaign.generators.registry import GENERATORS
from softcard.campaign.perform import generated_kind
from softcard.campaign.task import GENERATE, Row, column

SAME: Final = ("program", "content", "kernel", "input", "agent", "seed")
"""The columns of a row that determine a program's result.

With the check "strict", a wrong program may have several results.
"""


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that failed, `row`, and a run of the same program with the expected result, `good`.

    `good` is None if there is no such run."""

    row: Row
    good: Row | None

    @property
    def is_difference(self) -> bool:
        """True if both runs ended, with different results."""
        return bool(self.row["outcome"] == GOOD)


@dataclass(slots=True)
class Group:
    """The failures with one signature; a reproduction reduces the program of the first one."""

    signature: str
    failures: list[Failure] = field(default_factory=list)

    @property
    def seeds(self) -> list[int]:
        """The seeds of the failing programs, sorted."""
        return sorted({each.row["seed"] for each in self.failures})


def groups(rows: Iterable[Row]) -> list[Group]:
    """Return all failures, grouped by signature, the most frequent first."""
    found: dict[str, Group] = {}
    for same in _programs(rows):
        right = _right(same)
        failures = list(_failures(same, right))
        differs = _disagreement(same, [each for each in failures if each.is_difference], right)
        for failure in failures:
            signature = differs if failure.is_difference else failure.row["signature"]
            found.setdefault(signature, Group(signature)).failures.append(failure)
    return sorted(found.values(), key=lambda group: (-len(group.seeds), group.signature))


def _programs(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield, for each pair of a program and its input, the rows of its runs."""
    found: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        program = row["program"]
        kind = program.removeprefix(GENERATE) if program.startswith(GENERATE) else generated_kind(program)
        everywhere = bool(kind) and GENERATORS[kind].everywhere
        same = [name for name in SAME if name != "agent" or not everywhere]
        found.setdefault(tuple(column(row, name) for name in same), []).append(row)
    yield from found.values()


def _right(same: list[Row]) -> Row | None:
    """Return the run in `same` (all runs of one program and input) that has the expected result.

    This is the native run, or else a run with the most frequent result; None if no run ended with a result."""
    good = [row for row in same if row["outcome"] == GOOD]
    own = next((row for row in good if row["engine"] == NATIVE), None)
    usual = Counter(row["digest"] for row in good).most_common(1)
    return own or (next((row for row in good if row["digest"] == usual[0][0]), None) if usual else None)


def _failures(same: list[Row], right: Row | None) -> Iterator[Failure]:
    for row in same:
        if row["outcome"] != GOOD or (right is not None and row["digest"] != right["digest"]):
            yield Failure(row, right)


def _disagreement(same: list[Row], failures: list[Failure], right_one: Row | None) -> str:
    """Return the signature of different results: the makers (compilers and engines) of the failing runs.

    `same` has all runs of one program and input, `failures` the failing ones, and `right_one` a run with the
    expected result. The signature also names the makers of the expected result if it is the native engine's, or
    if a wrong result is as frequent."""
    if not failures or right_one is None:
        return ""
    several = len({row["agent"] for row in same}) > 1
    names = sorted({_maker(each.row, several) for each in failures})
    if right_one["engine"] == NATIVE:
        return f"{same[0]['program'].removeprefix(GENERATE)} differs: {', '.join(names)} against {NATIVE}"
    [(right, most)] = Counter(row["digest"] for row in same if row["outcome"] == GOOD).most_common(1)
    alike = max(Counter(each.row["digest"] for each in failures).values()) == most
    others = sorted({_maker(row, several) for row in same if row["outcome"] == GOOD and row["digest"] == right})
    against = f" against {', '.join(others)}" if alike else ""
    return f"{same[0]['program'].removeprefix(GENERATE)} differs: {', '.join(names)}{against}"


def _maker(row: Row, with_agent: bool) -> str:
    """Return the maker of a run: its compiler, options and engine, and with `with_agent` its agent."""
    engine = "" if row["engine"] == "jit" else row["engine"]
    words = (row["agent"] if with_agent else "", row["compiler"], row["options"], engine)
    return " ".join(word for word in words if word) or row["engine"]
