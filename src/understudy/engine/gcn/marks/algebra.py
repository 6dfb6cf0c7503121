"""The algebra of waves once more, over values with marks: meanings do what they do, and marks go along.

`MarkedAlgebra` is written over any engine's algebra, so that both engines have the same rules. What it asks of an
engine beside that is a *twin* for each kind of mark: registers and memory that hold marks where the wave's hold values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from understudy.engine.marks import mark as rules
from understudy.engine.marks.integers import Marked, MarkedIntegers, binary
from understudy.engine.marks.mark import Mark, Marks, bits_of
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.state import EXEC, Mode

BRANCH: Final = "branch"
LANES: Final = "exec"
ADDRESS: Final = "address"
ATOMIC: Final = "atomic"
LOADED: Final = "loaded"
STORED: Final = "stored"
DECISIONS: Final = (BRANCH, LANES, ADDRESS, ATOMIC)
"""What a mark must not decide."""
FLOAT_WIDTH: Final = {"h": 16, "s": 32, "d": 64}
NUMBERED: Final = frozenset({EXEC, EXEC + 1})


class Access(NamedTuple):
    """One of memory: `address` is per lane or the wave's."""

    space: str
    bits: int
    address: Any


class Kind:
    """One kind of mark, on one engine.

    `twin` holds marks as the engine's own parts hold values: `isa.gcn.algebra.RegisterAlgebra` and `MemoryAlgebra`.
    `begin` is told of each instruction; what it gives says what results are marked by themselves: True all, False none
    whatever they are made of, None as their operands.
    """

    name: str
    twin: Any
    spaces: frozenset[str]
    notes: frozenset[str]

    def begin(self, insn: Insn) -> bool | None:
        """An instruction begins."""
        raise NotImplementedError

    def read(self, w: int, bits: Any) -> Marks:
        """The mark that a register of the twin holds."""
        return Mark(w, bits=bits)

    def write(self, o: Any, w: int, mark: Marks) -> Any:
        """What a register of the twin is to hold."""
        return bits_of(o, w, mark)

    def tell(self, what: str, mark: Mark, where: Any = None, access: Access | None = None) -> None:
        """What is marked may do what it should not, in lanes of EXEC and of `where`; or an access concerns it."""
        raise NotImplementedError


class MarkedAlgebra(MarkedIntegers):
    """`isa.gcn.algebra.WaveAlgebra` over `Marked` values, by an engine's algebra `base` and its kinds of marks.

    `defers`: scalar registers are written when the instruction is over (`finish`), since it may be left until then.
    """

    defers = False

    def __init__(self, base: Any, kinds: Sequence[Kind]) -> None:
        super().__init__(base, kinds)
        self.kinds = tuple(kinds)
        self._sources: list[bool | None] = [None] * len(self.kinds)
        self._writes: list[Callable[[], None]] = []

    @property
    def mode(self) -> Mode:
        """MODE at this instruction."""
        mode: Mode = self.base.mode
        return mode

    def start(self, insn: Insn) -> None:
        """An instruction begins."""
        self._sources = [kind.begin(insn) for kind in self.kinds]
        self._writes = []

    def finish(self) -> None:
        """Write what waits."""
        for write in self._writes:
            write()
        self._writes = []

    def _scalar(self, write: Callable[[], None]) -> None:
        """Scalar registers are written, now or later."""
        if self.defers:
            self._writes.append(write)
        else:
            write()

    # ---- parts of operations -----------------------------------------------------------------------------------------
    def _result(self, w: int, v: Marked) -> tuple[Marks, ...]:
        """The marks of a result that goes into a register."""
        if not any(source is not None for source in self._sources):
            return v.marks
        full = Mark(w, whole=self.base.const(1, 1))
        every = zip(self._sources, v.marks, strict=True)
        return tuple(own if source is None else full if source else None for source, own in every)

    def _note(self, what: str, kind: Kind, bits: Sequence[Any], where: Marked | None, access: Access) -> None:
        """Marks of dwords that an access reads, or writes."""
        if what not in kind.notes:
            return
        found = bits[0]
        for each in bits[1:]:
            found = self.base.or_(32, found, each)
        kind.tell(what, Mark(32, bits=found), None if where is None else where.value, access)

    # ---- integers ----------------------------------------------------------------------------------------------------
    def bitreverse(self, w: int, a: Marked) -> Marked:
        """The bits in the opposite order."""
        o = self.base

        def mirrored(x: Marks) -> Marks:
            return x if x is None or x.is_whole else Mark(w, bits=o.bitreverse(w, x.bits(o)))

        return Marked(o.bitreverse(w, a.value), self._each(mirrored, a))

    def entry(self, w: int, a: Marked, table: tuple[int, ...]) -> Marked:
        """Number `a` of a table."""
        return self._opaque(w, self.base.entry(w, a.value, table), a)

    # ---- floats --------------------------------------------------------------------------------------------------
    def _float(self, name: str, w: int, fmt: str, *operands: Marked, **more: Any) -> Marked:
        value = getattr(self.base, name)(fmt, *(operand.value for operand in operands), **more)
        return self._opaque(w, value, *operands)

    def fldexp(self, fmt: str, a: Marked, n: Marked, env: str | None = None) -> Marked:
        """a * 2**n."""
        return self._opaque(FLOAT_WIDTH[fmt], self.base.fldexp(fmt, a.value, n.value, env), a, n)

    def fround(self, fmt: str, a: Marked, kind: str) -> Marked:
        """To an integral value."""
        return self._opaque(FLOAT_WIDTH[fmt], self.base.fround(fmt, a.value, kind), a)

    def fconvert(self, to: str, fmt: str, a: Marked, env: str | None = None, rounding: int | None = None) -> Marked:
        """Another format."""
        return self._opaque(FLOAT_WIDTH[to], self.base.fconvert(to, fmt, a.value, env, rounding), a)

    def ffrom_int(self, fmt: str, w: int, signed: bool, a: Marked, env: str | None = None) -> Marked:
        """The integer as a float."""
        return self._opaque(FLOAT_WIDTH[fmt], self.base.ffrom_int(fmt, w, signed, a.value, env), a)

    def fto_int(self, fmt: str, w: int, signed: bool, a: Marked) -> Marked:
        """Towards zero, saturating."""
        return self._opaque(w, self.base.fto_int(fmt, w, signed, a.value), a)

    # ---- scalar state --------------------------------------------------------------------------------------------
    def _read(self, w: int, value: Any, read: Callable[[Any], Any]) -> Marked:
        """A register, with what the twins have in its place."""
        return Marked(value, tuple(kind.read(w, read(kind.twin)) for kind in self.kinds))

    def _write(self, w: int, v: Marked, write: Callable[[Any, Any], None]) -> None:
        for kind, own in zip(self.kinds, self._result(w, v), strict=True):
            write(kind.twin, kind.write(self.base, w, own))

    def s(self, n: int) -> Marked:
        """Scalar register."""
        value = self.base.s(n)
        return self._plain(value) if n in NUMBERED else self._read(32, value, lambda twin: twin.s(n))

    def set_s(self, n: int, v: Marked) -> None:
        """Write a scalar register."""
        if n in NUMBERED:
            self._tell(LANES, v)
        self._scalar(lambda: self.base.set_s(n, v.value))
        if n not in NUMBERED:
            self._scalar(lambda: self._write(32, v, lambda twin, bits: twin.set_s(n, bits)))

    def s64(self, n: int) -> Marked:
        """Scalar registers n and n + 1."""
        value = self.base.s64(n)
        return self._plain(value) if n == EXEC else self._read(64, value, lambda twin: twin.s64(n))

    def set_s64(self, n: int, v: Marked) -> None:
        """Write scalar registers n and n + 1."""
        if n == EXEC:
            self._tell(LANES, v)
        self._scalar(lambda: self.base.set_s64(n, v.value))
        if n != EXEC:
            self._scalar(lambda: self._write(64, v, lambda twin, bits: twin.set_s64(n, bits)))

    def scc(self) -> Marked:
        """The condition code."""
        return self._read(1, self.base.scc(), lambda twin: twin.scc())

    def set_scc(self, v: Marked) -> None:
        """Write it."""
        self._scalar(lambda: self.base.set_scc(v.value))
        self._scalar(lambda: self._write(1, v, lambda twin, bits: twin.set_scc(bits)))

    def s_indexed(self, n: int, offset: Marked, w: int = 32) -> Marked:
        """Scalar register n + offset."""
        self._tell(ADDRESS, offset)
        value = self.base.s_indexed(n, offset.value, w)
        return self._read(w, value, lambda twin: twin.s_indexed(n, offset.value, w))

    def set_s_indexed(self, n: int, offset: Marked, v: Marked, w: int = 32) -> None:
        """Write scalar register n + offset."""
        self._tell(ADDRESS, offset)
        self._scalar(lambda: self.base.set_s_indexed(n, offset.value, v.value, w))
        self._scalar(lambda: self._write(w, v, lambda twin, bits: twin.set_s_indexed(n, offset.value, bits, w)))

    def hwreg(self, number: int) -> Marked:
        """A hardware register."""
        return self._plain(self.base.hwreg(number))

    def set_hwreg(self, number: int, v: Marked) -> None:
        """Write a hardware register."""
        self.finish()
        self.base.set_hwreg(number, v.value)

    def time(self, kind: str) -> Marked:
        """A clock."""
        return self._plain(self.base.time(kind))

    # ---- lanes ---------------------------------------------------------------------------------------------------
    def v(self, n: int) -> Marked:
        """Vector register."""
        return self._read(32, self.base.v(n), lambda twin: twin.v(n))

    def set_v(self, n: int, v: Marked, where: Marked | None = None) -> None:
        """Write lanes of a vector register."""
        lanes = None if where is None else where.value
        self.base.set_v(n, v.value, lanes)
        self._write(32, v, lambda twin, bits: twin.set_v(n, bits, lanes))

    def mask(self, n: int) -> Marked:
        """A scalar register pair, one bit per lane."""
        value = self.base.mask(n)
        return self._plain(value) if n == EXEC else self._read(1, value, lambda twin: twin.mask(n))

    def set_mask(self, n: int, m: Marked) -> None:
        """Write it."""
        if n == EXEC:
            self._tell(LANES, m)
        self.base.set_mask(n, m.value)
        if n != EXEC:
            self._write(1, m, lambda twin, bits: twin.set_mask(n, bits))

    def lane_bits(self, b: Marked) -> Marked:
        """The bits of a scalar, one per lane."""
        o = self.base

        def spread(x: Marks) -> Marks:
            return None if x is None else Mark(1, whole=o.lane_bits(x.bits(o)))

        return Marked(o.lane_bits(b.value), self._each(spread, b))

    def lane_id(self) -> Marked:
        """0..63."""
        return self._plain(self.base.lane_id())

    def active(self) -> Marked:
        """EXEC."""
        return self._plain(self.base.active())

    def v_at(self, n: int, lane: Marked) -> Marked:
        """Vector register of another lane."""
        value = self.base.v_at(n, lane.value)
        found = self._read(32, value, lambda twin: twin.v_at(n, lane.value))
        marks = self._each(lambda x, y: rules.bitwise(self.base, 32, x, rules.opaque(self.base, 32, y)), found, lane)
        return Marked(value, marks)

    def push(self, n: int, v: Marked, lane: Marked) -> None:
        """Write another lane's register."""
        self._tell(ADDRESS, lane)
        self.base.push(n, v.value, lane.value)
        self._write(32, v, lambda twin, bits: twin.push(n, bits, lane.value))

    def lane(self, n: int, lane: Marked) -> Marked:
        """Vector register of one lane."""
        self._tell(ADDRESS, lane)
        return self._read(32, self.base.lane(n, lane.value), lambda twin: twin.lane(n, lane.value))

    def set_lane(self, n: int, lane: Marked, v: Marked) -> None:
        """Write one lane."""
        self._tell(ADDRESS, lane)
        self.base.set_lane(n, lane.value, v.value)
        self._write(32, v, lambda twin, bits: twin.set_lane(n, lane.value, bits))

    def v_indexed(self, n: int, offset: Marked) -> Marked:
        """Vector register n + offset."""
        self._tell(ADDRESS, offset)
        return self._read(32, self.base.v_indexed(n, offset.value), lambda twin: twin.v_indexed(n, offset.value))

    def set_v_indexed(self, n: int, offset: Marked, v: Marked) -> None:
        """Write vector register n + offset."""
        self._tell(ADDRESS, offset)
        self.base.set_v_indexed(n, offset.value, v.value)
        self._write(32, v, lambda twin, bits: twin.set_v_indexed(n, offset.value, bits))

    # ---- memory --------------------------------------------------------------------------------------------------
    def load(self, space: str, bits: int, address: Marked, where: Marked | None = None) -> list[Marked]:
        """Read lanes."""
        self._tell(ADDRESS, address, where)
        lanes = None if where is None else where.value
        values = self.base.load(space, bits, address.value, lanes)
        found: list[Sequence[Marks]] = []
        for kind in self.kinds:
            if space not in kind.spaces:
                found.append((None,) * len(values))
                continue
            marks = kind.twin.load(space, bits, address.value, lanes)
            self._note(LOADED, kind, marks, where, Access(space, bits, address.value))
            found.append([kind.read(32, each) for each in marks])
        return [Marked(value, tuple(marks)) for value, *marks in zip(values, *found, strict=True)]

    def store(
        self, space: str, bits: int, address: Marked, values: Sequence[Marked], where: Marked | None = None
    ) -> None:
        """Write lanes."""
        self._tell(ADDRESS, address, where)
        lanes = None if where is None else where.value
        self.base.store(space, bits, address.value, [v.value for v in values], lanes)
        for number, kind in enumerate(self.kinds):
            if space not in kind.spaces:
                continue
            own = [v.marks[number] for v in values]
            marks = [bits_of(self.base, 32, each) for each in own]
            if any(own):
                data = [self._low(bits, each) for each in marks]
                self._note(STORED, kind, data, where, Access(space, bits, address.value))
            kind.twin.store(space, bits, address.value, marks, lanes)

    def _low(self, bits: int, mark: Any) -> Any:
        """Of what a narrow access stores the bits that it does."""
        return mark if bits >= 32 else self.base.and_(32, mark, self.base.const(32, (1 << bits) - 1))

    def atomic(
        self,
        space: str,
        kind: str,
        bits: int,
        address: Marked,
        v: Marked,
        compare: Marked | None = None,
        where: Marked | None = None,
    ) -> Marked:
        """Lane after lane."""
        return self._atomic("atomic", space, kind, bits, address, v, compare, where)

    def scalar_atomic(
        self,
        space: str,
        kind: str,
        bits: int,
        address: Marked,
        v: Marked,
        compare: Marked | None = None,
        where: Marked | None = None,
    ) -> Marked:
        """One for the wave."""
        return self._atomic("scalar_atomic", space, kind, bits, address, v, compare, where)

    def _atomic(
        self,
        which: str,
        space: str,
        kind: str,
        bits: int,
        address: Marked,
        v: Marked,
        compare: Marked | None,
        where: Marked | None,
    ) -> Marked:
        self._tell(ADDRESS, address, where)
        self._tell(ATOMIC, v, where)
        given = v.marks
        if compare is not None:
            self._tell(ATOMIC, compare, where)
            given = self._each(lambda x, y: rules.bitwise(self.base, bits, x, y), v, compare)
        lanes = None if where is None else where.value
        other = None if compare is None else compare.value
        marks: list[Marks] = []  # first, since it may be done twice
        for each, own in zip(self.kinds, given, strict=True):
            if space not in each.spaces:
                marks.append(None)
                continue
            how = "swap" if kind == "swap" else "or"
            data = bits_of(self.base, bits, own)
            old = getattr(each.twin, which)(space, how, bits, address.value, data, None, lanes)
            marks.append(each.read(bits, old))
        value = getattr(self.base, which)(space, kind, bits, address.value, v.value, other, lanes)
        return Marked(value, tuple(marks))

    def scalar_load(self, dwords: int, address: Marked, where: Marked | None = None) -> list[Marked]:
        """Dwords for the wave."""
        self._tell(ADDRESS, address, where)
        lanes = () if where is None else (where.value,)
        values = self.base.scalar_load(dwords, address.value, *lanes)
        found: list[list[Marks]] = []
        for kind in self.kinds:
            marks = kind.twin.scalar_load(dwords, address.value, *lanes)
            self._note(LOADED, kind, marks, where, Access("global", 32 * dwords, address.value))
            found.append([kind.read(32, each) for each in marks])
        return [Marked(value, tuple(marks)) for value, *marks in zip(values, *found, strict=True)]

    def scalar_store(self, address: Marked, values: Sequence[Marked], where: Marked | None = None) -> None:
        """Dwords of the wave."""
        self._tell(ADDRESS, address, where)
        lanes = None if where is None else where.value
        self.base.scalar_store(address.value, [v.value for v in values], lanes)
        for number, kind in enumerate(self.kinds):
            marks = [bits_of(self.base, 32, v.marks[number]) for v in values]
            self._note(STORED, kind, marks, where, Access("global", 32 * len(values), address.value))
            kind.twin.scalar_store(address.value, marks, lanes)

    def aperture(self, which: str) -> Marked:
        """Bases and limits of the flat apertures."""
        return self._plain(self.base.aperture(which))

    # ---- control -------------------------------------------------------------------------------------------------
    def branch(self, c: Marked, target: int) -> None:
        """Conditional branch."""
        self._tell(BRANCH, c)
        self.finish()
        self.base.branch(c.value, target)

    def jump(self, target: int) -> None:
        """Unconditional branch."""
        self.finish()
        self.base.jump(target)

    def jump_to(self, target: Marked) -> None:
        """Computed branch."""
        self._tell(BRANCH, target)
        self.finish()
        self.base.jump_to(target.value)

    def end(self) -> None:
        """The wave is done."""
        self.finish()
        self.base.end()

    def barrier(self) -> None:
        """Wait for the others."""
        self.finish()
        self.base.barrier()

    def order(self, what: str, n: int = 0) -> None:
        """A wait."""
        self.base.order(what, n)

    def hint(self, what: str, n: int = 0) -> None:
        """Nothing that a result depends on."""
        self.finish()
        self.base.hint(what, n)

    def trap(self, number: int) -> None:
        """s_trap."""
        self.base.trap(number)


def _arithmetic(name: str, count: int) -> Callable[..., Marked]:
    """A float operation of `count` operands, whose environment may follow."""

    def operation(self: MarkedAlgebra, fmt: str, *operands: Any, **named: Any) -> Marked:
        values, env = operands[:count], operands[count] if len(operands) > count else named.get("env")
        return self._float(name, FLOAT_WIDTH[fmt], fmt, *values, env=env)

    return operation


def _test(name: str) -> Callable[..., Marked]:
    def operation(self: MarkedAlgebra, fmt: str, a: Marked, b: Marked) -> Marked:
        return self._float(name, 1, fmt, a, b)

    return operation


for _name in ("umin", "umax", "smin", "smax"):
    setattr(MarkedAlgebra, _name, binary(_name))
for _name, _count in (("fadd", 2), ("fsub", 2), ("fmul", 2), ("fma", 3), ("fdiv", 2), ("fsqrt", 1)):
    setattr(MarkedAlgebra, _name, _arithmetic(_name, _count))
for _name in ("feq", "flt", "fle", "funo"):
    setattr(MarkedAlgebra, _name, _test(_name))


def _flushed(self: MarkedAlgebra, fmt: str, a: Marked) -> Marked:
    return Marked(self.base.fflush(fmt, a.value), a.marks)


MarkedAlgebra.fflush = _flushed  # type: ignore[attr-defined]
