"""FEED registers, the queue of 255, ENABLE, device NOP and FENCE, starting and stopping."""

from __future__ import annotations

import pytest

from softcard.device.acceldev import processor
from softcard.device.acceldev import registers as r
from softcard.device.acceldev.commands import (
    DeviceCommand,
    Fence,
    FenceCommand,
    Nop,
    NopCommand,
    RunCommand,
    decode_device_command,
    words_of,
)
from softcard.device.acceldev.events import CommandFinished, CommandQueued
from softcard.device.acceldev.registers import Interrupt
from tests.device.acceldev.rig import ALL, CONFIGS, Machine, fill


def stopped() -> Machine:
    machine = Machine()
    machine.write(r.ENABLE, 0)
    return machine


def test_device_command_words() -> None:
    machine = stopped()
    machine.feed(0x1234_5673, 1, 2, 3, 4)
    assert machine.seen(CommandQueued)[0].words == (0x1234_5673, 1, 2, 3, 4)
    command = RunCommand(context=0xABCDEF, table=0x11_2233_4455, offset=6, size=7)
    assert words_of(command) == (0xABCDEF1, 0x2233_4455, 0x11, 6, 7)
    assert command.pack()[:4] == bytes.fromhex("f1debc0a")


def test_manual_free() -> None:
    machine = stopped()
    for count in range(256):
        assert machine.read(r.CMD_MANUAL_FREE) == 255 - count
        assert machine.intr == 0
        machine.submit(NopCommand())
    assert machine.intr == Interrupt.FEED_ERROR


def test_queue_size() -> None:
    machine = stopped()
    machine.submit(*(FenceCommand(value=index) for index in range(1, 256)))
    assert machine.read(r.CMD_MANUAL_FREE) == 0
    machine.write(r.ENABLE, 1)
    assert machine.read(r.CMD_FENCE_LAST) == 255
    assert machine.read(r.CMD_MANUAL_FREE) == 255


def test_the_command_being_executed_counts_queue_size() -> None:
    machine = Machine(pacing=0)
    table = machine.code(Nop(), Nop())
    machine.run_at(table, 0, 40)
    assert machine.device.step() == 1
    assert machine.device.step() == 1
    assert machine.read(r.CMD_MANUAL_FREE) == 254
    machine.device.step()
    assert machine.read(r.CMD_MANUAL_FREE) == 255


def test_manual_feed() -> None:
    machine = stopped()
    machine.feed(3, 9, 9, 9)
    assert machine.read(r.CMD_MANUAL_FREE) == 255, "nothing is submitted before the last word"
    assert [machine.device.read_bar(0, 0x90 + 4 * index, 4) for index in range(4)] == [ALL] * 4, "write-only"


def test_submit() -> None:
    machine = stopped()
    machine.device.write_bar(0, 0x9C, 4, 0)
    assert machine.read(r.CMD_MANUAL_FREE) == 254
    assert machine.seen(CommandQueued)[0].free == 254


def test_words_stay_between_submissions() -> None:
    machine = Machine()
    machine.feed(3, 55, 0, 0, 0)
    machine.write(r.CMD_FENCE_LAST, 0)
    machine.device.write_bar(0, 0x9C, 4, 0)
    assert machine.read(r.CMD_FENCE_LAST) == 55


def test_a_command_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[tuple[int, ...]] = []

    def decode(words: tuple[int, ...]) -> DeviceCommand:
        decoded.append(words)
        return decode_device_command(words)

    monkeypatch.setattr(processor, "decode_device_command", decode)
    machine = stopped()
    machine.submit(NopCommand(), FenceCommand(value=7))
    assert decoded == []
    machine.write(r.ENABLE, 1)
    assert machine.read(r.CMD_FENCE_LAST) == 7
    assert [words[0] for words in decoded] == [0, 3]


def test_feed_error() -> None:
    machine = stopped()
    machine.submit(*[NopCommand()] * 255)
    machine.fence(42)
    assert machine.intr == Interrupt.FEED_ERROR
    assert machine.lints == ["queue-overrun"]
    machine.write(r.ENABLE, 1)
    assert machine.read(r.CMD_FENCE_LAST) == 0, "the command was dropped"
    machine.fence(42)
    assert machine.read(r.CMD_FENCE_LAST) == 42


def test_device_nop() -> None:
    machine = Machine()
    before = machine.memory.read(CONFIGS, 48960)
    machine.feed(0xFFFF_FFF0, 1, 2, 3, 4)
    assert machine.intr == 0
    assert machine.seen(CommandFinished)[0].error is None
    assert machine.memory.read(CONFIGS, 48960) == before


def test_nop_words() -> None:
    machine = Machine()
    machine.device.write_bar(0, 0x8C, 4, 0)
    machine.device.write_bar(0, 0x9C, 4, 0)
    assert len(machine.seen(CommandFinished)) == 1
    assert machine.lints == []


def test_device_fence() -> None:
    machine = Machine(pacing=0)
    first = machine.bound()
    table = machine.code(fill(0, 0, 4), fill(0, 4, 4))
    machine.run_at(table, 0, 40)
    machine.fence(8)
    while machine.read(r.CMD_FENCE_LAST) != 8:
        done = machine.memory.read(first, 8)
        assert machine.device.step() == 1
    assert done == bytes.fromhex("1122334411223344")


def test_fence_sets_last() -> None:
    machine = Machine()
    for value in (5, 0, ALL):
        machine.feed(0xFFFF_FFF3, value, 9, 9, 9)
        assert machine.read(r.CMD_FENCE_LAST) == value


def test_fence_compares_wait() -> None:
    machine = Machine()
    machine.write(r.CMD_FENCE_WAIT, 3)
    found = []
    for value in (2, 3, 4):
        machine.fence(value)
        found.append(machine.intr)
    assert found == [0, Interrupt.FENCE_WAIT, Interrupt.FENCE_WAIT]
    machine.write(r.INTR, ALL)
    machine.write(r.CMD_FENCE_WAIT, 4)
    assert machine.intr == 0, "values are compared when a FENCE is processed"


def test_last_is_set_before_the_interrupt() -> None:
    machine = Machine()
    seen: list[int] = []
    machine.device.line.observe(lambda level: seen.append(machine.read(r.CMD_FENCE_LAST)))
    machine.write(r.CMD_FENCE_WAIT, 6)
    machine.fence(6)
    assert seen == [6]


def test_enable() -> None:
    machine = stopped()
    machine.fence(1)
    assert machine.read(r.CMD_FENCE_LAST) == 0
    machine.write(r.ENABLE, 0x8000_0000)
    assert machine.read(r.CMD_FENCE_LAST) == 1


def test_the_running_command_finishes_enable() -> None:
    machine = Machine(pacing=0)
    machine.run(Fence(), Fence())
    machine.fence(9)
    machine.device.step(2)
    machine.write(r.ENABLE, 0)
    assert machine.device.step(100) == 1
    assert (machine.fences(), machine.read(r.CMD_FENCE_LAST)) == (2, 0)
    machine.write(r.ENABLE, 1)
    machine.device.step(100)
    assert machine.read(r.CMD_FENCE_LAST) == 9


def test_start_up() -> None:
    machine = Machine(start=False, poison=True, seed=1)
    machine.write(r.INTR, ALL)
    machine.write(r.INTR_ENABLE, r.INTERRUPTS)
    machine.write(r.CONTEXTS_CONFIGS_LO, CONFIGS)
    machine.write(r.CONTEXTS_CONFIGS_HI, 0)
    assert not machine.device.line.level
    machine.write(r.ENABLE, 1)
    machine.run(Fence())
    assert machine.intr == Interrupt.USER_FENCE_WAIT
    assert machine.device.line.level


def test_start_up_fences() -> None:
    machine = Machine(poison=True, seed=2)
    machine.write(r.CMD_FENCE_LAST, 0)
    machine.write(r.CMD_FENCE_WAIT, 1)
    assert machine.read(r.CMD_FENCE_LAST) == 0
    machine.fence(1)
    assert machine.intr == Interrupt.FENCE_WAIT
    assert machine.lints == []


def test_shut_down() -> None:
    machine = Machine()
    machine.run(Fence())
    machine.write(r.INTR, ALL)
    machine.write(r.ENABLE, 0)
    machine.write(r.INTR_ENABLE, 0)
    machine.run(Fence())
    assert machine.fences() == 1
    assert not machine.device.line.level
    assert machine.lints == []


def test_recovery() -> None:
    machine = Machine()
    machine.run(fill(0, 0, 1))
    assert machine.status() == 1
    machine.write(r.ENABLE, 0)
    machine.fence(3)
    machine.start()
    assert machine.intr == 0
    assert machine.read(r.CMD_FENCE_LAST) == 3, "the queue stays"
    machine.run(Fence())
    assert machine.fences() == 0, "so does the error, which is the record's"
    machine.record()[132] = 0
    machine.run(Fence())
    assert machine.fences() == 1


def test_pacing_counts_register_accesses() -> None:
    machine = Machine(pacing=1)
    machine.run(Fence(), Fence(), Fence())
    seen = [machine.fences()]
    for _ in range(5):
        machine.read(r.CMD_MANUAL_FREE)
        seen.append(machine.fences())
    assert seen == [0, 1, 2, 3, 3, 3]
