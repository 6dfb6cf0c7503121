"""Stores of loops that go through memory from one place to the next, which are noted as one run.

Such a run is open in a *scope*: blocks that lead to each other, of which no other instruction stores. So what a run is
noted for when it is closed, when control leaves the scope, nobody has stored since.
"""

from __future__ import annotations

from typing import Final

from understudy.engine.riscv.jit.region import Block, Region
from understudy.engine.riscv.jit.strides import SHIFTED, STORES
from understudy.isa.riscv.floatstate import EXTENSIONS
from understudy.isa.riscv.insn import Insn

UNIT: Final = ("vse8.v", "vse16.v", "vse32.v", "vse64.v")
FROM_FLOATS: Final = ("fcvt.w", "fcvt.l", "fmv.x", "feq", "flt", "fle", "fclass", "vset", "vmv.x", "vcpop", "vfirst")
"""How instructions of floats and vectors begin that write integer registers."""
STORE_FP: Final = 0x27
"""Opcode of stores of floats and of vectors."""


def stores(insn: Insn) -> bool:
    """Whether an instruction may store."""
    if insn.spec.extension == "A":
        return not insn.name.startswith("lr.")
    return insn.name in STORES or (insn.length == 4 and insn.word & 0x7F == STORE_FP)


def run_scopes(region: Region) -> dict[int, frozenset[int]]:
    """By the pc of an instruction whose stores make runs, the starts of the blocks of its scope, as many as can be."""
    scopes: dict[int, frozenset[int]] = {}
    for loop in _loops(region):
        found = [(pc, insn) for start in loop for pc, insn in region.blocks[start].insns if stores(insn)]
        if len(found) == 1:
            [(pc, insn)] = found
            if pc in scopes or _goes_on(pc, insn, [region.blocks[start] for start in loop]):
                scopes[pc] = scopes.get(pc, frozenset()) | loop
    return scopes


def _loops(region: Region) -> list[frozenset[int]]:
    """The blocks of each loop, inner ones before those that they lie in: from its head to the last that goes back."""
    ends: dict[int, int] = {}
    for start, block in region.blocks.items():
        for head in block.successors:
            if head <= start and head in region.blocks:
                ends[head] = max(ends.get(head, 0), start)
    spans = sorted(ends.items(), key=lambda span: span[1] - span[0])
    return [frozenset(start for start in region.blocks if head <= start <= end) for head, end in spans]


def _goes_on(pc: int, insn: Insn, blocks: list[Block]) -> bool:
    """Whether the next round of a loop most likely stores behind where this one did."""
    moves: dict[int, list[Insn]] = {}
    before: list[Insn] = []
    for block in blocks:
        for at, each in block.insns:
            if at == pc:
                before = [other for other_pc, other in block.insns if other_pc < pc]
            if each.rd and _writes_integer(each):
                moves.setdefault(each.rd, []).append(each)
    if insn.name in STORES:
        return _step(insn.rs1, before, moves) == STORES[insn.name]
    if insn.name not in UNIT or insn.vm == 0 or len(moves.get(insn.rs1, ())) != 1:
        return False
    [move] = moves[insn.rs1]
    return move.name in ("add", *SHIFTED) and insn.rs1 in (move.rs1, move.rs2)


def _step(register: int, before: list[Insn], moves: dict[int, list[Insn]]) -> int | None:
    """How far a round of a loop moves a register; None where that is not a constant.

    `before`: what is executed in its block before it is read. `moves`: all that writes registers in the loop.
    """
    for index in reversed(range(len(before))):
        move = before[index]
        if move.rd == register and _writes_integer(move):
            return _step_by(move, before[:index], moves)
    if register not in moves or not register:
        return 0
    move = moves[register][0]
    return move.imm if len(moves[register]) == 1 and move.name == "addi" and move.rs1 == register else None


def _step_by(move: Insn, before: list[Insn], moves: dict[int, list[Insn]]) -> int | None:
    """How far a round moves what an instruction gives."""
    if move.name not in ("addi", "slli", "add", *SHIFTED):
        return None
    first = _step(move.rs1, before, moves)
    second = _step(move.rs2, before, moves) if move.name in ("add", *SHIFTED) else 0
    if first is None or second is None:
        return None
    return (first << (move.imm if move.name == "slli" else SHIFTED.get(move.name, 0))) + second


def _writes_integer(insn: Insn) -> bool:
    """Whether rd may be an integer register."""
    if insn.spec.extension in (*EXTENSIONS, "V", "Zve64d"):
        return insn.name.startswith(FROM_FLOATS)
    return insn.spec.flow != "branch" and insn.name not in STORES
