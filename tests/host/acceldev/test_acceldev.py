"""The driver in Python: contexts, buffers, runs, waits, errors, and queueing beyond the device's queue."""

from __future__ import annotations

import errno
import threading
from typing import Any

import numpy as np
import pytest

from softcard.core.event import Event
from softcard.device.acceldev import registers as r
from softcard.device.acceldev.commands import Fence, Fill, Nop, NopCommand, UserCommand, user_code
from softcard.device.acceldev.events import CommandQueued, Lint
from softcard.host.acceldev.acceldev import CODE, Acceldev, Context, DriverError

WAYS: dict[str, dict[str, Any]] = {
    "synchronous": {},
    "paced": {"pacing": 1},
    "stepped": {"pacing": 0},
    "threaded": {"execution": "threaded"},
    "poisoned": {"poison": True, "seed": 5},
}


@pytest.fixture(params=WAYS)
def device(request: pytest.FixtureRequest) -> Any:
    with Acceldev.open(**WAYS[request.param]) as opened:
        yield opened


@pytest.fixture
def plain() -> Any:
    with Acceldev.open() as opened:
        yield opened


def listen(device: Acceldev) -> list[Event]:
    events: list[Event] = []
    device.port.probes.subscribe(events.append)  # type: ignore[attr-defined]
    return events


def fill(slot: int, start: int, length: int, value: int = 0x01010101) -> Fill:
    return Fill(value=value, buffer_slot=slot, start=start, length=length)


def expect(number: int, message: str, call: Any) -> DriverError:
    with pytest.raises(DriverError, match=message) as caught:
        call()
    assert caught.value.errno == number
    return caught.value


def start(context: Context, *commands: UserCommand) -> None:
    context.run(context.create_code(*commands))


def test_a_run_fills_a_buffer(device: Acceldev) -> None:
    with device.open_context() as context:
        data = context.create_buffer(10000)
        start(context, fill(data.slot, 4096, 4096, 0x04030201), Fence())
        context.wait(1)
        assert (data.array("u4")[1024:2048] == 0x04030201).all()
        assert not data.array()[:4096].any()
        assert len(data.view) == 10000
        assert context.fence_counter == 1


def test_contexts_are_apart(device: Acceldev) -> None:
    contexts = [device.open_context() for _ in range(5)]
    buffers = [context.create_buffer(4096) for context in contexts]
    for number, context in enumerate(contexts):
        start(context, fill(0, 0, 4096, 0x01010101 * (number + 1)), *[Fence()] * (number + 1))
    for number, (context, buffer) in enumerate(zip(contexts, buffers, strict=True)):
        context.wait(number + 1)
        assert (buffer.array() == number + 1).all()


def test_slots_are_taken_lowest_first(plain: Acceldev) -> None:
    context = plain.open_context()
    buffers = [context.create_buffer(1) for _ in range(16)]
    assert [buffer.slot for buffer in buffers] == list(range(16))
    expect(errno.ENOSPC, "all 16 slots of the context are in use", lambda: context.create_buffer(1))
    assert context.create_buffer(1, CODE).slot is None
    buffers[5].close()
    assert context.create_buffer(1).slot == 5
    context.execute(fill(5, 0, 1))


@pytest.mark.parametrize("size", [0, -1, (4 << 20) + 1])
def test_sizes_of_buffers(plain: Acceldev, size: int) -> None:
    context = plain.open_context()
    expect(
        errno.EINVAL,
        f"the size of the buffer is {size} bytes, expected 1 to 4194304",
        lambda: context.create_buffer(size),
    )
    assert context.create_buffer(4 << 20).slot == 0


def test_kinds_of_buffers(plain: Acceldev) -> None:
    context = plain.open_context()
    expect(
        errno.EINVAL, "the kind of buffer is 'jam', expected 'code' or 'data'", lambda: context.create_buffer(1, "jam")
    )


def test_255_contexts(plain: Acceldev) -> None:
    contexts = [plain.open_context() for _ in range(255)]
    assert [context.index for context in contexts] == list(range(255))
    expect(errno.EBUSY, "all 255 contexts are in use: close one first", plain.open_context)
    contexts[100].execute(Fence())
    contexts[100].close()
    again = plain.open_context()
    assert (again.index, again.fence_counter) == (100, 0)


def test_memory_comes_back() -> None:
    with Acceldev.open(4 << 20) as device, device.open_context() as context:
        for _ in range(20):
            with context.create_buffer(3 << 20) as buffer:
                context.execute(fill(buffer.slot, 0, 3 << 20))
        with context.create_buffer(3 << 20):
            expect(
                errno.ENOMEM,
                "cannot allocate memory for a buffer of 3145728 bytes",
                lambda: context.create_buffer(3 << 20),
            )
    expect(errno.ENOMEM, "the records", lambda: Acceldev.open(4096))


def test_buffers_are_zero_at_first(plain: Acceldev) -> None:
    context = plain.open_context()
    for _ in range(3):
        with context.create_buffer(60 << 10) as buffer:
            assert not buffer.array().any()
            context.execute(fill(buffer.slot, 0, buffer.size))
            assert buffer.array().all()


def test_an_error_is_eio_from_then_on(device: Acceldev) -> None:
    with device.open_context() as context, device.open_context() as other:
        start(context, Fence(), fill(3, 0, 4), Fence())
        error = expect(errno.EIO, "context 0 has failed: no buffer is bound to slot 3", lambda: context.wait(2))
        assert str(error).startswith("EIO (Input/output error): ")
        assert "at user command 1, at byte 0x14 (of the code buffer), at context 0" in str(error)
        assert error.rule is not None
        assert error.rule.id == "acceldev/fill-slot"
        expect(errno.EIO, "context 0 has failed", lambda: context.wait(1))
        code = context.create_code(Fence())
        expect(errno.EIO, "context 0 has failed", lambda: context.run(code))
        expect(errno.EIO, "context 0 has failed", context.drain)
        other.execute(Fence())
        assert context.is_errored
        assert not other.is_errored
    with device.open_context() as context:
        context.execute(Fence())
        assert context.index == 0


@pytest.mark.parametrize("commands", [(bytes([3]) + bytes(19),), (fill(0, 4096, 4),), (fill(19, 0, 4),)])
def test_what_errors_a_context(plain: Acceldev, commands: tuple[Any, ...]) -> None:
    context = plain.open_context()
    context.create_buffer(4096)
    data = b"".join(each if isinstance(each, bytes) else user_code([each]) for each in commands)
    code = context.create_buffer(len(data), CODE)
    code.write(data)
    context.run(code)
    expect(errno.EIO, "has failed", lambda: context.wait(1))


def test_runs_behind_the_code_are_submitted(plain: Acceldev) -> None:
    context = plain.open_context()
    code = context.create_code(Fence())
    context.run(code, 0, 4)
    context.drain()
    context.run(code, 0, 0x30_0000)
    expect(errno.EIO, "expected PRESENT", lambda: context.wait(2))


def test_runs_that_cannot_be_submitted(plain: Acceldev) -> None:
    context, other = plain.open_context(), plain.open_context()
    code = context.create_code(Fence())
    expect(errno.EINVAL, "expected an open code buffer of this context", lambda: other.run(code))
    expect(errno.EINVAL, "expected an open code buffer of this context", lambda: context.run(context.create_buffer(20)))
    expect(errno.EINVAL, "cannot run 18 bytes at 0x2", lambda: context.run(code, 2))
    expect(errno.EINVAL, "that fit 32 bits", lambda: context.run(code, 0, 1 << 32))
    code.close()
    expect(errno.EINVAL, "expected an open code buffer", lambda: context.run(code))


def test_a_fence_that_never_comes(plain: Acceldev) -> None:
    context = plain.open_context()
    start(context, Fence())
    reported = (
        r"EDEADLK \(Resource deadlock avoided\): fence 2 will never be reached: all queued commands have finished"
    )
    expect(errno.EDEADLK, reported, lambda: context.wait(2))
    with Acceldev.open(execution="threaded") as device, device.open_context() as waiting:
        start(waiting, Fence())
        expect(errno.EDEADLK, "fence 2 will never be reached", lambda: waiting.wait(2))


def test_fences_count_modulo_2_to_32(plain: Acceldev) -> None:
    context = plain.open_context()
    context.wait(0)
    start(context, Fence(), Fence())
    context.wait(0xFFFF_FFFF)
    context.wait(2)


def test_waiting_for_a_device_that_stopped(plain: Acceldev) -> None:
    context = plain.open_context()
    plain.port.write(r.ENABLE.offset, 0)
    start(context, Fence())
    expect(errno.EDEADLK, "fence 1 will never be reached: the device has stopped", lambda: context.wait(1))
    plain.port.write(r.ENABLE.offset, 1)
    context.wait(1)


def test_waiting_has_a_limit() -> None:
    with Acceldev.open(execution="threaded") as device, device.open_context() as context:
        device.port.write(r.ENABLE.offset, 0)
        start(context, Fence())
        expect(errno.ETIMEDOUT, "fence 1 was not reached within 0.01 s", lambda: context.wait(1, 0.01))
        device.port.write(r.ENABLE.offset, 1)
        context.wait(1)


def test_more_commands_than_the_queue_holds(device: Acceldev) -> None:
    with device.open_context() as context:
        code = context.create_code(Fence())
        for _ in range(700):
            context.run(code)
        context.wait(700)
        context.drain()
        assert context.fence_counter == 700


def test_the_queue_waits_while_the_device_is_stopped(plain: Acceldev) -> None:
    events = listen(plain)
    context = plain.open_context()
    code = context.create_code(Fence())
    plain.port.write(r.ENABLE.offset, 0)
    for _ in range(700):
        context.run(code)
    assert plain.port.read(r.CMD_MANUAL_FREE.offset) <= 1
    plain.port.write(r.ENABLE.offset, 1)
    context.wait(700)
    context.drain()
    assert not [event for event in events if isinstance(event, Lint) and event.check == "queue-overrun"]
    assert sum(isinstance(event, CommandQueued) for event in events) > 700


def test_the_driver_has_no_lints() -> None:
    device = Acceldev.open()
    events = listen(device)
    for _ in range(3):
        with device.open_context() as context:
            data = [context.create_buffer(8192) for _ in range(3)]
            for buffer in data:
                context.execute(fill(buffer.slot, 0, 8192), Fence())
            context.wait(3)
            data[1].close()
    device.close()
    assert [str(event) for event in events if isinstance(event, Lint)] == []


class Busy:
    """Keeps the device's queue filled: every NOP that ends is followed by another, up to a limit."""

    LIMIT = 50000

    def __init__(self, device: Acceldev) -> None:
        self.device = device
        self.count = 0
        with device.lock:
            self.again()

    def again(self) -> None:
        if self.count < self.LIMIT:
            self.count += 1
            self.device.queue.put(NopCommand(), self.again)


def test_waiting_for_the_end_is_for_what_was_queued_before() -> None:
    with Acceldev.open(execution="threaded") as device, device.open_context() as context:
        busy = Busy(device)
        start(context, Fence())
        context.drain()
        context.close()
        assert busy.count < Busy.LIMIT
        busy.count = Busy.LIMIT


def test_a_time_limit_holds_while_others_keep_the_device_busy() -> None:
    with Acceldev.open(execution="threaded") as device, device.open_context() as context:
        busy = Busy(device)
        expect(errno.ETIMEDOUT, "fence 1 was not reached within 0.01 s", lambda: context.wait(1, 0.01))
        busy.count = Busy.LIMIT


def test_threads_share_a_context() -> None:
    failures: list[Exception] = []

    def work(context: Context, number: int) -> None:
        try:
            buffer = context.create_buffer(4096)
            for round_ in range(1, 6):
                context.execute(fill(buffer.slot, 0, 4096, 0x01010101 * round_), Nop())
                np.testing.assert_array_equal(buffer.array(), round_)
        except Exception as failure:  # noqa: BLE001  # handed to the main thread
            failures.append(failure)

    with Acceldev.open(execution="threaded") as device, device.open_context() as context:
        threads = [threading.Thread(target=work, args=(context, number)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert failures == []


def test_what_is_closed_stays_closed(plain: Acceldev) -> None:
    context = plain.open_context()
    buffer = context.create_buffer(100)
    expect(errno.EINVAL, "5 bytes at 0x60 do not fit the buffer of 100 bytes", lambda: buffer.write(b"12345", 96))
    buffer.close()
    buffer.close()
    expect(errno.EBADF, "the buffer is closed", lambda: buffer.view)
    context.close()
    context.close()
    expect(errno.EBADF, "the context is closed", lambda: context.create_buffer(1))
    expect(errno.EBADF, "the context is closed", lambda: context.wait(0))
    plain.close()
    plain.close()
    expect(errno.ENODEV, "the device is closed", plain.open_context)


def test_closing_everything_while_it_runs() -> None:
    device = Acceldev.open(execution="threaded")
    context = device.open_context()
    buffer = context.create_buffer(4 << 20)
    code = context.create_code(*[fill(buffer.slot, 0, 4 << 20)] * 50)
    context.run(code)
    code.close()
    buffer.close()
    device.close()
    assert device.contexts == {}
