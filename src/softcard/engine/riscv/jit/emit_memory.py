"""The memory operations of `isa.riscv.algebra.Algebra` in LLVM IR.

Accesses use the hart's page tables; an access to a page that is missing there takes a side exit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from softcard.engine.riscv.jit.emit_control import Control
from softcard.engine.riscv.jit.emit_integer import Integers
from softcard.engine.riscv.jit.emit_registers import BITS, TYPE, FloatValue, Registers
from softcard.engine.riscv.jit.region import Block, Region
from softcard.engine.riscv.jit.strides import BatchCheck, Stride
from softcard.ir.builder import Text
from softcard.ir.operand import Operand
from softcard.isa.riscv.insn import Insn

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


class AccessCheck(BatchCheck, Protocol):
    """The interface of a check that emits code before each access. That code may take a side exit."""

    def begin(self, insn: Insn) -> None:
        """Begin to emit an instruction."""

    def access(self, access: str, w: int, pointer: Operand, address: Operand) -> None:
        """Emit the check before a "read", "write" or "atomic" access.

        `pointer` is the location in this process, which the hart sees at `address`.
        """

    def many(self, access: str, w: int, pointer: Operand, address: Operand, count: Operand, most: int) -> None:
        """Emit the check before an access to `count` adjacent elements of `w` bits.

        `pointer` and `address` are as in `access`. `most` is the usual value of `count`, or 0 if that is not known.
        """

    def fence(self) -> None:
        """Emit the check before a fence."""

    def hoist(
        self, access: str, pcs: list[int], host: Operand, addend: Operand, end: Operand
    ) -> tuple[Operand, Operand]:
        """Emit one check, in advance, of the accesses at `pcs` in many loop iterations, from host address `host` on.

        Return two values. The first is an i1 that is 1 if these iterations may run with cheaper checks. The second
        is the guest address up to which this holds, at most `end`. `addend` is host minus guest address."""


class Notes(Protocol):
    """The interface of a check that emits code to record stores in shadow memory. Pointers are host pointers."""

    def begin(self, pointer: Operand) -> Operand | None:
        """Emit the preparation of a store; the emitted code may still take a side exit.

        Return the value to pass as `begun` to `store` and `many`."""

    def store(self, w: int, pointer: Operand, begun: Operand | None) -> None:
        """Emit the recording of a `w`-bit store at `pointer`, for which `begin` has returned `begun`."""

    def many(self, w: int, pointer: Operand, count: Operand, begun: Operand | None) -> None:
        """Emit the recording of a store of `count` adjacent elements, for which `begin` has returned `begun`."""

    def ready(self) -> Operand:
        """Emit the preparation of an atomic access; the emitted code may still take a side exit.

        Return the value to pass as `ready` to `stored`."""

    def stored(self, w: int, pointer: Operand, ready: Operand) -> None:
        """Emit the recording of an atomic access's store."""

    def measure(self, block: Block, walks: Sequence[tuple[Stride, Operand]], times: Operand) -> Operand:
        """Emit the preparation of `times` loop iterations; return the number that may run with reduced recording.

        `walks` contains the loop's strided accesses, each with its start address.
        """

    def unmeasured(self) -> None:
        """Resume full recording, after the iterations with reduced recording were emitted."""

    def edge(self, start: int, successor: int) -> bool:
        """Return True if `close` must emit code on the edge from block `start` to `successor`."""

    def close(self) -> None:
        """Emit the code on the edge that `edge` was last called for."""

    def leave(self) -> None:
        """Emit the code to run before the region is left."""


class Memory:
    """Implements loads, stores and atomics in LLVM IR.

    - `addends`: by the pc of an access, host minus guest address, if that is known before the access.
    - `chased`: the pcs of loads whose page is predicted (see `chases`).
    - `refills`: True if the code may restore a page that is missing from its table without a side exit.
    - `access_check`: the check of accesses, or None.
    - `notes`: the check that records stores, or None.
    """

    def __init__(self, text: Text, ints: Integers, registers: Registers, control: Control, region: Region) -> None:
        self.text = text
        self.ints = ints
        self.registers = registers
        self.representations = registers.representations
        self.control = control
        self.refills = region.refills
        self._misaligned = region.misaligned
        self.addends: dict[int, Operand] = {}
        self.loop: tuple[Insn, ...] = ()
        """The instructions of the loop for which `addends` are valid."""
        self.chased: frozenset[int] = frozenset()
        self.pointer: Operand
        """The pointer of the last access that was emitted."""
        self.placed: Callable[[str, int], None] | None = None
        """A callback for each "read", "write" or "atomic" access with its width in bits, or None.

        It is called once the pointer is known; the code that it emits may take a side exit, too.
        """
        self.access_check: AccessCheck | None = None
        self.notes: Notes | None = None

    @property
    def takes_misaligned(self) -> bool:
        """True if translated code makes loads and stores at any address.

        It is False if accesses are checked: checks handle only aligned accesses, so the reference engine makes
        misaligned ones, byte by byte.
        """
        return self._misaligned and self.access_check is None and self.notes is None and self.placed is None

    def alignment(self, w: int) -> int:
        """Return the alignment in bytes that is known of the address of a load or store of `w` bits."""
        return 1 if self.takes_misaligned else w >> 3

    def _pointer(
        self, access: str, w: int, address: Operand, tables: tuple[str, ...], misaligned: bool = False
    ) -> Operand:
        """Return the pointer of an access in this process; emit a side exit for a page that is missing in `tables`."""
        self.pointer = self._place(w, address, tables, misaligned)
        if self.placed is not None:
            self.placed(access, w)
        return self.pointer

    def _check_access(self, access: str, w: int, pointer: Operand, address: Operand) -> None:
        """Emit the check of an access.

        This must be the last side exit of the access: the reference engine would check the access a second time
        otherwise.
        """
        if self.access_check is not None:
            self.access_check.access(access, w, pointer, address)

    def _place(self, w: int, address: Operand, tables: tuple[str, ...], misaligned: bool) -> Operand:
        known = self.addends.get(self.control.pc)
        if known is not None:
            return (known + address).inttoptr()
        log2 = _LOG2[w]
        if log2:
            turned = self.text.call("i64", "llvm.fshr.i64", f"i64 {address}", f"i64 {address}", f"i64 {log2}")
        else:
            turned = address
        # A misaligned address has low bits that the rotation brought to the top: one comparison tests both.
        odd = turned > (1 << 32 - log2) - 1
        if log2 and misaligned:
            self._within_page(w, address, odd)
            page = address >> 12
        else:
            self.control.side(odd)
            page = turned >> 12 - log2
        addend: Operand | None = None
        other: Operand | None = None
        for table in tables:
            other = addend
            slot = self.text.pointer(f"%{table}").element("i64", page)
            addend = slot.load("i64")
            if self.refills:
                addend = self._refilled(addend, page, table)
            self.control.side(addend.eq(0))
        if (
            self.refills and other is not None and addend is not None
        ):  # a translation buffer may map one page to two memories
            self.control.side(addend.ne(other))
        assert addend is not None
        if self.control.pc in self.chased:
            addend = self._guessed(addend)
        host = addend + address
        return host.inttoptr()

    def _within_page(self, w: int, address: Operand, odd: Operand) -> None:
        """Emit a side exit for a misaligned access that crosses its page or lies beyond the tables.

        `odd` is not 0 if the access is misaligned.
        """
        text = self.text
        arm, on = text.fresh("misaligned"), text.fresh("on")
        text.branch(odd, arm, on, ", !prof !0")
        text.start(arm)
        last = address + ((w >> 3) - 1)
        pages = (address ^ last) >> 12
        beyond = (address | last) >> 32
        self.control.side((pages | beyond).ne(0))
        text.jump(on)
        text.start(on)

    def _guessed(self, addend: Operand) -> Operand:
        """Return `addend`, the word of a page table, after a branch that lets the processor predict its value.

        The branch tests whether `addend` equals that of the last execution. If the processor predicts that it does,
        it can execute later code before it has loaded the word."""
        text = self.text
        slot = text.slot(f"  %guess{self.control.pc:x}", "i64")
        with text.at_head():
            slot.store(0, volatile=True)
        guess = slot.load("i64", volatile=True)
        top, other, on = text.fresh("guess"), text.fresh("other"), text.fresh("on")
        text.jump(top)
        text.start(top)
        text.branch(addend.ne(guess), other, on, ", !prof !0")
        text.start(other)
        slot.store(addend, volatile=True)
        text.jump(on)
        text.start(on)
        return text.phi("i64", (guess, top), (addend, other))

    def _refilled(self, addend: Operand, page: Operand, table: str) -> Operand:
        """Return `addend`, the entry of `page` in `table`; if it is 0 (empty), emit code that restores it first."""
        text = self.text
        missing, on = text.fresh("missing"), text.fresh("on")
        text.pointer("%addend").store(addend)
        text.branch(addend.eq(0), missing, on, ", !prof !0")
        text.start(missing)
        refill = text.pointer("%q_refill").load("ptr")
        found = text.invoke("i64", refill, text.pointer("%st"), page, int(table == "stores"))
        text.pointer("%addend").store(found)
        text.jump(on)
        text.start(on)
        return text.pointer("%addend").load("i64")

    def load(self, w: int, address: Operand) -> Operand:
        """Load a value from memory."""
        pointer = self._pointer("read", w, address, ("loads",), self.takes_misaligned)
        self._check_access("read", w, pointer, address)
        return pointer.load(f"i{w}", volatile=True, align=self.alignment(w))

    def store(self, w: int, address: Operand, v: Operand) -> None:
        """Store a value to memory."""
        pointer = self._pointer("write", w, address, ("stores",), self.takes_misaligned)
        begun = None if self.notes is None else self.notes.begin(pointer)
        self._check_access("write", w, pointer, address)
        if self.notes is not None:
            self.notes.store(w, pointer, begun)
        held = self.representations.float_of.get(v)
        if held is not None and BITS[held.fmt] != w:
            held = None  # all 64 bits of a boxed single
        pointer.store(v if held is None else held.name, volatile=True, align=self.alignment(w))

    def amo(self, kind: str, w: int, address: Operand, v: Operand) -> Operand:
        """Perform an atomic read-modify-write, and return the old value."""
        self.synchronize()
        pointer = self._pointer("atomic", w, address, ("loads", "stores"))
        ready = None if self.notes is None else self.notes.ready()
        self._check_access("atomic", w, pointer, address)
        old = pointer.update(_AMO[kind], v, volatile=True)
        if self.notes is not None and ready is not None:
            self.notes.stored(w, pointer, ready)
        return old

    def load_reserved(self, w: int, address: Operand) -> Operand:
        """Load a value and reserve its address."""
        self.synchronize()
        pointer = self._pointer("read", w, address, ("loads",))
        self._check_access("read", w, pointer, address)
        old = pointer.load_atomic(f"i{w}", "seq_cst", align=w >> 3, volatile=True)
        self.text.pointer("%reserved").store(address)
        self.text.pointer("%reserved_value").store(self.ints.zext(64, w, old))
        return old

    def store_conditional(self, w: int, address: Operand, v: Operand) -> Operand:
        """Store if the reservation holds; return 0 on success, else 1."""
        self.synchronize()
        pointer = self._pointer("atomic", w, address, ("loads", "stores"))
        ready = None if self.notes is None else self.notes.ready()
        reserved = self.text.pointer("%reserved").load("i64")
        held = reserved.eq(address)
        if self.access_check is not None:
            seen, on = self.text.fresh("held"), self.text.fresh("on")
            self.text.branch(held, seen, on)
            self.text.start(seen)
            self._check_access("atomic", w, pointer, address)
            self.text.jump(on)
            self.text.start(on)
        self.text.pointer("%reserved").store(-1)
        self.text.pointer("%scratch").store(1)
        attempt, join = self.text.fresh("sc"), self.text.fresh("join")
        self.text.branch(held, attempt, join)
        self.text.start(attempt)
        expected = self.text.pointer("%reserved_value").load("i64")
        narrow = self.ints.trunc(w, 64, expected)
        _, done = pointer.compare_exchange(narrow, v, volatile=True)
        if self.notes is not None and ready is not None:
            stored, on = self.text.fresh("stored"), self.text.fresh("on")
            self.text.branch(done, stored, on)
            self.text.start(stored)
            self.notes.stored(w, pointer, ready)
            self.text.jump(on)
            self.text.start(on)
        failed = ~done
        self.text.pointer("%scratch").store(self.ints.zext(64, 1, failed))
        self.text.jump(join)
        self.text.start(join)
        return self.text.pointer("%scratch").load("i64")

    def fence(self) -> None:
        """Emit a fence that orders the accesses of this thread."""
        self.synchronize()
        if self.access_check is not None:
            self.access_check.fence()
        self.text.put("fence seq_cst")

    def synchronize(self) -> None:
        """Emit a side exit that is taken at this synchronising instruction if other harts run at the same time."""
        shared = self.text.pointer("%shared").load("i64")
        self.control.side(shared.ne(0))
        self.text.pointer("%synchronized").store(1)

    def f_from_bits(self, fmt: str, v: Operand) -> FloatValue:
        """Return the float with this bit pattern.

        If the bit pattern was loaded only for this, the load is emitted as the load of a float.
        """
        prefix = f"  {v} = load volatile i{BITS[fmt]}, "
        if not self.text.lines[-1].startswith(prefix) or v in self.registers.xs.values():
            return self.representations.f_from_bits(fmt, v)
        self.text.lines[-1] = f"  {v} = load volatile {TYPE[fmt]}, " + self.text.lines[-1][len(prefix) :]
        return FloatValue(fmt, "x", self.text.operand(TYPE[fmt], v))
