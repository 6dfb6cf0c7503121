"""The FS field of mstatus, which enables the float registers and records writes to them."""

from __future__ import annotations

from typing import Final

from softcard.isa.riscv.csrnames import MSTATUS
from softcard.isa.riscv.insn import IllegalInstruction
from softcard.isa.riscv.state import Hart

EXTENSIONS: Final = ("F", "D", "Zfh")
"""The extensions with scalar float instructions."""
FS_SHIFT: Final = 13
OFF, DIRTY = 0, 3


def is_dirty(hart: Hart) -> bool:
    """Return True if the FS field of mstatus is "dirty": floats are on, and their registers may have been changed."""
    return hart.csr.get(MSTATUS, 0) >> FS_SHIFT & 3 == DIRTY


def use(hart: Hart) -> None:
    """Prepare the use of float registers by an instruction: set the FS field of mstatus to "dirty".

    `IllegalInstruction` is raised if floats are off."""
    status = hart.csr.get(MSTATUS, 0)
    if status >> FS_SHIFT & 3 == OFF:
        raise IllegalInstruction("float instruction while mstatus.FS is Off")
    hart.csr[MSTATUS] = status | DIRTY << FS_SHIFT
