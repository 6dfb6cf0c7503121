"""amd_signal_t and its operations."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from softcard.core.errors import AccessFault, RuleError, WireError
from softcard.core.event import Event
from softcard.device.hsa.events import InterruptSent, SignalChanged
from softcard.device.hsa.queues.records import AmdSignal, SignalKind
from softcard.device.hsa.queues.signals import Condition, Signal
from tests.device.hsa.rig import COUNT, Bench, barrier, dispatch

Make = Callable[..., Bench]


def test_signal_layout() -> None:
    offsets = {slot.name: slot.offset for slot in AmdSignal.slots if not slot.spec.is_reserved}
    assert AmdSignal.size_bytes == 64
    assert offsets == {
        "kind": 0, "value": 8, "event_mailbox_ptr": 16, "event_id": 24, "start_ts": 32, "end_ts": 40, "queue_ptr": 48,
    }  # fmt: skip


def test_signal_handle(bench: Make) -> None:
    device = bench().device
    signal = device.create_signal(5)
    assert AmdSignal.parse(device.memory.read(signal.address, 64)).value == 5
    with pytest.raises(RuleError, match=r"the signal's address is 0x1001, expected a multiple of 64"):
        Signal(device, 0x1001)
    with pytest.raises(AccessFault, match="no memory there"):
        Signal(device, 0x1000)


def test_signal_kinds(bench: Make) -> None:
    device = bench().device
    signal = device.create_signal()
    assert signal.kind == SignalKind.USER == 1
    assert (SignalKind.DOORBELL, SignalKind.LEGACY_DOORBELL) == (-1, -2)
    device.memory.write(signal.address, bytes(64))
    for act in (signal.load, lambda: signal.store(1), signal.increment):
        with pytest.raises(RuleError, match=r"kind is 0, expected 1 \(a user signal\)"):
            act()


def test_signal_load(bench: Make) -> None:
    signal = bench().device.create_signal(-3)
    assert signal.load() == signal.load("rlx") == -3
    with pytest.raises(
        WireError, match="memory order 'screl' is not valid for load of a signal, expected one of rlx, scacq"
    ):
        signal.load("screl")


def test_signal_store(bench: Make) -> None:
    signal = bench().device.create_signal()
    signal.store(-(1 << 63))
    assert signal.load() == -(1 << 63)
    signal.store(7, "rlx")
    assert signal.load() == 7
    with pytest.raises(WireError, match="memory order 'scar' is not valid for store of a signal"):
        signal.store(0, "scar")


@pytest.mark.parametrize(
    ("operation", "value", "after"),
    [
        ("add", 3, 8), ("sub", 7, -2), ("and", 4, 4), ("or", 2, 7), ("xor", 1, 4), ("exch", -1, -1), ("min", -9, -9),
        ("max", 9, 9), ("min", 9, 5), ("max", -9, 5),
    ],
)  # fmt: skip
@pytest.mark.parametrize("order", ["rlx", "scacq", "screl", "scar"])
def test_signal_atomics(bench: Make, operation: str, value: int, after: int, order: str) -> None:
    signal = bench().device.create_signal(5)
    assert signal.rmw(operation, value, order) == 5
    assert signal.load() == after


def test_signal_increment_and_cas(bench: Make) -> None:
    signal = bench().device.create_signal(5)
    assert (signal.increment(), signal.decrement()) == (5, 6)
    assert signal.cas(4, 9) == 5
    assert signal.cas(5, 9) == 5
    assert signal.load() == 9


def test_small_model_value(bench: Make) -> None:
    device = bench(machine_model="small").device
    signal = device.create_signal(5)
    device.memory.write(signal.address + 12, b"\7\0\0\0")
    assert signal.load() == 5
    assert signal.rmw("sub", 6) == 5
    assert signal.load() == -1
    assert signal.record().value == 0x7_FFFF_FFFF
    assert signal.cas(-1, 3) == -1
    assert device.create_signal(-2).record().value == 0xFFFF_FFFE


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (Condition.EQ, {5}), (Condition.NE, {4, 6}), (Condition.LT, {4}), (Condition.GTE, {5, 6}), (Condition.GT, {6}),
        (Condition.LE, {4, 5}),
    ],
)  # fmt: skip
def test_wait_conditions(bench: Make, condition: Condition, holds: set[int]) -> None:
    signal = bench().device.create_signal(5)
    assert {value for value in (4, 5, 6) if condition.holds(value, 5)} == holds
    signal.store(min(holds))
    assert signal.wait(condition, 5) == min(holds)


def test_signal_wait(bench: Make) -> None:
    """Another thread's store wakes a waiting one, which gets the value that did."""
    device = bench(execution="threaded").device
    signal = device.create_signal(1)
    thread = threading.Thread(target=signal.store, args=(-4,))
    thread.start()
    assert signal.wait(Condition.LT, 0) == -4
    thread.join()


def test_wait_timeout(bench: Make) -> None:
    signal = bench().device.create_signal(1)
    assert signal.wait(Condition.EQ, 0, timeout_seconds=0.01) == 1
    with pytest.raises(
        RuleError, match="is 1 and will never be EQ 0: no queue has work left that could change the signal"
    ):
        signal.wait(Condition.EQ, 0)


def test_mailbox(bench: Make) -> None:
    """A changed signal's event: by the host, and by the packet processor."""
    rig = bench(listen=True)
    heard: list[int] = []
    mailbox = rig.device.create_signal().address + 8
    signal = rig.device.create_signal(3, mailbox=mailbox, event_id=0x1234)
    cancel = rig.device.observe_interrupts(heard.append)
    signal.decrement()
    assert int.from_bytes(rig.device.memory.read(mailbox, 8), "little") == 0x1234
    assert heard == [0x34]
    rig.device.memory.write(mailbox, bytes(8))
    rig.queue.submit(dispatch(rig.kernel(), signal=signal))
    assert signal.load() == 1
    assert int.from_bytes(rig.device.memory.read(mailbox, 8), "little") == 0x1234
    assert [event.event_id for event in rig.reported(InterruptSent)] == [0x34, 0x34]
    cancel()
    signal.store(0)
    assert heard == [0x34, 0x34]


def test_mailbox_by_machine_code_agrees(bench: Make) -> None:
    rig = bench()
    heard: list[int] = []
    mailbox = rig.device.create_signal().address + 8
    signal = rig.device.create_signal(8, mailbox=mailbox, event_id=9)
    rig.device.observe_interrupts(heard.append)
    kernel = rig.kernel()
    for _ in range(8):
        rig.queue.submit(dispatch(kernel, signal=signal))
    assert (signal.load(), heard) == (0, [9] * 8)


@pytest.mark.parametrize("agent", ["gfx701", "gfx803", "gfx900"])
def test_sendmsg(bench: Make, agent: str) -> None:
    """A kernel signals as the document's sequence does: value, mailbox, s_sendmsg."""
    rig = bench(agent)
    heard: list[int] = []
    rig.device.observe_interrupts(heard.append)
    kernel = rig.kernel("s_mov_b32 m0, 0x1ab\ns_nop 0\ns_sendmsg 1\ns_endpgm")
    rig.queue.submit(dispatch(kernel))
    assert heard == [0xAB]


def test_signals_from_kernels(bench: Make) -> None:
    """Waves and two host threads add to one value at the same time."""
    rig = bench(execution="threaded")
    signal = rig.device.create_signal(0)
    kernel = rig.kernel(
        """
        v_mov_b32 v0, s0
        v_mov_b32 v1, s1
        v_mov_b32 v2, 1
        v_mov_b32 v3, 0
        s_movk_i32 s4, 0x100
    again:
        flat_atomic_add_x2 v[0:1], v[2:3]
        s_sub_u32 s4, s4, 1
        s_cmp_lg_u32 s4, 0
        s_cbranch_scc1 again
        s_endpgm
        """
    )
    done = rig.device.create_signal(1)
    packet = dispatch(kernel, signal.address + 8, done, workgroup_size_x=64, grid_size_x=64 * 16)

    def add() -> None:
        for _ in range(2000):
            signal.increment()

    threads = [threading.Thread(target=add) for _ in range(2)]
    for thread in threads:
        thread.start()
    rig.queue.submit(packet)
    for thread in threads:
        thread.join()
    done.wait(Condition.EQ, 0)
    assert signal.load() == 4000 + 64 * 16 * 256


def test_doorbell_stores_only(bench: Make) -> None:
    for agent in ("gfx900", "gfx803"):
        doorbell = bench(agent).queue.doorbell
        for act in (doorbell.load, doorbell.decrement, lambda d=doorbell: d.wait(Condition.EQ, 0)):
            with pytest.raises(RuleError, match=r"\(a doorbell\), which can only be stored to"):
                act()
        with pytest.raises(RuleError, match="a doorbell"):
            doorbell.cas(0, 1)


def test_signals_of_waiting_packets(bench: Make) -> None:
    """A host's signal operation lets a barrier go on at once."""
    rig = bench()
    gate, done, _ = rig.device.create_signal(1), rig.device.create_signal(1), COUNT
    rig.queue.submit(barrier(gate, signal=done))
    assert done.load() == 1
    gate.store(0)
    assert done.load() == 0


def test_destroyed_signal(bench: Make) -> None:
    device = bench().device
    signal = device.create_signal(1)
    device.destroy_signal(signal)
    with pytest.raises(RuleError, match="kind is 0"):
        signal.load()
    with pytest.raises(RuleError, match="cannot free"):
        device.destroy_signal(signal)


def test_a_signal_destroyed_right_after_its_decrement(bench: Make) -> None:
    """A host that sees the value may destroy the signal at once: the packet processor does not use it afterwards."""
    rig = bench()
    mailbox, heard = rig.device.create_signal().address + 8, list[int]()
    signal = rig.device.create_signal(1, mailbox=mailbox, event_id=7)
    rig.device.observe_interrupts(heard.append)

    def destroy(event: Event) -> None:
        if isinstance(event, SignalChanged):
            rig.device.destroy_signal(signal)

    rig.device.probes.subscribe(destroy)
    kernel = rig.kernel()
    rig.queue.submit(dispatch(kernel, signal=signal))
    assert (rig.errors, heard) == ([], [7])
    rig.queue.submit(dispatch(kernel, signal=rig.device.create_signal(1)))
    assert (rig.errors, rig.queue.progress.packets) == ([], 2)
