"""BAR0: identity, registers, odd accesses, reset."""

from __future__ import annotations

import pytest

from softcard.core.errors import WireError
from softcard.core.pci import INTERRUPT_PINS
from softcard.device.acceldev import registers as r
from softcard.device.acceldev.commands import Fence, NopCommand
from softcard.device.acceldev.device import AcceldevDevice
from softcard.device.acceldev.registers import Interrupt
from tests.device.acceldev.rig import ALL, CONFIGS, RAM, RAM_BYTES, Machine, fill

WORDS = [register for register in r.MMIO if register.name not in ("CMD_MANUAL_FREE", "CMD_MANUAL_FEED")]


def test_identity_pci_device() -> None:
    identity = AcceldevDevice().identity
    assert (identity.vendor_id, identity.device_id) == (0x0666, 0x0019)
    assert identity.class_code >> 8 == 0x0B40
    assert identity.interrupt_pin == INTERRUPT_PINS["INTA"]


def test_main_memory() -> None:
    machine = Machine()
    first = machine.bound()
    machine.run(fill(0, 0, 4096), Fence())
    assert machine.memory.read(first, 4) == bytes.fromhex("11223344")
    assert machine.fences() == 1
    machine.device.reset()
    assert machine.memory.read(first, 4) == bytes.fromhex("11223344"), "a reset of the device leaves memory alone"


def test_one_bar() -> None:
    device = AcceldevDevice()
    assert [bar.index for bar in device.bars] == [0]
    for access in (lambda: device.read_bar(1, 0, 4), lambda: device.write_bar(1, 0, 4, 0)):
        with pytest.raises(WireError, match="access to BAR1, but the device has BAR0 only"):
            access()


def test_one_line() -> None:
    machine = Machine()
    levels: list[bool] = []
    machine.device.line.observe(levels.append)
    machine.run(Fence())
    machine.write(r.INTR, ALL)
    assert levels == [True, False]


def test_bar_size() -> None:
    device = AcceldevDevice()
    assert device.bars[0].size_bytes == 64 << 10
    assert device.read_bar(0, 0xFFFC, 4) == ALL, "inside, but no register"
    with pytest.raises(WireError, match="outside of the 65536 bytes of BAR0, at offset 0xfffd"):
        device.read_bar(0, 0xFFFD, 4)
    with pytest.raises(WireError, match="the access has 3 bytes, expected 1, 2, 4 or 8"):
        device.write_bar(0, 0, 3, 0)


@pytest.mark.parametrize("register", WORDS[1:], ids=lambda register: register.name)
def test_registers_keep_what_is_written(register: r.Register) -> None:
    machine = Machine(start=False)
    assert machine.read(register) == 0
    machine.write(register, 0x8765_4321)
    assert machine.read(register) == 0x8765_4321


@pytest.mark.parametrize(
    ("offset", "size"),
    [(0, 1), (0, 2), (0, 8), (1, 4), (2, 2), (2, 4), (0x14, 4), (0x88, 4), (0x90, 4), (0x9C, 4), (0xA8, 4), (0xA6, 2)],
)
def test_odd_reads_register_access(offset: int, size: int) -> None:
    machine = Machine()
    assert machine.device.read_bar(0, offset, size) == (1 << 8 * size) - 1
    assert machine.lints == ["register-access"]
    assert machine.intr == 0


@pytest.mark.parametrize(("offset", "size"), [(4, 1), (4, 2), (4, 8), (5, 4), (0x14, 4), (0xA8, 4)])
def test_odd_writes_register_access(offset: int, size: int) -> None:
    machine = Machine()
    machine.device.write_bar(0, offset, size, 0)
    assert machine.read(r.INTR_ENABLE) == r.INTERRUPTS, "ignored"
    assert machine.lints == ["register-access"]


def test_strict_access_raises_mem_error() -> None:
    machine = Machine(strict_access=True)
    machine.device.read_bar(0, 0, 2)
    assert machine.intr == Interrupt.MEM_ERROR
    machine.write(r.INTR, ALL)
    machine.device.write_bar(0, 0x200, 4, 0)
    assert machine.intr == Interrupt.MEM_ERROR
    assert machine.status() == 0


def test_values_are_cut_to_32_bits() -> None:
    machine = Machine(start=False)
    machine.write(r.CMD_FENCE_WAIT, 0x5_0000_0007)
    assert machine.read(r.CMD_FENCE_WAIT) == 7


def test_cmd_fence_last() -> None:
    machine = Machine()
    machine.write(r.CMD_FENCE_LAST, 0xCAFE_F00D)
    assert machine.read(r.CMD_FENCE_LAST) == 0xCAFE_F00D


def test_cmd_fence_wait() -> None:
    machine = Machine()
    machine.write(r.CMD_FENCE_WAIT, 0xCAFE_F00D)
    assert machine.read(r.CMD_FENCE_WAIT) == 0xCAFE_F00D


def test_contexts_configs() -> None:
    machine = Machine()
    assert machine.read(r.CONTEXTS_CONFIGS_LO) == CONFIGS
    machine.write(r.CONTEXTS_CONFIGS_LO, 0x1111_1111)
    machine.write(r.CONTEXTS_CONFIGS_HI, 0x2222_2222)
    assert (machine.read(r.CONTEXTS_CONFIGS_LO), machine.read(r.CONTEXTS_CONFIGS_HI)) == (0x1111_1111, 0x2222_2222)
    assert machine.device.context(0).address == 0x2222_2222_1111_1111


def test_reset_values() -> None:
    machine = Machine(start=False)
    assert [machine.read(register) for register in WORDS] == [0] * len(WORDS)
    assert machine.read(r.CMD_MANUAL_FREE) == 255


def test_intr_enable_reset() -> None:
    machine = Machine()
    machine.run(Fence())
    assert machine.device.line.level
    machine.device.reset()
    assert machine.read(r.INTR_ENABLE) == 0
    assert not machine.device.line.level


def test_queue_reset() -> None:
    machine = Machine(pacing=0)
    machine.feed(0, 0, 0, 0, 0)
    machine.submit(*[NopCommand()] * 9)
    assert machine.read(r.CMD_MANUAL_FREE) == 245
    machine.device.reset()
    assert machine.read(r.CMD_MANUAL_FREE) == 255
    machine.start()
    assert machine.device.step(10) == 0


def test_poison_is_seeded_noise() -> None:
    def values(seed: int) -> list[int]:
        machine = Machine(start=False, poison=True, seed=seed)
        first = [machine.read(register) for register in WORDS]
        machine.device.reset()
        return [*first, *(machine.read(register) for register in WORDS)]

    assert values(1) == values(1)
    assert values(1) != values(2)
    machine = Machine(start=False, poison=True, seed=3)
    assert machine.read(r.INTR) != 0
    assert machine.read(r.INTR_ENABLE) == 0
    assert not machine.device.line.level
    machine.start()
    assert machine.intr == 0


def test_memory_of_tests_is_what_the_rig_says() -> None:
    machine = Machine()
    assert len(machine.memory.view(RAM, RAM_BYTES)) == RAM_BYTES


def test_offsets_are_those_of_the_document() -> None:
    found = {(register.offset, register.name) for register in r.MMIO}
    assert found == {
        (0x00, "INTR"),
        (0x04, "INTR_ENABLE"),
        (0x08, "ENABLE"),
        (0x0C, "CONTEXTS_CONFIGS_LO"),
        (0x10, "CONTEXTS_CONFIGS_HI"),
        (0x8C, "CMD_MANUAL_FREE"),
        (0x8C, "CMD_MANUAL_FEED"),
        (0xA0, "CMD_FENCE_LAST"),
        (0xA4, "CMD_FENCE_WAIT"),
    }
    machine = Machine(start=False)
    for value, offset in enumerate((0x04, 0x0C, 0x10, 0xA0, 0xA4), 1):
        machine.device.write_bar(0, offset, 4, value)
    assert [machine.read(register) for register in WORDS] == [0, 1, 0, 2, 3, 4, 5]
