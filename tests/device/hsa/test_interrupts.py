"""Ctrl-C, `close` and limits of time against kernels that do not end: the device stays usable, or tells."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import ModelBug, RuleError, SoftcardError, WireError
from softcard.core.limits import Stopped, TimeLimit
from softcard.core.threads import PinnedPool
from softcard.device.hsa.exceptions import QueueError
from softcard.device.hsa.queues.signals import Condition, Signal
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.host.hsa.gpu import Gpu, demo_code
from softcard.host.hsa.launch import Launch
from softcard.hsa import bare_code_object
from softcard.ir.background import BACKGROUND
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.target import target
from tests.device.hsa.rig import COUNT, Bench, barrier, dispatch
from tests.device.test_forks import in_a_child
from tests.interrupting import SOON, interrupted, soon

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
    assert note.startswith(f"the run was interrupted before its end, at pc {kernel >> 16:#x}")
    assert ", at wave 0" in note
    assert isinstance(rig.queue.error, Stopped)
    assert rig.queue.error.__notes__ == [note]
    text = (
        "the host was interrupted (KeyboardInterrupt) while the kernel ran; the kernel has stored only a part of "
        "its results, at AQL packet 0"
    )
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
        RuleError, match="will never be EQ 0: the device was closed while the kernel ran: the wave was running after "
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
    for part in ("within 0.2 s (time_limit_seconds; step_limit is", "until it ends, these wait", "at pc", "at wave 0"):
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
    with pytest.raises(WireError, match=r"time_limit_seconds is .*, expected a number of seconds above 0, or None"):
        Gpu.open("gfx900", time_limit_seconds=limit)


@pytest.mark.parametrize("machine_code", [True, False])
@pytest.mark.parametrize("execution", ["synchronous", "threaded"])
def test_a_mistake_of_ours_fails_one_packet(
    bench: Make, monkeypatch: pytest.MonkeyPatch, execution: str, machine_code: bool
) -> None:
    """It is raised where the device works, or reported by its thread; other queues go on, and so does this one."""
    rig, reported = bench(execution=execution, machine_code=machine_code), list[threading.ExceptHookArgs]()
    monkeypatch.setattr(threading, "excepthook", reported.append)

    def breaks(*_: object) -> object:
        raise ModelBug("a mistake of ours")

    failing = rig.device.create_signal(1)
    with monkeypatch.context() as patched:
        patched.setattr(rig.device.engine, "prepare", breaks)
        patched.setattr(rig.device.engine, "run", breaks)
        packet = dispatch(rig.kernel(), signal=failing)

        def run() -> None:
            rig.queue.submit(packet)
            failing.wait(Condition.EQ, 0)

        kind = ModelBug if execution == "synchronous" else RuleError  # of the wait, which says why it is in vain
        with pytest.raises(kind, match="a mistake of ours, at AQL packet 0, at queue 0"):
            run()
    assert isinstance(rig.queue.error, ModelBug)
    assert len(reported) == (execution == "threaded")
    assert rig.queue.inactive_signal.load() != 0
    adds(rig)
    rig.queue.inactive_signal.store(0)
    assert failing.wait(Condition.EQ, 0) == 0


def test_an_error_in_a_callback_leaves_no_packet_to_be_run_twice(bench: Make) -> None:
    rig = bench()

    def breaks(trap: object) -> bool:
        raise RuntimeError("not this one")

    rig.device.trap_handler = breaks
    with pytest.raises(RuntimeError, match="not this one"):
        rig.queue.submit(dispatch(rig.kernel("s_trap 1\ns_endpgm")))
    assert isinstance(rig.queue.error, SoftcardError)
    assert "interrupted (RuntimeError)" in str(rig.queue.error)


THREADED = {"execution": "threaded", "step_limit": 1 << 60}


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_ctrl_c_in_a_wait_for_the_devices_own_thread(bench: Make, engine: str) -> None:
    """The kernel that the host waits for is ended, with all that waits for it; a packet that has not begun fails."""
    rig = bench(engine=engine, **THREADED)
    other, endless = rig.new_queue(), rig.kernel(ENDLESS["branch"])
    first, second = rig.device.create_signal(1), rig.device.create_signal(1)
    rig.queue.submit(dispatch(endless, 0, first, **GRID))
    other.submit(barrier(first, signal=second))
    with soon(), pytest.raises(KeyboardInterrupt), interrupted():
        second.wait(Condition.EQ, 0)
    for queue in (rig.queue, other):
        assert isinstance(queue.error, Stopped)
        assert "the host was interrupted (KeyboardInterrupt) while the kernel ran" in str(queue.error)
    assert rig.queue.watch.stopped == ""
    with soon():
        adds(rig)


def test_ctrl_c_ends_only_what_was_waited_for(bench: Make) -> None:
    rig = bench(**THREADED)
    address, words = rig.words()
    other, first, second = rig.new_queue(), rig.device.create_signal(1), rig.device.create_signal(1)
    rig.queue.submit(dispatch(rig.kernel(FLAG), address, first))
    other.submit(dispatch(rig.kernel(), 0, second))
    with soon(), pytest.raises(KeyboardInterrupt), interrupted():
        second.wait(Condition.EQ, 0)
    assert (other.error is not None, rig.queue.error) == (True, None)
    words[0] = 1
    with soon():
        assert first.wait(Condition.EQ, 0) == 0
    adds(rig)


@pytest.mark.parametrize("check", ["", "memory,races"])
def test_ctrl_c_in_run_of_a_threaded_device(check: str) -> None:
    text = "again: s_sleep 1\ns_branch again"
    code = bare_code_object(assemble(target("gfx900"), text), "gfx900")
    with Gpu.open("gfx900", threads=1, check=check, **THREADED) as gpu:
        x, y = np.ones(64, np.float32), gpu.zeros(64)
        for after_seconds in (0.0, 0.001, 0.3):
            with soon(), pytest.raises(KeyboardInterrupt), interrupted(after_seconds):
                gpu.run(code, "kernel", grid=64, args=bytes(256))
            with soon():
                gpu.run(demo_code("gfx900"), "saxpy", grid=64, args=[2.0, x, y])
        assert y.tolist() == [6.0] * 64
        launch = gpu.dispatch(gpu.load(code).kernel("kernel"), grid=64, args=bytes(256))
        with soon(), pytest.raises(KeyboardInterrupt), interrupted():
            launch.wait()
        with pytest.raises(Stopped, match=r"the host was interrupted .*, at kernel kernel"):
            launch.wait()
        assert not gpu._users


@pytest.mark.parametrize("execution", ["synchronous", "threaded"])
@pytest.mark.parametrize("step", ["_own", "_take", "_take_idle", "_dispatch"])
def test_ctrl_c_at_the_end_of_a_step_of_a_launch(step: str, execution: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No queue is in use afterwards, also if the step has taken one or has submitted the packet."""
    with Gpu.open("gfx900", threads=1, execution=execution) as gpu:
        code, x, y = gpu.load(demo_code("gfx900")), np.ones(64, np.float32), gpu.zeros(64)
        options: Any = {"grid": 64, "args": [2.0, x, y]}
        run, begin = partial(gpu.run, code, "saxpy", **options), partial(gpu.dispatch, code.kernel("saxpy"), **options)
        with monkeypatch.context() as patched:
            patched.setattr(gpu, step, interrupting(getattr(gpu, step)))
            with soon(), pytest.raises(KeyboardInterrupt):
                (begin if step in ("_own", "_take") else run)()
        assert not gpu._users
        y[:] = 0
        with soon():
            run()
        assert y.tolist() == [2.0] * 64


def interrupting(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does a step and is interrupted before it returns."""

    def call(*arguments: Any, **options: Any) -> None:
        step(*arguments, **options)
        raise KeyboardInterrupt

    return call


def test_time_in_which_code_is_compiled_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    jump = "s_getpc_b64 s[2:3]\ns_add_u32 s2, s2, 16\ns_addc_u32 s3, s3, 0\ns_setpc_b64 s[2:3]\ns_nop 0\n"
    code = bare_code_object(assemble(target("gfx900"), jump * 5 + "s_endpgm"), "gfx900")
    install = JitEngine.install

    def slowly(*arguments: Any) -> bool:
        time.sleep(0.3)
        return install(*arguments)

    monkeypatch.setattr(JitEngine, "install", slowly)
    with Gpu.open("gfx900", threads=1, time_limit_seconds=0.5, step_limit=None) as gpu:
        assert gpu.run(code, "kernel", grid=64, args=bytes(256)).instructions == 21
        endless = bare_code_object(assemble(target("gfx900"), "again: s_branch again"), "gfx900")
        with soon(), pytest.raises(TimeLimit):
            gpu.run(endless, "kernel", grid=64, args=bytes(256))
