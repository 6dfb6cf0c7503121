"""Memory of the algebra: accesses through the hart's page tables, whose misses leave to the reference engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from understudy.engine.riscv.jit.emit_control import Control
from understudy.engine.riscv.jit.emit_integer import Integers
from understudy.engine.riscv.jit.emit_registers import BITS, TYPE, Held, Registers
from understudy.engine.riscv.jit.region import Block
from understudy.engine.riscv.jit.streams import Ahead
from understudy.engine.riscv.jit.strides import Stride
from understudy.ir.builder import Text
from understudy.isa.riscv.insn import Insn

_AMO: Final = {
    "swap": "xchg",
    "add": "add",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "min": "min",
    "max": "max",
    "minu": "umin",
    "maxu": "umax",
}
_LOG2: Final = {8: 0, 16: 1, 32: 2, 64: 3}


class Looks(Ahead, Protocol):
    """Writes a look at each access before it is made: it may leave to the reference engine."""

    def begin(self, insn: Insn) -> None:
        """An instruction begins."""

    def access(self, access: str, w: int, pointer: str, address: str) -> None:
        """A "read", "write" or "atomic" access is next, at a place of this process that the hart sees at an address."""

    def many(self, access: str, w: int, pointer: str, address: str, count: str, most: int) -> None:
        """So many elements side by side are accessed next, often `most`, if that is not 0."""

    def fence(self) -> None:
        """A fence is next."""

    def hoist(self, access: str, pcs: list[int], host: str, addend: str, end: str) -> tuple[str, str]:
        """Look beforehand at what many rounds of a loop do, from a place of this process on: whether they may be made
        with less of a look at each, and up to which address of the hart's (`end`: nothing is known behind)."""


class Notes(Protocol):
    """Writes what keeps account of stores beside memory. Places are those of this process."""

    def begin(self, pointer: str) -> str:
        """A store is next, which may be left to the reference engine; gives what `store` and `many` want."""

    def store(self, w: int, pointer: str, begun: str) -> None:
        """It is made now."""

    def many(self, w: int, pointer: str, count: str, begun: str) -> None:
        """It is one of so many elements side by side."""

    def ready(self) -> str:
        """An atomic access may be next, which may be left to the reference engine; gives what `stored` wants."""

    def stored(self, w: int, pointer: str, ready: str) -> None:
        """It has stored."""

    def measure(self, block: Block, walks: Sequence[tuple[Stride, str]], times: str) -> str:
        """Before so many rounds of a loop, and where its walks begin: how many of them may be made with less of an
        account at each."""

    def unmeasured(self) -> None:
        """What follows are the rounds that may not."""

    def edge(self, start: int, successor: int) -> bool:
        """Whether something has to be written between two blocks: what `close` writes."""

    def close(self) -> None:
        """Control goes where `edge` was asked about last."""

    def leave(self) -> None:
        """The region is left."""


class Memory:
    """Loads, stores and atomics. `addends`: by pc, accesses whose memory is known already, and where it lies.

    `chased` are the pcs of loads whose memory is guessed before it is known (see `chases`).
    With `refills` a page that is not in its table may still come back there without leaving. `looks`: what looks at
    accesses, if anything does; `notes`: what keeps account of stores.
    """

    def __init__(self, text: Text, ints: Integers, registers: Registers, control: Control, refills: bool) -> None:
        self.text = text
        self.ints = ints
        self.registers = registers
        self.representations = registers.representations
        self.control = control
        self.refills = refills
        self.addends: dict[int, str] = {}
        self.loop: tuple[Insn, ...] = ()
        """The instructions of the loop that they are of."""
        self.chased: frozenset[int] = frozenset()
        self.pointer = ""
        """Where the last access goes."""
        self.placed: Callable[[str, int], None] | None = None
        """Told of a "read", "write" or "atomic" access of so many bits whose place is known: it may leave, too."""
        self.looks: Looks | None = None
        self.notes: Notes | None = None

    def _pointer(self, access: str, w: int, address: str, tables: tuple[str, ...]) -> str:
        """Where an access goes."""
        self.pointer = self._place(w, address, tables)
        if self.placed is not None:
            self.placed(access, w)
        return self.pointer

    def _look(self, access: str, w: int, pointer: str, address: str) -> None:
        """Have an access looked at: the last chance to leave it, since it must not be looked at twice."""
        if self.looks is not None:
            self.looks.access(access, w, pointer, address)

    def _place(self, w: int, address: str, tables: tuple[str, ...]) -> str:
        known = self.addends.get(self.control.pc)
        if known is not None:
            return self.text.let(f"inttoptr i64 {self.text.let(f'add i64 {known}, {address}')} to ptr")
        log2 = _LOG2[w]
        if log2:
            turned = self.text.call("i64", "llvm.fshr.i64", f"i64 {address}", f"i64 {address}", f"i64 {log2}")
        else:
            turned = address
        # A misaligned address has low bits that the rotation brought to the top: one comparison tests both.
        self.control.side(self.text.let(f"icmp ugt i64 {turned}, {(1 << (32 - log2)) - 1}"))
        page = self.text.let(f"lshr i64 {turned}, {12 - log2}")
        addend, other = "", ""
        for table in tables:
            other = addend
            slot = self.text.let(f"getelementptr i64, ptr %{table}, i64 {page}")
            addend = self.text.let(f"load i64, ptr {slot}")
            if self.refills:
                addend = self._refilled(addend, page, table)
            self.control.side(self.text.let(f"icmp eq i64 {addend}, 0"))
        if self.refills and other:  # a translation buffer may have seen two memories behind one page
            self.control.side(self.text.let(f"icmp ne i64 {addend}, {other}"))
        if self.control.pc in self.chased:
            addend = self._guessed(addend)
        host = self.text.let(f"add i64 {addend}, {address}")
        return self.text.let(f"inttoptr i64 {host} to ptr")

    def _guessed(self, addend: str) -> str:
        """The addend of last time where that is right: what follows need not wait for the table's word."""
        text = self.text
        slot = f"%guess{self.control.pc:x}"
        text.alloca(f"  {slot} = alloca i64")
        text.alloca(f"  store volatile i64 0, ptr {slot}")
        guess = text.let(f"load volatile i64, ptr {slot}")
        top, other, on = text.fresh("guess"), text.fresh("other"), text.fresh("on")
        text.put(f"br label %{top}")
        text.start(top)
        text.branch(text.let(f"icmp ne i64 {addend}, {guess}"), other, on, ", !prof !0")
        text.start(other)
        text.put(f"store volatile i64 {addend}, ptr {slot}")
        text.put(f"br label %{on}")
        text.start(on)
        return text.let(f"phi i64 [ {guess}, %{top} ], [ {addend}, %{other} ]")

    def _refilled(self, addend: str, page: str, table: str) -> str:
        """What the table has for a page, or what it has now where it had nothing."""
        text = self.text
        missing, on = text.fresh("missing"), text.fresh("on")
        text.put(f"store i64 {addend}, ptr %addend")
        text.branch(text.let(f"icmp eq i64 {addend}, 0"), missing, on, ", !prof !0")
        text.start(missing)
        refill = text.let("load ptr, ptr %q_refill")
        found = text.let(f"call i64 {refill}(ptr %st, i64 {page}, i64 {int(table == 'stores')})")
        text.put(f"store i64 {found}, ptr %addend")
        text.put(f"br label %{on}")
        text.start(on)
        return text.let("load i64, ptr %addend")

    def load(self, w: int, address: str) -> str:
        """Aligned load."""
        pointer = self._pointer("read", w, address, ("loads",))
        self._look("read", w, pointer, address)
        return self.text.let(f"load volatile i{w}, ptr {pointer}, align {w >> 3}")

    def store(self, w: int, address: str, v: str) -> None:
        """Aligned store."""
        pointer = self._pointer("write", w, address, ("stores",))
        begun = "" if self.notes is None else self.notes.begin(pointer)
        self._look("write", w, pointer, address)
        if self.notes is not None:
            self.notes.store(w, pointer, begun)
        held = self.representations.float_of.get(v)
        if held is not None and BITS[held.fmt] != w:
            held = None  # all 64 bits of a boxed single
        what = f"{TYPE[held.fmt]} {held.name}" if held is not None else f"i{w} {v}"
        self.text.put(f"store volatile {what}, ptr {pointer}, align {w >> 3}")

    def amo(self, kind: str, w: int, address: str, v: str) -> str:
        """Atomic read-modify-write."""
        self.synchronize()
        pointer = self._pointer("atomic", w, address, ("loads", "stores"))
        ready = "" if self.notes is None else self.notes.ready()
        self._look("atomic", w, pointer, address)
        old = self.text.let(f"atomicrmw volatile {_AMO[kind]} ptr {pointer}, i{w} {v} seq_cst")
        if self.notes is not None:
            self.notes.stored(w, pointer, ready)
        return old

    def load_reserved(self, w: int, address: str) -> str:
        """Load and reserve."""
        self.synchronize()
        pointer = self._pointer("read", w, address, ("loads",))
        self._look("read", w, pointer, address)
        old = self.text.let(f"load atomic volatile i{w}, ptr {pointer} seq_cst, align {w >> 3}")
        self.text.put(f"store i64 {address}, ptr %reserved")
        self.text.put(f"store i64 {self.ints.zext(64, w, old)}, ptr %reserved_value")
        return old

    def store_conditional(self, w: int, address: str, v: str) -> str:
        """0 and stored if the reservation holds, else 1."""
        self.synchronize()
        pointer = self._pointer("atomic", w, address, ("loads", "stores"))
        ready = "" if self.notes is None else self.notes.ready()
        reserved = self.text.let("load i64, ptr %reserved")
        held = self.text.let(f"icmp eq i64 {reserved}, {address}")
        if self.looks is not None:
            seen, on = self.text.fresh("held"), self.text.fresh("on")
            self.text.branch(held, seen, on)
            self.text.start(seen)
            self._look("atomic", w, pointer, address)
            self.text.put(f"br label %{on}")
            self.text.start(on)
        self.text.put("store i64 -1, ptr %reserved")
        self.text.put("store i64 1, ptr %scratch")
        attempt, join = self.text.fresh("sc"), self.text.fresh("join")
        self.text.put(f"br i1 {held}, label %{attempt}, label %{join}")
        self.text.start(attempt)
        expected = self.text.let("load i64, ptr %reserved_value")
        narrow = self.ints.trunc(w, 64, expected)
        pair = self.text.let(f"cmpxchg volatile ptr {pointer}, i{w} {narrow}, i{w} {v} seq_cst seq_cst")
        done = self.text.let(f"extractvalue {{ i{w}, i1 }} {pair}, 1")
        if self.notes is not None:
            stored, on = self.text.fresh("stored"), self.text.fresh("on")
            self.text.branch(done, stored, on)
            self.text.start(stored)
            self.notes.stored(w, pointer, ready)
            self.text.put(f"br label %{on}")
            self.text.start(on)
        failed = self.text.let(f"xor i1 {done}, true")
        self.text.put(f"store i64 {self.ints.zext(64, 1, failed)}, ptr %scratch")
        self.text.put(f"br label %{join}")
        self.text.start(join)
        return self.text.let("load i64, ptr %scratch")

    def fence(self) -> None:
        """Order accesses of this thread."""
        self.synchronize()
        if self.looks is not None:
            self.looks.fence()
        self.text.put("fence seq_cst")

    def synchronize(self) -> None:
        """What synchronizes harts leaves while others run, and is noted."""
        shared = self.text.let("load i64, ptr %shared")
        self.control.side(self.text.let(f"icmp ne i64 {shared}, 0"))
        self.text.put("store i64 1, ptr %synchronized")

    def f_from_bits(self, fmt: str, v: str) -> Held:
        """The float with this bit pattern; a value loaded for this alone is loaded as a float instead."""
        prefix = f"  {v} = load volatile i{BITS[fmt]}, "
        if not self.text.lines[-1].startswith(prefix) or v in self.registers.xs.values():
            return self.representations.f_from_bits(fmt, v)
        self.text.lines[-1] = f"  {v} = load volatile {TYPE[fmt]}, " + self.text.lines[-1][len(prefix) :]
        return Held(fmt, "x", v)
