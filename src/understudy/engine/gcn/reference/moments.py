"""The reference engine that takes snapshots of registers (`engine.gcn.moments`)."""

from __future__ import annotations

from typing import Final

from understudy.core.errors import UnderstudyError
from understudy.engine.gcn.api import Dispatch
from understudy.engine.gcn.moments import Moments
from understudy.engine.gcn.reference.engine import ReferenceEngine, Stepper
from understudy.engine.gcn.reference.lanes import View
from understudy.engine.moments import BEFORE, END, FAULT, TRAP
from understudy.isa.gcn.asm.printer import text
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.state import ENDED, PC, STATUS, Wave

TRAPPING: Final = "s_trap"


class MomentEngine(ReferenceEngine):
    """The reference engine, with snapshots."""

    def __init__(self, moments: Moments, counting: bool = False) -> None:
        super().__init__(counting=counting)
        self._moments = moments

    def stepper(self, dispatch: Dispatch) -> Stepper:
        """What executes single instructions of this dispatch."""
        stepper = MomentStepper(dispatch, self.on_retire)
        stepper.moments = self._moments
        return stepper


class MomentStepper(Stepper):
    """Executes instructions, and takes snapshots."""

    moments: Moments

    def _step(self, view: View, lanes: int | None) -> Insn:
        wave, pc = view.wave, view.words[PC]
        if pc in self.moments.pcs:
            self._take(BEFORE, wave, pc, self._text(pc))
        try:
            if pc not in self.moments.pcs and self._is_trap(pc):
                self._take(TRAP, wave, pc, self._text(pc))
            insn = super()._step(view, lanes)
        except UnderstudyError:
            self._take(FAULT, wave, pc, self._text(pc))
            raise
        if self.moments.at_end and view.words[STATUS] == ENDED:
            self._take(END, wave, pc, text(insn))
        return insn

    def _is_trap(self, pc: int) -> bool:
        return self._cached(pc).insn.op.name == TRAPPING

    def _take(self, why: str, wave: Wave, pc: int, said: str) -> None:
        x, y, z = self.lanes.current.group
        self.moments.take(why, self.dispatch, (x, y, z), wave, pc, said)

    def _text(self, pc: int) -> str:
        """The instruction there; "" where there is none."""
        try:
            return text(self._cached(pc).insn)
        except UnderstudyError:
            return ""
