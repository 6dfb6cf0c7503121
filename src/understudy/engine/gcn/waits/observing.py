"""Waves on the reference engine with their scoreboards: what they miss on the paths that they take."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from understudy.engine.gcn.api import Dispatch
from understudy.engine.gcn.memory import Plain
from understudy.engine.gcn.reference.checked import CheckedAccesses
from understudy.engine.gcn.reference.engine import OnRetire, Stepper
from understudy.engine.gcn.reference.lane_atomic import LaneAtomics
from understudy.engine.gcn.reference.lane_integer import Array
from understudy.engine.gcn.reference.lanes import View
from understudy.engine.gcn.waits.board import Missed
from understudy.engine.gcn.waits.issue import LDS, MEMORY
from understudy.engine.gcn.waits.path import Paths
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.state import MODE

REACHED: Final = {"global": MEMORY, "private": MEMORY, "shared": LDS}
"""What the scoreboard calls the spaces that flat addresses reach."""


def noting(memory: LaneAtomics) -> set[str]:
    """Have a memory note what flat addresses and read-modify-writes reach; where it does."""
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


class ObservingStepper(Stepper):
    """Executes instructions, and counts what was missed: `missed` by key, `counts` how often.

    What other checks want to know of the dispatch, they are told of as ever. `on_retire` as `Stepper` has it.
    """

    def __init__(self, dispatch: Dispatch, on_retire: OnRetire | None = None) -> None:
        guard = dispatch.memory.guard
        plain = LaneAtomics(dispatch.memory, dispatch.gds) if guard is None else CheckedAccesses(dispatch, guard)
        self.reached = noting(plain)
        super().__init__(dispatch, on_retire, accesses=plain)
        self.paths = Paths(dispatch.target)
        self.missed: dict[tuple[str, int, int], Missed] = {}
        self.counts: Counter[tuple[str, int, int]] = Counter()

    def _step(self, view: View, lanes: int | None) -> Insn:
        mode = view.words[MODE]
        self.reached.clear()
        insn = super()._step(view, lanes)
        for missed in self.paths.step(view.wave.address, insn, mode, frozenset(self.reached)):
            self.missed.setdefault(missed.key, missed)
            self.counts[missed.key] += 1
        return insn
