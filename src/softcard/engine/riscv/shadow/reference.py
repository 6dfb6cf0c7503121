"""Definedness shadow bits on the reference engine: shadow registers and shadow memory."""

from __future__ import annotations

from typing import Any

from softcard.engine.riscv.evaluate import Evaluator
from softcard.engine.riscv.pages import peek, poke
from softcard.engine.riscv.shadow.algebra import LOADED, STORED, ShadowedHart
from softcard.engine.riscv.shadow.uses import Uses, place_of
from softcard.engine.riscv.shadow.vectors import ShadowedVectors, VectorShadow
from softcard.engine.riscv.shadow_layout import DISTANCE, ShadowBlock
from softcard.engine.shadow.bits import ShadowBits
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.state import Hart


class ReferenceShadow:
    """The shadow registers and shadow memory of one hart on the reference engine."""

    def __init__(self, hart: Hart, block: ShadowBlock, uses: Uses) -> None:
        self.hart = hart
        self.block = block
        self.uses = uses
        self.insn: Insn

    def begin(self, insn: Insn) -> None:
        """Begin an instruction."""
        self.insn = insn

    def register(self, n: int) -> int:
        """Return the shadow bits of a register."""
        return self.block.words[n]

    def set_register(self, n: int, bits: int) -> None:
        """Set the shadow bits of a register."""
        self.block.words[n] = bits

    def place(self, address: int) -> int:
        """Return the address in this process of a guest byte; 0 if it is not in memory."""
        return place_of(self.hart, address) or 0

    def load(self, w: int, address: int) -> int:
        """Return the shadow bits of memory; 0 for memory without shadow, or if the address is not in memory."""
        if address & ((w >> 3) - 1):  # the bytes may be in two regions of memory
            return sum(self.load(8, address + k) << 8 * k for k in range(w >> 3))
        host = self.place(address)
        return peek(host + DISTANCE, w >> 3) if host else 0

    def store(self, w: int, address: int, bits: int) -> None:
        """Set the shadow bits of `w` bits of memory; without effect if the address has no shadow memory."""
        if address & ((w >> 3) - 1):
            for k in range(w >> 3):
                self.store(8, address + k, bits >> 8 * k & 0xFF)
            return
        host = self.place(address)
        if host:
            poke(host + DISTANCE, w >> 3, bits)

    def report(self, what: str, shadow: ShadowBits, where: Any = None) -> None:
        """Record a use of an undefined value if any shadow bit is set."""
        if shadow.bits(_Plain):
            host = self.place(where) if what == STORED else 0
            size = shadow.w >> 3 if what in (LOADED, STORED) else 0
            self.uses.note(self.block, what, self.hart.pc, self.insn, self.hart, where or 0, size, host)


class _Plain:
    """The operation on integers that `ShadowBits` needs to expand a single shadow bit."""

    @staticmethod
    def sext(to: int, w: int, a: int) -> int:
        """Return a number of `to` bits that are all equal to the bit `a`; `w` is 1."""
        return (1 << to) - 1 if a else 0


class ShadowedEvaluator(ShadowedHart, ShadowedVectors):
    """The evaluator of the check `init`: it executes instructions on an `Evaluator`, with shadow bits."""

    def __init__(self, base: Evaluator, shadow: ReferenceShadow) -> None:
        super().__init__(base, shadow)
        self.vector_shadow = VectorShadow(base, shadow.block)

    def begin(self, pc: int, insn: Insn) -> None:
        """Prepare for the instruction at `pc`."""
        self.base.begin(pc, insn)
        self.start(insn)

    @property
    def target(self) -> int:
        """The pc at which the hart continues after the instruction."""
        return int(self.base.target)

    @property
    def waiting(self) -> bool:
        """True if the hart waits for an interrupt."""
        return bool(self.base.waiting)

    @waiting.setter
    def waiting(self, value: bool) -> None:
        self.base.waiting = value

    # ---- the system part -----------------------------------------------------------------------------------------
    @property
    def hart(self) -> Hart:
        """The hart that executes the instruction."""
        hart: Hart = self.base.hart
        return hart

    def csr_read(self, number: int) -> Any:
        """Read a CSR, whose value always counts as defined."""
        return self._plain(self.base.csr_read(number))

    def csr_write(self, number: int, v: Any) -> None:
        """Write a CSR."""
        self.base.csr_write(number, v.value)

    def trap(self, cause: int, value: int = 0) -> None:
        """Raise a synchronous exception."""
        self.base.trap(cause, value)

    def return_from(self, privilege: str) -> None:
        """Return from a trap: mret or sret."""
        self.base.return_from(privilege)

    def fence_i(self) -> None:
        """Execute FENCE.I: later fetches see earlier stores."""
        self.base.fence_i()

    def fence_vma(self) -> None:
        """Drop cached page translations."""
        self.base.fence_vma()

    def wait_for_interrupt(self) -> None:
        """Execute WFI: wait for an interrupt."""
        self.base.wait_for_interrupt()
