"""How marks travel: both forms of a mark say the same, however it was made, and bits that may depend are marked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard.engine.shadow import bits as rules
from softcard.engine.shadow.bits import HALF, OptionalShadow, ShadowBits

WIDTHS = (1, 8, 32, 64)
RULES = (
    "opaque", "bitwise", "conjunction", "disjunction", "carried", "shl", "lshr", "shifted", "chosen", "zext", "sext",
    "narrowed",
)  # fmt: skip


class Ints:
    """An integer algebra over Python's own."""

    def const(self, w: int, n: int) -> int:
        return n & (1 << w) - 1

    def or_(self, w: int, a: int, b: int) -> int:
        return a | b

    def and_(self, w: int, a: int, b: int) -> int:
        return a & b

    def not_(self, w: int, a: int) -> int:
        return ~a & (1 << w) - 1

    def sub(self, w: int, a: int, b: int) -> int:
        return a - b & (1 << w) - 1

    def add(self, w: int, a: int, b: int) -> int:
        return a + b & (1 << w) - 1

    def ne(self, w: int, a: int, b: int) -> int:
        return int(a != b)

    def zext(self, to: int, w: int, a: int) -> int:
        return a

    def sext(self, to: int, w: int, a: int) -> int:
        return self.const(to, a - (a >> w - 1 << w))

    def trunc(self, to: int, w: int, a: int) -> int:
        return self.const(to, a)

    def shl(self, w: int, a: int, n: int) -> int:
        return self.const(w, a << n)

    def lshr(self, w: int, a: int, n: int) -> int:
        return a >> n

    def select(self, w: int, c: int, a: int, b: int) -> int:
        return a if c else b


INTS: Any = Ints()


@st.composite
def marks(draw: st.DrawFn, w: int) -> OptionalShadow:
    """A mark of a value of that width, in any form; or none."""
    form = draw(st.sampled_from(("none", "bits", "whole", "halves") if w == 2 * HALF else ("none", "bits", "whole")))
    if form == "none":
        return None
    if form == "whole":
        return ShadowBits(w, whole=draw(st.integers(0, 1)))
    if form == "halves":
        return rules.joined(w, draw(marks(HALF)), draw(marks(HALF)))
    return ShadowBits(
        w, bits=draw(st.one_of(st.just(0), st.integers(0, w - 1).map(lambda n: 1 << n), st.integers(0, (1 << w) - 1)))
    )


def _made(draw: Callable[[Any], Any], rule: str, w: int) -> tuple[int, OptionalShadow]:
    """What a rule makes, and its width."""
    x, y, z = draw(marks(w)), draw(marks(w)), draw(marks(1))
    a, b = (draw(st.integers(0, (1 << w) - 1)) for _ in range(2))
    n = draw(st.integers(0, w - 1))
    to = draw(st.sampled_from([each for each in WIDTHS if each >= w]))
    less = draw(st.sampled_from([each for each in WIDTHS if each <= w]))
    found: dict[str, Callable[[], tuple[int, OptionalShadow]]] = {
        "opaque": lambda: (w, rules.opaque(INTS, w, x, y)),
        "bitwise": lambda: (w, rules.bitwise(INTS, w, x, y)),
        "conjunction": lambda: (w, rules.conjunction(INTS, w, a, x, b, y)),
        "disjunction": lambda: (w, rules.disjunction(INTS, w, a, x, b, y)),
        "carried": lambda: (w, rules.carried(INTS, w, x, y)),
        "shl": lambda: (w, rules.shifted(INTS, "shl", w, x, n, n, None)),
        "lshr": lambda: (w, rules.shifted(INTS, "lshr", w, x, n, n, None)),
        "shifted": lambda: (w, rules.shifted(INTS, "shl", w, x, n, None, y)),
        "chosen": lambda: (w, rules.chosen(INTS, w, a & 1, z, x, y)),
        "zext": lambda: (to, rules.widened(INTS, "zext", to, w, x)),
        "sext": lambda: (to, rules.widened(INTS, "sext", to, w, x)),
        "narrowed": lambda: (less, rules.narrowed(INTS, less, w, x)),
    }
    return found[rule]()


@pytest.mark.parametrize("rule", RULES)
@given(st.data())
def test_both_forms_say_the_same(rule: str, data: st.DataObject) -> None:
    width, shadow = _made(data.draw, rule, data.draw(st.sampled_from(WIDTHS)))
    if shadow is not None:
        bits = rules.bits_of(INTS, width, shadow)
        assert 0 <= bits < 1 << width
        assert rules.whole_of(INTS, shadow) == int(bits != 0)


@given(st.integers(0, 255), st.integers(0, 255), st.integers(0, 255), st.integers(0, 255), st.integers(0, 255))
def test_no_bit_of_a_sum_depends_on_what_is_defined(a: int, b: int, x: int, y: int, other: int) -> None:
    """The other operands differ in marked bits only: so do the sums."""
    found = rules.carried(INTS, 8, ShadowBits(8, bits=x), ShadowBits(8, bits=y))
    changed = INTS.add(8, a ^ other & x, b ^ other & y) ^ INTS.add(8, a, b)
    assert changed & ~rules.bits_of(INTS, 8, found) == 0
