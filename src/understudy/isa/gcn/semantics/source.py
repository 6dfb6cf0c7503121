"""Reading operands: registers, inline constants, literals and special sources, as values of the type asked for."""

from __future__ import annotations

import struct
from typing import Final

from understudy.core.errors import BeyondModel, ModelBug, WireError
from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.encoding import operands
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics.access import pair
from understudy.isa.gcn.semantics.pointer import aperture
from understudy.isa.gcn.state import EXEC, M0, VCC
from understudy.isa.gcn.target import GFX7
from understudy.isa.gcn.word import Word

APERTURES: Final = {235: "shared", 236: "shared_limit", 237: "private", 238: "private_limit"}
"""GFX9: sources of 64 bits."""
POPS_EXITING_WAVE_ID: Final = 239
VCCZ, EXECZ, SCC = 251, 252, 253
INVERSE_2PI_DOUBLE: Final = 0x3FC45F306DC9C882
GPR_IDX: Final = {"src0": 12, "src1": 13, "src2": 14, "vdst": 15}
"""Bit of M0 that makes an operand relative (s_set_gpr_idx_on)."""


def width(kind: str) -> int:
    """Bits of a signature's type."""
    return int(kind[1:])


def inline(code: int, kind: str) -> int:
    """The number that inline constant `code` is for an operand of type `kind`; integers may be negative.

    Integers are sign-extended to any width. Floats have the width of the operand, but only 16-bit *float* operands
    get the binary16 number: 16-bit integer operands see a half of the binary32 one (Choice ``gcn/inline-16``).
    """
    if 128 <= code <= 192:
        return code - 128
    if 193 <= code <= 208:
        return 192 - code
    if code not in operands.FLOATS:
        raise WireError(f"operand code {code} is reserved")
    if kind in ("f16", "h16"):
        return operands.HALVES[code]
    if code == operands.INVERSE_2PI and width(kind) == 64:
        return INVERSE_2PI_DOUBLE
    form = "<d" if width(kind) == 64 else "<f"
    return int.from_bytes(struct.pack(form, float(operands.FLOATS[code])), "little")


def literal(word: int, kind: str) -> int:
    """The number that the 32-bit literal `word` is for an operand of type `kind` (Choice ``gcn/literal-64``).

    A 64-bit float gets it as its upper half; a signed 64-bit integer extends its sign, others get zeros above it.
    """
    if kind == "f64":
        return word << 32
    return word - (word >> 31 << 32) if kind == "i64" else word


def scalar(b: Builder, i: Insn, code: int, kind: str) -> Word:
    """A scalar source: 32 bits for types up to 32 (16-bit types see a half of it), else 64."""
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
        raise BeyondModel("pops_exiting_wave_id: primitive-ordered pixel shading")
    if kind == "f16" and i.target.level == GFX7:
        kind = "b32"
    return b.const(bits, inline(code, kind))


def offset_of(b: Builder, place: str) -> Word:
    """What M0 adds to the register number of an operand while GPR indexing is on."""
    m0, bit = b.s(M0), GPR_IDX[place]
    return m0[bit:bit] * m0[7:0]


def vgpr(b: Builder, n: int, place: str) -> Word:
    """Vector register `n` as operand `place` reads it."""
    return b.v_indexed(n, offset_of(b, place)) if b.mode.gpr_idx else b.v(n)


def single(b: Builder, i: Insn, code: int, kind: str, place: str) -> Word:
    """A vector source of up to 64 bits: 32 bits for types up to 32, else 64."""
    if code == operands.LDS_DIRECT:
        return lds_direct(b)
    if code < operands.VGPR0:
        return scalar(b, i, code, kind)
    n = code - operands.VGPR0
    low = vgpr(b, n, place)
    return low if width(kind) <= 32 else pair(low, vgpr(b, n + 1 & 0xFF, place))


def vector(b: Builder, i: Insn, code: int, kind: str, place: str) -> Word | list[Word]:
    """A vector source of any width: several words of 32 bits above 64."""
    if width(kind) <= 64 or code < operands.VGPR0:
        return single(b, i, code, kind, place)
    return [vgpr(b, code - operands.VGPR0 + k & 0xFF, place) for k in range(width(kind) // 32)]


def lds_direct(b: Builder) -> Word:
    """The LDS item at byte M0[15:0] for all lanes; M0[18:16] is its type: ubyte, ushort, dword, -, sbyte, sshort."""
    m0 = b.s(M0)
    (dword,) = b.load("lds", 32, m0 & 0xFFFC)
    item = dword >> (m0[1:0] << 3)
    byte, half, kind = item.trunc(8), item.trunc(16), m0[18:16]
    value = dword
    for number, form in ((0, byte.zext(32)), (1, half.zext(32)), (4, byte.sext(32)), (5, half.sext(32))):
        value = (kind == number).select(form, value)
    return value


def mask(b: Builder, i: Insn, code: int) -> Word:
    """A lane mask: one bit per lane of a 64-bit scalar source."""
    return b.mask(code) if code < 128 else b.lane_bits(scalar(b, i, code, "b64"))
