"""Marks in translated code: twins of registers and memory are written beside the wave's own.

What a mark must not decide is looked at by an unlikely arm, which leaves to the reference engine: that knows lanes and
origins, and goes on with the instruction. Where it has looked often enough, the arm counts and goes on itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from understudy.core.checks import INIT
from understudy.engine.gcn.jit.basics import Untranslated
from understudy.engine.gcn.jit.emit_algebra import Algebra
from understudy.engine.gcn.jit.emit_control import word
from understudy.engine.gcn.jit.emit_helpers import LIKELY
from understudy.engine.gcn.jit.layout import QUIET
from understudy.engine.gcn.marks.algebra import ATOMIC, LANES, LOADED, STORED, Access, Kind, MarkedAlgebra
from understudy.engine.gcn.marks.sights import PC_BITS, SLOTS, code_of, slot_of
from understudy.engine.gcn.marks.sources import source_of
from understudy.engine.marks.mark import Mark, Marks
from understudy.ir.builder import Value
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics.execute import execute

LANE_BITS = 64


class TranslatedKind(Kind):
    """One kind of mark."""

    spaces = frozenset({"global", "flat", "lds"})

    def __init__(self, name: str, number: int, algebra: Algebra) -> None:
        self.name = name
        self.number = number
        self.algebra = algebra
        self.twin = algebra.twins[number]
        self.notes = frozenset({LOADED, STORED}) if name == INIT else frozenset()
        self.insn: Insn

    def begin(self, insn: Insn) -> bool | None:
        """An instruction begins."""
        self.insn = insn
        return source_of(self.name, insn)

    def read(self, w: int, bits: Any) -> Marks:
        """The mark that a register of the twin holds."""
        if bits.number == 0:
            return None
        known = self.twin.known.get(id(bits))
        if known is None:
            known = self.twin.known[id(bits)] = bits, Mark(w, bits=bits)
        return cast("Mark", known[1])

    def write(self, o: Any, w: int, mark: Mark | None) -> Any:
        """What the twin is to hold."""
        bits = o.const(w, 0) if mark is None else mark.bits(o)
        if mark is not None and bits.vec:
            self.twin.known[id(bits)] = bits, mark
        return bits

    def tell(self, what: str, mark: Mark, where: Any = None, access: Access | None = None) -> None:
        """Leave where any lane is marked."""
        o, text = self.algebra, self.algebra.text
        found = mark.whole(o)
        if what == ATOMIC and o.memory.has_loaded:  # an operand that comes from memory is not known ahead
            raise Untranslated
        if found.number == 0 or o.memory.phase > 0:  # what has phases is looked at ahead of them
            return
        if o.scalars.in_strip:
            lanes = o.and_(1, o.active(), found)
            if where is not None:
                lanes = o.and_(1, lanes, where)
            bits = o.vectors.compressed(lanes)
            kind, out = f"i{text.lanes}", f"leave{o.vectors.label}"
            if o.memory.phase:
                out = f"ahead{o.vectors.label.partition('.')[0]}"
            else:
                o.vectors.leaves = True
            none = text.let(f"icmp eq {kind} {bits}, 0")
        else:
            if where is not None:
                found = o.and_(1, found, where)
            whole = what == LANES and mark.w == LANE_BITS
            kind = "i64" if whole else "i1"
            bits = text.bits(mark.bits(o) if whole else found)
            none, out = text.let(f"icmp eq {kind} {bits}, 0"), o.control.step_exit()
        on, arm = text.fresh("fine"), text.fresh("told")
        text.branch(none, on, arm, LIKELY)
        pc, code = self.insn.pc, code_of(self.number, what)
        place, number = partial(self._place, pc, code, 8), partial(self._number, kind, bits)
        counts, is_counted = text.fresh("counts"), what not in (LOADED, STORED)
        with text.apart(arm):
            key = text.let(f"or i64 {o.control.base.at(pc)}, {code << PC_BITS}")
            seen = text.let(f"load i64, ptr {self._place(pc, code)}")
            text.branch(text.let(f"icmp eq i64 {seen}, {key}"), counts if is_counted else on, out)
            if is_counted:
                text.start(counts)
                count = o.counts.at_once
                if o.scalars.in_strip:
                    count = o.counts.ahead if o.memory.phase else o.counts.later
                count(place, number())
                text.put(f"br label %{on}")
        text.start(on)
        if is_counted and not o.scalars.in_strip:
            o.counts.undoing(place, number)

    def _place(self, pc: int, code: int, byte: int = 0) -> str:
        """Where the row of an instruction is, or a byte of it."""
        let = self.algebra.text.let
        moved = let(f"add i64 {let(f'lshr i64 {self.algebra.control.base.at(pc)}, 2')}, {slot_of(0, code)}")
        row = let(f"shl i64 {let(f'and i64 {moved}, {SLOTS - 1}')}, 4")
        table = let(f"inttoptr i64 {word(self.algebra.text, QUIET, self.twin.vectors.home.state)} to ptr")
        return let(f"getelementptr i8, ptr {table}, i64 {let(f'add i64 {row}, {byte}')}")

    def _number(self, kind: str, bits: str) -> str:
        """How many bits are 1."""
        text, number = self.algebra.text, bits
        if kind != "i1":
            text.declare(kind, f"llvm.ctpop.{kind}", (f"{kind} 0",))
            number = text.let(f"call {kind} @llvm.ctpop.{kind}({kind} {bits})")
        return number if kind == "i64" else text.let(f"zext {kind} {number} to i64")


class TranslatedMarks(MarkedAlgebra):
    """Values of translated code with their marks. Scalar registers are written when the instruction is over:
    until then it may be left, to be executed anew."""

    defers = True


def performer(algebra: Algebra, kinds: tuple[str, ...]) -> Callable[[Insn], None]:
    """What writes an instruction."""
    marked = TranslatedMarks(algebra, [TranslatedKind(name, number, algebra) for number, name in enumerate(kinds)])

    def perform(insn: Insn) -> None:
        marked.start(insn)
        execute(cast("Any", marked), insn)
        marked.finish()
        algebra.control.undo.clear()

    return perform


__all__ = ["Value", "performer"]
