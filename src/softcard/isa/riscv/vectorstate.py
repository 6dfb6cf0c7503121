"""The VS field of mstatus, which enables the vector registers and records writes to them."""

from __future__ import annotations

from typing import Final

from softcard.isa.riscv.csrnames import MSTATUS
from softcard.isa.riscv.insn import IllegalInstruction
from softcard.isa.riscv.state import Hart
from softcard.isa.riscv.vector.rules import VS_OFF

DIRTY: Final = 3 << 9
"""The value of the VS field for "dirty": both bits are 1."""


def is_dirty(hart: Hart) -> bool:
    """Return True if the VS field of mstatus is "dirty": vectors are on, and registers may have been changed."""
    return hart.csr.get(MSTATUS, 0) & DIRTY == DIRTY


def use(hart: Hart) -> None:
    """Prepare the execution of a vector instruction: set the VS field of mstatus to "dirty".

    `IllegalInstruction` is raised if vectors are off.
    """
    status = hart.csr.get(MSTATUS, 0)
    if not status & DIRTY:
        raise IllegalInstruction("vector instruction while mstatus.VS is Off", rule=VS_OFF)
    hart.csr[MSTATUS] = status | DIRTY
