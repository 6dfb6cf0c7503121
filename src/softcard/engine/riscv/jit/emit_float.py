"""The float operations of `isa.riscv.algebra.Algebra` in LLVM IR.

Host arithmetic is used if it is bit-exact; other operations take a side exit. The host's float status register
accumulates flags; dynamic rounding uses the host's own rounding mode. Operations in which the host differs (rounding to
nearest away, conversions out of range) leave translated code for one instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from softcard.engine.riscv.jit.emit_control import Control
from softcard.engine.riscv.jit.emit_integer import Integers
from softcard.engine.riscv.jit.emit_registers import BITS, TYPE, FloatValue, Representations
from softcard.ir.builder import Text
from softcard.ir.operand import Operand

SUFFIX: Final = {"h": "f16", "s": "f32", "d": "f64"}
INFINITY: Final = {"h": 0x7C00, "s": 0x7F80_0000, "d": 0x7FF0_0000_0000_0000}
LEAST_NORMAL: Final = {"h": 1 << 10, "s": 1 << 23, "d": 1 << 52}
EXACT_IN_SINGLE: Final = 1 << 24
"""The largest integer up to which all integers, and their negatives, are exact in binary32."""
STRICT: Final = 'metadata !"fpexcept.strict"'
ROUNDED: Final = ('metadata !"round.dynamic"', STRICT)

# Largest magnitudes that convert without leaving the range under any rounding mode, as bit patterns.
IN_RANGE: Final = {
    ("s", 15): 0x46FF_FE00,
    ("s", 16): 0x477F_FF00,
    ("s", 31): 0x4EFF_FFFF,
    ("s", 32): 0x4F7F_FFFF,
    ("s", 63): 0x5EFF_FFFF,
    ("d", 31): 0x41DF_FFFF_FFC0_0000,
    ("d", 32): 0x41EF_FFFF_FFE0_0000,
    ("d", 63): 0x43DF_FFFF_FFFF_FFFF,
}


def _arithmetic(name: str) -> Callable[..., FloatValue]:
    """Return a method that emits the operation `name` on floats under a rounding mode."""

    def method(self: Floats, fmt: str, *operands: Any) -> FloatValue:
        self._rounding(operands[-1])
        return self._rounded(name, fmt, operands[:-1])

    return method


def _compare(kind: str, predicate: str) -> Callable[..., Operand]:
    """Return a method that emits a comparison of two floats, with the LLVM comparison `kind` and its `predicate`."""
    return lambda self, fmt, a, b: self._compare(kind, predicate, fmt, a, b)


def _extreme(predicate: str, zeros: str) -> Callable[..., FloatValue]:
    """Return a method that emits minimumNumber or maximumNumber.

    `predicate` is the LLVM comparison that selects the first operand. If both operands are zeros, the bit
    operation `zeros` computes the result from their bits."""
    return lambda self, fmt, a, b: self._extreme(fmt, a, b, predicate, zeros)


class Floats:
    """The float operations of `isa.riscv.algebra.Algebra` in LLVM IR, for scalars.

    `fused` is True if the host has a fused multiply-add. `fma_formats` contains the formats in which it was used."""

    def __init__(
        self, text: Text, ints: Integers, representations: Representations, control: Control, fused: bool
    ) -> None:
        self.text = text
        self.ints = ints
        self.representations = representations
        self.control = control
        self.fused = fused
        self.fma_formats: set[str] = set()

    def type(self, fmt: str) -> str:
        """Return the LLVM type of floats of a format."""
        return TYPE[fmt]

    def suffix(self, fmt: str) -> str:
        """Return the type suffix of an intrinsic's name for a format."""
        return SUFFIX[fmt]

    def int_suffix(self) -> str:
        """Return the type suffix of an intrinsic on 64-bit integers."""
        return "i64"

    def any(self, condition: Operand) -> Operand:
        """Return an i1 that is 1 if a condition holds in any lane."""
        return condition

    def trunc(self, to: int, w: int, a: Operand) -> Operand:
        """Return the low `to` bits of a value.

        If the value came from a NaN-boxed float, the result can still be stored as that float.
        """
        held = self.representations.float_of.get(a)
        if to == 32 and held is not None and held.fmt == "s":
            bits = held.name.bitcast("i32")
            self.representations.float_of[bits] = held
            return bits
        return self.ints.trunc(to, w, a)

    def _call(self, ty: str, name: str, *arguments: str) -> Operand:
        """Emit a call of a constrained intrinsic."""
        name = f"llvm.experimental.constrained.{name}"
        return self.text.call(ty, name, *arguments, tail=" #0")

    def _rounding(self, rm: int) -> None:
        """Emit a side exit if the static rounding mode `rm` is not the rounding mode of the host."""
        if rm == 7:
            return
        if rm > 3:
            self.control.side(self.text.flag(True))
            return
        frm = self.text.pointer("%frm").load("i64")
        self.control.side(frm.ne(rm))

    def _rounded(self, name: str, fmt: str, operands: tuple[FloatValue, ...]) -> FloatValue:
        if fmt == "h":  # for operands this narrow, rounding twice gives the result and flags of rounding once
            return self._narrowed(self._rounded(name, "s", tuple(self._widened(v) for v in operands)))
        ty = self.type(fmt)
        return FloatValue(
            fmt, "r", self._call(ty, f"{name}.{self.suffix(fmt)}", *(f"{ty} {v.name}" for v in operands), *ROUNDED)
        )

    def _widened(self, v: FloatValue) -> FloatValue:
        """Return a binary16 converted to binary32, which is exact; a signalling NaN raises NV."""
        return FloatValue("s", "r", self._call("float", "fpext.f32.f16", f"half {v.name}", STRICT))

    def _narrowed(self, v: FloatValue) -> FloatValue:
        """Return a binary32 rounded to binary16."""
        return FloatValue("h", "r", self._call("half", "fptrunc.f16.f32", f"float {v.name}", *ROUNDED))

    fadd = _arithmetic("fadd")
    fsub = _arithmetic("fsub")
    fmul = _arithmetic("fmul")
    fdiv = _arithmetic("fdiv")
    fsqrt = _arithmetic("sqrt")

    def fma(self, fmt: str, a: FloatValue, b: FloatValue, c: FloatValue, rm: int) -> FloatValue:
        """Return a * b + c.

        Some hosts do not raise the invalid flag for infinity times zero if `c` is a quiet NaN; a cold path raises it
        there.
        """
        if fmt == "h":
            self._rounding(rm)
            return self._half_fma(a, b, c)
        if not self.fused:
            self.control.side(self.text.flag(True))
        self._rounding(rm)  # before the cold path, which has an effect
        ty = self.type(fmt)
        cold, join = self.text.fresh("nan"), self.text.fresh("fma")
        nan = c.name.is_unordered(c.name)
        self.text.branch(nan, cold, join, ", !prof !0")
        self.fma_formats.add(fmt)
        with self.text.apart(cold):
            factors = (self.text.operand(ty, each.name) for each in (a, b))
            self.text.invoke_void(f"@fma_{fmt}", self.text.pointer("%st"), *factors)
            self.text.jump(join)
        self.text.start(join)
        return self._rounded("fma", fmt, (a, b, c))

    def _half_fma(self, a: FloatValue, b: FloatValue, c: FloatValue) -> FloatValue:
        """Return a * b + c of binary16 values.

        The product is exact, and the sum is computed in binary64, rounded to odd, and then to binary16.
        """
        o, text = self.ints, self.text
        x, y, z = (self._call("double", "fpext.f64.f16", f"half {v.name}", STRICT) for v in (a, b, c))
        product = self._call("double", "fmul.f64", f"double {x}", f"double {y}", *ROUNDED)
        total = self._call("double", "fadd.f64", f"double {product}", f"double {z}", *ROUNDED)
        bits = total.bitcast("i64")
        finite = o.and_(64, bits, (1 << 63) - 1) < INFINITY["d"]
        zero = text.operand("double", "0.0")
        p, q, s = (finite.select(v, zero) for v in (product, z, total))
        part = self._call("double", "fsub.f64", f"double {s}", f"double {p}", *ROUNDED)
        rest = self._call("double", "fsub.f64", f"double {s}", f"double {part}", *ROUNDED)
        first = self._call("double", "fsub.f64", f"double {p}", f"double {rest}", *ROUNDED)
        second = self._call("double", "fsub.f64", f"double {q}", f"double {part}", *ROUNDED)
        lost = self._call("double", "fadd.f64", f"double {first}", f"double {second}", *ROUNDED)
        # With rounding to nearest, the error is exact. In a directed mode, a second rounding changes nothing.
        lost = lost.bitcast("i64")
        nearest = o.eq(64, text.pointer("%frm").load("i64"), 0)
        inexact = o.ne(64, o.and_(64, lost, (1 << 63) - 1), 0)
        beyond = o.slt(64, o.xor(64, lost, bits), 0)
        odd = o.or_(64, o.sub(64, bits, o.zext(64, 1, beyond)), 1)
        change = nearest & inexact
        return self._from_double(o.select(64, change, odd, bits))

    def _from_double(self, bits: Operand) -> FloatValue:
        """Return the binary64 with these bits, rounded to binary16 by way of binary32.

        The binary32 is rounded to odd: its last bit is set if the first rounding was inexact, so that the second
        rounding is right.
        """
        o, rest = self.ints, (1 << 29) - 1
        sticky = o.zext(64, 1, o.ne(64, o.and_(64, bits, rest), 0))
        odd = o.or_(64, o.and_(64, bits, ~rest), o.shl(64, sticky, 29))
        wide = odd.bitcast("double")
        return self._narrowed(FloatValue("s", "r", self._call("float", "fptrunc.f32.f64", f"double {wide}", *ROUNDED)))

    def fneg(self, fmt: str, a: FloatValue) -> FloatValue:
        """Return the value with its sign bit inverted."""
        return FloatValue(fmt, a.kind if a.kind == "x" else "r", a.name.fneg())

    # -- comparisons

    feq = _compare("fcmp", "oeq")
    flt = _compare("fcmps", "olt")  # signalling, as fle is
    fle = _compare("fcmps", "ole")
    fmin = _extreme("olt", "or")
    fmax = _extreme("ogt", "and")

    def _compare(self, kind: str, predicate: str, fmt: str, a: FloatValue, b: FloatValue) -> Operand:
        if fmt == "h":
            fmt, a, b = "s", self._widened(a), self._widened(b)
        ty = self.type(fmt)
        operands = f"{ty} {a.name}", f"{ty} {b.name}"
        return self._call(
            self.ints.type(1), f"{kind}.{self.suffix(fmt)}", *operands, f'metadata !"{predicate}"', STRICT
        )

    def _extreme(self, fmt: str, a: FloatValue, b: FloatValue, predicate: str, zeros: str) -> FloatValue:
        o = self.ints
        w = BITS[fmt]
        first = self._compare("fcmp", predicate, fmt, a, b)
        same = self._compare("fcmp", "oeq", fmt, a, b)
        x, y = self.representations.f_bits(fmt, a), self.representations.f_bits(fmt, b)
        both = x.binary(zeros, y)
        pick = o.select(w, same, both, o.select(w, first, x, y))
        pick = o.select(w, self.is_nan(fmt, y), x, pick)
        quiet = o.const(w, INFINITY[fmt] | (LEAST_NORMAL[fmt] >> 1))
        other = o.select(w, self.is_nan(fmt, y), quiet, y)
        pick = o.select(w, self.is_nan(fmt, x), other, pick)
        return FloatValue(fmt, "b", pick.bitcast(self.type(fmt)))

    def is_nan(self, fmt: str, bits: Operand) -> Operand:
        """Return an i1 that is 1 if a bit pattern is a NaN."""
        o = self.ints
        w = BITS[fmt]
        magnitude = o.and_(w, bits, o.const(w, (1 << (w - 1)) - 1))
        return magnitude > o.const(w, INFINITY[fmt])

    def fclass(self, fmt: str, a: FloatValue) -> Operand:
        """Return the class mask of a float, as fclass defines it."""
        o = self.ints
        w = BITS[fmt]
        bits = self.representations.f_bits(fmt, a)
        magnitude = o.and_(w, bits, o.const(w, (1 << (w - 1)) - 1))
        negative = o.slt(w, bits, o.const(w, 0))
        least_normal = LEAST_NORMAL[fmt]
        quiet = INFINITY[fmt] | (least_normal >> 1)

        def either(below: int, above: int) -> Operand:
            return o.select(64, negative, o.const(64, below), o.const(64, above))

        kind = either(4, 32)  # subnormal
        kind = o.select(64, o.eq(w, magnitude, o.const(w, 0)), either(8, 16), kind)
        kind = o.select(64, o.ult(w, magnitude, o.const(w, least_normal)), kind, either(2, 64))
        kind = o.select(64, o.eq(w, magnitude, o.const(w, INFINITY[fmt])), either(1, 128), kind)
        signalling = o.ult(w, magnitude, o.const(w, quiet))
        return o.select(64, self.is_nan(fmt, bits), o.select(64, signalling, o.const(64, 256), o.const(64, 512)), kind)

    # -- conversions

    def f_to_f(self, to: str, fmt: str, a: FloatValue, rm: int) -> FloatValue:
        """Convert between formats; widening is exact and does not round."""
        source, target = self.type(fmt), self.type(to)
        if (to, fmt) == ("h", "d"):
            self._rounding(rm)
            return self._from_double(a.name.bitcast("i64"))
        if BITS[to] > BITS[fmt]:
            if rm > 4 and rm != 7:
                self.control.side(self.text.flag(True))
            name = self._call(target, f"fpext.{self.suffix(to)}.{self.suffix(fmt)}", f"{source} {a.name}", STRICT)
        else:
            self._rounding(rm)
            name = self._call(target, f"fptrunc.{self.suffix(to)}.{self.suffix(fmt)}", f"{source} {a.name}", *ROUNDED)
        return FloatValue(to, "r", name)

    def f_to_int(self, w: int, signed: bool, fmt: str, a: FloatValue, rm: int) -> Operand:
        """Convert to an integer; values near or beyond the range take a side exit."""
        if fmt == "h":
            return self.f_to_int(w, signed, "s", self._widened(a), rm)
        o = self.ints
        ty, fw = self.type(fmt), BITS[fmt]
        bits = self.representations.f_bits(fmt, a)
        span = w - 1 if signed or w == 64 else w
        if signed:
            magnitude = o.and_(fw, bits, o.const(fw, (1 << (fw - 1)) - 1))
        else:
            magnitude = bits  # a negative number is a large unsigned one, out of range
        beyond = magnitude > o.const(fw, IN_RANGE[fmt, span])
        self.control.side(self.any(beyond))
        name = a.name
        if rm != 1:
            self._rounding(rm)
            name = self._call(ty, f"rint.{self.suffix(fmt)}", f"{ty} {name}", *ROUNDED)
        wide = self._call(o.type(64), f"fptosi.{self.int_suffix()}.{self.suffix(fmt)}", f"{ty} {name}", STRICT)
        return o.trunc(w, 64, wide)

    def int_to_f(self, fmt: str, w: int, signed: bool, v: Operand, rm: int) -> FloatValue:
        """Convert from an integer; unsigned 64-bit values with the top bit set take a side exit."""
        o = self.ints
        if not (fmt == "d" and w == 32):
            self._rounding(rm)
        elif rm > 4 and rm != 7:
            self.control.side(self.text.flag(True))
        if w < 64:
            v = o.sext(64, w, v) if signed else o.zext(64, w, v)
        elif not signed:
            self.control.side(self.any(o.slt(64, v, o.const(64, 0))))
        if fmt == "h":
            far = o.add(64, v, o.const(64, EXACT_IN_SINGLE))
            self.control.side(far > 2 * EXACT_IN_SINGLE)
            return self._narrowed(FloatValue("s", "b", self._call("float", "sitofp.f32.i64", f"i64 {v}", *ROUNDED)))
        ty = self.type(fmt)
        name = self._call(ty, f"sitofp.{self.suffix(fmt)}.{self.int_suffix()}", f"{o.type(64)} {v}", *ROUNDED)
        return FloatValue(fmt, "b", name)


def fma_helper(fmt: str, flags_offset: int) -> str:
    """Return the IR of the cold path of `fma`: set NV if a product is infinity times zero."""
    w, infinity = BITS[fmt], INFINITY[fmt]
    magnitude = (1 << (w - 1)) - 1
    return f"""
define internal void @fma_{fmt}(ptr %st, {TYPE[fmt]} %a, {TYPE[fmt]} %b) #2 {{
  %x = bitcast {TYPE[fmt]} %a to i{w}
  %y = bitcast {TYPE[fmt]} %b to i{w}
  %p = and i{w} %x, {magnitude}
  %q = and i{w} %y, {magnitude}
  %pi = icmp eq i{w} %p, {infinity}
  %pz = icmp eq i{w} %p, 0
  %qi = icmp eq i{w} %q, {infinity}
  %qz = icmp eq i{w} %q, 0
  %m = and i1 %pi, %qz
  %n = and i1 %pz, %qi
  %bad = or i1 %m, %n
  %nv = select i1 %bad, i64 16, i64 0
  %f = getelementptr i64, ptr %st, i64 {flags_offset}
  %old = load i64, ptr %f
  %new = or i64 %old, %nv
  store i64 %new, ptr %f
  ret void
}}
"""
