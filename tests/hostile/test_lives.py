"""Devices with long lives, with checks on, and with pages beside their memory that may not be touched."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from softcard.device.hsa.queues import signals
from tests.hostile import hsa, lives

ROOT = Path(__file__).parents[2]
GUARDED = ["-W", "ignore", "-m", "tests.hostile.guarded", "--cases", "1"]
KINDS = ("aql", "checked-aql", "lives", "kernels", "vector-kernels")


@pytest.mark.slow
# Ctrl-C may end a constructor of llvmlite's half-way; the destructor of that object then fails in ctypes.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_code_comes_and_goes_and_launches_fail_and_are_interrupted() -> None:
    reported: Counter[str] = Counter()
    for number in range(6):
        reported.update(lives.check_life(f"lives/{number}", steps=10))
    assert reported["Ctrl-C"]
    assert reported["AccessFault"]


@pytest.mark.slow
@pytest.mark.parametrize("check", hsa.CHECKS)
def test_packets_and_queues_of_any_kind_with_checks(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "LOCK_SECONDS", 0.0)
    reported: Counter[str] = Counter()
    for number in range(6):
        reported.update(hsa.check_device(f"checked/{number}", check))
    assert reported


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="protects pages as Linux does")
def test_nothing_beside_memory_is_touched() -> None:
    kinds = [word for kind in KINDS for word in ("--kind", kind)]
    done = subprocess.run(
        [sys.executable, *GUARDED, *kinds], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [f"{kind} 1" for kind in KINDS]


@pytest.mark.skipif(sys.platform != "linux", reason="protects pages as Linux does")
def test_what_touches_a_page_beside_memory_ends() -> None:
    code = (
        "import ctypes; from tests.hostile.guarded import guard; guard(); from softcard.core.space import Ram;"
        "ram = Ram(8192); ctypes.string_at(ram.base_host, 8192); print('inside', flush=True);"
        "ctypes.string_at(ram.base_host + 8192, 1)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (-signal.SIGSEGV, "inside\n")
