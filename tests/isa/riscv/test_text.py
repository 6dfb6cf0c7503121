"""Assembly text and the assembler: each undoes the other."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from softcard.core.errors import WireError
from softcard.isa.riscv.assembler import text
from softcard.isa.riscv.decode import IllegalInstruction, assemble, decode, encode, length
from softcard.isa.riscv.table import BASE


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (0x0045_8513, "addi a0,a1,4"),
        (0xFFFF_F537, "lui a0,0xfffff"),
        (0xFE05_1AE3, "bne a0,zero,0xff4"),
        (0x0000_00EF, "jal ra,0x1000"),
        (0xFFC5_00E7, "jalr ra,-4(a0)"),
        (0x0285_1513, "slli a0,a0,0x28"),
        (0x3005_9573, "csrrw a0,mstatus,a1"),
        (0x1232_D573, "csrrwi a0,0x123,5"),
        (0x06B6_252F, "amoadd.w.aqrl a0,a1,(a2)"),
        (0x1405_A52F, "lr.w.aq a0,(a1)"),
        (0x00C5_F553, "fadd.s fa0,fa1,fa2"),
        (0x00C5_9553, "fadd.s fa0,fa1,fa2,rtz"),
        (0x00C5_D553, "fadd.s fa0,fa1,fa2,unknown"),
        (0xD205_0553, "fcvt.d.w fa0,a0"),
        (0x0230_000F, "fence r,rw"),
        (0x0000_000F, "fence unknown,unknown"),
        (0x8330_000F, "fence.tso"),
        (0x0000_0073, "ecall"),
        (0x0505, "c.addi a0,1"),
        (0x0001, "c.nop"),
        (0x0005, "c.nop 1"),
        (0xC101, "c.beqz a0,0x1000"),
        (0x4532, "c.lwsp a0,12(sp)"),
        (0x7139, "c.addi16sp sp,-64"),
    ],
)
def test_text(word: int, expected: str) -> None:
    assert text(decode(word), 0x1000) == expected


def test_targets_without_pc_are_relative() -> None:
    assert text(decode(encode("beq", imm=-8))) == "beq zero,zero,.-8"
    assert text(decode(encode("c.j", imm=6))) == "c.j .+6"


def test_targets_wrap_at_the_end_of_the_address_space() -> None:
    assert text(decode(encode("jal", imm=-4)), 0) == "jal zero,0xfffffffffffffffc"


@given(st.integers(0, 0xFFFF), st.sampled_from([None, 0x1_0000]))
def test_parcels_assemble_from_their_text(parcel: int, pc: int | None) -> None:
    try:
        insn = decode(parcel) if length(parcel) == 2 else None
    except IllegalInstruction:
        return
    if insn is not None:
        assert assemble(text(insn, pc), pc or 0) == parcel.to_bytes(2, "little")


@pytest.mark.parametrize("name", [row.name for row in BASE if row.name != "fence"])
@settings(max_examples=25)
@given(junk=st.integers(0, 0xFFFF_FFFF))
def test_words_assemble_from_their_text(name: str, junk: int) -> None:
    pattern = BASE[name].pattern
    word = pattern.match | junk & sum(f.mask for f in pattern.fields)
    insn = decode(word)
    assume(insn.rm not in (5, 6))
    assert assemble(text(insn, 0x8000_0000), 0x8000_0000) == word.to_bytes(4, "little")


@given(st.integers(0, 0xFF).filter(lambda order: order != 0x33))
def test_fences_assemble_from_their_text(order: int) -> None:
    word = encode("fence", order=order)
    assert assemble(text(decode(word))) == word.to_bytes(4, "little")


def test_a_program_with_labels_and_comments() -> None:
    code = assemble(
        """
        start: addi t0, zero, 3     # count
        loop:
            c.addi t0, -1; bne t0, zero, loop
            c.j end
            jal x0, start
        end: jalr zero, 0(x1)
        """,
        0x4000,
    )
    words = ["addi t0,zero,3", "c.addi t0,-1", "bne t0,zero,0x4004", "c.j 0x4010", "jal zero,0x4000", "jalr zero,0(ra)"]
    shown, pc = [], 0
    while pc < len(code):
        size = length(int.from_bytes(code[pc : pc + 2], "little"))
        shown.append(text(decode(int.from_bytes(code[pc : pc + size], "little")), 0x4000 + pc))
        pc += size
    assert shown == words


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nop", r"unknown instruction 'nop'; did you mean 'c.nop'\? at line 1 \(nop\)"),
        ("addi a0,a1", r"addi needs operands 'rd, rs1, imm', not 'a0,a1', at line 1 \(addi a0,a1\)"),
        ("\naddi a0,a1,a2", r"addi: 'a2' is not valid for operand imm, at line 2"),
        ("addi a0,q1,2", r"addi: 'q1' is not valid for operand rs1, at line 1"),
        ("fadd.s a0,fa1,fa2", "fadd.s: 'a0' is not valid for operand fd"),
        ("fadd.s fa0,fa1,fa2,up", "fadd.s: 'up' is not valid for operand rm"),
        ("fadd.s fa0,fa1,fa2,unknown", "fadd.s: 'unknown' is not valid for operand rm"),
        ("addi a0,a1,4096", "imm = 4096 cannot be encoded, expected a value from -2048 to 2047"),
        ("lui a0,0x100000", "lui: '0x100000' is not valid for operand high"),
        ("c.lwsp zero,0(sp)", "rd = 0 is reserved in this encoding"),
        ("c.addi4spn a0,sp,0", "imm = 0 is reserved in this encoding"),
        ("c.j away", "c.j: 'away' is not valid for operand target"),
        ("x: addi a0,a0,1\nx: ecall", "label x is defined twice, at line 2"),
        ("fence rw", "fence: 'rw' is not valid for operand order|fence needs operands"),
        ("fence wr,rw", "fence: 'wr,rw' is not valid for operand order"),
        ("csrrw a0,mfoo,a1", "csrrw: 'mfoo' is not valid for operand csr"),
        ("add.aq a0,a1,a2", "unknown instruction 'add.aq'"),
    ],
)
def test_bad_text_is_refused_with_its_line(source: str, message: str) -> None:
    with pytest.raises(WireError, match=message):
        assemble(source)


@settings(max_examples=50)
@given(st.text(max_size=40))
def test_any_text_is_code_or_a_wire_error(source: str) -> None:
    with contextlib.suppress(WireError):
        assert isinstance(assemble(source), bytes)
