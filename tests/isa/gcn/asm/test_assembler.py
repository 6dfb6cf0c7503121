"""Assembling: labels, comments, the choice of an encoding, and one refusal per mistake."""

from __future__ import annotations

import pytest

from softcard.core.errors import WireError
from softcard.isa.gcn.asm.assembler import assemble, assemble_one
from softcard.isa.gcn.asm.printer import text
from softcard.isa.gcn.encoding.decode import decode
from softcard.isa.gcn.target import TARGETS

GFX7, GFX8, GFX9 = (TARGETS[name] for name in ("gfx700", "gfx803", "gfx900"))


def words(code: bytes) -> list[int]:
    return [int.from_bytes(code[at : at + 4], "little") for at in range(0, len(code), 4)]


def test_a_program() -> None:
    code = assemble(
        GFX8,
        """
        start:  s_mov_b32 s0, 0x12345   ; a literal
        loop:   s_add_u32 s0, s0, -1    // back to loop
                s_cbranch_scc1 loop
                s_branch end            # forward
                .long 0xdeadbeef, 7
        end: done: s_endpgm
        """,
    )
    assert words(code) == [0xBE80_00FF, 0x12345, 0x8000_C100, 0xBF85_FFFE, 0xBF82_0002, 0xDEAD_BEEF, 7, 0xBF81_0000]


def test_labels_do_not_depend_on_the_address() -> None:
    source = "s_branch end\nend: s_endpgm"
    assert assemble(GFX8, source) == assemble(GFX8, source, 0x1000)


@pytest.mark.parametrize(
    ("target", "source", "expected"),
    [
        (GFX8, "v_add_f32 v1, v2, v3", "v_add_f32_e32 v1, v2, v3"),
        (GFX8, "v_add_f32 v1, 0x1234, v3", "v_add_f32_e32 v1, 0x1234, v3"),
        (GFX8, "v_add_f32 v1, v2, s3", "v_add_f32_e64 v1, v2, s3"),
        (GFX8, "v_add_f32 v1, -v2, v3", "v_add_f32_e64 v1, -v2, v3"),
        (GFX8, "v_add_f32 v1, v2, v3 clamp", "v_add_f32_e64 v1, v2, v3 clamp"),
        (GFX8, "v_add_f32_e64 v1, v2, v3", "v_add_f32_e64 v1, v2, v3"),
        (GFX8, "v_mov_b32 v1, v2 dst_sel:BYTE_0",
            "v_mov_b32_sdwa v1, v2 dst_sel:BYTE_0 dst_unused:UNUSED_PRESERVE src0_sel:DWORD"),
        (GFX8, "v_mov_b32 v1, v2 row_shl:1", "v_mov_b32_dpp v1, v2 row_shl:1 row_mask:0xf bank_mask:0xf"),
        (GFX8, "v_mov_b32_dpp v1, v2 wave_shl bound_ctrl:0",
            "v_mov_b32_dpp v1, v2 wave_shl:1 row_mask:0xf bank_mask:0xf bound_ctrl:1"),
        (GFX8, "v_cmp_lt_f32 vcc, v2, v3", "v_cmp_lt_f32_e32 vcc, v2, v3"),
        (GFX8, "v_cmp_lt_f32 s[4:5], v2, v3", "v_cmp_lt_f32_e64 s[4:5], v2, v3"),
        (GFX8, "v_cndmask_b32 v1, v2, v3, s[4:5]", "v_cndmask_b32_e64 v1, v2, v3, s[4:5]"),
        (GFX7, "v_add_i32 v1, vcc, v2, v3", "v_add_i32_e32 v1, vcc, v2, v3"),
        (GFX8, "v_add_u32 v1, vcc, v2, v3", "v_add_u32_e32 v1, vcc, v2, v3"),
        (GFX9, "v_add_co_u32 v1, s[4:5], v2, v3", "v_add_co_u32_e64 v1, s[4:5], v2, v3"),
        (GFX9, "v_add_u32 v1, v2, v3", "v_add_u32_e32 v1, v2, v3"),
        (GFX7, "s_load_dword s0, s[2:3], 0x100", "s_load_dword s0, s[2:3], 0x100"),
        (GFX7, "s_load_dword s0, s[2:3], 0xff", "s_load_dword s0, s[2:3], 0xff"),
        (GFX7, "s_load_dword s0, s[2:3], lit(0xff)", "s_load_dword s0, s[2:3], lit(0xff)"),
        (GFX9, "s_load_dword s0, s[2:3], s5 offset:0x10", "s_load_dword s0, s[2:3], s5 offset:0x10"),
        (GFX9, "s_load_dword s0, s[2:3], -0x10", "s_load_dword s0, s[2:3], -0x10"),
        (GFX8, "s_mov_b32 s0, 1.0", "s_mov_b32 s0, 1.0"),
        (GFX8, "s_mov_b32 s0, 1.5", "s_mov_b32 s0, 0x3fc00000"),
        (GFX7, "v_mov_b32 v0, 0.15915494", "v_mov_b32_e32 v0, lit(0x3e22f983)"),
        (GFX8, "s_waitcnt lgkmcnt(0) & vmcnt(1)", "s_waitcnt vmcnt(1) lgkmcnt(0)"),
        (GFX8, "s_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s1", "s_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s1"),
        (GFX8, "s_setreg_imm32_b32 hwreg(1, 0, 4), 3", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0x3"),
        (GFX8, "v_madak_f32 v0, 0x5678, v1, 0x5678", "v_madak_f32 v0, 0x5678, v1, 0x5678"),
        (GFX8, "tbuffer_load_format_x v0, off, s[0:3], 0", "tbuffer_load_format_x v0, off, s[0:3], 0"),
        (GFX8, "tbuffer_load_format_x v0, off, s[0:3], 0 dfmt:4 nfmt:7",
            "tbuffer_load_format_x v0, off, s[0:3], 0 format:[BUF_DATA_FORMAT_32,BUF_NUM_FORMAT_FLOAT]"),
        (GFX8, "tbuffer_load_format_x v0, off, s[0:3], 0 format:4",
            "tbuffer_load_format_x v0, off, s[0:3], 0 format:[BUF_DATA_FORMAT_32]"),
        (GFX9, "image_sample v[0:3], v[4:6], s[8:15], s[16:19] dmask:0xf",
            "image_sample v[0:3], v4, s[8:15], s[16:19] dmask:0xf"),
        (GFX9, "v_pk_add_f16 v1, v2, v3 op_sel_hi:[1,0]", "v_pk_add_f16 v1, v2, v3 op_sel_hi:[1,0]"),
        (GFX9, "ds_write_b32 v1, v2 offset:16 gds", "ds_write_b32 v1, v2 offset:16 gds"),
        (GFX9, "v_interp_p1_f32 v0, v1, attr3.z", "v_interp_p1_f32_e32 v0, v1, attr3.z"),
    ],
)  # fmt: skip
def test_encodings(target, source, expected) -> None:  # type: ignore[no-untyped-def]
    assert text(decode(target, assemble(target, source))) == expected


@pytest.mark.parametrize(
    ("target", "source", "message"),
    [
        (GFX8, "v_nothing v1", "gfx803 has no instruction 'v_nothing'"),
        (GFX7, "v_add_u16 v1, v2, v3", "gfx700 has no instruction 'v_add_u16', which gfx800 has"),
        (GFX8, "v_ad_f32 v0, v1, v2", "gfx803 has no instruction 'v_ad_f32'; did you mean 'v_add_f32' or 'v_mad_f32'?"),
        (GFX8, "s_mov_b32 s1", "s_mov_b32 takes 2 operands here, not 1"),
        (GFX8, "s_mov_b32 s1, s2, s3", "s_mov_b32 takes 2 operands here, not 3"),
        (GFX8, "s_mov_b32 v1, s2", "'v1' must be a scalar register"),
        (GFX8, "s_mov_b32 s1, s[2:3]", "s[2:3] must name 1 register in this operand"),
        (GFX8, "s_mov_b64 s[1:2], s[4:5]", "s1 cannot begin 2 scalar registers: they begin at a multiple of 2"),
        (GFX8, "s_mov_b32 s1, nonsense", "'nonsense' must be a register or a number"),
        (GFX8, "s_mov_b32 s1, 0x123456789", "0x123456789 must fit into 32 bits"),
        (GFX8, "s_add_u32 s1, 1000, 1001", "1001 must equal the first literal constant: an instruction holds only one"),
        (GFX8, "s_mov_b32 s1, s2 glc", "the encoding SOP1 does not support glc"),
        (GFX8, "s_mov_b32 s1, s2 wide", "unknown modifier 'wide'"),
        (GFX8, "v_readlane_b32 s1, v2, v3", "v3 is not allowed here: the operand must be scalar"),
        (GFX8, "v_add_f32_e32 v1, v2, s3", "src1 must be a vector register in this encoding"),
        (GFX8, "v_add_f32_e64 v1, v2, 1000", "1000 must be an inline constant: VOP3A holds no literal"),
        (GFX8, "s_mov_b64 s[0:1], 1.1", "1.1 must be an inline constant: a literal of b64 is an integer"),
        (
            GFX8,
            "v_mov_b32 v0, 1e-40",
            "1e-40 underflows in an operand of type b32, expected a magnitude of at least 1.17549e-38",
        ),
        (GFX8, "v_add_u16 v0, 65520.0, v1", "65520.0 overflows in an operand of type u16"),
        (GFX7, "v_fma_f32 v0, v1, v2, 0.15915494", "0.15915494 must be an inline constant: VOP3A holds no literal"),
        (
            GFX8,
            "v_add_u32_e64 v1, s[2:3], -v2, v3",
            "-v2 must have no neg or abs: VOP3B does not support them for this operand",
        ),
        (GFX8, "v_add_f32_e64 v1, v2, v3 mul:8", "mul:8 must be one of mul:2, mul:4, div:2"),
        (GFX8, "v_mad_f32 v[1:2], v2, v3, v4", "v[1:2] must name 1 register in this operand"),
        (GFX8, "v_mov_b32_sdwa v1, v2 dst_sel:HALF", "dst_sel 'HALF' must be one of BYTE_0"),
        (GFX8, "v_mov_b32_dpp v1, v2 row_shl:16", "row_shl '16' must be a number from 0 to 0xf"),
        (GFX8, "v_mov_b32_dpp v1, v2 row_shl:0", "row_shl must be 1 to 15"),
        (GFX8, "v_mov_b32_dpp v1, v2 row_bcast:7", "unknown lane pattern row_bcast:7"),
        (GFX8, "v_mov_b32_dpp v1, v2 quad_perm:[0,1,2,4]", "quad_perm must be four lanes like [0,1,2,3]"),
        (GFX8, "v_mov_b32_dpp v1, v2 row_mask:16", "row_mask '16' must be a number from 0 to 0xf"),
        (GFX9, "v_pk_add_f16 v1, v2, v3 op_sel:[1,0,1]", "op_sel must have 2 numbers"),
        (GFX9, "v_pk_add_f16 v1, v2, v3 neg_lo:[2,0]", "neg_lo must be a list like [0,1]"),
        (GFX8, "ds_read_b32 v1, v2 offset:65536", "offset '65536' must be a number from 0 to 0xffff"),
        (GFX8, "ds_read2_b32 v[1:2], v2 offset0:256", "offset0 '256' must be a number from 0 to 0xff"),
        (
            GFX8,
            "buffer_load_dword v1, v2, s[0:3], 0 offen offset:4096",
            "offset = 4096 cannot be encoded, expected a value from 0 to 4095",
        ),
        (GFX8, "buffer_load_dword v1, v2, s[0:3], 0", "'v2' must be off"),
        (GFX8, "buffer_load_dword v1, off, s[2:5], 0", "srsrc must begin at a multiple of 4, not 2"),
        (GFX8, "tbuffer_load_format_x v1, off, s[0:3], 0 format:[X]", "unknown buffer format 'X'"),
        (GFX8, "s_load_dword s0, s[2:3], v1", "v1 must be one scalar register"),
        (GFX8, "s_load_dword s0, s[2:3], x", "'x' must be a register or a number"),
        (GFX8, "s_load_dword s0, s[2:3], s4 offset:4", "the encoding SMEM does not support offset"),
        (GFX9, "s_load_dword s0, s[2:3], 4 offset:4", "4 must be a register, since an offset is given already"),
        (GFX9, "global_load_dword v1, v2, s4", "s4 must name 2 registers in this operand"),
        (GFX8, "exp mrt9 v0, v0, v0, v0", "unknown export target 'mrt9'"),
        (GFX8, "exp mrt0 s0, v0, v0, v0", "'s0' must be a vector register or off"),
        (GFX8, "v_interp_p1_f32 v0, v1, attr64.x", "'attr64.x' must be like attr0.x, up to attr63"),
        (GFX8, "v_interp_mov_f32 v0, p1, attr0.x", "'p1' must be one of p10, p20, p0"),
        (GFX8, "s_branch nowhere", "there is no label 'nowhere'"),
        (GFX8, "s_branch 1+1", "'1+1' must be a label or a number"),
        (GFX8, "s_branch 70000", "'70000' must be a number up to 0xffff"),
        (GFX8, ".long x", "'x' must be a number"),
    ],
)
def test_refusals(target, source, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(WireError) as caught:
        assemble(target, source)
    assert message in str(caught.value)
    assert str(caught.value).endswith(f" at line 1 ({source})")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        *((f"v_mov_b32 v0, {text}", "8002007e") for text in ("0.0", "0.", ".0", "0.00", "0x0p0")),
        *((f"v_mov_b32 v0, {text}", "f002007e") for text in (".5", "0.50", "5.0e-1", "0x1p-1", "0.500000001")),
        *((f"v_mov_b32 v0, {text}", "f202007e") for text in ("1.", "1.00", "1.0e0", "10e-1", "1.00000001")),
        *((f"v_mov_b32 v0, {text}", "f402007e") for text in ("2.00", "20e-1", "0x40000000")),
        *((f"v_mov_b32 v0, {text}", "c102007e") for text in ("-1", "0xffffffff", "0xffffffffffffffff")),
        ("v_mov_b32 v0, 0x3e22f983", "f802007e"),
        ("v_mov_b32 v0, 0.159154943", "f802007e"),
        ("v_mov_b32 v0, -0.0", "ff02007e00000080"),
        ("v_fma_f32 v0, v1, v2, 0.0", "0000cbd101050202"),
        ("v_fma_f32 v0, v1, v2, 1.00", "0000cbd10105ca03"),
        ("v_add_f64 v[0:1], 0.0, v[2:3]", "000080d280040200"),
        ("v_add_f64 v[0:1], 1.0000001, v[2:3]", "000080d2f2040200"),
        ("v_add_f64 v[0:1], 0x3ff00000, v[2:3]", "000080d2f2040200"),
        ("v_add_f64 v[0:1], 0x3fc45f306dc9c882, v[2:3]", "000080d2f8040200"),
        ("v_cvt_f32_f64 v0, 0.15915494", "ff1e007e305fc43f"),
        ("v_add_f16 v0, 0.5001, v1", "f002003e"),
        ("v_add_f16 v0, -17, v1", "ff02003eefff0000"),
        ("v_add_u16 v0, 0x3c00, v1", "ff02004c003c0000"),
        ("v_pk_add_f16 v0, 0x3c00, v1", "00408fd3f2020218"),
        ("s_mov_b64 s[0:1], 0x3ff0000000000000", "f20180be"),
        ("s_mov_b64 s[0:1], 0xffffffff", "ff0180beffffffff"),
    ],
)
def test_constants_are_compared_by_value(line: str, expected: str) -> None:
    code = assemble_one(GFX9, line)
    assert code.hex() == expected
    assert assemble_one(GFX9, text(decode(GFX9, code))) == code


def test_a_name_without_suffix_reports_all_its_complaints() -> None:
    with pytest.raises(WireError) as caught:
        assemble(GFX8, "v_add_f32 v1, s2, 1000")
    assert "src1 must be a vector register in this encoding; or 1000 must be an inline" in str(caught.value)


def test_labels_stand_once_and_within_reach() -> None:
    with pytest.raises(WireError, match=r"^label a is defined twice, at line 2 \(a: s_nop 0\)$"):
        assemble(GFX8, "a: s_nop 0\na: s_nop 0")
    with pytest.raises(WireError, match=r"^far is 131072 bytes away, but a branch reaches 131072 bytes in steps of 4$"):
        assemble_one(GFX8, "s_branch far", 0, {"far": 0x20004})
    with pytest.raises(WireError, match=r"^there is no label 'far'$"):
        assemble_one(GFX8, "s_branch far", 0, {})
