"""Fixed-point arithmetic of vectors: saturating, averaging, scaling (V 1.0, chapter 12)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.vector.algebra import VectorOps, VectorSemantics
from softcard.isa.riscv.vector.groups import Scalar, Source, check
from softcard.isa.riscv.vector.integer import forms
from softcard.isa.riscv.vector.rows import (
    OnWords,
    VectorRow,
    element,
    group,
    is_masked,
    operand,
    own,
    pattern,
    section,
)
from softcard.isa.riscv.word import Word

Saturated = Callable[..., tuple[Word, Word]]
"""A function of elements that returns the value, and 1 if it was saturated."""
Rounded = Callable[[Word, Word, Word], Word]
"""A function of two elements and of vxrm (the fixed-point rounding mode) that returns a rounded value."""
NEAREST_UP, NEAREST_EVEN, DOWN, TO_ODD = range(4)
"""The values of vxrm, the fixed-point rounding mode."""


def shift_rounding(v: Word, n: Word, vxrm: Word, signed: bool) -> Word:
    """Return v / 2**n, rounded by the fixed-point rounding mode `vxrm`.

    v is in two's complement if `signed` is True."""
    one = v.const(1)
    below, half = (one << n) - 1, (one << n) >> 1
    kept = v.sra(n) if signed else v >> n
    rest, up = v & below, (v & half) != 0
    odd = kept.trunc(1)
    even = up & (((rest & half - 1) != 0) | odd)
    to_odd = ~odd & (rest != 0)
    jam = (vxrm == TO_ODD) & to_odd
    step = (vxrm == NEAREST_UP) & up | (vxrm == NEAREST_EVEN) & even | jam
    return kept + step.zext(v.width)


def add_unsigned(a: Word, b: Word) -> tuple[Word, Word]:
    """Return a + b, unsigned and saturated, and 1 if it was saturated."""
    total = a + b
    over = total < a
    return over.select(-1, total), over


def add_signed(a: Word, b: Word) -> tuple[Word, Word]:
    """Return a + b, signed and saturated, and 1 if it was saturated."""
    total = a + b
    over = ((a ^ total) & (b ^ total))[a.width - 1]
    return over.select(end_of(a), total), over


def subtract_unsigned(a: Word, b: Word) -> tuple[Word, Word]:
    """Return a - b, unsigned and saturated, and 1 if it was saturated."""
    under = a < b
    return under.select(0, a - b), under


def subtract_signed(a: Word, b: Word) -> tuple[Word, Word]:
    """Return a - b, signed and saturated, and 1 if it was saturated."""
    rest = a - b
    over = ((a ^ b) & (a ^ rest))[a.width - 1]
    return over.select(end_of(a), rest), over


def end_of(a: Word) -> Word:
    """Return the signed limit to which a result with the sign of `a` saturates: the largest or the least number."""
    return a.sra(a.width - 1) ^ (1 << a.width - 1) - 1


def average(subtracts: bool, signed: bool) -> Rounded:
    """Return the function of a rounded average, computed without overflow.

    The average is (a - b) / 2 if `subtracts` is True, else (a + b) / 2."""

    def f(a: Word, b: Word, vxrm: Word) -> Word:
        w = a.width
        x, y = a.extended(2 * w, signed), b.extended(2 * w, signed)
        total = x - y if subtracts else x + y
        return shift_rounding(total, total.const(1), vxrm, signed).trunc(w)

    return f


def multiply(a: Word, b: Word, vxrm: Word) -> tuple[Word, Word]:
    """Return the rounded product of two fractions in [-1, 1), and 1 if it was saturated.

    Only (-1) * (-1) is saturated.
    """
    w, least = a.width, 1 << a.width - 1
    product = a.sext(2 * w) * b.sext(2 * w)
    value = shift_rounding(product, product.const(w - 1), vxrm, signed=True).trunc(w)
    over = (a == least) & (b == least)
    return over.select(least - 1, value), over


def scale(signed: bool) -> Rounded:
    """Return the function of a rounding shift: a / 2**b, rounded by vxrm."""
    return lambda a, b, vxrm: shift_rounding(a, b & a.width - 1, vxrm, signed)


def clip(signed: bool) -> Saturated:
    """Return the function of a narrowing clip: a / 2**b, rounded by vxrm and saturated to the width of b."""

    def f(a: Word, b: Word, vxrm: Word) -> tuple[Word, Word]:
        w = b.width
        value = shift_rounding(a, b.zext(a.width) & a.width - 1, vxrm, signed)
        if not signed:
            over = value > (1 << w) - 1
            return over.select(-1, value.trunc(w)), over
        over = value.trunc(w).sext(a.width) != value
        return over.select(end_of(value) >> w, value).trunc(w), over

    return f


def rounding(f: OnWords, kind: str, *, of: int = 1, saturates: bool = False) -> VectorSemantics:
    """Return the semantics of vd = f(vs2, other, vxrm); elements of vs2 are `of` times SEW wide.

    `kind` selects the other operand (see `operand`). With `saturates`, f also returns 1 if the result was
    saturated."""

    def semantics(o: VectorOps, i: Insn) -> None:
        t = o.vector()
        sources: tuple[Source, ...] = (group(i.rs2, t, of * t.sew), operand(o, i, t, kind))
        check(own(i, t), sources, is_masked(i))
        sources += (Scalar(8, o.vxrm()),)
        o.v_map(own(i, t), sources, element(f, sources), is_masked(i), saturates=saturates)

    return semantics


def saturating(f: Saturated, kind: str) -> VectorSemantics:
    """Return the semantics of vd = f(vs2, other), where `f` saturates; `kind` selects the other operand."""

    def semantics(o: VectorOps, i: Insn) -> None:
        t = o.vector()
        sources = (group(i.rs2, t, t.sew), operand(o, i, t, kind))
        check(own(i, t), sources, is_masked(i))
        o.v_map(own(i, t), sources, element(f, sources), is_masked(i), saturates=True)

    return semantics


SATURATING: Final[tuple[tuple[str, str, str, Saturated], ...]] = (
    ("vsaddu", "100000", "ivv ivx ivi", add_unsigned),
    ("vsadd",  "100001", "ivv ivx ivi", add_signed),
    ("vssubu", "100010", "ivv ivx",     subtract_unsigned),
    ("vssub",  "100011", "ivv ivx",     subtract_signed),
)  # fmt: skip

ROUNDING: Final[tuple[tuple[str, str, str, OnWords, int, bool], ...]] = (
    # name       funct6    forms          f, width of vs2, whether it saturates
    ("vaaddu.v",  "001000", "mvv mvx",     average(subtracts=False, signed=False), 1, False),
    ("vaadd.v",   "001001", "mvv mvx",     average(subtracts=False, signed=True),  1, False),
    ("vasubu.v",  "001010", "mvv mvx",     average(subtracts=True, signed=False),  1, False),
    ("vasub.v",   "001011", "mvv mvx",     average(subtracts=True, signed=True),   1, False),
    ("vsmul.v",   "100111", "ivv ivx",     multiply,                               1, True),
    ("vssrl.v",   "101010", "ivv ivx ivu", scale(signed=False),                    1, False),
    ("vssra.v",   "101011", "ivv ivx ivu", scale(signed=True),                     1, False),
    ("vnclipu.w", "101110", "ivv ivx ivu", clip(signed=False),                     2, True),
    ("vnclip.w",  "101111", "ivv ivx ivu", clip(signed=True),                      2, True),
)  # fmt: skip


def _rows() -> Iterator[VectorRow]:
    for name, funct6, text, f in SATURATING:
        for category, letter, other, _ in forms(text):
            yield f"{name}.v{letter}", pattern(funct6, category), f"vd, vs2, {other}[, vm]", saturating(f, letter)
    for name, funct6, text, g, of, saturates in ROUNDING:
        for category, letter, other, bits in forms(text):
            semantics = rounding(g, letter, of=of, saturates=saturates)
            yield f"{name}{letter}", pattern(funct6, category, first=bits), f"vd, vs2, {other}[, vm]", semantics


FIXED: Final = section(_rows())
