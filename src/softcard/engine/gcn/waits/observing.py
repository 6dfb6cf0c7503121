"""Waves on the reference engine with scoreboards, which find the hazards on the paths that the waves take."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from softcard.core.errors import Registers
from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.effects import effects
from softcard.engine.gcn.memory import Plain
from softcard.engine.gcn.reference.engine import OnRetire, Stepper
from softcard.engine.gcn.reference.lane_atomic import LaneAtomics
from softcard.engine.gcn.reference.lane_integer import Array
from softcard.engine.gcn.reference.lanes import View, registers_at
from softcard.engine.gcn.waits.board import Board, Missed
from softcard.engine.gcn.waits.issue import LDS, MEMORY, Issue, issue_of
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.state import EXEC, MODE, MODE_BITS, PTR32, Mode
from softcard.isa.gcn.target import Target

# ---- scoreboards of waves --------------------------------------------------------------------------------------------
# The scoreboards of waves along the paths that they take. They are exact, since each has one path.


class Paths:
    """The scoreboards of waves, one for each wave number. XNACK is assumed to be on if the target has it."""

    def __init__(self, target: Target) -> None:
        self._replays = "xnack" in target.has
        self._boards: dict[int, Board] = {}
        self._issues: dict[tuple[Insn, int], Issue] = {}

    def step(self, wave: int, insn: Insn, mode: int, reached: frozenset[str] | None = None) -> list[Missed]:
        """Return the hazards of an instruction that a wave has executed in this MODE.

        `reached`: the address spaces of a FLAT access, as in `Board.step`.
        """
        key = insn, mode & (MODE_BITS | PTR32)
        issue = self._issues.get(key)
        if issue is None:
            issue = self._issues[key] = issue_of(insn, effects(insn, Mode.decode(mode)))
        board = self._boards.get(wave)
        if board is None:
            board = self._boards[wave] = Board(self._replays)
        missed = board.step(issue, reached)
        if issue.flow == "end":
            del self._boards[wave]
        return missed


# ---- observer --------------------------------------------------------------------------------------------------------


REACHED: Final = {"global": MEMORY, "private": MEMORY, "shared": LDS}
"""The scoreboard's names of the address spaces that flat addresses reach."""


def noting(memory: LaneAtomics) -> set[str]:
    """Patch the memory operations `memory` to record the address spaces that flat accesses and atomics reach.

    Return the set in which they are recorded."""
    reached: set[str] = set()
    spaces_of, update_of = memory._spaces, memory._update

    def spaces(space: str, addresses: Array) -> list[tuple[str, Any]]:
        parts = spaces_of(space, addresses)
        if space == "flat":
            reached.update(REACHED[name] for name, _ in parts)
        return parts

    def update(kind: str, bits: int, place: tuple[Plain | None, int] | None, v: int, compare: int) -> int:
        reached.add(LDS if place is not None and place[0] is memory._lds else MEMORY)
        return update_of(kind, bits, place, v, compare)

    for name, method in (("_spaces", spaces), ("_update", update)):
        setattr(memory, name, method)
    return reached


@dataclass(frozen=True, slots=True)
class FirstMiss:
    """The first occurrence of a hazard: the wave, its work-group, and the registers before the second instruction."""

    wave: int
    group: tuple[int, int, int]
    registers: Registers | None


class ObservingStepper(Stepper):
    """A stepper of waves that also finds the hazards on their paths.

    `missed` has the hazards that have occurred, by key, and `counts` the number of their occurrences. Other
    checks of the dispatch run as usual. `on_retire` is as in `Stepper`."""

    def __init__(self, dispatch: Dispatch, on_retire: OnRetire | None = None) -> None:
        plain = dispatch.checks.accesses(dispatch) or LaneAtomics(dispatch.memory, dispatch.gds)
        self.reached = noting(plain)
        super().__init__(dispatch, on_retire, accesses=plain)
        self.paths = Paths(dispatch.target)
        self.missed: dict[tuple[str, int, int], Missed] = {}
        self.counts: Counter[tuple[str, int, int]] = Counter()
        self.first: dict[tuple[str, int, int], FirstMiss] = {}
        """The wave that met each hazard first, by the key of the hazard."""
        self.suspects: set[int] = set()
        """The pcs of instructions that may need a wait, and that no wave has executed without one yet."""

    def _step(self, view: View, lanes: int | None) -> Insn:
        mode, pc = view.words[MODE], view.wave.pc
        self.reached.clear()
        held = None
        if pc in self.suspects:
            exec_ = view.wave.s64(EXEC)
            lane = (exec_ & -exec_).bit_length() - 1 if exec_ else None
            held = registers_at(self.dispatch, view.wave, self.fetch(pc), lane)
        insn = super()._step(view, lanes)
        for missed in self.paths.step(view.wave.address, insn, mode, frozenset(self.reached)):
            if missed.key not in self.missed:
                self.missed[missed.key] = missed
                self.first[missed.key] = FirstMiss(view.wave.index, self.lanes.current.group, held)
                self.suspects.discard(pc)
            self.counts[missed.key] += 1
        return insn
