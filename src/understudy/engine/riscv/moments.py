"""Registers of harts at chosen moments: before instructions, where a hart fails, or ends what it runs.

Harts run on the reference engine for it: it begins every instruction by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from understudy.core.registers import Registers
from understudy.engine.moments import BEFORE, END
from understudy.engine.riscv.evaluate import Evaluator
from understudy.isa.riscv import csrnames as n
from understudy.isa.riscv.assembler import text
from understudy.isa.riscv.format import FLOAT_REGISTERS, REGISTERS
from understudy.isa.riscv.insn import Insn
from understudy.isa.riscv.state import FFLAGS, FRM, VECTOR_REGISTERS, VL, VSTART, VTYPE, F, Hart

CSRS: Final = {"mstatus": n.MSTATUS, "mcause": n.MCAUSE, "mepc": n.MEPC, "mtval": n.MTVAL}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Registers of a hart: `scalars` by name, and `vectors` by name, 32 bits after 32 bits, in hex; no vectors of 0."""

    why: str
    hart: int
    pc: int
    instruction: str
    scalars: dict[str, str]
    vectors: dict[str, str]


@dataclass(slots=True, eq=False)
class HartMoments:
    """Which moments those are: before instructions at `pcs`, at faults, with `at_end` at the end of each instance.

    At most `most` snapshots are taken; `tell` hears of them, of the first moment beyond it gets None.
    """

    most: int
    tell: Callable[[Snapshot | None], None]
    pcs: set[int] = field(default_factory=set)
    at_end: bool = False
    taken: int = 0

    def take(self, why: str, hart: Hart, pc: int, instruction: str = "") -> None:
        """Take a snapshot, if there is room for it."""
        if why == END and not self.at_end:
            return
        self.taken += 1
        if self.taken <= self.most:
            self.tell(Snapshot(why, hart.index, pc, instruction, _scalars(hart), _vectors(hart)))
        elif self.taken == self.most + 1:
            self.tell(None)

    def dress(self, evaluator: Evaluator) -> Evaluator:
        """Have what instructions are executed on stop before those at `pcs`."""
        begin = evaluator.begin

        def watched(pc: int, insn: Insn) -> None:
            if pc in self.pcs:
                self.take(BEFORE, evaluator.hart, pc, text(insn, pc))
            begin(pc, insn)

        setattr(evaluator, "begin", watched)  # noqa: B010 - mypy knows methods alone
        return evaluator


def registers_of(hart: Hart, pc: int, instruction: str) -> Registers:
    """Integer registers of a hart at the instruction that failed."""
    words = hart.words
    return Registers(pc, instruction, {name: words[number] for number, name in enumerate(REGISTERS)})


def _scalars(hart: Hart) -> dict[str, str]:
    words = hart.words
    found = {name: f"0x{words[number]:016x}" for number, name in enumerate(REGISTERS)}
    if any(words[F : F + 32]):
        found |= {name: f"0x{words[F + number]:016x}" for number, name in enumerate(FLOAT_REGISTERS)}
    found["fcsr"] = f"0x{words[FRM] << 5 | words[FFLAGS]:02x}"
    found |= {"vl": str(words[VL]), "vtype": f"0x{words[VTYPE]:016x}", "vstart": str(words[VSTART])}
    return found | {name: f"0x{hart.csr.get(number, 0):016x}" for name, number in CSRS.items()}


def _vectors(hart: Hart) -> dict[str, str]:
    rows = np.frombuffer(hart.own_vectors, np.uint32).reshape(VECTOR_REGISTERS, -1)
    used = np.flatnonzero(rows.any(axis=1))
    return {
        f"v{number}": " ".join(f"{value:08x}" for value in row.tolist())
        for number, row in enumerate(rows)
        if number in used
    }
