"""Reading operands: registers, inline constants, literals and special sources, as values of the type asked for."""

from __future__ import annotations

import struct
from typing import Any, Final

from understudy.core.errors import BeyondModel, ModelBug, WireError
from understudy.isa.gcn.algebra import Scalar, Value
from understudy.isa.gcn.encoding import operands
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics.pointer import aperture
from understudy.isa.gcn.state import EXEC, M0, VCC
from understudy.isa.gcn.target import GFX7

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


def scalar(o: Any, i: Insn, code: int, kind: str) -> Scalar:
    """A scalar source: 32 bits for types up to 32 (16-bit types see a half of it), else 64."""
    wide = width(kind) > 32
    if code < 128:
        return o.s64(code) if wide else o.s(code)
    if code == operands.LITERAL:
        if i.literal is None:
            raise ModelBug("an instruction with a literal source was decoded without its literal")
        return o.const(64 if wide else 32, literal(i.literal, kind))
    if code in APERTURES:
        base = aperture(o, APERTURES[code])
        return base if wide else o.trunc(32, 64, base)
    if code in (VCCZ, EXECZ):
        register = o.s64(VCC if code == VCCZ else EXEC)
        return o.zext(64 if wide else 32, 1, o.eq(64, register, o.const(64, 0)))
    if code == SCC:
        return o.zext(64 if wide else 32, 1, o.scc())
    if code == POPS_EXITING_WAVE_ID:
        raise BeyondModel("pops_exiting_wave_id: primitive-ordered pixel shading")
    if kind == "f16" and i.target.level == GFX7:
        kind = "b32"
    return o.const(64 if wide else 32, inline(code, kind))


def offset_of(o: Any, place: str) -> Scalar:
    """What M0 adds to the register number of an operand while GPR indexing is on."""
    m0 = o.s(M0)
    enabled = o.and_(32, o.lshr(32, m0, o.const(32, GPR_IDX[place])), o.const(32, 1))
    return o.mul(32, enabled, o.and_(32, m0, o.const(32, 0xFF)))


def vgpr(o: Any, n: int, place: str) -> Value:
    """Vector register `n` as operand `place` reads it."""
    return o.v_indexed(n, offset_of(o, place)) if o.mode.gpr_idx else o.v(n)


def pair(o: Any, low: Value, high: Value) -> Value:
    """64 bits of two times 32."""
    return o.or_(64, o.zext(64, 32, low), o.shl(64, o.zext(64, 32, high), o.const(64, 32)))


def low(o: Any, a: Value) -> Value:
    """The lower 32 bits of 64."""
    return o.trunc(32, 64, a)


def high(o: Any, a: Value) -> Value:
    """The upper 32 bits of 64."""
    return o.trunc(32, 64, o.lshr(64, a, o.const(64, 32)))


def vector(o: Any, i: Insn, code: int, kind: str, place: str) -> Any:
    """A vector source: 32 bits for types up to 32, 64 for 64, a list of 32-bit values for wider ones."""
    if code == operands.LDS_DIRECT:
        return lds_direct(o)
    if code < operands.VGPR0:
        return scalar(o, i, code, kind)
    n = code - operands.VGPR0
    if width(kind) <= 32:
        return vgpr(o, n, place)
    parts = [vgpr(o, n + k & 0xFF, place) for k in range(width(kind) // 32)]
    return pair(o, *parts) if len(parts) == 2 else parts


def lds_direct(o: Any) -> Value:
    """The LDS item at byte M0[15:0] for all lanes; M0[18:16] is its type: ubyte, ushort, dword, -, sbyte, sshort."""
    m0 = o.s(M0)
    at = o.and_(32, m0, o.const(32, 0xFFFC))
    shift = o.shl(32, o.and_(32, m0, o.const(32, 3)), o.const(32, 3))
    (dword,) = o.load("lds", 32, at)
    item = o.lshr(32, dword, shift)
    byte, word = o.trunc(8, 32, item), o.trunc(16, 32, item)
    kind = o.and_(32, o.lshr(32, m0, o.const(32, 16)), o.const(32, 7))
    forms = ((0, o.zext(32, 8, byte)), (1, o.zext(32, 16, word)), (4, o.sext(32, 8, byte)), (5, o.sext(32, 16, word)))
    value = dword
    for number, form in forms:
        value = o.select(32, o.eq(32, kind, o.const(32, number)), form, value)
    return value


def mask(o: Any, i: Insn, code: int) -> Value:
    """A lane mask: one bit per lane of a 64-bit scalar source."""
    return o.mask(code) if code < 128 else o.lane_bits(scalar(o, i, code, "b64"))
