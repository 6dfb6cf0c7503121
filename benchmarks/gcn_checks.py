"""What do checks of values cost, as a factor over the same kernel without them?

The kernels of kernels/gcn.cl on gfx803 and gfx900 with `init` and `fidelity`, each alone and both, in CPU time of one
thread, alternately with the unchecked run; results are compared bit for bit. Peer: our own unchecked run.
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
from harness import Row, alternate, cpu, main
from understudy.core.checks import FIDELITY, INIT
from understudy.engine.gcn.jit.engine import JitEngine
from understudy.engine.gcn.jit.tier import Tier
from understudy.engine.gcn.marks.marking import Marking

QUESTION: Final = "gcn_checks"
TITLE: Final = "GCN: what checks of values cost"
KINDS: Final = ((INIT,), (FIDELITY,), (INIT, FIDELITY))
MOST: Final = {(INIT,): 2.5}
"""Targets, as factors."""
KERNELS: Final = 6


def factors(processor: str, path: Path, rounds: int, quick: bool) -> Iterator[Row]:
    """One row for each kernel and choice of checks."""
    gpu = Gpu(path, processor)
    for case in cases(quick)[:KERNELS]:
        plain, expected = gpu.dispatch(case)
        engine = JitEngine(threads=1, tier=Tier.OPTIMISED)
        without = engine.prepare(plain)
        without.run()
        for kinds in KINDS:
            dispatch, result = gpu.dispatch(case)
            marking = Marking(gpu.memory, kinds)
            ready = engine.prepare(replace(dispatch, marks=marking))
            ready.run()
            if not np.array_equal(result.view(np.uint8), expected.view(np.uint8)) or marking.sights.counts():
                raise AssertionError(f"{case.kernel} with {kinds}: another result, or something was told of")
            sides = [partial(cpu, each.run) for each in (ready, without)]
            ours, theirs = alternate(rounds, *sides)
            best, typical = ours.best / theirs.best, ours.median / theirs.median
            what = f"{processor} {case.title}: {', '.join(kinds)}"
            target = MOST.get(kinds)
            yield Row(QUESTION, what, "x", best, typical, target=target, lower=True, absolute=target is not None)
        engine.close()


def measure(quick: bool = False) -> list[Row]:
    """All rows."""
    rounds, rows = (3 if quick else 15), []
    with tempfile.TemporaryDirectory() as folder:
        for processor in ("gfx803", "gfx900"):
            rows += factors(processor, compiled(processor, Path(folder)), rounds, quick)
    return rows


if __name__ == "__main__":
    main(measure, TITLE)
