"""Threads of devices end with them, and processes that are forked do without: no hang, and no thread left over."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from softcard.core.errors import RuleError
from softcard.device.hsa.queues.signals import Condition
from softcard.engine.gcn.tiered.engine import HOT, POLL_SECONDS, JitEngine
from softcard.engine.gcn.tiered.translation import Translation
from softcard.engine.riscv.group import Group
from softcard.host.hsa.gpu import Gpu, demo_code
from tests.device.hsa.rig import Bench, dispatch
from tests.device.hsa.test_interrupts import FLAG
from tests.device.refsi.m1 import Bench as RefSiBench
from tests.engine.gcn.programs import program
from tests.interrupting import SOON

LONG: Final = (
    "s_movk_i32 s8, 30000 | again: | s_sub_u32 s8, s8, 1 | s_cmp_lg_u32 s8, 0 | s_cbranch_scc1 again | s_endpgm"
)
EXECUTIONS: Final = ("synchronous", "threaded")


def saxpy(gpu: Gpu, items: int = 1 << 20) -> None:
    """A kernel that two threads share."""
    x = gpu.array(np.ones(items, np.float32))
    gpu.run(demo_code("gfx900"), "saxpy", grid=items, args=[2.0, x, x])
    assert (x == 3).all()


THREADS_OF_PROCESS: Final = ("softcard-ticks", "softcard-compile")
"""The names of threads that belong to the process. They may still work for devices of tests before."""


def ours() -> int:
    """Return the number of threads that belong to devices and engines."""
    names = [each.name for each in threading.enumerate()]
    return sum(name.startswith("softcard-") and name not in THREADS_OF_PROCESS for name in names)


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_devices_that_nobody_closed_leave_no_threads(execution: str) -> None:
    gc.collect()
    before = ours()
    for _ in range(20):
        gpu = Gpu.open("gfx900", threads=4, execution=execution)
        x = gpu.array(np.ones(64, np.float32))
        gpu.run(demo_code("gfx900"), "saxpy", grid=64, args=[2.0, x, x])
        threads = [gpu.device.engine.pool().submit(threading.get_ident) for _ in range(3)]  # type: ignore[attr-defined]
        assert len({each.result(SOON) for each in threads}) >= 1
        assert ours() > 0
        del gpu, x, threads
    began = time.monotonic()
    while ours() > before:
        gc.collect()
        assert time.monotonic() - began < SOON, [each.name for each in threading.enumerate()]
        time.sleep(0.05)


def test_an_engine_that_nobody_closed_leaves_no_threads() -> None:
    gc.collect()
    before = ours()
    for _ in range(10):
        JitEngine(threads=2).run(program(LONG, groups=[(n, 0, 0) for n in range(200)], step_limit=1_000_000))
    began = time.monotonic()
    while ours() > before:
        gc.collect()
        assert time.monotonic() - began < SOON, [each.name for each in threading.enumerate()]
        time.sleep(0.05)


# ---- fork


def in_child(work: Callable[[], Any]) -> str:
    """What `work` says of itself in a child process; a child that hangs is ended, and that is a failure."""
    end, start = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of what is tested here
        child = os.fork()
    if child == 0:
        try:
            text = str(work())
        except BaseException as error:  # noqa: BLE001  # nothing of pytest's must run on in the child
            text = f"{type(error).__name__}: {error}"
        os.write(start, text.encode()[:4000])
        os._exit(0)
    os.close(start)
    began, status = time.monotonic(), 0
    while not status:
        status = os.waitpid(child, os.WNOHANG)[0]
        if time.monotonic() - began > SOON:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.01)
    with os.fdopen(end, "rb") as said:
        return said.read().decode()


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_device_that_ran_works_in_a_child(execution: str, threads: int) -> None:
    with Gpu.open("gfx900", threads=threads, execution=execution) as gpu:
        saxpy(gpu)

        def work() -> str:
            saxpy(gpu)
            saxpy(gpu, 64)
            gpu.close()
            return "fine"

        assert in_child(work) == "fine"
        saxpy(gpu)


def amid_a_kernel() -> tuple[Bench, Any, Any]:
    """A device whose thread runs a kernel until the word is 1; the words, and the kernel's completion signal."""
    rig = Bench(execution="threaded", step_limit=1 << 60)
    address, words = rig.words()
    kernel, first, done = rig.kernel(FLAG), rig.device.create_signal(1), rig.device.create_signal(1)
    words[0] = 1
    rig.queue.submit(dispatch(kernel, address, first))
    first.wait(Condition.EQ, 0)
    words[0] = 0
    rig.queue.submit(dispatch(kernel, address, done))
    while not rig.device._executor._busy:
        time.sleep(0.001)
    return rig, words, done


def test_a_fork_waits_a_moment_for_work_that_is_nearly_done() -> None:
    """Who has seen a kernel's completion signal need not know that the device's thread has something left to do."""
    rig, words, done = amid_a_kernel()
    threading.Timer(0.03, words.__setitem__, (0, 1)).start()
    assert in_child(lambda: rig.device.check_open() or "fine") == "fine"
    done.wait(Condition.EQ, 0)
    rig.device.close()


def test_a_device_that_is_amid_a_kernel_says_so_in_a_child() -> None:
    """The kernel's waves were on a thread that the child has not got."""
    rig, words, done = amid_a_kernel()
    time.sleep(0.3)

    def work() -> str:
        with pytest.raises(RuleError, match="another thread was using the device when this process was forked"):
            rig.device.check_open()
        with pytest.raises(
            RuleError, match="will never be EQ 0: another thread was using the device when this process"
        ):
            done.wait(Condition.EQ, 0)
        rig.device.close()
        with Gpu.open("gfx900", threads=2) as other:
            saxpy(other)
        return "told"

    assert in_child(work) == "told"
    words[0] = 1
    done.wait(Condition.EQ, 0)
    rig.device.close()


def test_harts_that_ran_on_threads_run_in_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens: with a listener harts take turns on one thread."""
    bench = RefSiBench("spec", engine="jit", threads=4)
    accelerator, ran, run = bench.device.accelerator, [], Group.run
    monkeypatch.setattr(type(accelerator.telemetry), "listened", property(lambda _: False))
    monkeypatch.setattr(Group, "run", lambda *arguments: ran.append(1) or run(*arguments))
    accelerator.step_limit = 500_000_000

    def work() -> str:
        return type(bench.run(*bench.kernel("k_spin", harts=4, instances=4)).error).__name__

    assert work() == "StepLimit"
    assert ran
    assert in_child(work) == "StepLimit"


def test_code_that_was_being_optimised_is_so_in_a_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a cache of its own, where nobody has optimised this code before."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    engine = JitEngine(threads=1)
    launch = engine.prepare(program(LONG, step_limit=1_000_000))
    engine.profile(0)[:] = HOT
    while not engine.is_tiering_up:
        launch.run()
        time.sleep(POLL_SECONDS)

    def work() -> str:
        began = time.monotonic()
        while not any(isinstance(made, Translation) for made in launch.code.table.alive):
            launch.run()
            if time.monotonic() - began > SOON:
                return "never"
        return "fine"

    assert in_child(work) == "fine"
    engine.close()
