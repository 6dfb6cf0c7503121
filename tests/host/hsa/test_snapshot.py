"""Snapshots of a GPU: arrays, executables and queues of the host come back, newer ones are not mistaken for them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from understudy.core.errors import RuleError
from understudy.device.hsa.packets import BarrierPacket
from understudy.host.hsa.gpu import Gpu, demo_code

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
        with pytest.raises(RuleError, match="the array is not device memory"):
            gpu.address(array)
        with pytest.raises(RuleError, match="the array does not begin an array of the device"):
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
    with pytest.raises(RuleError, match="the executable was unloaded, expected one that is in device memory"):
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
    with pytest.raises(RuleError, match="1 launches were not waited for, expected none in a snapshot"):
        gpu.snapshot()
    if above:
        gpu.restore(state)
    else:
        gpu.device.restore(state.device)
    place = gpu.share(y)
    for _ in range(2):
        with pytest.raises(RuleError, match=r"signal at 0x[0-9a-f]+ was destroyed"):
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
    with pytest.raises(RuleError, match="the array is not device memory"):
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
