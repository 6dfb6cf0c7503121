"""How lanes round: narrowing binary64 values once, sums rounded to odd, tininess, and fused multiply-adds.

Binary16 and binary32 results are computed in binary64 such that narrowing them rounds once: products are exact there,
quotients and roots have more than twice the bits, sums (and sums with a product) are rounded to odd, after which any
later rounding to at least two bits less is right (Boldo, Melquiond, "Emulation of FMA and correctly rounded sums",
2008).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from understudy.engine.gcn.reference.lane_integer import UNSIGNED, Array, any_lane, lanes_of
from understudy.ir.softfloat import CANONICAL_NAN, FORMATS, RDN, RNE, RTZ, RUP

Doubles = npt.NDArray[np.float64]

FLOAT: Final[dict[str, np.dtype[Any]]] = {
    f: np.dtype(t) for f, t in (("h", np.float16), ("s", np.float32), ("d", np.float64))
}
BITS: Final = {"h": 16, "s": 32, "d": 64}
ROUNDING: Final = (RNE, RUP, RDN, RTZ)
"""The rounding modes of MODE, by number, as `engine.floats` numbers them."""


class Environment(NamedTuple):
    """How an operation rounds, and whether denormal inputs and results are kept."""

    rounding: int
    inputs: bool
    results: bool
    limited: bool = False
    """Halves that overflow become the largest finite one (FP16_OVFL)."""


RAW: Final = Environment(RNE, True, True)


class Patterns(NamedTuple):
    """What a format's patterns are compared with, as lanes that outlive the cache of `lanes_of`."""

    one: Array
    """The number 1: the smallest denormal."""
    magnitude: Array
    sign: Array
    hidden: Array
    """The smallest normal number; as many patterns, less one, are denormals of a sign."""
    denormals: Array
    infinity: Array
    nan: Array


def _patterns(fmt: str) -> Patterns:
    f = FORMATS[fmt]
    numbers = (1, f.sign - 1, f.sign, f.hidden, f.hidden - 1, f.inf, CANONICAL_NAN[fmt])
    return Patterns(*(lanes_of(BITS[fmt], n) for n in numbers))


PATTERNS: Final = {fmt: _patterns(fmt) for fmt in FORMATS}
_DROPPED: Final = lanes_of(64, (1 << 29) - 1)
"""Bits that binary64 has and binary32 has not."""
_HALF: Final = lanes_of(64, 1 << 28)


def quiet() -> Any:
    """A context in which NumPy's float operations raise no warnings."""
    return np.errstate(all="ignore")


def flushed(fmt: str, a: Array) -> Array:
    """Denormals become zeros of their sign."""
    p = PATTERNS[fmt]
    denormal = (a & p.magnitude) - p.one < p.denormals
    if not any_lane(denormal):
        return a
    result = a.copy()
    np.copyto(result, a & p.sign, where=denormal)
    return result


def canonical(fmt: str, bits: Array, x: Array) -> None:
    """Replace the patterns of values that are NaNs, in place."""
    nan = x != x
    if any_lane(nan):
        np.copyto(bits, PATTERNS[fmt].nan, where=nan)


def odd_sum(a: Doubles, b: Doubles) -> Doubles:
    """a + b rounded to odd: truncated, and the last bit set where that was inexact. Finite sums must not overflow."""
    total = a + b
    rest = total - a
    error = (a - (total - rest)) + (b - rest)
    bits = total.view(np.int64)
    # Where the sum is even and inexact, its neighbour on the side of the error is odd.
    adjust = (error != 0) & (error == error) & ((bits & 1) == 0)
    step = np.where((error < 0) == (total < 0), 1, -1)
    return np.where(adjust, bits + step, bits).view(np.float64)


def signed_sum(rounding: int, a: Doubles, b: Doubles) -> Doubles:
    """a + b rounded to odd; an exact zero of unlike signs is -0 when rounding down."""
    total = odd_sum(a, b)
    if rounding == RDN:
        np.copyto(total, -0.0, where=(total == 0) & (np.signbit(a) | np.signbit(b)))
    return total


def narrow(fmt: str, x: Doubles, e: Environment) -> Array:
    """Binary64 values as patterns of format "h" or "s", rounded once, NaNs canonical."""
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
    """Move patterns that nearest-even rounding put on the wrong side of `x` to their neighbour."""
    negative = bits >> lanes_of(w, w - 1) != lanes_of(w, 0)
    if rounding == RTZ:
        np.copyto(bits, bits - lanes_of(w, 1), where=np.abs(back) > np.abs(x))
        return
    wrong = back > x if rounding == RDN else back < x
    grows = negative if rounding == RDN else ~negative
    np.copyto(bits, np.where(grows, bits + lanes_of(w, 1), bits - lanes_of(w, 1)), where=wrong)


def _tiny_before(fmt: str, x: Doubles, rounding: int) -> Array:
    """Whether values that rounded to the smallest normal number would not have, with exponents unbounded."""
    precision = FORMATS[fmt].precision
    normal = 2.0 ** (FORMATS[fmt].lsb + precision - 1)
    if rounding == RNE:
        return np.abs(x) < normal * (1 - 2.0 ** -(precision + 1))
    return np.abs(x) <= normal * (1 - 2.0**-precision)


def host32(result: Array, e: Environment) -> Array | None:
    """Patterns of binary32 results that the host rounded to nearest; None where their tininess needs another look."""
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
    """a * b + c of binary32 values, rounded to nearest; None where some lane must be looked at more closely.

    The sum is rounded to binary64 first, which does no harm unless it then looks like half of a binary32's last place,
    or is so small that the last place is another.
    """
    total = a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)
    if any_lane((total.view(np.uint64) & _DROPPED) == _HALF):
        return None
    result = total.astype(np.float32)
    p = PATTERNS["s"]
    small = (result.view(np.uint32) & p.magnitude) <= p.hidden
    return None if any_lane(small) and any_lane(small & (total != 0)) else result


def _product_error(a: Doubles, b: Doubles, product: Doubles) -> Doubles:
    """a * b - product, exactly (Dekker), where nothing over- or underflows."""
    wide_a, wide_b = a * 134217729.0, b * 134217729.0
    high_a, high_b = wide_a - (wide_a - a), wide_b - (wide_b - b)
    low_a, low_b = a - high_a, b - high_b
    return ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b


def _two_sum(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    total = a + b
    rest = total - a
    return total, (a - (total - rest)) + (b - rest)


def fma64(a: Doubles, b: Doubles, c: Doubles) -> tuple[Doubles, Array]:
    """a * b + c rounded to nearest, and the lanes for which this way of computing it does not hold."""
    product = a * b
    error = _product_error(a, b, product)
    high, low = _two_sum(c, error)
    total, rest = _two_sum(product, high)
    result = total + odd_sum(low, rest)
    good = np.abs(c) < 2.0**1000
    for size in (np.abs(a), np.abs(b)):
        good &= (size > 2.0**-480) & (size < 2.0**480)
    return result, ~good | (result == 0)
