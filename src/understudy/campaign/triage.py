"""What failed in a campaign, put together where it is the same, and made small.

Programs of one generator and seed have one result whatever compiler, options, engine and check made and ran them. What
most runs agree about is taken for it; a run that differs, or fails where others do not, is what is looked for. Failures
are the same where their signature is: the outcome and what it says, and, where results differ, who disagrees with whom.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from understudy.campaign.compare import GOOD
from understudy.campaign.generators.registry import GENERATORS
from understudy.campaign.task import GENERATE

SAME: Final = ("program", "content", "kernel", "input", "agent", "seed")
"""Runs with these in common have one result; check "strict" has several, where a program is wrong."""
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that failed, and a run of the same that did not; None where there is no such one."""

    row: Row
    good: Row | None

    @property
    def is_difference(self) -> bool:
        """Whether both ended, with different results."""
        return bool(self.row["outcome"] == GOOD)


@dataclass(slots=True)
class Group:
    """Failures with one signature; the first of them is reduced."""

    signature: str
    failures: list[Failure] = field(default_factory=list)

    @property
    def seeds(self) -> list[int]:
        """Of which programs, from the smallest on."""
        return sorted({each.row["seed"] for each in self.failures})


def groups(rows: Iterable[Row]) -> list[Group]:
    """All failures, those with one signature together, the most frequent first."""
    found: dict[str, Group] = {}
    for same in _programs(rows):
        failures = list(_failures(same))
        differs = _disagreement(same, [each for each in failures if each.is_difference])
        for failure in failures:
            signature = differs if failure.is_difference else failure.row["signature"]
            found.setdefault(signature, Group(signature)).failures.append(failure)
    return sorted(found.values(), key=lambda group: (-len(group.seeds), group.signature))


def _programs(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Runs of the same program with the same input."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        is_generated = row["program"].startswith(GENERATE)
        everywhere = is_generated and GENERATORS[row["program"].removeprefix(GENERATE)].everywhere
        same = [name for name in SAME if name != "agent" or not everywhere]
        found.setdefault(tuple(row[name] for name in same), []).append(row)
    yield from found.values()


def _failures(same: list[Row]) -> Iterator[Failure]:
    good = [row for row in same if row["outcome"] == GOOD]
    usual = Counter(row["digest"] for row in good).most_common(1)
    right = next((row for row in good if row["digest"] == usual[0][0]), None) if usual else None
    for row in same:
        if row["outcome"] != GOOD or (right is not None and row["digest"] != right["digest"]):
            yield Failure(row, right)


def _disagreement(same: list[Row], failures: list[Failure]) -> str:
    """Who differs; from whom, where no more agree about the other result."""
    if not failures:
        return ""
    several = len({row["agent"] for row in same}) > 1
    names = sorted({_maker(each.row, several) for each in failures})
    [(right, most)] = Counter(row["digest"] for row in same if row["outcome"] == GOOD).most_common(1)
    alike = max(Counter(each.row["digest"] for each in failures).values()) == most
    others = sorted({_maker(row, several) for row in same if row["outcome"] == GOOD and row["digest"] == right})
    against = f" against {', '.join(others)}" if alike else ""
    return f"{same[0]['program'].removeprefix(GENERATE)} differs: {', '.join(names)}{against}"


def _maker(row: Row, with_agent: bool) -> str:
    """Who made and ran it."""
    engine = "" if row["engine"] == "jit" else row["engine"]
    words = (row["agent"] if with_agent else "", row["compiler"], row["options"], engine)
    return " ".join(word for word in words if word) or row["engine"]
