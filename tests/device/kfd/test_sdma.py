"""Copy engines: every packet, on rings that go round, from and to memory of the agent and of the program."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import AccessFault
from softcard.core.record import Record
from softcard.device.hsa.pm4 import Function
from softcard.device.kfd import sdma
from softcard.device.kfd.events import QueueFailed
from softcard.device.kfd.ioctls import (
    AllocFlags,
    CreateEvent,
    EventData,
    EventKind,
    Number,
    Refused,
    UpdateQueue,
    WaitEvents,
    boot_nanoseconds,
)
from tests.device.kfd.rig import PAGE, Pages, Program, eventually, program

VA = 0x7E00_0000_0000
RING = 1024


class Copies:
    """A queue of a copy engine, and memory that it works on."""

    def __init__(self, client: Program) -> None:
        self.client = client
        self.is_legacy = client.device.nodes[0].is_legacy
        self.ring = client.shared(PAGE)
        self.data = client.shared(4 * PAGE)
        self.pointers = client.shared(PAGE)
        self.made = client.queue(1, self.ring, RING, self.pointers.address)
        self.read = self.pointers.bytes[:8].view(np.uint64)
        self.at = 0

    def count(self, size: int) -> int:
        """What a packet says of so many bytes."""
        return size if self.is_legacy else size - 1

    def put(self, *packets: Record | bytes) -> None:
        for packet in packets:
            for byte in packet if isinstance(packet, bytes) else packet.pack():
                self.ring.bytes[self.at % RING] = byte
                self.at += 1
        self.client.doorbell(self.made)[0] = self.shown

    @property
    def shown(self) -> int:
        """Doorbell and read pointer of all packets: GFX8 has places in the ring."""
        return self.at % RING if self.is_legacy else self.at

    def do(self, *packets: Record | bytes) -> None:
        """Packets, which are done when this returns."""
        self.put(*packets)
        eventually(lambda: int(self.read[0]) == self.shown)

    def copy(self, to: int, source: int, size: int) -> sdma.CopyLinear:
        return sdma.CopyLinear(count=self.count(size), source=source, destination=to)


@pytest.fixture(params=["gfx900", "gfx803"])
def copies(request: pytest.FixtureRequest) -> Iterator[Copies]:
    with program(request.param) as client:
        yield Copies(client)


def test_copies_of_the_agents_memory(copies: Copies) -> None:
    data = copies.data
    data.bytes[:100] = range(100)
    base = data.address
    copies.do(copies.copy(base + PAGE, base + 1, 50), sdma.Nop(count=2), bytes(8))
    assert data.bytes[PAGE : PAGE + 51].tolist() == [*range(1, 51), 0]


def test_rings_go_round(copies: Copies) -> None:
    data = copies.data
    for turn in range(100):
        data.bytes[0] = turn
        copies.do(copies.copy(data.address + 7, data.address, 1))
        assert data.bytes[7] == turn
    assert copies.at > 2 * RING


def test_foreign_memory_is_copied_and_stays_foreign(copies: Copies) -> None:
    client = copies.client
    pages = client.own(2 * PAGE)
    pages.bytes[:] = np.arange(2 * PAGE) % 251
    for number in range(2):
        found = client.allocate(VA + number * 16 * PAGE, 2 * PAGE, AllocFlags.USERPTR, pages.address)
        client.map(found.handle)
    local = client.allocate(VA - 16 * PAGE, 2 * PAGE, AllocFlags.VRAM)
    client.map(local.handle)
    asked = len(client.client.asked)
    copies.do(
        copies.copy(VA - 16 * PAGE, VA + 5, PAGE),  # to the agent
        copies.copy(VA + PAGE + 9, VA - 16 * PAGE, 100),  # and back
        copies.copy(VA + PAGE, VA + 16 * PAGE, 4),  # from foreign memory to foreign memory
    )
    assert pages.bytes[PAGE + 9 : PAGE + 109].tolist() == [each % 251 for each in range(5, 105)]
    assert pages.bytes[PAGE : PAGE + 4].tolist() == [0, 1, 2, 3]
    assert len(client.client.asked) == asked, "nothing became shared"


@pytest.mark.parametrize("agent", ["gfx908", "gfx90a"])
def test_counts_have_30_bits_from_sdma_4_4_on(agent: str) -> None:
    """A copy of more than 4 MiB, as run-time libraries of ROCm 6 write it."""
    size = (5 << 20) + 3
    with program(agent) as client:
        copies = Copies(client)
        base = VA + (16 << 20)
        local = [client.allocate(base + number * (8 << 20), 8 << 20, AllocFlags.VRAM) for number in range(2)]
        assert [client.map(each.handle) for each in local] == [1, 1]
        memory = client.process.device(client.device.nodes[0]).memory
        data = np.arange(size, dtype=np.uint8).tobytes()
        memory.write(base, data)
        if agent == "gfx90a":
            copies.do(copies.copy(base + (8 << 20), base, size))
            assert memory.read(base + (8 << 20), size + 1) == data + b"\0"
        else:
            failed: list[QueueFailed] = []
            client.device.probes.subscribe(failed.append, QueueFailed)
            copies.put(copies.copy(base + (8 << 20), base, size))
            eventually(lambda: bool(failed))
            assert "the count of the SDMA packet is 0x500002, expected at most 22 bits" in str(failed[0].error)


def test_boxes(copies: Copies) -> None:
    source = copies.data.bytes[:PAGE].view(np.uint16)
    source[:] = np.arange(PAGE // 2)
    copies.do(
        sdma.CopyLinearRect(
            element=1, source=copies.data.address, source_x=3, source_y=2, source_z=1, source_pitch=15,
            source_slice_pitch=127, destination=copies.data.address + PAGE, destination_x=1, destination_y=0,
            destination_pitch=9, destination_slice_pitch=99, width=4, height=2, depth=1,
        )
    )  # fmt: skip
    expected = np.zeros(PAGE // 2, np.uint16)
    for z in range(2):
        for y in range(3):
            start = 3 + 16 * (2 + y) + 128 * (1 + z)
            expected[1 + 10 * y + 100 * z :][:5] = range(start, start + 5)
    assert (copies.data.bytes[PAGE : 2 * PAGE].view(np.uint16) == expected).all()


def test_updates(copies: Copies) -> None:
    """A queue without a ring is not served until it gets its ring back."""
    update = {"queue_id": copies.made.queue_id, "ring_size": RING, "queue_percentage": 100, "queue_priority": 7}
    copies.client.call(Number.UPDATE_QUEUE, UpdateQueue(ring_base_address=0, **update))
    copies.put(sdma.Fence(address=copies.data.address, data=99))
    time.sleep(0.01)
    assert copies.data.bytes[0] == 0
    copies.client.call(Number.UPDATE_QUEUE, UpdateQueue(ring_base_address=copies.ring.address, **update))
    eventually(lambda: int(copies.read[0]) == copies.shown)
    assert copies.data.bytes[0] == 99


def test_writes(copies: Copies) -> None:
    """A packet that contains the dwords to store; it may wrap around in the ring."""
    words = copies.data.bytes.view(np.uint32)
    copies.do(sdma.Nop(count=RING // 4 - 6), bytes(4 * (RING // 4 - 6)))
    copies.do(
        sdma.Write(address=copies.data.address + 4, count=copies.count(3)), np.arange(7, 10, dtype="<u4").tobytes(),
        sdma.Fence(address=copies.data.address + 20, data=99),
    )  # fmt: skip
    assert words[:6].tolist() == [0, 7, 8, 9, 0, 99]


def test_fills_fences_sums_and_clocks(copies: Copies) -> None:
    base, words = copies.data.address, copies.data.bytes.view(np.uint64)
    words[8] = (1 << 64) - 2
    before = boot_nanoseconds()
    copies.do(
        sdma.ConstFill(fill_size=2, address=base, data=0x01020304, count=copies.count(12)),
        sdma.Fence(address=base + 32, data=99),
        sdma.AtomicPacket(operation=sdma.Atomic.ADD_64, address=base + 64, data=5),
        sdma.Timestamp(address=base + 72),
    )
    assert words[:2].tolist() == [0x01020304_01020304, 0x01020304]
    assert (int(words[4]), int(words[8])) == (99, 3)
    assert before <= int(words[9]) <= boot_nanoseconds()


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (Function.ALWAYS, 0), (Function.LESS, 4), (Function.LESS_EQUAL, 5), (Function.EQUAL, 5),
        (Function.NOT_EQUAL, 6), (Function.GREATER_EQUAL, 5), (Function.GREATER, 6),
    ],
)  # fmt: skip
def test_waits(function: Function, value: int) -> None:
    with program() as client:
        copies = Copies(client)
        words = copies.data.bytes.view(np.uint32)
        words[0] = 0xF0 | (5 if function in (Function.LESS, Function.GREATER, Function.NOT_EQUAL) else 7)
        poll = sdma.PollRegmem(function=function, is_memory=1, address=copies.data.address, value=5, mask=0xF)
        copies.put(poll, sdma.Fence(address=copies.data.address + 8, data=1))
        words[0] = 0xF0 | value
        eventually(lambda: words[2] == 1)


def test_flushes_wait_for_nothing(copies: Copies) -> None:
    copies.do(sdma.PollRegmem(function=Function.EQUAL, is_memory=0, hdp_flush=1, address=8, value=1, mask=1))


def test_interrupts(copies: Copies) -> None:
    client = copies.client
    page = client.allocate(VA, 8 * 4096)
    client.map(page.handle)
    made = client.call(Number.CREATE_EVENT, CreateEvent(event_type=EventKind.SIGNAL, event_page_offset=page.handle))
    copies.put(sdma.Fence(address=VA + 8 * made.event_slot_index, data=1), sdma.Trap(context=made.event_id & 0xFF))
    data = np.frombuffer(bytearray(EventData(data=bytes(32), event_id=made.event_id).pack()), np.uint8)
    asked = WaitEvents(events_ptr=int(data.ctypes.data), num_events=1, wait_for_all=0, timeout=60_000)
    assert client.call(Number.WAIT_EVENTS, asked).wait_result == 0


@pytest.mark.parametrize(
    ("packet", "message"),
    [
        (b"\x0f\0\0\0", "SDMA packet 0000000f: opcode 15 is not modelled"),
        (b"\2\1\0\0", "SDMA write of kind 1 is not modelled, only linear writes are"),
        (b"\1\7\0\0", "SDMA copy of kind 7 is not modelled, only linear and rectangular copies are"),
        (sdma.AtomicPacket(operation=3, address=VA, data=0), "SDMA atomic 3 is not modelled, only 47 (add, 64"),
        (sdma.ConstFill(fill_size=0, address=VA, data=0, count=3), "SDMA fill of size 0 is not modelled, only 2 (dw"),
        (b"\x0d\0\0\0" + bytes(8), "SDMA timestamp of kind 0 is not modelled, only 2 is"),
        (sdma.PollRegmem(function=7, is_memory=1, address=VA, value=0, mask=0), "poll has function 7"),
        (b"\5\0\0\0", "the SDMA packet has 16 bytes, but the doorbell announces only 4"),
        (sdma.CopyLinear(count=7, source=VA, destination=VA), "read of 8 bytes at 0x7e0000000000: no memory there"),
    ],
)  # fmt: skip
def test_what_stops_a_queue(packet: Any, message: str) -> None:
    with program() as client:
        heard: list[QueueFailed] = []
        client.device.probes.subscribe(heard.append, QueueFailed)  # type: ignore[arg-type]
        copies = Copies(client)
        memory = client.call(Number.CREATE_EVENT, CreateEvent(event_type=EventKind.MEMORY))
        copies.put(packet)
        eventually(lambda: bool(heard))
        assert message in str(heard[0].error)
        assert "at SDMA packet at byte 0x0, at queue 1" in str(heard[0].error)
        event = client.process.events._known[memory.event_id]
        assert event.is_set == ("no memory there" in message)


def test_memory_without_the_flag_writable_is_read_only() -> None:
    with program() as client:
        heard: list[QueueFailed] = []
        client.device.probes.subscribe(heard.append, QueueFailed)  # type: ignore[arg-type]
        copies = Copies(client)
        made = client.call(Number.CREATE_EVENT, CreateEvent(event_type=EventKind.MEMORY))
        client.map(client.allocate(VA, PAGE, AllocFlags.VRAM, writable=False).handle)
        space = client.process.device(client.device.nodes[0]).memory
        assert space.read(VA, 4) == bytes(4)
        with pytest.raises(AccessFault, match=r"write of 4 bytes at 0x7e0000000000: allocation 4 is read-only"):
            space.write(VA, b"none")
        copies.put(sdma.ConstFill(fill_size=2, address=VA, data=1, count=copies.count(4)))
        eventually(lambda: bool(heard))
        assert "write of 4 bytes at 0x7e0000000000: allocation 4 is read-only" in str(heard[0].error)
        assert client.process.events._known[made.event_id].is_set


@pytest.mark.parametrize(
    ("changes", "number", "message"),
    [
        ({"queue_type": 3}, errno.EINVAL, "gfx900 has no copy engines for XGMI, expected queue type 1"),
        ({"queue_type": 9}, errno.EINVAL, "the queue type is 9"),
        ({"ring_size": 1000}, errno.EINVAL, "the size of the ring is 1000 bytes"),
        ({"ring_size": 512}, errno.EINVAL, "the size of the ring is 512 bytes"),
        ({"queue_percentage": 101}, errno.EINVAL, "a share of 101 %"),
        ({"ring_base_address": 64}, errno.EFAULT, "the ring"),
        ({"read_pointer_address": 64}, errno.EFAULT, "the read pointer"),
        ({"gpu_id": 1}, errno.EINVAL, "no GPU has gpu_id 0x1"),
    ],
)
def test_queues_that_cannot_be(changes: dict[str, int], number: int, message: str) -> None:
    from softcard.device.kfd.ioctls import CreateQueue

    with program() as client:
        ring: Pages = client.shared(PAGE)
        asked = {
            "ring_base_address": ring.address, "write_pointer_address": ring.address, "gpu_id": client.gpu_id,
            "read_pointer_address": ring.address, "ring_size": RING, "queue_type": 1,
        }  # fmt: skip
        with pytest.raises(Refused) as raised:
            client.call(Number.CREATE_QUEUE, CreateQueue(**asked | changes))
        assert (raised.value.errno, message in raised.value.message) == (number, True)
        assert not len(client.process.queues)
