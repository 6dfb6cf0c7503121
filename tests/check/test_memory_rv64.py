"""The check of memory on RefSi's harts: every planted bug at its instruction, nothing in the corrected twins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softcard.core.allocations import OUT_OF_BOUNDS, USE_AFTER_FREE, WILD
from softcard.core.errors import AccessFault, BeyondModel
from softcard.core.memory_check import REFUSED
from softcard.host.refsi.compile import compile_kernels, riscv_compilers
from softcard.host.refsi.refsi import RefSi

PATH = Path(__file__).parent / "memory_rv64.c"
LINES = PATH.read_text("utf-8").splitlines()
COUNT = 8


@dataclass(frozen=True)
class Case:
    """A kernel of the file, run for 8 instances."""

    name: str
    kind: str
    arguments: Callable[[RefSi], list[Any]]
    access: str
    distance: int
    count: int
    faults: bool = False


def ints(*sizes: int) -> Callable[[RefSi], list[Any]]:
    """Buffers of so many int32."""
    return lambda device: [device.zeros(size, np.int32) for size in sizes]


def _freed(device: RefSi) -> list[Any]:
    gone, alive = device.zeros(COUNT, np.int32), device.zeros(COUNT, np.int32)
    place = gone.address
    gone.free()
    return [place, alive]


CASES = (
    Case("store_past", OUT_OF_BOUNDS, lambda d: [d.zeros(5, np.int32), 5], "write", 1, 3),
    Case("load_past", OUT_OF_BOUNDS, ints(8, 8), "read", 1, 1),
    Case("load_before", OUT_OF_BOUNDS, ints(8, 8), "read", -4, 1),
    Case("store_byte", OUT_OF_BOUNDS, lambda d: [d.zeros(3, np.uint8), 3], "write", 1, 1),
    Case("store_double", OUT_OF_BOUNDS, lambda d: [d.zeros(4, np.float64), 4], "write", 1, 1),
    Case("load_half", OUT_OF_BOUNDS, lambda d: [d.zeros(7, np.int16), d.zeros(8, np.int32), 7], "read", 1, 1),
    Case("loop_inclusive", OUT_OF_BOUNDS, lambda d: [*ints(1500, 8)(d), 1500], "read", 1, 2),
    Case("straddling", OUT_OF_BOUNDS, lambda d: [d.zeros(68, np.uint8), d.zeros(8, np.uint64)], "read", 0, 1),
    Case("atomic_past", OUT_OF_BOUNDS, ints(8), "atomic", 1, 1),
    Case("freed", USE_AFTER_FREE, lambda d: [*_freed(d), d.zeros(8, np.int32)], "read", 0, 8),
    Case("freed_store", USE_AFTER_FREE, _freed, "write", 0, 8),
    Case("wild", WILD, ints(8, 8), "read", 0, 8),
    Case("stack_overflow", REFUSED, ints(8), "read", 0, 1, faults=True),
)


@pytest.fixture(scope="module")
def programs() -> dict[int, bytes]:
    """The program with mistakes (1), and without (0)."""
    if not riscv_compilers():
        pytest.skip("no compiler for RV64 is installed")
    return {bug: compile_kernels(PATH, options=[f"-DB={bug}"]) for bug in (0, 1)}


def devices() -> Iterator[RefSi]:
    for engine in ("jit", "reference"):
        with RefSi.open(check="memory", engine=engine) as device:
            yield device


@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_bug_is_found_and_its_corrected_version_is_not(programs: dict[int, bytes], case: Case) -> None:
    reported = []
    for device in devices():
        device.load_elf(programs[0])
        device.launch(case.name, COUNT, case.arguments(device))
        assert device.findings == []
        device.load_elf(programs[1])
        if case.faults:
            with pytest.raises(AccessFault) as caught:
                device.launch(case.name, COUNT, case.arguments(device))
            assert any("memory/refused-access" in note for note in caught.value.__notes__)
        else:
            result = device.launch(case.name, COUNT, case.arguments(device))
            assert list(result.findings) == device.findings
        (found,) = device.findings
        assert (found.kind, found.access, found.distance, found.count) == (
            case.kind, case.access, case.distance, case.count,
        )  # fmt: skip
        assert found.source.endswith(f"/memory_rv64.c:{_marked(case.name)}")
        assert found.kernel == case.name
        reported.append((found.at, found.insn, found.distance))
    assert reported[0] == reported[1]


def _marked(name: str) -> int:
    start = next(at for at, line in enumerate(LINES) if line.startswith(f"void {name}("))
    return next(at for at, line in enumerate(LINES[start:], start + 1) if "BUG" in line)


def test_the_reference_drivers_profile_has_no_checks() -> None:
    message = "check 'memory' is not supported in profile refsidrv, which supports only waits"
    with pytest.raises(BeyondModel, match=message):
        RefSi.open(profile="refsidrv", check="memory")


def test_freeing_address_0_is_no_mistake() -> None:
    with RefSi.open(check="memory") as device:
        device.free(0)
        assert device.findings == []
        device.free(8)
        assert [each.kind for each in device.findings] == ["invalid-free"]
