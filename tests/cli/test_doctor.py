"""`softcard doctor`: what this machine can do, what adds what is missing, and making code ahead."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from softcard.cli import doctor as capabilities
from softcard.cli import main
from softcard.cli.running import bench_cases
from softcard.core.errors import AccessFault
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.host.hsa.gpu import demo_code
from softcard.ir import llvm

Capture = pytest.CaptureFixture[str]


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """In a process of its own, since natives are linked once in each."""
    environment = os.environ | {"XDG_CACHE_HOME": str(folder)}
    command = [
        sys.executable,
        "-c",
        "import sys; from softcard.cli import main; sys.exit(main())",
        "doctor",
        *arguments,
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


USE = """
from softcard.ir import llvm
from softcard.ir.compile_process import PROCESS
def refuse(*_):
    raise AssertionError("compiled")
llvm.compile_ir = PROCESS.compile_ir = refuse
import numpy as np
from softcard import Acceldev, Gpu
from softcard.acceldev import Fence, Fill
from softcard.refsi import CommandBuffer, RefSiDevice
device = RefSiDevice()
data = CommandBuffer().write_reg64("CMP_SCRATCH", 42).finish().to_bytes()
device.write(0x6000_0000, data)
device.submit(0x6000_0000, len(data))
assert device.wait()[0].error is None
device.close()
with Acceldev.open() as device, device.open_context() as context:
    data = context.create_buffer(1 << 16)
    context.run(context.create_code(Fill(value=1, buffer_slot=data.slot, start=0, length=4096), Fence()))
    context.wait(1)
from softcard.hsa import demo_code
for agent in ("gfx700", "gfx803", "gfx900"):
    with Gpu.open(agent) as gpu:
        x, y = gpu.array(np.arange(1000, dtype=np.float32)), gpu.zeros(1000)
        gpu.run(gpu.load(demo_code(agent)), "saxpy", 1000, 128, [2.0, x, y])
        assert (y == 2 * np.arange(1000)).all()
"""


def test_what_is_missing_is_said_made_and_then_there(tmp_path: Path) -> None:
    """After --warm no device compiles anything of its own, nor do the kernels that come with Softcard."""
    status, text = run(tmp_path)
    assert status == 0  # what is merely not compiled yet is no fault
    assert "RefSi: commands: not yet compiled\n" in text
    assert "GCN: code for 0 instruction handlers" in text
    assert "to compile all of it now: softcard doctor --warm\n" in text
    status, text = run(tmp_path, "--warm")
    assert status == 0
    assert "compiled GCN: waves and their memory\n" in text
    assert "6 kernels ready: demo kernels for gfx803\n" in text
    assert "not yet compiled" not in text
    status, text = run(tmp_path)
    assert status == 0
    assert "not yet compiled" not in text
    assert re.search(rf"^cache +ok +{re.escape(str(tmp_path / 'softcard' / 'code'))}, \d+ files, ", text, re.M)
    subprocess.run([sys.executable, "-c", USE], env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)}, check=True)


def test_kernels_of_a_file(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "one.co"
    path.write_bytes(demo_code("gfx803"))
    assert main(["doctor", "--warm", str(path)]) == 0
    assert f"kernels ready: {path}" in capsys.readouterr().out


def test_a_cache_that_is_not_ones_own_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "softcard" / "code"
    folder.parent.mkdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    status, text = run(tmp_path)
    assert status == 1
    assert re.search(rf"^cache +broken +{re.escape(str(folder))} is not used: ", text, re.M)
    assert "\nto repair broken parts:\n  export XDG_CACHE_HOME=" in text


def test_a_missing_file_is_no_bug(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm, "compile_ir", None)  # files are looked at first
    monkeypatch.setattr(JitEngine, "run", None)
    assert main(["doctor", "--warm", str(tmp_path / "none.co")]) == 2
    assert "none.co" in capsys.readouterr().err


# ---- what is installed -----------------------------------------------------------------------------------------------


def checks(capsys: Capture) -> tuple[int, dict[str, dict[str, str]]]:
    status = main(["doctor", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["good"] is (status == 0)
    return status, {each["what"]: each for each in document["checks"]}


@pytest.fixture
def no_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_cases.Bench, "measure", lambda self, seconds: bench_cases.Speed(400.0, 400.0))


@pytest.mark.usefixtures("no_engines")
def test_each_extra_that_is_missing_has_its_command(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"numpy": "2.0", "llvmlite": "0.50.0", "typer": "0.20", "rich": "14.0", "pytest": "9.0"}
    monkeypatch.setattr(capabilities, "_version", lambda name: there.get(name, ""))
    status, found = checks(capsys)
    assert status == 0
    for extra in ("arrow", "dask", "kernels", "testing", "vcd"):
        each = found[f"extra {extra}"]
        assert (each["state"], each["adds"]) == ("missing", f"pip install 'softcard[{extra}]'")
    assert found["extra testing"]["found"] == "no hypothesis, pytest 9.0"
    there["numpy"] = "1.25.2"  # too old
    status, found = checks(capsys)
    assert (status, found["packages"]["state"]) == (1, "broken")


def test_doctor_knows_what_each_extra_is_for() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(capabilities.EXTRAS) == set(project["optional-dependencies"]) - capabilities.BUNDLES


@pytest.mark.usefixtures("no_engines")
@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("QEMU emulator version 10.1.0 (Debian)", "ok"),
        ("QEMU emulator version 7.2.22", "missing"),
        ("no", "broken"),
        ("", "missing"),
    ],
)
def test_programs_of_others(
    said: str, state: str, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only those that are there and new enough; all others have a command that adds them."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    if said:
        (tmp_path / "qemu-system-x86_64").write_text(f"#!/bin/sh\necho '{said}'\n")
        (tmp_path / "qemu-system-x86_64").chmod(0o755)
    status, found = checks(capsys)
    assert status == (state == "broken")
    assert found["QEMU 10.1"]["state"] == state
    assert found["C compiler"]["found"] == "ziglang", "tests have it, for kernels"
    assert found["gdb"]["state"] == found["HIP"]["state"] == "missing"
    assert all((each["state"] == "ok") != bool(each["adds"]) for each in found.values())


def test_an_engine_that_fails_is_broken(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: bench_cases.Bench, seconds: float) -> bench_cases.Speed:
        raise AccessFault("read of nothing", address=0)

    monkeypatch.setattr(bench_cases.Bench, "measure", fail)
    status, found = checks(capsys)
    assert (status, found["GPU waves"]["state"]) == (1, "broken")
    assert "read of nothing" in found["GPU waves"]["found"]
