"""Traces of many instances: events tell of the first ones, and of how many more there were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softcard import RefSi
from softcard.cli import main
from softcard.core.event import Event
from softcard.device.refsi.events import (
    TRACED,
    BarrierReached,
    ConsoleOutput,
    DmaTransfer,
    HartFault,
    InstanceEnded,
    InstancesLeftOut,
    InstanceStarted,
    KernelLaunch,
    RegisterAccess,
)
from softcard.device.refsi.interfaces import HART
from softcard.refsi import demo_kernels
from softcard.trace import JsonlTrace
from tests.device.refsi.m1 import CODE, OUT, Bench

PROFILES = pytest.mark.parametrize("profile", ["spec", "refsidrv"])
ENGINES = pytest.mark.parametrize("engine", ["jit", "reference"])
COUNT = 50
BUSY = f"""
lui t0, 0x20002; addi t1, zero, 8; sd t1, 40(t0); ld t1, 40(t0)
lui t2, {OUT >> 12:#x}; slli t3, a0, 3; add t2, t2, t3; sd t1, 0(t2); jalr zero, 0(ra)
"""
"""Writes and reads a register of the DMA controller, and stores what it holds."""
FAILS = "addi t1, zero, 45; bne a0, t1, on; ld t2, 0(zero); on: jalr zero, 0(ra)"
BARRIER = "addi t6, a0, 0; addi a0, zero, 64; addi a7, zero, 2; ecall; jalr zero, 0(ra)"


def ran(program: str, traced: int | None, profile: str, engine: str, harts: int = 4) -> tuple[Bench, Any]:
    """A kernel command of 50 instances."""
    options = {} if traced is None else {"trace_instances": traced}
    bench = Bench(profile, engine=engine, **options)
    bench.code(program)
    return bench, bench.run(*bench.kernel(CODE, instances=COUNT, harts=harts))


def of_harts(bench: Bench) -> list[RegisterAccess]:
    return [each for each in bench.seen(RegisterAccess) if each.unit.kind == HART]


@ENGINES
@PROFILES
@pytest.mark.parametrize(("traced", "reported"), [(0, 0), (1, 4), (9, 8), (None, COUNT), (COUNT + 1, COUNT)])
def test_the_first_instances_are_reported(profile: str, engine: str, traced: int | None, reported: int) -> None:
    """Whole groups of them, and one at least."""
    bench, status = ran(BUSY, traced, profile, engine)
    assert status.ok
    assert bench.r64(OUT, COUNT) == [8] * COUNT
    for kind in (InstanceStarted, InstanceEnded):
        assert sorted(each.instance for each in bench.seen(kind)) == list(range(reported))
    assert len(of_harts(bench)) == 2 * reported
    assert [each.instances for each in bench.seen(InstancesLeftOut)] == [COUNT - reported] * (reported < COUNT)
    (launch,) = bench.seen(KernelLaunch)
    assert launch.instances == COUNT
    # What comes behind the command is told of again.
    bench.events.clear()
    assert bench.run(*bench.kernel(CODE, instances=1)).ok
    assert len(of_harts(bench)) == 2 * (traced != 0)


@ENGINES
@PROFILES
def test_mistakes_are_reported_all(profile: str, engine: str) -> None:
    bench, status = ran(FAILS, 8, profile, engine)
    assert not status.ok
    (fault,) = bench.seen(HartFault)
    assert fault.instance == 45
    assert [each.instances for each in bench.seen(InstancesLeftOut)] == [COUNT - 8]
    assert len(bench.seen(InstanceStarted)) == 8


@ENGINES
@PROFILES
def test_barriers(profile: str, engine: str) -> None:
    bench, status = ran(BARRIER, 8, profile, engine, harts=2)
    assert status.ok
    assert len(bench.seen(BarrierReached)) == 8


@PROFILES
def test_output_is_reported_all(profile: str) -> None:
    events: list[Event] = []
    with RefSi.open(profile=profile, trace_instances=4) as device:
        device.port.probes.subscribe(events.append, ConsoleOutput, InstanceStarted)
        device.load_elf(demo_kernels())
        device.launch("hello", 12, [np.frombuffer(bytearray(b"text\n\0"), np.uint8)])
    texts = b"".join(each.data for each in events if isinstance(each, ConsoleOutput))
    assert len(texts.splitlines()) == 12
    assert sum(isinstance(each, InstanceStarted) for each in events) == 4


@pytest.mark.parametrize("count", [TRACED, 1_000_000])
def test_a_trace_of_many_is_bounded(count: int, tmp_path: Path) -> None:
    """As large for a million instances as for ten thousand."""
    trace = tmp_path / "trace.jsonl"
    with RefSi.open() as device, JsonlTrace(trace) as writer:
        writer.follow(device.port.probes)
        device.load_elf(demo_kernels())
        a = np.arange(16, dtype=np.int32)
        device.launch("vector_add", count, [a, a, np.zeros_like(a), 0])
    lines = trace.read_text(encoding="utf-8").splitlines()
    assert 2 * TRACED < len(lines) < 2 * TRACED + 100
    left = [each for each in map(json.loads, lines) if each["event"] == "instances-left-out"]
    assert [each["instances"] for each in left] == [count - TRACED] * (count > TRACED)


def test_a_report_says_what_it_leaves_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.cli.test_run import content

    file, report = tmp_path / "kernels.elf", tmp_path / "run.html"
    file.write_bytes(demo_kernels())
    words = ["run", str(file), "vector_add", "--grid", "100", *(["--arg", "i32:16"] * 3), "--arg", "u32=0"]
    assert main([*words, "--report", str(report), "--trace-waves", "8"]) == 0
    page = content(report)
    assert '"instances-left-out"' in page
    assert '"instances"' in page
    capsys.readouterr()


def test_transfers_of_the_command_processor_stay() -> None:
    """Those that harts have are left out with their instances."""
    from softcard.core.space import Unit
    from softcard.device.refsi.events import is_of_a_hart

    def transfer(kind: int) -> DmaTransfer:
        return DmaTransfer(0, Unit(kind), 1, 0, 0, (1,), (), ())

    assert is_of_a_hart(transfer(HART))
    assert not is_of_a_hart(transfer(HART - 1))
