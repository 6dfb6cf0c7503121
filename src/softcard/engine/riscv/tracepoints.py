"""Snapshots of the registers of harts: before instructions, at a fault, or at the end of an instance.

For snapshots, harts run on the reference engine, which begins every instruction separately.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from softcard.core.errors import Registers
from softcard.engine.hooks import BEFORE, END
from softcard.engine.riscv.evaluate import Evaluator
from softcard.isa.riscv import csrnames as n
from softcard.isa.riscv.assembler import text
from softcard.isa.riscv.format import FLOAT_REGISTERS, REGISTERS
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.state import FFLAGS, FRM, VECTOR_REGISTERS, VL, VSTART, VTYPE, F, Hart

CSRS: Final = {"mstatus": n.MSTATUS, "mcause": n.MCAUSE, "mepc": n.MEPC, "mtval": n.MTVAL}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The registers of a hart at one point of execution, by name.

    `scalars` are integer registers and others; `vectors` are vector registers as hex words of 32 bits. Vector registers
    that are 0 are omitted.
    """

    why: str
    hart: int
    pc: int
    instruction: str
    scalars: dict[str, str]
    vectors: dict[str, str]


@dataclass(slots=True, eq=False)
class HartTracepoints:
    """The points at which snapshots of harts are taken, and the callback that receives the snapshots.

    The points are: before instructions at `pcs`; at faults; and, if `at_end` is true, at the end of each
    instance. At most `most` snapshots are taken. `on_snapshot` is called with each of them, and once with None
    when the limit prevents the first snapshot."""

    most: int
    on_snapshot: Callable[[Snapshot | None], None]
    pcs: set[int] = field(default_factory=set)
    at_end: bool = False
    taken: int = 0

    def take(self, why: str, hart: Hart, pc: int, instruction: str = "") -> None:
        """Take a snapshot for the reason `why`, unless `most` were taken already."""
        if why == END and not self.at_end:
            return
        self.taken += 1
        if self.taken <= self.most:
            self.on_snapshot(Snapshot(why, hart.index, pc, instruction, _scalars(hart), _vectors(hart)))
        elif self.taken == self.most + 1:
            self.on_snapshot(None)

    def observe(self, evaluator: Evaluator) -> Evaluator:
        """Return the evaluator, changed to take a snapshot before instructions at `pcs`."""
        begin = evaluator.begin

        def watched(pc: int, insn: Insn) -> None:
            if pc in self.pcs:
                self.take(BEFORE, evaluator.hart, pc, text(insn, pc))
            begin(pc, insn)

        setattr(evaluator, "begin", watched)  # noqa: B010 - mypy knows methods alone
        return evaluator


def registers_of(hart: Hart, pc: int, instruction: str) -> Registers:
    """Return the integer registers of a hart at an instruction that has failed."""
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
