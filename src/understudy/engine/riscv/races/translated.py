"""Looks at accesses in translated code: compiled functions are told of each before it is made.

Where they cannot say that it is none to tell of, the instruction is left to the reference engine, which asks Python.
"""

from __future__ import annotations

from typing import Final

from understudy.engine.riscv.jit.emit_region import Algebra
from understudy.engine.riscv.jit.engine import Looking
from understudy.engine.riscv.races.codes import ROW_AT
from understudy.engine.riscv.races.native_judge import what_of
from understudy.isa.riscv.insn import Insn
from understudy.isa.riscv.state import RACES


class RaceLooks:
    """Writes them for one region."""

    def __init__(self, algebra: Algebra) -> None:
        self.text = algebra.control.text
        self.control = algebra.control
        self.insn: Insn

    def begin(self, insn: Insn) -> None:
        """An instruction begins."""
        self.insn = insn

    def _row(self) -> str:
        """The row of the hart: its address as a number."""
        self.text.alloca(f"  %q_races = getelementptr i64, ptr %st, i64 {RACES}")
        self.text.alloca("  %races = load ptr, ptr %q_races, !invariant.load !1")
        self.text.alloca("  %race_row = ptrtoint ptr %races to i64")
        return "%race_row"

    def _call(self, name: str, arguments: str) -> str:
        row = self._row()
        place = self.text.let(f"getelementptr i64, ptr %races, i64 {ROW_AT[name]}")
        function = self.text.let(f"load ptr, ptr {place}, !invariant.load !1")
        return self.text.let(f"call i64 {function}(i64 {row}, {arguments})")

    def _look(self, name: str, access: str, w: int, pointer: str, more: str = "") -> None:
        host = self.text.let(f"ptrtoint ptr {pointer} to i64")
        what = what_of(self.insn, access, w >> 3)
        pc = self.control.ints.const(64, self.control.pc)
        status = self._call(name, f"i64 {pc}, i64 {what}, i64 {host}{more}")
        self.control.side(self.text.let(f"icmp ne i64 {status}, 0"))

    def access(self, access: str, w: int, pointer: str) -> None:
        """Memory is accessed next."""
        self._look("look", access, w, pointer)

    def many(self, access: str, w: int, pointer: str, count: str) -> None:
        """So many elements side by side are."""
        size = self.text.let(f"mul i64 {count}, {w >> 3}")
        self._look("look_many", access, w, pointer, f", i64 {size}")

    def fence(self) -> None:
        """A fence is next."""
        is_tso = int(self.insn.name == "fence.tso")
        self._call("fence", f"i64 {self.insn.word}, i64 {is_tso}")


LOOKING: Final = Looking("races", RaceLooks)
