"""Decoding and encoding: round trips, reserved encodings, and what belongs to other extensions."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from softcard.core.errors import GuestFault, WireError
from softcard.isa.pattern import Pattern
from softcard.isa.riscv.decode import SPECS, IllegalInstruction, decode, encode, length
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.table import BASE, HALFWORDS

FIELDS = ("rd", "rs1", "rs2", "rs3", "imm", "rm", "aq", "rl")


def fields_of(insn: Insn) -> dict[str, int]:
    return {name: getattr(insn, name) for name in FIELDS}


def ignored(pattern: Pattern) -> int:
    """The bits that decoding does not look at."""
    return (1 << pattern.width) - 1 & ~(pattern.mask | sum(f.mask for f in pattern.fields))


@pytest.mark.parametrize("name", [row.name for row in BASE])
@settings(max_examples=25)
@given(junk=st.integers(0, 0xFFFF_FFFF))
def test_words_round_trip(name: str, junk: int) -> None:
    pattern = BASE[name].pattern
    word = pattern.match | junk & ~pattern.mask
    assume(pattern.matches(word))
    insn = decode(word)
    assert (insn.name, insn.word, insn.length, insn.alias) == (name, word, 4, "")
    values = pattern.decode(word)
    assert fields_of(insn) == dict.fromkeys(FIELDS, 0) | {k: v for k, v in values.items() if k != "order"}
    assert encode(name, **values) == word & ~ignored(pattern)


@pytest.mark.parametrize("name", [row.name for row in HALFWORDS])
@settings(max_examples=25)
@given(junk=st.integers(0, 0xFFFF))
def test_parcels_round_trip(name: str, junk: int) -> None:
    pattern = HALFWORDS[name].pattern
    parcel = pattern.match | junk & ~pattern.mask
    assume(pattern.matches(parcel))
    insn = decode(parcel)
    assert (insn.alias, insn.word, insn.length) == (name, parcel, 2)
    assert encode(name, **pattern.decode(parcel)) == parcel


@given(st.integers(0, 0xFFFF).filter(lambda parcel: parcel & 3 != 3))
def test_an_expansion_is_the_base_instruction(parcel: int) -> None:
    try:
        insn = decode(parcel)
    except IllegalInstruction:
        return
    named = {f.name for f in BASE[insn.name].pattern.fields}
    full = decode(encode(insn.name, **{k: v for k, v in fields_of(insn).items() if k in named}))
    assert full.spec is insn.spec
    assert fields_of(full) == fields_of(insn)


def test_length() -> None:
    assert [length(parcel) for parcel in (0, 1, 2, 3, 0xFFFF)] == [2, 2, 2, 4, 4]


def test_specs_have_every_mnemonic() -> None:
    assert len(SPECS) == 164
    assert {"addi", "divuw", "amomaxu.d", "fnmadd.s", "fcvt.lu.d", "clmulr", "csrrci", "sfence.vma"} <= set(SPECS)
    assert SPECS["fmv.w.x"].extension == "F"
    assert SPECS["jalr"].flow == "indirect"


def test_compressed_immediates() -> None:
    assert decode(0x757D).imm == -0x1000  # c.lui a0,0xfffff
    assert decode(0x7139).imm == -64  # c.addi16sp
    assert decode(0x0808) == Insn(SPECS["addi"], 0x0808, 2, rd=10, rs1=2, imm=16, alias="c.addi4spn")
    assert decode(0x9002) == Insn(SPECS["ebreak"], 0x9002, 2, alias="c.ebreak")


@pytest.mark.parametrize(
    ("parcel", "alias"),
    [
        (0x0005, "c.nop"),
        (0x0501, "c.addi"),
        (0x4005, "c.li"),
        (0x6005, "c.lui"),
        (0x8002 | 5 << 2, "c.mv"),
        (0x9002 | 5 << 2, "c.add"),
        (0x0006, "c.slli"),
        (0x8001, "c.srli"),
        (0x8401, "c.srai"),
    ],
)
def test_hints_execute_as_their_expansion(parcel: int, alias: str) -> None:
    assert decode(parcel).alias == alias


@pytest.mark.parametrize(
    "parcel",
    [
        0x0000,  # the defined illegal instruction
        0x0008,  # c.addi4spn, immediate 0
        0x2001,  # c.addiw, rd = x0
        0x6101,  # c.addi16sp, immediate 0
        0x6501,  # c.lui, immediate 0
        0x4002,  # c.lwsp, rd = x0
        0x6002,  # c.ldsp, rd = x0
        0x8002,  # c.jr, rs1 = x0
        0x9C41,  # quadrant 1, funct 100 1 11 10
        0x9C61,  # quadrant 1, funct 100 1 11 11
        0x8000,  # quadrant 0, funct 100
    ],
)
def test_reserved_parcels_are_illegal(parcel: int) -> None:
    with pytest.raises(
        IllegalInstruction, match=f"illegal instruction {parcel:#06x}: no compressed instruction has this encoding"
    ) as caught:
        decode(parcel)
    assert caught.value.word == parcel
    assert isinstance(caught.value, GuestFault)


@pytest.mark.parametrize(
    "word",
    [
        0x0205_151B,  # slliw with bit 5 of the count
        0x4005_151B,  # slliw with funct7 of sraiw
        0x0400_0033 | 1 << 27,  # op with an unknown funct7
        0x1015_A52F,  # lr.w with rs2 = x1
        0x1005_852F,  # lr with width 0
        0x0000_4007,  # flq
        0x0000_1007,  # flh
        0x06C5_F553,  # fadd.q
        0x04C5_F553,  # fadd.h
        0xE005_2553,  # fclass with funct3 2
        0x2005_3553,  # fsgnj with funct3 3
        0x5805_7553 | 1 << 20,  # fsqrt with rs2 = x1
        0x0020_0073,  # uret
        0x7B20_0073,  # dret
        0x0000_0073 | 1 << 7,  # ecall with rd
        0x0000_4073,  # system, funct3 4
        0x0000_208F,  # misc-mem, funct3 2, with rd: cache-block operations have none
        0x0000_000B,  # custom-0
    ],
)
def test_unknown_words_are_illegal(word: int) -> None:
    with pytest.raises(IllegalInstruction, match=f"illegal instruction {word:#010x}: RV64GCV_Zbc"):
        decode(word)


@pytest.mark.parametrize("word", [0x0000_001F, 0x0000_003F, 0x0000_007F, 0xFFFF_FFFF])
def test_longer_instructions_are_illegal(word: int) -> None:
    with pytest.raises(IllegalInstruction, match="longer than 32 bits"):
        decode(word)


@pytest.mark.parametrize(
    ("word", "name"),
    [
        (0x0D00_72D7, "vsetvli"),
        (0xC100_7057, "vsetivli"),
        (0x8000_7057, "vsetvl"),
        (0x0205_6007, "vle32.v"),
        (0x0205_0027, "vse8.v"),
        (0x0205_7007, "vle64.v"),
        (0x0205_5027, "vse16.v"),
        (0xE8A8_52A7, "vssseg8e16.v"),
        (0x0685_7007, "vluxei64.v"),
        (0x02B5_0007, "vlm.v"),
        (0x0285_6007, "vl1re32.v"),
        (0x0285_0027, "vs1r.v"),
        (0x0305_6007, "vle32ff.v"),
        (0x0220_0057, "vadd.vv"),
        (0x3AC2_8057, "vrgatherei16.vv"),
        (0x3ACB_3057, "vslideup.vi"),
        (0xFEE2_9457, "vfwnmsac.vv"),
        (0xB220_9057, "vfmacc.vv"),
        (0x4A01_1057, "vfcvt.f.xu.v"),
    ],
)
def test_vector_instructions_decode(word: int, name: str) -> None:
    assert decode(word).name == name


@pytest.mark.parametrize("word", [0x1205_6007, 0x4A0C_1057, 0x0265_6007, 0x5221_0057])
def test_reserved_vector_encodings_are_illegal(word: int) -> None:
    """mew = 1; no such unary operation; lumop 00110; no such OPIVV operation."""
    with pytest.raises(IllegalInstruction, match=" RV64GCV_Zbc"):
        decode(word)


def test_static_rounding_modes_5_and_6_decode() -> None:
    assert [decode(encode("fadd.s", rm=rm)).rm for rm in (5, 6)] == [5, 6]


def test_fences_ignore_what_they_do_not_use() -> None:
    assert decode(0xFFFF_8F8F).name == "fence"
    assert decode(0xFFFF_9F8F).name == "fence.i"
    assert decode(0x8330_000F).name == "fence.tso"
    assert decode(0xFFFF_8F8F).rd == 0


def test_immediate_csr_number_and_zimm() -> None:
    insn = decode(encode("csrrwi", rd=10, imm=0xC22, rs1=31))
    assert (insn.imm, insn.rs1, insn.rd) == (0xC22, 31, 10)


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("nop", {}, "unknown instruction 'nop', at instruction nop"),
        (
            "addi",
            {"imm": 2048},
            "imm = 2048 cannot be encoded, expected a value from -2048 to 2047, at instruction addi",
        ),
        ("addi", {"rs2": 1}, "unknown field rs2, expected imm, rd, rs1, at instruction addi"),
        ("beq", {"imm": 3}, "expected a value from -4096 to 4094 in steps of 2, at instruction beq"),
        ("c.addi", {"rd": 0}, "rd = 0 is reserved in this encoding, at instruction c.addi"),
        ("c.lw", {"rd": 7, "rs1": 8}, "rd = 7 cannot be encoded, expected a value from 8 to 15, at instruction c.lw"),
    ],
)
def test_bad_fields_are_refused(name: str, fields: dict[str, int], message: str) -> None:
    with pytest.raises(WireError, match=message):
        encode(name, **fields)
