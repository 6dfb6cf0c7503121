"""Atomics emitted in line, which update memory lane by lane, from the lowest lane.

If all lanes have the same address, the lanes update a local variable, which is stored afterwards: by a plain
store to LDS, which only one thread accesses, or by one compare-exchange to other memory, which is shared.
Compiled helpers implement all other cases."""

from __future__ import annotations

from collections.abc import Callable

from softcard.engine.gcn.jit.emit.emit_contiguous import Addresses
from softcard.engine.gcn.jit.emit.emit_control import word
from softcard.engine.gcn.jit.emit.emit_helpers import LIKELY, InlineCaches, fits_within
from softcard.engine.gcn.jit.layout import ATOMICS
from softcard.engine.gcn.jit.native_atomics import CHANGES
from softcard.ir.builder import LaneText, Value
from softcard.ir.native_llvm import embedded
from softcard.ir.operand import Operand
from softcard.isa.gcn import state


class Atomics:
    """The emitter of atomics for a lane vector: the lanes that one iteration of a strip-mined loop handles.

    `begin` sets the operation, and its two operands: vectors of elements with `bits` bits.
    """

    def __init__(self, text: LaneText, addresses: Addresses, caches: InlineCaches) -> None:
        self.text = text
        self.lds = caches.helpers.vectors.lds
        self.addresses = addresses
        self.caches = caches

    def begin(self, kind: str, bits: int, data: tuple[Operand, Operand]) -> None:
        """Set the operation, its width in bits, and its two operands."""
        function = CHANGES[ATOMICS.index(kind)]
        self.text.declarations |= embedded(function)
        self._name, self._bits, self._data = function.name, bits, data

    def local(self, address: Value, mask: Operand, checked: bool) -> Value:
        """Emit an atomic on LDS, and return the old values, which are 0 past the end of LDS.

        If `checked`, lanes past the end cause a side exit.
        """
        text, size = self.text, self._bits // 8
        first = self.addresses.first(address)
        offset = first.zext("i64")
        fits = fits_within(text, offset, "%ldssize", size)
        is_one = self._is_one(address, first, mask) & fits

        def at_one() -> Operand:
            pointer = self.lds.offset(offset)
            now, found = self._lane_by_lane(pointer.load(f"i{self._bits}", align=1), mask)
            pointer.store(now, align=1)
            return found

        return self._either(is_one, at_one, lambda: self._distinct_addresses(text.bits(address, True), mask, checked))

    def shared(self, address: Value, mask: Operand, otherwise: Callable[[], Operand]) -> Value:
        """Emit an atomic on shared memory; return the old values.

        The in-line code handles lanes that all have the same address, in the memory range of the inline cache.
        For all other cases, `otherwise` emits the call of a helper, and returns the old values."""
        text, kind, size = self.text, f"i{self._bits}", self._bits // 8
        first = self.addresses.first(address)
        cache = self.caches.take("atomic")
        start, limit, addend = self.caches.load(cache)
        fits = fits_within(text, first - start, limit, size)
        low = (first | addend) & size - 1
        fits = fits & low.eq(0)
        leads = mask.lane(0)
        is_one = self._is_one(address, first, mask) & leads

        def at_one() -> Operand:
            pointer = (first + addend).inttoptr()
            seen = pointer.load_atomic(kind, "monotonic", align=size)
            before, again, done = text.label, text.fresh("again"), text.fresh("changed")
            text.jump(again)
            text.start(again)
            old = text.operand(kind, f"%{text.fresh('old')}")
            mark = len(text.lines)
            now, found = self._lane_by_lane(old, mask)
            changed, is_done = pointer.compare_exchange(old, now, align=size)
            text.lines.insert(mark, f"  {old} = phi {kind} [ {seen}, %{before} ], [ {changed}, %{text.label} ]")
            text.branch(is_done, done, again)
            text.start(done)
            return found

        def elsewhere() -> Operand:
            self.caches.refill(first, cache, is_store=True)
            return otherwise()

        return self._either(is_one & fits, at_one, elsewhere)

    def _is_one(self, address: Value, first: Operand, mask: Operand) -> Operand:
        """Emit the condition that all lanes of a mask have the same address as the first lane."""
        lanes = self.text.lanes
        wrong = self.addresses.differing(address, first) & mask
        return wrong.bitcast(f"i{lanes}").eq(0)

    def _either(self, c: str, one: Callable[[], Operand], many: Callable[[], Operand]) -> Value:
        """Emit a branch on condition `c` to the code of `one` (if true) or `many`; return the old values.

        The result merges the old values of both paths.
        """
        text, arms, done = self.text, [], self.text.fresh("done")
        labels = text.fresh("one"), text.fresh("many")
        text.branch(c, *labels)
        for label, way in zip(labels, (one, many), strict=True):
            text.start(label)
            found = way()
            arms.append((found, text.label))
            text.jump(done)
        text.start(done)
        return Value(self._bits, True, text.phi(text.itype(self._bits, True), *arms))

    def _lane_by_lane(self, first: Operand, mask: Operand) -> tuple[Operand, Operand]:
        """Emit a loop over the lanes of a mask that updates a value in order, from the initial value `first`.

        Return the final value, and the old values that the lanes get.
        """
        text, kind, vector = self.text, f"i{self._bits}", self.text.itype(self._bits, True)
        rows = [self._row() for _ in range(3)]
        for row, data in zip(rows, self._data, strict=False):
            row.store(data, align=self._bits // 8 * text.lanes)
        bits = mask.bitcast(f"i{text.lanes}")
        before, loop, finished = text.label, text.fresh("lane"), text.fresh("finished")
        text.jump(loop)
        text.start(loop)
        lane, following = (text.word(f"%{text.fresh(stem)}") for stem in ("k", "n"))
        now, then = (text.operand(kind, f"%{text.fresh(stem)}") for stem in ("now", "then"))
        text.named(lane, text.phi("i64", (0, before), (following, loop)))
        text.named(now, text.phi(kind, (first, before), (then, loop)))
        places = [row.element(kind, lane) for row in rows]
        places[2].store(now, align=self._bits // 8)
        given = [place.load(kind, align=self._bits // 8) for place in places[:2]]
        left = bits >> lane.trunc(f"i{text.lanes}")
        on = left.trunc("i1")
        text.named(then, on.select(self._changed(now, *given), now))
        text.named(following, lane.binary("add nuw nsw", 1))
        text.branch(following < text.lanes, loop, finished)
        text.start(finished)
        return then, rows[2].load(vector, align=self._bits // 8 * text.lanes)

    def _row(self) -> Operand:
        """Allocate stack memory for one value of each lane of a lane vector; return its address."""
        kind, align = self.text.itype(self._bits, True), self._bits // 8 * self.text.lanes
        return self.text.slot(f"%{self.text.fresh('row')}", kind, f", align {align}")

    def _distinct_addresses(self, addresses: Operand, mask: Operand, checked: bool) -> Operand:
        """Emit an atomic on LDS for lanes with different addresses; return the old values.

        Lanes past the end of LDS use a spare buffer that holds 0; if `checked`, they cause a side exit.
        """
        text, lanes, bits = self.text, self.text.lanes, self._bits
        kind, wide, size = f"i{bits}", text.itype(64, True), bits // 8
        spare = self._row()
        spare.store(0, type=text.itype(bits, True), align=size * lanes)
        room = text.call("i64", "llvm.usub.sat.i64", "i64 %ldssize", f"i64 {size - 1}")
        far = addresses.zext(wide)
        inside = far < text.splat("i64", room)
        here = inside & mask
        self._beyond(here ^ mask, addresses, checked)
        own = text.splat("i64", self.lds.ptrtoint()) + far
        steps = ", ".join(f"i64 {size * lane}" for lane in range(lanes))
        outside = text.splat("i64", spare.ptrtoint())
        other = outside + text.operand(wide, f"<{steps}>")
        places = here.select(own, other)
        found = text.operand(text.itype(bits, True), "poison")
        for lane in range(lanes):
            place = places.lane(lane)
            pointer = place.inttoptr()
            old = pointer.load(kind, align=1)
            data = [each.lane(lane) for each in self._data]
            pointer.store(self._changed(old, *data), align=1)
            found = found.with_lane(lane, old)
        return found

    def _beyond(self, outside: Operand, addresses: Operand, checked: bool) -> None:
        """Emit the handling of the lanes `outside`, which access addresses past the end of LDS.

        If `checked`, the code takes a side exit to the reference engine, which reports these accesses. Otherwise it
        records one of them."""
        text, lanes = self.text, self.text.lanes
        wrong = outside.bitcast(f"i{lanes}")
        wide = wrong.zext("i64")
        if checked:
            self.caches.helpers.or_leave(wide)
            return
        noted, on = text.fresh("noted"), text.fresh("fine")
        text.branch(wide.eq(0), on, noted, LIKELY)
        with text.apart(noted):
            lane = text.call(f"i{lanes}", f"llvm.cttz.i{lanes}", f"i{lanes} {wrong}", "i1 true")
            number = lane.zext("i64")
            offset = addresses.lane(number)
            what = self._bits // 8 << state.NOTE_SIZE | 1 << state.NOTE_STORE
            note = offset.zext("i64") | what
            cell = word(text, state.LDS_NOTE).inttoptr()
            cell.store(note)
            text.jump(on)
        text.start(on)

    def _changed(self, old: Operand, *data: Operand) -> Operand:
        """Emit the computation of the value that memory holds after the atomic of one lane, from its old value `old`.

        `data` are the operands of that lane."""
        text, bits, words = self.text, self._bits, [old, *data]
        if bits < 64:
            words = [word.zext("i64") for word in words]
        new = text.invoke("i64", f"@{self._name}", *words, 64 - bits)
        return new.trunc(f"i{bits}") if bits < 64 else new
