"""The algebra over LLVM IR, float part: host arithmetic where it is bit-exact, the reference engine where not.

Flags gather in the host's float status register; dynamic rounding is the host's own mode. Whatever the host does
differently (rounding to nearest away, conversions out of range) leaves translated code for one instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from understudy.engine.riscv.jit.emit_control import Control
from understudy.engine.riscv.jit.emit_integer import Integers
from understudy.engine.riscv.jit.emit_registers import BITS, TYPE, Held, Representations
from understudy.ir.builder import Text

SUFFIX: Final = {"h": "f16", "s": "f32", "d": "f64"}
INFINITY: Final = {"h": 0x7C00, "s": 0x7F80_0000, "d": 0x7FF0_0000_0000_0000}
LEAST_NORMAL: Final = {"h": 1 << 10, "s": 1 << 23, "d": 1 << 52}
EXACT_IN_SINGLE: Final = 1 << 24
"""Integers up to here, and their negatives, are binary32 numbers."""
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


def _arithmetic(name: str) -> Callable[..., Held]:
    """An operation on floats and a rounding mode."""

    def method(self: Floats, fmt: str, *operands: Any) -> Held:
        self._rounding(operands[-1])
        return self._rounded(name, fmt, operands[:-1])

    return method


def _compare(kind: str, predicate: str) -> Callable[..., str]:
    """A comparison of two floats."""
    return lambda self, fmt, a, b: self._compare(kind, predicate, fmt, a, b)


def _extreme(predicate: str, zeros: str) -> Callable[..., Held]:
    """minimumNumber or maximumNumber; `zeros` is what gives the right one of two zeros."""
    return lambda self, fmt, a, b: self._extreme(fmt, a, b, predicate, zeros)


class Floats:
    """Arithmetic. `fused`: whether the host has a fused multiply-add; `fma_formats`: formats it was asked for in."""

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
        """The type of floats."""
        return TYPE[fmt]

    def suffix(self, fmt: str) -> str:
        """The end of an intrinsic's name."""
        return SUFFIX[fmt]

    def int_suffix(self) -> str:
        """The same of 64-bit integers."""
        return "i64"

    def any(self, condition: str) -> str:
        """Whether a condition holds somewhere."""
        return condition

    def trunc(self, to: int, w: int, a: str) -> str:
        """The low bits; those of a boxed float stay known as that float, so that it can be stored as one."""
        held = self.representations.float_of.get(a)
        if to == 32 and held is not None and held.fmt == "s":
            bits = self.text.let(f"bitcast float {held.name} to i32")
            self.representations.float_of[bits] = held
            return bits
        return self.ints.trunc(to, w, a)

    def _call(self, ty: str, name: str, *arguments: str) -> str:
        """Call a constrained intrinsic."""
        name = f"llvm.experimental.constrained.{name}"
        self.text.declare(ty, name, arguments)
        return self.text.let(f"call {ty} @{name}({', '.join(arguments)}) #0")

    def _rounding(self, rm: int) -> None:
        """Leave unless the static rounding mode is the one the host is in."""
        if rm == 7:
            return
        if rm > 3:
            self.control.side("true")
            return
        frm = self.text.let("load i64, ptr %frm")
        self.control.side(self.text.let(f"icmp ne i64 {frm}, {rm}"))

    def _rounded(self, name: str, fmt: str, operands: tuple[Held, ...]) -> Held:
        if fmt == "h":  # of operands this narrow, rounding twice gives what rounding once does, flags and all
            return self._narrowed(self._rounded(name, "s", tuple(self._widened(v) for v in operands)))
        ty = self.type(fmt)
        return Held(
            fmt, "r", self._call(ty, f"{name}.{self.suffix(fmt)}", *(f"{ty} {v.name}" for v in operands), *ROUNDED)
        )

    def _widened(self, v: Held) -> Held:
        """A binary16 as binary32, which is exact; a signalling NaN raises NV."""
        return Held("s", "r", self._call("float", "fpext.f32.f16", f"half {v.name}", STRICT))

    def _narrowed(self, v: Held) -> Held:
        """A binary32 rounded to binary16."""
        return Held("h", "r", self._call("half", "fptrunc.f16.f32", f"float {v.name}", *ROUNDED))

    fadd = _arithmetic("fadd")
    fsub = _arithmetic("fsub")
    fmul = _arithmetic("fmul")
    fdiv = _arithmetic("fdiv")
    fsqrt = _arithmetic("sqrt")

    def fma(self, fmt: str, a: Held, b: Held, c: Held, rm: int) -> Held:
        """a * b + c. Some hosts do not report infinity times zero when `c` is a quiet NaN: a cold path does."""
        if fmt == "h":
            self._rounding(rm)
            return self._half_fma(a, b, c)
        if not self.fused:
            self.control.side("true")
        self._rounding(rm)  # before the cold path, which has an effect
        ty = self.type(fmt)
        cold, join = self.text.fresh("nan"), self.text.fresh("fma")
        nan = self.text.let(f"fcmp uno {ty} {c.name}, {c.name}")
        self.text.put(f"br i1 {nan}, label %{cold}, label %{join}, !prof !0")
        self.fma_formats.add(fmt)
        self.text.tail += [
            f"{cold}:",
            f"  call void @fma_{fmt}(ptr %st, {ty} {a.name}, {ty} {b.name})",
            f"  br label %{join}",
        ]
        self.text.start(join)
        return self._rounded("fma", fmt, (a, b, c))

    def _half_fma(self, a: Held, b: Held, c: Held) -> Held:
        """The same of binary16: an exact product and a sum in binary64, rounded to odd, then to binary16."""
        o, text = self.ints, self.text
        x, y, z = (self._call("double", "fpext.f64.f16", f"half {v.name}", STRICT) for v in (a, b, c))
        product = self._call("double", "fmul.f64", f"double {x}", f"double {y}", *ROUNDED)
        total = self._call("double", "fadd.f64", f"double {product}", f"double {z}", *ROUNDED)
        bits = text.let(f"bitcast double {total} to i64")
        finite = text.let(f"icmp ult i64 {o.and_(64, bits, str((1 << 63) - 1))}, {INFINITY['d']}")
        p, q, s = (text.let(f"select i1 {finite}, double {v}, double 0.0") for v in (product, z, total))
        part = self._call("double", "fsub.f64", f"double {s}", f"double {p}", *ROUNDED)
        rest = self._call("double", "fsub.f64", f"double {s}", f"double {part}", *ROUNDED)
        first = self._call("double", "fsub.f64", f"double {p}", f"double {rest}", *ROUNDED)
        second = self._call("double", "fsub.f64", f"double {q}", f"double {part}", *ROUNDED)
        lost = self._call("double", "fadd.f64", f"double {first}", f"double {second}", *ROUNDED)
        # To nearest, what was lost is exact. Where rounding has a direction, rounding again in it changes nothing.
        lost = text.let(f"bitcast double {lost} to i64")
        nearest = o.eq(64, text.let("load i64, ptr %frm"), "0")
        inexact = o.ne(64, o.and_(64, lost, str((1 << 63) - 1)), "0")
        beyond = o.slt(64, o.xor(64, lost, bits), "0")
        odd = o.or_(64, o.sub(64, bits, o.zext(64, 1, beyond)), "1")
        change = text.let(f"and i1 {nearest}, {inexact}")
        return self._from_double(o.select(64, change, odd, bits))

    def _from_double(self, bits: str) -> Held:
        """A binary64, by its bits, as binary16: by way of a binary32 whose last bit tells whether anything was lost."""
        o, rest = self.ints, (1 << 29) - 1
        sticky = o.zext(64, 1, o.ne(64, o.and_(64, bits, str(rest)), "0"))
        odd = o.or_(64, o.and_(64, bits, str(~rest)), o.shl(64, sticky, "29"))
        wide = self.text.let(f"bitcast i64 {odd} to double")
        return self._narrowed(Held("s", "r", self._call("float", "fptrunc.f32.f64", f"double {wide}", *ROUNDED)))

    def fneg(self, fmt: str, a: Held) -> Held:
        """Flip the sign bit."""
        return Held(fmt, a.kind if a.kind == "x" else "r", self.text.let(f"fneg {self.type(fmt)} {a.name}"))

    # -- comparisons

    feq = _compare("fcmp", "oeq")
    flt = _compare("fcmps", "olt")  # signalling, as fle is
    fle = _compare("fcmps", "ole")
    fmin = _extreme("olt", "or")
    fmax = _extreme("ogt", "and")

    def _compare(self, kind: str, predicate: str, fmt: str, a: Held, b: Held) -> str:
        if fmt == "h":
            fmt, a, b = "s", self._widened(a), self._widened(b)
        ty = self.type(fmt)
        operands = f"{ty} {a.name}", f"{ty} {b.name}"
        return self._call(
            self.ints.type(1), f"{kind}.{self.suffix(fmt)}", *operands, f'metadata !"{predicate}"', STRICT
        )

    def _extreme(self, fmt: str, a: Held, b: Held, predicate: str, zeros: str) -> Held:
        o = self.ints
        w = BITS[fmt]
        first = self._compare("fcmp", predicate, fmt, a, b)
        same = self._compare("fcmp", "oeq", fmt, a, b)
        x, y = self.representations.f_bits(fmt, a), self.representations.f_bits(fmt, b)
        both = self.text.let(f"{zeros} {self.ints.type(w)} {x}, {y}")
        pick = o.select(w, same, both, o.select(w, first, x, y))
        pick = o.select(w, self.is_nan(fmt, y), x, pick)
        quiet = o.const(w, INFINITY[fmt] | (LEAST_NORMAL[fmt] >> 1))
        other = o.select(w, self.is_nan(fmt, y), quiet, y)
        pick = o.select(w, self.is_nan(fmt, x), other, pick)
        return Held(fmt, "b", self.text.let(f"bitcast {self.ints.type(w)} {pick} to {self.type(fmt)}"))

    def is_nan(self, fmt: str, bits: str) -> str:
        """Whether a bit pattern is a NaN's."""
        o = self.ints
        w = BITS[fmt]
        magnitude = o.and_(w, bits, o.const(w, (1 << (w - 1)) - 1))
        return self.text.let(f"icmp ugt {self.ints.type(w)} {magnitude}, {o.const(w, INFINITY[fmt])}")

    def fclass(self, fmt: str, a: Held) -> str:
        """Class mask."""
        o = self.ints
        w = BITS[fmt]
        bits = self.representations.f_bits(fmt, a)
        magnitude = o.and_(w, bits, o.const(w, (1 << (w - 1)) - 1))
        negative = o.slt(w, bits, o.const(w, 0))
        least_normal = LEAST_NORMAL[fmt]
        quiet = INFINITY[fmt] | (least_normal >> 1)

        def either(below: int, above: int) -> str:
            return o.select(64, negative, o.const(64, below), o.const(64, above))

        kind = either(4, 32)  # subnormal
        kind = o.select(64, o.eq(w, magnitude, o.const(w, 0)), either(8, 16), kind)
        kind = o.select(64, o.ult(w, magnitude, o.const(w, least_normal)), kind, either(2, 64))
        kind = o.select(64, o.eq(w, magnitude, o.const(w, INFINITY[fmt])), either(1, 128), kind)
        signalling = o.ult(w, magnitude, o.const(w, quiet))
        return o.select(64, self.is_nan(fmt, bits), o.select(64, signalling, o.const(64, 256), o.const(64, 512)), kind)

    # -- conversions

    def f_to_f(self, to: str, fmt: str, a: Held, rm: int) -> Held:
        """Convert between formats; widening is exact and does not round."""
        source, target = self.type(fmt), self.type(to)
        if (to, fmt) == ("h", "d"):
            self._rounding(rm)
            return self._from_double(self.text.let(f"bitcast double {a.name} to i64"))
        if BITS[to] > BITS[fmt]:
            if rm > 4 and rm != 7:
                self.control.side("true")
            name = self._call(target, f"fpext.{self.suffix(to)}.{self.suffix(fmt)}", f"{source} {a.name}", STRICT)
        else:
            self._rounding(rm)
            name = self._call(target, f"fptrunc.{self.suffix(to)}.{self.suffix(fmt)}", f"{source} {a.name}", *ROUNDED)
        return Held(to, "r", name)

    def f_to_int(self, w: int, signed: bool, fmt: str, a: Held, rm: int) -> str:
        """Convert to an integer; everything near or beyond the range leaves."""
        if fmt == "h":
            return self.f_to_int(w, signed, "s", self._widened(a), rm)
        o = self.ints
        ty, fw = self.type(fmt), BITS[fmt]
        bits = self.representations.f_bits(fmt, a)
        span = w - 1 if signed or w == 64 else w
        if signed:
            magnitude = o.and_(fw, bits, o.const(fw, (1 << (fw - 1)) - 1))
        else:
            magnitude = bits  # a negative number is a large unsigned one and leaves
        beyond = self.text.let(f"icmp ugt {o.type(fw)} {magnitude}, {o.const(fw, IN_RANGE[fmt, span])}")
        self.control.side(self.any(beyond))
        name = a.name
        if rm != 1:
            self._rounding(rm)
            name = self._call(ty, f"rint.{self.suffix(fmt)}", f"{ty} {name}", *ROUNDED)
        wide = self._call(o.type(64), f"fptosi.{self.int_suffix()}.{self.suffix(fmt)}", f"{ty} {name}", STRICT)
        return o.trunc(w, 64, wide)

    def int_to_f(self, fmt: str, w: int, signed: bool, v: str, rm: int) -> Held:
        """Convert from an integer; unsigned 64-bit values with the top bit set leave."""
        o = self.ints
        if not (fmt == "d" and w == 32):
            self._rounding(rm)
        elif rm > 4 and rm != 7:
            self.control.side("true")
        if w < 64:
            v = o.sext(64, w, v) if signed else o.zext(64, w, v)
        elif not signed:
            self.control.side(self.any(o.slt(64, v, o.const(64, 0))))
        if fmt == "h":
            far = o.add(64, v, o.const(64, EXACT_IN_SINGLE))
            self.control.side(self.text.let(f"icmp ugt i64 {far}, {2 * EXACT_IN_SINGLE}"))
            return self._narrowed(Held("s", "b", self._call("float", "sitofp.f32.i64", f"i64 {v}", *ROUNDED)))
        ty = self.type(fmt)
        name = self._call(ty, f"sitofp.{self.suffix(fmt)}.{self.int_suffix()}", f"{o.type(64)} {v}", *ROUNDED)
        return Held(fmt, "b", name)


def fma_helper(fmt: str, flags_offset: int) -> str:
    """IR of the cold path of `fma`: set NV where a product is infinity times zero."""
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
