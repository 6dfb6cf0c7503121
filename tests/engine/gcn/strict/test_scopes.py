"""Litmus tests of gfx90a and gfx942 on the strict memory: LLVM's sequences are enough, and each element is needed.

gfx942 agents consist of accelerator dies with a second-level cache each; two agents of gfx90a share memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np
import pytest

from softcard.core.order import Prng
from softcard.engine.gcn.api import StepLimit
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.strict.caches import System
from softcard.engine.gcn.strict.coherence import StrictEngine
from tests.engine.gcn.programs import dwords, program
from tests.engine.gcn.rig import DATA
from tests.engine.gcn.strict.test_coherence import OUT, SEEDS, litmus, without

SENDER = [
    "global_store_dword v[20:21], v1, off",
    "buffer_wbl2 sc1",
    "s_waitcnt vmcnt(0)",
    "global_store_dword v[22:23], v1, off sc1",
    "s_waitcnt vmcnt(0)",
]
RECEIVER = [
    "global_load_dword v10, v[20:21], off",  # has the line cached before
    "s_waitcnt vmcnt(0)",
    "again:",
    "global_load_dword v11, v[22:23], off sc1",
    "s_waitcnt vmcnt(0)",
    "v_readfirstlane_b32 s8, v11",
    "s_cmp_eq_u32 s8, 0",
    "s_cbranch_scc1 again",
    "buffer_inv sc1",
    "global_load_dword v10, v[20:21], off",
    "s_waitcnt vmcnt(0)",
    "global_store_dword v[24:25], v10, off",
]


def outcome(sender: Sequence[str], receiver: Sequence[str], xccs: int, seed: int) -> tuple[int, set[str]]:
    """Return the last value that the receiver loaded, or -1 if it did not end, and the kinds of findings."""
    groups = [(0, 0, 0), (1, 0, 0)]
    dispatch = program(litmus(sender, receiver), "gfx942", groups=groups, step_limit=2000)
    engine = StrictEngine(units=2, seed=seed, xccs=xccs)
    try:
        engine.run(dispatch)
        seen = dwords(dispatch, 1, OUT - DATA)[0]
    except StepLimit:
        seen = -1
    return seen, {finding.kind for finding in engine.findings}


def outcomes(sender: Sequence[str], receiver: Sequence[str], xccs: int) -> tuple[set[int], set[str]]:
    """Return the values of `outcome` over many seeds, and the kinds of findings."""
    seen, kinds = zip(*(outcome(sender, receiver, xccs, seed) for seed in SEEDS), strict=True)
    return set(seen), set().union(*kinds)


def is_possible(value: int, sender: Sequence[str], receiver: Sequence[str], xccs: int) -> bool:
    """Return whether the receiver has `value` in the end with one of the seeds: the first such seed ends the search."""
    return any(outcome(sender, receiver, xccs, seed)[0] == value for seed in SEEDS)


@pytest.mark.parametrize("xccs", [1, 8])
def test_agent_scope_passes_messages(xccs: int) -> None:
    assert outcomes(SENDER, RECEIVER, xccs)[0] == {1}


def test_system_scope_passes_messages_as_well() -> None:
    sender, receiver = ([line.replace("sc1", "sc0 sc1") for line in lines] for lines in (SENDER, RECEIVER))
    assert outcomes(sender, receiver, 8)[0] == {1}


def test_without_the_write_back_another_die_does_not_see_the_data() -> None:
    seen, kinds = outcomes(without(SENDER, 1), RECEIVER, 8)
    assert 0 in seen
    assert "not released" in kinds
    assert outcomes(without(SENDER, 1), RECEIVER, 1)[0] == {1}  # one second-level cache needs none


def test_a_write_back_that_is_not_waited_for_has_not_happened() -> None:
    sender = without(SENDER, 2)
    sender[-1:-1] = ["s_nop 0"] * 60  # the flag arrives before the wait
    assert is_possible(0, sender, RECEIVER, 8)


def test_without_the_invalidation_old_lines_are_read() -> None:
    for xccs in (1, 8):
        seen, kinds = outcomes(SENDER, without(RECEIVER, 8), xccs)
        assert 0 in seen
        assert "stale line" in kinds


def test_an_invalidation_for_the_work_group_is_too_weak() -> None:
    weak = [line.replace("buffer_inv sc1", "buffer_inv sc0") for line in RECEIVER]
    assert is_possible(0, SENDER, weak, 8)


@pytest.mark.parametrize("scope", ["", " sc0"])
def test_a_flag_without_agent_scope_is_not_seen(scope: str) -> None:
    store = [line.replace("v1, off sc1", f"v1, off{scope}") for line in SENDER]
    assert is_possible(-1, store, RECEIVER, 8)
    early = ["global_load_dword v11, v[22:23], off", *RECEIVER]
    load = [line.replace("v[22:23], off sc1", f"v[22:23], off{scope}") for line in early]
    assert is_possible(-1, ["s_nop 0"] * 30 + SENDER, load, 8)


@pytest.mark.parametrize("xccs", [1, 8])
def test_read_modify_writes_are_coherent_between_dies(xccs: int) -> None:
    """Counters of 16 work-groups: none of the increments is lost, whatever the order."""
    text = litmus(["global_atomic_add v[20:21], v1, off", "s_endpgm"]).replace(
        "s_cmp_eq_u32 s0, 0", "s_cmp_eq_u32 s1, 0"
    )
    for seed in range(6):
        dispatch = program(text, "gfx942", groups=[(n, 0, 0) for n in range(16)])
        engine = StrictEngine(units=2, seed=seed, xccs=xccs)
        engine.run(dispatch)
        assert dwords(dispatch, 1, 0) == [16]
        assert engine.findings == []


def split(text: str, tg_split: bool) -> set[int]:
    """Message passing between two waves of one work-group by a flag with scope of the work-group."""
    seen = set()
    for seed in SEEDS:
        dispatch = program(text, "gfx942", size=(128, 1, 1), step_limit=2000, tg_split=tg_split)
        engine = StrictEngine(units=2, seed=seed, xccs=8)
        try:
            engine.run(dispatch)
            seen.add(dwords(dispatch, 1, OUT - DATA)[0])
        except StepLimit:
            seen.add(-1)
    return seen


def test_with_tg_split_waves_of_a_work_group_do_not_share_a_cache() -> None:
    sender = ["global_store_dword v[20:21], v1, off", "s_waitcnt vmcnt(0)", "global_store_dword v[22:23], v1, off sc0"]
    receiver = [line.replace("sc1", "sc0") for line in RECEIVER]
    head, *_ = litmus([]).split("s_cmp_eq_u32")

    def text(receiver: Sequence[str]) -> str:
        first = "v_readfirstlane_b32 s9, v0"  # the first work-item's number: 0 or 64
        parts = [first, head, "s_cmp_eq_u32 s9, 0", "s_cbranch_scc1 sends", *receiver, "s_endpgm", "sends:"]
        return "\n".join([*parts, *sender, "s_endpgm"])

    assert split(text(receiver), tg_split=True) == {1}
    plain = [line for line in receiver if not line.startswith("buffer_inv")]
    assert split(text(plain), tg_split=False) == {1}
    assert 0 in split(text(plain), tg_split=True)


OLD_SENDER = [
    "flat_store_dword v[20:21], v1", "buffer_wbl2", "s_waitcnt vmcnt(0)", "flat_store_dword v[22:23], v1",
    "buffer_wbl2", "s_waitcnt vmcnt(0)",
]  # fmt: skip
OLD_RECEIVER = [
    "flat_load_dword v10, v[20:21]",
    "s_waitcnt vmcnt(0) & lgkmcnt(0)",
    "again:",
    "buffer_invl2",
    "flat_load_dword v11, v[22:23] glc",
    "s_waitcnt vmcnt(0) & lgkmcnt(0)",
    "v_readfirstlane_b32 s8, v11",
    "s_cmp_eq_u32 s8, 0",
    "s_cbranch_scc1 again",
    "buffer_invl2",
    "buffer_wbinvl1_vol",
    "flat_load_dword v10, v[20:21]",
    "s_waitcnt vmcnt(0) & lgkmcnt(0)",
    "flat_store_dword v[24:25], v10",
    "buffer_wbl2",
    "s_waitcnt vmcnt(0)",
]


def between_agents(*programs: Sequence[str]) -> set[int]:
    """The result of kernels on agents of their own, over cached memory that they share."""
    seen = set()
    for seed in range(16):
        data, system = np.zeros(4096, np.uint8), System()
        left = []
        for number, lines in enumerate(programs):
            memory = GpuMemory()
            memory.map(DATA, data, name="shared")
            dispatch = program(litmus(lines), "gfx90a", memory=memory, groups=[(0, 0, 0)], step_limit=600)
            left.append(StrictEngine(units=1, seed=seed + number, fenced=True, system=system).steps(dispatch))
        chance = Prng(seed)
        with contextlib.suppress(StepLimit):
            while left:
                steps = left[chance.below(len(left))]
                if next(steps, steps) is steps:
                    left.remove(steps)
        seen.add(-1 if left else int(data.view(np.uint32)[(OUT - DATA) // 4]))
    return seen


def test_system_scope_of_gfx90a() -> None:
    """Coarse memory is cached in the second level of each agent, which its own cache operations act on."""
    assert between_agents(OLD_SENDER, OLD_RECEIVER) == {1}
    assert between_agents(without(without(OLD_SENDER, 4), 1), OLD_RECEIVER) == {-1}
    assert between_agents(OLD_SENDER, without(OLD_RECEIVER, 3)) == {-1, 1}
    assert 0 in between_agents(OLD_SENDER, without(OLD_RECEIVER, 10))
