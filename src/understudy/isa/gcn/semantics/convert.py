"""Conversions between types: the v_cvt family."""

from __future__ import annotations

from typing import Any

from understudy.isa.gcn.algebra import Value
from understudy.isa.gcn.insn import Meaning
from understudy.isa.gcn.semantics import fp

TOWARDS_ZERO = 3
"""MODE's number of that rounding."""
SCALES = {32767: 0x40DFFFC000000000, 65535: 0x40EFFFE000000000}
"""Limits of normalised integers in binary64."""


def to_int(t: str, w: int, *, signed: bool) -> Meaning:
    """Towards zero, saturating, NaN gives 0. `w` bits."""
    return lambda o, a: o.fto_int(t, w, signed, a)


def from_int(t: str, w: int, *, signed: bool) -> Meaning:
    """An integer as a float."""
    return lambda o, a: o.ffrom_int(t, w, signed, a)


def to_float(to: str, t: str) -> Meaning:
    """Another format; from binary64 with the rounding of binary64 (Choice ``gcn/cvt-f32-f64-rounding``)."""
    if t == "d":
        return lambda o, a: o.fconvert(to, t, a, None, o.mode.round64)
    return lambda o, a: o.fconvert(to, t, a)


def floor_to_int(o: Any, a: Value) -> Value:
    """The largest integer not above a."""
    return o.fto_int("s", 32, True, o.fround("s", a, "floor"))


def nearest_to_int(o: Any, a: Value) -> Value:
    """floor(a + 0.5)."""
    return floor_to_int(o, o.fadd("s", a, o.const(32, fp.power("s", -1))))


def offset_i4(o: Any, a: Value) -> Value:
    """A signed 4-bit number in sixteenths: -0.5 to 0.4375."""
    four = o.ashr(32, o.shl(32, a, o.const(32, 28)), o.const(32, 28))
    return o.fmul("s", o.ffrom_int("s", 32, True, four), o.const(32, fp.power("s", -4)))


def ubyte(k: int) -> Meaning:
    """Byte `k` as a float."""
    return lambda o, a: o.ffrom_int("s", 32, False, o.and_(32, o.lshr(32, a, o.const(32, 8 * k)), o.const(32, 0xFF)))


def pack(o: Any, low: Value, high: Value) -> Value:
    """32 bits of two times 16."""
    return o.or_(32, o.zext(32, 16, low), o.shl(32, o.zext(32, 16, high), o.const(32, 16)))


def packed(one: Meaning) -> Meaning:
    """Two 16-bit results of `one`, of the first source and the second."""
    return lambda o, a, b: pack(o, one(o, a), one(o, b))


def to_norm(t: str, *, signed: bool) -> Meaning:
    """-1 to 1 (0 to 1) as -32767 to 32767 (0 to 65535), clamped, rounded to nearest even; NaN gives 0."""
    limit = 32767 if signed else 65535

    def meaning(o: Any, a: Value) -> Value:
        # In binary64 the product is exact.
        scaled = o.fmul("d", o.fconvert("d", t, a), o.const(64, SCALES[limit]), "raw")
        whole = o.fto_int("d", 32, True, o.fround("d", scaled, "even"))
        least = o.const(32, -limit if signed else 0)
        return o.trunc(16, 32, o.smax(32, least, o.smin(32, o.const(32, limit), whole)))

    return meaning


def to_half_rtz(o: Any, a: Value) -> Value:
    """binary32 to binary16 towards zero."""
    return o.fconvert("h", "s", a, None, TOWARDS_ZERO)


def to_u16(o: Any, a: Value) -> Value:
    """Saturating."""
    return o.trunc(16, 32, o.umin(32, a, o.const(32, 0xFFFF)))


def to_i16(o: Any, a: Value) -> Value:
    """Saturating."""
    return o.trunc(16, 32, o.smax(32, o.const(32, -0x8000), o.smin(32, a, o.const(32, 0x7FFF))))


def byte_of(o: Any, a: Value) -> Value:
    """A float as 0 to 255, rounded as MODE says (Choice ``gcn/pk-u8-rounding``), saturating; NaN gives 0."""
    kind = ("even", "ceil", "floor", "trunc")[o.mode.round32]
    return o.umin(32, o.fto_int("s", 32, False, o.fround("s", a, kind)), o.const(32, 255))


def put_byte(o: Any, a: Value, k: Value, into: Value) -> Value:
    """`into` with its byte k[1:0] replaced by the float a."""
    at = o.shl(32, o.and_(32, k, o.const(32, 3)), o.const(32, 3))
    kept = o.and_(32, into, o.not_(32, o.shl(32, o.const(32, 0xFF), at)))
    return o.or_(32, kept, o.shl(32, byte_of(o, a), at))


def saturate_bytes(o: Any, a: Value) -> Value:
    """Two signed halves as bytes 0 to 255, 16 bits."""

    def one(half: Value) -> Value:
        wide = o.sext(32, 16, half)
        return o.smax(32, o.const(32, 0), o.smin(32, wide, o.const(32, 255)))

    low, high = one(o.trunc(16, 32, a)), one(o.trunc(16, 32, o.lshr(32, a, o.const(32, 16))))
    return o.trunc(16, 32, o.or_(32, low, o.shl(32, high, o.const(32, 8))))
