"""Device commands RUN and BIND_SLOT, contexts and their records."""

from __future__ import annotations

import pytest

from softcard.device.acceldev import registers as r
from softcard.device.acceldev.commands import BindSlotCommand, Fence, Nop, RunCommand, page_table, user_code
from softcard.device.acceldev.events import CommandStarted, FenceCounted, UserCommandStarted
from softcard.device.acceldev.registers import Interrupt
from tests.device.acceldev.rig import ALL, BEYOND, CONFIGS, HIGH, NOWHERE, RAM, Machine, fill


def test_contexts() -> None:
    machine = Machine()
    for context in (0, 1, 254):
        machine.run(*[Fence()] * (context + 1), context=context)
        assert machine.fences(context) == context + 1
    machine.write(r.INTR, ALL)
    machine.run(Fence(), context=255)
    assert machine.intr == Interrupt.CMD_ERROR
    assert machine.fences(255) == 0
    assert "the context number is 255, expected 0 to 254" in str(machine.device.last_error)


def test_contexts_array() -> None:
    machine = Machine()
    machine.bind(15, 0x1234_5000, context=2)
    machine.run(Fence(), context=2)
    machine.run(fill(0, 0, 1), context=2)
    raw = machine.memory.read(CONFIGS, 3 * 192)
    assert raw[: 2 * 192] == bytes(2 * 192)
    record = raw[2 * 192 :]
    assert record[15 * 8 : 128] == (0x1234_5000).to_bytes(8, "little")
    assert record[128:133] == b"\1\0\0\0\1"


def test_contexts_64_bit() -> None:
    machine = Machine(start=False)
    machine.start(BEYOND + 0x123)
    machine.run(Fence(), context=254)
    assert machine.record(254, BEYOND + 0x123)[128] == 1


@pytest.mark.parametrize("configs", [NOWHERE, (1 << 64) - 64, 0])
def test_records_that_are_no_memory_are_a_mem_error(configs: int) -> None:
    machine = Machine(start=False)
    machine.start(configs)
    machine.run(Fence())
    assert machine.intr == Interrupt.MEM_ERROR
    machine.write(r.INTR, ALL)
    machine.bind(0, 0)
    assert machine.intr == Interrupt.MEM_ERROR
    assert "no memory there, at device command 1 (BIND_SLOT)" in str(machine.device.last_error)


@pytest.mark.parametrize("listen", [False, True])
def test_listening_changes_nothing_where_a_record_is_partly_memory(listen: bool) -> None:
    machine = Machine(start=False, listen=listen)
    machine.start(RAM - 64)
    machine.run(Fence())
    assert machine.intr == Interrupt.USER_FENCE_WAIT
    machine.bind(10, 0x5000)
    assert machine.intr == Interrupt.USER_FENCE_WAIT
    assert machine.memory.read(RAM + 16, 8) == (0x5000).to_bytes(8, "little")


def test_context_error() -> None:
    machine = Machine()
    machine.record(3)[132] = 0xF0
    machine.run(fill(1, 0, 4), Fence(), context=3)
    assert machine.status(3) == 0xF1, "other bits stay"
    assert machine.intr == Interrupt.SLOT_ERROR
    assert machine.fences(3) == 0, "the rest of the RUN is not executed"
    machine.run(Fence(), context=4)
    assert machine.fences(4) == 1, "others go on"


def test_a_run_on_an_errored_context_is_consumed() -> None:
    machine = Machine()
    machine.record()[132] = 1
    machine.run(Fence(), fill(0, 0, 1))
    assert (machine.intr, machine.fences(), machine.status()) == (0, 0, 1)
    machine.bind(2, 0x5000)
    assert machine.slot(2) == 0x5000, "BIND_SLOT is executed"


def test_fairness() -> None:
    machine = Machine(pacing=0)
    machine.run(*[Nop()] * 50, context=1)
    machine.run(Fence(), context=2)
    machine.device.step(51)
    assert machine.fences(2) == 0
    machine.device.step(2)
    assert machine.fences(2) == 1


def test_user_commands_by_run() -> None:
    machine = Machine()
    machine.code(Fence(), Fence())
    assert machine.fences() == 0
    machine.run(Fence())
    assert machine.fences() == 1


def test_run() -> None:
    machine = Machine()
    machine.feed(0x0000_0071, machine.code(Fence(), Fence()), 0, 0, 40)
    assert machine.fences(7) == 2
    assert machine.seen(CommandStarted)[0].command == RunCommand(
        context=7, table=machine.next_page - 4096, offset=0, size=40
    )
    assert [event.counter for event in machine.seen(FenceCounted)] == [1, 2]
    assert [event.offset for event in machine.seen(UserCommandStarted)] == [0, 20]


def test_run_table() -> None:
    machine = Machine()
    machine.memory.write(HIGH, page_table([HIGH + 0x1000]))
    machine.memory.write(HIGH + 0x1000, user_code([Fence()]))
    machine.feed(1, HIGH & ALL, HIGH >> 32, 0, 20)
    assert machine.fences() == 1


@pytest.mark.parametrize("offset", [0, 4, 20, 36, 40, 400, 4076, 4080, 4092, 4096, 8192])
def test_run_offset(offset: int) -> None:
    machine = Machine()
    machine.run(Fence(), Nop(), Fence(), offset=offset)
    assert (machine.fences(), machine.status()) == (2, 0)


@pytest.mark.parametrize("offset", [1, 2, 3, 21])
def test_odd_run_offset(offset: int) -> None:
    machine = Machine()
    machine.run(Fence(), offset=offset)
    assert machine.intr == Interrupt.CMD_ERROR
    assert (machine.fences(), machine.status()) == (0, 0)


@pytest.mark.parametrize(("size", "fences"), [(0, 0), (4, 0), (19, 0), (20, 1), (39, 1), (40, 2), (60, 3)])
def test_run_size(size: int, fences: int) -> None:
    machine = Machine()
    machine.run_at(machine.code(*[Fence()] * 3), 0, size)
    assert (machine.fences(), machine.status()) == (fences, 0)
    assert machine.intr == (Interrupt.USER_FENCE_WAIT if fences else 0)


def test_partial_commands_can_be_refused() -> None:
    machine = Machine(partial_command="cmd-error")
    machine.run_at(machine.code(Fence()), 0, 24)
    assert (machine.intr, machine.fences(), machine.status()) == (Interrupt.CMD_ERROR, 0, 0)
    assert "the size of RUN is 24 bytes, expected a multiple of 20" in str(machine.device.last_error)


def test_slots() -> None:
    machine = Machine()
    pages = [machine.bound(slot) for slot in range(16)]
    machine.run(*(fill(slot, 0, 4, slot + 1) for slot in range(16)))
    assert [machine.memory.read(page, 1)[0] for page in pages] == list(range(1, 17))
    assert machine.status() == 0


def test_binding() -> None:
    machine = Machine()
    table, first = machine.buffer()
    machine.record()[8:16] = table.to_bytes(8, "little")
    machine.bind(2, table)
    machine.run(fill(1, 0, 4, 5), fill(2, 4, 4, 6))
    assert machine.memory.read(first, 8) == b"\5\0\0\0\6\0\0\0"


def test_bind_slot() -> None:
    machine = Machine()
    machine.feed(0x0000_0052, 3, 0x2233_4455, 0xFEDC_BA98, 0xDEAD)
    assert machine.slot(3, context=5) == 0xFEDC_BA98_2233_4455, "whatever the value, it is looked at when it is used"
    assert machine.seen(CommandStarted)[0].command == BindSlotCommand(
        context=5, slot_number=3, table=0xFEDC_BA98_2233_4455, unused=0xDEAD
    )


@pytest.mark.parametrize("slot", [16, 17, ALL])
def test_bind_slot_number(slot: int) -> None:
    machine = Machine()
    before = bytes(machine.record())
    machine.bind(slot, 0x1000)
    assert machine.intr == Interrupt.CMD_ERROR
    assert bytes(machine.record()) == before


def test_bind_slot_table() -> None:
    machine = Machine()
    machine.memory.write(HIGH, page_table([HIGH + 0x2000]))
    machine.bind(0, HIGH)
    machine.run(fill(0, 0, 4))
    assert machine.memory.read(HIGH + 0x2000, 4) == bytes.fromhex("11223344")


def test_bind_by_configs() -> None:
    machine = Machine(pacing=0)
    first, second = machine.buffer(), machine.buffer()
    machine.record()[0:8] = first[0].to_bytes(8, "little")
    machine.run(fill(0, 0, 4), fill(0, 0, 4))
    machine.device.step(2)
    machine.record()[0:8] = second[0].to_bytes(8, "little")
    machine.device.step(1)
    assert [machine.memory.read(each[1], 1)[0] for each in (first, second)] == [0x11, 0x11]
    assert machine.lints == ["slot-edited"]


def test_unbind() -> None:
    machine = Machine()
    old, new = machine.bound(0), machine.bound(0)
    machine.run(fill(0, 0, 4))
    assert (machine.memory.read(old, 1)[0], machine.memory.read(new, 1)[0]) == (0, 0x11)
    machine.bind(0, 0)
    machine.run(fill(0, 0, 4))
    assert machine.intr == Interrupt.SLOT_ERROR


def test_the_record_is_the_only_truth() -> None:
    machine = Machine()
    machine.run(Fence(), Fence())
    machine.record()[128:132] = (0xFFFF_FFFF).to_bytes(4, "little")
    machine.run(Fence())
    assert machine.fences() == 0, "read, incremented modulo 2**32, written"
    machine.run(fill(0, 0, 1))
    machine.record()[:] = bytes(192)
    machine.run(Fence())
    assert (machine.fences(), machine.status()) == (1, 0)


def test_a_command_keeps_the_configs_it_began_with() -> None:
    machine = Machine(pacing=0)
    machine.run(Fence(), Fence())
    machine.device.step(2)
    machine.write(r.CONTEXTS_CONFIGS_LO, RAM + 0x8_0000)
    machine.device.step(1)
    assert machine.fences() == 2
