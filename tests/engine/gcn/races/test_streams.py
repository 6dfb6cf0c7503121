"""Races of kernels of several streams: findings name the streams and what orders them, not waves and work-groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from softcard.core.findings import Finding, FindingLog
from softcard.engine.gcn.hooks import Checks
from softcard.engine.gcn.races.watch import RaceWatch
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from tests.engine.gcn.programs import program

STORE = "v_mov_b32 v4, 0x200000|v_mov_b32 v5, 0|v_mov_b32 v2, s0|flat_store_dword v[4:5], v2|s_endpgm"


@pytest.mark.parametrize("make", [ReferenceEngine, JitEngine])
@pytest.mark.parametrize("is_stream", [True, False])
def test_kernels_of_two_queues(make: Any, is_stream: bool) -> None:
    found, made = list[Finding](), program(STORE, "gfx803")
    watch = RaceWatch(made.memory, FindingLog(found))
    for queue in (2, 3):
        with watch.kernel(queue, 0, {2: 1, 3: 1}, is_stream=is_stream):
            make().run(replace(made, checks=Checks(watch), groups=np.array([[queue, 0, 0, 0]], np.uint32)))
    (race,) = found
    if is_stream:
        assert "by kernels of two streams (queues 2 and 3) without a happens-before order" in race.message
        assert (race.unit, race.group) == ("stream of queue 3", "")
        assert race.other.endswith("lane 63, stream of queue 2")
        assert "hipStreamWaitEvent" in race.suggestion
    else:
        assert "by kernels of queues 2 and 3 without a happens-before order" in race.message
        assert (race.unit, race.group) == ("wave 0", "3,0,0")
        assert (
            race.suggestion
            == "set the barrier bit of the second packet, or wait for the completion signal of the first kernel"
        )
