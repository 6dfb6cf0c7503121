"""Checks of host programs that are written for the reference driver: nothing of them is changed for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from softcard.cli import main
from softcard.cli.attach.exec_devices import CHECKED_PROFILE
from softcard.riscv import assemble
from tests.attach.refsi.rig import compiled, needs_compiler

pytestmark = [needs_compiler, pytest.mark.slow]
Capture = pytest.CaptureFixture[str]
LAUNCH = """
sw a0, 0(a3)
ld t0, 152(a3)
addi a0, a2, 0
addi a1, a3, 0
jalr zero, 0(t0)
"""
FRAME = """
addi sp, sp, -16
sd ra, 8(sp)
ld t0, 0(a1)
ld t1, 0(a0)
ld t2, 8(a0)
{}
ld ra, 8(sp)
addi sp, sp, 16
jalr zero, 0(ra)
"""
COPY = "slli t3, t0, 2\nadd t1, t1, t3\nadd t2, t2, t3\nlw t4, 0(t1)\naddi t4, t4, 1\nsw t4, 0(t2)"
RIGHT = "1 11 21 31 41 51 61 71 \n"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compiled("hal", tmp_path_factory.mktemp("hal"))


def program(folder: Path, kernel: str) -> str:
    """A file with exit stub, launch stub and a kernel whose group, input and output are in t0, t1 and t2."""
    stubs = assemble("addi a0, zero, 0\naddi a7, zero, 0\necall").ljust(64, b"\0")
    path = folder / "program.bin"
    path.write_bytes(stubs + assemble(LAUNCH).ljust(64, b"\0") + assemble(FRAME.format(kernel)))
    return str(path)


def run(capfd: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main(["exec", "--device", "refsi", *arguments])
    out, err = capfd.readouterr()
    return code, out, err


def test_a_right_program_has_no_findings(capfd: Capture, host: str, tmp_path: Path) -> None:
    right = program(tmp_path, COPY)
    assert run(capfd, "--", host, right, "8") == (0, RIGHT, "")
    for mapped in ([], ["mapped"]):
        code, out, err = run(capfd, "--check", "all", "--", host, right, "8", *mapped)
        assert (code, out) == (0, RIGHT)
        ran = "1 kernel ran; 152 instructions"
        assert err.splitlines() == [CHECKED_PROFILE, ran, "checked: no findings"]


@pytest.mark.parametrize(("kernel", "groups", "found"), [
    (COPY, "9", "memory/out-of-bounds]: write of 4 bytes"),
    ("slli t3, t0, 2\nadd t2, t2, t3\nlw t4, 0(t2)\nbne t4, zero, 4\nsw t0, 0(t2)", "8", "init/undefined-branch"),
    ("lw t4, 0(t1)\nsw t0, 0(t2)", "8", "races/"),
])  # fmt: skip
def test_mistakes_are_found(capfd: Capture, host: str, tmp_path: Path, kernel: str, groups: str, found: str) -> None:
    code, _, err = run(capfd, "--check", "all", "--", host, program(tmp_path, kernel), groups)
    assert code == 0
    assert [line for line in err.splitlines() if line.startswith("error") and found in line], err


def test_a_kernel_that_faults_did_not_finish(capfd: Capture, host: str, tmp_path: Path) -> None:
    _, _, err = run(capfd, "--check", "races", "--", host, program(tmp_path, COPY + "\nsw t4, 0(zero)"), "8")
    assert err.splitlines()[-2:] == [
        "1 kernel ran, 1 did not finish",
        "checked in part: 1 kernel did not finish; there were no findings until then",
    ]


def test_the_encoding_of_windows_is_a_setting(capfd: Capture, host: str, tmp_path: Path) -> None:
    right = program(tmp_path, COPY)
    code, out, err = run(capfd, "--profile", "spec", "--", host, right, "8")
    assert (code, out == RIGHT) == (0, False)
    assert "2^(n-1), set window_scale to driver" in err
    assert run(capfd, "--profile", "spec", "--window-scale", "driver", "--", host, right, "8") == (0, RIGHT, "")
    code, _, err = run(capfd, "--profile", "refsidrv", "--check", "memory", "--", host, right, "8")
    assert (code, "also set window_scale='driver' (--window-scale driver)" in err) == (3, True)
    code, _, err = run(capfd, "--window-scale", "document", "--", host, right, "8")
    assert (code, err.split("[")[0].strip()) == (
        1,
        "error: window_scale='document' cannot be used with profile refsidrv, which reads window scales as the "
        "driver does",
    )
