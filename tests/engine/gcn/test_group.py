"""Work-groups on the reference engine: first state, turns, barriers, limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softcard.core.errors import AccessFault
from softcard.core.limits import Watch
from softcard.core.space import Ram
from softcard.engine.gcn.api import StepLimit
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.state import (
    ENGINE,
    EXEC,
    FLAT_SCRATCH,
    HW_ID,
    LDS_SIZE,
    M0,
    MODE,
    PRIVATE_BASE,
    SCRATCH_AT,
    SCRATCH_SIZE,
    SHARED_BASE,
    VCC,
    Wave,
)
from tests.engine.gcn.programs import dwords, program, run, started
from tests.engine.gcn.rig import CODE, DATA, SCRATCH, launch

# ---- first state


def test_registers_at_the_start() -> None:
    dispatch = program(
        "s_endpgm",
        groups=[(4, 5, 6)],
        size=(10, 10, 1),
        sgprs=np.array([11, 12, 13], np.uint32),
        group_id_sgprs=(3, -1, 4),
        group_info_sgpr=5,
        wave_offset_sgpr=6,
        scratch_base=SCRATCH,
        scratch_lane_bytes=20,
        scratch_slots=2,
        mode=0x2F0,
        m0=99,
        lds_bytes=512,
        poison=0xDEAD_BEEF,
    )
    for number, info in ((0, 0x8000_0002), (1, 2)):
        _, wave = started(dispatch, number=number)
        assert wave.sgpr[:8].tolist() == [11, 12, 13, 4, 6, info, number * 2048, 0xDEAD_BEEF]
        assert wave.sgpr[M0] == 99
        assert wave.sgpr[[VCC, FLAT_SCRATCH[9]]].tolist() == [0xDEAD_BEEF] * 2
        assert wave.s64(EXEC) == (2**64 - 1 if number == 0 else 2**36 - 1)
        assert wave.vgpr[:4, 0].tolist() == [64 % 10 * number, 64 // 10 * number, 0, 0xDEAD_BEEF]
        words = wave.words.tolist()
        assert [words[k] for k in (0, MODE, HW_ID, LDS_SIZE, SCRATCH_SIZE)] == [CODE, 0x2F0, number, 512, 20]
        assert words[SCRATCH_AT] == SCRATCH + number * 2048
        assert (words[SHARED_BASE], words[PRIVATE_BASE]) == (dispatch.shared_base, dispatch.private_base)


def test_undefined_registers_are_zero_without_poison() -> None:
    _, wave = started(program("s_endpgm", group_id_sgprs=(-1, -1, -1)))
    assert not wave.sgpr[:EXEC].any()
    assert not wave.vgpr[3:].any()


def test_the_engines_own_words_are_left_alone() -> None:
    from softcard.engine.gcn.group import start_wave

    wave = Wave()
    wave.words[:] = 7
    start_wave(program("s_endpgm"), wave, 0, 0, 0, 0)
    assert wave.words[ENGINE:].tolist() == [7] * (len(wave.words) - ENGINE)


# ---- turns

COUNT = "s_mov_b32 s8, 4 | again: | s_sub_u32 s8, s8, 1 | s_cmp_lg_u32 s8, 0 | s_cbranch_scc1 again | s_endpgm"


def order(seed: int | None, turn: int, groups: int = 1) -> list[int]:
    """The wave of every retired instruction."""
    heard: list[int] = []

    def hear(wave: Wave, insn: Insn) -> None:
        heard.append(wave.index)

    table = [(n, 0, 0) for n in range(groups)]
    run(program(COUNT, size=(192, 1, 1), seed=seed, turn=turn, groups=table), hear)
    return heard


def test_without_a_seed_waves_take_turns_in_order() -> None:
    assert order(None, 4) == ([0] * 4 + [1] * 4 + [2] * 4) * 3 + [0] * 2 + [1] * 2 + [2] * 2
    assert order(None, 100) == [0] * 14 + [1] * 14 + [2] * 14


def test_a_seed_decides_the_order() -> None:
    orders = {tuple(order(seed, 5)) for seed in range(8)}
    assert len(orders) == 8
    assert order(3, 5) == order(3, 5)
    assert all(sorted(one) == [0] * 14 + [1] * 14 + [2] * 14 for one in orders)


def test_groups_have_orders_of_their_own() -> None:
    both = order(3, 5, groups=2)
    assert both[:42] != both[42:]
    assert both[42:] == order(4, 5)


SPIN = """
v_readfirstlane_b32 s8, v0
s_cmp_eq_u32 s8, 0
v_mov_b32_e32 v1, 0
s_cbranch_scc1 wait
v_mov_b32_e32 v2, 1
ds_write_b32 v1, v2
s_endpgm
wait:
ds_read_b32 v3, v1
v_readfirstlane_b32 s9, v3
s_cmp_eq_u32 s9, 0
s_cbranch_scc1 wait
s_endpgm
"""


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_wave_may_wait_for_another(seed: int | None) -> None:
    """Wave 0 spins until wave 1 has written LDS."""
    run(program(SPIN, size=(128, 1, 1), lds_bytes=64, turn=8, seed=seed))


# ---- barriers

EXCHANGE = f"""
v_lshlrev_b32_e32 v4, 2, v0
ds_write_b32 v4, v0
s_barrier
v_xor_b32_e32 v5, 0xc0, v4
v_xor_b32_e32 v5, 0x300, v5
ds_read_b32 v6, v5
s_barrier
ds_write_b32 v4, v6
v_add_co_u32_e32 v7, vcc, {DATA:#x}, v4
v_mov_b32_e32 v8, 0
flat_store_dword v[7:8], v6
s_endpgm
"""
"""Every work-item of 256 gets what another wave wrote."""


@pytest.mark.parametrize("seed", [None, *range(10)])
@pytest.mark.parametrize("turn", [1, 3, 1000])
def test_barriers_separate_writes_from_reads(seed: int | None, turn: int) -> None:
    dispatch = program(EXCHANGE, size=(256, 1, 1), lds_bytes=1024, seed=seed, turn=turn)
    statistics = run(dispatch)
    assert dwords(dispatch, 256) == [n ^ 0xC0 ^ 0x30 for n in range(256)]
    assert statistics.instructions == 48


def test_waves_that_ended_do_not_hold_a_barrier() -> None:
    text = "v_readfirstlane_b32 s8, v0 | s_cmp_lg_u32 s8, 64 | s_cbranch_scc0 out"
    text += "| s_barrier | s_barrier | out: | s_endpgm"
    for seed in (None, 1, 2, 3):
        assert run(program(text, size=(192, 1, 1), seed=seed)).instructions == 4 + 6 + 6


def test_a_barrier_of_one_wave_is_open() -> None:
    assert run(program("s_barrier | s_barrier | s_endpgm")).instructions == 3


# ---- LDS and private memory of a group


@pytest.mark.parametrize("poison", [None, 0xABAB_ABAB])
def test_lds_is_fresh_in_every_group(poison: int | None) -> None:
    text = "v_lshlrev_b32_e32 v4, 2, v0 | ds_read_b32 v5, v4 | v_mov_b32_e32 v6, 7 | ds_write_b32 v4, v6"
    text += (
        f"| s_lshl_b32 s0, s0, 8 | s_add_u32 s0, s0, {DATA:#x} | v_add_co_u32_e32 v7, vcc, s0, v4 | v_mov_b32_e32 v8, 0"
    )
    dispatch = program(
        text + "| flat_store_dword v[7:8], v5 | s_endpgm",
        groups=[(n, 0, 0) for n in range(3)],
        lds_bytes=256,
        poison=poison,
    )
    run(dispatch)
    assert dwords(dispatch, 192) == [poison or 0] * 192


def test_each_wave_has_private_memory() -> None:
    """Flat private addresses: two waves store their work-item ids at the same private address and read them back."""
    text = "v_mov_b32_e32 v4, 8 | v_mov_b32_e32 v5, 0x20000 | flat_store_dword v[4:5], v0 | s_barrier"
    text += f"| flat_load_dword v6, v[4:5] | v_lshlrev_b32_e32 v7, 2, v0 | v_add_co_u32_e32 v7, vcc, {DATA:#x}, v7"
    dispatch = program(
        text + "| v_mov_b32_e32 v8, 0 | flat_store_dword v[7:8], v6 | s_endpgm",
        size=(128, 1, 1),
        scratch_base=SCRATCH,
        scratch_lane_bytes=16,
        scratch_slots=2,
    )
    dispatch.memory.map(SCRATCH, Ram(2048))
    run(dispatch)
    assert dwords(dispatch, 128) == list(range(128))


# ---- limits and faults


def test_a_wave_that_does_not_end_reaches_its_limit() -> None:
    options: dict[str, Any] = {"size": (128, 1, 1), "groups": [(7, 0, 0)], "step_limit": 1001, "watch": Watch(9)}
    with pytest.raises(StepLimit) as caught:
        run(program("again: | s_nop 0 | s_branch again", **options))
    assert str(caught.value) == (
        "the wave did not end within 1001 instructions (step_limit; time_limit_seconds is 9), "
        "at pc 0x100004, at wave 0, at work-group 7,0,0"
    )


@pytest.mark.parametrize("turn", [1, 4, 100])
def test_the_limit_counts_every_instruction(turn: int) -> None:
    text = "s_nop 0 | s_nop 0 | s_nop 0 | s_endpgm"
    assert run(program(text, step_limit=4, turn=turn)).instructions == 4
    with pytest.raises(StepLimit, match=r"within 3 instructions \(.*\), at pc 0x10000c"):
        run(program(text, step_limit=3, turn=turn))
    with pytest.raises(StepLimit, match=r"within 0 instructions \(.*\), at pc 0x100000"):
        run(program(text, step_limit=0, turn=turn))


def test_a_wave_at_a_barrier_has_not_reached_its_limit() -> None:
    assert run(program("s_barrier | s_endpgm", size=(128, 1, 1), step_limit=2)).instructions == 4


def test_a_fault_names_the_wave_and_the_group_it_happened_in() -> None:
    text = (
        "v_cmp_eq_u32_e32 vcc, 70, v0 | s_cmp_eq_u32 s0, 2 | s_cselect_b64 s[8:9], -1, 0 | s_and_b64 exec, vcc, s[8:9]"
    )
    dispatch = program(
        text + "| v_mov_b32_e32 v3, 0 | v_mov_b32_e32 v4, 0 | flat_load_dword v5, v[3:4] | s_endpgm",
        size=(128, 1, 1),
        groups=[(n, 9, 0) for n in range(4)],
    )
    with pytest.raises(AccessFault) as caught:
        run(dispatch)
    assert [str(place) for place in caught.value.path[-2:]] == ["at wave 1", "at work-group 2,9,0"]
    assert str(caught.value.path[0]) == "at lane 6"


def test_the_first_wave_of_a_partial_group_may_be_the_only_one() -> None:
    assert run(launch([0xBF81_0000], size=(3, 1, 1))).waves == 1
