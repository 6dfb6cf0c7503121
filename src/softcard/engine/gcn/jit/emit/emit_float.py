"""The floating-point operations as LLVM IR, for lane vectors.

Scalar operands are broadcast, because GCN has no scalar floats. The host's floating-point control determines
rounding and the flushing of binary32 and binary64 denormals. It is set around each strip-mined loop
(`effects` computes the setting that an instruction needs). binary16 is computed in binary32, where double
rounding is harmless, and its denormals are flushed explicitly. Operations that the host cannot compute
exactly raise `Untranslated`: the reference engine executes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from softcard.engine.gcn.jit.basics import Untranslated
from softcard.engine.gcn.jit.emit.emit_integer import Integers
from softcard.ir.builder import FLOAT_TYPE, INFINITY, QUIET_NAN, WIDTH, LaneText, Value
from softcard.ir.operand import Operand
from softcard.isa.gcn.state import Mode

NEAREST: Final = 0
ROUND_NAMES: Final = {"trunc": "trunc", "ceil": "ceil", "floor": "floor", "even": "roundeven"}
ROUNDED: Final = ("fadd", "fsub", "fmul", "fdiv", "fma", "sqrt", "fptrunc", "sitofp", "uitofp")
"""The LLVM operations whose result depends on the rounding mode."""


def _arithmetic(word: str) -> Callable[..., Value]:
    """Return a method that emits the LLVM operation `word` on two floats."""

    def method(self: Floats, fmt: str, a: Value, b: Value, env: str | None = None) -> Value:
        return self._arithmetic(word, fmt, a, b, env)

    return method


def _compare(word: str) -> Callable[..., Value]:
    """Return a method that emits the LLVM comparison `word` of two floats."""
    return lambda self, fmt, a, b: self._compare_floats(word, fmt, a, b)


class Floats:
    """The emitter of floating-point operations; `mode` is MODE at the instruction."""

    def __init__(self, text: LaneText, ints: Integers) -> None:
        self.text = text
        self.ints = ints
        self.mode = Mode()

    # ---- arithmetic --------------------------------------------------------------------------------------------
    fadd = _arithmetic("fadd")
    fsub = _arithmetic("fsub")
    fmul = _arithmetic("fmul")
    fdiv = _arithmetic("fdiv")

    def fma(self, fmt: str, a: Value, b: Value, c: Value, env: str | None = None) -> Value:
        """Emit a * b + c, rounded once."""
        if fmt == "h":
            return self._fma_half(a, b, c, env)
        names = [self._operand(fmt, value, env)[1] for value in (a, b, c)]
        return self._real(fmt, self._compute("fma", fmt, self._is_strict(fmt, fmt, env), *names))

    def fsqrt(self, fmt: str, a: Value, env: str | None = None) -> Value:
        """Emit the square root."""
        work, x = self._operand(fmt, a, env)
        result = self._real(work, self._compute("sqrt", work, self._is_strict(fmt, work, env), x))
        return self._result(fmt, work, result, env)

    def _arithmetic(self, word: str, fmt: str, a: Value, b: Value, env: str | None) -> Value:
        work, x = self._operand(fmt, a, env)
        _, y = self._operand(fmt, b, env)
        strict = self._is_strict(fmt, work, env)
        return self._result(fmt, work, self._real(work, self._compute(word, work, strict, x, y)), env)

    def _is_strict(self, fmt: str, work: str, env: str | None) -> bool:
        """Return True if an operation depends on a host setting that differs from LLVM's assumptions.

        `fmt` is the format of the operation, `work` the format in which it is computed. When LLVM folds constants,
        moves negations or omits multiplications by 1, it assumes rounding to nearest without flushing of denormals."""
        if env == "raw":
            return False
        flushes = work == fmt and (env == "flush" or self.mode.keeps_denormals(fmt) != (True, True))
        return flushes or self.mode.rounding(fmt) != NEAREST

    def _compute(self, word: str, fmt: str, strict: bool, *operands: str, of: str = "") -> Operand:
        """Emit the LLVM operation `word` on vectors of floats in format `fmt`.

        If `strict`, it is a constrained operation, which uses the host's setting at run time. `of` is the operands'
        type if it differs from the result's.
        """
        text, kind = self.text, self.text.ftype(fmt, True)
        source = of or kind
        if not strict and word in ("fma", "sqrt", *ROUND_NAMES.values()):
            return text.call(kind, f"llvm.{word}.{text.suffix(_kind(fmt), True)}", *(f"{source} {x}" for x in operands))
        if not strict:
            return text.define(kind, f"{word} {source} {', '.join(operands)}" + (f" to {kind}" if of else ""))
        name = f"llvm.experimental.constrained.{word}.{text.suffix(_kind(fmt), True)}"
        if of:
            name += f".{text.suffix(SUFFIX[_element(of)], True)}"
        arguments = self._unknown(source, operands)
        arguments += ['metadata !"round.dynamic"'] if word in ROUNDED else []
        arguments.append('metadata !"fpexcept.ignore"')
        return text.call(kind, name, *arguments, tail=" strictfp")

    def _unknown(self, kind: str, operands: tuple[str, ...]) -> list[str]:
        """Return the operands as arguments that LLVM cannot analyse.

        Otherwise LLVM would fold a constant operation that is exact, or omit an addition of 0, without flushing
        denormals. Integers need not be hidden, since they are never denormal."""
        first, *others = operands
        if _element(kind) in FLOAT_TYPE.values():
            first = self.text.hidden(_element(kind), first)
        return [f"{kind} {x}" for x in (first, *others)]

    def _operand(self, fmt: str, a: Value, env: str | None) -> tuple[str, Operand]:
        """Return the format in which an operation on format `fmt` is computed, and `a` converted to it."""
        if fmt != "h":
            keeps = env == "raw" or (env is None and self.mode.keeps_denormals(fmt)[0])
            # The host flushes denormals when it computes, LLVM does not when it folds constants.
            if a.number is not None and not keeps and not a.number & INFINITY[fmt]:
                a = self.ints.const(WIDTH[fmt], a.number & 1 << WIDTH[fmt] - 1)
            return fmt, self.text.floating(a, fmt, True)
        return "s", self._widen(self._flush_half(a, env, 0))

    def _result(self, fmt: str, work: str, value: Value, env: str | None) -> Value:
        return value if fmt == work else self._to_half(value, env)

    def _real(self, fmt: str, name: str) -> Value:
        return Value(WIDTH[fmt], True, real=name, fmt=fmt)

    # ---- binary16 ----------------------------------------------------------------------------------------------
    def _widen(self, a: Value) -> Operand:
        text = self.text
        return text.floating(a, "h", True).cast("fpext", text.ftype("s", True))

    def _to_half(self, a: Value, env: str | None, rounding: int | None = None) -> Value:
        """Emit the conversion of binary32 to binary16, with denormal results flushed if MODE requires it.

        A result counts as denormal if it would be one after rounding with an unbounded exponent."""
        o = self.ints
        half = self._narrow(a, env, rounding)
        if self._flush_half(half, env, 1) is half:
            return half
        nearest = (self._host_rounding("h", env) if rounding is None else rounding) == NEAREST
        size = o.and_(32, a, o.const(32, 0x7FFF_FFFF))
        # So much less than the smallest normal number that it rounds to it only as a denormal.
        below = o.ult(32, size, o.const(32, 0x387F_F000 if nearest else 0x387F_E001))
        edge = o.eq(16, o.and_(16, half, o.const(16, 0x7FFF)), o.const(16, 0x0400))
        sign = o.and_(16, half, o.const(16, 0x8000))
        return self._zero_if_tiny("h", o.select(16, o.and_(1, edge, below), sign, half))

    def _odd_single(self, a: Value, env: str | None) -> Value:
        """Emit the conversion of binary64 to binary32 with round-to-odd, for magnitudes limited to 2**-100 to 2**100.

        Rounding that result to binary16 then gives the correctly rounded value."""
        o = self.ints
        text, c = self.text, o.const
        kept = (
            self._zero_if_tiny("d", a)
            if env == "flush" or (env is None and not self.mode.keeps_denormals("d")[0])
            else a
        )
        lost = o.ne(64, o.and_(64, kept, c(64, (1 << 29) - 1)), c(64, 0))
        odd = o.or_(64, o.shl(64, o.lshr(64, kept, c(64, 29)), c(64, 29)), o.shl(64, o.zext(64, 1, lost), c(64, 29)))
        magnitude, least = o.and_(64, odd, c(64, (1 << 63) - 1)), c(64, 1023 - 100 << 52)
        held = o.select(64, o.eq(64, magnitude, c(64, 0)), magnitude, o.umax(64, magnitude, least))
        finite = o.ult(64, magnitude, c(64, INFINITY["d"]))
        held = o.select(64, finite, o.umin(64, held, c(64, 1023 + 100 << 52)), held)
        signed = o.or_(64, held, o.and_(64, odd, c(64, 1 << 63)))
        return self._real(
            "s", self._compute("fptrunc", "s", False, text.floating(signed, "d", True), of=text.ftype("d", True))
        )

    def _narrow(self, a: Value, env: str | None, rounding: int | None = None) -> Value:
        """Emit the conversion of binary32 to binary16, with the host's rounding mode or with `rounding`.

        If `rounding` is given, the host's rounding to nearest is used, and its result is corrected."""
        text = self.text
        strict = self._is_strict("h", "s", env)
        name = self._compute("fptrunc", "h", strict, text.floating(a, "s", True), of=text.ftype("s", True))
        half = self._canonical_half(Value(16, True, name.bitcast(text.itype(16, True))))
        if rounding is not None and rounding != self._host_rounding("h", env):
            half = self._rerounded(half, a, rounding)
        if self.mode.fp16_overflow and env != "raw":
            half = self._without_overflow(half, a)
        return half

    def _host_rounding(self, fmt: str, env: str | None) -> int:
        return NEAREST if env == "raw" else self.mode.rounding(fmt)

    def _canonical_half(self, half: Value) -> Value:
        o = self.ints
        nan = o.ult(16, o.const(16, INFINITY["h"]), o.and_(16, half, o.const(16, 0x7FFF)))
        return o.select(16, nan, o.const(16, QUIET_NAN["h"]), half)

    def _rerounded(self, half: Value, a: Value, rounding: int) -> Value:
        """Emit the correction of `half`, the binary16 nearest to the binary32 `a`, for another rounding mode.

        The result is the neighbouring binary16 if the mode `rounding` requires that."""
        o = self.ints
        if rounding != 3:
            raise Untranslated
        back = self._real("s", self._widen(half))
        magnitude = o.const(32, 0x7FFF_FFFF)
        beyond = o.ult(32, o.and_(32, a, magnitude), o.and_(32, back, magnitude))
        finite = o.ult(32, o.and_(32, a, magnitude), o.const(32, INFINITY["s"]))
        return o.sub(16, half, o.zext(16, 1, o.and_(1, beyond, finite)))

    def _without_overflow(self, half: Value, a: Value) -> Value:
        o = self.ints
        infinite = o.eq(16, o.and_(16, half, o.const(16, 0x7FFF)), o.const(16, INFINITY["h"]))
        finite = o.ult(32, o.and_(32, a, o.const(32, 0x7FFF_FFFF)), o.const(32, INFINITY["s"]))
        return o.select(16, o.and_(1, infinite, finite), o.sub(16, half, o.const(16, 1)), half)

    def _flush_half(self, a: Value, env: str | None, side: int) -> Value:
        keeps = env == "raw" or (env is None and self.mode.keeps_denormals("h")[side])
        return a if keeps else self._zero_if_tiny("h", a)

    def _zero_if_tiny(self, fmt: str, a: Value) -> Value:
        o = self.ints
        w = WIDTH[fmt]
        exponent = o.and_(w, a, o.const(w, INFINITY[fmt]))
        sign = o.and_(w, a, o.const(w, 1 << (w - 1)))
        return o.select(w, o.eq(w, exponent, o.const(w, 0)), sign, a)

    def _fma_half(self, a: Value, b: Value, c: Value, env: str | None) -> Value:
        """Emit a * b + c for binary16, computed in binary32.

        The product is exact in binary32. The sum is rounded to odd, so that rounding it again to binary16 is
        harmless."""
        o = self.ints
        if self._host_rounding("h", env) != NEAREST:
            raise Untranslated
        text = self.text
        x, y, z = (self._widen(self._flush_half(value, env, 0)) for value in (a, b, c))
        product = x.fmul(y)
        total = product.fadd(z)
        # Knuth's two-sum: the error of the addition, exactly.
        part = total.fsub(product)
        left = product.fsub(total.fsub(part))
        right = z.fsub(part)
        error = left.fadd(right)
        zero = "zeroinitializer"
        inexact = Value(1, True, error.compare_floats("one", zero))
        bits = Value(32, True, total.bitcast(text.itype(32, True)))
        wrong = Value(32, True, error.bitcast(text.itype(32, True)))
        # An even inexact sum moves towards its error: away from zero where the signs agree.
        agree = o.eq(32, o.lshr(32, o.xor(32, bits, wrong), o.const(32, 31)), o.const(32, 0))
        step = o.select(32, agree, o.const(32, 1), o.const(32, -1))
        even = o.eq(32, o.and_(32, bits, o.const(32, 1)), o.const(32, 0))
        odd = o.select(32, o.and_(1, inexact, even), o.add(32, bits, step), bits)
        return self._to_half(odd, env)

    # ---- comparisons -------------------------------------------------------------------------------------------
    feq = _compare("oeq")
    flt = _compare("olt")
    fle = _compare("ole")
    funo = _compare("uno")

    def _compare_floats(self, word: str, fmt: str, a: Value, b: Value) -> Value:
        work, x = self._operand(fmt, a, None)
        _, y = self._operand(fmt, b, None)
        text, kind = self.text, self.text.ftype(work, True)
        if fmt == "h" or self.mode.keeps_denormals(fmt)[0]:
            return Value(1, True, x.compare_floats(word, y))
        name = f"llvm.experimental.constrained.fcmp.{text.suffix(_kind(work), True)}"
        arguments = *self._unknown(kind, (x, y)), f'metadata !"{word}"', 'metadata !"fpexcept.ignore"'
        return Value(1, True, text.call(text.itype(1, True), name, *arguments, tail=" strictfp"))

    def fflush(self, fmt: str, a: Value) -> Value:
        """Emit the flushing of `a` to zero if it is denormal and MODE flushes inputs."""
        return a if self.mode.keeps_denormals(fmt)[0] else self._zero_if_tiny(fmt, a)

    # ---- conversions -------------------------------------------------------------------------------------------
    def fround(self, fmt: str, a: Value, kind: str) -> Value:
        """Emit the rounding of `a` to an integral value; `kind` is the rounding direction."""
        work, x = self._operand(fmt, a if fmt == "h" else self.fflush(fmt, a), None)
        return self._result(fmt, work, self._real(work, self._compute(ROUND_NAMES[kind], work, False, x)), None)

    def fconvert(self, to: str, fmt: str, a: Value, env: str | None = None, rounding: int | None = None) -> Value:
        """Emit the conversion of `a` from format `fmt` to format `to`.

        `rounding` is a rounding mode that replaces the one in MODE.
        """
        text = self.text
        if to == fmt:
            raise Untranslated
        if fmt == "h":
            wide = self._real("s", self._widen(self._flush_half(a, env, 0)))
            if to == "s":
                return wide
            fmt, a = "s", wide
        if to == "h":
            return self._to_half(self._odd_single(a, env) if fmt == "d" else a, env, rounding)
        word = "fpext" if to == "d" else "fptrunc"
        if word == "fptrunc" and rounding is not None and rounding != self._host_rounding("s", env):
            raise Untranslated
        x, ftype = text.floating(a, fmt, True), text.ftype(fmt, True)
        strict = self._is_strict(to, to, env) or self._is_strict(fmt, fmt, env)
        return self._real(to, self._compute(word, to, strict, x, of=ftype))

    def ffrom_int(self, fmt: str, w: int, signed: bool, a: Value, env: str | None = None) -> Value:
        """Emit the conversion of an integer to a float."""
        o = self.ints
        if fmt == "h" and w > 16:
            raise Untranslated
        text = self.text
        work = "s" if fmt == "h" else fmt
        source = text.bits(a, True)
        word = "sitofp" if signed else "uitofp"
        strict = self._is_strict(fmt, work, env)
        value = self._real(work, self._compute(word, work, strict, source, of=text.itype(w, True)))
        if strict:  # a host without the conversion subtracts to get 0, which gives -0 when rounding down
            zero = o.const(WIDTH[work], 0)
            value = o.select(WIDTH[work], o.eq(w, a, o.const(w, 0)), zero, value)
        return self._result(fmt, work, value, env)

    def fto_int(self, fmt: str, w: int, signed: bool, a: Value) -> Value:
        """Emit the conversion of a float to an integer of `w` bits, rounded towards zero and saturated."""
        text = self.text
        work, x = self._operand(fmt, a, "raw")
        itype, ftype = text.itype(w, True), text.ftype(work, True)
        name = f"llvm.fpto{'si' if signed else 'ui'}.sat.{text.suffix(f'i{w}', True)}.{text.suffix(_kind(work), True)}"
        return Value(w, True, text.call(itype, name, f"{ftype} {x}"))

    def fldexp(self, fmt: str, a: Value, n: Value, env: str | None = None) -> Value:
        """Emit a * 2**n, rounded once."""
        if fmt == "d":
            return self._ldexp_double(a, n)
        # Exact in the next wider format, then one rounding on the way back.
        work, limit = ("d", 700) if fmt == "s" else ("s", 60)
        text = self.text
        strict = self._is_strict(fmt, fmt, env)
        if fmt == "s":
            exact = self._compute("fpext", "d", strict, text.floating(a, "s", True), of=text.ftype("s", True))
            wide = self._real("d", exact)
        else:
            wide = self._real("s", self._widen(self._flush_half(a, env, 0)))
        scaled = self.fmul(work, wide, self._power(work, n, -limit, limit), "raw")
        if fmt == "h":
            return self._to_half(scaled, env)
        x = text.floating(scaled, "d", True)
        return self._real("s", self._compute("fptrunc", "s", strict, x, of=text.ftype("d", True)))

    def _power(self, fmt: str, n: Value, low: int, high: int) -> Value:
        """Emit 2**n, with n limited to the range from `low` to `high`, which are exponents of normal numbers."""
        o = self.ints
        held = o.smin(32, o.smax(32, n, o.const(32, low)), o.const(32, high))
        if fmt == "s":
            return o.shl(32, o.add(32, held, o.const(32, 127)), o.const(32, 23))
        wide = o.zext(64, 32, o.add(32, held, o.const(32, 1023)))
        return o.shl(64, wide, o.const(64, 52))

    def _ldexp_double(self, a: Value, n: Value) -> Value:
        """Emit a * 2**n for binary64: the fraction, from 1 to 2, times two powers of two.

        Only the second multiplication can round.
        """
        o = self.ints
        c, infinity = o.const, o.const(64, INFINITY["d"])
        kept = self.fflush("d", a)
        magnitude = o.and_(64, kept, c(64, (1 << 63) - 1))
        # A denormal is shifted up until its highest bit is the hidden one.
        shift = o.smax(64, o.sub(64, o.ctlz(64, magnitude), c(64, 11)), c(64, 0))
        held = o.umin(64, shift, c(64, 52))
        exponent = o.sub(64, o.umax(64, o.lshr(64, magnitude, c(64, 52)), c(64, 1)), held)
        fraction = o.and_(64, o.shl(64, magnitude, held), c(64, (1 << 52) - 1))
        one = o.or_(64, o.and_(64, kept, c(64, 1 << 63)), o.or_(64, fraction, c(64, 1023 << 52)))
        limited = o.sext(64, 32, o.smin(32, o.smax(32, n, c(32, -5000)), c(32, 5000)))
        total = o.add(64, limited, o.sub(64, exponent, c(64, 1023)))
        total = o.smin(64, o.smax(64, total, c(64, -1100)), c(64, 1100))
        first = o.smin(64, o.smax(64, total, c(64, -1000)), c(64, 1000))
        powers = [o.shl(64, o.add(64, k, c(64, 1023)), c(64, 52)) for k in (first, o.sub(64, total, first))]
        result = self.fmul("d", self.fmul("d", one, powers[0], "raw"), powers[1], None)
        special = o.or_(1, o.eq(64, magnitude, c(64, 0)), o.ule(64, infinity, magnitude))
        nan = o.select(64, o.ult(64, infinity, magnitude), c(64, QUIET_NAN["d"]), kept)
        return o.select(64, special, nan, result)


def _kind(fmt: str) -> str:
    return f"f{WIDTH[fmt]}"


def _element(kind: str) -> str:
    """Return the element type of an LLVM vector type."""
    return kind.split()[-1].rstrip(">")


SUFFIX: Final = {name: _kind(fmt) for fmt, name in FLOAT_TYPE.items()} | {f"i{w}": f"i{w}" for w in (8, 16, 32, 64)}
"""The suffix of LLVM intrinsics for each element type."""
