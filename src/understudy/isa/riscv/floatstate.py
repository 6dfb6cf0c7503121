"""The FS field of mstatus, which switches the float registers on and tells whether they were written."""

from __future__ import annotations

from typing import Final

from understudy.isa.riscv.csrnames import MSTATUS
from understudy.isa.riscv.insn import IllegalInstruction
from understudy.isa.riscv.state import Hart

EXTENSIONS: Final = ("F", "D", "Zfh")
"""Extensions whose instructions are about scalar floats."""
FS_SHIFT: Final = 13
OFF, DIRTY = 0, 3


def is_dirty(hart: Hart) -> bool:
    """Whether float instructions may run and need not note that they did."""
    return hart.csr.get(MSTATUS, 0) >> FS_SHIFT & 3 == DIRTY


def use(hart: Hart) -> None:
    """A float instruction runs: `IllegalInstruction` where floats are off, else they are dirty from now on."""
    status = hart.csr.get(MSTATUS, 0)
    if status >> FS_SHIFT & 3 == OFF:
        raise IllegalInstruction("float instruction while mstatus.FS is Off")
    hart.csr[MSTATUS] = status | DIRTY << FS_SHIFT
