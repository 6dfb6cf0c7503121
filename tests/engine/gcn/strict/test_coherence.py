"""Litmus tests on the strict memory: the document's sequences are enough, and every element of them is needed."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np

from softcard.engine.gcn.api import StepLimit
from softcard.engine.gcn.strict.coherence import StrictEngine
from tests.engine.gcn.programs import dwords, program
from tests.engine.gcn.rig import DATA

SEEDS = range(40)
X, Y, OUT = DATA, DATA + 0x400, DATA + 0x800

HEAD = f"""
v_mov_b32_e32 v20, {X:#x}
v_mov_b32_e32 v21, 0
v_mov_b32_e32 v22, {Y:#x}
v_mov_b32_e32 v23, 0
v_mov_b32_e32 v24, {OUT:#x}
v_mov_b32_e32 v25, 0
v_mov_b32_e32 v1, 1
v_mov_b32_e32 v10, 0
v_mov_b32_e32 v11, 0
s_mov_b64 exec, 1
"""


def litmus(*threads: Sequence[str]) -> str:
    """One work-group for each thread, of one work-item."""
    parts = [HEAD]
    for number in range(len(threads)):
        parts.append(f"s_cmp_eq_u32 s0, {number}\ns_cbranch_scc1 thread{number}")
    for number, lines in enumerate(threads):
        parts += [f"thread{number}:", *lines, "s_endpgm"]
    return "\n".join(parts)


def without(lines: Sequence[str], index: int) -> list[str]:
    return [line for number, line in enumerate(lines) if number != index]


def outcomes(text: str, groups: int, count: int, name: str = "gfx803") -> tuple[set[tuple[int, ...]], set[str]]:
    """What was left in OUT over many seeds, and the kinds of findings."""
    seen, kinds = set(), set()
    for seed in SEEDS:
        dispatch = program(text, name, groups=[(n, 0, 0) for n in range(groups)], step_limit=4000)
        engine = StrictEngine(units=groups, seed=seed)
        engine.run(dispatch)
        seen.add(tuple(dwords(dispatch, count, OUT - DATA)))
        kinds |= {finding.kind for finding in engine.findings}
    return seen, kinds


# ---- message passing: a store with release, a load with acquire, agent scope

SENDER = ["flat_store_dword v[20:21], v1", "s_waitcnt vmcnt(0)", "flat_store_dword v[22:23], v1", "s_waitcnt vmcnt(0)"]
RECEIVER = [
    "flat_load_dword v10, v[20:21]",  # has the line cached before
    "s_waitcnt vmcnt(0) & lgkmcnt(0)",
    "again:",
    "flat_load_dword v11, v[22:23] glc",
    "s_waitcnt vmcnt(0) & lgkmcnt(0)",
    "v_readfirstlane_b32 s8, v11",
    "s_cmp_eq_u32 s8, 0",
    "s_cbranch_scc1 again",
    "buffer_wbinvl1_vol",
    "flat_load_dword v10, v[20:21]",
    "s_waitcnt vmcnt(0) & lgkmcnt(0)",
    "flat_store_dword v[24:25], v10",
]


def test_message_passing_works_with_the_documents_sequences() -> None:
    seen, kinds = outcomes(litmus(SENDER, RECEIVER), 2, 1)
    assert seen == {(1,)}
    assert "no wait" not in kinds


def test_without_the_wait_the_flag_may_overtake_the_data() -> None:
    seen, kinds = outcomes(litmus(without(SENDER, 1), RECEIVER), 2, 1)
    assert seen == {(0,), (1,)}
    assert "late store" in kinds


def test_without_the_invalidation_the_old_line_is_read() -> None:
    seen, kinds = outcomes(litmus(SENDER, without(RECEIVER, 8)), 2, 1)
    assert (0,) in seen
    assert "stale line" in kinds


def stuck(receiver: Sequence[str]) -> StrictEngine:
    """A run in which the receiver had cached the flag's line before the flag was stored."""
    for seed in SEEDS:
        dispatch = program(litmus(SENDER, receiver), "gfx803", groups=[(0, 0, 0), (1, 0, 0)], step_limit=1000)
        engine = StrictEngine(seed=seed)
        with contextlib.suppress(StepLimit):
            engine.run(dispatch)
            continue
        return engine
    raise AssertionError("the flag was always seen")


def test_without_glc_the_flag_is_never_seen() -> None:
    engine = stuck([line.replace(" glc", "") for line in RECEIVER])
    finding = next(each for each in engine.findings if each.kind == "stale line" and each.address == Y)
    assert finding.store is not None
    assert "flat_load_dword v11" in finding.load.insn
    assert "flat_store_dword v[22:23]" in finding.store.insn
    assert str(finding).startswith("work-group 1 wave 0 pc 0x")


def test_a_load_that_was_not_waited_for_is_reported() -> None:
    dispatch = program(litmus(without(RECEIVER, 10)), "gfx803", groups=[(0, 0, 0)], step_limit=2000)
    dispatch.memory.write(Y, b"\1\0\0\0")
    engine = StrictEngine()
    engine.run(dispatch)
    [finding] = [finding for finding in engine.findings if finding.kind == "no wait"]
    assert "reads v10 before flat_load_dword v10, v[20:21] has written it: work-group 0 wave 0 pc" in str(finding)
    assert "; add s_waitcnt vmcnt(0) between them [gcn/flat-result: " in str(finding)


# ---- work-group scope: waves of one compute unit share its cache, plain loads and stores are enough

IN_GROUP = """
v_mov_b32_e32 v26, v0
{head}
v_readfirstlane_b32 s9, v26
s_cmp_eq_u32 s9, 0
s_cbranch_scc1 first
{second}
s_endpgm
first:
{sender}
s_endpgm
"""


def test_message_passing_within_a_work_group_needs_neither_waits_nor_invalidations() -> None:
    sender = [line for line in SENDER if not line.startswith("s_waitcnt")]
    receiver = [line.replace(" glc", "") for line in RECEIVER if not line.startswith("buffer_wbinvl1")]
    text = IN_GROUP.format(
        head=HEAD.replace("s_mov_b64 exec, 1", "s_mov_b64 exec, -1"),
        sender="\n".join(["s_mov_b64 exec, 1", *sender]),
        second="\n".join(["s_mov_b64 exec, 1", *receiver]),
    )
    for seed in SEEDS:
        dispatch = program(text, "gfx803", size=(128, 1, 1), step_limit=4000)
        StrictEngine(seed=seed).run(dispatch)
        assert dwords(dispatch, 1, OUT - DATA) == [1]


# ---- store buffering: sequential consistency of release stores and acquire loads

STORE_X = ["flat_store_dword v[20:21], v1", "s_waitcnt vmcnt(0)", "flat_load_dword v10, v[22:23] glc"]
STORE_Y = ["flat_store_dword v[22:23], v1", "s_waitcnt vmcnt(0)", "flat_load_dword v10, v[20:21] glc"]
REPORT = ["s_waitcnt vmcnt(0) & lgkmcnt(0)", "flat_store_dword v[24:25], v10"]
REPORT_NEXT = ["s_waitcnt vmcnt(0) & lgkmcnt(0)", "v_add_u32_e32 v24, vcc, 4, v24", "flat_store_dword v[24:25], v10"]


def test_store_buffering_is_forbidden_by_the_wait_after_the_store() -> None:
    seen, _ = outcomes(litmus([*STORE_X, *REPORT], [*STORE_Y, *REPORT_NEXT]), 2, 2)
    assert (0, 0) not in seen
    assert len(seen) > 1


def test_store_buffering_shows_without_it() -> None:
    seen, kinds = outcomes(litmus([*without(STORE_X, 1), *REPORT], [*without(STORE_Y, 1), *REPORT_NEXT]), 2, 2)
    assert (0, 0) in seen
    assert "late store" in kinds


# ---- independent reads of independent writes

WRITE_X = ["flat_store_dword v[20:21], v1", "s_waitcnt vmcnt(0)"]
WRITE_Y = ["flat_store_dword v[22:23], v1", "s_waitcnt vmcnt(0)"]


def reads(first: str, second: str, offset: int, glc: str = " glc") -> list[str]:
    """Two loads with acquire, told at OUT + offset."""
    return [
        f"flat_load_dword v12, {second}{glc if glc else ''}",
        "s_waitcnt vmcnt(0) & lgkmcnt(0)",
        f"flat_load_dword v10, {first}{glc}",
        "s_waitcnt vmcnt(0) & lgkmcnt(0)",
        f"flat_load_dword v11, {second}{glc}",
        "s_waitcnt vmcnt(0) & lgkmcnt(0)",
        f"v_add_u32_e32 v24, vcc, {offset}, v24",
        "flat_store_dwordx2 v[24:25], v[10:11]",
    ]


def iriw(glc: str) -> set[tuple[int, ...]]:
    one, two = reads("v[20:21]", "v[22:23]", 0, glc), reads("v[22:23]", "v[20:21]", 8, glc)
    seen, _ = outcomes(litmus(WRITE_X, WRITE_Y, one, two), 4, 4)
    return seen


def test_all_see_independent_writes_in_one_order() -> None:
    assert (1, 0, 1, 0) not in iriw(" glc")


def test_without_glc_they_need_not() -> None:
    """Each reader has the line of the second word cached."""
    assert (1, 0, 1, 0) in iriw("")


# ---- the same program gives the same results where it is right


def test_a_correct_program_gives_what_the_reference_gives() -> None:
    text = f"""
    v_lshlrev_b32_e32 v2, 2, v0
    v_add_u32_e32 v2, vcc, {DATA:#x}, v2
    v_mov_b32_e32 v3, 0
    flat_load_dword v4, v[2:3]
    s_waitcnt vmcnt(0) & lgkmcnt(0)
    v_add_u32_e32 v4, vcc, 5, v4
    flat_store_dword v[2:3], v4
    s_endpgm
    """
    dispatch = program(text, "gfx803", size=(128, 1, 1))
    dispatch.memory.write(DATA, np.arange(128, dtype=np.uint32).tobytes())
    engine = StrictEngine()
    statistics = engine.run(dispatch)
    assert engine.findings == []
    assert dwords(dispatch, 128) == [n + 5 for n in range(128)]
    assert (statistics.instructions, statistics.waves, statistics.groups) == (16, 2, 1)
