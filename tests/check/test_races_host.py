"""The check of races between kernels of an AMD GPU and the host: what the host has to wait for, and how it may."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from softcard.core.findings import Level
from softcard.device.hsa import host_order
from softcard.device.hsa.queues.packets import PacketType
from softcard.device.hsa.queues.signals import Condition, Signal
from softcard.engine.gcn.races import native_detector
from softcard.engine.gcn.races.watch import RaceWatch
from tests.device.hsa.rig import Bench, barrier, dispatch

ENGINES = ("reference", "jit")
PLACE = """
    s_load_dwordx2 s[2:3], s[0:1], 0x0
    s_waitcnt lgkmcnt(0)
    v_lshlrev_b32 v4, 2, v0
    v_mov_b32 v3, s3
    v_add_co_u32 v2, vcc, s2, v4
    v_addc_co_u32 v3, vcc, 0, v3, vcc
"""
"""v[2:3]: a dword of the work-item's own, of the array that the kernel's argument names."""
STORES = PLACE + "flat_store_dword v[2:3], v0\ns_endpgm"
LOADS = PLACE + "flat_load_dword v5, v[2:3]\ns_waitcnt vmcnt(0)\ns_endpgm"
ADDS = PLACE + "v_mov_b32 v5, 1\nflat_atomic_add v[2:3], v5\ns_endpgm"
POLLS = PLACE + "again:\nflat_load_dword v5, v[2:3] glc\ns_waitcnt vmcnt(0)\nv_cmp_eq_u32 vcc, 0, v5\n"
POLLS += "s_cbranch_vccnz again\ns_endpgm"
LOADS_AND_WAITS = (
    PLACE
    + """
    flat_load_dword v5, v[2:3]
    s_load_dwordx2 s[4:5], s[0:1], 0x8
    s_waitcnt lgkmcnt(0)
    v_mov_b32 v6, s4
    v_mov_b32 v7, s5
again:
    flat_load_dword v8, v[6:7] glc
    s_waitcnt vmcnt(0)
    v_cmp_eq_u32 vcc, 0, v8
    s_cbranch_vccnz again
    s_endpgm
"""
)


class Host(Bench):
    """A device that is checked, an array of 128 dwords, its address as the argument of kernels, and a signal."""

    def __init__(self, engine: str, check: str = "races", **options: Any) -> None:
        super().__init__(engine=engine, check=check, **options)
        self.place = self.device.allocate(512)
        self.args = self.device.allocate(16)
        self.device.memory.write(self.args, struct.pack("<Q", self.place))
        self.done = self.device.create_signal(1)
        self.texts: dict[str, int] = {}

    def packet(self, text: str = STORES, signal: Signal | None = None, items: int = 64, **fields: Any) -> bytes:
        if text not in self.texts:
            self.texts[text] = self.kernel(text, vgprs=12)
        sizes = {"workgroup_size_x": items, "grid_size_x": items}
        return dispatch(self.texts[text], self.args, signal, **sizes, **fields)

    def submit(self, text: str = STORES, **more: Any) -> None:
        self.queue.submit(self.packet(text, **more))

    @property
    def kinds(self) -> list[str]:
        return [each.kind for each in self.device.findings]


WORD = """
    s_load_dwordx2 s[2:3], s[0:1], 0x0
    s_waitcnt lgkmcnt(0)
    v_mov_b32 v2, s2
    v_mov_b32 v3, s3
    flat_store_dword v[2:3], v4
    s_endpgm
"""
"""All lanes store to one dword."""


def began(host: Host) -> None:
    """Wait until the first kernel runs."""
    races = host.device.checks.find(RaceWatch)
    assert races is not None
    end = time.monotonic() + 30
    while not races.launches.present.number:
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.fixture(params=ENGINES)
def host(request: pytest.FixtureRequest) -> Host:
    return Host(request.param)


# ---- what it may not do ----------------------------------------------------------------------------------------------


def test_what_the_host_reads_before_it_has_waited_is_reported_with_both_places(host: Host) -> None:
    host.submit(signal=host.done)
    assert host.device.array(host.place + 8, 4, np.uint32).tolist() == [2, 3, 4, 5]
    (found,) = host.device.findings
    assert (found.name, found.level, found.unit, found.access) == ("races/write-read", Level.ERROR, "the host", "read")
    assert (found.address, found.size, found.space, found.count) == (host.place + 8, 16, "global", 1)
    assert found.message == (
        f"read of 16 bytes at {host.place + 8:#x} in device memory and a write of the same bytes by the host and a "
        "kernel "
        "that it has not waited for, without a happens-before order"
    )
    assert found.other.endswith("(flat_store_dword v[2:3], v0), lane 2, wave 0, work-group 0,0,0")
    assert found.suggestion == "wait for the kernel's completion signal before the host's access"
    host.device.memory.read(host.place, 4)
    host.device.memory.read(host.place, 4)
    assert (len(host.device.findings), host.device.findings[0].count) == (1, 3)


@pytest.mark.parametrize(("text", "touch", "kinds"), [
    (STORES, lambda d, at: d.memory.read(at, 16), ["write-read"]),
    (STORES, lambda d, at: d.view(at, 16), ["write-read"]),
    (STORES, lambda d, at: d.memory.write(at, bytes(16)), ["write-write"]),
    (STORES, lambda d, at: d.free(at), ["write-free"]),
    (LOADS, lambda d, at: d.memory.read(at, 16), []),
    (LOADS, lambda d, at: d.memory.write(at, bytes(16)), ["read-write"]),
    (LOADS, lambda d, at: d.free(at), ["read-free"]),
    (ADDS, lambda d, at: d.memory.read(at, 16), ["atomic-read"]),
    (ADDS, lambda d, at: d.free(at), ["atomic-free"]),
    (STORES, lambda d, at: d.memory.read(at + 256, 16), []),
    (STORES, lambda d, at: d.memory.read(at, 0), []),
])  # fmt: skip
def test_accesses_of_the_host(host: Host, text: str, touch: Callable[[Any, int], Any], kinds: list[str]) -> None:
    """Each, before and behind a wait."""
    host.submit(text, signal=host.done)
    touch(host.device, host.place)
    assert host.kinds == kinds

    other = Host(host.device.settings.engine)
    other.submit(text, signal=other.done)
    other.done.wait(Condition.EQ, 0)
    touch(other.device, other.place)
    assert other.kinds == []


def test_a_mapped_array_is_unmapped_too_early(host: Host) -> None:
    values = np.zeros(64, np.uint32)
    host.place = host.device.map(values)
    host.device.memory.write(host.args, struct.pack("<Q", host.place))
    host.submit(signal=host.done)
    host.device.unmap(host.place)
    assert host.kinds == ["write-free"]


def test_the_segment_of_arguments_is_written_too_early(host: Host) -> None:
    """The commonest: one segment for every launch."""
    for _ in range(3):
        host.device.memory.write(host.args, struct.pack("<Q", host.place))
        host.submit(signal=host.done, barrier=1)
    (found,) = host.device.findings
    assert (found.kind, found.count, found.size) == ("read-write", 2, 8)
    assert "(s_load_dwordx2 s[2:3], s[0:1], 0x0)" in found.other


def test_kernels_are_distinguished_though_later_ones_came_after_them(host: Host) -> None:
    """The second comes after the first; the host has waited for neither, and stores of the second alone are there."""
    host.submit()
    host.submit(LOADS, barrier=1)
    host.device.memory.read(host.place, 4)
    assert host.kinds == ["write-read"]
    host.device.memory.write(host.place, bytes(4))
    assert sorted(host.kinds[1:]) == ["read-write", "write-write"]


# ---- how it may wait -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("look", [
    lambda host: host.done.wait(Condition.LT, 1),
    lambda host: host.done.load("rlx"),
    lambda host: host.done.cas(5, 6),
    lambda host: host.done.increment(),
    lambda host: host.device.signal(host.done.address).load(),
    lambda host: host.device.process(),
    lambda host: host.device.wait_idle(),
    lambda host: host.queue.destroy(),
    lambda host: host.device.close(),
    lambda host: host.device.restore(host.state),
])  # fmt: skip
def test_what_notifies_the_host_that_a_kernel_is_over(host: Host, look: Callable[[Any], Any]) -> None:
    host.state = host.device.snapshot()  # type: ignore[attr-defined]
    host.submit(signal=host.done)
    look(host)
    host.device.memory.read(host.place, 16)
    assert host.kinds == []


def test_stores_to_the_signal_and_the_read_index_report_nothing(host: Host) -> None:
    host.submit(signal=host.done)
    host.done.store(1)
    assert host.queue.load_read_index() == 1
    host.device.memory.read(host.place, 16)
    assert host.kinds == ["write-read"]


@pytest.mark.parametrize(("bit", "kinds"), [(0, ["write-read"]), (1, [])])
def test_a_later_packet_reports_what_it_has_waited_for(host: Host, bit: int, kinds: list[str]) -> None:
    """By its barrier bit; those behind it tell of the same."""
    host.submit()
    host.submit("s_endpgm", barrier=bit)
    host.submit("s_endpgm", signal=host.done)
    host.done.wait(Condition.EQ, 0)
    host.device.memory.read(host.place, 16)
    assert host.kinds == kinds


@pytest.mark.parametrize("kind", [PacketType.BARRIER_AND, PacketType.BARRIER_OR])
def test_a_barrier_packet_reports_kernels_of_other_queues_by_their_signals(host: Host, kind: PacketType) -> None:
    last = host.device.create_signal(1)
    other = host.new_queue()
    other.submit(host.packet(signal=host.done))
    host.queue.submit(barrier(host.done, signal=last, kind=kind))
    last.wait(Condition.EQ, 0)
    host.device.memory.read(host.place, 16)
    assert host.kinds == []


def test_a_barrier_packet_that_waits_for_nothing_reports_nothing(host: Host) -> None:
    host.submit()
    host.queue.submit(barrier(signal=host.done))
    host.done.wait(Condition.EQ, 0)
    host.device.memory.read(host.place, 16)
    assert host.kinds == ["write-read"]


def test_the_end_of_one_kernel_reports_nothing_of_another(host: Host) -> None:
    host.submit()
    host.new_queue().submit(host.packet("s_endpgm", signal=host.done))
    host.done.wait(Condition.EQ, 0)
    host.device.memory.read(host.place, 16)
    assert host.kinds == ["write-read"]


def test_a_kernel_that_fails_is_over(host: Host) -> None:
    host.submit(STORES.replace("s_endpgm", "s_waitcnt 0\nv_mov_b32 v3, 0\nflat_load_dword v5, v[2:3]\ns_endpgm"))
    assert host.queue.error is not None
    host.device.memory.read(host.place, 16)
    assert host.kinds == []


@pytest.mark.parametrize(("size", "kinds"), [(4, []), (8, []), (16, ["atomic-read"])])
def test_an_atomic_of_the_kernel_s_notifies_the_host(host: Host, size: int, kinds: list[str]) -> None:
    host.submit(ADDS)
    host.device.memory.read(host.place, size)
    host.device.memory.read(host.place, 64)
    assert host.kinds[: len(kinds)] == kinds
    assert len(host.kinds) == len(kinds)


def test_a_store_by_one_lane_may_be_an_atomic_one(host: Host) -> None:
    host.submit(items=1)
    host.device.memory.read(host.place, 4)
    assert host.kinds == []


# ---- while kernels run -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_the_host_may_notify_a_kernel_that_polls(engine: str) -> None:
    host = Host(engine, execution="threaded", step_limit=None, time_limit_seconds=60)
    host.submit(POLLS, items=1, signal=host.done)
    began(host)
    host.device.memory.write(host.place + 4, struct.pack("<I", 1))  # the next dword is nobody else's
    host.device.memory.write(host.place, struct.pack("<I", 1))
    host.done.wait(Condition.EQ, 0)
    assert host.kinds == []
    host.device.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_plain_accesses_race_while_the_kernel_runs(engine: str) -> None:
    """The kernel loads its array and then waits for a word of its own, which the host writes at last."""
    host = Host(engine, execution="threaded", step_limit=None, time_limit_seconds=60)
    flag = host.device.allocate(64)
    host.device.memory.write(host.args, struct.pack("<QQ", host.place, flag))
    host.submit(LOADS_AND_WAITS, signal=host.done)
    began(host)
    host.device.memory.write(host.place + 16, bytes(4))
    assert host.kinds == []
    host.device.memory.write(flag, struct.pack("<I", 1))
    host.done.wait(Condition.EQ, 0)
    assert host.kinds == ["read-write"]
    assert host.device.findings[0].address == host.place + 16
    host.device.close()


def test_the_device_s_own_accesses_are_not_the_host_s(host: Host) -> None:
    """An agent dispatch is answered by the host's program, but as a packet: it comes when the kernel is over or not."""
    kept = []

    def answer(packet: Any) -> int:
        kept.append(host.device.memory.read(host.place, 16))
        return 0

    queue = host.new_queue(agent_dispatch=answer, features=3)
    host.submit()
    packet = bytearray(64)
    struct.pack_into("<HH", packet, 0, PacketType.AGENT_DISPATCH | 1 << 8, 0x8000)
    queue.submit(bytes(packet))
    assert len(kept) == 1
    assert host.kinds == []


# ---- what is kept ----------------------------------------------------------------------------------------------------


def test_bytes_that_several_waves_have_touched_are_counted_once(host: Host) -> None:
    both = LOADS.replace("v_lshlrev_b32 v4, 2, v0", "v_and_b32 v4, 31, v0\n    v_lshlrev_b32 v4, 3, v4")
    host.submit(both, items=128)
    host.device.memory.write(host.place, bytes(256))
    (found,) = host.device.findings
    assert (found.address, found.size) == (host.place, 32 * 4)
    assert found.other.endswith("lane 32, wave 0, work-group 0,0,0")


def test_accesses_may_be_large(host: Host) -> None:
    """From page to page of what is remembered, where kernels have touched a few bytes of some."""
    size, places = 5 << 20, (0, 1 << 20, (3 << 20) + 256, (5 << 20) - 256)
    start = host.device.allocate(size)
    segments = [host.device.allocate(16) for _ in places]
    for at, segment in zip(places, segments, strict=True):
        host.device.memory.write(segment, struct.pack("<Q", start + at))
        host.args = segment
        host.submit(signal=host.done)
    host.device.memory.read(start + 256, size - 256)
    (found,) = host.device.findings
    assert (found.address, found.count, found.size) == (start + places[1], 3, 256)


def test_hosts_that_never_wait_do_not_fill_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_detector, "MOST_REMEMBERED", 3)
    host = Host("jit")
    for _ in range(8):
        host.submit(LOADS, barrier=1)
        races = host.device.checks.find(RaceWatch)
        assert races is not None
        assert len(races.native._launches) <= 5
    host.device.memory.write(host.place, bytes(4))
    assert host.kinds == ["read-write"]


def test_different_accesses_during_one_kernel_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_order, "MOST_DEFERRED", 1)
    host = Host("jit", execution="threaded", step_limit=None, time_limit_seconds=60)
    host.submit(POLLS, items=1, signal=host.done)
    began(host)
    for at in range(0, 64, 4):
        host.device.memory.write(host.place + 128 + at, bytes(4))
    host.device.memory.write(host.place, struct.pack("<I", 1))
    host.done.wait(Condition.EQ, 0)
    assert host.kinds == []
    host.device.close()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("text", "is_word"), [(WORD, True), (STORES, False)])
def test_stores_to_one_word(engine: str, text: str, is_word: bool) -> None:
    """Both engines tell a store of all lanes to one word, as to a flag, from a store to an array."""
    host = Host(engine)
    host.submit(text, items=128)
    watch = host.device.checks.find(RaceWatch)
    assert watch is not None
    found = [each for each in watch.unordered("read", host.place, 1) if each.access == "write"]
    assert [each.is_word for each in found] == [is_word]
