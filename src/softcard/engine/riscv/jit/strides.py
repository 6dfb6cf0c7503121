"""Strided accesses (walks) of one-block loops, and streams of such accesses for checks.

The address of a strided access changes by a fixed step in each iteration. If all of its iterations stay in memory that
the page tables know to be contiguous, one test before many iterations replaces a test before every access.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from softcard.engine.riscv.jit.region import Block
from softcard.ir.native import inlined, layout, numbers
from softcard.ir.operand import Operand
from softcard.isa.riscv.insn import Insn

_LOADS: Final = {"lb": 1, "lbu": 1, "lh": 2, "lhu": 2, "lw": 4, "lwu": 4, "ld": 8, "flh": 2, "flw": 4, "fld": 8}
SHIFTED: Final = {"sh1add": 1, "sh2add": 2, "sh3add": 3}
"""The numbers of bits by which these instructions shift rs1 before they add it to rs2."""
MOST_SHIFT: Final = 4
STORES: Final = {"sb": 1, "sh": 2, "sw": 4, "sd": 8, "fsh": 2, "fsw": 4, "fsd": 8}
"""The number of bytes that each store instruction stores."""
_OPCODES: Final = (0x03, 0x07, 0x23, 0x27, 0x2F)
"""The opcodes LOAD, LOAD-FP, STORE, STORE-FP and AMO, which include vector accesses."""


@dataclass(slots=True)
class Stride:
    """A strided access, or several with the same base: loop accesses that move by a fixed step per iteration.

    - `step`: the step in bytes; or `step_register`: the register that contains it.
    - `base`, `index`, `shift`: the registers from which the address is computed at the beginning of an iteration. It is
      `base` plus `index` shifted left by `shift`; register 0 stands for none.
    - `accesses`: the pcs of the accesses. `offsets`: the offset of each from the address.
    - `low`, `high`: the offsets from the address between which the accesses of one iteration lie.
    - `align`: the largest alignment of the accesses.
    - `table`: "load" or "store".
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
        """True if an iteration makes one access, and it begins at the end of the access of the iteration before."""
        return len(self.accesses) == 1 and self.step == self.high - self.low


def size_of(insn: Insn) -> int:
    """Return the number of bytes that a load or store accesses; 0 for other instructions."""
    return _LOADS.get(insn.name) or STORES.get(insn.name, 0)


def accesses_memory(insn: Insn) -> bool:
    """Return True if an instruction may load or store."""
    return size_of(insn) > 0 or (insn.length == 4 and insn.word & 0x7F in _OPCODES)


def strides(block: Block) -> list[Stride]:
    """Return the strided accesses of a one-block loop.

    The result is empty for other blocks, and if the loop's accesses are not simple enough.
    """
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
"""The key of a strided access: its table, base, index and shift (see `Stride`)."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value in terms of the registers at the beginning of an iteration.

    It is register `base` + (register `index` << `shift`) + `offset`; register 0 means none.
    """

    base: int = 0
    index: int = 0
    shift: int = 0
    offset: int = 0

    @property
    def place(self) -> tuple[int, int, int]:
        """The base, index and shift of the value, which identify its address apart from the offset.

        If it has only an index that is not shifted, the index becomes the base."""
        return (self.base, self.index, self.shift) if self.base or self.shift else (self.index, 0, 0)

    def plus(self, other: Value) -> Value | None:
        """Return the sum of two values; None if the sum does not have the form of a `Value`."""
        if (self.base and other.base) or (self.index and other.index):
            return None
        index, shift = (self.index, self.shift) if self.index else (other.index, other.shift)
        return Value(self.base or other.base, index, shift, self.offset + other.offset)

    def shifted(self, count: int) -> Value | None:
        """Return the value shifted left by `count`; None if the result does not have the form of a `Value`."""
        if self.base or self.shift + count > MOST_SHIFT:
            return None
        return Value(0, self.index, self.shift + count, self.offset << count)


class Values:
    """The values of registers at a point within an iteration of a one-block loop.

    `write` updates them, instruction by instruction. `steps` contains the registers that each iteration changes by a
    constant or by a register, with that constant or register. `written` is the number of writes of each register.
    """

    def __init__(self, steps: dict[int, tuple[int, int]], written: Counter[int]) -> None:
        self._steps = steps
        self._written = written
        self._now: dict[int, Value | None] = {}

    def of(self, register: int) -> Value | None:
        """Return the value of a register; None if it is unknown."""
        if register in self._now:
            return self._now[register]
        if register in self._steps:
            is_constant = not self._steps[register][1]
            return Value(index=register) if is_constant else Value(base=register)
        return Value(base=register) if self._written[register] == 0 else None

    def step(self, value: Value) -> tuple[int, int]:
        """Return the step of a value per iteration, as a number of bytes and a register (0 for none)."""
        step, _ = self._steps.get(value.index, (0, 0))
        return step << value.shift, self._steps.get(value.base, (0, 0))[1]

    def write(self, insn: Insn) -> None:
        """Update the register values for the effect of an instruction."""
        self._now[insn.rd] = self._made(insn)

    def _made(self, insn: Insn) -> Value | None:
        if insn.rd in self._steps and self._steps[insn.rd][1]:
            return None  # the offset of an access after it is not a constant
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
    """Return True if the offsets of a strided access agree modulo its alignment, so that one test covers them all."""
    return all((offset - walk.low) % walk.align == 0 for offset in walk.offsets)


def _steps(writing: list[Insn], written: Counter[int]) -> dict[int, tuple[int, int]]:
    """Return the registers that an iteration increases exactly once, each with its step: a constant or a register.

    `writing` contains the instructions that write registers, and `written` the number of writes of each register. The
    constant must not be negative, and the register must not change in the loop.
    """
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
    """Return True if rd is an integer register that changes.

    The function may take a float register for an integer register; that only loses an optimisation.
    """
    return (
        insn.rd != 0
        and insn.name not in STORES
        and insn.spec.flow != "branch"
        and insn.name not in ("flh", "flw", "fld")
    )


# ---- streams ---------------------------------------------------------------------------------------------------------
# Streams: the accesses of many rounds of a measured loop, for checks that run before the rounds and records after them.
#
# Each access of a round is a stream: a row of a table that is passed to compiled functions.


MOST_STREAMS: Final = 12
"""The maximum number of streams of a loop."""


@layout
class Stream(ctypes.Structure):
    """The accesses that one instruction makes in many loop iterations.

    The first iteration accesses `size` bytes at `host`, an address of this process. Each later iteration accesses the
    bytes that lie `step` bytes further. The step is 0 or a multiple of the size. `stores` is 1 for stores. `number` is
    the index of the access in an iteration. `cache` and `is_loaded` are words for use by the checks.
    """

    host: int
    step: int
    size: int
    stores: int
    number: int
    cache: int
    is_loaded: int


STREAM_BYTES: Final = ctypes.sizeof(Stream)
STREAM_AT: Final = numbers(Stream)


@inlined
def times(stream: Stream, rounds: int) -> int:
    """Return in how many of `rounds` iterations a stream accesses other bytes than in the iteration before.

    The first iteration counts. The result is 1 if the stream's step is 0."""
    return rounds if stream.step else 1


@inlined
def is_whole(stream: Stream, count: int) -> int:
    """Return 1 if the first `count` accesses of a stream cover all bytes from the first to the last one."""
    return (stream.step == stream.size) | (count == 1)


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """An access of a loop iteration, as known at translation time."""

    pc: int
    insn: Insn
    walk: Stride

    @property
    def size(self) -> int:
        """The size of the access in bytes."""
        return size_of(self.insn)

    @property
    def stores(self) -> bool:
        """True if the access is a store."""
        return self.walk.table == "store"

    @property
    def offset(self) -> int:
        """The offset of the access from the address that its `Stride` has in an iteration."""
        return self.walk.offsets[self.walk.accesses.index(self.pc)] - self.walk.low


class BatchCheck(Protocol):
    """The interface of a check that can check many loop iterations together, instead of each access."""

    def can_batch(self, insns: Sequence[Insn], accesses: Sequence[Access]) -> bool:
        """Return True if iterations of a loop may be checked together.

        `accesses` are all accesses of the loop; their address tests were hoisted.
        """

    def check_rounds(self, accesses: Sequence[Access], table: Operand, rounds: Operand) -> Operand:
        """Emit the check of `rounds` iterations in advance; return an i1 that is 1 if no further checks are needed.

        The accesses of these iterations are then not checked one by one. `table` is the address of the table of
        streams. The code of the iterations was emitted before, between `begin_batch` and `end_batch`, but runs after
        the check."""

    def begin_batch(self) -> None:
        """Begin to emit iterations that are checked together."""

    def end_batch(self) -> None:
        """Stop emitting iterations that are checked together."""

    def after_rounds(self, accesses: Sequence[Access], table: Operand, rounds: Operand, done: int) -> None:
        """Emit the updates of the check for `rounds` complete iterations and the first `done` accesses of one more.

        `table` is the address of the table of streams.
        """
