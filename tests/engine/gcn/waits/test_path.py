"""What running waves miss on the strict memory: the path that they take, and what flat addresses reach."""

from __future__ import annotations

import pytest

from softcard.engine.gcn.strict.coherence import StrictEngine
from softcard.engine.gcn.strict.findings import Finding
from tests.engine.gcn.programs import program
from tests.engine.gcn.rig import LDS_BYTES
from tests.engine.gcn.waits.planted import HEAD, PROCESSORS, TAIL, Planted, cases

XNACK = {8: "gfx801", 9: "gfx901"}
"""Processors that have it on."""


def findings(text: str, name: str, **options: object) -> list[Finding]:
    """What a wave misses."""
    engine = StrictEngine()
    engine.run(program(text, name, lds_bytes=LDS_BYTES, **options))
    return [each for each in engine.findings if each.kind in ("no wait", "wait states")]


def name_of(kernel: Planted, level: int) -> str:
    return XNACK[level] if kernel.hazard.endswith("-clause") else PROCESSORS[level]


@pytest.mark.parametrize(("kernel", "level"), cases(runs=True))
def test_a_planted_bug_is_found_where_it_is_run_into(kernel: Planted, level: int) -> None:
    [found] = findings(kernel.source(level, is_bad=True), name_of(kernel, level))
    assert found.rule is not None
    assert (found.rule.id, found.store.pc, found.load.pc) == (f"gcn/{kernel.hazard}", *kernel.places(level))


@pytest.mark.parametrize(("kernel", "level"), cases(runs=True))
def test_nothing_is_found_in_its_corrected_version(kernel: Planted, level: int) -> None:
    assert findings(kernel.source(level, is_bad=False), name_of(kernel, level)) == []


def missed(body: str, name: str = "gfx900") -> list[str]:
    """The names of the hazards that a body runs into."""
    found = findings(HEAD + body.replace("|", "\n") + "\n" + TAIL, name)
    return [each.rule.id.partition("/")[2] for each in found if each.rule]


LOAD, STORE = "global_load_dword v4, v[20:21], off", "global_store_dword v[20:21], v1, off offset:64"
SNIPPETS = {
    "load, store, one may be left": (f"{LOAD}|{STORE}|s_waitcnt vmcnt(1)|v_mov_b32_e32 v5, v4", []),
    "LDS likewise": ("ds_read_b32 v4, v22|ds_write_b32 v22, v1|s_waitcnt lgkmcnt(1)|v_mov_b32_e32 v5, v4", []),
    "types mix": (
        "ds_read_b32 v4, v22|s_load_dword s20, s[8:9], 0x0|s_waitcnt lgkmcnt(1)|v_mov_b32_e32 v5, v4",
        ["mixed-result"],
    ),
    "scalar reads come out of order": (
        "s_load_dword s20, s[8:9], 0x0|s_load_dword s21, s[8:9], 0x4|s_waitcnt lgkmcnt(1)|s_mov_b32 s22, s20",
        ["scalar-result"],
    ),
    "a late result wins over VALU": (f"{LOAD}|v_mov_b32_e32 v4, 1", ["vector-result-overwritten"]),
    "a late result wins over SALU": ("s_load_dword s20, s[8:9], 0x0|s_mov_b32 s20, 1", ["scalar-result"]),
    "VALU writes an SGPR": (
        "v_readfirstlane_b32 s20, v1|buffer_load_dword v4, off, s[12:15], s20",
        ["valu-sgpr-vmem"],
    ),
    "flat went to memory": ("flat_load_dword v4, v[20:21]|s_waitcnt lgkmcnt(0)|v_mov_b32_e32 v5, v4", ["flat-result"]),
    "readlane of a result": (f"{LOAD}|v_readlane_b32 s20, v4, 0", ["vector-result-read"]),
    "a pair of a result": ("s_load_dwordx2 s[20:21], s[8:9], 0x0|s_mov_b64 s[22:23], s[20:21]", ["scalar-result"]),
    "loads return in order": (f"{LOAD}|{LOAD}|s_waitcnt vmcnt(0)|v_mov_b32_e32 v5, v4", []),
    "loads return in order, one left": (
        f"{LOAD}|{LOAD.replace('v4', 'v5')}|s_waitcnt vmcnt(1)|v_mov_b32_e32 v6, v4",
        [],
    ),
    "data of a store may be written": (f"{STORE}|v_mov_b32_e32 v1, 1", []),
    "the wrong counter": (f"{LOAD}|s_waitcnt lgkmcnt(0)|v_mov_b32_e32 v5, v4", ["vector-result-read"]),
}


@pytest.mark.parametrize("name", SNIPPETS)
def test_short_sequences(name: str) -> None:
    body, wanted = SNIPPETS[name]
    assert missed(body) == wanted


FLAT_LDS = "flat_load_dword v4, v[30:31]|s_waitcnt {}|v_mov_b32_e32 v5, v4"
FLAT_BOTH = """
v_cmp_gt_u32_e32 vcc, 32, v0
v_cndmask_b32_e32 v32, v20, v30, vcc
v_cndmask_b32_e32 v33, v21, v31, vcc
flat_load_dword v4, v[32:33]
s_waitcnt {}
v_mov_b32_e32 v5, v4
"""
"""Half of the lanes reach LDS, half memory."""


@pytest.mark.parametrize("name", PROCESSORS.values())
@pytest.mark.parametrize(
    ("wait", "in_lds", "in_both"),
    [
        ("vmcnt(0)", ["flat-result"], ["flat-result"]),
        ("lgkmcnt(0)", [], ["flat-result"]),
        ("vmcnt(0) lgkmcnt(0)", [], []),
    ],
)
def test_flat_accesses_owe_by_what_their_lanes_reached(
    name: str, wait: str, in_lds: list[str], in_both: list[str]
) -> None:
    assert missed(FLAT_LDS.format(wait), name) == in_lds
    assert missed(FLAT_BOTH.format(wait), name) == in_both


@pytest.mark.parametrize("name", PROCESSORS.values())
def test_flat_atomics_likewise(name: str) -> None:
    assert missed("flat_atomic_add v4, v[20:21], v1 glc|s_waitcnt lgkmcnt(0)|v_mov_b32_e32 v5, v4", name) == [
        "flat-result"
    ]
    assert missed("flat_atomic_add v4, v[30:31], v1 glc|s_waitcnt lgkmcnt(0)|v_mov_b32_e32 v5, v4", name) == []


def test_what_no_wave_runs_into_is_not_reported() -> None:
    body = f"{LOAD}|s_cmp_eq_u32 s0, 1|s_cbranch_scc1 never|s_waitcnt vmcnt(0)|never:|v_mov_b32_e32 v5, v4"
    assert missed(body) == []
    text = HEAD + body.replace("|", "\n") + "\n" + TAIL
    assert [each.load.group for each in findings(text, "gfx900", groups=[(0, 0, 0), (1, 0, 0)])] == [1]  # type: ignore[union-attr]
