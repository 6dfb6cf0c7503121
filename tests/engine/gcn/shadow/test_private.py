"""The first marks of private memory: each wave's is nobody's, wherever it lies, and nothing else is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.hooks import Checks
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.shadow.check import EngineShadow
from softcard.engine.gcn.shadow.device_shadow import KINDS, DeviceShadow
from softcard.engine.gcn.tiered.engine import JitEngine
from tests.engine.gcn.programs import program

BASE, WAVES, SLOTS = 0x80_0000, 3, 4
LANE_BYTES = 16
BYTES = 64 * LANE_BYTES
"""Of a wave."""


def laid_out(gap: int) -> Dispatch:
    """A work-group of three waves whose private memories lie `gap` bytes apart, where nothing is."""
    more = {"scratch_lane_bytes": LANE_BYTES, "scratch_slots": SLOTS, "scratch_gap": gap}
    made = program("s_endpgm", "gfx900", size=(64 * WAVES, 1, 1), scratch_base=BASE, **more)
    place(made, gap)
    return made


def place(made: Dispatch, gap: int) -> None:
    """New private memory: all in one, or one for each wave."""
    parts = 1 if gap == 0 else SLOTS
    for number in range(parts):
        made.memory.map(BASE + number * (BYTES + gap), np.zeros(SLOTS // parts * BYTES, np.uint8))


@pytest.mark.parametrize("gap", [0, 0x1000])
@pytest.mark.parametrize("engine", [ReferenceEngine, JitEngine])
def test_each_wave_begins_with_shadow_bits(engine: type[ReferenceEngine] | type[JitEngine], gap: int) -> None:
    made = laid_out(gap)
    device_shadow = DeviceShadow(made.memory, KINDS)
    engine().run(replace(made, checks=Checks(EngineShadow(device_shadow))))
    undefined, rough = device_shadow.shadow_memories
    waves = [undefined.read(BASE + n * (BYTES + gap), BYTES) for n in range(SLOTS)]
    assert waves == [bytes([255]) * BYTES] * WAVES + [bytes(BYTES)]
    assert not any(rough.read(BASE, SLOTS * (BYTES + gap)))


@pytest.mark.parametrize("gap", [0, 0x1000])
def test_a_launch_is_run_again_where_other_memory_is_now(gap: int) -> None:
    """Its marks are those of the memory that is there."""
    made = laid_out(gap)
    before = list(made.memory)
    device_shadow = DeviceShadow(made.memory, KINDS)
    ready = JitEngine().prepare(replace(made, checks=Checks(EngineShadow(device_shadow))))
    ready.run()
    for each in before:  # it stays, so that what is mapped now is elsewhere on the host
        if each.base >= BASE:
            made.memory.unmap(each.base)
    place(made, gap)
    device_shadow.follow()
    assert not any(device_shadow.shadow_memories[0].read(BASE, SLOTS * (BYTES + gap)))
    ready.run()
    waves = [device_shadow.shadow_memories[0].read(BASE + n * (BYTES + gap), BYTES) for n in range(SLOTS)]
    assert waves == [bytes([255]) * BYTES] * WAVES + [bytes(BYTES)]
