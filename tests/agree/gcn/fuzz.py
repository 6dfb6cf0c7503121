"""Random programs on both engines until time is up; failures are made small and printed.

``python -m tests.agree.gcn.fuzz --seconds 60 --target gfx900 --seed 1``
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from softcard.isa.gcn.target import target
from tests.agree.gcn import values
from tests.agree.gcn.bench import Start, Translated, differences, engines, on_reference
from tests.agree.gcn.programs import Builder, Program, start, weighted
from tests.agree.gcn.shrink import report, shrink

TARGETS = ("gfx700", "gfx803", "gfx900", "gfx906")


@dataclass
class Failure:
    """A program and a state for which an engine does not agree with the reference."""

    program: Program
    start: Start
    engine: Translated
    lines: list[str]


def check(
    program: Program, state: Start, translated: Sequence[Translated], tally: Counter[str] | None = None
) -> Failure | None:
    """Run on the reference and on the engines given."""
    name, code = program.target.name, program.code()
    expected = on_reference(name, code, state)
    if tally is not None:
        tally["cases"] += 1
        tally["fault" if expected.error else "end"] += 1
        tally["retired"] += expected.parts.get("retired", 0)
    for engine in translated:
        lines = differences(expected, engine(name, code, state))
        if lines:
            return Failure(program, state, engine, lines)
    return None


def one(name: str, seed: str, all_engines: Sequence[Translated], tally: Counter[str]) -> Failure | None:
    """The program of a seed, from several states, each on one engine."""
    rng = np.random.default_rng([int(part) for part in seed.split("/")])
    builder = Builder(rng, target(name))
    builder.maker.wild = values.pick(rng, (0.0, 0.0, 0.01, 0.05))
    program = builder.program(int(rng.integers(1, 40)), weighted(rng, builder.target))
    bad = values.pick(rng, (0.0, 0.0, 0.3))
    mode: int | None = None
    engine = all_engines[int(rng.integers(len(all_engines)))].fresh()
    for _ in range(4):
        state = start(rng, mode=None if rng.random() < 0.3 else mode, bad=bad)
        mode = state.mode
        failed = check(program, state, [engine], tally)
        if failed is not None:
            return failed
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--target", choices=TARGETS, action="append")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--failures", type=int, default=5, help="stop after so many")
    given = parser.parse_args(arguments)
    names, until = given.target or TARGETS, time.monotonic() + given.seconds
    every, tally, failed, number = engines(), Counter[str](), 0, given.first
    while time.monotonic() < until and failed < given.failures:
        for name in names:
            found = one(name, f"{given.seed}/{number}", every, tally)
            if found is not None:
                failed += 1
                small = shrink(found)
                print(f"==== {name} seed {given.seed} number {number}, {small.engine}\n{report(small)}\n", flush=True)
        number += 1
        if number % 20 == 0:
            print(f"{number} {dict(tally)}", file=sys.stderr, flush=True)
    print(f"{number - given.first} programs, {dict(tally)}, {failed} failures", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
