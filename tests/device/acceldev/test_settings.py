"""Options, snapshots, layouts, and that every rule has its test."""

from __future__ import annotations

from pathlib import Path

import pytest

from softcard.core.errors import RuleError, WireError
from softcard.core.pci import PciDevice
from softcard.core.rule import Fidelity, load_choices, load_rules
from softcard.device.acceldev import registers as r
from softcard.device.acceldev.commands import (
    BindSlotCommand,
    ContextConfig,
    Fence,
    FenceCommand,
    Fill,
    Nop,
    NopCommand,
    RunCommand,
    decode_device_command,
    decode_user_command,
    words_of,
)
from softcard.device.acceldev.device import AcceldevDevice
from softcard.device.acceldev.settings import Settings
from softcard.report.rules import missing_tests
from tests.device.acceldev.rig import ALL, Machine, fill


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"execution": "soon"}, "execution is 'soon', expected one of synchronous, threaded"),
        ({"engine": "steam"}, "engine is 'steam', expected one of jit, reference"),
        ({"partial_command": "guess"}, "partial_command is 'guess', expected one of ignore, cmd-error"),
        ({"pacing": -1}, "pacing is -1, expected 0 or more"),
        ({"pacing": 1, "execution": "threaded"}, "pacing requires execution 'synchronous'"),
        ({"pause_seconds": 1.0}, "pause_seconds is 1.0, expected 0, or more with execution 'threaded'"),
    ],
)
def test_impossible_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(WireError) as caught:
        AcceldevDevice(**options)
    assert str(caught.value).startswith(message)


def test_a_device_is_a_pci_device() -> None:
    device: PciDevice = AcceldevDevice(Settings(poison=True))
    assert device.bars[0].size_bytes == 65536


def test_only_synchronous_devices_are_stepped() -> None:
    with pytest.raises(RuleError, match="a threaded device executes by itself"):
        AcceldevDevice(execution="threaded").step()


def test_snapshot_and_restore_between_user_commands_of_one() -> None:
    machine = Machine(pacing=0)
    first = machine.bound(0)
    machine.device.step(1)
    machine.write(r.CMD_FENCE_WAIT, 5)
    machine.run(fill(0, 0, 4, 1), fill(0, 4, 4, 2), Fence(), fill(0, 8, 4, 3))
    machine.fence(5)
    machine.device.step(2)
    state, memory = machine.device.snapshot(), bytes(machine.memory.view(0x1000_0000, 1 << 20))
    machine.device.step(100)
    after = (machine.device.snapshot(), machine.memory.read(first, 16), machine.fences())
    machine.memory.view(0x1000_0000, 1 << 20)[:] = memory
    machine.device.restore(state)
    assert machine.device.snapshot() == state
    machine.device.step(100)
    assert (machine.device.snapshot(), machine.memory.read(first, 16), machine.fences()) == after
    assert after[1].hex() == "01000000020000000300000000000000"
    assert machine.intr == r.Interrupt.FENCE_WAIT | r.Interrupt.USER_FENCE_WAIT


@pytest.mark.parametrize(
    "command",
    [
        NopCommand(),
        RunCommand(context=254, table=0xFF_FFFF_F000, offset=20, size=40),
        BindSlotCommand(context=1, slot_number=15, table=1 << 39),
        FenceCommand(value=ALL),
    ],
    ids=lambda command: type(command).__name__,
)
def test_device_commands_round_trip(command: RunCommand) -> None:
    assert decode_device_command(words_of(command)) == command


@pytest.mark.parametrize("command", [Nop(), Fence(), Fill(value=1, buffer_slot=2, start=3, length=4)])
def test_user_commands_round_trip(command: Fill) -> None:
    assert decode_user_command(command.pack()) == command


def test_layout_of_the_context_record() -> None:
    assert ContextConfig.size_bytes == 192
    assert [ContextConfig.offset_of(name) for name in ("buffers_slots", "fence_counter", "status")] == [0, 128, 132]


def test_every_rule_has_a_test() -> None:
    assert missing_tests(load_rules("softcard.device.acceldev").values(), Path(__file__).parents[2]) == ()


def test_all_rules_and_choices_are_there() -> None:
    rules = load_rules("softcard.device.acceldev")
    assert len(rules) > 70
    assert len(load_choices("softcard.device.acceldev")) > 26
    assert not [rule for rule in rules.values() if rule.fidelity is Fidelity.ABSENT]
