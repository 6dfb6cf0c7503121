"""What the packet processor does with each kind of packet."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from softcard.device.hsa import rules
from softcard.device.hsa.events import Lint, PacketBlocked, PacketCompleted, PacketStarted
from softcard.device.hsa.exceptions import QueueError, Status, status_of
from softcard.device.hsa.queues.packets import (
    PACKET_BYTES,
    AgentDispatchPacket,
    AmdFormat,
    BarrierPacket,
    BarrierValuePacket,
    FenceScope,
    KernelDispatchPacket,
    PacketHeader,
    PacketType,
    Pm4IbPacket,
    header,
    packet_record,
)
from softcard.device.hsa.queues.records import QueueFeature
from tests.device.hsa.rig import COUNT, Bench, barrier, dispatch

Make = Callable[..., Bench]


def test_packet_size() -> None:
    records = (KernelDispatchPacket, AgentDispatchPacket, BarrierPacket, BarrierValuePacket, Pm4IbPacket)
    assert {record.size_bytes for record in records} == {PACKET_BYTES} == {64}
    assert {record.offset_of("completion_signal") for record in records} == {56}


def test_packet_types(bench: Make) -> None:
    assert [kind.value for kind in PacketType] == [0, 1, 2, 3, 4, 5]
    assert isinstance(packet_record(barrier()), BarrierPacket)
    assert packet_record(bytes([1]) + bytes(63)) is None
    word = header(PacketType.BARRIER_OR, True, FenceScope.AGENT, FenceScope.SYSTEM)
    parsed = PacketHeader.parse(word.to_bytes(2, "little"))
    assert (parsed.type, parsed.barrier, parsed.acquire_scope, parsed.release_scope) == (5, 1, 1, 2)
    rig = bench()
    rig.queue.submit(bytes([6]) + bytes(63))
    (code, error) = rig.errors[0]
    assert code == QueueError.INVALID_PACKET
    assert str(error) == (
        "packet type 6 is not valid on this queue, expected 0 (vendor specific), 2 (kernel dispatch), 3 (barrier-AND) "
        "or 5 (barrier-OR), at AQL packet 0, at queue 0, [hsa/packet-types: Kernel dispatch]"
    )
    assert status_of(code) is Status.ERROR_INVALID_PACKET_FORMAT


def test_format_last(bench: Make) -> None:
    """A rung packet whose header is still INVALID is waited for, and so is all behind it."""
    rig = bench(listen=True)
    kernel, done = rig.kernel(), rig.device.create_signal(2)
    first = rig.queue.add_write_index(2)
    rig.queue.write_packet(first + 1, dispatch(kernel, signal=done))
    rig.queue.doorbell.store(first + 1)
    assert done.load() == 2
    assert [event.why for event in rig.reported(PacketBlocked)] == ["its header is INVALID"]
    rig.queue.write_packet(first, dispatch(kernel, signal=done))
    rig.queue.doorbell.store(first)
    assert done.load() == 0
    assert [event.index for event in rig.reported(PacketCompleted)] == [0, 1]


def test_completion_signal(bench: Make) -> None:
    rig = bench(listen=True)
    done = rig.device.create_signal(10)
    rig.queue.submit(dispatch(rig.kernel(), signal=done), dispatch(rig.kernel()), barrier(signal=done))
    assert done.load() == 8
    assert rig.queue.load_read_index() == 3


@pytest.mark.parametrize("listen", [True, False])
def test_timestamps(bench: Make, listen: bool) -> None:
    """A clock of packets and instructions; only where the queue is profiled."""
    rig = bench(listen=listen, profiling=True)
    kernel = rig.kernel("s_nop 0\ns_nop 0\ns_endpgm")
    signals = [rig.device.create_signal(1) for _ in range(6)]
    for signal in signals:
        rig.queue.submit(dispatch(kernel, signal=signal))
    times = [(each.record().start_ts, each.record().end_ts) for each in signals]
    assert times == [(4 * n, 4 * n + 4) for n in range(6)]
    plain = rig.device.create_queue(64, profiling=False)
    signal = rig.device.create_signal(1)
    plain.submit(dispatch(kernel, signal=signal))
    assert (signal.load(), signal.record().end_ts) == (0, 0)


def test_barrier_bit(bench: Make) -> None:
    """Packets with and without it complete in order: one is over before the next begins."""
    rig = bench(listen=True)
    address, words = rig.words()
    kernel = rig.kernel(COUNT)
    packets = [bytearray(dispatch(kernel, address)) for _ in range(6)]
    for packet in packets[1::2]:
        packet[1] |= 1
    rig.queue.submit(*map(bytes, packets))
    order = [type(event).__name__[6:] for event in rig.events if isinstance(event, PacketStarted | PacketCompleted)]
    assert order == ["Started", "Completed"] * 6
    assert words[0] == 6


def test_barrier_and(bench: Make) -> None:
    rig = bench(listen=True)
    gates = [rig.device.create_signal(n) for n in (0, 1, 2)]
    done, after = rig.device.create_signal(1), rig.device.create_signal(1)
    rig.queue.submit(barrier(*gates, signal=done), dispatch(rig.kernel(), signal=after))
    assert (done.load(), after.load()) == (1, 1)
    gates[1].store(0)
    assert done.load() == 1
    gates[2].store(0)
    assert (done.load(), after.load()) == (0, 0)
    assert len(rig.reported(PacketBlocked)) == 1
    assert "signal 1 at" in rig.reported(PacketBlocked)[0].why


def test_barrier_or(bench: Make) -> None:
    rig = bench()
    gates = [rig.device.create_signal(1) for _ in range(5)]
    done = rig.device.create_signal(1)
    rig.queue.submit(barrier(*gates, signal=done, kind=PacketType.BARRIER_OR))
    assert done.load() == 1
    gates[3].store(0)
    assert done.load() == 0
    rig.queue.submit(barrier(signal=done, kind=PacketType.BARRIER_OR))  # no signals: nothing to wait for
    assert done.load() == -1


def test_barriers_between_queues(bench: Make) -> None:
    """A packet of one queue waits for another queue's."""
    rig = bench(execution="manual")
    other = rig.new_queue()
    first, second = rig.device.create_signal(1), rig.device.create_signal(1)
    rig.queue.submit(barrier(first, signal=second))
    rig.device.process()
    assert second.load() == 1
    other.submit(dispatch(rig.kernel(), signal=first))
    assert rig.device.process() == 2
    assert second.load() == 0


def test_barrier_of_no_signal(bench: Make) -> None:
    rig = bench()
    rig.queue.submit(barrier(0x1000))
    assert rig.errors[0][0] == QueueError.INVALID_PACKET
    assert "no memory there" in str(rig.errors[0][1])


@pytest.mark.parametrize(
    ("condition", "value", "mask", "before", "after"),
    [(0, 3, -1, 2, 3), (1, 3, -1, 3, 4), (2, 0, -1, 0, -1), (3, 4, 0xF, 0x13, 0x17)],
)
def test_barrier_value(bench: Make, condition: int, value: int, mask: int, before: int, after: int) -> None:
    rig = bench()
    gate, done = rig.device.create_signal(before), rig.device.create_signal(1)
    packet = BarrierValuePacket(
        signal=gate.address, value=value, mask=mask, condition=condition, completion_signal=done.address
    )
    rig.queue.submit(packet.pack())
    assert done.load() == 1
    gate.store(after)
    assert done.load() == 0


def test_barrier_value_without_a_signal(bench: Make) -> None:
    rig = bench()
    done = rig.device.create_signal(1)
    rig.queue.submit(BarrierValuePacket(value=1, condition=0, completion_signal=done.address).pack())
    assert (rig.errors, done.load()) == ([], 0)


def test_barrier_value_conditions(bench: Make) -> None:
    rig = bench()
    rig.queue.submit(BarrierValuePacket(signal=rig.device.create_signal().address, condition=4).pack())
    assert rig.errors[0][0] == QueueError.INVALID_VENDOR_PACKET
    assert "the condition of a barrier value packet is 4, expected 0 to 3" in str(rig.errors[0][1])


@pytest.mark.parametrize("format_", [0, AmdFormat.AIE_ERT, 255])
def test_vendor_packet(bench: Make, format_: int) -> None:
    rig = bench()
    rig.queue.submit(bytes([0, 0, format_]) + bytes(61))
    assert rig.errors[0][0] == QueueError.INVALID_VENDOR_PACKET
    text = (
        f"the vendor packet has format {format_:d}, expected 2 (barrier value) or PM4 commands as the agent takes them"
    )
    assert f"{text}: AIE packets and others are not modelled" in str(rig.errors[0][1])
    assert (rig.errors[0][0], rig.queue.load_read_index()) == (0x100, 0)
    assert getattr(rig.errors[0][1], "rule", None) is rules.VENDOR_PACKET


def test_agent_dispatch(bench: Make) -> None:
    rig = bench()
    calls: list[AgentDispatchPacket] = []

    def serve(packet: AgentDispatchPacket) -> int:
        calls.append(packet)
        return sum(packet.arg)

    both = QueueFeature.KERNEL_DISPATCH | QueueFeature.AGENT_DISPATCH
    queue = rig.new_queue(features=both, agent_dispatch=serve)
    done, (result, words) = rig.device.create_signal(2), rig.words()
    packet = AgentDispatchPacket(type=0x8001, return_address=result, arg=(1, 2, 3, 4), completion_signal=done.address)
    queue.submit(packet.pack(), AgentDispatchPacket(completion_signal=done.address).pack())
    assert (calls[0].type, words[0], done.load(), len(calls)) == (0x8001, 10, 0, 2)
    rig.queue.submit(packet.pack())
    assert rig.errors[0][0] == QueueError.INVALID_PACKET
    assert "the queue takes kernel dispatches only" in str(rig.errors[0][1])


def test_fence_scopes(bench: Make) -> None:
    """All work; what is reserved is told."""
    rig = bench(listen=True)
    done = rig.device.create_signal(4)
    for scope in range(4):
        rig.queue.submit(dispatch(rig.kernel(), signal=done, acquire_scope=scope, release_scope=scope))
    assert done.load() == 0
    (lint,) = rig.reported(Lint)
    assert str(lint).startswith(
        "fence-scope: packet 3: a fence scope is 3, which is reserved, expected none (0), agent (1) or system (2) "
        "[hsa/fence-scopes"
    )


def test_reserved_fields_are_reported(bench: Make) -> None:
    rig = bench(listen=True)
    rig.queue.submit(dispatch(rig.kernel(), reserved_0a=b"\1\0"))
    assert [event.message for event in rig.reported(Lint)] == ["packet 0: reserved_0a must be 0"]


def test_completion_signals_are_checked(bench: Make) -> None:
    rig = bench()
    rig.queue.submit(dispatch(rig.kernel(), signal=rig.queue.doorbell))
    code, error = rig.errors[0]
    assert code == QueueError.INVALID_PACKET
    assert "has kind -1, expected 1 (user)" in str(error)
    other = rig.new_queue()
    other.submit(dispatch(rig.kernel(), signal=0x1234_0000))
    assert rig.errors[1][0] == QueueError.MEMORY_APERTURE_VIOLATION


def test_queues_take_turns(bench: Make) -> None:
    rig = bench(execution="manual", listen=True, quantum=2)
    queues = [rig.queue, rig.new_queue(), rig.new_queue()]
    kernel = rig.kernel()
    for queue in queues:
        queue.submit(*[dispatch(kernel)] * 4)
    assert rig.device.process(5) == 5
    rig.device.process()
    assert [event.queue for event in rig.reported(PacketCompleted)] == [0, 0, 1, 1, 2, 0, 0, 1, 1, 2, 2, 2]
    assert [queue.load_read_index() for queue in queues] == [4, 4, 4]


def orders(bench: Make, seed: int) -> list[int]:
    rig = bench(execution="manual", listen=True, quantum=3, seed=seed)
    queues = [rig.queue, rig.new_queue(), rig.new_queue()]
    for queue in queues:
        queue.submit(*[barrier()] * 8)
    rig.device.process()
    return [event.queue for event in rig.reported(PacketCompleted)]


def test_seeds_decide_the_order(bench: Make) -> None:
    found = {seed: orders(bench, seed) for seed in range(4)}
    assert all(sorted(order) == sorted(found[0]) for order in found.values())
    assert len({tuple(order) for order in found.values()}) > 1
    assert orders(bench, 2) == found[2]
