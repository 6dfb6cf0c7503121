"""When a one-block loop ends, as its branch tells: by registers, most likely, not for certain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from understudy.engine.riscv.jit.region import Block
from understudy.isa.riscv.insn import Insn

_STRICT: Final = ("bne", "blt", "bltu")
_BRANCHES: Final = (*_STRICT, "bge", "bgeu")
_MOVES: Final = ("addi", "addiw")


@dataclass(frozen=True, slots=True)
class End:
    """The loop ends when a register that a round moves by `step` (not 0) reaches another one, `limit`, or is past it.

    Where it ends behind that, `is_behind`.
    """

    register: int
    limit: int
    step: int
    is_behind: bool


def end_of(block: Block) -> End | None:
    """Of a loop of one block; None where its branch does not tell."""
    _, branch = block.insns[-1]
    if branch.name not in _BRANCHES or block.successors[0] != block.start:
        return None
    for register, limit in ((branch.rs1, branch.rs2), (branch.rs2, branch.rs1)):
        moves = [insn for _, insn in block.insns if _writes(insn, register)]
        if len(moves) != 1 or any(_writes(insn, limit) for _, insn in block.insns):
            continue
        [move] = moves
        if move.name in _MOVES and move.rs1 == register and move.imm:
            return End(register, limit, move.imm, branch.name not in _STRICT)
    return None


def _writes(insn: Insn, register: int) -> bool:
    """Whether it may."""
    return register != 0 and insn.rd == register
