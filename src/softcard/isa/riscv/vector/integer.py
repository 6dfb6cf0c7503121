"""Integer arithmetic of vectors, with equal or different element widths (V 1.0, chapter 11).

Functions of elements have the parameters vs2, then vs1 (rs1, imm), then the old vd: in ``vsub``, a - b is vs2 - vs1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import add, and_, mul, ne, or_, sub, xor
from typing import Final

from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.integer import div, divu, rem, remu
from softcard.isa.riscv.vector.algebra import VectorOps, VectorSemantics
from softcard.isa.riscv.vector.groups import V0, Mask, Source, check
from softcard.isa.riscv.vector.rows import (
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
from softcard.isa.riscv.word import Word

OnWords = Callable[..., Word]


# ---- shapes --------------------------------------------------------------------------------------------------------


def arith(f: OnWords, kind: str, *, to: int = 1, of: int = 1, accumulates: bool = False) -> VectorSemantics:
    """Return the semantics of vd = f(vs2, other), or of vd = f(vs2, other, vd) if `accumulates`.

    `to` and `of` are the element widths of vd and vs2 in units of SEW; `kind` selects the other operand.
    """

    def semantics(o: VectorOps, i: Insn) -> None:
        t = o.vector()
        dest = group(i.rd, t, to * t.sew)
        sources: tuple[Source, ...] = (group(i.rs2, t, of * t.sew), operand(o, i, t, kind))
        check(dest, sources, is_masked(i))
        if accumulates:
            sources += (dest,)
        o.v_map(dest, sources, element(f, sources), is_masked(i))

    return semantics


def compare(f: OnWords, kind: str) -> VectorSemantics:
    """Return the semantics of a comparison: mask vd = f(vs2, other); `kind` selects the other operand."""

    def semantics(o: VectorOps, i: Insn) -> None:
        t = o.vector()
        dest = Mask(i.rd)
        sources = (group(i.rs2, t, t.sew), operand(o, i, t, kind))
        check(dest, sources, masked=False)
        o.v_map(dest, sources, element(f, sources), is_masked(i))

    return semantics


def with_carry(f: OnWords, kind: str) -> VectorSemantics:
    """Return the semantics of an operation with carry: vd = f(vs2, other, v0), where v0 holds the carry bits.

    `kind` selects the other operand."""

    def semantics(o: VectorOps, i: Insn) -> None:
        t = o.vector()
        sources = (group(i.rs2, t, t.sew), operand(o, i, t, kind), V0)
        check(own(i, t), sources, masked=True)
        o.v_map(own(i, t), sources, element(f, sources), masked=False)

    return semantics


def carry_out(f: OnWords, kind: str, with_v0: bool) -> VectorSemantics:
    """Return the semantics of a carry-out: mask vd = f(vs2, other), or f(vs2, other, v0) if `with_v0`.

    All elements are computed, since v0 holds the carry bits and does not mask elements. `kind` selects the
    other operand."""

    def semantics(o: VectorOps, i: Insn) -> None:
        t = o.vector()
        sources: tuple[Source, ...] = (group(i.rs2, t, t.sew), operand(o, i, t, kind))
        check(Mask(i.rd), sources, masked=False)
        if with_v0:
            sources += (V0,)
        o.v_map(Mask(i.rd), sources, element(f, sources), masked=False)

    return semantics


def extend(part: int, signed: bool) -> VectorSemantics:
    """Return the semantics of an extension: vd = vs2, where elements of vs2 have SEW / `part` bits.

    Elements are sign-extended if `signed`, else zero-extended.
    """

    def semantics(o: VectorOps, i: Insn) -> None:
        t = o.vector()
        sources = (group(i.rs2, t, t.sew // part),)
        check(own(i, t), sources, is_masked(i))
        f = _widened(t.sew, signed)
        o.v_map(own(i, t), sources, element(f, sources), is_masked(i))

    return semantics


def move(kind: str) -> VectorSemantics:
    """Return the semantics of a move: vd = other; `kind` selects the other operand."""

    def semantics(o: VectorOps, i: Insn) -> None:
        t = o.vector()
        sources = (operand(o, i, t, kind),)
        check(own(i, t), sources, masked=False)
        o.v_map(own(i, t), sources, element(same, sources), masked=False)

    return semantics


# ---- functions of elements -----------------------------------------------------------------------------------------


def same(a: Word) -> Word:
    """Return the element `a` unchanged."""
    return a


_WIDENED: Final = {(w, s): (lambda a, w=w, s=s: a.extended(w, s)) for w in (8, 16, 32, 64) for s in (False, True)}


def _widened(width: int, signed: bool) -> OnWords:
    return _WIDENED[width, signed]


def wide(f: OnWords, first: bool, second: bool, *, of: int = 1) -> OnWords:
    """Return a function like `f` whose two operands are first extended to twice their width.

    `first` and `second` are True if the respective operand is signed. If `of` is 2, the first operand already has
    the double width."""

    def g(a: Word, b: Word, *d: Word) -> Word:
        return f(a if of == 2 else a.extended(2 * a.width, first), b.extended(2 * b.width, second), *d)

    return g


def high(first: bool, second: bool) -> OnWords:
    """Return the function of the upper half of a product.

    `first` and `second` are True if the respective operand is signed."""

    def product(a: Word, b: Word) -> Word:
        w = a.width
        return (a.extended(2 * w, first) * b.extended(2 * w, second) >> w).trunc(w)

    return product


def shift(f: OnWords) -> OnWords:
    """Return the function of a shift of a by b modulo the width of a; `f` is the plain shift.

    If b is narrower than a, the result is truncated to the width of b."""
    return lambda a, b: f(a, b.zext(a.width) & a.width - 1).trunc(b.width)


def swapped(f: OnWords) -> OnWords:
    """Return a function like `f` with its two operands exchanged."""
    return lambda a, b: f(b, a)


def negated(f: OnWords) -> OnWords:
    """Return the negation of the comparison `f`."""
    return lambda a, b: ~f(a, b)


def below(a: Word, b: Word) -> Word:
    """Return 1 (width 1) if a < b, unsigned."""
    return a < b


def less(a: Word, b: Word) -> Word:
    """Return 1 (width 1) if a < b, signed."""
    return a.slt(b)


def equal(a: Word, b: Word) -> Word:
    """Return 1 (width 1) if a == b."""
    return a == b


def least(test: OnWords) -> OnWords:
    """Return the function of the smaller operand, where `test` is the comparison "less than"."""
    return lambda a, b: test(a, b).select(a, b)


def most(test: OnWords) -> OnWords:
    """Return the function of the larger operand, where `test` is the comparison "less than"."""
    return lambda a, b: test(a, b).select(b, a)


def carry_of(a: Word, b: Word, c: Word | None = None) -> Word:
    """Return 1 if the unsigned sum a + b + c does not fit the width."""
    total = a + b
    over = total < a
    return over if c is None else over | (total + c.zext(a.width) < total)


def borrow_of(a: Word, b: Word, c: Word | None = None) -> Word:
    """Return 1 if a - b - c, unsigned, is below zero."""
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
    """Yield (category, its last letter, operand text, bit pattern of the operand) for each category named in `text`.

    The category is a key of `FUNCT3`. The name "ivu" stands for "ivi" with an unsigned immediate. The bit pattern
    is "" if it is the default one of the category."""
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
            semantics = arith(f, letter, accumulates=True)
            yield f"{name}.v{letter}", pattern(funct6, category), f"vd, {other}, vs2[, vm]", semantics
    for name, funct6, text, f in COMPARISONS:
        for category, letter, other, _ in forms(text):
            yield f"{name}.v{letter}", pattern(funct6, category), f"vd, vs2, {other}[, vm]", compare(f, letter)
    for name, funct6, text, f, first, second in WIDENING:
        for category, letter, other, _ in forms(text):
            semantics = arith(wide(f, first, second), letter, to=2)
            yield f"{name}.v{letter}", pattern(funct6, category), f"vd, vs2, {other}[, vm]", semantics
    for name, funct6, f, signed in WIDE_FIRST:
        for category, letter, other, _ in forms("mvv mvx"):
            semantics = arith(wide(f, signed, signed, of=2), letter, to=2, of=2)
            yield f"{name}.w{letter}", pattern(funct6, category), f"vd, vs2, {other}[, vm]", semantics
    for name, funct6, text, first, second in WIDENING_ACCUMULATING:
        for category, letter, other, _ in forms(text):
            semantics = arith(wide(lambda a, b, d: a * b + d, first, second), letter, to=2, accumulates=True)
            yield f"{name}.v{letter}", pattern(funct6, category), f"vd, {other}, vs2[, vm]", semantics
    for name, funct6, f in (("vnsrl", "101100", shift(lambda a, n: a >> n)), ("vnsra", "101101", _SRA)):
        for category, letter, other, bits in forms("ivv ivx ivu"):
            semantics = arith(f, letter, of=2)
            yield f"{name}.w{letter}", pattern(funct6, category, first=bits), f"vd, vs2, {other}[, vm]", semantics
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
