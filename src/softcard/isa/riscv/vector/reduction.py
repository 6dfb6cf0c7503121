"""Reductions: combine element 0 of vs1 and all elements of vs2 into element 0 of vd (V 1.0, chapter 14).

Sums of floats are always computed in the order of the elements, also for the instructions for which the V
specification leaves the order open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import add, and_, or_, xor
from typing import Final

from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.vector.algebra import VectorOps, VectorSemantics
from softcard.isa.riscv.vector.floating import DYNAMIC, OnFloats, begin, on_bits
from softcard.isa.riscv.vector.groups import Group, Scalar, check_group
from softcard.isa.riscv.vector.integer import below, least, less, most
from softcard.isa.riscv.vector.rows import (
    VectorRow,
    element,
    float_format,
    group,
    is_masked,
    pattern,
    section,
)
from softcard.isa.riscv.word import Word


def fold(
    f: Callable[[Word, Word], Word], neutral: Callable[[int], int], *, to: int = 1, signed: bool = False
) -> VectorSemantics:
    """Return the semantics of a reduction: vd[0] = f(... f(vs1[0], vs2[0]) ..., vs2[vl - 1]).

    `to` is the element width of vd and vs1 in units of SEW; elements of vs2 are extended to it, sign-extended
    if `signed`. `neutral` returns the neutral element of f for a width."""

    def semantics(o: VectorOps, i: Insn) -> None:
        t = o.vector()
        source, width = group(i.rs2, t, t.sew), to * t.sew
        dest = Group(i.rd, width, 0)
        check_group(source)
        check_group(dest)
        start = Scalar(width, o.v_first(Group(i.rs1, width, 0)))
        g = element(f, (start, start))
        o.v_set_first(dest, o.v_reduce(source, start, neutral(width), g, is_masked(i), signed=signed))

    return semantics


def fold_floats(f: OnFloats, *, to: int = 1) -> VectorSemantics:
    """Return the semantics of a float reduction: vd[0] = f(... f(vs1[0], vs2[0]) ..., vs2[vl - 1]).

    `to` is the element width of vd and vs1 in units of SEW.
    """

    def semantics(o: VectorOps, i: Insn) -> None:
        t = begin(o)
        source, width = group(i.rs2, t, t.sew), to * t.sew
        float_format(t.sew)
        check_group(source)
        g = on_bits(f, float_format(width), (True, to == 1))
        start = Scalar(width, o.v_first(Group(i.rs1, width, 0)))
        o.v_set_first(Group(i.rd, width, 0), o.v_fold(source, start, g, is_masked(i)))

    return semantics


SUM: Final[OnFloats] = lambda o, t, total, a: o.fadd(t, total, a, DYNAMIC)  # noqa: E731

NOTHING: Final[Callable[[int], int]] = lambda w: 0  # noqa: E731
ALL: Final[Callable[[int], int]] = lambda w: (1 << w) - 1  # noqa: E731
MOST: Final[Callable[[int], int]] = lambda w: (1 << w - 1) - 1  # noqa: E731
LEAST: Final[Callable[[int], int]] = lambda w: 1 << w - 1  # noqa: E731

INTEGERS: Final[tuple[tuple[str, str, str, VectorSemantics], ...]] = (
    ("vredsum",   "000000", "mvv", fold(add, NOTHING)),
    ("vredand",   "000001", "mvv", fold(and_, ALL)),
    ("vredor",    "000010", "mvv", fold(or_, NOTHING)),
    ("vredxor",   "000011", "mvv", fold(xor, NOTHING)),
    ("vredminu",  "000100", "mvv", fold(least(below), ALL)),
    ("vredmin",   "000101", "mvv", fold(least(less), MOST)),
    ("vredmaxu",  "000110", "mvv", fold(most(below), NOTHING)),
    ("vredmax",   "000111", "mvv", fold(most(less), LEAST)),
    ("vwredsumu", "110000", "ivv", fold(add, NOTHING, to=2)),
    ("vwredsum",  "110001", "ivv", fold(add, NOTHING, to=2, signed=True)),
)  # fmt: skip

FLOATS: Final[tuple[tuple[str, str, str, VectorSemantics], ...]] = (
    ("vfredusum",  "000001", "fvv", fold_floats(SUM)),
    ("vfredosum",  "000011", "fvv", fold_floats(SUM)),
    ("vfredmin",   "000101", "fvv", fold_floats(lambda o, t, total, a: o.fmin(t, total, a))),
    ("vfredmax",   "000111", "fvv", fold_floats(lambda o, t, total, a: o.fmax(t, total, a))),
    ("vfwredusum", "110001", "fvv", fold_floats(SUM, to=2)),
    ("vfwredosum", "110011", "fvv", fold_floats(SUM, to=2)),
)  # fmt: skip


def _rows(table: tuple[tuple[str, str, str, VectorSemantics], ...]) -> Iterator[VectorRow]:
    for name, funct6, category, semantics in table:
        yield f"{name}.vs", pattern(funct6, category), "vd, vs2, vs1[, vm]", semantics


REDUCTION: Final = section(_rows(INTEGERS)) + section(_rows(FLOATS), "Zve64d")
