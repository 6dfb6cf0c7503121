"""Shadow bits in translated code, which accesses shadow registers and shadow memory.

Translated code tests each use of a value for shadow bits. If any is set, a side exit leads to the reference
engine, which records the lanes and the origin, and completes the instruction. After a fixed number of records
for an instruction, the code only counts the uses and takes no side exit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from softcard.core.checks import INIT
from softcard.engine.gcn.jit.basics import Untranslated
from softcard.engine.gcn.jit.emit.emit_algebra import Algebra
from softcard.engine.gcn.jit.emit.emit_control import word
from softcard.engine.gcn.jit.emit.emit_helpers import LIKELY
from softcard.engine.gcn.jit.layout import QUIET
from softcard.engine.gcn.shadow.algebra import ATOMIC, LANES, LOADED, STORED, Access, Kind, ShadowedAlgebra
from softcard.engine.gcn.shadow.sources import source_of
from softcard.engine.gcn.shadow.uses import PC_BITS, SLOTS, code_of, slot_of
from softcard.engine.shadow.bits import OptionalShadow, ShadowBits
from softcard.ir.builder import Value
from softcard.ir.operand import Operand
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.semantics.execute import execute

LANE_BITS = 64


class TranslatedKind(Kind):
    """One kind of shadow (see `Kind`) in translated code."""

    spaces = frozenset({"global", "flat", "lds"})

    def __init__(self, name: str, number: int, algebra: Algebra) -> None:
        self.name = name
        self.number = number
        self.algebra = algebra
        self.shadow = algebra.shadows[number]
        self.notes = frozenset({LOADED, STORED}) if name == INIT else frozenset()
        self.insn: Insn

    def begin(self, insn: Insn) -> int | None:
        """Begin an instruction; return what determines the shadow of its results, as `Kind` describes."""
        self.insn = insn
        return source_of(self.name, insn)

    def read(self, w: int, bits: Any) -> OptionalShadow:
        """Return the shadow that the contents `bits` of a shadow register represent."""
        if bits.number == 0:
            return None
        known = self.shadow.known.get(id(bits))
        if known is None:
            known = self.shadow.known[id(bits)] = bits, ShadowBits(w, bits=bits)
        return cast("ShadowBits", known[1])

    def write(self, o: Any, w: int, shadow: ShadowBits | None) -> Any:
        """Return the contents of a shadow register that represent the shadow `shadow`."""
        bits = o.const(w, 0) if shadow is None else shadow.bits(o)
        if shadow is not None and bits.vec:
            self.shadow.known[id(bits)] = bits, shadow
        return bits

    def report(self, what: str, shadow: ShadowBits, where: Any = None, access: Access | None = None) -> None:
        """Emit a side exit that is taken if `shadow` has bits set in any lane that uses the value."""
        o, text = self.algebra, self.algebra.text
        found = shadow.whole(o)
        if what == ATOMIC and o.memory.has_loaded:  # an operand from memory is unknown before the load
            raise Untranslated
        if found.number == 0 or o.memory.phase > 0:  # the prologue checks accesses with phases
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
            none = bits.eq(0)
        else:
            if where is not None:
                found = o.and_(1, found, where)
            whole = what == LANES and shadow.w == LANE_BITS
            kind = "i64" if whole else "i1"
            bits = text.bits(shadow.bits(o) if whole else found)
            none, out = bits.eq(0), o.control.step_exit()
        on, arm = text.fresh("fine"), text.fresh("reported")
        text.branch(none, on, arm, LIKELY)
        pc, code = self.insn.pc, code_of(self.number, what)
        place, number = partial(self._place, pc, code, 8), partial(self._number, kind, bits)
        counts, is_counted = text.fresh("counts"), what not in (LOADED, STORED)
        with text.apart(arm):
            key = o.control.base.at(pc) | code << PC_BITS
            seen = self._place(pc, code).load("i64")
            text.branch(seen.eq(key), counts if is_counted else on, out)
            if is_counted:
                text.start(counts)
                count = o.counts.at_once
                if o.scalars.in_strip:
                    count = o.counts.count_prologue if o.memory.phase else o.counts.later
                count(place, number())
                text.jump(on)
        text.start(on)
        if is_counted and not o.scalars.in_strip:
            o.counts.undoing(place, number)

    def _place(self, pc: int, code: int, byte: int = 0) -> Operand:
        """Emit the host address of an instruction's row in the table of counted uses, plus `byte`.

        `code` is the number that `code_of` returns."""
        moved = (self.algebra.control.base.at(pc) >> 2) + slot_of(0, code)
        row = (moved & SLOTS - 1) << 4
        table = word(self.algebra.text, QUIET, self.shadow.vectors.state).inttoptr()
        return table.offset(row + byte)

    def _number(self, kind: str, bits: Operand) -> Operand:
        """Emit the number of set bits in a lane mask of LLVM type `kind`, as 64 bits."""
        text, number = self.algebra.text, bits
        if kind != "i1":
            text.declare(kind, f"llvm.ctpop.{kind}", (f"{kind} 0",))
            number = text.invoke(kind, f"@llvm.ctpop.{kind}", bits)
        return number if kind == "i64" else number.zext("i64")


class ShadowedJitAlgebra(ShadowedAlgebra):
    """The operations of translated code on values with shadow bits.

    Writes of scalar registers are deferred to the end of the instruction, since the reference engine repeats the
    instruction from its start after a side exit."""

    defers = True

    def colliding(self, lane: Any) -> Any:
        """Raise `Untranslated`: the reference engine executes instructions that send values to other lanes.

        Only the reference engine can find the lanes that send values to the same lane."""
        raise Untranslated


def performer(algebra: Algebra, kinds: tuple[str, ...]) -> Callable[[Insn], None]:
    """Return the function that emits an instruction; the code also computes shadow bits of the kinds in `kinds`."""
    shadowed = ShadowedJitAlgebra(algebra, [TranslatedKind(name, number, algebra) for number, name in enumerate(kinds)])

    def perform(insn: Insn) -> None:
        shadowed.start(insn)
        execute(cast("Any", shadowed), insn)
        shadowed.finish()
        algebra.control.undo.clear()

    return perform


__all__ = ["Value", "performer"]
