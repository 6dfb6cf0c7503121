"""What the memory families share: registers as values of any width, and the kinds of loads, stores and atomics.

Registers beyond the last one read as register 0 and are not written (Choice ``gcn/register-range``).

Operand lists of these families (`Op.operands`) are field names in text order, ``name:registers`` where it is not one
register; ``name/glc`` is there only with that flag set (the old value that an atomic gives back).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.state import M0, SGPRS, VGPRS
from understudy.isa.gcn.word import Word


def pair(low: Word, high: Word) -> Word:
    """64 bits of two times 32."""
    return low.zext(64) | high.zext(64) << 32


def words(v: Word) -> list[Word]:
    """A value of 32 or 64 bits as 32-bit values, low first."""
    return [v.trunc(32), v[63:32].trunc(32)] if v.width == 64 else [v]


def whole(values: Sequence[Word]) -> Word:
    """One or two 32-bit values as one value."""
    return pair(*values) if len(values) == 2 else values[0]


def vregs(b: Builder, n: int, count: int) -> list[Word]:
    """Vector registers from n on."""
    return [b.v(k if k < VGPRS else 0) for k in range(n, n + count)]


def vreg(b: Builder, n: int, bits: int = 32) -> Word:
    """One 32-bit vector register, or two as 64 bits."""
    return whole(vregs(b, n, bits // 32))


def set_vregs(b: Builder, n: int, values: Sequence[Word]) -> None:
    """Write vector registers from n on."""
    for k, v in enumerate(values, n):
        if k < VGPRS:
            b.set_v(k, v)


def sregs(b: Builder, n: int, count: int) -> list[Word]:
    """Scalar registers from n on."""
    return [b.s(k if k < SGPRS else 0) for k in range(n, n + count)]


def set_sregs(b: Builder, n: int, values: Sequence[Word]) -> None:
    """Write scalar registers from n on."""
    for k, v in enumerate(values, n):
        if k < SGPRS:
            b.set_s(k, v)


FLOATS: Final = (
    *(high << 16 for high in (0x3F00, 0xBF00, 0x3F80, 0xBF80, 0x4000, 0xC000, 0x4080, 0xC080)),
    0x3E22F983,
)
"""The inline constants 240 to 248: 0.5, -0.5, 1, -1, 2, -2, 4, -4, 1 / (2 pi)."""


def scalar_operand(b: Builder, code: int, literal: int | None = None) -> Word:
    """A 32-bit scalar source operand (an SOFFSET): a register or an inline constant; 0 for other codes."""
    if code < SGPRS:
        return b.s(code)
    if code == 255 and literal is not None:
        return b.const(32, literal)
    if code <= 208:
        return b.const(32, code - 128 if code <= 192 else 192 - code)
    return b.const(32, FLOATS[code - 240] if 240 <= code <= 248 else 0)


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


def merge(half: str, old: Word, v: Word) -> Word:
    """`old` with one half replaced by the low 16 bits of `v`."""
    return old[15:0] | v[15:0] << 16 if half == "hi" else old & 0xFFFF_0000 | v[15:0]


def loaded(b: Builder, how: Transfer, values: Sequence[Word], vdst: int) -> list[Word]:
    """What the destination registers become when memory gave `values`: bytes and words with zeros above."""
    if how.bits >= 32:
        return list(values)
    v = values[0].trunc(how.bits).sext(32) if how.signed else values[0]
    return [merge(how.half, b.v(vdst), v) if how.half else v]


def stored(b: Builder, how: Transfer, data: int) -> list[Word]:
    """The values a store takes out of the registers from `data` on."""
    values = vregs(b, data, how.registers)
    return [values[0][31:16]] if how.half == "hi" else values


ATOMICS: Final = ("swap", "cmpswap", "add", "sub", "smin", "umin", "smax", "umax", "and", "or", "xor", "inc", "dec")
FLOAT_ATOMICS: Final = ("fcmpswap", "fmin", "fmax")
"""Global memory's float atomics: GFX7 only."""


def takes_compare(kind: str) -> bool:
    """Whether an atomic on global memory has a second value behind the first: what memory must hold."""
    return kind in ("cmpswap", "fcmpswap")


def lds_slots(b: Builder, offset: int) -> Word:
    """LDS addresses of loads with the lds flag: M0[15:0] + offset + 4 * lane."""
    return b.s(M0)[15:0] + offset + (b.lane_id() << 2)


def narrowed(where: Word | None, to: Word | None) -> Word | None:
    """The lanes of both masks; None stands for all of them."""
    return where if to is None else to if where is None else where & to
