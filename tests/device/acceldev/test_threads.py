"""A device with a thread of its own: registers answer, resets end DMA, closing ends the thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from softcard.core.errors import AccessFault, ModelBug, RuleError
from softcard.device.acceldev import interrupts
from softcard.device.acceldev import registers as r
from softcard.device.acceldev.commands import Fence, FenceCommand, Nop, RunCommand, words_of
from softcard.device.acceldev.native_commands import SOME, Block, commands
from softcard.device.acceldev.registers import Interrupt
from tests.device.acceldev.rig import ALL, CallsOnly, Machine, fill

LONG = 20


class SlowPort(CallsOnly):
    """Stops inside the first call after `arm`, as a port does whose answer comes by a socket."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.armed = False
        self.inside = threading.Event()
        self.go_on = threading.Event()
        self.failure: BaseException | None = None

    def read(self, address: int, size: int) -> bytes:
        if self.armed:
            self.armed = False
            self.inside.set()
            assert self.go_on.wait(LONG)
            if self.failure is not None:
                raise self.failure
        return super().read(address, size)


def slow() -> tuple[Machine, SlowPort]:
    machine = Machine(execution="threaded", listen=False)
    port = SlowPort(machine.memory)
    machine.device.connect(port)
    return machine, port


def start_run(machine: Machine, port: SlowPort) -> None:
    table = machine.code(Fence(), Fence())
    port.armed = True
    machine.feed(*words_of(RunCommand(context=0, table=table, offset=0, size=40)))
    assert port.inside.wait(LONG)


def test_registers_answer_while_a_command_runs() -> None:
    machine, port = slow()
    start_run(machine, port)
    assert machine.read(r.CMD_MANUAL_FREE) == 254
    machine.write(r.CMD_FENCE_WAIT, 3)
    machine.feed(*words_of(FenceCommand(value=3)))
    assert machine.intr == 0
    assert not machine.device.is_idle
    with pytest.raises(RuleError, match="the device executes a command"):
        machine.device.snapshot()
    port.go_on.set()
    assert machine.device.wait_idle(LONG)
    assert machine.intr == Interrupt.FENCE_WAIT | Interrupt.USER_FENCE_WAIT
    machine.device.close()


def test_nothing_is_written_after_a_reset() -> None:
    machine, port = slow()
    start_run(machine, port)
    machine.device.reset()
    before = machine.memory.read(machine.next_page - (1 << 16), 1 << 16)
    assert machine.read(r.CMD_MANUAL_FREE) == 255
    port.go_on.set()
    assert machine.device.wait_idle(LONG)
    machine.start()
    machine.fence(1)
    assert (machine.fences(), machine.intr) == (0, 0)
    assert machine.read(r.CMD_FENCE_LAST) == 1, "the thread serves the next commands"
    assert machine.memory.read(machine.next_page - (1 << 16), 1 << 16) == before
    machine.device.close()


def test_a_reset_waits_for_what_runs_in_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    inside, go_on, is_reset = threading.Event(), threading.Event(), threading.Event()

    machine = Machine(execution="threaded", engine="reference", listen=False)
    executing = machine.device._processor._user._machine

    def held(block: Block) -> int:
        inside.set()
        assert go_on.wait(LONG)
        return commands(block)

    monkeypatch.setattr(executing, "_free", held)
    first = machine.bound(0)
    code = machine.code(fill(0, 0, 8), *[Nop()] * SOME, Fence())
    machine.feed(*words_of(RunCommand(context=0, table=code, offset=0, size=(SOME + 2) * 20)))
    assert inside.wait(LONG)

    def reset() -> None:
        machine.device.reset()
        is_reset.set()

    resetting = threading.Thread(target=reset)
    resetting.start()
    assert not is_reset.wait(0.05), "the FILL is under way"
    go_on.set()
    resetting.join(LONG)
    assert is_reset.is_set()
    assert machine.device.is_idle
    assert machine.memory.read(first, 8) == b"\x11\x22\x33\x44" * 2, "the FILL ended before the reset did"
    assert (machine.fences(), machine.intr) == (0, 0), "nothing followed it"
    machine.device.close()


def test_closing_while_a_call_is_under_way() -> None:
    machine, port = slow()
    start_run(machine, port)
    machine.device.close()
    machine.device.close()
    port.go_on.set()
    for thread in threading.enumerate():
        if thread.name == "acceldev":
            thread.join(LONG)
    assert (machine.fences(), machine.intr) == (0, 0)


def test_a_port_that_fails_is_a_mem_error() -> None:
    machine, port = slow()
    port.failure = AccessFault("the client has gone", address=0)
    start_run(machine, port)
    port.go_on.set()
    assert machine.device.wait_idle(LONG)
    assert machine.intr == Interrupt.MEM_ERROR
    machine.device.close()


def test_a_port_that_breaks_its_contract_is_reported() -> None:
    machine, port = slow()
    hooks: list[Any] = []
    original, threading.excepthook = threading.excepthook, hooks.append
    try:
        port.failure = OSError("no route")
        start_run(machine, port)
        port.go_on.set()
        assert machine.device.wait_idle(LONG)
        for thread in threading.enumerate():
            if thread.name == "acceldev":
                thread.join(LONG)
        with pytest.raises(ModelBug, match="the device's thread has failed"):
            machine.read(r.INTR)
        assert len(hooks) == 1
    finally:
        threading.excepthook = original


def test_the_handler_runs_without_a_lock_of_the_device() -> None:
    machine = Machine(execution="threaded", listen=False)
    seen: list[int] = []
    handled = threading.Event()

    def ask() -> None:
        seen.append(machine.read(r.INTR))

    def handler(level: bool) -> None:
        if level:
            other = threading.Thread(target=ask)
            other.start()
            other.join(LONG)
            machine.write(r.INTR, ALL)
            handled.set()

    machine.device.line.observe(handler)
    machine.run(Fence())
    assert handled.wait(LONG)
    assert seen == [Interrupt.USER_FENCE_WAIT]
    assert not machine.device.line.level
    machine.device.close()


def test_a_slow_device_rests_between_commands() -> None:
    machine = Machine(execution="threaded", pause_seconds=0.001, listen=False)
    machine.run(Nop())
    machine.fence(1)
    assert machine.read(r.CMD_FENCE_LAST) == 1
    machine.device.close()


def test_a_handler_on_the_devices_thread_may_reset() -> None:
    machine = Machine(execution="threaded", listen=False)
    done = threading.Event()

    def handler(level: bool) -> None:
        if level:
            machine.device.reset()
            done.set()

    machine.device.line.observe(handler)
    machine.feed(*words_of(RunCommand(context=0, table=machine.code(Fence(), Fence()), offset=0, size=40)))
    assert done.wait(LONG)
    assert machine.device.wait_idle(LONG)
    assert machine.fences() == 1
    machine.device.close()


def interrupted(machine: Machine, during: Callable[[], None]) -> None:
    """Have the device's thread call `during` inside the rise of the line."""
    machine.device.line.observe(lambda level: during() if level else None)
    machine.feed(*words_of(RunCommand(context=0, table=machine.code(Fence()), offset=0, size=20)))


def test_the_line_is_low_once_a_write_to_intr_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "UPDATE_SECONDS", LONG)
    machine = Machine(execution="threaded", listen=False)
    rising, written = threading.Event(), threading.Event()

    def during() -> None:
        rising.set()
        # The writer needs this thread in order to return: it must not be able to do so before.
        assert not written.wait(0.05)

    interrupted(machine, during)
    assert rising.wait(LONG)
    machine.write(r.INTR, ALL)
    written.set()
    assert not machine.device.line.level
    machine.device.close()


def test_a_handler_may_wait_for_another_threads_write() -> None:
    machine = Machine(execution="threaded", listen=False)
    ended: list[bool] = []

    def during() -> None:
        other = threading.Thread(target=machine.write, args=(r.INTR, ALL))
        other.start()
        other.join(LONG)
        ended.append(not other.is_alive())

    interrupted(machine, during)
    assert machine.device.wait_idle(LONG)
    assert ended == [True]
    assert not machine.device.line.level
    machine.device.close()


def test_a_restored_device_goes_on() -> None:
    machine = Machine(execution="threaded", listen=False)
    machine.write(r.ENABLE, 0)
    machine.feed(*words_of(FenceCommand(value=6)))
    state = machine.device.snapshot()
    state.registers["ENABLE"] = 1
    machine.device.restore(state)
    assert machine.device.wait_idle(LONG)
    assert machine.read(r.CMD_FENCE_LAST) == 6
    machine.device.close()
