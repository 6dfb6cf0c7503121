"""Which of several accesses came before what a wave does now, by their codes: `races.native_order.is_past`, in line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from understudy.engine.gcn.races.codes import LEAST, LINE_LANES, TICK_AT, UID_AT
from understudy.ir.builder import Text

KNOWN: Final = ("stamp", "bound", "group_floor", "group_span", "global_floor")
"""Of a `codes.WaveRow`: what stays as it is while a strip runs, but for stamps where it stores to global memory."""


def word_at(text: Text, base: str, number: int) -> str:
    """A word of what begins at a place."""
    pointer = text.let(f"inttoptr i64 {base} to ptr")
    return text.let(f"load i64, ptr {text.let(f'getelementptr i64, ptr {pointer}, i64 {number}')}")


class Order:
    """Looks at `count` codes at once. `known`: the names of the words in `KNOWN`."""

    def __init__(self, text: Text, count: int, known: Mapping[str, str]) -> None:
        self.text = text
        self.count = count
        self.kind = f"<{count} x i64>"
        self.flags = f"<{count} x i1>"
        self._known = {name: self.splat(word) for name, word in known.items() if name != "bound"}
        behind = text.let(f"add i64 {known['bound']}, 1")
        self._behind = self.splat(text.let(f"shl i64 {behind}, {64 - UID_AT + TICK_AT}"))
        """The first tick behind `bound`, as the upper bits of a word."""

    def past(self, codes: str, *, is_local: bool) -> str:
        """Flags of those that came before. What is no code is below each floor, and counts as that."""
        text, know = self.text, self._known
        over = self.compare("ult", codes, know["group_floor" if is_local else "global_floor"])
        own = self.compare("ult", text.let(f"xor {self.kind} {codes}, {know['stamp']}"), self.every(1 << UID_AT))
        behind = text.let(f"sub {self.kind} {codes}, {know['group_floor']}")
        in_group = self.compare("ult", behind, know["group_span"])
        known = self.both(in_group, self._is_bound(codes))
        return self.either(self.either(over, own), known)

    def addresses(self, words: str) -> str:
        """Flags of those that are no codes, but say where the cells of the parts are."""
        return self.compare("ult", self.text.let(f"add {self.kind} {words}, {self.every(-1)}"), self.every(LEAST - 1))

    def is_address(self, word: str) -> str:
        """The same of one word."""
        return self.text.let(f"icmp ult i64 {self.text.let(f'add i64 {word}, -1')}, {LEAST - 1}")

    def highest(self, codes: str, before: str) -> str:
        """What cells of loads hold then: see `native_look.later`."""
        return self.select(self.without(self.compare("ugt", before, codes), self._is_bound(before)), before, codes)

    def _is_bound(self, codes: str) -> str:
        """Flags of those whose ticks are `bound` at most."""
        ticks = self.text.let(f"shl {self.kind} {codes}, {self.every(64 - UID_AT)}")
        return self.compare("ult", ticks, self._behind)

    # ---- text ----------------------------------------------------------------------------------------------------
    def every(self, number: int) -> str:
        """A constant."""
        return f"<{', '.join([f'i64 {number}'] * self.count)}>"

    def splat(self, word: str) -> str:
        """The same word everywhere."""
        one = self.text.let(f"insertelement {self.kind} poison, i64 {word}, i64 0")
        order = f"<{self.count} x i32> zeroinitializer"
        return self.text.let(f"shufflevector {self.kind} {one}, {self.kind} poison, {order}")

    def compare(self, test: str, a: str, b: str) -> str:
        """Flags."""
        return self.text.let(f"icmp {test} {self.kind} {a}, {b}")

    def both(self, a: str, b: str) -> str:
        """Flags that are in both."""
        return self.text.let(f"and {self.flags} {a}, {b}")

    def either(self, a: str, b: str) -> str:
        """Flags that are in one of them."""
        return self.text.let(f"or {self.flags} {a}, {b}")

    def without(self, a: str, b: str) -> str:
        """Flags of `a` that are not in `b`."""
        return self.both(a, self.text.let(f"xor {self.flags} {b}, <{', '.join(['i1 true'] * self.count)}>"))

    def select(self, flags: str, a: str, b: str) -> str:
        """`a` where a flag is, else `b`."""
        return self.text.let(f"select {self.flags} {flags}, {self.kind} {a}, {self.kind} {b}")

    def bits(self, flags: str) -> str:
        """Flags as bits of one number."""
        return self.text.let(f"bitcast {self.flags} {flags} to i{self.count}")

    def none(self, flags: str) -> str:
        """Whether there is none."""
        return self.text.let(f"icmp eq i{self.count} {self.bits(flags)}, 0")


Pair = tuple[str, ...]
"""Of the lower lanes of a chunk, and of the upper ones: as many words as a register of the host holds."""
HALF: Final = LINE_LANES // 2


class Halves:
    """`Order` for all lanes of a chunk: flags of its halves are put together nowhere, which costs more than a look."""

    def __init__(self, text: Text, known: Mapping[str, str]) -> None:
        self.text = text
        self.half = Order(text, HALF, known)

    def each(self, how: Callable[..., str], *given: Pair) -> Pair:
        """The same of both."""
        return tuple(how(*some) for some in zip(*given, strict=True))

    def words(self, operation: str, a: Pair, b: Pair) -> Pair:
        """An instruction with two operands."""
        return self.each(lambda one, other: self.text.let(f"{operation} {self.half.kind} {one}, {other}"), a, b)

    def past(self, codes: Pair, *, is_local: bool) -> Pair:
        """See `Order`."""
        return self.each(lambda some: self.half.past(some, is_local=is_local), codes)

    def addresses(self, words: Pair) -> Pair:
        """See `Order`."""
        return self.each(self.half.addresses, words)

    def highest(self, codes: Pair, before: Pair) -> Pair:
        """See `Order`."""
        return self.each(self.half.highest, codes, before)

    def every(self, number: int) -> Pair:
        """A constant."""
        return (self.half.every(number),) * 2

    def splat(self, word: str) -> Pair:
        """The same word everywhere."""
        return (self.half.splat(word),) * 2

    def compare(self, test: str, a: Pair, b: Pair) -> Pair:
        """Flags."""
        return self.each(lambda one, other: self.half.compare(test, one, other), a, b)

    def both(self, a: Pair, b: Pair) -> Pair:
        """Flags that are in both."""
        return self.each(self.half.both, a, b)

    def either(self, a: Pair, b: Pair) -> Pair:
        """Flags that are in one of them."""
        return self.each(self.half.either, a, b)

    def without(self, a: Pair, b: Pair) -> Pair:
        """Flags of `a` that are not in `b`."""
        return self.each(self.half.without, a, b)

    def select(self, flags: Pair, a: Pair, b: Pair) -> Pair:
        """`a` where a flag is, else `b`."""
        return self.each(self.half.select, flags, a, b)

    def none(self, flags: Pair) -> str:
        """Whether there is none."""
        some = self.text.let(f"or i{HALF} {', '.join(self.each(self.half.bits, flags))}")
        return self.text.let(f"icmp eq i{HALF} {some}, 0")
