"""Mistakes that the device accepts, told as events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from softcard.core.register import Register
from softcard.device.acceldev import registers as r
from softcard.device.acceldev.commands import Fence, FenceCommand, Nop, NopCommand
from softcard.device.acceldev.events import Lint
from softcard.device.acceldev.lints import CHECKS
from softcard.device.acceldev.registers import Interrupt
from tests.device.acceldev.rig import ALL, RAM, Machine, fill


def only(machine: Machine) -> str:
    """The text of the only lint."""
    (found,) = machine.seen(Lint)
    assert found.check in CHECKS
    return str(found)


def test_the_docs_list_every_check() -> None:
    page = (Path(__file__).parents[3] / "docs" / "acceldev.md").read_text(encoding="utf-8")
    for check, finds in CHECKS.items():
        assert f"| `{check}` | {finds} |" in page


def test_nothing_is_said_of_a_good_driver() -> None:
    machine = Machine()
    machine.bound(0, 4)
    machine.write(r.CMD_FENCE_WAIT, 1)
    machine.run(fill(0, 0, 100), Fence())
    machine.fence(1)
    assert machine.read(r.INTR)
    machine.write(r.INTR, ALL)
    machine.bind(0, 0)
    machine.write(r.ENABLE, 0)
    machine.write(r.INTR_ENABLE, 0)
    machine.device.close()
    assert machine.lints == []


def test_stale_feed_word() -> None:
    machine = Machine()
    machine.feed(3, 7, 0, 0, 0)
    machine.device.write_bar(0, 0x8C, 4, 3)
    machine.device.write_bar(0, 0x9C, 4, 0)
    assert only(machine) == (
        "stale-feed-word: FENCE uses FEED word 1, which was not written since the last submission "
        "[acceldev/manual-feed: Device Commands]"
    )


@pytest.mark.parametrize(
    ("command", "stale"), [(0x0, ["0"]), (0x1, ["0", "1", "2", "3"]), (0x2, ["0", "1", "2", "3"]), (0xF, ["0"])]
)
def test_stale_words_that_a_command_uses(command: int, stale: list[str]) -> None:
    machine = Machine()
    machine.write(r.ENABLE, 0)
    machine.feed(command, 0, 0, 0, 0)
    machine.device.write_bar(0, 0x9C, 4, 0)
    assert f"uses FEED word {', '.join(stale)}, which was not written" in only(machine)


def test_fence_wait_late() -> None:
    machine = Machine()
    machine.fence(5)
    machine.write(r.CMD_FENCE_WAIT, 5)
    assert machine.lints == [], "the driver may still look"
    machine.read(r.INTR)
    assert only(machine).startswith(
        "fence-wait-late: CMD_FENCE_WAIT was set to 0x5 after the FENCE with this VAL was processed"
    )


def test_fence_wait_late_is_right_if_last_is_read_next() -> None:
    machine = Machine()
    machine.fence(5)
    machine.write(r.CMD_FENCE_WAIT, 5)
    assert machine.read(r.CMD_FENCE_LAST) == 5
    machine.read(r.INTR)
    assert machine.lints == []


def test_fence_wait_is_not_late_for_the_next_fence_of_that_value() -> None:
    machine = Machine()
    machine.fence(5)
    machine.write(r.ENABLE, 0)
    machine.fence(5)
    machine.write(r.CMD_FENCE_WAIT, 5)
    machine.write(r.ENABLE, 1)
    assert machine.lints == []


def test_fences_of_one_value_may_be_awaited_again() -> None:
    machine = Machine()
    for _ in range(2):
        machine.write(r.CMD_FENCE_WAIT, 1)
        machine.fence(1)
        machine.write(r.INTR, ALL)
    assert machine.lints == []


def test_fences_may_be_numbered_anew() -> None:
    machine = Machine()
    machine.fence(1)
    machine.write(r.CMD_FENCE_LAST, 0)
    machine.write(r.CMD_FENCE_WAIT, 1)
    machine.fence(1)
    assert machine.lints == []


def test_partial_command() -> None:
    machine = Machine()
    machine.run_at(machine.code(Nop()), 0, 24)
    assert "RUN of 24 bytes: the last 4 bytes are not a complete command of 20 bytes and are not executed" in only(
        machine
    )


@pytest.mark.parametrize(
    ("write", "offset", "size", "why"),
    [
        (False, 0x00, 2, "read of 2 bytes at BAR0 + 0x0000: expected 4 bytes"),
        (True, 0x04, 8, "write of 8 bytes at BAR0 + 0x0004: expected 4 bytes"),
        (False, 0x02, 4, "read inside INTR, which starts at 0x0"),
        (False, 0x90, 4, "read of CMD_MANUAL_FEED1, which is write-only"),
        (True, 0x14, 4, "write where MMIO has no register"),
        (False, 0x8000, 4, "read where MMIO has no register"),
    ],
)
def test_odd_access(write: bool, offset: int, size: int, why: str) -> None:
    machine = Machine()
    if write:
        machine.device.write_bar(0, offset, size, 0)
    else:
        machine.device.read_bar(0, offset, size)
    assert why in only(machine)


def test_queue_overrun() -> None:
    machine = Machine()
    machine.write(r.ENABLE, 0)
    machine.submit(*[NopCommand()] * 255, FenceCommand(value=1))
    assert only(machine).startswith(
        "queue-overrun: FENCE was submitted while all 255 entries of the queue were in use, and is lost"
    )


def test_interrupt_coalesced() -> None:
    machine = Machine()
    machine.run(Fence(), Fence(), Fence())
    assert only(machine).startswith("interrupt-coalesced: USER_FENCE_WAIT occurred again while active since command 1")
    machine.write(r.INTR, ALL)
    machine.run(Fence())
    assert len(machine.lints) == 1, "acknowledged in between"


SHUT_DOWN = {
    "it runs on": (),
    "ENABLE only": (r.ENABLE,),
    "ENABLE first": (r.ENABLE, r.INTR_ENABLE),
    "INTR_ENABLE first": (r.INTR_ENABLE, r.ENABLE),
}
"""Registers that a driver clears."""


@pytest.mark.parametrize("end", ["reset", "close"])
@pytest.mark.parametrize("cleared", SHUT_DOWN.values(), ids=SHUT_DOWN)
def test_interrupt_unacknowledged(cleared: tuple[Register, ...], end: str) -> None:
    machine = Machine()
    machine.run(Fence())
    for register in cleared:
        machine.write(register, 0)
    assert machine.lints == [], "the driver may still acknowledge it"
    getattr(machine.device, end)()
    assert "USER_FENCE_WAIT has been active since command 1 and was never cleared before" in only(machine)


@pytest.mark.parametrize("cleared", SHUT_DOWN.values(), ids=SHUT_DOWN)
def test_interrupts_may_be_acknowledged_after_they_were_disabled(cleared: tuple[Register, ...]) -> None:
    machine = Machine()
    machine.run(Fence())
    for register in cleared:
        machine.write(register, 0)
    machine.write(r.INTR, ALL)
    machine.device.close()
    assert machine.lints == []


def test_disabled_interrupts_need_no_acknowledgement() -> None:
    machine = Machine()
    machine.write(r.INTR_ENABLE, 0)
    machine.run(Fence())
    machine.device.reset()
    assert machine.lints == []


def test_slot_edited() -> None:
    machine = Machine(pacing=0)
    first, second = machine.buffer(), machine.buffer()
    machine.bind(4, first[0])
    machine.run(fill(4, 0, 4), Nop(), context=0)
    machine.device.step(3)
    machine.record()[32:40] = second[0].to_bytes(8, "little")
    machine.record()[0:8] = second[0].to_bytes(8, "little")
    machine.device.step(1)
    assert f"slot 4 of context 0 changed from {first[0]:#x} to {second[0]:#x} in memory while a RUN used it" in only(
        machine
    )


def test_slots_that_a_run_does_not_use_may_be_edited() -> None:
    machine = Machine(pacing=0)
    machine.bind(4, machine.buffer()[0])
    machine.run(fill(4, 0, 4), Nop())
    machine.device.step(3)
    machine.record()[0:8] = (0x1000).to_bytes(8, "little")
    machine.device.step(1)
    assert machine.lints == []


def test_a_live_context_may_close_all_its_buffers_and_create_others() -> None:
    """Which looks the same as a context that was freed and opened again: nothing can be said of it."""
    machine = Machine()
    tables = [machine.buffer()[0] for _ in range(2)]
    for table in tables:
        machine.bind(0, table)
        machine.bind(1, table)
        machine.run(Fence())
        machine.write(r.INTR, ALL)
        machine.bind(1, 0)
        machine.bind(0, 0)
    assert machine.lints == []
    machine.device.context_freed(0)
    assert "the record of context 0 holds fence_counter 2, status 0x0 and 0 bound slots when it was freed" in only(
        machine
    )


def test_a_freed_context_with_slots_left() -> None:
    machine = Machine()
    machine.bind(3, 0x5000, context=8)
    machine.device.context_freed(7)
    assert machine.lints == []
    machine.device.context_freed(8)
    assert "the record of context 8 holds fence_counter 0, status 0x0 and 1 bound slots when it was freed" in only(
        machine
    )


def test_run_errored() -> None:
    machine = Machine()
    machine.record(6)[132] = 1
    machine.run(Fence(), context=6)
    assert "RUN on context 6 does nothing: the error bit of its record is set" in only(machine)


def test_contexts_configs_unset() -> None:
    machine = Machine(start=False)
    machine.write(r.ENABLE, 1)
    machine.bind(0, 0)
    machine.write(r.INTR, ALL)
    assert "a context's record is used, but CONTEXTS_CONFIGS was never written" in only(machine)
    machine.bind(0, 0)
    assert [each.check for each in machine.seen(Lint)] == ["contexts-configs-unset", "command-refused"]


@pytest.mark.parametrize("register", [r.INTR, r.CMD_FENCE_LAST])
def test_never_enabled(register: Register) -> None:
    machine = Machine(start=False)
    machine.read(register)
    machine.nop()
    machine.nop()
    assert machine.lints == [], "the driver may still set ENABLE"
    machine.read(register)
    machine.read(register)
    machine.device.close()
    assert only(machine) == (
        f"never-enabled: 2 commands were queued and ENABLE was never set when {register.name} was read: nothing is "
        "executed, expected a write of 1 to ENABLE at start-up [acceldev/start-up: Starting the Device]"
    )


def test_never_enabled_when_the_driver_leaves_or_waits_for_room() -> None:
    machine = Machine(start=False)
    for _ in range(255):
        machine.nop()
        assert machine.lints == []
        machine.read(r.CMD_MANUAL_FREE)
    assert "255 commands were queued and ENABLE was never set when CMD_MANUAL_FREE was read" in only(machine)
    for end in ("driver_gone", "reset", "close"):
        machine = Machine(start=False)
        machine.nop()
        getattr(machine.device, end)()
        assert "never-enabled: 1 command was queued and ENABLE was never set before" in only(machine)


def test_commands_may_be_queued_before_enable_and_after_it_was_cleared() -> None:
    machine = Machine(start=False)
    machine.nop()
    machine.write(r.ENABLE, 1)
    machine.read(r.INTR)
    machine.write(r.ENABLE, 0)
    machine.nop()
    machine.read(r.INTR)
    machine.device.reset()
    assert machine.lints == []


@pytest.mark.parametrize(("header", "name"), [(0x11, "RUN"), (0xFE2, "BIND_SLOT"), (0x3, "FENCE")])
def test_device_commands_in_the_other_byte_order(header: int, name: str) -> None:
    machine = Machine()
    swapped = int.from_bytes(header.to_bytes(4, "little"), "big")
    machine.feed(swapped, 0, 0, 0, 0)
    assert only(machine) == (
        f"byte-order: the header {swapped:#010x} is a NOP, but would be {name} in big-endian order: expected 32-bit "
        "writes of "
        "little-endian words [acceldev/device-command-words: Device Commands]"
    )


def test_nops_may_hold_anything_else() -> None:
    machine = Machine()
    for header in (0x10, 0xFFFF_FFF0, 0x0F00_0000, 0x4000_0000):
        machine.feed(header, 1, 2, 3, 4)
    machine.run(Nop(unused_header=0xFFF_FFFF, unused=bytes(range(16))), Fence())
    machine.write(r.INTR, ALL)
    assert machine.lints == []


@pytest.mark.parametrize(
    "options", [{"engine": "reference"}, {"engine": "jit"}, {"user_command_events": False}], ids=str
)
@pytest.mark.parametrize("command", [Fence(), fill(0, 0, 4)])
def test_user_commands_in_the_other_byte_order(command: Any, options: dict[str, Any]) -> None:
    machine = Machine(**options)
    words = [command.pack()[at : at + 4][::-1] for at in range(0, 20, 4)]
    machine.run(*[Nop()] * 100, b"".join(words))
    assert machine.lints[:1] == ["byte-order"]
    *_, found = machine.seen(Lint)
    assert "of a RUN on context 0 are NOPs that are FENCE or FILL in big-endian order, expected little" in str(found)
    assert str(found).endswith("words [acceldev/user-command-words: User Commands]")


def test_empty_run() -> None:
    machine = Machine()
    machine.run()
    assert only(machine) == (
        "empty-run: RUN of 0 bytes on context 0 executes nothing, expected the bytes of its commands "
        "[acceldev/run-size: Device Commands: RUN command]"
    )


def test_command_refused() -> None:
    machine = Machine()
    machine.bind(0, 0, context=300)
    assert only(machine) == (
        "command-refused: BIND_SLOT is not executed, it only raises CMD_ERROR: the context number is 300, expected 0 "
        "to 254 "
        "[acceldev/intr-cmd-error: Interrupts]"
    )


def test_contexts_configs_live() -> None:
    machine = Machine()
    machine.write(r.ENABLE, 0)
    machine.nop()
    machine.write(r.CONTEXTS_CONFIGS_LO, RAM)
    assert "CONTEXTS_CONFIGS was written while commands were queued or running" in only(machine)


def test_interrupt_storm() -> None:
    """A driver that reads INTR and never writes it; one that does may go on for ever."""
    machine = Machine()
    for value in range(200):
        machine.write(r.CMD_FENCE_WAIT, value)
        machine.fence(value)
        assert machine.intr == Interrupt.FENCE_WAIT
        machine.write(r.INTR, Interrupt.FENCE_WAIT)
        assert machine.intr == 0
    assert machine.lints == []
    machine.write(r.CMD_FENCE_WAIT, 1000)
    machine.fence(1000)
    for _ in range(99):
        machine.write(r.INTR, Interrupt.MEM_ERROR)  # another one
        assert machine.intr == Interrupt.FENCE_WAIT
    assert machine.lints == []
    for _ in range(1000):
        assert machine.intr == Interrupt.FENCE_WAIT
    assert "interrupt-storm: INTR was read 100 times while FENCE_WAIT stayed active" in only(machine)


def test_polling_is_no_storm() -> None:
    machine = Machine()
    machine.write(r.INTR_ENABLE, 0)
    machine.write(r.CMD_FENCE_WAIT, 5)
    machine.fence(5)
    for _ in range(1000):
        assert machine.intr == Interrupt.FENCE_WAIT
    assert machine.lints == []


def test_the_driver_leaves_without_having_cleared() -> None:
    machine = Machine()
    machine.write(r.CMD_FENCE_WAIT, 5)
    machine.fence(5)
    for _ in range(2):
        machine.device.driver_gone()
        assert (
            "FENCE_WAIT has been active since command 0 and was never cleared before the driver disconnected"
            in only(machine)
        )
    machine.write(r.INTR, ALL)
    machine.device.driver_gone()
    machine.device.close()
    assert len(machine.lints) == 1
