"""The check of lanes: what those of one wave do to each other, on either engine; the rest is the check of races."""

from __future__ import annotations

from dataclasses import replace

import pytest

from softcard.core.checks import LANES
from softcard.core.errors import BeyondModel, WireError
from softcard.core.findings import Finding, FindingLog, Level
from softcard.engine.gcn.hooks import Checks
from softcard.engine.gcn.races.watch import RaceWatch
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.hsa import Gpu
from softcard.refsi import RefSi
from tests.engine.gcn.programs import dwords, program
from tests.engine.gcn.races.eager import be_eager

OWN = (
    "s_mov_b32 m0, -1|s_mov_b32 s4, 0x200000|s_mov_b32 s5, 0|"
    "v_lshlrev_b32 v4, 2, v0|v_add_u32 v4, vcc, s4, v4|v_mov_b32 v5, 0|"
)
"""v[4:5]: the address of a lane's dword; s[4:5]: of the first."""
ONE = "v_mov_b32 v6, s4|v_mov_b32 v7, 0|"
"""v[6:7]: of the first, for all lanes."""
FAR = "v_mov_b32 v6, 0x200200|v_mov_b32 v7, 0|"
"""Of one that no lane has."""
NEXT = "v_add_u32 v6, vcc, 4, v4|v_mov_b32 v7, 0|"
"""v[6:7]: of the next lane's."""
FIRST = "v_cmp_eq_u32 vcc, 0, v0|s_and_saveexec_b64 s[10:11], vcc|"
ALL = "|s_mov_b64 exec, s[10:11]|"
STORE = "flat_store_dword v[4:5], v0|"
LOAD = "flat_load_dword v8, v[6:7]|s_waitcnt vmcnt(0) lgkmcnt(0)|"
ADD = "flat_atomic_add v[6:7], v0|"
ADD_BACK = "flat_atomic_add v8, v[6:7], v0 glc|s_waitcnt vmcnt(0) lgkmcnt(0)|"
WAIT = "s_waitcnt vmcnt(0) lgkmcnt(0)|"
BARRIER = "s_waitcnt vmcnt(0) lgkmcnt(0)|s_barrier|"


def found_in(text: str, size: int = 64, groups: int = 1, equal_stores: bool = False, threads: int = 1) -> list[Finding]:
    """Return the findings of both engines, which are equal; memory has the contents that it has without the check."""
    options = {"groups": [(n, 0, 0) for n in range(groups)], "size": (size, 1, 1), "lds_bytes": 1024}
    plain = program(text + "s_endpgm", "gfx803", **options)
    for _ in range(2):
        ReferenceEngine().run(plain)
    reported = []
    for engine in (ReferenceEngine(), JitEngine(threads=threads)):
        made, found = program(text + "s_endpgm", "gfx803", **options), list[Finding]()
        watch = RaceWatch(made.memory, FindingLog(found), equal_stores, lanes=True)
        for _ in range(2):
            watch.begin()
            engine.run(replace(made, checks=Checks(watch)))
        assert dwords(made, 256) == dwords(plain, 256)
        reported.append(found)
    one, other = ([(each.as_dict(), each.registers) for each in found if each.check == LANES] for found in reported)
    assert one == other
    assert all(registers is not None for _, registers in one)
    assert [each.as_dict() for each in reported[0]] == [each.as_dict() for each in reported[1]]
    return reported[0]


def names(text: str, **options: int) -> list[str]:
    return [each.name for each in found_in(text, **options)]


def test_both_accesses_are_named() -> None:
    (found,) = found_in(OWN + NEXT + LOAD + STORE)
    assert (found.name, found.level, found.access, found.space) == ("lanes/read-write", Level.ERROR, "write", "global")
    assert found.message == (
        "write of 4 bytes at 0x200004 in data and a read of the same bytes by lanes of a wave without a "
        "happens-before order"
    )
    assert (found.lanes, found.unit, found.group) == (tuple(range(1, 64)), "wave 0", "0,0,0")
    assert found.count == 2 * 63
    assert found.insn == "flat_store_dword v[4:5], v0"
    assert found.other.endswith("(flat_load_dword v8, v[6:7]), lane 0, wave 0, work-group 0,0,0")
    assert (
        found.suggestion
        == "add a barrier between the accesses, or use atomics: only the width of this wave orders them"
    )


LDS = "v_lshlrev_b32 v1, 2, v0|s_mov_b32 m0, -1|ds_write_b32 v1, v0|s_waitcnt lgkmcnt(0)|"
CASES = {
    "lanes that store what others have read": (OWN + NEXT + LOAD + STORE, ["lanes/read-write"]),
    "lanes that read what others have stored": (OWN + NEXT + STORE + LOAD, ["lanes/write-read"]),
    "one instruction's stores of different numbers": (
        OWN + ONE + "flat_store_dword v[6:7], v0|", ["lanes/write-write"]),
    "of the same number": (OWN + ONE + "v_mov_b32 v8, 5|flat_store_dword v[6:7], v8|", []),
    "a lane's own accesses": (OWN + STORE + "flat_load_dword v8, v[4:5]|s_waitcnt vmcnt(0)|" + STORE, []),
    "a byte of a neighbour's": (
        OWN + STORE + "v_add_u32 v6, vcc, 3, v4|v_mov_b32 v7, 0|flat_store_short v[6:7], v0|", ["lanes/write-write"]),
    "LDS": (LDS + "ds_read_b32 v2, v1 offset:4|", ["lanes/write-read"]),
    "LDS behind a barrier": (LDS + "s_barrier|ds_read_b32 v2, v1 offset:4|", []),
    "a barrier": (OWN + NEXT + STORE + BARRIER + LOAD, []),
    "a barrier, and then a store": (OWN + NEXT + STORE + BARRIER + LOAD + STORE, ["lanes/read-write"]),
    "atomics": (OWN + ONE + ADD + ADD_BACK, []),
    "a store before atomics": (
        OWN + ONE + FIRST + "flat_store_dword v[6:7], v0" + ALL + ADD, ["lanes/write-atomic"]),
    "a load behind atomics": (OWN + ONE + ADD + LOAD, ["lanes/atomic-read"]),
    "a load past the caches": (OWN + ONE + ADD + "flat_load_dword v8, v[6:7] glc|", []),
    "such a load, and a store": (
        OWN + NEXT + "flat_load_dword v8, v[6:7] glc|s_waitcnt vmcnt(0)|" + STORE, ["lanes/read-write"]),
    "an atomic that tells who is last": (OWN + STORE + ONE + WAIT + ADD_BACK + NEXT + LOAD, ["lanes/write-atomic"]),
    "such an atomic elsewhere": (OWN + STORE + FAR + WAIT + ADD_BACK + NEXT + LOAD, []),
    "before the stores are waited for": (OWN + STORE + FAR + ADD_BACK + NEXT + LOAD, ["lanes/write-read"]),
    "an atomic that tells nothing": (OWN + STORE + FAR + WAIT + ADD + NEXT + LOAD, ["lanes/write-read"]),
    "a load by the wave": (OWN + "s_load_dword s6, s[4:5], 0x0|s_waitcnt lgkmcnt(0)|" + STORE, ["lanes/read-write"]),
    "a load by the wave in one lane": (
        OWN + FIRST + "s_load_dword s6, s[4:5], 0x0|s_waitcnt lgkmcnt(0)|" + STORE, []),
    "a reader between two loads": (OWN + ONE + LOAD + FIRST + LOAD + STORE, ["lanes/read-write"]),
    "a second reader": (OWN + ONE + LOAD + FIRST + STORE, ["lanes/read-write"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_orders_lanes(case: str) -> None:
    text, expected = CASES[case]
    assert names(text) == expected


def test_waves_are_the_check_of_races() -> None:
    """Of two waves each is looked at by itself, and both together."""
    assert names(OWN + NEXT + LOAD + STORE, size=128) == ["lanes/read-write", "races/read-write"]
    assert names(OWN + NEXT + LOAD + BARRIER + STORE, size=128) == []


def test_equal_stores_are_reported_where_that_is_asked_for() -> None:
    text = OWN + ONE + "v_mov_b32 v8, 5|flat_store_dword v[6:7], v8|"
    (found,) = found_in(text, equal_stores=True)
    assert (found.name, found.count) == ("lanes/write-write", 2 * 63)


def test_groups_with_findings_run_again_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings do not depend on the number of threads."""
    stages = be_eager(monkeypatch)
    text = OWN + "s_lshl_b32 s8, s0, 9|v_add_u32 v4, vcc, s8, v4|" + NEXT + LOAD + BARRIER + LOAD + STORE
    found = found_in(text, groups=6, threads=2)
    assert [(each.name, each.count) for each in found] == [("lanes/read-write", 2 * 6 * 63)]
    assert stages == [False, False]


def test_groups_without_findings_run_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = be_eager(monkeypatch)
    text = OWN + "s_lshl_b32 s8, s0, 9|v_add_u32 v4, vcc, s8, v4|flat_load_dword v8, v[4:5]|" + WAIT + STORE
    assert found_in(text, groups=6, threads=2) == []
    assert stages == [True, True]


ROUNDS = "s_movk_i32 s20, {}|again:|"
UNTIL = "|s_sub_u32 s20, s20, 1|s_cmp_lg_u32 s20, 0|s_cbranch_scc1 again|"
ACCESSES = {
    "global memory": OWN + ROUNDS + "flat_load_dword v8, v[4:5]|" + WAIT + STORE + WAIT + UNTIL,
    "LDS": LDS + ROUNDS + "ds_read_b32 v2, v1|s_waitcnt lgkmcnt(0)|ds_write_b32 v1, v2|" + UNTIL,
    "bytes": OWN + ROUNDS + "flat_load_ubyte v8, v[4:5]|" + WAIT + "flat_store_byte v[4:5], v8|" + WAIT + UNTIL,
    "wide": OWN + "v_lshlrev_b32 v1, 4, v0|s_mov_b32 m0, -1|" + ROUNDS
    + "ds_write_b128 v1, v[8:11]|s_waitcnt lgkmcnt(0)|ds_read_b128 v[8:11], v1|s_waitcnt lgkmcnt(0)|" + UNTIL,
    "the wave": OWN + ROUNDS + "s_load_dwordx4 s[12:15], s[4:5], 0x800|" + WAIT + STORE + WAIT + UNTIL,
}  # fmt: skip


@pytest.mark.parametrize("case", ACCESSES)
def test_translated_code_checks_accesses(case: str) -> None:
    """The reference engine executes the instructions that run before their code is translated, and no others."""
    interpreted = []
    for rounds in (20, 200):
        text = ACCESSES[case].format(rounds) + "s_endpgm"
        made, found = program(text, "gfx803", lds_bytes=1024), list[Finding]()
        watch = RaceWatch(made.memory, FindingLog(found), lanes=True)
        watch.begin()
        interpreted.append(JitEngine(threads=1).run(replace(made, checks=Checks(watch))).interpreted)
        assert found == []
    assert interpreted[0] == interpreted[1] < 40


def test_it_goes_with_races_of_waves() -> None:
    with pytest.raises(WireError, match="check 'lanes' requires check 'races'"):
        Gpu.open("gfx900", check="lanes,memory")
    with pytest.raises(BeyondModel, match="the device does not support check 'lanes', expected only some of memory, "):
        RefSi.open(check="races,lanes")
    with Gpu.open("gfx900", check="all") as gpu:
        assert "lanes" not in gpu.device.settings.checks
    with Gpu.open("gfx900", check="all,lanes") as gpu:
        assert {"lanes", "races", "init"} <= gpu.device.settings.checks
