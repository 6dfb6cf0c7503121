"""`understudy doctor`: what is compiled on this machine, and making it ahead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from understudy.cli import main
from understudy.engine.gcn.jit.engine import JitEngine
from understudy.host.hsa.gpu import demo_code
from understudy.ir import llvm

Capture = pytest.CaptureFixture[str]


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """In a process of its own, since natives are linked once in each."""
    environment = os.environ | {"XDG_CACHE_HOME": str(folder)}
    command = [
        sys.executable,
        "-c",
        "import sys; from understudy.cli import main; sys.exit(main())",
        "doctor",
        *arguments,
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


USE = """
from understudy.ir import llvm
from understudy.ir.compile_process import PROCESS
def refuse(*_):
    raise AssertionError("compiled")
llvm.compile_ir = PROCESS.compile_ir = refuse
import numpy as np
from understudy import Acceldev, Gpu
from understudy.acceldev import Fence, Fill
from understudy.refsi import CommandBuffer, RefSiDevice
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
from understudy.hsa import demo_code
for agent in ("gfx700", "gfx803", "gfx900"):
    with Gpu.open(agent) as gpu:
        x, y = gpu.array(np.arange(1000, dtype=np.float32)), gpu.zeros(1000)
        gpu.run(gpu.load(demo_code(agent)), "saxpy", 1000, 128, [2.0, x, y])
        assert (y == 2 * np.arange(1000)).all()
"""


def test_what_is_missing_is_said_made_and_then_there(tmp_path: Path) -> None:
    """After --warm no device compiles anything of its own, nor do the kernels that come with Understudy."""
    status, text = run(tmp_path)
    assert status == 1
    assert "RefSi: commands: missing\n" in text
    assert "GCN: 0 handlers" in text
    assert text.endswith("understudy doctor --warm\n")
    status, text = run(tmp_path, "--warm")
    assert status == 0
    assert "compiled GCN: waves and their memory\n" in text
    assert "6 kernels ready: demo kernels for gfx803\n" in text
    assert ": missing" not in text
    status, text = run(tmp_path)
    assert status == 0
    assert f"cache: {tmp_path / 'understudy' / 'code'}, " in text
    subprocess.run([sys.executable, "-c", USE], env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)}, check=True)


def test_kernels_of_a_file(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "one.co"
    path.write_bytes(demo_code("gfx803"))
    assert main(["doctor", "--warm", str(path)]) == 0
    assert f"kernels ready: {path}" in capsys.readouterr().out


def test_a_cache_that_is_not_ones_own_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "understudy" / "code"
    folder.parent.mkdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    status, text = run(tmp_path)
    assert status == 1
    assert f"cache: {folder} is not used: " in text


def test_a_missing_file_is_no_bug(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm, "compile_ir", None)  # files are looked at first
    monkeypatch.setattr(JitEngine, "run", None)
    assert main(["doctor", "--warm", str(tmp_path / "none.co")]) == 2
    assert "none.co" in capsys.readouterr().err
