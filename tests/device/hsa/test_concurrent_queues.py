"""Packets of other queues in the time of a kernel that waits for what they do."""

from __future__ import annotations

import re
from typing import Final

import pytest

from softcard.core.errors import AccessFault, BeyondModel
from softcard.core.limits import TimeLimit
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.queues.aql_queue import Queue
from tests.device.hsa.rig import COUNT, Bench, barrier, dispatch

WAIT: Final = """
again:
    s_load_dword s6, s[0:1], 0 glc
    s_waitcnt lgkmcnt(0)
    s_cmp_lt_u32 s6, 300
    s_cbranch_scc1 again
    v_mov_b32 v0, s0
    v_mov_b32 v1, s1
    v_mov_b32 v2, 7
    flat_store_dword v[0:1], v2 offset:4
    s_endpgm
"""
"""Until 300 was counted there."""
WILD: Final = "v_mov_b32 v0, 0x10000\nv_mov_b32 v1, 0\nflat_store_dword v[0:1], v2\ns_endpgm"
WAYS: Final = [("jit", 1), ("jit", 2), ("reference", 1)]


class Waiting:
    """A kernel that waits, and a second queue; the first time that anybody looks, packets come there."""

    def __init__(self, engine: str = "jit", threads: int = 1, groups: int = 1, seed: int | None = None) -> None:
        self.rig = rig = Bench(execution="manual")
        self.device = rig.device = HsaDevice(
            "gfx900", execution="manual", engine=engine, threads=threads, step_limit=None, seed=seed,
            time_limit_seconds=0.3 if threads == 1 else 60,
        )  # fmt: skip
        self.first = rig.new_queue()
        self.device.poll_during_kernels(self.look)
        self.other = rig.new_queue(256)
        self.address, self.words = rig.words()
        self.done = self.device.create_signal(1)
        self.after = self.device.create_signal(1)
        self.packets = [dispatch(rig.kernel(COUNT), self.address, workgroup_size_x=1, grid_size_x=3)] * 100
        self.looks = 0
        kernel = rig.kernel(WAIT)
        self.first.submit(dispatch(kernel, self.address, self.done, workgroup_size_x=1, grid_size_x=groups))

    def look(self) -> None:
        self.looks += 1
        packets, self.packets = self.packets[:50], self.packets[50:]
        for each in packets:
            self.other.submit(each)


@pytest.mark.parametrize(("engine", "threads"), WAYS)
def test_a_kernel_waits_for_those_of_another_queue(engine: str, threads: int) -> None:
    """All threads wait, as there are as many groups."""
    there = Waiting(engine, threads, groups=threads)
    assert there.device.process() == 1
    assert (there.words[0], there.words[1], there.done.load()) == (300, 7, 0)
    assert there.other.load_read_index() == 100
    assert there.looks >= 2
    there.device.close()


FIRST: Final = """
    v_readfirstlane_b32 s9, v0
    s_mov_b32 s8, 1
next:
    s_cmp_lg_u32 s9, 0
    s_cbranch_scc1 meet
again:
    s_load_dword s6, s[0:1], 0 glc
    s_waitcnt lgkmcnt(0)
    s_cmp_lt_u32 s6, s8
    s_cbranch_scc1 again
    v_mov_b32 v0, s0
    v_mov_b32 v1, s1
    s_add_u32 s10, s8, 1
    v_mov_b32 v2, s10
    flat_store_dword v[0:1], v2
meet:
    s_barrier
    s_add_u32 s8, s8, 2
    s_cmp_lt_u32 s8, 7
    s_cbranch_scc1 next
"""
"""Waits for 1, 3 and 5, and makes them 2, 4 and 6."""
SECOND: Final = """
    s_mov_b32 s8, 1
    v_mov_b32 v0, s0
    v_mov_b32 v1, s1
again:
    v_mov_b32 v2, s8
    flat_store_dword v[0:1], v2
wait:
    s_load_dword s6, s[0:1], 0 glc
    s_waitcnt lgkmcnt(0)
    s_cmp_le_u32 s6, s8
    s_cbranch_scc1 wait
    s_add_u32 s8, s8, 2
    s_cmp_lt_u32 s8, 6
    s_cbranch_scc1 again
    v_mov_b32 v2, 9
    flat_store_dword v[0:1], v2 offset:8
    s_endpgm
"""
"""Makes it 1, 3 and 5, and waits for 2, 4 and 6."""


def in_turns(engine: str, last: str) -> tuple[Queue, Queue, list[int]]:
    """A kernel of two waves and one that begins in its time, each of which waits for the other; what is there then."""
    rig = Bench(execution="manual")
    device = rig.device = HsaDevice(
        "gfx900", execution="manual", engine=engine, threads=1, step_limit=None, time_limit_seconds=30
    )
    first, second = rig.new_queue(), rig.new_queue()
    address, words = rig.words()
    packets = [dispatch(rig.kernel(SECOND), address, workgroup_size_x=1, grid_size_x=1)]
    device.poll_during_kernels(lambda: second.submit(packets.pop()) if packets else None)
    first.submit(dispatch(rig.kernel(FIRST + last), address, workgroup_size_x=128, grid_size_x=128))
    device.process()
    seen = [int(each) for each in words[:3]]
    device.close()
    return first, second, seen


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_kernels_wait_for_each_other(engine: str) -> None:
    first, second, seen = in_turns(engine, "s_endpgm")
    assert (first.error, second.error, seen) == (None, None, [6, 0, 9])


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_a_kernel_fails_in_the_time_of_a_later_one(engine: str) -> None:
    first, second, seen = in_turns(engine, WILD)
    assert (second.error, seen) == (None, [6, 0, 9])
    assert isinstance(first.error, AccessFault)
    assert re.search(r"at pc 0x[0-9a-f]+ \(flat_store_dword.*at wave 0, .*at queue 0", str(first.error))


def test_what_waits_for_the_kernel_comes_behind_it() -> None:
    there = Waiting(seed=5)
    there.packets.append(barrier(there.done, signal=there.after))
    there.device.process()
    assert (there.words[1], there.after.load(), there.device.is_idle) == (7, 0, True)


def test_an_error_is_that_of_its_own_queue() -> None:
    """The kernel below goes on, and ends by its limit, as nothing counts for it any more."""
    there = Waiting()
    there.packets = [dispatch(there.rig.kernel(WILD))]
    there.device.process()
    assert isinstance(there.other.error, AccessFault)
    assert "at queue 1" in str(there.other.error)
    assert isinstance(there.first.error, TimeLimit)
    assert (there.words[1], there.done.load()) == (0, 1)


def test_the_time_of_others_counts_against_no_limit() -> None:
    """Two kernels that may each take that long; the one below goes on when the other was ended."""
    there = Waiting()
    spin = dispatch(there.rig.kernel("again: s_branch again"))
    there.packets = [*there.packets[:99], spin]
    there.device.process()
    assert isinstance(there.other.error, TimeLimit)
    assert isinstance(there.first.error, TimeLimit)
    assert there.words[0] == 297
    assert there.looks > 4


def test_a_strict_memory_has_none() -> None:
    device = HsaDevice(coherence="strict")
    with pytest.raises(BeyondModel, match="concurrent kernels are not supported with coherence 'strict'"):
        device.poll_during_kernels(lambda: None)
