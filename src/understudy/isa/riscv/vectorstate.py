"""The VS field of mstatus, which switches the vector registers on and tells whether they were written."""

from __future__ import annotations

from typing import Final

from understudy.isa.riscv.csrnames import MSTATUS
from understudy.isa.riscv.insn import IllegalInstruction
from understudy.isa.riscv.state import Hart
from understudy.isa.riscv.vector.rules import VS_OFF

DIRTY: Final = 3 << 9
"""All bits of the field."""


def is_dirty(hart: Hart) -> bool:
    """Whether vector instructions may run and need not note that they did."""
    return hart.csr.get(MSTATUS, 0) & DIRTY == DIRTY


def use(hart: Hart) -> None:
    """A vector instruction runs: `IllegalInstruction` where vectors are off, else they are dirty from now on."""
    status = hart.csr.get(MSTATUS, 0)
    if not status & DIRTY:
        raise IllegalInstruction("vector instruction while mstatus.VS is Off", rule=VS_OFF)
    hart.csr[MSTATUS] = status | DIRTY
