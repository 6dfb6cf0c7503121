"""Hazards that the hardware leaves to software, as data: ``hazards.toml`` says what stands between which instructions.

Who finds them: `engine.gcn.waits`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Final

from understudy.core.rule import Rule, interface_id, line_of, tables_of
from understudy.isa.gcn.target import LEVELS

PACKAGE: Final = "understudy.isa.gcn"


class Kind(StrEnum):
    """What must stand between the two instructions of a hazard."""

    COUNT = "count"
    """A wait for a counter."""
    STATES = "states"
    """Wait states: other instructions, or s_nop."""
    CLAUSE = "clause"
    """An instruction of another kind."""
    RESOLVED = "resolved"
    """Nothing: the hardware waits."""


@dataclass(frozen=True, slots=True)
class Hazard:
    """Two instructions and what must stand between them. `need` goes by generation: a counter, a number, or nothing.

    `basis` says who says so, `doubtful` has the generations on which that is no more than a reason to warn, or
    to take note where sources disagree. With `absent` nobody looks for it, for that reason.
    """

    id: str
    kind: Kind
    before: str
    after: str
    need: Mapping[int, str | int]
    manual: str
    basis: str
    doubtful: frozenset[int] = frozenset()
    note: str = ""
    absent: str = ""

    def states(self, level: int) -> int:
        """How many wait states a generation needs; 0 where it is another kind of hazard."""
        need = self.need[level]
        return need if isinstance(need, int) and self.kind is Kind.STATES else 0

    @property
    def rule(self) -> Rule:
        """The same as a sentence that findings are about."""
        between = {Kind.COUNT: "s_waitcnt", Kind.STATES: "wait states", Kind.CLAUSE: "an instruction of another kind"}
        return Rule(self.id, self.manual, f"{self.before}, {between.get(self.kind, 'nothing')}, {self.after}")


@cache
def load_hazards() -> dict[str, Hazard]:
    """All hazards by their ids, in the order of ``hazards.toml``."""
    return {(made := _hazard(name, said)).id: made for name, said in tables_of(PACKAGE, "hazards").items()}


def hazard(name: str) -> Hazard:
    """The hazard of a short name."""
    return load_hazards()[interface_id(PACKAGE, name)]


def _hazard(name: str, said: Mapping[str, Any]) -> Hazard:
    texts = {key: line_of(said.get(key, "")) for key in ("before", "after", "manual", "basis", "note", "absent")}
    need = dict(zip(LEVELS, said["need"], strict=True))
    doubtful = frozenset(said.get("doubtful", ()))
    return Hazard(interface_id(PACKAGE, name), Kind(said["kind"]), need=need, doubtful=doubtful, **texts)
