"""Marks in translated code: those of registers are values like theirs, those of memory lie at a distance from it.

What a mark must not decide is looked at by an unlikely arm, which leaves to the reference engine: that notes it, and
goes on with the instruction. Where it has looked often enough, the arm counts and goes on itself.

In correct programs nearly nothing is marked. So rounds of a loop that accesses memory side by side are looked at
together: where nothing that they read is marked, nothing that they write is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from understudy.engine.marks.mark import Mark
from understudy.engine.riscv.jit.emit_region import Algebra
from understudy.engine.riscv.jit.engine import Performing
from understudy.engine.riscv.jit.streams import Access
from understudy.engine.riscv.marks import native_ahead
from understudy.engine.riscv.marks.algebra import BRANCH, LOADED, MarkedHart
from understudy.engine.riscv.marks.block import CALLED, DISTANCE, FUNCTIONS, slot_of
from understudy.engine.riscv.pages import poke
from understudy.ir.native import Natives
from understudy.isa.riscv.insn import Insn
from understudy.isa.riscv.state import MARKS, Hart

VECTORS: Final = ("V", "Zve64d")


class TranslatedTwin:
    """The marks of the hart that runs a region. Registers have slots of the function, filled where it is entered."""

    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra
        self.text = algebra.control.text
        self.written: set[int] = set()
        self._loaded = ""
        """The marks of what is loaded next."""
        self.insn: Insn
        self.is_together = False
        self._assumed: set[int] = set()
        """Registers that such rounds read: they have no marks then."""
        self._known: set[int] = set()
        """Those that a round has written."""

    def begin(self, insn: Insn) -> None:
        """An instruction begins."""
        self.insn = insn

    def _slot(self, n: int) -> str:
        """The variable with the marks of a register."""
        slot = f"%marks{n}"
        for line in (
            f"  %q_marks = getelementptr i64, ptr %st, i64 {MARKS}",
            "  %marks = load ptr, ptr %q_marks, !invariant.load !1",
            f"  %q_marks{n} = getelementptr i64, ptr %marks, i64 {n}",
            f"  {slot} = alloca i64",
            f"  %in_marks{n} = load i64, ptr %q_marks{n}",
            f"  store i64 %in_marks{n}, ptr {slot}",
        ):
            self.text.alloca(line)
        return slot

    def register(self, n: int) -> str | None:
        """Marks of a register; None where it is known to have none."""
        if self.is_together:
            self._assumed |= {n} - self._known
            return None
        return self.text.let(f"load i64, ptr {self._slot(n)}")

    def set_register(self, n: int, bits: str) -> None:
        """They become others."""
        self.text.put(f"store i64 {bits}, ptr {self._slot(n)}")
        self.written.add(n)
        self._known.add(n)

    def leave(self) -> None:
        """Slots go back to the hart."""
        for n in sorted(self.written):
            bits = self.text.let(f"load i64, ptr {self._slot(n)}")
            self.text.put(f"store i64 {bits}, ptr %q_marks{n}")

    def _place(self) -> str:
        return self.text.let(f"getelementptr i8, ptr {self.algebra.memory.pointer}, i64 {DISTANCE}")

    def placed(self, access: str, w: int) -> None:
        """The place of an access is known: it is left for what it loads before anything else knows of it."""
        if access == "read" and not self.is_together:
            self._loaded = self._marks(w)
            self._tell(LOADED, Mark(w, bits=self._loaded))

    def load(self, w: int, address: str) -> str | None:
        """Marks of the memory of the last access; None where it is known to have none."""
        if self.is_together:
            return None
        loaded, self._loaded = self._loaded, ""
        return loaded or self._marks(w)

    def _marks(self, w: int) -> str:
        return self.text.let(f"load volatile i{w}, ptr {self._place()}, align {w >> 3}")

    def store(self, w: int, address: str, bits: str) -> None:
        """They become others."""
        if not self.is_together:
            self.text.put(f"store volatile i{w} {bits}, ptr {self._place()}, align {w >> 3}")

    def tell(self, what: str, mark: Mark, where: Any = None) -> None:
        """Leave where anything is marked, or count it."""
        if what != LOADED:  # which `placed` has told
            self._tell(what, mark)

    def _tell(self, what: str, mark: Mark) -> None:
        text, out = self.text, self.algebra.control.out()
        found = mark.whole(self.algebra)
        on, arm, counts = text.fresh("fine"), text.fresh("told"), text.fresh("counts")
        row, key = slot_of(self.algebra.pc, what)
        self._slot(0)
        with text.apart(arm):
            place = text.let(f"getelementptr i64, ptr %marks, i64 {row}")
            seen = text.let(f"load i64, ptr {place}")
            text.branch(text.let(f"icmp eq i64 {seen}, {key}"), counts, out)
            text.start(counts)
            self._count(row, 1)
            text.put(f"br label %{on}")
        text.branch(found, arm, on, ", !prof !0")
        text.start(on)
        if what != BRANCH:  # behind which an instruction is not left any more
            self.algebra.control.undoing(partial(self._uncount, row, found))

    def _count(self, row: int, number: int) -> None:
        at = self.text.let(f"getelementptr i64, ptr %marks, i64 {row + 1}")
        count = self.text.let(f"load i64, ptr {at}")
        self.text.put(f"store i64 {self.text.let(f'add i64 {count}, {number}')}, ptr {at}")

    def _uncount(self, row: int, found: str) -> None:
        """The reference engine counts it, where it was counted."""
        text, counted, on = self.text, self.text.fresh("counted"), self.text.fresh("on")
        text.branch(found, counted, on)
        text.start(counted)
        self._count(row, -1)
        text.put(f"br label %{on}")
        text.start(on)

    # ---- rounds of a loop, together ------------------------------------------------------------------------------
    def together(self) -> None:
        """What is written next is such a round, of registers and memory without marks."""
        self.is_together, self._assumed, self._known = True, set(), set()

    def ahead(self, accesses: Sequence[Access], table: str, rounds: str) -> str:
        """Whether they have none."""
        text, marked = self.text, self._call("loads_marked", table, str(len(accesses)), rounds)
        for n in sorted(self._assumed):
            marked = text.let(f"or i64 {marked}, {text.let(f'load i64, ptr {self._slot(n)}')}")
        return text.let(f"icmp eq i64 {marked}, 0")

    def behind(self, accesses: Sequence[Access], table: str, rounds: str, done: int) -> None:
        """What was stored has none."""
        if any(each.stores for each in accesses):
            self._call("unmark_stored", table, str(len(accesses)), rounds, str(done))

    def _call(self, name: str, *arguments: str) -> str:
        self._slot(0)
        place = self.text.let(f"getelementptr i64, ptr %marks, i64 {CALLED + FUNCTIONS.index(name)}")
        function = self.text.let(f"load ptr, ptr {place}, !invariant.load !1")
        return self.text.let(f"call i64 {function}({', '.join(f'i64 {each}' for each in arguments)})")


class TranslatedMarks(MarkedHart):
    """Values of translated code with their marks."""

    defers = True

    def __init__(self, algebra: Algebra) -> None:
        self.marks = TranslatedTwin(algebra)
        super().__init__(algebra, self.marks)

    def perform(self, insn: Insn) -> None:
        """Write an instruction; those of vectors are left to the reference engine."""
        control = self.base.control
        if _is_left(insn):
            control.side("true")
            self.base.memory.placed = None
            insn.spec.meaning(self.base, insn)
            return
        self.base.memory.placed = self.marks.placed
        if insn.spec.flow == "indirect":
            control.out()  # it writes a register before it looks at where to go
        self.start(insn)
        insn.spec.meaning(self, insn)  # type: ignore[arg-type]
        self.finish()

    def leave(self) -> None:
        """The function is left."""
        self.marks.leave()

    # ---- rounds of a loop, together ------------------------------------------------------------------------------
    def goes_ahead(self, insns: Sequence[Insn], accesses: Sequence[Access]) -> bool:
        """Whether rounds of such a loop may be looked at together."""
        return not any(_is_left(insn) for insn in insns)

    def ahead(self, accesses: Sequence[Access], table: str, rounds: str) -> str:
        """Look at so many rounds before them: whether nothing that they read is marked."""
        return self.marks.ahead(accesses, table, rounds)

    def together(self) -> None:
        """What is written next is one of those rounds."""
        self.marks.together()

    def one_by_one(self) -> None:
        """It is none any more."""
        self.marks.is_together = False

    def behind(self, accesses: Sequence[Access], table: str, rounds: str, done: int) -> None:
        """What so many rounds have stored, and the first accesses of one more, so many, is not marked."""
        self.marks.behind(accesses, table, rounds, done)


def _is_left(insn: Insn) -> bool:
    """Whether an instruction is left to the reference engine."""
    return insn.spec.extension in VECTORS or insn.spec.extension == "Zicsr"


def _prepare(hart: Hart) -> None:
    """Let the translated code of a hart call what it does."""
    for number, name in enumerate(FUNCTIONS):
        poke(hart.words[MARKS] + 8 * (CALLED + number), 8, NATIVES.address(name))


NATIVES: Final = Natives(native_ahead.loads_marked, native_ahead.unmark_stored)
MARKING: Final = Performing("marks", TranslatedMarks, _prepare)
