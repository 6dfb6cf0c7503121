"""Texts: what is shown how, and the small languages inside operands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard.core.errors import ModelBug, WireError
from softcard.isa.gcn.asm import macros
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.asm.constants import constant, literal_value, register
from softcard.isa.gcn.asm.listing import listing
from softcard.isa.gcn.asm.printer import branch_target, text
from softcard.isa.gcn.encoding.decode import decode
from softcard.isa.gcn.encoding.operands import refusal, scalars
from softcard.isa.gcn.encoding.shape import Slot, parse, slots
from softcard.isa.gcn.operations.table import OPS
from softcard.isa.gcn.target import TARGETS, target

GFX7, GFX8, GFX9 = (TARGETS[name] for name in ("gfx700", "gfx803", "gfx900"))


@pytest.mark.parametrize(
    ("target", "words", "expected"),
    [
        (GFX8, [0xBE82_00FF, 5], "s_mov_b32 s2, lit(0x5)"),
        (GFX8, [0xBE82_00FF, 0x3F00_0000], "s_mov_b32 s2, lit(0x3f000000)"),
        (GFX8, [0xBE82_00FF, 0x1122_3344], "s_mov_b32 s2, 0x11223344"),
        (GFX8, [0xBE82_00F8], "s_mov_b32 s2, 0.15915494"),
        (GFX8, [0x7E08_2EF8], "v_trunc_f64_e32 v[4:5], 0.15915494309189532"),
        (GFX7, [0xBE88_0368], "s_mov_b32 s8, flat_scratch_lo"),
        (GFX8, [0xBE88_0068], "s_mov_b32 s8, xnack_mask_lo"),
        (GFX8, [0xBE88_0166], "s_mov_b64 s[8:9], flat_scratch"),
        (GFX8, [0xBE88_016C], "s_mov_b64 s[8:9], tba"),
        (GFX9, [0xBE88_016C], "s_mov_b64 s[8:9], ttmp[0:1]"),
        (GFX9, [0xBE88_01EB], "s_mov_b64 s[8:9], src_shared_base"),
        (GFX8, [0x7E06_02FE], "v_mov_b32_e32 v3, src_lds_direct"),
        (GFX8, [0x2E06_0902, 0x11], "v_madmk_f32 v3, v2, 0x11, v4"),
        (GFX9, [0xD104_0204, 0x6002_0902], "v_mul_legacy_f32_e64 v4, -v2, -|v4|"),
        (GFX9, [0xD104_0104, 0x2002_08F2], "v_mul_legacy_f32_e64 v4, -|1.0|, v4"),
        (GFX9, [0xD104_0004, 0x2002_08F2], "v_mul_legacy_f32_e64 v4, neg(1.0), v4"),
        (GFX9, [0xD104_8004, 0x1802_0902], "v_mul_legacy_f32_e64 v4, v2, v4 clamp div:2"),
        (GFX9, [0xD203_5004, 0x041A_0902], "v_mad_f16 v4, v2, v4, v6 op_sel:[0,1,0,1]"),
        (GFX9, [0xD38F_0004, 0x0802_0902], "v_pk_add_f16 v4, v2, v4 op_sel_hi:[1,0]"),
        (GFX9, [0xD38F_0304, 0x5802_0902], "v_pk_add_f16 v4, v2, v4 neg_lo:[0,1] neg_hi:[1,1]"),
        (GFX9, [0xD3A0_4104, 0x1C1A_0902], "v_mad_mix_f32 v4, |v2|, v4, v6 op_sel_hi:[1,1,1]"),
        (GFX9, [0x7E08_02F9, 0x000E_1501],
            "v_mov_b32_sdwa v4, sext(v1) dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD"),
        (GFX8, [0xD87A_8000 | 0xE4, 0x0400_0002], "ds_swizzle_b32 v4, v2 offset:swizzle(QUAD_PERM,0,1,2,3)"),
        (GFX8, [0xE050_1000, 0x8002_0402], "buffer_load_dword v4, v2, s[8:11], 0 offen"),
        (GFX8, [0xE050_3000, 0x8002_0402], "buffer_load_dword v4, v[2:3], s[8:11], 0 idxen offen"),
        (GFX8, [0xE051_0000, 0x8002_0402], "buffer_load_dword off, s[8:11], 0 lds"),
        (GFX9, [0xDC50_8000, 0x047F_0002], "global_load_dword v4, v[2:3], off"),
        (GFX9, [0xDC50_8000, 0x0406_0002], "global_load_dword v4, v2, s[6:7]"),
        (GFX9, [0xDC50_4000, 0x0406_0002], "scratch_load_dword v4, off, s6"),
        (GFX9, [0xDC50_4000, 0x047F_0002], "scratch_load_dword v4, v2, off"),
        (GFX9, [0xDD08_8000, 0x0406_0702], "global_atomic_add v2, v7, s[6:7]"),
        (GFX9, [0xDD09_8000, 0x0406_0702], "global_atomic_add v4, v2, v7, s[6:7] glc"),
        (GFX9, [0xF000_0500, 0x0002_0804], "image_load v[8:9], v4, s[8:15] dmask:0x5"),
        (GFX9, [0xF000_0700, 0x8002_0804], "image_load v[8:9], v4, s[8:15] dmask:0x7 d16"),
        (GFX8, [0xF000_0700, 0x8002_0804], "image_load v[8:10], v4, s[8:15] dmask:0x7 d16"),
        (GFX9, [0xF001_8100, 0x0002_0804], "image_load v[8:9], v4, s[8:15] dmask:0x1 a16 tfe"),
        (GFX8, [0xC400_18DF, 0x0403_0201], "exp pos1 v1, v2, v3, v4 done vm"),
        (GFX8, [0xBF81_0000], "s_endpgm"),
        (GFX8, [0xBF81_0003], "s_endpgm 3"),
        (GFX8, [0xBF80_0040], "s_nop 64"),
        (GFX8, [0xBF80_0041], "s_nop 0x41"),
    ],
)  # fmt: skip
def test_text(target, words, expected) -> None:  # type: ignore[no-untyped-def]
    assert text(decode(target, words)) == expected


def test_branches_name_their_labels() -> None:
    insn = decode(GFX8, [0xBF84_FFFD], 0x100)
    assert text(insn) == "s_cbranch_scc0 65533"
    assert branch_target(insn) == 0xF8
    assert text(insn, {0xF8: "loop"}) == "s_cbranch_scc0 loop"
    assert text(insn, {0xFC: "loop"}) == "s_cbranch_scc0 65533"
    assert branch_target(decode(GFX8, [0xBF81_0000])) is None
    call = decode(GFX9, [0xBA84_0001], 0x100)
    assert text(call, {0x108: "f"}) == "s_call_b64 s[4:5], f"


@pytest.mark.parametrize(
    ("show", "read", "level", "value", "shown"),
    [
        (macros.waits, macros.read_waits, 8, 0x0070, "vmcnt(0) lgkmcnt(0)"),
        (macros.waits, macros.read_waits, 8, 0x0F7F, "vmcnt(15) expcnt(7) lgkmcnt(15)"),
        (macros.waits, macros.read_waits, 9, 0xCF71, "vmcnt(49)"),
        (macros.waits, macros.read_waits, 8, 0xFFFF, "0xffff"),
        (macros.message, macros.read_message, 8, 1, "sendmsg(MSG_INTERRUPT)"),
        (macros.message, macros.read_message, 8, 0x122, "sendmsg(MSG_GS, GS_OP_EMIT, 1)"),
        (macros.message, macros.read_message, 8, 3, "sendmsg(MSG_GS_DONE, GS_OP_NOP)"),
        (macros.message, macros.read_message, 8, 0x3F, "sendmsg(MSG_SYSMSG, SYSMSG_OP_HOST_TRAP_ACK)"),
        (macros.message, macros.read_message, 9, 0x3F, "sendmsg(15, 3, 0)"),
        (macros.message, macros.read_message, 8, 10, "sendmsg(10, 0, 0)"),
        (macros.message, macros.read_message, 9, 10, "sendmsg(MSG_GET_DOORBELL)"),
        (macros.message, macros.read_message, 9, 0x8001, "32769"),
        (macros.hardware_register, macros.read_register, 8, 0xF801, "hwreg(HW_REG_MODE)"),
        (macros.hardware_register, macros.read_register, 8, 0x1902, "hwreg(HW_REG_STATUS, 4, 4)"),
        (macros.hardware_register, macros.read_register, 8, 0xF80F, "hwreg(15)"),
        (macros.hardware_register, macros.read_register, 9, 0xF80F, "hwreg(HW_REG_SH_MEM_BASES)"),
        (macros.index_modes, macros.read_modes, 9, 9, "gpr_idx(SRC0,DST)"),
        (macros.index_modes, macros.read_modes, 9, 0, "gpr_idx()"),
        (macros.index_modes, macros.read_modes, 9, 16, "0x10"),
        (macros.swizzle, macros.read_swizzle, 8, 0x801B, "swizzle(QUAD_PERM,3,2,1,0)"),
        (macros.swizzle, macros.read_swizzle, 8, 0x101F, "swizzle(SWAP,4)"),
        (macros.swizzle, macros.read_swizzle, 8, 0x1C1F, "swizzle(REVERSE,8)"),
        (macros.swizzle, macros.read_swizzle, 8, 0x0078, "swizzle(BROADCAST,8,3)"),
        (macros.swizzle, macros.read_swizzle, 8, 0x0420, "0x420"),
        (macros.swizzle, macros.read_swizzle, 8, 0x0C1F, "swizzle(REVERSE,4)"),
        (macros.swizzle, macros.read_swizzle, 8, 0x141F, 'swizzle(BITMASK_PERM,"ppipi")'),
        (macros.swizzle, macros.read_swizzle, 8, 0x9000, "0x9000"),
    ],
)  # fmt: skip
def test_small_languages(show, read, level, value, shown) -> None:  # type: ignore[no-untyped-def]
    assert show(value, level) == shown
    assert read(shown, level) == value


@given(st.integers(0, 0xFFFF), st.sampled_from([7, 8, 9]))
def test_small_languages_give_back_any_bits(value: int, level: int) -> None:
    for show, read in (
        (macros.waits, macros.read_waits),
        (macros.message, macros.read_message),
        (macros.hardware_register, macros.read_register),
        (macros.index_modes, macros.read_modes),
        (macros.swizzle, macros.read_swizzle),
    ):
        assert read(show(value, level), level) == value


@pytest.mark.parametrize(
    ("read", "shown", "message"),
    [
        (macros.read_waits, "vmcnt(64)", "vmcnt '64' must be 0 to 15"),
        (macros.read_waits, "vscnt(0)", "'vscnt(0)' must be one of vmcnt(n), expcnt(n), lgkmcnt(n)"),
        (macros.read_message, "sendmsg()", "'sendmsg()' must be sendmsg(message[, operation[, stream]])"),
        (
            macros.read_message,
            "sendmsg(MSG_GET_DOORBELL)",
            "message 'MSG_GET_DOORBELL' must be 0 to 15 or one of MSG_INT",
        ),
        (macros.read_message, "sendmsg(2, GS_OP_CUT, 4)", "stream '4' must be 0 to 3"),
        (macros.read_message, "70000", "'70000' must be a number up to 0xffff"),
        (macros.read_register, "hwreg(1, 2)", "'hwreg(1, 2)' must be hwreg(register[, offset, width])"),
        (macros.read_register, "hwreg(1, 2, 0)", "width must be 1 to 32"),
        (macros.read_register, "hwreg(HW_REG_TBA_LO)", "register 'HW_REG_TBA_LO' must be 0 to 63"),
        (macros.read_modes, "gpr_idx(SRC3)", "'SRC3' must be one of SRC0, SRC1, SRC2, DST"),
        (macros.read_swizzle, "swizzle(SWAP,3)", "the number of lanes of SWAP must be a power of two, not 3"),
        (macros.read_swizzle, "swizzle(BROADCAST,8,8)", "lane 8 must be below 8"),
        (macros.read_swizzle, "swizzle(QUAD_PERM,0,1,2,4)", "QUAD_PERM '4' must be 0 to 3"),
        (
            macros.read_swizzle,
            'swizzle(BITMASK_PERM,"0q000")',
            "mask '0q000' must be five characters, each 0, 1, p or i",
        ),
        (macros.read_swizzle, "swizzle(TURN,1)", "'swizzle(TURN,1)' must be swizzle(QUAD_PERM,a,b,c,d)"),
    ],
)
def test_small_languages_refuse(read, shown, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(WireError) as caught:
        read(shown, 8)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("s7", 7, 1), ("s[8:15]", 8, 8), ("v255", 511, 1), ("v[4:7]", 260, 4), ("vcc", 106, 2), ("vcc_hi", 107, 1),
        ("m0", 124, 1), ("exec", 126, 2), ("src_scc", 253, 0), ("scc", 253, 0), ("ttmp3", 115, 1),
        ("lds_direct", 254, 1),
    ],
)  # fmt: skip
def test_registers(name: str, code: int, words: int) -> None:
    assert register(GFX8, name) == (code, words)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("s102", "register s102 must be in the range s0 to s101 on gfx803"),
        ("v[254:256]", "register v[254:256] must be in the range v0 to v255"),
        ("v[5:4]", "register v[5:4] must be in the range v0 to v255"),
        ("ttmp12", "register ttmp12 must be in the range ttmp0 to ttmp11 on gfx803"),
    ],
)
def test_registers_out_of_range(name: str, message: str) -> None:
    with pytest.raises(WireError) as caught:
        register(GFX8, name)
    assert caught.value.message == message
    assert register(GFX8, "x7") is None


@pytest.mark.parametrize(
    ("shown", "words", "type_", "code", "value"),
    [
        ("64", 1, "b32", 192, None), ("-16", 1, "b32", 208, None), ("65", 1, "b32", 255, 65),
        ("-17", 1, "b32", 255, 0xFFFF_FFEF),
        ("0x3f800000", 1, "f32", 242, None), ("0x3c00", 1, "f16", 242, None), ("0x3c00", 1, "u16", 255, 0x3C00),
        ("1.5", 1, "f32", 255, 0x3FC0_0000), ("1.5", 1, "f16", 255, 0x3E00), ("1.5", 2, "f64", 255, 0x3FF8_0000),
        ("lit(0x5)", 1, "b32", 255, 5), ("label", 1, "b32", None, None),
    ],
)  # fmt: skip
def test_constants(shown, words, type_, code, value) -> None:  # type: ignore[no-untyped-def]
    assert constant(shown, words, type_) == code
    if value is not None:
        assert literal_value(shown, words, type_) == value


def test_literals_that_do_not_fit() -> None:
    with pytest.raises(WireError, match=r"^0x100000000 must fit into 32 bits$"):
        literal_value("0x100000000", 1, "b32")
    with pytest.raises(WireError, match=r"^1e\+300 overflows in an operand of type f32$"):
        literal_value("1e300", 1, "f32")
    with pytest.raises(WireError, match=r"^'x' must be a number$"):
        literal_value("x", 1, "f32")
    assert 127 not in scalars(8, 2)
    assert refusal(GFX8, Slot("ssrc0", 2), 127) == "operand code 127 cannot begin 2 scalar registers on gfx803"


def test_operand_lists() -> None:
    assert parse("vdst:2/glc addr:2 src1=f16 vdst@s") == (
        Slot("vdst", 2, "b32", "v", "glc"),
        Slot("addr", 2, "b32", "v"),
        Slot("src1", 1, "f16", "src"),
        Slot("vdst", 1, "b32", "s"),
    )
    with pytest.raises(ModelBug, match=r"operand list 'a:b': 'a:b' must be field:words"):
        parse("a:b")


def test_signatures_have_the_widths_of_their_names() -> None:
    """A name ends with the type of its sources; what it begins with is the type of the result."""
    for op in OPS:
        if op.signature and op.family in ("vop1", "vop2") and op.name.endswith("_f64") and "cvt" not in op.name:
            assert slots(op, "VOP1" if op.family == "vop1" else "VOP2")[-1].words == 2, op.name


def test_names_of_places_are_labels() -> None:
    """Labels take the names of places if possible, each once; branch targets always have a label."""
    gfx9 = target("gfx900")
    code = assemble(gfx9, "a: s_branch b\nb: s_branch a\nc: s_nop 0\nd: s_branch c\ns_endpgm", 0x1000)
    names = {0x1000: "L1004", 0x1008: "L1004", 0x100C: "no label", 0x1010: "end", 0x1002: "inside", 0x2000: "beyond"}
    lines = listing(gfx9, code, 0x1000, names)
    assert [line.label for line in lines] == ["L1004", "L1004__", "L1004_", "", "end"]
    assert [line.shown for line in lines[:2]] == ["s_branch L1004__", "s_branch L1004"]
    text = "\n".join(map(str, lines))
    assert assemble(gfx9, text, 0x1000) == code
