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
    LINE_BITS,
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
from understudy.engine.gcn.races.native_quick import load_dword
from understudy.ir.builder import LaneText
from understudy.ir.native_llvm import embedded

KNOWN: Final = ("stamp", "bound", "group_floor", "group_span", "global_floor")
"""Of a `codes.WaveRow`: what stays as it is while a strip runs, but for stamps where it stores to global memory."""
FOUR: Final = f"<{ROWS} x i64>"
BITS: Final = f"i{ROWS}"


@dataclass(frozen=True, slots=True)
class Place:
    """What an access is told by: host addresses of its hint and slot, its key, and the first lane of the chunk."""

    hint: str
    slot: str
    key: str
    first: str


class Cells:
    """Looks in line during one strip. `row`: the host address of the wave's `codes.WaveRow`."""

    def __init__(self, text: LaneText, row: str) -> None:
        self.text = text
        self.row = row
        self.known = {name: self._word(row, ROW_AT[name]) for name in KNOWN}
        self._splats = {name: self._splat(word) for name, word in self.known.items()}

    def load_line(self, place: Place, address: str, is_local: bool, other: str, done: str) -> None:
        """A chunk loads a line, dword by dword: to `done`, or to `other` where that is to be looked at closer."""
        text, row = self.text, self._row_of(place, address, is_local, other)
        past, pointers = self._past(row, is_local)
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

    def store_line(self, place: Place, address: str, is_local: bool, bit: int, other: str, done: str) -> None:
        """A chunk stores a line, dword by dword; elsewhere than in LDS the access goes on in its slot, of `bit`."""
        text, row = self.text, self._row_of(place, address, is_local, other)
        self._or(text.let(f"icmp eq i64 {self._word(self.row, ROW_AT['clash_count'])}, 0"), other)
        if is_local:
            code = self._code(place)
        else:
            is_open = text.let(f"and i64 {self._word(self.row, ROW_AT['open'])}, {bit}")
            self._or(text.let(f"icmp ne i64 {is_open}, 0"), other)
            code = text.let(f"add i64 {self._word(place.slot, SLOT_AT['code'])}, {self._lane(place)}")
        past, pointers = self._past(row, is_local)
        fine = text.let(f"icmp eq {BITS} {past}, {(1 << ROWS) - 1}")
        self._or(text.let(f"and i1 {fine}, {text.let(f'icmp eq {BITS} {pointers}, 0')}"), other)
        whole = text.let(f"insertelement {FOUR} zeroinitializer, i64 {code}, i64 {STORED}")
        text.put(f"store {FOUR} {whole}, ptr {row}, align 8")
        text.put(f"br label %{done}")

    def load_dwords(self, place: Place, address: str, count: int, is_local: bool, other: str, done: str) -> None:
        """All lanes of a chunk load the same dwords, of one line or of several."""
        text = self.text
        self._find(place, address, is_local, other)
        cells = self._word(place.hint, HINT_AT["cells"])
        code = text.let(f"add i64 {self._code(place)}, {LINE_LANES - 1 << LANE_AT}")
        text.declarations.update(embedded(load_dword))
        floor = self.known["group_floor" if is_local else "global_floor"]
        knows = ", ".join(f"i64 {self.known[name]}" for name in ("stamp", "bound", "group_floor", "group_span"))
        for number in range(count):
            at = text.let(f"add i64 {address}, {4 * number}") if number else address
            status = text.let(f"call i64 @{load_dword.name}(i64 {cells}, i64 {at}, i64 {code}, i64 {floor}, {knows})")
            self._or(text.let(f"icmp eq i64 {status}, 0"), other)
        text.put(f"br label %{done}")

    # ---- cells ---------------------------------------------------------------------------------------------------
    def _find(self, place: Place, address: str, is_local: bool, other: str) -> None:
        """Go to `other` unless the hint is about this access and page; LDS has one."""
        text = self.text
        key = self._word(place.hint, HINT_AT["key"])
        self._or(text.let(f"icmp eq i64 {key}, {place.key}"), other)
        if not is_local:
            page = self._word(place.hint, HINT_AT["page"])
            self._or(text.let(f"icmp eq i64 {page}, {text.let(f'lshr i64 {address}, {PAGE_BITS}')}"), other)

    def _row_of(self, place: Place, address: str, is_local: bool, other: str) -> str:
        """The cells of a line."""
        text = self.text
        self._find(place, address, is_local, other)
        cells = self._word(place.hint, HINT_AT["cells"])
        line = text.let(f"and i64 {text.let(f'lshr i64 {address}, {LINE_BITS}')}, {LINES}")
        base = text.let(f"inttoptr i64 {cells} to ptr")
        return text.let(f"getelementptr i64, ptr {base}, i64 {text.let(f'mul i64 {line}, {ROWS}')}")

    def _past(self, row: str, is_local: bool) -> tuple[str, str]:
        """Of each word of a line's cells, as bits: whether it came before what the wave does; whether it is no code.

        What is no code is below each floor, and counts as what came before. See `native_order.is_over`.
        """
        text, know = self.text, self._splats
        words = text.let(f"load {FOUR}, ptr {row}, align 8")
        over = self._compare("ult", words, know["group_floor" if is_local else "global_floor"])
        own = self._compare("ult", text.let(f"xor {FOUR} {words}, {know['stamp']}"), _every(1 << UID_AT))
        behind = text.let(f"sub {FOUR} {words}, {know['group_floor']}")
        in_group = self._compare("ult", behind, know["group_span"])
        ticks = text.let(f"lshr {FOUR} {words}, {_every(TICK_AT)}")
        ticks = text.let(f"and {FOUR} {ticks}, {_every(TICKS - 1)}")
        known = text.let(f"and <{ROWS} x i1> {in_group}, {self._compare('ule', ticks, know['bound'])}")
        past = text.let(f"or <{ROWS} x i1> {text.let(f'or <{ROWS} x i1> {over}, {own}')}, {known}")
        below = text.let(f"add {FOUR} {words}, {_every(-1)}")
        pointers = self._compare("ult", below, _every(LEAST - 1))
        return self._bits(past), self._bits(pointers)

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

    def _splat(self, word: str) -> str:
        one = self.text.let(f"insertelement {FOUR} poison, i64 {word}, i64 0")
        return self.text.let(f"shufflevector {FOUR} {one}, {FOUR} poison, <{ROWS} x i32> zeroinitializer")

    def _compare(self, test: str, a: str, b: str) -> str:
        return self.text.let(f"icmp {test} {FOUR} {a}, {b}")

    def _bits(self, words: str) -> str:
        return self.text.let(f"bitcast <{ROWS} x i1> {words} to {BITS}")


def _every(number: int) -> str:
    """A constant of four words."""
    return f"<{', '.join([f'i64 {number}'] * ROWS)}>"
