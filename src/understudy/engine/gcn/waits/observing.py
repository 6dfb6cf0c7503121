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


class NotingMemory(LaneAtomics):
    """Memory that notes what flat addresses reach, in `reached`. It is made as the class behind it is."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.reached: set[str] = set()

    def _spaces(self, space: str, addresses: Array) -> list[tuple[str, Any]]:
        """Which spaces the addresses mean."""
        parts = super()._spaces(space, addresses)
        if space == "flat":
            self.reached |= {REACHED[name] for name, _ in parts}
        return parts

    def _update(self, kind: str, bits: int, place: tuple[Plain | None, int] | None, v: int, compare: int) -> int:
        """Read-modify-writes: LDS, or memory."""
        self.reached.add(LDS if place is not None and place[0] is self._lds else MEMORY)
        return super()._update(kind, bits, place, v, compare)


class NotingAccesses(NotingMemory, CheckedAccesses):
    """The same where accesses are judged as well."""


class ObservingStepper(Stepper):
    """Executes instructions, and counts what was missed: `missed` by key, `counts` how often.

    What other checks want to know of the dispatch, they are told of as ever. `on_retire` as `Stepper` has it.
    """

    def __init__(self, dispatch: Dispatch, on_retire: OnRetire | None = None) -> None:
        guard = dispatch.memory.guard
        self.noting = NotingMemory(dispatch.memory, dispatch.gds) if guard is None else NotingAccesses(dispatch, guard)
        super().__init__(dispatch, on_retire, accesses=self.noting)
        self.paths = Paths(dispatch.target)
        self.missed: dict[tuple[str, int, int], Missed] = {}
        self.counts: Counter[tuple[str, int, int]] = Counter()

    def _step(self, view: View, lanes: int | None) -> Insn:
        mode = view.words[MODE]
        self.noting.reached.clear()
        insn = super()._step(view, lanes)
        for missed in self.paths.step(view.wave.address, insn, mode, frozenset(self.noting.reached)):
            self.missed.setdefault(missed.key, missed)
            self.counts[missed.key] += 1
        return insn
