"""A real QEMU (10.1 or later) plugs in the device: no guest runs, QEMU's qtest protocol makes the accesses."""

import struct
import threading

import pytest

from softcard.attach.vfio_user import Server, events
from softcard.device.acceldev.device import AcceldevDevice
from tests.attach.qtest import QTest, qemu
from tests.attach.rig import ADDRESS, BELL, FILL, INTR, LENGTH, RESULT, SCRATCH, SUM, VALUE, Toy

pytestmark = [pytest.mark.oracle, pytest.mark.skipif(not qemu()[0], reason=qemu()[1]), pytest.mark.slow]


class Bench:
    """A device served at a socket, and the events it told."""

    def __init__(self, device, folder):
        self.device = device
        self.folder = folder
        self.events = []
        self.server = Server(device)
        self.server.probes.subscribe(self.events.append)
        self.server.listen(folder / "device.sock")
        self.thread = threading.Thread(target=self.server.serve)
        self.thread.start()

    def start(self, **options):
        (self.folder / "qtest.sock").unlink(missing_ok=True)
        return QTest(self.folder, self.folder / "device.sock", **options)

    def boot(self, **options):
        machine = self.start(**options)
        machine.enable()
        return machine

    def close(self):
        self.server.close()
        self.thread.join(20)
        self.device.close()

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def toy(tmp_path):
    bench = Bench(Toy(), tmp_path)
    yield bench
    bench.close()


@pytest.fixture
def acceldev(tmp_path):
    bench = Bench(AcceldevDevice(execution="threaded"), tmp_path)
    yield bench
    bench.close()


def test_qemu_sees_the_device_and_breaks_no_rule_of_ours(toy):
    with toy.boot() as machine:
        assert machine.config_read(0x00) == 0x5678_1234
        assert machine.config_read(0x08) == 0x0B40_0002
        assert machine.config_read(0x2C) == 0x1100_1AF4
        assert machine.config_read(0x10) == machine.bar
        machine.config_write(0x10, 0xFFFF_FFFF)
        assert machine.config_read(0x10) == 0xFFFF_F000
    assert not toy.of(events.Refused)
    assert toy.of(events.DeviceReset)


def test_registers_of_all_sizes(toy):
    with toy.boot() as machine:
        machine.writel(SCRATCH, 0x1234_5678)
        assert machine.readl(SCRATCH) == 0x1234_5678
        for code, size in zip("bwlq", (1, 2, 4, 8), strict=True):
            machine.call(f"write{code} {machine.bar + 0x100:#x} {0x77:#x}")
            assert int(machine.call(f"read{code} {machine.bar + 0x100:#x}"), 16) == 0x77
            assert toy.device.accesses[-2:] == [("write", 0x100, size), ("read", 0x100, size)]


@pytest.mark.parametrize("shared", [True, False])
def test_dma_and_interrupts(toy, shared):
    with toy.boot(shared=shared) as machine:
        machine.watch_interrupts()
        address = 0x10_0800
        for offset, value in ((ADDRESS, address), (LENGTH, 0x2000), (VALUE, 0x5A), (BELL, FILL)):
            machine.writel(offset, value)
        assert machine.wait_interrupt() == "IRQ raise 11"
        assert machine.read(address - 1, 3) == b"\0\x5a\x5a"
        assert machine.read(address + 0x1FFF, 2) == b"\x5a\0"
        machine.writel(INTR, 1)
        assert machine.wait_interrupt() == "IRQ lower 11"
        machine.write(address, bytes(range(1, 11)))
        machine.writel(LENGTH, 10)
        machine.writel(BELL, SUM)
        assert machine.wait_interrupt() == "IRQ raise 11"
        assert machine.readl(RESULT) == 55
    ram = max(toy.of(events.Mapped), key=lambda event: event.size)
    assert ram.direct is shared
    assert not toy.of(events.Refused)
    assert not toy.of(events.DmaFailed)


def test_an_interrupt_that_stays_high_comes_again_after_each_acknowledgement(toy):
    with toy.boot() as machine:
        machine.watch_interrupts()
        toy.device.line.set(True)
        for _ in range(5):
            assert machine.wait_interrupt() == "IRQ raise 11"
            machine.readl(SCRATCH)  # without KVM every access to the BAR counts as end of interrupt
            assert machine.wait_interrupt() == "IRQ lower 11"
        assert machine.wait_interrupt() == "IRQ raise 11"


def test_dma_without_bus_master_fails(toy):
    with toy.boot() as machine:
        machine.watch_interrupts()
        machine.config_write(0x04, 0x2)
        machine.writel(BELL, FILL)
        machine.wait_interrupt()
        machine.writel(LENGTH, 4)
        machine.writel(ADDRESS, 0x10_0000)
        machine.writel(INTR, 1)
        machine.wait_interrupt()
        machine.writel(BELL, FILL)
        machine.wait_interrupt()
    assert "bus mastering is disabled" in str(toy.of(events.DmaFailed)[-1].error)


def test_one_machine_after_the_other(toy):
    for number in (1, 2):
        with toy.boot() as machine:
            machine.writel(SCRATCH, number)
            assert machine.readl(SCRATCH) == number
    assert [event.session for event in toy.of(events.Connected)] == [1, 2]


def test_hot_plug(toy):
    with toy.start(plugged=False) as machine:
        assert machine.config_read(0x00) == 0xFFFF_FFFF
        machine.plug()
        assert machine.config_read(0x00) == 0x5678_1234
        machine.enable()
        machine.writel(SCRATCH, 6)
        assert machine.readl(SCRATCH) == 6


def test_the_machine_survives_the_removal_of_the_device(toy):
    with toy.boot() as machine:
        toy.server.disconnect()
        assert machine.readl(SCRATCH) == 0xFFFF_FFFF
        machine.write(0x10_0000, b"still here")
        assert machine.read(0x10_0000, 10) == b"still here"


CONTEXTS, TABLE, CODE, DATA_TABLE, DATA = 0x10_0000, 0x20_0000, 0x20_1000, 0x20_2000, 0x20_3000


def feed(machine, *words):
    for index, word in enumerate((*words, *[0] * (5 - len(words)))):
        machine.writel(0x8C + 4 * index, word)


@pytest.mark.parametrize("shared", [True, False])
def test_acceldev_fills_a_buffer_and_fences(acceldev, shared):
    with acceldev.boot(shared=shared) as machine:
        assert machine.config_read(0) == 0x0019_0666
        machine.watch_interrupts()
        machine.write(TABLE, struct.pack("<I", CODE >> 8 | 1))
        machine.write(DATA_TABLE, struct.pack("<I", DATA >> 8 | 1))
        machine.write(CODE, struct.pack("<10I", 2, 0xCAFE_F00D, 3, 16, 64, 1, 0, 0, 0, 0))
        machine.writel(0x00, 0xFFFF_FFFF)
        machine.writel(0x04, 0x3F)
        machine.writel(0x0C, CONTEXTS)
        machine.writel(0x10, 0)
        machine.writel(0x08, 1)
        assert machine.readl(0x8C) == 255
        feed(machine, 2 | 5 << 4, 3, DATA_TABLE, 0)
        feed(machine, 1 | 5 << 4, TABLE, 0, 0, 40)
        assert machine.wait_interrupt() == "IRQ raise 11"
        assert machine.readl(0) == 1 << 5
        assert machine.read(DATA, 88) == bytes(16) + struct.pack("<I", 0xCAFE_F00D) * 16 + bytes(8)
        assert machine.read(CONTEXTS + 5 * 192 + 128, 5) == b"\1\0\0\0\0"
        machine.writel(0, 0xFFFF_FFFF)
        machine.lines.clear()
        machine.writel(0xA4, 99)
        feed(machine, 3, 99)
        while machine.readl(0) != 1:
            pass
        assert machine.readl(0xA0) == 99
    assert not acceldev.of(events.Refused)
    assert acceldev.device.last_error is None
