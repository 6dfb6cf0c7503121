"""One-block loops that step through memory: tests of many iterations in advance replace a test per access.

Two kinds of tests are hoisted: the test that memory is accessible, and the checks of accesses, which can check many
iterations together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from softcard.engine.riscv.jit.emit_control import Control
from softcard.engine.riscv.jit.emit_integer import Integers
from softcard.engine.riscv.jit.emit_memory import Memory
from softcard.engine.riscv.jit.emit_registers import Registers
from softcard.engine.riscv.jit.region import Block
from softcard.engine.riscv.jit.strides import (
    MOST_STREAMS,
    STREAM_AT,
    STREAM_BYTES,
    Access,
    BatchCheck,
    Stride,
    accesses_memory,
)
from softcard.engine.riscv.pages import TABLE_PAGES
from softcard.ir.builder import Text
from softcard.ir.operand import Operand
from softcard.isa.riscv.insn import Insn

# ---- rounds that are checked together --------------------------------------------------------------------------------
# Rounds of a measured loop that are checked together, before and after them, in place of at each access.


AT_ONCE: Final = 1024
"""The maximum number of iterations that are checked together."""
AT_RANDOM: Final = 64
"""The maximum number of iterations that are checked together if the end of the loop is unknown.

Checks of iterations past the end would be wasted.
"""
LEAST_AT_ONCE: Final = 12
"""The number of iterations below which checking them together costs more than checking each access."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A loop whose header tests accesses in advance.

    `start` is the address of the loop. Unchecked iterations run while more fuel than `floor` is left. If
    iterations may be checked together, `streams` contains all accesses of the loop with their start addresses
    and steps. `times` is then the number of such iterations, and they run while more fuel than `near` is left."""

    start: int
    floor: Operand
    streams: dict[Access, tuple[Operand, Operand]]
    times: Operand | None = None
    near: Operand | None = None

    @property
    def accesses(self) -> list[Access]:
        """The accesses of the loop, in the order of one iteration."""
        return list(self.streams)


class Batches:
    """Emits the code that checks many loop iterations together, for all checks in `checks`."""

    def __init__(self, text: Text, control: Control, checks: Sequence[BatchCheck]) -> None:
        self.text = text
        self.control = control
        self._checks = checks

    def streams(
        self, block: Block, places: Sequence[tuple[Stride, Operand, Operand]]
    ) -> dict[Access, tuple[Operand, Operand]]:
        """Return all accesses of a loop, in the order of an iteration, each with its start address and step.

        `places` contains the loop's strided accesses with their start addresses and steps. The result is empty if
        iterations may not be checked together.
        """
        of = {pc: (walk, first, step) for walk, first, step in places for pc in walk.accesses}
        insns = [insn for _, insn in block.insns]
        found = {Access(pc, insn, of[pc][0]): of[pc][1:] for pc, insn in block.insns if pc in of}
        every = sum(accesses_memory(insn) for insn in insns)
        if not self._checks or not len(found) == every <= MOST_STREAMS or block.polls:
            return {}
        return found if all(each.can_batch(insns, list(found)) for each in self._checks) else {}

    def check_rounds(self, loop: Measured) -> None:
        """Emit the code that checks many iterations of a loop in advance and then enters them.

        If the checks do not succeed, or the iterations are few, it enters iterations that check each access. The
        code of all these iterations was emitted before."""
        text, checked, fast = self.text, f"look{loop.start:x}", f"fast{loop.start:x}"
        text.start(f"ahead{loop.start:x}")
        assert loop.times is not None
        text.branch(loop.times >= LEAST_AT_ONCE, checked, fast)
        text.start(checked)
        for number, (access, (first, step)) in enumerate(loop.streams.items()):
            words: dict[str, Operand | int] = {
                "host": (first + access.offset), "step": step, "size": access.size,
                "stores": int(access.stores), "number": number, "is_loaded": 0,
            }  # fmt: skip
            for name, word in words.items():
                at = number * STREAM_BYTES + 8 * STREAM_AT[name]
                self._rows().offset(at).store(word)
        self._rounds().store(0)
        table = self._table()
        for check in self._checks:
            on = text.fresh("fine")
            text.branch(check.check_rounds(loop.accesses, table, loop.times), on, fast)
            text.start(on)
        text.jump(f"together{loop.start:x}")

    def begin(self, loop: Measured) -> None:
        """Begin to emit iterations that are checked together."""
        for check in self._checks:
            check.begin_batch()
        made = self._rounds().load("i64")
        self._rounds().store(made + 1)
        self.control.leaving = lambda: self._behind(loop)

    def end(self) -> None:
        """Stop emitting iterations that are checked together."""
        for check in self._checks:
            check.end_batch()
        self.control.leaving = None

    def _behind(self, loop: Measured) -> None:
        """Emit, for an exit from iterations that were checked together, the updates of the checks' state.

        The updates cover the finished iterations. They also cover those accesses of the last iteration that precede
        the current instruction."""
        whole = self._rounds().load("i64") - 1
        done, table = sum(each.pc < self.control.pc for each in loop.streams), self._table()
        for check in self._checks:
            check.after_rounds(loop.accesses, table, whole, done)

    def _rows(self) -> Operand:
        return self.text.slot("  %streams", f"[{MOST_STREAMS * STREAM_BYTES} x i8]", ", align 8")

    def _table(self) -> Operand:
        return self._rows().ptrtoint()

    def _rounds(self) -> Operand:
        return self.text.slot("  %rounds", "i64")


# ---- loops -----------------------------------------------------------------------------------------------------------


WORTH_WHILE: Final = 4
"""The number of iterations below which the hoisted tests of a loop cost more than they save."""


def _synchronizes(insn: Insn) -> bool:
    return insn.spec.extension == "A" or insn.name.startswith("fence")


class Loops:
    """Emits the header of a loop, which tests its accesses in advance."""

    def __init__(
        self,
        text: Text,
        ints: Integers,
        registers: Registers,
        memory: Memory,
        control: Control,
        batches: Batches,
    ) -> None:
        self.text = text
        self.ints = ints
        self.registers = registers
        self.memory = memory
        self.control = control
        self.begin_batch = batches

    def measure(self, block: Block, walks: list[Stride]) -> Measured:
        """Emit the loop's header, which computes how many iterations may run without checks.

        That number is limited by the end of the memory of each strided access (`walks`) and by the fuel. If it is large
        enough, the header continues in a version of the loop without checks.
        """
        text, o = self.text, self.ints
        start = block.start
        self.memory.loop = tuple(insn for _, insn in block.insns)
        fuel = text.call("i64", "llvm.smax.i64", f"i64 {self.control.fuel}", "i64 0")
        times = fuel // block.cost
        places: list[tuple[Stride, Operand, Operand]] = []
        synchronizes = any(_synchronizes(insn) for _, insn in block.insns)
        for walk in walks:
            base = self._place(walk)
            first = o.add(64, base, o.const(64, walk.low))
            page = first >> 12
            page = text.call("i64", "llvm.umin.i64", f"i64 {page}", f"i64 {TABLE_PAGES}")
            addend = text.pointer(f"%{walk.table}s").element("i64", page).load("i64")
            end = text.pointer(f"%{walk.table}_ends").element("i64", page).load("i64")
            host, usable_caches = o.add(64, first, addend), None
            if self.memory.access_check is not None and not synchronizes:
                access = "read" if walk.table == "load" else "write"
                usable_caches, end = self.memory.access_check.hoist(access, walk.accesses, host, addend, end)
            walk_end = o.add(64, base, o.const(64, walk.high))
            room = text.call("i64", "llvm.usub.sat.i64", f"i64 {end}", f"i64 {walk_end}")
            fits = end >= walk_end
            odd = o.and_(64, o.or_(64, first, o.const(64, walk.step)), o.const(64, walk.align - 1))
            step = self.registers.x(walk.step_register) if walk.step_register else o.const(64, walk.step)
            places.append((walk, host, step))
            if walk.step_register:
                odd = o.or_(64, odd, o.and_(64, step, o.const(64, walk.align - 1)))
                still = step.eq(0)
                divisor = still.select(1, step)
                rounds = room // divisor
                rounds = still.select(times, rounds)
            else:
                rounds = (room // walk.step) if walk.step else times
            usable = addend.ne(0)
            usable = usable & fits
            usable = usable & o.eq(64, odd, 0)
            if usable_caches is not None:
                usable = usable & usable_caches
            rounds = usable.select(rounds, 0)
            times = text.call("i64", "llvm.umin.i64", f"i64 {times}", f"i64 {rounds}")
            for pc in walk.accesses:
                self.memory.addends[pc] = addend
        if self.memory.notes is not None:
            times = self.memory.notes.measure(block, [(walk, host) for walk, host, _ in places], times)
        worth = times > WORTH_WHILE
        streams = {} if synchronizes else self.begin_batch.streams(block, places)
        slow, fast = f"slow{start:x}", f"fast{start:x}"
        if not streams:
            floor = self._floor(fuel, times, block)
            text.branch(worth, fast, slow)
            return Measured(start, floor, {})
        times = text.call("i64", "llvm.umin.i64", f"i64 {times}", f"i64 {AT_ONCE}")
        near = text.call("i64", "llvm.umin.i64", f"i64 {times}", f"i64 {self._left(block)}")
        floors = [self._floor(fuel, each, block) for each in (times, near)]
        text.branch(worth, f"ahead{start:x}", slow)
        return Measured(start, floors[0], streams, near, floors[1])

    def _floor(self, fuel: Operand, times: Operand, block: Block) -> Operand:
        """Return the fuel that is left after `times` iterations of a block."""
        return fuel - times * block.cost

    def _left(self, block: Block) -> Operand:
        """Return an estimate of the number of iterations that are left before the loop ends."""
        end = end_of(block)
        if end is None:
            return self.text.word(AT_RANDOM)
        now, limit, step = self.registers.x(end.register), self.registers.x(end.limit), abs(end.step)
        first, last = (now, limit) if end.step > 0 else (limit, now)
        distance = last - first
        if not end.is_behind:
            distance = distance + (step - 1)
        left = distance // step
        return (left + 1) if end.is_behind else left

    def _place(self, walk: Stride) -> Operand:
        """Return the address of a strided access at the beginning of an iteration, without constant offsets.

        The constant offset of each access is `Stride.offsets`.
        """
        o = self.ints
        if not walk.index:
            return self.registers.x(walk.base)
        index = self.registers.x(walk.index) << walk.shift
        return o.add(64, self.registers.x(walk.base), index) if walk.base else index

    def back(self, loop: Measured, head: str, floor: Operand, label: str) -> None:
        """Emit the block `label`, which ends an unchecked iteration.

        It goes back to `head` if there is more fuel than `floor`, and otherwise to the loop's header, which tests
        again.
        """
        text, out = self.text, f"b{loop.start:x}"
        if self.control.leaving is not None:
            over = text.fresh("over")
            with text.apart(over):
                self.control.leaving()
                text.jump(out)
            out = over
        with text.apart(label):
            left = text.pointer("%fuel").load("i64")
            more = left.sgt(floor)
            text.branch(more, head, out, ", !llvm.loop !2")


# ---- the end of a loop -----------------------------------------------------------------------------------------------
# The end of a one-block loop as its branch suggests it: from registers, most likely but not certain.


_STRICT: Final = ("bne", "blt", "bltu")
_BRANCHES: Final = (*_STRICT, "bge", "bgeu")
_MOVES: Final = ("addi", "addiw")


@dataclass(frozen=True, slots=True)
class End:
    """The end condition of a loop: a register that changes by `step` (not 0) reaches or passes register `limit`.

    `is_behind` is true if the loop ends after the register passes the limit, and false if it ends when the register
    reaches it.
    """

    register: int
    limit: int
    step: int
    is_behind: bool


def end_of(block: Block) -> End | None:
    """Return the end condition of a one-block loop; None if its branch does not imply one."""
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
    """Return True if an instruction may write a register."""
    return register != 0 and insn.rd == register
