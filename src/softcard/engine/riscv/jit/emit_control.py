"""Control flow of an instruction in translated code: to the next one, to another block, or out of the region."""

from __future__ import annotations

from collections.abc import Callable

from softcard.engine.riscv.jit.counters import count
from softcard.engine.riscv.jit.dispatcher import STEP
from softcard.engine.riscv.jit.emit_integer import Integers
from softcard.engine.riscv.jit.emit_registers import Registers
from softcard.engine.riscv.jit.floatreps import INTEGER, Rep
from softcard.ir.builder import Text
from softcard.ir.operand import Operand


class Control:
    """Implements the control operations of `isa.riscv.algebra.Algebra` in LLVM IR, and the exits of the function.

    - `pc`: the address of the instruction that is translated.
    - `fuel`: the name of the IR value of the fuel left in this block.
    - `refund`: the fuel that a side exit of this instruction gives back.
    - `exits`: the labels of exits, by exit code and float representations.
    - `counter`: the block's counter, if instructions are counted (see `counters`).
    - `leaving`: a function that emits code to run before the function is left, or None.
    """

    def __init__(self, text: Text, ints: Integers, registers: Registers) -> None:
        self.text = text
        self.ints = ints
        self.registers = registers
        self.exits: dict[tuple[int, tuple[tuple[int, Rep], ...]], str] = {}
        self.fuel: Operand = text.word(0)
        self.terminator: tuple[str, Operand] | None = None
        self.counter: int | None = None
        self.leaving: Callable[[], None] | None = None
        self.at(0, 0)

    def begin(self) -> None:
        """Begin to emit a block."""
        self.terminator = None
        self.fuel = self.text.pointer("%fuel").load("i64")

    def at(self, pc: int, refund: int, index: int = 0) -> None:
        """Begin to emit the instruction at `pc`, which is number `index` of its block.

        A side exit of the instruction gives back `refund` fuel.
        """
        self.index = index
        self.pc = pc
        self.refund = refund
        self._out: str | None = None

    def side(self, condition: Operand) -> None:
        """Emit a side exit to the reference engine, taken if `condition` is 1."""
        text, out = self.text, self.out()
        join = text.fresh("on")
        text.branch(condition, out, join, ", !prof !0")
        text.start(join)

    def out(self) -> str:
        """Return the label of this instruction's side exit.

        The first request must precede any effect of the instruction."""
        text = self.text
        if self._out is None:
            self._out = text.fresh("side")
            with text.apart(self._out):
                if self.counter is not None:
                    count(text, self.counter + 1 + self.index)
                self.leave(self.ints.const(64, self.pc), STEP, self.refund)
        return self._out

    def undoing(self, write: Callable[[], None]) -> None:
        """Register `write`, which emits code that every later side exit of this instruction executes first."""
        text, before = self.text, self.out()
        self._out = text.fresh("undo")
        with text.apart(self._out):
            write()
            text.jump(before)

    def leave(self, pc: Operand, code: int, refund: int = 0) -> None:
        """Emit the write-back of changed registers, and a jump to the exit with exit code `code`.

        The exit is the one for the current float representations; `refund` is the fuel that is given back.
        """
        text, reps = self.text, self.registers.reps
        if self.leaving is not None:
            self.leaving()
        self.registers.flush()
        fuel = (self.fuel + refund) if refund else self.fuel
        text.pointer("%fuel").store(fuel)
        text.pointer("%pc").store(pc)
        key = (code, tuple(sorted((n, rep) for n, rep in reps.items() if rep != INTEGER)))
        text.jump(self.exits.setdefault(key, f"exit{len(self.exits)}"))

    def branch(self, c: Operand, offset: int) -> None:
        """Branch to pc + `offset` if the condition is 1."""
        self.terminator = ("branch", c)

    def jump(self, offset: int) -> None:
        """Jump to pc + `offset`."""
        self.terminator = ("jump", self.text.word((self.pc + offset) & ((1 << 64) - 1)))

    def jump_to(self, address: Operand) -> None:
        """Jump to a computed address."""
        self.terminator = ("indirect", address)
