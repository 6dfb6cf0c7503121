"""The scheduler and the lane helpers, which run compiled everywhere else, give the same as Python."""

from __future__ import annotations

import ctypes
import random
from typing import Any

import numpy as np
import pytest

from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.jit.layout import SHADOW_DISTANCE
from softcard.engine.gcn.jit.native_atomics import atomic
from softcard.engine.gcn.jit.native_clean import clear_dead
from softcard.engine.gcn.jit.native_memory import by_lane
from softcard.engine.gcn.tiered.native_scheduler import schedule
from softcard.engine.gcn.tiered.translation import Tier
from softcard.ir.native import link
from softcard.ir.object_cache import ObjectCache
from softcard.isa.gcn.state import EXEC, FULL, LDS_BASE, LDS_SIZE, SGPR_AT, STATE_BYTES, WORDS_AT, Wave
from tests.engine.gcn.jit.test_counts import made, random_text
from tests.engine.gcn.jit.test_jit import engine
from tests.engine.gcn.rig import DATA

LANES = 8


@pytest.mark.parametrize("seed", range(3))
def test_the_scheduler_as_python(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    text, options = random_text(chance), {"size": (100, 1, 1), "groups": [(n, 0, 0) for n in range(2)]}
    results = []
    for is_compiled in (True, False):
        one = engine(tier=Tier.THREADED)
        if not is_compiled:
            monkeypatch.setattr(one.runtime, "schedule", schedule)
        dispatch = made(text, **options, turn=4096)
        statistics = one.prepare(dispatch).run()
        results.append((statistics.instructions, dispatch.memory.read(DATA, 0x1000)))
        one.close()
    assert results[0] == results[1]


def both(function: Any, *arguments: Any) -> None:
    """Run on copies of all arrays, first of which is LDS: results and arrays are the same."""
    code = link(ObjectCache(), function)
    compiled = code.function(function.name, ctypes.c_uint64, *[ctypes.c_uint64] * len(function.parameters))
    results = []
    for each in (compiled, function):
        lds, *given = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
        wave = np.zeros(STATE_BYTES // 8, np.uint64)
        wave[WORDS_AT // 8 + LDS_BASE] = lds.ctypes.data
        wave[WORDS_AT // 8 + LDS_SIZE] = lds.nbytes
        words = [value.ctypes.data if isinstance(value, np.ndarray) else value for value in given]
        arrays = [value.tolist() for value in (lds, *given) if isinstance(value, np.ndarray)]
        results.append((each(wave.ctypes.data, *words), arrays))
    assert results[0] == results[1]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("name", layout.ATOMICS)
def test_atomics_as_python(name: str, bits: int) -> None:
    chance = np.random.default_rng(layout.ATOMICS.index(name))
    edges = np.array([0, 1, 1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1], np.uint64)
    size, local, operation = bits // 8, layout.SPACES.index("lds"), layout.ATOMICS.index(name)
    for mask in (0xFF, 0x5A, 0x81):
        lds, d, c = (chance.choice(edges, count) for count in (8, LANES, LANES))
        lds[:4] = c[:4]
        places = (chance.integers(0, 12, LANES) * size).astype(np.uint64)
        both(atomic, lds, local, operation, size, places, d, c, np.zeros(LANES, np.uint64), mask, 0)
    places[0] += np.uint64(1)
    both(atomic, lds, local, operation, size, places, d, c, np.zeros(LANES, np.uint64), 1, 0)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 12, 16])
@pytest.mark.parametrize("store", [0, 1])
def test_lanes_as_python(size: int, store: int) -> None:
    chance = np.random.default_rng(size)
    lds, places = chance.integers(0, 1 << 62, 16, np.uint64), chance.integers(0, 140, LANES, np.uint64)
    data = chance.integers(0, 1 << 32, 4 * LANES, np.uint32)
    both(by_lane, lds, layout.SPACES.index("lds"), store, size, places, data, 0xB7, 0, LANES)


@pytest.mark.parametrize("exec_", [FULL, FULL >> 28])
@pytest.mark.parametrize("shadowed", [(0, 3), (0, 70), (0, 200), (1, 70), (0, 9), (0, 255), (0, 300), (1, 511)])
def test_clearing_of_dead_shadows_as_python(shadowed: tuple[int, int], exec_: int) -> None:
    """Of registers that are read 3, 70 and 300 (a44), in lanes that are off 200 as well; named are also 9, 255 and 511,
    and not 10."""
    code = link(ObjectCache(), clear_dead)
    compiled = code.function(clear_dead.name, ctypes.c_uint64, *[ctypes.c_uint64] * 3)
    read = 1 << 3 | 1 << 70 | 1 << 300
    every = [read, 1 << 200, read | 1 << 200 | 1 << 9 | 1 << 255 | 1 << 511]
    sets = np.array([each >> 64 * n & FULL for each in every for n in range(8)], np.uint64)
    results = []
    for each in (compiled, clear_dead):
        states = np.zeros(2 * SHADOW_DISTANCE + STATE_BYTES, np.uint8)
        states[SGPR_AT + 4 * EXEC :][:8].view(np.uint64)[:] = exec_
        shadows = [Wave(states[start : start + STATE_BYTES]) for start in (SHADOW_DISTANCE, 2 * SHADOW_DISTANCE)]
        row = (
            shadows[shadowed[0]].vgpr[shadowed[1]] if shadowed[1] < 256 else shadows[shadowed[0]].acc[shadowed[1] - 256]
        )
        row[41] = 8
        shadows[0].vgpr[10] = 1
        answer = each(int(states.ctypes.data), 3, int(sets.ctypes.data))
        results.append((answer, states.tobytes()))
        is_read = shadowed[1] in (3, 70, 300) or (shadowed[1] == 200 and exec_ != FULL)
        assert answer == is_read
        assert row.any() == is_read
        assert shadows[0].vgpr[10].all()
    assert results[0] == results[1]
