"""Kernels that run in the time of another one, which goes on after them: what the check of races knows of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from softcard.core.findings import Finding, FindingLog
from softcard.engine.gcn.hooks import Checks
from softcard.engine.gcn.races.watch import RaceWatch
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.target import target
from tests.engine.gcn.programs import program
from tests.engine.gcn.rig import CODE

OWN = "s_mov_b32 m0, -1|v_lshlrev_b32 v3, 2, v0|s_lshl_b32 s9, s0, 9|v_add_u32 v4, vcc, s9, v3|v_mov_b32 v5, 0|"
"""v3: where a lane's dword is in LDS; v[4:5]: in global memory, for groups of 128, from the data's begin + {} on."""
AT = "v_add_u32 v4, vcc, {:#x}, v4|"
MESSAGE = "s_sendmsg sendmsg(MSG_INTERRUPT)|"
TIME_SLICE = f"ds_write_b32 v3, v0|s_waitcnt lgkmcnt(0)|{MESSAGE}s_barrier|v_xor_b32 v6, 0x1fc, v3|ds_read_b32 v7, v6|"
STORE = "s_waitcnt lgkmcnt(0)|flat_store_dword v[4:5], v7|s_waitcnt vmcnt(0)|s_endpgm"
ADD = "flat_load_dword v6, v[4:5]|s_waitcnt vmcnt(0)|v_add_u32 v7, vcc, 1, v6|"
HERE, THERE = AT.format(0x200000), AT.format(0x204000)


def found_in(make: Callable[[], Any], outer: str, inner: str, after: str) -> list[Finding]:
    """Return the findings if `inner` runs in the time of `outer`, and then `after` in the queue of `outer`."""
    texts = [OWN + text for text in (outer, inner, after)]
    sizes = [len(assemble(target("gfx803"), text.replace("|", "\n"))) for text in texts]
    entries = [CODE + sum(sizes[:n]) for n in range(3)]
    groups = [(n, 0, 0) for n in range(3)]
    made = program("|".join(texts), "gfx803", groups=groups, size=(128, 1, 1), lds_bytes=512)
    found, waiting, seen = list[Finding](), [entries[1]], {0: 9, 1: 1}
    watch = RaceWatch(made.memory, FindingLog(found))

    def within(*_: Any) -> None:
        while waiting:
            with watch.kernel(1, 0, seen):
                make().run(replace(made, checks=Checks(watch), entry=waiting.pop()))

    with watch.kernel(0, 0, seen):
        make().run(replace(made, checks=Checks(watch), on_hint=within))
    assert not waiting
    watch.wait(0, for_all=False)
    with watch.kernel(0, 1, seen):
        make().run(replace(made, checks=Checks(watch), entry=entries[2]))
    return found


@pytest.mark.parametrize("make", [ReferenceEngine, JitEngine])
def test_a_kernel_goes_on_after_another_one_that_ran_meanwhile(make: Callable[[], Any]) -> None:
    inner = TIME_SLICE.replace(MESSAGE, "") + STORE
    assert found_in(make, HERE + TIME_SLICE + STORE, THERE + inner, HERE + ADD + STORE) == []


@pytest.mark.parametrize("make", [ReferenceEngine, JitEngine])
def test_nothing_orders_a_kernel_and_one_that_runs_meanwhile(make: Callable[[], Any]) -> None:
    early = HERE + ADD + "s_waitcnt lgkmcnt(0)|flat_store_dword v[4:5], v7|s_waitcnt vmcnt(0)|" + MESSAGE + "s_endpgm"
    (found, *_) = found_in(make, early, HERE + ADD + STORE, THERE + ADD + STORE)
    assert (found.kind, "by kernels of queues 0 and 1 without a happens-before order" in found.message) == (
        "write-read",
        True,
    )


@pytest.mark.parametrize("make", [ReferenceEngine, JitEngine])
def test_swap_loops_of_a_kernel_stay_known_while_another_one_runs(make: Callable[[], Any]) -> None:
    one = "v_mov_b32 v4, 0x200000|v_mov_b32 v5, 0|"
    load = "flat_load_dword v1, v[4:5]|s_waitcnt vmcnt(0)|"
    swap = "again:|v_add_f32 v0, 1.0, v1|flat_atomic_cmpswap v2, v[4:5], v[0:1] glc|s_waitcnt vmcnt(0)|"
    test = "v_cmp_ne_u32 vcc, v2, v1|v_mov_b32 v1, v2|s_and_b64 exec, exec, vcc|s_cbranch_execnz again|s_endpgm"
    assert found_in(make, MESSAGE + one + load + swap + test, THERE + ADD + STORE, HERE + STORE) == []
