"""Machine code of any kind ends within its step limit, on both engines alike, and leaves the device usable."""

from __future__ import annotations

from random import Random

import pytest

from softcard.core.errors import GuestFault
from softcard.device.refsi.commands import RunInstances
from softcard.device.refsi.toolkit.builder import PROFILES
from tests.conftest import Seeds
from tests.device.refsi import m1
from tests.hostile import kernels
from tests.hostile.kernels import Bench, Case

CASES = 240
"""Half of them without ``--exhaustive``."""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
def test_made_up_kernels(part: int, is_exhaustive: bool) -> None:
    for number in range(part, CASES if is_exhaustive else CASES // 2, 6):
        kernels.check_case(kernels.case(Random(f"kernels/{number}")))


@pytest.mark.slow
def test_loops_of_vector_instructions(seeds: Seeds) -> None:
    for number in seeds(10, 5):
        kernels.check_case(kernels.vector_case(Random(f"vector-kernels/{number}")))


@pytest.mark.slow
def test_made_up_code_in_the_rom_of_g1(seeds: Seeds) -> None:
    for number in seeds(CASES // 2, CASES // 4):
        kernels.check_boot(Random(f"boots/{number}"))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("engine", ["reference", "jit"])
@pytest.mark.parametrize("entry", [1, 0x6100_0001, 0xFFFF_FFFE, 0xFFFF_FFFF, 0x2000_2000, 0xBFFF_FFFE])
def test_entries_that_are_no_code(profile: str, engine: str, entry: int) -> None:
    data = m1.kernels().segments[0].data
    case = Case(b"", data, entry, (0,) * 32, (0,) * 32, (), kernels.RETURN, 0, 1, 1, is_slice=False)
    reported, _ = kernels.outcome(profile, engine, case)
    who = "expected an even entry point" if profile == "spec" and entry % 2 else "at hart 0, at instance 0"
    assert f"{who}, at command 3 (RUN_INSTANCES), at byte 0x30" in str(reported[0])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("engine", ["reference", "jit"])
def test_a_text_without_end(profile: str, engine: str) -> None:
    """PUTSTRING over megabytes without a NUL, as often as the step limit allows."""
    code = "addi a7, zero, 1; lui a0, 0x50000; ecall; jal zero, 0x61000000"
    bench = m1.Bench(profile, engine, step_limit=30)
    bench.device.write(0x5000_0000, b"A" * (1 << 18))
    with kernels.in_time(5):
        status = bench.run(*bench.kernel(bench.code(code), harts=1))
    assert isinstance(status.error, GuestFault) or "has more than" in str(status.error)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_case_is_reproducible(profile: str) -> None:
    case = kernels.case(Random("again"))
    assert kernels.outcome(profile, "reference", case) == kernels.outcome(profile, "reference", case)


def test_the_bench_runs_kernels() -> None:
    """Lest every case fails for a reason of the bench's own."""
    data = m1.kernels().segments[0].data
    case = Case(
        b"", data, m1.entry("k_poke"), (0,) * 32, (0,) * 32, (0x5000_0000, 7), kernels.RETURN, 0, 1, 1, is_slice=False
    )
    bench = Bench.of("spec", "reference", case)
    reported, _ = bench.run(kernels.launch(case))
    assert "5 commands" in reported
    assert isinstance(kernels.launch(case)[-1], RunInstances)
    assert int.from_bytes(bench.device.read(0x5000_0000, 8), "little") == 7
