"""Snapshots of a GPU: arrays, executables and queues of the host come back, newer ones are not mistaken for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from softcard.core.errors import RuleError
from softcard.device.hsa.queues.packets import BarrierPacket
from softcard.host.hsa.gpu import Gpu, demo_code
from softcard.hsa import bare_code_object
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.target import target
from tests.interrupting import soon

CODE = demo_code()


@pytest.fixture
def gpu() -> Iterator[Gpu]:
    with Gpu.open("gfx900", threads=1) as opened:
        yield opened


def saxpy(gpu: Gpu, x: np.ndarray, y: np.ndarray) -> tuple[int, int]:
    result = gpu.run(CODE, "saxpy", x.size, args=[1, x, y])
    return result.start, result.end


def test_runs_are_repeated(gpu: Gpu) -> None:
    x, y = gpu.array(np.arange(100, dtype=np.float32)), gpu.zeros(100)
    empty = gpu.snapshot()
    first = saxpy(gpu, x, y)
    state = gpu.snapshot()
    found = []
    for _ in range(2):
        found.append((saxpy(gpu, x, y), y.copy(), gpu.address(gpu.zeros(5))))
        gpu.restore(state)
        assert np.array_equal(y, x)
    assert np.array_equal(found[0][1], 2 * x)
    assert (found[0][0], found[0][2]) == (found[1][0], found[1][2])
    for _ in range(2):
        gpu.restore(empty)
        assert not y.any()
        assert saxpy(gpu, x, y) == first  # the code is loaded again, at the same place
        assert np.array_equal(y, x)
    gpu.restore(state)
    assert saxpy(gpu, x, y) == found[0][0]


def test_newer_arrays_are_not_on_the_device(gpu: Gpu) -> None:
    kept, shared, gone = gpu.zeros(64), np.ones(64, np.float32), gpu.zeros(64)
    gpu.share(shared)
    state = gpu.snapshot()
    gpu.free(gone)
    newer, borrowed = gpu.array(np.arange(64, dtype=np.float32)), np.ones(64, np.float32)
    gpu.share(borrowed)
    gpu.restore(state)
    for array in (newer, borrowed):
        with pytest.raises(RuleError, match="the array is not in device memory"):
            gpu.address(array)
        with pytest.raises(RuleError, match="cannot free the array"):
            gpu.free(array)
    assert gpu.address(gone) != gpu.address(kept)  # freed since, there again
    assert gpu.address(shared)
    before = [each.base for each in gpu.device.memory]
    again = gpu.zeros(64)
    saxpy(gpu, newer, again)  # taken like arrays of anybody
    assert np.array_equal(again, newer)
    gpu.free(again)
    assert set(before) <= {each.base for each in gpu.device.memory}
    assert gpu.share(borrowed) == gpu.address(borrowed)


def test_executables(gpu: Gpu) -> None:
    old = gpu.load(CODE)
    state = gpu.snapshot()
    newer = gpu.load(CODE)
    old.unload()
    gpu.restore(state)
    assert (old.is_loaded, newer.is_loaded) == (True, False)
    x, y = gpu.array(np.ones(8, np.float32)), gpu.zeros(8)
    gpu.run(old, "saxpy", 8, args=[1, x, y])
    assert np.array_equal(x, y)
    with pytest.raises(RuleError, match="the executable was unloaded: load the code object again"):
        newer.kernel("saxpy")
    newer.unload()  # nothing is there that could be given back
    gpu.run(old, "saxpy", 8, args=[1, x, y])


@pytest.mark.parametrize("above", [True, False])
def test_launches_that_were_not_waited_for(gpu: Gpu, above: bool) -> None:
    x, y = gpu.array(np.ones(8, np.float32)), np.zeros(8, np.float32)
    saxpy(gpu, x, y)
    state = gpu.snapshot()
    gate, queue = gpu.signal(1), gpu.queue()
    queue.submit(BarrierPacket(dep_signal=(gate.address, 0, 0, 0, 0)).pack())
    launch = gpu.dispatch(gpu.load(CODE).kernel("saxpy"), 8, args=[1, x, y], queue=queue)
    with pytest.raises(RuleError, match="1 launches are open: wait for all launches"):
        gpu.snapshot()
    if above:
        gpu.restore(state)
    else:
        gpu.device.restore(state.device)
    place = gpu.share(y)
    for _ in range(2):
        with pytest.raises(RuleError, match="reset or restored before the launch"):
            launch.wait()
    assert gpu.address(y) == place
    assert (y == 1).all()
    saxpy(gpu, x, y)
    assert (y == 2).all()
    gpu.snapshot()


def test_reset(gpu: Gpu) -> None:
    x, y = gpu.array(np.ones(8, np.float32)), np.zeros(8, np.float32)
    first, there = saxpy(gpu, x, y), len(list(gpu.device.memory))
    gpu.reset()
    assert (gpu.device.time, gpu.device.queues, len(list(gpu.device.memory))) == (0, (), 1)
    with pytest.raises(RuleError, match="the array is not in device memory"):
        gpu.address(x)
    x = gpu.array(x)
    assert (saxpy(gpu, x, y), len(list(gpu.device.memory))) == (first, there)
    assert (y == 2).all()


def test_arrays_that_begin_at_the_same_place(gpu: Gpu) -> None:
    """A part and the whole of an array as arguments of one launch."""
    array = np.zeros(64, np.float32)
    x = np.ones(64, np.float32)
    before = len(list(gpu.device.memory))
    for first, second in ((array[:32], array), (array, array[:32])):
        places = [gpu.share(each) for each in (first, second)]
        assert (places[0] == places[1]) is (first is array)
        gpu.free(array)
        if first is not array:
            gpu.free(array[:32])
        assert len(list(gpu.device.memory)) == before
    gpu.run(CODE, "saxpy", 32, args=[1, x[:32], x])
    assert x.tolist() == [2] * 32 + [1] * 32


# ---- beside a kernel of another thread -------------------------------------------------------------------------------

WAITS = """
    s_load_dwordx2 s[2:3], s[0:1], 0x0
    s_waitcnt lgkmcnt(0)
    again: s_load_dword s4, s[2:3], 0x0 glc
    s_waitcnt lgkmcnt(0)
    s_sleep 1
    s_cmp_eq_u32 s4, 0
    s_cbranch_scc1 again
    s_endpgm
"""
"""A kernel that runs until the dword that its argument points to is not 0."""


class Waiting(threading.Thread):
    """A launch on another thread that waits for `flag`; `error` is what it ends with."""

    def __init__(self, gpu: Gpu, launches: int = 1) -> None:
        super().__init__()
        self.error: BaseException | None = None
        self._gpu, self._left = gpu, launches
        self.flag = gpu.zeros(1, np.uint32)
        self._code = gpu.load(bare_code_object(assemble(target("gfx900"), WAITS), "gfx900"))
        self._place = gpu.address(self.flag).to_bytes(8, "little").ljust(256, b"\0")
        self.begun = threading.Event()
        self.start()
        assert self.begun.wait(30)

    def run(self) -> None:
        try:
            for _ in range(self._left):
                self.begun.set()
                self._gpu.run(self._code, "kernel", grid=64, args=self._place)
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.error = error


@pytest.mark.parametrize("execution", ["synchronous", "threaded"])
@pytest.mark.parametrize("what", ["reset", "restore"])
def test_going_back_ends_launches_of_other_threads(what: str, execution: str) -> None:
    with Gpu.open("gfx900", threads=1, execution=execution, step_limit=None) as gpu:
        state = gpu.snapshot()
        for _ in range(2):
            waiting = Waiting(gpu)
            time.sleep(0.05)
            with soon():
                gpu.reset() if what == "reset" else gpu.restore(state)
                waiting.join()
            assert isinstance(waiting.error, RuleError)
            assert "the device was reset or restored" in str(waiting.error)
            x, y = np.ones(64, np.float32), np.ones(64, np.float32)
            gpu.run(demo_code("gfx900"), "saxpy", grid=64, args=[2.0, x, y])
            assert y.tolist() == [3.0] * 64
            assert not gpu._users


def test_a_launch_of_before_is_lost() -> None:
    with Gpu.open("gfx900", threads=1) as gpu:
        kernel = gpu.load(demo_code("gfx900")).kernel("saxpy")
        launch = gpu.dispatch(kernel, 64, args=[2.0, gpu.zeros(64), gpu.zeros(64)])
        gpu.reset()
        assert launch.is_done
        for _ in range(2):
            with pytest.raises(RuleError, match="reset or restored before the launch was waited for, at"):
                launch.wait()


LAUNCHES = 1000


@pytest.mark.parametrize("execution", ["synchronous", "threaded"])
def test_memory_is_freed_behind_the_kernel_that_runs_and_before_later_ones(execution: str) -> None:
    with Gpu.open("gfx900", threads=1, execution=execution, step_limit=None) as gpu:
        x = gpu.zeros(64)
        waiting = Waiting(gpu, launches=LAUNCHES)
        freed: list[int] = []
        queues = {queue: queue.progress for queue in gpu._mine}

        def count() -> int:
            return sum(progress.packets for progress in queues.values())

        def free() -> None:
            gpu.free(x)
            freed.append(count())

        time.sleep(0.05)
        queues.update((queue, queue.progress) for queue in gpu._mine)
        freeing = threading.Thread(target=free)
        freeing.start()
        time.sleep(0.05)
        assert not freed, "the kernel that runs may use it"
        before = count()
        waiting.flag[0] = 1
        with soon():
            freeing.join()
            waiting.join()
        assert waiting.error is None
        # The thread that frees may wait for Python's lock before it counts, but not for all launches.
        assert freed[0] < before + LAUNCHES
        with pytest.raises(RuleError, match="cannot free the array"):
            gpu.free(x)
