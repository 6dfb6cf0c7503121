"""Semantics of conversions between types: the v_cvt family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from softcard.isa.gcn.insn import Function
from softcard.isa.gcn.semantics import fp
from softcard.isa.gcn.word import Word

TOWARDS_ZERO = 3
"""The value of a rounding field of MODE that means rounding towards zero."""
NAN, INFINITY = fp.quiet_nan("s"), fp.infinity("s")
HALF_LOWEST: Final = 113
"""The exponent field of the smallest normal binary16 number when it is represented in binary32."""


def to_int(w: int, *, signed: bool) -> Callable[[Word], Word]:
    """Return the function that converts a float to an integer of `w` bits.

    It rounds towards zero and saturates; NaN gives 0.
    """
    return lambda a: a.fto_int(w, signed)


def from_int(to: str, *, signed: bool) -> Callable[[Word], Word]:
    """Return the function that converts an integer to a float of format `to`."""
    return lambda a: a.ffrom_int(to, signed)


def to_float(to: str) -> Callable[[Word], Word]:
    """Return the function that converts a float to format `to`.

    Conversions from binary64 use the rounding of binary64 (Choice ``gcn/cvt-f32-f64-rounding``).
    """
    return lambda a: a.fconvert(to, None, a.mode.round64 if a.width == 64 else None)


def floor_to_int(a: Word) -> Word:
    """Return floor(a) as an integer."""
    return a.fround("floor").fto_int(32, True)


def nearest_to_int(a: Word) -> Word:
    """Return floor(a + 0.5) as an integer."""
    return floor_to_int(a.fadd(a.const(fp.power("s", -1))))


def offset_i4(a: Word) -> Word:
    """Return the low four bits as a signed number of sixteenths, converted to a float: -0.5 to 0.4375."""
    return (a << 28).sra(28).ffrom_int("s", True).fmul(a.const(fp.power("s", -4)))


def ubyte(k: int) -> Callable[[Word], Word]:
    """Return the function that converts the unsigned byte number `k` of a word to a float."""
    return lambda a: a[8 * k + 7 : 8 * k].ffrom_int("s", False)


def pack(low: Word, high: Word) -> Word:
    """Join two 16-bit values to 32 bits."""
    return low.zext(32) | high.zext(32) << 16


def both(one: Function) -> Function:
    """Return a function that applies `one` to the low halves of its sources and to the high halves."""

    def semantics(*sources: Word) -> Word:
        low, high = (a.trunc(16) for a in sources), (a[31:16].trunc(16) for a in sources)
        return pack(one(*low), one(*high))

    return semantics


def packed(one: Function) -> Callable[[Word, Word], Word]:
    """Return the function that applies `one` to each of two sources and packs the two 16-bit results."""
    return lambda a, b: pack(one(a), one(b))


def to_norm(*, signed: bool) -> Callable[[Word], Word]:
    """Return the function that converts a float to a 16-bit normalised integer.

    Signed, -1 to 1 becomes -32767 to 32767; unsigned, 0 to 1 becomes 0 to 65535. Inputs are clamped, and results
    rounded to nearest even; NaN gives 0.
    """
    limit = 32767 if signed else 65535

    def semantics(a: Word) -> Word:
        # In binary64 the product is exact.
        scaled = fp.real(a.fconvert("d")) * float(limit)
        whole = scaled.fround("even").bits.fto_int(32, True)
        return whole.smin(limit).smax(-limit if signed else 0).trunc(16)

    return semantics


def to_half_rtz(a: Word) -> Word:
    """Return a binary32 as binary16, rounded towards zero."""
    return a.fconvert("h", None, TOWARDS_ZERO)


def to_u16(a: Word) -> Word:
    """Return an unsigned integer saturated to 16 bits."""
    return a.umin(0xFFFF).trunc(16)


def to_i16(a: Word) -> Word:
    """Return a signed integer saturated to 16 bits."""
    return a.smin(0x7FFF).smax(-0x8000).trunc(16)


def byte_of(a: Word) -> Word:
    """Convert a float to an integer, saturated to 0 to 255; NaN gives 0.

    It is rounded by the rounding mode in MODE (Choice ``gcn/pk-u8-rounding``)."""
    kind = ("even", "ceil", "floor", "trunc")[a.mode.round32]
    return a.fround(kind).fto_int(32, False).umin(255)


def put_byte(a: Word, k: Word, into: Word) -> Word:
    """Return `into` with its byte number k[1:0] replaced by the float `a`, converted to a byte."""
    at = k[1:0] << 3
    return into & ~(0xFF << at) | byte_of(a) << at


def byte_to_float(mantissa: int) -> Callable[[Word, bool], Word]:
    """Return the function that converts the low byte to binary32; `mantissa` is 3 bits for FP8, 2 for BF8.

    The function's argument `ocp` is True for the OCP formats (bias 7 for FP8, 15 for BF8), False for those of gfx942,
    whose bias is higher by one and whose only NaN is the code of -0.
    """

    def semantics(a: Word, ocp: bool) -> Word:
        bias = (1 << 6 - mantissa) - ocp
        byte = a[7:0]
        sign, rest = (byte & 0x80) << 24, byte & 0x7F
        normal = (rest << 23 - mantissa) + (127 - bias << 23)
        # A denormal is exact as an integer.
        tiny = rest.ffrom_int("s", False).fmul(a.const(fp.power("s", 1 - bias - mantissa)))
        value = sign | (rest < 1 << mantissa).select(tiny, normal)
        if not ocp:
            return (byte == 0x80).select(NAN, value)
        if mantissa == 3:
            return (rest == 0x7F).select(NAN, value)
        return fp.choose([(rest == 0x7C, sign | INFINITY), (rest > 0x7C, a.const(NAN))], value)

    return semantics


def float_to_byte(mantissa: int) -> Callable[..., Word]:
    """Return the function that converts binary32 to a byte of FP8 (`mantissa` 3) or BF8 (2), in a 32-bit word.

    The result is rounded to nearest even, regardless of MODE. If the function's argument `noise` gives 32 random
    bits, the rounding is stochastic instead: the upper bits of `noise` are added below the result's last bit, and
    the sum is truncated.

    Numbers that are too large become the largest finite one if MODE.FP16_OVFL is set. Otherwise they become
    infinity, or NaN in a format without infinity (Choice ``gcn/fp8-overflow``)."""

    def semantics(a: Word, ocp: bool, noise: Word | None = None) -> Word:
        lowest = 128 - ((1 << 6 - mantissa) - ocp)  # binary32's exponent field of the smallest normal number
        sign, magnitude = (a >> 24) & 0x80, a & 0x7FFF_FFFF
        field = magnitude >> 23
        is_tiny = field < lowest
        whole = (magnitude & 0x7F_FFFF) | (field == 0).select(0, a.const(0x80_0000))
        shift = is_tiny.select(lowest - field.umax(1), 0) + (23 - mantissa)
        is_nothing, shift = shift > 31, shift.umin(31)
        if noise is None:
            less = (a.const(1) << shift - 1) - 1 + ((whole >> shift) & 1)
        else:
            less = noise >> 32 - shift
        code = (whole + less >> shift) + (is_tiny.select(0, field - lowest) << mantissa)
        code = is_nothing.select(0, code)
        if ocp:
            largest, beyond, nan = (0x7E, 0x7F, 0x7F) if mantissa == 3 else (0x7B, 0x7C, 0x7F)
        else:
            largest, beyond, nan = 0x7F, 0x80, 0x80
        code = ((code > largest) | (field == 0xFF)).select(largest if a.mode.fp16_overflow else beyond, code)
        code = (magnitude > INFINITY).select(nan, code)
        return code | sign if ocp else (code == 0).select(0, code | sign)

    return semantics


def two_bytes(mantissa: int) -> Callable[[Word, Word, bool], Word]:
    """Return the function that converts two binary32 numbers to two bytes of FP8 or BF8, packed in 16 bits."""
    one = float_to_byte(mantissa)
    return lambda a, b, ocp: (one(a, ocp) | one(b, ocp) << 8).trunc(16)


def noisy_byte(mantissa: int) -> Callable[[Word, Word, bool], Word]:
    """Return the function that converts binary32 to a byte of FP8 or BF8, rounded with random bits."""
    one = float_to_byte(mantissa)
    return lambda a, noise, ocp: one(a, ocp, noise).trunc(8)


def two_floats(mantissa: int) -> Callable[[Word, bool], Word]:
    """Return the function that converts the low two bytes, FP8 or BF8, to two binary32 numbers in 64 bits."""
    one = byte_to_float(mantissa)
    return lambda a, ocp: one(a, ocp).zext(64) | one(a >> 8, ocp).zext(64) << 32


def bf16_to_float(a: Word) -> Word:
    """Return the low half, a bfloat16, as binary32."""
    return a << 16


def float_to_bf16(a: Word) -> Word:
    """Return a binary32 as bfloat16, rounded to nearest even; a NaN is quieted."""
    rounded = a + 0x7FFF + (a >> 16 & 1) >> 16
    return fp.is_nan(a).select(a >> 16 | 0x40, rounded).trunc(16)


def noisy_half(a: Word, noise: Word) -> Word:
    """Convert binary32 to binary16, rounded by the random bits `noise` as in `float_to_byte`."""
    sign, magnitude = (a >> 16) & 0x8000, a & 0x7FFF_FFFF
    field = magnitude >> 23
    is_tiny = field < HALF_LOWEST
    whole = (magnitude & 0x7F_FFFF) | (field == 0).select(0, a.const(0x80_0000))
    shift = is_tiny.select(HALF_LOWEST - field.umax(1), 0) + 13
    is_nothing, shift = shift > 31, shift.umin(31)
    code = (whole + (noise >> 32 - shift) >> shift) + (is_tiny.select(0, field - HALF_LOWEST) << 10)
    code = is_nothing.select(0, code)
    code = ((code > 0x7BFF) | (field == 0xFF)).select(0x7BFF if a.mode.fp16_overflow else 0x7C00, code)
    return ((magnitude > INFINITY).select(0x7E00, code) | sign).trunc(16)


def noisy_bf16(a: Word, noise: Word) -> Word:
    """Convert binary32 to bfloat16, rounded by the random bits `noise`; a NaN is quieted."""
    upper = a >> 16
    rounded = ((a & INFINITY) == INFINITY).select(upper, a + (noise >> 16) >> 16)
    return fp.is_nan(a).select(upper | 0x40, rounded).trunc(16)


def prng(a: Word) -> Word:
    """Return the next state after `a` of a 32-bit linear feedback shift register (v_prng_b32)."""
    return a << 1 ^ a[31].select(a.const(197), 0)


def saturate_bytes(a: Word) -> Word:
    """Return the two signed halves of `a`, each saturated to a byte from 0 to 255, packed into 16 bits."""
    low, high = (half.trunc(16).sext(32).smin(255).smax(0) for half in (a, a[31:16]))
    return (low | high << 8).trunc(16)
