"""The two cache levels by themselves, and what instructions make of memory types."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from softcard.core.errors import AccessFault
from softcard.core.order import Prng
from softcard.core.space import Ram
from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.memory import GpuMemory, MemoryType, Mtype
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.strict.caches import AGENT, LINE, NONE, SYSTEM, Caches, SecondLevel, Store, System, runs
from softcard.engine.gcn.strict.coherence import StrictEngine
from softcard.engine.gcn.strict.findings import Place
from tests.engine.gcn.programs import dwords, program
from tests.engine.gcn.rig import DATA, DATA_BYTES

HERE = Place(0, 0, 0, "s_nop 0")


def memory(mtype: Mtype = Mtype.NC, size: int = 4096) -> GpuMemory:
    made = GpuMemory()
    made.map(DATA, np.zeros(size, np.uint8), type=MemoryType(mtype))
    return made


@pytest.mark.parametrize("bits", [0, 1, 0b1011_0110, (1 << 64) - 1, 1 << 63, 0xF0 << 20])
def test_runs_are_the_stretches_of_ones(bits: int) -> None:
    assert sum((1 << count) - 1 << first for first, count in runs(bits)) == bits
    ends = [(first, first + count) for first, count in runs(bits)]
    assert all(end < start for (_, end), (start, _) in pairwise(ends))


# ---- the second level


def test_stores_stay_until_they_are_written_back() -> None:
    level = SecondLevel(memory())
    level.write(DATA + 62, b"abcd")
    assert level.memory.read(DATA + 60, 8) == bytes(8)
    assert level.read(DATA + 60, 8) == b"\0\0abcd\0\0"
    level.memory.write(DATA + 61, b"xy")  # the host, beside and below
    level.write_back()
    assert level.memory.read(DATA + 60, 8) == b"\0xabcd\0\0"


def test_lines_are_kept_until_they_are_invalidated() -> None:
    level = SecondLevel(memory())
    level.write(DATA, b"a")
    assert level.read(DATA, 2) == b"a\0"
    level.memory.write(DATA + 1, b"z")
    assert level.read(DATA, 2) == b"a\0"
    level.invalidate()
    assert level.read(DATA, 2) == b"az"


@pytest.mark.parametrize("mtype", [Mtype.CC, Mtype.UC])
def test_fine_grained_memory_is_not_kept(mtype: Mtype) -> None:
    level = SecondLevel(memory(mtype))
    level.write(DATA, b"a")
    assert level.memory.read(DATA, 1) == b"a"
    level.memory.write(DATA, b"b")
    assert level.read(DATA, 1) == b"b"
    assert level.lines == {}


def test_passing_a_line_by_writes_it_back() -> None:
    level = SecondLevel(memory())
    level.write(DATA, b"a")
    assert level.read(DATA, 1, uncached=True, keep=False) == b"a"
    assert level.memory.read(DATA, 1) == b"\0"
    assert level.read(DATA, 1, uncached=True) == b"a"
    assert level.memory.read(DATA, 1) == b"a"
    level.write(DATA + 1, b"b", uncached=True)
    assert level.memory.read(DATA, 2) == b"ab"


def test_the_edge_of_memory() -> None:
    """A line that memory ends in."""
    level = SecondLevel(memory(size=100))
    level.write(DATA + 96, b"abcd")
    assert level.read(DATA + 94, 6) == b"\0\0abcd"
    level.write_back()
    assert level.memory.read(DATA + 96, 4) == b"abcd"
    with pytest.raises(AccessFault):
        level.read(DATA + 98, 4)


# ---- all of it


def test_fences() -> None:
    caches = Caches(memory(), 2, 0, System())
    one, two = caches.units
    assert caches.read(two, DATA, 1, False, False)[0] == b"\0"
    caches.issue(Store(1, one, DATA, b"a", HERE))
    assert caches.read(one, DATA, 1, False, False) == (b"a", b"a")
    assert caches.read(two, DATA, 1, False, False) == (b"\0", b"a")
    assert caches.explain(two, DATA, b"\0", b"a", False) == ("late store", HERE)
    caches.release(NONE)
    assert caches.seconds[0].read(DATA, 1) == b"\0"
    caches.release(AGENT)
    assert caches.seconds[0].read(DATA, 1) == b"a"
    assert caches.explain(two, DATA, b"\0", b"a", False) == ("stale line", HERE)
    caches.acquire(NONE)
    assert caches.read(two, DATA, 1, False, False)[0] == b"\0"
    assert [at for at, _ in caches.unseen()] == [DATA]
    caches.acquire(AGENT)
    assert caches.read(two, DATA, 1, False, False)[0] == b"a"
    caches.release(SYSTEM)
    assert caches.memory.read(DATA, 1) == b"a"
    assert list(caches.unseen()) == []


def test_only_what_the_host_would_see_differently_is_unseen() -> None:
    caches = Caches(memory(), 1, 0, System())
    for value in (b"ab", b"\0\0"):
        caches.issue(Store(1, caches.units[0], DATA + 4, value, HERE))
        caches.release(AGENT)
        assert [at - DATA for at, _ in caches.unseen()] == ([4, 5] if value == b"ab" else [])
    assert list(caches.unseen(DATA + LINE, 64)) == []


# ---- instructions


def fenced(dispatch: Dispatch, release: int = AGENT) -> StrictEngine:
    """A run whose stores stay in the second level."""
    engine = StrictEngine(fenced=True)
    engine.acquire(dispatch.memory)
    engine.run(dispatch)
    engine.release(dispatch.memory, release)
    return engine


BUFFER = """
s_mov_b32 s4, {low:#x} | s_mov_b32 s5, 0 | s_mov_b32 s6, 64 | s_mov_b32 s7, {last:#x}
s_mov_b64 exec, 1 | v_mov_b32 v1, 5
buffer_{what} v1, off, s[4:7], 0
s_waitcnt vmcnt(0) | s_endpgm
"""


@pytest.mark.parametrize("what", ["store_dword", "atomic_add"])
@pytest.mark.parametrize("mtype", list(Mtype))
@pytest.mark.parametrize("name", ["gfx700", "gfx803", "gfx900"])
def test_buffers_have_a_memory_type(name: str, mtype: Mtype, what: str) -> None:
    """With CC and UC in its V# a buffer instruction reaches memory; GFX9 has no such field."""
    dispatch = program(BUFFER.format(low=DATA, last=4 << 15 | mtype << 27, what=what), name)
    engine = fenced(dispatch)
    assert dwords(dispatch, 1) == [0 if mtype.is_cached or name == "gfx900" else 5]
    engine.release(dispatch.memory)
    assert dwords(dispatch, 1) == [5]


INVALIDATE = """
v_mov_b32 v2, {low:#x} | v_mov_b32 v3, 0 | s_mov_b64 exec, 1
s_cmp_eq_u32 s0, 1 | s_cbranch_scc1 stores
flat_load_dword v4, v[2:3] | s_waitcnt vmcnt(0) & lgkmcnt(0)
again: | flat_load_dword v5, v[2:3] offset:64 glc | s_waitcnt vmcnt(0) & lgkmcnt(0)
v_readfirstlane_b32 s8, v5 | s_cmp_eq_u32 s8, 0 | s_cbranch_scc1 again
{what}
flat_load_dword v4, v[2:3] | s_waitcnt vmcnt(0) & lgkmcnt(0)
flat_store_dword v[2:3], v4 offset:128 | s_endpgm
stores: | v_mov_b32 v4, 7
{pause}
flat_store_dword v[2:3], v4 | s_waitcnt vmcnt(0) | flat_store_dword v[2:3], v4 offset:64 | s_endpgm
"""


@pytest.mark.parametrize(
    ("mtype", "what", "value"),
    [
        (Mtype.NC, "buffer_wbinvl1_vol", 7),
        (Mtype.NC, "buffer_wbinvl1", 7),
        (Mtype.NC_NV, "buffer_wbinvl1_vol", 0),
        (Mtype.NC_NV, "buffer_wbinvl1", 7),
    ],
)
def test_lines_that_are_not_volatile_outlast_the_weaker_invalidation(mtype: Mtype, what: str, value: int) -> None:
    shared = GpuMemory()
    shared.map(DATA, Ram(DATA_BYTES), type=MemoryType(mtype))
    text = INVALIDATE.format(low=DATA, what=what, pause="s_nop 0 |" * 40)
    dispatch = program(text, memory=shared, groups=[(0, 0, 0), (1, 0, 0)])
    StrictEngine().run(dispatch)
    assert dwords(dispatch, 1, 128) == [value]


def test_scalar_accesses_go_to_the_second_level() -> None:
    text = f"""
    s_mov_b32 s4, {DATA:#x} | s_mov_b32 s5, 0 | s_mov_b32 s6, 9
    s_store_dword s6, s[4:5], 0x0 | s_waitcnt lgkmcnt(0)
    s_load_dword s7, s[4:5], 0x0 | s_waitcnt lgkmcnt(0)
    s_store_dword s7, s[4:5], 0x40 | s_atomic_add s6, s[4:5], 0x40 | s_endpgm
    """
    dispatch = program(text)
    engine = fenced(dispatch)
    assert dwords(dispatch, 1) == [0]
    engine.release(dispatch.memory)
    assert (dwords(dispatch, 1), dwords(dispatch, 1, 0x40)) == ([9], [18])


def test_a_scalar_load_of_an_old_line_is_reported() -> None:
    text = f"s_mov_b32 s4, {DATA:#x} | s_mov_b32 s5, 0 | s_load_dword s6, s[4:5], 0x0 | s_waitcnt lgkmcnt(0) | s_endpgm"
    dispatch = program(text)
    engine = fenced(dispatch)
    dispatch.memory.write(DATA, b"\1")
    engine.acquire(dispatch.memory, AGENT, "packet 1")
    engine.run(dispatch)
    [finding] = engine.findings
    assert finding.kind == "host store"
    assert str(finding).endswith("or another agent; packet 1 acquired at scope agent")
    assert "s_load_dword s6, s[4:5], 0x0" in str(finding)


def test_lds_is_nobody_elses() -> None:
    text = f"""
    v_mov_b32 v0, 0 | v_mov_b32 v1, 3 | ds_write_b32 v0, v1 | ds_add_rtn_u32 v4, v0, v1 | s_waitcnt lgkmcnt(0)
    ds_read_b32 v4, v0 | v_mov_b32 v2, {DATA:#x} | v_mov_b32 v3, 0 | s_waitcnt lgkmcnt(0)
    flat_store_dword v[2:3], v4 | s_endpgm
    """
    dispatch = program(text, size=(1, 1, 1), lds_bytes=64)
    engine = StrictEngine()
    engine.run(dispatch)
    assert dwords(dispatch, 1) == [6]
    assert engine.findings == []


def test_another_memory_has_caches_of_its_own() -> None:
    engine = StrictEngine(fenced=True)
    first, second = memory(), memory()
    assert engine.caches(first) is engine.caches(first)
    assert engine.caches(second).memory is second
    assert engine.caches(second).system.caches == [engine.caches(second)]


# ---- one wave sees its own stores, whatever is on its way

ACCESSES = [
    "flat_load_ubyte v{r}, v[2:3]{glc}",
    "flat_load_dword v{r}, v[2:3]{glc}",
    "flat_load_dwordx2 v[{r}:{s}], v[2:3]{glc}",
    "flat_store_byte v[2:3], v{r}",
    "flat_store_short v[2:3], v{r}",
    "flat_store_dword v[2:3], v{r}",
    "flat_store_dwordx2 v[2:3], v[{r}:{s}]",
    "flat_atomic_add v{r}, v[4:5], v{s} glc",
    "flat_atomic_umax v[4:5], v{r}",
    "buffer_wbinvl1_vol",
    "s_nop 0",
]


def one_wave(seed: int) -> str:
    """Accesses of 64 lanes to a few lines, each waited for where it loads."""
    chance = Prng(seed)
    lines = [
        "v_mov_b32 v3, 0", "v_mov_b32 v5, 0", "v_lshlrev_b32 v6, 3, v0", "v_mov_b32 v7, v0", "v_mov_b32 v8, v0",
        "v_mov_b32 v9, v0",
    ]  # fmt: skip
    for _ in range(40):
        offset = chance.below(200)
        lines.append(f"v_add_u32 v2, {DATA + offset:#x}, v6")
        lines.append(f"v_and_b32 v4, -8, v2 | v_add_u32 v4, {4 * chance.below(2)}, v4")
        r = 7 + chance.below(2)
        line = ACCESSES[chance.below(len(ACCESSES))].format(r=r, s=r + 1, glc=" glc" if chance.below(2) else "")
        lines.append(line)
        if "load" in line or "atomic" in line:
            lines.append("s_waitcnt vmcnt(0) lgkmcnt(0)" if chance.below(2) else "s_waitcnt vmcnt(0) | s_waitcnt 0")
    return " | ".join([*lines, "v_lshlrev_b32 v6, 2, v0", f"v_add_u32 v2, {DATA + 0x800:#x}, v6",
                       "flat_store_dword v[2:3], v8", "s_endpgm"])  # fmt: skip


@pytest.mark.parametrize("mtype", list(Mtype))
@pytest.mark.parametrize("seed", range(6))
def test_one_wave_sees_its_own_stores(mtype: Mtype, seed: int) -> None:
    left = []
    for engine in (ReferenceEngine(), StrictEngine(seed=seed)):
        shared = GpuMemory()
        shared.map(DATA, Ram(DATA_BYTES), type=MemoryType(mtype))
        dispatch = program(one_wave(seed), memory=shared)
        engine.run(dispatch)
        left.append(dwords(dispatch, 0x900 // 4))
    assert left[0] == left[1]
    assert engine.findings == []
