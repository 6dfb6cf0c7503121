"""Ctrl-C and `close` against kernels that do not end: both work at once, and tell the kernel's line."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from softcard.core.limits import Stopped
from softcard.device.fletcher.job import Job
from softcard.device.fletcher.kernel import Kernel as VirtualKernel
from softcard.device.fletcher.kernel import kernel
from softcard.device.fletcher.machine import State
from softcard.host.fletcher.platform import Context, Kernel, Platform
from tests.interrupting import SOON, interrupted, soon

READ = {"P": [("a", pa.int8())]}
AFTER_SECONDS = 0.5
BEGUN = threading.Event()
"""Set by each kernel that never ends: a loaded machine may take long until it begins."""


@kernel("whole", read=READ)
def whole(job: Job) -> None:
    BEGUN.set()
    count = 0
    while True:
        count += 1


@kernel("sliced", read=READ)
def sliced(job: Job) -> Iterator[None]:
    BEGUN.set()
    while True:
        yield


@kernel("stubborn", read=READ)
def stubborn(job: Job) -> None:
    BEGUN.set()
    count = 0
    while True:
        try:
            count += 1
            job.result = count
        except Exception:  # noqa: BLE001  # as kernels do that let nothing stop them
            pass


KERNELS = {"whole": whole, "sliced": sliced, "stubborn": stubborn}
WAYS = [("synchronous", {}), ("synchronous", {"pacing": None}), ("threaded", {})]
everywhere = pytest.mark.parametrize(("execution", "more"), WAYS)
any_kernel = pytest.mark.parametrize("name", KERNELS)


def platform_of(virtual: VirtualKernel, execution: str, more: dict[str, None]) -> Platform:
    platform = Platform(virtual, execution=execution, **more)
    platform.init()
    return platform


def run(platform: Platform) -> None:
    """Wait for a kernel that never ends."""
    context = Context(platform)
    context.queue_record_batch(pa.record_batch([pa.array([1, 2], pa.int8())], schema=whole.schemas[0]))
    context.enable()
    job = Kernel(context)
    job.reset()
    job.start()
    job.wait_for_finish()


def ends(threads: set[threading.Thread]) -> None:
    """Kernels' threads end: a loaded machine may take longer for it than `close` waits."""
    for thread in threads:
        if thread.name == "fletcher":
            thread.join(SOON)
            assert not thread.is_alive()


@any_kernel
@everywhere
def test_ctrl_c(name: str, execution: str, more: dict[str, None]) -> None:
    before = set(threading.enumerate())
    platform = platform_of(KERNELS[name], execution, more)
    with soon(), pytest.raises(KeyboardInterrupt), interrupted(AFTER_SECONDS):
        run(platform)
    assert platform.port.device.state is State.BUSY  # type: ignore[attr-defined]
    with soon():
        platform.terminate()
    ends(set(threading.enumerate()) - before)


@any_kernel
@everywhere
def test_after_ctrl_c_another_kernel_may_run(name: str, execution: str, more: dict[str, None]) -> None:
    """The one that was waited for is ended at once, wherever it works; it says why until it is reset."""
    jobs = []

    @kernel("once", read=READ)
    def once(job: Job) -> Iterator[None] | None:
        jobs.append(job)
        return KERNELS[name].run(job) if len(jobs) == 1 else None

    platform = platform_of(once, execution, more)
    with soon(), pytest.raises(KeyboardInterrupt), interrupted(AFTER_SECONDS):
        run(platform)
    device = platform.port.device  # type: ignore[attr-defined]
    assert (device.state, device.is_stuck) == (State.BUSY, True)
    assert "the host was interrupted (KeyboardInterrupt) while the kernel worked" in str(device.last_error)
    with soon():
        run(platform)
    platform.terminate()


@any_kernel
@everywhere
def test_close_on_another_thread(name: str, execution: str, more: dict[str, None]) -> None:
    before = set(threading.enumerate())
    platform = platform_of(KERNELS[name], execution, more)

    def close() -> None:
        BEGUN.wait(SOON)
        platform.terminate()

    BEGUN.clear()
    closer = threading.Thread(target=close)
    closer.start()
    with soon(), pytest.raises(Stopped) as caught:
        run(platform)
    closer.join(SOON)
    text = str(caught.value)
    assert text.startswith("the device was closed while the kernel worked, at line ")
    assert f"{__file__} ({name}), at kernel {name}" in text
    ends(set(threading.enumerate()) - before)


@pytest.mark.parametrize("execution", ["threaded", "synchronous"])
def test_close_does_not_wait_for_a_call_that_is_not_pythons(execution: str) -> None:
    """Nothing that such a kernel does later has an effect; who calls a synchronous one is told when it comes back."""
    goes_on, left = threading.Lock(), threading.Event()

    @kernel("waits", read=READ)
    def waits(job: Job) -> None:
        try:
            with goes_on:
                job.result = 7
        finally:
            left.set()

    goes_on.acquire()
    platform = platform_of(waits, execution, {})

    def close() -> None:
        platform.terminate()
        if execution == "synchronous":
            goes_on.release()

    closer = threading.Timer(AFTER_SECONDS, close)
    closer.start()
    with soon(), pytest.raises(Stopped, match=r"the device was closed .* \(waits\), at kernel waits"):
        run(platform)
    with soon():
        closer.join(SOON)
        if execution == "threaded":
            goes_on.release()
        assert left.wait(SOON)
    device = platform.port.device  # type: ignore[attr-defined]
    assert device.read(device.map.result).value == 0


TRACED = """
import sys, threading
from tests.device.fletcher.test_stopping import KERNELS, platform_of, run
from softcard.core.limits import Stopped

platform = platform_of(KERNELS["whole"], "{execution}", {{}})
threading.Timer(0.2, platform.terminate).start()
try:
    run(platform)
except Stopped:
    sys.setprofile(lambda *event: None)
    platform_of(KERNELS["sliced"], "synchronous", {{}}).terminate()
    sys.setprofile(None)
    print("traced")
"""


@pytest.mark.parametrize("execution", ["threaded", "synchronous"])
def test_functions_can_be_traced_afterwards(execution: str) -> None:
    """In a process of its own: where the interpreter still looks for what was to stop the kernel, it hangs there."""
    command = [sys.executable, "-c", TRACED.format(execution=execution)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "traced\n", done.stderr
