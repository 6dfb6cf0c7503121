"""Shared code of memory operations: registers as values of any width, and kinds of loads, stores and atomics.

Registers beyond the last one read as register 0 and are not written (Choice ``gcn/register-range``).

An operand list of these operations (`Op.operands`) has field names in the order of the assembly text, as
``name:registers`` if an operand has several registers. ``name/glc`` is an operand that exists only if the glc flag is
set: the old value that an atomic returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.state import M0, ROWS, SGPRS, VGPRS
from softcard.isa.gcn.word import Word


def pair(low: Word, high: Word) -> Word:
    """Join two 32-bit words to 64 bits."""
    return low.zext(64) | high.zext(64) << 32


def words(v: Word) -> list[Word]:
    """Split a value of 32 or 64 bits into 32-bit words, low word first."""
    return [v.trunc(32), v[63:32].trunc(32)] if v.width == 64 else [v]


def whole(values: Sequence[Word]) -> Word:
    """Join one or two 32-bit words to one value."""
    return pair(*values) if len(values) == 2 else values[0]


def vregs(b: Builder, n: int, count: int) -> list[Word]:
    """Return the values of `count` vector registers, from number `n` on."""
    end = VGPRS if n < VGPRS else ROWS
    return [b.v(k if k < end else 0) for k in range(n, n + count)]


def vreg(b: Builder, n: int, bits: int = 32) -> Word:
    """Return the value of vector register `n`; if `bits` is 64, that of registers n and n + 1."""
    return whole(vregs(b, n, bits // 32))


def set_vregs(b: Builder, n: int, values: Sequence[Word]) -> None:
    """Write `values` to the vector registers from number `n` on."""
    end = VGPRS if n < VGPRS else ROWS
    for k, v in enumerate(values, n):
        if k < end:
            b.set_v(k, v)


def sregs(b: Builder, n: int, count: int) -> list[Word]:
    """Return the values of `count` scalar registers, from number `n` on."""
    return [b.s(k if k < SGPRS else 0) for k in range(n, n + count)]


def set_sregs(b: Builder, n: int, values: Sequence[Word]) -> None:
    """Write `values` to the scalar registers from number `n` on."""
    for k, v in enumerate(values, n):
        if k < SGPRS:
            b.set_s(k, v)


FLOATS: Final = (
    *(high << 16 for high in (0x3F00, 0xBF00, 0x3F80, 0xBF80, 0x4000, 0xC000, 0x4080, 0xC080)),
    0x3E22F983,
)
"""The binary32 values of the inline constants 240 to 248: 0.5, -0.5, 1, -1, 2, -2, 4, -4, 1 / (2 pi)."""


def scalar_operand(b: Builder, code: int, literal: int | None = None) -> Word:
    """Return a 32-bit scalar source operand such as SOFFSET, from its operand code.

    It is a register or an inline constant; other codes give 0.
    """
    if code < SGPRS:
        return b.s(code)
    if code == 255 and literal is not None:
        return b.const(32, literal)
    if code <= 208:
        return b.const(32, code - 128 if code <= 192 else 192 - code)
    return b.const(32, FLOATS[code - 240] if 240 <= code <= 248 else 0)


@dataclass(frozen=True, slots=True)
class Transfer:
    """The way in which a plain load or store moves data: size in memory, sign extension, and register half."""

    bits: int
    signed: bool = False
    half: str = ""
    """The half of the register that a d16 access uses, "lo" or "hi"; "" for a whole register.

    A load keeps the bits of the other half.
    """

    @property
    def registers(self) -> int:
        """The number of 32-bit registers that hold the data."""
        return max(self.bits // 32, 1)

    @property
    def size(self) -> int:
        """The size of the data in memory in bytes."""
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
    """Return `old` with its half `half` ("lo" or "hi") replaced by the low 16 bits of `v`."""
    return old[15:0] | v[15:0] << 16 if half == "hi" else old & 0xFFFF_0000 | v[15:0]


def loaded(b: Builder, how: Transfer, values: Sequence[Word], vdst: int) -> list[Word]:
    """Return the new contents of the destination registers, from number `vdst` on, for the loaded `values`.

    Values of 8 and 16 bits are zero- or sign-extended, or merged into a half of the old register, as `how`
    says."""
    if how.bits >= 32:
        return list(values)
    v = values[0].trunc(how.bits).sext(32) if how.signed else values[0]
    return [merge(how.half, b.v(vdst), v) if how.half else v]


def stored(b: Builder, how: Transfer, data: int) -> list[Word]:
    """Return the values that a store writes to memory; `data` is the number of the first register that holds them."""
    values = vregs(b, data, how.registers)
    return [values[0][31:16]] if how.half == "hi" else values


ATOMICS: Final = ("swap", "cmpswap", "add", "sub", "smin", "umin", "smax", "umax", "and", "or", "xor", "inc", "dec")
FLOAT_ATOMICS: Final = ("fcmpswap", "fmin", "fmax")
"""The float atomics of global memory, which exist on GFX7 only."""


def takes_compare(kind: str) -> bool:
    """Return True if the atomic `kind` on global memory has a second operand: the value to compare with."""
    return kind in ("cmpswap", "fcmpswap")


def lds_slots(b: Builder, offset: int, step: int = 4) -> Word:
    """Return the LDS address to which each lane of a load to LDS writes: M0[15:0] + offset + step * lane.

    `step` is a power of two."""
    return b.s(M0)[15:0] + offset + (b.lane_id() << step.bit_length() - 1)


def to_lds(b: Builder, offset: int, values: list[Word]) -> None:
    """Write the loaded `values` of each lane to LDS: one dword per lane in slots of 4 bytes, or all in slots of 16."""
    b.store("lds", 32 * len(values), lds_slots(b, offset, 16 if len(values) > 1 else 4), values)


def narrowed(where: Word | None, to: Word | None) -> Word | None:
    """Return the intersection of the lane masks `where` and `to`; None stands for all lanes."""
    return where if to is None else to if where is None else where & to
