"""`--coverage` of `softcard run` and `softcard exec`: LCOV files to which runs add."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from softcard import Gpu
from softcard.cli import main
from softcard.cli.records import ExecRecords
from softcard.coverage import Coverage
from softcard.device.kfd.loaded_code import CodeWatch
from softcard.host.hsa.compile import COMPILERS, LINE_TABLES
from tests.host.test_coverage import HARTS, INLINED, MASKED

Capture = pytest.CaptureFixture[str]


def test_runs_add_to_a_file(tmp_path: Path, capsys: Capture) -> None:
    source, target = tmp_path / "masked.s", tmp_path / "all.info"
    source.write_text(MASKED)
    for times in (1, 2):
        assert main(["run", str(source), "--coverage", str(target)]) == 0
        assert f"coverage: 12 of 14 lines of 1 file, added to {target}" in capsys.readouterr().err
        found = Coverage.from_lcov(target.read_text()).files[str(source)]
        assert found.lines[15] == 3 * times


def test_a_kernel_that_fails_has_coverage(tmp_path: Path, capsys: Capture) -> None:
    source, target = tmp_path / "wrong.s", tmp_path / "all.info"
    source.write_text(MASKED.replace("s_branch 3f", "global_load_dword v3, v[2:3], off"))
    assert main(["run", str(source), "--coverage", str(target)]) == 1
    assert Coverage.from_lcov(target.read_text()).files[str(source)].lines[17] == 3
    capsys.readouterr()


def test_a_kernel_of_refsi(tmp_path: Path, capsys: Capture) -> None:
    source, target = tmp_path / "count.s", tmp_path / "all.info"
    source.write_text(HARTS)
    command = ["run", str(source), "--agent", "rv64gc", "--grid", "4", "--coverage", str(target)]
    assert main(command) == 0, capsys.readouterr()
    assert Coverage.from_lcov(target.read_text()).files[str(source)].lines == {
        5: 4, 6: 12, 7: 12, 8: 4, 9: 3, 10: 0, 11: 4
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--check", "races"], "--coverage with --check races requires --engine reference: use that engine, or two"),
        (["--check", "memory,init"], "--coverage with --check init requires --engine reference"),
        (["--both-engines"], "--coverage cannot be used with --both-engines, which runs the kernel twice"),
    ],
)
def test_what_cannot_be_combined(words: list[str], text: str, tmp_path: Path, capsys: Capture) -> None:
    source, target = tmp_path / "masked.s", tmp_path / "all.info"
    source.write_text(MASKED)
    assert main(["run", str(source), "--coverage", str(target), *words]) == 2
    assert text in capsys.readouterr().err
    assert not target.exists()


def test_a_file_that_is_not_lcov(tmp_path: Path, capsys: Capture) -> None:
    source, target = tmp_path / "masked.s", tmp_path / "all.info"
    source.write_text(MASKED)
    target.write_text("DA:text\n")
    assert main(["run", str(source), "--coverage", str(target)]) == 2
    assert "is 'DA:text', expected a record of LCOV such as DA:12,1" in capsys.readouterr().err


def test_programs_without_a_device_that_counts(tmp_path: Path, capsys: Capture) -> None:
    assert main(["exec", "--coverage", str(tmp_path / "all.info"), "--", sys.executable, "-c", "pass"]) == 2
    assert "--coverage requires --device rocm, --device refsi or --agent NAME" in capsys.readouterr().err


def test_code_that_a_program_of_rocm_loaded(tmp_path: Path) -> None:
    source, file, found = tmp_path / "k.cl", tmp_path / "k.co", Coverage()
    source.write_text(INLINED)
    file.write_bytes(COMPILERS[".cl"](f'#line 1 "{source}"\n{INLINED}', "gfx900", options=LINE_TABLES))
    with ExitStack() as stack, Gpu.open("gfx900", count_instructions=True) as gpu:
        records = ExecRecords(stack, None, None, None, (), (file,), found)
        others = ExecRecords(stack, None, None, None, (), (), found)
        assert records
        assert records.shows_code
        watches = [CodeWatch(gpu.device, each.gpu_code) for each in (records, others)]
        gpu.run(file, "k", grid=128, group=64, args=[np.ones(128, np.int32), 64])
        for watch in watches:
            watch.close()
    lines = found.files[str(source)].lines
    assert lines[2]
    assert not lines[12]
    (name,) = found.without_lines  # of the program whose files are not known
    assert name.startswith("code at 0x")
