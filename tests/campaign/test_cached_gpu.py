"""The device that a worker keeps from task to task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from softcard.campaign.perform import GPU_CACHE, assembled, run_kernel
from softcard.campaign.task import Task
from softcard.engine.gcn.threaded.library import shared_library
from softcard.host.hsa.gpu import Gpu

AGENT = "gfx900"
TASK = Task("a", "0")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where objects are kept: one that was empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    GPU_CACHE.drop()
    shared_library.cache_clear()
    yield tmp_path / "softcard" / "code"
    GPU_CACHE.drop()
    shared_library.cache_clear()


def kernel(number: int) -> bytes:
    """One of many programs that consist of the same kinds of instructions."""
    return assembled(f"s_mov_b32 s20, {number}\ns_endpgm\n", AGENT)


def test_of_generated_programs_handlers_are_kept_and_nothing_else(folder: Path) -> None:
    run_kernel(kernel(1), AGENT, TASK)
    kept = set(folder.iterdir())
    assert kept
    for number in range(2, 5):
        run_kernel(kernel(number), AGENT, TASK)
    assert set(folder.iterdir()) == kept
    with Gpu.open(AGENT) as gpu:
        gpu.run(gpu.load(kernel(5)), "k", 64, 64, [gpu.zeros(1), gpu.zeros(1), gpu.zeros(1)])
    assert len(set(folder.iterdir()) - kept) == 1, "what others run is kept"
