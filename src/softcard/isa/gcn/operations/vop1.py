"""VOP1: vector operations on one source (manuals: "Vector ALU operations").

The opcode of the VOP3 form of an operation is its opcode plus 384 (GFX7) or 320 (GFX8, GFX9).
"""

from __future__ import annotations

from operator import invert
from typing import Any, Final

from softcard.isa.gcn.insn import chosen, ops
from softcard.isa.gcn.semantics import approx as ap
from softcard.isa.gcn.semantics import control as flow
from softcard.isa.gcn.semantics import convert as cvt
from softcard.isa.gcn.semantics import floating as f
from softcard.isa.gcn.semantics import integer as n
from softcard.isa.gcn.semantics import lanes
from softcard.isa.gcn.semantics.fp import Real
from softcard.isa.gcn.word import Word


def covered(selector: int) -> int:
    """Return a four-bit mask of the shader engines that a rectangle of tiles touches.

    `selector` holds x_min, y_min, x_max and y_max, modulo 4, from bits 7:6 down to bits 1:0.
    """
    x_min, y_min, x_max, y_max = (selector >> at & 3 for at in (6, 4, 2, 0))
    found = 0
    for x in range(x_min, x_min + (x_max - x_min) % 4 + 1):
        for y in range(y_min, y_min + (y_max - y_min) % 4 + 1):
            found |= 1 << ((x ^ y >> 1) & 1) * 2 + ((y ^ x >> 1) & 1)
    return found


PARTITIONS: Final = tuple(sum(covered(16 * row + k) << 4 * k for k in range(16)) for row in range(16))
"""The results of v_screen_partition_4se_b32: four-bit masks of shader engines, sixteen of them in each number."""


def screen_partition(a: Word) -> Word:
    """Return the mask of the shader engines that the selector in the low 8 bits of `a` denotes (see `covered`).

    Source: Vega ISA manual, v_screen_partition_4se_b32."""
    row, word = a[7:4], a.constant(64, PARTITIONS[0])
    for number, masks in enumerate(PARTITIONS[1:], 1):
        word = (row == number).select(masks, word)
    return (word >> (a[3:0] << 2).zext(64)).trunc(32)[3:0]


TRUNC, CEIL, RNDNE, FLOOR = (f.rounded(kind) for kind in ("trunc", "ceil", "even", "floor"))
EXP, LOG = ap.of_double(ap.exp2), ap.of_double(ap.log2)
SIN, COS = ap.turns(cosine=False), ap.turns(cosine=True)
FFBH, FFBL, FFBH_I32 = n.first_bit(False), n.first_bit(True), n.first_bit(False, n.sign_changes)

FRACT, NORM = chosen("fract-below-one"), chosen("norm-rounding")
NARROWS = chosen("cvt-f32-f64-rounding")
FP8: Final[dict[str, Any]] = {"needs": "fp8"}
PERMLANE: Final[dict[str, Any]] = {
    "needs": "gfx950", "operands": "vdst src0@vsrc", **chosen("permlane-swap"),
}  # fmt: skip

# fmt: off
OPS: Final = ops("vop1", (
    # name                  GFX7  GFX8  GFX9  signature    meaning
    ("v_nop",               0x00, 0x00, 0x00, None,        lanes.nop),
    ("v_mov_b32",           0x01, 0x01, 0x01, "b32 = b32", lambda a: a),
    ("v_readfirstlane_b32", 0x02, 0x02, 0x02, None,        lanes.readfirstlane),
    ("v_cvt_i32_f64",       0x03, 0x03, 0x03, "i32 = f64", cvt.to_int(32, signed=True)),
    ("v_cvt_f64_i32",       0x04, 0x04, 0x04, "f64 = i32", cvt.from_int("d", signed=True)),
    ("v_cvt_f32_i32",       0x05, 0x05, 0x05, "f32 = i32", cvt.from_int("s", signed=True)),
    ("v_cvt_f32_u32",       0x06, 0x06, 0x06, "f32 = u32", cvt.from_int("s", signed=False)),
    ("v_cvt_u32_f32",       0x07, 0x07, 0x07, "u32 = f32", cvt.to_int(32, signed=False)),
    ("v_cvt_i32_f32",       0x08, 0x08, 0x08, "i32 = f32", cvt.to_int(32, signed=True)),
    ("v_mov_fed_b32",       0x09, None, None, None,        flow.unknown, {"operands": "vdst src0"}),
    ("v_cvt_f16_f32",       0x0A, 0x0A, 0x0A, "f16 = f32", cvt.to_float("h")),
    ("v_cvt_f32_f16",       0x0B, 0x0B, 0x0B, "f32 = f16", cvt.to_float("s")),
    ("v_cvt_rpi_i32_f32",   0x0C, 0x0C, 0x0C, "i32 = f32", cvt.nearest_to_int),
    ("v_cvt_flr_i32_f32",   0x0D, 0x0D, 0x0D, "i32 = f32", cvt.floor_to_int),
    ("v_cvt_off_f32_i4",    0x0E, 0x0E, 0x0E, "f32 = i32", cvt.offset_i4),
    ("v_cvt_f32_f64",       0x0F, 0x0F, 0x0F, "f32 = f64", cvt.to_float("s"), NARROWS),
    ("v_cvt_f64_f32",       0x10, 0x10, 0x10, "f64 = f32", cvt.to_float("d")),
    ("v_cvt_f32_ubyte0",    0x11, 0x11, 0x11, "f32 = u32", cvt.ubyte(0)),
    ("v_cvt_f32_ubyte1",    0x12, 0x12, 0x12, "f32 = u32", cvt.ubyte(1)),
    ("v_cvt_f32_ubyte2",    0x13, 0x13, 0x13, "f32 = u32", cvt.ubyte(2)),
    ("v_cvt_f32_ubyte3",    0x14, 0x14, 0x14, "f32 = u32", cvt.ubyte(3)),
    ("v_cvt_u32_f64",       0x15, 0x15, 0x15, "u32 = f64", cvt.to_int(32, signed=False)),
    ("v_cvt_f64_u32",       0x16, 0x16, 0x16, "f64 = u32", cvt.from_int("d", signed=False)),
    ("v_trunc_f64",         0x17, 0x17, 0x17, "f64 = f64", TRUNC),
    ("v_ceil_f64",          0x18, 0x18, 0x18, "f64 = f64", CEIL),
    ("v_rndne_f64",         0x19, 0x19, 0x19, "f64 = f64", RNDNE),
    ("v_floor_f64",         0x1A, 0x1A, 0x1A, "f64 = f64", FLOOR),
    ("v_fract_f32",         0x20, 0x1B, 0x1B, "f32 = f32", f.fract, FRACT),
    ("v_trunc_f32",         0x21, 0x1C, 0x1C, "f32 = f32", TRUNC),
    ("v_ceil_f32",          0x22, 0x1D, 0x1D, "f32 = f32", CEIL),
    ("v_rndne_f32",         0x23, 0x1E, 0x1E, "f32 = f32", RNDNE),
    ("v_floor_f32",         0x24, 0x1F, 0x1F, "f32 = f32", FLOOR),
    ("v_exp_f32",           0x25, 0x20, 0x20, "f32 = f32", EXP, ap.ONE_ULP),
    ("v_log_clamp_f32",     0x26, None, None, "f32 = f32", ap.above_minus_infinity(LOG), ap.ONE_ULP),
    ("v_log_f32",           0x27, 0x21, 0x21, "f32 = f32", LOG, ap.ONE_ULP),
    ("v_rcp_clamp_f32",     0x28, None, None, "f32 = f32", ap.clamped(ap.rcp_f32), ap.ONE_ULP),
    ("v_rcp_legacy_f32",    0x29, None, None, "f32 = f32", ap.legacy(ap.rcp_f32), ap.ONE_ULP),
    ("v_rcp_f32",           0x2A, 0x22, 0x22, "f32 = f32", ap.rcp_f32, ap.ONE_ULP),
    ("v_rcp_iflag_f32",     0x2B, 0x23, 0x23, "f32 = f32", ap.rcp_f32, ap.ONE_ULP),
    ("v_rsq_clamp_f32",     0x2C, None, None, "f32 = f32", ap.clamped(ap.rsq_f32), ap.ONE_ULP),
    ("v_rsq_legacy_f32",    0x2D, None, None, "f32 = f32", ap.legacy(ap.rsq_f32), ap.ONE_ULP),
    ("v_rsq_f32",           0x2E, 0x24, 0x24, "f32 = f32", ap.rsq_f32, ap.ONE_ULP),
    ("v_rcp_f64",           0x2F, 0x25, 0x25, "f64 = f64", ap.rcp_f64, ap.COARSE),
    ("v_rcp_clamp_f64",     0x30, None, None, "f64 = f64", ap.clamped(ap.rcp_f64), ap.COARSE),
    ("v_rsq_f64",           0x31, 0x26, 0x26, "f64 = f64", ap.rsq_f64, ap.COARSE),
    ("v_rsq_clamp_f64",     0x32, None, None, "f64 = f64", ap.clamped(ap.rsq_f64), ap.COARSE),
    ("v_sqrt_f32",          0x33, 0x27, 0x27, "f32 = f32", ap.sqrt_f32, ap.ONE_ULP),
    ("v_sqrt_f64",          0x34, 0x28, 0x28, "f64 = f64", ap.sqrt_f64, ap.COARSE),
    ("v_sin_f32",           0x35, 0x29, 0x29, "f32 = f32", ap.of_double(SIN), ap.SINE),
    ("v_cos_f32",           0x36, 0x2A, 0x2A, "f32 = f32", ap.of_double(COS), ap.SINE),
    ("v_not_b32",           0x37, 0x2B, 0x2B, "b32 = b32", invert),
    ("v_bfrev_b32",         0x38, 0x2C, 0x2C, "b32 = b32", Word.bitreverse),
    ("v_ffbh_u32",          0x39, 0x2D, 0x2D, "u32 = u32", FFBH),
    ("v_ffbl_b32",          0x3A, 0x2E, 0x2E, "u32 = b32", FFBL),
    ("v_ffbh_i32",          0x3B, 0x2F, 0x2F, "u32 = i32", FFBH_I32),
    ("v_frexp_exp_i32_f64", 0x3C, 0x30, 0x30, "i32 = f64", f.frexp_exp),
    ("v_frexp_mant_f64",    0x3D, 0x31, 0x31, "f64 = f64", f.frexp_mant),
    ("v_fract_f64",         0x3E, 0x32, 0x32, "f64 = f64", f.fract, FRACT),
    ("v_frexp_exp_i32_f32", 0x3F, 0x33, 0x33, "i32 = f32", f.frexp_exp),
    ("v_frexp_mant_f32",    0x40, 0x34, 0x34, "f32 = f32", f.frexp_mant),
    ("v_clrexcp",           0x41, 0x35, 0x35, None,        lanes.nop),
    ("v_movreld_b32",       0x42, 0x36, None, None,        lanes.movreld),
    ("v_movrels_b32",       0x43, 0x37, None, None,        lanes.movrels),
    ("v_movrelsd_b32",      0x44, 0x38, None, None,        lanes.movrelsd),
    ("v_screen_partition_4se_b32", None, None, 0x37, "b32 = b32", screen_partition),
    ("v_cvt_f16_u16",       None, 0x39, 0x39, "f16 = u16", cvt.from_int("h", signed=False)),
    ("v_cvt_f16_i16",       None, 0x3A, 0x3A, "f16 = i16", cvt.from_int("h", signed=True)),
    ("v_cvt_u16_f16",       None, 0x3B, 0x3B, "u16 = f16", cvt.to_int(16, signed=False)),
    ("v_cvt_i16_f16",       None, 0x3C, 0x3C, "i16 = f16", cvt.to_int(16, signed=True)),
    ("v_rcp_f16",           None, 0x3D, 0x3D, "f16 = f16", ap.of_double(ap.rcp_double), ap.HALF_ULP),
    ("v_sqrt_f16",          None, 0x3E, 0x3E, "f16 = f16", ap.of_double(Real.sqrt), ap.HALF_ULP),
    ("v_rsq_f16",           None, 0x3F, 0x3F, "f16 = f16", ap.of_double(ap.inverse_root), ap.HALF_ULP),
    ("v_log_f16",           None, 0x40, 0x40, "f16 = f16", ap.of_double(ap.log2), ap.HALF_ULP),
    ("v_exp_f16",           None, 0x41, 0x41, "f16 = f16", ap.of_double(ap.exp2), ap.HALF_ULP),
    ("v_frexp_mant_f16",    None, 0x42, 0x42, "f16 = f16", f.frexp_mant),
    ("v_frexp_exp_i16_f16", None, 0x43, 0x43, "i16 = f16", f.frexp_exp),
    ("v_floor_f16",         None, 0x44, 0x44, "f16 = f16", FLOOR),
    ("v_ceil_f16",          None, 0x45, 0x45, "f16 = f16", CEIL),
    ("v_trunc_f16",         None, 0x46, 0x46, "f16 = f16", TRUNC),
    ("v_rndne_f16",         None, 0x47, 0x47, "f16 = f16", RNDNE),
    ("v_fract_f16",         None, 0x48, 0x48, "f16 = f16", f.fract, FRACT),
    ("v_sin_f16",           None, 0x49, 0x49, "f16 = f16", ap.of_double(SIN), ap.SINE),
    ("v_cos_f16",           None, 0x4A, 0x4A, "f16 = f16", ap.of_double(COS), ap.SINE),
    ("v_exp_legacy_f32",    0x46, 0x4B, 0x4B, "f32 = f32", EXP, ap.ONE_ULP),
    ("v_log_legacy_f32",    0x45, 0x4C, 0x4C, "f32 = f32", LOG, ap.ONE_ULP),
    ("v_cvt_norm_i16_f16",  None, None, 0x4D, "i16 = f16", cvt.to_norm(signed=True), NORM),
    ("v_cvt_norm_u16_f16",  None, None, 0x4E, "u16 = f16", cvt.to_norm(signed=False), NORM),
    ("v_sat_pk_u8_i16",     None, None, 0x4F, "b16 = b32", cvt.saturate_bytes),
    ("v_swap_b32",          None, None, 0x51, None,        lanes.swap),
    ("v_mov_b64",           None, None, 0x38, "b64 = b64", lambda a: a, {"needs": "gfx940"}),
    ("v_cvt_f32_fp8",       None, None, 0x54, "f32 = b32 ocp", cvt.byte_to_float(3), FP8),
    ("v_cvt_f32_bf8",       None, None, 0x55, "f32 = b32 ocp", cvt.byte_to_float(2), FP8),
    ("v_cvt_pk_f32_fp8",    None, None, 0x56, "g64 = b32 ocp", cvt.two_floats(3), FP8),
    ("v_cvt_pk_f32_bf8",    None, None, 0x57, "g64 = b32 ocp", cvt.two_floats(2), FP8),
    ("v_prng_b32",          None, None, 0x58, "b32 = b32", cvt.prng, {"needs": "gfx950"}),
    ("v_permlane16_swap_b32", None, None, 0x59, None,      lanes.swap_rows(16), PERMLANE),
    ("v_permlane32_swap_b32", None, None, 0x5A, None,      lanes.swap_rows(32), PERMLANE),
    ("v_cvt_f32_bf16",      None, None, 0x5B, "f32 = b32", cvt.bf16_to_float, {"needs": "gfx950"}),
))
# fmt: on
