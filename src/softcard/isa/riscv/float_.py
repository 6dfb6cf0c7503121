"""RISC-V F, D and Zfh extensions: floats of three formats (ISA manual volume I, chapters "F", "D" and "Zfh").

One declaration serves all formats: `t` is the format, "s", "d" or "h" (single, double, half), and `w` its width.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import xor
from typing import Final

from softcard.isa.riscv.algebra import Float, Ops
from softcard.isa.riscv.format import RowSource, address, get, low, put, section
from softcard.isa.riscv.insn import Insn, Semantics
from softcard.isa.riscv.word import Binary, Word, on_values
from softcard.isa.word import Value

Rounded = Callable[[Ops], Callable[[str, Float, Float, int], Float]]
Picked = Callable[[Ops], Callable[[str, Float, Float], Float]]
Compared = Callable[[Ops], Callable[[str, Float, Float], Value]]
"""A function from the operations interface to one of its float comparisons."""


def arith(t: str, f: Rounded) -> Semantics:
    """Return the semantics of an arithmetic operation: rd = f(rs1, rs2), rounded by the mode of the instruction."""
    return lambda o, i: o.set_f(i.rd, t, f(o)(t, o.f(i.rs1, t), o.f(i.rs2, t), i.rm))


def pick(t: str, f: Picked) -> Semantics:
    """Return the semantics of a minimum or maximum: rd = the one of rs1 and rs2 that f(rs1, rs2) picks."""
    return lambda o, i: o.set_f(i.rd, t, f(o)(t, o.f(i.rs1, t), o.f(i.rs2, t)))


def sqrt(t: str) -> Semantics:
    """Return the semantics of fsqrt: rd = square root of rs1."""
    return lambda o, i: o.set_f(i.rd, t, o.fsqrt(t, o.f(i.rs1, t), i.rm))


def fused(t: str, times: int, plus: int) -> Semantics:
    """Return the semantics of a fused multiply-add: rd = times * (rs1 * rs2) + plus * rs3.

    The result is rounded once; `times` and `plus` are 1 or -1.
    """

    def semantics(o: Ops, i: Insn) -> None:
        a, b, c = o.f(i.rs1, t), o.f(i.rs2, t), o.f(i.rs3, t)
        a = o.fneg(t, a) if times < 0 else a
        c = o.fneg(t, c) if plus < 0 else c
        o.set_f(i.rd, t, o.fma(t, a, b, c, i.rm))

    return semantics


def sign(t: str, w: int, f: Binary) -> Semantics:
    """Return the semantics of a sign injection: rd = rs1 with the sign bit of f(bits of rs1, bits of rs2)."""

    def signed(a: Word, b: Word) -> Word:
        return a[w - 2 : 0] | f(a, b) & 1 << w - 1

    g = on_values(signed, w)

    def semantics(o: Ops, i: Insn) -> None:
        a, b = o.f_bits(t, o.f(i.rs1, t)), o.f_bits(t, o.f(i.rs2, t))
        o.set_f(i.rd, t, o.f_from_bits(t, g(o, a, b)))

    return semantics


def compare(t: str, f: Compared) -> Semantics:
    """Return the semantics of a comparison: rd = f(rs1, rs2), which is 0 or 1."""
    return lambda o, i: o.set_x(i.rd, o.zext(64, 1, f(o)(t, o.f(i.rs1, t), o.f(i.rs2, t))))


def classify(t: str) -> Semantics:
    """Return the semantics of fclass: rd = the class mask of rs1."""
    return lambda o, i: o.set_x(i.rd, o.fclass(t, o.f(i.rs1, t)))


def to_int(t: str, w: int, *, signed: bool = True) -> Semantics:
    """Return the semantics of a conversion: rd = rs1 as a `w`-bit integer, signed or unsigned.

    The integer is sign-extended to 64 bits, also if it is unsigned."""
    return lambda o, i: put(o, w, i.rd, o.f_to_int(w, signed, t, o.f(i.rs1, t), i.rm))


def from_int(t: str, w: int, *, signed: bool = True) -> Semantics:
    """Return the semantics of a conversion: rd = the integer in the low `w` bits of rs1, as a float of format `t`.

    The integer is in two's complement if `signed` is True."""
    return lambda o, i: o.set_f(i.rd, t, o.int_to_f(t, w, signed, get(o, w, i.rs1), i.rm))


def convert(to: str, t: str) -> Semantics:
    """Return the semantics of a conversion between float formats: rd = rs1, of format `t`, in the format `to`."""
    return lambda o, i: o.set_f(i.rd, to, o.f_to_f(to, t, o.f(i.rs1, t), i.rm))


def load(t: str, w: int) -> Semantics:
    """Return the semantics of a float load: rd = the bits in memory[rs1 + imm], unchanged."""
    return lambda o, i: o.set_f(i.rd, t, o.f_from_bits(t, o.load(w, address(o, i))))


def store(w: int) -> Semantics:
    """Return the semantics of a float store: memory[rs1 + imm] = the low `w` bits of rs2.

    Whether the value in rs2 is NaN-boxed makes no difference."""
    return lambda o, i: o.store(w, address(o, i), low(o, w, o.f_raw(i.rs2)))


def to_bits(w: int) -> Semantics:
    """Return the semantics of a move to an integer register: rd = the low `w` bits of rs1, sign-extended."""
    return lambda o, i: put(o, w, i.rd, low(o, w, o.f_raw(i.rs1)))


def from_bits(t: str, w: int) -> Semantics:
    """Return the semantics of a move to a float register: rd = the low `w` bits of rs1, unchanged."""
    return lambda o, i: o.set_f(i.rd, t, o.f_from_bits(t, get(o, w, i.rs1)))


def rows(t: str, w: int, x: str, f: str, width: str) -> tuple[RowSource, ...]:
    """Return the table rows of all instructions of one float format: `t` is its letter, `w` its width in bits.

    `x` is the letter of its bit pattern in mnemonics (as in fmv.x.w); `f` and `width` are its codes in the encoding.
    """
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
