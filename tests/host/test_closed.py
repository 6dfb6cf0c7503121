"""Devices that were closed: each public method is the documented error, or is known to need no open device."""

from __future__ import annotations

import errno
import inspect
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

import softcard
from softcard import acceldev, amdcl2, fletcher, hsa, refsi
from softcard.acceldev import DriverError
from softcard.core.errors import RuleError

Calls = dict[str, Callable[[], object]]
VALUES: Final = np.ones(4, np.float32)
FREE_ANYWHERE: Final = {
    "Gpu": {"open", "close", "executables", "findings", "instruction_counts", "free"},
    "RefSi": {"open", "close", "program", "shutdown", "free"},
    "Acceldev": {"open", "close", "handle_interrupt"},
    "Platform": {"open", "close", "terminate", "name", "device_free"},
    "Program": {
        "close", "found", "occurrences", "instruction_counts", "kernels", "engine", "time_limit_seconds",
    },
    "HsaDevice": {
        "close", "free", "unmap", "unmap_at", "destroy_queue", "destroy_signal", "view", "array", "block", "process",
        "wait_idle", "instruction_counts",
    },
}  # fmt: skip
"""Members that need no open device: they release something, or return what is already known."""


def gpu() -> tuple[Any, Calls]:
    device = softcard.Gpu.open("gfx900", threads=1)
    code = hsa.demo_code("gfx900")
    kernel, x, state = device.load(code).kernel("saxpy"), device.zeros(4), device.snapshot()
    args = [2.0, x, x]
    return device, {
        "address": lambda: device.address(x), "array": lambda: device.array(VALUES),
        "compile": lambda: device.compile("kernel void f() {}"), "load": lambda: device.load(code),
        "dispatch": lambda: device.dispatch(kernel, 4, args=args),
        "run": lambda: device.run(code, "saxpy", 4, args=args),
        "run_kernel": lambda: device.run_kernel(kernel, 4, args=args),
        "pack": lambda: device.pack(kernel, 4, args=args), "queue": device.queue, "signal": device.signal,
        "reset": device.reset, "restore": lambda: device.restore(state), "snapshot": device.snapshot,
        "share": lambda: device.share(VALUES), "zeros": lambda: device.zeros(4),
    }  # fmt: skip


def hsa_device() -> tuple[Any, Calls]:
    device = hsa.HsaDevice("gfx900")
    state, place, queue = device.snapshot(), device.allocate(64), device.create_queue(4)
    return device, {
        "allocate": lambda: device.allocate(4), "map": lambda: device.map(VALUES.copy()),
        "map_at": lambda: device.map_at(1 << 40, np.zeros(4096, np.uint8)),
        "create_queue": lambda: device.create_queue(4),
        "create_signal": device.create_signal, "adopt_queue": lambda: device.adopt_queue(queue.address),
        "set_scratch": lambda: device.set_scratch(queue, 4), "watch": lambda: device.watch(place, 4),
        "reset": device.reset, "restore": lambda: device.restore(state), "snapshot": device.snapshot,
        "check_open": device.check_open,
    }  # fmt: skip


def ref_si() -> tuple[Any, Calls]:
    device = softcard.RefSi.open()
    device.load_elf(refsi.demo_kernels())
    kernel, place = device.kernel("vector_add"), device.allocate(64)
    args = [VALUES, VALUES, VALUES, 4]
    return device, {
        "allocate": lambda: device.allocate(4), "array": lambda: device.array(VALUES), "zeros": lambda: device.zeros(4),
        "empty": lambda: device.empty(4), "compile": lambda: device.compile("void f(void) {}"),
        "counters": device.counters, "execute_command_buffer": lambda: device.execute_command_buffer(place, 8),
        "execute_kernel": lambda: device.execute_kernel(0, 1), "flush": lambda: device.flush(place, 4),
        "invalidate": lambda: device.invalidate(place, 4), "kernel": lambda: device.kernel("vector_add"),
        "launch": lambda: device.launch(kernel, 1, args),
        "launch_slices": lambda: device.launch_slices(kernel, 1, 1, args),
        "load_elf": lambda: device.load_elf(refsi.demo_kernels()), "map": lambda: device.map(place, 4),
        "read": lambda: device.read(place, 4), "write": lambda: device.write(place, b"x"), "wait": device.wait,
        "run": lambda: device.run([0]), "submit": lambda: device.submit([0]), "port": lambda: device.port,
        "info": lambda: device.info, "memory_map": lambda: device.memory_map, "profile": lambda: device.profile,
        "findings": lambda: device.findings, "instruction_counts": device.instruction_counts,
    }  # fmt: skip


def accelerator() -> tuple[Any, Calls]:
    device = softcard.Acceldev.open()
    return device, {
        "open_context": device.open_context, "wait_finished": device.wait_finished,
        "wait_until": lambda: device.wait_until(lambda: True, "nothing"),
    }  # fmt: skip


def platform() -> tuple[Any, Calls]:
    device = softcard.Platform.open("sum")
    place = device.device_malloc(64)
    return device, {
        "init": device.init, "device_malloc": lambda: device.device_malloc(4),
        "cache_host_buffer": lambda: device.cache_host_buffer(bytes(4), 4),
        "prepare_host_buffer": lambda: device.prepare_host_buffer(bytes(4), 4),
        "copy_device_to_host": lambda: device.copy_device_to_host(place, 4),
        "copy_host_to_device": lambda: device.copy_host_to_device(bytes(4), place, 4),
        "read_mmio": lambda: device.read_mmio(0), "read_mmio_64": lambda: device.read_mmio_64(0),
        "write_mmio": lambda: device.write_mmio(0, 1),
    }  # fmt: skip


def program() -> tuple[Any, Calls]:
    made = softcard.load(amdcl2.demo_program("tonga", 200406))
    state = made.snapshot()
    return made, {
        "kernel": lambda: made.kernel(made.kernels[0]), "queue": made.queue, "reset": made.reset,
        "restore": lambda: made.restore(state), "snapshot": made.snapshot,
        "snapshot_at": lambda: made.snapshot_at(["end"]),
        "read_code": lambda: made.read_code(0, 4),
        "symbol": lambda: made.symbol("x", 4), "run": lambda: made.run(None, False), "check_open": made.check_open,
    }  # fmt: skip


MAKERS: Final = (gpu, hsa_device, ref_si, accelerator, platform, program)


@pytest.mark.parametrize("make", MAKERS)
def test_a_closed_device_is_the_documented_error(make: Callable[[], tuple[Any, Calls]]) -> None:
    device, calls = make()
    device.close()
    device.close()
    for name, call in calls.items():
        with pytest.raises((RuleError, DriverError)) as caught:
            call()
        assert isinstance(caught.value, RuleError) or caught.value.errno == errno.ENODEV, name
        assert "closed" in str(caught.value) or "shut down" in str(caught.value), f"{name}: {caught.value}"


@pytest.mark.parametrize("make", [each for each in MAKERS if each is not hsa_device])
def test_no_public_method_is_forgotten(make: Callable[[], tuple[Any, Calls]]) -> None:
    device, calls = make()
    with device:
        public = {name for name, _ in inspect.getmembers(type(device)) if not name.startswith("_")}
        assert public - calls.keys() - FREE_ANYWHERE[type(device).__name__] == set()


def test_what_belongs_to_a_closed_device() -> None:
    """Contexts and buffers of an Acceldev are closed with it; a kernel of a platform needs the platform."""
    device = softcard.Acceldev.open()
    context = device.open_context()
    buffer = context.create_buffer(4096)
    device.close()
    for call in (
        lambda: context.create_buffer(4096),
        context.drain,
        lambda: context.wait(1),
        lambda: buffer.array("u4"),
    ):
        with pytest.raises(DriverError, match="closed") as caught:
            call()
        assert caught.value.errno == errno.EBADF
    target = softcard.Platform.open("sum")
    batches = fletcher.Context(target)
    batches.queue_record_batch(pa.record_batch([pa.array([1], pa.int64())], names=["number"]))
    kernel = fletcher.Kernel(batches)
    target.close()
    for call in (kernel.reset, kernel.start, kernel.get_status, kernel.wait_for_finish):
        with pytest.raises(RuleError, match="the platform was closed: open a new one"):
            call()
    with pytest.raises(RuleError, match="the device was closed: open a new one"):
        acceldev_device().reset()


@pytest.mark.parametrize("make", [*MAKERS, lambda: (acceldev.AcceldevDevice(), {})])
def test_a_closed_device_is_not_entered(make: Callable[[], tuple[Any, Calls]]) -> None:
    device, _ = make()
    device.close()
    with pytest.raises((RuleError, DriverError), match=r"closed|shut down"), device:
        pass


@pytest.mark.parametrize("engine", ["reference", "jit"])
@pytest.mark.parametrize("execution", ["synchronous", "threaded", "manual"])
def test_queues_and_signals_of_a_closed_gpu(engine: str, execution: str) -> None:
    """Submissions and stores are refused and change nothing; values that are still held are read."""
    device = softcard.Gpu.open("gfx900", engine=engine, execution=execution, threads=1)
    queue, signal = device.queue(4), device.signal(7)
    doorbell, written = queue.doorbell, queue.load_write_index()
    device.close()
    calls: Calls = {
        "submit": lambda: queue.submit(bytes(64)), "write_packet": lambda: queue.write_packet(0, bytes(64)),
        "add_write_index": lambda: queue.add_write_index(1), "store_write_index": lambda: queue.store_write_index(1),
        "cas_write_index": lambda: queue.cas_write_index(0, 1), "store_read_index": lambda: queue.store_read_index(0),
        "doorbell": lambda: doorbell.store(0), "ring": lambda: device.device.ring_doorbell(queue.slot, 0),
        "activate": lambda: device.device.set_active(queue, True),
        "store": lambda: signal.store(1), "add": signal.increment, "cas": lambda: signal.cas(7, 1),
    }  # fmt: skip
    for name, call in calls.items():
        with pytest.raises(RuleError, match="the device was closed"):
            print(name, call())
    assert (signal.load(), queue.load_write_index(), queue.load_read_index()) == (7, written, 0)
    queue.inactivate()
    queue.destroy()


def test_what_a_closed_device_held_may_be_given_back() -> None:
    gpu = softcard.Gpu.open("gfx900", threads=1)
    executable = gpu.load(hsa.demo_code("gfx900"))
    gpu.close()
    executable.unload()
    device = softcard.RefSi.open(check="memory")
    buffer, program = device.array(VALUES), device.load_elf(refsi.demo_kernels())
    device.close()
    buffer.free()
    program.unload()


def test_contexts_and_buffers_of_a_closed_acceldev_are_not_entered() -> None:
    device = softcard.Acceldev.open()
    context = device.open_context()
    buffer = context.create_buffer(4096)
    device.close()
    for each in (context, buffer):
        with pytest.raises(DriverError, match="closed"), each:
            pass


def acceldev_device() -> acceldev.AcceldevDevice:
    device = acceldev.AcceldevDevice()
    device.close()
    return device
