"""The algebra of harts once more, over values with marks: meanings do what they do, and marks go along.

`MarkedHart` is written over any engine's algebra, so that both engines have the same rules. What it asks of an engine
beside that is a `Twin`: registers and memory that hold marks where the hart's hold values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from understudy.engine.marks.integers import Marked, MarkedIntegers, binary
from understudy.engine.marks.mark import Mark, Marks, bits_of
from understudy.isa.riscv.insn import Insn
from understudy.isa.riscv.state import F

BRANCH: Final = "branch"
ADDRESS: Final = "address"
ATOMIC: Final = "atomic"
LOADED: Final = "loaded"
STORED: Final = "stored"
WIDTH: Final = {"h": 16, "s": 32, "d": 64}
REGISTER: Final = 64


class Twin(Protocol):
    """Marks of one hart on one engine. Registers have the numbers of their words in `isa.riscv.state`."""

    def begin(self, insn: Insn) -> None:
        """An instruction begins."""

    def register(self, n: int) -> Any:
        """Marks of a register, bit by bit; None where it is known to have none."""

    def set_register(self, n: int, bits: Any) -> None:
        """They become others."""

    def load(self, w: int, address: Any) -> Any:
        """Marks of the memory that the base's last access was to; None where it is known to have none."""

    def store(self, w: int, address: Any, bits: Any) -> None:
        """They become others."""

    def tell(self, what: str, mark: Mark, where: Any = None) -> None:
        """What is marked decides something; or the access at the address `where` concerns it."""


class MarkedHart(MarkedIntegers):
    """`isa.riscv.algebra.Algebra` over `Marked` values, by an engine's algebra `base` and a twin.

    `defers`: marks of registers are written when the instruction is over (`finish`), since it may be left until then.
    """

    defers = False

    def __init__(self, base: Any, twin: Twin) -> None:
        super().__init__(base, (twin,))
        self.twin = twin
        self._writes: list[tuple[int, Any]] = []

    @property
    def pc(self) -> int:
        """Address of this instruction."""
        return int(self.base.pc)

    @property
    def next_pc(self) -> int:
        """Address of the following one."""
        return int(self.base.next_pc)

    def start(self, insn: Insn) -> None:
        """An instruction begins."""
        self.twin.begin(insn)
        self._writes.clear()

    def finish(self) -> None:
        """Write what waits."""
        for n, bits in self._writes:
            self.twin.set_register(n, bits)
        self._writes.clear()

    def _marked(self, value: Any, mark: Marks) -> Marked:
        return Marked(value, self.none if mark is None else (mark,))

    def _of(self, n: int) -> Marks:
        """The mark of a register."""
        bits = self.twin.register(n)
        return None if bits is None else Mark(REGISTER, bits=bits)

    def _write(self, n: int, w: int, mark: Marks) -> None:
        o = self.base
        bits = bits_of(o, w, mark)
        if w < REGISTER:
            bits = o.zext(REGISTER, w, bits)
        if self.defers:
            self._writes.append((n, bits))
        else:
            self.twin.set_register(n, bits)

    # ---- integers ------------------------------------------------------------------------------------------------
    def not1(self, c: Marked) -> Marked:
        """The opposite of a width-1 value."""
        return Marked(self.base.not1(c.value), c.marks)

    def bswap(self, w: int, a: Marked) -> Marked:
        """The bytes in the opposite order."""
        o = self.base

        def turned(x: Marks) -> Marks:
            return x if x is None or x.is_whole else Mark(w, bits=o.bswap(w, x.bits(o)))

        return Marked(o.bswap(w, a.value), self._each(turned, a))

    def clmul(self, a: Marked, b: Marked) -> Marked:
        """Carry-less product."""
        return self._opaque(128, self.base.clmul(a.value, b.value), a, b)

    # ---- registers -----------------------------------------------------------------------------------------------
    def x(self, n: int) -> Marked:
        """Integer register."""
        value = self.base.x(n)
        return self._marked(value, self._of(n) if n else None)

    def set_x(self, n: int, v: Marked) -> None:
        """Write an integer register."""
        self.base.set_x(n, v.value)
        if n:
            self._write(n, REGISTER, v.marks[0])

    def f_raw(self, n: int) -> Marked:
        """All 64 bits of a float register."""
        return self._marked(self.base.f_raw(n), self._of(F + n))

    def f(self, n: int, fmt: str) -> Marked:
        """Float register; where it is told by its upper bits whether it is one of this format, by those too."""
        o, w = self.base, WIDTH[fmt]
        value, bits = o.f(n, fmt), self.twin.register(F + n)
        if w == REGISTER or bits is None:
            return self._marked(value, None if bits is None else Mark(w, bits=bits))
        above = o.ne(REGISTER, o.lshr(REGISTER, bits, o.const(REGISTER, w)), o.const(REGISTER, 0))
        return self._marked(value, Mark(w, bits=o.or_(w, o.trunc(w, REGISTER, bits), o.sext(w, 1, above))))

    def set_f(self, n: int, fmt: str, v: Marked) -> None:
        """Write a float register."""
        self.base.set_f(n, fmt, v.value)
        self._write(F + n, WIDTH[fmt], v.marks[0])

    # ---- memory --------------------------------------------------------------------------------------------------
    def load(self, w: int, address: Marked) -> Marked:
        """Read memory."""
        self._tell(ADDRESS, address)
        return self._loaded(w, address, self.base.load(w, address.value))

    def load_reserved(self, w: int, address: Marked) -> Marked:
        """Load and reserve."""
        self.base.synchronize()
        self._tell(ADDRESS, address)
        return self._loaded(w, address, self.base.load_reserved(w, address.value))

    def _loaded(self, w: int, address: Marked, value: Any) -> Marked:
        bits = self.twin.load(w, address.value)
        if bits is None:
            return self._plain(value)
        mark = Mark(w, bits=bits)
        self.twin.tell(LOADED, mark, address.value)
        return self._marked(value, mark)

    def store(self, w: int, address: Marked, v: Marked) -> None:
        """Write memory."""
        self._tell(ADDRESS, address)
        if v.marks[0] is not None:
            self.twin.tell(STORED, v.marks[0], address.value)
        self.base.store(w, address.value, v.value)
        self.twin.store(w, address.value, bits_of(self.base, w, v.marks[0]))

    def amo(self, kind: str, w: int, address: Marked, v: Marked) -> Marked:
        """Atomically replace memory."""
        o = self.base
        o.synchronize()
        self._tell(ADDRESS, address)
        self._tell(ATOMIC, v)
        old = self.twin.load(w, address.value) if not self.defers else None
        value = o.amo(kind, w, address.value, v.value)
        old = self.twin.load(w, address.value) if old is None else old
        new = bits_of(o, w, v.marks[0])
        if kind != "swap":
            both = Mark(w, bits=o.or_(w, old, new))
            new = both.bits(o) if kind in ("and", "or", "xor") else o.sext(w, 1, both.whole(o))
        self.twin.store(w, address.value, new)
        return self._marked(value, Mark(w, bits=old))

    def store_conditional(self, w: int, address: Marked, v: Marked) -> Marked:
        """Store if the reservation holds."""
        o = self.base
        o.synchronize()
        self._tell(ADDRESS, address)
        if v.marks[0] is not None:
            self.twin.tell(STORED, v.marks[0], address.value)
        old = self.twin.load(w, address.value) if not self.defers else None
        failed = o.store_conditional(w, address.value, v.value)
        old = self.twin.load(w, address.value) if old is None else old
        is_stored = o.eq(REGISTER, failed, o.const(REGISTER, 0))
        self.twin.store(w, address.value, o.select(w, is_stored, bits_of(o, w, v.marks[0]), old))
        return self._plain(failed)

    def fence(self) -> None:
        """Order memory accesses."""
        self.base.fence()

    # ---- control -------------------------------------------------------------------------------------------------
    def branch(self, c: Marked, offset: int) -> None:
        """Conditional, pc-relative."""
        self._tell(BRANCH, c)
        self.base.branch(c.value, offset)

    def jump(self, offset: int) -> None:
        """Unconditional, pc-relative."""
        self.base.jump(offset)

    def jump_to(self, address: Marked) -> None:
        """Computed."""
        self._tell(BRANCH, address)
        self.base.jump_to(address.value)

    # ---- floats --------------------------------------------------------------------------------------------------
    def f_bits(self, fmt: str, v: Marked) -> Marked:
        """The bit pattern of a float."""
        return Marked(self.base.f_bits(fmt, v.value), v.marks)

    def f_from_bits(self, fmt: str, v: Marked) -> Marked:
        """The float with a bit pattern."""
        return Marked(self.base.f_from_bits(fmt, v.value), v.marks)

    def f_to_f(self, to: str, fmt: str, a: Marked, rm: int) -> Marked:
        """Another format."""
        return self._opaque(WIDTH[to], self.base.f_to_f(to, fmt, a.value, rm), a)

    def f_to_int(self, w: int, signed: bool, fmt: str, a: Marked, rm: int) -> Marked:
        """To an integer."""
        return self._opaque(w, self.base.f_to_int(w, signed, fmt, a.value, rm), a)

    def int_to_f(self, fmt: str, w: int, signed: bool, v: Marked, rm: int) -> Marked:
        """From an integer."""
        return self._opaque(WIDTH[fmt], self.base.int_to_f(fmt, w, signed, v.value, rm), v)


def _float(name: str, count: int, width: int = 0) -> Callable[..., Marked]:
    """An operation of `count` floats, and what else it takes; `width` of its result where that is no such float."""

    def operation(self: MarkedHart, fmt: str, *operands: Any) -> Marked:
        floats, more = operands[:count], operands[count:]
        value = getattr(self.base, name)(fmt, *(each.value for each in floats), *more)
        return self._opaque(width or WIDTH[fmt], value, *floats)

    return operation


for _name, _count in (
    ("fadd", 2), ("fsub", 2), ("fmul", 2), ("fdiv", 2), ("fsqrt", 1), ("fma", 3), ("fneg", 1), ("fmin", 2), ("fmax", 2),
):  # fmt: skip
    setattr(MarkedHart, _name, _float(_name, _count))
for _name in ("feq", "flt", "fle"):
    setattr(MarkedHart, _name, _float(_name, 2, 1))
MarkedHart.fclass = _float("fclass", 1, REGISTER)  # type: ignore[attr-defined]
for _name in ("udiv", "urem", "sdiv", "srem"):
    setattr(MarkedHart, _name, binary(_name))
