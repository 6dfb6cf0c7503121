"""F, D and Zfh: single-, double- and half-precision floats (ISA manual volume I, chapters "F", "D" and "Zfh").

One declaration serves all formats: `t` is the format, "s", "d" or "h", and `w` its width.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import xor
from typing import Final

from understudy.isa.riscv.algebra import Float, Ops
from understudy.isa.riscv.format import RowSource, address, get, low, put, section
from understudy.isa.riscv.insn import Insn, Meaning
from understudy.isa.riscv.word import Binary, Word, on_values
from understudy.isa.word import Value

Rounded = Callable[[Ops], Callable[[str, Float, Float, int], Float]]
Picked = Callable[[Ops], Callable[[str, Float, Float], Float]]
Compared = Callable[[Ops], Callable[[str, Float, Float], Value]]
"""These name an operation of the algebra."""


def arith(t: str, f: Rounded) -> Meaning:
    """rd = f(rs1, rs2), rounded."""
    return lambda o, i: o.set_f(i.rd, t, f(o)(t, o.f(i.rs1, t), o.f(i.rs2, t), i.rm))


def pick(t: str, f: Picked) -> Meaning:
    """rd = f(rs1, rs2), which is one of them."""
    return lambda o, i: o.set_f(i.rd, t, f(o)(t, o.f(i.rs1, t), o.f(i.rs2, t)))


def sqrt(t: str) -> Meaning:
    """rd = square root of rs1."""
    return lambda o, i: o.set_f(i.rd, t, o.fsqrt(t, o.f(i.rs1, t), i.rm))


def fused(t: str, times: int, plus: int) -> Meaning:
    """rd = times * (rs1 * rs2) + plus * rs3 with one rounding; `times` and `plus` are 1 or -1."""

    def meaning(o: Ops, i: Insn) -> None:
        a, b, c = o.f(i.rs1, t), o.f(i.rs2, t), o.f(i.rs3, t)
        a = o.fneg(t, a) if times < 0 else a
        c = o.fneg(t, c) if plus < 0 else c
        o.set_f(i.rd, t, o.fma(t, a, b, c, i.rm))

    return meaning


def sign(t: str, w: int, f: Binary) -> Meaning:
    """rd = rs1 with the top bit of f(bits of rs1, bits of rs2)."""

    def signed(a: Word, b: Word) -> Word:
        return a[w - 2 : 0] | f(a, b) & 1 << w - 1

    g = on_values(signed, w)

    def meaning(o: Ops, i: Insn) -> None:
        a, b = o.f_bits(t, o.f(i.rs1, t)), o.f_bits(t, o.f(i.rs2, t))
        o.set_f(i.rd, t, o.f_from_bits(t, g(o, a, b)))

    return meaning


def compare(t: str, f: Compared) -> Meaning:
    """rd = f(rs1, rs2), 0 or 1."""
    return lambda o, i: o.set_x(i.rd, o.zext(64, 1, f(o)(t, o.f(i.rs1, t), o.f(i.rs2, t))))


def classify(t: str) -> Meaning:
    """rd = the class mask of rs1."""
    return lambda o, i: o.set_x(i.rd, o.fclass(t, o.f(i.rs1, t)))


def to_int(t: str, w: int, *, signed: bool = True) -> Meaning:
    """rd = rs1 as a `w`-bit integer, sign-extended even where it is unsigned."""
    return lambda o, i: put(o, w, i.rd, o.f_to_int(w, signed, t, o.f(i.rs1, t), i.rm))


def from_int(t: str, w: int, *, signed: bool = True) -> Meaning:
    """rd = the integer in the low `w` bits of rs1, as a float."""
    return lambda o, i: o.set_f(i.rd, t, o.int_to_f(t, w, signed, get(o, w, i.rs1), i.rm))


def convert(to: str, t: str) -> Meaning:
    """rd = rs1 in the other format."""
    return lambda o, i: o.set_f(i.rd, to, o.f_to_f(to, t, o.f(i.rs1, t), i.rm))


def load(t: str, w: int) -> Meaning:
    """rd = memory[rs1 + imm], any bits."""
    return lambda o, i: o.set_f(i.rd, t, o.f_from_bits(t, o.load(w, address(o, i))))


def store(w: int) -> Meaning:
    """memory[rs1 + imm] = the low bits of rs2, NaN-boxed or not."""
    return lambda o, i: o.store(w, address(o, i), low(o, w, o.f_raw(i.rs2)))


def to_bits(w: int) -> Meaning:
    """rd = the low bits of rs1, as they are, sign-extended."""
    return lambda o, i: put(o, w, i.rd, low(o, w, o.f_raw(i.rs1)))


def from_bits(t: str, w: int) -> Meaning:
    """rd = the low bits of rs1, as they are."""
    return lambda o, i: o.set_f(i.rd, t, o.f_from_bits(t, get(o, w, i.rs1)))


def rows(t: str, w: int, x: str, f: str, width: str) -> tuple[RowSource, ...]:
    """All instructions of one format: `x` names its raw bits, `f` and `width` are its codes in the encoding."""
    never_rounds = "[, exact]" if t == "d" else "[, rm]"
    return (
        (f"fl{x}",       f"imm[11:0]     rs1 {width} rd       0000111", "fd, imm(rs1)",  load(t, w)),
        (f"fs{x}",       f"imm[11:5] rs2 rs1 {width} imm[4:0] 0100111", "fs2, imm(rs1)", store(w)),

        (f"fmadd.{t}",   f"rs3  {f} rs2   rs1 rm  rd 1000011", "fd, fs1, fs2, fs3[, rm]", fused(t, 1, 1)),
        (f"fmsub.{t}",   f"rs3  {f} rs2   rs1 rm  rd 1000111", "fd, fs1, fs2, fs3[, rm]", fused(t, 1, -1)),
        (f"fnmsub.{t}",  f"rs3  {f} rs2   rs1 rm  rd 1001011", "fd, fs1, fs2, fs3[, rm]", fused(t, -1, 1)),
        (f"fnmadd.{t}",  f"rs3  {f} rs2   rs1 rm  rd 1001111", "fd, fs1, fs2, fs3[, rm]", fused(t, -1, -1)),

        (f"fadd.{t}",    f"00000{f} rs2   rs1 rm  rd 1010011", "fd, fs1, fs2[, rm]", arith(t, lambda o: o.fadd)),
        (f"fsub.{t}",    f"00001{f} rs2   rs1 rm  rd 1010011", "fd, fs1, fs2[, rm]", arith(t, lambda o: o.fsub)),
        (f"fmul.{t}",    f"00010{f} rs2   rs1 rm  rd 1010011", "fd, fs1, fs2[, rm]", arith(t, lambda o: o.fmul)),
        (f"fdiv.{t}",    f"00011{f} rs2   rs1 rm  rd 1010011", "fd, fs1, fs2[, rm]", arith(t, lambda o: o.fdiv)),
        (f"fsqrt.{t}",   f"01011{f} 00000 rs1 rm  rd 1010011", "fd, fs1[, rm]", sqrt(t)),
        (f"fmin.{t}",    f"00101{f} rs2   rs1 000 rd 1010011", "fd, fs1, fs2", pick(t, lambda o: o.fmin)),
        (f"fmax.{t}",    f"00101{f} rs2   rs1 001 rd 1010011", "fd, fs1, fs2", pick(t, lambda o: o.fmax)),

        (f"fsgnj.{t}",   f"00100{f} rs2   rs1 000 rd 1010011", "fd, fs1, fs2", sign(t, w, lambda a, b: b)),
        (f"fsgnjn.{t}",  f"00100{f} rs2   rs1 001 rd 1010011", "fd, fs1, fs2", sign(t, w, lambda a, b: ~b)),
        (f"fsgnjx.{t}",  f"00100{f} rs2   rs1 010 rd 1010011", "fd, fs1, fs2", sign(t, w, xor)),

        (f"fle.{t}",     f"10100{f} rs2   rs1 000 rd 1010011", "rd, fs1, fs2", compare(t, lambda o: o.fle)),
        (f"flt.{t}",     f"10100{f} rs2   rs1 001 rd 1010011", "rd, fs1, fs2", compare(t, lambda o: o.flt)),
        (f"feq.{t}",     f"10100{f} rs2   rs1 010 rd 1010011", "rd, fs1, fs2", compare(t, lambda o: o.feq)),
        (f"fclass.{t}",  f"11100{f} 00000 rs1 001 rd 1010011", "rd, fs1", classify(t)),

        (f"fcvt.w.{t}",  f"11000{f} 00000 rs1 rm  rd 1010011", "rd, fs1[, rm]", to_int(t, 32)),
        (f"fcvt.wu.{t}", f"11000{f} 00001 rs1 rm  rd 1010011", "rd, fs1[, rm]", to_int(t, 32, signed=False)),
        (f"fcvt.l.{t}",  f"11000{f} 00010 rs1 rm  rd 1010011", "rd, fs1[, rm]", to_int(t, 64)),
        (f"fcvt.lu.{t}", f"11000{f} 00011 rs1 rm  rd 1010011", "rd, fs1[, rm]", to_int(t, 64, signed=False)),
        (f"fcvt.{t}.w",  f"11010{f} 00000 rs1 rm  rd 1010011", "fd, rs1" + never_rounds, from_int(t, 32)),
        (f"fcvt.{t}.wu", f"11010{f} 00001 rs1 rm  rd 1010011", "fd, rs1" + never_rounds, from_int(t, 32, signed=False)),
        (f"fcvt.{t}.l",  f"11010{f} 00010 rs1 rm  rd 1010011", "fd, rs1[, rm]", from_int(t, 64)),
        (f"fcvt.{t}.lu", f"11010{f} 00011 rs1 rm  rd 1010011", "fd, rs1[, rm]", from_int(t, 64, signed=False)),

        (f"fmv.x.{x}",   f"11100{f} 00000 rs1 000 rd 1010011", "rd, fs1", to_bits(w)),
        (f"fmv.{x}.x",   f"11110{f} 00000 rs1 000 rd 1010011", "fd, rs1", from_bits(t, w)),
    )  # fmt: skip


BETWEEN: Final[tuple[RowSource, ...]] = (
    ("fcvt.s.d", "0100000 00001 rs1 rm rd 1010011", "fd, fs1[, rm]", convert("s", "d")),
    ("fcvt.d.s", "0100001 00000 rs1 rm rd 1010011", "fd, fs1[, exact]", convert("d", "s")),
)

HALF_BETWEEN: Final[tuple[RowSource, ...]] = (
    ("fcvt.s.h", "0100000 00010 rs1 rm rd 1010011", "fd, fs1[, exact]", convert("s", "h")),
    ("fcvt.d.h", "0100001 00010 rs1 rm rd 1010011", "fd, fs1[, exact]", convert("d", "h")),
    ("fcvt.h.s", "0100010 00000 rs1 rm rd 1010011", "fd, fs1[, rm]", convert("h", "s")),
    ("fcvt.h.d", "0100010 00001 rs1 rm rd 1010011", "fd, fs1[, rm]", convert("h", "d")),
)

ZFH: Final = section("Zfh", rows("h", 16, "h", "10", "001") + HALF_BETWEEN)
FLOAT: Final = section("F", rows("s", 32, "w", "00", "010")) + section("D", rows("d", 64, "d", "01", "011") + BETWEEN)
