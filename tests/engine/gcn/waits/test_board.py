"""The scoreboard on paths of code: planted bugs and their twins, sequences that are right, the table of hazards."""

from __future__ import annotations

import pytest

from softcard.engine.gcn.waits.board import LONGEST, PAIRS, Missed
from softcard.engine.gcn.waits.issue import SGPR_BIT, registers_of
from softcard.isa.gcn.hazards import Kind, hazard, load_hazards
from softcard.isa.gcn.target import LEVELS
from tests.engine.gcn.rig import CODE
from tests.engine.gcn.waits.planted import PLANTED, PROCESSORS, Planted, cases, look

HEAD = """
s_mov_b32 m0, -1
s_mov_b64 s[8:9], 0
"""


def found(text: str, name: str = "gfx900") -> list[Missed]:
    """What is missed on any path, but for what depends on LDS."""
    return [each for each in look(HEAD + text + "|s_endpgm", name) if each.is_likely]


def short(text: str, name: str = "gfx900") -> list[str]:
    """The hazards by their short names."""
    return [each.hazard.id.partition("/")[2] for each in found(text, name)]


@pytest.mark.parametrize(("kernel", "level"), cases())
def test_a_planted_bug_is_found_at_its_instructions(kernel: Planted, level: int) -> None:
    missed = [each for each in look(kernel.source(level, is_bad=True), PROCESSORS[level]) if each.is_likely]
    assert [(each.hazard, each.before.pc, each.after.pc) for each in missed] == [
        (hazard(kernel.hazard), *kernel.places(level))
    ]
    assert missed[0].is_doubtful == (level in hazard(kernel.hazard).doubtful)


@pytest.mark.parametrize(("kernel", "level"), cases())
def test_nothing_is_found_in_its_corrected_version(kernel: Planted, level: int) -> None:
    assert not [each for each in look(kernel.source(level, is_bad=False), PROCESSORS[level]) if each.is_likely]


def test_every_hazard_is_searched_for_or_the_table_says_why_not() -> None:
    checked = {kernel.hazard for kernel in PLANTED}
    for each in load_hazards().values():
        if each.needs:  # test_matrix.py has these
            continue
        is_silent = each.kind is Kind.RESOLVED or bool(each.absent)
        assert is_silent != (each.id.partition("/")[2] in checked), each.id
    states = {
        each.id.partition("/")[2] for each in load_hazards().values() if each.kind is Kind.STATES and not each.absent
    }
    assert states == PAIRS.keys()
    assert max(each.states(level) for each in load_hazards().values() for level in LEVELS) == LONGEST


def test_hazards_say_what_they_need_for_each_generation() -> None:
    each = hazard("setreg-setreg")
    assert [each.states(level) for level in LEVELS] == [1, 2, 2]
    assert hazard("vector-result-read").states(9) == 0
    assert hazard("valu-sgpr-vmem").rule.clause == "Manually Inserted Wait States (4.5)"
    assert "wait states" in hazard("valu-sgpr-vmem").rule.text


# ---- counters --------------------------------------------------------------------------------------------------------
LOAD = "buffer_load_dword {}, off, s[12:15], 0"


def load(register: str) -> str:
    return LOAD.format(register)


@pytest.mark.parametrize(
    "text",
    [
        f"{load('v4')}|buffer_store_dword v1, off, s[12:15], 0|s_waitcnt vmcnt(1)|v_mov_b32_e32 v5, v4",
        "ds_read_b32 v4, v2|ds_write_b32 v2, v3|s_waitcnt lgkmcnt(1)|v_mov_b32_e32 v5, v4",
        f"{load('v4')}|{load('v4')}|s_waitcnt vmcnt(0)|v_mov_b32_e32 v5, v4",
        "ds_read_b32 v4, v2|ds_read_b32 v4, v3|s_waitcnt lgkmcnt(0)|v_mov_b32_e32 v5, v4",
        f"{load('v4')}|v_mov_b32_e32 v1, v0|v_mov_b32_e32 v2, v0|s_waitcnt vmcnt(0)",
        "buffer_store_dword v4, off, s[12:15], 0|v_mov_b32_e32 v4, 1",
        "ds_write_b32 v2, v4|v_mov_b32_e32 v4, 1|v_mov_b32_e32 v2, 1",
        "s_load_dword s20, s[8:9], 0x0|s_mov_b32 s8, 1|s_waitcnt lgkmcnt(0)",
        # A younger read of the same kind is outstanding, one of another kind does not matter then.
        "ds_read_b32 v4, v2|s_load_dword s20, s[8:9], 0x0|ds_read_b32 v5, v3|s_waitcnt lgkmcnt(1)|v_mov_b32_e32 v6, v4",
        "v_readfirstlane_b32 s20, v0|s_mov_b32 s21, s20|v_mov_b32_e32 v1, s20|s_load_dword s22, s[20:21], 0x0",
        "s_mov_b32 s20, 0|buffer_load_dword v4, off, s[12:15], s20",
        "v_cmp_eq_u32_e32 vcc, v0, v1|s_cbranch_vccz far|v_mov_b32_e32 v4, 1|far:",
    ],
)
@pytest.mark.parametrize("name", PROCESSORS.values())
def test_right_sequences_are_not_reported(text: str, name: str) -> None:
    assert short(text, name) == []


def test_the_need_is_the_weakest_wait_that_is_enough() -> None:
    text = "|".join([load(f"v{n}") for n in range(4, 9)] + ["v_mov_b32_e32 v1, v6"])
    [missed] = found(text)
    assert (missed.need, missed.names) == ("s_waitcnt vmcnt(2)", "v6")
    assert found(text.replace("|v_mov", "|s_waitcnt vmcnt(2)|v_mov")) == []
    assert found(text.replace("|v_mov", "|s_waitcnt vmcnt(3)|v_mov")) != []


@pytest.mark.parametrize(("name", "most"), [("gfx700", 15), ("gfx803", 15), ("gfx900", 63)])
def test_what_a_counter_cannot_hold_is_done(name: str, most: int) -> None:
    """So many can be outstanding; the wave stands still before there is another."""
    loads = [load("v4")] + [load("v5")] * (most - 1)
    use = "v_mov_b32_e32 v6, v4"
    assert short("|".join([*loads, use]), name) == ["vector-result-read"]
    assert short("|".join([*loads, load("v5"), use]), name) == []


def test_the_highest_bits_of_vmcnt_are_those_of_gfx9() -> None:
    text = "|".join([load("v4"), *[load("v5")] * 20, "s_waitcnt vmcnt({})", "v_mov_b32_e32 v6, v4"])
    assert short(text.format(20)) == []
    assert short(text.format(21)) == ["vector-result-read"]


def test_a_wait_at_the_joint_of_paths_counts_the_worst_of_them() -> None:
    text = f"{load('v4')}|s_cbranch_scc0 joint|{load('v5')}|joint:|s_waitcnt vmcnt({{}})|v_mov_b32_e32 v6, v4"
    assert short(text.format(0)) == []
    assert short(text.format(1)) == ["vector-result-read"]


def test_each_register_of_a_wide_load_counts() -> None:
    text = "buffer_load_dwordx4 v[4:7], off, s[12:15], 0|v_mov_b32_e32 v1, v7|s_waitcnt vmcnt(0)|v_mov_b32_e32 v1, v4"
    [missed] = found(text)
    assert missed.names == "v7"


def test_one_thing_that_is_missed_is_reported_once() -> None:
    text = f"{load('v4')}|v_mov_b32_e32 v1, v4|v_mov_b32_e32 v2, v4"
    [missed] = found(text)
    assert missed.after.text == "v_mov_b32_e32 v1, v4"


def test_flat_accesses_owe_by_the_counter_of_what_they_reach() -> None:
    text = HEAD + "flat_load_dword v4, v[2:3]|s_waitcnt {}|v_mov_b32_e32 v5, v4|s_endpgm"
    conditions = {
        wait: [(each.need, each.when) for each in look(text.format(wait), "gfx803")]
        for wait in ("vmcnt(0)", "lgkmcnt(0)", "vmcnt(0) lgkmcnt(0)", "expcnt(0)")
    }
    assert conditions == {
        "vmcnt(0)": [("s_waitcnt lgkmcnt(0)", "lds")],
        "lgkmcnt(0)": [("s_waitcnt vmcnt(0)", "memory")],
        "vmcnt(0) lgkmcnt(0)": [],
        "expcnt(0)": [("s_waitcnt vmcnt(0)", "")],
    }


def test_global_and_scratch_count_on_one_counter_alone() -> None:
    for text in ("global_load_dword v4, v[2:3], off", "scratch_load_dword v4, off, s20"):
        assert look(f"{HEAD}{text}|s_waitcnt vmcnt(0)|v_mov_b32_e32 v5, v4|s_endpgm", "gfx900") == []


def test_images_with_and_without_sampler_do_not_return_in_order() -> None:
    plain, sampled = (
        "image_load v4, v[0:1], s[16:23] dmask:0x1 unorm",
        "image_sample v4, v[0:1], s[16:23], s[24:27] dmask:0x1",
    )
    assert short(f"{plain}|{plain}") == []
    assert short(f"{plain}|{sampled}") == ["vector-result-overwritten"]


def test_what_a_call_leaves_is_the_callees_to_wait_for() -> None:
    """As compilers have it: functions begin and end with a wait for everything."""
    assert short(f"{load('v4')}|s_swappc_b64 s[30:31], s[28:29]|v_mov_b32_e32 v1, v4") == []


def test_words_that_are_no_instruction_end_a_path() -> None:
    assert short(f"{load('v4')}|.long 0xffffffff|v_mov_b32_e32 v1, v4") == []


# ---- wait states -----------------------------------------------------------------------------------------------------
PAIR_TEXTS = {
    "valu-sgpr-vmem": ("v_readfirstlane_b32 s20, v1", "buffer_load_dword v4, off, s[12:15], s20"),
    "valu-lane-select": ("v_readfirstlane_b32 s20, v1", "v_readlane_b32 s21, v0, s20"),
    "valu-vcc-div-fmas": ("v_cmp_eq_u32_e32 vcc, v0, v1", "v_div_fmas_f32 v4, v0, v0, v0"),
    "setreg-getreg": ("s_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s2", "s_getreg_b32 s20, hwreg(HW_REG_MODE, 0, 4)"),
    "setreg-setreg": ("s_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s2", "s_setreg_b32 hwreg(HW_REG_MODE, 4, 4), s3"),
    "valu-dpp": ("v_mov_b32_e32 v4, v0", "v_mov_b32_dpp v5, v4 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf"),
}


@pytest.mark.parametrize("name", PAIR_TEXTS)
@pytest.mark.parametrize("level", LEVELS)
def test_wait_states_are_counted_exactly(name: str, level: int) -> None:
    first, second = PAIR_TEXTS[name]
    want = hazard(name).states(level)
    if not want:
        return
    for states in range(LONGEST + 2):
        [*missed] = found("|".join([first, *["s_mov_b32 s30, 0"] * states, second]), PROCESSORS[level])
        assert bool(missed) == (states < want)
        if states:
            assert bool(found(f"{first}|s_nop {states - 1}|{second}", PROCESSORS[level])) == (states < want)
        if missed:
            assert missed[0].need == f"s_nop {want - states - 1}"


def test_a_branch_is_one_wait_state_and_the_shortest_path_counts() -> None:
    text = (
        "v_readfirstlane_b32 s20, v1|s_cbranch_scc1 far|s_nop 4|far:|s_nop {}|buffer_load_dword v4, off, s[12:15], s20"
    )
    assert short(text.format(2)) == ["valu-sgpr-vmem"]
    assert short(text.format(3)) == []


def test_the_private_segment_of_a_store_of_64_bits_may_be_overwritten_at_once() -> None:
    assert short("buffer_store_dwordx2 v[4:5], off, s[12:15], 0|v_mov_b32_e32 v4, 1") == []
    assert short("buffer_store_dwordx3 v[4:6], off, s[12:15], s20|v_mov_b32_e32 v4, 1") == []
    assert short("buffer_store_dwordx3 v[4:6], off, s[12:15], 0|s_mov_b32 s20, 0|v_mov_b32_e32 v4, 1") == []
    assert short("global_store_dwordx3 v[2:3], v[4:6], off|v_mov_b32_e32 v6, 1") == ["wide-store-data"]


# ---- clauses ---------------------------------------------------------------------------------------------------------
def test_runs_matter_only_where_they_may_be_done_again() -> None:
    text = f"{HEAD}s_load_dword s20, s[8:9], 0x0|s_load_dword s8, s[8:9], 0x0|s_endpgm"
    assert [each.hazard.id for each in look(text, "gfx801")] == ["gcn/scalar-clause"]
    assert look(text, "gfx803") == []
    assert look(text.replace("|s_load_dword s8", "|v_nop|s_load_dword s8"), "gfx801") == []


def test_registers_have_names() -> None:
    bits = 1 << 7 | 1 << 256 + 5 | sum(1 << SGPR_BIT + n for n in (3, 106, 124, 127))
    assert registers_of(bits) == ["v7", "a5", "s3", "vcc_lo", "m0", "exec_hi"]


def test_findings_are_in_the_order_of_the_code() -> None:
    missed = found(f"{load('v4')}|{load('v5')}|v_mov_b32_e32 v1, v5|v_mov_b32_e32 v2, v4")
    assert [each.after.pc for each in missed] == sorted(each.after.pc for each in missed)
    assert all(each.after.pc > CODE for each in missed)
