"""Snapshots: what was done after one is done again, byte by byte, and nothing of it is left after a restore."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softcard.core.errors import AccessFault, RuleError
from softcard.core.snapshot import save_ram
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.events import DeviceRestored
from softcard.device.hsa.queues.aql_queue import Queue
from softcard.device.hsa.queues.packets import AgentDispatchPacket
from softcard.device.hsa.queues.records import QueueFeature
from softcard.device.hsa.queues.signals import Condition, Signal
from softcard.engine.gcn.memory import Plain
from tests.device.hsa.rig import COUNT, Bench, barrier, dispatch

Make = Callable[..., Bench]


def contents(device: HsaDevice) -> dict[tuple[int, str], Any]:
    """All that lies in plain memory, without zeros."""
    maps = [each for each in device.memory if isinstance(each, Plain)]
    return {
        (each.base, each.name): bytes(each.bytes) if each.ram is None else save_ram(each.ram) for each in maps
    }  # fmt: skip


def whole(device: HsaDevice) -> tuple[Any, ...]:
    """All that can be seen of a device: memory, queues, clock, what is free."""
    queues = [
        (each.number, each.is_active, each.limit, str(each.error), each.progress.code, each.progress.packets)
        for each in device.queues
    ]  # fmt: skip
    free = device.allocate(64, mtype=device.fine_mtype), device.allocate(8192)
    for address in free:
        device.free(address)
    is_idle = device.settings.threaded or device.is_idle  # a thread looks at packets that wait now and then
    return contents(device), queues, device.time, is_idle, free, list(map(str, device.findings))


# ---- by hand ---------------------------------------------------------------------------------------------------------


def test_memory_clock_and_indices_come_back(bench: Make) -> None:
    rig = bench(profiling=True)
    kernel, (address, words), done = rig.kernel(COUNT), rig.words(), rig.device.create_signal(9)
    for _ in range(3):
        rig.queue.submit(dispatch(kernel, address, done))
    before, state = whole(rig.device), rig.device.snapshot()
    assert state.time == rig.device.time == 18
    for _ in range(4):
        rig.queue.submit(dispatch(kernel, address, done))
    after = whole(rig.device)
    for _ in range(2):
        rig.device.restore(state)
        assert whole(rig.device) == before
        assert (words[0], done.load(), rig.queue.load_read_index(), rig.device.time) == (3, 6, 3, 18)
        for _ in range(4):
            rig.queue.submit(dispatch(kernel, address, done))
        assert whole(rig.device) == after
        assert (words[0], done.load()) == (7, 2)


def test_what_was_made_since_is_destroyed(bench: Make) -> None:
    rig = bench()
    state = rig.device.snapshot()
    queue, signal, block = rig.new_queue(), rig.device.create_signal(1), rig.device.allocate(8192)
    rig.device.restore(state)
    for use in (
        lambda: queue.submit(dispatch(0)),
        lambda: queue.write_packet(0, dispatch(0)),
        lambda: queue.add_write_index(1),
        lambda: queue.cas_write_index(0, 1),
        lambda: queue.store_write_index(1),
        lambda: queue.load_write_index(),
        lambda: queue.record(),
        lambda: queue.destroy(),
    ):
        with pytest.raises(RuleError, match="queue 1 was destroyed"):
            use()
    assert (queue.is_destroyed, queue.is_active, rig.device.queues) == (True, False, (rig.queue,))
    for operation in (signal.load, lambda: signal.store(1), lambda: signal.wait(Condition.EQ, 0), signal.record):
        with pytest.raises(RuleError, match=f"signal at {signal.address:#x} was destroyed"):
            operation()
    with pytest.raises(AccessFault, match="no memory there"):
        rig.device.memory.read(block, 1)
    # Others take their places, and are not mistaken for them.
    again, other = rig.new_queue(), rig.device.create_signal(5)
    assert (other.address, again.number, again.address) == (signal.address, 1, queue.address)
    with pytest.raises(RuleError, match="was destroyed"):
        signal.load()
    assert other.load() == 5


def test_what_was_destroyed_since_comes_back(bench: Make) -> None:
    rig = bench("gfx803")
    kernel, (address, words) = rig.kernel(COUNT), rig.words()
    queue, done = rig.new_queue(), rig.device.create_signal(2)
    queue.submit(dispatch(kernel, address, done))
    state = rig.device.snapshot()
    queue.destroy()
    rig.device.destroy_signal(done)
    rig.device.free(address)
    stranger = rig.new_queue(128)
    rig.device.restore(state)
    assert stranger.is_destroyed
    assert rig.device.queues == (rig.queue, queue)
    queue.submit(dispatch(kernel, address, done))
    assert (words[0], done.load(), queue.load_read_index(), queue.is_destroyed) == (2, 0, 2, False)


def test_states_of_two_branches(bench: Make) -> None:
    rig = bench()
    trunk = rig.device.snapshot()
    left = rig.device.create_signal(1)
    on_left = rig.device.snapshot()
    rig.device.restore(trunk)
    right = rig.device.create_signal(2)
    on_right = rig.device.snapshot()
    assert left.address == right.address
    for _ in range(2):
        rig.device.restore(on_left)
        assert left.load() == 1
        with pytest.raises(RuleError, match="was destroyed"):
            right.load()
        rig.device.restore(on_right)
        assert right.load() == 2
        with pytest.raises(RuleError, match="was destroyed"):
            left.load()


def test_errors_and_waiting_packets_come_back(bench: Make) -> None:
    rig = bench(execution="manual")
    other, kernel, (address, words) = rig.new_queue(), rig.kernel(COUNT), rig.words()
    gate, done = rig.device.create_signal(1), rig.device.create_signal(1)
    rig.queue.submit(dispatch(kernel, 0x10), dispatch(kernel, address))
    other.submit(barrier(gate), dispatch(kernel, address, done))
    rig.device.process()
    error, state = rig.queue.error, rig.device.snapshot()
    assert (error is not None, rig.queue.progress.code, rig.queue.is_active) == (True, 0x2000_0000, False)
    for _ in range(2):
        gate.store(0)
        rig.device.memory.write(rig.queue.packet_address(0) + 40, address.to_bytes(8, "little"))
        rig.queue.inactive_signal.store(0)
        rig.device.process()
        assert (words[0], done.load(), rig.queue.is_active, rig.queue.error) == (3, 0, True, None)
        rig.device.restore(state)
        assert (rig.queue.error, rig.queue.progress.code, rig.queue.is_active) == (error, 0x2000_0000, False)
        assert rig.queue.inactive_signal.load() == 0x2000_0000
        assert (words[0], gate.load(), done.load(), rig.device.is_idle) == (0, 1, 1, True)


def test_arrays_of_the_host(bench: Make) -> None:
    rig = bench()
    kernel = rig.kernel(COUNT)
    kept, dropped, later = (np.zeros(100, np.uint32) for _ in range(3))
    fixed = np.arange(4)
    fixed.flags.writeable = False
    places = [rig.device.map(array) for array in (kept, dropped)]
    readable = rig.device.map(fixed, writable=False)
    rig.queue.submit(*(dispatch(kernel, place) for place in places))
    state = rig.device.snapshot()
    rig.queue.submit(*(dispatch(kernel, place) for place in places))
    rig.device.unmap(places[1])
    dropped[:] = 7
    place = rig.device.map(later)
    rig.queue.submit(dispatch(kernel, place))
    rig.device.restore(state)
    assert (kept[0], dropped[0], later[0]) == (1, 1, 1)
    assert rig.device.memory.read(readable, 8) == bytes(8)
    rig.queue.submit(*(dispatch(kernel, place) for place in places))
    assert (kept[0], dropped[0], later[0]) == (2, 2, 1)
    with pytest.raises(AccessFault, match="no memory there"):
        rig.device.memory.read(place, 4)
    with pytest.raises(RuleError, match="cannot unmap"):
        rig.device.unmap(place)


@pytest.mark.parametrize("options", [{}, {"machine_code": False}, {"engine": "reference"}, {"coherence": "strict"}])
def test_code_that_was_overwritten(bench: Make, options: dict[str, Any]) -> None:
    """No engine runs what it made of code that is not there any more."""
    rig = bench(**options)
    kernel, (address, words) = rig.kernel(COUNT), rig.words()

    def four() -> int:
        before = int(words[0])
        for _ in range(4):
            rig.queue.submit(dispatch(kernel, address))
        return int(words[0]) - before

    assert four() == 4
    ones = rig.device.snapshot()
    rig.device.memory.write(kernel + 256, rig.code(COUNT.replace("v2, 1", "v2, 7")))
    assert four() == 28
    sevens = rig.device.snapshot()
    rig.device.restore(ones)
    assert four() == 4
    rig.device.restore(sevens)
    assert four() == 28
    rig.device.restore(ones)
    assert four() == 4


@pytest.mark.parametrize("machine_code", [True, False])
def test_another_kernel_at_the_same_place(bench: Make, machine_code: bool) -> None:
    rig = bench(machine_code=machine_code)
    address, words = rig.words()
    state = rig.device.snapshot()
    found = []
    for number in (3, 5, 9):
        kernel = rig.kernel(COUNT.replace("v2, 1", f"v2, {number}"))
        for _ in range(4):
            rig.queue.submit(dispatch(kernel, address))
        found.append((kernel, int(words[0])))
        rig.device.restore(state)
    assert found == [(found[0][0], 4 * number) for number in (3, 5, 9)]


def test_private_memory_comes_back(bench: Make) -> None:
    rig = bench()
    enable = ("enable_sgpr_flat_scratch_init", "enable_sgpr_private_segment_size")
    kernel = rig.kernel("s_endpgm", enable=enable, rsrc2=1)
    state = rig.device.snapshot()
    rig.queue.submit(dispatch(kernel, private_segment_size=64))
    block = rig.queue.scratch_block
    assert block
    assert rig.queue.record().compute_tmpring_size
    after = whole(rig.device)
    rig.device.restore(state)
    assert rig.queue.scratch_block == rig.queue.record().compute_tmpring_size == 0
    rig.queue.submit(dispatch(kernel, private_segment_size=64))
    assert rig.queue.scratch_block == block
    assert whole(rig.device) == after


def test_caches_of_a_strict_memory(bench: Make) -> None:
    """What is on its way to memory is so again."""
    rig = bench(coherence="strict")
    kernel, end = rig.kernel(COUNT.replace("flat_atomic_add", "flat_store_dword")), rig.kernel()
    address, _ = rig.words()
    rig.queue.submit(dispatch(kernel, address, acquire_scope=0, release_scope=0))
    state, found = rig.device.snapshot(), []
    for _ in range(3):
        found.append(rig.device.memory.read(address, 4)[0])
        rig.queue.submit(dispatch(end))
        found.append(rig.device.memory.read(address, 4)[0])
        rig.device.restore(state)
    rig.device.reset()
    assert found == [0, 1] * 3


def test_findings_and_watched_addresses(bench: Make) -> None:
    rig = bench()
    rig.device.watch(0x1000, 4)
    state = rig.device.snapshot()
    rig.device.watch(0x2000, 4)
    rig.device.findings.append(None)  # type: ignore[arg-type]
    watched, findings = rig.device.watched, rig.device.findings
    rig.device.restore(state)
    assert (watched, findings) == ([range(0x1000, 0x1004)], [])


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_times_of_many_queues(bench: Make, seed: int | None) -> None:
    """Launches that were kept meanwhile change no order."""
    rig = bench(execution="manual", quantum=3, profiling=True, seed=seed)
    kernel, (address, _), found = rig.kernel(COUNT), rig.words(), []
    queues, signals = [rig.queue, rig.new_queue(), rig.new_queue()], [rig.device.create_signal(1) for _ in range(60)]
    for number, signal in enumerate(signals):
        queues[number % 3].submit(dispatch(kernel, address, signal))
    rig.device.process(5)
    state = rig.device.snapshot()
    for _ in range(3):
        rig.device.process()
        found.append([signal.record().start_ts for signal in signals])
        rig.device.restore(state)
    assert found[0] == found[1] == found[2]


def test_who_listens_hears_of_it(bench: Make) -> None:
    rig = bench(listen=True)
    rig.queue.submit(dispatch(rig.kernel()))
    state = rig.device.snapshot()
    rig.queue.submit(dispatch(rig.kernel()))
    rig.device.restore(state)
    rig.device.reset()
    assert [event.time for event in rig.reported(DeviceRestored)] == [2, 0]


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_order_of_queues(bench: Make, seed: int | None) -> None:
    """The same queues follow, with as many packets, in turns and drawn."""
    rig = bench(seed=seed, execution="manual", listen=True, quantum=3)
    queues = [rig.queue, rig.new_queue(), rig.new_queue()]
    kernel = rig.kernel()
    for queue in queues:
        queue.submit(*[dispatch(kernel)] * 20)
    rig.device.process(11)
    state = rig.device.snapshot()
    reported = []
    for _ in range(2):
        rig.events.clear()
        rig.device.process()
        reported.append(list(map(str, rig.events)))
        rig.device.restore(state)
    assert reported[0] == reported[1]
    assert len(reported[0]) > 49


# ---- refusals --------------------------------------------------------------------------------------------------------


def test_states_of_another_device() -> None:
    with HsaDevice() as one, HsaDevice() as other:
        state = other.snapshot()
        with pytest.raises(
            RuleError, match="cannot restore the snapshot of another device, expected one that snapshot"
        ):
            one.restore(state)


@pytest.mark.parametrize("what", ["snapshot", "restore", "reset"])
def test_not_while_a_packet_is_processed(bench: Make, what: str) -> None:
    rig = bench()
    state, said = rig.device.snapshot(), []

    def called(packet: AgentDispatchPacket) -> int:
        act = {"snapshot": rig.device.snapshot, "restore": lambda: rig.device.restore(state), "reset": rig.device.reset}
        with pytest.raises(RuleError, match="is not possible in a callback while a packet is processed") as error:
            act[what]()
        said.append(error.value)
        return 0

    queue = rig.new_queue(features=QueueFeature.AGENT_DISPATCH, agent_dispatch=called)
    queue.submit(AgentDispatchPacket().pack())
    assert len(said) == 1
    assert rig.errors == []


def test_a_snapshot_waits_for_the_packets_that_run(bench: Make) -> None:
    """Taken while another thread processes packets, it holds whole packets only."""
    rig = bench(execution="threaded")
    kernel, (address, words), done = rig.kernel(COUNT), rig.words(), rig.device.create_signal(600)
    states, stop = [], threading.Event()

    def take() -> None:
        while not stop.is_set() or not states:
            states.append((rig.device.snapshot(), rig.queue.limit))

    other = threading.Thread(target=take)
    other.start()
    for _ in range(600):
        rig.queue.submit(dispatch(kernel, address, done))
    done.wait(Condition.EQ, 0)
    stop.set()
    other.join()
    for state, _ in (states[0], states[len(states) // 2], states[-1]):
        rig.device.restore(state)
        done.wait(Condition.EQ, 600 - rig.queue.limit)
        assert rig.device.wait_idle(20)
        assert words[0] == rig.queue.load_read_index() == 600 - done.load() == rig.queue.limit
        assert rig.device.time == 6 * words[0]


# ---- reset -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["gfx701", "gfx900"])
def test_reset(bench: Make, agent: str) -> None:
    rig, fresh = bench(agent, seed=4), HsaDevice(agent, threads=1, seed=4)
    old, signal, array = rig.queue, rig.device.create_signal(3), np.zeros(4)
    place = rig.device.map(array)
    rig.queue.submit(dispatch(rig.kernel(), private_segment_size=4), dispatch(0))
    rig.device.watch(0, 4)
    rig.device.reset()
    assert whole(rig.device) == whole(fresh)
    assert rig.device.queues == ()
    assert rig.device.watched == []
    for use in (lambda: old.submit(dispatch(0)), signal.load, lambda: rig.device.unmap(place)):
        with pytest.raises(RuleError, match=r"was destroyed|no mapping begins"):
            use()
    assert [device.create_queue(64).address for device in (rig.device, fresh)] == [old.address] * 2
    assert whole(rig.device) == whole(fresh)
    fresh.close()


# ---- anything --------------------------------------------------------------------------------------------------------


@dataclass
class RacingAccess:
    """A bench with several queues, and things that can be done to it, told by numbers."""

    rig: Bench
    kernels: list[int]
    queues: list[Queue]
    signals: list[Signal]
    words: int

    def fork(self) -> RacingAccess:
        return RacingAccess(self.rig, self.kernels, list(self.queues), list(self.signals), self.words)

    def do(self, what: str, number: int, other: int) -> None:
        queue = self.queues[number % len(self.queues)]
        signal, device = self.signals[other % len(self.signals)], self.rig.device
        if what == "count":
            packet = dispatch(self.kernels[other % 2], self.words + number % 16 * 4, signal, grid_size_x=other % 3 + 1)
            self.submit(queue, packet, count=number % 4 + 1)
        elif what == "private":
            self.submit(queue, dispatch(self.kernels[2], self.words, signal, private_segment_size=other % 3 * 64))
        elif what == "fault":
            self.submit(queue, dispatch(self.kernels[0], 0x10 * (number % 2), signal, dimensions=other % 2))
        elif what == "wait":
            self.submit(queue, barrier(signal))
        elif what == "signal":
            signal.store(number % 2)
        elif what == "resume":
            index = queue.load_read_index()
            if queue.error is not None:
                device.memory.write(queue.packet_address(index), dispatch(self.kernels[0], self.words))
                queue.inactive_signal.store(0)
        elif what == "code":
            code = COUNT.replace("v2, 1", f"v2, {number % 5}")
            device.memory.write(self.kernels[other % 2] + 256, self.rig.code(code))
        elif what == "create":
            self.queues.append(self.rig.new_queue())
            self.signals.append(device.create_signal(number))
        elif what == "destroy" and len(self.queues) > 1:
            self.queues.remove(queue)
            queue.destroy()
        assert device.wait_idle(20) or not device.settings.threaded

    def submit(self, queue: Queue, packet: bytes, count: int = 1) -> None:
        if queue.add_write_index(0) + count - queue.load_read_index() <= queue.size:
            queue.submit(*[packet] * count)


def racing_access(**options: Any) -> RacingAccess:
    rig = Bench(size=32, **options)
    enable = ("enable_sgpr_flat_scratch_init", "enable_sgpr_private_segment_size")
    kernels = [rig.kernel(COUNT), rig.kernel(COUNT), rig.kernel("s_endpgm", enable=enable, rsrc2=1)]
    queues = [rig.queue, rig.new_queue(32), rig.new_queue(32)]
    return RacingAccess(rig, kernels, queues, [rig.device.create_signal(n) for n in (0, 1, 50)], rig.words()[0])


WHAT = st.sampled_from(
    ["count", "count", "count", "private", "fault", "wait", "signal", "resume", "code", "create", "destroy"]
)
KINDS = ({}, {"machine_code": False}, {"engine": "reference"}, {"coherence": "strict"}, {"machine_model": "small"})
THINGS = st.lists(st.tuples(WHAT, st.integers(0, 99), st.integers(0, 99)), max_size=12)


def repeat(options: dict[str, Any], before: list[Any], after: list[Any]) -> None:
    """Do `before`, then `after` three times from the same state, once with another restore in the middle."""
    one = racing_access(**options)
    device = one.rig.device
    try:
        for each in before:
            one.do(*each)
        at, state = whole(device), device.snapshot()
        found = []
        for _ in range(3):
            fork = one.fork()
            for each in after:
                fork.do(*each)
            found.append((whole(device), [signal.load() for signal in fork.signals]))
            device.restore(state)
            assert whole(device) == at
        assert found[0] == found[1] == found[2]
    finally:
        device.close()


@settings(max_examples=40, deadline=None)
@given(
    before=THINGS,
    after=THINGS,
    agent=st.sampled_from(["gfx701", "gfx803", "gfx900"]),
    seed=st.sampled_from([None, 1, 2]),
    execution=st.sampled_from(["synchronous", "manual"]),
    kind=st.sampled_from(KINDS),
)
def test_any_sequence_is_repeated(before: list[Any], after: list[Any], kind: dict[str, Any], **options: Any) -> None:
    repeat({"profiling": True, **kind, **options}, before, after)


@settings(max_examples=15, deadline=None)
@given(before=THINGS, after=THINGS, agent=st.sampled_from(["gfx803", "gfx900"]))
def test_any_sequence_is_repeated_by_a_thread(before: list[Any], after: list[Any], agent: str) -> None:
    repeat({"agent": agent, "execution": "threaded"}, before, after)
