"""Ctrl-C and `close` against RUNs that take minutes: both work at once, and say where the RUN was."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator

import pytest

from softcard.device.acceldev.commands import Fence, Fill, UserCommand
from softcard.host.acceldev.acceldev import Acceldev, Context, DriverError
from tests.interrupting import SOON, interrupted, soon

BUFFER_BYTES = 4 << 20
COMMANDS = 5000
LONG: dict[str, UserCommand] = {
    "fills": Fill(value=7, buffer_slot=0, start=0, length=BUFFER_BYTES),
    "fences": Fence(),
}
WAYS = [("synchronous", "jit"), ("threaded", "jit"), ("synchronous", "reference")]
everywhere = pytest.mark.parametrize(("execution", "engine"), WAYS)
each = pytest.mark.parametrize("what", LONG)


@pytest.fixture
def device(execution: str, engine: str) -> Iterator[Acceldev]:
    device = Acceldev.open(memory_bytes=16 << 20, execution=execution, engine=engine)
    yield device
    with soon():
        device.close()
    assert device.contexts == {}


def long_run(device: Acceldev, what: str) -> Context:
    """A context that waits for its RUN."""
    context = device.open_context()
    context.create_buffer(BUFFER_BYTES)
    code = context.create_code(*[LONG[what]] * COMMANDS)
    context.run(code)
    for _ in range(999):
        context.run(code)
    context.drain()
    return context


@each
@everywhere
def test_ctrl_c(device: Acceldev, execution: str, what: str) -> None:
    with soon(), pytest.raises(KeyboardInterrupt) as caught, interrupted(0.5):
        long_run(device, what)
    if execution == "synchronous":  # else the device's own thread works, and goes on
        (note,) = caught.value.__notes__
        assert note.startswith("the run was interrupted before its end, at user command ")


@each
@everywhere
def test_close_on_another_thread(device: Acceldev, what: str) -> None:
    closer = threading.Timer(0.5, device.close)
    closer.start()
    with soon(), pytest.raises(DriverError) as caught:
        long_run(device, what)
    closer.join(SOON)
    assert caught.value.errno in (errno.ENODEV, errno.EBADF)
    if caught.value.errno == errno.ENODEV and "the device is closed" not in str(caught.value):  # between two RUNs
        assert "the device was closed while a RUN executed, at user command" in str(caught.value)


@each
@everywhere
def test_closing_what_is_inside(device: Acceldev, what: str) -> None:
    """Somebody closes the device, not its driver: nothing rises any more, and who waits hears of it all the same."""
    inner = device.port.device  # type: ignore[attr-defined]
    closer = threading.Timer(0.5, inner.close)
    closer.start()
    with soon(), pytest.raises(DriverError) as caught:
        long_run(device, what)
    closer.join(SOON)
    assert caught.value.errno == errno.ENODEV
    assert "closed" in str(caught.value)


def test_an_interrupt_whose_handler_was_broken_off_is_not_lost() -> None:
    with Acceldev.open() as device, device.open_context() as context:
        complete, broken = device.queue.complete, []

        def break_off() -> None:
            device.queue.complete = complete  # type: ignore[method-assign]
            broken.append(True)
            raise KeyboardInterrupt

        device.queue.complete = break_off  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            context.execute(Fence())
        assert broken
        context.drain()
        context.wait(1)
