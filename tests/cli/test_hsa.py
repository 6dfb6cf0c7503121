"""`understudy hsa`: kernels run from the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import understudy
from tests.host.hsa.test_small import code
from understudy.cli import main
from understudy.engine.gcn.jit.engine import JitEngine
from understudy.engine.gcn.jit.tier import Tier

Capture = pytest.CaptureFixture[str]
DATA = Path(understudy.__file__).parent / "data"
CODE = str(DATA / "hsa_kernels-gfx803.co")


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main(["hsa", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_kernel_is_run_and_its_arrays_shown(capsys: Capture) -> None:
    arguments = ["--arg", "2.5", "--arg", "range:f32:64", "--arg", "zeros:f32:8x8"]
    code, out, err = run(capsys, "run", CODE, "saxpy", "--grid", "64", *arguments)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("saxpy: ")
    assert lines[0].endswith(" wave instructions")
    assert lines[1] == "argument 1, float32[64]: 0.0 1.0 2.0 3.0 4.0 5.0 6.0 7.0 ..."
    assert lines[2] == "argument 2, float32[8, 8]: 0.0 2.5 5.0 7.5 10.0 12.5 15.0 17.5 ..."


def test_arrays_from_files_and_into_files(capsys: Capture, tmp_path: Path) -> None:
    rows = np.random.default_rng(1).integers(-9, 9, (64, 16)).astype(np.int32)
    np.save(tmp_path / "in.npy", rows)
    out = tmp_path / "out.npy"
    arguments = ["--arg", f"@{tmp_path}/in.npy", "--arg", f"zeros:i32:64x16={out}"]
    assert run(capsys, "run", CODE, "sort_private", "--grid", "64", "--engine", "reference", *arguments)[0] == 0
    assert np.array_equal(np.load(out), np.sort(rows, axis=1))


@pytest.mark.parametrize("tier", ["auto", "first", "optimised"])
def test_tiers_give_the_same(capsys: Capture, monkeypatch: pytest.MonkeyPatch, tier: str) -> None:
    made: list[Tier | None] = []
    begin = JitEngine.__init__
    monkeypatch.setattr(
        JitEngine,
        "__init__",
        lambda engine, threads=None, tier=None: made.append(tier) or begin(engine, threads, tier),  # type: ignore[func-returns-value]
    )
    arguments = ["--arg", "2.5", "--arg", "range:f32:64", "--arg", "zeros:f32:64"]
    code, out, _ = run(capsys, "run", CODE, "saxpy", "--grid", "64", "--tier", tier, *arguments)
    assert code == 0
    assert out.splitlines()[2] == "argument 2, float32[64]: 0.0 2.5 5.0 7.5 10.0 12.5 15.0 17.5 ..."
    assert made == [{"auto": None, "first": Tier.THREADED, "optimised": Tier.OPTIMISED}[tier]]


def test_local_memory_types_and_sizes(capsys: Capture, tmp_path: Path) -> None:
    out = tmp_path / "bins.npy"
    arguments = ["--arg", "random:u8:1000", "--arg", "i32:1000", "--arg", f"zeros:i32:256={out}", "--arg", "local:1024"]
    assert run(capsys, "run", CODE, "histogram", "--grid", "256", "--group", "128", *arguments)[0] == 0
    assert np.load(out).sum() == 1000


@pytest.mark.oracle
def test_a_source_is_compiled(capsys: Capture) -> None:
    pytest.importorskip("ziglang")
    source = str(DATA / "hsa_kernels.cl")
    code, out, _ = run(capsys, "run", source, "mandelbrot", "--grid", "8x8", "--arg", "zeros:u32:8x8", "--arg", "8",
                       "--arg", "30", "--agent", "gfx906")  # fmt: skip
    assert code == 0
    assert "argument 0, uint32[8, 8]: " in out


def test_a_fault_is_an_error_of_the_guest(capsys: Capture) -> None:
    code, _, err = run(capsys, "run", CODE, "broken", "--grid", "64", "--arg", "zeros:f32:64", "--arg", "9")
    assert code == 1
    assert err.startswith("error: write of 4 bytes at ")
    assert "at lane 9" in err
    assert err.endswith("at kernel broken\n")


def test_code_of_the_small_machine_model(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "small.co"
    file.write_bytes(code("gfx900"))
    arguments = ["--arg", "range:i32:64", "--arg", "zeros:i32:64", "--arg", "local:256", "--arg", "7"]
    status, out, err = run(capsys, "run", str(file), "k", "--grid", "64", "--machine-model", "small", *arguments)
    assert (status, err) == (0, "")
    assert out.splitlines()[2] == "argument 1, int32[64]: 7 8 9 10 11 12 13 14 ..."


def test_exact_bounds(capsys: Capture) -> None:
    arguments = ["run", CODE, "saxpy", "--grid", "65", "--arg", "1", "--arg", "zeros:f32:64", "--arg", "zeros:f32:64"]
    assert run(capsys, *arguments)[0] == 0
    code, _, err = run(capsys, *arguments, "--exact")
    assert code == 1
    assert "array float32[64] ends at" in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--grid", "x"], 2, "'x' is no size, expected 1024, 64x64 or 8x8x8"),
        (["--grid", "64", "--arg", "many"], 2, "argument 'many' is no number, array, file or local:BYTES"),
        (["--grid", "64", "--arg", "zeros:f33:8"], 2, "no type 'f33', expected one of i8, u8"),
        (["--grid", "64", "--arg", "i32:x"], 2, "'x' is no whole number"),
        (["--grid", "64", "--arg", "u8:300"], 2, "does not fit uint8"),
        (["--grid", "64", "--arg", "@none.npy"], 2, "cannot read none.npy"),
        (["--grid", "64", "--arg", f"@{__file__}"], 2, "is no .npy file"),
        (["--grid", "64", "--arg", "7=out.npy"], 2, "only arrays can be saved"),
        (["--grid", "64"], 1, "kernel saxpy takes 3 arguments"),
        (["--grid", "64", "--agent", "gfx900"], 1, "the code object is for gfx803, the agent is gfx900"),
        (["--grid", "64", "--agent", "gfx1"], 1, "no agent 'gfx1'"),
    ],
)
def test_mistakes(capsys: Capture, arguments: list[str], code: int, message: str) -> None:
    found, _, err = run(capsys, "run", CODE, "saxpy", *arguments)
    assert found == code
    assert message in err


def test_agents(capsys: Capture) -> None:
    code, out, _ = run(capsys, "agents")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()][:2] == ["gfx700", "gfx701"]
    assert "gfx803  64 CUs, 40 waves each, 1/16 double rate" in out
