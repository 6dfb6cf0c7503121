"""One-block loops that walk through memory: one test before many rounds instead of one before every access."""

from __future__ import annotations

from typing import Final

from understudy.engine.riscv.jit.emit_state import StateEmitter
from understudy.engine.riscv.jit.region import Block
from understudy.engine.riscv.jit.strides import Stride
from understudy.engine.riscv.pages import TABLE_PAGES

WORTH_WHILE: Final = 4
"""Rounds of a loop below which measuring it would cost more than its checks."""


class LoopEmitter(StateEmitter):
    """Adds the measuring header of such a loop."""

    def _measure(self, block: Block, walks: list[Stride]) -> str:
        """Write the loop's header: how often may it run before a walk leaves its memory or the fuel is low?

        Goes to the version without checks if that is worth while; gives the fuel at which that one must end.
        """
        start = block.start
        self._begin(start, f"b{start:x}")
        self.declared.add("declare i64 @llvm.umin.i64(i64, i64)")
        self.declared.add("declare i64 @llvm.smax.i64(i64, i64)")
        fuel = self.value(f"call i64 @llvm.smax.i64(i64 {self.fuel}, i64 0)")
        times = self.value(f"udiv i64 {fuel}, {block.cost}")
        for walk in walks:
            base = self.x(walk.base)
            first = self.add(64, base, self.const(64, walk.low))
            page = self.value(f"lshr i64 {first}, 12")
            page = self.value(f"call i64 @llvm.umin.i64(i64 {page}, i64 {TABLE_PAGES})")
            addend = self.value(f"load i64, ptr {self.value(f'getelementptr i64, ptr %{walk.table}s, i64 {page}')}")
            ends = f"getelementptr i64, ptr %{walk.table}_ends, i64 {page}"
            end = self.value(f"load i64, ptr {self.value(ends)}")
            behind = self.add(64, base, self.const(64, walk.high))
            room = self.value(f"call i64 @llvm.usub.sat.i64(i64 {end}, i64 {behind})")
            fits = self.value(f"icmp uge i64 {end}, {behind}")
            self.declared.add("declare i64 @llvm.usub.sat.i64(i64, i64)")
            odd = self.and_(64, self.or_(64, first, self.const(64, walk.step)), self.const(64, walk.align - 1))
            if walk.step_register:
                step = self.x(walk.step_register)
                odd = self.or_(64, odd, self.and_(64, step, self.const(64, walk.align - 1)))
                still = self.value(f"icmp eq i64 {step}, 0")
                divisor = self.value(f"select i1 {still}, i64 1, i64 {step}")
                rounds = self.value(f"udiv i64 {room}, {divisor}")
                rounds = self.value(f"select i1 {still}, i64 {times}, i64 {rounds}")
            elif walk.step:
                rounds = self.value(f"udiv i64 {room}, {walk.step}")
            else:
                rounds = times
            usable = self.value(f"icmp ne i64 {addend}, 0")
            usable = self.value(f"and i1 {usable}, {fits}")
            usable = self.value(f"and i1 {usable}, {self.eq(64, odd, '0')}")
            rounds = self.value(f"select i1 {usable}, i64 {rounds}, i64 0")
            times = self.value(f"call i64 @llvm.umin.i64(i64 {times}, i64 {rounds})")
            for pc in walk.accesses:
                self.addends[pc] = addend
        worth = self.value(f"icmp ugt i64 {times}, {WORTH_WHILE}")
        floor = self.value(f"sub i64 {fuel}, {self.value(f'mul i64 {times}, {block.cost}')}")
        self.line(f"br i1 {worth}, label %fast{start:x}, label %slow{start:x}")
        return floor

    def _loop_back(self, start: int, fast: str, floor: str) -> str:
        label = self.label("again")
        self.tail += [
            f"{label}:",
            f"  %left{label} = load i64, ptr %fuel",
            f"  %more{label} = icmp sgt i64 %left{label}, {floor}",
            f"  br i1 %more{label}, label %{fast}, label %b{start:x}",
        ]
        return label
