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

_LOADS: Final = {"lb": 1, "lbu": 1, "lh": 2, "lhu": 2, "lw": 4, "lwu": 4, "ld": 8, "flh": 2, "flw": 4, "fld": 8}
SHIFTED: Final = {"sh1add": 1, "sh2add": 2, "sh3add": 3}
"""By how much these shift rs1 before they add it to rs2."""
MOST_SHIFT: Final = 4
STORES: Final = {"sb": 1, "sh": 2, "sw": 4, "sd": 8, "fsh": 2, "fsw": 4, "fsd": 8}
"""Bytes that these store."""
_OPCODES: Final = (0x03, 0x07, 0x23, 0x27, 0x2F)
"""LOAD, LOAD-FP, STORE, STORE-FP and AMO, which have the accesses of vectors, too."""


@dataclass(slots=True)
class Stride:
    """Accesses (by pc, at `offsets` from a place) that a round moves by `step` bytes or by `step_register`.

    The place is what registers hold when a round begins: `base`, and `index` shifted left by `shift` beside it (0:
    none). In one round they touch bytes from the place + `low` up to it + `high`, each aligned to at most `align`;
    `table` is "load" or "store".
    """

    table: str
    base: int
    index: int = 0
    shift: int = 0
    step: int = 0
    step_register: int = 0
    low: int = 1 << 63
    high: int = -(1 << 63)
    align: int = 1
    accesses: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)

    @property
    def goes_on(self) -> bool:
        """Whether it is one access a round, which begins where that of the last round ended."""
        return len(self.accesses) == 1 and self.step == self.high - self.low


def size_of(insn: Insn) -> int:
    """Bytes that a load or store accesses; 0 for all others."""
    return _LOADS.get(insn.name) or STORES.get(insn.name, 0)


def accesses_memory(insn: Insn) -> bool:
    """Whether an instruction may load or store anything."""
    return size_of(insn) > 0 or (insn.length == 4 and insn.word & 0x7F in _OPCODES)


def strides(block: Block) -> list[Stride]:
    """The walks of a block that loops to itself; none if it is no such loop or its walks are not simple."""
    if block.start not in block.successors or block.insns[-1][1].spec.flow != "branch":
        return []
    writing = [insn for _, insn in block.insns if _writes_integer(insn)]
    written = Counter(insn.rd for insn in writing)
    steps = _steps(writing, written)
    found: dict[Place, Stride] = {}
    values = Values(steps, written)
    for pc, insn in block.insns:
        size, value = size_of(insn), values.of(insn.rs1)
        step, register = (0, 0) if value is None else values.step(value)
        if size and value is not None and not (step and register):
            offset = value.offset + insn.imm
            place = "load" if insn.name in _LOADS else "store", *value.place
            walk = found.setdefault(place, Stride(*place, step=step, step_register=register))
            walk.low, walk.high = min(walk.low, offset), max(walk.high, offset + size)
            walk.align = max(walk.align, size)
            walk.accesses.append(pc)
            walk.offsets.append(offset)
        if _writes_integer(insn):
            values.write(insn)
    return [walk for walk in found.values() if _is_regular(walk)]


Place = tuple[str, int, int, int]
"""Of a walk: table, base, index and shift."""


@dataclass(frozen=True, slots=True)
class Value:
    """Register `base` + (register `index` << `shift`) + `offset`, as registers are when a round begins; 0: none."""

    base: int = 0
    index: int = 0
    shift: int = 0
    offset: int = 0

    @property
    def place(self) -> tuple[int, int, int]:
        """Base, index and shift; an index alone is a base."""
        return (self.base, self.index, self.shift) if self.base or self.shift else (self.index, 0, 0)

    def plus(self, other: Value) -> Value | None:
        """The sum; None where that is no such value."""
        if (self.base and other.base) or (self.index and other.index):
            return None
        index, shift = (self.index, self.shift) if self.index else (other.index, other.shift)
        return Value(self.base or other.base, index, shift, self.offset + other.offset)

    def shifted(self, count: int) -> Value | None:
        """The same, shifted left."""
        if self.base or self.shift + count > MOST_SHIFT:
            return None
        return Value(0, self.index, self.shift + count, self.offset << count)


class Values:
    """What registers hold in a round, instruction by instruction, as far as a loop moves that by the same each time.

    `steps`: registers that move, by how much; `written`: how often each is written.
    """

    def __init__(self, steps: dict[int, tuple[int, int]], written: Counter[int]) -> None:
        self._steps = steps
        self._written = written
        self._now: dict[int, Value | None] = {}

    def of(self, register: int) -> Value | None:
        """What it holds; None where that may be anything."""
        if register in self._now:
            return self._now[register]
        if register in self._steps:
            is_constant = not self._steps[register][1]
            return Value(index=register) if is_constant else Value(base=register)
        return Value(base=register) if self._written[register] == 0 else None

    def step(self, value: Value) -> tuple[int, int]:
        """By how many bytes a round moves a value, or by which register."""
        step, _ = self._steps.get(value.index, (0, 0))
        return step << value.shift, self._steps.get(value.base, (0, 0))[1]

    def write(self, insn: Insn) -> None:
        """An instruction is executed."""
        self._now[insn.rd] = self._made(insn)

    def _made(self, insn: Insn) -> Value | None:
        if insn.rd in self._steps and self._steps[insn.rd][1]:
            return None  # the offset of an access behind it is not a constant
        first, second = self.of(insn.rs1), self.of(insn.rs2)
        if first is None:
            return None
        if insn.name == "addi":
            return first.plus(Value(offset=insn.imm))
        if insn.name == "slli":
            return first.shifted(insn.imm)
        moved = first.shifted(SHIFTED.get(insn.name, 0)) if insn.name in SHIFTED else first
        if insn.name in ("add", *SHIFTED) and moved is not None and second is not None:
            return moved.plus(second)
        return None


def _is_regular(walk: Stride) -> bool:
    """Offsets of one walk agree modulo its alignment, so that one test aligns them all."""
    return all((offset - walk.low) % walk.align == 0 for offset in walk.offsets)


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
    return (
        insn.rd != 0
        and insn.name not in STORES
        and insn.spec.flow != "branch"
        and insn.name not in ("flh", "flw", "fld")
    )
