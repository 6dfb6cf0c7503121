"""Floating-point arithmetic of vectors (V 1.0, chapter 13), with the rounding mode frm.

Functions of elements have the parameters vs2, then vs1 (fs1), then the old vd: in ``vfsub``, a - b is vs2 - vs1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

from softcard.isa.riscv.algebra import ROUND_TO_ODD, Float
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.vector.algebra import VectorOps, VectorSemantics
from softcard.isa.riscv.vector.groups import V0, Group, Mask, Source, check
from softcard.isa.riscv.vector.integer import forms, same
from softcard.isa.riscv.vector.rows import (
    Element,
    VectorRow,
    element,
    float_format,
    group,
    is_masked,
    operand,
    own,
    pattern,
    section,
)
from softcard.isa.riscv.vector.vtype import VType
from softcard.isa.riscv.word import Word
from softcard.isa.word import Value

DYNAMIC: Final = 7
TOWARDS_ZERO: Final = 1
OnFloats = Callable[..., Float]
"""A function of floats, with the parameters (o, format, floats)."""
Converted = Callable[..., Value]
"""A conversion function, with the parameters (o, value, width of the result, width of the operand)."""


def begin(o: VectorOps) -> VType:
    """Begin a vector float instruction: check that floats and vtype permit it. Return vtype."""
    t = o.vector()
    o.vector_float()
    return t


# ---- shapes --------------------------------------------------------------------------------------------------------


@cache
def on_bits(f: OnFloats, fmt: str, wide: tuple[bool, ...]) -> Element:
    """Convert a function of floats to a function of bit patterns; `fmt` is the format in which it computes.

    Operands whose flag in `wide` is False have half the width of that format, and are widened first."""

    def g(o: VectorOps, *bits: Value) -> Value:
        floats = [_float(o, fmt, value, is_wide) for value, is_wide in zip(bits, wide, strict=True)]
        return o.f_bits(fmt, f(o, fmt, *floats))

    return g


def _float(o: VectorOps, fmt: str, bits: Value, is_wide: bool) -> Float:
    if is_wide:
        return o.f_from_bits(fmt, bits)
    return o.f_to_f(fmt, "s", o.f_from_bits("s", bits), DYNAMIC)


def arith(f: OnFloats, kind: str, *, to: int = 1, of: int = 1, accumulates: bool = False) -> VectorSemantics:
    """Return the semantics of vd = f(vs2, other), or of vd = f(vs2, other, vd) if `accumulates`.

    `to` and `of` are the element widths of vd and vs2 in units of SEW; `kind` selects the other operand.
    """

    def semantics(o: VectorOps, i: Insn) -> None:
        t = begin(o)
        float_format(t.sew)
        fmt = float_format(to * t.sew)
        dest = group(i.rd, t, to * t.sew)
        sources: tuple[Source, ...] = (group(i.rs2, t, of * t.sew), operand(o, i, t, kind))
        check(dest, sources, is_masked(i))
        if accumulates:
            sources += (dest,)
        g = on_bits(f, fmt, tuple(source.width == dest.width for source in sources))
        o.v_map(dest, sources, g, is_masked(i))

    return semantics


def unary(f: OnFloats) -> VectorSemantics:
    """Return the semantics of vd = f(vs2)."""

    def semantics(o: VectorOps, i: Insn) -> None:
        t = begin(o)
        fmt = float_format(t.sew)
        sources = (group(i.rs2, t, t.sew),)
        check(own(i, t), sources, is_masked(i))
        o.v_map(own(i, t), sources, on_bits(f, fmt, (True,)), is_masked(i))

    return semantics


def sign(f: Callable[[Word, Word], Word], kind: str) -> VectorSemantics:
    """Return the semantics of a sign injection: vd = vs2 with the sign bit of f(vs2, other).

    `kind` selects the other operand."""

    def signed(a: Word, b: Word) -> Word:
        return a[a.width - 2 : 0] | f(a, b) & 1 << a.width - 1

    def semantics(o: VectorOps, i: Insn) -> None:
        t = begin(o)
        float_format(t.sew)
        sources = (group(i.rs2, t, t.sew), operand(o, i, t, kind))
        check(own(i, t), sources, is_masked(i))
        o.v_map(own(i, t), sources, element(signed, sources), is_masked(i))

    return semantics


def compare(f: Callable[..., Value], kind: str) -> VectorSemantics:
    """Return the semantics of a comparison: mask vd = f(vs2, other); `kind` selects the other operand."""

    @cache
    def on(fmt: str) -> Element:
        return lambda o, a, b: f(o, fmt, o.f_from_bits(fmt, a), o.f_from_bits(fmt, b))

    def semantics(o: VectorOps, i: Insn) -> None:
        t = begin(o)
        fmt = float_format(t.sew)
        sources = (group(i.rs2, t, t.sew), operand(o, i, t, kind))
        check(Mask(i.rd), sources, masked=False)
        o.v_map(Mask(i.rd), sources, on(fmt), is_masked(i))

    return semantics


def classify(o: VectorOps, i: Insn) -> None:
    """Execute vfclass.v: vd = the class mask of vs2."""
    t = begin(o)
    fmt, w = float_format(t.sew), t.sew
    sources = (group(i.rs2, t, w),)
    check(own(i, t), sources, is_masked(i))

    def f(o: VectorOps, a: Value) -> Value:
        kind = o.fclass(fmt, o.f_from_bits(fmt, a))
        return kind if w == 64 else o.trunc(w, 64, kind)

    o.v_map(own(i, t), sources, f, is_masked(i))


def convert(f: Converted, to: int, of: int, floats: str) -> VectorSemantics:
    """Return the semantics of a conversion: vd = f(vs2).

    `to` and `of` are the element widths of vd and vs2 in units of SEW. `floats` states which operands are floats:
    "to" (vd), "of" (vs2), or both names separated by a space."""

    @cache
    def on(wide: int, narrow: int) -> Element:
        return lambda o, a: f(o, a, wide, narrow)

    def semantics(o: VectorOps, i: Insn) -> None:
        t = begin(o)
        dest, source = group(i.rd, t, to * t.sew), group(i.rs2, t, of * t.sew)
        for each, name in ((dest, "to"), (source, "of")):
            if name in floats.split():
                float_format(each.width)
        check(dest, (source,), is_masked(i))
        o.v_map(dest, (source,), on(dest.width, source.width), is_masked(i))

    return semantics


def move(o: VectorOps, i: Insn) -> None:
    """Execute vfmv.v.f: vd = fs1."""
    t = begin(o)
    sources = (operand(o, i, t, "f"),)
    check(own(i, t), sources, masked=False)
    o.v_map(own(i, t), sources, element(same, sources), masked=False)


def merge(o: VectorOps, i: Insn) -> None:
    """Execute vfmerge.vfm: vd = fs1 where v0 is 1, else vs2."""
    t = begin(o)
    sources = (group(i.rs2, t, t.sew), operand(o, i, t, "f"), V0)
    check(own(i, t), sources, masked=True)
    o.v_map(own(i, t), sources, element(choose, sources), masked=False)


def choose(a: Word, b: Word, c: Word) -> Word:
    """Return `b` if `c` is 1, else `a`."""
    return c.select(b, a)


def to_scalar(o: VectorOps, i: Insn) -> None:
    """Execute vfmv.f.s: fd = element 0 of vs2."""
    t = begin(o)
    fmt = float_format(t.sew)
    o.set_f(i.rd, fmt, o.f_from_bits(fmt, o.v_first(Group(i.rs2, t.sew, 0))))


def from_scalar(o: VectorOps, i: Insn) -> None:
    """Execute vfmv.s.f: element 0 of vd = fs1."""
    t = begin(o)
    fmt = float_format(t.sew)
    o.v_set_first(Group(i.rd, t.sew, 0), o.f_bits(fmt, o.f(i.rs1, fmt)))


# ---- functions of elements -----------------------------------------------------------------------------------------


def fused(times: int, plus: int, adds_vd: bool) -> OnFloats:
    """Return the function of a fused multiply-add, rounded once.

    With `adds_vd` it is times * (vs1 * vs2) + plus * vd, else times * (vs1 * vd) + plus * vs2.
    """

    def f(o: VectorOps, fmt: str, a: Float, b: Float, d: Float) -> Float:
        factor, addend = (a, d) if adds_vd else (d, a)
        b = o.fneg(fmt, b) if times < 0 else b
        addend = o.fneg(fmt, addend) if plus < 0 else addend
        return o.fma(fmt, b, factor, addend, DYNAMIC)

    return f


def _format(width: int) -> str:
    return "s" if width == 32 else "d"


def to_integer(signed: bool, rm: int) -> Converted:
    """Return the function that converts a float to an integer with rounding mode `rm`, saturating."""

    def f(o: VectorOps, a: Value, to: int, of: int) -> Value:
        fmt = _format(of)
        return o.f_to_int(to, signed, fmt, o.f_from_bits(fmt, a), rm)

    return f


def from_integer(signed: bool) -> Converted:
    """Return the function that converts an integer to a float."""

    def f(o: VectorOps, a: Value, to: int, of: int) -> Value:
        fmt = _format(to)
        return o.f_bits(fmt, o.int_to_f(fmt, of, signed, a, DYNAMIC))

    return f


def between(rm: int) -> Converted:
    """Return the function that converts a float between binary32 and binary64, with rounding mode `rm`."""

    def f(o: VectorOps, a: Value, to: int, of: int) -> Value:
        into, fmt = _format(to), _format(of)
        return o.f_bits(into, o.f_to_f(into, fmt, o.f_from_bits(fmt, a), rm))

    return f


# ---- tables --------------------------------------------------------------------------------------------------------

ARITHMETIC: Final[tuple[tuple[str, str, str, OnFloats], ...]] = (
    ("vfadd",  "000000", "fvv fvf", lambda o, t, a, b: o.fadd(t, a, b, DYNAMIC)),
    ("vfsub",  "000010", "fvv fvf", lambda o, t, a, b: o.fsub(t, a, b, DYNAMIC)),
    ("vfrsub", "100111", "fvf",     lambda o, t, a, b: o.fsub(t, b, a, DYNAMIC)),
    ("vfmul",  "100100", "fvv fvf", lambda o, t, a, b: o.fmul(t, a, b, DYNAMIC)),
    ("vfdiv",  "100000", "fvv fvf", lambda o, t, a, b: o.fdiv(t, a, b, DYNAMIC)),
    ("vfrdiv", "100001", "fvf",     lambda o, t, a, b: o.fdiv(t, b, a, DYNAMIC)),
    ("vfmin",  "000100", "fvv fvf", lambda o, t, a, b: o.fmin(t, a, b)),
    ("vfmax",  "000110", "fvv fvf", lambda o, t, a, b: o.fmax(t, a, b)),
)  # fmt: skip

FUSED: Final[tuple[tuple[str, str, OnFloats], ...]] = (
    ("vfmadd",  "101000", fused(1, 1, adds_vd=False)),
    ("vfnmadd", "101001", fused(-1, -1, adds_vd=False)),
    ("vfmsub",  "101010", fused(1, -1, adds_vd=False)),
    ("vfnmsub", "101011", fused(-1, 1, adds_vd=False)),
    ("vfmacc",  "101100", fused(1, 1, adds_vd=True)),
    ("vfnmacc", "101101", fused(-1, -1, adds_vd=True)),
    ("vfmsac",  "101110", fused(1, -1, adds_vd=True)),
    ("vfnmsac", "101111", fused(-1, 1, adds_vd=True)),
)  # fmt: skip

SIGNS: Final[tuple[tuple[str, str, Callable[[Word, Word], Word]], ...]] = (
    ("vfsgnj",  "001000", lambda a, b: b),
    ("vfsgnjn", "001001", lambda a, b: ~b),
    ("vfsgnjx", "001010", lambda a, b: a ^ b),
)  # fmt: skip

COMPARISONS: Final[tuple[tuple[str, str, str, Callable[..., Value]], ...]] = (
    ("vmfeq", "011000", "fvv fvf", lambda o, t, a, b: o.feq(t, a, b)),
    ("vmfle", "011001", "fvv fvf", lambda o, t, a, b: o.fle(t, a, b)),
    ("vmflt", "011011", "fvv fvf", lambda o, t, a, b: o.flt(t, a, b)),
    ("vmfne", "011100", "fvv fvf", lambda o, t, a, b: o.not1(o.feq(t, a, b))),
    ("vmfgt", "011101", "fvf",     lambda o, t, a, b: o.flt(t, b, a)),
    ("vmfge", "011111", "fvf",     lambda o, t, a, b: o.fle(t, b, a)),
)  # fmt: skip

WIDENING: Final[tuple[tuple[str, str, int, OnFloats, bool], ...]] = (
    # name        funct6    width of vs2, f, whether it accumulates
    ("vfwadd.v",   "110000", 1, lambda o, t, a, b: o.fadd(t, a, b, DYNAMIC), False),
    ("vfwsub.v",   "110010", 1, lambda o, t, a, b: o.fsub(t, a, b, DYNAMIC), False),
    ("vfwadd.w",   "110100", 2, lambda o, t, a, b: o.fadd(t, a, b, DYNAMIC), False),
    ("vfwsub.w",   "110110", 2, lambda o, t, a, b: o.fsub(t, a, b, DYNAMIC), False),
    ("vfwmul.v",   "111000", 1, lambda o, t, a, b: o.fmul(t, a, b, DYNAMIC), False),
    ("vfwmacc.v",  "111100", 1, fused(1, 1, adds_vd=True),   True),
    ("vfwnmacc.v", "111101", 1, fused(-1, -1, adds_vd=True), True),
    ("vfwmsac.v",  "111110", 1, fused(1, -1, adds_vd=True),  True),
    ("vfwnmsac.v", "111111", 1, fused(-1, 1, adds_vd=True),  True),
)  # fmt: skip

CONVERSIONS: Final[tuple[tuple[str, str, Converted, str], ...]] = (
    # name       low bits of the code, f, which ones are floats
    ("xu.f",     "000", to_integer(False, DYNAMIC),      "of"),
    ("x.f",      "001", to_integer(True, DYNAMIC),       "of"),
    ("f.xu",     "010", from_integer(False),             "to"),
    ("f.x",      "011", from_integer(True),              "to"),
    ("f.f",      "100", between(DYNAMIC),                "to of"),
    ("rod.f.f",  "101", between(ROUND_TO_ODD),           "to of"),
    ("rtz.xu.f", "110", to_integer(False, TOWARDS_ZERO), "of"),
    ("rtz.x.f",  "111", to_integer(True, TOWARDS_ZERO),  "of"),
)  # fmt: skip


def _rows() -> Iterator[VectorRow]:
    for name, funct6, text, f in ARITHMETIC:
        for category, letter, other, _ in forms(text):
            yield f"{name}.v{letter}", pattern(funct6, category), f"vd, vs2, {other}[, vm]", arith(f, letter)
    for name, funct6, f in FUSED:
        for category, letter, other, _ in forms("fvv fvf"):
            semantics = arith(f, letter, accumulates=True)
            yield f"{name}.v{letter}", pattern(funct6, category), f"vd, {other}, vs2[, vm]", semantics
    for name, funct6, g in SIGNS:
        for category, letter, other, _ in forms("fvv fvf"):
            yield f"{name}.v{letter}", pattern(funct6, category), f"vd, vs2, {other}[, vm]", sign(g, letter)
    for name, funct6, text, h in COMPARISONS:
        for category, letter, other, _ in forms(text):
            yield f"{name}.v{letter}", pattern(funct6, category), f"vd, vs2, {other}[, vm]", compare(h, letter)
    for name, funct6, of, f, accumulates in WIDENING:
        for category, letter, other, _ in forms("fvv fvf"):
            order = f"vd, {other}, vs2[, vm]" if accumulates else f"vd, vs2, {other}[, vm]"
            yield (
                name + letter,
                pattern(funct6, category),
                order,
                arith(f, letter, to=2, of=of, accumulates=accumulates),
            )
    for name, low, convert_element, floats in CONVERSIONS:
        if name not in ("f.f", "rod.f.f"):
            yield _unary(f"vfcvt.{name}.v", "010010", f"00{low}", convert(convert_element, 1, 1, floats))
        if name != "rod.f.f":
            yield _unary(f"vfwcvt.{name}.v", "010010", f"01{low}", convert(convert_element, 2, 1, floats))
        yield _unary(f"vfncvt.{name}.w", "010010", f"10{low}", convert(convert_element, 1, 2, floats))
    yield _unary("vfsqrt.v", "010011", "00000", unary(lambda o, t, a: o.fsqrt(t, a, DYNAMIC)))
    yield _unary("vfrsqrt7.v", "010011", "00100", unary(lambda o, t, a: o.frsqrt7(t, a)))
    yield _unary("vfrec7.v", "010011", "00101", unary(lambda o, t, a: o.frec7(t, a, DYNAMIC)))
    yield _unary("vfclass.v", "010011", "10000", classify)
    yield "vfmerge.vfm", pattern("010111", "fvf", vm="0"), "vd, vs2, fs1, v0", merge
    yield "vfmv.v.f", pattern("010111", "fvf", vm="1", vs2="00000"), "vd, fs1", move
    yield "vfmv.f.s", pattern("010000", "fvv", vm="1", first="00000", vd="rd"), "fd, vs2", to_scalar
    yield "vfmv.s.f", pattern("010000", "fvf", vm="1", vs2="00000"), "vd, fs1", from_scalar


def _unary(name: str, funct6: str, code: str, semantics: VectorSemantics) -> VectorRow:
    return name, pattern(funct6, "fvv", first=code), "vd, vs2[, vm]", semantics


REFERENCE_ONLY: Final = ("vfrsqrt7.v", "vfrec7.v", "vfncvt.rod.f.f.w")
"""The instructions that have no host counterpart: estimates by tables (V 1.0), and rounding to odd."""
FLOATING: Final = section(_rows(), "Zve64d", REFERENCE_ONLY)
