"""Settings, memory, life of a device."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

from softcard.core.errors import AccessFault, ModelBug, RuleError, WireError
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.queues.signals import Condition
from softcard.device.hsa.settings import Settings
from tests.device.hsa.rig import COUNT, Bench, barrier, dispatch

Make = Callable[..., Bench]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"execution": "later"}, "execution is 'later', expected one of synchronous, manual, threaded"),
        ({"engine": "fast"}, "engine is 'fast', expected one of jit, reference"),
        ({"tier": "second"}, "tier is 'second', expected one of auto, first, optimised"),
        ({"quantum": 0}, "quantum is 0, expected 1 or more"),
        ({"threads": 0}, "threads is 0, expected 1 or more"),
        ({"step_limit": 0}, "step_limit is 0, expected 1 or more"),
        ({"colour": "red"}, "unknown setting .*colour"),
    ],
)
def test_settings(options: dict[str, object], text: str) -> None:
    with pytest.raises(WireError, match=text):
        HsaDevice("gfx900", **options)


def test_settings_given_twice() -> None:
    with pytest.raises(WireError, match="settings were given twice"):
        HsaDevice("gfx900", Settings(), quantum=3)


def test_memory() -> None:
    with HsaDevice() as device:
        small, large = device.allocate(10), device.allocate(300 << 20)
        assert small % 64 == large % 4096 == 0
        device.view(small, 10)[:] = b"0123456789"
        assert device.memory.read(small, 10) == b"0123456789"
        device.free(small)
        with pytest.raises(RuleError, match=f"cannot free {small:#x}"):
            device.free(small)
        again = device.allocate(10)
        assert device.memory.read(again, 10) == bytes(10)
        with pytest.raises(WireError, match="expected 0 bytes or more and a power of two"):
            device.allocate(-1)
        with pytest.raises(WireError, match="expected 0 bytes or more and a power of two"):
            device.allocate(8, 3)
        with pytest.raises(AccessFault):
            device.view(0x10, 4)
        device.array(large, 4, np.float32)[:] = 1.5


def test_blocks_are_zero_again() -> None:
    with HsaDevice() as device:
        for size in (64, 4096, 1 << 20):
            address = device.allocate(size)
            device.view(address, size)[:] = b"x" * size
            device.free(address)
            again = device.allocate(size)
            assert bytes(device.view(again, size)) == bytes(size)


def test_accesses_beyond_a_block_fault(bench: Make) -> None:
    rig = bench()
    address = rig.device.allocate(8192)
    rig.queue.submit(dispatch(rig.kernel(COUNT), address + 8188), dispatch(rig.kernel(COUNT), address + 8192))
    assert rig.queue.load_read_index() == 1
    assert f"write of 4 bytes at {address + 8192:#x}: no memory there, device memory ends at" in str(rig.errors[0][1])
    rig.device.free(address)
    other = rig.new_queue()
    other.submit(dispatch(rig.kernel(COUNT), address))
    assert "no memory there" in str(rig.errors[1][1])


def test_freeing_waits_for_the_packet_that_runs(bench: Make) -> None:
    rig = bench(execution="threaded")
    address, done = rig.device.allocate(4096), rig.device.create_signal(200)
    kernel = rig.kernel(COUNT)
    for _ in range(200):
        rig.queue.submit(dispatch(kernel, address, done))
    done.wait(Condition.EQ, 0)
    rig.device.free(address)
    assert rig.errors == []


@pytest.mark.parametrize("offset", [0, 4])
def test_arrays_are_shared(bench: Make, offset: int) -> None:
    rig = bench()
    array = np.zeros(5000, np.uint32)[offset:]
    address = rig.device.map(array)
    rig.queue.submit(dispatch(rig.kernel(COUNT), address + 4 * 4000, workgroup_size_x=64, grid_size_x=640))
    assert array[4000] == 640
    rig.device.unmap(address)
    with pytest.raises(RuleError, match="cannot unmap"):
        rig.device.unmap(address)


def test_manual_execution(bench: Make) -> None:
    rig = bench(execution="manual")
    done = rig.device.create_signal(3)
    rig.queue.submit(*[dispatch(rig.kernel(), signal=done)] * 3)
    assert (done.load(), rig.device.is_idle) == (3, False)
    assert rig.device.process(2) == 2
    assert done.wait(Condition.EQ, 0) == 0
    assert rig.device.is_idle


def test_threaded_execution(bench: Make) -> None:
    rig = bench(execution="threaded")
    done = rig.device.create_signal(300)
    kernel = rig.kernel()
    for _ in range(300):
        rig.queue.submit(dispatch(kernel, signal=done))
    assert done.wait(Condition.EQ, 0) == 0
    assert rig.device.wait_idle(5)
    rig.device.close()
    rig.device.close()


def test_threaded_errors(bench: Make) -> None:
    rig = bench(execution="threaded")
    done = rig.device.create_signal(1)
    rig.queue.submit(dispatch(0, signal=done))
    with pytest.raises(
        RuleError, match="will never be EQ 0: kernel_object is 0, expected the address of a kernel header"
    ):
        done.wait(Condition.EQ, 0)
    rig.device.set_scratch(rig.queue, 4)
    rig.queue.destroy()


def test_waiting_for_what_waits_for_a_failed_queue(bench: Make) -> None:
    """Through a barrier on another queue; while a third one goes on."""
    rig = bench(execution="threaded")
    other, third = rig.new_queue(), rig.new_queue()
    first, second, third_done = (rig.device.create_signal(1) for _ in range(3))
    other.submit(barrier(first, signal=second))
    rig.queue.submit(dispatch(0, signal=first))
    with pytest.raises(
        RuleError,
        match="will never be EQ 0: kernel_object is 0, expected the address of a kernel header, at AQL packet 0, at "
        "queue 0",
    ):
        second.wait(Condition.EQ, 0)
    thread = threading.Thread(target=third.submit, args=(dispatch(rig.kernel(), signal=third_done),))
    thread.start()
    assert third_done.wait(Condition.EQ, 0) == 0
    thread.join()


def test_threaded_bug_is_reported(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = bench(execution="threaded")
    bug = ModelBug("a mistake of ours")
    seen: list[object] = []
    monkeypatch.setattr("threading.excepthook", seen.append)

    def broken(*_: object) -> None:
        raise bug

    monkeypatch.setattr(rig.queue.processor, "process", broken)
    rig.queue.submit(dispatch(rig.kernel()))
    assert rig.device.wait_idle(5)
    with pytest.raises(ModelBug, match="the device's thread has failed"):
        rig.queue.doorbell.store(0)
    rig.device.close()
    assert len(seen) == 1


def test_callbacks_may_use_the_device(bench: Make) -> None:
    """An error callback makes a new queue and goes on there."""
    rig = bench()
    done = rig.device.create_signal(1)
    kernel = rig.kernel()

    def again(queue: object, code: int, error: object) -> None:
        rig.device.create_queue(64).submit(dispatch(kernel, signal=done))

    rig.device.create_queue(64, on_error=again).submit(dispatch(0))
    assert done.load() == 0


# ---- after close -----------------------------------------------------------------------------------------------------

every_execution = pytest.mark.parametrize("execution", ["synchronous", "manual", "threaded"])


@every_execution
def test_a_packet_after_close(bench: Make, execution: str) -> None:
    """It is refused, and no wait for it lasts for ever."""
    rig = bench(execution=execution)
    done, kernel = rig.device.create_signal(1), rig.kernel()
    rig.device.close()
    with pytest.raises(RuleError, match="the device was closed"):
        rig.queue.submit(dispatch(kernel, signal=done))
    assert (done.wait(Condition.EQ, 0, 0.01), rig.device.process(), rig.device.wait_idle()) == (1, 0, True)
    with pytest.raises(RuleError, match="is 1 and will never be EQ 0: the device was closed"):
        done.wait(Condition.EQ, 0)


@pytest.mark.parametrize("execution", ["manual", "threaded"])
def test_packets_that_are_left_at_close(bench: Make, execution: str) -> None:
    rig = bench(execution=execution)
    gate, done, caught = rig.device.create_signal(1), rig.device.create_signal(1), []

    def wait() -> None:
        with pytest.raises(RuleError, match="the device was closed") as error:
            done.wait(Condition.EQ, 0)
        caught.append(error.value)

    rig.queue.submit(barrier(gate), dispatch(rig.kernel(), signal=done))
    thread = threading.Thread(target=wait)
    thread.start()
    rig.device.close()
    thread.join(10)
    assert len(caught) == 1


def test_a_full_ring_after_close(bench: Make) -> None:
    rig = bench(size=2, execution="manual")
    rig.queue.submit(*[dispatch(rig.kernel())] * 2)
    rig.device.close()
    with pytest.raises(RuleError, match="the device was closed"):
        rig.queue.submit(dispatch(rig.kernel()))


def test_an_error_goes_before_close(bench: Make) -> None:
    rig = bench()
    done = rig.device.create_signal(1)
    rig.queue.submit(dispatch(0, signal=done))
    rig.device.close()
    with pytest.raises(
        RuleError, match="will never be EQ 0: kernel_object is 0, expected the address of a kernel header"
    ):
        done.wait(Condition.EQ, 0)


def test_signals_of_the_host_after_close(bench: Make) -> None:
    """What no packet changes may be changed by another thread still."""
    rig = bench(execution="threaded")
    done, enough = rig.device.create_signal(1), threading.Event()
    rig.device.close()
    thread = threading.Thread(target=enough.wait)
    thread.start()
    assert rig.device.stuck(done.address) is None
    enough.set()
    thread.join()
