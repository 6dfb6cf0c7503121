"""The hazards that GCN hardware leaves to software: pairs of instructions that need a wait between them.

They are read from ``hazards.toml``. `engine.gcn.waits` detects violations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, Final

from softcard.core.errors import ModelBug
from softcard.core.rule import Rule, interface_id, line_of, tables_of
from softcard.isa.gcn.semantics.matrix.table import FORMATS, PROCESSORS, Type, matrices
from softcard.isa.gcn.target import LEVELS, Target

PACKAGE: Final = "softcard.isa.gcn"
Formats = tuple[int, int]
"""The formats of A and B of an f8f6f4 matrix instruction: the values of its fields cbsz and blgp."""


class Kind(StrEnum):
    """The kind of remedy that must be executed between the two instructions of a hazard."""

    COUNT = "count"
    """A wait for a memory counter (s_waitcnt) is required."""
    STATES = "states"
    """A number of wait states is required: other instructions, or s_nop."""
    CLAUSE = "clause"
    """An instruction of another kind must stand between the two instructions, so that their clause ends."""
    RESOLVED = "resolved"
    """No remedy is required, since the hardware waits by itself."""


@dataclass(frozen=True, slots=True)
class Hazard:
    """A hazard: instruction `before`, instruction `after`, and the remedy that is required between them.

    - `need`: the required counter or number of wait states by generation; "" or 0 if nothing is required
    - `needs`: the wait states by processor, for processors with matrix instructions; `needs_text` is their source
      text
    - `manual`: the section of the ISA manual
    - `basis`: the kind of source that documents the hazard
    - `doubtful`: the generations for which sources disagree; for these a check reports only a warning
    - `absent`: the reason why the hazard is not checked; "" if it is checked"""

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
    needs: Mapping[str, Mapping[str, tuple[int, int]]] = field(default_factory=dict)
    needs_text: str = ""

    def states(self, level: int) -> int:
        """Return the number of wait states that generation `level` (7, 8 or 9) requires; 0 unless `kind` is STATES."""
        need = self.need[level]
        return need if isinstance(need, int) and self.kind is Kind.STATES else 0

    def states_after(self, target: Target, operation: str = "", formats: Formats = (0, 0)) -> int:
        """Return the number of wait states that `target` requires between instruction `operation` and the later one.

        `operation` is a mnemonic; the number depends on it only for matrix instructions. It depends on the `formats` of
        A and B only for f8f6f4 instructions.
        """
        return max((self._after(name, operation, formats) for name in processors_of(target)), default=0) or self.states(
            target.level
        )

    def _after(self, processor: str, operation: str, formats: Formats) -> int:
        needs = self.needs.get(processor)
        if not needs:
            return 0
        kind, passes = matrix_kind(processor, operation, formats)
        factor, more = next(needs[key] for key in (f"{kind}/{passes}", kind, "") if key in needs)
        return max(factor * passes + more, 0)

    @property
    def rule(self) -> Rule:
        """The hazard as a `Rule`, to which findings refer."""
        between = {Kind.COUNT: "s_waitcnt", Kind.STATES: "wait states", Kind.CLAUSE: "an instruction of another kind"}
        return Rule(self.id, self.manual, f"{self.before}, {between.get(self.kind, 'nothing')}, {self.after}")


@cache
def processors_of(target: Target) -> tuple[str, ...]:
    """Return the processors whose matrix instructions `target` implements.

    A generic target has several, since code for it must run on all of them.
    """
    if target.name == "gfx9-4-generic":
        return "gfx942", "gfx950"
    return PROCESSORS[target.matrix - 1 : target.matrix] if target.matrix else ()


@cache
def matrix_kind(processor: str, operation: str, formats: Formats = (0, 0)) -> tuple[str, int]:
    """Return the kind of a matrix instruction and its number of passes; ("", 0) for other operations.

    The kind is "f64", "f32", or "xdl" for all others. `formats` are the formats of A and B of an f8f6f4 instruction, as
    the fields cbsz and blgp number them; reserved ones count as the first.
    """
    matrix = matrices().get((processor, operation))
    if matrix is None:
        return "", 0
    passes = matrix.passes
    if matrix.takes_formats:
        passes = matrix.passes_of(*(FORMATS[each] if each < len(FORMATS) else FORMATS[0] for each in formats))
    return {Type.F64: "f64", Type.F32: "f32"}.get(matrix.a, "xdl"), passes


@cache
def load_hazards() -> dict[str, Hazard]:
    """Return all hazards by id, in the order of ``hazards.toml``."""
    return {(made := _hazard(name, said)).id: made for name, said in tables_of(PACKAGE, "hazards").items()}


def hazard(name: str) -> Hazard:
    """Return the hazard whose table in ``hazards.toml`` is called `name`."""
    return load_hazards()[interface_id(PACKAGE, name)]


def _hazard(name: str, said: Mapping[str, Any]) -> Hazard:
    texts = {key: line_of(said.get(key, "")) for key in ("before", "after", "manual", "basis", "note", "absent")}
    need = dict(zip(LEVELS, said.get("need", (0, 0, 0)), strict=True))
    needs = {processor: _numbers(name, text) for processor, text in said.get("needs", {}).items()}
    doubtful = frozenset(said.get("doubtful", ()))
    needs_text = "; ".join(f"{processor}: {text}" for processor, text in said.get("needs", {}).items())
    return Hazard(
        interface_id(PACKAGE, name),
        Kind(said["kind"]),
        need=need,
        doubtful=doubtful,
        needs=needs,
        needs_text=needs_text,
        **texts,
    )


_NUMBER: Final = re.compile(r"(?:((?:xdl|f32|f64)(?:/\d+)?) )?(p?)([+-]?\d+)?")


def _numbers(name: str, text: str) -> dict[str, tuple[int, int]]:
    """Parse the wait states of one processor: a text like "p+3, f64/4 6", where p is the number of passes.

    The parts are for kinds of matrix instructions: "f64/4" is a kind with its number of passes, and a part
    without a kind is for all others. Return (factor, addend) by kind: factor * passes + addend wait states are
    required."""
    made = {}
    for part in text.split(", "):
        found = _NUMBER.fullmatch(part)
        if found is None:
            raise ModelBug(f"hazard {name}: expected a number of wait states like p+3 or f64/4 6, found {part!r}")
        made[found[1] or ""] = int(bool(found[2])), int(found[3] or 0)
    return made
