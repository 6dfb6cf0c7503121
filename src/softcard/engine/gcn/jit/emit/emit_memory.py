"""Memory in translated code: contiguous accesses are emitted in line (`emit_contiguous`), others call helpers.

Some accesses cannot be executed directly: no memory is mapped at the address, it is in a region with effects,
or the access extends beyond plain memory. Such an access takes a side exit of the strip-mined loop, before
any effect of this iteration (a vector of lanes) is committed. The reference engine continues there, or
reports the fault."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.jit.basics import Untranslated
from softcard.engine.gcn.jit.emit.emit_atomic import Atomics
from softcard.engine.gcn.jit.emit.emit_contiguous import Addresses, Contiguous, is_in_line
from softcard.engine.gcn.jit.emit.emit_control import Control, word
from softcard.engine.gcn.jit.emit.emit_helpers import LIKELY, Helpers, InlineCaches, fits_within
from softcard.engine.gcn.jit.emit.emit_integer import Integers
from softcard.engine.gcn.jit.emit.emit_registers import VectorFile
from softcard.engine.gcn.jit.native_memory import NOWHERE
from softcard.ir.builder import LaneText, Value
from softcard.ir.operand import Operand
from softcard.isa.gcn import state
from softcard.isa.gcn.state import LANES

# ---- reports of accesses ---------------------------------------------------------------------------------------------
# The interface of a check that writes IR to report accesses of memory and their order.


class AccessHooks(Protocol):
    """The interface of an emitter, for one region, of code that reports accesses to a check.

    It is created with the emitters of the region's text, vector registers, control flow, helper calls and
    address conditions."""

    def begin_strip(self, exec: str, stores: set[str]) -> None:
        """Begin a strip-mined loop.

        `exec` is the variable that has EXEC, `stores` are the address spaces that the loop stores to.
        """

    def begin_chunk(self) -> None:
        """Begin the code for one lane vector: the lanes that one iteration of a strip-mined loop handles.

        Calls of `access` follow in the order of the accesses.
        """

    def access(
        self,
        kind: str,
        space: str,
        bits: int,
        number: int,
        address: Value,
        where: Value | None,
        values: Sequence[Value],
    ) -> None:
        """Emit the report of access `number` of an instruction, before the access itself.

        `where` is the mask of the lanes, in the lane vector, that make the access. `values` are the dwords that each
        lane stores, empty for loads."""

    def end_chunk(self) -> None:
        """End the code for one lane vector (one iteration of a strip-mined loop)."""

    def scalar_access(self, dwords: int, address: Operand) -> None:
        """Emit the report that the wave loads dwords at an address."""

    def arrive(self) -> None:
        """Emit the report that the wave has reached a barrier."""

    def finish(self) -> None:
        """Emit the report that the wave ends."""

    def waited(self) -> None:
        """Emit the report that the wave has waited for its stores."""


# ---- accesses --------------------------------------------------------------------------------------------------------


class Memory:
    """The emitter of memory accesses; `uses_atomics` is True if the function contains an atomic."""

    _single: Value
    """The result of the last atomic of the wave as a whole, as opposed to an atomic of its lanes."""

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
        self.hooks: AccessHooks | None = None
        """The emitter of code that reports accesses to a check; None without such a check."""
        self.begin(0)

    def begin(self, phase: int) -> None:
        """Begin an instruction, either with all its accesses (`phase` 0) or with one of several passes over the lanes.

        In pass `phase`, only access number `phase` is emitted; the results of earlier accesses are loaded from the
        stack. If `phase` is 0, all accesses are emitted, except for the second and further stores of the
        instruction. If a lane makes such a store, a side exit leaves it to the reference engine."""
        self._phase = phase
        self._accesses = self._stores = 0
        self.has_loaded = False

    @property
    def phase(self) -> int:
        """The number of the access that the present pass over the lanes emits; 0 for all, `PROLOGUE` for none."""
        return self._phase

    def _stored_values(self, count: int, w: int, access: Callable[[], list[Value]]) -> list[Value]:
        """Return the `count` values of an access, either by emitting it or as saved by an earlier pass over the lanes.

        The pass that emits the access saves its values on the stack for later passes."""
        self._accesses += 1
        if not self._phase:
            return access()
        places = [self._waiting(w, k) for k in range(count)]
        text, kind = self.text, self.text.itype(w, True)
        align = w // 8 * text.lanes
        if self._accesses < self._phase:
            return [Value(w, True, place.load(kind, align=align)) for place in places]
        if self._accesses > self._phase:
            return [self.ints.const(w, 0)] * count
        values = access()
        for place, value in zip(places, values, strict=True):
            place.store(text.bits(value, True), align=align)
        return values

    def _waiting(self, w: int, k: int) -> Operand:
        """Return the stack address at which value `k` of the present access is saved for later passes over the lanes.

        The address belongs to the present lane vector."""
        name = f"%{self.vectors.base.prefix}given{w}_{self._accesses}_{k}"
        return self.text.slot(name, f"[{LANES} x i{w}]", ", align 64").element(
            f"i{w}", self.text.word(f"%sh{self.vectors.label}")
        )

    # ---- lanes -------------------------------------------------------------------------------------------------
    def load(self, space: str, bits: int, address: Value, where: Value | None = None) -> list[Value]:
        """Emit the load of one value for each lane."""
        self.has_loaded = True
        return self._stored_values(max(1, bits // 32), 32, lambda: self._load(space, bits, address, where))

    def _load(self, space: str, bits: int, address: Value, where: Value | None) -> list[Value]:
        self._report_access("load", space, bits, address, where)
        if is_in_line(space, bits):
            return self.contiguous.access(space, bits, address, self.vectors.active(), where)
        mask = self._masked(where)
        values = self._helped("load", space, bits, address, mask, ())
        return values if where is None else [self.ints.select(32, mask, v, self.ints.const(32, 0)) for v in values]

    def store(self, space: str, bits: int, address: Value, values: Sequence[Value], where: Value | None = None) -> None:
        """Emit the store of one value from each lane."""
        self._accesses += 1
        self._stores += 1
        if self._phase:
            if self._accesses != self._phase:
                return
        elif self._stores > 1:  # the rest at the end of a buffer: rarely any lanes
            some = self.vectors.compressed(self._masked(where)).zext("i64")
            self.helpers.or_leave(some)
            return
        self._report_access("store", space, bits, address, where, values)
        if is_in_line(space, bits):
            self.contiguous.access(space, bits, address, self.vectors.active(), where, values)
            return
        self._helped("store", space, bits, address, self._masked(where), values)

    def _report_access(
        self,
        kind: str,
        space: str,
        bits: int,
        address: Value,
        where: Value | None,
        values: Sequence[Value] = (),
    ) -> None:
        if self.hooks is not None:
            self.hooks.access(kind, space, bits, self._accesses, address, where, values)

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
        """Emit an atomic that is executed lane by lane, by a helper whose operands are in memory."""
        return self._stored_values(1, bits, lambda: [self._atomic(space, kind, bits, address, v, compare, where)])[0]

    def _atomic(
        self, space: str, kind: str, bits: int, address: Value, v: Value, compare: Value | None, where: Value | None
    ) -> Value:
        text, mask = self.text, self._masked(where)
        data = text.bits(v, True), text.bits(v if compare is None else compare, True)
        self.atomics.begin(kind, bits, data)
        if space == "lds":
            return self.atomics.local(address, text.bits(mask, True), bool(self.control.mode & state.CHECKED))

        def helped() -> Operand:
            wide, align = text.itype(64, True), 8 * text.lanes
            operands = []
            for name, value in (("aa", address), ("ad", v), ("ac", compare)):
                if value is not None:
                    full = text.bits(self.ints.zext(64, value.w, value), True)
                    text.pointer(f"%{name}").store(full, align=align)
                operands.append(text.pointer(f"%{name}"))
            m = self.vectors.compressed(mask).zext("i64")
            self.helpers.or_leave(self._call_atomic(space, kind, bits, operands, m))
            found = Value(64, True, text.pointer("%ao").load(wide, align=align))
            return text.bits(self.ints.trunc(bits, 64, found), True)

        if space == "gds":
            return Value(bits, True, helped())
        return self.atomics.shared(address, text.bits(mask, True), helped)

    def _call_atomic(self, space: str, kind: str, bits: int, operands: list[Operand], mask: Operand | int) -> Operand:
        self.uses_atomics = True
        numbers = layout.SPACES.index(space), layout.ATOMICS.index(kind), bits // 8
        arguments = self.vectors.state, *numbers, *operands, self.text.pointer("%ao"), mask, 0
        return self.text.invoke("i64", self.helpers.address("atomic"), *arguments)

    # ---- scalars -----------------------------------------------------------------------------------------------
    def scalar_load(self, dwords: int, address: Value, where: Value | None = None) -> list[Value]:
        """Emit a load of dwords for the wave, with a side exit for addresses that are not in plain memory."""
        if where is None:
            return self._scalar_load(dwords, address)
        text, before = self.text, self.text.label
        some, on = text.fresh("some"), text.fresh("on")
        text.branch(text.bits(where), some, on, LIKELY)
        text.start(some)
        values = [text.bits(value) for value in self._scalar_load(dwords, address)]
        loaded = text.label
        text.jump(on)
        text.start(on)
        phis = [text.phi("i32", (value, loaded), (0, before)) for value in values]
        return [Value(32, False, phi) for phi in phis]

    def _scalar_load(self, dwords: int, address: Value) -> list[Value]:
        text, o = self.text, self.ints
        aligned = text.bits(o.and_(64, address, o.const(64, ~3)))
        if self.hooks is not None:
            self.hooks.scalar_access(dwords, aligned)
        cache = self.caches.take("scalar")
        known, walk, on = self.text.label, text.fresh("walk"), text.fresh("on")
        fits, there = self._scalar_place(cache, aligned, dwords)
        text.branch(fits, on, walk, LIKELY)
        text.start(walk)
        self.caches.refill(aligned, cache)
        fits, found = self._scalar_place(cache, aligned, dwords)
        text.branch(fits, on, self.control.step_exit(), LIKELY)
        text.start(on)
        place = text.phi("i64", (there, known), (found, walk))
        pointer = place.inttoptr()
        values = []
        for k in range(dwords):
            at = pointer.element("i32", k)
            values.append(Value(32, False, at.load("i32", align=1)))
        return values

    def _scalar_place(self, cache: Operand, address: Operand, dwords: int) -> tuple[Operand, Operand]:
        """Emit the condition that dwords are in an inline cache's memory range, and their host address."""
        start, size, addend = self.caches.load(cache)
        fits = fits_within(self.text, address - start, size, 4 * dwords)
        return fits, (address + addend)

    def scalar_store(self, address: Value, values: Sequence[Value], where: Value | None = None) -> None:
        """Emit a store of dwords for the wave, with a side exit for addresses that are not in plain memory."""
        text = self.text
        on = text.fresh("on")
        if where is not None:
            some = text.fresh("some")
            text.branch(text.bits(where), some, on, LIKELY)
            text.start(some)
        aligned = text.bits(self.ints.and_(64, address, self.ints.const(64, ~3)))
        arguments = self.vectors.state, layout.SPACES.index("global"), aligned, 4 * len(values), 1
        host, there = text.invoke("i64", self.helpers.address("reach"), *arguments), text.fresh("there")
        text.branch(host.ne(NOWHERE), there, self.control.step_exit(), LIKELY)
        text.start(there)
        pointer = host.inttoptr()
        for k, value in enumerate(values):
            at = pointer.element("i32", k)
            at.store(text.bits(value), align=1)
        text.jump(on)
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
        """Emit one atomic of the wave as a whole, by the helper for atomics of lanes; return the old value.

        In later passes over the lanes, emit nothing, and return the same old value."""
        self._accesses += 1
        if self._phase and self._accesses != self._phase:
            return self._single if self._accesses < self._phase else self.ints.const(bits, 0)
        text, o, operands = self.text, self.ints, []
        for name, value in (("aa", address), ("ad", v), ("ac", compare)):
            if value is not None:
                text.pointer(f"%{name}").store(text.bits(o.zext(64, value.w, value)))
            operands.append(text.pointer(f"%{name}"))
        mask = text.bits(o.const(64, 1) if where is None else o.zext(64, 1, where))
        text.pointer("%ao").store(0)
        status, on = self._call_atomic(space, kind, bits, operands, mask), text.fresh("on")
        text.branch(status.eq(0), on, self.control.step_exit(), LIKELY)
        text.start(on)
        self._single = o.trunc(bits, 64, Value(64, False, text.pointer("%ao").load("i64")))
        return self._single

    def aperture(self, which: str) -> Value:
        """Emit the base ("shared" or "private") or the limit ("shared_limit", "private_limit") of a flat aperture."""
        o = self.ints
        name, _, end = which.partition("_")
        base = Value(64, False, word(self.text, state.SHARED_BASE if name == "shared" else state.PRIVATE_BASE))
        return o.or_(64, base, o.const(64, 0xFFFF_FFFF)) if end else base

    def order(self, what: str, n: int = 0) -> None:
        """Emit the report of a wait for stores, if a check observes it.

        Other waits and cache operations need no code, as memory is coherent here.
        """
        nodes = self.control.block.nodes
        if self.hooks is not None and what == "waitcnt" and not nodes[self.control.index].insn.target.vmcnt(n):
            self.hooks.waited()
