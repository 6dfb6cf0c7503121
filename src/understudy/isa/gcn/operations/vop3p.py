"""VOP3P (GFX9): packed operations on two halves, multiply-adds of mixed formats, dot products.

The frame has put the halves in place (op_sel, op_sel_hi) and changed their signs (neg, neg_hi). A source of type
``x32`` is a binary32 number, or the half that op_sel says where op_sel_hi is set, widened by the frame.
"""

from __future__ import annotations

from operator import add, mul, sub
from typing import Any, Final

from understudy.isa.gcn.insn import Function, chosen, ops
from understudy.isa.gcn.semantics import convert as cvt
from understudy.isa.gcn.semantics import floating as f
from understudy.isa.gcn.semantics import integer as n
from understudy.isa.gcn.word import Word

Extras = dict[str, Any]


def both(one: Function) -> Function:
    """`one` of the low halves, and of the high halves."""

    def meaning(*sources: Word) -> Word:
        low, high = (a.trunc(16) for a in sources), (a[31:16].trunc(16) for a in sources)
        return cvt.pack(one(*low), one(*high))

    return meaning


def with_level(one: Function) -> Function:
    """`one` as GFX9 does it."""
    return lambda *sources: one(*sources, 9)


def clamped(signed: bool, wide: Function) -> Extras:
    """Where the instruction says clamp: `wide`, in 64 bits, saturated to 16."""
    return {"clamped": both(n.clamped(16, signed, wide))}


def to_half(of: Function, env: str | None = None) -> Function:
    """The binary32 result of `of` as a half."""
    return lambda *sources: of(*sources).fconvert("h", env)


def items(bits: int, signed: bool, a: Word) -> list[Word]:
    """The items of `bits` bits of a register, extended to 32."""
    return [n.shift_right(signed, a << 32 - bits - at, 32 - bits) for at in range(0, 32, bits)]


def dot(bits: int, signed: bool, *, saturates: bool = False) -> Function:
    """The sum of the products of items, plus c."""

    def meaning(a: Word, b: Word, c: Word) -> Word:
        total = c.extended(64, signed)
        for x, y in zip(items(bits, signed, a), items(bits, signed, b), strict=True):
            total += n.product(signed, x, y)
        return n.clamp(32, signed, total) if saturates else total.trunc(32)

    return meaning


def dot_extras(bits: int, signed: bool) -> Extras:
    """What only gfx906 has, and its saturating form."""
    return {"needs": "dot", "clamped": dot(bits, signed, saturates=True)}


def dot_f16(a: Word, b: Word, c: Word) -> Word:
    """c plus the product of the low halves, then of the high ones; every sum is rounded, denormals are flushed."""
    for x, y in ((a, b), (a[31:16], b[31:16])):
        product = x.trunc(16).fconvert("s").fmul(y.trunc(16).fconvert("s"), "flush")
        c = product.fadd(c, "flush")
    return c


DOT_F16: Final[Extras] = {"needs": "dot", **chosen("dot2-f16")}
MIX: Final[Extras] = {"needs": "mad_mix", **chosen("mad-f16-denormals")}
FMA_MIX: Final[Extras] = {"needs": "dot"}
SHL, LSHR, ASHR = (both(n.reverse(shift)) for shift in (n.shl, n.lshr, n.ashr))

# fmt: off
OPS: Final = ops("vop3p", (
    # name               GFX7  GFX8  GFX9  signature            meaning
    ("v_pk_mad_i16",     None, None, 0x00, "p16 = p16 p16 p16", both(n.mad), clamped(True, n.mad)),
    ("v_pk_mul_lo_u16",  None, None, 0x01, "p16 = p16 p16",     both(mul)),
    ("v_pk_add_i16",     None, None, 0x02, "p16 = p16 p16",     both(add), clamped(True, add)),
    ("v_pk_sub_i16",     None, None, 0x03, "p16 = p16 p16",     both(sub), clamped(True, sub)),
    ("v_pk_lshlrev_b16", None, None, 0x04, "p16 = p16 p16",     SHL),
    ("v_pk_lshrrev_b16", None, None, 0x05, "p16 = p16 p16",     LSHR),
    ("v_pk_ashrrev_i16", None, None, 0x06, "p16 = p16 p16",     ASHR),
    ("v_pk_max_i16",     None, None, 0x07, "p16 = p16 p16",     both(Word.smax)),
    ("v_pk_min_i16",     None, None, 0x08, "p16 = p16 p16",     both(Word.smin)),
    ("v_pk_mad_u16",     None, None, 0x09, "p16 = p16 p16 p16", both(n.mad), clamped(False, n.mad)),
    ("v_pk_add_u16",     None, None, 0x0A, "p16 = p16 p16",     both(add), clamped(False, add)),
    ("v_pk_sub_u16",     None, None, 0x0B, "p16 = p16 p16",     both(sub), clamped(False, sub)),
    ("v_pk_max_u16",     None, None, 0x0C, "p16 = p16 p16",     both(Word.umax)),
    ("v_pk_min_u16",     None, None, 0x0D, "p16 = p16 p16",     both(Word.umin)),
    ("v_pk_fma_f16",     None, None, 0x0E, "h16 = h16 h16 h16", both(f.fma)),
    ("v_pk_add_f16",     None, None, 0x0F, "h16 = h16 h16",     both(f.add)),
    ("v_pk_mul_f16",     None, None, 0x10, "h16 = h16 h16",     both(f.mul)),
    ("v_pk_min_f16",     None, None, 0x11, "h16 = h16 h16",     both(with_level(f.MIN))),
    ("v_pk_max_f16",     None, None, 0x12, "h16 = h16 h16",     both(with_level(f.MAX))),
    ("v_mad_mix_f32",    None, None, 0x20, "f32 = x32 x32 x32", f.mad, MIX),
    ("v_mad_mixlo_f16",  None, None, 0x21, "f16 = x32 x32 x32", to_half(f.mad, "flush"), MIX),
    ("v_mad_mixhi_f16",  None, None, 0x22, "f16 = x32 x32 x32", to_half(f.mad, "flush"), MIX),
    ("v_fma_mix_f32",    None, None, 0x20, "f32 = x32 x32 x32", f.fma, FMA_MIX),
    ("v_fma_mixlo_f16",  None, None, 0x21, "f16 = x32 x32 x32", to_half(f.fma), FMA_MIX),
    ("v_fma_mixhi_f16",  None, None, 0x22, "f16 = x32 x32 x32", to_half(f.fma), FMA_MIX),
    ("v_dot2_f32_f16",   None, None, 0x23, "f32 = h16 h16 f32", dot_f16, DOT_F16),
    ("v_dot2_i32_i16",   None, None, 0x26, "i32 = p16 p16 i32", dot(16, signed=True), dot_extras(16, True)),
    ("v_dot2_u32_u16",   None, None, 0x27, "u32 = p16 p16 u32", dot(16, signed=False), dot_extras(16, False)),
    ("v_dot4_i32_i8",    None, None, 0x28, "i32 = b32 b32 i32", dot(8, signed=True), dot_extras(8, True)),
    ("v_dot4_u32_u8",    None, None, 0x29, "u32 = b32 b32 u32", dot(8, signed=False), dot_extras(8, False)),
    ("v_dot8_i32_i4",    None, None, 0x2A, "i32 = b32 b32 i32", dot(4, signed=True), dot_extras(4, True)),
    ("v_dot8_u32_u4",    None, None, 0x2B, "u32 = b32 b32 u32", dot(4, signed=False), dot_extras(4, False)),
))
# fmt: on
