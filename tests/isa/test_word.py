"""Words ask their algebra for what their operators say, and refuse widths that do not agree."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from softcard.core.errors import ModelBug
from softcard.engine.gcn.reference.lane_integer import LaneIntegers
from softcard.isa.gcn.semantics.fp import Real
from softcard.isa.gcn.word import Word


class Scalars(LaneIntegers):
    """Python numbers; one float operation, to be refused."""

    def fadd(self, fmt: str, a: int, b: int, env: str | None) -> int:
        raise AssertionError


SCALARS = Scalars()


def w(width: int, n: int) -> Word:
    return Word(SCALARS, width, n)


A, B = w(32, 0xDEAD_BEEF), w(32, 0x1234_5678)


@pytest.mark.parametrize(
    ("made", "width", "value"),
    [
        (A + B, 32, 0xDEAD_BEEF + 0x1234_5678),
        (1 + B, 32, 0x1234_5679),
        (B - A, 32, 0x1234_5678 - 0xDEAD_BEEF & 0xFFFF_FFFF),
        (0x2000_0000 - B, 32, 0x2000_0000 - 0x1234_5678),
        (-B, 32, -0x1234_5678 & 0xFFFF_FFFF),
        (A * B, 32, 0xDEAD_BEEF * 0x1234_5678 & 0xFFFF_FFFF),
        (A & 0xFF | 0x100, 32, 0x1EF),
        (A ^ B, 32, 0xDEAD_BEEF ^ 0x1234_5678),
        (~A, 32, 0x2152_4110),
        (A << 8, 32, 0xADBE_EF00),
        (A >> 8, 32, 0xDE_ADBE),
        (1 << w(32, 5), 32, 32),
        (0x80 >> w(32, 5), 32, 4),
        (A.sra(8), 32, 0xFFDE_ADBE),
        (A[22:16], 32, 0x2D),
        (A[31:16], 32, 0xDEAD),
        (A[7:0], 32, 0xEF),
        (A[31:0], 32, 0xDEAD_BEEF),
        (A[31], 1, 1),
        (A[4], 1, 0),
        (A.const(0xDEAD_BEEF) == A, 1, 1),
        (A != B, 1, 1),
        (A < B, 1, 0),
        (A > B, 1, 1),
        (A <= B, 1, 0),
        (A >= 5, 1, 1),
        (A > 5, 1, 1),
        (A.slt(B), 1, 1),
        (A.sle(B), 1, 1),
        (A.zext(64), 64, 0xDEAD_BEEF),
        (A.sext(64), 64, 0xFFFF_FFFF_DEAD_BEEF),
        (A.trunc(16), 16, 0xBEEF),
        (A.to(16), 16, 0xBEEF),
        (A.to(64), 64, 0xDEAD_BEEF),
        (A.extended(64, True), 64, 0xFFFF_FFFF_DEAD_BEEF),
        ((A > B).select(7, A), 32, 7),
        ((A < B).select(A, B), 32, 0x1234_5678),
        (A.constant(8, 257), 8, 1),
    ],
)
def test_operators(made: Word, width: int, value: int) -> None:
    assert (made.width, made.value) == (width, value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: A + w(64, 1), "add has operands of 32 and 64 bits, expected the same width"),
        (lambda: A & w(16, 1), "and_ has operands of 32 and 16 bits, expected the same width"),
        (lambda: A << w(64, 1), "shl has operands of 32 and 64 bits, expected the same width"),
        (lambda: w(64, 1) == A, "eq has operands of 64 and 32 bits, expected the same width"),
        (lambda: A.fadd(w(16, 0)), "fadd has operands of 32 and 16 bits, expected the same width"),
        (lambda: (A == B).select(A, w(64, 1)), "select has operands of 32 and 64 bits, expected the same width"),
        (lambda: A.select(A, B), "the condition of a select needs 1 bits, not 32"),
        (lambda: (A == B).select(1, 2), "select of two constants has no known width: make one of them a word"),
        (lambda: A.zext(16), "zext cannot convert 32 bits to 16 bits"),
        (lambda: A.trunc(64), "trunc cannot convert 32 bits to 64 bits"),
        (lambda: A[32:0], "a word of 32 bits has no bits 32:0"),
        (lambda: A[0:7], "a word of 32 bits has no bits 0:7"),
        (lambda: bool(A == B), "semantics cannot branch on a word: it is known only when the instruction runs"),
    ],
)
def test_mistakes_are_refused_where_they_are_made(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ModelBug) as error:
        make()
    assert error.value.message == message


def test_real_numbers_calculate_and_keep_their_bits() -> None:
    two = Real(SCALARS, 64, 0x4000_0000_0000_0000)
    assert (two & 0).const(1.0).value == 0x3FF0_0000_0000_0000
    assert (two > 1.5).value == 1
    assert (two >= 2.0).value == 1
    assert (two < 2.0).value == 0
    assert (two.bits + 1).value == 0x4000_0000_0000_0001
