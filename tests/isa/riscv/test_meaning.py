"""Meanings: widths that every engine may rely on, and integer results against the manual's words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from softcard.isa.riscv.algebra import Algebra
from softcard.isa.riscv.decode import SPECS, decode, encode
from softcard.isa.riscv.insn import Insn, Spec
from softcard.isa.riscv.table import BASE
from tests.isa.riscv.widths import Checked

FLOWS = {"next", "branch", "jump", "indirect", "system"}
EXTENSIONS = {"I", "M", "A", "F", "D", "Zicsr", "Zifencei", "Zbc", "Priv"}
M64 = (1 << 64) - 1
NUMBERS = st.one_of(
    st.integers(0, M64),
    st.sampled_from([0, 1, M64, 1 << 63, (1 << 63) - 1, 1 << 31, (1 << 31) - 1, 0xFFFF_FFFF, M64 << 31 & M64]),
)


def s(n: int, w: int = 64) -> int:
    n &= (1 << w) - 1
    return n - (1 << w) if n >> w - 1 else n


@pytest.mark.parametrize("spec", SPECS.values(), ids=lambda spec: spec.name)
def test_spec_is_complete(spec: Spec) -> None:
    assert callable(spec.semantics)
    assert spec.flow in FLOWS
    assert spec.extension in EXTENSIONS


@pytest.mark.parametrize("spec", [spec for spec in SPECS.values() if spec.flow != "system"], ids=lambda spec: spec.name)
def test_semantics_keeps_to_the_algebra(spec: Spec) -> None:
    row = BASE[spec.name]
    for junk in (0, 0xFFFF_FFFF, 0x5555_5555, 0xAAAA_AAAA, 0x0841_0842):
        o = Checked({n: 0x1111_1111_1111_1111 * n & M64 for n in range(32)})
        word = row.pattern.match | junk & ~row.pattern.mask
        if row.pattern.matches(word):
            spec.semantics(o, decode(word))
            assert [entry for entry in o.log if entry[0] == "pc"] == ([o.log[-1]] if spec.flow != "next" else [])


def test_checking_algebra_is_an_algebra() -> None:
    names = {name for name in dir(Algebra) if not name.startswith("_")}
    assert names <= set(dir(Checked()))


def run(name: str, a: int = 0, b: int = 0, **fields: int) -> int:
    o = Checked({10: a, 11: b})
    insn = decode(encode(name, rd=12, rs1=10, **({"rs2": 11} if "rs2" in BASE[name].pattern.text else {}), **fields))
    insn.spec.semantics(o, insn)
    return o.regs.get(12, 0)


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def reference_div(w: int) -> Callable[[int, int], int]:
    return lambda a, b: -1 if s(b, w) == 0 else s(quotient(s(a, w), s(b, w)), w)


def reference_rem(w: int) -> Callable[[int, int], int]:
    return lambda a, b: s(a, w) if s(b, w) == 0 else s(a, w) - s(b, w) * quotient(s(a, w), s(b, w))


def carry_less(a: int, b: int) -> int:
    product = 0
    for k in range(64):
        product ^= (a << k) * (b >> k & 1)
    return product


L = 0xFFFF_FFFF
REFERENCE: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "sll": lambda a, b: a << (b & 63),
    "slt": lambda a, b: s(a) < s(b),
    "sltu": lambda a, b: a < b,
    "xor": lambda a, b: a ^ b,
    "srl": lambda a, b: a >> (b & 63),
    "sra": lambda a, b: s(a) >> (b & 63),
    "or": lambda a, b: a | b,
    "and": lambda a, b: a & b,
    "addw": lambda a, b: s(a + b, 32),
    "subw": lambda a, b: s(a - b, 32),
    "sllw": lambda a, b: s(a << (b & 31), 32),
    "srlw": lambda a, b: s((a & L) >> (b & 31), 32),
    "sraw": lambda a, b: s(a, 32) >> (b & 31),
    "mul": lambda a, b: a * b,
    "mulh": lambda a, b: s(a) * s(b) >> 64,
    "mulhsu": lambda a, b: s(a) * b >> 64,
    "mulhu": lambda a, b: a * b >> 64,
    "div": reference_div(64),
    "divu": lambda a, b: a // b if b else -1,
    "rem": reference_rem(64),
    "remu": lambda a, b: a % b if b else a,
    "mulw": lambda a, b: s(a * b, 32),
    "divw": reference_div(32),
    "divuw": lambda a, b: s((a & L) // (b & L), 32) if b & L else -1,
    "remw": reference_rem(32),
    "remuw": lambda a, b: s((a & L) % (b & L) if b & L else a, 32),
    "clmul": carry_less,
    "clmulh": lambda a, b: carry_less(a, b) >> 64,
    "clmulr": lambda a, b: carry_less(a, b) >> 63,
}


@given(NUMBERS, NUMBERS)
@example(1 << 63, M64)
@example(1 << 31, M64)
@example(M64, 0)
def test_register_operations(a: int, b: int) -> None:
    for name, f in REFERENCE.items():
        assert run(name, a, b) == f(a, b) & M64, name


@given(NUMBERS, st.integers(-2048, 2047))
def test_immediate_operations(a: int, imm: int) -> None:
    for name in ("addi", "slti", "sltiu", "xori", "ori", "andi"):
        assert run(name, a, imm=imm) == REFERENCE[name.replace("i", "", 1)](a, imm & M64) & M64, name
    assert run("addiw", a, imm=imm) == s(a + imm, 32) & M64


@given(NUMBERS, st.integers(0, 63))
def test_immediate_shifts(a: int, n: int) -> None:
    for name in ("sll", "srl", "sra"):
        assert run(name + "i", a, imm=n) == REFERENCE[name](a, n) & M64
        assert run(name + "iw", a, imm=n & 31) == REFERENCE[name + "w"](a, n & 31) & M64


def effects(insn: Insn, o: Checked) -> list[object]:
    insn.spec.semantics(o, insn)
    return o.log


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("beq", [0, 0, 0, 1]),
        ("bne", [1, 1, 1, 0]),
        ("blt", [1, 1, 0, 0]),
        ("bge", [0, 0, 1, 1]),
        ("bltu", [1, 0, 1, 0]),
        ("bgeu", [0, 1, 0, 1]),
    ],
)
def test_branches(name: str, taken: list[int]) -> None:
    insn = decode(encode(name, rs1=10, rs2=11, imm=-8))
    for (a, b), goes in zip([(1, 2), (M64, 2), (2, M64), (3, 3)], taken, strict=True):
        assert effects(insn, Checked({10: a, 11: b})) == [("pc", 0xFF8 if goes else 0x1004)]


def test_jal_links_and_jumps() -> None:
    o = Checked()
    assert effects(decode(encode("jal", rd=1, imm=0x800)), o) == [("pc", 0x1800)]
    assert o.regs[1] == 0x1004


def test_jalr_reads_its_base_before_it_links_and_clears_bit_0() -> None:
    o = Checked({1: 0x2003})
    assert effects(decode(encode("jalr", rd=1, rs1=1, imm=2)), o) == [("pc", 0x2004)]
    assert o.regs[1] == 0x1004


def test_compressed_jump_links_two_bytes_on() -> None:
    o = Checked({10: 0x3000}, length=2)
    assert effects(decode(encode("c.jalr", rs1=10)), o) == [("pc", 0x3000)]
    assert o.regs[1] == 0x1002


def test_lui_and_auipc() -> None:
    assert run_wide("lui", -(1 << 31)) == -(1 << 31) & M64
    assert run_wide("auipc", -(1 << 31)) == 0x1000 - (1 << 31) & M64


def run_wide(name: str, imm: int) -> int:
    o = Checked()
    insn = decode(encode(name, rd=12, imm=imm))
    insn.spec.semantics(o, insn)
    return o.regs[12]


@pytest.mark.parametrize(
    ("name", "w", "value"),
    [
        ("lb", 8, 0x21),
        ("lh", 16, 0x4321),
        ("lw", 32, 0xFFFF_FFFF_8765_4321),
        ("ld", 64, 0xFEDC_BA98_8765_4321),
        ("lbu", 8, 0x21),
        ("lhu", 16, 0x4321),
        ("lwu", 32, 0x8765_4321),
        ("lr.w", 32, 0xFFFF_FFFF_8765_4321),
        ("lr.d", 64, 0xFEDC_BA98_8765_4321),
    ],
)
def test_loads_extend(name: str, w: int, value: int) -> None:
    o = Checked({10: 0x8000})
    insn = decode(encode(name, rd=12, rs1=10, **({} if name.startswith("lr") else {"imm": -4})))
    assert effects(insn, o) == [("load", w, 0x8000 if name.startswith("lr") else 0x7FFC)]
    assert o.regs[12] == value


def test_store_takes_the_low_bits() -> None:
    o = Checked({10: 0x8000, 11: 0x1234_5678_9ABC_DEF0})
    assert effects(decode(encode("sh", rs1=10, rs2=11, imm=6)), o) == [("store", 16, 0x8006, 0xDEF0)]


def test_amo_sign_extends_the_old_word() -> None:
    o = Checked({10: 0x8000, 11: 0x1_0000_0007})
    insn = decode(encode("amomaxu.w", rd=12, rs1=10, rs2=11, aq=1, rl=1))
    assert effects(insn, o) == [("amo", "maxu", 32, 0x8000, 7)]
    assert o.regs[12] == 0xFFFF_FFFF_8765_4321
