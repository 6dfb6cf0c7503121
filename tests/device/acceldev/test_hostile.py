"""Random register accesses and command streams: the device goes on, and every error says where."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softcard.core.errors import SoftcardError
from softcard.device.acceldev import registers as r
from softcard.device.acceldev.commands import Fence
from softcard.device.acceldev.device import AcceldevDevice
from softcard.device.acceldev.events import CommandFinished
from softcard.device.acceldev.registers import Interrupt
from tests.device.acceldev.rig import ALL, CONFIGS, RAM, Machine

OFFSETS = st.one_of(st.integers(0, 0xB0), st.sampled_from(range(0x8C, 0xA0, 4)), st.integers(0, 0xFFF8))
VALUES = st.one_of(st.integers(0, ALL), st.integers(0, 64), st.sampled_from([RAM, RAM + 0x1000, CONFIGS]))
ACCESSES = st.lists(
    st.tuples(st.sampled_from("rw"), OFFSETS, st.sampled_from([1, 2, 4, 4, 4, 4, 8]), VALUES), max_size=60
)
WORDS = st.lists(st.tuples(st.integers(0, 5), VALUES, VALUES, VALUES, st.integers(0, 4096)), max_size=20)


def check(machine: Machine) -> None:
    """The device still works, and what it says is in order."""
    for event in machine.seen(CommandFinished):
        if event.error is not None:
            assert event.error.path[-1].kind == "device command"
    assert machine.device.line.level == bool(machine.read(r.INTR) & machine.read(r.INTR_ENABLE) & r.INTERRUPTS)
    machine.device.reset()
    machine.record()[:] = bytes(192)
    machine.start()
    machine.run(Fence())
    assert (machine.fences(), machine.intr) == (1, Interrupt.USER_FENCE_WAIT)


@settings(max_examples=60)
@given(accesses=ACCESSES, strict=st.booleans())
def test_random_register_accesses(accesses: list[tuple[str, int, int, int]], strict: bool) -> None:
    machine = Machine(strict_access=strict, poison=True)
    for kind, offset, size, value in accesses:
        if kind == "r":
            assert 0 <= machine.device.read_bar(0, offset, size) < 1 << 8 * size
        else:
            machine.device.write_bar(0, offset, size, value)
    check(machine)


@settings(max_examples=60)
@given(commands=WORDS, noise=st.binary(max_size=4096))
def test_random_command_streams(commands: list[tuple[int, ...]], noise: bytes) -> None:
    machine = Machine()
    machine.memory.write(RAM + 0x1000, noise)
    for words in commands:
        machine.feed(*words)
    check(machine)


def test_a_huge_run_of_nothing_ends() -> None:
    machine = Machine(listen=False)
    table, _ = machine.buffer(1024)
    machine.run_at(table, 0, 0xFFFF_FFFF)
    assert machine.intr == Interrupt.MEM_ERROR
    assert "at user command 209715, at byte 0x3ffffc" in str(machine.device.last_error)


def test_a_device_without_memory() -> None:
    device = AcceldevDevice()
    device.write_bar(0, r.ENABLE.offset, 4, 1)
    for offset, word in zip(range(0x8C, 0xA0, 4), (1, 0x1000, 0, 0, 20), strict=True):
        device.write_bar(0, offset, 4, word)
    assert device.read_bar(0, r.INTR.offset, 4) == Interrupt.MEM_ERROR
    assert str(device.last_error) == (
        "cannot access the record of context 0 at 0x0 (CONTEXTS_CONFIGS is 0x0): DMA read of 1 bytes at 0x84: no "
        "memory there, "
        "at device command 0 (RUN), [acceldev/contexts-array: Control Registers]"
    )


@pytest.mark.parametrize("bar", [-1, 1, 6])
def test_bars_that_do_not_exist(bar: int) -> None:
    with pytest.raises(SoftcardError, match="the device has BAR0 only"):
        AcceldevDevice().read_bar(bar, 0, 4)
