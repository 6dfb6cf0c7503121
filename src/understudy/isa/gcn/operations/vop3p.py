"""VOP3P (GFX9): packed operations on two halves, multiply-adds of mixed formats, dot products.

The frame has put the halves in place (op_sel, op_sel_hi) and changed their signs (neg, neg_hi). A source of type
``x32`` is a binary32 number, or the half that op_sel says where op_sel_hi is set, widened by the frame.
"""

from __future__ import annotations

from typing import Any, Final

from understudy.isa.gcn.algebra import Value
from understudy.isa.gcn.insn import Meaning, chosen, ops
from understudy.isa.gcn.semantics import convert as cvt
from understudy.isa.gcn.semantics import floating as f
from understudy.isa.gcn.semantics import integer as n

Extras = dict[str, Any]


def both(one: Meaning) -> Meaning:
    """`one` of the low halves, and of the high halves."""

    def meaning(o: Any, *sources: Value) -> Value:
        low = (o.trunc(16, 32, a) for a in sources)
        high = (o.trunc(16, 32, o.lshr(32, a, o.const(32, 16))) for a in sources)
        return cvt.pack(o, one(o, *low), one(o, *high))

    return meaning


def with_level(one: Meaning) -> Meaning:
    """`one` as GFX9 does it."""
    return lambda o, *sources: one(o, *sources, 9)


def clamped(signed: bool, wide: Meaning) -> Extras:
    """Where the instruction says clamp: `wide`, in 64 bits, saturated to 16."""
    return {"clamped": both(n.clamped(16, signed, wide))}


def shift(name: str) -> Meaning:
    """The second source shifted by the first."""
    return both(lambda o, a, b: getattr(o, name)(16, b, n.count(o, 16, a)))


def plain(name: str) -> Meaning:
    """An operation of the algebra."""
    return both(lambda o, a, b: getattr(o, name)(16, a, b))


def mad(o: Any, a: Value, b: Value, c: Value) -> Value:
    """a * b + c in 16 bits."""
    return o.add(16, o.mul(16, a, b), c)


def to_half(of: Meaning, env: str | None = None) -> Meaning:
    """The binary32 result of `of` as a half."""
    return lambda o, *sources: o.fconvert("h", "s", of(o, *sources), env)


def items(o: Any, bits: int, signed: bool, a: Value) -> list[Value]:
    """The items of `bits` bits of a register, extended to 32."""
    found = []
    for k in range(32 // bits):
        raised = o.shl(32, a, o.const(32, 32 - bits * (k + 1)))
        found.append((o.ashr if signed else o.lshr)(32, raised, o.const(32, 32 - bits)))
    return found


def dot(bits: int, signed: bool, *, saturates: bool = False) -> Meaning:
    """The sum of the products of items, plus c."""

    def meaning(o: Any, a: Value, b: Value, c: Value) -> Value:
        extend = o.sext if signed else o.zext
        total = extend(64, 32, c)
        for x, y in zip(items(o, bits, signed, a), items(o, bits, signed, b), strict=True):
            total = o.add(64, total, o.mul(64, extend(64, 32, x), extend(64, 32, y)))
        if not saturates:
            return o.trunc(32, 64, total)
        return (n.clamp_signed if signed else n.clamp_unsigned)(o, 32, total)

    return meaning


def dot_extras(bits: int, signed: bool) -> Extras:
    """What only gfx906 has, and its saturating form."""
    return {"needs": "dot", "clamped": dot(bits, signed, saturates=True)}


def dot_f16(o: Any, a: Value, b: Value, c: Value) -> Value:
    """c plus the product of the low halves, then of the high ones; every sum is rounded, denormals are flushed."""
    for at in (0, 16):
        x, y = (o.trunc(16, 32, o.lshr(32, v, o.const(32, at)) if at else v) for v in (a, b))
        product = o.fmul("s", o.fconvert("s", "h", x), o.fconvert("s", "h", y), "flush")
        c = o.fadd("s", product, c, "flush")
    return c


DOT_F16: Final[Extras] = {"needs": "dot", **chosen("dot2-f16")}
MIX: Final[Extras] = {"needs": "mad_mix", **chosen("mad-f16-denormals")}
FMA_MIX: Final[Extras] = {"needs": "dot"}
ADD, SUB = n.op("add", 64), n.op("sub", 64)


def wide_mad(o: Any, a: Value, b: Value, c: Value) -> Value:
    """a * b + c in 64 bits."""
    return o.add(64, o.mul(64, a, b), c)


# fmt: off
OPS: Final = ops("vop3p", (
    # name               GFX7  GFX8  GFX9  signature            meaning
    ("v_pk_mad_i16",     None, None, 0x00, "p16 = p16 p16 p16", both(mad), clamped(True, wide_mad)),
    ("v_pk_mul_lo_u16",  None, None, 0x01, "p16 = p16 p16",     plain("mul")),
    ("v_pk_add_i16",     None, None, 0x02, "p16 = p16 p16",     plain("add"), clamped(True, ADD)),
    ("v_pk_sub_i16",     None, None, 0x03, "p16 = p16 p16",     plain("sub"), clamped(True, SUB)),
    ("v_pk_lshlrev_b16", None, None, 0x04, "p16 = p16 p16",     shift("shl")),
    ("v_pk_lshrrev_b16", None, None, 0x05, "p16 = p16 p16",     shift("lshr")),
    ("v_pk_ashrrev_i16", None, None, 0x06, "p16 = p16 p16",     shift("ashr")),
    ("v_pk_max_i16",     None, None, 0x07, "p16 = p16 p16",     plain("smax")),
    ("v_pk_min_i16",     None, None, 0x08, "p16 = p16 p16",     plain("smin")),
    ("v_pk_mad_u16",     None, None, 0x09, "p16 = p16 p16 p16", both(mad), clamped(False, wide_mad)),
    ("v_pk_add_u16",     None, None, 0x0A, "p16 = p16 p16",     plain("add"), clamped(False, ADD)),
    ("v_pk_sub_u16",     None, None, 0x0B, "p16 = p16 p16",     plain("sub"), clamped(False, SUB)),
    ("v_pk_max_u16",     None, None, 0x0C, "p16 = p16 p16",     plain("umax")),
    ("v_pk_min_u16",     None, None, 0x0D, "p16 = p16 p16",     plain("umin")),
    ("v_pk_fma_f16",     None, None, 0x0E, "h16 = h16 h16 h16", both(f.fma("h"))),
    ("v_pk_add_f16",     None, None, 0x0F, "h16 = h16 h16",     both(f.add("h"))),
    ("v_pk_mul_f16",     None, None, 0x10, "h16 = h16 h16",     both(f.mul("h"))),
    ("v_pk_min_f16",     None, None, 0x11, "h16 = h16 h16",     both(with_level(f.extreme("h", largest=False)))),
    ("v_pk_max_f16",     None, None, 0x12, "h16 = h16 h16",     both(with_level(f.extreme("h", largest=True)))),
    ("v_mad_mix_f32",    None, None, 0x20, "f32 = x32 x32 x32", f.mad("s"), MIX),
    ("v_mad_mixlo_f16",  None, None, 0x21, "f16 = x32 x32 x32", to_half(f.mad("s"), "flush"), MIX),
    ("v_mad_mixhi_f16",  None, None, 0x22, "f16 = x32 x32 x32", to_half(f.mad("s"), "flush"), MIX),
    ("v_fma_mix_f32",    None, None, 0x20, "f32 = x32 x32 x32", f.fma("s"), FMA_MIX),
    ("v_fma_mixlo_f16",  None, None, 0x21, "f16 = x32 x32 x32", to_half(f.fma("s")), FMA_MIX),
    ("v_fma_mixhi_f16",  None, None, 0x22, "f16 = x32 x32 x32", to_half(f.fma("s")), FMA_MIX),
    ("v_dot2_f32_f16",   None, None, 0x23, "f32 = h16 h16 f32", dot_f16, DOT_F16),
    ("v_dot2_i32_i16",   None, None, 0x26, "i32 = p16 p16 i32", dot(16, signed=True), dot_extras(16, True)),
    ("v_dot2_u32_u16",   None, None, 0x27, "u32 = p16 p16 u32", dot(16, signed=False), dot_extras(16, False)),
    ("v_dot4_i32_i8",    None, None, 0x28, "i32 = b32 b32 i32", dot(8, signed=True), dot_extras(8, True)),
    ("v_dot4_u32_u8",    None, None, 0x29, "u32 = b32 b32 u32", dot(8, signed=False), dot_extras(8, False)),
    ("v_dot8_i32_i4",    None, None, 0x2A, "i32 = b32 b32 i32", dot(4, signed=True), dot_extras(4, True)),
    ("v_dot8_u32_u4",    None, None, 0x2B, "u32 = b32 b32 u32", dot(4, signed=False), dot_extras(4, False)),
))
# fmt: on
