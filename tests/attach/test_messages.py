"""Every message, as a well-behaved client sends it."""

import os
import threading
from pathlib import Path

import pytest

from softcard.attach.vfio_user import Capabilities, ServerError, Settings, SharedMemory, Timeout, events
from softcard.attach.vfio_user.client import Memory
from softcard.attach.vfio_user.messages import (
    Command,
    DeviceInfo,
    Header,
    IrqFlags,
    IrqInfo,
    IrqSetFlags,
    RegionAccess,
    RegionInfo,
)
from softcard.core.pci import Bar, PciIdentity
from tests.attach.rig import (
    ADDRESS,
    BAR_SIZE,
    BELL,
    FILL,
    FILL_HERE,
    INTR,
    LENGTH,
    RESULT,
    SCRATCH,
    SUM,
    SUM_HERE,
    VALUE,
    Toy,
    plugged,
    rig,
)

NONE, BOOL, EVENTFD = IrqSetFlags.DATA_NONE, IrqSetFlags.DATA_BOOL, IrqSetFlags.DATA_EVENTFD
MASK, UNMASK, TRIGGER = IrqSetFlags.ACTION_MASK, IrqSetFlags.ACTION_UNMASK, IrqSetFlags.ACTION_TRIGGER


def fill(client, address, length, value=7, bell=FILL):
    client.write_u32(INTR, 1)
    client.unmask()
    client.write(0, ADDRESS, address.to_bytes(8, "little"))
    client.write_u32(LENGTH, length)
    client.write_u32(VALUE, value)
    client.write_u32(BELL, bell)


def test_word_layouts_are_the_records():
    for record in (Header, RegionAccess, RegionInfo, IrqInfo):
        data = bytes(range(1, record.size_bytes + 1))
        packed = record.layout
        assert packed.size == record.size_bytes
        assert packed.pack(*packed.unpack(data)) == data
        assert record.parse(data).pack() == data


def test_version_agrees_on_the_smaller_capabilities():
    with rig(Settings(max_dma_maps=100, write_multiple=True, twin_socket=False)) as made:
        client = made.plug(negotiate=False)
        agreed = client.negotiate(Capabilities(max_data_xfer_size=4096, max_dma_maps=50, twin_socket=True))
        assert agreed == Capabilities(max_msg_fds=8, max_data_xfer_size=1 << 20, max_dma_maps=50)
        made.unplug(client)
        assert made.of(events.Negotiated)[0].max_data_xfer_size == 4096


def test_version_without_data_means_the_defaults():
    with rig() as made:
        client = made.plug(negotiate=False)
        client.call(Command.VERSION, bytes(4))
        assert client.device_info().num_regions == 9


def test_version_minor_is_at_most_the_proposed():
    with rig() as made:
        client = made.plug(negotiate=False)
        assert client.call(Command.VERSION, bytes([0, 0, 9, 0]))[:4] == bytes(4)


def test_device_info():
    with plugged() as (_, client):
        assert client.device_info() == DeviceInfo(argsz=16, flags=3, num_regions=9, num_irqs=5)


def test_region_info():
    with plugged(device=Toy(bars=(Bar(0, BAR_SIZE), Bar(2, 0x10000)))) as (_, client):
        sizes = {index: client.region_info(index).size for index in range(9)}
        assert sizes == {0: BAR_SIZE, 1: 0, 2: 0x10000, 3: 0, 4: 0, 5: 0, 6: 0, 7: 256, 8: 0}
        assert [client.region_info(index).flags for index in (0, 1, 7)] == [3, 0, 3]


def test_irq_info():
    with plugged() as (_, client):
        intx = client.irq_info(0)
        assert (intx.count, intx.flags) == (1, IrqFlags.EVENTFD | IrqFlags.MASKABLE | IrqFlags.AUTOMASKED)
        assert [client.irq_info(index).count for index in range(1, 5)] == [0] * 4


def test_a_device_without_interrupt_pin_has_no_interrupt():
    with plugged(device=Toy(PciIdentity(1, 2, 3, interrupt_pin=0))) as (_, client):
        assert client.irq_info(0).count == 0


def test_config_space_identifies_the_device_and_sizes_its_bar():
    with plugged(enabled=False) as (_, client):
        header = client.read(7, 0, 64)
        assert header[0:4] == bytes.fromhex("34127856")
        assert header[8:12] == bytes.fromhex("0200400b")
        assert header[0x2C:0x30] == bytes.fromhex("f41a0011")
        assert header[0x3D] == 1
        client.write(7, 0x10, b"\xff" * 4)
        assert client.read(7, 0x10, 4) == (0x1_0000_0000 - BAR_SIZE).to_bytes(4, "little")
        client.write(7, 0x14, b"\xff" * 4)
        assert client.read(7, 0x14, 4) == bytes(4)
        client.write(7, 0, b"\xff" * 4)
        assert client.read(7, 0, 4) == header[0:4]
        client.write(7, 0x04, b"\xff\xff")
        assert client.read(7, 0x04, 2) == bytes.fromhex("4605")
        client.write(7, 0x3C, b"\x0b")
        assert client.read(7, 0x3C, 1) == b"\x0b"


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_register_accesses_reach_the_device_as_they_are(size):
    with plugged() as (made, client):
        client.write(0, SCRATCH, bytes(range(1, size + 1)))
        assert client.read(0, SCRATCH, size) == bytes(range(1, size + 1))
        assert made.device.accesses == [("write", SCRATCH, size), ("read", SCRATCH, size)]


def test_other_counts_are_cut_into_aligned_accesses():
    with plugged() as (made, client):
        client.write(0, 0x101, bytes(14))
        client.read(0, 0x100, 3)
        assert made.device.accesses == [
            ("write", 0x101, 1),
            ("write", 0x102, 2),
            ("write", 0x104, 4),
            ("write", 0x108, 4),
            ("write", 0x10C, 2),
            ("write", 0x10E, 1),
            ("read", 0x100, 2),
            ("read", 0x102, 1),
        ]


def test_posted_writes_are_done_before_a_later_read_is_answered():
    with plugged() as (_, client):
        for value in range(1000):
            client.write_u32(SCRATCH, value, posted=True)
        assert client.read_u32(SCRATCH) == 999


def test_write_multi_when_agreed_on():
    with plugged(Settings(write_multiple=True)) as (_, client):
        assert client.write_multi([(0, SCRATCH, 4, 5), (0, 0x40, 2, 0x1FFFF), (7, 0x3C, 1, 9)]) == 3
        assert client.read_u32(SCRATCH) == 5
        assert client.read(0, 0x40, 2) == b"\xff\xff"
        assert client.read(7, 0x3C, 1) == b"\x09"


def test_reset_clears_device_and_config_space():
    with plugged() as (made, client):
        client.write_u32(SCRATCH, 5)
        client.reset()
        assert made.device.resets == 1
        assert client.read_u32(SCRATCH) == 0xFFFF_FFFF
        assert client.read(7, 4, 2) == bytes(2)


def test_optional_messages_are_refused_as_not_offered():
    with plugged() as (made, client):
        for command, payload in (
            (Command.DEVICE_GET_REGION_IO_FDS, bytes(16)),
            (Command.DEVICE_FEATURE, bytes(8)),
            (Command.MIG_DATA_READ, bytes(8)),
            (Command.MIG_DATA_WRITE, bytes(8)),
        ):
            with pytest.raises(ServerError):
                client.call(command, payload)
        assert len(made.refusals) == 4


# DMA.


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("bell", [FILL, FILL_HERE])
def test_dma_reaches_shared_and_other_memory(shared, bell):
    with plugged() as (made, client):
        client.enable_interrupt()
        memory = client.new_memory(0x4000_0000, 0x4000, shared=shared)
        fill(client, 0x4000_0010, 0x3000, 0xA5, bell)
        client.wait_interrupt()
        assert bytes(memory.view) == bytes(0x10) + b"\xa5" * 0x3000 + bytes(0xFF0)
        fill(client, 0x4000_0000, 0x20, bell=SUM if bell == FILL else SUM_HERE)
        client.wait_interrupt()
        assert client.read_u32(RESULT) == 0x10 * 0xA5
        assert made.of(events.Mapped)[0].direct is shared
        assert client.dma_served == (0 if shared else 2)


def test_dma_by_messages_is_cut_to_the_clients_limit():
    with rig() as made:
        client = made.plug(negotiate=False)
        client.negotiate(Capabilities(max_data_xfer_size=100))
        client.enable()
        client.enable_interrupt()
        memory = client.new_memory(0, 0x1000, shared=False)
        fill(client, 0, 1001)
        client.wait_interrupt()
        assert memory.view.tobytes().count(7) == 1001
        assert client.dma_served == 11


def test_dma_by_messages_through_a_twin_socket():
    with rig() as made:
        client = made.plug(negotiate=False)
        client.negotiate(Capabilities(max_msg_fds=8, twin_socket=True))
        assert client.twin is not None
        client.enable()
        client.enable_interrupt()
        memory = client.new_memory(0, 0x1000, shared=False)
        for bell in (FILL, FILL_HERE):
            fill(client, 0, 16, bell, bell)
            client.wait_interrupt()
            assert bytes(memory.view[:17]) == bytes([bell]) * 16 + b"\0"
        fill(client, 0, 16, bell=SUM)
        client.wait_interrupt()
        assert client.read_u32(RESULT) == 16 * FILL_HERE
        made.unplug(client)


def test_one_access_may_span_windows():
    with plugged() as (_, client):
        client.enable_interrupt()
        parts = [client.new_memory(base, 0x1000, shared=shared) for base, shared in ((0, True), (0x1000, False))]
        fill(client, 0xFF0, 0x20)
        client.wait_interrupt()
        assert [part.view.tobytes().count(7) for part in parts] == [0x10, 0x10]


def test_memory_that_could_shrink_is_not_mapped_unless_requested():
    for choice, direct in ((SharedMemory.SEALED, False), (SharedMemory.ANY, True), (SharedMemory.NONE, False)):
        with plugged(Settings(shared_memory=choice)) as (made, client):
            client.enable_interrupt()
            memory = client.new_memory(0, 0x1000, sealed=False)
            fill(client, 0, 0x1000)
            client.wait_interrupt()
            assert bytes(memory.view) == b"\x07" * 0x1000
            assert made.of(events.Mapped)[0].direct is direct


def test_a_sealed_file_cannot_be_shrunk_by_its_client():
    with plugged() as (_, client):
        memory = client.new_memory(0, 0x1000)
        with pytest.raises(PermissionError):
            os.ftruncate(memory.fd, 0)


def test_only_so_many_windows_are_mapped():
    with plugged(Settings(max_direct_maps=1)) as (made, client):
        for index in range(3):
            client.new_memory(index * 0x1000, 0x1000)
        assert [event.direct for event in made.of(events.Mapped)] == [True, False, False]


def test_direct_ranges_follow_the_windows():
    with plugged() as (made, client):
        dma = made.device.dma
        client.new_memory(0x2000, 0x1000)
        client.new_memory(0x0000, 0x1000, shared=False)
        ranges = dma.direct()
        assert [(item.base, item.end, item.view.readonly) for item in ranges] == [(0x2000, 0x3000, False)]
        assert dma.direct() is ranges
        client.enable(2)
        assert dma.direct() == ()
        client.enable(6)
        client.unmap(0x2000, 0x1000)
        assert dma.direct() == ()
        ranges[0].view[0] = 1  # still memory, though nobody's


def test_a_window_may_start_inside_a_page_of_its_file():
    with plugged() as (made, client):
        memory = client.new_memory(0, 0x3000)
        second = type(memory)(0x10_0000, 0x1000, shared=False)
        second.fd = os.dup(memory.fd)
        client.map(second, flags=1, offset=0x1200)
        memory.view[0x1200:0x1204] = b"abcd"
        assert made.device.dma.read(0x10_0000, 4) == b"abcd"
        assert made.device.dma.direct()[1].view.readonly


def test_unmap_of_many_windows_and_of_none():
    """Choice `vfio-user/unmap-range`: as Linux VFIO, and as QEMU asks for."""
    with plugged() as (made, client):
        for base in (0x1000, 0x2000, 0x8000):
            client.new_memory(base, 0x1000)
        client.new_memory(0x4000, 0x2000, shared=False)
        client.unmap(0x10_0000, 0xFEE0_0000)
        assert made.of(events.Unmapped) == []
        client.unmap(0x1000, 0x6000)
        assert [(event.address, event.size) for event in made.of(events.Unmapped)] == [
            (0x1000, 0x1000),
            (0x2000, 0x1000),
            (0x4000, 0x2000),
        ]
        assert [item.base for item in made.device.dma.direct()] == [0x8000]
        client.unmap(0, (1 << 64) - 1)
        assert made.device.dma.direct() == ()
        client.new_memory(0x1000, 0x1000)


def windows_of_one_file(client, pages):
    """A window for each page of a file, at addresses backwards from 0x1000_0000 on."""
    file = Memory(0x1000_0000, pages * 0x1000, shared=True)
    for index in range(pages):
        address = file.base + (pages - index) * 0x2000
        client.map(Borrowed(address, 0x1000, file.fd), offset=index * 0x1000)
    return file


class Borrowed:
    """A window in the file of another."""

    def __init__(self, base, size, fd):
        self.base, self.size, self.fd = base, size, fd

    def close(self):
        pass


def test_thousands_of_windows_in_one_file_are_mapped_once():
    with plugged(Settings(max_direct_maps=1)) as (made, client):
        before = Path("/proc/self/maps").read_text().count("memfd:guest")
        file = windows_of_one_file(client, 2000)
        assert all(event.direct for event in made.of(events.Mapped))
        assert Path("/proc/self/maps").read_text().count("memfd:guest") == before + 2, "the client's and the server's"
        assert len(made.device.dma.direct()) == 2000
        file.view[1999 * 0x1000] = 7
        assert made.device.dma.read(file.base + 0x2000, 1) == b"\7"
        client.unmap(0x1000_0000, 0x1000_0000)
        assert made.device.dma.direct() == ()
        file.close()


def test_windows_that_lie_together_are_one_range():
    with plugged() as (made, client):
        file = Memory(0, 0x8000, shared=True)
        for address, offset, flags in (
            (0x10000, 0x1000, 3),
            (0x11000, 0x2000, 3),
            (0x12000, 0x3000, 1),
            (0x13000, 0x4000, 1),
            (0x14000, 0x6000, 1),
            (0x16000, 0x7000, 1),
        ):
            client.map(Borrowed(address, 0x1000, file.fd), flags, offset)
        ranges = made.device.dma.direct()
        assert [(item.base, item.end, item.view.readonly) for item in ranges] == [
            (0x10000, 0x12000, False),
            (0x12000, 0x14000, True),
            (0x14000, 0x15000, True),
            (0x16000, 0x17000, True),
        ]
        file.view[0x2FFF] = 5
        assert ranges[0].view[0x1FFF] == 5
        file.close()


def test_a_file_that_grows_and_one_that_is_too_large():
    with plugged() as (made, client):
        file = Memory(0, 0x2000, shared=True)
        client.map(Borrowed(0x1000, 0x1000, file.fd))
        os.ftruncate(file.fd, 1 << 60)
        client.map(Borrowed(0x2000, 0x1000, file.fd), offset=0x1000)
        client.map(Borrowed(0x8000, 0x1000, file.fd), offset=1 << 59)
        file.view[0x1000] = 9
        made.device.dma.write(0x8000, b"far")
        assert made.device.dma.read(0x2000, 1) == b"\x09"
        assert os.pread(file.fd, 3, 1 << 59) == b"far"
        assert all(event.direct for event in made.of(events.Mapped))
        file.close()


def test_unmap_all():
    with plugged() as (made, client):
        client.new_memory(0, 0x1000)
        client.new_memory(0x1000, 0x1000)
        client.call(Command.DMA_UNMAP, bytes.fromhex("1800000002000000") + bytes(16))
        assert len(made.of(events.Unmapped)) == 2


# Interrupts.


def test_a_level_is_signalled_once_until_unmasked():
    with plugged() as (made, client):
        client.enable_interrupt()
        made.device.line.set(True)
        made.device.line.set(False)
        made.device.line.set(True)
        assert client.interrupts() == 1
        client.unmask()
        assert client.interrupts() == 1, "the line is still high"
        made.device.line.set(False)
        client.unmask()
        assert client.interrupts() == 0
        made.device.line.set(True)
        assert client.interrupts() == 1


def test_a_full_eventfd_that_blocks_holds_nobody_up():
    """Whether an eventfd blocks is a property that both sides share, so the client may change it at any time."""
    with plugged() as (made, client):
        client.enable_interrupt()
        os.set_blocking(client._irq, True)
        os.eventfd_write(client._irq, 2**64 - 2)
        signal = threading.Thread(target=made.device.line.set, args=(True,), daemon=True)
        signal.start()
        signal.join(30)
        assert not signal.is_alive(), "the device's thread hangs"
        client.set_irqs(NONE | TRIGGER)
        client.unmask()
        assert client.interrupts() == 2**64 - 2
        made.device.line.set(False)
        made.device.line.set(True)
        assert client.interrupts() == 0, "it is masked until the client says otherwise"
        client.unmask()
        assert client.interrupts() == 1


def test_an_unmask_eventfd_that_blocks_holds_nobody_up():
    with plugged() as (made, client):
        client.enable_interrupt()
        resample = os.eventfd(0, os.EFD_CLOEXEC)
        client.set_irqs(EVENTFD | UNMASK, fds=(resample,))
        os.set_blocking(resample, True)
        made.server._session._unmask_signalled(made.server._intx.unmask_fd)  # somebody else has read it
        os.eventfd_write(resample, 1)
        assert client.read_u32(SCRATCH) == 0xFFFF_FFFF
        os.close(resample)


def test_a_line_that_is_high_already_is_signalled_when_somebody_listens():
    with plugged() as (made, client):
        made.device.line.set(True)
        client.enable_interrupt()
        assert client.interrupts() == 1


def test_masked_interrupts_wait():
    with plugged() as (made, client):
        client.enable_interrupt()
        client.set_irqs(NONE | MASK)
        made.device.line.set(True)
        assert client.interrupts() == 0
        client.set_irqs(BOOL | UNMASK, data=b"\0")
        assert client.interrupts() == 0
        client.set_irqs(BOOL | UNMASK, data=b"\1")
        assert client.interrupts() == 1


def test_the_client_can_trigger_by_itself():
    with plugged() as (_, client):
        client.enable_interrupt()
        client.set_irqs(NONE | TRIGGER)
        client.set_irqs(BOOL | TRIGGER, data=b"\1")
        client.set_irqs(BOOL | TRIGGER, data=b"\0")
        assert client.interrupts() == 2


def test_a_signal_on_the_unmask_eventfd_unmasks():
    with plugged() as (made, client):
        client.enable_interrupt()
        resample = os.eventfd(0, os.EFD_NONBLOCK)
        client.set_irqs(EVENTFD | UNMASK, fds=(resample,))
        made.device.line.set(True)
        client.wait_interrupt()
        os.eventfd_write(resample, 1)
        client.wait_interrupt()
        assert client.read_u32(SCRATCH) == 0xFFFF_FFFF, "messages are served meanwhile"
        client.set_irqs(EVENTFD | UNMASK)
        os.eventfd_write(resample, 1)
        client.read_u32(SCRATCH)
        assert client.interrupts() == 0
        os.close(resample)


def test_disabling_and_deassigning():
    with plugged() as (made, client):
        for flags, count in ((NONE | TRIGGER, 0), (EVENTFD | TRIGGER, 1)):
            client.enable_interrupt()
            client.set_irqs(flags, count=count)
            made.device.line.set(True)
            client.set_irqs(NONE | TRIGGER)
            made.device.line.set(False)
            assert client.interrupts() == 0


def test_interrupt_disable_and_status_in_config_space():
    with plugged() as (made, client):
        client.enable_interrupt()
        client.enable(0x406)
        made.device.line.set(True)
        assert client.interrupts() == 0
        assert client.read(7, 6, 2) == b"\x08\x00"
        client.enable(0x006)
        assert client.interrupts() == 1
        made.device.line.set(False)
        assert client.read(7, 6, 2) == bytes(2)


def test_an_eventfd_whose_counter_is_full_blocks_nobody():
    with plugged() as (made, client):
        full = os.eventfd(0)
        os.eventfd_write(full, 0xFFFF_FFFF_FFFF_FFFE)
        client.set_irqs(EVENTFD | TRIGGER, fds=(full,))
        made.device.line.set(True)
        assert client.read_u32(SCRATCH) == 0xFFFF_FFFF
        os.close(full)


def test_the_client_gives_up_in_time():
    with plugged() as (_, client):
        client.enable_interrupt()
        with pytest.raises(Timeout, match=r"no interrupt within 0\.01 s"):
            client.wait_interrupt(0.01)
