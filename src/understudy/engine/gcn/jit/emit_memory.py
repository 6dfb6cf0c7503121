"""Memory in translated code: what lies side by side is read in line (`emit_contiguous`), all else by compiled helpers.

An access that cannot be made directly (nothing mapped, a region with effects, beyond plain memory) leaves the
segment before anything of this chunk was committed: the reference engine goes on from there, or finds the fault.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.emit_contiguous import LIKELY, NEAR, NearEmitter
from understudy.engine.gcn.jit.emit_float import Untranslated
from understudy.ir.builder import Value
from understudy.isa.gcn import state


class MemoryEmitter(NearEmitter):
    """Memory of the algebra."""

    stores_seen: int = 0
    """Stores of the instruction so far."""
    phase: int = 0
    """Which of its stores is meant: others do nothing. 0: the first, and the reference engine does more."""
    index: int = 0
    """Which instruction of its block is being translated."""

    # ---- lanes -------------------------------------------------------------------------------------------------
    def load(self, space: str, bits: int, address: Value, where: Value | None = None) -> list[Value]:
        """Read lanes."""
        mask = self._masked(where)
        if bits in NEAR and space != "gds":
            return self.near(space, bits, address, mask, where is not None)
        return self._helped("load", space, bits, address, mask, ())

    def store(self, space: str, bits: int, address: Value, values: Sequence[Value], where: Value | None = None) -> None:
        """Write lanes."""
        mask = self._masked(where)
        self.stores_seen += 1
        if self.phase:
            if self.stores_seen != self.phase:
                return
        elif self.stores_seen > 1:  # what is left over at the end of a buffer: rarely anything
            some = self.text.let(f"zext i{self.text.lanes} {self.compressed(mask)} to i64")
            self._or_leave(some)
            return
        if bits in NEAR and space != "gds":
            self.near(space, bits, address, mask, False, values)
            return
        self._helped("store", space, bits, address, mask, values)

    def _masked(self, where: Value | None) -> Value:
        return self.active() if where is None else self.and_(1, self.active(), where)

    def _helped(
        self, kind: str, space: str, bits: int, address: Value, mask: Value, values: Sequence[Value]
    ) -> list[Value]:
        text = self.text
        if bits > 128:
            raise Untranslated
        data = tuple(text.bits(value, True) for value in values)
        names = self._call(kind, space, bits, text.bits(address, True), text.bits(mask, True), data)
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
        if kind not in layout.ATOMICS:
            raise Untranslated
        text, lanes = self.text, self.text.lanes
        wide = text.itype(64, True)
        operands = []
        width = 64 if space in ("global", "flat") else 32
        for name, value, w in (("aa", address, width), ("ad", v, bits), ("ac", compare, bits)):
            if value is not None:
                full = text.bits(self.zext(64, w, value), True)
                text.put(f"store {wide} {full}, ptr %{name}, align {8 * lanes}")
            operands.append(f"ptr %{name}")
        m = text.let(f"zext i{lanes} {self.compressed(self._masked(where))} to i64")
        numbers = f"i64 {layout.SPACES.index(space)}, i64 {layout.ATOMICS.index(kind)}, i64 {bits // 8}"
        code = self._helper("atomic")
        call = f"call i64 {code}(ptr %st, {numbers}, {', '.join(operands)}, ptr %ao, i64 {m}, i64 %sh{self.segment})"
        self._or_leave(text.let(call))
        self.uses_atomics = True
        old = Value(64, True, text.let(f"load {wide}, ptr %ao, align {8 * lanes}"))
        return self.trunc(bits, 64, old)

    uses_atomics = False

    # ---- scalars -----------------------------------------------------------------------------------------------
    def scalar_load(self, dwords: int, address: Value) -> list[Value]:
        """Dwords for the wave; the reference engine does it where they do not lie in plain memory."""
        text = self.text
        aligned = text.bits(self.and_(64, address, self.const(64, ~3)))
        site = self._site("scalar")
        known, walk, on = self.text.label, text.fresh("walk"), text.fresh("on")
        fits, there = self._scalar_place(site, aligned, dwords)
        self._branch(fits, on, walk, LIKELY)
        text.start(walk)
        self._note("scalar", aligned, site)
        fits, found = self._scalar_place(site, aligned, dwords)
        self._branch(fits, on, self.step_exit(), LIKELY)
        text.start(on)
        place = text.let(f"phi i64 [ {there}, %{known} ], [ {found}, %{walk} ]")
        pointer = text.let(f"inttoptr i64 {place} to ptr")
        values = []
        for k in range(dwords):
            at = text.let(f"getelementptr i32, ptr {pointer}, i64 {k}")
            values.append(Value(32, False, text.let(f"load i32, ptr {at}, align 1")))
        return values

    def _scalar_place(self, site: str, address: str, dwords: int) -> tuple[str, str]:
        """Whether so many dwords lie in the memory that a site knows, and their host address."""
        start, size, addend = self._run(site)
        fits = self._fits(self.text.let(f"sub i64 {address}, {start}"), size, 4 * dwords)
        return fits, self.text.let(f"add i64 {address}, {addend}")

    def step_exit(self) -> str:
        """A label that hands this instruction over to the reference engine."""
        raise NotImplementedError

    def aperture(self, which: str) -> Value:
        """Bases and limits of the flat apertures, as engines know them (`isa.gcn.pointer`)."""
        name, _, end = which.partition("_")
        base = Value(64, False, self.word(state.SHARED_BASE if name == "shared" else state.PRIVATE_BASE))
        return self.or_(64, base, self.const(64, 0xFFFF_FFFF)) if end else base
