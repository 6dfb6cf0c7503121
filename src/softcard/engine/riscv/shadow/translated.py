"""Definedness shadow bits in translated code.

The shadows of registers are variables of the function, as the registers are; the shadow of memory is in shadow memory.
A use of a value that must be defined is preceded by a branch for the unlikely case that it is undefined. The branch
takes a side exit to the reference engine, which records the use and executes the instruction. After `uses.QUOTA`
recorded uses of one instruction, the branch only counts the use and continues.

In correct programs nearly nothing is undefined. So iterations of a loop that accesses adjacent memory are checked
together: if all that they read is defined, all that they write is defined.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from softcard.engine.riscv.hooks import Instrumentation
from softcard.engine.riscv.jit.emit_region import Algebra
from softcard.engine.riscv.jit.strides import STREAM_BYTES, Access, Stream, is_whole, times
from softcard.engine.riscv.pages import poke
from softcard.engine.riscv.shadow.algebra import BRANCH, LOADED, ShadowedHart
from softcard.engine.riscv.shadow_layout import CALLED, DISTANCE, FUNCTIONS, slot_of
from softcard.engine.shadow.bits import ShadowBits
from softcard.ir.native import U8, U16, U32, U64, Natives, fill, inlined, largest_in_lines, native
from softcard.ir.operand import Operand
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.state import SHADOW, Hart

# ---- many rounds of a loop -------------------------------------------------------------------------------------------
# Native functions for the marks of many rounds of a loop: test whether any loaded byte is undefined; mark stored bytes
# as defined.


@native
def are_undefined(at: int, size: int) -> int:
    """Return 1 if any of the `size` shadow bytes from address `at` on is not 0."""
    lines = size & ~63
    if largest_in_lines(at, lines >> 6):
        return 1
    for k in range(lines, size & ~7, 8):
        if U64[at + k]:
            return 1
    for k in range(size & ~7, size):
        if U8[at + k]:
            return 1
    return 0


@inlined
def shadows_of(at: int, size: int) -> int:
    """Return the shadow bytes of an access of `size` bytes, as one number; `at` is their address."""
    if size >= 4:
        return U32[at] if size == 4 else U64[at]
    return U8[at] if size == 1 else U16[at]


@inlined
def define_some(at: int, size: int) -> None:
    """Clear the `size` shadow bytes from address `at` on; those that are 0 already are not written."""
    if are_undefined(at, size):
        fill(at, 0, size)


@native
def loads_undefined(streams: int, count: int, rounds: int) -> int:
    """Return 1 if `rounds` iterations of a loop load any undefined byte.

    The loop has `count` streams, whose table is at `streams`.
    """
    for k in range(count):
        stream = Stream.from_address(streams + k * STREAM_BYTES)
        at, size, some = stream.host + DISTANCE, stream.size, times(stream, rounds)
        if stream.stores:
            continue
        if is_whole(stream, some):
            if are_undefined(at, size * some):
                return 1
            continue
        for _ in range(some):
            if shadows_of(at, size):
                return 1
            at += stream.step
    return 0


@native
def define_stored(streams: int, count: int, rounds: int, done: int) -> None:
    """Clear the shadow bytes of all bytes that a loop has stored to.

    The loop has made `rounds` complete iterations and the first `done` accesses of one more. It has `count` streams,
    whose table is at `streams`.
    """
    for k in range(count):
        stream = Stream.from_address(streams + k * STREAM_BYTES)
        at, size, some = stream.host + DISTANCE, stream.size, rounds + (stream.number < done)
        if stream.stores == 0 or some == 0:
            continue
        some = times(stream, some)
        if is_whole(stream, some):
            size, some = size * some, 1
        for _ in range(some):
            define_some(at, size)
            at += stream.step


VECTORS: Final = ("V", "Zve64d")


class TranslatedShadow:
    """The shadow state of the hart that runs the emitted region, as `HartShadow` for translated code.

    Each shadow register has a stack slot of the function, which is loaded at the function's entry.
    """

    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra
        self.text = algebra.control.text
        self.written: set[int] = set()
        self._loaded: Operand | None = None
        """The shadow bits that `placed` has read for the current load, or None."""
        self.insn: Insn
        self.is_batch = False
        self._assumed: set[int] = set()
        """The registers that jointly checked iterations read.

        The check in advance tests that their shadow bits are 0.
        """
        self._slots: set[int] = set()
        """The registers whose shadow bits have a stack slot."""
        self._known: set[int] = set()
        """The registers that a jointly checked iteration has written so far; their shadow bits are 0."""

    def begin(self, insn: Insn) -> None:
        """Begin to emit an instruction."""
        self.insn = insn

    def _slot(self, n: int) -> Operand:
        """Return the variable with the shadow bits of a register."""
        slot = self.text.pointer(f"%shadows{n}")
        text = self.text
        if n not in self._slots:
            self._slots.add(n)
            with text.at_head():
                shadows = text.fixed("shadows", text.pointer("%st").element("i64", SHADOW), ", !invariant.load !1")
                own = text.named(f"%q_shadows{n}", shadows.element("i64", n))
                text.variable(slot, "i64")
                slot.store(text.named(f"%in_shadows{n}", own.load("i64")))
        return slot

    def register(self, n: int) -> Operand | None:
        """Return the shadow bits of a register; None if they are known to be 0."""
        if self.is_batch:
            self._assumed |= {n} - self._known
            return None
        return self._slot(n).load("i64")

    def set_register(self, n: int, bits: Operand) -> None:
        """Set the shadow bits of a register."""
        self._slot(n).store(bits)
        self.written.add(n)
        self._known.add(n)

    def leave(self) -> None:
        """Emit the write-back of shadow registers to the hart."""
        for n in sorted(self.written):
            bits = self._slot(n).load("i64")
            self.text.pointer(f"%q_shadows{n}").store(bits)

    def _place(self) -> Operand:
        return self.algebra.memory.pointer.offset(DISTANCE)

    def placed(self, access: str, w: int) -> None:
        """Emit the handling of a load of undefined bits: a side exit, or a count of the use.

        This is called when the pointer of an access has been computed, and before the code of other checks of the
        access is emitted."""
        if access == "read" and not self.is_batch:
            self._loaded = self._shadows(w)
            self._report(LOADED, ShadowBits(w, bits=self._loaded))

    def load(self, w: int, address: Operand) -> Operand | None:
        """Return the shadow bits of the memory of the last access; None if they are known to be 0."""
        if self.is_batch:
            return None
        loaded, self._loaded = self._loaded, None
        return self._shadows(w) if loaded is None else loaded

    def _shadows(self, w: int) -> Operand:
        return self._place().load(f"i{w}", volatile=True, align=w >> 3)

    def store(self, w: int, address: Operand, bits: Operand) -> None:
        """Set the shadow bits of the memory of the last access."""
        if not self.is_batch:
            self._place().store(bits, volatile=True, align=w >> 3)

    def report(self, what: str, shadow: ShadowBits, where: Any = None) -> None:
        """Emit code that takes a side exit or counts the use of a value, if any bit of `shadow` is set.

        `what` is the kind of use. Loads are handled by `placed`."""
        if what != LOADED:  # `placed` has reported loads
            self._report(what, shadow)

    def _report(self, what: str, shadow: ShadowBits) -> None:
        text, out = self.text, self.algebra.control.out()
        found = shadow.whole(self.algebra)
        on, arm, counts = text.fresh("fine"), text.fresh("reported"), text.fresh("counts")
        row, key = slot_of(self.algebra.pc, what)
        self._slot(0)
        with text.apart(arm):
            place = text.pointer("%shadows").element("i64", row)
            seen = place.load("i64")
            text.branch(seen.eq(key), counts, out)
            text.start(counts)
            self._count(row, 1)
            text.jump(on)
        text.branch(found, arm, on, ", !prof !0")
        text.start(on)
        if what != BRANCH:  # after which an instruction is not left any more
            self.algebra.control.undoing(partial(self._uncount, row, found))

    def _count(self, row: int, number: int) -> None:
        at = self.text.pointer("%shadows").element("i64", row + 1)
        count = at.load("i64")
        at.store(count + number)

    def _uncount(self, row: int, found: Operand) -> None:
        """Emit code that takes back the count of a use if `found` is 1, since the reference engine counts it again."""
        text, counted, on = self.text, self.text.fresh("counted"), self.text.fresh("on")
        text.branch(found, counted, on)
        text.start(counted)
        self._count(row, -1)
        text.jump(on)
        text.start(on)

    # ---- rounds of a loop, together ------------------------------------------------------------------------------
    def begin_batch(self) -> None:
        """Begin to emit an iteration that is checked together with others.

        The shadow bits of the registers and memory that it reads are known to be 0.
        """
        self.is_batch, self._assumed, self._known = True, set(), set()

    def check_rounds(self, accesses: Sequence[Access], table: Operand, rounds: Operand) -> Operand:
        """Emit the check of `rounds` iterations of a loop, before they run.

        Return an i1 that is 1 if all registers and memory that the iterations read are defined.
        """
        shadowed = self._call("loads_undefined", table, len(accesses), rounds)
        for n in sorted(self._assumed):
            shadowed = shadowed | self._slot(n).load("i64")
        return shadowed.eq(0)

    def after_rounds(self, accesses: Sequence[Access], table: Operand, rounds: Operand, done: int) -> None:
        """Emit the clearing of the shadow bytes that belong to the bytes stored by the iterations.

        There were `rounds` complete iterations, and the first `done` accesses of one more."""
        if any(each.stores for each in accesses):
            self._call("define_stored", table, len(accesses), rounds, done)

    def _call(self, name: str, *arguments: Operand | int) -> Operand:
        self._slot(0)
        place = self.text.pointer("%shadows").element("i64", CALLED + FUNCTIONS.index(name))
        function = place.load("ptr", tail=", !invariant.load !1")
        return self.text.invoke("i64", function, *arguments)


class ShadowedJitAlgebra(ShadowedHart):
    """The operations of `isa.riscv.algebra.Algebra` on values with shadow bits, for translated code."""

    defers = True

    def __init__(self, algebra: Algebra) -> None:
        self.shadows = TranslatedShadow(algebra)
        super().__init__(algebra, self.shadows)

    def perform(self, insn: Insn) -> None:
        """Emit an instruction; vector instructions are executed by the reference engine."""
        control = self.base.control
        if _is_left(insn):
            control.side(control.text.flag(True))
            self.base.memory.placed = None
            insn.spec.semantics(self.base, insn)
            return
        self.base.memory.placed = self.shadows.placed
        if insn.spec.flow == "indirect":
            control.out()  # a jump writes its register before it reads its target
        self.start(insn)
        insn.spec.semantics(self, insn)  # type: ignore[arg-type]
        self.finish()

    def leave(self) -> None:
        """Emit the code to run before the function is left."""
        self.shadows.leave()

    # ---- rounds of a loop, together ------------------------------------------------------------------------------
    def can_batch(self, insns: Sequence[Insn], accesses: Sequence[Access]) -> bool:
        """Return True if iterations of a loop may be checked together."""
        return not any(_is_left(insn) for insn in insns)

    def check_rounds(self, accesses: Sequence[Access], table: Operand, rounds: Operand) -> Operand:
        """Emit the check of `rounds` iterations of a loop, before they run.

        Return an i1 that is 1 if all registers and memory that the iterations read are defined.
        """
        return self.shadows.check_rounds(accesses, table, rounds)

    def begin_batch(self) -> None:
        """Begin to emit iterations that are checked together."""
        self.shadows.begin_batch()

    def end_batch(self) -> None:
        """Stop emitting iterations that are checked together."""
        self.shadows.is_batch = False

    def after_rounds(self, accesses: Sequence[Access], table: Operand, rounds: Operand, done: int) -> None:
        """Emit the clearing of the shadow bytes that the iterations have stored to.

        There were `rounds` complete iterations, and the first `done` accesses of one more.
        """
        self.shadows.after_rounds(accesses, table, rounds, done)


def _is_left(insn: Insn) -> bool:
    """Return True if translated code leaves an instruction to the reference engine."""
    return insn.spec.extension in VECTORS or insn.spec.extension == "Zicsr"


def _prepare(hart: Hart) -> None:
    """Prepare a hart: set the addresses of the functions that its translated code calls."""
    for number, name in enumerate(FUNCTIONS):
        poke(hart.words[SHADOW] + 8 * (CALLED + number), 8, NATIVES.address(name))


NATIVES: Final = Natives(loads_undefined, define_stored)
DEFINEDNESS: Final = Instrumentation(("shadows",), ShadowedJitAlgebra, _prepare)
