"""The operations of waves on values with shadow bits: each computes its result and propagates the shadow bits.

`ShadowedAlgebra` wraps the operations interface of any engine, so that all engines have the same propagation rules. For
each kind of shadow, the engine also provides shadow registers and shadow memory in the layout of the wave's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from softcard.core.checks import FIDELITY, INIT
from softcard.engine.gcn.shadow import sources
from softcard.engine.gcn.shadow.sources import takes_from_lanes
from softcard.engine.shadow import bits as rules
from softcard.engine.shadow.bits import OptionalShadow, ShadowBits, bits_of
from softcard.engine.shadow.integers import Shadowed, ShadowedIntegers, binary
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.semantics.matrix.table import Use
from softcard.isa.gcn.state import EXEC, Mode

BRANCH: Final = "branch"
LANES: Final = "exec"
ADDRESS: Final = "address"
ATOMIC: Final = "atomic"
QUOTIENT: Final = "quotient"
LOADED: Final = "loaded"
STORED: Final = "stored"
DECISIONS: Final = (BRANCH, LANES, ADDRESS, ATOMIC, QUOTIENT)
"""The kinds of uses that are reported if the used value has shadow bits set."""
FLOAT_WIDTH: Final = {"h": 16, "s": 32, "d": 64}
NUMBERED: Final = frozenset({EXEC, EXEC + 1})


class Access(NamedTuple):
    """A memory access. `address` is a vector of per-lane addresses, or a scalar address."""

    space: str
    bits: int
    address: Any


class Kind:
    """One kind of shadow on one engine: undefined bits (`init`) or approximate bits (`fidelity`).

    `shadow` accesses the shadow registers and shadow memory; it has the interfaces
    `isa.gcn.algebra.RegisterAlgebra` and `MemoryAlgebra`. `begin` is called for each instruction, and determines
    the shadow of the instruction's results: True sets all bits, False clears all bits, and None propagates the
    operands' shadow. Another number denotes a step of an integer division, see `sources`."""

    name: str
    shadow: Any
    spaces: frozenset[str]
    notes: frozenset[str]

    def begin(self, insn: Insn) -> int | None:
        """Begin an instruction; return what determines the shadow of its results, as the class describes."""
        raise NotImplementedError

    def read(self, w: int, bits: Any) -> OptionalShadow:
        """Return the shadow that the contents `bits` of a shadow register represent."""
        return ShadowBits(w, bits=bits)

    def write(self, o: Any, w: int, shadow: OptionalShadow) -> Any:
        """Return the contents of a shadow register that represent `shadow`, for a value of `w` bits."""
        return bits_of(o, w, shadow)

    def report(self, what: str, shadow: ShadowBits, where: Any = None, access: Access | None = None) -> None:
        """Report a use of a value with shadow bits set, in the lanes of EXEC and `where`.

        `what` is the kind of use, `access` the memory access in which the value is used, if any.
        """
        raise NotImplementedError


class ShadowedAlgebra(ShadowedIntegers):
    """An implementation of `isa.gcn.algebra.WaveAlgebra` over `Shadowed` values, which are values with shadow bits.

    `base` is an engine's implementation over plain values, and `kinds` are the kinds of shadow to propagate. If
    `defers`, scalar registers are written only at the end of the instruction (`finish`), since a side exit may
    occur before."""

    defers = False

    def __init__(self, base: Any, kinds: Sequence[Kind]) -> None:
        super().__init__(base, kinds)
        self.kinds = tuple(kinds)
        self._sources: list[int | None] = [None] * len(self.kinds)
        self._fidelity = next((number for number, kind in enumerate(self.kinds) if kind.name == FIDELITY), None)
        self._step: int | None = None
        self._parts: tuple[Any, Any, Any] | None = None
        """The two factors of a remainder as quotient and divisor, and the mask of lanes where they are such.

        It is None if the instruction does not compute a remainder.
        """
        self._absent: Any = None
        """A mask of lanes whose value comes from an inactive lane; None if there are no such lanes."""
        self._crosses = False
        """True if lanes of the instruction may take values from inactive lanes."""
        self._writes: list[Callable[[], None]] = []

    @property
    def mode(self) -> Mode:
        """The value of MODE at this instruction."""
        mode: Mode = self.base.mode
        return mode

    def start(self, insn: Insn) -> None:
        """Begin an instruction."""
        self._sources = [kind.begin(insn) for kind in self.kinds]
        self._step = None if self._fidelity is None else sources.step_of(insn)
        self._parts = None
        self._absent, self._crosses = None, takes_from_lanes(insn)
        self._writes = []

    def finish(self) -> None:
        """Perform the writes of scalar registers that were deferred to the end of the instruction."""
        for write in self._writes:
            write()
        self._writes = []

    def _scalar(self, write: Callable[[], None]) -> None:
        """Call `write`, which writes scalar registers, now or (if `defers`) at the end of the instruction."""
        if self.defers:
            self._writes.append(write)
        else:
            write()

    # ---- parts of operations -----------------------------------------------------------------------------------------
    def _result(self, w: int, v: Shadowed) -> tuple[OptionalShadow, ...]:
        """Return the shadows, one of each kind, of a result that is written to a register."""
        if not any(source is not None for source in self._sources):
            return v.shadows
        every = zip(self._sources, v.shadows, strict=True)
        return tuple(own if source is None else self._full(w, source) for source, own in every)

    def _full(self, w: int, source: int) -> OptionalShadow:
        """Return the shadow of a result of `w` bits for `source`, which `Kind.begin` returned.

        It has all bits set, no bits set, or the number of a step of an integer division."""
        if not source:
            return None
        o = self.base
        return ShadowBits(w, whole=o.const(1, 1)) if source is True else ShadowBits(w, bits=o.const(w, source))

    def _changed(self, result: Shadowed, shadow: OptionalShadow) -> Shadowed:
        """Return the result with its shadow of the kind `fidelity` replaced by `shadow`."""
        shadows = (shadow if number == self._fidelity else own for number, own in enumerate(result.shadows))
        return Shadowed(result.value, tuple(shadows))

    def _divided(self, name: str, result: Shadowed, *operands: Shadowed) -> Shadowed:
        """Return the result of a step of an integer division with its new shadow; `sources` describes the steps.

        `name` is the name of the operation."""
        at, o = self._fidelity, self.base
        assert at is not None
        values, own = [each.value for each in operands], [each.shadows[at] for each in operands]
        if name == "fadd":
            return self._remaining(result, values, own)
        if not sources.is_numbered(*own):
            return result
        if self._step == sources.MULTIPLIES and name == "fmul":
            return self._changed(result, sources.multiplied(o, values[0], own[0], values[1], own[1]))
        if self._step == sources.TRUNCATES and name == "fround" and own[0] is not None:
            return self._changed(result, sources.truncated(o, own[0]))
        if self._step == sources.CONVERTS and name == "fto_int" and own[0] is not None:
            return self._changed(result, sources.converted(o, own[0]))
        if self._step == sources.REMAINS and name in ("fmul", "fma"):
            self._parts = sources.quotient_of(o, values[0], own[0], values[1], own[1])
            return self._remaining(result, values[1:], own) if name == "fma" else result
        return result

    def _remaining(self, result: Shadowed, values: Sequence[Any], own: Sequence[OptionalShadow]) -> Shadowed:
        """Return the result of the addition that computes the remainder of an integer division, with its new shadow.

        Return other results unchanged. `values` are the operands; the last one is the dividend. `own` has the
        operands' shadows. Report a use of the quotient if the quotient may differ on hardware."""
        if self._parts is None:
            return result
        shadow, differs = sources.remainder(self.base, self._parts, values[-1], *own)
        self._parts = None
        self.kinds[self._fidelity or 0].report(QUOTIENT, ShadowBits(1, whole=differs))
        return self._changed(result, shadow)

    def _with_absent(self, w: int, shadows: tuple[OptionalShadow, ...]) -> tuple[OptionalShadow, ...]:
        """Return a result's shadows, in which all bits are undefined in lanes whose value comes from an inactive
        lane."""
        if self._absent is None:
            return shadows
        absent = ShadowBits(w, whole=self._absent)
        return tuple(
            rules.bitwise(self.base, w, own, absent) if kind.name == INIT else own
            for kind, own in zip(self.kinds, shadows, strict=True)
        )

    def _note(self, what: str, kind: Kind, bits: Sequence[Any], where: Shadowed | None, access: Access) -> None:
        """Report a memory access whose dwords have shadow bits set, if the kind of shadow reports accesses.

        `what` is "loaded" or "stored".
        """
        if what not in kind.notes:
            return
        found = bits[0]
        for each in bits[1:]:
            found = self.base.or_(32, found, each)
        kind.report(what, ShadowBits(32, bits=found), None if where is None else where.value, access)

    # ---- integers ----------------------------------------------------------------------------------------------------
    def bitreverse(self, w: int, a: Shadowed) -> Shadowed:
        """Return the bits of `a` in reverse order."""
        o = self.base

        def mirrored(x: OptionalShadow) -> OptionalShadow:
            return x if x is None or x.is_whole else ShadowBits(w, bits=o.bitreverse(w, x.bits(o)))

        return Shadowed(o.bitreverse(w, a.value), self._each(mirrored, a))

    def entry(self, w: int, a: Shadowed, table: tuple[int, ...]) -> Shadowed:
        """Return entry number `a` of `table`, as `w` bits with shadows."""
        return self._opaque(w, self.base.entry(w, a.value, table), a)

    # ---- floats --------------------------------------------------------------------------------------------------
    def _float(self, name: str, w: int, fmt: str, *operands: Shadowed, **more: Any) -> Shadowed:
        value = getattr(self.base, name)(fmt, *(operand.value for operand in operands), **more)
        result = self._opaque(w, value, *operands)
        return result if self._step is None or result.shadows is self.none else self._divided(name, result, *operands)

    def fldexp(self, fmt: str, a: Shadowed, n: Shadowed, env: str | None = None) -> Shadowed:
        """Compute a * 2**n."""
        return self._opaque(FLOAT_WIDTH[fmt], self.base.fldexp(fmt, a.value, n.value, env), a, n)

    def fround(self, fmt: str, a: Shadowed, kind: str) -> Shadowed:
        """Round the float `a` to an integral value; `kind` names the rounding mode."""
        return self._float("fround", FLOAT_WIDTH[fmt], fmt, a, kind=kind)

    def fconvert(self, to: str, fmt: str, a: Shadowed, env: str | None = None, rounding: int | None = None) -> Shadowed:
        """Convert the float `a` from the format `fmt` to the format `to`."""
        return self._opaque(FLOAT_WIDTH[to], self.base.fconvert(to, fmt, a.value, env, rounding), a)

    def ffrom_int(self, fmt: str, w: int, signed: bool, a: Shadowed, env: str | None = None) -> Shadowed:
        """Convert the integer `a` of `w` bits to a float of the format `fmt`."""
        return self._opaque(FLOAT_WIDTH[fmt], self.base.ffrom_int(fmt, w, signed, a.value, env), a)

    def fto_int(self, fmt: str, w: int, signed: bool, a: Shadowed) -> Shadowed:
        """Convert the float `a` to an integer of `w` bits: round towards zero, and saturate."""
        result = self._opaque(w, self.base.fto_int(fmt, w, signed, a.value), a)
        return result if self._step is None or result.shadows is self.none else self._divided("fto_int", result, a)

    # ---- scalar state --------------------------------------------------------------------------------------------
    def _read(self, w: int, value: Any, read: Callable[[Any], Any]) -> Shadowed:
        """Return the register value `value` of `w` bits with its shadows, one for each kind of shadow.

        `read` returns the contents of the corresponding shadow register, given the shadow registers of one kind."""
        return Shadowed(value, tuple(kind.read(w, read(kind.shadow)) for kind in self.kinds))

    def _write(self, w: int, v: Shadowed, write: Callable[[Any, Any], None]) -> None:
        for kind, own in zip(self.kinds, self._result(w, v), strict=True):
            write(kind.shadow, kind.write(self.base, w, own))

    def s(self, n: int) -> Shadowed:
        """Return the value of scalar register n, with its shadows."""
        value = self.base.s(n)
        return self._plain(value) if n in NUMBERED else self._read(32, value, lambda shadow: shadow.s(n))

    def set_s(self, n: int, v: Shadowed) -> None:
        """Write `v` to the scalar register with operand code `n`."""
        if n in NUMBERED:
            self._report(LANES, v)
        self._scalar(lambda: self.base.set_s(n, v.value))
        if n not in NUMBERED:
            self._scalar(lambda: self._write(32, v, lambda shadow, bits: shadow.set_s(n, bits)))

    def s64(self, n: int) -> Shadowed:
        """Return the value of scalar registers n and n + 1, with its shadows."""
        value = self.base.s64(n)
        return self._plain(value) if n == EXEC else self._read(64, value, lambda shadow: shadow.s64(n))

    def set_s64(self, n: int, v: Shadowed) -> None:
        """Write the 64 bits `v` to the scalar registers `n` and `n` + 1."""
        if n == EXEC:
            self._report(LANES, v)
        self._scalar(lambda: self.base.set_s64(n, v.value))
        if n != EXEC:
            self._scalar(lambda: self._write(64, v, lambda shadow, bits: shadow.set_s64(n, bits)))

    def scc(self) -> Shadowed:
        """Return the value of SCC, the scalar condition code, with its shadows."""
        return self._read(1, self.base.scc(), lambda shadow: shadow.scc())

    def set_scc(self, v: Shadowed) -> None:
        """Write `v` to SCC, the scalar condition code."""
        self._scalar(lambda: self.base.set_scc(v.value))
        self._scalar(lambda: self._write(1, v, lambda shadow, bits: shadow.set_scc(bits)))

    def s_indexed(self, n: int, offset: Shadowed, w: int = 32) -> Shadowed:
        """Return the `w` bits (32 or 64) in the scalar registers from n + offset on, with their shadows."""
        self._report(ADDRESS, offset)
        value = self.base.s_indexed(n, offset.value, w)
        return self._read(w, value, lambda shadow: shadow.s_indexed(n, offset.value, w))

    def set_s_indexed(self, n: int, offset: Shadowed, v: Shadowed, w: int = 32) -> None:
        """Write the `w` bits (32 or 64) of `v` to the scalar registers from n + offset on."""
        self._report(ADDRESS, offset)
        self._scalar(lambda: self.base.set_s_indexed(n, offset.value, v.value, w))
        self._scalar(lambda: self._write(w, v, lambda shadow, bits: shadow.set_s_indexed(n, offset.value, bits, w)))

    def hwreg(self, number: int) -> Shadowed:
        """Return the value of a hardware register, without shadow bits; `number` is its id in s_getreg."""
        return self._plain(self.base.hwreg(number))

    def set_hwreg(self, number: int, v: Shadowed) -> None:
        """Write `v` to a hardware register; `number` is its id in s_setreg."""
        self.finish()
        self.base.set_hwreg(number, v.value)

    def time(self, kind: str) -> Shadowed:
        """Return the clock that `kind` names ("memtime" or "memrealtime"), without shadow bits."""
        return self._plain(self.base.time(kind))

    # ---- lanes ---------------------------------------------------------------------------------------------------
    def v(self, n: int) -> Shadowed:
        """Return the value of vector register n, with its shadows."""
        return self._read(32, self.base.v(n), lambda shadow: shadow.v(n))

    def set_v(self, n: int, v: Shadowed, where: Shadowed | None = None) -> None:
        """Write `v` to vector register n in the lanes of EXEC; a mask `where` restricts these lanes further."""
        lanes = None if where is None else where.value
        self.base.set_v(n, v.value, lanes)
        v = Shadowed(v.value, self._with_absent(32, v.shadows))
        self._write(32, v, lambda shadow, bits: shadow.set_v(n, bits, lanes))

    def mask(self, n: int) -> Shadowed:
        """Return the lane mask in scalar registers n and n + 1, with its shadows."""
        value = self.base.mask(n)
        return self._plain(value) if n == EXEC else self._read(1, value, lambda shadow: shadow.mask(n))

    def set_mask(self, n: int, m: Shadowed) -> None:
        """Write the lane mask `m` to the scalar registers n and n + 1."""
        if n == EXEC:
            self._report(LANES, m)
        self.base.set_mask(n, m.value)
        if n != EXEC:
            self._write(1, m, lambda shadow, bits: shadow.set_mask(n, bits))

    def lane_bits(self, b: Shadowed) -> Shadowed:
        """Convert a 64-bit scalar to a lane mask: bit i becomes the mask's value in lane i."""
        o = self.base

        def spread(x: OptionalShadow) -> OptionalShadow:
            return None if x is None else ShadowBits(1, whole=o.lane_bits(x.bits(o)))

        return Shadowed(o.lane_bits(b.value), self._each(spread, b))

    def lane_id(self) -> Shadowed:
        """Return the lane numbers, 0 to 63."""
        return self._plain(self.base.lane_id())

    def active(self) -> Shadowed:
        """Return EXEC as a lane mask."""
        return self._plain(self.base.active())

    def v_at(self, n: int, lane: Shadowed) -> Shadowed:
        """Return the value of vector register n with its shadows, as read from another lane.

        `lane` has, for each lane, the number of the lane to read.
        """
        o, value = self.base, self.base.v_at(n, lane.value)
        if self._crosses:
            active = o.lshr(64, o.s64(EXEC), o.zext(64, 32, lane.value))
            self._absent = o.not_(1, o.trunc(1, 64, active))
        found = self._read(32, value, lambda shadow: shadow.v_at(n, lane.value))
        shadows = self._each(lambda x, y: rules.bitwise(self.base, 32, x, rules.opaque(self.base, 32, y)), found, lane)
        return Shadowed(value, shadows)

    def push(self, n: int, v: Shadowed, lane: Shadowed) -> None:
        """Write the value `v` of each active lane to vector register n of the lane whose number is in `lane`."""
        self._report(ADDRESS, lane)
        if any(kind.name == INIT for kind in self.kinds):
            self._absent = self.colliding(lane.value)
            v = Shadowed(v.value, self._with_absent(32, v.shadows))
        self.base.push(n, v.value, lane.value)
        self._write(32, v, lambda shadow, bits: shadow.push(n, bits, lane.value))

    def colliding(self, lane: Any) -> Any:
        """Return a mask of the active lanes whose target lane also receives a value from another active lane."""
        raise NotImplementedError

    def lane(self, n: int, lane: Shadowed) -> Shadowed:
        """Return the value of vector register n in one lane, with its shadows."""
        self._report(ADDRESS, lane)
        return self._read(32, self.base.lane(n, lane.value), lambda shadow: shadow.lane(n, lane.value))

    def set_lane(self, n: int, lane: Shadowed, v: Shadowed) -> None:
        """Write `v` to vector register n of the lane `lane`."""
        self._report(ADDRESS, lane)
        self.base.set_lane(n, lane.value, v.value)
        self._write(32, v, lambda shadow, bits: shadow.set_lane(n, lane.value, bits))

    def matrix(self, use: Use) -> None:
        """Compute a matrix instruction and, before it, the shadow of its result.

        The shadow comes first since D may overlap registers on which it depends.
        """
        for kind, source in zip(self.kinds, self._sources, strict=True):
            kind.shadow.matrix_shadows(use, self.base, is_source=bool(source))
        self.base.matrix(use)

    def v_indexed(self, n: int, offset: Shadowed) -> Shadowed:
        """Return the value of vector register n + offset, with its shadows."""
        self._report(ADDRESS, offset)
        return self._read(32, self.base.v_indexed(n, offset.value), lambda shadow: shadow.v_indexed(n, offset.value))

    def set_v_indexed(self, n: int, offset: Shadowed, v: Shadowed) -> None:
        """Write `v` to vector register n + offset."""
        self._report(ADDRESS, offset)
        self.base.set_v_indexed(n, offset.value, v.value)
        self._write(32, v, lambda shadow, bits: shadow.set_v_indexed(n, offset.value, bits))

    # ---- memory --------------------------------------------------------------------------------------------------
    def load(self, space: str, bits: int, address: Shadowed, where: Shadowed | None = None) -> list[Shadowed]:
        """Load from memory for each lane; return the loaded dwords with their shadows."""
        self._report(ADDRESS, address, where)
        lanes = None if where is None else where.value
        values = self.base.load(space, bits, address.value, lanes)
        found: list[Sequence[OptionalShadow]] = []
        for kind in self.kinds:
            if space not in kind.spaces:
                found.append((None,) * len(values))
                continue
            shadows = kind.shadow.load(space, bits, address.value, lanes)
            self._note(LOADED, kind, shadows, where, Access(space, bits, address.value))
            found.append([kind.read(32, each) for each in shadows])
        return [Shadowed(value, tuple(shadows)) for value, *shadows in zip(values, *found, strict=True)]

    def store(
        self, space: str, bits: int, address: Shadowed, values: Sequence[Shadowed], where: Shadowed | None = None
    ) -> None:
        """Store the dwords `values` of each lane, and their shadows, to memory."""
        self._report(ADDRESS, address, where)
        lanes = None if where is None else where.value
        self.base.store(space, bits, address.value, [v.value for v in values], lanes)
        for number, kind in enumerate(self.kinds):
            if space not in kind.spaces:
                continue
            own = [v.shadows[number] for v in values]
            shadows = [bits_of(self.base, 32, each) for each in own]
            if any(own):
                data = [self._low(bits, each) for each in shadows]
                self._note(STORED, kind, data, where, Access(space, bits, address.value))
            kind.shadow.store(space, bits, address.value, shadows, lanes)

    def _low(self, bits: int, shadow: Any) -> Any:
        """Return the low `bits` bits of a shadow, which belong to the stored bits of a dword."""
        return shadow if bits >= 32 else self.base.and_(32, shadow, self.base.const(32, (1 << bits) - 1))

    def atomic(
        self,
        space: str,
        kind: str,
        bits: int,
        address: Shadowed,
        v: Shadowed,
        compare: Shadowed | None = None,
        where: Shadowed | None = None,
    ) -> Shadowed:
        """Execute an atomic operation for each lane in turn; return the old values in memory."""
        return self._atomic("atomic", space, kind, bits, address, v, compare, where)

    def scalar_atomic(
        self,
        space: str,
        kind: str,
        bits: int,
        address: Shadowed,
        v: Shadowed,
        compare: Shadowed | None = None,
        where: Shadowed | None = None,
    ) -> Shadowed:
        """Execute one atomic operation of the scalar unit; return the old value in memory."""
        return self._atomic("scalar_atomic", space, kind, bits, address, v, compare, where)

    def _atomic(
        self,
        which: str,
        space: str,
        kind: str,
        bits: int,
        address: Shadowed,
        v: Shadowed,
        compare: Shadowed | None,
        where: Shadowed | None,
    ) -> Shadowed:
        self._report(ADDRESS, address, where)
        self._report(ATOMIC, v, where)
        given = v.shadows
        if compare is not None:
            self._report(ATOMIC, compare, where)
            given = self._each(lambda x, y: rules.bitwise(self.base, bits, x, y), v, compare)
        lanes = None if where is None else where.value
        other = None if compare is None else compare.value
        shadows: list[OptionalShadow] = []  # first, since the reference engine may repeat the instruction
        for each, own in zip(self.kinds, given, strict=True):
            if space not in each.spaces:
                shadows.append(None)
                continue
            how = "swap" if kind == "swap" else "or"
            data = bits_of(self.base, bits, own)
            old = getattr(each.shadow, which)(space, how, bits, address.value, data, None, lanes)
            shadows.append(each.read(bits, old))
        value = getattr(self.base, which)(space, kind, bits, address.value, v.value, other, lanes)
        return Shadowed(value, tuple(shadows))

    def scalar_load(self, dwords: int, address: Shadowed, where: Shadowed | None = None) -> list[Shadowed]:
        """Load dwords from a scalar address; return them with their shadows."""
        self._report(ADDRESS, address, where)
        lanes = () if where is None else (where.value,)
        values = self.base.scalar_load(dwords, address.value, *lanes)
        found: list[list[OptionalShadow]] = []
        for kind in self.kinds:
            shadows = kind.shadow.scalar_load(dwords, address.value, *lanes)
            self._note(LOADED, kind, shadows, where, Access("global", 32 * dwords, address.value))
            found.append([kind.read(32, each) for each in shadows])
        return [Shadowed(value, tuple(shadows)) for value, *shadows in zip(values, *found, strict=True)]

    def scalar_store(self, address: Shadowed, values: Sequence[Shadowed], where: Shadowed | None = None) -> None:
        """Store the dwords `values`, and their shadows, at a scalar address."""
        self._report(ADDRESS, address, where)
        lanes = None if where is None else where.value
        self.base.scalar_store(address.value, [v.value for v in values], lanes)
        for number, kind in enumerate(self.kinds):
            shadows = [bits_of(self.base, 32, v.shadows[number]) for v in values]
            self._note(STORED, kind, shadows, where, Access("global", 32 * len(values), address.value))
            kind.shadow.scalar_store(address.value, shadows, lanes)

    def aperture(self, which: str) -> Shadowed:
        """Return the base or the limit of the LDS or private aperture of the flat address space; `which` selects it."""
        return self._plain(self.base.aperture(which))

    # ---- control -------------------------------------------------------------------------------------------------
    def branch(self, c: Shadowed, target: int) -> None:
        """Jump to `target` if condition `c` holds; report a condition that has shadow bits set."""
        self._report(BRANCH, c)
        self.finish()
        self.base.branch(c.value, target)

    def jump(self, target: int) -> None:
        """Jump to `target`."""
        self.finish()
        self.base.jump(target)

    def jump_to(self, target: Shadowed) -> None:
        """Jump to a computed address; report an address that has shadow bits set."""
        self._report(BRANCH, target)
        self.finish()
        self.base.jump_to(target.value)

    def end(self) -> None:
        """End the wave."""
        self.finish()
        self.base.end()

    def barrier(self) -> None:
        """Wait at a barrier."""
        self.finish()
        self.base.barrier()

    def order(self, what: str, n: int = 0) -> None:
        """Execute the wait, cache write-back or cache invalidation that `what` names."""
        self.base.order(what, n)

    def hint(self, what: str, n: int = 0) -> None:
        """Pass a scheduling request, such as a pause, to the engine. Results do not depend on it."""
        self.finish()
        self.base.hint(what, n)

    def trap(self, number: int) -> None:
        """Execute s_trap."""
        self.base.trap(number)


def _arithmetic(name: str, count: int) -> Callable[..., Shadowed]:
    """Return a method for the float operation `name` with `count` operands.

    The method optionally takes the float environment as a further argument."""

    def operation(self: ShadowedAlgebra, fmt: str, *operands: Any, **named: Any) -> Shadowed:
        values, env = operands[:count], operands[count] if len(operands) > count else named.get("env")
        return self._float(name, FLOAT_WIDTH[fmt], fmt, *values, env=env)

    return operation


def _test(name: str) -> Callable[..., Shadowed]:
    def operation(self: ShadowedAlgebra, fmt: str, a: Shadowed, b: Shadowed) -> Shadowed:
        return self._float(name, 1, fmt, a, b)

    return operation


for _name in ("umin", "umax", "smin", "smax"):
    setattr(ShadowedAlgebra, _name, binary(_name))
for _name, _count in (("fadd", 2), ("fsub", 2), ("fmul", 2), ("fma", 3), ("fdiv", 2), ("fsqrt", 1)):
    setattr(ShadowedAlgebra, _name, _arithmetic(_name, _count))
for _name in ("feq", "flt", "fle", "funo"):
    setattr(ShadowedAlgebra, _name, _test(_name))


def _flushed(self: ShadowedAlgebra, fmt: str, a: Shadowed) -> Shadowed:
    return Shadowed(self.base.fflush(fmt, a.value), a.shadows)


ShadowedAlgebra.fflush = _flushed  # type: ignore[attr-defined]
