"""The operations of `isa.riscv.algebra`, which define the instructions, evaluated on Python integers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property, partial
from typing import Protocol

from softcard.core.errors import AccessFault
from softcard.core.space import PAGE_SIZE
from softcard.engine.riscv.api import (
    ILLEGAL,
    LOAD_ACCESS,
    LOAD_MISALIGNED,
    STORE_ACCESS,
    STORE_MISALIGNED,
    Alone,
    Trap,
)
from softcard.engine.riscv.pages import LIMIT, MASK64, PageTables, peek, poke
from softcard.engine.riscv.vectors import Vectors
from softcard.ir import softfloat
from softcard.ir.integers import IntegerOps, signed
from softcard.isa.riscv import csr
from softcard.isa.riscv.algebra import ROUND_TO_ODD
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.isa import MISALIGNED
from softcard.isa.riscv.port import CachingPort, ReservingPort
from softcard.isa.riscv.state import (
    FFLAGS,
    FRM,
    NO_ADDRESS,
    RESERVED_ADDRESS,
    RESERVED_VALUE,
    SHARED,
    SYNCHRONIZED,
    F,
    Hart,
)

Stored = Callable[[PageTables, int, int], None]
Fenced = Callable[[Hart, bool], None]
BOXES = {"h": 0xFFFF_FFFF_FFFF_0000, "s": 0xFFFF_FFFF_0000_0000, "d": 0}
"""The register bits above a float of each format, which are ones (NaN boxing)."""
_atomic = threading.Lock()


AMO: dict[str, Callable[[int, int, int], int]] = {
    "swap": lambda w, m, v: v,
    "add": lambda w, m, v: (m + v) & ((1 << w) - 1),
    "and": lambda w, m, v: m & v,
    "or": lambda w, m, v: m | v,
    "xor": lambda w, m, v: m ^ v,
    "min": lambda w, m, v: m if signed(w, m) < signed(w, v) else v,
    "max": lambda w, m, v: m if signed(w, m) > signed(w, v) else v,
    "minu": lambda w, m, v: min(m, v),
    "maxu": lambda w, m, v: max(m, v),
}


class Watch(Protocol):
    """The interface of a check that observes a hart's accesses before they are made."""

    def access(self, hart: Hart, insn: Insn, access: str, address: int, size: int, same: Callable[[], bool]) -> None:
        """Observe a "read", "write" or "atomic" access of `size` bytes at `address` before it is made.

        `same` is a function that returns True if a store would leave the memory unchanged.
        """

    def fence(self, hart: Hart, word: int, is_tso: bool) -> None:
        """Observe the fence instruction with the encoding `word`; `is_tso` is True for fence.tso."""


class Evaluator(Vectors, IntegerOps):
    """Implements the operations that define RV64 instructions, for one hart: values are ints, floats are bit patterns.

    `watch` is a check that observes accesses before they are made. `note` is called after each store with the hart, the
    address and the bytes.
    """

    insn: Insn
    watch: Watch | None = None
    note: Callable[[Hart, int, int], None] | None = None

    def __init__(self, hart: Hart, pages: PageTables, stored: Stored, fenced: Fenced) -> None:
        self.hart = hart
        self.words = hart.words
        self.pages = pages
        self._stored = stored
        self._fenced = fenced
        self.pc = 0
        self.next_pc = 0
        self.target = 0
        self.word = 0
        self.waiting = False
        self.takes_misaligned = MISALIGNED in hart.isa

    # Whether a port has a protocol's methods is found by looking each of them up: once for a hart, not at each atomic.
    @cached_property
    def _caching(self) -> CachingPort | None:
        return self.hart.port if isinstance(self.hart.port, CachingPort) else None

    @cached_property
    def _reserving(self) -> ReservingPort | None:
        return self.hart.port if isinstance(self.hart.port, ReservingPort) else None

    def begin(self, pc: int, insn: Insn) -> None:
        """Prepare for the instruction at `pc`."""
        self.pc = pc
        self.word = insn.word
        self.insn = insn
        self.target = self.next_pc = (pc + insn.length) & MASK64

    # -- registers and control flow

    def x(self, n: int) -> int:
        """Return an integer register."""
        return self.words[n]

    def set_x(self, n: int, v: int) -> None:
        """Write an integer register."""
        if n:
            self.words[n] = v

    def branch(self, c: int, offset: int) -> None:
        """Branch to pc + `offset` if the condition is 1."""
        if c:
            self.target = (self.pc + offset) & MASK64

    def jump(self, offset: int) -> None:
        """Jump to pc + `offset`."""
        self.target = (self.pc + offset) & MASK64

    def jump_to(self, address: int) -> None:
        """Jump to a computed address."""
        self.target = address

    # -- memory

    def load(self, w: int, address: int) -> int:
        """Load a little-endian value of `w` bits.

        A misaligned address causes a trap unless the hart has Zicclsm."""
        size = w >> 3
        if address & (size - 1):
            if not self.takes_misaligned:
                raise Trap(LOAD_MISALIGNED, address)
            return int.from_bytes(bytes(self.load(8, (address + k) & MASK64) for k in range(size)), "little")
        if self.watch is not None:
            self.watch.access(self.hart, self.insn, "read", address, size, bool)
        host = self._direct(address, "load")
        if host:
            return peek(host, size)
        try:
            return self.hart.port.load(address, size)
        except AccessFault as fault:
            raise Trap(LOAD_ACCESS, address, fault) from None

    def store(self, w: int, address: int, v: int) -> None:
        """Store the low `w` bits of `v`, little-endian.

        A misaligned address causes a trap unless the hart has Zicclsm."""
        size = w >> 3
        if address & (size - 1):
            if not self.takes_misaligned:
                raise Trap(STORE_MISALIGNED, address)
            self._store_bytes(address, (v & (1 << w) - 1).to_bytes(size, "little"))
            return
        host = self._direct(address, "store")
        if self.watch is not None:
            held = partial(self._holds, host, size, v)
            self.watch.access(self.hart, self.insn, "write", address, size, held)
        if host:
            poke(host, size, v)
        else:
            try:
                self.hart.port.store(address, size, v)
            except AccessFault as fault:
                raise Trap(STORE_ACCESS, address, fault) from None
            self._stored(self.pages, address, size)
        if self.note is not None:
            self.note(self.hart, address, size)

    def _store_bytes(self, address: int, data: bytes) -> None:
        """Store bytes one by one; if the memory refuses one of them, store none."""
        last = (address + len(data) - 1) & MASK64
        for at in (address, max(address, last & -PAGE_SIZE)):
            if not self._direct(at, "store"):
                try:
                    self.hart.port.page(at, "store")
                except AccessFault as fault:
                    raise Trap(STORE_ACCESS, at, fault) from None
        for k, byte in enumerate(data):
            self.store(8, (address + k) & MASK64, byte)

    def amo(self, kind: str, w: int, address: int, v: int) -> int:
        """Perform an atomic read-modify-write, and return the old value."""
        self.synchronize()
        if address & ((w >> 3) - 1):
            raise Trap(STORE_MISALIGNED, address)
        operation = AMO[kind]
        old = self._replace(w, address, lambda old: operation(w, old, v))
        if self.note is not None:
            self.note(self.hart, address, w >> 3)
        return old

    def _replace(self, w: int, address: int, new: Callable[[int], int]) -> int:
        """Replace the `w`-bit word at an aligned address by `new` of the old value, and return the old value.

        The replacement is atomic if the word is in memory.
        """
        if self.watch is not None:
            self.watch.access(self.hart, self.insn, "atomic", address, w >> 3, bool)
        host = self._direct(address, "store") and self._direct(address, "load")
        if host:
            return self.exchange(host, w, new)
        port, size = self.hart.port, w >> 3
        try:
            if self._caching is not None:
                return self._caching.exchange(address, size, new)
            old = port.load(address, size)
            port.store(address, size, new(old))
        except AccessFault as fault:
            raise Trap(STORE_ACCESS, address, fault) from None
        self._stored(self.pages, address, size)
        return old

    @staticmethod
    def _holds(host: int, size: int, v: int) -> bool:
        """Return True if the memory at `host` already holds the value `v` in `size` bytes."""
        return bool(host) and peek(host, size) == v & (1 << 8 * size) - 1

    def exchange(self, host: int, w: int, new: Callable[[int], int]) -> int:
        """Atomically replace the `w`-bit word at a host address by `new` of the old value; return the old value."""
        with _atomic:
            old = peek(host, w >> 3)
            poke(host, w >> 3, new(old))
        return old

    def load_reserved(self, w: int, address: int) -> int:
        """Load a value and reserve its address."""
        self.synchronize()
        if address & ((w >> 3) - 1):
            raise Trap(LOAD_MISALIGNED, address)
        self._check_reservable(w, address, "load", LOAD_ACCESS)
        if self._caching is not None and not self._direct(address, "load"):
            try:
                value = self._caching.load_uncached(address, w >> 3)
            except AccessFault as fault:
                raise Trap(LOAD_ACCESS, address, fault) from None
        else:
            value = self.load(w, address)
        self.words[RESERVED_ADDRESS] = address
        self.words[RESERVED_VALUE] = value
        return value

    def store_conditional(self, w: int, address: int, v: int) -> int:
        """Store if the reservation holds; return 0 on success, else 1."""
        self.synchronize()
        if address & ((w >> 3) - 1):
            raise Trap(STORE_MISALIGNED, address)
        self._check_reservable(w, address, "store", STORE_ACCESS)
        words = self.words
        expected = words[RESERVED_VALUE] & ((1 << w) - 1)
        held = words[RESERVED_ADDRESS] == address
        words[RESERVED_ADDRESS] = NO_ADDRESS
        if not held:
            self._check_writable(w, address)
            return 1
        if self._replace(w, address, lambda old: v if old == expected else old) != expected:
            return 1
        if self.note is not None:
            self.note(self.hart, address, w >> 3)
        return 0

    def _check_reservable(self, w: int, address: int, access: str, cause: int) -> None:
        """Raise a trap if the hart's port allows no reservations at `address`, for example at device registers."""
        if address & ((w >> 3) - 1) or self._direct(address, access) or self._reserving is None:
            return
        try:
            self._reserving.check_reservable(address, w >> 3, access)
        except AccessFault as fault:
            raise Trap(cause, address, fault) from None

    def _check_writable(self, w: int, address: int) -> None:
        """Raise the trap that a store to an address would cause, if any.

        A store-conditional faults like a store even if it fails.
        """
        if not (self._direct(address, "store") and self._direct(address, "load")):
            self._replace(w, address, lambda old: old)

    def fence(self) -> None:
        """Execute a fence: this engine makes accesses in order, so that nothing else has to be done."""
        self.synchronize()
        if self.watch is not None:
            self.watch.fence(self.hart, self.word, self.insn.name == "fence.tso")

    def synchronize(self) -> None:
        """Note that the hart synchronises with other harts; raise `Alone` while other harts run."""
        words = self.words
        words[SYNCHRONIZED] = 1
        if words[SHARED]:
            raise Alone

    def _direct(self, address: int, access: str) -> int:
        if address >= LIMIT:
            return 0
        table = self.pages.load if access == "load" else self.pages.store
        entry = table[address >> 12] or self.pages.fill(address, access)
        return (address + entry) & MASK64 if entry else 0

    # -- float registers

    def f(self, n: int, fmt: str) -> int:
        """Return a float register in a format; a value that is not NaN-boxed gives the canonical NaN."""
        raw = self.words[F + n]
        box = BOXES[fmt]
        return raw & ~box if raw & box == box else softfloat.CANONICAL_NAN[fmt]

    def set_f(self, n: int, fmt: str, v: int) -> None:
        """Write a float register, NaN-boxed."""
        self.words[F + n] = v | BOXES[fmt]

    def f_raw(self, n: int) -> int:
        """Return all 64 bits of a float register."""
        return self.words[F + n]

    def f_bits(self, fmt: str, v: int) -> int:
        """Return the bit pattern of the float `v`; values of this engine are bit patterns already."""
        return v

    def f_from_bits(self, fmt: str, v: int) -> int:
        """Return the float with this bit pattern."""
        return v

    # -- float arithmetic

    def _rounding(self, rm: int) -> int:
        if rm == 7:
            rm = self.words[FRM]
        if rm > 4 and rm != ROUND_TO_ODD:
            raise Trap(ILLEGAL, self.word)
        return rm

    def _flags(self, result: tuple[int, int]) -> int:
        self.words[FFLAGS] |= result[1]
        return result[0]

    def fadd(self, fmt: str, a: int, b: int, rm: int) -> int:
        """Return a + b."""
        return self._flags(softfloat.add(fmt, a, b, self._rounding(rm)))

    def fsub(self, fmt: str, a: int, b: int, rm: int) -> int:
        """Return a - b."""
        return self._flags(softfloat.sub(fmt, a, b, self._rounding(rm)))

    def fmul(self, fmt: str, a: int, b: int, rm: int) -> int:
        """Return a * b."""
        return self._flags(softfloat.mul(fmt, a, b, self._rounding(rm)))

    def fdiv(self, fmt: str, a: int, b: int, rm: int) -> int:
        """Return a / b."""
        return self._flags(softfloat.div(fmt, a, b, self._rounding(rm)))

    def fsqrt(self, fmt: str, a: int, rm: int) -> int:
        """Return the square root."""
        return self._flags(softfloat.sqrt(fmt, a, self._rounding(rm)))

    def fma(self, fmt: str, a: int, b: int, c: int, rm: int) -> int:
        """Return a * b + c, rounded once."""
        return self._flags(softfloat.fma(fmt, a, b, c, self._rounding(rm)))

    def fneg(self, fmt: str, a: int) -> int:
        """Return the value with its sign bit inverted."""
        return a ^ softfloat.FORMATS[fmt].sign

    def fmin(self, fmt: str, a: int, b: int) -> int:
        """Return the IEEE 754 minimumNumber of a and b."""
        return self._flags(softfloat.minimum(fmt, a, b))

    def fmax(self, fmt: str, a: int, b: int) -> int:
        """Return the IEEE 754 maximumNumber of a and b."""
        return self._flags(softfloat.maximum(fmt, a, b))

    def feq(self, fmt: str, a: int, b: int) -> int:
        """Return a == b, a quiet comparison."""
        return self._flags(softfloat.eq(fmt, a, b))

    def flt(self, fmt: str, a: int, b: int) -> int:
        """Return a < b, a signalling comparison."""
        return self._flags(softfloat.lt(fmt, a, b))

    def fle(self, fmt: str, a: int, b: int) -> int:
        """Return a <= b, a signalling comparison."""
        return self._flags(softfloat.le(fmt, a, b))

    def fclass(self, fmt: str, a: int) -> int:
        """Return the class mask of a float, as fclass defines it."""
        return softfloat.classify(fmt, a)

    def f_to_f(self, to: str, fmt: str, a: int, rm: int) -> int:
        """Convert a float to another format."""
        return self._flags(softfloat.convert(to, fmt, a, self._rounding(rm)))

    def f_to_int(self, w: int, is_signed: bool, fmt: str, a: int, rm: int) -> int:
        """Convert to an integer, saturating."""
        return self._flags(softfloat.to_int(w, is_signed, fmt, a, self._rounding(rm)))

    def int_to_f(self, fmt: str, w: int, is_signed: bool, v: int, rm: int) -> int:
        """Convert an integer to a float."""
        return self._flags(softfloat.from_int(fmt, w, is_signed, v, self._rounding(rm)))

    def frec7(self, fmt: str, a: int, rm: int) -> int:
        """Return an estimate of 1 / a."""
        return self._flags(softfloat.reciprocal7(fmt, a, self._rounding(rm)))

    def frsqrt7(self, fmt: str, a: int) -> int:
        """Return an estimate of 1 / sqrt(a)."""
        return self._flags(softfloat.reciprocal_root7(fmt, a))

    # -- the system part

    def csr_read(self, number: int) -> int:
        """Read a csr at the current privilege."""
        return csr.read(self.hart, number, self.hart.privilege)

    def csr_write(self, number: int, v: int) -> None:
        """Write a csr at the current privilege."""
        csr.write(self.hart, number, v, self.hart.privilege)

    def trap(self, cause: int, value: int = 0) -> None:
        """Raise a synchronous exception."""
        raise Trap(cause, value)

    def return_from(self, privilege: str) -> None:
        """Return from a trap: mret or sret."""
        csr.leave_trap(self.hart, privilege)
        self.target = self.hart.pc
        self.fence_vma()

    def fence_i(self) -> None:
        """Execute FENCE.I: later fetches see earlier stores."""
        self._fenced(self.hart, True)

    def fence_vma(self) -> None:
        """Drop cached page translations."""
        self._fenced(self.hart, False)

    def wait_for_interrupt(self) -> None:
        """Execute WFI by passing it on to the device."""
        self.waiting = True
