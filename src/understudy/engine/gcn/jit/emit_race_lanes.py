"""Functions beside translated code: lanes load dwords or bytes from anywhere in a page of memory, or store dwords side
by side.

They look at all of them or at none; what `races.native_quick` does with one lane after the other, they do at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from understudy.engine.gcn.jit.emit_race_order import KNOWN, Order
from understudy.engine.gcn.races.codes import (
    ALSO_LOADED,
    HINT_AT,
    LANE_AT,
    LINE_BITS,
    LINE_LANES,
    LINES,
    LOADED,
    PAGE_BITS,
    ROWS,
    STORED,
    UPDATED,
)
from understudy.ir.builder import Text

WORDS: Final = ("mask", "limit", "cells", "page", "code", "quiet", *KNOWN)
"""Which lanes do, as bits; what lies there is below `limit`; the cells of a page, and its number; lane 0's code."""
MANY: Final = ("mask", "code", "quiet", *KNOWN)
"""The same of several accesses, each by all lanes of a chunk: `code` is without a site."""
KIND: Final = f"<{LINE_LANES} x i64>"
FLAGS: Final = f"<{LINE_LANES} x i1>"


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
        lanes.numbered()
    {"load": lanes.load, "same": lanes.load, "side": lanes.lines, "store": lanes.store}[kind]()
    head = f"define internal i64 @{name}({given}) noinline #0 {{"
    return text.declarations | {name: "\n".join([head, "entry:", *text.lines, "far:", "  ret i64 1", "}"])}


def _name(kind: str, bits: int, *, is_local: bool) -> str:
    return f"races_{kind}_{bits}{'_lds' if is_local else ''}"


class _Lanes:
    codes: str
    row: str
    """Where the cells of each line are."""

    def __init__(self, text: Text, bits: int, *, is_local: bool) -> None:
        self.text = text
        self.bits = bits
        self.is_local = is_local
        self.order = Order(text, LINE_LANES, {each: f"%{each}" for each in KNOWN})
        self.mask = text.let(f"bitcast i{LINE_LANES} {text.let(f'trunc i64 %mask to i{LINE_LANES}')} to {FLAGS}")

    def numbered(self) -> None:
        """They are lanes of one access."""
        o = self.order
        lanes = ", ".join(f"i64 {lane << LANE_AT}" for lane in range(LINE_LANES))
        self.codes = self.text.let(f"add {KIND} {o.splat('%code')}, <{lanes}>")
        self._need(o.compare("ult", "%addresses", o.splat("%limit")))
        self._find("%cells", "%page")

    def hinted(self) -> None:
        """They are accesses, which have hints of one page."""
        text, o = self.text, self.order
        self._need(o.compare("eq", self._gather("%hints", self.mask), "%keys"))
        sites = self._gather(text.let(f"add {KIND} %hints, {o.every(8 * HINT_AT['site'])}"), self.mask)
        self.codes = text.let(f"add {KIND} {o.splat('%code')}, {sites}")
        first = text.let(f"inttoptr i64 {text.let(f'extractelement {KIND} %hints, i64 0')} to ptr")
        cells, page = (
            text.let(f"load i64, ptr {text.let(f'getelementptr i64, ptr {first}, i64 {HINT_AT[each]}')}")
            for each in ("cells", "page")
        )
        self._find(cells, page)

    def _find(self, cells: str, page: str) -> None:
        """Find the cells of lines; all must be of the page."""
        text, o = self.text, self.order
        right = o.compare("eq", self._shifted("lshr", "%addresses", PAGE_BITS), o.splat(page))
        if self.bits == 32:
            right = o.both(right, o.compare("eq", self._masked("%addresses", 3), o.every(0)))
        self._need(right)
        line = self._masked(self._shifted("lshr", "%addresses", LINE_BITS), LINES)
        row = text.let(f"mul {KIND} {line}, {o.every(8 * ROWS)}")
        self.row = text.let(f"add {KIND} {row}, {o.splat(cells)}")
        self.at = self._masked(self._shifted("shl", "%addresses", 1), 8 * (LINE_LANES - 1))
        self.byte = self._shifted("shl", self._masked("%addresses", 3), 3)

    def load(self) -> None:
        """Loads of dwords or bytes."""
        o = self.order
        self._stores(is_whole=False)
        cell, is_cell = self._cell(self._read(LOADED))
        self._need(is_cell)
        also, is_also = self._cell(self._read(ALSO_LOADED))
        loaded = self._gather(cell, self.mask)
        is_over = o.past(loaded, is_local=self.is_local)
        self._need(o.either(is_over, is_also))
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
        place = self.text.let(f"add {KIND} {self.row}, {number}")
        self._scatter(o.highest(self.codes, o.select(is_over, loaded, also)), place, self.mask)
        self.text.put("ret i64 0")

    def _stores(self, *, is_whole: bool) -> None:
        """Go on where all stores came before, and there are no atomics."""
        text, o = self.text, self.order
        looks, on = text.fresh("stores"), text.fresh("on")
        text.branch(text.let("icmp eq i64 %quiet, 0"), looks, on)
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
        """Stores of dwords, no two of one."""
        o = self.order
        self._need(o.compare("eq", self._read(UPDATED), o.every(0)))
        stored, is_cell = self._cell(self._read(STORED))
        self._need(is_cell)
        self._need(self._over(self._gather(stored, self.mask)))
        loads = []
        for number in (LOADED, ALSO_LOADED):
            word = self._read(number)
            cell, is_cell = self._cell(word)
            self._need(o.either(is_cell, o.compare("eq", word, o.every(0))))
            loads.append((cell, o.both(self.mask, is_cell)))
            self._need(self._over(self._gather(*loads[-1])))
        for cell, there in loads:
            self._scatter(o.every(0), cell, there)
        self._scatter(self.codes, stored, self.mask)
        self.text.put("ret i64 0")

    def _over(self, codes: str) -> str:
        """Which codes came before; not what says where parts are."""
        return self.order.without(self.order.past(codes, is_local=self.is_local), self.order.addresses(codes))

    def _part(self, word: str, at: str) -> str:
        """What a word says of a part: itself, or what lies there."""
        there = self.order.both(self.mask, self.order.addresses(word))
        return self._gather(self.text.let(f"add {KIND} {word}, {at}"), there, word)

    def _cell(self, word: str) -> tuple[str, str]:
        """Where the cells of dwords, or of bytes, are, by a word of their line; and whether there are any."""
        o, let = self.order, self.text.let
        is_cell = o.addresses(word)
        cell = let(f"add {KIND} {word}, {self.at}")
        if self.bits < 32:
            word = self._gather(cell, o.both(self.mask, is_cell))
            is_cell = o.both(is_cell, o.addresses(word))
            cell = let(f"add {KIND} {word}, {self.byte}")
        return cell, is_cell

    # ---- text ----------------------------------------------------------------------------------------------------
    def _need(self, flags: str) -> None:
        """Go on where all lanes that load have a flag."""
        on = self.text.fresh("on")
        self.text.branch(self.order.none(self.order.without(self.mask, flags)), on, "far", "")
        self.text.start(on)

    def _shifted(self, how: str, words: str, count: int) -> str:
        return self.text.let(f"{how} {KIND} {words}, {self.order.every(count)}")

    def _masked(self, words: str, mask: int) -> str:
        return self.text.let(f"and {KIND} {words}, {self.order.every(mask)}")

    def _read(self, number: int) -> str:
        return self._gather(self.text.let(f"add {KIND} {self.row}, {self.order.every(8 * number)}"), self.mask)

    def _gather(self, places: str, mask: str, other: str = "zeroinitializer") -> str:
        pointers = self._pointers(places)
        arguments = f"<{LINE_LANES} x ptr> align 8 {pointers}", f"{FLAGS} {mask}", f"{KIND} {other}"
        return self.text.call(KIND, f"llvm.masked.gather.v{LINE_LANES}i64.v{LINE_LANES}p0", *arguments)

    def _scatter(self, words: str, places: str, mask: str) -> None:
        pointers = self._pointers(places)
        arguments = f"{KIND} {words}", f"<{LINE_LANES} x ptr> align 8 {pointers}", f"{FLAGS} {mask}"
        self.text.call_void(f"llvm.masked.scatter.v{LINE_LANES}i64.v{LINE_LANES}p0", *arguments)

    def _pointers(self, places: str) -> str:
        return self.text.let(f"inttoptr {KIND} {places} to <{LINE_LANES} x ptr>")
