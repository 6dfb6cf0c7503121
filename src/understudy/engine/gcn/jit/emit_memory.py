"""Memory in translated code: what lies side by side is read in line (`emit_contiguous`), all else by compiled helpers.

An access that cannot be made directly (nothing mapped, a region with effects, beyond plain memory) leaves the
strip before anything of this chunk was committed: the reference engine goes on from there, or finds the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.basics import Untranslated
from understudy.engine.gcn.jit.emit_atomic import Atomics
from understudy.engine.gcn.jit.emit_contiguous import Addresses, Contiguous, is_in_line
from understudy.engine.gcn.jit.emit_control import Control, word
from understudy.engine.gcn.jit.emit_helpers import LIKELY, Helpers, InlineCaches, fits_within
from understudy.engine.gcn.jit.emit_integer import Integers
from understudy.engine.gcn.jit.emit_registers import VectorFile
from understudy.engine.gcn.jit.native_memory import NOWHERE
from understudy.ir.builder import LaneText, Value
from understudy.isa.gcn import state
from understudy.isa.gcn.state import LANES

if TYPE_CHECKING:
    from understudy.engine.gcn.jit.emit_races import RaceHooks


class Memory:
    """Memory of the algebra. `uses_atomics`: whether the function has an atomic operation."""

    _single: Value
    """What the last atomic of the wave gave."""

    def __init__(
        self,
        text: LaneText,
        ints: Integers,
        vectors: VectorFile,
        control: Control,
        addresses: Addresses | None = None,
    ) -> None:
        self.text = text
        self.ints = ints
        self.vectors = vectors
        self.control = control
        self.helpers = Helpers(text, vectors)
        self.caches = InlineCaches(text, self.helpers)
        self.addresses = Addresses(text, ints) if addresses is None else addresses
        self.atomics = Atomics(text, self.addresses, self.caches)
        self.contiguous = Contiguous(text, self.addresses, self.caches, self.helpers)
        self.uses_atomics = False
        self.races: RaceHooks | None = None
        """What is told of accesses, where races are looked for."""
        self.begin(0)

    def begin(self, phase: int) -> None:
        """An instruction begins, of whose accesses only number `phase` is meant: what those before it gave is known.

        0: all of them, but stores behind the first, which the reference engine does.
        """
        self._phase = phase
        self._accesses = self._stores = 0
        self.has_loaded = False

    @property
    def phase(self) -> int:
        """Which access of the instruction is meant; 0 for all, `AHEAD` for none."""
        return self._phase

    def _given(self, count: int, w: int, access: Callable[[], list[Value]]) -> list[Value]:
        """The `count` values that an access gives to lanes; they wait in memory where phases follow."""
        self._accesses += 1
        if not self._phase:
            return access()
        places = [self._waiting(w, k) for k in range(count)]
        text, kind = self.text, self.text.itype(w, True)
        align = f"align {w // 8 * text.lanes}"
        if self._accesses < self._phase:
            return [Value(w, True, text.let(f"load {kind}, ptr {place}, {align}")) for place in places]
        if self._accesses > self._phase:
            return [self.ints.const(w, 0)] * count
        values = access()
        for place, value in zip(places, values, strict=True):
            text.put(f"store {kind} {text.bits(value, True)}, ptr {place}, {align}")
        return values

    def _waiting(self, w: int, k: int) -> str:
        """Where this chunk of value `k` of the access waits."""
        name = f"%{self.vectors.home.prefix}given{w}_{self._accesses}_{k}"
        line = f"{name} = alloca [{LANES} x i{w}], align 64"
        if line not in self.text.allocas:
            self.text.allocas.append(line)
        return self.text.let(f"getelementptr i{w}, ptr {name}, i64 %sh{self.vectors.label}")

    # ---- lanes -------------------------------------------------------------------------------------------------
    def load(self, space: str, bits: int, address: Value, where: Value | None = None) -> list[Value]:
        """Read lanes."""
        self.has_loaded = True
        return self._given(max(1, bits // 32), 32, lambda: self._load(space, bits, address, where))

    def _load(self, space: str, bits: int, address: Value, where: Value | None) -> list[Value]:
        self._look("load", space, bits, address, where)
        if is_in_line(space, bits):
            return self.contiguous.access(space, bits, address, self.vectors.active(), where)
        mask = self._masked(where)
        values = self._helped("load", space, bits, address, mask, ())
        return values if where is None else [self.ints.select(32, mask, v, self.ints.const(32, 0)) for v in values]

    def store(self, space: str, bits: int, address: Value, values: Sequence[Value], where: Value | None = None) -> None:
        """Write lanes."""
        self._accesses += 1
        self._stores += 1
        if self._phase:
            if self._accesses != self._phase:
                return
        elif self._stores > 1:  # what is left over at the end of a buffer: rarely anything
            some = self.text.let(f"zext i{self.text.lanes} {self.vectors.compressed(self._masked(where))} to i64")
            self.helpers.or_leave(some)
            return
        self._look("store", space, bits, address, where)
        if is_in_line(space, bits):
            self.contiguous.access(space, bits, address, self.vectors.active(), where, values)
            return
        self._helped("store", space, bits, address, self._masked(where), values)

    def _look(self, kind: str, space: str, bits: int, address: Value, where: Value | None) -> None:
        if self.races is not None:
            self.races.look(kind, space, bits, self._accesses, address, where)

    def _masked(self, where: Value | None) -> Value:
        return self.vectors.active() if where is None else self.ints.and_(1, self.vectors.active(), where)

    def _helped(
        self, kind: str, space: str, bits: int, address: Value, mask: Value, values: Sequence[Value]
    ) -> list[Value]:
        text = self.text
        if bits > 128:
            raise Untranslated
        data = tuple(text.bits(value, True) for value in values)
        names = self.helpers.call(kind, space, bits, text.bits(address, True), text.bits(mask, True), data)
        return [Value(32, True, name) for name in names]

    # ---- atomics -----------------------------------------------------------------------------------------------
    def atomic(
        self,
        space: str,
        kind: str,
        bits: int,
        address: Value,
        v: Value,
        compare: Value | None = None,
        where: Value | None = None,
    ) -> Value:
        """Lane after lane, by a helper that takes its operands from memory."""
        return self._given(1, bits, lambda: [self._atomic(space, kind, bits, address, v, compare, where)])[0]

    def _atomic(
        self, space: str, kind: str, bits: int, address: Value, v: Value, compare: Value | None, where: Value | None
    ) -> Value:
        text, mask = self.text, self._masked(where)
        data = text.bits(v, True), text.bits(v if compare is None else compare, True)
        self.atomics.begin(kind, bits, data)
        if space == "lds":
            return self.atomics.local(address, text.bits(mask, True), bool(self.control.mode & state.CHECKED))

        def helped() -> str:
            wide, align = text.itype(64, True), f"align {8 * text.lanes}"
            operands = []
            for name, value in (("aa", address), ("ad", v), ("ac", compare)):
                if value is not None:
                    full = text.bits(self.ints.zext(64, value.w, value), True)
                    text.put(f"store {wide} {full}, ptr %{name}, {align}")
                operands.append(f"ptr %{name}")
            m = text.let(f"zext i{text.lanes} {self.vectors.compressed(mask)} to i64")
            self.helpers.or_leave(self._call_atomic(space, kind, bits, operands, m))
            found = Value(64, True, text.let(f"load {wide}, ptr %ao, {align}"))
            return text.bits(self.ints.trunc(bits, 64, found), True)

        if space == "gds":
            return Value(bits, True, helped())
        return self.atomics.shared(address, text.bits(mask, True), helped)

    def _call_atomic(self, space: str, kind: str, bits: int, operands: list[str], mask: str) -> str:
        self.uses_atomics = True
        numbers = f"i64 {layout.SPACES.index(space)}, i64 {layout.ATOMICS.index(kind)}, i64 {bits // 8}"
        arguments = f"ptr {self.vectors.home.state}, {numbers}, {', '.join(operands)}, ptr %ao, i64 {mask}, i64 0"
        return self.text.let(f"call i64 {self.helpers.address('atomic')}({arguments})")

    # ---- scalars -----------------------------------------------------------------------------------------------
    def scalar_load(self, dwords: int, address: Value, where: Value | None = None) -> list[Value]:
        """Dwords for the wave; the reference engine does it where they do not lie in plain memory."""
        if where is None:
            return self._scalar_load(dwords, address)
        text, before = self.text, self.text.label
        some, on = text.fresh("some"), text.fresh("on")
        text.branch(text.bits(where), some, on, LIKELY)
        text.start(some)
        values = [text.bits(value) for value in self._scalar_load(dwords, address)]
        behind = text.label
        text.put(f"br label %{on}")
        text.start(on)
        phis = [text.let(f"phi i32 [ {value}, %{behind} ], [ 0, %{before} ]") for value in values]
        return [Value(32, False, phi) for phi in phis]

    def _scalar_load(self, dwords: int, address: Value) -> list[Value]:
        text, o = self.text, self.ints
        aligned = text.bits(o.and_(64, address, o.const(64, ~3)))
        if self.races is not None:
            self.races.look_scalar(dwords, aligned)
        cache = self.caches.take("scalar")
        known, walk, on = self.text.label, text.fresh("walk"), text.fresh("on")
        fits, there = self._scalar_place(cache, aligned, dwords)
        text.branch(fits, on, walk, LIKELY)
        text.start(walk)
        self.caches.refill(aligned, cache)
        fits, found = self._scalar_place(cache, aligned, dwords)
        text.branch(fits, on, self.control.step_exit(), LIKELY)
        text.start(on)
        place = text.let(f"phi i64 [ {there}, %{known} ], [ {found}, %{walk} ]")
        pointer = text.let(f"inttoptr i64 {place} to ptr")
        values = []
        for k in range(dwords):
            at = text.let(f"getelementptr i32, ptr {pointer}, i64 {k}")
            values.append(Value(32, False, text.let(f"load i32, ptr {at}, align 1")))
        return values

    def _scalar_place(self, cache: str, address: str, dwords: int) -> tuple[str, str]:
        """Whether so many dwords lie in the memory that an inline cache knows, and their host address."""
        start, size, addend = self.caches.load(cache)
        fits = fits_within(self.text, self.text.let(f"sub i64 {address}, {start}"), size, 4 * dwords)
        return fits, self.text.let(f"add i64 {address}, {addend}")

    def scalar_store(self, address: Value, values: Sequence[Value], where: Value | None = None) -> None:
        """Dwords of the wave; the reference engine does it where they do not lie in plain memory."""
        text = self.text
        on = text.fresh("on")
        if where is not None:
            some = text.fresh("some")
            text.branch(text.bits(where), some, on, LIKELY)
            text.start(some)
        aligned = text.bits(self.ints.and_(64, address, self.ints.const(64, ~3)))
        there = f"ptr {self.vectors.home.state}, i64 {layout.SPACES.index('global')}"
        arguments = f"{there}, i64 {aligned}, i64 {4 * len(values)}, i64 1"
        host, there = text.let(f"call i64 {self.helpers.address('reach')}({arguments})"), text.fresh("there")
        text.branch(text.let(f"icmp ne i64 {host}, {NOWHERE}"), there, self.control.step_exit(), LIKELY)
        text.start(there)
        pointer = text.let(f"inttoptr i64 {host} to ptr")
        for k, value in enumerate(values):
            at = text.let(f"getelementptr i32, ptr {pointer}, i64 {k}")
            text.put(f"store i32 {text.bits(value)}, ptr {at}, align 1")
        text.put(f"br label %{on}")
        text.start(on)

    def scalar_atomic(
        self,
        space: str,
        kind: str,
        bits: int,
        address: Value,
        v: Value,
        compare: Value | None = None,
        where: Value | None = None,
    ) -> Value:
        """One atomic of the wave, by the helper of lanes, or what it gave before its lanes' turn."""
        self._accesses += 1
        if self._phase and self._accesses != self._phase:
            return self._single if self._accesses < self._phase else self.ints.const(bits, 0)
        text, o, operands = self.text, self.ints, []
        for name, value in (("aa", address), ("ad", v), ("ac", compare)):
            if value is not None:
                text.put(f"store i64 {text.bits(o.zext(64, value.w, value))}, ptr %{name}")
            operands.append(f"ptr %{name}")
        mask = text.bits(o.const(64, 1) if where is None else o.zext(64, 1, where))
        text.put("store i64 0, ptr %ao")
        status, on = self._call_atomic(space, kind, bits, operands, mask), text.fresh("on")
        text.branch(text.let(f"icmp eq i64 {status}, 0"), on, self.control.step_exit(), LIKELY)
        text.start(on)
        self._single = o.trunc(bits, 64, Value(64, False, text.let("load i64, ptr %ao")))
        return self._single

    def aperture(self, which: str) -> Value:
        """Bases and limits of the flat apertures, as engines know them (`isa.gcn.pointer`)."""
        o = self.ints
        name, _, end = which.partition("_")
        base = Value(64, False, word(self.text, state.SHARED_BASE if name == "shared" else state.PRIVATE_BASE))
        return o.or_(64, base, o.const(64, 0xFFFF_FFFF)) if end else base

    def order(self, what: str, n: int = 0) -> None:
        """Memory is coherent here; but what is waited for is of concern where races are looked for."""
        nodes = self.control.block.nodes
        if self.races is not None and what == "waitcnt" and not nodes[self.control.index].insn.target.vmcnt(n):
            self.races.waited()
