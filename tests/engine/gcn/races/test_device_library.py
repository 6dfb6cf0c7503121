"""Accesses of AMD's device library: its relaxed atomic stores are plain in machine code, and do not race."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from softcard.core.findings import Finding, FindingLog
from softcard.engine.gcn.hooks import Checks
from softcard.engine.gcn.races.watch import RaceWatch
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from tests.engine.gcn.programs import program

STORES = (
    "s_mov_b64 exec, 1|v_mov_b32 v4, 0x200000|v_mov_b32 v5, 0|v_mov_b32 v2, s0|s_cmp_eq_u32 s0, 0|"
    "s_cbranch_scc0 other|flat_store_dword v[4:5], v2|s_endpgm|other: flat_store_dword v[4:5], v2|s_endpgm"
)
OTHER = 0x20
"""The offset of the second work-group's store; the first work-group's store lies before it."""
LIBRARY, USER = "__ockl_dm_alloc", "_Z4userPi"


@pytest.mark.parametrize("make", [ReferenceEngine, JitEngine])
@pytest.mark.parametrize(
    ("first", "second", "count"),
    [(LIBRARY, LIBRARY, 0), (USER, USER, 1), (USER, LIBRARY, 1), (LIBRARY, USER, 1)],
)
def test_two_accesses_of_the_library_are_atomic(make: Any, first: str, second: str, count: int) -> None:
    found = list[Finding]()
    made = program(STORES, "gfx803", groups=[(n, 0, 0) for n in range(2)], size=(64, 1, 1))
    log = FindingLog(found)

    def name(finding: Finding) -> None:
        is_second = finding.pc is not None and finding.pc - made.entry > OTHER
        finding.at = f"{second if is_second else first}+0x10" if finding.pc is not None else ""

    log.namers.append(name)
    watch = RaceWatch(made.memory, log)
    watch.begin()
    make().run(replace(made, checks=Checks(watch)))
    assert len(found) == count
