"""INTR, INTR_ENABLE, the line, and the event behind each of the six interrupts."""

from __future__ import annotations

import pytest

from softcard.device.acceldev import registers as r
from softcard.device.acceldev.commands import Fence, FenceCommand, NopCommand
from softcard.device.acceldev.events import InterruptCleared, InterruptRaised
from softcard.device.acceldev.registers import Interrupt
from tests.device.acceldev.rig import ALL, Machine, fill


def cause(machine: Machine, interrupt: Interrupt) -> None:
    """Make `interrupt` occur."""
    match interrupt:
        case Interrupt.FENCE_WAIT:
            machine.write(r.CMD_FENCE_WAIT, 77)
            machine.fence(77)
        case Interrupt.FEED_ERROR:
            machine.write(r.ENABLE, 0)
            machine.submit(*[NopCommand()] * 256)
            machine.write(r.ENABLE, 1)
        case Interrupt.CMD_ERROR:
            machine.feed(0xF, 0, 0, 0, 0)
        case Interrupt.MEM_ERROR:
            machine.run_at(0x123, 0, 20)
        case Interrupt.SLOT_ERROR:
            machine.run(fill(5, 0, 4), context=9)
        case Interrupt.USER_FENCE_WAIT:
            machine.run(Fence(), context=7)


EACH = pytest.mark.parametrize("interrupt", list(Interrupt), ids=lambda interrupt: interrupt.name)


@EACH
def test_six_interrupts(interrupt: Interrupt) -> None:
    machine = Machine()
    cause(machine, interrupt)
    assert machine.intr == interrupt
    assert machine.device.line.level
    machine.write(r.INTR, interrupt)
    assert machine.intr == 0
    assert not machine.device.line.level
    assert [event.interrupt for event in machine.seen(InterruptRaised)] == [interrupt]
    assert [event.interrupts for event in machine.seen(InterruptCleared)] == [interrupt]


def test_intr_fence_wait() -> None:
    machine = Machine()
    cause(machine, Interrupt.FENCE_WAIT)
    assert machine.intr == 1 << 0


def test_intr_feed_error() -> None:
    machine = Machine()
    cause(machine, Interrupt.FEED_ERROR)
    assert machine.intr == 1 << 1


def test_intr_cmd_error() -> None:
    machine = Machine()
    for words in ((4,), (0xF,), (0x1 | 255 << 4,), (0x2 | 255 << 4,), (0xFFFF_FFF1,), (0x2, 16), (0x1, 0, 0, 2, 20)):
        machine.write(r.INTR, ALL)
        before = bytes(machine.record(0))
        machine.feed(*words, *[0] * (5 - len(words)))
        assert machine.intr == 1 << 2, words
        assert bytes(machine.record(0)) == before
    assert "unknown device command type 4" not in str(machine.device.last_error)
    assert "the offset of RUN is 0x2, expected a multiple of 4" in str(machine.device.last_error)


def test_intr_mem_error() -> None:
    machine = Machine()
    cause(machine, Interrupt.MEM_ERROR)
    assert machine.intr == 1 << 3


def test_intr_slot_error() -> None:
    machine = Machine()
    for slot in (0, 16, 0xFFFF_FFFF):
        machine.write(r.INTR, ALL)
        machine.record()[132] = 0
        machine.run(fill(slot, 0, 4))
        assert machine.intr == 1 << 4
        assert machine.status() == 1


def test_intr_user_fence_wait() -> None:
    machine = Machine()
    cause(machine, Interrupt.USER_FENCE_WAIT)
    assert machine.intr == 1 << 5


def test_intr_active() -> None:
    machine = Machine()
    machine.write(r.INTR_ENABLE, 0)
    cause(machine, Interrupt.USER_FENCE_WAIT)
    assert machine.intr == Interrupt.USER_FENCE_WAIT, "active without being enabled"
    cause(machine, Interrupt.USER_FENCE_WAIT)
    machine.write(r.INTR, Interrupt.USER_FENCE_WAIT)
    assert machine.intr == 0, "two events, one acknowledgement"


def test_intr_read() -> None:
    machine = Machine()
    cause(machine, Interrupt.SLOT_ERROR)
    cause(machine, Interrupt.CMD_ERROR)
    assert machine.intr == Interrupt.SLOT_ERROR | Interrupt.CMD_ERROR
    assert machine.intr == Interrupt.SLOT_ERROR | Interrupt.CMD_ERROR, "reading changes nothing"


def test_intr_write() -> None:
    machine = Machine()
    cause(machine, Interrupt.SLOT_ERROR)
    cause(machine, Interrupt.CMD_ERROR)
    machine.write(r.INTR, 0)
    machine.write(r.INTR, ALL & ~Interrupt.SLOT_ERROR & ~Interrupt.CMD_ERROR)
    assert machine.intr == Interrupt.SLOT_ERROR | Interrupt.CMD_ERROR
    machine.write(r.INTR, Interrupt.SLOT_ERROR)
    assert machine.intr == Interrupt.CMD_ERROR


def test_intr_enabled() -> None:
    machine = Machine()
    cause(machine, Interrupt.SLOT_ERROR)
    levels = []
    for enabled in (0, Interrupt.CMD_ERROR, Interrupt.SLOT_ERROR, r.INTERRUPTS, 0):
        machine.write(r.INTR_ENABLE, enabled)
        levels.append(machine.device.line.level)
    assert levels == [False, False, True, True, False]


@EACH
def test_intr_enable_bits(interrupt: Interrupt) -> None:
    machine = Machine()
    cause(machine, interrupt)
    machine.write(r.INTR_ENABLE, r.INTERRUPTS & ~interrupt)
    assert not machine.device.line.level
    machine.write(r.INTR_ENABLE, interrupt)
    assert machine.device.line.level


def test_intr_enable_keeps_other_bits() -> None:
    machine = Machine()
    machine.write(r.INTR_ENABLE, ALL)
    assert machine.read(r.INTR_ENABLE) == ALL
    assert not machine.device.line.level


def test_line_level() -> None:
    machine = Machine()
    cause(machine, Interrupt.SLOT_ERROR)
    cause(machine, Interrupt.CMD_ERROR)
    machine.write(r.INTR, Interrupt.SLOT_ERROR)
    assert machine.device.line.level, "another one is active"
    assert machine.device.line.edges == 1
    machine.write(r.INTR, Interrupt.CMD_ERROR)
    assert not machine.device.line.level


def test_memory_is_written_before_the_line_rises() -> None:
    machine = Machine()
    seen: list[tuple[int, int, Interrupt]] = []

    def handler(level: bool) -> None:
        if level:
            seen.append((machine.fences(), machine.status(), machine.intr))
            machine.write(r.INTR, ALL)

    machine.device.line.observe(handler)
    machine.run(Fence(), Fence(), fill(3, 0, 1))
    assert seen == [(1, 0, 1 << 5), (2, 0, 1 << 5), (2, 1, 1 << 4)]


def test_a_handler_may_submit_commands() -> None:
    machine = Machine()
    order: list[int] = []

    def handler(level: bool) -> None:
        if level:
            order.append(machine.read(r.CMD_FENCE_LAST))
            machine.write(r.INTR, ALL)
            if len(order) < 5:
                machine.write(r.CMD_FENCE_WAIT, len(order) + 1)
                machine.submit(FenceCommand(value=len(order) + 1))

    machine.device.line.observe(handler)
    machine.write(r.CMD_FENCE_WAIT, 1)
    machine.fence(1)
    assert order == [1, 2, 3, 4, 5]


def test_a_handler_may_reset_the_device() -> None:
    machine = Machine()
    machine.device.line.observe(lambda level: machine.device.reset() if level else None)
    machine.run(Fence(), Fence(), fill(0, 0, 1))
    assert machine.fences() == 1, "nothing of the RUN follows the reset"
    assert machine.intr == 0
    assert machine.read(r.CMD_MANUAL_FREE) == 255
