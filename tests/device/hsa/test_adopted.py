"""Queues that somebody else made: amd_queue_t and ring in memory of its own, doorbells that a host passes on."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import pytest

from softcard.core.errors import AccessFault, BeyondModel, RuleError, WireError
from softcard.core.lint import Lint
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.events import PacketStarted, QueueErrored, QueueInactivated
from softcard.device.hsa.launch.first_state import Scratch
from softcard.device.hsa.queues.aql_queue import Queue
from softcard.device.hsa.queues.records import AmdQueue, AmdSignal, HsaQueue
from softcard.device.hsa.queues.signals import Condition, legacy_value
from softcard.image.hsa.records import KernelDescriptor
from tests.device.hsa.rig import COUNT, Bench, barrier, dispatch, flat_scratch

Make = Callable[..., Bench]
TIMEOUT: Final = 60.0
ENDLESS: Final = "again: s_branch again"


class Client:
    """Makes a queue as a process with a runtime of its own would: in its own memory, which the device is given."""

    def __init__(self, device: HsaDevice, size: int = 8, at: int = 0x7F12_3450_0000, **fields: Any) -> None:
        self.device, self.size, self.at = device, size, at
        self.memory = np.zeros(0x3000, np.uint8)
        self.ring = np.zeros(64 * size, np.uint8)
        self.ring[::64] = 1  # INVALID
        self.address, self.ring_address = at, at + 0x10_0000
        device.memory.map(at, self.memory, name="the client's memory")
        for copy in range(2):
            device.memory.map(self.ring_address + copy * len(self.ring), self.ring, name="the client's ring")
        queue = HsaQueue(base_address=self.ring_address, doorbell_signal=at + 0x1000, size=size, id=77)
        record = AmdQueue(hsa_queue=queue, queue_inactive_signal=at + 0x1040, queue_properties=2)
        self.put(0, record.pack())
        self.put(0x1040, AmdSignal().pack())
        for name, value in fields.items():
            slot = HsaQueue.offset_of(name)
            self.put(slot, value.to_bytes(8 if name == "base_address" else 4, "little"))

    def put(self, offset: int, data: bytes) -> None:
        self.memory[offset : offset + len(data)] = np.frombuffer(data, np.uint8)

    def word(self, offset: int) -> int:
        return int(self.memory[offset : offset + 8].view(np.uint64)[0])

    @property
    def read_index(self) -> int:
        return self.word(AmdQueue.offset_of("read_dispatch_id"))

    def has_room(self, index: int) -> bool:
        return index - self.read_index < self.size

    def write(self, index: int, packet: bytes) -> None:
        at = index % self.size * 64
        self.ring[at : at + 64] = np.frombuffer(packet, np.uint8)

    def value(self, behind: int) -> int:
        """What this agent's hardware doorbell is given for packets up to `behind`."""
        agent = self.device.agent
        return legacy_value(behind, self.size, agent.target.level) if agent.is_legacy else behind - 1


@pytest.fixture
def there() -> Callable[..., None]:
    """Wait until something holds."""

    def wait(holds: Callable[[], bool]) -> None:
        end = time.monotonic() + TIMEOUT
        while not holds():
            assert time.monotonic() < end
            time.sleep(0.001)

    return wait


@pytest.mark.parametrize("agent", ["gfx700", "gfx803", "gfx900"])
@pytest.mark.parametrize("machine_code", [True, False])
def test_packets(bench: Make, agent: str, machine_code: bool) -> None:
    rig = bench(agent, machine_code=machine_code)
    client = Client(rig.device)
    queue = rig.device.adopt_queue(client.address, 5)
    assert (queue.slot, queue.size, queue.is_adopted) == (5, 8, True)
    kernel, (cell, cells) = rig.kernel(COUNT), rig.words()
    done = rig.device.create_signal(20)
    for index in range(20):
        client.write(index, dispatch(kernel, cell, done, grid_size_x=3))
        rig.device.ring_doorbell(5, client.value(index + 1))
    assert (cells[0], done.load(), client.read_index, queue.limit) == (60, 0, 20, 20)
    assert set(client.ring[::64]) == {1}


def test_doorbell_of_the_device(bench: Make) -> None:
    """The device's own page has the same doorbell: kernels may ring it."""
    rig = bench()
    client = Client(rig.device)
    queue = rig.device.adopt_queue(client.address)
    client.write(0, barrier())
    rig.device.memory.write(rig.device.doorbell_base + 8 * queue.slot, (0).to_bytes(8, "little"))
    assert client.read_index == 1


def test_signals_that_it_names(bench: Make) -> None:
    """Its doorbell is the signal that hsa_queue_t names when it is needed, which runtimes fill in later."""
    rig = bench()
    client = Client(rig.device)
    queue = rig.device.adopt_queue(client.address)
    with pytest.raises(RuleError, match=f"signal at {client.at + 0x1000:#x}|kind is 0"):
        queue.submit(barrier())
    doorbell = rig.device.doorbell_base + 8 * queue.slot
    client.put(0x1000, AmdSignal(kind=-1, value=doorbell, queue_ptr=client.address).pack())
    assert queue.doorbell.address == client.at + 0x1000
    assert queue.inactive_signal.address == client.at + 0x1040
    client.write(0, barrier())
    assert queue.submit(barrier()) == 1
    assert client.read_index == 2
    assert f"doorbell  {client.at + 0x1000:#x}" in " ".join(str(row) for row in queue._rows()).replace("', '", "  ")


def test_errors_reach_its_signal(bench: Make) -> None:
    """The runtime's handler then stores 0, and the packet starts again."""
    rig = bench()
    client = Client(rig.device)
    reported: list[tuple[Queue, int]] = []
    queue = rig.device.adopt_queue(client.address, on_error=lambda queue, code, error: reported.append((queue, code)))
    done = rig.device.create_signal(1)
    client.write(0, dispatch(rig.kernel(), signal=done, workgroup_size_x=2000))
    rig.device.ring_doorbell(queue.slot, 0)
    assert (client.word(0x1048), reported, queue.is_active) == (0x40, [(queue, 0x40)], False)
    client.write(0, dispatch(rig.kernel(), signal=done))
    queue.inactive_signal.store(0)
    rig.device.process()
    assert (done.load(), client.read_index) == (0, 1)


def test_no_signal_named(bench: Make) -> None:
    rig = bench()
    client = Client(rig.device)
    client.put(AmdQueue.offset_of("queue_inactive_signal"), bytes(8))
    queue = rig.device.adopt_queue(client.address)
    client.write(0, dispatch(rig.kernel(), workgroup_size_x=2000))
    rig.device.ring_doorbell(queue.slot, 0)
    assert queue.error is not None
    assert queue.inactive_now() is None


def test_destroy_frees_nothing(bench: Make) -> None:
    rig = bench()
    client = Client(rig.device)
    before = client.memory.copy()
    queue = rig.device.adopt_queue(client.address, 9)
    queue.destroy()
    assert (client.memory == before).all()
    assert rig.device.memory.find(client.address) is not None
    assert queue not in rig.device.queues
    rig.device.ring_doorbell(9, 0)  # nobody's: a lint for who listens, nothing else
    with pytest.raises(RuleError, match=f"queue {queue.number} was destroyed already"):
        rig.device.destroy_queue(queue)
    again = rig.device.adopt_queue(client.address, 9)
    client.write(0, barrier())
    rig.device.ring_doorbell(9, 0)
    assert (client.read_index, again.number) == (1, queue.number + 1)


def test_launches_are_those_of_the_queue(bench: Make) -> None:
    """A queue at the address of one that was destroyed: traps are told of with its number."""
    rig = bench(listen=True)
    client = Client(rig.device)
    numbers = []
    for _ in range(2):
        queue = rig.device.adopt_queue(client.address)
        client.put(AmdQueue.offset_of("queue_properties"), (3).to_bytes(4, "little"))
        client.write(queue.load_read_index(), dispatch(rig.kernel("s_trap 3\ns_endpgm")))
        rig.device.ring_doorbell(queue.slot, queue.load_read_index())
        numbers.append(queue.number)
        queue.destroy()
    assert [event.queue for event in rig.events if type(event).__name__ == "Trapped"] == numbers


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_destroy_ends_its_kernel(bench: Make, there: Callable[..., None], engine: str) -> None:
    """Nobody waits for the rest of it, and its own signal is left alone: the memory is not the device's any more."""
    rig = bench(execution="threaded", engine=engine, listen=True, step_limit=1 << 60)
    client = Client(rig.device)
    reported: list[int] = []
    queue = rig.device.adopt_queue(client.address, on_error=lambda queue, code, error: reported.append(code))
    client.write(0, dispatch(rig.kernel(ENDLESS)))
    rig.device.ring_doorbell(queue.slot, 0)
    there(lambda: bool(rig.reported(PacketStarted)))
    queue.destroy()
    assert rig.device.wait_idle(TIMEOUT)
    assert (client.read_index, client.word(0x1048), reported) == (0, 0, [])
    there(lambda: bool(rig.reported(QueueErrored)))
    assert "its queue was destroyed while the kernel ran" in str(rig.reported(QueueErrored)[0].error)
    assert [event.active for event in rig.reported(QueueInactivated)] == [False]


def test_beside_a_kernel_that_runs(bench: Make, there: Callable[..., None]) -> None:
    """Queues come and go while a kernel of another one waits for the host."""
    rig = bench(execution="threaded", step_limit=1 << 60)
    cell, cells = rig.words()
    text = "again: s_load_dword s2, s[0:1], 0\ns_waitcnt lgkmcnt(0)\ns_cmp_eq_u32 s2, 0\ns_cbranch_scc1 again\ns_endpgm"
    done = rig.device.create_signal(1)
    rig.queue.submit(dispatch(rig.kernel(text), cell, done))
    there(lambda: not rig.device.is_idle)
    client = Client(rig.device)
    queue = rig.device.adopt_queue(client.address)
    assert queue in rig.device.queues
    for active in (False, True):
        rig.device.set_active(queue, active)
        assert queue.is_active is active
    queue.destroy()
    rig.new_queue()
    assert not rig.device.is_idle
    cells[0] = 1
    assert done.wait(Condition.EQ, 0, timeout_seconds=TIMEOUT) == 0


def test_snapshot(bench: Make) -> None:
    rig = bench()
    client = Client(rig.device)
    queue = rig.device.adopt_queue(client.address, 3)
    state = rig.device.snapshot()
    for _ in range(2):
        client.write(0, barrier())
        rig.device.ring_doorbell(3, 0)
        assert client.read_index == 1
        queue.destroy()
        rig.device.restore(state)
        assert (client.read_index, queue.is_destroyed, rig.device.queues) == (0, False, (rig.queue, queue))


def test_what_cannot_be_adopted(bench: Make) -> None:
    rig = bench()
    device, client = rig.device, Client(rig.device)
    queue = device.adopt_queue(client.address, 7)
    with pytest.raises(RuleError, match=f"doorbell 7 is in use by queue {queue.number}"):
        device.adopt_queue(client.address, 7)
    for slot in (-1, 1024):
        with pytest.raises(WireError, match=f"the doorbell number is {slot}, expected 0 to 1023"):
            device.adopt_queue(client.address, slot)
    for size in (0, 3, 1 << 21):
        with pytest.raises(
            WireError, match=f"the size of the queue is {size} packets, expected a power of two from 2 to 1048576"
        ):
            device.adopt_queue(client.address, size=size)
    with pytest.raises(
        RuleError, match=r"the address of amd_queue_t is 0x[0-9a-f]+, expected a multiple of 64, .*queue-alignment"
    ):
        device.adopt_queue(client.address + 8)
    with pytest.raises(AccessFault, match="no memory there"):
        device.adopt_queue(0x1000)
    device.memory.map(0x5_FFFF_F000, np.zeros(0x2000, np.uint8))
    with pytest.raises(RuleError, match=r"amd_queue_t at 0x5ffffff40 crosses a 4 GiB boundary.*queue-4-gib"):
        device.adopt_queue(0x5_FFFF_FF40)
    assert len(device.queues) == 2


def test_where_rings_lie(bench: Make) -> None:
    rig = bench()
    device = rig.device
    odd = Client(device, at=0x1_0000_0000_0000 >> 2, base_address=0x1008)
    with pytest.raises(RuleError, match="the address of the ring is 0x1008, expected a multiple of 64"):
        device.adopt_queue(odd.address)
    nowhere = Client(device, at=0x2222_0000_0000, base_address=0x1000)
    with pytest.raises(AccessFault, match="write of 512 bytes at 0x1000: no memory there"):
        device.adopt_queue(nowhere.address)
    pieces = Client(device, at=0x3333_0000_0000)
    with pytest.raises(
        BeyondModel, match=r"the ring of 1024 bytes at 0x[0-9a-f]+ is not in one contiguous piece of RAM"
    ):
        device.adopt_queue(pieces.address, size=16)
    record = AmdQueue(hsa_queue=HsaQueue(base_address=pieces.ring_address, size=8)).pack()
    device.memory.map(0x6666_0000_0000, np.frombuffer(record, np.uint8), writable=False, name="constants")
    with pytest.raises(AccessFault, match="constants is read-only"):
        device.adopt_queue(0x6666_0000_0000)
    device.memory.map(0x6666_0001_0000, Registers(record), name="registers")
    with pytest.raises(RuleError, match=r"amd_queue_t at 0x666600010000 is not in RAM.*queue-handle"):
        device.adopt_queue(0x6666_0001_0000)
    assert len(device.queues) == 1


@pytest.mark.parametrize("agent", ["gfx803", "gfx942"])
def test_rings_of_the_caller(bench: Make, agent: str) -> None:
    """A caller may pass address and size of a ring that amd_queue_t does not have; such rings may be large."""
    rig = bench(agent)
    client = Client(rig.device, base_address=0)
    client.put(HsaQueue.offset_of("size"), bytes(4))
    queue = rig.device.adopt_queue(client.address, size=client.size, ring=client.ring_address)
    assert (queue.size, queue.ring_address) == (8, client.ring_address)
    client.write(0, barrier())
    rig.device.ring_doorbell(queue.slot, client.value(1))
    assert client.read_index == 1
    large = Client(rig.device, 1 << 18, 0x7F22_3450_0000)
    assert rig.device.adopt_queue(large.address).size == 1 << 18


def test_arguments_anywhere(bench: Make) -> None:
    """Hardware does not check the alignment of kernel arguments, so on such a queue it is a lint only."""
    rig = bench(listen=True)
    client = Client(rig.device)
    queue = rig.device.adopt_queue(client.address)
    kernel, (cell, cells) = rig.kernel(COUNT), rig.words()
    rig.device.memory.write(kernel + KernelDescriptor.offset_of("kernarg_size"), b"\x08")
    queue.add_write_index(1)
    client.write(0, dispatch(kernel, cell + 8))
    rig.device.ring_doorbell(queue.slot, client.value(1))
    assert (client.read_index, cells[:4].tolist()) == (1, [0, 0, 1, 0])
    assert [each.check for each in rig.reported(Lint)] == ["kernarg-alignment"]


def test_private_memory_by_what_hardware_reads(bench: Make) -> None:
    """Without a size in amd_queue_t, private memory is that of the waves in compute_tmpring_size on all dies."""
    rig = bench("gfx942", dynamic_scratch=False)
    text = """
    v_mov_b32 v0, 5
    scratch_store_dword off, v0, off offset:4
    s_waitcnt vmcnt(0)
    scratch_load_dword v1, off, off offset:4
    v_mov_b32 v2, 0
    s_waitcnt vmcnt(0)
    global_store_dword v2, v1, s[0:1]
    s_endpgm
    """
    kernel, (cell, cells) = rig.kernel(text, rsrc2=1, accum_offset=8), rig.words()
    waves, dies = 3, rig.device.agent.xccs
    memory = rig.device.allocate(waves * dies << 10)
    client = Client(rig.device)
    client.put(AmdQueue.offset_of("compute_tmpring_size"), struct.pack("<I", waves | 1 << 12))
    client.put(AmdQueue.offset_of("scratch_backing_memory_location"), memory.to_bytes(8, "little"))
    queue = rig.device.adopt_queue(client.address)
    assert queue.scratch(queue.scratch_words())[0] == Scratch(memory, waves * dies << 10)
    client.write(0, dispatch(kernel, cell, private_segment_size=8))
    rig.device.ring_doorbell(queue.slot, client.value(1))
    assert (client.read_index, int(cells[0])) == (1, 5)


class Registers:
    """An amd_queue_t in a region with effects."""

    def __init__(self, record: bytes) -> None:
        self.record, self.size = record, len(record)

    def host_address(self, offset: int, unit: Any) -> None:
        return None

    def read(self, offset: int, size: int, unit: Any) -> bytes:
        return self.record[offset : offset + size]

    def write(self, offset: int, data: bytes, unit: Any) -> None:
        raise AssertionError("nobody stores here")


def test_many_producers(bench: Make, there: Callable[..., None]) -> None:
    """A client's threads reserve slots in its own memory; what polls its doorbell passes on what it sees."""
    rig = bench(execution="threaded")
    client = Client(rig.device, size=64)
    queue = rig.device.adopt_queue(client.address)
    kernel, (cell, cells) = rig.kernel(COUNT), rig.words()
    lock = threading.Lock()

    def produce() -> None:
        for _ in range(50):
            with lock:
                index = queue.add_write_index(1)
                there(partial(client.has_room, index))
                client.write(index, dispatch(kernel, cell))
                rig.device.ring_doorbell(queue.slot, index)

    threads = [threading.Thread(target=produce) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    there(lambda: client.read_index == 200)
    assert cells[0] == 200


@pytest.mark.parametrize("agent", ["gfx803", "gfx900"])
def test_private_memory_by_the_runtime(bench: Make, there: Callable[..., None], agent: str) -> None:
    """Bit 0 of queue_inactive_signal asks for it; its handler gives some and stores 0, the packet starts again."""
    rig = bench(agent, execution="threaded", dynamic_scratch=False)
    device = rig.device
    client = Client(device)
    reported: list[int] = []
    queue = device.adopt_queue(client.address, on_error=lambda queue, code, error: reported.append(code))
    text = f"""
    {flat_scratch(agent, 2)}
    v_mov_b32 v2, 5
    v_mov_b32 v0, 0
    v_mov_b32 v1, {device.apertures.private_segment_aperture_base_hi:#x}
    flat_store_dword v[0:1], v2
    s_waitcnt vmcnt(0) lgkmcnt(0)
    flat_load_dword v3, v[0:1]
    v_mov_b32 v4, s0
    v_mov_b32 v5, s1
    s_waitcnt vmcnt(0) lgkmcnt(0)
    flat_atomic_add v[4:5], v3
    s_endpgm
    """
    kernel = rig.kernel(text, ["enable_sgpr_kernarg_segment_ptr", "enable_sgpr_flat_scratch_init"], rsrc2=1)
    (cell, cells), done = rig.words(), device.create_signal(2)
    packet = dispatch(kernel, cell, done, private_segment_size=16, workgroup_size_x=64, grid_size_x=64)
    asked = AmdSignal.offset_of("value") + 0x1040
    for index in range(2):
        client.write(index, packet)
        device.ring_doorbell(queue.slot, client.value(index + 1))
        if not index:
            there(lambda: client.word(asked) == 1)
            place = device.allocate(64 * 1024 * 4)
            location = place - device.hidden_private_base
            descriptor = Scratch(place, 64 * 1024 * 4).resource_descriptor(device.agent.target.level)
            fields = struct.pack("<I4IQQI", 32 | 1 << 12, *descriptor, location, 64 * 1024 * 4, 16)
            client.put(AmdQueue.offset_of("compute_tmpring_size"), fields)
            client.put(asked, bytes(8))
    assert done.wait(Condition.EQ, 0, timeout_seconds=TIMEOUT) == 0
    assert (cells[0], reported, client.read_index, queue.error) == (2 * 64 * 5, [1], 2, None)
