"""Waves with marks: what they do is what they do without, and both engines see the same of the marks.

``python -m tests.agree.gcn.shadowed --seconds 60 --target gfx900 --seed 1``
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from softcard.core.checks import INIT
from softcard.core.findings import Finding
from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.checks.barriers import Barriers
from softcard.engine.gcn.hooks import Checks
from softcard.engine.gcn.reference.engine import Stepper
from softcard.engine.gcn.reference.groups import Groups
from softcard.engine.gcn.shadow.check import EngineShadow
from softcard.engine.gcn.shadow.device_shadow import KINDS, DeviceShadow
from softcard.engine.gcn.tiered.translation import Tier
from softcard.isa.gcn.target import target
from tests.agree.gcn import values
from tests.agree.gcn.bench import (
    DATA,
    DATA_BYTES,
    STEP_LIMIT,
    Outcome,
    Start,
    Translated,
    World,
    differences,
    on_reference,
    widths,
)
from tests.agree.gcn.bench import _error as error_of
from tests.agree.gcn.fuzz import TARGETS
from tests.agree.gcn.programs import Builder, listing, start, weighted
from tests.agree.gcn.shadow_programs import met


def shadowed(dispatch: Dispatch, world: World) -> tuple[Dispatch, DeviceShadow, list[Finding]]:
    """With marks of both kinds: half of the data is undefined, every other 16 bytes. And what is told of barriers."""
    device_shadow = DeviceShadow(world.memory, KINDS)
    device_shadow.undefined(DATA, 16)  # every call takes long: the rest repeats what the first call has written
    initialised = device_shadow.shadow_memories[KINDS.index(INIT)]
    initialised.write(DATA, initialised.read(DATA, 32) * (DATA_BYTES // 32))
    found: list[Finding] = []
    return replace(dispatch, checks=Checks(EngineShadow(device_shadow), Barriers(found.append))), device_shadow, found


def seen(device_shadow: DeviceShadow, found: list[Finding]) -> dict[str, Any]:
    """What there is to see of checks: sights, the marks of the data, findings of barriers."""
    shadow_memories = {
        f"{kind} of data": shadow_memory.read(DATA, DATA_BYTES)
        for kind, shadow_memory in zip(KINDS, device_shadow.shadow_memories, strict=True)
    }
    barriers = {number: (each.kind, each.pc, each.lanes) for number, each in enumerate(found)}
    return {"uses": device_shadow.uses.counts(), "barriers": barriers, **shadow_memories}


_world: list[World] = []


def shadowed_reference(name: str, code: bytes, state: Start) -> tuple[Outcome, dict[str, Any]]:
    """The reference engine with marks."""
    if not _world:
        _world.append(World())
    world = _world[0]
    world.fill(code, state)
    dispatch, device_shadow, found = shadowed(world.dispatch(name, state, STEP_LIMIT), world)
    groups = Groups(dispatch, Stepper(dispatch))
    error = error_of(lambda: groups.run())
    wave = groups._views[0].wave
    made = world.outcome(wave, groups.lds, groups.statistics.instructions, error)
    return made, seen(device_shadow, found)


class ShadowedJit(Translated):
    """The JIT engine with marks."""

    def shadowed(self, name: str, code: bytes, state: Start) -> tuple[Outcome, dict[str, Any]]:
        """An outcome, and what was seen."""
        world = self.world
        world.fill(code, state)
        dispatch, device_shadow, found = shadowed(world.dispatch(name, state, STEP_LIMIT), world)
        launch = self.engine.prepare(dispatch)
        done: list[int] = []
        error = error_of(lambda: done.append(launch.run().instructions))
        worker = launch._workers[0]
        wave = worker.waves[0]
        made = world.outcome(wave, worker.lds, done[0] if done else worker._executed(wave), error)
        made.parts.update({"vgpr": None} if error else {})
        return made, seen(device_shadow, found)


def one(name: str, seed: str) -> list[str]:
    """What differs for the program of a seed, from two states."""
    numbers = [int(part) for part in seed.split("/")]
    rng = np.random.default_rng(numbers)
    builder = Builder(rng, target(name))
    builder.maker.wild = values.pick(rng, (0.0, 0.0, 0.01))
    program = builder.program(int(rng.integers(1, 30)), weighted(rng, builder.target))
    engine = ShadowedJit(int(values.pick(rng, widths())), list(Tier)[sum(numbers) % 2])
    code = program.code()
    for _ in range(2):
        state = start(rng, mode=None, bad=0.0)
        expected = on_reference(name, code, state)
        first, uses = shadowed_reference(name, code, state)
        second, others = engine.shadowed(name, code, state)
        lines = [f"reference with marks: {line}" for line in differences(expected, first)]
        lines += [f"{engine} with marks: {line}" for line in differences(expected, second)]
        if not expected.error:
            lines += [
                f"{engine}: {part}: {_shown(others[part], uses[part])}" for part in uses if uses[part] != others[part]
            ]
        if lines:
            return [*lines, listing(program.target, code)]
    return []


def _shown(mine: Any, theirs: Any) -> str:
    if isinstance(mine, bytes):
        wrong = np.flatnonzero(np.frombuffer(mine, np.uint8) != np.frombuffer(theirs, np.uint8))
        return f"{len(wrong)} bytes differ, the first at {int(wrong[0]):#x}"
    return str({key: (mine.get(key), theirs.get(key)) for key in mine | theirs if mine.get(key) != theirs.get(key)})


def main(arguments: Sequence[str] | None = None) -> int:
    """1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--target", choices=TARGETS, action="append")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--failures", type=int, default=3)
    given = parser.parse_args(arguments)
    until, failed, number = time.monotonic() + given.seconds, 0, given.first
    while time.monotonic() < until and failed < given.failures:
        for name in given.target or TARGETS:
            lines = one(name, f"{given.seed}/{number}")
            if name in ("gfx803", "gfx900"):
                lines += met(name, widths()[number % len(widths())], [given.seed, number])[0]
            failed += bool(lines)
            if lines:
                print(f"==== {name} seed {given.seed} number {number}", *lines, sep="\n", flush=True)
        number += 1
    print(f"{number - given.first} programs each, {failed} failures")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
