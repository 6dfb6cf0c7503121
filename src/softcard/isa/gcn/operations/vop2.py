"""VOP2: vector operations on two sources (manuals: "Vector ALU operations").

The opcode of the VOP3 form of an operation is its opcode plus 256.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import add, and_, mul, or_, sub, xor
from typing import Final

from softcard.isa.gcn.insn import Computation, Function, chosen, ops
from softcard.isa.gcn.semantics import convert as cvt
from softcard.isa.gcn.semantics import dot, lanes
from softcard.isa.gcn.semantics import floating as f
from softcard.isa.gcn.semantics import integer as n
from softcard.isa.gcn.word import Word


def k16(semantics: Computation, k: int) -> Computation:
    """Return a function like `semantics` whose source number `k`, the literal, is truncated to 16 bits."""
    return lambda *sources: semantics(*(a.trunc(16) if at == k else a for at, a in enumerate(sources)))


def at_limit(semantics: Callable[..., tuple[Word, Word]], limit: int) -> dict[str, Computation]:
    """Return the keyword argument `clamped` of `Op` for an instruction that clamps its result.

    The function computes what `semantics` computes; the result is `limit` if there is a carry or borrow."""
    return {"clamped": n.saturating(semantics, limit)}


def saturated(w: int, semantics: Function) -> dict[str, Computation]:
    """Return the `Op` field `clamped`: `semantics`, with the unsigned result saturated to `w` bits."""
    return {"clamped": n.clamped(w, False, semantics)}


SHLREV, LSHRREV, ASHRREV = map(n.reverse, (n.shl, n.lshr, n.ashr))
SUBREV, SUBBREV = n.reverse(n.sub_borrow), n.reverse(n.subb)
BORROWED, BORROWED_REV = at_limit(n.sub_borrow, 0), at_limit(SUBBREV, 0)
FSUBREV, ISUBREV = n.reverse(f.sub), n.reverse(sub)
I24, U24 = {"clamped": n.clamped24(True, plus=False)}, {"clamped": n.clamped24(False, plus=False)}
ADDED, ADDED16 = saturated(32, add), saturated(16, add)
TAKEN, TAKEN16 = saturated(32, sub), saturated(16, sub)
TAKEN_REV, TAKEN_REV16 = saturated(32, ISUBREV), saturated(16, ISUBREV)

PK_U8, NORM, MAD_F16 = chosen("pk-u8-rounding"), chosen("norm-rounding"), chosen("mad-f16-denormals")
MAD_LEGACY = chosen("mad-legacy-zero")

NOT_940 = {"lacks": "gfx940"}
DOT_F16, DOT_BF16 = chosen("dot2-f16"), chosen("dot2-bf16")
DOT2C, DOT4C, DOT8C = (
    {"needs": "mai", "clamped": dot.integers(bits, signed=True, saturates=True)} for bits in (16, 8, 4)
)

# fmt: off
OPS: Final = ops("vop2", (
    # name                   GFX7  GFX8  GFX9  signature                meaning
    ("v_cndmask_b32",        0x00, 0x00, 0x00, "b32 = f32 f32 m64",     lambda a, b, c: c.select(b, a)),
    ("v_readlane_b32",       0x01, None, None, None,                    lanes.readlane),
    ("v_writelane_b32",      0x02, None, None, None,                    lanes.writelane),
    ("v_add_f32",            0x03, 0x01, 0x01, "f32 = f32 f32",         f.add),
    ("v_sub_f32",            0x04, 0x02, 0x02, "f32 = f32 f32",         f.sub),
    ("v_subrev_f32",         0x05, 0x03, 0x03, "f32 = f32 f32",         FSUBREV),
    ("v_mac_legacy_f32",     0x06, None, None, "f32 = f32 f32 old",     f.mad_legacy, MAD_LEGACY),
    ("v_mul_legacy_f32",     0x07, 0x04, 0x04, "f32 = f32 f32",         f.mul_legacy, {"lacks": "gfx90a"}),
    ("v_mul_f32",            0x08, 0x05, 0x05, "f32 = f32 f32",         f.mul),
    ("v_mul_i32_i24",        0x09, 0x06, 0x06, "i32 = i32 i32",         n.mul24(signed=True), I24),
    ("v_mul_hi_i32_i24",     0x0A, 0x07, 0x07, "i32 = i32 i32",         n.mul_hi24(signed=True)),
    ("v_mul_u32_u24",        0x0B, 0x08, 0x08, "u32 = u32 u32",         n.mul24(signed=False), U24),
    ("v_mul_hi_u32_u24",     0x0C, 0x09, 0x09, "u32 = u32 u32",         n.mul_hi24(signed=False)),
    ("v_min_legacy_f32",     0x0D, None, None, "f32 = f32 f32",         f.min_legacy),
    ("v_max_legacy_f32",     0x0E, None, None, "f32 = f32 f32",         f.max_legacy),
    ("v_min_f32",            0x0F, 0x0A, 0x0A, "f32 = f32 f32 level",   f.MIN),
    ("v_max_f32",            0x10, 0x0B, 0x0B, "f32 = f32 f32 level",   f.MAX),
    ("v_min_i32",            0x11, 0x0C, 0x0C, "i32 = i32 i32",         Word.smin),
    ("v_max_i32",            0x12, 0x0D, 0x0D, "i32 = i32 i32",         Word.smax),
    ("v_min_u32",            0x13, 0x0E, 0x0E, "u32 = u32 u32",         Word.umin),
    ("v_max_u32",            0x14, 0x0F, 0x0F, "u32 = u32 u32",         Word.umax),
    ("v_lshr_b32",           0x15, None, None, "b32 = b32 u32",         n.lshr),
    ("v_lshrrev_b32",        0x16, 0x10, 0x10, "b32 = u32 b32",         LSHRREV),
    ("v_ashr_i32",           0x17, None, None, "i32 = i32 u32",         n.ashr),
    ("v_ashrrev_i32",        0x18, 0x11, 0x11, "i32 = u32 i32",         ASHRREV),
    ("v_lshl_b32",           0x19, None, None, "b32 = b32 u32",         n.shl),
    ("v_lshlrev_b32",        0x1A, 0x12, 0x12, "b32 = u32 b32",         SHLREV),
    ("v_and_b32",            0x1B, 0x13, 0x13, "b32 = b32 b32",         and_),
    ("v_or_b32",             0x1C, 0x14, 0x14, "b32 = b32 b32",         or_),
    ("v_xor_b32",            0x1D, 0x15, 0x15, "b32 = b32 b32",         xor),
    ("v_bfm_b32",            0x1E, None, None, "b32 = u32 u32",         n.bitfield_mask(32)),
    ("v_mac_f32",            0x1F, 0x16, 0x16, "f32 = f32 f32 old",     f.mad, NOT_940),
    ("v_madmk_f32",          0x20, 0x17, 0x17, "f32 = f32 k32 f32",     f.mad, NOT_940),
    ("v_madak_f32",          0x21, 0x18, 0x18, "f32 = f32 f32 k32",     f.mad, NOT_940),
    ("v_bcnt_u32_b32",       0x22, None, None, "u32 = b32 u32",         n.bit_count),
    ("v_mbcnt_lo_u32_b32",   0x23, None, None, "u32 = b32 u32",         n.mbcnt(upper=False)),
    ("v_mbcnt_hi_u32_b32",   0x24, None, None, "u32 = b32 u32",         n.mbcnt(upper=True)),
    ("v_add_i32|v_add_u32|v_add_co_u32", 0x25, 0x19, 0x19, "u32 m64 = u32 u32", n.add_carry, at_limit(n.add_carry, -1)),
    ("v_sub_i32|v_sub_u32|v_sub_co_u32", 0x26, 0x1A, 0x1A, "u32 m64 = u32 u32",     n.sub_borrow, BORROWED),
    ("v_subrev_i32|v_subrev_u32|v_subrev_co_u32", 0x27, 0x1B, 0x1B, "u32 m64 = u32 u32", SUBREV, at_limit(SUBREV, 0)),
    ("v_addc_u32|v_addc_u32|v_addc_co_u32", 0x28, 0x1C, 0x1C, "u32 m64 = u32 u32 m64", n.addc, at_limit(n.addc, -1)),
    ("v_subb_u32|v_subb_u32|v_subb_co_u32", 0x29, 0x1D, 0x1D, "u32 m64 = u32 u32 m64", n.subb, at_limit(n.subb, 0)),
    ("v_subbrev_u32|v_subbrev_u32|v_subbrev_co_u32", 0x2A, 0x1E, 0x1E, "u32 m64 = u32 u32 m64", SUBBREV, BORROWED_REV),
    ("v_ldexp_f32",          0x2B, None, None, "f32 = f32 i32",         f.ldexp),
    ("v_cvt_pkaccum_u8_f32", 0x2C, None, None, "b32 = f32 u32 old",     cvt.put_byte, PK_U8),
    ("v_cvt_pknorm_i16_f32", 0x2D, None, None, "p16 = f32 f32", cvt.packed(cvt.to_norm(signed=True)), NORM),
    ("v_cvt_pknorm_u16_f32", 0x2E, None, None, "p16 = f32 f32", cvt.packed(cvt.to_norm(signed=False)), NORM),
    ("v_cvt_pkrtz_f16_f32",  0x2F, None, None, "h16 = f32 f32",         cvt.packed(cvt.to_half_rtz)),
    ("v_cvt_pk_u16_u32",     0x30, None, None, "p16 = u32 u32",         cvt.packed(cvt.to_u16)),
    ("v_cvt_pk_i16_i32",     0x31, None, None, "p16 = i32 i32",         cvt.packed(cvt.to_i16)),
    ("v_add_f16",            None, 0x1F, 0x1F, "f16 = f16 f16",         f.add),
    ("v_sub_f16",            None, 0x20, 0x20, "f16 = f16 f16",         f.sub),
    ("v_subrev_f16",         None, 0x21, 0x21, "f16 = f16 f16",         FSUBREV),
    ("v_mul_f16",            None, 0x22, 0x22, "f16 = f16 f16",         f.mul),
    ("v_mac_f16",            None, 0x23, 0x23, "f16 = f16 f16 old",     f.mad, MAD_F16),
    ("v_madmk_f16",          None, 0x24, 0x24, "f16 = f16 k32 f16",     k16(f.mad, 1), MAD_F16),
    ("v_madak_f16",          None, 0x25, 0x25, "f16 = f16 f16 k32",     k16(f.mad, 2), MAD_F16),
    ("v_add_u16",            None, 0x26, 0x26, "u16 = u16 u16",         add, ADDED16),
    ("v_sub_u16",            None, 0x27, 0x27, "u16 = u16 u16",         sub, TAKEN16),
    ("v_subrev_u16",         None, 0x28, 0x28, "u16 = u16 u16",         ISUBREV, TAKEN_REV16),
    ("v_mul_lo_u16",         None, 0x29, 0x29, "u16 = u16 u16",         mul),
    ("v_lshlrev_b16",        None, 0x2A, 0x2A, "b16 = u16 b16",         SHLREV),
    ("v_lshrrev_b16",        None, 0x2B, 0x2B, "b16 = u16 b16",         LSHRREV),
    ("v_ashrrev_i16",        None, 0x2C, 0x2C, "i16 = u16 i16",         ASHRREV),
    ("v_max_f16",            None, 0x2D, 0x2D, "f16 = f16 f16 level",   f.MAX),
    ("v_min_f16",            None, 0x2E, 0x2E, "f16 = f16 f16 level",   f.MIN),
    ("v_max_u16",            None, 0x2F, 0x2F, "u16 = u16 u16",         Word.umax),
    ("v_max_i16",            None, 0x30, 0x30, "i16 = i16 i16",         Word.smax),
    ("v_min_u16",            None, 0x31, 0x31, "u16 = u16 u16",         Word.umin),
    ("v_min_i16",            None, 0x32, 0x32, "i16 = i16 i16",         Word.smin),
    ("v_ldexp_f16",          None, 0x33, 0x33, "f16 = f16 i16",         f.ldexp),
    ("v_add_u32",            None, None, 0x34, "u32 = u32 u32",         add, ADDED),
    ("v_sub_u32",            None, None, 0x35, "u32 = u32 u32",         sub, TAKEN),
    ("v_subrev_u32",         None, None, 0x36, "u32 = u32 u32",         ISUBREV, TAKEN_REV),
    ("v_fmac_f64",           None, None, 0x04, "f64 = f64 f64 old",     f.fma, {"needs": "gfx90a"}),
    ("v_dot2c_f32_bf16",     None, None, 0x16, "f32 = b32 b32 old",     dot.bf16_chain, {"needs": "gfx950"} | DOT_BF16),
    ("v_fmamk_f32",          None, None, 0x17, "f32 = f32 k32 f32",     f.fma, {"needs": "gfx940"}),
    ("v_fmaak_f32",          None, None, 0x18, "f32 = f32 f32 k32",     f.fma, {"needs": "gfx940"}),
    ("v_dot2c_f32_f16",      None, None, 0x37, "f32 = b32 b32 old",     dot.f16, {"needs": "mai"} | DOT_F16),
    ("v_dot2c_i32_i16",      None, None, 0x38, "i32 = b32 b32 old",     dot.integers(16, signed=True), DOT2C),
    ("v_dot4c_i32_i8",       None, None, 0x39, "i32 = b32 b32 old",     dot.integers(8, signed=True), DOT4C),
    ("v_dot8c_i32_i4",       None, None, 0x3A, "i32 = b32 b32 old",     dot.integers(4, signed=True), DOT8C),
    ("v_pk_fmac_f16",        None, None, 0x3C, "h16 = b32 b32 old",     cvt.both(f.fma), {"needs": "mai"}),
    ("v_fmac_f32",           None, None, 0x3B, "f32 = f32 f32 old",     f.fma, {"needs": "dot"}),
    ("v_xnor_b32",           None, None, 0x3D, "b32 = b32 b32",         lambda a, b: ~(a ^ b), {"needs": "dot"}),
))
# fmt: on
