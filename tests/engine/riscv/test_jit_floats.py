"""Floats in translated code: representations, rounding modes and flags are the reference's, whatever came before."""

from __future__ import annotations

from itertools import product

import pytest

from softcard.engine.riscv.jit.engine import JitEngine
from tests.engine.riscv.rig import CACHE, CODE, DATA, ENGINES, MASK64, Rig, agree, floats_on

BOX = 0xFFFF_FFFF << 32
NAN, PAYLOAD, SIGNALLING, NEGATIVE_NAN = 0x7FC0_0000, 0x7FC1_2345, 0x7F80_0001, 0xFFC0_0000
ONE, TWO, THIRD, INF, ZERO = 0x3F80_0000, 0x4000_0000, 0x3EAA_AAAB, 0x7F80_0000, 0
SINGLES = [BOX | n for n in (NAN, PAYLOAD, SIGNALLING, NEGATIVE_NAN, ONE, THIRD, INF, ZERO, 1 << 31)] + [
    ONE,
    BOX ^ 1 << 40,
]
DOUBLES = [
    0x7FF8 << 48,
    0x7FF8 << 48 | 0x123,
    0x7FF0 << 48 | 1,
    0xFFF8 << 48,
    0x3FF0 << 48,
    0x3FD5555555555555,
    BOX | ONE,
    0,
]
LOOP = """
    loop: {}
    addi x6, x6, -1
    bne x6, x0, loop
    {}
"""
STORES = (
    "fsw f1, 0(x10)\nfsd f1, 8(x10)\nfsd f2, 16(x10)\nfmv.x.d x5, f1\nsd x5, 24(x10)\nfmv.x.w x7, f2\nsw x7, 32(x10)"
)
FUELS = (1000, 1000, 9, 1000)


@pytest.mark.parametrize("value", SINGLES)
@pytest.mark.parametrize(
    "body", ["fadd.s f1, f1, f2", "fmadd.s f1, f1, f2, f1", "fmin.s f1, f1, f2", "fsgnjx.s f1, f1, f2"]
)
def test_singles_that_enter_a_loop(value: int, body: str) -> None:
    """With payloads or unboxed: the loop keeps them as raw host floats."""
    agree(LOOP.format(body, STORES), FUELS, x6=5, x10=DATA, f1=value, f2=BOX | TWO)
    agree(LOOP.format(body, STORES), FUELS, x6=5, x10=DATA, f1=BOX | ONE, f2=value)
    inner = "addi x6, x6, 2\nfadd.s f1, f2, f2\n" + LOOP.format(body, STORES)
    agree(inner, (*range(2, 12), 1000), x6=5, x10=DATA, f1=value, f2=value)


@pytest.mark.parametrize("value", DOUBLES)
@pytest.mark.parametrize("body", ["fadd.d f1, f1, f2", "fmadd.d f1, f1, f2, f1", "fcvt.s.d f2, f1\nfcvt.d.s f1, f2"])
def test_doubles_that_enter_a_loop(value: int, body: str) -> None:
    agree(LOOP.format(body, STORES), FUELS, x6=5, x10=DATA, f1=value, f2=0x4008 << 48)
    agree(LOOP.format(body, STORES), FUELS, x6=5, x10=DATA, f1=0x3FF0 << 48, f2=value)


def test_a_register_used_as_single_and_double() -> None:
    text = LOOP.format("fadd.s f1, f1, f2\nfadd.d f2, f2, f1\nfcvt.d.s f1, f1\nfcvt.s.d f2, f2", STORES)
    for a, b in product(SINGLES[3:7], DOUBLES[3:7]):
        agree(text, FUELS, x6=4, x10=DATA, f1=a, f2=b)
    text = LOOP.format(
        "beq x5, x0, single\nfadd.d f1, f1, f1\njal x0, next\nsingle: fadd.s f1, f1, f1\nnext: xori x5, x5, 1", STORES
    )
    for value in (*SINGLES, *DOUBLES):
        agree(text, (1000, 1000, 13), x6=6, x10=DATA, f1=value)


def test_all_bits_of_a_single_are_stored() -> None:
    """A double-word store of a register that is kept as a single writes its boxing too."""
    text = "flw f1, 0(x10)\nfadd.s f2, f1, f1\nfsd f2, 8(x10)\nfsd f1, 16(x10)"
    text += "\nfmv.x.d x5, f2\nsd x5, 24(x10)\nsw x5, 32(x10)"
    for outcome in agree(text, (100, 100), memory=ONE.to_bytes(4, "little") + bytes(40), x10=DATA):
        assert outcome.memory[8:36].hex() == "00000040ffffffff" + "0000803fffffffff" + "00000040ffffffff" + "00000040"


def test_a_word_just_loaded_becomes_a_float() -> None:
    text = "ld x5, 0(x10)\nfmv.d.x f1, x5\nadd x7, x5, x5\nlw x8, 0(x10)\nfmv.w.x f2, x8"
    text += "\nld x0, 8(x10)\nfmv.d.x f3, x0\nfadd.d f4, f1, f3"
    for memory in ((0x4008 << 48).to_bytes(8, "little"), SINGLES[1].to_bytes(8, "little")):
        agree(text, (100, 100, 3), memory=memory, x10=DATA)


@pytest.mark.parametrize("t", ["s", "d"])
@pytest.mark.parametrize("name", ["fmadd", "fmsub", "fnmsub", "fnmadd"])
def test_infinity_times_zero_plus_a_nan(name: str, t: str) -> None:
    """Always invalid, whatever the NaN; the host does not say so by itself."""
    shift, box = (29, BOX) if t == "s" else (0, 0)
    singles = {"inf": INF, "zero": ZERO, "nan": NAN, "payload": PAYLOAD, "signalling": SIGNALLING, "one": ONE}
    doubles = {
        "inf": 0x7FF0 << 48,
        "zero": 0,
        "nan": 0x7FF8 << 48,
        "payload": 0x7FF8 << 48 | 5,
        "signalling": 0x7FF0 << 48 | 5,
    }
    values = {key: box | value for key, value in singles.items()} if shift else doubles | {"one": 0x3FF0 << 48}
    text = f"{name}.{t} f4, f1, f2, f3\nfadd.{t} f5, f4, f2"
    for a, b, c in product(
        ("inf", "zero", "nan", "signalling", "one"), ("inf", "zero", "one"), ("nan", "payload", "signalling", "one")
    ):
        (_, outcome) = agree(text, (100, 100), f1=values[a], f2=values[b], f3=values[c])
        if {a, b} == {"inf", "zero"}:
            assert outcome.fcsr & 16


ROUNDING = """
    loop: fdiv.s f1, f2, f3
    fadd.s f4, f4, f1
    fdiv.d f5, f6, f7
    fcvt.w.s x7, f1
    fcvt.s.w f8, x8
    fadd.s f9, f2, f3{}
    addi x6, x6, -1
    bne x6, x0, loop
"""


@pytest.mark.parametrize("static", ["", ", rne", ", rtz", ", rdn", ", rup", ", rmm"])
def test_the_rounding_mode_may_change_between_runs(static: str) -> None:
    x = {"f2": BOX | ONE, "f3": BOX | 0x4040_0000, "f6": 0x3FF0 << 48, "f7": 0x4024 << 48, "x8": 0x7FFF_FFFF}
    text = ROUNDING.format(static)
    results = {}
    for name, make in ENGINES.items():
        rig = Rig(make())
        end = rig.place(text)
        results[name] = [
            rig.run(end, fuel, x6=6, frm=frm, **x) for frm in (0, 1, 2, 3, 4, 0, 3, 4, 7, 5, 1) for fuel in (1000, 20)
        ]
        assert len({outcome.f[1] for outcome in results[name]}) >= 2
    assert results["reference"] == results["quick"] == results["optimised"]
    assert [outcome.ending for outcome in results["quick"][16:20]] == ["trap"] * 4


def test_the_rounding_mode_may_change_inside_a_loop() -> None:
    text = """
        loop: fdiv.s f1, f2, f3
        csrrw x7, frm, x8
        fdiv.s f4, f2, f3
        addi x8, x8, 1
        andi x8, x8, 3
        addi x6, x6, -1
        bne x6, x0, loop
    """
    agree(text, (1000, 1000, 17), x6=12, f2=BOX | ONE, f3=BOX | 0x4040_0000)


def test_flags_gather_from_every_part() -> None:
    """Inexact on the host, overflow in between on the reference, division by zero on the host again."""
    text = """
        fdiv.s f1, f2, f3
        fadd.s f4, f5, f5, rmm
        csrrs x5, fflags, x0
        fdiv.s f6, f2, f7
        csrrs x7, fflags, x0
        fsub.s f8, f5, f5
    """
    x = {"f2": BOX | ONE, "f3": BOX | 0x4040_0000, "f5": BOX | 0x7F7F_FFFF, "f7": BOX}
    for outcome in agree(text, (100, 100), **x):
        assert (outcome.x[5], outcome.x[7], outcome.fcsr & 31) == (0b00101, 0b01101, 0b01101)


@pytest.mark.parametrize("name", ENGINES)
def test_flags_of_the_host_stay_outside(name: str) -> None:
    """A run begins with the guest's flags, not with those that earlier code on this thread left."""
    rig = Rig(ENGINES[name]())
    end = rig.place("fdiv.s f1, f2, f3")
    exact = rig.place("fadd.s f1, f2, f2", CODE + 0x100)
    assert rig.run(end, f2=BOX | ONE, f3=BOX).fcsr == 8
    assert 1.0 / 3.0 != 1.0
    assert rig.run(exact, pc=CODE + 0x100, f2=BOX | ONE).fcsr == 0
    assert rig.run(end, f2=BOX | ONE, f3=BOX | 0x4040_0000, frm=3).fcsr == 3 << 5 | 1
    assert 1.0 / 3.0 == 0.3333333333333333, "the host's own rounding mode is untouched"


@pytest.mark.parametrize("name", ENGINES)
def test_floats_become_dirty(name: str) -> None:
    rig = Rig(ENGINES[name]())
    end = rig.place("loop: addi x6, x6, -1\nfeq.s x5, f1, f1\nbne x6, x0, loop")
    for fs in (1, 2, 3):
        floats_on(rig.hart, fs)
        assert rig.run(end, 1, x6=5).status >> 13 & 3 == fs, "no float instruction yet"
        assert rig.run(end, x6=5).status >> 13 & 3 == 3


def test_conversions_out_of_range_leave_for_one_instruction() -> None:
    text = LOOP.format(
        "fcvt.w.s x5, f1\nfcvt.lu.d x7, f2\nfcvt.wu.s x8, f3, rtz\nfcvt.s.lu f4, x9\nadd x11, x11, x5", "fsd f4, 0(x10)"
    )
    wild = [BOX | n for n in (0x4F00_0000, 0xCF00_0001, NAN, 0xBF00_0000, 0x3F00_0000)]
    for value in wild:
        agree(text, (1000, 1000, 11), x6=4, x9=MASK64, x10=DATA, f1=value, f2=0x43F0 << 48 | value & 1, f3=value)


def test_tiers_of_one_engine_agree() -> None:
    """A region gives the same results before and after it is optimised, on the same hart."""
    rig, detector = Rig(JitEngine(cache=CACHE)), Rig(ENGINES["reference"]())
    text = LOOP.format("fmadd.s f1, f1, f2, f3\nfdiv.s f4, f1, f2\nfmin.s f5, f4, f1", STORES)
    end = rig.place(text)
    detector.place(text)
    x = {"x10": DATA, "f1": BOX | ONE, "f2": BOX | THIRD, "f3": BOX | PAYLOAD}
    expected = detector.run(end, x6=50, **x)
    for _ in range(12):
        assert rig.run(end, x6=50, **x) == expected
