"""The operations of `isa.riscv.algebra` on values with definedness shadow bits, which propagate with the values.

`ShadowedHart` computes values with the operations of any engine, so that both engines have one set of propagation
rules. It also needs the engine's `HartShadow`: shadow registers and shadow memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from softcard.engine.shadow.bits import OptionalShadow, ShadowBits, bits_of
from softcard.engine.shadow.integers import Shadowed, ShadowedIntegers, binary
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.state import F

BRANCH: Final = "branch"
ADDRESS: Final = "address"
ATOMIC: Final = "atomic"
LOADED: Final = "loaded"
STORED: Final = "stored"
WIDTH: Final = {"h": 16, "s": 32, "d": 64}
REGISTER: Final = 64


class HartShadow(Protocol):
    """The shadow registers and shadow memory of one hart on one engine.

    Registers are numbered by their words in `isa.riscv.state`.
    """

    def begin(self, insn: Insn) -> None:
        """Begin the shadow computation of an instruction."""

    def register(self, n: int) -> Any:
        """Return the shadow bits of the register with number `n`; None if all are known to be 0."""

    def set_register(self, n: int, bits: Any) -> None:
        """Set the shadow bits of a register."""

    def load(self, w: int, address: Any) -> Any:
        """Return the shadow bits of the `w`-bit value that the engine's last access loaded; None if known to be 0."""

    def store(self, w: int, address: Any, bits: Any) -> None:
        """Set the shadow bits of the `w`-bit value that the engine's last access stored."""

    def report(self, what: str, shadow: ShadowBits, where: Any = None) -> None:
        """Report the use of a value with the shadow bits `shadow`, if any of them is set.

        `what` is the kind of use, such as a branch or an access; `where` is the address of an access.
        """


class ShadowedHart(ShadowedIntegers):
    """Implements `isa.riscv.algebra.Algebra` on values with shadow bits, with an engine's own implementation as `base`.

    `shadow` is the hart's shadow state. With `defers`, shadow registers are written only at the end of the instruction
    (`finish`), since a side exit may be taken before.
    """

    defers = False

    def __init__(self, base: Any, shadow: HartShadow) -> None:
        super().__init__(base, (shadow,))
        self.shadow = shadow
        self._writes: list[tuple[int, Any]] = []

    @property
    def pc(self) -> int:
        """The address of the instruction."""
        return int(self.base.pc)

    @property
    def next_pc(self) -> int:
        """The address of the next instruction."""
        return int(self.base.next_pc)

    def start(self, insn: Insn) -> None:
        """Begin an instruction."""
        self.shadow.begin(insn)
        self._writes.clear()

    def finish(self) -> None:
        """Write the deferred shadow registers."""
        for n, bits in self._writes:
            self.shadow.set_register(n, bits)
        self._writes.clear()

    def _shadowed(self, value: Any, shadow: OptionalShadow) -> Shadowed:
        return Shadowed(value, self.none if shadow is None else (shadow,))

    def _of(self, n: int) -> OptionalShadow:
        """Return the shadow bits of the register with number `n`."""
        bits = self.shadow.register(n)
        return None if bits is None else ShadowBits(REGISTER, bits=bits)

    def _write(self, n: int, w: int, shadow: OptionalShadow) -> None:
        o = self.base
        bits = bits_of(o, w, shadow)
        if w < REGISTER:
            bits = o.zext(REGISTER, w, bits)
        if self.defers:
            self._writes.append((n, bits))
        else:
            self.shadow.set_register(n, bits)

    # ---- integers ------------------------------------------------------------------------------------------------
    def not1(self, c: Shadowed) -> Shadowed:
        """Return the negation of a width-1 value."""
        return Shadowed(self.base.not1(c.value), c.shadows)

    def bswap(self, w: int, a: Shadowed) -> Shadowed:
        """Return the bytes in the opposite order."""
        o = self.base

        def turned(x: OptionalShadow) -> OptionalShadow:
            return x if x is None or x.is_whole else ShadowBits(w, bits=o.bswap(w, x.bits(o)))

        return Shadowed(o.bswap(w, a.value), self._each(turned, a))

    def clmul(self, a: Shadowed, b: Shadowed) -> Shadowed:
        """Return the carry-less product."""
        return self._opaque(128, self.base.clmul(a.value, b.value), a, b)

    # ---- registers -----------------------------------------------------------------------------------------------
    def x(self, n: int) -> Shadowed:
        """Return an integer register."""
        value = self.base.x(n)
        return self._shadowed(value, self._of(n) if n else None)

    def set_x(self, n: int, v: Shadowed) -> None:
        """Write an integer register."""
        self.base.set_x(n, v.value)
        if n:
            self._write(n, REGISTER, v.shadows[0])

    def f_raw(self, n: int) -> Shadowed:
        """Return all 64 bits of a float register."""
        return self._shadowed(self.base.f_raw(n), self._of(F + n))

    def f(self, n: int, fmt: str) -> Shadowed:
        """Return a float register in a format.

        The result's shadow bits include those of the register's upper bits if these decide whether the value is
        NaN-boxed.
        """
        o, w = self.base, WIDTH[fmt]
        value, bits = o.f(n, fmt), self.shadow.register(F + n)
        if w == REGISTER or bits is None:
            return self._shadowed(value, None if bits is None else ShadowBits(w, bits=bits))
        above = o.ne(REGISTER, o.lshr(REGISTER, bits, o.const(REGISTER, w)), o.const(REGISTER, 0))
        return self._shadowed(value, ShadowBits(w, bits=o.or_(w, o.trunc(w, REGISTER, bits), o.sext(w, 1, above))))

    def set_f(self, n: int, fmt: str, v: Shadowed) -> None:
        """Write a float register."""
        self.base.set_f(n, fmt, v.value)
        self._write(F + n, WIDTH[fmt], v.shadows[0])

    # ---- memory --------------------------------------------------------------------------------------------------
    def load(self, w: int, address: Shadowed) -> Shadowed:
        """Load a value from memory."""
        self._report(ADDRESS, address)
        return self._loaded(w, address, self.base.load(w, address.value))

    def load_reserved(self, w: int, address: Shadowed) -> Shadowed:
        """Load a value from memory and reserve its address."""
        self.base.synchronize()
        self._report(ADDRESS, address)
        return self._loaded(w, address, self.base.load_reserved(w, address.value))

    def _loaded(self, w: int, address: Shadowed, value: Any) -> Shadowed:
        bits = self.shadow.load(w, address.value)
        if bits is None:
            return self._plain(value)
        shadow = ShadowBits(w, bits=bits)
        self.shadow.report(LOADED, shadow, address.value)
        return self._shadowed(value, shadow)

    def store(self, w: int, address: Shadowed, v: Shadowed) -> None:
        """Store a value to memory."""
        self._report(ADDRESS, address)
        if v.shadows[0] is not None:
            self.shadow.report(STORED, v.shadows[0], address.value)
        self.base.store(w, address.value, v.value)
        self.shadow.store(w, address.value, bits_of(self.base, w, v.shadows[0]))

    def amo(self, kind: str, w: int, address: Shadowed, v: Shadowed) -> Shadowed:
        """Perform an atomic read-modify-write, and return the old value."""
        o = self.base
        o.synchronize()
        self._report(ADDRESS, address)
        self._report(ATOMIC, v)
        old = self.shadow.load(w, address.value) if not self.defers else None
        value = o.amo(kind, w, address.value, v.value)
        old = self.shadow.load(w, address.value) if old is None else old
        new = bits_of(o, w, v.shadows[0])
        if kind != "swap":
            both = ShadowBits(w, bits=o.or_(w, old, new))
            new = both.bits(o) if kind in ("and", "or", "xor") else o.sext(w, 1, both.whole(o))
        self.shadow.store(w, address.value, new)
        return self._shadowed(value, ShadowBits(w, bits=old))

    def store_conditional(self, w: int, address: Shadowed, v: Shadowed) -> Shadowed:
        """Store if the reservation holds; return 0 if it does, else 1."""
        o = self.base
        o.synchronize()
        self._report(ADDRESS, address)
        if v.shadows[0] is not None:
            self.shadow.report(STORED, v.shadows[0], address.value)
        old = self.shadow.load(w, address.value) if not self.defers else None
        failed = o.store_conditional(w, address.value, v.value)
        old = self.shadow.load(w, address.value) if old is None else old
        is_stored = o.eq(REGISTER, failed, o.const(REGISTER, 0))
        self.shadow.store(w, address.value, o.select(w, is_stored, bits_of(o, w, v.shadows[0]), old))
        return self._plain(failed)

    def fence(self) -> None:
        """Order memory accesses."""
        self.base.fence()

    # ---- control -------------------------------------------------------------------------------------------------
    def branch(self, c: Shadowed, offset: int) -> None:
        """Branch to pc + `offset` if the condition is 1."""
        self._report(BRANCH, c)
        self.base.branch(c.value, offset)

    def jump(self, offset: int) -> None:
        """Jump to pc + `offset`."""
        self.base.jump(offset)

    def jump_to(self, address: Shadowed) -> None:
        """Jump to a computed address."""
        self._report(BRANCH, address)
        self.base.jump_to(address.value)

    # ---- floats --------------------------------------------------------------------------------------------------
    def f_bits(self, fmt: str, v: Shadowed) -> Shadowed:
        """Return the bit pattern of a float."""
        return Shadowed(self.base.f_bits(fmt, v.value), v.shadows)

    def f_from_bits(self, fmt: str, v: Shadowed) -> Shadowed:
        """Return the float with a bit pattern."""
        return Shadowed(self.base.f_from_bits(fmt, v.value), v.shadows)

    def f_to_f(self, to: str, fmt: str, a: Shadowed, rm: int) -> Shadowed:
        """Convert to another format."""
        return self._opaque(WIDTH[to], self.base.f_to_f(to, fmt, a.value, rm), a)

    def f_to_int(self, w: int, signed: bool, fmt: str, a: Shadowed, rm: int) -> Shadowed:
        """Convert to an integer."""
        return self._opaque(w, self.base.f_to_int(w, signed, fmt, a.value, rm), a)

    def int_to_f(self, fmt: str, w: int, signed: bool, v: Shadowed, rm: int) -> Shadowed:
        """Convert from an integer."""
        return self._opaque(WIDTH[fmt], self.base.int_to_f(fmt, w, signed, v.value, rm), v)


def _float(name: str, count: int, width: int = 0) -> Callable[..., Shadowed]:
    """Return a method that performs the operation `name` on `count` floats and other operands.

    `width` is the width of the result in bits, or 0 if the result is a float of the operands' format.
    """

    def operation(self: ShadowedHart, fmt: str, *operands: Any) -> Shadowed:
        floats, more = operands[:count], operands[count:]
        value = getattr(self.base, name)(fmt, *(each.value for each in floats), *more)
        return self._opaque(width or WIDTH[fmt], value, *floats)

    return operation


for _name, _count in (
    ("fadd", 2), ("fsub", 2), ("fmul", 2), ("fdiv", 2), ("fsqrt", 1), ("fma", 3), ("fneg", 1), ("fmin", 2), ("fmax", 2),
):  # fmt: skip
    setattr(ShadowedHart, _name, _float(_name, _count))
for _name in ("feq", "flt", "fle"):
    setattr(ShadowedHart, _name, _float(_name, 2, 1))
ShadowedHart.fclass = _float("fclass", 1, REGISTER)  # type: ignore[attr-defined]
for _name in ("udiv", "urem", "sdiv", "srem"):
    setattr(ShadowedHart, _name, binary(_name))
