"""One-block loops that walk through memory: one test before many rounds instead of one before every access."""

from __future__ import annotations

from typing import Final

from understudy.engine.riscv.jit.emit_control import Control
from understudy.engine.riscv.jit.emit_integer import Integers
from understudy.engine.riscv.jit.emit_memory import Memory
from understudy.engine.riscv.jit.emit_registers import Registers
from understudy.engine.riscv.jit.emit_together import AT_ONCE, AT_RANDOM, Measured, Together
from understudy.engine.riscv.jit.ends import end_of
from understudy.engine.riscv.jit.region import Block
from understudy.engine.riscv.jit.strides import Stride
from understudy.engine.riscv.pages import TABLE_PAGES
from understudy.ir.builder import Text
from understudy.isa.riscv.insn import Insn

WORTH_WHILE: Final = 4
"""Rounds of a loop below which measuring it would cost more than its checks."""


def _synchronizes(insn: Insn) -> bool:
    return insn.spec.extension == "A" or insn.name.startswith("fence")


class Loops:
    """Writes the measuring header of such a loop."""

    def __init__(
        self,
        text: Text,
        ints: Integers,
        registers: Registers,
        memory: Memory,
        control: Control,
        together: Together,
    ) -> None:
        self.text = text
        self.ints = ints
        self.registers = registers
        self.memory = memory
        self.control = control
        self.together = together

    def measure(self, block: Block, walks: list[Stride]) -> Measured:
        """Write the loop's header: how often may it run before a walk leaves its memory or the fuel is low?

        Goes to a version without checks if that is worth while.
        """
        text, o = self.text, self.ints
        start = block.start
        self.memory.loop = tuple(insn for _, insn in block.insns)
        fuel = text.call("i64", "llvm.smax.i64", f"i64 {self.control.fuel}", "i64 0")
        times = text.let(f"udiv i64 {fuel}, {block.cost}")
        places: list[tuple[Stride, str, str]] = []
        synchronizes = any(_synchronizes(insn) for _, insn in block.insns)
        for walk in walks:
            base = self._place(walk)
            first = o.add(64, base, o.const(64, walk.low))
            page = text.let(f"lshr i64 {first}, 12")
            page = text.call("i64", "llvm.umin.i64", f"i64 {page}", f"i64 {TABLE_PAGES}")
            addend = text.let(f"load i64, ptr {text.let(f'getelementptr i64, ptr %{walk.table}s, i64 {page}')}")
            ends = f"getelementptr i64, ptr %{walk.table}_ends, i64 {page}"
            end = text.let(f"load i64, ptr {text.let(ends)}")
            host, looked = o.add(64, first, addend), ""
            if self.memory.looks is not None and not synchronizes:
                access = "read" if walk.table == "load" else "write"
                looked, end = self.memory.looks.hoist(access, walk.accesses, host, addend, end)
            behind = o.add(64, base, o.const(64, walk.high))
            room = text.call("i64", "llvm.usub.sat.i64", f"i64 {end}", f"i64 {behind}")
            fits = text.let(f"icmp uge i64 {end}, {behind}")
            odd = o.and_(64, o.or_(64, first, o.const(64, walk.step)), o.const(64, walk.align - 1))
            step = self.registers.x(walk.step_register) if walk.step_register else str(walk.step)
            places.append((walk, host, step))
            if walk.step_register:
                odd = o.or_(64, odd, o.and_(64, step, o.const(64, walk.align - 1)))
                still = text.let(f"icmp eq i64 {step}, 0")
                divisor = text.let(f"select i1 {still}, i64 1, i64 {step}")
                rounds = text.let(f"udiv i64 {room}, {divisor}")
                rounds = text.let(f"select i1 {still}, i64 {times}, i64 {rounds}")
            else:
                rounds = text.let(f"udiv i64 {room}, {walk.step}") if walk.step else times
            usable = text.let(f"icmp ne i64 {addend}, 0")
            usable = text.let(f"and i1 {usable}, {fits}")
            usable = text.let(f"and i1 {usable}, {o.eq(64, odd, '0')}")
            if looked:
                usable = text.let(f"and i1 {usable}, {looked}")
            rounds = text.let(f"select i1 {usable}, i64 {rounds}, i64 0")
            times = text.call("i64", "llvm.umin.i64", f"i64 {times}", f"i64 {rounds}")
            for pc in walk.accesses:
                self.memory.addends[pc] = addend
        if self.memory.notes is not None:
            times = self.memory.notes.measure(block, [(walk, host) for walk, host, _ in places], times)
        worth = text.let(f"icmp ugt i64 {times}, {WORTH_WHILE}")
        streams = {} if synchronizes else self.together.streams(block, places)
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

    def _floor(self, fuel: str, times: str, block: Block) -> str:
        """The fuel that so many rounds leave."""
        return self.text.let(f"sub i64 {fuel}, {self.text.let(f'mul i64 {times}, {block.cost}')}")

    def _left(self, block: Block) -> str:
        """How many rounds there are most likely before the loop ends."""
        text, end = self.text, end_of(block)
        if end is None:
            return str(AT_RANDOM)
        now, limit, step = self.registers.x(end.register), self.registers.x(end.limit), abs(end.step)
        first, last = (now, limit) if end.step > 0 else (limit, now)
        distance = text.let(f"sub i64 {last}, {first}")
        if not end.is_behind:
            distance = text.let(f"add i64 {distance}, {step - 1}")
        left = text.let(f"udiv i64 {distance}, {step}")
        return text.let(f"add i64 {left}, 1") if end.is_behind else left

    def _place(self, walk: Stride) -> str:
        """Where a walk is when a round begins, but for constants."""
        o = self.ints
        if not walk.index:
            return self.registers.x(walk.base)
        index = self.text.let(f"shl i64 {self.registers.x(walk.index)}, {walk.shift}")
        return o.add(64, self.registers.x(walk.base), index) if walk.base else index

    def back(self, loop: Measured, head: str, floor: str, label: str) -> None:
        """Have a label go on at the head of a version without checks as long as there is more fuel than at its end."""
        text, out = self.text, f"b{loop.start:x}"
        if self.control.leaving is not None:
            over = text.fresh("over")
            with text.apart(over):
                self.control.leaving()
                text.put(f"br label %{out}")
            out = over
        with text.apart(label):
            left = text.let("load i64, ptr %fuel")
            more = text.let(f"icmp sgt i64 {left}, {floor}")
            text.branch(more, head, out, ", !llvm.loop !2")
