"""amd_queue_t, the ring, index operations."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from softcard.core.errors import RuleError, WireError
from softcard.device.hsa.queues.packets import PacketType
from softcard.device.hsa.queues.records import AmdQueue, HsaQueue, QueueFeature, QueueType
from softcard.device.hsa.queues.signals import Condition
from tests.device.hsa.rig import Bench, barrier, dispatch

Make = Callable[..., Bench]


def test_queue_layout() -> None:
    offsets = {slot.name: slot.offset for slot in AmdQueue.slots if not slot.spec.is_reserved}
    assert (AmdQueue.size_bytes, HsaQueue.size_bytes) == (256, 40)
    assert offsets == {
        "hsa_queue": 0, "write_dispatch_id": 0x38, "group_segment_aperture_base_hi": 0x40,
        "private_segment_aperture_base_hi": 0x44, "max_cu_id": 0x48, "max_wave_id": 0x4C,
        "max_legacy_doorbell_dispatch_id_plus_1": 0x50, "legacy_doorbell_lock": 0x58, "read_dispatch_id": 0x80,
        "read_dispatch_id_field_base_byte_offset": 0x88, "compute_tmpring_size": 0x8C,
        "scratch_resource_descriptor": 0x90, "scratch_backing_memory_location": 0xA0,
        "scratch_backing_memory_byte_size": 0xA8, "scratch_workitem_byte_size": 0xB0, "queue_properties": 0xB4,
        "queue_inactive_signal": 0xC0,
    }  # fmt: skip


def test_queue_handle(bench: Make) -> None:
    rig = bench()
    record = AmdQueue.parse(rig.device.memory.read(rig.queue.address, 256))
    assert record == rig.queue.record()
    assert record.hsa_queue.size == 64
    assert record.hsa_queue.base_address == rig.queue.ring_address
    assert record.hsa_queue.doorbell_signal == rig.queue.doorbell.address
    assert record.hsa_queue.id == rig.queue.number
    assert not record.reserved_set()


def test_queue_alignment(bench: Make) -> None:
    rig = bench()
    assert all(rig.new_queue(64).address % 64 == 0 for _ in range(5))


def test_queue_4_gib(bench: Make) -> None:
    rig = bench()
    for _ in range(3):
        rig.device.allocate(200 << 20)
        queue = rig.new_queue()
        assert queue.address >> 32 == queue.address + 255 >> 32


@pytest.mark.parametrize("agent", ["gfx700", "gfx803", "gfx900"])
@pytest.mark.parametrize("kind", list(QueueType))
def test_queue_types(bench: Make, agent: str, kind: QueueType) -> None:
    """MULTI everywhere, as the runtime has it (erratum 9)."""
    rig = bench(agent)
    queue = rig.device.create_queue(64, kind)
    done = rig.device.create_signal(1)
    queue.submit(dispatch(rig.kernel(), signal=done))
    assert (queue.record().hsa_queue.type, done.load()) == (kind, 0)


def test_queue_sizes(bench: Make) -> None:
    rig = bench()
    for size in (0, 1, 3, 63, -64, 1 << 18):
        with pytest.raises(
            WireError, match=f"the size of the queue is {size} packets, expected a power of two from 2 to 131072"
        ):
            rig.device.create_queue(size)
    with pytest.raises(WireError, match="queue type is 3"):
        rig.device.create_queue(64, 3)  # type: ignore[arg-type]


def test_initial_ids(bench: Make) -> None:
    record = bench().queue.record()
    assert (record.write_dispatch_id, record.read_dispatch_id) == (0, 0)


@pytest.mark.parametrize(
    ("agent", "group", "private"), [("gfx803", 1 << 29, 1 << 29 | 1), ("gfx900", 1 << 16, 2 << 16)]
)
def test_aperture_fields(bench: Make, agent: str, group: int, private: int) -> None:
    record = bench(agent).queue.record()
    assert (record.group_segment_aperture_base_hi, record.private_segment_aperture_base_hi) == (group, private)


@pytest.mark.parametrize(("agent", "units"), [("gfx701", 44), ("gfx803", 64)])
def test_max_cu_id(bench: Make, agent: str, units: int) -> None:
    """The number less one, as the runtime stores it (erratum 8)."""
    assert bench(agent).queue.record().max_cu_id == units - 1


def test_max_wave_id(bench: Make) -> None:
    assert bench().queue.record().max_wave_id == 39


def test_base_offset(bench: Make) -> None:
    assert bench().queue.record().read_dispatch_id_field_base_byte_offset == AmdQueue.offset_of("read_dispatch_id")


def test_load_write_index(bench: Make) -> None:
    """Erratum 1: it is write_dispatch_id."""
    rig = bench()
    rig.device.memory.write(rig.queue.address + 0x38, (77).to_bytes(8, "little"))
    assert rig.queue.load_write_index() == 77


def test_store_write_index(bench: Make) -> None:
    queue = bench().queue
    queue.store_write_index(78)
    assert queue.record().write_dispatch_id == 78


def test_add_write_index(bench: Make) -> None:
    queue = bench().queue
    assert (queue.add_write_index(3), queue.add_write_index(2)) == (0, 3)
    assert queue.record().write_dispatch_id == 5


def test_cas_write_index(bench: Make) -> None:
    queue = bench().queue
    assert queue.cas_write_index(1, 9) == 0
    assert queue.cas_write_index(0, 9) == 0
    assert queue.load_write_index() == 9


def test_load_read_index(bench: Make) -> None:
    rig = bench()
    rig.device.memory.write(rig.queue.address + 0x80, (76).to_bytes(8, "little"))
    assert rig.queue.load_read_index() == 76


def test_store_read_index(bench: Make) -> None:
    queue = bench().queue
    queue.store_read_index(75)
    assert queue.record().read_dispatch_id == 75


@pytest.mark.parametrize("size", [2, 16, 64])
@pytest.mark.parametrize("agent", ["gfx701", "gfx803", "gfx900"])
def test_wrap_around(bench: Make, agent: str, size: int) -> None:
    rig = bench(agent, size)
    kernel, done = rig.kernel(), rig.device.create_signal(5 * size)
    for index in range(5 * size):
        assert rig.queue.submit(dispatch(kernel, signal=done)) == index
        assert rig.queue.packet_address(index) == rig.queue.ring_address + 64 * (index % size)
    assert (done.load(), rig.queue.load_read_index()) == (0, 5 * size)
    assert (rig.queue.ring[::64] == PacketType.INVALID).all()


def test_queue_full(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full ring takes no packet until one was read; who submits more works meanwhile or hears why it cannot."""
    monkeypatch.setattr("softcard.device.hsa.device._others", lambda: False)  # other tests may have left threads
    rig = bench(size=4)
    gate, done = rig.device.create_signal(1), rig.device.create_signal(8)
    rig.queue.submit(barrier(gate), *[dispatch(rig.kernel(), signal=done)] * 3)
    with pytest.raises(RuleError, match="packet 4 would overwrite one that the device has not read yet"):
        rig.queue.write_packet(4, bytes(64))
    with pytest.raises(
        RuleError, match="queue 0 is full and stays full: no pending work can end the wait of its next packet"
    ):
        rig.queue.submit(barrier())
    gate.store(0)
    assert done.load() == 5


def test_queue_full_manual(bench: Make) -> None:
    rig = bench(size=4, execution="manual")
    done = rig.device.create_signal(20)
    rig.queue.submit(*[dispatch(rig.kernel(), signal=done)] * 20)
    assert done.wait(Condition.EQ, 0) == 0


def test_packet_size(bench: Make) -> None:
    queue = bench().queue
    with pytest.raises(RuleError, match="the packet has 63 bytes, expected 64"):
        queue.write_packet(0, bytes(63))
    with pytest.raises(RuleError, match="the packet has 65 bytes, expected 64"):
        queue.submit(bytes(65))


def test_inactivation(bench: Make) -> None:
    rig = bench()
    done = rig.device.create_signal(2)
    rig.queue.inactivate()
    rig.queue.submit(dispatch(rig.kernel(), signal=done))
    assert (done.load(), rig.queue.is_active, rig.queue.error) == (2, False, None)
    rig.device.set_active(rig.queue, True)
    assert done.load() == 1


def test_destroyed_queue(bench: Make) -> None:
    for agent in ("gfx803", "gfx900"):
        rig = bench(agent)
        other = rig.new_queue()
        rig.queue.destroy()
        with pytest.raises(RuleError, match="queue 0 was destroyed already"):
            rig.queue.destroy()
        done = rig.device.create_signal(1)
        other.submit(dispatch(rig.kernel(), signal=done))
        assert (done.load(), rig.device.queues) == (0, (other,))


def test_doorbells_are_used_again(bench: Make) -> None:
    rig = bench()
    done = rig.device.create_signal(0)
    for _ in range(1100):
        queue = rig.device.create_queue(2)
        queue.destroy()
    queue = rig.device.create_queue(2)
    queue.submit(dispatch(rig.kernel(), signal=done))
    assert (done.load(), queue.number, queue.slot) == (-1, 1101, 1)


def test_features_of_a_queue(bench: Make) -> None:
    rig = bench()
    both = QueueFeature.KERNEL_DISPATCH | QueueFeature.AGENT_DISPATCH
    queue = rig.new_queue(features=both, agent_dispatch=lambda packet: 0)
    assert queue.record().hsa_queue.features == 3
    assert queue.takes(QueueFeature.AGENT_DISPATCH)
    assert not rig.queue.takes(QueueFeature.AGENT_DISPATCH)
