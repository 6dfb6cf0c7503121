"""A function beside translated code for dwords that a wave loads by itself: most waves of a launch load the same."""

from __future__ import annotations

from functools import cache
from typing import Final

from understudy.engine.gcn.jit.emit_helpers import LIKELY
from understudy.engine.gcn.jit.emit_race_order import HALF, KNOWN, Order, word_at
from understudy.engine.gcn.races.codes import (
    HINT_AT,
    LINE_ALSO,
    LINE_BITS,
    LINE_LANES,
    LINES,
    LOADED,
    PAGE_BITS,
    ROW_AT,
    ROWS,
)
from understudy.engine.gcn.races.native_cells import block_at
from understudy.ir.builder import Text
from understudy.ir.native_llvm import embedded

MOST: Final = HALF
"""Dwords of a call."""


def name(count: int) -> str:
    """Of the function for so many dwords: it takes the wave's row, a hint and its key, and an address.

    It gives 1 where that is to be looked at closer.
    """
    return f"races_scalar_{count}"


@cache
def definition(count: int) -> dict[str, str]:
    """The function and what it needs, by name."""
    text = Text()
    row = {each: word_at(text, "%row", ROW_AT[each]) for each in (*KNOWN, "passed", "generation")}
    hint = {each: word_at(text, "%hint", HINT_AT[each]) for each in ("key", "page", "cells", "site")}
    _need(text, text.let(f"icmp eq i64 {hint['key']}, %key"))
    _need(text, text.let(f"icmp eq i64 {hint['page']}, {text.let(f'lshr i64 %address, {PAGE_BITS}')}"))
    _need(text, text.let(f"icmp eq i64 {row['passed']}, {row['generation']}"))
    dword = text.let(f"and i64 {text.let('lshr i64 %address, 2')}, {LINE_LANES - 1}")
    _need(text, text.let(f"icmp ule i64 {dword}, {LINE_LANES - count}"))
    text.declarations.update(embedded(block_at))
    last = word_at(text, text.let(f"call i64 @{block_at.name}(i64 {hint['cells']}, i64 %address)"), 0)
    _need(text, text.let(f"icmp ult i64 {last}, {row['global_floor']}"))
    line = text.let(f"and i64 {text.let(f'lshr i64 %address, {LINE_BITS}')}, {LINES}")
    cells = text.let(f"add i64 {hint['cells']}, {text.let(f'mul i64 {line}, {8 * ROWS}')}")
    words = word_at(text, cells, LOADED)
    o = Order(text, count, {each: row[each] for each in KNOWN})
    _need(text, o.is_address(words))
    at = text.let(f"add i64 {words}, {text.let(f'shl i64 {dword}, 3')}")
    places = [text.let(f"inttoptr i64 {each} to ptr") for each in (at, text.let(f"add i64 {at}, {LINE_ALSO}"))]
    loaded, also = (text.let(f"load {o.kind}, ptr {each}, align 8") for each in places)
    is_over = o.past(loaded, is_local=False)
    before = o.select(is_over, loaded, also)
    _need(text, o.none(o.addresses(loaded)))
    code = o.splat(text.let(f"add i64 {row['stamp']}, {hint['site']}"))
    after = o.highest(code, before)
    for place, word in zip(places, (o.select(is_over, after, loaded), o.select(is_over, also, after)), strict=True):
        text.put(f"store {o.kind} {word}, ptr {place}, align 8")
    text.put("ret i64 0")
    head = f"define internal i64 @{name(count)}(i64 %row, i64 %hint, i64 %key, i64 %address) noinline #0 {{"
    return text.declarations | {name(count): "\n".join([head, "entry:", *text.lines, "far:", "  ret i64 1", "}"])}


def _need(text: Text, condition: str) -> None:
    on = text.fresh("on")
    text.branch(condition, on, "far", LIKELY)
    text.start(on)
