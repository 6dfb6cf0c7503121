"""The check of races in translated code, where one look at cells is enough: lines, and loads of one dword by all lanes.

A hint knows the cells of the page that an access met last, and the number of its site; there is one only while barriers
are all that the wave knows of other waves, and its launch is the only one. What most accesses need is written in line;
what is not known then, or might race, is for `races.native_look`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from understudy.engine.gcn.jit.emit_helpers import LIKELY
from understudy.engine.gcn.races.codes import (
    ALSO_LOADED,
    HINT_AT,
    LANE_AT,
    LEAST,
    LINE_LANES,
    LINES,
    LOADED,
    PAGE_BITS,
    ROW_AT,
    ROWS,
    SITE_AT,
    SLOT_AT,
    STORED,
    TICK_AT,
    TICKS,
    UID_AT,
    UPDATED,
)
from understudy.engine.gcn.races.native_quick import quick_dword
from understudy.ir.builder import LaneText
from understudy.ir.native_llvm import embedded

KNOWN: Final = ("stamp", "bound", "group_floor", "group_span", "global_floor")
"""Of a `codes.WaveRow`: what stays as it is while a strip runs, but for stamps where it stores to global memory."""
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

    def __init__(self, text: LaneText, row: str) -> None:
        self.text = text
        self.row = row
        self.known = {name: self._word(row, ROW_AT[name]) for name in KNOWN}
        self._splats = {name: self._splat_of(word, ROWS) for name, word in self.known.items()}

    def load_line(self, place: Place, line: str, other: str, done: str) -> None:
        """A chunk loads a line, dword by dword: to `done`, or to `other` where that is to be looked at closer."""
        text, row = self.text, self._row_of(place, line, other)
        found = self._past(text.let(f"load {FOUR}, ptr {row}, align 8"), ROWS, place.is_local)
        past, pointers = (self._bits(each) for each in found)
        stored = text.let(f"and {BITS} {past}, {1 << STORED | 1 << UPDATED}")
        fine = text.let(f"icmp eq {BITS} {stored}, {1 << STORED | 1 << UPDATED}")
        self._or(text.let(f"and i1 {fine}, {text.let(f'icmp eq {BITS} {pointers}, 0')}"), other)
        is_over = text.let(f"icmp ne {BITS} {text.let(f'and {BITS} {past}, {1 << LOADED}')}, 0")
        number = text.let(f"select i1 {is_over}, i64 {LOADED}, i64 {ALSO_LOADED}")
        at = text.let(f"getelementptr i64, ptr {row}, i64 {number}")
        code = self._code(place)
        # Of loads by one instruction the one of the highest lane stays: see `native_look.later`.
        held = text.let(f"load i64, ptr {at}")
        higher = text.let(f"sub i64 {held}, {code}")
        most = text.let(f"and i64 {text.let(f'xor i64 {code}, -1')}, {(1 << SITE_AT) - 1}")
        stays = text.let(f"icmp ule i64 {higher}, {most}")
        text.put(f"store i64 {text.let(f'select i1 {stays}, i64 {held}, i64 {code}')}, ptr {at}")
        text.put(f"br label %{done}")

    def store_line(self, place: Place, line: str, bit: int, other: str, done: str) -> None:
        """A chunk stores a line, dword by dword; elsewhere than in LDS the access goes on in its slot, of `bit`."""
        text, row = self.text, self._row_of(place, line, other)
        self._or(text.let(f"icmp eq i64 {self._word(self.row, ROW_AT['clash_count'])}, 0"), other)
        if place.is_local:
            code = self._code(place)
        else:
            is_open = text.let(f"and i64 {self._word(self.row, ROW_AT['open'])}, {bit}")
            self._or(text.let(f"icmp ne i64 {is_open}, 0"), other)
            code = text.let(f"add i64 {self._word(place.slot, SLOT_AT['code'])}, {self._lane(place)}")
        words = text.let(f"load {FOUR}, ptr {row}, align 8")
        past, pointers = self._past(words, ROWS, place.is_local)
        self._or(text.let(f"icmp eq {BITS} {self._bits(past)}, {(1 << ROWS) - 1}"), other)
        parts, whole = text.fresh("parts"), text.fresh("whole")
        text.branch(text.let(f"icmp eq {BITS} {self._bits(pointers)}, 0"), whole, parts, LIKELY)
        with text.apart(parts):
            self._store_parts(place, row, words, pointers, code, other, done)
        text.start(whole)
        text.put(f"store {FOUR} {self._stored(code)}, ptr {row}, align 8")
        text.put(f"br label %{done}")

    def _store_parts(self, place: Place, row: str, words: str, pointers: str, code: str, other: str, done: str) -> None:
        """The same where loads were told of dword by dword: of these none must be that is not over."""
        text, rows = self.text, {}
        stored = text.let(f"and {BITS} {self._bits(pointers)}, {1 << STORED | 1 << UPDATED}")
        self._or(text.let(f"icmp eq {BITS} {stored}, 0"), other)
        for number in (LOADED, ALSO_LOADED):
            there, on = text.fresh("there"), text.fresh("on")
            word = text.let(f"extractelement {FOUR} {words}, i64 {number}")
            is_there = text.let(f"extractelement <{ROWS} x i1> {pointers}, i64 {number}")
            rows[number] = is_there, text.let(f"inttoptr i64 {word} to ptr")
            text.branch(is_there, there, on)
            text.start(there)
            codes = text.let(f"load <{LINE_LANES} x i64>, ptr {rows[number][1]}, align 8")
            past, wrong = self._past(codes, LINE_LANES, place.is_local)
            wrong = text.let(f"or <{LINE_LANES} x i1> {wrong}, {self._not(past, LINE_LANES)}")
            text.branch(text.let(f"icmp eq i{LINE_LANES} {self._bits(wrong, LINE_LANES)}, 0"), on, other, LIKELY)
            text.start(on)
        for is_there, pointer in rows.values():
            there, on = text.fresh("there"), text.fresh("on")
            text.branch(is_there, there, on)
            text.start(there)
            text.put(f"store <{LINE_LANES} x i64> zeroinitializer, ptr {pointer}, align 8")
            text.put(f"br label %{on}")
            text.start(on)
        kept = text.let(f"select <{ROWS} x i1> {pointers}, {FOUR} {words}, {FOUR} {self._stored(code)}")
        text.put(f"store {FOUR} {kept}, ptr {row}, align 8")
        text.put(f"br label %{done}")

    def _stored(self, code: str) -> str:
        """The cells of a line that was stored."""
        return self.text.let(f"insertelement {FOUR} zeroinitializer, i64 {code}, i64 {STORED}")

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
        floor = self.known["group_floor" if place.is_local else "global_floor"]
        knows = ", ".join(f"i64 {self.known[name]}" for name in ("stamp", "bound", "group_floor", "group_span"))
        for number in range(count):
            at = text.let(f"add i64 {address}, {4 * number}") if number else address
            status = text.let(f"call i64 @{quick_dword.name}(i64 {cells}, i64 {at}, i64 {code}, i64 {floor}, {knows})")
            self._or(text.let(f"icmp eq i64 {status}, 0"), other)
        text.put(f"br label %{done}")

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

    def _past(self, words: str, count: int, is_local: bool) -> tuple[str, str]:
        """Of each of so many codes: whether it came before what the wave does; whether it is none, but an address.

        What is no code is below each floor, and counts as what came before. See `native_order.is_past`.
        """
        text, kind, bits = self.text, f"<{count} x i64>", f"<{count} x i1>"
        stamp, bound, group_floor, span, global_floor = (self._splat(name, count) for name in KNOWN)

        def compare(test: str, a: str, b: str) -> str:
            return text.let(f"icmp {test} {kind} {a}, {b}")

        over = compare("ult", words, group_floor if is_local else global_floor)
        own = compare("ult", text.let(f"xor {kind} {words}, {stamp}"), _every(count, 1 << UID_AT))
        in_group = compare("ult", text.let(f"sub {kind} {words}, {group_floor}"), span)
        ticks = text.let(f"lshr {kind} {words}, {_every(count, TICK_AT)}")
        ticks = text.let(f"and {kind} {ticks}, {_every(count, TICKS - 1)}")
        known = text.let(f"and {bits} {in_group}, {compare('ule', ticks, bound)}")
        past = text.let(f"or {bits} {text.let(f'or {bits} {over}, {own}')}, {known}")
        below = text.let(f"add {kind} {words}, {_every(count, -1)}")
        return past, compare("ult", below, _every(count, LEAST - 1))

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
        pointer = self.text.let(f"inttoptr i64 {base} to ptr")
        return self.text.let(f"load i64, ptr {self.text.let(f'getelementptr i64, ptr {pointer}, i64 {number}')}")

    def _splat(self, name: str, count: int) -> str:
        """So many times what the wave knows; made where the strip begins, if cells of lines need it."""
        if count == ROWS:
            return self._splats[name]
        return self._splat_of(self.known[name], count)

    def _splat_of(self, word: str, count: int) -> str:
        kind = f"<{count} x i64>"
        one = self.text.let(f"insertelement {kind} poison, i64 {word}, i64 0")
        return self.text.let(f"shufflevector {kind} {one}, {kind} poison, <{count} x i32> zeroinitializer")

    def _not(self, bits: str, count: int) -> str:
        return self.text.let(f"xor <{count} x i1> {bits}, <{', '.join(['i1 true'] * count)}>")

    def _bits(self, flags: str, count: int = ROWS) -> str:
        return self.text.let(f"bitcast <{count} x i1> {flags} to i{count}")


def _every(count: int, number: int) -> str:
    """A constant of so many words."""
    return f"<{', '.join([f'i64 {number}'] * count)}>"
