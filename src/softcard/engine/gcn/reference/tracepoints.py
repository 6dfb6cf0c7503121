"""The reference engine extended by register snapshots; see `engine.gcn.tracepoints`."""

from __future__ import annotations

from typing import Final

from softcard.core.errors import SoftcardError
from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.reference.engine import ReferenceEngine, Stepper
from softcard.engine.gcn.reference.lanes import View
from softcard.engine.gcn.tracepoints import Tracepoints
from softcard.engine.tracepoints import BEFORE, END, FAULT, TRAP
from softcard.isa.gcn.asm.printer import text
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.state import ENDED, PC, STATUS, Wave

TRAPPING: Final = "s_trap"


class TracepointEngine(ReferenceEngine):
    """The reference engine, extended by register snapshots."""

    def __init__(self, tracepoints: Tracepoints, counting: bool = False) -> None:
        super().__init__(counting=counting)
        self._tracepoints = tracepoints

    def stepper(self, dispatch: Dispatch) -> Stepper:
        """Return a stepper for this dispatch that takes snapshots."""
        stepper = TracepointStepper(dispatch, self.on_retire)
        stepper.tracepoints = self._tracepoints
        return stepper


class TracepointStepper(Stepper):
    """The executor of single instructions that takes register snapshots."""

    tracepoints: Tracepoints

    def _step(self, view: View, lanes: int | None) -> Insn:
        wave, pc = view.wave, view.words[PC]
        if pc in self.tracepoints.pcs:
            self._take(BEFORE, wave, pc, self._text(pc))
        try:
            if pc not in self.tracepoints.pcs and self._is_trap(pc):
                self._take(TRAP, wave, pc, self._text(pc))
            insn = super()._step(view, lanes)
        except SoftcardError:
            self._take(FAULT, wave, pc, self._text(pc))
            raise
        if self.tracepoints.at_end and view.words[STATUS] == ENDED:
            self._take(END, wave, pc, text(insn))
        return insn

    def _is_trap(self, pc: int) -> bool:
        return self._cached(pc).insn.op.name == TRAPPING

    def _take(self, why: str, wave: Wave, pc: int, said: str) -> None:
        x, y, z = self.lanes.current.group
        self.tracepoints.take(why, self.dispatch, (x, y, z), wave, pc, said)

    def _text(self, pc: int) -> str:
        """Return the text of the instruction at `pc`, or "" if memory holds none there."""
        try:
            return text(self._cached(pc).insn)
        except SoftcardError:
            return ""
