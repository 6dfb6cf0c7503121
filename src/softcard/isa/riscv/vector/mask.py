"""Instructions on masks, and reductions (V 1.0, chapters 15 and 14)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import add, and_, or_, xor
from typing import Final

from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.vector import rules
from softcard.isa.riscv.vector.algebra import VectorOps, VectorSemantics
from softcard.isa.riscv.vector.floating import DYNAMIC, OnFloats, begin, on_bits
from softcard.isa.riscv.vector.groups import INDEX, Before, Group, Mask, Scalar, check, check_group
from softcard.isa.riscv.vector.integer import below, least, less, most, same
from softcard.isa.riscv.vector.rows import (
    VectorRow,
    element,
    float_format,
    group,
    is_masked,
    own,
    pattern,
    section,
)
from softcard.isa.riscv.word import Word


def logical(f: Callable[[Word, Word], Word]) -> VectorSemantics:
    """Return the semantics of a logical mask operation: vd = f(vs2, vs1), bit by bit."""

    def semantics(o: VectorOps, i: Insn) -> None:
        o.vector()
        sources = (Mask(i.rs2), Mask(i.rs1))
        o.v_map(Mask(i.rd), sources, element(f, sources), masked=False)

    return semantics


def count(o: VectorOps, i: Insn) -> None:
    """Execute vcpop.m: rd = the number of active mask bits that are 1."""
    o.vector()
    o.set_x(i.rd, o.v_count(Mask(i.rs2), is_masked(i)))


def first(o: VectorOps, i: Insn) -> None:
    """Execute vfirst.m: rd = the index of the first active mask bit that is 1, or -1."""
    o.vector()
    o.set_x(i.rd, o.v_find(Mask(i.rs2), is_masked(i)))


Seen = Callable[[Word, Word], Word]


def around_first(f: Seen) -> VectorSemantics:
    """Return the semantics of vmsbf, vmsif or vmsof, which set bits of mask vd around the first 1 bit of vs2.

    Each bit of vd becomes f(seen, same bit of vs2), where seen is 1 if an earlier bit of vs2 is 1."""

    def g(before: Word, bit: Word) -> Word:
        return f(before != 0, bit)

    def semantics(o: VectorOps, i: Insn) -> None:
        o.vector()
        dest, mask = Mask(i.rd), Mask(i.rs2)
        others = (mask, Mask(0)) if is_masked(i) else (mask,)
        check(dest, others, masked=False, no_overlap=rules.AROUND_FIRST_OVERLAP)
        sources = Before(mask, is_masked(i), 32), mask
        o.v_map(dest, sources, element(g, sources), is_masked(i))

    return semantics


def iota(o: VectorOps, i: Insn) -> None:
    """Execute viota.m: each element of vd = the number of bits of vs2 before that element that are 1."""
    t = o.vector()
    dest, mask = own(i, t), Mask(i.rs2)
    check(dest, (mask,), is_masked(i), no_overlap=rules.IOTA_OVERLAP)
    sources = (Before(mask, is_masked(i), t.sew),)
    o.v_map(dest, sources, element(same, sources), is_masked(i))


def identity(o: VectorOps, i: Insn) -> None:
    """Execute vid.v: vd = the index of each element."""
    t = o.vector()
    dest = own(i, t)
    check(dest, (), is_masked(i))
    o.v_map(dest, (INDEX,), element(_LOW[t.sew], (INDEX,)), is_masked(i))


_LOW: Final = {w: (lambda k, w=w: k.to(w)) for w in (8, 16, 32, 64)}


LOGICAL: Final[tuple[tuple[str, str, Callable[[Word, Word], Word]], ...]] = (
    ("vmandn", "011000", lambda a, b: a & ~b),
    ("vmand",  "011001", lambda a, b: a & b),
    ("vmor",   "011010", lambda a, b: a | b),
    ("vmxor",  "011011", lambda a, b: a ^ b),
    ("vmorn",  "011100", lambda a, b: a | ~b),
    ("vmnand", "011101", lambda a, b: ~(a & b)),
    ("vmnor",  "011110", lambda a, b: ~(a | b)),
    ("vmxnor", "011111", lambda a, b: ~(a ^ b)),
)  # fmt: skip

AROUND_FIRST: Final[tuple[tuple[str, str, Seen], ...]] = (
    ("vmsbf", "00001", lambda seen, bit: ~(seen | bit)),
    ("vmsof", "00010", lambda seen, bit: ~seen & bit),
    ("vmsif", "00011", lambda seen, bit: ~seen),
)  # fmt: skip


def _rows() -> Iterator[VectorRow]:
    for name, funct6, f in LOGICAL:
        yield f"{name}.mm", pattern(funct6, "mvv", vm="1"), "vd, vs2, vs1", logical(f)
    yield "vcpop.m", pattern("010000", "mvv", first="10000", vd="rd"), "rd, vs2[, vm]", count
    yield "vfirst.m", pattern("010000", "mvv", first="10001", vd="rd"), "rd, vs2[, vm]", first
    for name, code, f in AROUND_FIRST:
        yield f"{name}.m", pattern("010100", "mvv", first=code), "vd, vs2[, vm]", around_first(f)
    yield "viota.m", pattern("010100", "mvv", first="10000"), "vd, vs2[, vm]", iota
    yield "vid.v", pattern("010100", "mvv", first="10001", vs2="00000"), "vd[, vm]", identity


MASK: Final = section(_rows())


# ---- reductions ------------------------------------------------------------------------------------------------------
# They combine element 0 of vs1 and all elements of vs2 into element 0 of vd (V 1.0, chapter 14).
#
# Sums of floats are always computed in the order of the elements, also for the instructions for which the V
# specification leaves the order open.


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


def _reduction_rows(table: tuple[tuple[str, str, str, VectorSemantics], ...]) -> Iterator[VectorRow]:
    for name, funct6, category, semantics in table:
        yield f"{name}.vs", pattern(funct6, category), "vd, vs2, vs1[, vm]", semantics


REDUCTION: Final = section(_reduction_rows(INTEGERS)) + section(_reduction_rows(FLOATS), "Zve64d")
