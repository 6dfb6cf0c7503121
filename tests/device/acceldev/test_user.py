"""User commands: NOP, FENCE, FILL, and errors that say where. On shared memory, by calls, and as machine code."""

from __future__ import annotations

import pytest

from softcard.core.words import U32
from softcard.device.acceldev.commands import Fence, Fill, Nop, page_table, user_code
from softcard.device.acceldev.events import ContextErrored, UserCommandStarted
from softcard.device.acceldev.native_commands import commands
from softcard.device.acceldev.registers import Interrupt
from tests.device.acceldev.rig import ALL, NOWHERE, RAM, CallsOnly, Machine, fill


def expected(start: int, length: int, size: int, value: int) -> bytes:
    """A buffer of `size` zeros after a FILL, byte by byte."""
    out = bytearray(size)
    for index in range(length):
        out[start + index] = value >> 8 * (index % 4) & 0xFF
    return bytes(out)


def test_user_command_words(machine: Machine) -> None:
    first = machine.bound(7)
    data = b"".join(word.to_bytes(4, "little") for word in (2, 0xA1B2_C3D4, 7, 8, 4))
    machine.run(data)
    assert machine.memory.read(first, 16) == bytes(8) + bytes.fromhex("d4c3b2a1") + bytes(4)


def test_user_command_full(machine: Machine) -> None:
    table, first = machine.buffer()
    machine.memory.write(first + 4080, user_code([Nop()])[:16])
    machine.run_at(table, 4080, 20)
    assert machine.intr == Interrupt.MEM_ERROR, "the last word of the command is on no page"
    assert machine.status() == 1


@pytest.mark.parametrize("type_", [3, 4, 15])
def test_user_commands(machine: Machine, type_: int) -> None:
    machine.run(Fence(), Nop(), Nop(), type_.to_bytes(20, "little"), Fence())
    assert machine.intr == Interrupt.CMD_ERROR | Interrupt.USER_FENCE_WAIT
    assert (machine.fences(), machine.status()) == (1, 1)
    assert str(machine.device.last_error) == (
        f"header {type_:#010x}: unknown user command type {type_}, at user command 3, at byte 0x3c "
        "(of the code buffer), at context 0, at device command 1 (RUN), [acceldev/user-commands: User Commands]"
    )


def test_high_bits_of_a_header_are_ignored(machine: Machine) -> None:
    machine.run(*[(0xFFFF_FFF0).to_bytes(20, "little")] * 100, (0x1234_5671).to_bytes(20, "little"))
    assert (machine.fences(), machine.status()) == (1, 0)


def test_user_nop(machine: Machine) -> None:
    machine.bound()
    before = machine.memory.read(RAM, 1 << 20)
    table = machine.code(*[Nop(unused=b"\xee" * 16)] * 500)
    during = machine.memory.read(RAM, 1 << 20)
    before_time = machine.device.time
    machine.run_at(table, 0, 500 * 20)
    assert machine.memory.read(RAM, 1 << 20) == during != before
    assert machine.intr == 0
    assert machine.device.time == before_time + 501


def test_user_fence(machine: Machine) -> None:
    first = machine.bound()
    seen: list[bytes] = []
    machine.device.line.observe(lambda level: seen.append(machine.memory.read(first, 4)))
    machine.run(fill(0, 0, 4, 1), fill(0, 0, 4, 2), Fence(), fill(0, 0, 4, 3))
    assert seen == [b"\2\0\0\0"]


def test_user_fence_counter(machine: Machine) -> None:
    machine.record()[128:132] = (U32 - 1).to_bytes(4, "little")
    machine.run(Fence(), Fence(), Fence())
    assert machine.fences() == 1
    assert machine.fences(1) == 0


def test_user_fence_trigger(machine: Machine) -> None:
    machine.run(Nop())
    assert machine.intr == 0
    machine.run(Fence())
    assert machine.intr == Interrupt.USER_FENCE_WAIT


@pytest.mark.parametrize(
    ("start", "length"),
    [
        (0, 1),
        (0, 4),
        (3, 5),
        (0, 4096),
        (1, 4096),
        (4094, 5),
        (5, 12000),
        (4097, 8190),
        (0, 16384),
        (63, 129),
        (1, 128),
    ],
)
@pytest.mark.parametrize("value", [0x4433_2211, 0x5555_5555])
def test_fill(machine: Machine, start: int, length: int, value: int) -> None:
    pages = [machine.page() for _ in range(6)]
    order = [pages[index] for index in (3, 4, 0, 5)]
    machine.bind(2, machine.table(*order))
    machine.run(fill(2, start, length, value))
    assert machine.status() == 0
    assert b"".join(machine.memory.read(page, 4096) for page in order) == expected(start, length, 16384, value)
    assert machine.memory.read(pages[1], 8192) == bytes(8192), "nothing beside them"


def test_fill_value(machine: Machine) -> None:
    first = machine.bound()
    machine.run(fill(0, 2, 7, 0xDDCC_BBAA))
    assert machine.memory.read(first, 12).hex() == "0000aabbccddaabbcc000000"


def test_fill_slot(machine: Machine) -> None:
    machine.bound(4)
    machine.run(fill(4, 0, 4), fill(5, 0, 4), Fence())
    assert machine.intr == Interrupt.SLOT_ERROR
    assert (machine.fences(), machine.status()) == (0, 1)
    assert str(machine.device.last_error).startswith(
        "no buffer is bound to slot 5, at FILL slot 5 start 0x0 length 0x4, at user command 1, at byte 0x14"
    )


def test_fill_slot_of_16_and_more(machine: Machine) -> None:
    machine.run(fill(19, 0, 4))
    assert machine.intr == Interrupt.SLOT_ERROR
    assert "the slot number is 19, expected 0 to 15" in str(machine.device.last_error)


def test_fill_start(machine: Machine) -> None:
    first = machine.bound(0, 2)
    machine.run(fill(0, 4095, 2))
    assert machine.memory.read(first + 4094, 4) == b"\0\x11\x22\0"


def test_fill_length(machine: Machine) -> None:
    first = machine.bound()
    machine.run(fill(0, 0, 0), fill(0, ALL, 0), fill(0, 0, 3))
    assert machine.status() == 0
    assert machine.memory.read(first, 4) == b"\x11\x22\x33\0"
    machine.run(fill(1, 0, 0))
    assert machine.intr == Interrupt.SLOT_ERROR, "the slot is checked"


def test_a_fill_writes_up_to_the_absent_page(machine: Machine) -> None:
    page, behind = machine.page(), machine.page()
    machine.bind(0, machine.table(page, None, behind))
    machine.run(fill(0, 4000, 8000))
    assert machine.intr == Interrupt.MEM_ERROR
    assert machine.memory.read(page, 4096) == expected(4000, 96, 4096, 0x4433_2211)
    assert machine.memory.read(behind, 4096) == bytes(4096)


def test_a_fill_writes_up_to_what_is_no_memory(machine: Machine) -> None:
    last = RAM + (32 << 20) - 4096
    machine.bind(0, machine.table(last, last + 4096))
    machine.run(fill(0, 0, 8192))
    assert machine.intr == Interrupt.MEM_ERROR
    assert machine.memory.read(last, 4096) == expected(0, 4096, 4096, 0x4433_2211)
    assert "no memory there" in str(machine.device.last_error)


def test_a_fill_may_change_its_own_page_table(machine: Machine) -> None:
    second = machine.page()
    table = machine.page()
    machine.memory.write(table, bytes(machine.memory.read(machine.table(table, second), 4096)))
    machine.bind(0, table)
    machine.run(fill(0, 0, 8192, 0))
    assert (machine.status(), machine.memory.read(table, 4096)) == (0, bytes(4096))
    machine.run(fill(0, 0, 4))
    assert machine.intr == Interrupt.MEM_ERROR, "the table is absent everywhere now"


def test_a_fill_may_change_the_code_behind_it(machine: Machine) -> None:
    code = machine.code(fill(0, 20, 20, 0), fill(5, 0, 4), Fence())
    machine.bind(0, code)
    machine.run_at(code, 0, 60)
    assert (machine.status(), machine.fences()) == (0, 1)


def test_code_that_is_no_memory(machine: Machine) -> None:
    machine.run_at(machine.table(NOWHERE), 0, 20)
    assert machine.intr == Interrupt.MEM_ERROR
    assert "read of 20 bytes at 0x900000000: no memory there, at user command 0" in str(machine.device.last_error)


def test_a_fill_past_a_full_table(machine: Machine) -> None:
    page = machine.page()
    table = machine.page(2)
    machine.memory.write(table, page_table([page] * 1024) * 2)
    machine.bind(0, table)
    machine.run(fill(0, (4 << 20) - 4, 4), fill(0, (4 << 20) - 8, 9))
    assert (machine.intr, machine.status()) == (Interrupt.MEM_ERROR, 1)
    assert "at user command 1" in str(machine.device.last_error)


def test_events_of_user_commands() -> None:
    machine = Machine()
    machine.bound(1)
    machine.run(Nop(), fill(1, 0, 4), Fence(), fill(2, 0, 4))
    started = machine.seen(UserCommandStarted)
    assert [(event.offset, type(event.command)) for event in started] == [(0, Nop), (20, Fill), (40, Fence), (60, Fill)]
    (errored,) = machine.seen(ContextErrored)
    assert (errored.context, errored.interrupt) == (0, Interrupt.SLOT_ERROR)


def test_events_of_user_commands_can_be_left_out() -> None:
    machine = Machine(user_command_events=False)
    machine.run(Fence())
    assert machine.seen(UserCommandStarted) == []
    assert machine.fences() == 1


@pytest.mark.parametrize("value", [0x0102_0304, 0x0505_0505])
def test_machine_code_as_python(value: int) -> None:
    """The native function gives the same as Python: FILLs of all alignments over pages that lie apart, and FENCEs."""
    results = []
    for is_compiled in (True, False):
        machine = Machine(listen=False)
        first = machine.page(5)
        machine.bind(7, machine.table(*(first + 4096 * page for page in (1, 0, 3, 4))))
        machine.run(*[Nop()] * 100)
        executing = machine.device._processor._user._machine
        assert executing.is_compiled
        if not is_compiled:
            executing._free = executing._brief = commands
        fills = [Fill(value=value + n, buffer_slot=7, start=n * 997, length=n * 331) for n in range(12)]
        machine.run(*fills, *[Nop()] * 300, Fence(), *fills[::-1], Fence())
        results.append((machine.memory.read(first, 5 * 4096), machine.intr, machine.fences(), machine.status()))
    assert results[0] == results[1]


def test_commands_of_memory_by_calls_are_read_a_page_at_a_time() -> None:
    """A page of NOPs takes an entry and the code, twice that what straddles it; a FILL all entries at once."""
    machine = Machine(calls_only=True, listen=False)
    machine.bind(3, machine.table(machine.page(), machine.page(), machine.page()))
    machine.run(*[Nop()] * 200)
    assert isinstance(machine.port, CallsOnly)
    table = machine.code(*[Nop()] * 1000)
    before = machine.port.calls
    machine.run_at(table, 0, 1000 * 20)
    pages, straddling = 5, 4
    status = 1
    assert machine.port.calls - before <= status + 2 * pages + 4 * straddling
    table = machine.code(fill(3, 0, 3 * 4096))
    before = machine.port.calls
    machine.run_at(table, 0, 20)
    assert machine.port.calls - before == status + 2 + 1 + 1 + 3
    assert machine.status() == 0
