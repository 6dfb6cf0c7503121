"""Doorbells of all three kinds, stored through memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from softcard.core.errors import AccessFault, RuleError
from softcard.device.hsa.events import DoorbellRung, Lint
from softcard.device.hsa.queues import signals
from softcard.device.hsa.queues.records import AmdQueue, HsaQueue
from softcard.device.hsa.queues.signals import DoorbellPage, legacy_value, limit_of
from tests.device.hsa.rig import Bench, barrier, dispatch

Make = Callable[..., Bench]
every_kind = pytest.mark.parametrize("agent", ["gfx701", "gfx803", "gfx900"])


def hardware(rig: Bench) -> int:
    """Address of the queue's hardware doorbell."""
    return rig.queue.doorbell.record().value


@every_kind
def test_doorbell_notifies(bench: Make, agent: str) -> None:
    """Nothing is processed before the doorbell is rung for it, everything up to it afterwards."""
    rig = bench(agent)
    kernel, done = rig.kernel(), rig.device.create_signal(3)
    first = rig.queue.add_write_index(3)
    for index in range(first, first + 3):
        rig.queue.write_packet(index, dispatch(kernel, signal=done))
    assert done.load() == 3
    rig.queue.doorbell.store(1)
    assert done.load() == 1
    rig.queue.doorbell.store(2)
    assert done.load() == 0


@pytest.mark.parametrize("size", [0, 0x4000_0000, 0x8000_0000, 0xFFFF_FFFF])
@pytest.mark.parametrize("model", ["large", "small"])
def test_doorbells_of_a_damaged_queue(bench: Make, size: int, model: str) -> None:
    """What is stored has 32 bits, whatever hsa_queue.size says."""
    rig = bench("gfx701", machine_model=model)
    rig.device.memory.write(rig.queue.address + HsaQueue.offset_of("size"), size.to_bytes(4, "little"))
    for value in (0x7FFF_FFFF, 1 << 40, (1 << 63) - 1):
        rig.queue.doorbell.store(value)
    assert legacy_value(value, size, 7) < 1 << 32


def test_doorbell_store(bench: Make) -> None:
    """GFX9: the value itself, 64 bits, at the address that the signal names."""
    rig = bench(listen=True)
    rig.queue.doorbell.store(0x1_0000_0000)
    assert [(event.value, event.limit) for event in rig.reported(DoorbellRung)] == [(0x1_0000_0000, 0x1_0000_0001)]
    rig.device.memory.write(hardware(rig), (1 << 33).to_bytes(8, "little"))
    assert rig.queue.limit == (1 << 33) + 1


@every_kind
def test_doorbell_write_only(bench: Make, agent: str) -> None:
    rig = bench(agent)
    with pytest.raises(AccessFault, match="read of 4 bytes from doorbell 0, which is write-only"):
        rig.device.memory.read(hardware(rig), 4)


@every_kind
def test_doorbell_width(bench: Make, agent: str) -> None:
    rig = bench(agent)
    right = 8 if agent == "gfx900" else 4
    for size in (1, 2, 12 - right, 16):
        with pytest.raises(AccessFault, match=f"store of {size} bytes at byte 0 of doorbell 0, expected {right}"):
            rig.device.memory.write(hardware(rig), bytes(size))
    with pytest.raises(AccessFault, match=f"store of {right} bytes at byte 4 of doorbell 0"):
        rig.device.memory.write(hardware(rig) + 4, bytes(right))


def test_doorbell_of_nobody(bench: Make) -> None:
    rig = bench(listen=True)
    rig.device.memory.write(hardware(rig) + 8, bytes(8))
    assert [event.check for event in rig.reported(Lint)] == ["doorbell-without-queue"]


@every_kind
def test_a_doorbell_beyond_the_write_index(bench: Make, agent: str) -> None:
    """A lint: producers reserve packets by the write index. The packets are processed all the same."""
    rig = bench(agent, listen=True)
    kernel, done = rig.kernel(), rig.device.create_signal(3)
    rig.queue.submit(dispatch(kernel, signal=done))
    assert not rig.reported(Lint)
    rig.queue.write_packet(1, dispatch(kernel, signal=done))
    rig.queue.doorbell.store(1)
    rig.queue.add_write_index(2)
    rig.queue.write_packet(2, dispatch(kernel, signal=done))
    rig.queue.doorbell.store(2)
    [lint] = rig.reported(Lint)
    assert done.load() == 0
    assert lint.check == "doorbell-beyond-write-index"
    assert lint.message.startswith(
        "doorbell 0 announces packets up to 1, but the write index is 1: raise the write index to 2 or more first"
    )


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_a_completion_signal_that_was_destroyed(bench: Make, engine: str) -> None:
    """A lint, besides the queue's error; so is to destroy one that a packet has yet to signal."""
    rig = bench(listen=True, engine=engine, lints="off", execution="manual")
    kernel, done, other = rig.kernel(), rig.device.create_signal(1), rig.device.create_signal(1)
    rig.queue.submit(dispatch(kernel, signal=other), dispatch(kernel, signal=done))
    rig.device.process(1)
    rig.device.destroy_signal(other)
    rig.device.destroy_signal(done)
    rig.device.process(1)
    lints = rig.reported(Lint)
    assert [each.check for each in lints] == ["completion-signal"] * 2
    assert f"signal {done.address:#x} is destroyed before a packet of queue 0 completes it" in lints[0].message
    assert "has kind 0, expected 1 (user): it was destroyed before the packet was done" in lints[1].message
    assert "it was destroyed" in str(rig.queue.error)


@every_kind
def test_signal_queue_ptr(bench: Make, agent: str) -> None:
    rig = bench(agent)
    assert rig.queue.doorbell.record().queue_ptr == rig.queue.address


def test_legacy_plus_one(bench: Make) -> None:
    """GFX8: the index beyond the last packet, 32 bits."""
    rig = bench("gfx803", listen=True)
    rig.queue.doorbell.store(4)
    assert [event.value for event in rig.reported(DoorbellRung)] == [5]
    assert rig.queue.record().max_legacy_doorbell_dispatch_id_plus_1 == 5
    assert limit_of(3, 8, 0xFFFF_FFFE, 64) == 0x1_0000_0003


def test_legacy_gfx7(bench: Make) -> None:
    """Dwords, modulo twice the size."""
    rig = bench("gfx701", 16, listen=True)
    for index in (0, 14, 15, 30, 31):
        rig.queue.doorbell.store(index)
    values = [event.value for event in rig.reported(DoorbellRung)]
    assert values == [16, 15 * 16, 16 * 16, 31 * 16, 0]
    assert limit_of(2 * 16, 7, 30, 16) == 34


@every_kind
def test_packets_are_found_again(agent: str) -> None:
    """What the processor makes of a doorbell's value, wherever the queue stands."""
    level, size = int(agent[3]), 16
    for read in (0, 15, 16, 31, 32, (1 << 32) - 3, (1 << 40) + 5):
        for ahead in range(1, size + 1):
            last = read + ahead - 1
            value = last if level == 9 else legacy_value(last + 1, size, level)
            assert limit_of(value, level, read, size) == last + 1


@pytest.mark.parametrize("agent", ["gfx701", "gfx803"])
def test_legacy_stale(bench: Make, agent: str) -> None:
    """A store of an earlier packet's id is dropped, and the hardware never hears of it."""
    rig = bench(agent, listen=True)
    rig.queue.add_write_index(8)
    rig.queue.doorbell.store(7)
    rig.queue.doorbell.store(3)
    rig.queue.doorbell.store(7)
    assert len(rig.reported(DoorbellRung)) == 1
    size = 16 if agent == "gfx701" else 1
    rig.device.memory.write(hardware(rig), (4 * size).to_bytes(4, "little"))  # past the signal: hardware ignores it
    assert rig.queue.limit == 8
    assert [event.check for event in rig.reported(Lint)] == ["doorbell-stale"]


@pytest.mark.parametrize("agent", ["gfx701", "gfx803"])
def test_legacy_never_decreases(bench: Make, agent: str) -> None:
    rig = bench(agent)
    seen = []
    for index in (0, 5, 2, 9, 8):
        rig.queue.doorbell.store(index)
        seen.append(rig.queue.record().max_legacy_doorbell_dispatch_id_plus_1)
    assert seen == [1, 6, 6, 10, 10]


def test_legacy_lock(bench: Make) -> None:
    """0 before and after, 1 while the hardware is told."""
    rig = bench("gfx803", listen=True)
    seen: list[int] = []
    rig.device.probes.subscribe(lambda event: seen.append(rig.queue.record().legacy_doorbell_lock))
    assert rig.queue.record().legacy_doorbell_lock == 0
    rig.queue.doorbell.store(0)
    assert seen[:1] == [1]
    assert rig.queue.record().legacy_doorbell_lock == 0


def test_legacy_spinlock(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = bench("gfx803")
    monkeypatch.setattr(signals, "LOCK_SECONDS", 0.001)
    lock = rig.queue.address + AmdQueue.offset_of("legacy_doorbell_lock")
    rig.device.memory.write(lock, (1).to_bytes(4, "little"))
    with pytest.raises(RuleError, match=r"legacy_doorbell_lock at 0x.* was not released within"):
        rig.queue.doorbell.store(0)


@pytest.mark.parametrize("agent", ["gfx701", "gfx803"])
def test_legacy_small(bench: Make, agent: str) -> None:
    """Small model: what the queue says, not what was signalled."""
    rig = bench(agent, 16, listen=True, machine_model="small")
    rig.queue.store_write_index(9)
    rig.queue.doorbell.store(4)
    rig.queue.store_write_index(100)
    rig.queue.doorbell.store(5)
    factor = 16 if agent == "gfx701" else 1
    assert [event.value for event in rig.reported(DoorbellRung)] == [9 * factor, 16 * factor]


@pytest.mark.parametrize("agent", ["gfx701", "gfx803"])
def test_double_ring(bench: Make, agent: str) -> None:
    """The second half shows the same packets (erratum 10: also on GFX8)."""
    rig = bench(agent)
    rig.queue.write_packet(3, barrier())
    half = rig.queue.size * 64
    read = rig.device.memory.read
    assert read(rig.queue.ring_address + half + 3 * 64, 64) == read(rig.queue.ring_address + 3 * 64, 64) == barrier()
    assert DoorbellPage(9, lambda number, value: None).host_address(0, None) is None  # type: ignore[arg-type]
