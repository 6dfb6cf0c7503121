"""Timestamps of completion signals in the host's time, and kernels that time alone ends."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import pytest

from softcard.core.errors import BeyondModel, WireError
from softcard.core.limits import TimeLimit
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.queues.signals import Condition
from tests.device.hsa.rig import Bench, barrier, dispatch

Make = Callable[..., Bench]


@pytest.mark.parametrize("machine_code", [True, False])
@pytest.mark.parametrize("listen", [True, False])
def test_host_time(bench: Make, machine_code: bool, listen: bool) -> None:
    """By machine code and by Python the same clock: packets one after the other, within what the host sees."""
    rig = bench(timestamps="host", profiling=True, machine_code=machine_code, listen=listen)
    signals = [rig.device.create_signal(1) for _ in range(8)]
    kernel, before = rig.kernel(), rig.device.timestamp
    for number, signal in enumerate(signals):
        rig.queue.submit(barrier(signal=signal) if number == 5 else dispatch(kernel, signal=signal))
    times = [each for signal in signals for each in (signal.record().start_ts, signal.record().end_ts)]
    seen = [before, *times, rig.device.timestamp]
    assert seen == sorted(seen)
    assert all(end > start for start, end in zip(times[::2], times[1::2], strict=True))
    assert rig.device.time == 8 + 7  # the device's own clock counts as ever


def test_host_time_is_that_of_the_system() -> None:
    """The clock that kernel drivers tell as the system's."""
    device = HsaDevice(timestamps="host")
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    before = time.clock_gettime_ns(clock)
    assert before <= device.timestamp <= time.clock_gettime_ns(clock)


def test_own_time(bench: Make) -> None:
    rig = bench(profiling=True)
    done = rig.device.create_signal(1)
    rig.queue.submit(dispatch(rig.kernel(), signal=done))
    assert (done.record().start_ts, done.record().end_ts, rig.device.timestamp) == (0, 2, 2)
    with pytest.raises(WireError, match="timestamps is 'cycles', expected one of instructions, host"):
        HsaDevice(timestamps="cycles")


def test_no_host_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: Any) -> Any:
        raise OSError

    monkeypatch.setattr(ctypes, "CDLL", nothing)
    with pytest.raises(BeyondModel, match="timestamps='host' requires a host with clock_gettime"):
        HsaDevice(timestamps="host")


@pytest.mark.parametrize("options", [{"engine": "jit"}, {"engine": "reference"}, {"coherence": "strict"}])
def test_no_step_limit(bench: Make, options: dict[str, str]) -> None:
    """Time alone ends a kernel that does not."""
    rig = bench(step_limit=None, time_limit_seconds=0.2, **options)
    rig.queue.submit(dispatch(rig.kernel("again: s_branch again")))
    error = rig.queue.error
    assert isinstance(error, TimeLimit)
    assert "did not end within 0.2 s (time_limit_seconds; step_limit is None)" in str(error)


def test_waits_for_the_host_as_long_as_it_takes(bench: Make) -> None:
    """More instructions than are allowed without this, and pauses."""
    rig = bench(execution="threaded", step_limit=None)
    cell, words = rig.words()
    text = """
    again:
    s_sleep 1
    s_load_dword s2, s[0:1], 0 glc
    s_waitcnt lgkmcnt(0)
    s_cmp_eq_u32 s2, 0
    s_cbranch_scc1 again
    s_endpgm
    """
    done = rig.device.create_signal(1)
    rig.queue.submit(dispatch(rig.kernel(text), cell, done))
    assert done.wait(Condition.EQ, 0, timeout_seconds=0.2) == 1
    words[0] = 1
    assert done.wait(Condition.EQ, 0, timeout_seconds=60) == 0
