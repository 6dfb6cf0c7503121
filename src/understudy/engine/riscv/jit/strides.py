"""Loops that walk through memory: which accesses of a one-block loop move by a fixed step each round?

Where all of a walk stays inside memory that the page tables know to be contiguous, one test before many rounds
replaces one before every access.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from understudy.engine.riscv.jit.region import Block
from understudy.isa.riscv.insn import Insn

_LOADS: Final = {"lb": 1, "lbu": 1, "lh": 2, "lhu": 2, "lw": 4, "lwu": 4, "ld": 8, "flw": 4, "fld": 8}
_STORES: Final = {"sb": 1, "sh": 2, "sw": 4, "sd": 8, "fsw": 4, "fsd": 8}


@dataclass(slots=True)
class Stride:
    """Accesses (by pc) through register `base`, which a round moves by `step` bytes or by `step_register`.

    In one round they touch bytes from base + `low` up to base + `high`, the first one at base + `first`, each aligned
    to at most `align`; `table` is "load" or "store".
    """

    table: str
    base: int
    step: int = 0
    step_register: int = 0
    low: int = 1 << 63
    high: int = -(1 << 63)
    first: int = 0
    align: int = 1
    accesses: list[int] = field(default_factory=list)

    @property
    def goes_on(self) -> bool:
        """Whether it is one access a round, which begins where that of the last round ended."""
        return len(self.accesses) == 1 and self.step == self.high - self.low


def size_of(insn: Insn) -> int:
    """Bytes that a load or store accesses; 0 for all others."""
    return _LOADS.get(insn.name) or _STORES.get(insn.name, 0)


def strides(block: Block) -> list[Stride]:
    """The walks of a block that loops to itself; none if it is no such loop or its walks are not simple."""
    if block.start not in block.successors or block.insns[-1][1].spec.flow != "branch":
        return []
    writing = [insn for _, insn in block.insns if _writes_integer(insn)]
    written = Counter(insn.rd for insn in writing)
    steps = _steps(writing, written)
    found: dict[tuple[str, int], Stride] = {}
    moved: set[int] = set()
    for pc, insn in block.insns:
        size = size_of(insn)
        if size and (written[insn.rs1] == 0 or insn.rs1 in steps):
            table = "load" if insn.name in _LOADS else "store"
            step, register = steps.get(insn.rs1, (0, 0))
            if register and insn.rs1 in moved:
                continue  # the offset of this access from the walk's start is not a constant
            offset = insn.imm + (step if insn.rs1 in moved else 0)
            walk = found.setdefault((table, insn.rs1), Stride(table, insn.rs1, step, register, first=offset))
            walk.low, walk.high = min(walk.low, offset), max(walk.high, offset + size)
            walk.align = max(walk.align, size)
            walk.accesses.append(pc)
        if insn.rd in steps and _writes_integer(insn):
            moved.add(insn.rd)
    offsets = {pc: insn.imm for pc, insn in block.insns}
    return [walk for walk in found.values() if _is_regular(walk, offsets)]


def _is_regular(walk: Stride, offsets: dict[int, int]) -> bool:
    """Offsets of one walk agree modulo its alignment, so that one test aligns them all."""
    return all((offsets[pc] - walk.low) % walk.align == 0 for pc in walk.accesses)


def _steps(writing: list[Insn], written: Counter[int]) -> dict[int, tuple[int, int]]:
    """Registers written once a round by adding a constant (not negative) or an unchanging register."""
    steps: dict[int, tuple[int, int]] = {}
    for insn in writing:
        if written[insn.rd] != 1:
            continue
        if insn.name == "addi" and insn.rs1 == insn.rd and insn.imm >= 0:
            steps[insn.rd] = (insn.imm, 0)
        elif insn.name == "add" and insn.rd in (insn.rs1, insn.rs2) and insn.rs1 != insn.rs2:
            other = insn.rs2 if insn.rs1 == insn.rd else insn.rs1
            if written[other] == 0 and other:
                steps[insn.rd] = (0, other)
    return steps


def _writes_integer(insn: Insn) -> bool:
    """Whether rd is an integer register that changes; counting a float register too only costs a chance."""
    return insn.rd != 0 and insn.name not in _STORES and insn.spec.flow != "branch" and insn.name not in ("flw", "fld")
