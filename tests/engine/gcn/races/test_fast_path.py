"""Machine code looks at accesses itself behind the first ones, and finds what the reference engine finds."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from softcard.core.findings import Finding, FindingLog
from softcard.core.space import Ram
from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.hooks import Checks
from softcard.engine.gcn.races import native_detector
from softcard.engine.gcn.races.layout import GLOBAL, LEAST, PAGE_BITS, ROWS, STORED
from softcard.engine.gcn.races.native_cells import block_at, page_of, write
from softcard.engine.gcn.races.native_merge import Merge
from softcard.engine.gcn.races.tables import CELLS, Tables
from softcard.engine.gcn.races.watch import RaceWatch
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.ir.native import U64
from tests.engine.gcn.programs import program

pytestmark = pytest.mark.slow(seconds=0.2)
SIZE = 0x2_4000
START = (4 << PAGE_BITS) - SIZE // 2
"""Of memory that lies in two pages of cells, and in four of their blocks."""
BASE = f"s_mov_b32 s4, {START:#x}|s_mov_b32 s5, 0|s_mov_b32 m0, -1|v_mov_b32 v2, 3|"
BASE += "v_mov_b32 v5, 0|v_readfirstlane_b32 s8, v0|v_and_b32 v0, 63, v0|"
SCATTER = "v_mul_u32_u24 v3, 37, v0|v_and_b32 v3, 63, v3|"
GATHER = f"v_lshlrev_b32 v3, 11, v0|v_min_u32 v3, {SIZE - 16:#x}, v3|v_add_u32 v4, s4, v3|"
"""v[4:5]: dwords from all over it."""
WIDE = SCATTER + "v_lshlrev_b32 v3, {}, v3|s_barrier|{}|s_waitcnt lgkmcnt(0)|s_barrier|{}"
ROUNDS = "s_mov_b32 s20, {}|again:|{}|s_waitcnt vmcnt(0) lgkmcnt(0)|s_sub_u32 s20, s20, 1|s_cmp_lg_u32 s20, 0|"
ROUNDS += "s_cbranch_scc1 again|"


def launch(text: str, **options: Any) -> Dispatch:
    made = program(BASE + text + "|s_endpgm", lds_bytes=1024, **options)
    made.memory.map(START, Ram(SIZE))
    return made


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Which functions that can look at everything were called."""
    address, seen, kept = native_detector.NATIVES.address, list[str](), {}

    def watched(name: str, count: int) -> int:
        kind = ctypes.CFUNCTYPE(*[ctypes.c_uint64] * (count + 1))
        original = kind(address(name))

        def look(*given: int) -> int:
            seen.append(name)
            return int(original(*given))

        kept[name] = kind(look)
        return ctypes.cast(kept[name], ctypes.c_void_p).value or 0

    places = {"check_vector": watched("check_vector", 11), "check_scalar": watched("check_scalar", 5)}
    monkeypatch.setattr(native_detector.NATIVES, "address", lambda name: places.get(name) or address(name))
    yield seen
    kept.clear()  # not before


@pytest.mark.parametrize(("body", "each"), [
    (GATHER + "global_load_dword v6, v[4:5], off", 0),
    (GATHER + "global_load_ubyte v6, v[4:5], off", 0),
    ("v_lshlrev_b32 v3, 2, v0|v_add_u32 v4, s4, v3|global_store_dword v[4:5], v0, off offset:4", 1),
    ("v_add_u32 v4, s4, v0|global_store_byte v[4:5], v0, off", 1),
    ("ds_write_b8 v0, v0|" + SCATTER + "s_waitcnt lgkmcnt(0)|s_barrier|ds_read_u8 v6, v3|"
    "s_waitcnt lgkmcnt(0)|s_barrier", 0),
    ("s_load_dword s24, s[4:5], 0x3c|s_load_dwordx8 s[24:31], s[4:5], 0x20|s_load_dwordx16 s[24:39], s[4:5], 0x40|"
     "s_waitcnt lgkmcnt(0)|s_barrier", 1),
    (WIDE.format(3, "ds_write_b64 v3, v[10:11]", "ds_read_b64 v[10:11], v3"), 0),
    (WIDE.format(4, "ds_write_b128 v3, v[10:13]", "ds_read_b128 v[10:13], v3"), 0),
    (GATHER + "v_and_b32 v4, -16, v4|global_load_dwordx4 v[10:13], v[4:5], off", 0),
], ids=["pages", "bytes of pages", "dwords side by side", "bytes side by side", "bytes of LDS", "scalars",
        "2 dwords of LDS", "4 dwords of LDS", "4 dwords of pages"])  # fmt: skip
def test_the_first_looks_are_enough(body: str, each: int, looks: list[str]) -> None:
    """Elsewhere than in LDS, stores are begun there `each` time, and so is the scalar load behind a barrier."""
    counts = []
    for rounds in (4, 8):
        made, reported = launch(ROUNDS.format(rounds, body), size=(64, 1, 1)), list[Finding]()
        watch = RaceWatch(made.memory, FindingLog(reported))
        watch.begin()
        looks.clear()
        JitEngine(threads=1).run(replace(made, checks=Checks(watch)))
        assert reported == []
        counts.append(len(looks))
    assert counts[1] - counts[0] == 4 * each < counts[0]


LOADS = ROUNDS.format(3, GATHER + "global_load_dword v6, v[4:5], off|global_load_ubyte v7, v[4:5], off offset:5")
NEAR = ROUNDS.format(3, "v_lshlrev_b32 v3, 2, v0|v_add_u32 v4, s4, v3|global_load_dword v6, v[4:5], off offset:8")
BYTES = ROUNDS.format(3, "v_add_u32 v4, s4, v0|{} v[4:5], v2, off").format
LOCAL = ROUNDS.format(3, SCATTER + "ds_read_u8 v6, v3")
CLOSE = ROUNDS.format(3, SCATTER + "v_lshlrev_b32 v3, 2, v3|v_add_u32 v4, s4, v3|global_load_dword v6, v[4:5], off")
SCALARS = ROUNDS.format(3, "s_load_dwordx2 s[24:25], s[4:5], 0x8|s_load_dwordx16 s[24:39], s[4:5], 0x2000|s_barrier")
PLACES = (8, 0x2000, 0xF000, 0x12000, 0x1F800)
"""Dwords that the loads meet."""


def one(place: int, insn: str) -> str:
    return f"v_mov_b32 v4, {START + place:#x}|{insn} v[4:5], v2, off|"


@pytest.mark.parametrize("insn", ["global_store_dword", "global_store_byte", "global_atomic_add"])
@pytest.mark.parametrize("loads", [LOADS, NEAR, CLOSE, SCALARS], ids=["anywhere", "near", "close", "scalars"])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_store_among_loads(insn: str, loads: str, is_first: bool) -> None:
    """By another wave, before them or behind them, in each page."""
    stores = "".join(one(place, insn) for place in PLACES)
    reported = findings(waves(*((stores, loads) if is_first else (loads, stores))), size=(128, 1, 1))
    assert reported


@pytest.mark.parametrize(
    ("shift", "store", "offset"), [(2, "dword", 0x1FC0), (2, "dword", 0x1F84), (0, "byte", 0x1FF0)]
)
def test_stores_that_go_on_in_another_block(shift: int, store: str, offset: int) -> None:
    """It begins 0x2000 bytes behind the start; the first lanes are before it, and the others need no look at all."""
    stores = f"v_lshlrev_b32 v3, {shift}, v0|s_add_u32 s4, s4, {offset:#x}|v_add_u32 v4, s4, v3|"
    stores += f"global_store_{store} v[4:5], v2, off|"
    assert findings(waves(stores, "s_add_u32 s4, s4, 0x2000|" + CLOSE), size=(128, 1, 1))


def test_one_line_that_is_stored() -> None:
    line = "s_mov_b64 exec, 0xffff|v_lshlrev_b32 v3, 2, v0|v_add_u32 v4, s4, v3|global_store_dword v[4:5], v2, off|"
    assert findings(waves(line, CLOSE), size=(128, 1, 1))


def test_blocks_of_two_tables_are_put_together() -> None:
    code, job, room = LEAST + 4, Merge(), np.zeros(2 * ROWS, np.uint64)
    into, other = Tables(CELLS[-1:]), Tables(CELLS[-1:])
    page = page_of(other.race, START, GLOBAL)
    write(other.race, page, START, 1, STORED, code)
    U64[block_at(page, START)] = code
    job.into, job.other = ctypes.addressof(into.race), ctypes.addressof(other.race)
    job.mine, job.theirs, job.watermark = room.ctypes.data, room.ctypes.data + 8 * ROWS, LEAST
    for writes, expected in ((0, 0), (1, code)):
        job.writes = writes
        assert native_detector.function("merge")(ctypes.addressof(job)) == 0
        assert U64[block_at(page_of(into.race, START, GLOBAL), START)] == expected
    native_detector.function("forget")(ctypes.addressof(into.race))
    assert U64[block_at(page_of(into.race, START, GLOBAL), START)] == 0


@pytest.mark.parametrize("first", [BYTES("global_store_byte"), LOADS])
@pytest.mark.parametrize("second", [BYTES("global_store_byte"), one(0, "global_store_dword"), NEAR, LOADS])
def test_bytes_side_by_side(first: str, second: str) -> None:
    reported = findings(waves(first.replace("v2", "v0"), second.replace("again", "more")), size=(128, 1, 1))
    assert bool(reported) == ("store" in first + second)


@pytest.mark.parametrize("second", ["ds_write_b8 v0, v2", "ds_write_b32 v0, v2", "v_mov_b32 v3, 40|ds_write_b8 v3, v2"])
def test_bytes_of_lds(second: str) -> None:
    """Two waves load them, and one stores them behind that, without a barrier."""
    begin = "ds_write_b8 v0, v0|s_waitcnt lgkmcnt(0)|s_barrier|" + LOCAL
    alone = "v_and_b32 v0, 0x3c, v0|s_cmp_eq_u32 s8, 0|s_cbranch_scc1 on|"
    assert findings(begin + alone + second + "|on:", size=(128, 1, 1))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("width", [64, 96, 128])
@pytest.mark.parametrize("first", ["read", "write"])
@pytest.mark.parametrize(
    "second", ["read_b32 v16", "read_b64 v[16:17]", "read_b128 v[16:19]", "write_b32", "write_b64"]
)
@pytest.mark.parametrize("shift", [0, 4, 8])
def test_several_dwords_of_lds(width: int, first: str, second: str, shift: int) -> None:
    """A wave accesses places of its own again and again; then another one accesses some of them without a barrier."""
    registers = f"v[10:{9 + width // 32}]"
    own = f"v_lshlrev_b32 v3, 4, v0|v_add_u32 v3, {shift}, v3|"
    access = f"ds_read_b{width} {registers}, v3" if first == "read" else f"ds_write_b{width} v3, {registers}"
    other = f"ds_{second}, v3" if "read" in second else f"ds_{second} v3, {'v[16:17]' if '64' in second else 'v16'}"
    rounds = ROUNDS.format(4, access)
    few = "s_mov_b64 exec, 0x0f0f0|v_lshlrev_b32 v3, 4, v0|v_add_u32 v3, 8, v3|" + ROUNDS.format(3, other)
    few += "".join(f"v_xor_b32 v6, v{n}, v6|" for n in range(16, 20))
    reported = findings("v_mov_b32 v16, 5|" + waves(own + rounds, few), size=(128, 1, 1))
    size = int(second.split("_b")[1].split()[0]) // 8
    mine = {16 * lane + shift + n for lane in range(64) for n in range(width // 8)}
    meets = bool(mine & {16 * lane + 8 + n for lane in range(4, 8) for n in range(size)})
    if not second.startswith(first):
        assert bool(reported) == meets
    elif first == "read":
        assert not reported


@pytest.mark.parametrize(("before", "behind", "more"), [
    ("", "", 6), ("", "global_load_ubyte v6, v[4:5], off|", 6),
    ("s_barrier|global_load_dword v6, v[4:5], off offset:1024|", "", 3),
], ids=["alone", "bytes", "barriers"])  # fmt: skip
@pytest.mark.parametrize("offset", [8, 0x3C])
@pytest.mark.parametrize("storing", [0, 64, 192])
def test_scalars_of_waves_and_groups(storing: int, offset: int, before: str, behind: str, more: int) -> None:
    """Waves take turns to load the same, the first two maybe more often, and one stores to it in the end."""
    rounds = f"s_mov_b32 s20, 3|s_cmp_lg_u32 s8, 64|s_cbranch_scc1 not1|s_mov_b32 s20, {more - more // 6}|not1:|"
    rounds += f"s_cmp_lg_u32 s8, 0|s_cbranch_scc1 not0|s_mov_b32 s20, {more}|not0:|v_add_u32 v4, s4, v0|again:|{before}"
    loads = f"s_load_dwordx2 s[24:25], s[4:5], {offset:#x}|s_waitcnt lgkmcnt(0)|{behind}s_sleep 1|"
    loads += "s_sub_u32 s20, s20, 1|s_cmp_lg_u32 s20, 0|s_cbranch_scc1 again|"
    ends = f"s_cmp_lg_u32 s8, {storing}|s_cbranch_scc1 on|" + one(offset + 4, "global_store_dword") + "on:"
    assert findings(rounds + loads + ends, size=(256, 1, 1), groups=[(0, 0, 0), (1, 0, 0)])


def waves(first: str, second: str) -> str:
    """Return code in which the first wave executes `first` and the other wave `second`.

    At the end, both waves use the values that they loaded last."""
    use = "v_xor_b32 v6, v6, v7|v_cmp_eq_u32 vcc, s24, v6|s_cbranch_vccz end|"
    first, second = first + use, second.replace("again", "more") + use
    return f"s_cmp_lg_u32 s8, 0|s_cbranch_scc1 other|{first}s_endpgm|other:|{second}end:"


def findings(text: str, **options: Any) -> list[dict[str, Any]]:
    """What both engines tell of three launches, each behind the one before."""
    found = []
    for engine in (ReferenceEngine(), JitEngine(threads=1)):
        made, reported = launch(text, **options), list[Finding]()
        watch = RaceWatch(made.memory, FindingLog(reported))
        for _ in range(3):
            watch.begin()
            engine.run(replace(made, checks=Checks(watch)))
        found.append([each.as_dict() for each in reported])
    assert found[0] == found[1]
    return found[0]
