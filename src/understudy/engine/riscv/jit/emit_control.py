"""Where control goes from an instruction: on, to another block, or out of the region."""

from __future__ import annotations

from collections.abc import Callable

from understudy.engine.riscv.jit.counters import count
from understudy.engine.riscv.jit.dispatcher import STEP
from understudy.engine.riscv.jit.emit_integer import Integers
from understudy.engine.riscv.jit.emit_registers import Registers
from understudy.engine.riscv.jit.floatreps import INTEGER, Rep
from understudy.ir.builder import Text


class Control:
    """The control part of the algebra, and how the function is left.

    `pc` is that of the instruction being translated, `fuel` the name of what is left in this block, `refund` what an
    instruction that is left to the reference engine gives back. `exits` are labels by exit code and representations.
    `counter`: that of the block being translated, where instructions are counted (see `counters`). `leaving` writes
    what else has to be done before the function is left.
    """

    def __init__(self, text: Text, ints: Integers, registers: Registers) -> None:
        self.text = text
        self.ints = ints
        self.registers = registers
        self.exits: dict[tuple[int, tuple[tuple[int, Rep], ...]], str] = {}
        self.fuel = "0"
        self.terminator: tuple[str, ...] = ()
        self.counter: int | None = None
        self.leaving: Callable[[], None] | None = None
        self.at(0, 0)

    def begin(self) -> None:
        """A block begins."""
        self.terminator = ()
        self.fuel = self.text.let("load i64, ptr %fuel")

    def at(self, pc: int, refund: int, index: int = 0) -> None:
        """An instruction begins."""
        self.index = index
        self.pc = pc
        self.refund = refund
        self._out: str | None = None

    def side(self, condition: str) -> None:
        """Leave to the reference engine, before this instruction, where `condition` is 1."""
        text, out = self.text, self.out()
        join = text.fresh("on")
        text.branch(condition, out, join, ", !prof !0")
        text.start(join)

    def out(self) -> str:
        """The label to go to for that: first asked for before the instruction has any effect."""
        text = self.text
        if self._out is None:
            self._out = text.fresh("side")
            with text.apart(self._out):
                if self.counter is not None:
                    count(text, self.counter + 1 + self.index)
                self.leave(self.ints.const(64, self.pc), STEP, self.refund)
        return self._out

    def undoing(self, write: Callable[[], None]) -> None:
        """What `write` writes comes first where this instruction is left from now on."""
        text, before = self.text, self.out()
        self._out = text.fresh("undo")
        with text.apart(self._out):
            write()
            text.put(f"br label %{before}")

    def leave(self, pc: str, code: int, refund: int = 0) -> None:
        """Write what is dirty to its slot and go to the exit for the present representations."""
        text, reps = self.text, self.registers.reps
        if self.leaving is not None:
            self.leaving()
        self.registers.flush()
        fuel = text.let(f"add i64 {self.fuel}, {refund}") if refund else self.fuel
        text.put(f"store i64 {fuel}, ptr %fuel")
        text.put(f"store i64 {pc}, ptr %pc")
        key = (code, tuple(sorted((n, rep) for n, rep in reps.items() if rep != INTEGER)))
        text.put(f"br label %{self.exits.setdefault(key, f'exit{len(self.exits)}')}")

    def branch(self, c: str, offset: int) -> None:
        """Conditional, pc-relative."""
        self.terminator = ("branch", c)

    def jump(self, offset: int) -> None:
        """Unconditional, pc-relative."""
        self.terminator = ("jump", str((self.pc + offset) & ((1 << 64) - 1)))

    def jump_to(self, address: str) -> None:
        """Computed."""
        self.terminator = ("indirect", address)
