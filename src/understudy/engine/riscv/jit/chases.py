"""Loads whose address was itself loaded a moment ago: lists, trees, indexes.

What they wait for is one load after another, and a look into a page table between two of them would wait too. Their
memory is mostly the same as last time, which is guessed, and checked while the processor goes on.
"""

from __future__ import annotations

from typing import Final

from understudy.engine.riscv.jit.region import Block
from understudy.isa.riscv.insn import Insn

LOADS: Final = frozenset({"lw", "lwu", "ld", "lb", "lbu", "lh", "lhu"})


def chases(block: Block) -> frozenset[int]:
    """The pcs of loads of a loop of one block whose address follows from what it loads; none for other blocks."""
    if block.start not in block.successors:
        return frozenset()
    loaded: set[int] = set()
    while True:
        before = set(loaded)
        found = frozenset(pc for pc, insn in block.insns if _step(insn, loaded))
        if loaded == before:
            return found


def _step(insn: Insn, loaded: set[int]) -> bool:
    """Whether this is such a load; `loaded` are the integer registers that follow from loads, and are then."""
    is_load = insn.name in LOADS
    is_chase = is_load and insn.rs1 in loaded
    if insn.rd and (is_load or (insn.spec.flow == "next" and {insn.rs1, insn.rs2} & loaded)):
        loaded.add(insn.rd)
    elif insn.rd and insn.spec.flow == "next":
        loaded.discard(insn.rd)  # as a register that holds a value here and an index there
    return is_chase
