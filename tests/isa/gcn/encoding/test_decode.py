"""Decoding: the fields of every form, literals, and every way in which a word is no instruction."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softcard.core.errors import ModelBug, WireError
from softcard.isa.gcn.asm.assembler import assemble_one
from softcard.isa.gcn.asm.printer import text
from softcard.isa.gcn.encoding.decode import IllegalInstruction, decode
from softcard.isa.gcn.encoding.encode import encode, encode_insn
from softcard.isa.gcn.insn import ops
from softcard.isa.gcn.operations.table import OPS, find, named, opcode_table
from softcard.isa.gcn.target import TARGETS

GFX7, GFX8, GFX9 = (TARGETS[name] for name in ("gfx700", "gfx803", "gfx900"))
GFX908, GFX90A, GFX942, GFX950 = (TARGETS[name] for name in ("gfx908", "gfx90a", "gfx942", "gfx950"))
FORMS = [
    # Words made by hand from the encoding diagrams of the manuals.
    (GFX7, [0xBE82_0304], "s_mov_b32", "SOP1", {"sdst": 2, "ssrc0": 4}),
    (GFX8, [0xBE82_0004], "s_mov_b32", "SOP1", {"sdst": 2, "ssrc0": 4}),
    (GFX8, [0x8002_C104], "s_add_u32", "SOP2", {"sdst": 2, "ssrc0": 4, "ssrc1": 193}),
    (GFX8, [0xBF00_0604], "s_cmp_eq_i32", "SOPC", {"ssrc0": 4, "ssrc1": 6}),
    (GFX8, [0xB002_FFFF], "s_movk_i32", "SOPK", {"sdst": 2, "simm16": 0xFFFF}),
    (GFX8, [0xBF82_FFFE], "s_branch", "SOPP", {"simm16": 0xFFFE}),
    (GFX7, [0xC002_0D04], "s_load_dword", "SMRD", {"sdst": 4, "sbase": 12, "imm": 1, "offset": 4}),
    (GFX8, [0xC002_0106, 0x10], "s_load_dword", "SMEM", {"sdata": 4, "sbase": 12, "imm": 1, "glc": 0, "offset": 16}),
    (GFX9, [0xC002_4106, 0x0600_0010], "s_load_dword", "SMEM",
        {"sdata": 4, "sbase": 12, "imm": 1, "glc": 0, "nv": 0, "soffset_en": 1, "soffset": 3, "offset": 16}),
    (GFX9, [0xC002_0106, 0x001F_FFF0], "s_load_dword", "SMEM",
        {"sdata": 4, "sbase": 12, "imm": 1, "glc": 0, "nv": 0, "soffset_en": 0, "soffset": 0, "offset": -16}),
    (GFX8, [0x7E06_0302], "v_mov_b32", "VOP1", {"vdst": 3, "src0": 258}),
    (GFX8, [0x0206_0802], "v_add_f32", "VOP2", {"vdst": 3, "src0": 2, "src1": 260}),
    (GFX8, [0x7C82_0902], "v_cmp_lt_f32", "VOPC", {"src0": 258, "src1": 260}),
    (GFX9, [0xD101_8404, 0x4002_0902], "v_add_f32", "VOP3A",
        {"vdst": 4, "src0": 258, "src1": 260, "src2": 0, "abs": 4, "neg": 2, "omod": 0, "clamp": 1, "op_sel": 0}),
    (GFX9, [0xD041_000A, 0x0002_0902], "v_cmp_lt_f32", "VOP3A",
        {"sdst": 10, "src0": 258, "src1": 260, "src2": 0, "abs": 0, "neg": 0, "omod": 0, "clamp": 0, "op_sel": 0}),
    (GFX9, [0xD119_0604, 0x0002_0902], "v_add_co_u32", "VOP3B",
        {"vdst": 4, "sdst": 6, "src0": 258, "src1": 260, "src2": 0, "neg": 0, "omod": 0, "clamp": 0}),
    (GFX9, [0xD1FE_0004, 0x041A_0902], "v_add_lshl_u32", "VOP3A",
        {"vdst": 4, "src0": 258, "src1": 260, "src2": 262, "abs": 0, "neg": 0, "omod": 0, "clamp": 0, "op_sel": 0}),
    (GFX9, [0xD38F_4804, 0x3802_0902], "v_pk_add_f16", "VOP3P",
        {"vdst": 4, "src0": 258, "src1": 260, "src2": 0, "neg": 1, "neg_hi": 0, "op_sel": 1, "op_sel_hi": 7,
         "clamp": 0}),
    (GFX9, [0x7E08_02F9, 0x0086_1502], "v_mov_b32", "VOP1_SDWA",
        {"vdst": 4, "src0": 2, "dst_sel": 5, "dst_unused": 2, "clamp": 0, "omod": 0, "src0_sel": 6, "src0_sext": 0,
         "src1_sel": 0, "src1_sext": 0, "abs": 0, "neg": 0}),
    (GFX9, [0x7C82_08F9, 0x0406_8A02], "v_cmp_lt_f32", "VOPC_SDWA",
        {"src0": 258, "src1": 260, "sdst": 10, "src0_sel": 6, "src0_sext": 0, "src1_sel": 4, "src1_sext": 0,
         "abs": 0, "neg": 0}),
    (GFX9, [0x0206_08FA, 0xF1A9_3802], "v_add_f32", "VOP2_DPP",
        {"vdst": 3, "src0": 258, "src1": 260, "dpp_ctrl": 0x138, "bound_ctrl": 1, "bank_mask": 1, "row_mask": 15,
         "abs": 3, "neg": 0}),
    (GFX7, [0xD8DE_0201, 0x0400_0002], "ds_read2_b32", "DS",
        {"vdst": 4, "addr": 2, "data0": 0, "data1": 0, "offset0": 1, "offset1": 2, "gds": 1}),
    (GFX8, [0xD86F_0201, 0x0400_0002], "ds_read2_b32", "DS",
        {"vdst": 4, "addr": 2, "data0": 0, "data1": 0, "offset0": 1, "offset1": 2, "gds": 1}),
    (GFX7, [0xDC33_0000, 0x0480_0002], "flat_load_dword", "FLAT",
        {"vdst": 4, "addr": 2, "data": 0, "glc": 1, "slc": 1, "tfe": 1}),
    (GFX9, [0xDC50_9FF0, 0x0406_0002], "global_load_dword", "FLAT",
        {"vdst": 4, "addr": 2, "data": 0, "saddr": 6, "seg": 2, "offset": -16, "glc": 0, "slc": 0, "lds": 0, "nv": 0}),
    (GFX9, [0xDC50_4010, 0x0406_0002], "scratch_load_dword", "FLAT",
        {"vdst": 4, "addr": 2, "data": 0, "saddr": 6, "seg": 1, "offset": 16, "glc": 0, "slc": 0, "lds": 0, "nv": 0}),
    (GFX7, [0xE030_8010, 0x8042_0402], "buffer_load_dword", "MUBUF",
        {"vdata": 4, "vaddr": 2, "srsrc": 8, "soffset": 128, "offset": 16, "offen": 0, "idxen": 0, "glc": 0, "lds": 0,
         "slc": 1, "tfe": 0, "addr64": 1}),
    (GFX8, [0xE052_7010, 0x8082_0402], "buffer_load_dword", "MUBUF",
        {"vdata": 4, "vaddr": 2, "srsrc": 8, "soffset": 128, "offset": 16, "offen": 1, "idxen": 1, "glc": 1, "lds": 0,
         "slc": 1, "tfe": 1}),
    (GFX8, [0xEA20_0010, 0x8042_0402], "tbuffer_load_format_x", "MTBUF",
        {"vdata": 4, "vaddr": 2, "srsrc": 8, "soffset": 128, "offset": 16, "offen": 0, "idxen": 0, "glc": 0,
         "slc": 1, "tfe": 0, "dfmt": 4, "nfmt": 4}),
    (GFX9, [0xF080_5F00, 0x8062_0804], "image_sample", "MIMG",
        {"vdata": 8, "vaddr": 4, "srsrc": 8, "ssamp": 12, "dmask": 15, "unorm": 1, "glc": 0, "slc": 0, "da": 1,
         "r128": 0, "tfe": 0, "lwe": 0, "d16": 1}),
    (GFX8, [0xC400_18DF, 0x0403_0201], "exp", "EXP",
        {"tgt": 13, "en": 15, "compr": 0, "done": 1, "vm": 1, "vsrc0": 1, "vsrc1": 2, "vsrc2": 3, "vsrc3": 4}),
    (GFX7, [0xC808_0502], "v_interp_p1_f32", "VINTRP", {"vdst": 2, "vsrc": 2, "attr": 1, "chan": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("target", "words", "name", "form", "fields"), FORMS)
def test_fields(target, words, name, form, fields) -> None:  # type: ignore[no-untyped-def]
    insn = decode(target, words, 0x100)
    assert (insn.name, insn.form, dict(insn.fields)) == (name, form, fields)
    assert (insn.pc, insn.size, insn.words, insn.literal) == (0x100, 4 * len(words), tuple(words), None)
    assert encode_insn(insn) == b"".join(word.to_bytes(4, "little") for word in words)


@pytest.mark.parametrize(
    ("target", "words", "size", "literal"),
    [
        (GFX8, [0xBE82_00FF, 7], 8, 7),
        (GFX8, [0x8002_FF04, 7], 8, 7),
        (GFX8, [0xBF00_FF04, 7], 8, 7),
        (GFX8, [0x7E06_02FF, 7], 8, 7),
        (GFX8, [0x0206_08FF, 7], 8, 7),
        (GFX8, [0x2E06_0902, 7], 8, 7),
        (GFX8, [0xBA00_0001, 7], 8, 7),
        (GFX7, [0xC002_0CFF, 7], 8, 7),
        (GFX8, [0x0207_FE02, 7], 4, None),
        (GFX8, [0xBE82_1CFF, 7], 4, None),
        (GFX8, [0xB002_00FF, 7], 4, None),
    ],
)
def test_literals(target, words, size, literal) -> None:  # type: ignore[no-untyped-def]
    insn = decode(target, words)
    assert (insn.size, insn.literal) == (size, literal)
    assert insn.words == tuple(words[: size // 4])
    assert insn.next_pc == size


def test_bytes_and_words_are_the_same() -> None:
    code = bytes.fromhex("ff00 82be 0700 0000 0000 0000 01")
    insn = decode(GFX8, code)
    assert text(insn) == "s_mov_b32 s2, lit(0x7)"
    assert text(decode(GFX8, memoryview(code))) == text(insn)


def test_unused_fields_are_ignored() -> None:
    """Bits that compilers leave in fields an operation has no use for."""
    assert text(decode(GFX8, [0xD86C_0000, 0x04FF_FF02])) == "ds_read_b32 v4, v2"
    assert text(decode(GFX8, [0xC091_E404, 0xFFFF_FFFF])) == "s_memtime s[16:17]"
    assert text(decode(GFX9, [0xD101_7804, 0x07FE_0902])) == "v_add_f32_e64 v4, v2, v4"
    assert text(decode(GFX8, [0xE0F8_7FFF, 0xFFFF_FFFF])) == "buffer_wbinvl1"
    assert text(decode(GFX8, [0xBE82_1C04 | 0x00FF])) == "s_getpc_b64 s[2:3]"


@pytest.mark.parametrize(
    ("target", "words", "message"),
    [
        (GFX8, [], "the code ends before this instruction, at pc 0x40"),
        (GFX8, [0xC002_0106], "illegal instruction 0xc0020106: the code ends inside it, at pc 0x40"),
        (GFX8, [0xBE82_00FF], "illegal instruction 0xbe8200ff: the code ends inside it, at pc 0x40"),
        (GFX8, [0xCC00_0000, 0], "illegal instruction 0xcc000000: gfx803 has no such encoding, at pc 0x40"),
        (GFX8, [0xBE82_FF04], "illegal instruction 0xbe82ff04: gfx803 has no SOP1 opcode 0xff, at pc 0x40"),
        (GFX8, [0xD3FF_0000, 0], "illegal instruction 0xd3ff0000: gfx803 has no VOP3A opcode 0x3ff, at pc 0x40"),
        (GFX8, [0xD117_0004, 0x0002_0902], "gfx803 has no VOP3A opcode 0x117, at pc 0x40"),
        (GFX9, [0xDC50_C000, 0], "illegal instruction: segment 3 is reserved, at pc 0x40"),
        (
            GFX9,
            [0x7C82_08FA, 0xFF00_E402],
            "illegal instruction 0x7c8208fa: gfx900 has no VOPC_DPP encoding, at pc 0x40",
        ),
        (GFX7, [0x7E06_02F9, 0], "illegal instruction: operand code 249 is reserved on gfx700, at pc 0x40"),
        (GFX9, [0x7E06_20F9, 0x0006_0602], "v_cvt_f64_f32 has no SDWA form"),
        (GFX9, [0x2C06_08F9, 0x0606_0602], "v_mac_f32 has no SDWA form"),
        (GFX9, [0x7E06_02F9, 0x0006_1E02], "dst_unused 3 is reserved"),
        (GFX9, [0x7E06_02F9, 0x0007_0602], "selection 7 is reserved"),
        (GFX9, [0x7E06_02FA, 0xFF01_5002], "v_mov_b32 has no DPP form with control 0x150"),
        (GFX9, [0x7E06_20FA, 0xFF00_E402], "v_cvt_f64_f32 has no DPP form with control 0xe4"),
        (GFX8, [0xBEFD_0004], "operand code 125 is reserved on gfx803"),
        (GFX8, [0xBE83_0104], "s3 cannot begin 2 scalar registers: they begin at a multiple of 2"),
        (GFX8, [0xBE82_017C], "operand code 124 cannot begin 2 scalar registers on gfx803"),
        (GFX8, [0xBE82_00D1], "operand code 209 is reserved on gfx803"),
        (GFX8, [0xBE82_00EB], "operand code 235 is reserved on gfx803"),
        (GFX7, [0xBE82_03F8], "operand code 248 is reserved on gfx700"),
        (GFX8, [0xD8EC_0000, 0xFF00_0002], "v255 cannot begin 2 registers: v255 is the last"),
        (
            GFX9,
            [0xD11C_0604, 0x0412_0902 | 0x1FF << 18],
            "operand code 511 must be a register pair for a lane mask",
        ),
        (GFX9, [0xD289_0004, 0x0002_0902], "v4 is not allowed here: the operand must be scalar"),
        (GFX8, [0xD101_0004, 0x0002_08FF], "operand code 255 is reserved on gfx803"),
        (GFX8, [0x7FFE_0502], "operand code 255 must be a scalar register"),
        (GFX7, [0xC002_0CF0], "operand code 240 must be a scalar register"),
        (GFX90A, [0xD3B0_4003, 0x1C1A_0902], "v3 cannot begin 2 registers on gfx90a: they begin at an even number"),
        (GFX90A, [0xD3B0_4002, 0x1C1A_0903], "v3 cannot begin 2 registers on gfx90a: they begin at an even number"),
        (GFX90A, [0xDC54_8000, 0x037F_0002], "v3 cannot begin 2 registers on gfx90a: they begin at an even number"),
        (GFX90A, [0xD3CC_8001, 0x0202_0500], "a1 cannot begin 16 registers on gfx90a: they begin at an even number"),
        (GFX942, [0xE07C_1000, 0x8001_0300], "v3 cannot begin 4 registers on gfx942: they begin at an even number"),
        (GFX942, [0xD89A_0000, 0x0000_0300], "v3 cannot begin 2 registers on gfx942: they begin at an even number"),
        (GFX942, [0xD208_0001, 0x0411_0502], "v1 cannot begin 2 registers on gfx942: they begin at an even number"),
        (GFX950, [0xD3D4_0000, 0x0402_1105], "v5 cannot begin 4 registers on gfx950: they begin at an even number"),
        (GFX942, [0xE0A8_8000, 0], "gfx942 has no MUBUF opcode 0x2a"),
        (GFX950, [0xD3BE_8000, 0x0402_0500], "gfx950 has no VOP3P opcode 0x3e"),
        (GFX90A, [0xD3F0_8000, 0x0402_0500], "gfx90a has no VOP3P opcode 0x70"),
        (GFX908, [0xD3B0_4002, 0x1C1A_0902], "gfx908 has no VOP3P opcode 0x30"),
        (GFX90A, [0x7E00_7000], "gfx90a has no VOP1 opcode 0x38"),
        (GFX942, [0x2C00_0000], "gfx942 has no VOP2 opcode 0x16"),
    ],
)
def test_refusals(target, words, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(IllegalInstruction, match="at pc 0x40") as caught:
        decode(target, words, 0x40)
    assert message in str(caught.value)


def test_the_words_of_a_refusal() -> None:
    with pytest.raises(IllegalInstruction) as caught:
        decode(GFX8, [0xBE83_0104, 5])
    assert caught.value.words == (0xBE83_0104, 5)


@pytest.mark.parametrize("target", [GFX7, GFX8, GFX9, TARGETS["gfx906"]], ids=str)
@given(words=st.lists(st.integers(0, 0xFFFF_FFFF), min_size=3, max_size=3))
@settings(max_examples=300)
def test_any_words(target, words) -> None:  # type: ignore[no-untyped-def]
    """They are an instruction that its text gives back, or a typed fault with the pc."""
    insn, refusal = None, ""
    try:
        insn = decode(target, words, 0x40)
    except IllegalInstruction as error:
        refusal = str(error)
    if insn is None:
        assert "at pc 0x40" in refusal
        return
    again = assemble_one(target, text(insn), 0x40)
    assert text(decode(target, again, 0x40)) == text(insn)
    assert len(again) == insn.size


def test_two_operations_on_one_opcode_are_our_mistake() -> None:
    rows = ops("vop1", (("a", 1, 1, 1, "b32 = b32", None), ("b", None, 1, 1, "b32 = b32", None)))
    assert opcode_table(rows, GFX7)
    with pytest.raises(ModelBug, match=r"gfx803: b and a have the same encoding vop1 0x1$"):
        opcode_table(rows, GFX8)


@pytest.mark.parametrize("target", TARGETS.values(), ids=str)
def test_every_table_holds_together(target) -> None:  # type: ignore[no-untyped-def]
    table = opcode_table(OPS, target)
    for (family, code), op in table.items():
        assert find(target, family, code) is op
        assert op in named(target, op.names[target.level])
    assert find(target, "sop1", 0xFF) is None
    assert named(target, "v_nothing") == ()


@pytest.mark.parametrize(
    ("form", "fields", "message"),
    [
        ("VOP2", {"vdst": 256}, "vdst = 256 cannot be encoded, expected a value from 0 to 255"),
        ("VOP2", {"src1": 4}, "src1 must be a vector register in this encoding"),
        ("VOP2", {"glc": 1}, "unknown field glc, expected op, src0, src1, vdst"),
        ("VOP2_SDWA", {"src0": 4}, "src0 must be a vector register in this encoding"),
        ("SMRD", {}, "gfx803 has no SMRD encoding"),
    ],
)
def test_fields_that_do_not_fit(form, fields, message) -> None:  # type: ignore[no-untyped-def]
    (op,) = named(GFX8, "v_add_f32")
    with pytest.raises(WireError) as caught:
        encode(GFX8, op, form, fields)
    assert message in str(caught.value)


def test_resources_begin_at_multiples_of_four() -> None:
    (op,) = named(GFX8, "buffer_load_dword")
    with pytest.raises(WireError, match=r"^srsrc must begin at a multiple of 4, not 6$"):
        encode(GFX8, op, "MUBUF", {"srsrc": 6})
    (compare,) = named(GFX8, "v_cmp_lt_f32")
    with pytest.raises(WireError, match=r"^an SDWA comparison can write only VCC before GFX9$"):
        encode(GFX8, compare, "VOPC_SDWA", {"src0": 256, "src1": 256, "sdst": 4})
