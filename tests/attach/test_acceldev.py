"""Acceldev through the protocol, driven by the Python client: what a driver would do, and what it must survive."""

import gc
import struct
from pathlib import Path

import pytest

from softcard.attach.vfio_user import Settings, SharedMemory, events
from softcard.device.acceldev.device import AcceldevDevice
from softcard.device.acceldev.user import UserCommands
from tests.attach.rig import rig

INTR, INTR_ENABLE, ENABLE, CONFIGS, FEED, FENCE_LAST, FENCE_WAIT = 0x00, 0x04, 0x08, 0x0C, 0x8C, 0xA0, 0xA4
CONTEXTS, TABLE, CODE, DATA_TABLE, DATA = 0x0000, 0x10000, 0x11000, 0x20000, 0x21000
NOPS = 200_000


class Driver:
    """The device behind a client, its memory laid out: one page of code, then pages of data."""

    def __init__(self, client, shared):
        self.client = client
        self.memory = client.new_memory(0, 8 << 20, shared=shared)
        client.enable()
        client.enable_interrupt()
        for offset, value in (
            (INTR, 0xFFFF_FFFF),
            (INTR_ENABLE, 0x3F),
            (CONFIGS, CONTEXTS),
            (CONFIGS + 4, 0),
            (ENABLE, 1),
        ):
            client.write_u32(offset, value)

    def store(self, address, *words):
        self.memory.view[address : address + 4 * len(words)] = struct.pack(f"<{len(words)}I", *words)

    def table(self, address, first_page, pages):
        self.store(address, *((first_page + 4096 * index) >> 8 | 1 for index in range(pages)))

    def feed(self, *words):
        for index, word in enumerate((*words, *[0] * (5 - len(words)))):
            self.client.write_u32(FEED + 4 * index, word, posted=True)

    def wait(self):
        """The next interrupt that finds something active: which it is, acknowledged."""
        active = 0
        while not active:
            self.client.wait_interrupt()
            active = self.client.read_u32(INTR)
            self.client.write_u32(INTR, active)
            self.client.unmask()
        return active


@pytest.fixture(params=["shared", "messages"])
def driver(request):
    made_settings = Settings(shared_memory=SharedMemory.SEALED)
    with rig(made_settings, AcceldevDevice(execution="threaded")) as made:
        yield made, Driver(made.plug(), request.param == "shared")


def test_fill_and_fence(driver):
    made, guest = driver
    guest.table(TABLE, CODE, 1)
    guest.table(DATA_TABLE, DATA, 2)
    guest.store(CODE, 2, 0x0102_0304, 0, 4090, 12, 1, 0, 0, 0, 0)
    guest.feed(2, 0, DATA_TABLE, 0)
    guest.feed(1, TABLE, 0, 0, 40)
    assert guest.wait() == 1 << 5
    assert bytes(guest.memory.view[DATA + 4090 : DATA + 4102]) == b"\4\3\2\1" * 3
    assert made.device.last_error is None
    guest.client.write_u32(FENCE_WAIT, 7)
    guest.feed(3, 7)
    assert guest.wait() == 1
    assert guest.client.read_u32(FENCE_LAST) == 7


def test_a_fill_of_an_unbound_slot(driver):
    made, guest = driver
    guest.table(TABLE, CODE, 1)
    guest.store(CODE, 2, 0, 3, 0, 4)
    guest.feed(1, TABLE, 0, 0, 20)
    assert guest.wait() == 1 << 4
    assert guest.memory.view[132] == 1
    assert made.device.wait_idle(10)
    assert "slot" in str(made.device.last_error)


def test_memory_that_is_not_mapped(driver):
    made, guest = driver
    guest.table(TABLE, 0x4000_0000, 1)
    guest.feed(1, TABLE, 0, 0, 20)
    assert guest.wait() == 1 << 3
    assert made.device.wait_idle(10)
    assert "nothing is mapped at 0x40000000" in str(made.device.last_error)


def long_run(guest):
    """A RUN of many NOPs, a FENCE behind it."""
    guest.table(TABLE, 0x10_0000, 1000)
    guest.client.write_u32(FENCE_WAIT, 1)
    guest.feed(1, TABLE, 0, 0, 20 * NOPS)
    guest.feed(3, 1)


def test_registers_answer_while_a_run_executes():
    with rig(None, AcceldevDevice(execution="threaded", engine="reference")) as made:
        guest = Driver(made.plug(), True)
        long_run(guest)
        reads = 0
        while guest.client.read_u32(FENCE_LAST) != 1:
            reads += 1
        assert reads >= 1
        assert guest.wait() == 1


@pytest.mark.parametrize("shared", [True, False])
def test_a_reset_ends_a_run(shared):
    with rig(None, AcceldevDevice(execution="threaded", engine="reference")) as made:
        guest = Driver(made.plug(), shared)
        long_run(guest)
        guest.client.reset()
        assert guest.client.read_u32(FEED) == 255
        assert guest.client.read_u32(FENCE_LAST) == 0
        assert made.device.wait_idle(10)
        again = Driver.__new__(Driver)
        again.client, again.memory = guest.client, guest.memory
        again.client.enable()
        for offset, value in ((INTR_ENABLE, 0x3F), (ENABLE, 1), (FENCE_WAIT, 3)):
            again.client.write_u32(offset, value)
        again.client.interrupts()
        again.feed(3, 3)
        assert again.wait() == 1


@pytest.mark.parametrize("shared", [True, False])
def test_a_client_that_hangs_up_during_a_run(shared):
    with rig(None, AcceldevDevice(execution="threaded", engine="reference")) as made:
        client = made.plug()
        long_run(Driver(client, shared))
        client.read_u32(FENCE_LAST)
        made.unplug(client)
        assert made.device.wait_idle(20)
        with made.plug() as other:
            assert other.read_u32(FEED) == 255
        assert {event.error for event in made.of(events.Disconnected)} == {None}


def test_inside_register_writes_the_device_may_be_synchronous():
    with rig(None, AcceldevDevice()) as made:
        guest = Driver(made.plug(), False)
        guest.table(TABLE, CODE, 1)
        guest.table(DATA_TABLE, DATA, 1)
        guest.store(CODE, 2, 0xFFFF_FFFF, 0, 0, 8, 1, 0, 0, 0, 0)
        guest.feed(2, 0, DATA_TABLE, 0)
        guest.feed(1, TABLE, 0, 0, 40)
        assert guest.wait() == 1 << 5
        assert bytes(guest.memory.view[DATA : DATA + 9]) == b"\xff" * 8 + b"\0"


@pytest.mark.parametrize("pages", [1, 63, 64, 65, 300])
def test_pages_that_are_windows_of_their_own_are_as_fast(pages):
    """What a guest's IOMMU makes of a buffer; machine code alone executes all, however many windows there are."""
    with rig(None, AcceldevDevice(execution="threaded", user_command_events=False)) as made:
        guest = Driver(made.plug(), True)
        backwards = [0x1000_0000 + (pages - index) * 0x2000 for index in range(pages)]
        for index, address in enumerate(backwards):
            window = Window(address, 0x1000, guest.memory.fd)
            guest.client.map(window, offset=DATA + index * 0x1000)
        guest.table(TABLE, CODE, 1)
        guest.store(DATA_TABLE, *(address >> 8 | 1 for address in backwards))
        guest.store(CODE, 2, 0xABAB_ABAB, 0, 8, pages * 0x1000 - 16, *[0] * 5 * 100)
        asked = []
        serve = UserCommands._serve
        UserCommands._serve = lambda *arguments: asked.append(1) or serve(*arguments)
        try:
            guest.feed(2, 0, DATA_TABLE, 0)
            guest.feed(1, TABLE, 0, 0, 20 * 101)
            guest.client.write_u32(FENCE_WAIT, 1)
            guest.feed(3, 1)
            assert guest.wait() == 1
        finally:
            UserCommands._serve = serve
        assert not asked
        filled = bytes(guest.memory.view[DATA : DATA + pages * 0x1000])
        assert filled == bytes(8) + b"\xab" * (pages * 0x1000 - 16) + bytes(8)


class Window:
    """A window in the file of another."""

    def __init__(self, base, size, fd):
        self.base, self.size, self.fd = base, size, fd

    def close(self):
        pass


def mapped_files():
    """How often files of clients are mapped into this process."""
    return Path("/proc/self/maps").read_text().count("memfd:guest")


@pytest.mark.parametrize("engine", ["jit", "reference"])
@pytest.mark.parametrize("how", ["gone", "unmapped", "not bus master"])
def test_no_memory_of_a_client_is_kept(engine, how):
    with rig(None, AcceldevDevice(execution="threaded", engine=engine)) as made:
        gc.collect()
        before = mapped_files()
        guest = Driver(made.plug(), True)
        guest.table(TABLE, CODE, 20)
        guest.feed(1, TABLE, 0, 0, 20 * 1000)
        guest.client.write_u32(FENCE_WAIT, 1)
        guest.feed(3, 1)
        assert guest.wait() == 1
        assert mapped_files() == before + 2, "the client's own, and the server's"
        if how == "gone":
            made.unplug(guest.client)
        elif how == "unmapped":
            guest.client.unmap(guest.memory.base, guest.memory.size)
        else:
            guest.client.enable(2)
            guest.client.unmap(guest.memory.base, guest.memory.size)
        gc.collect()
        assert mapped_files() == before + 1, "the client's own"
