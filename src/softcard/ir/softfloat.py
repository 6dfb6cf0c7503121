"""Exact IEEE 754-2019 arithmetic on bit patterns, in Python integers; the reference engine computes with it.

Every function takes bit patterns of a format ("h" binary16, "s" binary32, "d" binary64) and, where it can round, the
RISC-V number of a rounding mode. It returns the result and the exception flags in the bits of RISC-V's `fflags` (RISC-V
Unprivileged ISA 20191213, "F" 2.2, clauses 11.2 and 11.3). NaN results are the canonical NaN; tininess is detected
after rounding.

A finite operand is represented exactly as ``mant * 2**exp`` with two integers. An operation computes its exact result
in that form; a quotient or root has one sticky bit below the round bit. Only `_round` rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isqrt
from math import sqrt as root
from typing import Final

from softcard.core.errors import ModelBug

RNE: Final = 0
"""The rounding mode to nearest, ties to even."""
RTZ: Final = 1
"""The rounding mode towards zero."""
RDN: Final = 2
"""The rounding mode down, towards minus infinity."""
RUP: Final = 3
"""The rounding mode up, towards plus infinity."""
RMM: Final = 4
"""The rounding mode to nearest, ties to maximum magnitude."""

ROD: Final = 8
"""The rounding mode to odd: towards zero, with the last bit set to 1 if the result is inexact.

The rounding-mode field of instructions cannot encode it.
"""

NV: Final = 16
"""The flag for an invalid operation."""
DZ: Final = 8
"""The flag for a division by zero."""
OF: Final = 4
"""The flag for an overflow."""
UF: Final = 2
"""The flag for an underflow: the result is tiny after rounding, and inexact."""
NX: Final = 1
"""The flag for an inexact result."""

Result = tuple[int, int]
"""A result (a bit pattern or number), and the exception flags that the operation raises."""


@dataclass(frozen=True, slots=True)
class Format:
    """A binary interchange format, defined by its width and precision in bits (IEEE 754, 3.6)."""

    width: int
    precision: int
    sign: int = field(init=False)
    """The mask of the sign bit."""
    inf: int = field(init=False)
    """The bit pattern of +infinity, which is also the mask of the exponent field."""
    quiet: int = field(init=False)
    """The bit that distinguishes a quiet NaN from a signalling one."""
    hidden: int = field(init=False)
    """The implicit leading bit of a normal number's significand, which is not stored."""
    lsb: int = field(init=False)
    """The exponent of the smallest subnormal number."""

    def __post_init__(self) -> None:
        hidden = 1 << (self.precision - 1)
        bias = (1 << (self.width - self.precision - 1)) - 1
        object.__setattr__(self, "sign", 1 << (self.width - 1))
        object.__setattr__(self, "hidden", hidden)
        object.__setattr__(self, "quiet", hidden >> 1)
        object.__setattr__(self, "inf", (2 * bias + 1) * hidden)
        object.__setattr__(self, "lsb", 2 - bias - self.precision)


FORMATS: Final = {
    "h": Format(width=16, precision=11),
    "s": Format(width=32, precision=24),
    "d": Format(width=64, precision=53),
}

CANONICAL_NAN: Final = {letter: f.inf | f.quiet for letter, f in FORMATS.items()}
"""The only NaN that arithmetic returns, by format."""


def is_nan(fmt: str, a: int) -> bool:
    """Return True if `a` is a NaN, quiet or signalling."""
    f = FORMATS[fmt]
    return a & (f.sign - 1) > f.inf


def is_snan(fmt: str, a: int) -> bool:
    """Return True if `a` is a signalling NaN."""
    return is_nan(fmt, a) and not a & FORMATS[fmt].quiet


def _unpack(f: Format, a: int) -> tuple[int, int, int]:
    """Return the sign (0 or 1), mant and exp of a finite number `a`, where abs(a) == mant * 2**exp.

    The result mant is 0 for a zero.
    """
    biased = (a & f.inf) // f.hidden
    mant = a & (f.hidden - 1)
    return int(a & f.sign != 0), mant | f.hidden if biased else mant, f.lsb + max(biased - 1, 0)


def _shift_out(negative: int, mant: int, n: int, rm: int) -> tuple[int, bool]:
    """Return mant / 2**n rounded to an integer (`n` may be negative), and a bool that is True if it is inexact.

    `negative` is the sign, and `rm` the rounding mode.
    """
    if n <= 0:
        return mant << -n, False
    kept, rest = mant >> n, mant & ((1 << n) - 1)
    half = 1 << (n - 1)
    if rm == RNE:
        up = rest > half or (rest == half and kept & 1)
    elif rm == RTZ:
        up = False
    elif rm == RDN:
        up = negative and rest
    elif rm == RUP:
        up = not negative and rest
    elif rm == RMM:
        up = rest >= half
    elif rm == ROD:
        up = rest and not kept & 1
    else:
        raise ModelBug(f"rounding mode is {rm}, expected one of RNE, RTZ, RDN, RUP, RMM and ROD")
    return kept + bool(up), rest != 0


def _round(f: Format, negative: int, mant: int, exp: int, rm: int) -> Result:
    """Return mant * 2**exp, a number other than zero, rounded to format `f`; it is negative if `negative` is 1."""
    sign = f.sign if negative else 0
    wanted = mant.bit_length() + exp - f.precision  # exponent of the last place in an unbounded range
    last = max(wanted, f.lsb)
    kept, inexact = _shift_out(negative, mant, last - exp, rm)
    # A carry out of the fraction increments the exponent field, which is what rounding up to a power of two means.
    bits = (last - f.lsb) * f.hidden + kept
    if bits >= f.inf:
        to_inf = rm in (RNE, RMM) or rm == (RDN if negative else RUP)
        return sign | (f.inf if to_inf else f.inf - 1), OF | NX
    if not inexact:
        return sign | bits, 0
    tiny = wanted < f.lsb
    if wanted == f.lsb - 1:  # may round up to the smallest normal number before the exponent is bounded
        tiny = _shift_out(negative, mant, wanted - exp, rm)[0] < 2 * f.hidden
    return sign | bits, NX | UF if tiny else NX


def _nan(fmt: str, *operands: int) -> Result | None:
    """Return the canonical NaN if any operand is a NaN, else None.

    The flag NV is raised if one of them is signalling.
    """
    if any(is_nan(fmt, a) for a in operands):
        return CANONICAL_NAN[fmt], NV if any(is_snan(fmt, a) for a in operands) else 0
    return None


def _sum(f: Format, a: tuple[int, int, int], b: tuple[int, int, int], rm: int) -> Result:
    """Return a + b of two unpacked finite numbers.

    An exact zero from operands of opposite signs is -0 only when rounding down.
    """
    exp = min(a[2], b[2])
    mant_a, mant_b = a[1] << (a[2] - exp), b[1] << (b[2] - exp)
    total = (-mant_a if a[0] else mant_a) + (-mant_b if b[0] else mant_b)
    if total == 0:
        negative = a[0] if a[0] == b[0] else rm == RDN
        return f.sign if negative else 0, 0
    return _round(f, int(total < 0), abs(total), exp, rm)


def add(fmt: str, a: int, b: int, rm: int) -> Result:
    """Return a + b (IEEE 754, 5.4.1); the sum of infinities with different signs raises NV."""
    f = FORMATS[fmt]
    nan = _nan(fmt, a, b)
    if nan is not None:
        return nan
    if a & f.inf == f.inf or b & f.inf == f.inf:
        if a & f.inf == b & f.inf and a != b:
            return CANONICAL_NAN[fmt], NV
        return a if a & f.inf == f.inf else b, 0
    return _sum(f, _unpack(f, a), _unpack(f, b), rm)


def sub(fmt: str, a: int, b: int, rm: int) -> Result:
    """Return a - b (IEEE 754, 5.4.1); the difference of infinities with equal signs raises NV."""
    return add(fmt, a, b ^ FORMATS[fmt].sign, rm)


def mul(fmt: str, a: int, b: int, rm: int) -> Result:
    """Return a * b (IEEE 754, 5.4.1); zero times infinity raises NV."""
    f = FORMATS[fmt]
    nan = _nan(fmt, a, b)
    if nan is not None:
        return nan
    sign = (a ^ b) & f.sign
    magnitudes = (a & ~f.sign, b & ~f.sign)
    if f.inf in magnitudes:
        return (CANONICAL_NAN[fmt], NV) if 0 in magnitudes else (sign | f.inf, 0)
    if 0 in magnitudes:
        return sign, 0
    (_, mant_a, exp_a), (_, mant_b, exp_b) = _unpack(f, a), _unpack(f, b)
    return _round(f, sign, mant_a * mant_b, exp_a + exp_b, rm)


def div(fmt: str, a: int, b: int, rm: int) -> Result:
    """Return a / b (IEEE 754, 5.4.1).

    0/0 and inf/inf raise NV; other finite numbers divided by zero raise DZ.
    """
    f = FORMATS[fmt]
    nan = _nan(fmt, a, b)
    if nan is not None:
        return nan
    sign = (a ^ b) & f.sign
    over, under = a & ~f.sign, b & ~f.sign
    if over == under and over in (0, f.inf):
        return CANONICAL_NAN[fmt], NV
    if over == f.inf or under == 0:
        return sign | f.inf, DZ if over != f.inf else 0
    if over == 0 or under == f.inf:
        return sign, 0
    (_, mant_a, exp_a), (_, mant_b, exp_b) = _unpack(f, a), _unpack(f, b)
    # At least precision + 1 bits of quotient, so that the sticky bit lies below the round bit.
    n = f.precision + 2 + mant_b.bit_length() - mant_a.bit_length()
    quotient, rest = divmod(mant_a << n, mant_b)
    return _round(f, sign, quotient << 1 | (rest != 0), exp_a - exp_b - n - 1, rm)


def sqrt(fmt: str, a: int, rm: int) -> Result:
    """Return the square root (IEEE 754, 5.4.1): -0 for -0; other negative numbers raise NV."""
    f = FORMATS[fmt]
    nan = _nan(fmt, a)
    if nan is not None:
        return nan
    if a in (0, f.sign, f.inf):
        return a, 0
    if a & f.sign:
        return CANONICAL_NAN[fmt], NV
    _, mant, exp = _unpack(f, a)
    n = 2 * (f.precision + 2)
    n -= (exp - n) & 1  # the exponent must be even to be halved
    mant, exp = mant << n, exp - n
    root = isqrt(mant)
    return _round(f, 0, root << 1 | (root * root != mant), exp // 2 - 1, rm)


def fma(fmt: str, a: int, b: int, c: int, rm: int) -> Result:
    """Return a * b + c with one rounding (IEEE 754, 5.4.1).

    Zero times infinity raises NV even if `c` is a quiet NaN.
    """
    f = FORMATS[fmt]
    magnitudes = (a & ~f.sign, b & ~f.sign)
    invalid = f.inf in magnitudes and 0 in magnitudes
    nan = _nan(fmt, a, b, c)
    if invalid or nan is not None:
        return CANONICAL_NAN[fmt], NV if invalid else nan[1] if nan else 0
    sign = (a ^ b) & f.sign
    if f.inf in magnitudes or c & f.inf == f.inf:
        return add(fmt, sign | f.inf if f.inf in magnitudes else sign, c, rm)
    (_, mant_a, exp_a), (_, mant_b, exp_b) = _unpack(f, a), _unpack(f, b)
    return _sum(f, (int(sign != 0), mant_a * mant_b, exp_a + exp_b), _unpack(f, c), rm)


def scale(fmt: str, a: int, n: int, rm: int) -> Result:
    """Return a * 2**n with one rounding (scaleB, IEEE 754, 5.3.3); a signalling NaN raises NV."""
    f = FORMATS[fmt]
    nan = _nan(fmt, a)
    if nan is not None:
        return nan
    negative, mant, exp = _unpack(f, a)
    if a & f.inf == f.inf or mant == 0:
        return a, 0
    # Beyond these bounds every n gives the same: overflow, or less than half of the smallest number.
    bound = 4 * f.inf // f.hidden
    return _round(f, negative, mant, exp + max(-bound, min(n, bound)), rm)


def _order(f: Format, a: int) -> int:
    """Return an integer that orders floats other than NaNs by value; both zeros give 0."""
    return -(a & ~f.sign) if a & f.sign else a


def _pick(fmt: str, a: int, b: int, larger: bool) -> Result:
    """Return the larger of `a` and `b` (maximumNumber) if `larger` is True, else the smaller (minimumNumber)."""
    f = FORMATS[fmt]
    flags = NV if is_snan(fmt, a) or is_snan(fmt, b) else 0
    if is_nan(fmt, a):
        return CANONICAL_NAN[fmt] if is_nan(fmt, b) else b, flags
    if is_nan(fmt, b):
        return a, flags
    a_first = (_order(f, a), not a & f.sign) < (_order(f, b), not b & f.sign)
    return b if a_first == larger else a, flags


def minimum(fmt: str, a: int, b: int) -> Result:
    """Return the smaller number (minimumNumber of IEEE 754, 9.6).

    -0 is below +0; if one operand is a NaN, the other is returned; a signalling NaN raises NV.
    """
    return _pick(fmt, a, b, larger=False)


def maximum(fmt: str, a: int, b: int) -> Result:
    """Return the larger number (maximumNumber of IEEE 754, 9.6).

    -0 is below +0; if one operand is a NaN, the other is returned; a signalling NaN raises NV.
    """
    return _pick(fmt, a, b, larger=True)


def eq(fmt: str, a: int, b: int) -> Result:
    """Return 1 if a == b, else 0 (compareQuietEqual, 5.11): only a signalling NaN raises NV."""
    nan = _nan(fmt, a, b)
    return (0, nan[1]) if nan is not None else (int(_order(FORMATS[fmt], a) == _order(FORMATS[fmt], b)), 0)


def lt(fmt: str, a: int, b: int) -> Result:
    """Return 1 if a < b, else 0 (compareSignalingLess, 5.11): any NaN raises NV."""
    if is_nan(fmt, a) or is_nan(fmt, b):
        return 0, NV
    return int(_order(FORMATS[fmt], a) < _order(FORMATS[fmt], b)), 0


def le(fmt: str, a: int, b: int) -> Result:
    """Return 1 if a <= b, else 0 (compareSignalingLessEqual, 5.11): any NaN raises NV."""
    if is_nan(fmt, a) or is_nan(fmt, b):
        return 0, NV
    return int(_order(FORMATS[fmt], a) <= _order(FORMATS[fmt], b)), 0


def classify(fmt: str, a: int) -> int:
    """Return the class of `a` as the mask with one bit set that RISC-V's fclass returns (clause 11.9).

    For example, bit 0 is -infinity, and bit 9 a quiet NaN.
    """
    f = FORMATS[fmt]
    if is_nan(fmt, a):
        return 1 << 8 if is_snan(fmt, a) else 1 << 9
    magnitude = a & ~f.sign
    if magnitude == f.inf:
        kind = 0
    elif magnitude >= f.hidden:
        kind = 1
    elif magnitude:
        kind = 2
    else:
        kind = 3
    return 1 << (kind if a & f.sign else 7 - kind)


def convert(to: str, fmt: str, a: int, rm: int) -> Result:
    """Return `a` of format `fmt` in format `to` (IEEE 754, 5.4.2); a signalling NaN raises NV."""
    f, g = FORMATS[fmt], FORMATS[to]
    if is_nan(fmt, a):
        return CANONICAL_NAN[to], NV if is_snan(fmt, a) else 0
    negative, mant, exp = _unpack(f, a)
    if a & f.inf == f.inf or mant == 0:
        return (g.sign if negative else 0) | (g.inf if mant else 0), 0
    return _round(g, negative, mant, exp, rm)


def to_int(width: int, signed: bool, fmt: str, a: int, rm: int) -> Result:
    """Return `a` as an integer of `width` bits, two's complement if signed (RISC-V clause 11.7, table 11.4).

    If the rounded number is out of range, the result is the nearest end of the range, and only NV is raised. A NaN
    gives the largest integer.
    """
    f = FORMATS[fmt]
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    mask = (1 << width) - 1
    if is_nan(fmt, a):
        return high, NV
    negative, mant, exp = _unpack(f, a)
    if a & f.inf == f.inf:
        return (low if negative else high) & mask, NV
    whole, inexact = _shift_out(negative, mant, -exp, rm)
    value = -whole if negative else whole
    if not low <= value <= high:
        return (low if negative else high) & mask, NV
    return value & mask, NX if inexact else 0


def reciprocal7(fmt: str, a: int, rm: int) -> Result:
    """Return an estimate of 1 / a with 7 bits, as the RISC-V vector extension defines it (V 1.0, section 13.10).

    The entries of the specification's table are computed by a formula.
    """
    f = FORMATS[fmt]
    if is_nan(fmt, a):
        return CANONICAL_NAN[fmt], NV if is_snan(fmt, a) else 0
    sign = a & f.sign
    if a & f.inf == f.inf:
        return sign, 0
    if a & ~f.sign == 0:
        return sign | f.inf, DZ
    exponent, fraction = _normalised(f, a)
    bias = f.inf // f.hidden >> 1
    result = 2 * bias - 1 - exponent
    if result > 2 * bias:  # the operand is below 2**-(bias + 1)
        to_inf = rm in (RNE, RMM) or rm == (RDN if sign else RUP)
        return sign | (f.inf if to_inf else f.inf - 1), OF | NX
    midpoint = 2 * (fraction >> f.precision - 8) + 257  # in 256ths
    estimate = round((1 << 16) / midpoint) - 128
    mant = (estimate << f.precision - 8) + f.hidden
    if result <= 0:  # a subnormal number
        return sign | mant >> 1 - result, 0
    return sign | (result - 1) * f.hidden + mant, 0


def reciprocal_root7(fmt: str, a: int) -> Result:
    """Return an estimate of 1 / sqrt(a) with 7 bits (RISC-V vector extension, V 1.0, section 13.9).

    The entries of the specification's table are computed by a formula.
    """
    f = FORMATS[fmt]
    if is_nan(fmt, a):
        return CANONICAL_NAN[fmt], NV if is_snan(fmt, a) else 0
    if a & ~f.sign == 0:
        return a | f.inf, DZ
    if a & f.sign:
        return CANONICAL_NAN[fmt], NV
    if a == f.inf:
        return 0, 0
    exponent, fraction = _normalised(f, a)
    bias = f.inf // f.hidden >> 1
    midpoint = (2 * (fraction >> f.precision - 7) + 129) << 1 - (exponent & 1)  # in 128ths, of 2**(an even exponent)
    estimate = round((1 << 8) / root(midpoint / 128)) - 128
    result = (3 * bias - 1 - exponent) // 2
    return result * f.hidden + (estimate << f.precision - 8), 0


def _normalised(f: Format, a: int) -> tuple[int, int]:
    """Return the exponent and the fraction field of a finite number other than 0, as if it were normal.

    The exponent of a subnormal number is therefore below 1.
    """
    exponent, fraction = (a & f.inf) // f.hidden, a & f.hidden - 1
    if exponent:
        return exponent, fraction
    shift = f.precision - fraction.bit_length()
    return 1 - shift, (fraction << shift) - f.hidden


def from_int(fmt: str, width: int, signed: bool, v: int, rm: int) -> Result:
    """Return the `width`-bit integer `v` as a float (IEEE 754, 5.4.1); it is two's complement if signed.

    The integer 0 gives +0.
    """
    v &= (1 << width) - 1
    if signed and v >> (width - 1):
        v -= 1 << width
    return _round(FORMATS[fmt], int(v < 0), abs(v), 0, rm) if v else (0, 0)
