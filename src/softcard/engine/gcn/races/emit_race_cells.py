"""The emitter of the race detector's fast path in translated code.

The emitted code calls functions of `races.native_lanes`. Two checks are inlined: that of a whole line of
memory, and that of one dword that all lanes load. Checks of lanes with arbitrary addresses are functions of
the translated module. Each access has an inline shadow cache (`cache`). It holds the number of the access's
site (the pair of its instruction and kind of access), and the address of the shadow cells of the page that
it accessed last. The cache is valid only while no other launch runs, and while only barriers order the wave
with other waves. If the fast path cannot decide, `races.native_check` makes the full check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from softcard.engine.gcn.jit.emit.emit_helpers import LIKELY
from softcard.engine.gcn.races import native_lanes
from softcard.engine.gcn.races.emit_race_shapes import Access, Batch
from softcard.engine.gcn.races.layout import CACHE_AT, GROUP_AT, LANE_AT, LINE_LANES, PAGE_BITS, ROW_AT, ROWS
from softcard.engine.gcn.races.native_lanes import ORDER
from softcard.ir.builder import LaneText
from softcard.ir.native import Function
from softcard.ir.native_llvm import call
from softcard.ir.operand import Operand

KNOWN: Final = (*ORDER, "global_watermark")
"""The words of a `layout.WaveRow` that stay constant during a strip-mined loop.

The word `epoch_bits` changes if the loop stores to global memory.
"""
APART: Final = "noinline #0"
"""The LLVM attributes of emitted functions that are not inlined.

Their vectors are as wide as those of the inlined code.
"""


@dataclass(frozen=True, slots=True)
class Place:
    """The values that identify an access by a lane vector.

    A lane vector is the group of adjacent lanes that one iteration of the strip-mined loop handles. The values
    are the host address of the access's inline shadow cache, and that of its slot, which holds the state of the
    check (`layout.Slot`). Further values are the access's key (its instruction's pc and its number in the
    instruction), the vector's first lane, and the address that the first lane accesses."""

    cache: Operand
    slot: Operand
    key: Operand
    first: Operand
    address: Operand
    is_local: bool


class Cells:
    """The emitter of fast-path checks in one strip-mined loop. `row` is the wave's `WaveRow`."""

    def __init__(self, text: LaneText, row: Operand, *, stores_locally: bool) -> None:
        self.text = text
        self.row = row
        group, passed = self._word(row, ROW_AT["group"]), self._word(row, ROW_AT["passed"])
        if stores_locally:
            more = passed + 1
            self._at(group, GROUP_AT["local_stores"]).store(more)
        is_quiet = self._word(group, GROUP_AT["local_stores"]) <= passed
        self.quiet = is_quiet.zext("i64")
        """Nonzero if all stores to LDS happened before the present accesses: see `native_order.is_quiet`."""
        self.known = {name: self._word(row, ROW_AT[name]) for name in KNOWN}
        self.cells = {name: self._spread(word, ROWS) for name, word in self.known.items()}
        """The words in `known`, each repeated as a vector for all cells of a line."""

    def load_line(self, place: Place, line: str, other: str, done: str) -> None:
        """Emit the check of a load by a lane vector, in which each lane loads one dword of a line.

        `place` identifies the access, and `line` is the number of the line. The emitted code continues at the label
        `done`, or at `other` for the full check."""
        given = place.cache, place.key, place.address, line, place.first, *self._clock(self.cells, place)
        self._unless(native_lanes.load_line, given, other, is_local=place.is_local)
        self.text.jump(done)

    def store_line(self, place: Place, line: str, bit: int, other: str, done: str) -> None:
        """Emit the check of a store by a lane vector, in which each lane stores one dword of a line.

        `place` identifies the access, and `line` is the number of the line. `bit` is the bit of the access's slot
        in the mask of open slots, which is used outside of LDS. The emitted code continues at the label `done`, or
        at `other` for the full check."""
        own = self.row, place.cache, place.slot, place.key, place.address, line, place.first, str(bit)
        self._unless(native_lanes.store_line, (*own, *self._clock(self.cells, place)), other, is_local=place.is_local)
        self.text.jump(done)

    def load_dwords(self, place: Place, count: int, other: str, done: str) -> None:
        """Emit the check of a load of the same dwords by all lanes of a lane vector.

        The dwords may be in one line or in several.
        """
        text, address, size = self.text, place.address, 4 * count
        self._if(native_lanes.has_page, (place.cache, place.key, address), other, is_local=place.is_local)
        if count > 1 and not place.is_local:
            offset = address & (1 << PAGE_BITS) - 1
            self._or(offset <= (1 << PAGE_BITS) - size, other)
        quiet = self.quiet
        if not place.is_local:
            quiet = call(text, native_lanes.is_block_quiet, place.cache, address, self.known["global_watermark"])
        for number in range(count):
            at = (address + 4 * number) if number else address
            given = quiet, place.cache, at, place.first, *self._clock(self.known, place)
            self._unless(native_lanes.load_dword, given, other)
        text.jump(done)

    def lanes(self, place: Place, access: Access, bit: int, other: str, done: str) -> None:
        """Emit the check of loads and of stores to LDS at any address, or of stores to contiguous addresses elsewhere.

        Each lane accesses a byte or whole dwords. Dwords after the first are checked by further calls. Stores outside
        of LDS must be in one page."""
        text = self.text
        key = self._word(place.cache, CACHE_AT["key"])
        self._or(key.eq(place.key), other)
        addresses, limit, size = text.bits(access.address, True), text.word(-1), min(access.bits // 8, 4)
        if access.address.w == 32:
            addresses = addresses.zext(text.itype(64, True))
        if place.is_local:
            limit = text.call("i64", "llvm.usub.sat.i64", "i64 %ldssize", f"i64 {access.bits // 8 - 1}")
        cells, page = (self._word(place.cache, CACHE_AT[each]) for each in ("cells", "page"))
        constants = {"is_local": int(place.is_local), "size": size}
        clock = self._clock(self.known, place)
        if access.kind == "load":
            more = [self._record(place), self.quiet if place.is_local else text.word(0), self.row]
        else:
            store = self.row, place.cache, place.slot, place.first, str(bit)
            record = call(text, native_lanes.store_record, *store, is_local=place.is_local)
            self._or(record.ne(0), other)
            more = [record]
        function: Function[Any] = native_lanes.load_lanes if access.kind == "load" else native_lanes.store_lanes
        if access.bits in (64, 128):
            room = text.slot("%raceaddresses", addresses.type, f", align {8 * text.lanes}")
            room.store(addresses, align=8 * text.lanes)
            own = (room.ptrtoint(), access.lanes, limit, cells)
            several: Function[Any] = native_lanes.store_dwords
            given, further = (*own, *more, *clock), {"count": access.bits // 32}
            if access.kind == "load":
                several, further = native_lanes.load_dwords, further | {"is_local": int(place.is_local)}
                given = (*own, page, *more[:2], *clock)
            status = call(text, several, *given, attributes=APART, **further)
            rest = text.fresh("rest")
            text.branch(status.eq(0), done, rest, LIKELY)
            text.start(rest)
        for offset in range(0, access.bits // 8, size):
            at = self._further(addresses, offset) if offset else addresses
            top = text.call("i64", "llvm.uadd.sat.i64", f"i64 {limit}", f"i64 {offset}") if offset else limit
            self._unless(function, (at, access.lanes, top, cells, page, *more, *clock), other, **constants)
        text.jump(done)

    def _further(self, addresses: Operand, offset: int) -> Operand:
        """Return the addresses of all lanes plus a constant offset."""
        return addresses + self.text.operand(addresses.type, f"splat (i64 {offset})")

    def many(self, batch: Batch, first: Operand) -> Operand:
        """Emit the check of several loads by the lane vector that begins with lane `first`.

        Return a flag that is true if no load needs the full check."""
        text, example = self.text, batch.accesses[0]
        is_local, done, found = example.space == "lds", text.fresh("many"), list[tuple[Operand, str]]()
        for kind, ready, size in (("side", batch.side, 0), ("same", batch.same, 4)):
            if ready is None:
                continue
            there, other = text.fresh(kind), text.fresh("other")
            text.branch(ready, there, other)
            text.start(there)
            last = LINE_LANES - 1 if kind == "same" else 0  # cells hold the access record of the last lane in the end
            lane = first + last << LANE_AT
            vectors = (
                self._behind(batch.first, batch.offsets),
                self._behind(example.cache, [each.cache_at - example.cache_at for each in batch.accesses]),
                self._behind(example.key, [each.insn - example.insn for each in batch.accesses]),
            )
            record = self.known["epoch_bits"] + lane
            words = str((1 << len(batch.accesses)) - 1), record, self.quiet if is_local else text.word(0)
            clock = *(self.known[name] for name in ORDER), self.known["group_start" if is_local else "global_watermark"]
            constants = {"is_local": int(is_local), "size": size}
            status = call(text, native_lanes.load_many, *vectors, *words, *clock, attributes=APART, **constants)
            found.append((status.eq(0), there))
            text.jump(done)
            text.start(other)
        found.append((text.constant("i1", 0), text.label))
        text.jump(done)
        text.start(done)
        return text.phi("i1", *found)

    def _behind(self, word: Operand, offsets: Sequence[int]) -> Operand:
        """Return a vector of sums, `word` plus each of the constants `offsets`; remaining lanes get the last sum."""
        numbers = [*offsets, *[offsets[-1]] * (LINE_LANES - len(offsets))]
        every = self._spread(word, LINE_LANES)
        return every + self.text.operand(every.type, f"<{', '.join(f'i64 {each}' for each in numbers)}>")

    def _spread(self, word: Operand, count: int) -> Operand:
        """Return a vector with `word` in each of `count` lanes."""
        kind = f"<{count} x i64>"
        one = self.text.operand(kind, "poison").with_lane(0, word)
        return self.text.shuffle(one, f"<{count} x i32> zeroinitializer")

    def _clock(self, known: dict[str, Operand], place: Place) -> Sequence[Operand]:
        """Return the words of the wave's clock that functions in `native_lanes` take, in the order of parameters."""
        return [*(known[name] for name in ORDER), known["group_start" if place.is_local else "global_watermark"]]

    def _record(self, place: Place) -> Operand:
        """Return the access record of the lane vector's first lane in the current epoch."""
        stamped = self.known["epoch_bits"] + self._word(place.cache, CACHE_AT["site"])
        return stamped + (place.first << LANE_AT)

    # ---- text ----------------------------------------------------------------------------------------------------
    def _unless(self, function: Function[Any], arguments: Sequence[str], other: str, **constants: int) -> None:
        """Emit a call; continue if the function returns 0, else branch to the label `other`."""
        status = call(self.text, function, *arguments, attributes=APART, **constants)
        self._or(status.eq(0), other)

    def _if(self, function: Function[Any], arguments: Sequence[str], other: str, **constants: int) -> None:
        """Emit a call; continue if the function returns nonzero, else branch to the label `other`."""
        status = call(self.text, function, *arguments, attributes=APART, **constants)
        self._or(status.ne(0), other)

    def _or(self, condition: str, other: str) -> None:
        """Emit a branch: continue if `condition` holds, else go to the label `other`."""
        on = self.text.fresh("on")
        self.text.branch(condition, on, other, LIKELY)
        self.text.start(on)

    def _word(self, base: Operand, number: int) -> Operand:
        return self._at(base, number).load("i64")

    def _at(self, base: Operand, number: int) -> Operand:
        pointer = base.inttoptr()
        return pointer.element("i64", number)
