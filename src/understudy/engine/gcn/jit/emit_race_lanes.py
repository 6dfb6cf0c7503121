"""Functions beside translated code: lanes load dwords or bytes from anywhere, or store them side by side.

They look at all of them or at none; what `races.native_quick` does with one lane after the other, they do at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from understudy.engine.gcn.jit.emit_race_order import HALF, KNOWN, Halves, Pair, word_at
from understudy.engine.gcn.races.codes import (
    ALSO_LOADED,
    BLOCK_BITS,
    BLOCKS,
    DWORD_ALSO,
    GROUP_AT,
    HINT_AT,
    LANE_AT,
    LINE_ALSO,
    LINE_BITS,
    LINE_LANES,
    LINES,
    LOADED,
    PAGE_BITS,
    PAGE_HEAD,
    RACE_AT,
    ROW_AT,
    ROWS,
    STORED,
    UPDATED,
)
from understudy.engine.gcn.races.native_cells import MIX, PAGE_SHIFT, block_at
from understudy.ir.builder import Text
from understudy.ir.native_llvm import embedded

WORDS: Final = ("mask", "limit", "cells", "page", "code", "quiet", "row", *KNOWN)
"""Which lanes do, as bits; what lies there is below `limit`; the cells of a page, and its number; lane 0's code."""
MANY: Final = ("mask", "code", "quiet", *KNOWN)
"""The same of several accesses, each by all lanes of a chunk: `code` is without a site."""
KIND: Final = f"<{LINE_LANES} x i64>"
WORDS_OF: Final = f"<{HALF} x i64>"
FLAGS: Final = f"<{HALF} x i1>"
"""Of half of them."""


def call(kind: str, bits: int, *, is_local: bool, addresses: str, words: dict[str, str]) -> str:
    """A call, which gives 1 where lanes have to be looked at closer."""
    given = ", ".join(f"i64 {words[each]}" for each in WORDS)
    return f"call i64 @{_name(kind, bits, is_local=is_local)}({KIND} {addresses}, {given})"


def call_many(kind: str, *, is_local: bool, vectors: Sequence[str], words: dict[str, str]) -> str:
    """A call for several loads, of the same dwords ("same") or of lines ("side"): addresses, hints, and their keys."""
    given = ", ".join([*(f"{KIND} {each}" for each in vectors), *(f"i64 {words[each]}" for each in MANY)])
    return f"call i64 @{_name(kind, 32, is_local=is_local)}({given})"


@cache
def definition(kind: str, bits: int, *, is_local: bool) -> dict[str, str]:
    """The function and what it needs, by name."""
    text = Text()
    vectors = ("addresses", "hints", "keys") if kind in ("same", "side") else ("addresses",)
    words = MANY if kind in ("same", "side") else WORDS
    given = ", ".join([*(f"{KIND} %{each}" for each in vectors), *(f"i64 %{each}" for each in words)])
    name = _name(kind, bits, is_local=is_local)
    lanes = _Lanes(text, bits, is_local=is_local)
    if kind in ("same", "side"):
        lanes.hinted()
    else:
        lanes.numbered(pages=kind == "load")
    {"load": lanes.load, "same": lanes.load, "side": lanes.lines, "store": lanes.store}[kind]()
    head = f"define internal i64 @{name}({given}) noinline #0 {{"
    return text.declarations | {name: "\n".join([head, "entry:", *text.lines, "far:", "  ret i64 1", "}"])}


def _name(kind: str, bits: int, *, is_local: bool) -> str:
    return f"races_{kind}_{bits}{'_lds' if is_local else ''}"


class _Lanes:
    codes: Pair
    row: Pair
    """Where the cells of each line are."""
    quiet: str
    """Whether nobody has stored there but before what the wave does now."""

    def __init__(self, text: Text, bits: int, *, is_local: bool) -> None:
        self.text = text
        self.bits = bits
        self.is_local = is_local
        self.order = Halves(text, {each: f"%{each}" for each in KNOWN})
        upper = text.let(f"lshr i64 %mask, {HALF}")
        self.mask = tuple(
            text.let(f"bitcast i{HALF} {text.let(f'trunc i64 {each} to i{HALF}')} to {FLAGS}")
            for each in ("%mask", upper)
        )

    def numbered(self, *, pages: bool) -> None:
        """They are lanes of one access."""
        o = self.order
        lanes = ", ".join(f"i64 {lane << LANE_AT}" for lane in range(HALF))
        upper = self.text.let(f"add i64 %code, {HALF << LANE_AT}")
        self.codes = tuple(
            self.text.let(f"add {WORDS_OF} {o.half.splat(each)}, <{lanes}>") for each in ("%code", upper)
        )
        self.addresses = self._halves("%addresses")
        if self.is_local:
            self._need(o.compare("ult", self.addresses, o.splat("%limit")))
        self._find("%cells", "%page", pages=pages)

    def hinted(self) -> None:
        """They are accesses, which have hints of one page."""
        text, o = self.text, self.order
        self.addresses, hints, keys = (self._halves(each) for each in ("%addresses", "%hints", "%keys"))
        self._need(o.compare("eq", self._gather(hints, self.mask), keys))
        sites = self._gather(o.words("add", hints, o.every(8 * HINT_AT["site"])), self.mask)
        self.codes = o.words("add", o.splat("%code"), sites)
        first = text.let(f"extractelement {KIND} %hints, i64 0")
        cells, page = (word_at(text, first, HINT_AT[each]) for each in ("cells", "page"))
        self._find(cells, page, pages=False)

    def _find(self, cells: str, page: str, *, pages: bool) -> None:
        """Find the cells of lines; all must be of the page, but for `pages`. LDS has one."""
        text, o = self.text, self.order
        if self.bits == 32:
            self._need(o.compare("eq", self._masked(self.addresses, 3), o.every(0)))
        tables = o.splat(cells)
        if self.is_local:
            self.quiet = text.let("icmp ne i64 %quiet, 0")
        else:
            numbers = o.words("lshr", self.addresses, o.every(PAGE_BITS))
            right = o.compare("eq", numbers, o.splat(page))
            near, on = text.fresh("near"), text.fresh("on")
            several = text.fresh("several") if pages else "far"
            text.branch(o.none(o.without(self.mask, right)), near, several)
            text.start(near)
            self.quiet = self._is_quiet(cells)
            if pages:
                text.put(f"br label %{on}")
                text.start(several)
                others = self._tables_of(numbers)
                quiets = [f"[ {self.quiet}, %{near} ]", f"[ {self._are_quiet(others)}, %{text.label} ]"]
                phis = [
                    f"phi {WORDS_OF} [ {one}, %{near} ], [ {other}, %{text.label} ]"
                    for one, other in zip(tables, others, strict=True)
                ]
                text.put(f"br label %{on}")
                text.start(on)
                tables, self.quiet = tuple(map(text.let, phis)), text.let(f"phi i1 {', '.join(quiets)}")
        line = self._masked(o.words("lshr", self.addresses, o.every(LINE_BITS)), LINES)
        self.row = o.words("add", o.words("mul", line, o.every(8 * ROWS)), tables)
        self.at = self._masked(o.words("shl", self.addresses, o.every(1)), 8 * (LINE_LANES - 1))
        self.byte = o.words("shl", self._masked(self.addresses, 3), o.every(3))

    def _is_quiet(self, cells: str) -> str:
        """Whether all stores to blocks of a page were made before all that is done now: see `native_cells.block_at`."""
        text, o, bits, kind = self.text, self.order, f"i{BLOCKS}", f"<{BLOCKS} x i64>"
        head = text.let(f"inttoptr i64 {text.let(f'sub i64 {cells}, {PAGE_HEAD}')} to ptr")
        one = text.let(f"insertelement {kind} poison, i64 %global_floor, i64 0")
        floor = text.let(f"shufflevector {kind} {one}, {kind} poison, <{BLOCKS} x i32> zeroinitializer")
        stored = text.let(f"icmp uge {kind} {text.let(f'load {kind}, ptr {head}, align 8')}, {floor}")
        every = text.let(f"zext {bits} {text.let(f'bitcast <{BLOCKS} x i1> {stored} to {bits}')} to i64")
        own = self._masked(o.words("lshr", o.splat(every), self._blocks()), 1)
        return o.none(o.both(self.mask, o.compare("ne", own, o.every(0))))

    def _are_quiet(self, tables: Pair) -> str:
        """The same of several pages, by their cells."""
        o = self.order
        at = o.words("add", tables, o.words("shl", self._blocks(), o.every(3)))
        last = self._gather(o.words("add", at, o.every(-PAGE_HEAD)), self.mask)
        return o.none(o.both(self.mask, o.compare("uge", last, o.splat("%global_floor"))))

    def _blocks(self) -> Pair:
        """The number of the block in its page that each lane accesses."""
        o = self.order
        return self._masked(o.words("lshr", self.addresses, o.every(BLOCK_BITS)), BLOCKS - 1)

    def _tables_of(self, numbers: Pair) -> Pair:
        """The cells of several pages, which nothing of private memory lies in."""
        text, o = self.text, self.order
        group, race = word_at(text, "%row", ROW_AT["group"]), word_at(text, "%row", ROW_AT["race"])
        low, high = word_at(text, group, GROUP_AT["low"]), word_at(text, group, GROUP_AT["high"])
        behind = o.words("sub", self.addresses, o.splat(low))
        self._need(o.compare("uge", behind, o.splat(text.let(f"sub i64 {high}, {low}"))))
        keys = o.words("add", numbers, o.every(1))  # as `native_cells.page_key` has it
        slots = o.words("lshr", o.words("mul", keys, o.every(MIX)), o.every(PAGE_SHIFT))
        table = o.splat(word_at(text, race, RACE_AT["pages"]))
        at = o.words("add", o.words("shl", slots, o.every(4)), table)
        self._need(o.compare("eq", self._gather(at, self.mask), keys))
        return self._gather(o.words("add", at, o.every(8)), self.mask)

    def load(self) -> None:
        """Loads of dwords or bytes."""
        o = self.order
        self._stores(is_whole=False)
        cell, is_cell, _ = self._cell(self._read(LOADED))
        self._need(is_cell)
        loaded = self._gather(cell, self.mask)
        is_over = o.past(loaded, is_local=self.is_local)
        also = o.words("add", cell, o.every(LINE_ALSO if self.bits == 32 else DWORD_ALSO))
        before = self._gather(also, o.without(self.mask, is_over), loaded)
        self._need(o.without(self.mask, o.addresses(before)))
        self._scatter(o.highest(self.codes, before), o.select(is_over, cell, also), self.mask)
        self.text.put("ret i64 0")

    def lines(self) -> None:
        """Loads of lines, dword by dword."""
        o = self.order
        self._stores(is_whole=True)
        loaded, also = self._read(LOADED), self._read(ALSO_LOADED)
        self._need(o.without(self.mask, o.either(o.addresses(loaded), o.addresses(also))))
        is_over = o.past(loaded, is_local=self.is_local)
        number = o.select(is_over, o.every(8 * LOADED), o.every(8 * ALSO_LOADED))
        place = o.words("add", self.row, number)
        self._scatter(o.highest(self.codes, o.select(is_over, loaded, also)), place, self.mask)
        self.text.put("ret i64 0")

    def _stores(self, *, is_whole: bool) -> None:
        """Go on where all stores came before, and there are no atomics."""
        text, o = self.text, self.order
        looks, on = text.fresh("stores"), text.fresh("on")
        text.branch(self.quiet, on, looks)
        text.start(looks)
        self._need(o.compare("eq", self._read(UPDATED), o.every(0)))
        stored = self._read(STORED)
        if not is_whole:
            stored = self._part(stored, self.at)
        if self.bits < 32:
            stored = self._part(stored, self.byte)
        self._need(self._over(stored))
        text.put(f"br label %{on}")
        text.start(on)

    def store(self) -> None:
        """Stores of dwords or bytes side by side."""
        o = self.order
        self._need(o.compare("eq", self._read(UPDATED), o.every(0)))
        stored, is_cell, _ = self._cell(self._read(STORED))
        self._need(is_cell)
        self._need(self._over(self._gather(stored, self.mask)))
        loads = []
        for number in (LOADED, ALSO_LOADED):
            cell, is_cell, is_nobody = self._cell(self._read(number))
            self._need(o.either(is_cell, is_nobody))
            loads.append((cell, o.both(self.mask, is_cell)))
            self._need(self._over(self._gather(*loads[-1])))
        for cell, there in loads:
            self._scatter(o.every(0), cell, there)
        self._scatter(self.codes, stored, self.mask)
        for lane in (0, LINE_LANES - 1) if not self.is_local else ():
            address = self.text.let(f"extractelement {KIND} %addresses, i64 {lane}")
            at = self.text.let(f"call i64 @{block_at.name}(i64 %cells, i64 {address})")
            self.text.put(f"store i64 %code, ptr {self.text.let(f'inttoptr i64 {at} to ptr')}")
        self.text.declarations.update(embedded(block_at))
        self.text.put("ret i64 0")

    def _over(self, codes: Pair) -> Pair:
        """Which codes came before; not what says where parts are."""
        return self.order.without(self.order.past(codes, is_local=self.is_local), self.order.addresses(codes))

    def _part(self, word: Pair, at: Pair) -> Pair:
        """What a word says of a part: itself, or what lies there."""
        there = self.order.both(self.mask, self.order.addresses(word))
        return self._gather(self.order.words("add", word, at), there, word)

    def _cell(self, word: Pair) -> tuple[Pair, Pair, Pair]:
        """Where the cells of dwords, or of bytes, are, by a word of their line; whether there are any.

        And whether all of a line, or of a dword, is nobody's.
        """
        o = self.order
        is_cell, is_nobody = o.addresses(word), o.compare("eq", word, o.every(0))
        cell = o.words("add", word, self.at)
        if self.bits < 32:
            word = self._gather(cell, o.both(self.mask, is_cell), word)
            is_cell, is_nobody = o.both(is_cell, o.addresses(word)), o.compare("eq", word, o.every(0))
            cell = o.words("add", word, self.byte)
        return cell, is_cell, is_nobody

    # ---- text ----------------------------------------------------------------------------------------------------
    def _halves(self, words: str) -> Pair:
        """The lanes of a chunk."""
        lanes = (range(HALF), range(HALF, LINE_LANES))
        orders = (", ".join(f"i32 {lane}" for lane in each) for each in lanes)
        text = self.text
        return tuple(
            text.let(f"shufflevector {KIND} {words}, {KIND} poison, <{HALF} x i32> <{each}>") for each in orders
        )

    def _need(self, flags: Pair) -> None:
        """Go on where all lanes that load have a flag."""
        on = self.text.fresh("on")
        self.text.branch(self.order.none(self.order.without(self.mask, flags)), on, "far", "")
        self.text.start(on)

    def _masked(self, words: Pair, mask: int) -> Pair:
        return self.order.words("and", words, self.order.every(mask))

    def _read(self, number: int) -> Pair:
        return self._gather(self.order.words("add", self.row, self.order.every(8 * number)), self.mask)

    def _gather(self, places: Pair, mask: Pair, other: Pair = ("zeroinitializer",) * 2) -> Pair:
        return self.order.each(self._gathered, places, mask, other)

    def _gathered(self, places: str, mask: str, other: str) -> str:
        arguments = f"<{HALF} x ptr> align 8 {self._pointers(places)}", f"{FLAGS} {mask}", f"{WORDS_OF} {other}"
        return self.text.call(WORDS_OF, f"llvm.masked.gather.v{HALF}i64.v{HALF}p0", *arguments)

    def _scatter(self, words: Pair, places: Pair, mask: Pair) -> None:
        for one, where, flags in zip(words, places, mask, strict=True):
            arguments = f"{WORDS_OF} {one}", f"<{HALF} x ptr> align 8 {self._pointers(where)}", f"{FLAGS} {flags}"
            self.text.call_void(f"llvm.masked.scatter.v{HALF}i64.v{HALF}p0", *arguments)

    def _pointers(self, places: str) -> str:
        return self.text.let(f"inttoptr {WORDS_OF} {places} to <{HALF} x ptr>")
