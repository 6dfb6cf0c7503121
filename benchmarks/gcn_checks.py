"""What do checks of values and of races cost, as a factor over the same kernel without them?

The kernels of kernels/gcn.cl on gfx803 and gfx900 with `init`, `fidelity` and `races`, each alone, the first two, and
all of them, and with `races` and `lanes`, in CPU time of one thread, alternately with the unchecked run; results are
compared bit for bit. `races`, alone and with `lanes`, also on kernels that gather. The longer kernels also with two
threads on both sides, by the clock. Peer: our own unchecked run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from gcn import Gpu, cases, compiled
from harness import Row, alternate, cpu, main, wall
from softcard.core.checks import FIDELITY, INIT, LANES, RACES
from softcard.core.findings import Finding, FindingLog
from softcard.engine.gcn.hooks import Checks
from softcard.engine.gcn.races.watch import RaceWatch
from softcard.engine.gcn.shadow.check import EngineShadow
from softcard.engine.gcn.shadow.device_shadow import DeviceShadow
from softcard.engine.gcn.tiered.engine import JitEngine, Launch
from softcard.engine.gcn.tiered.translation import Tier

QUESTION: Final = "gcn_checks"
TITLE: Final = "GCN: what checks of values and of races cost"
ALL: Final = (INIT, FIDELITY, RACES)
OF_RACES: Final = ((RACES,), (RACES, LANES))
KINDS: Final = ((INIT,), (FIDELITY,), *OF_RACES, (INIT, FIDELITY), ALL)
MOST: Final = {(INIT,): 2.5, (RACES,): 4.0, ALL: 6.0}
"""Targets, as factors."""
KERNELS: Final = 6
"""Behind them are those that gather, or go over matrices in other ways."""
GATHERING: Final = 12.0
"""The target of those, for `races`."""
LONGER: Final = (1, 2, 3, 4)
"""Kernels that are worth a second thread."""
TWO: Final = ((INIT,), (INIT, FIDELITY), ALL)


def factors(processor: str, path: Path, rounds: int, quick: bool, threads: int = 1) -> Iterator[Row]:
    """One row for each kernel and choice of checks."""
    gpu = Gpu(path, processor)
    for number, case in enumerate(cases(quick)):
        if threads > 1 and number not in LONGER:
            continue
        plain, expected = gpu.dispatch(case)
        engine = JitEngine(threads=threads, tier=Tier.OPTIMISED)
        without = engine.prepare(plain)
        without.run()
        for kinds in TWO if threads > 1 else KINDS if number < KERNELS else OF_RACES:
            dispatch, result = gpu.dispatch(case)
            values, told = tuple(kind for kind in kinds if kind in (INIT, FIDELITY)), list[Finding]()
            device_shadow = DeviceShadow(gpu.memory, values) if values else None
            watch = RaceWatch(gpu.memory, FindingLog(told), lanes=LANES in kinds) if RACES in kinds else None
            checks = Checks(*([EngineShadow(device_shadow)] if device_shadow else []), *([watch] if watch else []))
            ready = engine.prepare(replace(dispatch, checks=checks))
            checked = partial(_run, ready, watch)
            checked()
            if not np.array_equal(result.view(np.uint8), expected.view(np.uint8)):
                raise AssertionError(f"{case.kernel} with {kinds}: another result")
            if told or (device_shadow is not None and device_shadow.uses.counts()):
                raise AssertionError(f"{case.kernel} with {kinds}: something was told of")
            sides = [partial(cpu if threads == 1 else wall, each) for each in (checked, without.run)]
            ours, theirs = alternate(rounds, *sides)
            best, typical = ours.best / theirs.best, ours.median / theirs.median
            what = f"{processor} {case.title}: {', '.join(kinds)}" + (f", {threads} threads" if threads > 1 else "")
            target = MOST.get(kinds) if number < KERNELS else GATHERING if kinds == (RACES,) else None
            yield Row(QUESTION, what, "x", best, typical, target=target, lower=True, absolute=target is not None)
        engine.close()


def _run(ready: Launch, watch: RaceWatch | None) -> None:
    """Once more, as a launch behind the one before."""
    if watch is not None:
        watch.begin()
    ready.run()


def measure(quick: bool = False) -> list[Row]:
    """All rows."""
    rounds, rows = (3 if quick else 15), []
    with tempfile.TemporaryDirectory() as folder:
        for processor in ("gfx803", "gfx900"):
            path = compiled(processor, Path(folder))
            rows += [*factors(processor, path, rounds, quick), *factors(processor, path, rounds, quick, threads=2)]
    return rows


if __name__ == "__main__":
    main(measure, TITLE)
