"""Registers, counters and windows take any access of any unit: done, or refused with a rule; never worse."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softcard.core.errors import AccessFault, BeyondModel, RuleError
from softcard.core.space import Unit
from softcard.device.refsi.commands import Finish, LoadReg64, RunInstances, StoreReg64, WriteReg64, encode_all
from softcard.device.refsi.interfaces import HART
from softcard.device.refsi.refsidrv.devices import ReferenceCrash
from softcard.device.refsi.registers import (
    DMA_BASE,
    ENTRY_PT_FN,
    NUM_CMP_REGISTERS,
    PERF_COUNTERS_BASE,
    RETURN_ADDR,
    WINDOW_BASE,
    WINDOW_MODE,
    WINDOW_SCALE,
    WINDOW_TARGET,
)
from softcard.device.refsi.toolkit.builder import REFSIDRV, SPEC
from tests.hostile import accesses, generate
from tests.hostile.checks import ENGINES, PROFILES, check_buffer, check_status, check_usable, fresh, in_time, run_buffer
from tests.hostile.generate import CODE, DATA, OUTPUT, WINDOW

EVERY_PROFILE = pytest.mark.parametrize("profile", PROFILES)
EVERY_ENGINE = pytest.mark.parametrize("engine", ENGINES)
ANY = st.one_of(st.integers(0, (1 << 64) - 1), st.sampled_from([*generate.EDGES[:-1], DATA, OUTPUT, WINDOW]))


@pytest.mark.slow
@settings(max_examples=100)
@given(st.randoms(use_true_random=False))
def test_any_accesses_of_any_units(random: Random) -> None:
    accesses.check_steps(accesses.steps(random))


@pytest.mark.slow
@settings(max_examples=40)
@given(st.randoms(use_true_random=False))
def test_devices_of_other_shapes(random: Random) -> None:
    accesses.check_shapes(random)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, NUM_CMP_REGISTERS + 1), ANY), max_size=12))
def test_any_values_in_cmp_registers(writes: list[tuple[int, int]]) -> None:
    """Written, read back to memory, and looked through: a kernel runs under whatever windows there are."""
    commands = [WriteReg64(number, value) for number, value in writes]
    reads = [StoreReg64(number, OUTPUT + 8 * at) for at, (number, _) in enumerate(writes)]
    run = [WriteReg64(ENTRY_PT_FN.offset, CODE), RunInstances(2, 2, (WINDOW, DATA))]
    code = generate.assemble("ld a3, 0(a1); sd a3, 0(a2); jalr zero, 0(ra)")
    check_buffer(encode_all([*commands, *reads, *run, Finish()]), code)


@EVERY_PROFILE
@EVERY_ENGINE
def test_every_cmp_register(profile: str, engine: str) -> None:
    """All that are listed take a value and give it back; others are refused (7 is storage in the reference)."""
    for number in range(NUM_CMP_REGISTERS + 2):
        device = fresh(profile, engine)
        data = encode_all([WriteReg64(number, 0x10), StoreReg64(number, DATA), LoadReg64(number, DATA), Finish()])
        status = run_buffer(device, data)
        check_status(status, data, profile)
        listed = number < NUM_CMP_REGISTERS and (number != 7 or profile == REFSIDRV)
        assert status.ok == listed, status
        if listed:
            assert device.read(DATA, 8) == (0x10).to_bytes(8, "little")
        else:
            assert "there is no CMP register" in str(status.error)


WINDOWS = {
    "wraps round at 2^64": (0xFFFF_FFFF_FFFF_F000, OUTPUT, 1 << 32, 0),
    "size 2^32": (WINDOW, OUTPUT, 1 << 32, 0),
    "size 2^32 from 0": (0, OUTPUT, 1 << 32, 0),
    "target at the end of memory": (WINDOW, 0xBFFF_F800, 0x1000, 0),
    "target nowhere": (WINDOW, 0x100, 0x1000, 0),
    "target wraps round": (WINDOW, 0xFFFF_FFFF_FFFF_F800, 0x1000, 0),
    "over DRAM": (DATA, OUTPUT, 0x1000, 0),
    "onto itself": (WINDOW, WINDOW, 0x1000, 0),
    "onto registers": (WINDOW, DMA_BASE, 0x1000, 0),
    "one byte": (WINDOW, OUTPUT, 1, 0),
    "per hart, scaled out of memory": (WINDOW, OUTPUT, 0x1000, 0xFFFFFFFF_0000001F),
}


@EVERY_PROFILE
@pytest.mark.parametrize("low", [0x01, 0x03, 0x05, 0x07, 0x0B, 0x10B, 0x1F0B, 0x71, 0x21, 0x81], ids=hex)
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_that_make_no_sense(profile: str, name: str, low: int) -> None:
    base, target, size, scale = WINDOWS[name]
    writes = [
        WriteReg64(WINDOW_BASE.offset, base),
        WriteReg64(WINDOW_TARGET.offset, target),
        WriteReg64(WINDOW_SCALE.offset, scale),
        WriteReg64(WINDOW_MODE.offset, (size - 1) << 32 | low),
    ]
    for engine in ENGINES:
        device = fresh(profile, engine)
        data = encode_all([*writes, LoadReg64(0, base), StoreReg64(0, base + 8 & (1 << 64) - 1), Finish()])
        with in_time():
            check_status(run_buffer(device, data), data, profile)
            for unit in (Unit(1), Unit(2), Unit(3, 0), Unit(3, 3), Unit(3, 4), Unit(4, 0), Unit(9, 9)):
                for at in (base, base + size - 8, base + size, base + size - 1):
                    accesses.perform(device, accesses.Access(at, 8, unit))
                    accesses.perform(device, accesses.Access(at, 8, unit, bytes(8)))
            if profile == SPEC:
                check_usable(device)


@pytest.mark.slow
@EVERY_PROFILE
@EVERY_ENGINE
@settings(max_examples=40)
@given(ANY, ANY, st.sampled_from(["sd", "sw", "sb", "ld", "lw", "lb", "lhu"]))
def test_any_access_of_a_hart(profile: str, engine: str, address: int, value: int, name: str) -> None:
    device = fresh(profile, engine)
    code = f"{name} a2, 0(a1); jalr zero, 0(ra)"
    commands = [
        WriteReg64(ENTRY_PT_FN.offset, CODE),
        WriteReg64(RETURN_ADDR.offset, 0xDEAD_0000),
        RunInstances(1, 1, (address, value)),
    ]
    data = encode_all([*commands, Finish()])
    status = run_buffer(device, data, generate.assemble(code))
    check_status(status, data, profile)
    if status.error is not None:
        assert (status.hart, status.instance) == (0, 0)
        assert f"at pc {CODE:#x}" in str(status.error)
    if profile == SPEC:
        check_usable(device)


@EVERY_PROFILE
@pytest.mark.parametrize("base", [DMA_BASE, PERF_COUNTERS_BASE])
@pytest.mark.parametrize("size", [1, 2, 4, 8, 16, 264, 1 << 20, 1 << 40, (1 << 64) - 8, 1 << 64])
def test_reads_of_registers_of_any_size(profile: str, base: int, size: int) -> None:
    device = fresh(profile, "reference")
    for kind in range(6):
        with in_time(5):
            reported = accesses.perform(device, accesses.Access(base, size, Unit(kind, 1)))
        assert size <= 264 or reported.startswith("AccessFault"), reported


@EVERY_PROFILE
@pytest.mark.parametrize("address", [DATA, OUTPUT - 1, 0xBFFF_FFF8])
@pytest.mark.parametrize("size", [1 << 32, 1 << 40, (1 << 64) - 8, (1 << 64) - 1, 1 << 64, 1 << 70])
def test_reads_of_memory_that_are_larger_than_it(profile: str, address: int, size: int) -> None:
    """Where the reference's sum of address and size wraps round, it would copy what it does not have."""
    device = fresh(profile, "reference")
    with pytest.raises(AccessFault if profile == SPEC else (AccessFault, ReferenceCrash)):
        device.read(address, size)
    if profile == SPEC:
        check_usable(device)


def test_a_read_in_millions_of_pieces() -> None:
    device = fresh(SPEC, "reference")
    writes = [
        WriteReg64(WINDOW_BASE.offset, WINDOW),
        WriteReg64(WINDOW_TARGET.offset, OUTPUT),
        WriteReg64(WINDOW_MODE.offset, ((1 << 26) - 1) << 32 | 0x0B),
    ]
    assert run_buffer(device, encode_all([*writes, Finish()])).ok
    with in_time(5), pytest.raises(BeyondModel, match="more than 1048576 pieces in the interleaved window 0"):
        device.read(WINDOW, 1 << 25, Unit(HART, 1))
    with (
        in_time(5),
        pytest.raises(BeyondModel, match="a write of 4194304 bytes at 0x30000000 would have more than 1048576"),
    ):
        device.write(WINDOW, bytes(1 << 22), Unit(HART, 1))


def test_an_access_before_a_memory_crashes_the_reference() -> None:
    """Offsets are added modulo 2^64 there: the sum passes the check of the memory's size."""
    device = fresh(REFSIDRV, "reference")
    writes = [
        WriteReg64(WINDOW_BASE.offset, 0xD000_0000),
        WriteReg64(WINDOW_TARGET.offset, (1 << 64) - 8),
        WriteReg64(WINDOW_MODE.offset, 0xFFF << 32 | 1),
    ]
    data = encode_all([*writes, Finish()])
    assert run_buffer(device, data).ok
    begin = 0xD000_0000 + 0x4000_0000
    with pytest.raises(
        ReferenceCrash, match="the reference driver would access host memory 8 bytes before a RAM, out of bounds"
    ):
        device.read(begin, 8)
    for engine in ENGINES:
        device = fresh(REFSIDRV, engine)
        run = [WriteReg64(ENTRY_PT_FN.offset, CODE), RunInstances(1, 1, (begin + 7,))]
        status = run_buffer(device, encode_all([*writes, *run, Finish()]), generate.assemble("lb a2, 0(a1)"))
        assert isinstance(status.error, ReferenceCrash), status
        assert f"at pc {CODE:#x}, at hart 0, at instance 0, at command 4 (RUN_INSTANCES)" in str(status.error)


@EVERY_PROFILE
def test_g1_calls_on_m1(profile: str) -> None:
    with pytest.raises(RuleError, match="RefSi M1 runs kernels only from command buffers: submit a command buffer"):
        fresh(profile, "reference").execute_kernel(CODE, 1)
