"""Integer arithmetic of vectors, one element as wide as the other or not (V 1.0, chapter 11).

Functions of elements have vs2 first, then vs1 (rs1, imm), then what vd holds: ``vsub`` is a - b.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import add, and_, mul, ne, or_, sub, xor
from typing import Final

from understudy.isa.riscv.insn import Insn
from understudy.isa.riscv.muldiv import div, divu, rem, remu
from understudy.isa.riscv.vector.algebra import VectorMeaning, VectorOps
from understudy.isa.riscv.vector.groups import V0, Mask, Source, check
from understudy.isa.riscv.vector.rows import (
    VectorRow,
    element,
    first_operand,
    group,
    is_masked,
    operand,
    own,
    pattern,
    section,
)
from understudy.isa.riscv.word import Word

OnWords = Callable[..., Word]


# ---- shapes --------------------------------------------------------------------------------------------------------


def arith(f: OnWords, kind: str, *, to: int = 1, of: int = 1, accumulates: bool = False) -> VectorMeaning:
    """vd = f(vs2, other), and of vd too where it `accumulates`; `to` and `of`: widths of vd and vs2 in SEW."""

    def meaning(o: VectorOps, i: Insn) -> None:
        t = o.vector()
        dest = group(i.rd, t, to * t.sew)
        sources: tuple[Source, ...] = (group(i.rs2, t, of * t.sew), operand(o, i, t, kind))
        check(dest, sources, is_masked(i))
        if accumulates:
            sources += (dest,)
        o.v_map(dest, sources, element(f, sources), is_masked(i))

    return meaning


def compare(f: OnWords, kind: str) -> VectorMeaning:
    """Mask vd = f(vs2, other)."""

    def meaning(o: VectorOps, i: Insn) -> None:
        t = o.vector()
        dest = Mask(i.rd)
        sources = (group(i.rs2, t, t.sew), operand(o, i, t, kind))
        check(dest, sources, masked=False)
        o.v_map(dest, sources, element(f, sources), is_masked(i))

    return meaning


def with_carry(f: OnWords, kind: str) -> VectorMeaning:
    """vd = f(vs2, other, v0) of every element."""

    def meaning(o: VectorOps, i: Insn) -> None:
        t = o.vector()
        sources = (group(i.rs2, t, t.sew), operand(o, i, t, kind), V0)
        check(own(i, t), sources, masked=True)
        o.v_map(own(i, t), sources, element(f, sources), masked=False)

    return meaning


def carry_out(f: OnWords, kind: str, with_v0: bool) -> VectorMeaning:
    """Mask vd = f(vs2, other) or f(vs2, other, v0) of every element."""

    def meaning(o: VectorOps, i: Insn) -> None:
        t = o.vector()
        sources: tuple[Source, ...] = (group(i.rs2, t, t.sew), operand(o, i, t, kind))
        check(Mask(i.rd), sources, masked=False)
        if with_v0:
            sources += (V0,)
        o.v_map(Mask(i.rd), sources, element(f, sources), masked=False)

    return meaning


def extend(part: int, signed: bool) -> VectorMeaning:
    """vd = vs2, whose elements have SEW / `part` bits, extended."""

    def meaning(o: VectorOps, i: Insn) -> None:
        t = o.vector()
        sources = (group(i.rs2, t, t.sew // part),)
        check(own(i, t), sources, is_masked(i))
        f = _widened(t.sew, signed)
        o.v_map(own(i, t), sources, element(f, sources), is_masked(i))

    return meaning


def move(kind: str) -> VectorMeaning:
    """vd = other."""

    def meaning(o: VectorOps, i: Insn) -> None:
        t = o.vector()
        sources = (operand(o, i, t, kind),)
        check(own(i, t), sources, masked=False)
        o.v_map(own(i, t), sources, element(same, sources), masked=False)

    return meaning


# ---- functions of elements -----------------------------------------------------------------------------------------


def same(a: Word) -> Word:
    """The element itself."""
    return a


_WIDENED: Final = {(w, s): (lambda a, w=w, s=s: a.extended(w, s)) for w in (8, 16, 32, 64) for s in (False, True)}


def _widened(width: int, signed: bool) -> OnWords:
    return _WIDENED[width, signed]


def wide(f: OnWords, first: bool, second: bool, *, of: int = 1) -> OnWords:
    """`f` of operands widened twice, each with its sign or not; `of` 2: the first one is wide already."""

    def g(a: Word, b: Word, *d: Word) -> Word:
        return f(a if of == 2 else a.extended(2 * a.width, first), b.extended(2 * b.width, second), *d)

    return g


def high(first: bool, second: bool) -> OnWords:
    """The upper half of the product."""

    def product(a: Word, b: Word) -> Word:
        w = a.width
        return (a.extended(2 * w, first) * b.extended(2 * w, second) >> w).trunc(w)

    return product


def shift(f: OnWords) -> OnWords:
    """f(a, b modulo the width of a); b may be narrower, and so is the result then."""
    return lambda a, b: f(a, b.zext(a.width) & a.width - 1).trunc(b.width)


def swapped(f: OnWords) -> OnWords:
    """f(b, a)."""
    return lambda a, b: f(b, a)


def negated(f: OnWords) -> OnWords:
    """The opposite of a test."""
    return lambda a, b: ~f(a, b)


def below(a: Word, b: Word) -> Word:
    """Unsigned a < b."""
    return a < b


def less(a: Word, b: Word) -> Word:
    """Signed a < b."""
    return a.slt(b)


def equal(a: Word, b: Word) -> Word:
    """a == b."""
    return a == b


def least(test: OnWords) -> OnWords:
    """The smaller one by `test`."""
    return lambda a, b: test(a, b).select(a, b)


def most(test: OnWords) -> OnWords:
    """The larger one by `test`."""
    return lambda a, b: test(a, b).select(b, a)


def carry_of(a: Word, b: Word, c: Word | None = None) -> Word:
    """Whether a + b + c leaves the width."""
    total = a + b
    over = total < a
    return over if c is None else over | (total + c.zext(a.width) < total)


def borrow_of(a: Word, b: Word, c: Word | None = None) -> Word:
    """Whether a - b - c is below zero."""
    under = a < b
    return under if c is None else under | (a - b < c.zext(a.width))


# ---- tables --------------------------------------------------------------------------------------------------------

SAME_WIDTH: Final[tuple[tuple[str, str, str, OnWords], ...]] = (
    # name      funct6    forms          f(vs2, other)
    ("vadd",    "000000", "ivv ivx ivi", add),
    ("vsub",    "000010", "ivv ivx",     sub),
    ("vrsub",   "000011", "ivx ivi",     swapped(sub)),
    ("vminu",   "000100", "ivv ivx",     least(below)),
    ("vmin",    "000101", "ivv ivx",     least(less)),
    ("vmaxu",   "000110", "ivv ivx",     most(below)),
    ("vmax",    "000111", "ivv ivx",     most(less)),
    ("vand",    "001001", "ivv ivx ivi", and_),
    ("vor",     "001010", "ivv ivx ivi", or_),
    ("vxor",    "001011", "ivv ivx ivi", xor),
    ("vsll",    "100101", "ivv ivx ivu", shift(lambda a, n: a << n)),
    ("vsrl",    "101000", "ivv ivx ivu", shift(lambda a, n: a >> n)),
    ("vsra",    "101001", "ivv ivx ivu", shift(lambda a, n: a.sra(n))),
    ("vdivu",   "100000", "mvv mvx",     divu),
    ("vdiv",    "100001", "mvv mvx",     div),
    ("vremu",   "100010", "mvv mvx",     remu),
    ("vrem",    "100011", "mvv mvx",     rem),
    ("vmulhu",  "100100", "mvv mvx",     high(False, False)),
    ("vmul",    "100101", "mvv mvx",     mul),
    ("vmulhsu", "100110", "mvv mvx",     high(True, False)),
    ("vmulh",   "100111", "mvv mvx",     high(True, True)),
)  # fmt: skip

ACCUMULATING: Final[tuple[tuple[str, str, OnWords], ...]] = (
    # name     funct6    f(vs2, other, vd)
    ("vmadd",  "101001", lambda a, b, d: b * d + a),
    ("vnmsub", "101011", lambda a, b, d: a - b * d),
    ("vmacc",  "101101", lambda a, b, d: b * a + d),
    ("vnmsac", "101111", lambda a, b, d: d - b * a),
)  # fmt: skip

COMPARISONS: Final[tuple[tuple[str, str, str, OnWords], ...]] = (
    ("vmseq",  "011000", "ivv ivx ivi", equal),
    ("vmsne",  "011001", "ivv ivx ivi", ne),
    ("vmsltu", "011010", "ivv ivx",     below),
    ("vmslt",  "011011", "ivv ivx",     less),
    ("vmsleu", "011100", "ivv ivx ivi", negated(swapped(below))),
    ("vmsle",  "011101", "ivv ivx ivi", negated(swapped(less))),
    ("vmsgtu", "011110", "ivx ivi",     swapped(below)),
    ("vmsgt",  "011111", "ivx ivi",     swapped(less)),
)  # fmt: skip

WIDENING: Final[tuple[tuple[str, str, str, OnWords, bool, bool], ...]] = (
    # name      funct6    forms      f of wide operands, signs of vs2 and of the other
    ("vwaddu",  "110000", "mvv mvx", add, False, False),
    ("vwadd",   "110001", "mvv mvx", add, True, True),
    ("vwsubu",  "110010", "mvv mvx", sub, False, False),
    ("vwsub",   "110011", "mvv mvx", sub, True, True),
    ("vwmulu",  "111000", "mvv mvx", mul, False, False),
    ("vwmulsu", "111010", "mvv mvx", mul, True, False),
    ("vwmul",   "111011", "mvv mvx", mul, True, True),
)  # fmt: skip

WIDE_FIRST: Final[tuple[tuple[str, str, OnWords, bool], ...]] = (
    ("vwaddu", "110100", add, False),
    ("vwadd",  "110101", add, True),
    ("vwsubu", "110110", sub, False),
    ("vwsub",  "110111", sub, True),
)  # fmt: skip

WIDENING_ACCUMULATING: Final[tuple[tuple[str, str, str, bool, bool], ...]] = (
    ("vwmaccu",  "111100", "mvv mvx", False, False),
    ("vwmacc",   "111101", "mvv mvx", True, True),
    ("vwmaccus", "111110", "mvx",     True, False),
    ("vwmaccsu", "111111", "mvv mvx", False, True),
)  # fmt: skip


def forms(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Category, its letter, the operand text and what the pattern has for it; "ivu" has an unsigned immediate."""
    for form in text.split():
        category = "ivi" if form == "ivu" else form
        yield category, category[-1], first_operand(category), "uimm[4:0]" if form == "ivu" else ""


def _rows() -> Iterator[VectorRow]:
    for name, funct6, text, f in SAME_WIDTH:
        for category, letter, other, bits in forms(text):
            yield (
                f"{name}.v{letter}",
                pattern(funct6, category, first=bits),
                f"vd, vs2, {other}[, vm]",
                arith(f, letter),
            )
    for name, funct6, f in ACCUMULATING:
        for category, letter, other, _ in forms("mvv mvx"):
            meaning = arith(f, letter, accumulates=True)
            yield f"{name}.v{letter}", pattern(funct6, category), f"vd, {other}, vs2[, vm]", meaning
    for name, funct6, text, f in COMPARISONS:
        for category, letter, other, _ in forms(text):
            yield f"{name}.v{letter}", pattern(funct6, category), f"vd, vs2, {other}[, vm]", compare(f, letter)
    for name, funct6, text, f, first, second in WIDENING:
        for category, letter, other, _ in forms(text):
            meaning = arith(wide(f, first, second), letter, to=2)
            yield f"{name}.v{letter}", pattern(funct6, category), f"vd, vs2, {other}[, vm]", meaning
    for name, funct6, f, signed in WIDE_FIRST:
        for category, letter, other, _ in forms("mvv mvx"):
            meaning = arith(wide(f, signed, signed, of=2), letter, to=2, of=2)
            yield f"{name}.w{letter}", pattern(funct6, category), f"vd, vs2, {other}[, vm]", meaning
    for name, funct6, text, first, second in WIDENING_ACCUMULATING:
        for category, letter, other, _ in forms(text):
            meaning = arith(wide(lambda a, b, d: a * b + d, first, second), letter, to=2, accumulates=True)
            yield f"{name}.v{letter}", pattern(funct6, category), f"vd, {other}, vs2[, vm]", meaning
    for name, funct6, f in (("vnsrl", "101100", shift(lambda a, n: a >> n)), ("vnsra", "101101", _SRA)):
        for category, letter, other, bits in forms("ivv ivx ivu"):
            meaning = arith(f, letter, of=2)
            yield f"{name}.w{letter}", pattern(funct6, category, first=bits), f"vd, vs2, {other}[, vm]", meaning
    yield from _carries()
    for part in (8, 4, 2):
        for signed in (False, True):
            code = f"00{ {8: '01', 4: '10', 2: '11'}[part] }{int(signed)}"
            name = f"v{'s' if signed else 'z'}ext.vf{part}"
            yield name, pattern("010010", "mvv", first=code), "vd, vs2[, vm]", extend(part, signed)


_SRA: Final[OnWords] = shift(lambda a, n: a.sra(n))


def _carries() -> Iterator[VectorRow]:
    for name, funct6, text, f in (
        ("vadc", "010000", "ivv ivx ivi", lambda a, b, c: a + b + c.zext(a.width)),
        ("vsbc", "010010", "ivv ivx", lambda a, b, c: a - b - c.zext(a.width)),
        ("vmerge", "010111", "ivv ivx ivi", lambda a, b, c: c.select(b, a)),
    ):
        for category, letter, other, _ in forms(text):
            bits = pattern(funct6, category, vm="0")
            yield f"{name}.v{letter}m", bits, f"vd, vs2, {other}, v0", with_carry(f, letter)
    for name, funct6, text, g in (
        ("vmadc", "010001", "ivv ivx ivi", carry_of),
        ("vmsbc", "010011", "ivv ivx", borrow_of),
    ):
        for category, letter, other, _ in forms(text):
            masked, plain = pattern(funct6, category, vm="0"), pattern(funct6, category, vm="1")
            yield f"{name}.v{letter}m", masked, f"vd, vs2, {other}, v0", carry_out(g, letter, with_v0=True)
            yield f"{name}.v{letter}", plain, f"vd, vs2, {other}", carry_out(g, letter, with_v0=False)
    for category, letter, other, _ in forms("ivv ivx ivi"):
        bits = pattern("010111", category, vm="1", vs2="00000")
        yield f"vmv.v.{letter}", bits, f"vd, {other}", move(letter)


INTEGER: Final = section(_rows())
