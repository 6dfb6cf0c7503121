"""The check `races` on RefSi's harts: every planted race at its instruction, nothing in the corrected twins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import BeyondModel
from softcard.core.findings import FindingError
from softcard.device.refsi.toolkit.builder import CommandBuffer
from softcard.engine.riscv.races import watch
from softcard.host.refsi.compile import compile_kernels, riscv_compilers
from softcard.host.refsi.program import Program
from softcard.host.refsi.refsi import RefSi, demo_kernels

PATH = Path(__file__).parent / "races_rv64.c"
LINES = PATH.read_text("utf-8").splitlines()
CASES = {
    "same_place": "write-write",
    "neighbour": "write-read",
    "before": "read-write",
    "counter": "write-write",
    "mixed": "read-atomic",
    "no_release": "write-read",
    "no_acquire": "write-read",
    "lock_without_aq": "write-read",
    "lock_without_rl": "write-read",
    "reserved": "write-write",
    "tcdm": "write-write",
    "transfer_not_waited_for": "write-read",
    "transfer_of_another": "write-read",
    "halves": "write-write",
}


@pytest.fixture(scope="module")
def programs() -> dict[int, bytes]:
    """The program with mistakes (1), and without (0)."""
    if not riscv_compilers():
        pytest.skip("no compiler for RV64 is installed")
    return {bug: compile_kernels(PATH, options=[f"-DB={bug}", "-g", "-fno-inline"]) for bug in (0, 1)}


def _run(program: bytes, name: str, check: str, **options: Any) -> tuple[bytes, list[Any]]:
    with RefSi.open(check=check, **options) as device:
        device.load_elf(program)
        x = device.zeros(64, np.int32)
        device.launch(name, 4, [x])
        return x.array.tobytes(), device.findings


@pytest.mark.oracle
@pytest.mark.parametrize("engine", ["jit", "reference"])
@pytest.mark.parametrize("name", CASES)
def test_a_race_is_found_and_its_corrected_version_has_none(programs: dict[int, bytes], name: str, engine: str) -> None:
    assert [str(each) for each in _run(programs[0], name, "races", engine=engine, tier="first")[1]] == []
    result, findings = _run(programs[1], name, "races", engine=engine, tier="first")
    assert result == _run(programs[1], name, "", engine="reference")[0]
    line = f"/races_rv64.c:{_marked(name)}"
    here = [each for each in findings if each.source.endswith(line) or f"{line})" in each.other]
    assert CASES[name] in [each.kind for each in here], "\n".join(map(str, findings))
    assert all(each.other for each in findings)


def _marked(name: str) -> int:
    start = next(at for at, line in enumerate(LINES) if line.startswith(f"void {name}("))
    return next(at for at, line in enumerate(LINES[start:], start + 1) if "BUG" in line)


@pytest.mark.oracle
def test_both_accesses_are_named(programs: dict[int, bytes]) -> None:
    line = f":{_marked('no_acquire')}"
    (found,) = (each for each in _run(programs[1], "no_acquire", "races")[1] if each.source.endswith(line))
    assert found.message.endswith(" and a write of the same bytes by harts without a happens-before order")
    assert found.unit == "hart 0"
    assert ", hart 1" in found.other
    assert (
        found.suggestion == "add a barrier, or a flag with a fence on both sides, between the accesses; or use atomics"
    )
    (found,) = _run(programs[1], "transfer_not_waited_for", "races")[1]
    assert found.message.endswith(
        " and a write of the same bytes by a hart and a transfer without a happens-before order"
    )
    assert found.other == "transfer 1 of hart 0"
    assert found.suggestion == "wait for the transfer with DMADONESEQ before the access"


EQUAL = "void equal(unsigned long i, volatile int *x) { x[0] = 7; }"


@pytest.mark.oracle
def test_stores_of_what_is_there_already_are_reported_where_that_is_asked_for(tmp_path: Path) -> None:
    if not riscv_compilers():
        pytest.skip("no compiler for RV64 is installed")
    (tmp_path / "equal.c").write_text(EQUAL)
    program = compile_kernels(tmp_path / "equal.c")
    assert _run(program, "equal", "races")[1] == []
    (found,) = _run(program, "equal", "races", equal_stores=True)[1]
    assert (found.kind, found.count) == ("write-write", 3)


IDLE = """
void idle(unsigned long i, volatile int *x)
{
    if (i == 1)
        x[0] = 7;
    register unsigned long call __asm__("a7") = 2;
    register unsigned long link __asm__("a0") = 0;
    __asm__ volatile("ecall" : "+r"(link) : "r"(call) : "memory");
    if (i == 0)
        x[32] = x[0];
}
"""


@pytest.mark.oracle
def test_a_barrier_is_one_for_harts_that_have_touched_nothing_yet(tmp_path: Path) -> None:
    if not riscv_compilers():
        pytest.skip("no compiler for RV64 is installed")
    (tmp_path / "idle.c").write_text(IDLE)
    assert _run(compile_kernels(tmp_path / "idle.c", options=["-O2"]), "idle", "races")[1] == []


@pytest.mark.oracle
@pytest.mark.parametrize("check", ["races", "races,init"])
def test_the_first_race_ends_the_kernel_on_either_engine(programs: dict[int, bytes], check: str) -> None:
    said = []
    for engine in ("jit", "reference"):
        with pytest.raises(FindingError) as found:
            _run(programs[1], "no_acquire", check, engine=engine, tier="first", on_finding="raise")
        said.append(str(found.value))
    assert said[0] == said[1]
    assert "races/read-write" in said[0]


@pytest.mark.oracle
@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_the_host_waits_for_a_kernel(programs: dict[int, bytes], engine: str) -> None:
    """Before it reads what that stores, or stores what that reads; other memory is free."""
    for bad in (True, False):
        with RefSi.open(check="races", engine=engine, tier="first") as device:
            program = device.load_elf(programs[0])
            x, y = device.zeros(64, np.int32), device.zeros(64, np.int32)

            def submit(device: RefSi = device, x: int = x.address, program: Program = program) -> None:
                buffer = CommandBuffer().kernel(
                    program.kernel("same_place").entry,
                    stack_top=program.stack_top,
                    return_address=program.return_address,
                )
                code = buffer.run_instances(4, x).sync_cache().finish().to_bytes()
                place = device.allocate(len(code))
                device.write(place, code)
                device.port.submit(place, len(code))

            submit()
            if not bad:
                device.port.wait()
            assert device.read(x.address + 4, 4) == (2).to_bytes(4, "little")
            submit()
            if not bad:
                device.port.wait()
            device.write(x.address, bytes(4))
            submit()
            device.write(y.address, bytes(4))
            assert [(each.kind, each.unit) for each in device.findings] == [
                ("write-read", "the host"), ("write-write", "the host"),
            ][: 2 * bad]  # fmt: skip
            for each in device.findings:
                text = (
                    " of the same bytes by the host and a kernel that it has not waited for, without a "
                    "happens-before order"
                )
                assert each.message.endswith(text)
                assert (each.suggestion, ", hart " in each.other) == (
                    "wait for the command buffer before the host's access",
                    True,
                )


@pytest.mark.oracle
def test_a_kernel_runs_beside_a_transfer_of_commands(programs: dict[int, bytes]) -> None:
    """Unless a command has waited for it."""
    for bad in (True, False):
        with RefSi.open(check="races") as device:
            program = device.load_elf(programs[0])
            x, y = device.zeros(64, np.int32), device.zeros(64, np.int32)
            buffer = CommandBuffer().dma_1d(x.address, y.address, 16)
            if not bad:
                buffer.wait_dma()
            place = program.kernel("same_place").entry
            buffer.kernel(place, stack_top=program.stack_top, return_address=program.return_address)
            device.run(buffer.run_instances(4, x.address).wait_dma().finish())
            assert {(each.kind, each.other) for each in device.findings} == (
                {("write-write", "transfer 1 of the CMP")} if bad else set()
            )


def test_no_finding_on_kernels_that_are_right() -> None:
    """Nor another result, together with the other checks, too."""
    numbers, square = np.arange(1024, dtype=np.int32), np.ones((8, 8), np.float32)
    reported = []
    for check in ("", "races", "all"):
        with RefSi.open(check=check) as device:
            device.load_elf(demo_kernels())
            sums, product = np.zeros_like(numbers), np.zeros_like(square)
            first = device.launch("vector_add", 4, [numbers, numbers, sums, 256])
            second = device.launch("matmul_f32", 8, [square, square, product, 8])
            assert device.findings == []
            reported.append((sums.tobytes(), product.tobytes(), first.instructions, second.instructions))
            assert first.interpreted < first.instructions // 10, "the others run as machine code"
    assert reported[0] == reported[1] == reported[2]


@pytest.mark.oracle
def test_too_many_bytes(programs: dict[int, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "MOST_BYTES", 3)
    with pytest.raises(BeyondModel, match="check 'races' supports groups of instances with at most 3 accessed bytes"):
        _run(programs[1], "same_place", "races", engine="reference")


def test_refused() -> None:
    with pytest.raises(
        BeyondModel, match="check 'races' cannot be used with coherence 'strict', which reports stale reads itself"
    ):
        RefSi.open(check="races", coherence="strict")
