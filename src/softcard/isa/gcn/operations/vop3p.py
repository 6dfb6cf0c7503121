"""VOP3P (GFX9): packed operations on two halves, multiply-adds of mixed formats, dot products.

The caller has moved the selected halves to their positions (op_sel, op_sel_hi) and changed their signs (neg, neg_hi). A
source of type ``x32`` is a binary32 number, or with op_sel_hi the half that op_sel selects, widened by the caller.
"""

from __future__ import annotations

from operator import add, mul, sub
from typing import Any, Final

from softcard.core.errors import BeyondModel
from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.insn import Accuracy, Function, Insn, chosen, ops
from softcard.isa.gcn.semantics import convert as cvt
from softcard.isa.gcn.semantics import dot
from softcard.isa.gcn.semantics import floating as f
from softcard.isa.gcn.semantics import integer as n
from softcard.isa.gcn.word import Word

Extras = dict[str, Any]


def with_level(one: Function) -> Function:
    """Return a function like `one` without its last parameter, the generation, which is always 9."""
    return lambda *sources: one(*sources, 9)


def clamped(signed: bool, wide: Function) -> Extras:
    """Return the `Op` field `clamped`: `wide`, computed in 64 bits and with the result saturated to 16 bits."""
    return {"clamped": cvt.both(n.clamped(16, signed, wide))}


def to_half(of: Function, env: str | None = None) -> Function:
    """Return a function like `of` with its binary32 result converted to binary16.

    `env` is passed to `Word.fconvert`."""
    return lambda *sources: of(*sources).fconvert("h", env)


def dot_extras(bits: int, signed: bool) -> Extras:
    """Return the `Op` fields of a dot product of fields of `bits` bits: `needs` and `clamped`.

    The operation exists on gfx906 and later. The clamp bit saturates the sum."""
    return {"needs": "dot", "clamped": dot.integers(bits, signed, saturates=True)}


def beyond(b: Builder, i: Insn) -> None:
    """Raise `BeyondModel`: the operation is modelled only as the first half of a matrix instruction (VOP3PX)."""
    raise BeyondModel(
        f"{i.name}: expected an f8f6f4 matrix instruction with abid:1 directly after it; scales for other instructions "
        "are not modelled"
    )


ABSENT: Final = Accuracy("absent", "", "scales that are loaded for a later instruction")
GFX90A: Final[Extras] = {"needs": "gfx90a"}
GFX950: Final[Extras] = {"needs": "gfx950"}
DOT_BF16: Final[Extras] = {**chosen("dot2-bf16")}
DOT_F16: Final[Extras] = {"needs": "dot", **chosen("dot2-f16")}
MIX: Final[Extras] = {"needs": "mad_mix", **chosen("mad-f16-denormals")}
FMA_MIX: Final[Extras] = {"needs": "fma_mix"}
SHL, LSHR, ASHR = (cvt.both(n.reverse(shift)) for shift in (n.shl, n.lshr, n.ashr))

# fmt: off
OPS: Final = ops("vop3p", (
    # name               GFX7  GFX8  GFX9  signature            meaning
    ("v_pk_mad_i16",     None, None, 0x00, "p16 = p16 p16 p16", cvt.both(n.mad), clamped(True, n.mad)),
    ("v_pk_mul_lo_u16",  None, None, 0x01, "p16 = p16 p16",     cvt.both(mul)),
    ("v_pk_add_i16",     None, None, 0x02, "p16 = p16 p16",     cvt.both(add), clamped(True, add)),
    ("v_pk_sub_i16",     None, None, 0x03, "p16 = p16 p16",     cvt.both(sub), clamped(True, sub)),
    ("v_pk_lshlrev_b16", None, None, 0x04, "p16 = p16 p16",     SHL),
    ("v_pk_lshrrev_b16", None, None, 0x05, "p16 = p16 p16",     LSHR),
    ("v_pk_ashrrev_i16", None, None, 0x06, "p16 = p16 p16",     ASHR),
    ("v_pk_max_i16",     None, None, 0x07, "p16 = p16 p16",     cvt.both(Word.smax)),
    ("v_pk_min_i16",     None, None, 0x08, "p16 = p16 p16",     cvt.both(Word.smin)),
    ("v_pk_mad_u16",     None, None, 0x09, "p16 = p16 p16 p16", cvt.both(n.mad), clamped(False, n.mad)),
    ("v_pk_add_u16",     None, None, 0x0A, "p16 = p16 p16",     cvt.both(add), clamped(False, add)),
    ("v_pk_sub_u16",     None, None, 0x0B, "p16 = p16 p16",     cvt.both(sub), clamped(False, sub)),
    ("v_pk_max_u16",     None, None, 0x0C, "p16 = p16 p16",     cvt.both(Word.umax)),
    ("v_pk_min_u16",     None, None, 0x0D, "p16 = p16 p16",     cvt.both(Word.umin)),
    ("v_pk_fma_f16",     None, None, 0x0E, "h16 = h16 h16 h16", cvt.both(f.fma)),
    ("v_pk_add_f16",     None, None, 0x0F, "h16 = h16 h16",     cvt.both(f.add)),
    ("v_pk_mul_f16",     None, None, 0x10, "h16 = h16 h16",     cvt.both(f.mul)),
    ("v_pk_min_f16",     None, None, 0x11, "h16 = h16 h16",     cvt.both(with_level(f.MIN))),
    ("v_pk_max_f16",     None, None, 0x12, "h16 = h16 h16",     cvt.both(with_level(f.MAX))),
    ("v_dot2_f32_bf16",  None, None, 0x1A, "f32 = h16 h16 f32", dot.bf16_together, GFX950 | DOT_BF16),
    ("v_pk_minimum3_f16", None, None, 0x1B, "h16 = h16 h16 h16", cvt.both(f.minimum3), GFX950),
    ("v_pk_maximum3_f16", None, None, 0x1C, "h16 = h16 h16 h16", cvt.both(f.maximum3), GFX950),
    ("v_mad_mix_f32",    None, None, 0x20, "f32 = x32 x32 x32", f.mad, MIX),
    ("v_mad_mixlo_f16",  None, None, 0x21, "f16 = x32 x32 x32", to_half(f.mad, "flush"), MIX),
    ("v_mad_mixhi_f16",  None, None, 0x22, "f16 = x32 x32 x32", to_half(f.mad, "flush"), MIX),
    ("v_fma_mix_f32",    None, None, 0x20, "f32 = x32 x32 x32", f.fma, FMA_MIX),
    ("v_fma_mixlo_f16",  None, None, 0x21, "f16 = x32 x32 x32", to_half(f.fma), FMA_MIX),
    ("v_fma_mixhi_f16",  None, None, 0x22, "f16 = x32 x32 x32", to_half(f.fma), FMA_MIX),
    ("v_dot2_f32_f16",   None, None, 0x23, "f32 = h16 h16 f32", dot.f16, DOT_F16),
    ("v_dot2_i32_i16",   None, None, 0x26, "i32 = p16 p16 i32", dot.integers(16, signed=True), dot_extras(16, True)),
    ("v_dot2_u32_u16",   None, None, 0x27, "u32 = p16 p16 u32", dot.integers(16, signed=False), dot_extras(16, False)),
    ("v_dot4_i32_i8",    None, None, 0x28, "i32 = b32 b32 i32", dot.integers(8, signed=True), dot_extras(8, True)),
    ("v_dot4_u32_u8",    None, None, 0x29, "u32 = b32 b32 u32", dot.integers(8, signed=False), dot_extras(8, False)),
    ("v_dot8_i32_i4",    None, None, 0x2A, "i32 = b32 b32 i32", dot.integers(4, signed=True), dot_extras(4, True)),
    ("v_dot8_u32_u4",    None, None, 0x2B, "u32 = b32 b32 u32", dot.integers(4, signed=False), dot_extras(4, False)),
    ("v_pk_fma_f32",     None, None, 0x30, "g64 = g64 g64 g64", f.two(f.fma), GFX90A),
    ("v_pk_mul_f32",     None, None, 0x31, "g64 = g64 g64",     f.two(f.mul), GFX90A),
    ("v_pk_add_f32",     None, None, 0x32, "g64 = g64 g64",     f.two(f.add), GFX90A),
    ("v_pk_mov_b32",     None, None, 0x33, "p64 = p64 p64",     lambda a, b: a[31:0] | b << 32, GFX90A),
    ("v_mfma_ld_scale_b32", None, None, 0x2C, None, beyond, {"operands": "src0 src1", "accuracy": ABSENT} | GFX950),
))
# fmt: on
