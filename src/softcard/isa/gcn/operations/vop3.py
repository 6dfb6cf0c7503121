"""VOP3: vector operations that exist in the 64-bit encoding only (manuals: "Vector ALU operations")."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import add, mul, sub
from typing import Final

from softcard.isa.gcn.insn import Computation, Function, Row, chosen, ops
from softcard.isa.gcn.semantics import bytewise as by
from softcard.isa.gcn.semantics import convert as cvt
from softcard.isa.gcn.semantics import division, lanes, special
from softcard.isa.gcn.semantics import floating as f
from softcard.isa.gcn.semantics import integer as n
from softcard.isa.gcn.semantics import scaled as scale
from softcard.isa.gcn.word import Word

Binary = Callable[[Word, Word], Word]
Differences = Callable[[Word, Word], Word]


def bfe(signed: bool) -> Computation:
    """Return the semantics of a bit field extract from a: b[4:0] is the first bit, c[4:0] the number of bits."""
    return lambda a, b, c: n.extract(signed, a, b[4:0], c[4:0])


def middle(low: Binary, high: Binary) -> Computation:
    """Return the function of the median of three numbers, composed of the minimum `low` and the maximum `high`."""
    return lambda a, b, c: high(low(a, b), low(high(a, b), c))


def of_three(f: Binary) -> Computation:
    """Convert `f`, a minimum or maximum of two numbers, to a function of three numbers."""
    return lambda a, b, c: f(f(a, b), c)


def mad24(signed: bool) -> Computation:
    """Return the semantics of a multiply-add: the product of the low 24 bits of a and b, plus c."""
    return lambda a, b, c: n.mul24(signed)(a, b) + c


def mad_wide(signed: bool, *, clamped: bool = False) -> Computation:
    """Return the semantics of a * b + c, with 32-bit factors and a 64-bit c; the second result is the carry.

    The carry is bit 64 of the exact sum. If `clamped` is True, a sum that does not fit is saturated to 64 bits."""

    def semantics(a: Word, b: Word, c: Word) -> tuple[Word, Word]:
        product = n.product(signed, a, b)
        if signed:
            total, overflow = n.signed_sum(product, c)
            negative = total.slt(0)
            limit = negative.select(c.const((1 << 63) - 1), 1 << 63)
            out = negative ^ overflow
        else:
            total = product + c
            out = overflow = total < c
            limit = c.const(-1)
        return (overflow.select(limit, total) if clamped else total), out

    return semantics


def mad_32_16(signed: bool, *, clamped: bool = False) -> Computation:
    """Return the semantics of a * b + c, with 16-bit factors and a 32-bit c; saturated if `clamped` is True."""

    def semantics(a: Word, b: Word, c: Word) -> Word:
        product = a.extended(32, signed) * b.extended(32, signed)
        if not clamped:
            return product + c
        return n.clamp(32, signed, product.extended(64, signed) + c.extended(64, signed))

    return semantics


def at_limit(w: int, signed: bool, semantics: Function) -> dict[str, Computation]:
    """Return the `Op` field `clamped`: `semantics`, computed in 64 bits and with the result saturated to `w` bits."""
    return {"clamped": n.clamped(w, signed, semantics)}


def sums(differences: Differences) -> tuple[Computation, dict[str, Computation]]:
    """Return the semantics of a sum of absolute differences plus c, and the `Op` field `clamped` that saturates it.

    `differences` computes the absolute differences of the first two sources."""
    return by.plus(differences), {"clamped": by.plus_clamped(differences)}


def quads(of: Callable[..., Computation], differences: Differences) -> tuple[Computation, dict[str, Computation]]:
    """Return the semantics of four sums of absolute differences, and the `Op` field `clamped` that saturates them.

    `of` converts `differences` to the semantics, for example `quad16`."""
    return of(differences), {"clamped": of(differences, clamped=True)}


SAD8, SAD16, SAD32 = by.differences(8), by.differences(16), by.differences(32)
MSAD8, SAD_HI = by.differences(8, masked=True), by.differences(8, shift=16)
SHLREV, LSHRREV, ASHRREV = map(n.reverse, (n.shl, n.lshr, n.ashr))
MIN3_I, MIN3_U, MAX3_I, MAX3_U = map(of_three, (Word.smin, Word.umin, Word.smax, Word.umax))
MED3_I, MED3_U = middle(Word.smin, Word.smax), middle(Word.umin, Word.umax)
U16, I16 = at_limit(16, False, n.mad), at_limit(16, True, n.mad)
MAD_I24, MAD_U24 = {"clamped": n.clamped24(True, plus=True)}, {"clamped": n.clamped24(False, plus=True)}
ADDED32, TAKEN32 = at_limit(32, True, add), at_limit(32, True, sub)
ADDED16, TAKEN16 = at_limit(16, True, add), at_limit(16, True, sub)
MAD_U64, MAD_I64 = {"clamped": mad_wide(False, clamped=True)}, {"clamped": mad_wide(True, clamped=True)}
MAD_U16, MAD_I16 = {"clamped": mad_32_16(False, clamped=True)}, {"clamped": mad_32_16(True, clamped=True)}
SNORM, UNORM = cvt.packed(cvt.to_norm(signed=True)), cvt.packed(cvt.to_norm(signed=False))

PK_U8, NORM, MAD_F16 = chosen("pk-u8-rounding"), chosen("norm-rounding"), chosen("mad-f16-denormals")
MQSAD32 = {"clamped": by.quad32(MSAD8, clamped=True), **chosen("mqsad-wrap")}
DIV_SCALE, DIV_FMAS, DIV_FIXUP = chosen("div-scale"), chosen("div-fmas"), chosen("div-fixup")
MAD_LEGACY, TRIG, MEDIAN = chosen("mad-legacy-zero"), chosen("trig-preop"), chosen("minmax-zeros")


NOT_940 = {"lacks": "gfx940"}
GFX940, GFX950, FP8 = {"needs": "gfx940"}, {"needs": "gfx950"}, {"needs": "fp8", **chosen("fp8-overflow")}
NOISY = {"needs": "gfx950", **chosen("fp8-overflow")}
# fmt: off
SCALED: Final = (
    # name                            opcode, registers of the result and of the sources
    ("v_cvt_scalef32_pk_fp8_f32",      0x235,  1, "1 1 1"),
    ("v_cvt_scalef32_pk_bf8_f32",      0x236,  1, "1 1 1"),
    ("v_cvt_scalef32_sr_fp8_f32",      0x237,  1, "1 1 1"),
    ("v_cvt_scalef32_sr_bf8_f32",      0x238,  1, "1 1 1"),
    ("v_cvt_scalef32_pk_f32_fp8",      0x239,  2, "1 1"),
    ("v_cvt_scalef32_pk_f32_bf8",      0x23a,  2, "1 1"),
    ("v_cvt_scalef32_f32_fp8",         0x23b,  1, "1 1"),
    ("v_cvt_scalef32_f32_bf8",         0x23c,  1, "1 1"),
    ("v_cvt_scalef32_pk_fp4_f32",      0x23d,  1, "1 1 1"),
    ("v_cvt_scalef32_sr_pk_fp4_f32",   0x23e,  1, "2 1 1"),
    ("v_cvt_scalef32_pk_f32_fp4",      0x23f,  2, "1 1"),
    ("v_cvt_scalef32_pk_fp8_f16",      0x240,  1, "1 1"),
    ("v_cvt_scalef32_pk_bf8_f16",      0x241,  1, "1 1"),
    ("v_cvt_scalef32_sr_fp8_f16",      0x242,  1, "1 1 1"),
    ("v_cvt_scalef32_sr_bf8_f16",      0x243,  1, "1 1 1"),
    ("v_cvt_scalef32_pk_fp8_bf16",     0x244,  1, "1 1"),
    ("v_cvt_scalef32_pk_bf8_bf16",     0x245,  1, "1 1"),
    ("v_cvt_scalef32_sr_fp8_bf16",     0x246,  1, "1 1 1"),
    ("v_cvt_scalef32_sr_bf8_bf16",     0x247,  1, "1 1 1"),
    ("v_cvt_scalef32_pk_f16_fp8",      0x248,  1, "1 1"),
    ("v_cvt_scalef32_pk_f16_bf8",      0x249,  1, "1 1"),
    ("v_cvt_scalef32_f16_fp8",         0x24a,  1, "1 1"),
    ("v_cvt_scalef32_f16_bf8",         0x24b,  1, "1 1"),
    ("v_cvt_scalef32_pk_fp4_f16",      0x24c,  1, "1 1"),
    ("v_cvt_scalef32_pk_fp4_bf16",     0x24d,  1, "1 1"),
    ("v_cvt_scalef32_sr_pk_fp4_f16",   0x24e,  1, "1 1 1"),
    ("v_cvt_scalef32_sr_pk_fp4_bf16",  0x24f,  1, "1 1 1"),
    ("v_cvt_scalef32_pk_f16_fp4",      0x250,  1, "1 1"),
    ("v_cvt_scalef32_pk_bf16_fp4",     0x251,  1, "1 1"),
    ("v_cvt_scalef32_2xpk16_fp6_f32",  0x252,  6, "16 16 1"),
    ("v_cvt_scalef32_2xpk16_bf6_f32",  0x253,  6, "16 16 1"),
    ("v_cvt_scalef32_sr_pk32_fp6_f32", 0x254,  6, "32 1 1"),
    ("v_cvt_scalef32_sr_pk32_bf6_f32", 0x255,  6, "32 1 1"),
    ("v_cvt_scalef32_pk32_f32_fp6",    0x256, 32, "6 1"),
    ("v_cvt_scalef32_pk32_f32_bf6",    0x257, 32, "6 1"),
    ("v_cvt_scalef32_pk32_fp6_f16",    0x258,  6, "16 1"),
    ("v_cvt_scalef32_pk32_fp6_bf16",   0x259,  6, "16 1"),
    ("v_cvt_scalef32_pk32_bf6_f16",    0x25a,  6, "16 1"),
    ("v_cvt_scalef32_pk32_bf6_bf16",   0x25b,  6, "16 1"),
    ("v_cvt_scalef32_sr_pk32_fp6_f16", 0x25c,  6, "16 1 1"),
    ("v_cvt_scalef32_sr_pk32_fp6_bf16",0x25d,  6, "16 1 1"),
    ("v_cvt_scalef32_sr_pk32_bf6_f16", 0x25e,  6, "16 1 1"),
    ("v_cvt_scalef32_sr_pk32_bf6_bf16",0x25f,  6, "16 1 1"),
    ("v_cvt_scalef32_pk32_f16_fp6",    0x260, 16, "6 1"),
    ("v_cvt_scalef32_pk32_bf16_fp6",   0x261, 16, "6 1"),
    ("v_cvt_scalef32_pk32_f16_bf6",    0x262, 16, "6 1"),
    ("v_cvt_scalef32_pk32_bf16_bf6",   0x263, 16, "6 1"),
    ("v_cvt_scalef32_pk_bf16_fp8",     0x269,  1, "1 1"),
    ("v_cvt_scalef32_pk_bf16_bf8",     0x26a,  1, "1 1"),
)
# fmt: on
"""The conversions with a scale (gfx950): mnemonic, opcode, and registers of the result and the sources."""


def scaled() -> Iterator[Row]:
    """Yield the table rows of the conversions with a scale."""
    for name, code, result, sources in SCALED:
        fields = " ".join(f"src{k}:{words}" for k, words in enumerate(sources.split()))
        extras = {"operands": f"vdst:{result} {fields}", **GFX950, **chosen("scaled-conversions")}
        yield name, None, None, code, None, scale.conversion(name), extras


# fmt: off
OPS: Final = ops("vop3", (
    # name                   GFX7   GFX8   GFX9   signature                  meaning
    ("v_mad_legacy_f32",     0x140, 0x1C0, 0x1C0, "f32 = f32 f32 f32",       f.mad_legacy, MAD_LEGACY | NOT_940),
    ("v_mad_f32",            0x141, 0x1C1, 0x1C1, "f32 = f32 f32 f32",       f.mad, NOT_940),
    ("v_mad_i32_i24",        0x142, 0x1C2, 0x1C2, "i32 = i32 i32 i32",       mad24(signed=True), MAD_I24),
    ("v_mad_u32_u24",        0x143, 0x1C3, 0x1C3, "u32 = u32 u32 u32",       mad24(signed=False), MAD_U24),
    ("v_cubeid_f32",         0x144, 0x1C4, 0x1C4, "f32 = f32 f32 f32",       special.face),
    ("v_cubesc_f32",         0x145, 0x1C5, 0x1C5, "f32 = f32 f32 f32",       special.s_coordinate),
    ("v_cubetc_f32",         0x146, 0x1C6, 0x1C6, "f32 = f32 f32 f32",       special.t_coordinate),
    ("v_cubema_f32",         0x147, 0x1C7, 0x1C7, "f32 = f32 f32 f32",       special.major),
    ("v_bfe_u32",            0x148, 0x1C8, 0x1C8, "u32 = u32 u32 u32",       bfe(signed=False)),
    ("v_bfe_i32",            0x149, 0x1C9, 0x1C9, "i32 = i32 u32 u32",       bfe(signed=True)),
    ("v_bfi_b32",            0x14A, 0x1CA, 0x1CA, "b32 = b32 b32 b32",       lambda a, b, c: a & b | ~a & c),
    ("v_fma_f32",            0x14B, 0x1CB, 0x1CB, "f32 = f32 f32 f32",       f.fma),
    ("v_fma_f64",            0x14C, 0x1CC, 0x1CC, "f64 = f64 f64 f64",       f.fma),
    ("v_lerp_u8",            0x14D, 0x1CD, 0x1CD, "u32 = b32 b32 b32",       by.lerp),
    ("v_alignbit_b32",       0x14E, 0x1CE, 0x1CE, "b32 = b32 b32 b32",       by.align(1)),
    ("v_alignbyte_b32",      0x14F, 0x1CF, 0x1CF, "b32 = b32 b32 b32",       by.align(8)),
    ("v_mullit_f32",         0x150, None,  None,  "f32 = f32 f32 f32",       f.mullit),
    ("v_min3_f32",           0x151, 0x1D0, 0x1D0, "f32 = f32 f32 f32 level", f.min3),
    ("v_min3_i32",           0x152, 0x1D1, 0x1D1, "i32 = i32 i32 i32",       MIN3_I),
    ("v_min3_u32",           0x153, 0x1D2, 0x1D2, "u32 = u32 u32 u32",       MIN3_U),
    ("v_max3_f32",           0x154, 0x1D3, 0x1D3, "f32 = f32 f32 f32 level", f.max3),
    ("v_max3_i32",           0x155, 0x1D4, 0x1D4, "i32 = i32 i32 i32",       MAX3_I),
    ("v_max3_u32",           0x156, 0x1D5, 0x1D5, "u32 = u32 u32 u32",       MAX3_U),
    ("v_med3_f32",           0x157, 0x1D6, 0x1D6, "f32 = f32 f32 f32 level", f.median3, MEDIAN),
    ("v_med3_i32",           0x158, 0x1D7, 0x1D7, "i32 = i32 i32 i32",       MED3_I),
    ("v_med3_u32",           0x159, 0x1D8, 0x1D8, "u32 = u32 u32 u32",       MED3_U),
    ("v_sad_u8",             0x15A, 0x1D9, 0x1D9, "u32 = b32 b32 u32",       *sums(SAD8)),
    ("v_sad_hi_u8",          0x15B, 0x1DA, 0x1DA, "u32 = b32 b32 u32",       *sums(SAD_HI)),
    ("v_sad_u16",            0x15C, 0x1DB, 0x1DB, "u32 = b32 b32 u32",       *sums(SAD16)),
    ("v_sad_u32",            0x15D, 0x1DC, 0x1DC, "u32 = u32 u32 u32",       *sums(SAD32)),
    ("v_cvt_pk_u8_f32",      0x15E, 0x1DD, 0x1DD, "b32 = f32 u32 b32",       cvt.put_byte, PK_U8),
    ("v_div_fixup_f32",      0x15F, 0x1DE, 0x1DE, "f32 = f32 f32 f32",       division.div_fixup, DIV_FIXUP),
    ("v_div_fixup_f64",      0x160, 0x1DF, 0x1DF, "f64 = f64 f64 f64",       division.div_fixup, DIV_FIXUP),
    ("v_lshl_b64",           0x161, None,  None,  "b64 = b64 u32",           n.shl),
    ("v_lshr_b64",           0x162, None,  None,  "b64 = b64 u32",           n.lshr),
    ("v_ashr_i64",           0x163, None,  None,  "i64 = i64 u32",           n.ashr),
    ("v_add_f64",            0x164, 0x280, 0x280, "f64 = f64 f64",           f.add),
    ("v_mul_f64",            0x165, 0x281, 0x281, "f64 = f64 f64",           f.mul),
    ("v_min_f64",            0x166, 0x282, 0x282, "f64 = f64 f64 level",     f.MIN),
    ("v_max_f64",            0x167, 0x283, 0x283, "f64 = f64 f64 level",     f.MAX),
    ("v_ldexp_f64",          0x168, 0x284, 0x284, "f64 = f64 i32",           f.ldexp),
    ("v_mul_lo_u32",         0x169, 0x285, 0x285, "u32 = u32 u32",           mul),
    ("v_mul_hi_u32",         0x16A, 0x286, 0x286, "u32 = u32 u32",           n.mul_hi(signed=False)),
    ("v_mul_lo_i32",         0x16B, None,  None,  "i32 = i32 i32",           mul),
    ("v_mul_hi_i32",         0x16C, 0x287, 0x287, "i32 = i32 i32",           n.mul_hi(signed=True)),
    ("v_div_scale_f32",      0x16D, 0x1E0, 0x1E0, "f32 m64 = f32 f32 f32",   division.div_scale, DIV_SCALE),
    ("v_div_scale_f64",      0x16E, 0x1E1, 0x1E1, "f64 m64 = f64 f64 f64",   division.div_scale, DIV_SCALE),
    ("v_div_fmas_f32",       0x16F, 0x1E2, 0x1E2, "f32 = f32 f32 f32 m64",   division.div_fmas, DIV_FMAS),
    ("v_div_fmas_f64",       0x170, 0x1E3, 0x1E3, "f64 = f64 f64 f64 m64",   division.div_fmas, DIV_FMAS),
    ("v_msad_u8",            0x171, 0x1E4, 0x1E4, "u32 = b32 b32 u32",       *sums(MSAD8)),
    ("v_qsad_pk_u16_u8",     0x172, 0x1E5, 0x1E5, "b64 = b64 b32 b64",       *quads(by.quad16, SAD8)),
    ("v_mqsad_pk_u16_u8",    0x173, 0x1E6, 0x1E6, "b64 = b64 b32 b64",       *quads(by.quad16, MSAD8)),
    ("v_trig_preop_f64",     0x174, 0x292, 0x292, "f64 = f64 u32",           special.preop, TRIG),
    ("v_mqsad_u32_u8",       0x175, 0x1E7, 0x1E7, "b128 = b64 b32 b128",     by.quad32(MSAD8), MQSAD32),
    ("v_mad_u64_u32",        0x176, 0x1E8, 0x1E8, "u64 m64 = u32 u32 u64",   mad_wide(signed=False), MAD_U64),
    ("v_mad_i64_i32",        0x177, 0x1E9, 0x1E9, "i64 m64 = i32 i32 i64",   mad_wide(signed=True), MAD_I64),
    # GFX9 kept the opcodes of GFX8 for "legacy" forms, which clear the other half of the destination.
    ("-|v_mad_f16|v_mad_legacy_f16", None,  0x1EA, 0x1EA, "f16 = f16 f16 f16",       f.mad, MAD_F16),
    ("-|v_mad_u16|v_mad_legacy_u16", None,  0x1EB, 0x1EB, "u16 = u16 u16 u16",       n.mad, U16),
    ("-|v_mad_i16|v_mad_legacy_i16", None,  0x1EC, 0x1EC, "i16 = i16 i16 i16",       n.mad, I16),
    ("v_perm_b32",           None,  0x1ED, 0x1ED, "b32 = b32 b32 b32",       by.perm),
    ("-|v_fma_f16|v_fma_legacy_f16", None,  0x1EE, 0x1EE, "f16 = f16 f16 f16",       f.fma),
    ("-|v_div_fixup_f16|v_div_fixup_legacy_f16", None,  0x1EF, 0x1EF, "f16 = f16 f16 f16", division.div_fixup),
    ("v_cvt_pkaccum_u8_f32", None,  0x1F0, 0x1F0, "b32 = f32 u32 old",       cvt.put_byte, PK_U8),
    ("v_mad_u32_u16",        None,  None,  0x1F1, "u32 = u16 u16 u32",       mad_32_16(signed=False), MAD_U16),
    ("v_mad_i32_i16",        None,  None,  0x1F2, "i32 = i16 i16 i32",       mad_32_16(signed=True), MAD_I16),
    ("v_xad_u32",            None,  None,  0x1F3, "u32 = u32 u32 u32",       lambda a, b, c: (a ^ b) + c),
    ("v_min3_f16",           None,  None,  0x1F4, "f16 = f16 f16 f16 level", f.min3),
    ("v_min3_i16",           None,  None,  0x1F5, "i16 = i16 i16 i16",       MIN3_I),
    ("v_min3_u16",           None,  None,  0x1F6, "u16 = u16 u16 u16",       MIN3_U),
    ("v_max3_f16",           None,  None,  0x1F7, "f16 = f16 f16 f16 level", f.max3),
    ("v_max3_i16",           None,  None,  0x1F8, "i16 = i16 i16 i16",       MAX3_I),
    ("v_max3_u16",           None,  None,  0x1F9, "u16 = u16 u16 u16",       MAX3_U),
    ("v_med3_f16",           None,  None,  0x1FA, "f16 = f16 f16 f16 level", f.median3, MEDIAN),
    ("v_med3_i16",           None,  None,  0x1FB, "i16 = i16 i16 i16",       MED3_I),
    ("v_med3_u16",           None,  None,  0x1FC, "u16 = u16 u16 u16",       MED3_U),
    ("v_lshl_add_u32",       None,  None,  0x1FD, "u32 = u32 u32 u32",       lambda a, b, c: n.shl(a, b) + c),
    ("v_add_lshl_u32",       None,  None,  0x1FE, "u32 = u32 u32 u32",       lambda a, b, c: n.shl(a + b, c)),
    ("v_add3_u32",           None,  None,  0x1FF, "u32 = u32 u32 u32",       lambda a, b, c: a + b + c),
    ("v_lshl_or_b32",        None,  None,  0x200, "b32 = b32 u32 b32",       lambda a, b, c: n.shl(a, b) | c),
    ("v_and_or_b32",         None,  None,  0x201, "b32 = b32 b32 b32",       lambda a, b, c: a & b | c),
    ("v_or3_b32",            None,  None,  0x202, "b32 = b32 b32 b32",       lambda a, b, c: a | b | c),
    ("v_mad_f16",            None,  None,  0x203, "f16 = f16 f16 f16",       f.mad, MAD_F16),
    ("v_mad_u16",            None,  None,  0x204, "u16 = u16 u16 u16",       n.mad, U16),
    ("v_mad_i16",            None,  None,  0x205, "i16 = i16 i16 i16",       n.mad, I16),
    ("v_fma_f16",            None,  None,  0x206, "f16 = f16 f16 f16",       f.fma),
    ("v_div_fixup_f16",      None,  None,  0x207, "f16 = f16 f16 f16",       division.div_fixup),
    ("v_ldexp_f32",          None,  0x288, 0x288, "f32 = f32 i32",           f.ldexp),
    ("v_readlane_b32",       None,  0x289, 0x289, None,                      lanes.readlane),
    ("v_writelane_b32",      None,  0x28A, 0x28A, None,                      lanes.writelane),
    ("v_bcnt_u32_b32",       None,  0x28B, 0x28B, "u32 = b32 u32",           n.bit_count),
    ("v_mbcnt_lo_u32_b32",   None,  0x28C, 0x28C, "u32 = b32 u32",           n.mbcnt(upper=False)),
    ("v_mbcnt_hi_u32_b32",   None,  0x28D, 0x28D, "u32 = b32 u32",           n.mbcnt(upper=True)),
    ("v_lshlrev_b64",        None,  0x28F, 0x28F, "b64 = u32 b64",           SHLREV),
    ("v_lshrrev_b64",        None,  0x290, 0x290, "b64 = u32 b64",           LSHRREV),
    ("v_ashrrev_i64",        None,  0x291, 0x291, "i64 = u32 i64",           ASHRREV),
    ("v_bfm_b32",            None,  0x293, 0x293, "b32 = u32 u32",           n.bitfield_mask(32)),
    ("v_cvt_pknorm_i16_f32", None,  0x294, 0x294, "p16 = f32 f32",           SNORM, NORM),
    ("v_cvt_pknorm_u16_f32", None,  0x295, 0x295, "p16 = f32 f32",           UNORM, NORM),
    ("v_cvt_pkrtz_f16_f32",  None,  0x296, 0x296, "h16 = f32 f32",           cvt.packed(cvt.to_half_rtz)),
    ("v_cvt_pk_u16_u32",     None,  0x297, 0x297, "p16 = u32 u32",           cvt.packed(cvt.to_u16)),
    ("v_cvt_pk_i16_i32",     None,  0x298, 0x298, "p16 = i32 i32",           cvt.packed(cvt.to_i16)),
    ("v_cvt_pknorm_i16_f16", None,  None,  0x299, "p16 = f16 f16",           SNORM, NORM),
    ("v_cvt_pknorm_u16_f16", None,  None,  0x29A, "p16 = f16 f16",           UNORM, NORM),
    ("v_add_i32",            None,  None,  0x29C, "i32 = i32 i32",           add, ADDED32),
    ("v_sub_i32",            None,  None,  0x29D, "i32 = i32 i32",           sub, TAKEN32),
    ("v_add_i16",            None,  None,  0x29E, "i16 = i16 i16",           add, ADDED16),
    ("v_sub_i16",            None,  None,  0x29F, "i16 = i16 i16",           sub, TAKEN16),
    ("v_pack_b32_f16",       None,  None,  0x2A0, "b32 = f16 f16",           cvt.pack),
    ("v_lshl_add_u64",       None,  None,  0x208, "u64 = u64 u32 u64",       n.shifted_sum, GFX940),
    ("v_bitop3_b16",         None,  None,  0x233, "b16 = b16 b16 b16 table", n.by_truth_table, GFX950),
    ("v_bitop3_b32",         None,  None,  0x234, "b32 = b32 b32 b32 table", n.by_truth_table, GFX950),
    ("v_ashr_pk_i8_i32",     None,  None,  0x265, "b16 = i32 i32 u32",       n.shifted_bytes(signed=True), GFX950),
    ("v_ashr_pk_u8_i32",     None,  None,  0x266, "b16 = i32 i32 u32",       n.shifted_bytes(signed=False), GFX950),
    ("v_cvt_pk_f16_f32",     None,  None,  0x267, "h16 = f32 f32",           cvt.packed(cvt.to_float("h")), GFX950),
    ("v_cvt_pk_bf16_f32",    None,  None,  0x268, "p16 = f32 f32",           cvt.packed(cvt.float_to_bf16), GFX950),
    ("v_mul_legacy_f32",     None,  None,  0x2A1, "f32 = f32 f32",           f.mul_legacy, {"needs": "gfx90a"}),
    ("v_cvt_pk_fp8_f32",     None,  None,  0x2A2, "b16 = f32 f32 ocp",       cvt.two_bytes(3), FP8),
    ("v_cvt_pk_bf8_f32",     None,  None,  0x2A3, "b16 = f32 f32 ocp",       cvt.two_bytes(2), FP8),
    ("v_cvt_sr_fp8_f32",     None,  None,  0x2A4, "b8 = f32 b32 ocp",        cvt.noisy_byte(3), FP8),
    ("v_cvt_sr_bf8_f32",     None,  None,  0x2A5, "b8 = f32 b32 ocp",        cvt.noisy_byte(2), FP8),
    ("v_cvt_sr_f16_f32",     None,  None,  0x2A6, "b16 = f32 b32",           cvt.noisy_half, NOISY),
    ("v_cvt_sr_bf16_f32",    None,  None,  0x2A7, "b16 = f32 b32",           cvt.noisy_bf16, NOISY),
    ("v_minimum3_f32",       None,  None,  0x2A8, "f32 = f32 f32 f32",       f.minimum3, GFX950),
    ("v_maximum3_f32",       None,  None,  0x2A9, "f32 = f32 f32 f32",       f.maximum3, GFX950),
    *scaled(),
))
# fmt: on
