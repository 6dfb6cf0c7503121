"""Loads from places all over memory: at its edges, across mappings, with lanes that fault or are not active."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from softcard.core.errors import SoftcardError
from softcard.core.space import PAGE_SIZE, Ram
from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.jit.layout import chunk_lanes
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.gcn.tiered.translation import Tier
from softcard.ir import llvm
from tests.engine.gcn.programs import program
from tests.engine.gcn.rig import DATA

WIDTHS = [lanes for lanes in (4, 8, 16) if lanes <= chunk_lanes(llvm.host_features())]
PLACES, RESULTS = DATA + 0x4000, DATA + 0x8000
"""Where lanes find their addresses, 64 for each round, and leave what they have loaded."""
LOW, HIGH = 0x50_0000, 0x50_0000 + 2 * PAGE_SIZE
"""Two runs of memory side by side in guest memory, but not in host memory."""
ODD, ODD_BYTES = 0x70_0403, 0x0FFA
"""Memory that begins and ends inside a dword."""
SMALL, SMALL_BYTES = 0x80_0000, 40
"""Memory smaller than a chunk of dwords."""
LDS_BYTES = 1022
SIZES = {"ubyte": 1, "sbyte": 1, "ushort": 2, "sshort": 2, "dword": 4, "dwordx2": 8, "dwordx4": 16}
LDS_SIZES = {"u8": 1, "i8": 1, "u16": 2, "i16": 2, "b32": 4, "b64": 8, "b128": 16}
EVERY = (1 << 64) - 1
MASKS = (EVERY, 0x1234_0000_7F0F_0F0E, 0x8000_0000_0001_0000, 0)

every_lanes = pytest.mark.parametrize("lanes", WIDTHS)
every_tier = pytest.mark.parametrize("tier", [Tier.THREADED, Tier.OPTIMISED], ids=["first", "optimised"])
every_width = pytest.mark.parametrize("width", SIZES)
every_family = pytest.mark.parametrize("family", ["global", "flat", "buffer"])


@cache
def jit(lanes: int, tier: Tier) -> JitEngine:
    """One for all tests."""
    return JitEngine(threads=1, tier=tier, lanes=lanes)


def gathering(load: str, count: int, rounds: int, mask: int, first: str = "") -> str:
    """A program whose lanes, round for round, fetch an address into v1 and do `load`, which gives v10 and so on."""
    return f"""
    {first}
    s_mov_b32 s4, 0
    v_mov_b32_e32 v2, 0
    v_mov_b32_e32 v4, 0
    v_mov_b32_e32 v9, 0
    again:
    v_lshlrev_b32_e32 v3, 2, v0
    v_add_u32_e32 v3, s4, v3
    v_add_u32_e32 v8, {RESULTS:#x}, v3
    v_add_u32_e32 v3, {PLACES:#x}, v3
    global_load_dword v1, v[3:4], off
    {"|".join(f"v_mul_u32_u24_e32 v{10 + n}, 0x{n + 1}0305, v0" for n in range(count))}
    s_waitcnt vmcnt(0)
    s_mov_b32 exec_lo, {mask & 0xFFFF_FFFF:#x}
    s_mov_b32 exec_hi, {mask >> 32:#x}
    {load}
    s_mov_b64 exec, -1
    s_waitcnt vmcnt(0)
    {"|".join(f"global_store_dword v[8:9], v{10 + n}, off offset:{1024 * n}" for n in range(count))}
    s_add_u32 s4, s4, 0x100
    s_cmp_lt_u32 s4, {256 * rounds}
    s_cbranch_scc1 again
    s_endpgm
    """


def loading(family: str, width: str, rounds: int, mask: int) -> str:
    """The same from memory; buffers begin at 0 and end where memory does."""
    count = max(SIZES[width] // 4, 1)
    to = f"v[10:{9 + count}]" if count > 1 else "v10"
    if family != "buffer":
        return gathering(f"{family}_load_{width} {to}, v[1:2]{', off' * (family == 'global')}", count, rounds, mask)
    setup = "s_mov_b32 s8, 0 | s_mov_b32 s9, 0 | s_mov_b32 s10, -1 | s_mov_b32 s11, 0x27000"
    return gathering(f"buffer_load_{width} {to}, v1, s[8:11], 0 offen", count, rounds, mask, setup)


def world(text: str, places: np.ndarray) -> Dispatch:
    """A dispatch in memory with edges, of lanes that find these places."""
    dispatch = program(text, lds_bytes=LDS_BYTES)
    memory, chance = dispatch.memory, np.random.default_rng(1)
    low, high = Ram(2 * PAGE_SIZE), Ram(2 * PAGE_SIZE)
    odd, small = np.zeros(ODD_BYTES, np.uint8), np.zeros(SMALL_BYTES, np.uint8)
    for address, what in ((LOW, low), (HIGH, high), (ODD, odd), (SMALL, small)):
        memory.map(address, what)
    data = memory.plain(DATA, 1)
    assert data is not None
    for array in (np.frombuffer(low.view, np.uint8), np.frombuffer(high.view, np.uint8), odd, small, data.bytes):
        array[:] = chance.integers(0, 256, len(array), dtype=np.uint8)
    memory.write(PLACES, places.astype(np.uint32).tobytes())
    return dispatch


def outcome(text: str, places: np.ndarray, engine: ReferenceEngine | JitEngine) -> tuple[str, bytes]:
    """How it ended, which tells the lane and the instruction of a fault, and what it left behind."""
    dispatch, error = world(text, places), ""
    try:
        engine.run(dispatch)
    except SoftcardError as fault:
        error = str(fault)
    return error, dispatch.memory.read(RESULTS, 0x4000)


@cache
def referenced(text: str, places: bytes) -> tuple[str, bytes]:
    """The reference's outcome, which all widths and tiers are held to."""
    return outcome(text, np.frombuffer(places, np.int64), ReferenceEngine())


def same(text: str, places: np.ndarray, lanes: int, tier: Tier, lane: int | None = None) -> None:
    """The reference's outcome is the JIT's: a fault in `lane`, where there is one."""
    expected = referenced(text, places.astype(np.int64).tobytes())
    assert ("" if lane is None else f", at lane {lane}, at pc") in expected[0]
    assert bool(expected[0]) is (lane is not None)
    assert outcome(text, places, jit(lanes, tier)) == expected


def anywhere(seed: int, first: int, size: int, rounds: int = 4) -> np.ndarray:
    """Addresses from `first` on of accesses that end within `size` bytes, the first and last byte among them."""
    places = first + np.random.default_rng(seed).integers(0, size, 64 * rounds)
    places[::29], places[5::31] = first, first + size - 1
    return places


@pytest.mark.one_in(5)
@every_lanes
@every_tier
@every_width
@every_family
def test_all_over_memory(lanes: int, tier: Tier, width: str, family: str) -> None:
    """At all alignments, in runs of memory of all kinds: one after the other, then at once."""
    size = SIZES[width]
    runs = [(LOW, 2 * PAGE_SIZE), (LOW, 4 * PAGE_SIZE), (HIGH, 2 * PAGE_SIZE)]
    if family != "buffer":  # whose dwords lie at multiples of 4
        runs += [(ODD, ODD_BYTES), (SMALL, SMALL_BYTES)]
    places = np.concatenate([anywhere(n, first, room - size + 1, 2) for n, (first, room) in enumerate(runs)])
    places = np.concatenate([places, places[:: len(runs)]])
    for mask in MASKS:
        same(loading(family, width, len(places) // 64, mask), places, lanes, tier)


@pytest.mark.one_in(5)
@every_lanes
@every_tier
@pytest.mark.parametrize("width", LDS_SIZES)
def test_all_over_lds(lanes: int, tier: Tier, width: str) -> None:
    """Whose last halfword is no dword; what lies beyond its end reads 0."""
    size = LDS_SIZES[width]
    fill = "".join(
        f"v_mul_u32_u24_e32 v1, 0x{n}50301, v0 | v_lshlrev_b32_e32 v3, 2, v0 | ds_write_b32 v3, v1 offset:{256 * n} |"
        for n in range(1, 4)
    )
    fill += "v_lshlrev_b32_e32 v3, 1, v0 | ds_write_b16 v3, v0 offset:894 | v_mov_b32_e32 v1, 0x1234567"
    fill += "| ds_write_b32 v3, v1 | ds_write_b32 v3, v0 offset:128"
    count = max(size // 4, 1)
    to = f"v[10:{9 + count}]" if count > 1 else "v10"
    inside, across = anywhere(1, 0, LDS_BYTES - size + 1), anywhere(2, LDS_BYTES - 70, 80)
    places = np.concatenate([inside, across, anywhere(3, (1 << 32) - 40, 40, 1), inside])
    for mask in MASKS:
        text = gathering(f"ds_read_{width} {to}, v1 | s_waitcnt lgkmcnt(0)", count, len(places) // 64, mask, fill)
        same(text, places, lanes, tier)


@pytest.mark.one_in(5)
@every_lanes
@every_tier
@every_width
@pytest.mark.parametrize("family", ["global", "flat"])
@pytest.mark.parametrize("lane", [0, 16, 31, 63])
def test_one_lane_beyond(lanes: int, tier: Tier, width: str, family: str, lane: int) -> None:
    """Just past the end, just before the beginning, and nowhere near: it is the lane at fault, unless not active."""
    size = SIZES[width]
    ends = [(ODD, ODD_BYTES), (LOW, 4 * PAGE_SIZE), (SMALL, SMALL_BYTES)]
    bad = [first + room - size + 1 for first, room in ends] + [first - 1 for first, _ in ends] + [0x1000]
    for number, place in enumerate(bad):
        first, room = ends[number % len(ends)]
        places = anywhere(number, first, room - size + 1, 2)
        places[64 + lane] = place
        places[64 + lane + 1 : 128 : 7] = place  # later lanes are not who is told of
        same(loading(family, width, 2, EVERY), places, lanes, tier, lane)
    places = anywhere(9, ODD, ODD_BYTES - size + 1, 2)
    places[64 + lane] = 0x1000
    same(loading(family, width, 2, EVERY - (1 << lane)), places, lanes, tier)
