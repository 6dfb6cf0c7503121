"""Marks on the reference engine: registers and memory beside the hart's own."""

from __future__ import annotations

from typing import Any

from understudy.core.errors import AccessFault
from understudy.engine.marks.mark import Mark
from understudy.engine.riscv.evaluate import Evaluator
from understudy.engine.riscv.marks.algebra import LOADED, STORED, MarkedHart
from understudy.engine.riscv.marks.block import DISTANCE, MarkBlock
from understudy.engine.riscv.marks.sights import Sights
from understudy.engine.riscv.marks.vectors import MarkedVectors, VectorMarks
from understudy.engine.riscv.pages import LIMIT, MASK64, peek, poke
from understudy.isa.riscv.insn import Insn
from understudy.isa.riscv.port import PlacePort
from understudy.isa.riscv.state import Hart


class ReferenceTwin:
    """The marks of one hart."""

    def __init__(self, hart: Hart, block: MarkBlock, sights: Sights) -> None:
        self.hart = hart
        self.block = block
        self.sights = sights
        self.insn: Insn

    def begin(self, insn: Insn) -> None:
        """An instruction begins."""
        self.insn = insn

    def register(self, n: int) -> int:
        """Marks of a register."""
        return self.block.words[n]

    def set_register(self, n: int, bits: int) -> None:
        """They become others."""
        self.block.words[n] = bits

    def place(self, address: int) -> int:
        """Where the bytes at an address lie in this process; 0 for what is no memory."""
        try:
            found = place_of(self.hart, address)
        except AccessFault:
            return 0
        return found or 0

    def load(self, w: int, address: int) -> int:
        """Marks of memory; none where there is none, or nothing at all."""
        host = self.place(address)
        return peek(host + DISTANCE, w >> 3) if host else 0

    def store(self, w: int, address: int, bits: int) -> None:
        """They become others."""
        host = self.place(address)
        if host:
            poke(host + DISTANCE, w >> 3, bits)

    def tell(self, what: str, mark: Mark, where: Any = None) -> None:
        """Note it, if anything is marked."""
        if mark.bits(_Plain):
            host = self.place(where) if what == STORED else 0
            size = mark.w >> 3 if what in (LOADED, STORED) else 0
            self.sights.note(self.block, what, self.hart.pc, self.insn, self.hart, where or 0, size, host)


class _Plain:
    """What a mark needs to give its bits."""

    @staticmethod
    def sext(to: int, w: int, a: int) -> int:
        """Of one bit."""
        return (1 << to) - 1 if a else 0


def place_of(hart: Hart, address: int) -> int | None:
    """Where in this process the byte lies that a hart reads at an address; None for what is no memory."""
    port = hart.port
    if address >= LIMIT or not isinstance(port, PlacePort):
        return None
    found = port.place(address)
    return None if found is None else found & MASK64


class MarkedEvaluator(MarkedHart, MarkedVectors):
    """What the reference engine executes instructions on: an `Evaluator`, with marks."""

    def __init__(self, base: Evaluator, twin: ReferenceTwin) -> None:
        super().__init__(base, twin)
        self.vector_marks = VectorMarks(base, twin.block)

    def begin(self, pc: int, insn: Insn) -> None:
        """Set up for the instruction at `pc`."""
        self.base.begin(pc, insn)
        self.start(insn)

    @property
    def target(self) -> int:
        """Where control goes."""
        return int(self.base.target)

    @property
    def waiting(self) -> bool:
        """Whether the hart waits for an interrupt."""
        return bool(self.base.waiting)

    @waiting.setter
    def waiting(self, value: bool) -> None:
        self.base.waiting = value

    # ---- the system part -----------------------------------------------------------------------------------------
    @property
    def hart(self) -> Hart:
        """Whose instruction it is."""
        hart: Hart = self.base.hart
        return hart

    def csr_read(self, number: int) -> Any:
        """A csr is defined."""
        return self._plain(self.base.csr_read(number))

    def csr_write(self, number: int, v: Any) -> None:
        """Write one."""
        self.base.csr_write(number, v.value)

    def trap(self, cause: int, value: int = 0) -> None:
        """Raise an exception."""
        self.base.trap(cause, value)

    def return_from(self, privilege: str) -> None:
        """mret or sret."""
        self.base.return_from(privilege)

    def fence_i(self) -> None:
        """Later fetches see earlier stores."""
        self.base.fence_i()

    def fence_vma(self) -> None:
        """Drop cached translations."""
        self.base.fence_vma()

    def wait_for_interrupt(self) -> None:
        """wfi."""
        self.base.wait_for_interrupt()
