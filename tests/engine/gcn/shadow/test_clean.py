"""Code that takes registers for unmarked. Where it meets marks, code that follows them goes on; nothing is missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from softcard.core.findings import Finding, FindingLog
from softcard.engine.gcn.hooks import Checks
from softcard.engine.gcn.jit.region import CHECKED_LIMIT, Region
from softcard.engine.gcn.races.watch import RaceWatch
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.shadow.check import EngineShadow
from softcard.engine.gcn.shadow.device_shadow import KINDS, DeviceShadow
from softcard.engine.gcn.shadow.uses import QUOTA
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.gcn.tiered.translation import Tier
from softcard.engine.gcn.tiered.translator import Translator
from tests.engine.gcn.programs import _words as words
from tests.engine.gcn.programs import program
from tests.engine.gcn.rig import CODE, DATA, DATA_BYTES

START = "s_mov_b32 s4, 0x200000 | s_mov_b32 s5, 0 | v_mov_b32 v5, 0 | v_lshlrev_b32 v3, 2, v0 | v_add_u32 v4, s4, v3 | "
"""v[4:5]: the address of a lane's dword of data."""
DECIDE = " | v_cmp_gt_u32 vcc, 5, {} | s_and_b64 exec, exec, vcc | s_endpgm"
LOOP = (
    START
    + "v_mov_b32 v9, 0 | s_mov_b32 s20, 4 | again: s_lshl_b32 s21, s20, 8 | v_add_u32 v6, s21, v4 | v_mov_b32 v7, 0"
    " | flat_load_dword v8, v[6:7] | s_waitcnt vmcnt(0) lgkmcnt(0) | v_add_u32 v9, v9, v8 | s_sub_u32 s20, s20, 1"
    " | s_cmp_lg_u32 s20, 0 | s_cbranch_scc1 again | flat_store_dword v[4:5], v9 offset:2048"
)
"""Each time round another row of 256 bytes is read: numbers 4, 3, 2, 1."""
LOAD = START + "flat_load_dword v8, v[4:5] | s_waitcnt vmcnt(0) lgkmcnt(0)"
JUMP = " | s_mov_b32 s10, {:#x} | s_mov_b32 s11, 0 | s_setpc_b64 s[10:11] | "
"""16 bytes."""


@dataclass
class Run:
    """What both engines have seen, how much code has met marks, and how many instructions were interpreted."""

    counts: list[int]
    met: int
    interpreted: int


def both(
    text: str,
    shadowed: Sequence[tuple[int, int]] = (),
    rough: Sequence[tuple[int, int]] = (),
    races: bool = False,
    threads: int = 1,
    **options: Any,
) -> Run:
    """Run a program on both engines, twice; they see the same.

    Data is undefined (`shadowed`) or approximate (`rough`) in some places, by offset and size.
    """
    seen, engine = list[Any](), JitEngine(threads=threads, tier=Tier.OPTIMISED)
    for each in (ReferenceEngine(), engine):
        dispatch = program(text, **options)
        device_shadow = DeviceShadow(dispatch.memory, KINDS)
        for at, size in shadowed:
            device_shadow.undefined(DATA + at, size)
        for at, size in rough:
            device_shadow.shadow_memories[1].follow(dispatch.memory)
            device_shadow.shadow_memories[1].set_shadow(DATA + at, size)
        watch = RaceWatch(dispatch.memory, FindingLog(list[Finding]())) if races else None
        ready, found = (
            replace(dispatch, checks=Checks(EngineShadow(device_shadow), *([watch] if watch else []))),
            list[Any](),
        )
        for _ in range(2):
            if watch is not None:
                watch.begin()
            statistics = each.run(ready)
            shadow_memories = [shadow_memory.read(DATA, DATA_BYTES) for shadow_memory in device_shadow.shadow_memories]
            found.append((device_shadow.uses.counts(), shadow_memories, dispatch.memory.read(DATA, DATA_BYTES)))
        seen.append(found)
    assert seen[0] == seen[1]
    code = engine.code(dispatch.target, dispatch.memory, ready.checks.instrumentation)
    engine.close()
    return Run(sorted(seen[0][-1][0].values()), len(code._replaced), statistics.interpreted)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[str]]:
    """What kinds code takes registers for unmarked of, as it is made."""
    from softcard.engine.gcn.jit.emit.emit_region import RegionEmitter

    made, begin = list[frozenset[str]](), RegionEmitter.__init__

    def noted(self: Any, *given: Any) -> None:
        made.append(given[4])
        begin(self, *given)

    monkeypatch.setattr(RegionEmitter, "__init__", noted)
    return made


def test_nothing_is_met_where_nothing_is_undefined() -> None:
    found = both(LOOP + DECIDE.format("v9"), size=(100, 1, 1), groups=[(0, 0, 0), (1, 0, 0)])
    assert found == Run([], 0, 0)


@pytest.mark.slow
def test_shadow_bits_are_met_in_the_middle_of_a_loop() -> None:
    """By the first wave that does; later ones follow marks from the start."""
    groups = [(n, 0, 0) for n in range(200)]
    found = both(LOOP + DECIDE.format("v9"), [(2 * 256 + 40, 20)], groups=groups)
    assert (found.counts, found.met) == ([2 * 5 * 200], 1)
    assert found.interpreted <= 3 * QUOTA


@pytest.mark.parametrize("lane", [0, 15, 16, 40, 63])
def test_shadow_bits_are_met_in_one_lane(lane: int) -> None:
    """In whichever chunk it is; what other lanes have is not marked."""
    found = both(LOAD + " | v_add_u32 v9, v8, v0" + DECIDE.format("v9"), [(4 * lane + 1, 1)])
    assert (found.counts, found.met) == ([2], 1)


@pytest.mark.parametrize("row", range(3))
def test_shadow_bits_of_either_kind(row: int) -> None:
    """Met by one of several loads that are made together."""
    loads = " | ".join(f"flat_load_dword v{8 + n}, v[4:5] offset:{256 * n}" for n in range(3))
    text = f"{START}{loads} | s_waitcnt vmcnt(0) | v_add_u32 v8, v8, v9 | v_add_u32 v8, v8, v10" + DECIDE.format("v8")
    where = [(256 * row + 60, 8)]
    assert both(text) == Run([], 0, 0)
    for found in (both(text, where), both(text, rough=where)):
        assert (found.counts, found.met) == ([2 * 2], 1)


PLACES = {
    "side by side": "v_lshlrev_b32 v3, {shift}, v0",
    "one for all": "v_mov_b32 v3, 64",
    "one for some": "v_lshrrev_b32 v3, 3, v0 | v_lshlrev_b32 v3, 6, v3",
    "far from each other": "v_mul_u32_u24 v3, 37, v0 | v_and_b32 v3, 63, v3 | v_lshlrev_b32 v3, 5, v3",
}
WIDTHS = {"ubyte": 0, "ushort": 1, "dword": 2, "dwordx2": 3, "dwordx3": 4, "dwordx4": 4}


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("place", PLACES)
def test_every_way_to_memory(place: str, width: str) -> None:
    """Stores clear marks where lanes are, and loads meet those that are left; in LDS, too.

    Marks are met by the second group: the first one has found out where memory lies.
    """
    count, size = {"dwordx2": 2, "dwordx3": 3, "dwordx4": 4}.get(width, 1), {"ubyte": 1, "ushort": 2}.get(width, 4)
    where = PLACES[place].format(shift=WIDTHS[width])
    value = "v8" if count == 1 else f"v[8:{7 + count}]"
    local = {"ubyte": ("b8", "u8"), "ushort": ("b16", "u16")}.get(width, (f"b{32 * count}",) * 2)
    group = "s_lshl_b32 s21, s0, 12 | s_add_u32 s21, s21, s4 | v_add_u32 v4, s21, v3"
    rest = "".join(f" | v_xor_b32 v8, v8, v{n}" for n in range(9, 8 + count))
    text = f"{START}s_mov_b32 m0, -1 | {where} | {group} | {{}}{rest}"
    ones = "".join(f"v_mov_b32 v{n}, 1 | " for n in range(8, 12))
    store, load = f"flat_store_{width.lstrip('u')} v[4:5], {value}", f"flat_load_{width} {value}, v[4:5]"
    wait = " | s_waitcnt vmcnt(0) lgkmcnt(0) | "
    for way in (f"{load}{wait}s_nop 0", f"{ones}{store}{wait}{load}{wait}s_nop 0"):
        for at in (64, 64 + size * count - 1, 160 + 4 * (count - 1)):
            both(text.format(way) + DECIDE.format("v8"), [(4096 + at, 1)], groups=[(0, 0, 0), (1, 0, 0)])
    for lanes in ("-1", "0xffff0000"):
        ways = f"{ones}s_mov_b32 exec_lo, {lanes} | ds_write_{local[0]} v3, {value} | s_mov_b64 exec, -1"
        way = f"{ways} | ds_read_{local[1]} {value}, v3{wait}s_nop 0"
        both(text.format(way) + DECIDE.format("v8"), lds_bytes=4096)


@pytest.mark.parametrize("place", PLACES)
def test_shadow_bits_of_which_it_is_not_known_where_they_lie(place: str) -> None:
    """While it is known of the memory itself: other code has read there, and looked for marks elsewhere first."""
    where = f"{PLACES[place].format(shift=2)} | v_add_u32 v4, s4, v3 | "
    text = f"{START}v_mov_b32 v8, 1 | {where}flat_load_dword v9, v[4:5] | s_waitcnt vmcnt(0) lgkmcnt(0)"
    text += (
        JUMP.format(CODE + 4 * (len(words(text, "gfx900")) + 4))
        + "flat_atomic_add v[4:5], v8 | flat_load_dword v9, v[4:5]"
    )
    text += " | s_waitcnt vmcnt(0) lgkmcnt(0)" + DECIDE.format("v9")
    assert both(text) == Run([], 0, 0)
    assert both(text, [(64, 4)]).counts


def test_lanes_that_do_not_load_meet_nothing() -> None:
    text = START + "s_mov_b32 exec_lo, 0xff | s_mov_b32 exec_hi, 0 | flat_load_dword v8, v[4:5] | s_waitcnt vmcnt(0)"
    assert both(text + DECIDE.format("v8"), [(32, 200)]) == Run([], 0, 0)


def test_shadow_bits_in_lds() -> None:
    """Which is undefined until it is written, here by every other lane; bytes as well."""
    text = "s_mov_b32 m0, -1 | v_lshlrev_b32 v3, 2, v0 | s_mov_b32 exec_lo, 0x55555555 | ds_write_b8 v3, v0 offset:1"
    text += " | s_mov_b64 exec, -1 | ds_read_u8 v8, v3 offset:1 | s_waitcnt lgkmcnt(0)"
    found = both(text + DECIDE.format("v8"), lds_bytes=512)
    assert (found.counts, found.met) == ([2 * 16], 1)


def test_registers_that_are_undefined_at_first(taken: list[frozenset[str]]) -> None:
    """Then code that follows their marks is made at once; the other kind is not followed."""
    found = both("v_add_u32 v7, v6, v0" + DECIDE.format("v7"))
    assert (found.counts, found.met) == ([2 * 64], 0)
    assert taken[0] == {"fidelity"}


def test_approximate_operations(taken: list[frozenset[str]]) -> None:
    """Code that has one follows such marks, and takes registers for defined."""
    found = both("v_rcp_f32 v7, v0 | v_mov_b32 v8, v7" + DECIDE.format("v8"))
    assert (found.counts, taken[0]) == ([2 * 64], {"init"})


def test_registers_that_only_some_waves_have_undefined() -> None:
    """Lanes that a launch lacks are switched on: what the others have written, they have not."""
    text = "v_mov_b32 v7, 1 | s_mov_b64 exec, -1" + DECIDE.format("v7")
    found = both(text, size=(100, 1, 1), groups=[(0, 0, 0), (1, 0, 0)])
    assert (found.counts, found.met, found.interpreted) == ([2 * 2 * 28], 0, 2)


def test_registers_that_are_written_have_no_shadow_bits_behind() -> None:
    """In code that follows: what they had when the wave began is no more."""
    text = "v_mov_b32 v7, 1" + JUMP.format(CODE + 4 + 16) + DECIDE.format("v7")[3:]
    groups = [(n, 0, 0) for n in range(5)]
    assert both(text, groups=groups) == Run([], 0, 0)


def test_the_reference_engine_sees_no_shadow_bits_that_are_no_more() -> None:
    """Under the check of races it executes atomics; operands were written by code that takes registers for unmarked."""
    text = START + "v_mov_b32 v7, 1 | flat_atomic_add v[4:5], v7 | s_endpgm"
    found = both(text, races=True, groups=[(n, 0, 0) for n in range(3)])
    assert (found.counts, found.met) == ([], 0)


@pytest.mark.parametrize("insn", ["v_add_u32 v8, s12, v0", "v_mov_b32 v8, s12", "v_writelane_b32 v8, s12, 3"])
def test_scalars_that_are_undefined(insn: str) -> None:
    """Lanes read them."""
    text = START + f"v_mov_b32 v8, 0 | s_load_dword s12, s[4:5], 0x40 | s_waitcnt lgkmcnt(0) | {insn}"
    found = both(text + DECIDE.format("v8"), [(0x41, 1)])
    assert (found.counts, found.met) == ([2 if "lane" in insn else 2 * 64], 1)
    assert both(text + DECIDE.format("v8"), [(0x44, 1)]) == Run([], 0, 0)


def test_masks_that_are_undefined() -> None:
    """VCC that nobody has written is chosen by."""
    found = both("v_cndmask_b32 v8, v0, v0, vcc | v_cndmask_b32 v9, 1, v0, vcc" + DECIDE.format("v9"))
    assert found.met == 1
    assert found.counts


@pytest.mark.parametrize("insn", ["flat_atomic_add v9, v[4:5], v8 glc", "flat_atomic_swap v9, v[4:5], v8 glc"])
def test_atomics_on_undefined_memory(insn: str) -> None:
    """What they find is marked, and they are done once."""
    text = START + f"v_mov_b32 v8, 7 | {insn} | s_waitcnt vmcnt(0) lgkmcnt(0)"
    found = both(text + DECIDE.format("v9"), [(40, 8)])
    assert found.met == 1
    assert found.counts == ([2] if "swap" in insn else [2 * 2])


def test_atomics_in_phases() -> None:
    """All lanes do one access before the next: such instructions follow marks."""
    text = "s_mov_b32 m0, -1 | v_lshlrev_b32 v3, 3, v0 | v_mov_b32 v10, 1 | v_mov_b32 v11, 2 | s_mov_b32 exec_hi, 0xfff"
    text += " | ds_write_b64 v3, v[10:11] | s_mov_b64 exec, -1 | ds_wrxchg2_rtn_b32 v[8:9], v3, v10, v11 offset1:1"
    found = both(text + " | s_waitcnt lgkmcnt(0)" + DECIDE.format("v9"), lds_bytes=1024)
    assert (found.counts, found.met) == ([2 * 20], 0)


def test_stores_over_undefined_memory() -> None:
    """It is not marked then, and nothing is met."""
    text = START + "flat_store_dword v[4:5], v0 | ds_write_b32 v3, v0 | s_waitcnt vmcnt(0) lgkmcnt(0)"
    text += " | flat_load_dword v8, v[4:5] | ds_read_b32 v9, v3 | s_waitcnt vmcnt(0) lgkmcnt(0) | v_add_u32 v8, v8, v9"
    assert both("s_mov_b32 m0, -1 | " + text + DECIDE.format("v8"), [(0, 512)], lds_bytes=256) == Run([], 0, 0)


def test_what_the_reference_engine_has_undefined() -> None:
    """Under the check of races it executes atomics: code is entered behind them with what they gave."""
    text = START + "v_mov_b32 v8, 7 | flat_atomic_add v9, v[4:5], v8 glc | s_waitcnt vmcnt(0) lgkmcnt(0)"
    assert both(text + DECIDE.format("v9"), [(40, 8)], races=True).counts == [2 * 2]
    assert both(text + DECIDE.format("v9"), rough=[(40, 8)], races=True).counts == [2 * 2]
    assert both(text + DECIDE.format("v9"), races=True).counts == []


def test_what_other_code_has_undefined() -> None:
    """Code is entered anew after other code has followed marks, into a register that it had found unmarked."""
    decide = CODE + 4 + 4 + 16
    other = decide + 4 + 4 + 4 + 16 + 12
    text = (
        "v_mov_b32 v7, 1 | s_mov_b32 s20, 0" + JUMP.format(decide)
        + "s_cmp_lg_u32 s20, 0 | s_cbranch_scc1 on | s_mov_b32 s20, 1" + JUMP.format(other)
        + "on: v_cmp_gt_u32 vcc, 5, v7 | s_and_b64 exec, exec, vcc | s_endpgm"
        + " | s_mov_b32 m0, 0 | v_movrels_b32 v6, v7 | v_rcp_f32 v7, v0" + JUMP.format(decide)[:-3]
    )  # fmt: skip
    found = both(text, name="gfx803")
    assert found.counts == [2 * 64]


@pytest.mark.slow
def test_several_threads() -> None:
    """Each meets marks by itself, or finds code that follows them."""
    text = START + "s_lshl_b32 s21, s0, 8 | v_add_u32 v4, s21, v4 | flat_load_dword v8, v[4:5] | s_waitcnt vmcnt(0)"
    text += " | v_add_u32 v8, v8, v0 | flat_store_dword v[4:5], v8 | s_waitcnt vmcnt(0)" + DECIDE.format("v8")
    shadowed = [(256 * n + 4 * (n % 64), 4) for n in range(3, 200, 7)]
    found = both(text, shadowed, threads=3, groups=[(n, 0, 0) for n in range(200)])
    assert found.counts == [2 * len(shadowed)]


def test_code_is_not_made_anew_behind_each_store_of_what_is_undefined(taken: list[frozenset[str]]) -> None:
    """As unoptimised code has many, of registers that it saves. They are executed one by one to where there is code."""
    stores = " | ".join(f"v_mov_b32 v9, v{64 + n} | flat_store_dword v[4:5], v9 offset:{256 * n}" for n in range(12))
    found = both(
        f"{START}{stores} | s_waitcnt vmcnt(0) | s_endpgm", vgpr_count=80, groups=[(n, 0, 0) for n in range(QUOTA)]
    )
    assert len(taken) <= 3, "of the whole, and of what follows marks"
    assert found.interpreted == 0, "by then it has been looked at often enough"


def test_code_is_made_behind_what_is_left_often() -> None:
    """Each wave branches on marks: a few are looked at one by one, to the end of a loop. Then there is code."""
    text = f"{START}v_cmp_gt_u32 vcc, 5, v70 | s_cbranch_vccz on | on: s_mov_b32 s20, 90 | again: " + (
        "s_sub_u32 s20, s20, 1 | s_cmp_lg_u32 s20, 0 | s_cbranch_scc1 again | s_endpgm"
    )
    found = both(text, vgpr_count=80, groups=[(n, 0, 0) for n in range(150)])
    assert (found.counts, found.interpreted) == ([2 * 150], 0)


@pytest.mark.parametrize("races", [False, True])
def test_long_code_is_made_in_parts_and_none_of_it_twice(races: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop of 250 instructions, and what is behind it: each part ends where one begins that is there already."""
    sizes, compiled = list[int](), Translator.compiled

    def noted(self: Translator, region: Region, *given: Any) -> Any:
        sizes.append(sum(len(block.nodes) for block in region.blocks.values()))
        return compiled(self, region, *given)

    monkeypatch.setattr(Translator, "compiled", noted)
    rounds = " | ".join(["v_add_u32 v9, v9, v0"] * 240)
    text = f"{START}v_mov_b32 v9, 0 | s_mov_b32 s20, 3 | again: {rounds} | s_sub_u32 s20, s20, 1 | s_cmp_lg_u32 s20, 0"
    both(f"{text} | s_cbranch_scc1 again | flat_store_dword v[4:5], v9 | s_endpgm", races=races)
    assert max(sizes) <= CHECKED_LIMIT
    assert 252 <= sum(sizes) <= 252 + CHECKED_LIMIT, (
        "the loop begins amid the first part, so that part of it is made anew"
    )
