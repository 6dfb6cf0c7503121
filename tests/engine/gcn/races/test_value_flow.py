"""Races of loads whose values may be unused, stores of lanes that differ, and where the values of loads go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from softcard.core.findings import Finding, FindingLog
from softcard.core.space import Ram
from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.hooks import Checks
from softcard.engine.gcn.races.value_flow import DEFERRED, Flow, ValueFlows
from softcard.engine.gcn.races.watch import RaceWatch
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.state import EXEC, Wave
from tests.engine.gcn.programs import dwords, program
from tests.engine.gcn.rig import SCRATCH

SET_UP = (
    "s_mov_b32 m0, -1|v_readfirstlane_b32 s8, v0|v_and_b32 v1, 63, v0|v_lshlrev_b32 v2, 2, v1|v_mov_b32 v5, 0|"
    "v_add_u32 v4, vcc, 0x200000, v2|v_lshlrev_b32 v6, 2, v0|v_add_u32 v6, vcc, 0x201000, v6|v_mov_b32 v7, 0|"
    "s_mov_b64 s[14:15], exec|v_mov_b32 v9, 5|"
)
"""v[4:5]: a dword that lane i of each wave shares with lane i of the other ones; v[6:7]: the work-item's own dword."""
WAIT = "s_waitcnt vmcnt(0) lgkmcnt(0)|"
LOAD = f"flat_load_dword v10, v[4:5]|{WAIT}"
OWN = "flat_store_dword v[6:7], v10|"
DIVERGED = (
    "v_mov_b32 v12, 0|v_cmp_eq_u32 vcc, 5, v10|s_and_saveexec_b64 s[16:17], vcc|s_xor_b64 s[16:17], exec, s[16:17]|"
    "s_cbranch_execz other|v_mov_b32 v12, 1|other:|s_andn2_saveexec_b64 s[16:17], s[16:17]|v_mov_b32 v12, 2|"
    "s_or_b64 exec, exec, s[16:17]|"
)
"""Lanes that have loaded 5 compute 1, the others 2, as compiled code does for if and else."""
LAST = "s_cmp_eq_u32 s8, 0|s_cbranch_scc1 end|"
"""Only the second wave goes on."""


def found_in(text: str, name: str = "gfx803", **options: Any) -> list[Finding]:
    """Return what both engines find, which is the same. The first wave stores 5 to the dwords that it shares."""
    first = f"s_cmp_lg_u32 s8, 0|s_cbranch_scc1 second|flat_store_dword v[4:5], v9|{WAIT}s_endpgm|second:|"
    options = {"size": (128, 1, 1), "lds_bytes": 1024} | options
    all_found = []
    for engine in (ReferenceEngine(), JitEngine(threads=1)):
        code = f"{SET_UP}{first}{text}end:|s_endpgm"
        if not name.startswith("gfx8"):
            code = code.replace("v_add_u32", "v_add_co_u32")
        made, found = program(code, name, **options), list[Finding]()
        if made.scratch_lane_bytes:
            made.memory.map(SCRATCH, Ram(0x2000), name="scratch")
        watch = RaceWatch(made.memory, FindingLog(found))
        for _ in range(2):
            watch.begin()
            engine.run(replace(made, checks=Checks(watch)))
        all_found.append(found)
    assert [each.as_dict() for each in all_found[0]] == [each.as_dict() for each in all_found[1]]
    return all_found[0]


USES = {
    "stored": OWN,
    "stored as part of a value": f"v_add_u32 v10, vcc, v10, v1|{OWN}",
    "stored by one lane": f"s_mov_b64 exec, 4|{OWN}",
    "stored by another lane": f"ds_bpermute_b32 v10, v7, v10|{WAIT}s_mov_b64 exec, 2|{OWN}",
    "stored from a scalar register": f"v_readfirstlane_b32 s20, v10|v_mov_b32 v10, s20|s_mov_b64 exec, 4|{OWN}",
    "stored from a mask": f"v_cmp_eq_u32 vcc, 5, v10|v_cndmask_b32 v10, 0, v1, vcc|{OWN}",
    "stored after a loop": f"s_mov_b32 s20, 3|a:|v_add_u32 v10, vcc, 1, v10|s_sub_u32 s20, s20, 1|s_cmp_lg_u32 s20, 0|"
    f"s_cbranch_scc1 a|{OWN}",
    "in lanes that a later write leaves": f"s_mov_b64 exec, 0xff|v_mov_b32 v10, 0|s_mov_b64 exec, s[14:15]|{OWN}",
    "to LDS": "ds_write_b32 v2, v10|",
    "in an atomic": "flat_atomic_add v[6:7], v10|",
    "in an atomic of LDS": "ds_add_u32 v2, v10|",
    "as an address": f"v_and_b32 v10, 0x7c, v10|v_add_u32 v10, vcc, 0x201000, v10|v_mov_b32 v11, 0|"
    f"flat_load_dword v12, v[10:11]|{WAIT}",
    "as an address of LDS": f"v_and_b32 v10, 0x7c, v10|ds_read_b32 v12, v10|{WAIT}",
    "in a branch over nothing": "v_cmp_eq_u32 vcc, 5, v10|s_cbranch_vccz end|s_nop 0|",
    "in a branch over a store": "v_cmp_eq_u32 vcc, 5, v10|s_cbranch_vccz end|flat_store_dword v[6:7], v9|",
    "in a branch over a load": f"v_cmp_eq_u32 vcc, 5, v10|s_cbranch_vccz end|flat_load_dword v12, v[6:7]|{WAIT}",
    "in a branch over a barrier": "v_cmp_eq_u32 vcc, 5, v10|s_cbranch_vccz end|v_mov_b32 v12, 1|s_barrier|",
    "in a branch over a pause": "v_cmp_eq_u32 vcc, 5, v10|s_cbranch_vccz end|v_mov_b32 v12, 1|s_sleep 1|",
    "in a branch over a write of MODE": "v_cmp_eq_u32 vcc, 5, v10|s_cbranch_vccz end|v_mov_b32 v12, 1|"
    "s_setreg_imm32_b32 hwreg(1, 0, 8), 0xf0|",
    "in a branch that ends the wave": "v_cmp_eq_u32 vcc, 5, v10|s_cbranch_vccz over|v_mov_b32 v12, 1|s_endpgm|over:|"
    "flat_store_dword v[6:7], v9|",
    "in a branch that skips a value": "v_mov_b32 v12, 0|v_cmp_eq_u32 vcc, 5, v10|s_cbranch_vccz over|v_mov_b32 v12, 1|"
    "over:|flat_store_dword v[6:7], v12|",
    "in a branch that skips a value of another branch": "v_mov_b32 v12, 0|v_cmp_eq_u32 vcc, 5, v10|s_cbranch_vccz over|"
    "s_cmp_eq_u32 s8, 0|s_cbranch_scc1 inner|v_mov_b32 v12, 1|inner:|v_mov_b32 v13, 0|over:|"
    "flat_store_dword v[6:7], v12|",
    "in a branch that computes which lanes store": "s_mov_b64 s[20:21], 1|v_cmp_eq_u32 vcc, 5, v10|s_cbranch_vccz over|"
    "s_mov_b64 s[20:21], 2|over:|s_mov_b64 exec, s[20:21]|flat_store_dword v[6:7], v9|",
    "in the condition of a loop": "again:|v_add_u32 v10, vcc, v10, v9|v_cmp_gt_u32 vcc, 9, v10|s_cbranch_vccnz again|",
    "in lanes that compute a value": f"{DIVERGED}flat_store_dword v[6:7], v12|",
    "in lanes that store": "v_cmp_eq_u32 vcc, 5, v10|s_and_saveexec_b64 s[16:17], vcc|flat_store_dword v[6:7], v9|"
    "s_or_b64 exec, exec, s[16:17]|",
    "in lanes that load": "v_cmp_eq_u32 vcc, 5, v10|s_and_saveexec_b64 s[16:17], vcc|flat_load_dword v12, v[6:7]|"
    f"{WAIT}s_or_b64 exec, exec, s[16:17]|",
    "in EXEC": "v_cmp_eq_u32 vcc, 5, v10|s_and_b64 exec, exec, vcc|flat_store_dword v[6:7], v9|",
}
NO_USES = {
    "overwritten": f"v_mov_b32 v10, 0|{OWN}",
    "stored by no lane": f"s_mov_b64 exec, 0|{OWN}",
    "stored in a branch that is not taken": f"s_cmp_eq_u32 s8, 0|s_cbranch_scc0 end|{OWN}",
    "in lanes that a later write covers": "v_cmp_gt_u32 vcc, 9, v1|s_and_saveexec_b64 s[16:17], vcc|v_mov_b32 v10, 0|"
    f"{OWN}s_or_b64 exec, exec, s[16:17]|",
    "exchanged with other lanes only": f"ds_bpermute_b32 v10, v7, v10|{WAIT}v_readlane_b32 s20, v10, 5|",
    "in a branch over values that nothing stores": "v_cmp_eq_u32 vcc, 5, v10|s_cbranch_vccz over|v_mov_b32 v12, 1|"
    "over:|flat_store_dword v[6:7], v9|",
    "in lanes that compute a value that nothing stores": f"{DIVERGED}flat_store_dword v[6:7], v9|",
    "in lanes that compute a value that no lane stores": f"{DIVERGED}s_mov_b64 exec, 0|flat_store_dword v[6:7], v12|",
    "before a loop counts in its register": "v_mov_b32 v10, v6|s_mov_b32 s20, 3|a:|v_add_u32 v10, vcc, 0x100, v10|"
    "s_sub_u32 s20, s20, 1|s_cmp_lg_u32 s20, 0|s_cbranch_scc1 a|v_mov_b32 v11, 0|flat_store_dword v[10:11], v9|",
    "in an atomic of no lane": "s_mov_b64 exec, 0|flat_atomic_add v[6:7], v10|",
    "another register of it": f"flat_load_dwordx2 v[10:11], v[4:5]|{WAIT}v_mov_b32 v10, 0|v_mov_b32 v11, 0|{OWN}",
}  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_uses(use: str) -> None:
    assert {each.name for each in found_in(LOAD + USES[use])} == {"races/write-read"}


@pytest.mark.parametrize("use", NO_USES)
def test_values_that_are_not_used(use: str) -> None:
    assert found_in(LOAD + NO_USES[use]) == []


def test_lanes_that_use_the_value_are_counted() -> None:
    (found,) = found_in(f"{LOAD}s_mov_b64 exec, 0xf0|{OWN}")
    assert (found.lanes, found.count) == ((4, 5, 6, 7), 8)  # in two launches


def test_a_use_long_after_the_load() -> None:
    """Loads and stores of other values are in between, and barriers."""
    between = f"s_mov_b32 s20, 3|a:|flat_load_dword v12, v[6:7]|{WAIT}v_add_u32 v12, vcc, 1, v12|"
    between += f"flat_store_dword v[6:7], v12|ds_write_b32 v2, v12|s_barrier|{WAIT}ds_read_b32 v13, v2|"
    between += "s_sub_u32 s20, s20, 1|s_cmp_lg_u32 s20, 0|s_cbranch_scc1 a|"
    assert found_in(LOAD + between) == []
    (found,) = found_in(LOAD + between + OWN)
    assert (found.name, found.count) == ("races/write-read", 128)


def test_a_load_by_the_wave() -> None:
    load = f"s_mov_b32 s16, 0x200000|s_mov_b32 s17, 0|s_load_dword s18, s[16:17], 0x0|{WAIT}v_mov_b32 v10, s18|"
    assert found_in(load + f"s_mov_b64 exec, 0|{OWN}") == []
    (found,) = found_in(load + f"s_mov_b64 exec, 4|{OWN}")
    assert (found.name, found.lanes, found.count) == ("races/write-read", (), 2)
    assert len(found_in(load + "s_cmp_eq_u32 s18, 5|s_cbranch_scc0 end|s_nop 0|")) == 1


@pytest.mark.parametrize("offset", [0, 0x1000])
def test_a_buffer_store_beyond_the_buffer_stores_nothing(offset: int) -> None:
    """Compilers switch stores of single lanes off by an offset beyond the buffer."""
    buffer = "s_mov_b32 s24, 0x201000|s_mov_b32 s25, 0|s_mov_b32 s26, 0x400|s_mov_b32 s27, 0x27000|"
    store = f"v_add_u32 v11, vcc, {offset:#x}, v2|buffer_store_dword v10, v11, s[24:27], 0 offen|"
    assert bool(found_in(buffer + LOAD + store)) == (offset == 0)


def test_many_deferred_races() -> None:
    """The races of more pairs of instructions than a wave can defer count at once."""
    loads = "".join(f"ds_read_u8 v10, v2 offset:{number}|" for number in range(DEFERRED + 1))
    text = f"s_cmp_lg_u32 s8, 0|s_cbranch_scc1 second|ds_write_b64 v2, v[8:9]|s_endpgm|second:|{loads}"
    assert [each.count for each in found_of_all_waves(text)] == [2 * 32]  # of two waves, the lanes of the last load


def test_code_that_the_analysis_cannot_follow() -> None:
    """A computed register number: the races of all loads count at once."""
    assert len(found_in(f"{LOAD}s_mov_b32 m0, 1|v_movreld_b32 v20, v9|")) == 1


PRIVATE: dict[str, Any] = {
    "scratch_base": SCRATCH,
    "scratch_lane_bytes": 32,
    "scratch_slots": 2,
    "group_id_sgprs": (-1, -1, -1),
    "sgprs": np.array([SCRATCH, 1 << 31, 0x2000, 0xE00000], np.uint32),
    "wave_offset_sgpr": 7,
}
"""Private memory, with its swizzled buffer in s[0:3]."""
BUFFER = "s_add_u32 s0, s0, s7|"
KEPT = f"{BUFFER}{LOAD}v_mov_b32 v11, 0|v_lshrrev_b32 v12, 31, v0|v_mov_b32 v13, 4|"
FLAT = f"{LOAD}v_mov_b32 v12, 0|v_mov_b32 v13, 0x20000|v_lshrrev_b32 v14, 31, v0|v_mov_b32 v15, 0x20000|"
SPILLS = {
    "at a computed address": ("gfx900", f"{KEPT}buffer_store_dword v10, v11, s[0:3], 0 offen|"
    f"buffer_load_dword v10, v12, s[0:3], 0 offen|{WAIT}{OWN}"),
    "from a computed address": ("gfx900", f"{KEPT}buffer_store_dword v10, v12, s[0:3], 0 offen|"
    f"buffer_load_dword v10, off, s[0:3], 0|{WAIT}{OWN}"),
    "at another sum": ("gfx900", f"{KEPT}buffer_store_dword v10, v13, s[0:3], 0 offen|"
    f"buffer_load_dword v10, off, s[0:3], 0 offset:4|{WAIT}{OWN}"),
    "at another scalar offset": ("gfx900", f"{KEPT}s_movk_i32 s20, 0x100|"
    f"buffer_store_dword v10, off, s[0:3], 0 offset:4|buffer_load_dword v10, off, s[0:3], s20|{WAIT}{OWN}"),
    "through a copy of the buffer": ("gfx900", f"{KEPT}s_mov_b64 s[20:21], s[0:1]|s_mov_b64 s[22:23], s[2:3]|"
    f"buffer_store_dword v10, off, s[20:23], 0|buffer_load_dword v10, off, s[0:3], 0|{WAIT}{OWN}"),
    "through a buffer with a constant": ("gfx900", f"{KEPT}s_mov_b64 s[20:21], s[0:1]|s_mov_b32 s22, s2|"
    "s_mov_b32 s23, 0xe00000|buffer_store_dword v10, off, s[20:23], 0|"
    f"buffer_load_dword v10, off, s[20:23], 0|{WAIT}{OWN}"),
    "through a loaded buffer": ("gfx900", f"{KEPT}v_mov_b32 v16, 0x202000|v_mov_b32 v17, 0|v_mov_b32 v20, s0|"
    "v_mov_b32 v21, s1|v_mov_b32 v22, s2|v_mov_b32 v23, s3|s_mov_b64 exec, 1|"
    f"flat_store_dwordx4 v[16:17], v[20:23]|{WAIT}"
    "s_mov_b64 exec, s[14:15]|v_readfirstlane_b32 s16, v16|s_mov_b32 s17, 0|s_load_dwordx4 s[20:23], s[16:17], 0|"
    f"{WAIT}buffer_store_dword v10, off, s[20:23], 0|buffer_load_dword v10, off, s[20:23], 0|{WAIT}{OWN}"),
    "through another window": ("gfx900", f"{BUFFER}{FLAT}buffer_store_dword v10, off, s[0:3], 0|"
    f"flat_load_dword v10, v[14:15]|{WAIT}{OWN}"),
    "of two dwords": ("gfx900", f"{KEPT}v_mov_b32 v11, v10|v_mov_b32 v10, 0|buffer_store_dword v10, off, s[0:3], 0|"
    "buffer_store_dword v11, off, s[0:3], 0 offset:4|buffer_load_dword v10, off, s[0:3], 0 offset:4|" + WAIT + OWN),
    "of two dwords at once": ("gfx900", f"{BUFFER}flat_load_dword v11, v[4:5]|{WAIT}v_mov_b32 v10, 0|"
    f"buffer_store_dwordx2 v[10:11], off, s[0:3], 0|buffer_load_dwordx2 v[10:11], off, s[0:3], 0|{WAIT}"
    "flat_store_dword v[6:7], v11|"),
    "of a part of a dword": ("gfx900", f"{KEPT}buffer_store_byte v10, off, s[0:3], 0 offset:1|"
    f"buffer_load_dword v10, off, s[0:3], 0|{WAIT}{OWN}"),
    "of some lanes": ("gfx900", f"{KEPT}buffer_store_dword v10, off, s[0:3], 0|s_mov_b64 exec, 0xff|"
    "buffer_store_dword v11, off, s[0:3], 0|s_mov_b64 exec, s[14:15]|"
    f"buffer_load_dword v10, off, s[0:3], 0|{WAIT}{OWN}"),
    "beyond the buffer": ("gfx900", f"{KEPT}buffer_store_dword v10, off, s[0:3], 0|s_mov_b32 s2, 0|"
    f"buffer_store_dword v11, off, s[0:3], 0|s_movk_i32 s2, 0x2000|buffer_load_dword v10, off, s[0:3], 0|{WAIT}{OWN}"),
    "at a flat address": ("gfx803", f"{FLAT}flat_store_dword v[14:15], v10|flat_load_dword v10, v[12:13]|{WAIT}{OWN}"),
    "in an atomic": ("gfx803", f"{FLAT}flat_store_dword v[12:13], v11|flat_atomic_add v[14:15], v10|{WAIT}"
    f"flat_load_dword v10, v[12:13]|{WAIT}{OWN}"),
    "at a scratch address": ("gfx942", f"{LOAD}v_mov_b32 v11, 0|v_lshrrev_b32 v12, 31, v0|"
    f"scratch_store_dword v11, v10, off|scratch_load_dword v10, v12, off|{WAIT}{OWN}"),
}  # fmt: skip


@pytest.mark.parametrize("where", SPILLS)
def test_values_in_private_memory(where: str) -> None:
    name, text = SPILLS[where]
    assert {each.name for each in found_in(text, name, **PRIVATE)} == {"races/write-read"}


def test_values_in_private_memory_that_are_not_used() -> None:
    """Two values are stored to constant addresses; only the other one is loaded again and stored."""
    for name, text in (
        ("gfx900", f"{KEPT}buffer_store_dword v10, off, s[0:3], 0|buffer_store_dword v13, off, s[0:3], 0 offset:4|"
        f"buffer_load_dword v10, off, s[0:3], 0 offset:4|{WAIT}{OWN}"),
        ("gfx942", f"{LOAD}s_mov_b32 s20, 0|scratch_store_dword off, v10, s20|"
        "scratch_store_dword off, v9, s20 offset:4|"
        f"scratch_load_dword v10, off, s20 offset:4|{WAIT}global_store_dword v[6:7], v10, off|"),
    ):  # fmt: skip
        assert found_in(text, name, **PRIVATE) == []


VECTOR_MODES = {
    "relative register numbers": "s_mov_b32 s20, 1|s_set_gpr_idx_on s20, 1|v_mov_b32 v12, v9|s_set_gpr_idx_off|"
    "flat_store_dword v[6:7], v12|",
    "a write of MODE": "s_setreg_imm32_b32 hwreg(1, 28, 1), 1|v_mov_b32 v10, 0|"
    f"s_setreg_imm32_b32 hwreg(1, 28, 1), 0|{OWN}",
}


@pytest.mark.parametrize("what", VECTOR_MODES)
def test_modes_in_which_vector_instructions_differ(what: str) -> None:
    assert {each.name for each in found_in(LOAD + VECTOR_MODES[what])} == {"races/write-read"}


def followed(text: str, **options: Any) -> tuple[ValueFlows, Dispatch, int]:
    """Return the flows of a program's loads, its dispatch, and the pc of its first load."""
    made, flows = program(f"{SET_UP}{text}s_endpgm", "gfx803", **options), ValueFlows()
    stepper = ReferenceEngine().stepper(made)
    flows.follow(made, stepper.fetch)
    insn = stepper.fetch(made.entry)
    while insn.name != "flat_load_dword":
        insn = stepper.fetch(insn.next_pc)
    return flows, made, insn.pc


def test_an_instruction_that_skips_others() -> None:
    flows, _, load = followed(f"{LOAD}s_setvskip s8, 0|v_mov_b32 v10, 0|s_setvskip 0, 0|{OWN}")
    assert flows.of(load).escapes


def test_a_launch_inside_of_another_one() -> None:
    """The outer launch keeps its flows, to which its deferred races refer, even if memory is mapped meanwhile."""
    flows, made, load = followed(LOAD + OWN)
    flow, table, outer = flows.of(load), flows.table, flows.running
    made.memory.map(0x60_0000, Ram(4096), name="more")
    flows.follow(made, ReferenceEngine().stepper(made).fetch)
    assert flows.table is None
    assert flows.of(load) == flow
    flows.running = outer
    assert flows.table is table is not None


def test_launches_with_and_without_private_memory() -> None:
    """Only if a launch has private memory, a flat load may load what a flat store has stored there."""
    text = (
        f"{LOAD}s_mov_b64 exec, 0|{OWN}s_mov_b64 exec, s[14:15]|flat_load_dword v12, v[6:7]|{WAIT}ds_write_b32 v2, v12|"
    )
    flows, made, load = followed(text)
    assert len(flows.of(load).stores) == 1
    flows.follow(replace(made, **PRIVATE), ReferenceEngine().stepper(made).fetch)
    assert len(flows.of(load).stores) == 2


def test_a_write_of_other_bits_of_mode() -> None:
    assert found_in(f"{LOAD}s_setreg_imm32_b32 hwreg(1, 0, 8), 0xf0|v_mov_b32 v10, 0|{OWN}") == []


def test_dwords_of_one_access_are_different_values() -> None:
    """Two masks come from two dwords of one instruction: the lanes of the first one keep the value of the load."""
    for masks in (
        "v_mov_b32 v12, 0|v_mov_b32 v13, 1|ds_write2_b32 v12, v12, v13 offset0:0 offset1:1|s_waitcnt lgkmcnt(0)|"
        "ds_read2_b32 v[12:13], v12 offset0:0 offset1:1|",
        "v_mov_b32 v12, 0x202000|v_mov_b32 v13, 0|v_mov_b32 v14, 0|v_mov_b32 v15, 1|"
        "flat_store_dwordx2 v[12:13], v[14:15]|"
        f"{WAIT}s_mov_b32 s24, 0x202000|s_mov_b32 s25, 0|s_mov_b32 s26, 0x400|s_mov_b32 s27, 0x27000|"
        "buffer_load_dwordx2 v[12:13], off, s[24:27], 0|",
    ):
        masks += f"{WAIT}v_cmp_eq_u32 s[16:17], 0, v12|v_cmp_eq_u32 s[18:19], 0, v13|"
        over = "s_and_b64 exec, s[14:15], s[18:19]|v_mov_b32 v10, 0|s_and_b64 exec, s[14:15], s[16:17]|"
        assert {each.name for each in found_in(LOAD + masks + over + OWN)} == {"races/write-read"}


def test_a_jump_to_an_unknown_address() -> None:
    """The code there stores the loaded value, which is in a scalar register."""
    jump = "s_getpc_b64 s[16:17]|v_readfirstlane_b32 s18, v0|s_lshr_b32 s18, s18, 31|s_add_u32 s16, s16, s18|"
    jump += "s_add_u32 s16, s16, 24|s_addc_u32 s17, s17, 0|s_setpc_b64 s[16:17]|"
    text = f"{LOAD}v_readfirstlane_b32 s20, v10|v_mov_b32 v10, 0|{jump}v_mov_b32 v10, s20|{OWN}"
    assert {each.name for each in found_in(text)} == {"races/write-read"}


def test_a_lane_written_on_one_way() -> None:
    """On the other way, the lane is that of the loaded value."""
    text = f"{LOAD}s_cmp_eq_u32 s8, 0|s_cbranch_scc0 a|v_writelane_b32 v10, s20, 3|a:|v_readlane_b32 s21, v10, 3|"
    text += f"v_mov_b32 v10, s21|{OWN}"
    assert {each.name for each in found_in(text)} == {"races/write-read"}


@pytest.mark.parametrize("is_race", [False, True])
@pytest.mark.parametrize("store", ["flat_store_dword v[4:5], v10", "ds_write_b32 v7, v10"])
def test_lanes_that_store_different_values_to_one_place(store: str, is_race: bool) -> None:
    """The last lane's value stays in each wave; the other ones differ between the waves."""
    last = "" if is_race else "v_cmp_eq_u32 vcc, 63, v1|v_cndmask_b32 v10, v10, v9, vcc|"
    text = f"v_mov_b32 v4, 0x200000|v_mov_b32 v10, s8|v_add_u32 v10, vcc, 100, v10|{last}{store}|{WAIT}"
    assert {each.name for each in found_of_all_waves(text)} == ({"races/write-write"} if is_race else set())


def found_of_all_waves(text: str) -> list[Finding]:
    all_found = []
    for engine in (ReferenceEngine(), JitEngine(threads=1)):
        made, found = program(SET_UP + text + "s_endpgm", "gfx803", size=(192, 1, 1), lds_bytes=1024), list[Finding]()
        watch = RaceWatch(made.memory, FindingLog(found))
        watch.begin()
        engine.run(replace(made, checks=Checks(watch)))
        all_found.append(found)
    assert [each.as_dict() for each in all_found[0]] == [each.as_dict() for each in all_found[1]]
    return all_found[0]


# ---- where the values of loads go ------------------------------------------------------------------------------------
FIRST = (
    f"{BUFFER}s_mov_b32 m0, -1|v_lshlrev_b32 v2, 2, v0|v_and_b32 v8, 12, v2|"
    "v_add_u32 v4, 0x200000, v2|v_mov_b32 v5, 0|v_add_u32 v6, 0x201000, v2|"
    "v_mov_b32 v7, 0|v_mov_b32 v3, 17|s_mov_b32 s20, 3|s_mov_b64 s[16:17], 0xff|s_mov_b64 s[22:23], 0xf0f|"
    + "".join(f"v_mul_u32_u24 v{n}, {n}, v0|" for n in range(10, 16))
)
THE_LOAD = f"global_load_dword v10, v[4:5], off|{WAIT}"
CHANGE = 0x5A5A_5A5A


def random_program(rng: np.random.Generator) -> str:
    """Return code with one load: nothing, stores of its lane, those of others, or all of it depend on its value."""
    number = iter(range(1000))

    def register() -> str:
        return f"v{int(rng.integers(10, 13))}"

    def step() -> str:
        to, a, b, lane, place = register(), register(), register(), int(rng.integers(64)), 256 * int(rng.integers(15))
        label, mask = f"l{next(number)}", (1 << int(rng.integers(1, 65))) - 1
        exec_mask = f"s_mov_b32 exec_lo, {mask & 0xFFFF_FFFF:#x}|s_mov_b32 exec_hi, {mask >> 32:#x}|"
        ways = (
            f"v_mov_b32 {to}, {a}|", f"v_mov_b32 {to}, {lane}|", f"v_add_u32 {to}, {a}, {b}|",
            f"v_xor_b32 {to}, {a}, {b}|", f"v_cndmask_b32 {to}, {a}, {b}, vcc|", f"v_cmp_gt_u32 vcc, {lane}, v0|",
            f"v_cmp_gt_u32 vcc, {lane}, {a}|" if rng.random() < 0.5 else f"v_cmp_lt_u32 vcc, {lane}, v0|",
            f"v_cmp_eq_u32 s[22:23], {a}, {b}|" if rng.random() < 0.3 else f"v_mov_b32 {to}, {b}|",
            f"v_cndmask_b32 {to}, {a}, {b}, s[22:23]|", f"v_readlane_b32 s21, {a}, {lane}|",
            f"v_mov_b32 {to}, s21|", f"v_writelane_b32 {to}, s20, {lane}|", f"v_writelane_b32 {to}, s21, {lane}|",
            f"s_bitcmp1_b32 s21, {lane & 3}|s_cbranch_scc1 {label}|v_writelane_b32 {to}, s20, {lane}|{label}:|",
            f"s_cmp_eq_u32 s20, 2|s_cbranch_scc1 {label}|v_writelane_b32 {to}, s20, {lane}|{label}:|"
            f"v_readlane_b32 s21, {to}, {lane}|",
            f"buffer_store_dword {a}, off, s[0:3], 0 offset:{lane & 12}|",
            f"buffer_load_dword {to}, off, s[0:3], 0 offset:{lane & 12}|{WAIT}",
            f"buffer_store_dword {a}, v8, s[0:3], 0 offen|" if rng.random() < 0.3 else
            f"buffer_store_byte {a}, off, s[0:3], 0 offset:{lane & 13}|",
            f"buffer_load_dword {to}, v8, s[0:3], 0 offen|{WAIT}" if rng.random() < 0.3 else
            f"buffer_load_ubyte {to}, off, s[0:3], 0 offset:{lane & 13}|{WAIT}",
            "buffer_store_dwordx2 v[10:11], off, s[0:3], 0|" if rng.random() < 0.3 else
            f"buffer_load_dwordx2 v[11:12], off, s[0:3], 0 offset:{lane & 4}|{WAIT}",
            f"ds_read2_b32 v[11:12], v2 offset0:{lane & 1} offset1:{lane & 2}|{WAIT}",
            f"global_load_dwordx2 v[11:12], v[6:7], off offset:{8 * lane}|{WAIT}",
            f"v_readfirstlane_b32 s21, {a}|", f"v_mov_b32_dpp {to}, {a} row_shr:1 row_mask:0xf bank_mask:0xf|",
            f"ds_bpermute_b32 {to}, v3, {a}|{WAIT}", f"ds_permute_b32 {to}, v2, {a}|{WAIT}",
            f"ds_swizzle_b32 {to}, {a} offset:0x801f|{WAIT}", exec_mask, "s_mov_b64 exec, -1|",
            "s_and_saveexec_b64 s[16:17], vcc|", "s_or_b64 exec, exec, s[16:17]|", "s_xor_b64 exec, exec, s[16:17]|",
            f"s_and_saveexec_b64 s[16:17], vcc|s_cbranch_execz {label}|v_mov_b32 {to}, {a}|{label}:|"
            "s_or_b64 exec, exec, s[16:17]|",
            f"v_cmp_gt_u32 vcc, {lane}, {a}|s_and_saveexec_b64 s[24:25], vcc|s_xor_b64 s[24:25], exec, s[24:25]|"
            f"s_cbranch_execz {label}|v_xor_b32 {to}, {a}, {b}|{label}:|s_andn2_saveexec_b64 s[24:25], s[24:25]|"
            f"v_mov_b32 {b}, {lane}|s_or_b64 exec, exec, s[24:25]|",
            f"v_cmp_gt_u32 vcc, {lane}, {a}|s_cbranch_vccz {label}|v_mov_b32 {to}, {b}|{label}:|",
            f"v_cmp_gt_u32 vcc, {lane}, {a}|s_cbranch_vccz {label}|s_mov_b32 s21, 3|s_branch {label}x|{label}:|"
            f"v_mov_b32 {to}, {b}|{label}x:|",
            f"v_cmp_gt_u32 vcc, {lane}, {a}|s_cbranch_vccz {label}|v_mov_b32 {to}, 3|"
            f"global_store_dword v[6:7], v0, off offset:{place}|{label}:|",
            *(f"global_store_dword v[6:7], {a}, off offset:{place}|",) * 3, f"ds_write_b32 v2, {a}|",
            f"ds_read_b32 {to}, v2|{WAIT}", f"global_atomic_add v[6:7], {a}, off offset:{place}|",
            "s_mov_b64 exec, 0|" if rng.random() < 0.3 else "s_mov_b64 exec, 0xff00|",
        )  # fmt: skip
        return ways[int(rng.integers(len(ways)))]

    before, after, behind = ("".join(step() for _ in range(int(rng.integers(1, most)))) for most in (8, 14, 8))
    loop = "s_sub_u32 s20, s20, 1|s_cmp_lg_u32 s20, 0|s_cbranch_scc1 again|" if rng.random() < 0.5 else ""
    return f"{FIRST}again:|{before}{THE_LOAD}{after}{loop}{behind}s_endpgm"


class Run:
    """A run of a program by one wave, in which `changed` lanes get another value from the load."""

    def __init__(self, text: str, changed: int) -> None:
        self.made = program(text, "gfx900", size=(64, 1, 1), lds_bytes=1024, **PRIVATE)
        self.made.memory.map(SCRATCH, Ram(0x2000), name="scratch")
        self.changed = changed
        self.trace: list[tuple[int, int]] = []
        """The pcs of the accesses to memory other than private memory, and their lanes."""
        self.loads: set[int] = set()
        ReferenceEngine(self._retired).run(self.made)
        self.data = dwords(self.made, 0x2000 // 4)

    def _retired(self, wave: Wave, insn: Insn) -> None:
        lanes = wave.s64(EXEC)
        if insn.name.startswith(("s_barrier", "global_", "ds_read", "ds_write")):
            self.trace.append((insn.pc, lanes))
        if insn.name == "global_load_dword":
            self.loads.add(insn.pc)
            for lane in range(64):
                if lanes & self.changed & 1 << lane:
                    wave.vgpr[10][lane] ^= CHANGE

    def uses(self, flow: Flow) -> bool:
        """Return True if the flow of the load says that the changed lanes have used its value."""
        (load,) = self.loads
        start = next(at for at, (pc, _) in enumerate(self.trace) if pc == load)
        stores = ((lanes, flow.stores.get(pc)) for pc, lanes in self.trace[start:])
        return any(lanes if crosses else lanes & self.changed for lanes, crosses in stores if crosses is not None)


def test_a_changed_value_changes_only_what_its_flow_says() -> None:
    counts = {"escapes": 0, "is used": 0, "is not used": 0, "differs": 0}
    for number in range(120):
        rng = np.random.default_rng([38, number])
        text = random_program(rng)
        plain = Run(text, 0)
        (load,) = plain.loads
        flows = ValueFlows()
        stepper = ReferenceEngine().stepper(plain.made)
        flows.follow(plain.made, stepper.fetch)
        flow = flows.of(load)
        for changed in ((1 << 64) - 1, 1 << int(rng.integers(64))):
            other = Run(text, changed)
            differs = other.data != plain.data
            counts["differs"] += differs
            if flow.escapes:
                counts["escapes"] += 1
                continue
            uses = other.uses(flow)
            assert uses or (other.trace == plain.trace and not differs), text
            counts["is used" if uses else "is not used"] += 1
    assert min(counts.values()) > 1, counts
