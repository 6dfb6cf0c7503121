"""The check of races in translated code, where one look at cells is enough.

So it is for lines, for loads of one dword by all lanes, and for what functions beside the code do (`emit_race_lanes`).

A hint knows the cells of the page that an access met last, and the number of its site; there is one only while barriers
are all that the wave knows of other waves, and its launch is the only one. What most accesses need is written in line;
what is not known then, or might race, is for `races.native_look`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from understudy.engine.gcn.jit import emit_race_lanes
from understudy.engine.gcn.jit.emit_helpers import LIKELY
from understudy.engine.gcn.jit.emit_race_order import KNOWN, Order
from understudy.engine.gcn.jit.emit_race_shapes import Access, Batch
from understudy.engine.gcn.races.codes import (
    ALSO_LOADED,
    GROUP_AT,
    HINT_AT,
    LANE_AT,
    LINE_LANES,
    LINES,
    LOADED,
    PAGE_BITS,
    ROW_AT,
    ROWS,
    SLOT_AT,
    STORED,
    UPDATED,
)
from understudy.engine.gcn.races.native_cells import block_at
from understudy.engine.gcn.races.native_quick import highest, quick_dword
from understudy.ir.builder import LaneText
from understudy.ir.native_llvm import embedded

FOUR: Final = f"<{ROWS} x i64>"
BITS: Final = f"i{ROWS}"


@dataclass(frozen=True, slots=True)
class Place:
    """What an access is told by: host addresses of its hint and slot, its key, and the first lane of the chunk.

    And the address that this lane accesses.
    """

    hint: str
    slot: str
    key: str
    first: str
    address: str
    is_local: bool


class Cells:
    """Looks in line during one strip. `row`: the host address of the wave's `codes.WaveRow`."""

    def __init__(self, text: LaneText, row: str, *, stores_locally: bool) -> None:
        self.text = text
        self.row = row
        group, passed = self._word(row, ROW_AT["group"]), self._word(row, ROW_AT["passed"])
        if stores_locally:
            more = text.let(f"add i64 {passed}, 1")
            text.put(f"store i64 {more}, ptr {self._at(group, GROUP_AT['local_stores'])}")
        is_quiet = text.let(f"icmp ule i64 {self._word(group, GROUP_AT['local_stores'])}, {passed}")
        self.quiet = text.let(f"zext i1 {is_quiet} to i64")
        """See `native_order.is_quiet`."""
        self.known = {name: self._word(row, ROW_AT[name]) for name in KNOWN}
        self.order = Order(text, ROWS, self.known)

    def load_line(self, place: Place, line: str, other: str, done: str) -> None:
        """A chunk loads a line, dword by dword: to `done`, or to `other` where that is to be looked at closer."""
        text, row = self.text, self._row_of(place, line, other)
        o, words = self.order, text.let(f"load {FOUR}, ptr {row}, align 8")
        past = o.bits(o.past(words, is_local=place.is_local))
        stored = text.let(f"and {BITS} {past}, {1 << STORED | 1 << UPDATED}")
        fine = text.let(f"icmp eq {BITS} {stored}, {1 << STORED | 1 << UPDATED}")
        self._or(text.let(f"and i1 {fine}, {o.none(o.addresses(words))}"), other)
        is_over = text.let(f"icmp ne {BITS} {text.let(f'and {BITS} {past}, {1 << LOADED}')}, 0")
        number = text.let(f"select i1 {is_over}, i64 {LOADED}, i64 {ALSO_LOADED}")
        at = text.let(f"getelementptr i64, ptr {row}, i64 {number}")
        code = self._code(place)
        text.declarations.update(embedded(highest))
        given = f"i64 {code}, i64 {text.let(f'load i64, ptr {at}')}, i64 {self.known['bound']}"
        text.put(f"store i64 {text.let(f'call i64 @{highest.name}({given})')}, ptr {at}")
        text.put(f"br label %{done}")

    def store_line(self, place: Place, line: str, bit: int, other: str, done: str) -> None:
        """A chunk stores a line, dword by dword; elsewhere than in LDS the access goes on in its slot, of `bit`."""
        text, row = self.text, self._row_of(place, line, other)
        code = self._store_code(place, bit, other)
        words = text.let(f"load {FOUR}, ptr {row}, align 8")
        past, pointers = self.order.bits(self.order.past(words, is_local=place.is_local)), self.order.addresses(words)
        self._or(text.let(f"icmp eq {BITS} {past}, {(1 << ROWS) - 1}"), other)
        parts, whole = text.fresh("parts"), text.fresh("whole")
        text.branch(self.order.none(pointers), whole, parts, LIKELY)
        with text.apart(parts):
            self._store_parts(place, row, words, pointers, code, other, done)
        text.start(whole)
        text.put(f"store {FOUR} {self._stored(code)}, ptr {row}, align 8")
        text.put(f"store i64 {code}, ptr {self._block_at(place)}")
        text.put(f"br label %{done}")

    def _store_code(self, place: Place, bit: int, other: str) -> str:
        """The code of a store; to `other` where that has to be begun, or has raced."""
        text = self.text
        self._or(text.let(f"icmp eq i64 {self._word(self.row, ROW_AT['clash_count'])}, 0"), other)
        if place.is_local:
            return self._code(place)
        is_open = text.let(f"and i64 {self._word(self.row, ROW_AT['open'])}, {bit}")
        self._or(text.let(f"icmp ne i64 {is_open}, 0"), other)
        return text.let(f"add i64 {self._word(place.slot, SLOT_AT['code'])}, {self._lane(place)}")

    def _store_parts(self, place: Place, row: str, words: str, pointers: str, code: str, other: str, done: str) -> None:
        """The same where accesses were told of dword by dword: of these none must be that is not over."""
        text, rows, o = self.text, {}, Order(self.text, LINE_LANES, self.known)
        is_updated = text.let(f"extractelement {self.order.flags} {pointers}, i64 {UPDATED}")
        self._or(text.let(f"icmp eq i1 {is_updated}, 0"), other)
        lanes = ", ".join(f"i64 {lane << LANE_AT}" for lane in range(LINE_LANES))
        codes = text.let(f"add {o.kind} {o.splat(code)}, <{lanes}>")
        for number in (STORED, LOADED, ALSO_LOADED):
            there, on = text.fresh("there"), text.fresh("on")
            word = text.let(f"extractelement {FOUR} {words}, i64 {number}")
            is_there = text.let(f"extractelement {self.order.flags} {pointers}, i64 {number}")
            rows[number] = is_there, text.let(f"inttoptr i64 {word} to ptr")
            text.branch(is_there, there, on)
            text.start(there)
            before = text.let(f"load {o.kind}, ptr {rows[number][1]}, align 8")
            fine = o.without(o.past(before, is_local=place.is_local), o.addresses(before))
            text.branch(text.let(f"icmp eq i{LINE_LANES} {o.bits(fine)}, -1"), on, other, LIKELY)
            text.start(on)
        for number, (is_there, pointer) in rows.items():
            there, on = text.fresh("there"), text.fresh("on")
            text.branch(is_there, there, on)
            text.start(there)
            text.put(f"store {o.kind} {codes if number == STORED else 'zeroinitializer'}, ptr {pointer}, align 8")
            text.put(f"br label %{on}")
            text.start(on)
        kept = text.let(f"select {self.order.flags} {pointers}, {FOUR} {words}, {FOUR} {self._stored(code)}")
        text.put(f"store {FOUR} {kept}, ptr {row}, align 8")
        text.put(f"store i64 {code}, ptr {self._block_at(place)}")
        text.put(f"br label %{done}")

    def _stored(self, code: str) -> str:
        """The cells of a line that was stored."""
        return self.text.let(f"insertelement {FOUR} zeroinitializer, i64 {code}, i64 {STORED}")

    def _block_at(self, place: Place) -> str:
        """See `native_cells.block_at`."""
        text = self.text
        text.declarations.update(embedded(block_at))
        given = f"i64 {self._word(place.hint, HINT_AT['cells'])}, i64 {place.address}"
        return self._at(text.let(f"call i64 @{block_at.name}({given})"), 0)

    def load_dwords(self, place: Place, count: int, other: str, done: str) -> None:
        """All lanes of a chunk load the same dwords, of one line or of several."""
        text, address, size = self.text, place.address, 4 * count
        self._find(place, other)
        if count > 1 and not place.is_local:
            offset = text.let(f"and i64 {address}, {(1 << PAGE_BITS) - 1}")
            self._or(text.let(f"icmp ule i64 {offset}, {(1 << PAGE_BITS) - size}"), other)
        cells = self._word(place.hint, HINT_AT["cells"])
        code = text.let(f"add i64 {self._code(place)}, {LINE_LANES - 1 << LANE_AT}")
        text.declarations.update(embedded(quick_dword))
        quiet = self.quiet if place.is_local else self._is_quiet(place)
        floor = self.known["group_floor" if place.is_local else "global_floor"]
        knows = ", ".join(f"i64 {self.known[name]}" for name in ("stamp", "bound", "group_floor", "group_span"))
        for number in range(count):
            at = text.let(f"add i64 {address}, {4 * number}") if number else address
            status = text.let(
                f"call i64 @{quick_dword.name}(i64 {quiet}, i64 {cells}, i64 {at}, i64 {code}, i64 {floor}, {knows})"
            )
            self._or(text.let(f"icmp eq i64 {status}, 0"), other)
        text.put(f"br label %{done}")

    def lanes(self, place: Place, access: Access, bit: int, other: str, done: str) -> None:
        """Lanes load dwords or bytes from anywhere, or store them side by side in a page."""
        text = self.text
        key = self._word(place.hint, HINT_AT["key"])
        self._or(text.let(f"icmp eq i64 {key}, {place.key}"), other)
        code = self._code(place) if access.kind == "load" else self._store_code(place, bit, other)
        function = access.kind, access.bits
        text.declarations.update(emit_race_lanes.definition(*function, is_local=place.is_local))
        addresses, limit = text.bits(access.address, True), "-1"
        if access.address.w == 32:
            addresses = text.let(f"zext {text.itype(32, True)} {addresses} to {text.itype(64, True)}")
        if place.is_local:
            limit = text.call("i64", "llvm.usub.sat.i64", "i64 %ldssize", f"i64 {access.bits // 8 - 1}")
        words = {
            "mask": access.lanes, "limit": limit, "code": code,
            "cells": self._word(place.hint, HINT_AT["cells"]), "page": self._word(place.hint, HINT_AT["page"]),
            "quiet": self.quiet if place.is_local else "0", "row": self.row, **self.known,
        }  # fmt: skip
        called = emit_race_lanes.call(*function, is_local=place.is_local, addresses=addresses, words=words)
        text.branch(text.let(f"icmp eq i64 {text.let(called)}, 0"), done, other, LIKELY)

    def many(self, batch: Batch, first: str) -> str:
        """Look at several loads by the lanes from `first` on; whether that was enough for all of them."""
        text, example = self.text, batch.accesses[0]
        is_local, done, found = example.space == "lds", text.fresh("many"), list[str]()
        for kind, ready in (("side", batch.side), ("same", batch.same)):
            if not ready:
                continue
            there, other = text.fresh(kind), text.fresh("other")
            text.branch(ready, there, other)
            text.start(there)
            text.declarations.update(emit_race_lanes.definition(kind, 32, is_local=is_local))
            last = LINE_LANES - 1 if kind == "same" else 0  # its code would be what cells hold in the end
            lane = text.let(f"shl i64 {text.let(f'add i64 {first}, {last}')}, {LANE_AT}")
            words = {
                "mask": str((1 << len(batch.accesses)) - 1), "quiet": self.quiet if is_local else "0",
                "code": text.let(f"add i64 {self.known['stamp']}, {lane}"), **self.known,
            }  # fmt: skip
            vectors = [
                self._behind(batch.first, batch.offsets),
                self._behind(example.hint, [each.hint_at - example.hint_at for each in batch.accesses]),
                self._behind(example.key, [each.insn - example.insn for each in batch.accesses]),
            ]
            status = text.let(emit_race_lanes.call_many(kind, is_local=is_local, vectors=vectors, words=words))
            found.append(f"[ {text.let(f'icmp eq i64 {status}, 0')}, %{there} ]")
            text.put(f"br label %{done}")
            text.start(other)
        found.append(f"[ false, %{text.label} ]")
        text.put(f"br label %{done}")
        text.start(done)
        return text.let(f"phi i1 {', '.join(found)}")

    def _behind(self, word: str, offsets: Sequence[int]) -> str:
        """A word and constants: as many as there are lanes, the last one again and again."""
        kind = f"<{LINE_LANES} x i64>"
        numbers = [*offsets, *[offsets[-1]] * (LINE_LANES - len(offsets))]
        text = self.text
        one = text.let(f"insertelement {kind} poison, i64 {word}, i64 0")
        every = text.let(f"shufflevector {kind} {one}, {kind} poison, <{LINE_LANES} x i32> zeroinitializer")
        return text.let(f"add {kind} {every}, <{', '.join(f'i64 {number}' for number in numbers)}>")

    def _is_quiet(self, place: Place) -> str:
        """Whether all stores to the block of memory were made before all that is done now."""
        last = self.text.let(f"load i64, ptr {self._block_at(place)}")
        before = self.text.let(f"icmp ult i64 {last}, {self.known['global_floor']}")
        return self.text.let(f"zext i1 {before} to i64")

    # ---- cells ---------------------------------------------------------------------------------------------------
    def _find(self, place: Place, other: str) -> None:
        """Go to `other` unless the hint is about this access and page; LDS has one."""
        text = self.text
        key = self._word(place.hint, HINT_AT["key"])
        self._or(text.let(f"icmp eq i64 {key}, {place.key}"), other)
        if not place.is_local:
            page = self._word(place.hint, HINT_AT["page"])
            self._or(text.let(f"icmp eq i64 {page}, {text.let(f'lshr i64 {place.address}, {PAGE_BITS}')}"), other)

    def _row_of(self, place: Place, line: str, other: str) -> str:
        """The cells of a line."""
        text = self.text
        self._find(place, other)
        base = text.let(f"inttoptr i64 {self._word(place.hint, HINT_AT['cells'])} to ptr")
        if not place.is_local:
            line = text.let(f"and i64 {line}, {LINES}")
        return text.let(f"getelementptr [{ROWS} x i64], ptr {base}, i64 {line}")

    def _code(self, place: Place) -> str:
        """The code of an access by the lanes of the chunk, in the present tick."""
        text = self.text
        stamped = text.let(f"add i64 {self.known['stamp']}, {self._word(place.hint, HINT_AT['site'])}")
        return text.let(f"add i64 {stamped}, {self._lane(place)}")

    def _lane(self, place: Place) -> str:
        return self.text.let(f"shl i64 {place.first}, {LANE_AT}")

    # ---- text ----------------------------------------------------------------------------------------------------
    def _or(self, condition: str, other: str) -> None:
        """Go on where a condition holds."""
        on = self.text.fresh("on")
        self.text.branch(condition, on, other, LIKELY)
        self.text.start(on)

    def _word(self, base: str, number: int) -> str:
        return self.text.let(f"load i64, ptr {self._at(base, number)}")

    def _at(self, base: str, number: int) -> str:
        pointer = self.text.let(f"inttoptr i64 {base} to ptr")
        return self.text.let(f"getelementptr i64, ptr {pointer}, i64 {number}")
