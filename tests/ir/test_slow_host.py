"""On a host that is not an x86 results are the same, and that they come slowly is said, once."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from softcard.engine.gcn.threaded.library import shared_library
from softcard.engine.riscv.jit.engine import JitEngine
from softcard.host.hsa.gpu import Gpu, demo_code
from softcard.host.refsi.refsi import RefSi, demo_kernels
from softcard.ir import llvm
from softcard.ir.llvm import SlowHostWarning

ROOT = Path(__file__).parents[2]


@pytest.fixture
def other_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """As on an aarch64, say: what is asked about the host's processor says no. Nothing that is kept is this host's."""
    llvm._warn.cache_clear()
    shared_library.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(llvm, "is_x86", lambda: False)
    yield
    llvm._warn.cache_clear()
    shared_library.cache_clear()


def vector_add() -> np.ndarray:
    with RefSi.open() as device:
        device.load_elf(demo_kernels())
        a, b = np.arange(64, dtype=np.int32), np.full(64, 100, dtype=np.int32)
        c = np.zeros(64, dtype=np.int32)
        device.launch("vector_add", 4, [a, b, c, 16])
    return c


def saxpy() -> np.ndarray:
    with Gpu.open("gfx900") as gpu:
        x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
        gpu.run(demo_code("gfx900"), "saxpy", grid=100, group=64, args=[2.0, x, y])
    return y


@pytest.mark.usefixtures("other_host")
@pytest.mark.parametrize(
    ("run", "expected", "message"),
    [
        (
            vector_add,
            np.arange(100, 164),
            "this host does not have an x86 processor: RISC-V kernels run on the slow reference engine",
        ),
        (
            saxpy,
            2 * np.arange(100) + 1,
            "this host does not have an x86 processor: GPU code that flushes denormals",
        ),
    ],
)
def test_the_slow_way_is_reported_once_and_is_right(run, expected, message) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert (run() == expected).all()
        assert (run() == expected).all()
    [warning] = caught
    assert warning.category is SlowHostWarning
    assert str(warning.message).startswith(message)
    assert warning.filename == __file__, "it shows the user's own line"


@pytest.mark.usefixtures("other_host")
def test_engines_that_are_made_by_hand_warn_too() -> None:
    with pytest.warns(SlowHostWarning, match="about a million instructions a second"):
        JitEngine()


def test_nothing_is_said_where_there_is_machine_code() -> None:
    if not llvm.is_x86():
        pytest.skip("this host is not an x86")
    llvm._warn.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (vector_add() == np.arange(100, 164)).all()


@pytest.mark.parametrize("page", ["README.md", "docs/engines.md", "docs/gcn.md"])
def test_the_pages_say_so(page: str) -> None:
    assert "not an x86" in (ROOT / page).read_text("utf-8")
