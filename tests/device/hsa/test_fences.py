"""coherence="strict": what the fences of packets do, and what comes of fences that are too weak."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from softcard.device.hsa.events import Incoherent
from softcard.device.hsa.queues.packets import FenceScope
from softcard.device.hsa.queues.signals import Condition
from softcard.host.hsa.gpu import Gpu, demo_code
from tests.device.hsa.rig import Bench, barrier, dispatch

NONE, AGENT, SYSTEM = FenceScope.NONE, FenceScope.AGENT, FenceScope.SYSTEM

LOAD = """
v_mov_b32 v0, s0
v_mov_b32 v1, s1
global_load_dword v2, v[0:1], off
s_waitcnt vmcnt(0)
global_store_dword v[0:1], v2, off offset:1024
s_endpgm
"""
"""Copies the first dword to the 257th."""
STORE = """
v_mov_b32 v0, s0
v_mov_b32 v1, s1
v_mov_b32 v2, 7
s_cmp_eq_u32 s2, 0
s_cbranch_scc1 ends
global_store_dword v[0:1], v2, off
ends:
s_endpgm
"""
"""Work-group 1, which is on the other compute unit, stores 7."""


class Strict(Bench):
    """A strict device with words of some memory, and both kernels."""

    def __init__(self, agent: str = "gfx900", mtype: str | None = None, host: bool = False, **options: object) -> None:
        super().__init__(agent, coherence="strict", listen=True, **options)
        self.place = self.device.allocate(4096, mtype=mtype, host=host)
        self.seen = self.device.array(self.place, 1024, np.uint32)
        self.kernels = {text: self.kernel(text, rsrc2=1 << 7) for text in (LOAD, STORE)}

    def packet(self, text: str, acquire: int = SYSTEM, release: int = SYSTEM) -> None:
        """Launch a kernel and wait for it."""
        done, groups = self.device.create_signal(1), 1 if text is LOAD else 2
        scopes = {"acquire_scope": acquire, "release_scope": release}
        kernel = self.kernels[text]
        self.queue.submit(dispatch(kernel, self.place, done, grid_size_x=groups, workgroup_size_x=1, **scopes))
        done.wait(Condition.EQ, 0)
        assert not self.errors

    @property
    def reports_of(self) -> list[str]:
        """The findings so far."""
        found = [str(each) for each in self.device.findings]
        assert [str(event) for event in self.reported(Incoherent)] == found
        return found


# ---- release


def test_a_system_scope_release_brings_stores_to_the_host() -> None:
    rig = Strict()
    rig.packet(STORE)
    assert rig.seen[0] == 7
    assert rig.reports_of == []


@pytest.mark.parametrize("scope", [NONE, AGENT])
def test_without_it_the_host_sees_old_data(scope: FenceScope) -> None:
    rig = Strict()
    rig.packet(STORE, release=scope)
    assert rig.seen[0] == 0
    [found] = rig.reports_of
    assert found.startswith("the host's wait for signal 0x")
    caches = f"stores to address {rig.place:#x} are still in the agent's caches"
    assert f" ended while {caches}: queue 0 packet 0 work-group 1 wave 0 pc 0x" in found
    assert "(global_store_dword v[0:1], v2, off)" in found
    assert found.endswith(f"; queue 0 packet 0 released at scope {scope.name.lower()}")


@pytest.mark.parametrize("scope", [SYSTEM, 3])
def test_fence_scopes(scope: int) -> None:
    """A later packet's release writes back what earlier ones left; scope 3 counts as system."""
    rig = Strict()
    rig.packet(STORE, release=AGENT)
    assert rig.seen[0] == 0
    data = bytearray(barrier())
    data[1] |= scope << 3
    rig.queue.submit(bytes(data))
    assert rig.seen[0] == 7
    assert len(rig.reports_of) == 1


def test_only_stored_bytes_are_written_back() -> None:
    """What the host stored beside them in the same line is kept."""
    rig = Strict()
    rig.packet(STORE, release=AGENT)
    rig.seen[1] = 9
    rig.packet(LOAD)
    assert rig.seen[[0, 1, 256]].tolist() == [7, 9, 7]


def test_asking_for_memory_that_is_not_released_is_reported() -> None:
    rig = Strict()
    kernel = rig.kernels[STORE]
    packet = dispatch(kernel, rig.place, grid_size_x=2, workgroup_size_x=1, release_scope=AGENT)
    rig.queue.submit(packet)
    assert rig.reports_of == []
    rig.device.array(rig.place + 64, 4)
    assert rig.reports_of == []
    rig.device.array(rig.place, 16)
    [found] = rig.reports_of
    assert found.startswith(
        f"the host asked for 16 bytes at {rig.place:#x} while stores to address {rig.place:#x} are still in "
    )
    assert found.endswith("no packet has had a release fence at scope system since")


# ---- acquire


def test_a_system_scope_acquire_sees_the_hosts_stores() -> None:
    rig = Strict()
    rig.packet(LOAD)
    rig.seen[0] = 5
    rig.packet(LOAD)
    assert rig.seen[256] == 5
    assert rig.reports_of == []


@pytest.mark.parametrize("scope", [NONE, AGENT])
def test_without_it_a_kernel_sees_old_data(scope: FenceScope) -> None:
    rig = Strict()
    rig.packet(LOAD)
    rig.seen[0] = 5
    rig.packet(LOAD, acquire=scope)
    assert rig.seen[256] == 0
    [found] = rig.reports_of
    assert found.startswith("queue 0 packet 1 work-group 0 wave 0 pc 0x")
    assert "(global_load_dword v2, v[0:1], off) read a stale line of the second-level cache" in found
    assert "which was stored to since: the host, or another agent" in found
    assert found.endswith(f"; queue 0 packet 1 acquired at scope {scope.name.lower()}")


# ---- between packets of one agent


def test_agent_scope_is_enough_between_packets_of_an_agent() -> None:
    rig = Strict()
    rig.packet(LOAD)
    kernel = rig.kernels[STORE]
    rig.queue.submit(dispatch(kernel, rig.place, grid_size_x=2, workgroup_size_x=1, acquire_scope=1, release_scope=1))
    rig.packet(LOAD, acquire=AGENT)
    assert rig.seen[256] == 7
    assert rig.reports_of == []


def test_without_an_acquire_the_compute_units_line_is_old() -> None:
    rig = Strict()
    rig.packet(LOAD)
    rig.packet(STORE, acquire=NONE)
    rig.packet(LOAD, acquire=NONE)
    assert rig.seen[256] == 0
    [found] = rig.reports_of
    assert found.startswith("queue 0 packet 2 ")
    assert "read a stale cache line at address 0x" in found
    assert "which was stored to since: queue 0 packet 1 work-group 1 wave 0 pc" in found
    assert found.endswith("; queue 0 packet 2 acquired at scope none")


def test_without_a_release_a_store_may_still_be_on_its_way() -> None:
    values = set()
    for seed in range(8):
        rig = Strict(seed=seed)
        kernel = rig.kernels[STORE]
        rig.queue.submit(dispatch(kernel, rig.place, grid_size_x=2, workgroup_size_x=1, release_scope=0))
        rig.packet(LOAD)
        values.add(int(rig.seen[256]))
        if not rig.seen[256]:
            found = rig.reports_of[-1]
            assert "before a store that was not waited for: queue 0 packet 0 work-group 1" in found
            assert found.endswith("; queue 0 packet 0 released at scope none")
    assert 0 in values


# ---- memory types


@pytest.mark.parametrize("agent", ["gfx900", "gfx801"])
def test_fine_grained_memory_needs_no_system_scope(agent: str) -> None:
    rig = Bench(agent, coherence="strict")
    place = rig.device.allocate(4096, mtype=rig.device.fine_mtype)
    words = rig.device.array(place, 1024, np.uint32)
    add = rig.kernel("v_mov_b32 v0, s0\nv_mov_b32 v1, s1\nflat_load_dword v2, v[0:1]\ns_waitcnt vmcnt(0) & lgkmcnt(0)\n"
                     "flat_atomic_add v[0:1], v2\ns_endpgm")  # fmt: skip
    for value in (3, 5):
        words[0] = value
        rig.queue.submit(dispatch(add, place, acquire_scope=1, release_scope=1))
        assert words[0] == 2 * value
    assert rig.device.findings == []


def test_without_a_release_fine_grained_stores_come_too_late_for_the_signal() -> None:
    """They come all the same, as doorbells have to."""
    rig = Strict(mtype="uc")
    rig.packet(STORE, release=NONE)
    assert rig.seen[0] == 7
    [found] = rig.reports_of
    assert f"stores to address {rig.place:#x} are still in" in found
    assert found.endswith("; queue 0 packet 0 released at scope none")


def test_kernarg_and_signals_are_fine_grained() -> None:
    """What the host puts there is seen with fences at agent scope."""
    with Gpu.open("gfx900", coherence="strict") as gpu:
        x, y = gpu.array(np.arange(64, dtype=np.float32)), gpu.zeros(64)
        kernel = gpu.load(demo_code("gfx900")).kernel("saxpy")
        for factor in (1.0, 2.0):
            gpu.dispatch(kernel, 64, args=[factor, x, y], acquire=AGENT, release=SYSTEM).wait()
        assert (y == 3 * x).all()
        assert gpu.device.findings == []


def test_a_launch_without_a_system_scope_release_is_reported() -> None:
    with Gpu.open("gfx900", coherence="strict") as gpu:
        x, y = gpu.array(np.ones(64, dtype=np.float32)), gpu.zeros(64)
        kernel = gpu.load(demo_code("gfx900")).kernel("saxpy")
        gpu.dispatch(kernel, 64, args=[2.0, x, y], release=AGENT).wait()
        assert (y == 0).all()
        assert [finding.kind for finding in gpu.device.findings] == ["not released"]


@pytest.mark.parametrize(("agent", "mtype", "seen"), [("gfx803", 1, 0), ("gfx803", 3, 7), ("gfx701", 2, 7)])
def test_buffer_mtype(agent: str, mtype: int, seen: int) -> None:
    """A V# with MTYPE CC or UC passes the second level by; NC leaves it to the fences."""
    rig = Bench(agent, coherence="strict")
    place, words = rig.words()
    text = f"""
    s_mov_b32 s4, s0
    s_mov_b32 s5, s1
    s_mov_b32 s6, -1
    s_mov_b32 s7, {4 << 15 | mtype << 27:#x}
    v_mov_b32 v1, 7
    buffer_store_dword v1, off, s[4:7], 0
    s_endpgm
    """
    rig.queue.submit(dispatch(rig.kernel(text), place, release_scope=AGENT))
    assert not rig.errors
    assert words[0] == seen


# ---- what else touches caches


def whole_page(value: int) -> npt.NDArray[np.uint32]:
    """A page of words: it is mapped without a lead, so the next one gets the addresses that it had."""
    pages = np.zeros(2 * 4096, np.uint8)
    words = pages[-int(pages.ctypes.data) % 4096 :][:4096].view(np.uint32)
    words[:] = value
    return words


def test_unmapped_memory_is_forgotten() -> None:
    rig = Strict()
    first, second = whole_page(0), whole_page(5)
    rig.place = rig.device.map(first)
    rig.packet(STORE, release=AGENT)
    rig.device.unmap(rig.place)
    before, rig.place = rig.place, rig.device.map(second)
    assert before == rig.place
    rig.packet(LOAD, acquire=NONE)
    assert (first == 0).all()
    assert second[[0, 256]].tolist() == [5, 5]


def test_caches_come_back_with_a_snapshot() -> None:
    rig = Strict()
    rig.packet(STORE, release=AGENT)
    state = rig.device.snapshot()
    for _ in range(2):
        rig.queue.submit(dispatch(rig.kernels[LOAD], rig.place, acquire_scope=2, release_scope=2))
        assert rig.seen[[0, 256]].tolist() == [7, 7]
        rig.device.restore(state)
        assert rig.seen[[0, 256]].tolist() == [0, 0]


def test_kernels_with_exceptions_see_all_that_was_stored() -> None:
    """They run on an engine without caches."""
    rig = Strict()
    rig.packet(STORE, release=AGENT)
    kernel = rig.kernel(LOAD, rsrc2=1 << 24)
    rig.queue.submit(dispatch(kernel, rig.place))
    assert rig.seen[[0, 256]].tolist() == [7, 7]


def test_a_threaded_device_reports_too() -> None:
    rig = Strict(execution="threaded")
    rig.packet(STORE, release=AGENT)
    assert len(rig.reports_of) == 1
    rig.device.close()


@pytest.mark.parametrize(("release", "seen"), [(AGENT, 0), (SYSTEM, 7)])
def test_two_agents_share_an_array(release: FenceScope, seen: int) -> None:
    """Each has caches of its own; packets with system scope hand memory over."""
    array = np.zeros(1024, np.uint32)
    sender, receiver = Strict(), Strict("gfx906")
    for rig in (sender, receiver):
        rig.place = rig.device.map(array)
        rig.packet(LOAD)
    sender.packet(STORE, release=release)
    receiver.packet(LOAD)
    assert array[256] == seen
    assert len(sender.reports_of) == (release is AGENT)
    assert receiver.reports_of == []
