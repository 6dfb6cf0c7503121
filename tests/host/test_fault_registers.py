"""Registers that the error of a kernel tells of unasked: the same on both engines, and those that snapshots have."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softcard import Gpu, RefSi
from softcard.core.errors import GuestFault, Registers, SoftcardError
from softcard.core.event import Event
from softcard.device.hsa.wave_events import RegistersTaken
from softcard.device.refsi.events import HartFault
from softcard.device.refsi.events import RegistersTaken as HartRegistersTaken
from softcard.hsa import demo_code
from softcard.isa.riscv.format import REGISTERS
from softcard.refsi import demo_kernels
from softcard.riscv import RV64
from softcard.trace.timeline import Timeline
from softcard.trace.values import to_object
from tests.cli.test_run import content
from tests.host.programs import program

ENGINES = pytest.mark.parametrize("engine", ["jit", "reference"])
PROFILES = pytest.mark.parametrize("profile", ["spec", "refsidrv"])
GOOD = 390
"""Work-items before the first that fails."""


def of_wave(**options: Any) -> tuple[SoftcardError, list[Event]]:
    """Return the error and events of a launch in which work-item 390, lane 6 of a wave, is the first to store outside
    of memory."""
    events: list[Event] = []
    with Gpu.open("gfx900", **options) as gpu:
        gpu.device.probes.subscribe(events.append)
        code = gpu.load(demo_code("gfx900"))
        with pytest.raises(SoftcardError) as caught:
            gpu.run(code, "broken", 768, 256, [gpu.array(np.zeros(768, np.float32)), GOOD])
    return caught.value, events


def of_hart(**options: Any) -> tuple[SoftcardError, list[Event]]:
    """Return the error of a launch in which each instance stores outside of memory."""
    events: list[Event] = []
    with RefSi.open(**options) as device:
        device.port.probes.subscribe(events.append)
        device.load_elf(demo_kernels())
        with pytest.raises(SoftcardError) as caught:
            device.launch("broken", 4, [np.arange(64, dtype=np.int32), 0])
    return caught.value, events


def held(error: SoftcardError) -> Registers:
    assert error.registers is not None
    return error.registers


@ENGINES
def test_of_a_wave_what_the_instruction_reads(engine: str) -> None:
    registers = held(of_wave(engine=engine)[0])
    assert registers.instruction == "global_store_dword v[0:1], v2, off"
    assert registers.lane == GOOD % 64
    assert list(registers.scalars) == ["exec"]
    assert list(registers.vectors) == ["v0", "v1", "v2"]
    assert np.uint32(registers["v2"]).view(np.float32) == GOOD
    _, events = of_wave(snapshots=1)
    (taken,) = (each for each in events if isinstance(each, RegistersTaken))
    assert int(taken.scalars["exec"], 16) == registers["exec"]
    for name, value in registers.vectors.items():
        if name != "v1":  # the upper half of an address of this process
            assert int(taken.vectors[name].split()[GOOD % 64], 16) & 0xFFF == value & 0xFFF


def test_both_engines_and_a_snapshot_agree_on_a_wave() -> None:
    """In one launch: the address is the same then."""
    for engine in ("jit", "reference"):
        error, _ = of_wave(engine=engine)
        registers = held(error)
        assert registers["v0"] | registers["v1"] << 32 == error.address  # type: ignore[attr-defined]
    error, events = of_wave(snapshots=1)
    (taken,) = (each for each in events if isinstance(each, RegistersTaken))
    lane = held(error).lane
    assert lane is not None
    words = {name: int(values.split()[lane], 16) for name, values in taken.vectors.items()}
    assert held(error).vectors.items() <= words.items()


@ENGINES
@PROFILES
def test_of_a_hart_all_integer_registers(profile: str, engine: str) -> None:
    error, events = of_hart(profile=profile, engine=engine)
    registers = held(error)
    (fault, *_) = (each for each in events if isinstance(each, HartFault))
    assert fault.registers == registers
    assert (registers.pc, registers["a1"]) == (fault.pc, fault.value)
    assert registers.instruction.startswith("c.sw a0,0(a1)")
    assert tuple(registers.scalars) == REGISTERS
    _, events = of_hart(profile=profile, snapshots=1)
    (taken,) = (each for each in events if isinstance(each, HartRegistersTaken))
    assert {name: int(taken.scalars[name], 16) for name in REGISTERS} == registers.scalars


@ENGINES
def test_of_a_program_by_itself(engine: str) -> None:
    text = "addi a3, zero, 77; lui t0, 0x123; ld t1, 8(a3)"
    with pytest.raises(GuestFault) as caught:
        RV64.run(program(text), engine=engine)
    registers = held(caught.value)
    assert (registers["a3"], registers["t0"], registers["t1"]) == (77, 0x12_3000, 0)
    assert registers.instruction == "ld t1,8(a3), a3 = 0x4d"
    assert tuple(registers.scalars) == REGISTERS


def test_an_error_keeps_them_in_other_processes_and_tracebacks() -> None:
    for error in (of_wave()[0], of_hart()[0]):
        assert error.__context__ is error.__cause__ is None  # what Dask and others pickle, too
        again = pickle.loads(pickle.dumps(error))
        assert again.registers == error.registers
        assert error.__notes__ == again.__notes__ == [str(error.registers)]
        assert again.in_full() == error.in_full() == f"{error}\n  " + str(held(error)).replace("\n", "\n  ")


def test_as_text() -> None:
    wave = Registers(0x10, "v_nop", {"exec": 3, "s4": 0}, {"v0": 16, "v1": 0}, 1)
    assert str(wave) == "registers: exec = 0x3, s4 = 0x0; lane 1: v0 = 0x10, v1 = 0x0"
    hart = Registers(0x10, "nop", dict.fromkeys(REGISTERS, 0) | {"sp": 0x1400_0000, "a0": 7})
    assert str(hart) == "registers: sp = 0x14000000, a0 = 0x7, others 0"
    many = str(Registers(0x10, "nop", dict.fromkeys(REGISTERS, 1 << 60)))
    assert max(map(len, many.splitlines())) <= 110
    assert many.count("0x1000000000000000") == 32


@PROFILES
def test_a_report_shows_a_harts(profile: str) -> None:
    _, events = of_hart(profile=profile)
    about, _ = Timeline(to_object(each) for each in events).columns()
    (_, why, place, pc, _, scalars, vectors) = about["snapshots"][0]
    (fault, *_) = (each for each in events if isinstance(each, HartFault))
    assert (why, place, pc) == ("fault", f"hart {fault.hart}, instance {fault.instance}", hex(fault.pc))
    assert ["a1", hex(fault.value)] in scalars
    assert not vectors
    assert "registers" not in {column["name"] for table in about["tables"] for column in table}


@pytest.mark.parametrize("snapshots", [0, 4])
def test_a_report_shows_a_waves_once(snapshots: int) -> None:
    """All of them where they were asked for."""
    error, events = of_wave(snapshots=snapshots)
    about, _ = Timeline(to_object(each) for each in [*events, events[-1]]).columns()
    ((_, why, place, _, text, scalars, vectors),) = about["snapshots"]
    assert (why, text) == ("fault", held(error).instruction)
    assert bool(vectors) == bool(snapshots)
    if not snapshots:
        assert place == "lane 6, wave 2, work-group 1,0,0, packet 0, queue 0"
        assert [name for name, _ in scalars] == ["exec", "v0", "v1", "v2"]


@pytest.mark.parametrize("held", [None, 3, [], {}, {"scalars": 1, "vectors": "v0"}, {"pc": {}, "scalars": {"a": {}}}])
def test_a_trace_that_somebody_has_written(held: Any) -> None:
    """Is shown as far as it makes sense."""
    about, _ = Timeline([{"time": 0, "event": "queue-errored", "registers": held}] * 3).columns()
    assert about["snapshotCount"] == isinstance(held, dict)


def test_many_faults_are_read_at_once() -> None:
    records = [
        {"time": n, "event": "fault", "registers": {"pc": hex(n), "scalars": {"a": "0x0"}}} for n in range(20_000)
    ]
    about, _ = Timeline(records).columns()
    assert (about["snapshotCount"], len(about["snapshots"])) == (20_000, 64)


def test_the_command_line_shows_them(tmp_path: Path) -> None:
    file, report = tmp_path / "k.co", tmp_path / "run.html"
    file.write_bytes(demo_code("gfx900"))
    words = [sys.executable, "-m", "softcard", "run", str(file), "broken"]
    words += ["--grid", "64", "--arg", "f32:64", "--arg", "u32=6"]
    done = subprocess.run([*words, "--report", str(report)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "= note: registers: exec = 0xffffffffffffffff; lane 6: v0 = 0x" in done.stderr
    assert '["v2","0x40c00000"]' in content(report)
    done = subprocess.run([*words, "--json"], capture_output=True, text=True, check=False)
    document = json.loads(done.stdout)
    assert done.returncode == 1
    assert document["error"].startswith("write of 4 bytes at 0x")
    assert document["registers"]["lane"] == 6
    assert document["registers"]["vectors"]["v2"] == "0x40c00000"
