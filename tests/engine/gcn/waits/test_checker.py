"""Waits of kernels that are run on any engine: found where they are run into, with the same results."""

from __future__ import annotations

from typing import Any

import pytest

from softcard.core.diagnostics import of_finding
from softcard.core.findings import Finding, Level
from softcard.engine.gcn.api import Dispatch, Statistics
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.gcn.tiered.translation import Tier
from softcard.engine.gcn.waits.checker import LAUNCHES, WaitChecker
from tests.engine.gcn.programs import dwords, program
from tests.engine.gcn.rig import CODE, LDS_BYTES
from tests.engine.gcn.waits.planted import HEAD, PROCESSORS, TAIL, Planted, cases

BUGGY = """
v_readfirstlane_b32 s20, v1
buffer_load_dword v4, off, s[12:15], s20
s_waitcnt vmcnt(0)
"""
RARE = """
buffer_load_dword v4, off, s[12:15], 0
s_cmp_eq_u32 s0, {}
s_cbranch_scc1 rare
s_waitcnt vmcnt(0)
rare:
v_mov_b32_e32 v5, v4
"""
COUNT = """
v_mov_b32_e32 v2, 1
s_lshl_b32 s16, s0, 2
buffer_atomic_add v2, off, s[12:15], s16
"""
"""Each work-item adds one to the dword of its work-group."""


class Counting:
    """A reference engine that counts the work-groups that it was given."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []

    def run(self, dispatch: Dispatch) -> Statistics:
        self.groups.append(dispatch.groups[:, 0].tolist())
        return ReferenceEngine().run(dispatch)


def checked(body: str, groups: int = 1, name: str = "gfx900", runs: int = 1, **options: Any) -> tuple[Any, ...]:
    """Run a body with the check: findings, the work-groups that ran as ever, the dispatch, what it took."""
    found: list[Finding] = []
    engine, checker = Counting(), WaitChecker(found.append)
    text = HEAD + body.replace("|", "\n") + TAIL
    dispatch = program(text, name, groups=[(n, 0, 0) for n in range(groups)], **options)
    took = [checker.run(dispatch, engine) for _ in range(runs)]
    return found, engine.groups, dispatch, took[-1]


@pytest.mark.parametrize(("kernel", "level"), cases(runs=True))
def test_planted_bugs_are_found_and_corrected_versions_are_not_even_checked(kernel: Planted, level: int) -> None:
    name = {8: "gfx801", 9: "gfx901"}[level] if kernel.hazard.endswith("-clause") else PROCESSORS[level]
    found: list[Finding] = []
    checker = WaitChecker(found.append)
    bad = program(kernel.source(level, is_bad=True), name, lds_bytes=LDS_BYTES)
    assert checker.run(bad, ReferenceEngine()) is not None
    [each] = found
    first, second = kernel.places(level)
    assert each.rule is not None
    assert (each.rule.id, each.pc) == (f"gcn/{kernel.hazard}", second)
    assert each.other == f"pc {first:#x} (entry + {first - CODE:#x})"
    twin = program(kernel.source(level, is_bad=False), name)
    assert WaitChecker(found.append).run(twin, ReferenceEngine()) is None
    assert len(found) == 1


def test_what_was_found_is_not_searched_for_again() -> None:
    found, others, _, took = checked(BUGGY, runs=2)
    assert [each.check for each in found] == ["waits"]
    assert others == []
    assert took is None


def test_how_often_it_was_met_is_counted() -> None:
    body = "s_mov_b32 s21, 0|again:" + BUGGY.replace("\n", "|") + "s_add_u32 s21, s21, 1|s_cmp_lt_u32 s21, 5"
    found, *_ = checked(body + "|s_cbranch_scc1 again\n")
    assert [each.count for each in found] == [5]


def test_a_path_that_only_the_last_work_group_takes_is_checked() -> None:
    long = "s_mov_b32 s21, 0|again:|s_add_u32 s21, s21, 1|s_cmp_lt_u32 s21, 2000|s_cbranch_scc1 again"
    found, others, _, took = checked(long + RARE.format(39), groups=40)
    assert [each.level for each in found] == [Level.ERROR]
    [between] = others
    assert between == list(range(between[0], 39))
    assert 0 < between[0] < 10
    assert took.groups == took.waves == 40


def test_a_path_that_is_not_taken_becomes_a_note_when_enough_was_checked() -> None:
    found, _, _, took = checked(RARE.format(99), runs=LAUNCHES - 1)
    assert found == []
    assert took is not None
    [each] = checked(RARE.format(99), runs=LAUNCHES)[0]
    assert each.level is Level.NOTE
    assert "on a path that no wave took in 50 runs that were checked" in each.message
    assert checked(RARE.format(99), runs=LAUNCHES + 1)[3] is None


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("groups", [1, 2, 200])
def test_results_and_what_they_took_are_the_same(groups: int, seed: int | None) -> None:
    _, _, dispatch, took = checked(BUGGY + COUNT, groups=groups, seed=seed, size=(128, 1, 1))
    plain = program(HEAD + BUGGY + COUNT + TAIL, groups=[(n, 0, 0) for n in range(groups)], seed=seed, size=(128, 1, 1))
    assert took == ReferenceEngine().run(plain)
    assert dwords(dispatch, groups + 1) == dwords(plain, groups + 1) == [128] * groups + [0]


def test_the_rest_runs_on_translated_code() -> None:
    found: list[Finding] = []
    engine = JitEngine(threads=2, tier=Tier.THREADED)
    dispatch = program(HEAD + BUGGY + COUNT + TAIL, groups=[(n, 0, 0) for n in range(500)])
    took = WaitChecker(found.append).run(dispatch, engine)
    engine.close()
    assert took is not None
    assert took.interpreted < took.instructions
    assert dwords(dispatch, 500) == [64] * 500
    assert len(found) == 1


def test_code_that_changes_is_checked_again() -> None:
    found: list[Finding] = []
    checker = WaitChecker(found.append)
    dispatch = program(HEAD + BUGGY.replace("s20\ns_wait", "0\ns_wait") + TAIL)
    assert checker.run(dispatch, ReferenceEngine()) is None
    bad = program(HEAD + BUGGY + TAIL)
    plain = bad.memory.plain(CODE, 4)
    assert plain is not None
    dispatch.memory.write(CODE, bytes(plain.view))
    assert checker.run(dispatch, ReferenceEngine()) is not None
    assert len(found) == 1


def test_flat_accesses_that_only_lds_would_make_wrong_cost_one_glance() -> None:
    body = "flat_load_dword v4, v[20:21]|s_waitcnt vmcnt(0)|v_mov_b32_e32 v5, v4\n"
    assert checked(body, name="gfx803")[3] is None  # there is no LDS
    found, _, _, took = checked(body, name="gfx803", lds_bytes=LDS_BYTES, runs=1)
    assert took is not None
    assert found == []
    assert checked(body, name="gfx803", lds_bytes=LDS_BYTES, runs=2)[3] is None
    [each] = checked(body.replace("v[20:21]", "v[30:31]"), name="gfx803", lds_bytes=LDS_BYTES)[0]
    assert each.suggestion == "add s_waitcnt lgkmcnt(0) between the two instructions"


def test_registers_and_wave_of_a_hazard() -> None:
    ((found,), *_) = checked(BUGGY)
    held = found.registers
    assert held is not None
    assert (held.pc, held.instruction) == (found.pc, "buffer_load_dword v4, off, s[12:15], s20")
    assert held.scalars.keys() == {"exec", "s12", "s13", "s14", "s15", "s20"}
    assert held["s12"] == 0x200000
    assert (found.unit, found.group) == ("wave 0", "0,0,0")
    (rare,) = checked(RARE.format(99999), runs=LAUNCHES)[0]
    assert (rare.level, rare.registers) == (Level.NOTE, None)
    assert of_finding(rare).no_registers == "No wave took this path, so there are no registers to show."


def test_what_was_met_before_a_fault_is_reported() -> None:
    found: list[Finding] = []
    text = HEAD + BUGGY + "v_mov_b32_e32 v20, 64\nglobal_load_dword v4, v[20:21], off\n" + TAIL
    with pytest.raises(Exception, match="0x40"):
        WaitChecker(found.append).run(program(text), ReferenceEngine())
    assert len(found) == 1
