"""What the memory families share: registers as values of any width, and the kinds of loads, stores and atomics.

Registers beyond the last one read as register 0 and are not written (Choice ``gcn/register-range``).

Operand lists of these families (`Op.operands`) are field names in text order, ``name:registers`` where it is not one
register; ``name/glc`` is there only with that flag set (the old value that an atomic gives back).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from understudy.isa.gcn.state import M0, SGPRS, VGPRS

Value = Any


def pair(o: Any, low: Value, high: Value) -> Value:
    """Two 32-bit values as one of 64."""
    return o.or_(64, o.zext(64, 32, low), o.shl(64, o.zext(64, 32, high), o.const(64, 32)))


def halves(o: Any, v: Value) -> list[Value]:
    """A 64-bit value as two of 32, low first."""
    return [o.trunc(32, 64, v), o.trunc(32, 64, o.lshr(64, v, o.const(64, 32)))]


def words(o: Any, v: Value, bits: int) -> list[Value]:
    """A value of 32 or 64 bits as 32-bit values."""
    return halves(o, v) if bits == 64 else [v]


def whole(o: Any, values: Sequence[Value]) -> Value:
    """One or two 32-bit values as one value."""
    return pair(o, values[0], values[1]) if len(values) == 2 else values[0]


def vregs(o: Any, n: int, count: int) -> list[Value]:
    """Vector registers from n on."""
    return [o.v(k if k < VGPRS else 0) for k in range(n, n + count)]


def vreg(o: Any, n: int, bits: int = 32) -> Value:
    """One 32-bit vector register, or two as 64 bits."""
    return whole(o, vregs(o, n, bits // 32))


def set_vregs(o: Any, n: int, values: Sequence[Value]) -> None:
    """Write vector registers from n on."""
    for k, v in enumerate(values, n):
        if k < VGPRS:
            o.set_v(k, v)


def sregs(o: Any, n: int, count: int) -> list[Value]:
    """Scalar registers from n on."""
    return [o.s(k if k < SGPRS else 0) for k in range(n, n + count)]


def set_sregs(o: Any, n: int, values: Sequence[Value]) -> None:
    """Write scalar registers from n on."""
    for k, v in enumerate(values, n):
        if k < SGPRS:
            o.set_s(k, v)


FLOATS: Final = (
    *(high << 16 for high in (0x3F00, 0xBF00, 0x3F80, 0xBF80, 0x4000, 0xC000, 0x4080, 0xC080)),
    0x3E22F983,
)
"""The inline constants 240 to 248: 0.5, -0.5, 1, -1, 2, -2, 4, -4, 1 / (2 pi)."""


def scalar_operand(o: Any, code: int, literal: int | None = None) -> Value:
    """A 32-bit scalar source operand (an SOFFSET): a register or an inline constant; 0 for other codes."""
    if code < SGPRS:
        return o.s(code)
    if code == 255 and literal is not None:
        return o.const(32, literal)
    if code <= 192:
        return o.const(32, code - 128)
    if code <= 208:
        return o.const(32, 192 - code)
    return o.const(32, FLOATS[code - 240] if 240 <= code <= 248 else 0)


@dataclass(frozen=True, slots=True)
class Transfer:
    """How a plain load or store moves data: `bits` in memory, sign extension, and which half of a register (d16)."""

    bits: int
    signed: bool = False
    half: str = ""
    """"" for whole registers, "lo" or "hi": the other half keeps its bits."""

    @property
    def registers(self) -> int:
        """Registers that hold the data."""
        return max(self.bits // 32, 1)

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self.bits // 8


# fmt: off
LOADS: Final = {
    "ubyte":        Transfer(8),
    "sbyte":        Transfer(8, signed=True),
    "ushort":       Transfer(16),
    "sshort":       Transfer(16, signed=True),
    "dword":        Transfer(32),
    "dwordx2":      Transfer(64),
    "dwordx3":      Transfer(96),
    "dwordx4":      Transfer(128),
    "ubyte_d16":    Transfer(8, half="lo"),
    "ubyte_d16_hi": Transfer(8, half="hi"),
    "sbyte_d16":    Transfer(8, signed=True, half="lo"),
    "sbyte_d16_hi": Transfer(8, signed=True, half="hi"),
    "short_d16":    Transfer(16, half="lo"),
    "short_d16_hi": Transfer(16, half="hi"),
}
STORES: Final = {
    "byte":         Transfer(8),
    "byte_d16_hi":  Transfer(8, half="hi"),
    "short":        Transfer(16),
    "short_d16_hi": Transfer(16, half="hi"),
    "dword":        Transfer(32),
    "dwordx2":      Transfer(64),
    "dwordx3":      Transfer(96),
    "dwordx4":      Transfer(128),
}
# fmt: on


def widen(o: Any, how: Transfer, v: Value) -> Value:
    """The 32 bits a register gets from a byte or word loaded as zero-extended value `v`."""
    return o.sext(32, how.bits, o.trunc(how.bits, 32, v)) if how.signed else v


def merge(o: Any, half: str, old: Value, v: Value) -> Value:
    """`old` with one half replaced by the low 16 bits of `v`."""
    low = o.and_(32, v, o.const(32, 0xFFFF))
    if half == "hi":
        return o.or_(32, o.and_(32, old, o.const(32, 0xFFFF)), o.shl(32, low, o.const(32, 16)))
    return o.or_(32, o.and_(32, old, o.const(32, 0xFFFF_0000)), low)


def loaded(o: Any, how: Transfer, values: Sequence[Value], vdst: int) -> list[Value]:
    """What the destination registers become when memory gave `values`."""
    if how.bits >= 32:
        return list(values)
    v = widen(o, how, values[0])
    return [merge(o, how.half, o.v(vdst), v) if how.half else v]


def stored(o: Any, how: Transfer, data: int) -> list[Value]:
    """The values a store takes out of the registers from `data` on."""
    values = vregs(o, data, how.registers)
    return [o.lshr(32, values[0], o.const(32, 16))] if how.half == "hi" else values


ATOMICS: Final = ("swap", "cmpswap", "add", "sub", "smin", "umin", "smax", "umax", "and", "or", "xor", "inc", "dec")
FLOAT_ATOMICS: Final = ("fcmpswap", "fmin", "fmax")
"""Global memory's float atomics: GFX7 only."""


def takes_compare(kind: str) -> bool:
    """Whether an atomic on global memory has a second value behind the first: what memory must hold."""
    return kind in ("cmpswap", "fcmpswap")


def align(o: Any, w: int, address: Value, size: int) -> Value:
    """The address rounded down to a multiple of `size`, a power of two."""
    return o.and_(w, address, o.const(w, -size)) if size > 1 else address


def lds_slots(o: Any, offset: int) -> Value:
    """LDS addresses of loads with the lds flag: M0[15:0] + offset + 4 * lane."""
    base = o.add(32, o.and_(32, o.s(M0), o.const(32, 0xFFFF)), o.const(32, offset))
    return o.add(32, base, o.shl(32, o.lane_id(), o.const(32, 2)))
