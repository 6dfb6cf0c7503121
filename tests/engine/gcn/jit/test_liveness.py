"""Which vector registers translated code leaves in memory, and which ones waves are given."""

from __future__ import annotations

import pytest

from softcard.engine.gcn.jit.basics import Observed
from softcard.engine.gcn.jit.liveness import EVERYTHING, NOTHING, Live, Liveness
from softcard.engine.gcn.jit.region import Region, discover
from softcard.engine.gcn.reference.engine import Stepper
from tests.engine.gcn.programs import program


def region(text: str, name: str = "gfx900") -> Region:
    dispatch = program(text, name)
    return discover((dispatch.entry, dispatch.mode), Stepper(dispatch).fetch)


def at_head(text: str, observed: Observed = Observed.NEVER, name: str = "gfx900") -> Live:
    """What is live where the program begins."""
    found = region(text, name)
    return Liveness(found, observed).before(next(iter(found.blocks.values())), 0)


def registers(*numbers: int) -> int:
    return sum(1 << n for n in numbers)


END = " | s_endpgm"
STORE = "global_store_dword v[2:3], v1, off"


def test_what_is_read_is_live() -> None:
    assert at_head(STORE + END) == Live(registers(1, 2, 3))


def test_what_is_written_first_is_dead() -> None:
    assert at_head("v_mov_b32_e32 v1, v7 |" + STORE + END) == Live(registers(2, 3, 7))
    assert at_head("v_add_u32_e32 v1, v1, v7 |" + STORE + END) == Live(registers(1, 2, 3, 7))


def test_what_is_written_in_parts_is_live() -> None:
    text = "v_mov_b32_sdwa v1, v7 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD |" + STORE + END
    assert at_head(text) == Live(registers(1, 2, 3, 7))


def test_nothing_is_live_behind_the_end() -> None:
    assert at_head("v_mov_b32_e32 v1, v7 | v_mov_b32_e32 v2, v1" + END) == Live(registers(7))
    assert at_head("s_endpgm") == NOTHING


def test_lanes_outside_of_exec_are_live_where_exec_changes() -> None:
    text = "v_mov_b32_e32 v1, 5 | s_mov_b64 exec, s[4:5] |" + STORE + END
    assert at_head(text) == Live(registers(2, 3), registers(1, 2, 3))


def test_a_comparison_that_writes_exec_reads_under_the_old_one() -> None:
    text = "v_cmpx_eq_u32_e32 vcc, v4, v5 | v_mov_b32_e32 v1, 5 |" + STORE + END
    assert at_head(text) == Live(registers(2, 3, 4, 5), registers(2, 3))


def test_other_lanes_are_read_by_what_sees_them() -> None:
    assert at_head("v_readlane_b32 s4, v9, s5" + END) == Live(registers(9), registers(9))
    moved = "v_mov_b32_dpp v1, v9 row_ror:1 row_mask:0xf bank_mask:0xf | "
    assert at_head(moved + STORE + END).inactive & registers(9)


def test_one_written_lane_leaves_the_others() -> None:
    assert at_head("v_writelane_b32 v1, s4, s5 |" + STORE + END).active == registers(1, 2, 3)


@pytest.mark.parametrize(
    "text",
    [
        "v_movrels_b32_e32 v1, v2",
        "s_trap 2",
        "s_setpc_b64 s[4:5]",
        "s_sethalt 0",
    ],
)
def test_everything_is_live_before_what_may_inspect_anything(text: str) -> None:
    assert at_head("s_nop 0 |" + text + END, name="gfx803") == EVERYTHING


def test_a_loop_keeps_what_its_next_round_reads() -> None:
    text = "again: | v_add_u32_e32 v1, v1, v4 | v_mov_b32_e32 v6, v1 | s_cmp_lg_u32 s4, 0 | s_cbranch_scc1 again |"
    found = region(text + STORE + END)
    live = Liveness(found)
    loop = next(block for block in found.blocks.values() if block.nodes[-1].effects.flow == "branch")
    assert live.before(loop, len(loop.nodes)) == Live(registers(1, 2, 3, 4))


def test_a_way_out_of_the_region_keeps_everything() -> None:
    found = region("v_mov_b32_e32 v1, 1 | s_branch 4096")
    assert Liveness(found).before(next(iter(found.blocks.values())), 0) == Live(
        EVERYTHING.active & ~2, EVERYTHING.active
    )


def test_observers_see_what_they_ask_for() -> None:
    text = "v_mov_b32_e32 v1, 1 | v_mov_b32_e32 v1, 2" + END
    assert at_head(text, Observed.AT_END) == Live(EVERYTHING.active & ~2, EVERYTHING.inactive)
    assert at_head(text, Observed.ALWAYS) == EVERYTHING


def test_waves_are_given_the_rows_up_to_the_last_live_one() -> None:
    found = region("v_add_u32_e32 v1, v0, v6 | " + STORE + END)
    assert list(Liveness(found).rows().values()) == [7]
