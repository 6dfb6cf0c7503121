"""Random programs under the check of races do what they do without, and both engines find the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from softcard.core.checks import LANES, RACES
from softcard.core.findings import Finding, FindingLog
from softcard.engine.gcn.hooks import Checks
from softcard.engine.gcn.races.reporter import UNIT
from softcard.engine.gcn.races.watch import RaceWatch
from softcard.engine.gcn.reference.engine import ReferenceEngine, Stepper
from softcard.engine.gcn.reference.groups import Groups
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.gcn.tiered.translation import Tier
from softcard.isa.gcn.target import target
from tests.agree.gcn import values
from tests.agree.gcn.bench import STEP_LIMIT, World, differences, on_reference
from tests.agree.gcn.bench import _error as error_of
from tests.agree.gcn.fuzz import TARGETS
from tests.agree.gcn.programs import Builder, listing, start, weighted
from tests.agree.gcn.race_programs import END, Maker, Users
from tests.conftest import Seeds
from tests.engine.gcn.jit.test_contiguous import every_lanes
from tests.engine.gcn.programs import dwords, program

pytestmark = pytest.mark.slow(seconds=3)
HostAccess = tuple[str, int, int]
"""By the host: what it does, from where on, and to how many bytes."""
DATA = 0x20_0000
NAMES = ("gfx803", "gfx900")


@pytest.mark.parametrize("name", TARGETS)
def test_random_programs_do_what_they_do_without(name: str, seeds: Seeds) -> None:
    world = World()
    for number in seeds(3, 2, TARGETS.index(name)):
        rng = np.random.default_rng([18, number])
        builder = Builder(rng, target(name))
        builder.maker.wild = values.pick(rng, (0.0, 0.0, 0.01))
        made = builder.program(int(rng.integers(1, 30)), weighted(rng, builder.target))
        code = made.code()
        state = start(rng, mode=None, bad=0.0)
        expected = on_reference(name, code, state)
        world.fill(code, state)
        plain = world.dispatch(name, state, STEP_LIMIT)
        watch = RaceWatch(world.memory, FindingLog([]))
        watching = replace(plain, checks=Checks(watch))
        groups = Groups(watching, Stepper(watching))
        watch.begin()
        error = error_of(lambda groups=groups: groups.run())
        outcome = world.outcome(groups._views[0].wave, groups.lds, groups.statistics.instructions, error)
        assert differences(expected, outcome) == [], listing(made.target, code)


def found_by(
    engine: Any,
    text: str,
    name: str,
    options: dict[str, Any],
    equal_stores: bool,
    host: Sequence[HostAccess] = (),
    lanes: bool = False,
) -> tuple[Any, list[int]]:
    """What is told of two launches of a program, and what they leave; `engine` None: without the check.

    `host`: what the host does behind them, which has waited for neither; without any it has. `lanes`: those of a wave
    are looked at, too.
    """
    made, reported = program(text + "|s_endpgm", name, **options), list[Finding]()
    watch = RaceWatch(made.memory, FindingLog(reported), equal_stores, lanes)
    for _ in range(2):
        watch.begin()
        watch.launches.unseen |= {watch.launches.present.number} if host else set()
        if engine is None:
            ReferenceEngine().run(made)
        else:
            engine.run(replace(made, checks=Checks(watch)))
    for each in host:
        reported.append(Finding(RACES, f"flags of {sorted(watch.host(*each))}", ""))
    told = [each.as_dict() | ({"registers": each.registers} if each.check == LANES else {}) for each in reported]
    return told, dwords(made, END // 4)


@every_lanes
@pytest.mark.parametrize("name", NAMES)
def test_both_engines_find_the_same(name: str, lanes: int, seeds: Seeds) -> None:
    many, numbers = 0, seeds(5, 2, NAMES.index(name) * 2 + lanes // 8)
    for number in numbers:
        rng = np.random.default_rng([19, number, lanes])
        text = Maker(rng, name).text()
        groups = [(n, 0, 0) for n in range(int(rng.integers(1, 4)))]
        options = {"groups": groups, "size": (int(rng.choice([64, 100, 128, 192])), 1, 1), "lds_bytes": 1024}
        equal_stores = bool(rng.random() < 0.2)
        _, expected = found_by(None, text, name, options, equal_stores)
        engines = ReferenceEngine(), JitEngine(threads=1, lanes=lanes, tier=list(Tier)[number % 2])
        one, other = (found_by(engine, text, name, options, equal_stores) for engine in engines)
        assert one[0] == other[0], text
        assert one[1] == other[1] == expected, text
        many += len(one[0])
    assert many > 8 * len(numbers) // 5


@pytest.mark.parametrize("name", NAMES)
def test_both_engines_find_the_same_where_values_are_unused(name: str, seeds: Seeds) -> None:
    many, numbers = 0, seeds(6, 3, NAMES.index(name) * 3)
    for number in numbers:
        rng = np.random.default_rng([38, number])
        text = Users(rng, name).text()
        options = {"groups": [(n, 0, 0) for n in range(2)], "size": (128, 1, 1), "lds_bytes": 1024}
        engines = ReferenceEngine(), JitEngine(threads=1, tier=list(Tier)[number % 2])
        one, other = (found_by(engine, text, name, options, False) for engine in engines)
        assert one == other, text
        many += len(one[0])
    assert many > 8 * len(numbers) // 6


@every_lanes
@pytest.mark.parametrize("name", NAMES)
def test_both_engines_find_the_same_of_lanes(name: str, lanes: int, seeds: Seeds) -> None:
    """And of waves what they find without."""
    many, numbers = 0, seeds(5, 2, NAMES.index(name) + lanes // 8)
    for number in numbers:
        rng = np.random.default_rng([21, number, lanes])
        text = Maker(rng, name).text()
        groups = [(n, 0, 0) for n in range(int(rng.integers(1, 3)))]
        options = {"groups": groups, "size": (int(rng.choice([64, 100, 128])), 1, 1), "lds_bytes": 1024}
        waves, expected = found_by(ReferenceEngine(), text, name, options, False)
        engines = ReferenceEngine(), JitEngine(threads=1, lanes=lanes, tier=list(Tier)[number % 2])
        one, other = (found_by(engine, text, name, options, False, lanes=True) for engine in engines)
        parts = [[[each for each in found if (each["check"] == RACES) == is_of_waves] for is_of_waves in (True, False)]
                 for found, _ in (one, other)]  # fmt: skip
        assert parts[0] == parts[1], text
        assert parts[0][0] == waves, text
        assert one[1] == other[1] == expected, text
        many += len(parts[0][1])
    assert many >= len(numbers)


@pytest.mark.parametrize("name", NAMES)
def test_both_engines_find_the_same_where_the_host_waits_for_nothing(name: str, seeds: Seeds) -> None:
    """And what they find of waves is what they find where it does."""
    many, numbers = 0, seeds(6, 3, NAMES.index(name) * 3)
    for number in numbers:
        rng = np.random.default_rng([20, number])
        text = Maker(rng, name).text()
        options = {"groups": [(n, 0, 0) for n in range(2)], "size": (128, 1, 1), "lds_bytes": 1024}
        host = [
            (
                str(rng.choice(["read", "write", "free"])),
                DATA + int(rng.integers(0, END)),
                int(rng.choice([4, 64, END])),
            )
            for _ in range(6)
        ]
        one, other = (found_by(each, text, name, options, False, host) for each in (ReferenceEngine(), JitEngine()))
        assert one[0] == other[0], text
        waited = found_by(ReferenceEngine(), text, name, options, False)
        assert [each for each in one[0] if each["unit"].startswith("wave")] == waited[0]
        many += sum(each["unit"] == UNIT for each in one[0])
    assert many > 8 * len(numbers) // 6


def test_a_clock_that_a_wave_has_read_does_not_change() -> None:
    """A wave joins it at the invalidation of its cache, after other waves have released later clocks there.

    In each round but the first, wave 1 adds to the word that wave 0 has read in the round before. They are ordered by
    no barrier, and wave 0 adds to another word.
    """
    text = (
        "s_mov_b32 m0, -1 | v_readfirstlane_b32 s8, v0 | s_mov_b32 s20, 4 | again: | v_mov_b32 v3, s8 "
        "| v_lshrrev_b32 v3, 1, v3 | ds_add_rtn_u32 v12, v3, v8 | s_barrier "
        "| ds_read2_b32 v[12:13], v3 offset0:30 offset1:8 | buffer_wbinvl1_vol | s_sub_u32 s20, s20, 1 "
        "| s_cmp_lg_u32 s20, 0 | s_cbranch_scc1 again"
    )
    options = {"groups": [(0, 0, 0)], "size": (128, 1, 1), "lds_bytes": 1024}
    for engine in (ReferenceEngine(), *(JitEngine(threads=1, tier=tier) for tier in Tier)):
        [found], _ = found_by(engine, text, "gfx803", options, False)
        assert (found["kind"], found["count"]) == ("read-atomic", 2 * 3 * 64)
