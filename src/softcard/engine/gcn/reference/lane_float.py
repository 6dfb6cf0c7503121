"""The float operations of the reference engine on 64 lanes of IEEE 754 bit patterns, rounded as MODE selects.

The host's float unit computes results if they are exact or can be corrected. Otherwise Python integers
(`ir.softfloat`) compute them lane by lane.

If MODE flushes results, results that are tiny after rounding are flushed, as on x86. If MODE flushes
operands, denormal operands are flushed. The caller must disable NumPy's warnings (`quiet`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from softcard.core.errors import ModelBug
from softcard.engine.gcn.reference.lane_integer import SIGNED, UNSIGNED, Array, Value, any_lane, lanes_of
from softcard.ir import softfloat
from softcard.ir.softfloat import CANONICAL_NAN, FORMATS, RDN, RNE, RTZ, RUP, UF
from softcard.isa.gcn.state import LANES, Mode

# ---- rounding --------------------------------------------------------------------------------------------------------
# Rounding of lanes: narrowing binary64 values once, sums rounded to odd, tininess, and fused multiply-adds.
#
# Binary16 and binary32 results are computed in binary64 such that narrowing them rounds once: products are exact there,
# quotients and roots have more than twice the bits, sums (and sums with a product) are rounded to odd, after which any
# later rounding to at least two bits less is right (Boldo, Melquiond, "Emulation of FMA and correctly rounded sums",
# 2008).


Doubles = npt.NDArray[np.float64]

FLOAT: Final[dict[str, np.dtype[Any]]] = {
    f: np.dtype(t) for f, t in (("h", np.float16), ("s", np.float32), ("d", np.float64))
}
BITS: Final = {"h": 16, "s": 32, "d": 64}
ROUNDING: Final = (RNE, RUP, RDN, RTZ)
"""The rounding modes by their number in MODE, as constants of `ir.softfloat`."""


class Environment(NamedTuple):
    """The rounding mode of an operation, and whether denormal operands and denormal results are kept (not flushed)."""

    rounding: int
    inputs: bool
    results: bool
    limited: bool = False
    """True if binary16 overflow gives the largest finite number (FP16_OVFL)."""


RAW: Final = Environment(RNE, True, True)


class Patterns(NamedTuple):
    """The bit patterns of a format with which values are compared, as arrays of lanes.

    They are kept here because `lanes_of` may drop its cached arrays."""

    one: Array
    """The bit pattern 1, which is the smallest denormal."""
    magnitude: Array
    sign: Array
    hidden: Array
    """The bit pattern of the smallest normal number."""
    denormals: Array
    infinity: Array
    nan: Array


def _patterns(fmt: str) -> Patterns:
    f = FORMATS[fmt]
    numbers = (1, f.sign - 1, f.sign, f.hidden, f.hidden - 1, f.inf, CANONICAL_NAN[fmt])
    return Patterns(*(lanes_of(BITS[fmt], n) for n in numbers))


PATTERNS: Final = {fmt: _patterns(fmt) for fmt in FORMATS}
_DROPPED: Final = lanes_of(64, (1 << 29) - 1)
"""The fraction bits that binary64 has and binary32 lacks."""
_HALF: Final = lanes_of(64, 1 << 28)


def quiet() -> Any:
    """Return a context manager that disables NumPy's float warnings."""
    return np.errstate(all="ignore")


def flushed(fmt: str, a: Array) -> Array:
    """Replace denormals by zeros of their sign."""
    p = PATTERNS[fmt]
    denormal = (a & p.magnitude) - p.one < p.denormals
    if not any_lane(denormal):
        return a
    result = a.copy()
    np.copyto(result, a & p.sign, where=denormal)
    return result


def canonical(fmt: str, bits: Array, x: Array) -> None:
    """Replace, in place, the bit patterns of NaNs by the canonical NaN; `x` has the same values as floats."""
    nan = x != x
    if any_lane(nan):
        np.copyto(bits, PATTERNS[fmt].nan, where=nan)


def odd_sum(a: Doubles, b: Doubles) -> Doubles:
    """Return a + b rounded to odd: truncated, and the last bit set if that was inexact.

    Finite sums must not overflow.
    """
    total = a + b
    rest = total - a
    error = (a - (total - rest)) + (b - rest)
    bits = total.view(np.int64)
    # Where the sum is even and inexact, its neighbour on the side of the error is odd.
    adjust = (error != 0) & (error == error) & ((bits & 1) == 0)
    step = np.where((error < 0) == (total < 0), 1, -1)
    return np.where(adjust, bits + step, bits).view(np.float64)


def signed_sum(rounding: int, a: Doubles, b: Doubles) -> Doubles:
    """Return a + b rounded to odd.

    An exact zero sum of operands with unlike signs is -0 if the rounding mode is downwards, else +0.
    """
    total = odd_sum(a, b)
    if rounding == RDN:
        np.copyto(total, -0.0, where=(total == 0) & (np.signbit(a) | np.signbit(b)))
    return total


def narrow(fmt: str, x: Doubles, e: Environment) -> Array:
    """Return binary64 values rounded once to format "h" or "s", as bit patterns with canonical NaNs."""
    w, p = BITS[fmt], PATTERNS[fmt]
    result = x.astype(FLOAT[fmt])
    bits: Array = result.view(UNSIGNED[w])
    if e.rounding != RNE:
        _direct(w, bits, result.astype(np.float64), x, e.rounding)
    if not e.results:
        magnitude = bits & p.magnitude
        if any_lane(magnitude - p.one < p.hidden):
            tiny = magnitude < p.hidden
            tiny |= (magnitude == p.hidden) & _tiny_before(fmt, x, e.rounding)
            np.copyto(bits, bits & p.sign, where=tiny)
    if e.limited:
        over = ((bits & p.magnitude) == p.infinity) & np.isfinite(x)
        np.copyto(bits, bits - p.one, where=over)
    canonical(fmt, bits, x)
    return bits


def _direct(w: int, bits: Array, back: Doubles, x: Doubles, rounding: int) -> None:
    """Correct, in place, the bit patterns `bits` of results for a directed rounding mode.

    The results were rounded to nearest even. `back` has the same results as floats, and `x` the exact values.
    Results on the wrong side of `x` are moved by one unit in the last place."""
    negative = bits >> lanes_of(w, w - 1) != lanes_of(w, 0)
    if rounding == RTZ:
        np.copyto(bits, bits - lanes_of(w, 1), where=np.abs(back) > np.abs(x))
        return
    wrong = back > x if rounding == RDN else back < x
    grows = negative if rounding == RDN else ~negative
    np.copyto(bits, np.where(grows, bits + lanes_of(w, 1), bits - lanes_of(w, 1)), where=wrong)


def _tiny_before(fmt: str, x: Doubles, rounding: int) -> Array:
    """Return a mask of the values that are tiny before their exponent is limited to the range of format `fmt`.

    A value is tiny if its magnitude, rounded with an unbounded exponent, is below the smallest normal number.
    It may nevertheless round to that number in format `fmt`."""
    precision = FORMATS[fmt].precision
    normal = 2.0 ** (FORMATS[fmt].lsb + precision - 1)
    if rounding == RNE:
        return np.abs(x) < normal * (1 - 2.0 ** -(precision + 1))
    return np.abs(x) <= normal * (1 - 2.0**-precision)


def host32(result: Array, e: Environment) -> Array | None:
    """Return the bit patterns of binary32 results that the host has computed.

    If results are flushed, return None if some result is the smallest normal number: it may be tiny, and has to
    be computed in another way."""
    bits: Array = result.view(np.uint32)
    p = PATTERNS["s"]
    canonical("s", bits, result)
    if not e.results:
        magnitude = bits & p.magnitude
        if any_lane(magnitude - p.one < p.hidden):
            if any_lane(magnitude == p.hidden):
                return None
            np.copyto(bits, bits & p.sign, where=magnitude < p.hidden)
    return bits


def fused32(a: Array, b: Array, c: Array) -> Array | None:
    """Return a * b + c of binary32 values, rounded to nearest; None if some lane needs an exact computation.

    The sum is first rounded to binary64. This double rounding is harmless except in two cases: the rounded sum
    lies halfway between two binary32 numbers, or it is so small that it is denormal in binary32."""
    total = a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)
    if any_lane((total.view(np.uint64) & _DROPPED) == _HALF):
        return None
    result = total.astype(np.float32)
    p = PATTERNS["s"]
    small = (result.view(np.uint32) & p.magnitude) <= p.hidden
    return None if any_lane(small) and any_lane(small & (total != 0)) else result


def _product_error(a: Doubles, b: Doubles, product: Doubles) -> Doubles:
    """Return a * b - product exactly (Dekker's algorithm), provided that nothing overflows or underflows."""
    wide_a, wide_b = a * 134217729.0, b * 134217729.0
    high_a, high_b = wide_a - (wide_a - a), wide_b - (wide_b - b)
    low_a, low_b = a - high_a, b - high_b
    return ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b


def _two_sum(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    total = a + b
    rest = total - a
    return total, (a - (total - rest)) + (b - rest)


def fma64(a: Doubles, b: Doubles, c: Doubles) -> tuple[Doubles, Array]:
    """Return a * b + c rounded to nearest, and a mask of the lanes for which this computation is not valid."""
    product = a * b
    error = _product_error(a, b, product)
    high, low = _two_sum(c, error)
    total, rest = _two_sum(product, high)
    result = total + odd_sum(low, rest)
    good = np.abs(c) < 2.0**1000
    for size in (np.abs(a), np.abs(b)):
        good &= (size > 2.0**-480) & (size < 2.0**480)
    return result, ~good | (result == 0)


# ---- operations ------------------------------------------------------------------------------------------------------


__all__ = ["LaneFloats", "quiet"]

NARROW: Final[dict[str, Callable[..., Doubles]]] = {
    "add": signed_sum,
    "sub": lambda rounding, a, b: signed_sum(rounding, a, -b),
    "mul": lambda rounding, a, b: a * b,
    "div": lambda rounding, a, b: a / b,
    "sqrt": lambda rounding, a: np.sqrt(a),
    "fma": lambda rounding, a, b, c: signed_sum(rounding, a * b, c),
}
Exactly = Callable[[Array], list[int]]
"""The type of a function that returns the bit patterns of the lanes at some indices, computed in integers."""
HOST: Final[dict[str, Callable[..., Array]]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
}
EXACT: Final[dict[str, Callable[..., softfloat.Result]]] = {
    "add": softfloat.add,
    "sub": softfloat.sub,
    "mul": softfloat.mul,
    "div": softfloat.div,
    "sqrt": softfloat.sqrt,
    "fma": softfloat.fma,
}
INTEGRAL: Final[dict[str, Callable[[Array], Array]]] = {
    "trunc": np.trunc,
    "ceil": np.ceil,
    "floor": np.floor,
    "even": np.rint,
}


def _exact(fmt: str, e: Environment, function: Callable[..., softfloat.Result], *operands: list[int]) -> list[int]:
    """Return the results of an operation that Python integers compute lane by lane, as bit patterns."""
    f, results = FORMATS[fmt], []
    for values in zip(*operands, strict=True):
        bits, flags = function(fmt, *values, e.rounding)
        if not e.results and (flags & UF or bits & ~f.sign < f.hidden):
            bits &= f.sign
        results.append(bits)
    return results


def _finish(fmt: str, e: Environment, result: Array, unsure: Array | None, exact: Exactly) -> Array:
    """Return results that the host has rounded to nearest, as bit patterns with canonical NaNs.

    Denormal results are flushed if `e` requires it. `exact` computes the lanes in the mask `unsure` again, in
    integers."""
    p = PATTERNS[fmt]
    bits: Array = result.view(UNSIGNED[BITS[fmt]])
    canonical(fmt, bits, result)
    if not e.results:
        magnitude = bits & p.magnitude
        edge = magnitude == p.hidden
        unsure = edge if unsure is None else unsure | edge
        np.copyto(bits, bits & p.sign, where=magnitude < p.hidden)
    if unsure is not None and any_lane(unsure):
        where = np.flatnonzero(unsure)
        bits[where] = exact(where)
    return bits


def _arithmetic(kind: str) -> Callable[..., Value]:
    """Return a method for the arithmetic operation `kind` on two floats."""

    def method(self: LaneFloats, fmt: str, a: Value, b: Value, env: str | None = None) -> Value:
        return self._arithmetic(kind, fmt, env, a, b)

    return method


def _compare(holds: Callable[[Array, Array], Array]) -> Callable[..., Value]:
    """Return a method for a comparison of floats.

    Comparisons with a NaN are false, except for the comparison that tests for a NaN.
    """
    return lambda self, fmt, a, b: self._compare(holds, fmt, a, b)


class LaneFloats:
    """The float operations of `isa.gcn.algebra.FloatAlgebra` over lanes; int operands give an int result."""

    def __init__(self) -> None:
        self.mode = Mode()
        self._known_mode = self.mode
        self._environments: dict[tuple[str, str | None], Environment] = {}

    def environment(self, fmt: str, env: str | None = None) -> Environment:
        """Return the rounding and denormal modes of an operation on format `fmt` under the current MODE.

        `env` names an environment that replaces parts of them."""
        if self._known_mode is not self.mode:
            self._known_mode = self.mode
            self._environments.clear()
        found = self._environments.get((fmt, env))
        if found is None:
            found = self._environments[fmt, env] = _environment(self.mode, fmt, env)
        return found

    # -- arithmetic

    fadd = _arithmetic("add")
    fsub = _arithmetic("sub")
    fmul = _arithmetic("mul")
    fdiv = _arithmetic("div")

    def fsqrt(self, fmt: str, a: Value, env: str | None = None) -> Value:
        """Compute the square root."""
        return self._arithmetic("sqrt", fmt, env, a)

    def fma(self, fmt: str, a: Value, b: Value, c: Value, env: str | None = None) -> Value:
        """Compute a * b + c with one rounding."""
        return self._arithmetic("fma", fmt, env, a, b, c)

    def _arithmetic(self, kind: str, fmt: str, env: str | None, *operands: Value) -> Value:
        e, w = self.environment(fmt, env), BITS[fmt]
        arrays = [lanes_of(w, a) if type(a) is int else a for a in operands]
        if not e.inputs:
            arrays = [flushed(fmt, a) for a in arrays]
        values = [a.view(FLOAT[fmt]) for a in arrays]
        result = None
        if fmt == "d":
            result = self._binary64(kind, e, arrays, values)
        elif fmt == "s" and e.rounding == RNE:
            rounded = fused32(*values) if kind == "fma" else HOST[kind](*values)
            result = None if rounded is None else host32(rounded, e)
        if result is None:
            result = narrow(fmt, NARROW[kind](e.rounding, *[a.astype(np.float64) for a in values]), e)
        return int(result[0]) if _all_scalar(operands) else result

    def _binary64(self, kind: str, e: Environment, arrays: list[Array], values: list[Array]) -> Array:
        def exact(where: Array) -> list[int]:
            return _exact("d", e, EXACT[kind], *(a[where].tolist() for a in arrays))

        if e.rounding != RNE:
            return np.array(exact(np.arange(LANES)), np.uint64)
        unsure = None
        if kind == "fma":
            result, unsure = fma64(values[0], values[1], values[2])
        else:
            result = HOST[kind](*values)
        return _finish("d", e, result, unsure, exact)

    # -- comparisons

    feq = _compare(np.equal)
    flt = _compare(np.less)
    fle = _compare(np.less_equal)
    funo = _compare(lambda x, y: (x != x) | (y != y))

    def _compare(self, holds: Callable[[Array, Array], Array], fmt: str, a: Value, b: Value) -> Value:
        result = holds(self._values(fmt, a), self._values(fmt, b))
        return int(result[0]) if _all_scalar((a, b)) else result

    def _values(self, fmt: str, a: Value, env: str | None = None) -> Array:
        """Return an operand as floats; denormals are flushed if the environment flushes operands."""
        lanes = lanes_of(BITS[fmt], a) if type(a) is int else a
        return (lanes if self.environment(fmt, env).inputs else flushed(fmt, lanes)).view(FLOAT[fmt])

    # -- shape

    def fflush(self, fmt: str, a: Value) -> Value:
        """Replace denormals by zeros of their sign if MODE flushes inputs."""
        if self.environment(fmt).inputs:
            return a
        return int(flushed(fmt, lanes_of(BITS[fmt], a))[0]) if type(a) is int else flushed(fmt, a)

    def fround(self, fmt: str, a: Value, kind: str) -> Value:
        """Round to an integral value: kind "trunc", "ceil", "floor" or "even"."""
        if kind not in INTEGRAL:
            raise ModelBug(f"a kind of rounding to integral must be one of {', '.join(INTEGRAL)}, not {kind!r}")
        w = BITS[fmt]
        rounded = INTEGRAL[kind](self._values(fmt, a).astype(np.float64)).astype(FLOAT[fmt])
        bits: Array = rounded.view(UNSIGNED[w])
        canonical(fmt, bits, rounded)
        return int(bits[0]) if type(a) is int else bits

    def fldexp(self, fmt: str, a: Value, n: Value, env: str | None = None) -> Value:
        """Compute a * 2**n with one rounding; `n` is a signed 32-bit value."""
        e = self.environment(fmt, env)
        value = self._values(fmt, a, env)
        power: Array = (lanes_of(32, n) if type(n) is int else n).view(np.int32)
        if fmt == "d":
            result = self._scaled64(e, value, power)
        else:
            result = narrow(fmt, np.ldexp(value.astype(np.float64), power.clip(-400, 400)), e)
        return int(result[0]) if _all_scalar((a, n)) else result

    def _scaled64(self, e: Environment, value: Array, power: Array) -> Array:
        def exact(where: Array) -> list[int]:
            return _exact("d", e, softfloat.scale, value.view(np.uint64)[where].tolist(), power[where].tolist())

        if e.rounding != RNE:
            return np.array(exact(np.arange(LANES)), np.uint64)
        return _finish("d", e, np.ldexp(value, power.clip(-5000, 5000)), None, exact)

    # -- conversions

    def fconvert(self, to: str, fmt: str, a: Value, env: str | None = None, rounding: int | None = None) -> Value:
        """Convert `a` from format `fmt` to format `to`.

        `rounding`, a number as in MODE, overrides the rounding mode that MODE selects for format `to`."""
        e = self.environment(to, env)
        if rounding is not None:
            e = e._replace(rounding=ROUNDING[rounding])
        x = self._values(fmt, a, env).astype(np.float64)
        if to == "d":  # exact
            result = _finish("d", e, x, None, lambda where: x.view(np.uint64)[where].tolist())
        else:
            result = narrow(to, x, e)
        return int(result[0]) if type(a) is int else result

    def ffrom_int(self, fmt: str, w: int, signed: bool, a: Value, env: str | None = None) -> Value:
        """Convert the integer `a` to a float."""
        e = self.environment(fmt, env)
        lanes: Array = lanes_of(w, a) if type(a) is int else a
        number = lanes.view(SIGNED[w]) if signed else lanes
        if fmt == "d":
            result: Array = number.astype(np.float64).view(np.uint64)
            if w == 64 and e.rounding != RNE:
                result = np.array(
                    [softfloat.from_int("d", 64, signed, n, e.rounding)[0] for n in lanes.tolist()], np.uint64
                )
        elif w == 64:
            high = (number >> number.dtype.type(32)).astype(np.float64) * 2.0**32
            result = narrow(fmt, odd_sum(high, lanes.astype(np.uint32).astype(np.float64)), e)
        elif fmt == "s" and e.rounding == RNE:  # a nonzero integer is never denormal
            result = number.astype(np.float32).view(np.uint32)
        else:
            result = narrow(fmt, number.astype(np.float64), e)
        return int(result[0]) if type(a) is int else result

    def fto_int(self, fmt: str, w: int, signed: bool, a: Value) -> Value:
        """Convert the float `a` to an integer of `w` bits, truncated towards zero and saturated; a NaN gives 0."""
        x = self._values(fmt, a).astype(np.float64)
        np.copyto(x, 0.0, where=x != x)
        number = _saturated(x, w, signed) if w == 64 else _clipped(x, w, signed)
        return int(number[0]) if type(a) is int else number


def _clipped(x: Doubles, w: int, signed: bool) -> Array:
    """Return the floats `x` as integers of `w` bits, truncated towards zero and saturated.

    binary64 must represent the limits of these integers exactly."""
    low, high = (-(1 << (w - 1)), (1 << (w - 1)) - 1) if signed else (0, (1 << w) - 1)
    return np.minimum(np.maximum(x, float(low)), float(high)).astype(np.int64).astype(UNSIGNED[w])


def _saturated(x: Doubles, w: int, signed: bool) -> Array:
    """Return the floats `x` as 64-bit integers, truncated towards zero and saturated."""
    low, high = (-(2.0 ** (w - 1)), 2.0 ** (w - 1)) if signed else (0.0, 2.0**w)
    top = (1 << (w - 1)) - 1 if signed else (1 << w) - 1
    inside = np.where((x > low) & (x < high), x, 0.0)
    # Numbers from 2**63 on do not fit the host's conversion to signed; subtract 2**63 before, add it afterwards.
    large = inside >= 2.0**63
    number: Array = np.where(large, inside - 2.0**63, inside).astype(np.int64).view(np.uint64)
    number = np.where(large, number + np.uint64(1 << 63), number)
    number = np.where(x >= high, lanes_of(w, top), number)
    return np.where(x <= low, lanes_of(w, int(low) & ((1 << w) - 1)), number)


def _all_scalar(operands: tuple[Value, ...]) -> bool:
    return all(type(a) is int for a in operands)


def _environment(mode: Mode, fmt: str, env: str | None) -> Environment:
    if env == "raw":
        return RAW
    if env not in (None, "flush"):
        raise ModelBug(f"a float environment must be None, 'flush' or 'raw', not {env!r}")
    rounding = ROUNDING[mode.rounding(fmt)]
    inputs, results = mode.keeps_denormals(fmt) if env is None else (False, False)
    return Environment(rounding, inputs, results, mode.fp16_overflow and fmt == "h")
