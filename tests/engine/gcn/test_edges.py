"""Memory that begins and ends inside a page: reached directly to its last byte, and not one byte further."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from softcard.core.errors import AccessFault
from softcard.core.findings import FindingLog
from softcard.core.space import PAGE_SIZE
from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.hooks import Checks
from softcard.engine.gcn.jit.layout import chunk_lanes
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.races.watch import RaceWatch
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.gcn.tiered.translation import Tier
from softcard.ir import llvm
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.state import FULL
from softcard.isa.gcn.target import target
from tests.engine.gcn.jit.leaving import exits
from tests.engine.gcn.programs import dwords, program
from tests.engine.gcn.rig import DATA

WIDTHS = [lanes for lanes in (4, 8, 16) if lanes <= chunk_lanes(llvm.host_features())]
every_lanes = pytest.mark.parametrize("lanes", WIDTHS)

AT = 0x50_0000
LOOP = """
v_lshlrev_b32_e32 v1, 2, v0 | v_add_u32_e32 v1, {begin:#x}, v1 | v_mov_b32_e32 v2, 0
s_mov_b32 s20, {turns}
s_mov_b32 exec_lo, {exec_lo:#x} | s_mov_b32 exec_hi, {exec_hi:#x}
again:
{body}
s_sub_u32 s20, s20, 1 | s_cmp_lg_u32 s20, 0 | s_cbranch_scc1 again
s_endpgm
"""
BODIES = {
    "near": "global_load_dword v10, v[1:2], off | v_add_u32_e32 v10, v10, v0 | global_store_dword v[1:2], v10, off",
    "flat": "flat_load_dword v10, v[1:2] | v_add_u32_e32 v10, v10, v0 | flat_store_dword v[1:2], v10",
    "backwards": "v_sub_u32_e32 v3, 63, v0 | v_lshlrev_b32_e32 v3, 2, v3 | v_add_u32_e32 v3, {begin:#x}, v3"
    " | v_mov_b32_e32 v4, 0 | global_load_dword v10, v[3:4], off | v_add_u32_e32 v10, 5, v10"
    " | global_store_dword v[3:4], v10, off",
    "bytes": "global_load_ubyte v10, v[1:2], off offset:1 | v_add_u32_e32 v10, v10, v0"
    " | global_store_byte v[1:2], v10, off offset:1",
    "pairs": "v_lshlrev_b32_e32 v3, 3, v0 | v_and_b32_e32 v3, 0xff, v3 | v_add_u32_e32 v3, {begin:#x}, v3"
    " | v_mov_b32_e32 v4, 0 | global_load_dwordx2 v[10:11], v[3:4], off | v_add_u32_e32 v10, 3, v10"
    " | global_store_dwordx2 v[3:4], v[10:11], off",
    "atomic": "global_atomic_add v[1:2], v0, off | global_atomic_umax v[1:2], v0, off",
    "scalar": "s_load_dwordx4 s[8:11], s[4:5], 0x0 | s_waitcnt lgkmcnt(0) | v_mov_b32_e32 v10, s11"
    " | global_store_dword v[1:2], v10, off",
}


@cache
def jit(lanes: int) -> JitEngine:
    """One for all tests of a width."""
    return JitEngine(threads=1, tier=Tier.THREADED, lanes=lanes)


def looped(body: str, lead: int, turns: int, items: int = 64, active: int = FULL) -> tuple[Dispatch, np.ndarray]:
    """A wave that goes `turns` times over dwords that begin `lead` bytes into a page and are all that there is."""
    memory, begin = GpuMemory(), AT + lead
    base = np.random.default_rng(3).integers(0, 256, items * 4 + 4096, np.uint8)
    data = base[(lead - int(base.ctypes.data)) % 64 :][: items * 4]  # aligned as the guest sees it
    memory.map(begin, data, name="data")
    return program(loop(body, begin, turns, active), memory=memory), data


def loop(body: str, begin: int, turns: int, active: int = FULL) -> str:
    """The text of such a wave."""
    halves = {"exec_lo": active & 0xFFFF_FFFF, "exec_hi": active >> 32}
    text = LOOP.format(begin=begin, turns=turns, body=BODIES[body].format(begin=begin), **halves)
    return f"s_mov_b32 s4, {begin:#x} | s_mov_b32 s5, 0\n{text}"


@every_lanes
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("lead", [0, 0x40, PAGE_SIZE - 128])
def test_edges_are_reached_directly(lanes: int, body: str, lead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dispatch, data = looped(body, lead, 50)
    first = data.copy()
    ReferenceEngine().run(dispatch)
    expected, data[:] = data.copy(), first
    with exits(monkeypatch) as found:
        jit(lanes).run(dispatch)
    assert data.tolist() == expected.tolist()
    assert found == []


@every_lanes
@pytest.mark.parametrize("body", ["near", "flat", "bytes", "backwards", "atomic", "pairs"])
@pytest.mark.parametrize("items", [1, 37, 61])
def test_the_first_byte_behind_is_a_fault(lanes: int, body: str, items: int) -> None:
    """Also of lanes of one chunk; lanes that are not active do not count."""
    ends = []
    for run in (ReferenceEngine().run, jit(lanes).run):
        with pytest.raises(AccessFault) as caught:
            run(looped(body, 0x40, 2, items)[0])
        ends.append(str(caught.value))
    assert ends[0] == ends[1]
    assert f"data ends at {AT + 0x40 + 4 * items:#x}" in ends[0]
    if body in ("near", "flat", "atomic"):
        assert f"lane {items}" in ends[0]
        jit(lanes).run(looped(body, 0x40, 2, items, (1 << items) - 1)[0])


@every_lanes
def test_the_last_byte_before_is_a_fault(lanes: int) -> None:
    dispatch, _ = looped("near", 0x40, 1)
    text = f"v_mov_b32_e32 v1, {AT + 0x3C:#x} | v_mov_b32_e32 v2, 0 | global_load_dword v3, v[1:2], off | s_endpgm"
    for run in (ReferenceEngine().run, jit(lanes).run):
        with pytest.raises(AccessFault, match=rf"read of 4 bytes at {AT + 0x3C:#x}: no memory there, data begins at"):
            run(program(text, memory=_without_code(dispatch.memory)))


def _without_code(memory: GpuMemory) -> GpuMemory:
    """What a memory has besides code."""
    made = GpuMemory()
    for each in memory:
        if each.name != "code":
            made.map(each.base, each.bytes, each.writable, each.name)  # type: ignore[union-attr]
    return made


@every_lanes
def test_runs_that_share_a_page(lanes: int) -> None:
    """The lesser run of a page is reached too, by another way; nobody reaches what lies beside his own."""
    memory = GpuMemory()
    parts = [np.full(size, number, np.uint8) for number, size in enumerate((1024, 256, 512), 1)]
    memory.map(AT, parts[0])
    memory.map(AT + 1024 + 64, parts[1])
    memory.map(AT + 2048, parts[2])
    assert memory.row(AT)[1:] == (AT, 1024, 1024)
    text = f"""
    v_lshlrev_b32_e32 v1, 5, v0 | v_add_u32_e32 v1, {AT:#x}, v1 | v_mov_b32_e32 v2, 0
    v_cmp_gt_u32_e32 vcc, {AT + 1024:#x}, v1 | v_mov_b32_e32 v5, {AT + 2048:#x}
    v_and_b32_e32 v6, 0xff, v1 | v_add_u32_e32 v5, v5, v6 | v_cndmask_b32_e32 v1, v5, v1, vcc
    global_load_dword v10, v[1:2], off
    v_mov_b32_e32 v8, 2 | v_mul_lo_u32 v10, v10, v8 | global_store_dword v[1:2], v10, off
    s_endpgm
    """
    found = []
    for run in (ReferenceEngine().run, jit(lanes).run):
        for number, part in enumerate(parts, 1):
            part[:] = number
        own = GpuMemory()
        for each in memory:
            own.map(each.base, each.bytes)  # type: ignore[union-attr]
        run(program(text, memory=own))
        found.append([part.tolist() for part in parts])
    assert found[0] == found[1]
    assert set(found[0][1]) == {2}
    assert 2 in found[0][0]
    assert 6 in found[0][2]


@every_lanes
@pytest.mark.parametrize("skew", [1, 2, 3])
def test_memory_that_the_host_aligns_less(lanes: int, skew: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accesses go on as ever; atomics are the reference engine's."""
    for body in ("near", "atomic", "scalar"):
        memory, base = GpuMemory(), np.zeros(512, np.uint8)
        data = base[-int(base.ctypes.data) % 64 + skew :][:256]
        memory.map(AT, data, name="data")
        with exits(monkeypatch) as found:
            jit(lanes).run(program(loop(body, AT, 3), memory=memory))
        assert data.copy().view(np.uint32).tolist() == [3 * n * (body != "scalar") for n in range(64)]
        assert bool(found) is (body == "atomic")


@every_lanes
def test_read_only_memory_is_read_directly_and_its_stores_fault(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends inside a page, as does the memory that may be written."""
    begin, to = AT + 0x40, AT + PAGE_SIZE + 0x80
    at = "v_lshlrev_b32_e32 v1, 2, v0 | v_add_u32_e32 v1, {:#x}, v1 | v_mov_b32_e32 v2, 0"
    reads = f"{at.format(begin)} | global_load_dword v10, v[1:2], off"
    writes = f"{at.format(to)} | v_add_u32_e32 v10, 1, v10 | global_store_dword v[1:2], v10, off"
    wrong = f"{at.format(begin)} | v_cmp_eq_u32_e32 vcc, 5, v0 | v_mov_b32_e32 v3, {to:#x}"
    wrong += " | v_cndmask_b32_e32 v1, v3, v1, vcc | global_store_dword v[1:2], v0, off"
    constants, data = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    constants.flags.writeable = False
    said = []
    for run in (ReferenceEngine().run, jit(lanes).run):
        data[:] = 0
        memory = GpuMemory()
        memory.map(begin, constants, writable=False, name="constants")
        memory.map(to, data, name="data")
        assert memory.row(begin)[1:] == (begin, 256, 0)
        with exits(monkeypatch) as left:
            run(program(f"{reads} | s_waitcnt vmcnt(0) | {writes} | s_endpgm", memory=memory))
        assert left == []
        assert data.tolist() == [n + 1 for n in range(64)]
        with pytest.raises(AccessFault) as caught:
            run(program(f"{wrong} | s_endpgm", memory=_without_code(memory)))
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert f"write of 4 bytes at {begin + 20:#x}: constants is read-only" in said[0]
    assert "lane 5" in said[0]


def test_data_that_fills_pages_is_as_it_was() -> None:
    memory, data = GpuMemory(), np.zeros(3 * PAGE_SIZE, np.uint8)
    memory.map(DATA, data)
    rows = {memory.row(DATA + page * PAGE_SIZE) for page in range(3)}
    assert len(rows) == 1
    assert memory.row(DATA + 3 * PAGE_SIZE) == memory.row(DATA - 1) == (0, 0, 0, 0)


@pytest.mark.parametrize("tier", [None, Tier.THREADED, Tier.OPTIMISED])
def test_what_a_store_that_faults_has_stored(tier: Tier | None) -> None:
    """All engines name the same lane and pc; from that lane on, and by later instructions, nothing was stored."""
    body = """
    v_lshlrev_b32_e32 v1, 6, v0 | v_add_u32_e32 v1, 0x500000, v1 | v_mov_b32_e32 v2, 0
    v_lshlrev_b32_e32 v5, 2, v0 | v_add_u32_e32 v5, 0x600000, v5 | v_mov_b32_e32 v6, 0
    v_mov_b32_e32 v3, 7 | global_store_dword v[1:2], v3, off | global_store_dword v[5:6], v3, off
    s_endpgm
    """
    short, later = np.zeros(512, np.uint32), np.zeros(64, np.uint32)
    dispatch = program(body)
    memory = dispatch.memory
    memory.map(AT, short, name="short")
    memory.map(0x60_0000, later, name="later")
    engine = ReferenceEngine() if tier is None else JitEngine(threads=1, tier=tier)
    with pytest.raises(AccessFault, match="at lane 32, at pc 0x") as caught:
        engine.run(dispatch)
    assert caught.value.address == AT + short.nbytes
    stored = short[::16]
    assert set(stored.tolist()) <= ({0} if tier is None else {0, 7})
    assert not later.any()


@pytest.mark.parametrize("shift", [1, 2, 3])
@pytest.mark.parametrize("check", ["", "races"])
def test_code_in_memory_that_is_not_aligned_here(shift: int, check: str) -> None:
    """Guest addresses count, not those of this process."""
    text = f"v_mov_b32 v1, 7\nv_mov_b32 v2, 0x{DATA:x}\nv_mov_b32 v3, 0\nflat_store_dword v[2:3], v1\ns_endpgm"
    code = assemble(target("gfx900"), text)
    for engine in (ReferenceEngine(), JitEngine(threads=1), JitEngine(threads=1, tier=Tier.OPTIMISED)):
        dispatch = program(f"s_mov_b32 s0, 0x{0x30_0000:x}\ns_mov_b32 s1, 0\ns_setpc_b64 s[0:1]")
        room = np.zeros(4096 + shift, np.uint8)
        room[shift : shift + len(code)] = np.frombuffer(code, np.uint8)
        dispatch.memory.map(0x30_0000, room[shift:], name="more code")
        if check:
            dispatch = replace(dispatch, checks=Checks(RaceWatch(dispatch.memory, FindingLog([]))))
        engine.run(dispatch)
        assert dwords(dispatch, 1) == [7]
        assert engine.run(dispatch).instructions == 8
