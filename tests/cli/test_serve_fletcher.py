"""`softcard serve fletcher`: what it refuses before it serves. How it serves is in tests/attach/fletcher."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest

from softcard.cli import main
from softcard.cli.attach.serve_fletcher import load_kernel, register_map
from softcard.cli.exits import ExitCode, UsageError
from softcard.device.fletcher.kernel import kernel

VECTORS = Path(__file__).parents[1] / "vectors" / "fletcher"
KERNELS = """
import pyarrow as pa
from softcard.device.fletcher.kernel import kernel

@kernel("rows", read={"P": [("a", pa.int8())]})
def count(job):
    return job.batch().num_rows

other = 5
"""


def serve(*options: str) -> int:
    return main(["serve", "fletcher", *options])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(KERNELS)
    return path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("product", "there is no kernel 'product', expected one of sum, string_write"),
        ("{file}:other", "mine.py has no kernel other (its kernels: count)"),
        ("{file}:nothing", "mine.py has no kernel nothing (its kernels: count)"),
        ("{file}x:count", "mine.pyx, expected a Python file"),
        ("{broken}:count", "broken.py raised ZeroDivisionError: division by zero"),
    ],
)
def test_kernels_that_are_none(
    name: str, message: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0\n")
    assert serve("--kernel", name.format(file=file, broken=broken)) == ExitCode.USAGE
    assert message in capsys.readouterr().err


def test_kernels_from_files(file: Path) -> None:
    found = load_kernel(f"{file}:count")
    assert found.name == "rows"
    assert load_kernel("sum").name == "sum"


def test_schemas_for_kernels_that_take_any() -> None:
    anything = kernel("anything")(lambda job: 0)
    with pytest.raises(
        UsageError, match="kernel anything takes RecordBatches of any schema: give one --schema for each"
    ):
        register_map(anything, [], "fletchgen", 0)
    plan = register_map(anything, [VECTORS / "multi.0.as", VECTORS / "multi.1.as"], "runtime", 8)
    assert len(plan.batches) == 2
    assert plan.offset == 8


@pytest.mark.parametrize(
    ("schema", "status", "message"),
    [
        ("nothing.as", ExitCode.USAGE, "cannot read nothing.as: No such file or directory"),
        (str(Path(__file__)), ExitCode.GUEST, Path(__file__).name),
        (str(VECTORS / "utf8.0.as"), ExitCode.GUEST, "kernel sum"),
    ],
)
def test_schemas_that_do_not_do(
    schema: str, status: ExitCode, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve("--schema", schema) == status
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("offset", "status", "message"),
    [
        (
            "far",
            ExitCode.USAGE,
            "--offset: 'far' is not a number, expected decimal or 0x hex",
        ),
        ("0x42", ExitCode.USAGE, "--offset is 0x42, expected a multiple of 4"),
    ],
)
def test_offsets_that_are_none(offset: str, status: ExitCode, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert serve("--offset", offset) == status
    assert message in capsys.readouterr().err


def test_a_socket_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert serve("--no-library", "--socket", str(tmp_path / "no" / "s")) == ExitCode.USAGE
    assert "cannot listen at" in capsys.readouterr().err


def test_a_folder_for_the_socket_that_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    folder = tmp_path / "file" / "softcard" / "fletcher"
    assert serve("--no-library") == ExitCode.USAGE
    assert f"cannot make the private folder {folder}: Not a directory" in capsys.readouterr().err


def test_a_library_that_cannot_be_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert serve("--socket", str(tmp_path / "s")) == ExitCode.USAGE
    assert "needs a C compiler, but none was found (tried no-such-compiler)" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


def test_without_pyarrow(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert pa is not None
    assert serve() == ExitCode.USAGE
    assert "need pyarrow: pip install 'softcard[arrow]'" in capsys.readouterr().err
