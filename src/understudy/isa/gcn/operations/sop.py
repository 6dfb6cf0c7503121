"""SOP1, SOP2 and SOPC: scalar operations on one or two sources, and comparisons (manuals: "Scalar ALU operations").

Most of them also write SCC: whether the result is not 0, a carry, an overflow, or which of two sources was taken.
"""

from __future__ import annotations

from typing import Any, Final

from understudy.isa.gcn.algebra import Scalar
from understudy.isa.gcn.insn import Meaning, chosen, ops
from understudy.isa.gcn.semantics import control as flow
from understudy.isa.gcn.semantics import integer as n

Pair = tuple[Scalar, Scalar]


def counted(w: int, meaning: Meaning) -> Meaning:
    """result, SCC = result is not 0; `w` is the result's width."""

    def with_scc(o: Any, *sources: Scalar) -> Pair:
        result = meaning(o, *sources)
        return result, o.ne(w, result, o.const(w, 0))

    return with_scc


def bitwise(w: int, f: Any) -> Meaning:
    """`f(o, w, a, b)` with SCC."""
    return counted(w, lambda o, a, b: f(o, w, a, b))


def shift(w: int, f: Any) -> Meaning:
    """`f` by a 32-bit count, with SCC."""
    return counted(w, lambda o, a, b: f(o)(w, a, n.count_of(o, w, b)))


def picked(f: Any) -> Meaning:
    """The first source where the comparison `f(o, a, b)` holds, else the second; SCC = it holds."""

    def meaning(o: Any, a: Scalar, b: Scalar) -> Pair:
        first = f(o, a, b)
        return o.select(32, first, a, b), first

    return meaning


def bfe(w: int, signed: bool) -> Meaning:
    """Bits of the first source: start in the low bits of the second, size in its bits 22:16."""

    def meaning(o: Any, a: Scalar, b: Scalar) -> Scalar:
        size = o.and_(32, o.lshr(32, b, o.const(32, 16)), o.const(32, 0x7F))
        return n.extract(o, w, signed, a, n.count_of(o, w, b), size if w == 32 else o.zext(w, 32, size))

    return counted(w, meaning)


def absdiff(o: Any, a: Scalar, b: Scalar) -> Scalar:
    """|a - b| of the wrapped difference."""
    return absolute(o, o.sub(32, a, b))


def absolute(o: Any, a: Scalar) -> Scalar:
    """|a|; the most negative number stays as it is."""
    return o.select(32, o.slt(32, a, o.const(32, 0)), o.sub(32, o.const(32, 0), a), a)


def shift_add(by: int) -> Meaning:
    """(a << by) + b in 64 bits: the low 32, SCC = the rest is not 0."""

    def meaning(o: Any, a: Scalar, b: Scalar) -> Pair:
        total = o.add(64, o.shl(64, o.zext(64, 32, a), o.const(64, by)), o.zext(64, 32, b))
        return o.trunc(32, 64, total), o.ule(64, o.const(64, 1 << 32), total)

    return meaning


def pack(first: int, second: int) -> Meaning:
    """Half `first` of a below half `second` of b."""

    def meaning(o: Any, a: Scalar, b: Scalar) -> Scalar:
        low = o.lshr(32, a, o.const(32, 16)) if first else o.and_(32, a, o.const(32, 0xFFFF))
        high = o.and_(32, b, o.const(32, 0xFFFF0000)) if second else o.shl(32, b, o.const(32, 16))
        return o.or_(32, low, high)

    return meaning


def quads(o: Any, w: int, a: Scalar) -> Scalar:
    """Bit 4k is set where any of the bits 4k to 4k + 3 of `a` is."""
    for by in (2, 1):
        a = o.or_(w, a, o.lshr(w, a, o.const(w, by)))
    return o.and_(w, a, o.const(w, 0x1111_1111_1111_1111))


def wqm(w: int) -> Meaning:
    """Whole quads: all four bits of a group where any is set."""
    return counted(w, lambda o, a: o.mul(w, quads(o, w, a), o.const(w, 15)))


def quadmask(w: int) -> Meaning:
    """One bit for each group of four, packed at the bottom."""

    def meaning(o: Any, a: Scalar) -> Scalar:
        a = quads(o, w, a)
        step, keep = 3, 2
        while keep <= w // 4:
            # Neighbouring runs of keep / 2 bits, 2 * keep apart, move together.
            a = o.or_(w, a, o.lshr(w, a, o.const(w, step * keep // 2)))
            ones = sum(((1 << keep) - 1) << at for at in range(0, w, 4 * keep))
            a = o.and_(w, a, o.const(w, ones))
            keep *= 2
        return a

    return counted(w, meaning)


def bitreplicate(o: Any, a: Scalar) -> Scalar:
    """Each bit twice."""
    a = o.zext(64, 32, a)
    for by, ones in (
        (16, 0x0000FFFF0000FFFF),
        (8, 0x00FF00FF00FF00FF),
        (4, 0x0F0F0F0F0F0F0F0F),
        (2, 0x3333333333333333),
        (1, 0x5555555555555555),
    ):
        a = o.and_(64, o.or_(64, a, o.shl(64, a, o.const(64, by))), o.const(64, ones))
    return o.mul(64, a, o.const(64, 3))


def count_bits(w: int, ones: bool) -> Meaning:
    """How many bits are 1, or 0."""

    def meaning(o: Any, a: Scalar) -> Scalar:
        found = o.ctpop(w, a if ones else o.not_(w, a))
        return found if w == 32 else o.trunc(32, w, found)

    return counted(32, meaning)


def bitset(w: int, to: int) -> Meaning:
    """The destination with one bit set or cleared."""

    def meaning(o: Any, a: Scalar, old: Scalar) -> Scalar:
        bit = o.shl(w, o.const(w, 1), n.count_of(o, w, a))
        return o.or_(w, old, bit) if to else o.and_(w, old, o.not_(w, bit))

    return meaning


def bitcmp(w: int, to: int) -> Meaning:
    """Whether one bit is 0, or 1."""

    def meaning(o: Any, a: Scalar, b: Scalar) -> Scalar:
        bit = o.and_(w, o.lshr(w, a, n.count_of(o, w, b)), o.const(w, 1))
        return o.eq(w, bit, o.const(w, to))

    return meaning


def saveexec(f: Any) -> Meaning:
    """EXEC = f(source, EXEC); destination = EXEC before; SCC = EXEC is not 0."""

    def meaning(o: Any, a: Scalar, mask: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        result = f(o, a, mask)
        return result, mask, o.ne(64, result, o.const(64, 0))

    return meaning


def wrexec(f: Any) -> Meaning:
    """EXEC and destination = f(source, EXEC); SCC = it is not 0."""

    def meaning(o: Any, a: Scalar, mask: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        result = f(o, a, mask)
        return result, result, o.ne(64, result, o.const(64, 0))

    return meaning


def both(f: Any) -> Any:
    """The 32-bit and the 64-bit form of a bitwise operation."""
    return bitwise(32, f), bitwise(64, f)


AND, AND64 = both(lambda o, w, a, b: o.and_(w, a, b))
OR, OR64 = both(lambda o, w, a, b: o.or_(w, a, b))
XOR, XOR64 = both(lambda o, w, a, b: o.xor(w, a, b))
ANDN2, ANDN2_64 = both(lambda o, w, a, b: o.and_(w, a, o.not_(w, b)))
ORN2, ORN2_64 = both(lambda o, w, a, b: o.or_(w, a, o.not_(w, b)))
NAND, NAND64 = both(lambda o, w, a, b: o.not_(w, o.and_(w, a, b)))
NOR, NOR64 = both(lambda o, w, a, b: o.not_(w, o.or_(w, a, b)))
XNOR, XNOR64 = both(lambda o, w, a, b: o.not_(w, o.xor(w, a, b)))

MAX_SCC = chosen("max-scc")
INVERTED: Final[Any] = lambda o, w, a: o.not_(w, a)  # noqa: E731
# Results of a source and EXEC.
AND_EXEC, OR_EXEC, XOR_EXEC = n.op("and_", 64), n.op("or_", 64), n.op("xor", 64)


def not_exec(f: Any) -> Any:
    """With EXEC negated."""
    return lambda o, a, e: f(o, a, o.not_(64, e))


def not_source(f: Any) -> Any:
    """With the source negated."""
    return lambda o, a, e: f(o, o.not_(64, a), e)


def not_result(f: Any) -> Any:
    """The result negated."""
    return lambda o, a, e: o.not_(64, f(o, a, e))


# fmt: off
SOP2: Final = ops("sop2", (
    # name                GFX7  GFX8  GFX9  signature                meaning
    ("s_add_u32",         0x00, 0x00, 0x00, "u32 scc = u32 u32",     n.add_carry),
    ("s_sub_u32",         0x01, 0x01, 0x01, "u32 scc = u32 u32",     n.sub_borrow),
    ("s_add_i32",         0x02, 0x02, 0x02, "i32 scc = i32 i32",     lambda o, a, b: n.signed_sum(o, 32, a, b)),
    ("s_sub_i32",         0x03, 0x03, 0x03, "i32 scc = i32 i32",     lambda o, a, b: n.signed_difference(o, 32, a, b)),
    ("s_addc_u32",        0x04, 0x04, 0x04, "u32 scc = u32 u32 scc", n.addc),
    ("s_subb_u32",        0x05, 0x05, 0x05, "u32 scc = u32 u32 scc", n.subb),
    ("s_min_i32",         0x06, 0x06, 0x06, "i32 scc = i32 i32",     picked(n.op("slt", 32))),
    ("s_min_u32",         0x07, 0x07, 0x07, "u32 scc = u32 u32",     picked(n.op("ult", 32))),
    ("s_max_i32",         0x08, 0x08, 0x08, "i32 scc = i32 i32",     picked(n.reverse(n.op("sle", 32))), MAX_SCC),
    ("s_max_u32",         0x09, 0x09, 0x09, "u32 scc = u32 u32",     picked(n.reverse(n.op("ule", 32))), MAX_SCC),
    ("s_cselect_b32",     0x0A, 0x0A, 0x0A, "b32 = b32 b32 scc",     lambda o, a, b, c: o.select(32, c, a, b)),
    ("s_cselect_b64",     0x0B, 0x0B, 0x0B, "b64 = b64 b64 scc",     lambda o, a, b, c: o.select(64, c, a, b)),
    ("s_and_b32",         0x0E, 0x0C, 0x0C, "b32 scc = b32 b32",     AND),
    ("s_and_b64",         0x0F, 0x0D, 0x0D, "b64 scc = b64 b64",     AND64),
    ("s_or_b32",          0x10, 0x0E, 0x0E, "b32 scc = b32 b32",     OR),
    ("s_or_b64",          0x11, 0x0F, 0x0F, "b64 scc = b64 b64",     OR64),
    ("s_xor_b32",         0x12, 0x10, 0x10, "b32 scc = b32 b32",     XOR),
    ("s_xor_b64",         0x13, 0x11, 0x11, "b64 scc = b64 b64",     XOR64),
    ("s_andn2_b32",       0x14, 0x12, 0x12, "b32 scc = b32 b32",     ANDN2),
    ("s_andn2_b64",       0x15, 0x13, 0x13, "b64 scc = b64 b64",     ANDN2_64),
    ("s_orn2_b32",        0x16, 0x14, 0x14, "b32 scc = b32 b32",     ORN2),
    ("s_orn2_b64",        0x17, 0x15, 0x15, "b64 scc = b64 b64",     ORN2_64),
    ("s_nand_b32",        0x18, 0x16, 0x16, "b32 scc = b32 b32",     NAND),
    ("s_nand_b64",        0x19, 0x17, 0x17, "b64 scc = b64 b64",     NAND64),
    ("s_nor_b32",         0x1A, 0x18, 0x18, "b32 scc = b32 b32",     NOR),
    ("s_nor_b64",         0x1B, 0x19, 0x19, "b64 scc = b64 b64",     NOR64),
    ("s_xnor_b32",        0x1C, 0x1A, 0x1A, "b32 scc = b32 b32",     XNOR),
    ("s_xnor_b64",        0x1D, 0x1B, 0x1B, "b64 scc = b64 b64",     XNOR64),
    ("s_lshl_b32",        0x1E, 0x1C, 0x1C, "b32 scc = b32 u32",     shift(32, lambda o: o.shl)),
    ("s_lshl_b64",        0x1F, 0x1D, 0x1D, "b64 scc = b64 u32",     shift(64, lambda o: o.shl)),
    ("s_lshr_b32",        0x20, 0x1E, 0x1E, "b32 scc = b32 u32",     shift(32, lambda o: o.lshr)),
    ("s_lshr_b64",        0x21, 0x1F, 0x1F, "b64 scc = b64 u32",     shift(64, lambda o: o.lshr)),
    ("s_ashr_i32",        0x22, 0x20, 0x20, "i32 scc = i32 u32",     shift(32, lambda o: o.ashr)),
    ("s_ashr_i64",        0x23, 0x21, 0x21, "i64 scc = i64 u32",     shift(64, lambda o: o.ashr)),
    ("s_bfm_b32",         0x24, 0x22, 0x22, "b32 = u32 u32",         n.bitfield_mask(32)),
    ("s_bfm_b64",         0x25, 0x23, 0x23, "b64 = u32 u32",         n.bitfield_mask(64)),
    ("s_mul_i32",         0x26, 0x24, 0x24, "i32 = i32 i32",         n.op("mul", 32)),
    ("s_bfe_u32",         0x27, 0x25, 0x25, "u32 scc = u32 u32",     bfe(32, signed=False)),
    ("s_bfe_i32",         0x28, 0x26, 0x26, "i32 scc = i32 u32",     bfe(32, signed=True)),
    ("s_bfe_u64",         0x29, 0x27, 0x27, "u64 scc = u64 u32",     bfe(64, signed=False)),
    ("s_bfe_i64",         0x2A, 0x28, 0x28, "i64 scc = i64 u32",     bfe(64, signed=True)),
    ("s_cbranch_g_fork",  0x2B, 0x29, 0x29, None,                    flow.g_fork, {"concrete": True}),
    ("s_absdiff_i32",     0x2C, 0x2A, 0x2A, "i32 scc = i32 i32",     counted(32, absdiff)),
    ("s_rfe_restore_b64", None, 0x2B, 0x2B, None,                    flow.rfe),
    ("s_mul_hi_u32",      None, None, 0x2C, "u32 = u32 u32",         n.mul_hi(signed=False)),
    ("s_mul_hi_i32",      None, None, 0x2D, "i32 = i32 i32",         n.mul_hi(signed=True)),
    ("s_lshl1_add_u32",   None, None, 0x2E, "u32 scc = u32 u32",     shift_add(1)),
    ("s_lshl2_add_u32",   None, None, 0x2F, "u32 scc = u32 u32",     shift_add(2)),
    ("s_lshl3_add_u32",   None, None, 0x30, "u32 scc = u32 u32",     shift_add(3)),
    ("s_lshl4_add_u32",   None, None, 0x31, "u32 scc = u32 u32",     shift_add(4)),
    ("s_pack_ll_b32_b16", None, None, 0x32, "b32 = b32 b32",         pack(0, 0)),
    ("s_pack_lh_b32_b16", None, None, 0x33, "b32 = b32 b32",         pack(0, 1)),
    ("s_pack_hh_b32_b16", None, None, 0x34, "b32 = b32 b32",         pack(1, 1)),
))

SOP1: Final = ops("sop1", (
    # name                   GFX7  GFX8  GFX9  signature                  meaning
    ("s_mov_b32",            0x03, 0x00, 0x00, "b32 = b32",               lambda o, a: a),
    ("s_mov_b64",            0x04, 0x01, 0x01, "b64 = b64",               lambda o, a: a),
    ("s_cmov_b32",           0x05, 0x02, 0x02, "b32 = b32 old scc",       lambda o, a, old, c: o.select(32, c, a, old)),
    ("s_cmov_b64",           0x06, 0x03, 0x03, "b64 = b64 old scc",       lambda o, a, old, c: o.select(64, c, a, old)),
    ("s_not_b32",            0x07, 0x04, 0x04, "b32 scc = b32",           counted(32, n.op("not_", 32))),
    ("s_not_b64",            0x08, 0x05, 0x05, "b64 scc = b64",           counted(64, n.op("not_", 64))),
    ("s_wqm_b32",            0x09, 0x06, 0x06, "b32 scc = b32",           wqm(32)),
    ("s_wqm_b64",            0x0A, 0x07, 0x07, "b64 scc = b64",           wqm(64)),
    ("s_brev_b32",           0x0B, 0x08, 0x08, "b32 = b32",               n.op("bitreverse", 32)),
    ("s_brev_b64",           0x0C, 0x09, 0x09, "b64 = b64",               n.op("bitreverse", 64)),
    ("s_bcnt0_i32_b32",      0x0D, 0x0A, 0x0A, "i32 scc = b32",           count_bits(32, ones=False)),
    ("s_bcnt0_i32_b64",      0x0E, 0x0B, 0x0B, "i32 scc = b64",           count_bits(64, ones=False)),
    ("s_bcnt1_i32_b32",      0x0F, 0x0C, 0x0C, "i32 scc = b32",           count_bits(32, ones=True)),
    ("s_bcnt1_i32_b64",      0x10, 0x0D, 0x0D, "i32 scc = b64",           count_bits(64, ones=True)),
    ("s_ff0_i32_b32",        0x11, 0x0E, 0x0E, "i32 = b32",               n.first_bit(32, True, INVERTED)),
    ("s_ff0_i32_b64",        0x12, 0x0F, 0x0F, "i32 = b64",               n.first_bit(64, True, INVERTED)),
    ("s_ff1_i32_b32",        0x13, 0x10, 0x10, "i32 = b32",               n.first_bit(32, True)),
    ("s_ff1_i32_b64",        0x14, 0x11, 0x11, "i32 = b64",               n.first_bit(64, True)),
    ("s_flbit_i32_b32",      0x15, 0x12, 0x12, "i32 = b32",               n.first_bit(32, False)),
    ("s_flbit_i32_b64",      0x16, 0x13, 0x13, "i32 = b64",               n.first_bit(64, False)),
    ("s_flbit_i32",          0x17, 0x14, 0x14, "i32 = i32",               n.first_bit(32, False, n.sign_changes)),
    ("s_flbit_i32_i64",      0x18, 0x15, 0x15, "i32 = i64",               n.first_bit(64, False, n.sign_changes)),
    ("s_sext_i32_i8",        0x19, 0x16, 0x16, "i32 = b32", lambda o, a: o.sext(32, 8, o.trunc(8, 32, a))),
    ("s_sext_i32_i16",       0x1A, 0x17, 0x17, "i32 = b32", lambda o, a: o.sext(32, 16, o.trunc(16, 32, a))),
    ("s_bitset0_b32",        0x1B, 0x18, 0x18, "b32 = u32 old",           bitset(32, 0)),
    ("s_bitset0_b64",        0x1C, 0x19, 0x19, "b64 = u32 old",           bitset(64, 0)),
    ("s_bitset1_b32",        0x1D, 0x1A, 0x1A, "b32 = u32 old",           bitset(32, 1)),
    ("s_bitset1_b64",        0x1E, 0x1B, 0x1B, "b64 = u32 old",           bitset(64, 1)),
    ("s_getpc_b64",          0x1F, 0x1C, 0x1C, None,                      flow.getpc),
    ("s_setpc_b64",          0x20, 0x1D, 0x1D, None,                      flow.setpc),
    ("s_swappc_b64",         0x21, 0x1E, 0x1E, None,                      flow.swappc),
    ("s_rfe_b64",            0x22, 0x1F, 0x1F, None,                      flow.rfe),
    ("s_and_saveexec_b64",   0x24, 0x20, 0x20, "exec b64 scc = b64 exec", saveexec(AND_EXEC)),
    ("s_or_saveexec_b64",    0x25, 0x21, 0x21, "exec b64 scc = b64 exec", saveexec(OR_EXEC)),
    ("s_xor_saveexec_b64",   0x26, 0x22, 0x22, "exec b64 scc = b64 exec", saveexec(XOR_EXEC)),
    ("s_andn2_saveexec_b64", 0x27, 0x23, 0x23, "exec b64 scc = b64 exec", saveexec(not_exec(AND_EXEC))),
    ("s_orn2_saveexec_b64",  0x28, 0x24, 0x24, "exec b64 scc = b64 exec", saveexec(not_exec(OR_EXEC))),
    ("s_nand_saveexec_b64",  0x29, 0x25, 0x25, "exec b64 scc = b64 exec", saveexec(not_result(AND_EXEC))),
    ("s_nor_saveexec_b64",   0x2A, 0x26, 0x26, "exec b64 scc = b64 exec", saveexec(not_result(OR_EXEC))),
    ("s_xnor_saveexec_b64",  0x2B, 0x27, 0x27, "exec b64 scc = b64 exec", saveexec(not_result(XOR_EXEC))),
    ("s_quadmask_b32",       0x2C, 0x28, 0x28, "b32 scc = b32",           quadmask(32)),
    ("s_quadmask_b64",       0x2D, 0x29, 0x29, "b64 scc = b64",           quadmask(64)),
    ("s_movrels_b32",        0x2E, 0x2A, 0x2A, None,                      flow.movrels(32)),
    ("s_movrels_b64",        0x2F, 0x2B, 0x2B, None,                      flow.movrels(64)),
    ("s_movreld_b32",        0x30, 0x2C, 0x2C, None,                      flow.movreld(32)),
    ("s_movreld_b64",        0x31, 0x2D, 0x2D, None,                      flow.movreld(64)),
    ("s_cbranch_join",       0x32, 0x2E, 0x2E, None,                      flow.join, {"concrete": True}),
    ("s_mov_regrd_b32",      0x33, None, None, None,                      flow.unknown),
    ("s_abs_i32",            0x34, 0x30, 0x30, "i32 scc = i32",           counted(32, absolute)),
    ("s_mov_fed_b32",        0x35, None, None, None,                      flow.unknown),
    ("s_set_gpr_idx_idx",    None, 0x32, 0x32, None,                      flow.set_gpr_idx_idx),
    ("s_andn1_saveexec_b64", None, None, 0x33, "exec b64 scc = b64 exec", saveexec(not_source(AND_EXEC))),
    ("s_orn1_saveexec_b64",  None, None, 0x34, "exec b64 scc = b64 exec", saveexec(not_source(OR_EXEC))),
    ("s_andn1_wrexec_b64",   None, None, 0x35, "exec b64 scc = b64 exec", wrexec(not_source(AND_EXEC))),
    ("s_andn2_wrexec_b64",   None, None, 0x36, "exec b64 scc = b64 exec", wrexec(not_exec(AND_EXEC))),
    ("s_bitreplicate_b64_b32", None, None, 0x37, "b64 = b32",               bitreplicate),
))

SOPC: Final = ops("sopc", (
    # name               GFX7  GFX8  GFX9  signature        meaning
    ("s_cmp_eq_i32",     0x00, 0x00, 0x00, "scc = i32 i32", n.op("eq", 32)),
    ("s_cmp_lg_i32",     0x01, 0x01, 0x01, "scc = i32 i32", n.op("ne", 32)),
    ("s_cmp_gt_i32",     0x02, 0x02, 0x02, "scc = i32 i32", n.reverse(n.op("slt", 32))),
    ("s_cmp_ge_i32",     0x03, 0x03, 0x03, "scc = i32 i32", n.reverse(n.op("sle", 32))),
    ("s_cmp_lt_i32",     0x04, 0x04, 0x04, "scc = i32 i32", n.op("slt", 32)),
    ("s_cmp_le_i32",     0x05, 0x05, 0x05, "scc = i32 i32", n.op("sle", 32)),
    ("s_cmp_eq_u32",     0x06, 0x06, 0x06, "scc = u32 u32", n.op("eq", 32)),
    ("s_cmp_lg_u32",     0x07, 0x07, 0x07, "scc = u32 u32", n.op("ne", 32)),
    ("s_cmp_gt_u32",     0x08, 0x08, 0x08, "scc = u32 u32", n.reverse(n.op("ult", 32))),
    ("s_cmp_ge_u32",     0x09, 0x09, 0x09, "scc = u32 u32", n.reverse(n.op("ule", 32))),
    ("s_cmp_lt_u32",     0x0A, 0x0A, 0x0A, "scc = u32 u32", n.op("ult", 32)),
    ("s_cmp_le_u32",     0x0B, 0x0B, 0x0B, "scc = u32 u32", n.op("ule", 32)),
    ("s_bitcmp0_b32",    0x0C, 0x0C, 0x0C, "scc = b32 u32", bitcmp(32, 0)),
    ("s_bitcmp1_b32",    0x0D, 0x0D, 0x0D, "scc = b32 u32", bitcmp(32, 1)),
    ("s_bitcmp0_b64",    0x0E, 0x0E, 0x0E, "scc = b64 u32", bitcmp(64, 0)),
    ("s_bitcmp1_b64",    0x0F, 0x0F, 0x0F, "scc = b64 u32", bitcmp(64, 1)),
    ("s_setvskip",       0x10, 0x10, 0x10, None,            flow.setvskip),
    ("s_set_gpr_idx_on", None, 0x11, 0x11, None,            flow.set_gpr_idx_on),
    ("s_cmp_eq_u64",     None, 0x12, 0x12, "scc = u64 u64", n.op("eq", 64)),
    ("s_cmp_lg_u64",     None, 0x13, 0x13, "scc = u64 u64", n.op("ne", 64)),
))
# fmt: on

OPS: Final = (*SOP2, *SOP1, *SOPC)
