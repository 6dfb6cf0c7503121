"""Programs: what they are made of, and what leaves them."""

from __future__ import annotations

import time

import numpy as np
import pytest

from softcard.engine.gcn.api import Dispatch, StepLimit
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.threaded.program import Program
from softcard.engine.gcn.tiered import engine as jit
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.gcn.tiered.translation import Tier, Translation
from softcard.ir.object_cache import ObjectCache
from tests.engine.gcn.jit.leaving import exits
from tests.engine.gcn.jit.test_jit import engine, store
from tests.engine.gcn.programs import dwords, program
from tests.engine.gcn.rig import CODE, DATA

NESTED = """
v_mov_b32_e32 v1, 0
s_movk_i32 s8, 30
outer:
s_movk_i32 s9, 40
inner:
v_add_u32_e32 v1, s9, v1
s_sub_u32 s9, s9, 1
s_cmp_lg_u32 s9, 0
s_cbranch_scc1 inner
v_xor_b32_e32 v1, s8, v1
s_sub_u32 s8, s8, 1
s_cmp_lg_u32 s8, 0
s_cbranch_scc1 outer
"""
MODES = """
s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 0xf
v_mul_f32_e32 v1, 0.5, v2
s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 0x0
v_mul_f32_e32 v3, 0.5, v2
v_or_b32_e32 v1, v3, v1
"""


def made(one: JitEngine, dispatch: Dispatch) -> Program:
    """The program of a dispatch that has run."""
    return one.code(dispatch.target, dispatch.memory).programs[dispatch.entry, dispatch.mode]


def test_loops_and_changes_of_mode_never_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    one = engine(tier=Tier.THREADED)
    for text in (NESTED + store(1), "v_mov_b32_e32 v2, 0x00800000 |" + MODES + store(1)):
        dispatch = program(text, size=(256, 1, 1))
        with exits(monkeypatch) as found:
            one.run(dispatch)
        assert found == []
        expected = program(text, size=(256, 1, 1))
        ReferenceEngine().run(expected)
        assert dwords(dispatch, 256) == dwords(expected, 256)
    assert dwords(dispatch, 1) == [0x0040_0000], "the denormal of the first product, the zero of the second"


@pytest.mark.parametrize("count", [1, 3000, pytest.param(18_000, marks=pytest.mark.slow)])
def test_code_goes_on_behind_what_looks_like_its_end(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """A literal, and an end that branches lead around; the end itself may be far behind."""
    text = "v_mov_b32_e32 v1, 0xbf810000 | s_cbranch_execz away | s_branch on | away: | s_endpgm | on: |"
    dispatch = program(text + "v_add_u32_e32 v1, 1, v1 |" * count + store(1), step_limit=100_000)
    with exits(monkeypatch) as found:
        engine(tier=Tier.THREADED).run(dispatch)
    assert found == []
    assert dwords(dispatch, 1) == [0xBF81_0000 + count]


@pytest.mark.parametrize("skips", ["", "s_cbranch_vccz here{0} | here{0}: | "])
def test_ways_that_are_longer_than_a_turn_go_on(skips: str) -> None:
    """Without a loop fuel is looked at now and then all the same; a limit of steps is kept on the instruction."""
    part = "v_add_u32_e32 v1, 3, v1 | " * 500
    text = "v_mov_b32_e32 v1, 0 | " + "".join(part + skips.format(n) for n in range(20)) + store(1)
    dispatch = program(text, step_limit=20_000)
    engine(tier=Tier.THREADED).run(dispatch)
    assert dwords(dispatch, 1) == [30_000]
    counts = []
    for one in (engine(tier=Tier.THREADED), ReferenceEngine()):
        stopped = program(text, step_limit=9_000)
        with pytest.raises(StepLimit) as caught:
            one.run(stopped)
        counts.append(str(caught.value))
    assert counts[0] == counts[1]


def test_data_behind_a_jump_is_no_code() -> None:
    """Words that no way leads to are neither compiled nor part of what the program was made of."""
    text = "s_branch over | s_sleep 5 | s_ttracedata | over: | v_mov_b32_e32 v1, 3" + store(1)
    one = engine(tier=Tier.THREADED)
    dispatch = program(text)
    one.run(dispatch)
    code_ranges = made(one, dispatch).code_ranges
    assert [(address, min(len(data), 4)) for address, data in code_ranges] == [(CODE, 4), (CODE + 12, 4)]
    assert len(code_ranges[0][1]) == 4
    assert sum(made(one, dispatch).counts.values()) == 7


def test_code_that_was_changed_is_made_anew() -> None:
    one = engine(tier=Tier.THREADED)
    dispatch = program("v_mov_b32_e32 v1, 3" + store(1))
    one.run(dispatch)
    first = made(one, dispatch)
    dispatch.memory.write(CODE, program("v_mov_b32_e32 v1, 4" + store(1)).memory.read(CODE, 4))
    one.run(dispatch)
    assert dwords(dispatch, 1) == [4]
    assert made(one, dispatch) is not first


@pytest.mark.slow(seconds=15)
def test_optimised_code_takes_over_in_the_middle_of_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """First the inner loop, which threaded code enters and goes on behind; results and counts stay."""
    monkeypatch.setattr(jit, "HOT", 900)
    monkeypatch.setattr(jit, "POLL_SECONDS", 0.0)
    one, text = engine(cache=ObjectCache()), NESTED + store(1)
    expected = program(text)
    instructions = ReferenceEngine().run(expected).instructions
    dispatch = program(text)
    launch, deadline = one.prepare(dispatch), time.monotonic() + 300
    while True:
        dispatch.memory.write(0x20_0000, bytes(256))
        assert launch.run().instructions == instructions
        assert dwords(dispatch, 64) == dwords(expected, 64)
        replaced = made(one, dispatch).replaced
        if (dispatch.entry, dispatch.mode) in replaced:
            break
        assert time.monotonic() < deadline
        time.sleep(0.02)  # the process that compiles has a lower priority
    assert len(replaced) > 1, "the inner loop was hot before all of it was"
    regions = [each for each in launch.code.table.alive if isinstance(each, Translation)]
    assert len(regions) >= 2
    assert (len(regions[0].metadata.blocks), regions[0].metadata.start[0]) < (
        len(regions[-1].metadata.blocks),
        CODE + 64,
    )
    one.close()


def test_counters_are_the_threads_own() -> None:
    one = engine(tier=Tier.THREADED)
    dispatch = program(NESTED + store(1))
    one.run(dispatch)
    program_ = made(one, dispatch)
    visits = [int(one.profile(0)[profile]) for profile in program_.profiles.values()]
    assert sorted(visits) == [1, 1, 30, 30, 1200]
    assert not np.any(one.profile(1))


def test_waves_after_one_that_ended_in_optimised_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers have overwritten the registers that it was given: the next wave is given them anew."""
    monkeypatch.setattr(jit, "HOT", 900)
    monkeypatch.setattr(jit, "POLL_SECONDS", 0.0)
    text = f"""
    v_mov_b32_e32 v5, s8
    s_mov_b32 s8, 77
    s_movk_i32 s4, 4
    again:
    s_sub_u32 s4, s4, 1
    s_cmp_lg_u32 s4, 0
    s_cbranch_scc1 again
    v_mov_b32_e32 v9, 0
    v_mov_b32_e32 v8, s0
    v_lshlrev_b32_e32 v8, 2, v8
    v_add_u32_e32 v8, {DATA:#x}, v8
    global_store_dword v[8:9], v5, off
    s_endpgm
    """
    one, groups = engine(), [(n, 0, 0) for n in range(256)]
    dispatch = program(text, groups=groups, sgprs=np.arange(100, 110, dtype=np.uint32))
    launch, deadline = one.prepare(dispatch), time.monotonic() + 300
    launch.run()
    while not made(one, dispatch).replaced:
        assert time.monotonic() < deadline
        time.sleep(0.02)  # the process that compiles has a lower priority
        launch.run()
    assert (dispatch.entry, dispatch.mode) not in made(one, dispatch).replaced, "what comes before the loop was not hot"
    dispatch.memory.write(DATA, bytes(1024))
    launch.run()
    assert dwords(dispatch, 256) == [108] * 256
    one.close()
