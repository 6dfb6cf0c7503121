"""The check `init` on RefSi's harts: every planted bug at its instruction, nothing in the corrected twins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import BeyondModel
from softcard.core.space import Ram
from softcard.device.refsi.device import RefSiDevice
from softcard.device.refsi.interfaces import HOST
from softcard.device.refsi.spec.memory import SpecMemory, parts
from softcard.device.refsi.toolkit.builder import CommandBuffer
from softcard.host.refsi.compile import compile_kernels, riscv_compilers
from softcard.host.refsi.refsi import RefSi, demo_kernels

PATH = Path(__file__).parent / "init_rv64.c"
LINES = PATH.read_text("utf-8").splitlines()
COUNT = 8
CASES = {
    "branch": "undefined-branch",
    "address": "undefined-address",
    "atomic": "undefined-atomic",
    "result": "undefined-result",
    "half_result": "undefined-result",
    "through_float": "undefined-branch",
    "float_result": "undefined-result",
    "one_bit": "undefined-branch",
    "stack": "undefined-branch",
    "saved_register": "undefined-branch",
    "float_register": "undefined-branch",
    "argument": "undefined-branch",
    "copied": "undefined-branch",
    "tcdm": "undefined-branch",
}
ORIGINS = {
    "branch": "which are uninitialised, loaded by",
    "saved_register": "s3, which nothing has written",
    "float_register": "fs3, which nothing has written",
    "argument": "a3, which nothing has written",
    "copied": ", through 4 bytes at ",
}


@pytest.fixture(scope="module")
def programs() -> dict[int, bytes]:
    """The program with mistakes (1), and without (0)."""
    if not riscv_compilers():
        pytest.skip("no compiler for RV64 is installed")
    return {bug: compile_kernels(PATH, options=[f"-DB={bug}", "-g"]) for bug in (0, 1)}


def _run(program: bytes, name: str, engine: str, check: str, tier: str = "auto") -> tuple[bytes, list[Any]]:
    with RefSi.open(engine=engine, check=check, tier=tier) as device:
        device.load_elf(program)
        x, y = device.empty(16, np.int32), device.zeros(16, np.int32)
        device.write(x.address, np.arange(1, 9, dtype=np.int32).tobytes())
        kernel = device.kernel(name, ["u64", "ptr", "ptr"] if name == "argument" else None)
        device.launch(kernel, COUNT, [x, y])
        return y.array.tobytes(), device.findings


@pytest.mark.oracle
@pytest.mark.parametrize("name", CASES)
def test_a_bug_is_found_and_its_corrected_version_is_not(programs: dict[int, bytes], name: str) -> None:
    reported = []
    line = _marked(name)
    for engine, tier in (("reference", "auto"), ("jit", "first")):
        assert _run(programs[0], name, engine, "init", tier)[1] == []
        result, findings = _run(programs[1], name, engine, "init", tier)
        assert result == _run(programs[1], name, engine, "")[0]
        (found,) = findings
        assert found.kind == CASES[name], found
        assert found.source.endswith(f"/init_rv64.c:{line}"), found
        assert ORIGINS.get(name, "") in found.message
        assert found.registers is not None, found
        assert (found.registers.pc, found.registers.instruction) == (found.pc, found.insn)
        reported.append((found.at, found.insn, found.message, found.count))
    assert reported[0] == reported[1]


def _marked(name: str) -> int:
    start = next(at for at, line in enumerate(LINES) if line.startswith(f"void {name}("))
    return next(at for at, line in enumerate(LINES[start:], start + 1) if "BUG" in line)


VECTORS = """
void add(unsigned long i, const int *x, int *y, unsigned long n) {
    for (unsigned long k = 0; k < n; k++) y[k] = x[k] + 3;
}
void sum(unsigned long i, const int *x, int *y, unsigned long n) {
    int s = 0;
    for (unsigned long k = 0; k < n; k++)
        s += x[k];
    y[0] = s;
}
"""


@pytest.mark.oracle
@pytest.mark.parametrize(("kernel", "bad"), [("add", 120), ("sum", 4)])
def test_shadow_bits_travel_through_vectors(tmp_path: Path, kernel: str, bad: int) -> None:
    if not riscv_compilers():
        pytest.skip("no compiler for RV64 is installed")
    (tmp_path / "vectors.c").write_text(VECTORS)
    program = compile_kernels(tmp_path / "vectors.c", march="rv64gcv_zvl512b", options=["-O3"])
    for engine in ("jit", "reference"):
        with RefSi.open(check="init", engine=engine) as device:
            loaded = device.load_elf(program)
            x, y = device.empty(100, np.int32), device.zeros(100, np.int32)
            device.write(x.address, bytes(4 * 70))
            device.launch(loaded.kernel(kernel), 1, [x, y, 70])
            y.array.tobytes()
            assert device.findings == []
            device.launch(loaded.kernel(kernel), 1, [x, y, 100])
            y.array.tobytes()
            (found,) = device.findings
            assert (found.name, found.count) == ("init/undefined-result", bad)


def test_no_finding_on_kernels_that_are_right() -> None:
    """Nor another result; and machine code runs as without."""
    numbers, square = np.arange(4096, dtype=np.int32), np.ones((16, 16), np.float32)
    reported = []
    for check in ("", "init"):
        with RefSi.open(check=check, tier="first") as device:
            device.load_elf(demo_kernels())
            sums, product = np.zeros_like(numbers), np.zeros_like(square)
            first = device.launch("vector_add", 4, [numbers, numbers, sums, 1024])
            second = device.launch("matmul_f32", 16, [square, square, product, 16])
            assert device.findings == []
            reported.append((sums.tobytes(), product.tobytes(), first.instructions, second.instructions))
            assert first.interpreted + second.interpreted < 1000
    assert reported[0] == reported[1]


def test_transfers_and_commands_carry_shadow_bits() -> None:
    """A copy of what nobody has written is no less undefined; what a command stores is written."""
    with RefSi.open(check="init") as device:
        x, y, z = (device.empty(4, np.int64).address for _ in range(3))
        device.write(x, bytes(8))
        buffer = CommandBuffer().copy_mem64(3, x, y).store_imm64(y + 16, 7)
        device.run(buffer.dma_1d(z, y, 24).wait_dma().finish())
        assert isinstance(device.port, RefSiDevice)
        memory = device.port.memory
        assert isinstance(memory, SpecMemory)
        for array in (y, z):
            places = [memory.locate(array + 8 * n, 8, HOST, "read") for n in range(4)]
            assert [any(marks.any() for marks, _ in parts(place)) for place in places] == [False, True, False, True]


def test_nothing_is_known_of_what_was_restored() -> None:
    with RefSi.open(check="init") as device:
        x = device.empty(4, np.int64).address
        assert isinstance(device.port, RefSiDevice)
        memory = device.port.memory
        assert isinstance(memory, SpecMemory)
        place = memory.locate(x, 8, HOST, "read")
        assert parts(place)[0][0].any()
        device.port.restore(device.port.snapshot())
        assert not parts(memory.locate(x, 8, HOST, "read"))[0][0].any()


def test_refused() -> None:
    with pytest.raises(
        BeyondModel,
        match="check 'init' cannot be used with coherence 'strict', whose data caches have no shadow memory",
    ):
        RefSi.open(check="init", coherence="strict")
    with pytest.raises(
        BeyondModel, match="check 'init' requires memory of the class Ram or SharedRam, not made by `ram`"
    ):
        RefSiDevice(check="init", ram=lambda size: Ram(size))


PRINTS = """
#include <softcard_refsi.h>

void prints(unsigned long i, const int *x, int *y)
{
    volatile int values[2];
    volatile double number;
    values[1] = x[i];
    refsi_printf("%d %d\\n", values[0], values[1]); /* BUG */
    refsi_printf("%x\\n", values[1]);
    refsi_printf("%g %s\\n", number, "text"); /* BUG */
    y[i] = values[1];
}
"""


@pytest.mark.oracle
@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_undefined_values_that_are_printed_are_reported_once_at_the_call(tmp_path: Path, engine: str) -> None:
    """Not in the source of refsi_printf, and also after many calls, which translated code only counts elsewhere."""
    if not riscv_compilers():
        pytest.skip("no compiler for RV64 is installed")
    (tmp_path / "prints.c").write_text(PRINTS)
    program = compile_kernels(tmp_path / "prints.c", options=["-g"])
    with RefSi.open(check="init", engine=engine) as device:
        device.load_elf(program)
        device.launch("prints", 20, [device.array(np.arange(20, dtype=np.int32)), device.zeros(20, np.int32)])
        findings = device.findings
    lines = [str(number) for number, line in enumerate(PRINTS.splitlines(), 1) if "BUG" in line]
    assert [(each.kind, each.source.rpartition(":")[2], each.count) for each in findings] == [
        ("undefined-argument", line, 20) for line in lines
    ]
    assert all(each.message == "an undefined value is an argument of refsi_printf" for each in findings)
