"""Reading of operands (registers, inline constants, literals, special sources) as values of a given type."""

from __future__ import annotations

import struct
from typing import Final

from softcard.core.errors import BeyondModel, ModelBug, WireError
from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.encoding import operands
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.semantics.access import pair
from softcard.isa.gcn.semantics.pointer import aperture
from softcard.isa.gcn.state import EXEC, M0, VCC
from softcard.isa.gcn.target import GFX7
from softcard.isa.gcn.word import Word

APERTURES: Final = {235: "shared", 236: "shared_limit", 237: "private", 238: "private_limit"}
"""The apertures by operand code: sources of 64 bits that GFX9 has."""
POPS_EXITING_WAVE_ID: Final = 239
VCCZ, EXECZ, SCC = 251, 252, 253
MASK32: Final = 0xFFFF_FFFF
INVERSE_2PI_DOUBLE: Final = 0x3FC45F306DC9C882
GPR_IDX: Final = {"src0": 12, "src1": 13, "src2": 14, "vdst": 15}
"""The bit of M0 that makes the register number of each operand relative (s_set_gpr_idx_on)."""


def width(kind: str) -> int:
    """Return the number of bits of a type in a signature."""
    return int(kind[1:])


def inline(code: int, kind: str) -> int:
    """Return the value of inline constant `code` for an operand of type `kind`; integers may be negative.

    Integers are sign-extended to any width. In a packed pair both halves are the constant (Choice
    ``gcn/pk-f32-constants``). Floats have the format of the operand. For a 16-bit integer operand, a float
    constant is a binary32 number, of which the operand is one half (Choice ``gcn/inline-16``)."""
    if 128 <= code <= 208:
        number = code - 128 if code <= 192 else 192 - code
        return (number & MASK32) << 32 | number & MASK32 if kind in operands.PACKED_PAIRS else number
    if code not in operands.FLOATS:
        raise WireError(f"operand code {code} is reserved")
    if kind in operands.PACKED_PAIRS:
        return inline(code, "f32") << 32 | inline(code, "f32")
    if kind in ("f16", "h16"):
        return operands.HALVES[code]
    if code == operands.INVERSE_2PI and width(kind) == 64:
        return INVERSE_2PI_DOUBLE
    form = "<d" if width(kind) == 64 else "<f"
    return int.from_bytes(struct.pack(form, float(operands.FLOATS[code])), "little")


def literal(word: int, kind: str) -> int:
    """Return the value of the 32-bit literal `word` for an operand of type `kind` (Choice ``gcn/literal-64``).

    For a 64-bit float the literal is the upper half; for a signed 64-bit integer it is sign-extended, for other types
    zero-extended.
    """
    if kind == "f64":
        return word << 32
    return word - (word >> 31 << 32) if kind == "i64" else word


def scalar(b: Builder, i: Insn, code: int, kind: str) -> Word:
    """Return a scalar source: 32 bits for types of up to 32 bits, else 64 bits.

    For a 16-bit type, the caller selects one half of the 32 bits."""
    bits = 64 if width(kind) > 32 else 32
    if code < 128:
        return b.s64(code) if bits == 64 else b.s(code)
    if code == operands.LITERAL:
        if i.literal is None:
            raise ModelBug("an instruction with a literal source was decoded without its literal")
        return b.const(bits, literal(i.literal, kind))
    if code in APERTURES:
        return aperture(b, APERTURES[code]).trunc(bits)
    if code in (VCCZ, EXECZ):
        return (b.s64(VCC if code == VCCZ else EXEC) == 0).zext(bits)
    if code == SCC:
        return b.scc().zext(bits)
    if code == POPS_EXITING_WAVE_ID:
        raise BeyondModel("pops_exiting_wave_id is not modelled: it belongs to primitive-ordered pixel shading")
    if code == operands.LDS_DIRECT:
        raise BeyondModel("src_lds_direct in a scalar instruction is not modelled: only vector instructions read LDS")
    if kind == "f16" and i.target.level == GFX7:
        kind = "b32"
    return b.const(bits, inline(code, kind))


def offset_of(b: Builder, place: str) -> Word:
    """Return the number that is added to the register number of operand `place` while GPR indexing is on.

    It is M0[7:0] if indexing applies to that operand, else 0. `place` is "src0", "src1", "src2" or "vdst"."""
    m0, bit = b.s(M0), GPR_IDX[place]
    return m0[bit:bit] * m0[7:0]


def vgpr(b: Builder, n: int, place: str) -> Word:
    """Return vector register `n`; its number is relative to M0 while GPR indexing is on for the operand `place`."""
    return b.v_indexed(n, offset_of(b, place)) if b.mode.gpr_idx else b.v(n)


def single(b: Builder, i: Insn, code: int, kind: str, place: str) -> Word:
    """Return a vector source with 32 bits for types of up to 32 bits, else with 64 bits.

    `place` is the operand's name, which decides whether GPR indexing applies to it."""
    if code == operands.LDS_DIRECT:
        return lds_direct(b)
    if code < operands.VGPR0:
        return scalar(b, i, code, kind)
    n = code - operands.VGPR0
    low = vgpr(b, n, place)
    return low if width(kind) <= 32 else pair(low, vgpr(b, n + 1 & 0xFF, place))


def vector(b: Builder, i: Insn, code: int, kind: str, place: str) -> Word | list[Word]:
    """Return a vector source of any width; above 64 bits it is a list of 32-bit words.

    `place` is the operand's name, which decides whether GPR indexing applies to it."""
    if width(kind) <= 64 or code < operands.VGPR0:
        return single(b, i, code, kind, place)
    return [vgpr(b, code - operands.VGPR0 + k & 0xFF, place) for k in range(width(kind) // 32)]


def lds_direct(b: Builder) -> Word:
    """Return the LDS value at byte address M0[15:0], for all lanes.

    M0[18:16] is its type: 0 ubyte, 1 ushort, 2 dword, 4 sbyte, 5 sshort.
    """
    m0 = b.s(M0)
    (dword,) = b.load("lds", 32, m0 & 0xFFFC)
    item = dword >> (m0[1:0] << 3)
    byte, half, kind = item.trunc(8), item.trunc(16), m0[18:16]
    value = dword
    for number, form in ((0, byte.zext(32)), (1, half.zext(32)), (4, byte.sext(32)), (5, half.sext(32))):
        value = (kind == number).select(form, value)
    return value


def mask(b: Builder, i: Insn, code: int) -> Word:
    """Return a 64-bit scalar source operand as a lane mask with one bit per lane."""
    return b.mask(code) if code < 128 else b.lane_bits(scalar(b, i, code, "b64"))
