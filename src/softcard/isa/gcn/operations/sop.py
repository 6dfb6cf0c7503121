"""SOP1, SOP2, SOPC: scalar operations on one or two sources (manuals: "Scalar ALU operations").

Most operations also write SCC. Depending on the operation, SCC is 1 if the result is not 0, if a carry or an overflow
occurs, or if the first of two sources is selected.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import and_, eq, ge, gt, invert, le, lt, mul, ne, or_, xor
from typing import Final

from softcard.isa.gcn.insn import Computation, Function, chosen, ops
from softcard.isa.gcn.semantics import control as flow
from softcard.isa.gcn.semantics import integer as n
from softcard.isa.gcn.word import Word

Pair = tuple[Word, Word]
Binary = Callable[[Word, Word], Word]


def counted(semantics: Function) -> Computation:
    """Return semantics that compute the result with `semantics` and also set SCC, to 1 if the result is not 0."""

    def with_scc(*sources: Word) -> Pair:
        result = semantics(*sources)
        return result, result != 0

    return with_scc


def picked(f: Binary) -> Computation:
    """Return the semantics of a minimum or maximum by the comparison `f`.

    The result is the first source if `f` holds, else the second; SCC = 1 if `f` holds.
    """

    def semantics(a: Word, b: Word) -> Pair:
        first = f(a, b)
        return first.select(a, b), first

    return semantics


def bfe(signed: bool) -> Computation:
    """Return the semantics of a bit field extract from the first source.

    The second source holds the start in its low bits and the size in bits 22:16.
    """
    return counted(lambda a, b: n.extract(signed, a, n.count(b, a.width), b[22:16].zext(a.width)))


def absolute(a: Word) -> Word:
    """Return |a|; the most negative number is returned unchanged."""
    return a.slt(0).select(-a, a)


def shift_add(by: int) -> Computation:
    """Return the semantics of (a << by) + b, computed in 64 bits; the result is the low 32 bits.

    SCC = 1 if the upper 32 bits are not 0.
    """

    def semantics(a: Word, b: Word) -> Pair:
        total = (a.zext(64) << by) + b.zext(64)
        return total.trunc(32), total >= 1 << 32

    return semantics


def quads(a: Word) -> Word:
    """Return a value whose bit 4k is set if any of the bits 4k to 4k + 3 of `a` is set; its other bits are 0."""
    a |= a >> 2
    a |= a >> 1
    return a & 0x1111_1111_1111_1111


def quadmask(a: Word) -> Word:
    """Return one bit for each group of four bits of `a`: 1 if any of the four is set; packed from bit 0."""
    a = quads(a)
    keep = 2
    while keep <= a.width // 4:
        # Neighbouring runs of keep / 2 bits, 2 * keep apart, move together.
        a |= a >> 3 * keep // 2
        a &= sum(((1 << keep) - 1) << at for at in range(0, a.width, 4 * keep))
        keep *= 2
    return a


def bitreplicate(a: Word) -> Word:
    """Return a 64-bit value in which bits 2k and 2k + 1 are bit k of `a`."""
    a = a.zext(64)
    a = (a | a << 16) & 0x0000_FFFF_0000_FFFF
    a = (a | a << 8) & 0x00FF_00FF_00FF_00FF
    a = (a | a << 4) & 0x0F0F_0F0F_0F0F_0F0F
    a = (a | a << 2) & 0x3333_3333_3333_3333
    a = (a | a << 1) & 0x5555_5555_5555_5555
    return a * 3


def bitset(to: int) -> Computation:
    """Return the semantics that set one bit of the destination to `to`; the source holds the number of the bit."""

    def semantics(a: Word, old: Word) -> Word:
        bit = 1 << n.count(a, old.width)
        return old | bit if to else old & ~bit

    return semantics


def saveexec(f: Binary) -> Computation:
    """Return the semantics of a saveexec operation.

    EXEC = f(source, EXEC); destination = the old EXEC; SCC = 1 if the new EXEC is not 0.
    """

    def semantics(a: Word, mask: Word) -> tuple[Word, Word, Word]:
        result = f(a, mask)
        return result, mask, result != 0

    return semantics


def wrexec(f: Binary) -> Computation:
    """Return the semantics of a wrexec operation.

    EXEC and the destination = f(source, EXEC); SCC = 1 if the new EXEC is not 0.
    """

    def semantics(a: Word, mask: Word) -> tuple[Word, Word, Word]:
        result = f(a, mask)
        return result, result, result != 0

    return semantics


def andn2(a: Word, b: Word) -> Word:
    """Return a & ~b."""
    return a & ~b


def orn2(a: Word, b: Word) -> Word:
    """Return a | ~b."""
    return a | ~b


def nand(a: Word, b: Word) -> Word:
    """Return ~(a & b)."""
    return ~(a & b)


def nor(a: Word, b: Word) -> Word:
    """Return ~(a | b)."""
    return ~(a | b)


def xnor(a: Word, b: Word) -> Word:
    """Return ~(a ^ b)."""
    return ~(a ^ b)


AND, OR, XOR, ANDN2, ORN2, NAND, NOR, XNOR = map(counted, (and_, or_, xor, andn2, orn2, nand, nor, xnor))
SHL, LSHR, ASHR = map(counted, (n.shl, n.lshr, n.ashr))
WQM: Final = counted(lambda a: quads(a) * 15)
QUADMASK: Final = counted(quadmask)
BCNT0, BCNT1 = counted(lambda a: (~a).ctpop().trunc(32)), counted(lambda a: a.ctpop().trunc(32))
BITCMP0, BITCMP1 = (lambda a, b: n.lshr(a, b) & 1 == 0), (lambda a, b: n.lshr(a, b) & 1 == 1)
FF0, FF1, FLBIT = n.first_bit(True, invert), n.first_bit(True), n.first_bit(False)
FLBIT_SIGNED: Final = n.first_bit(False, n.sign_changes)
NOT, ABS, ABSDIFF = counted(invert), counted(absolute), counted(lambda a, b: absolute(a - b))
SELECT: Final = lambda a, b, c: c.select(a, b)  # noqa: E731
MAX_SCC = chosen("max-scc")

# fmt: off
SOP2: Final = ops("sop2", (
    # name                GFX7  GFX8  GFX9  signature                meaning
    ("s_add_u32",         0x00, 0x00, 0x00, "u32 scc = u32 u32",     n.add_carry),
    ("s_sub_u32",         0x01, 0x01, 0x01, "u32 scc = u32 u32",     n.sub_borrow),
    ("s_add_i32",         0x02, 0x02, 0x02, "i32 scc = i32 i32",     n.signed_sum),
    ("s_sub_i32",         0x03, 0x03, 0x03, "i32 scc = i32 i32",     n.signed_difference),
    ("s_addc_u32",        0x04, 0x04, 0x04, "u32 scc = u32 u32 scc", n.addc),
    ("s_subb_u32",        0x05, 0x05, 0x05, "u32 scc = u32 u32 scc", n.subb),
    ("s_min_i32",         0x06, 0x06, 0x06, "i32 scc = i32 i32",     picked(Word.slt)),
    ("s_min_u32",         0x07, 0x07, 0x07, "u32 scc = u32 u32",     picked(lt)),
    ("s_max_i32",         0x08, 0x08, 0x08, "i32 scc = i32 i32",     picked(n.reverse(Word.sle)), MAX_SCC),
    ("s_max_u32",         0x09, 0x09, 0x09, "u32 scc = u32 u32",     picked(ge), MAX_SCC),
    ("s_cselect_b32",     0x0A, 0x0A, 0x0A, "b32 = b32 b32 scc",     SELECT),
    ("s_cselect_b64",     0x0B, 0x0B, 0x0B, "b64 = b64 b64 scc",     SELECT),
    ("s_and_b32",         0x0E, 0x0C, 0x0C, "b32 scc = b32 b32",     AND),
    ("s_and_b64",         0x0F, 0x0D, 0x0D, "b64 scc = b64 b64",     AND),
    ("s_or_b32",          0x10, 0x0E, 0x0E, "b32 scc = b32 b32",     OR),
    ("s_or_b64",          0x11, 0x0F, 0x0F, "b64 scc = b64 b64",     OR),
    ("s_xor_b32",         0x12, 0x10, 0x10, "b32 scc = b32 b32",     XOR),
    ("s_xor_b64",         0x13, 0x11, 0x11, "b64 scc = b64 b64",     XOR),
    ("s_andn2_b32",       0x14, 0x12, 0x12, "b32 scc = b32 b32",     ANDN2),
    ("s_andn2_b64",       0x15, 0x13, 0x13, "b64 scc = b64 b64",     ANDN2),
    ("s_orn2_b32",        0x16, 0x14, 0x14, "b32 scc = b32 b32",     ORN2),
    ("s_orn2_b64",        0x17, 0x15, 0x15, "b64 scc = b64 b64",     ORN2),
    ("s_nand_b32",        0x18, 0x16, 0x16, "b32 scc = b32 b32",     NAND),
    ("s_nand_b64",        0x19, 0x17, 0x17, "b64 scc = b64 b64",     NAND),
    ("s_nor_b32",         0x1A, 0x18, 0x18, "b32 scc = b32 b32",     NOR),
    ("s_nor_b64",         0x1B, 0x19, 0x19, "b64 scc = b64 b64",     NOR),
    ("s_xnor_b32",        0x1C, 0x1A, 0x1A, "b32 scc = b32 b32",     XNOR),
    ("s_xnor_b64",        0x1D, 0x1B, 0x1B, "b64 scc = b64 b64",     XNOR),
    ("s_lshl_b32",        0x1E, 0x1C, 0x1C, "b32 scc = b32 u32",     SHL),
    ("s_lshl_b64",        0x1F, 0x1D, 0x1D, "b64 scc = b64 u32",     SHL),
    ("s_lshr_b32",        0x20, 0x1E, 0x1E, "b32 scc = b32 u32",     LSHR),
    ("s_lshr_b64",        0x21, 0x1F, 0x1F, "b64 scc = b64 u32",     LSHR),
    ("s_ashr_i32",        0x22, 0x20, 0x20, "i32 scc = i32 u32",     ASHR),
    ("s_ashr_i64",        0x23, 0x21, 0x21, "i64 scc = i64 u32",     ASHR),
    ("s_bfm_b32",         0x24, 0x22, 0x22, "b32 = u32 u32",         n.bitfield_mask(32)),
    ("s_bfm_b64",         0x25, 0x23, 0x23, "b64 = u32 u32",         n.bitfield_mask(64)),
    ("s_mul_i32",         0x26, 0x24, 0x24, "i32 = i32 i32",         mul),
    ("s_bfe_u32",         0x27, 0x25, 0x25, "u32 scc = u32 u32",     bfe(signed=False)),
    ("s_bfe_i32",         0x28, 0x26, 0x26, "i32 scc = i32 u32",     bfe(signed=True)),
    ("s_bfe_u64",         0x29, 0x27, 0x27, "u64 scc = u64 u32",     bfe(signed=False)),
    ("s_bfe_i64",         0x2A, 0x28, 0x28, "i64 scc = i64 u32",     bfe(signed=True)),
    ("s_cbranch_g_fork",  0x2B, 0x29, 0x29, None,                    flow.g_fork, {"concrete": True}),
    ("s_absdiff_i32",     0x2C, 0x2A, 0x2A, "i32 scc = i32 i32",     ABSDIFF),
    ("s_rfe_restore_b64", None, 0x2B, 0x2B, None,                    flow.rfe),
    ("s_mul_hi_u32",      None, None, 0x2C, "u32 = u32 u32",         n.mul_hi(signed=False)),
    ("s_mul_hi_i32",      None, None, 0x2D, "i32 = i32 i32",         n.mul_hi(signed=True)),
    ("s_lshl1_add_u32",   None, None, 0x2E, "u32 scc = u32 u32",     shift_add(1)),
    ("s_lshl2_add_u32",   None, None, 0x2F, "u32 scc = u32 u32",     shift_add(2)),
    ("s_lshl3_add_u32",   None, None, 0x30, "u32 scc = u32 u32",     shift_add(3)),
    ("s_lshl4_add_u32",   None, None, 0x31, "u32 scc = u32 u32",     shift_add(4)),
    ("s_pack_ll_b32_b16", None, None, 0x32, "b32 = b32 b32",         lambda a, b: a[15:0] | b << 16),
    ("s_pack_lh_b32_b16", None, None, 0x33, "b32 = b32 b32",         lambda a, b: a[15:0] | b & 0xFFFF_0000),
    ("s_pack_hh_b32_b16", None, None, 0x34, "b32 = b32 b32",         lambda a, b: a[31:16] | b & 0xFFFF_0000),
))

SOP1: Final = ops("sop1", (
    # name                   GFX7  GFX8  GFX9  signature                  meaning
    ("s_mov_b32",            0x03, 0x00, 0x00, "b32 = b32",               lambda a: a),
    ("s_mov_b64",            0x04, 0x01, 0x01, "b64 = b64",               lambda a: a),
    ("s_cmov_b32",           0x05, 0x02, 0x02, "b32 = b32 old scc",       SELECT),
    ("s_cmov_b64",           0x06, 0x03, 0x03, "b64 = b64 old scc",       SELECT),
    ("s_not_b32",            0x07, 0x04, 0x04, "b32 scc = b32",           NOT),
    ("s_not_b64",            0x08, 0x05, 0x05, "b64 scc = b64",           NOT),
    ("s_wqm_b32",            0x09, 0x06, 0x06, "b32 scc = b32",           WQM),
    ("s_wqm_b64",            0x0A, 0x07, 0x07, "b64 scc = b64",           WQM),
    ("s_brev_b32",           0x0B, 0x08, 0x08, "b32 = b32",               Word.bitreverse),
    ("s_brev_b64",           0x0C, 0x09, 0x09, "b64 = b64",               Word.bitreverse),
    ("s_bcnt0_i32_b32",      0x0D, 0x0A, 0x0A, "i32 scc = b32",           BCNT0),
    ("s_bcnt0_i32_b64",      0x0E, 0x0B, 0x0B, "i32 scc = b64",           BCNT0),
    ("s_bcnt1_i32_b32",      0x0F, 0x0C, 0x0C, "i32 scc = b32",           BCNT1),
    ("s_bcnt1_i32_b64",      0x10, 0x0D, 0x0D, "i32 scc = b64",           BCNT1),
    ("s_ff0_i32_b32",        0x11, 0x0E, 0x0E, "i32 = b32",               FF0),
    ("s_ff0_i32_b64",        0x12, 0x0F, 0x0F, "i32 = b64",               FF0),
    ("s_ff1_i32_b32",        0x13, 0x10, 0x10, "i32 = b32",               FF1),
    ("s_ff1_i32_b64",        0x14, 0x11, 0x11, "i32 = b64",               FF1),
    ("s_flbit_i32_b32",      0x15, 0x12, 0x12, "i32 = b32",               FLBIT),
    ("s_flbit_i32_b64",      0x16, 0x13, 0x13, "i32 = b64",               FLBIT),
    ("s_flbit_i32",          0x17, 0x14, 0x14, "i32 = i32",               FLBIT_SIGNED),
    ("s_flbit_i32_i64",      0x18, 0x15, 0x15, "i32 = i64",               FLBIT_SIGNED),
    ("s_sext_i32_i8",        0x19, 0x16, 0x16, "i32 = b32", lambda a: a.trunc(8).sext(32)),
    ("s_sext_i32_i16",       0x1A, 0x17, 0x17, "i32 = b32", lambda a: a.trunc(16).sext(32)),
    ("s_bitset0_b32",        0x1B, 0x18, 0x18, "b32 = u32 old",           bitset(0)),
    ("s_bitset0_b64",        0x1C, 0x19, 0x19, "b64 = u32 old",           bitset(0)),
    ("s_bitset1_b32",        0x1D, 0x1A, 0x1A, "b32 = u32 old",           bitset(1)),
    ("s_bitset1_b64",        0x1E, 0x1B, 0x1B, "b64 = u32 old",           bitset(1)),
    ("s_getpc_b64",          0x1F, 0x1C, 0x1C, None,                      flow.getpc),
    ("s_setpc_b64",          0x20, 0x1D, 0x1D, None,                      flow.setpc),
    ("s_swappc_b64",         0x21, 0x1E, 0x1E, None,                      flow.swappc),
    ("s_rfe_b64",            0x22, 0x1F, 0x1F, None,                      flow.rfe),
    ("s_and_saveexec_b64",   0x24, 0x20, 0x20, "exec b64 scc = b64 exec", saveexec(and_)),
    ("s_or_saveexec_b64",    0x25, 0x21, 0x21, "exec b64 scc = b64 exec", saveexec(or_)),
    ("s_xor_saveexec_b64",   0x26, 0x22, 0x22, "exec b64 scc = b64 exec", saveexec(xor)),
    ("s_andn2_saveexec_b64", 0x27, 0x23, 0x23, "exec b64 scc = b64 exec", saveexec(andn2)),
    ("s_orn2_saveexec_b64",  0x28, 0x24, 0x24, "exec b64 scc = b64 exec", saveexec(orn2)),
    ("s_nand_saveexec_b64",  0x29, 0x25, 0x25, "exec b64 scc = b64 exec", saveexec(nand)),
    ("s_nor_saveexec_b64",   0x2A, 0x26, 0x26, "exec b64 scc = b64 exec", saveexec(nor)),
    ("s_xnor_saveexec_b64",  0x2B, 0x27, 0x27, "exec b64 scc = b64 exec", saveexec(xnor)),
    ("s_quadmask_b32",       0x2C, 0x28, 0x28, "b32 scc = b32",           QUADMASK),
    ("s_quadmask_b64",       0x2D, 0x29, 0x29, "b64 scc = b64",           QUADMASK),
    ("s_movrels_b32",        0x2E, 0x2A, 0x2A, None,                      flow.movrels(32)),
    ("s_movrels_b64",        0x2F, 0x2B, 0x2B, None,                      flow.movrels(64)),
    ("s_movreld_b32",        0x30, 0x2C, 0x2C, None,                      flow.movreld(32)),
    ("s_movreld_b64",        0x31, 0x2D, 0x2D, None,                      flow.movreld(64)),
    ("s_cbranch_join",       0x32, 0x2E, 0x2E, None,                      flow.join, {"concrete": True}),
    ("s_mov_regrd_b32",      0x33, None, None, None,                      flow.unknown),
    ("s_abs_i32",            0x34, 0x30, 0x30, "i32 scc = i32",           ABS),
    ("s_mov_fed_b32",        0x35, None, None, None,                      flow.unknown),
    ("s_set_gpr_idx_idx",    None, 0x32, 0x32, None,                      flow.set_gpr_idx_idx),
    ("s_andn1_saveexec_b64", None, None, 0x33, "exec b64 scc = b64 exec", saveexec(n.reverse(andn2))),
    ("s_orn1_saveexec_b64",  None, None, 0x34, "exec b64 scc = b64 exec", saveexec(n.reverse(orn2))),
    ("s_andn1_wrexec_b64",   None, None, 0x35, "exec b64 scc = b64 exec", wrexec(n.reverse(andn2))),
    ("s_andn2_wrexec_b64",   None, None, 0x36, "exec b64 scc = b64 exec", wrexec(andn2)),
    ("s_bitreplicate_b64_b32", None, None, 0x37, "b64 = b32",               bitreplicate),
))

SOPC: Final = ops("sopc", (
    # name               GFX7  GFX8  GFX9  signature        meaning
    ("s_cmp_eq_i32",     0x00, 0x00, 0x00, "scc = i32 i32", eq),
    ("s_cmp_lg_i32",     0x01, 0x01, 0x01, "scc = i32 i32", ne),
    ("s_cmp_gt_i32",     0x02, 0x02, 0x02, "scc = i32 i32", n.reverse(Word.slt)),
    ("s_cmp_ge_i32",     0x03, 0x03, 0x03, "scc = i32 i32", n.reverse(Word.sle)),
    ("s_cmp_lt_i32",     0x04, 0x04, 0x04, "scc = i32 i32", Word.slt),
    ("s_cmp_le_i32",     0x05, 0x05, 0x05, "scc = i32 i32", Word.sle),
    ("s_cmp_eq_u32",     0x06, 0x06, 0x06, "scc = u32 u32", eq),
    ("s_cmp_lg_u32",     0x07, 0x07, 0x07, "scc = u32 u32", ne),
    ("s_cmp_gt_u32",     0x08, 0x08, 0x08, "scc = u32 u32", gt),
    ("s_cmp_ge_u32",     0x09, 0x09, 0x09, "scc = u32 u32", ge),
    ("s_cmp_lt_u32",     0x0A, 0x0A, 0x0A, "scc = u32 u32", lt),
    ("s_cmp_le_u32",     0x0B, 0x0B, 0x0B, "scc = u32 u32", le),
    ("s_bitcmp0_b32",    0x0C, 0x0C, 0x0C, "scc = b32 u32", BITCMP0),
    ("s_bitcmp1_b32",    0x0D, 0x0D, 0x0D, "scc = b32 u32", BITCMP1),
    ("s_bitcmp0_b64",    0x0E, 0x0E, 0x0E, "scc = b64 u32", BITCMP0),
    ("s_bitcmp1_b64",    0x0F, 0x0F, 0x0F, "scc = b64 u32", BITCMP1),
    ("s_setvskip",       0x10, 0x10, 0x10, None,            flow.setvskip),
    ("s_set_gpr_idx_on", None, 0x11, 0x11, None,            flow.set_gpr_idx_on),
    ("s_cmp_eq_u64",     None, 0x12, 0x12, "scc = u64 u64", eq),
    ("s_cmp_lg_u64",     None, 0x13, 0x13, "scc = u64 u64", ne),
))
# fmt: on

OPS: Final = (*SOP2, *SOP1, *SOPC)
