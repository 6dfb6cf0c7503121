"""Faults are precise on every engine: in the middle of blocks, at the last round of a walk, and at every border."""

from __future__ import annotations

import pytest

from softcard.core.space import Ram
from softcard.engine.riscv.api import ILLEGAL, LOAD_ACCESS, LOAD_MISALIGNED, STORE_ACCESS, STORE_MISALIGNED
from tests.engine.riscv.rig import (
    CODE,
    DATA,
    DATA_END,
    DEVICE,
    ENGINES,
    MASK64,
    FlatPort,
    Rig,
    WidePort,
    agree,
    floats_on,
)

pytestmark = pytest.mark.slow(seconds=0.3)
MIDDLE = """
    addi x5, x0, 7
    addi x6, x5, 1
    {} {}, 0(x10)
    addi x7, x0, 9
    addi x8, x0, 1
"""
ACCESSES = {"lb": 1, "lh": 2, "lwu": 4, "ld": 8, "sb": 1, "sh": 2, "sw": 4, "sd": 8, "flw": 4, "fld": 8, "fsd": 8}
FAR = (1 << 32, (1 << 32) + DATA, 1 << 63, MASK64 - 7, MASK64, 1 << 44)
TWICE = (100, 100, 3, 2)


@pytest.mark.parametrize("name", ACCESSES)
def test_an_access_in_the_middle_of_a_block(name: str) -> None:
    size, store = ACCESSES[name], name[0] == "s" or name.startswith("fs")
    program = MIDDLE.format(name, "f6" if name[0] == "f" else "x6")
    for address in (DATA - size, DATA_END, CODE - 8, *(address & -size for address in FAR)):
        for outcome in agree(program, TWICE, x10=address)[:3]:
            assert (outcome.ending, outcome.cause) == ("trap", STORE_ACCESS if store else LOAD_ACCESS)
            assert (outcome.pc, outcome.value, outcome.retired) == (CODE + 8, address, 2)
            assert (outcome.x[5], outcome.x[7]) == (7, 0)
    for address in (DATA + 1, DATA + 4, DATA_END - 1, MASK64 - 1):
        misaligned = address % size
        for outcome in agree(program, TWICE, x10=address)[:3]:
            if misaligned:
                assert (outcome.ending, outcome.cause) == ("trap", STORE_MISALIGNED if store else LOAD_MISALIGNED)
                assert (outcome.pc, outcome.value, outcome.retired) == (CODE + 8, address, 2)


def test_a_float_store_faults_like_any() -> None:
    (outcome,) = agree("flw f1, 0(x10)\nfadd.s f2, f1, f1\nfsw f2, 0(x11)", x10=DATA, x11=DATA_END)
    assert (outcome.cause, outcome.pc, outcome.retired) == (STORE_ACCESS, CODE + 8, 2)


SUM = """
    loop: {load} x5, {low}(x10)
    add x7, x7, x5
    {load} x5, {high}(x10)
    xor x7, x7, x5
    {step}
    addi x6, x6, -1
    bne x6, x0, loop
"""
FILL = """
    loop: {store} x6, {low}(x10)
    {store} x5, {high}(x10)
    addi x5, x5, 1
    {step}
    addi x6, x6, -1
    bne x6, x0, loop
"""


@pytest.mark.parametrize("port", [FlatPort, WidePort])
@pytest.mark.parametrize("how", ["constant", "register"])
@pytest.mark.parametrize("program", [SUM, FILL])
def test_a_walk_runs_into_the_end_of_memory(program: str, how: str, port: type[FlatPort]) -> None:
    step = "addi x10, x10, 8" if how == "constant" else "add x10, x10, x11"
    text = program.format(load="ld", store="sd", low=0, high=16, step=step)
    pattern = bytes(range(256)) * 2
    for rounds in (1, 5, 20):
        start = DATA_END - 8 * rounds - 16
        for count in (rounds - 1, rounds, rounds + 1, rounds + 30):
            fuels = (100_000, 7 * rounds + 3, 7 * rounds - 3)
            outcomes = agree(text, fuels, memory=pattern, at=DATA_END - 512, port=port, x10=start, x11=8, x6=count or 1)
            assert outcomes[0].ending == ("trap" if count > rounds else "return")
            if count > rounds:
                assert outcomes[0].value == DATA_END


@pytest.mark.parametrize("step", [0, 1, 2, 4, 8, 12, 4096, -8, -4096, 1 << 63, MASK64, DATA_END])
def test_a_walk_by_a_register(step: int) -> None:
    text = SUM.format(load="lw", low=-4, high=8, step="add x10, x11, x10")
    agree(text, (100_000, 40), memory=bytes(range(256)) * 64, at=DATA, x10=DATA + 0x2000, x11=step & MASK64, x6=25)
    text = FILL.format(store="sw", low=-4, high=8, step="add x10, x10, x11")
    agree(text, (100_000, 40), x10=DATA + 0x2000, x11=step & MASK64, x6=25)


@pytest.mark.parametrize("step", [0, 1, 2, 3, 4, 6, 8, 64, 2047, -1, -8, -2048])
def test_a_walk_by_a_constant(step: int) -> None:
    for load, store in (("ld", "sd"), ("lh", "sh"), ("lbu", "sb")):
        text = SUM.format(load=load, low=0, high=8, step=f"addi x10, x10, {step}")
        agree(text, (100_000, 40), memory=bytes(range(256)) * 64, at=DATA, x10=DATA + 0x2000, x6=19)
        text = FILL.format(store=store, low=0, high=8, step=f"addi x10, x10, {step}")
        agree(text, (100_000, 40), x10=DATA + 0x2000, x6=19)


@pytest.mark.parametrize("port", [FlatPort, WidePort])
@pytest.mark.parametrize(("width", "shift"), [("b", 0), ("b", 2), ("h", 1), ("w", 2), ("w", 4), ("d", 3)])
def test_a_walk_by_an_index(width: str, shift: int, port: type[FlatPort], is_exhaustive: bool) -> None:
    """Up to the end of memory and beyond, from wherever it starts, and with a base that is nowhere near."""
    text = f"""
        loop: slli x7, x8, {shift}
        add x7, x7, x10
        l{width} x5, 0(x7)
        s{width} x5, {1 << shift}(x7)
        addi x8, x8, 1
        addi x6, x6, -1
        bne x6, x0, loop
    """
    for first in (0, 3, MASK64 - 2, 1 << 40, 1 << 63):
        base = DATA_END - (64 + first << shift) & MASK64
        for count in (60, 63, 64, 65, 90) if is_exhaustive else (63, 64, 90):
            (outcome, *_) = agree(text, (100_000, 7 * 40 + 3), port=port, x10=base, x8=first, x6=count)
            assert outcome.ending == ("return" if count < 64 else "trap")
    agree(text, (100_000, 100), x10=DATA + 1, x8=0, x6=20)


@pytest.mark.parametrize("offset", [1, 2, 4, 6])
def test_a_walk_that_starts_misaligned(offset: int) -> None:
    text = SUM.format(load="lw", low=0, high=8, step="addi x10, x10, 2")
    agree(text, (1000, 1000), memory=bytes(range(256)), x10=DATA + offset, x6=19)
    text = FILL.format(store="sw", low=0, high=6, step="addi x10, x10, 4")
    (outcome,) = agree(text, x10=DATA + 4, x6=19)
    assert (outcome.cause, outcome.value) == (STORE_MISALIGNED, DATA + 10)


@pytest.mark.parametrize("port", [FlatPort, WidePort])
@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("border", [DATA + 0x1000, DATA + 0x10_0000])
def test_walks_over_page_and_chunk_borders(border: int, warm: bool, port: type[FlatPort]) -> None:
    copy = """
        loop: ld x5, 0(x10)
        sd x5, 8(x11)
        addi x10, x10, 8
        addi x11, x11, 8
        addi x6, x6, -1
        bne x6, x0, loop
    """
    for target in (border - 0x108, border + 8, border - 40 + 0x20):
        fuels = (100_000, 100_000, 6 * 20 + 3)
        agree(
            copy,
            fuels,
            memory=bytes(range(1, 201)),
            at=border - 96,
            warm=warm,
            port=port,
            x10=border - 96,
            x11=target,
            x6=30,
        )


def test_a_walk_from_memory_into_nothing_and_from_nothing_into_memory() -> None:
    text = SUM.format(load="ld", low=0, high=8, step="addi x10, x10, 8")
    (outcome,) = agree(text, x10=DATA - 0x200, x6=1000)
    assert (outcome.cause, outcome.value, outcome.retired) == (LOAD_ACCESS, DATA - 0x200, 0)
    text = SUM.format(load="ld", low=-2048, high=0, step="addi x10, x10, 8")
    (outcome,) = agree(text, x10=DATA + 1024, x6=1000)
    assert (outcome.value, outcome.pc) == (DATA - 1024, CODE)
    for base in (0, 8, 1024, 2040, (1 << 32) - 8, (1 << 32) + 16, MASK64 - 15):
        agree(text, (1000, 1000), x10=base, x6=10)


def test_device_registers_see_every_access_in_order() -> None:
    text = """
        loop: lw x5, 0(x10)
        sw x5, 4(x10)
        lbu x7, 8(x10)
        add x8, x8, x7
        sd x8, 16(x10)
        addi x10, x10, 32
        addi x6, x6, -1
        bne x6, x0, loop
    """
    for outcome in agree(text, (1000, 1000, 33), x10=DEVICE, x6=7):
        assert outcome.log[:2] == (("read", 0, 4), ("write", 4, (1).to_bytes(4, "little")))
    assert len(outcome.log) == 4 * 4 + 1


def test_a_walk_runs_from_memory_into_device_registers() -> None:
    rigs = {}
    for name, make in ENGINES.items():
        rig = Rig(make())
        rig.space.unmap(DATA)

        rig.space.map(DEVICE - 0x2000, Ram(0x2000), "below")
        end = rig.place(FILL.format(store="sd", low=0, high=8, step="addi x10, x10, 16"))
        for _ in range(2):
            outcome = rig.run(end, x10=DEVICE - 0x100, x6=40, x5=100)
        rigs[name] = outcome.log, outcome.x, outcome.retired
    assert len(rigs["reference"][0]) == 2 * (40 - 16)
    assert rigs["quick"] == rigs["reference"] == rigs["optimised"]


def test_effects_of_one_instruction_happen_once() -> None:
    """An instruction that translated code cannot finish is begun anew, with nothing done."""
    text = "amoadd.w x5, x6, (x10)\namoswap.d x7, x6, (x11)\naddi x8, x8, 1"
    for outcome in agree(text, (10, 10, 10), x10=DEVICE, x11=DATA, x6=3):
        assert outcome.log == (("read", 0, 4), ("write", 0, (4).to_bytes(4, "little")))
        assert outcome.x[8] == 1


def test_an_illegal_instruction_behind_translated_code() -> None:
    text = "addi x5, x5, 1\nbeq x5, x0, over\naddi x5, x5, 1\ncsrrw x1, 0x7c0, x0\nover: addi x6, x0, 1"
    for outcome in agree(text, (10, 10)):
        assert (outcome.cause, outcome.pc, outcome.retired) == (ILLEGAL, CODE + 12, 3)


@pytest.mark.parametrize("name", ENGINES)
def test_floats_switched_off_trap_and_on_again_run(name: str) -> None:
    rig = Rig(ENGINES[name]())
    end = rig.place("addi x5, x5, 1\nfadd.s f1, f2, f3\naddi x6, x6, 1")
    for fs in (3, 0, 1, 2, 0, 3):
        floats_on(rig.hart, fs)
        outcome = rig.run(end)
        assert outcome.ending == ("return" if fs else "trap")
        assert outcome.status >> 13 & 3 == (3 if fs else 0)
        floats_on(rig.hart)
