"""Ctrl-C, `close` and limits of time against kernels that do not end: the device stays usable, or tells."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.device.hsa.rig import COUNT, Bench, dispatch
from tests.device.test_forks import in_a_child
from tests.interrupting import SOON, interrupted, soon
from understudy.core.errors import RuleError, UnderstudyError, WireError
from understudy.core.limits import Stopped, TimeLimit
from understudy.core.thread_pool import PinnedPool
from understudy.device.hsa.exceptions import QueueError
from understudy.device.hsa.signals import Condition, Signal
from understudy.engine.gcn.jit.engine import JitEngine
from understudy.host.hsa.gpu import Gpu, demo_code
from understudy.host.hsa.launch import Launch
from understudy.ir.background import BACKGROUND

Make = Callable[..., Bench]
GRID = {"workgroup_size_x": 64, "grid_size_x": 64 * 64}
ENDLESS = {
    "branch": "again: s_branch again",
    "barriers": "again: s_barrier\ns_branch again",
    "pauses": "again: s_sleep 1\ns_branch again",
}
FLAG = """
    v_mov_b32 v0, s0
    v_mov_b32 v1, s1
    again: flat_load_dword v2, v[0:1] glc
    s_waitcnt vmcnt(0) lgkmcnt(0)
    v_cmp_eq_u32 vcc, 0, v2
    s_cbranch_vccnz again
    s_endpgm
"""
"""Waits until the dword at the kernarg address is not 0: endless, or over at once."""


def adds(rig: Bench) -> None:
    """The device runs a kernel on a new queue."""
    address, words = rig.words()
    queue, done = rig.new_queue(), rig.device.create_signal(1)
    queue.submit(dispatch(rig.kernel(COUNT), address, done))
    done.wait(Condition.EQ, 0)
    assert words[0] == 1


@pytest.mark.parametrize("loop", ENDLESS)
@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_ctrl_c_in_the_doorbell(bench: Make, engine: str, loop: str) -> None:
    """The queue tells what became of its packet; others go on."""
    rig = bench(engine=engine, step_limit=1 << 60)
    done = rig.device.create_signal(1)
    kernel = rig.kernel(ENDLESS[loop])
    with soon(), pytest.raises(KeyboardInterrupt) as caught, interrupted():
        rig.queue.submit(dispatch(kernel, 0, done, **GRID))
    (note,) = caught.value.__notes__
    assert note.startswith(f"what ran is not finished, at pc {kernel >> 16:#x}")
    assert ", at wave 0" in note
    assert isinstance(rig.queue.error, Stopped)
    assert rig.queue.error.__notes__ == [note]
    text = "the host was interrupted (KeyboardInterrupt) while the kernel ran; its effects are partial, at AQL packet 0"
    assert str(rig.queue.error).startswith(text)
    assert rig.errors[0][0] == QueueError.EXCEPTION
    with pytest.raises(RuleError, match="will never be EQ 0: the host was interrupted"):
        done.wait(Condition.EQ, 0)
    adds(rig)


@pytest.mark.parametrize("after_seconds", [0.5, 2.0])
def test_ctrl_c_in_a_launch_that_is_kept(bench: Make, after_seconds: float) -> None:
    """Machine code processes it, and is as easily interrupted; the launch is made anew afterwards."""
    rig = bench(step_limit=1 << 60)
    address, words = rig.words()
    kernel = rig.kernel(FLAG)
    words[0] = 1
    for _ in range(4):
        rig.queue.submit(dispatch(kernel, address))
    assert rig.queue.templates is not None
    assert rig.queue.templates._order
    words[0] = 0
    with soon(), pytest.raises(KeyboardInterrupt), interrupted(after_seconds):
        rig.queue.submit(dispatch(kernel, address))
    assert str(rig.queue.error).startswith("the host was interrupted (KeyboardInterrupt)")
    assert "at AQL packet 4" in str(rig.queue.error)
    assert not rig.queue.templates._order
    adds(rig)


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_reaches_users(threads: int) -> None:
    with Gpu.open("gfx900", threads=threads, step_limit=1 << 60) as gpu:
        y = gpu.zeros(1 << 22)
        code = demo_code("gfx900")
        gpu.run(code, "saxpy", grid=64, args=[2.0, y, y])

        def often() -> None:
            while True:
                gpu.run(code, "saxpy", grid=y.size, args=[2.0, y, y])

        with soon(), pytest.raises(KeyboardInterrupt), interrupted(0.3):
            often()
        x = gpu.array(np.ones(64, np.float32))
        gpu.run(code, "saxpy", grid=64, args=[2.0, x, x])
        assert x.tolist() == [3.0] * 64


def test_ctrl_c_while_threads_are_called_for_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a thread was already given is over before the host goes on, though nobody holds its future."""
    submit = PinnedPool.submit

    def interrupted_submit(pool: PinnedPool, *arguments: Any) -> None:
        future = submit(pool, *arguments)
        while not (future.running() or future.done()):
            time.sleep(0)
        raise KeyboardInterrupt

    with Gpu.open("gfx900", threads=2) as gpu:
        out, code = gpu.zeros((512, 512), np.uint32), gpu.load(demo_code("gfx900"))
        gpu.run(code, "mandelbrot", out.shape, (16, 16), [out, 512, 10])
        monkeypatch.setattr(PinnedPool, "submit", interrupted_submit)
        with pytest.raises(KeyboardInterrupt):
            gpu.run(code, "mandelbrot", out.shape, (16, 16), [out, 512, 20_000])
        seen = out.copy()
        time.sleep(0.05)
        assert np.array_equal(out, seen)


@pytest.mark.parametrize("by_dispatch", [False, True])
def test_ctrl_c_between_a_packet_and_its_doorbell(by_dispatch: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody will ever ring for the slot: later launches go elsewhere, earlier ones and the queue's number stay."""
    with Gpu.open("gfx900", execution="manual") as gpu:
        kernel = gpu.load(demo_code("gfx900")).kernel("saxpy")
        x = gpu.array(np.ones(64, np.float32))

        def launch() -> Launch | None:
            if by_dispatch:
                return gpu.dispatch(kernel, 64, args=[2.0, x, x])
            gpu.run(kernel.executable, "saxpy", 64, args=[2.0, x, x])
            return None

        earlier = launch()

        def interrupt(self: Signal, value: int) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Signal, "store", interrupt)  # the doorbell's
            with pytest.raises(KeyboardInterrupt):
                launch()
        if earlier is not None:
            earlier.wait()
        later = launch()
        if later is not None:
            later.wait()
        assert x.tolist() == [9.0] * 64


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_close_ends_what_the_devices_thread_runs(bench: Make, engine: str) -> None:
    rig = bench(engine=engine, execution="threaded", step_limit=1 << 60)
    done = rig.device.create_signal(1)
    rig.queue.submit(dispatch(rig.kernel(ENDLESS["branch"]), 0, done, **GRID))
    time.sleep(0.2)
    with soon():
        rig.device.close()
    with pytest.raises(
        RuleError, match="will never be EQ 0: the device was closed while the kernel ran: the wave ran, "
    ):
        done.wait(Condition.EQ, 0)


def test_close_on_another_thread_ends_a_kernel_in_the_doorbell(bench: Make) -> None:
    rig = bench(step_limit=1 << 60)
    kernel = rig.kernel(ENDLESS["branch"])
    closer = threading.Timer(0.3, rig.device.close)
    closer.start()
    with soon():
        rig.queue.submit(dispatch(kernel, **GRID))
    closer.join()
    assert str(rig.queue.error).startswith("the device was closed while the kernel ran")


def test_memory_is_freed_once_the_kernel_is_stopped(bench: Make) -> None:
    """Freeing waits for the kernel, which may use that memory; Ctrl-C ends the wait, `close` the kernel."""
    rig = bench(execution="threaded", step_limit=1 << 60)
    block = rig.device.allocate(1 << 16)
    rig.queue.submit(dispatch(rig.kernel(ENDLESS["branch"]), **GRID))
    time.sleep(0.2)
    with soon(), pytest.raises(KeyboardInterrupt), interrupted():
        rig.device.free(block)
    freed = threading.Thread(target=rig.device.free, args=(block,))
    freed.start()
    freed.join(0.2)
    assert freed.is_alive()
    with soon():
        rig.device.close()
        freed.join(SOON)
    assert not freed.is_alive()


@pytest.mark.parametrize("engine", ["jit", "reference"])
@pytest.mark.parametrize("loop", ENDLESS)
def test_time_limits(bench: Make, engine: str, loop: str) -> None:
    rig = bench(engine=engine, step_limit=1 << 60, time_limit_seconds=0.2)
    with soon():
        rig.queue.submit(dispatch(rig.kernel(ENDLESS[loop]), **GRID))
    error = rig.queue.error
    assert isinstance(error, TimeLimit)
    for part in ("within 0.2 s (time_limit_seconds; step_limit is", "until it does these wait", "at pc", "at wave 0"):
        assert part in str(error)
    adds(rig)


def test_time_limits_of_kept_launches(bench: Make) -> None:
    """Each launch has its own time, also where machine code starts it."""
    rig = bench(step_limit=1 << 60, time_limit_seconds=0.4)
    address, words = rig.words()
    kernel = rig.kernel(FLAG)
    words[0] = 1
    for _ in range(4):
        rig.queue.submit(dispatch(kernel, address))
        time.sleep(0.2)
    assert rig.queue.error is None
    words[0] = 0
    with soon():
        rig.queue.submit(dispatch(kernel, address))
    assert isinstance(rig.queue.error, TimeLimit)


def test_a_wait_for_the_host_with_pauses_is_no_endless_loop(bench: Make) -> None:
    """A step limit that arithmetic reaches in milliseconds leaves a sleeping wave time for a slow host."""
    rig = bench(execution="threaded", step_limit=1_000_000, time_limit_seconds=None)
    address, words = rig.words()
    done = rig.device.create_signal(1)
    rig.queue.submit(dispatch(rig.kernel(FLAG.replace("again: ", "again: s_sleep 8\n")), address, done))
    time.sleep(0.3)
    words[0] = 1
    done.wait(Condition.EQ, 0)


def test_while_code_is_being_compiled(bench: Make) -> None:
    """Ctrl-C, a fork and `close` neither wait for it nor lose it: the child asks for the code itself."""
    held = threading.Event()
    BACKGROUND.submit(lambda: held.wait(SOON))  # the compilation that goes on
    rig = bench(step_limit=1 << 60)
    engine = rig.device._compute.engine
    assert isinstance(engine, JitEngine)
    loop = "s_sub_u32 s9, s9, 1\ns_cmp_lg_u32 s9, 0\ns_cbranch_scc1 again\ns_endpgm"
    anew = f"s_mov_b32 s8, {secrets.randbits(31):#x}"  # so that nobody has kept optimised code of it
    hot = rig.kernel(f"{anew}\ns_movk_i32 s9, 20000\nagain: {loop}")

    def run() -> None:
        done = rig.device.create_signal(1)
        for _ in range(3):
            rig.queue.submit(dispatch(hot, **GRID))
        rig.queue.submit(dispatch(hot, 0, done, **GRID))
        done.wait(Condition.EQ, 0)

    try:
        run()
        assert engine.is_tiering_up
        in_a_child(run)
        run()
        endless = rig.kernel(f"{anew}\nagain: s_add_u32 s9, s9, 1\ns_branch again")
        with soon(), pytest.raises(KeyboardInterrupt), interrupted():
            rig.queue.submit(dispatch(endless, **GRID))
        adds(rig)
        with soon():
            rig.device.close()
        assert not held.is_set()
    finally:
        held.set()


@pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf"), True, "5"])
def test_time_limits_are_checked(limit: object) -> None:
    with pytest.raises(WireError, match=r"time_limit_seconds .*, expected a number of seconds above 0, or None"):
        Gpu.open("gfx900", time_limit_seconds=limit)


def test_an_error_in_a_callback_leaves_no_packet_to_be_run_twice(bench: Make) -> None:
    rig = bench()

    def breaks(trap: object) -> bool:
        raise RuntimeError("not this one")

    rig.device.trap_handler = breaks
    with pytest.raises(RuntimeError, match="not this one"):
        rig.queue.submit(dispatch(rig.kernel("s_trap 1\ns_endpgm")))
    assert isinstance(rig.queue.error, UnderstudyError)
    assert "interrupted (RuntimeError)" in str(rig.queue.error)
