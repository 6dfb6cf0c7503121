"""Conversions between types: the v_cvt family."""

from __future__ import annotations

from collections.abc import Callable

from understudy.isa.gcn.insn import Function
from understudy.isa.gcn.semantics import fp
from understudy.isa.gcn.word import Word

TOWARDS_ZERO = 3
"""MODE's number of that rounding."""


def to_int(w: int, *, signed: bool) -> Callable[[Word], Word]:
    """Towards zero, saturating, NaN gives 0. `w` bits."""
    return lambda a: a.fto_int(w, signed)


def from_int(to: str, *, signed: bool) -> Callable[[Word], Word]:
    """An integer as a float."""
    return lambda a: a.ffrom_int(to, signed)


def to_float(to: str) -> Callable[[Word], Word]:
    """Another format; from binary64 with the rounding of binary64 (Choice ``gcn/cvt-f32-f64-rounding``)."""
    return lambda a: a.fconvert(to, None, a.mode.round64 if a.width == 64 else None)


def floor_to_int(a: Word) -> Word:
    """The largest integer not above a."""
    return a.fround("floor").fto_int(32, True)


def nearest_to_int(a: Word) -> Word:
    """floor(a + 0.5)."""
    return floor_to_int(a.fadd(a.const(fp.power("s", -1))))


def offset_i4(a: Word) -> Word:
    """A signed 4-bit number in sixteenths: -0.5 to 0.4375."""
    return (a << 28).sra(28).ffrom_int("s", True).fmul(a.const(fp.power("s", -4)))


def ubyte(k: int) -> Callable[[Word], Word]:
    """Byte `k` as a float."""
    return lambda a: a[8 * k + 7 : 8 * k].ffrom_int("s", False)


def pack(low: Word, high: Word) -> Word:
    """32 bits of two times 16."""
    return low.zext(32) | high.zext(32) << 16


def packed(one: Function) -> Callable[[Word, Word], Word]:
    """Two 16-bit results of `one`, of the first source and the second."""
    return lambda a, b: pack(one(a), one(b))


def to_norm(*, signed: bool) -> Callable[[Word], Word]:
    """-1 to 1 (0 to 1) as -32767 to 32767 (0 to 65535), clamped, rounded to nearest even; NaN gives 0."""
    limit = 32767 if signed else 65535

    def meaning(a: Word) -> Word:
        # In binary64 the product is exact.
        scaled = fp.real(a.fconvert("d")) * float(limit)
        whole = scaled.fround("even").bits.fto_int(32, True)
        return whole.smin(limit).smax(-limit if signed else 0).trunc(16)

    return meaning


def to_half_rtz(a: Word) -> Word:
    """binary32 to binary16 towards zero."""
    return a.fconvert("h", None, TOWARDS_ZERO)


def to_u16(a: Word) -> Word:
    """Saturating."""
    return a.umin(0xFFFF).trunc(16)


def to_i16(a: Word) -> Word:
    """Saturating."""
    return a.smin(0x7FFF).smax(-0x8000).trunc(16)


def byte_of(a: Word) -> Word:
    """A float as 0 to 255, rounded as MODE says (Choice ``gcn/pk-u8-rounding``), saturating; NaN gives 0."""
    kind = ("even", "ceil", "floor", "trunc")[a.mode.round32]
    return a.fround(kind).fto_int(32, False).umin(255)


def put_byte(a: Word, k: Word, into: Word) -> Word:
    """`into` with its byte k[1:0] replaced by the float a."""
    at = k[1:0] << 3
    return into & ~(0xFF << at) | byte_of(a) << at


def saturate_bytes(a: Word) -> Word:
    """Two signed halves as bytes 0 to 255, 16 bits."""
    low, high = (half.trunc(16).sext(32).smin(255).smax(0) for half in (a, a[31:16]))
    return (low | high << 8).trunc(16)
