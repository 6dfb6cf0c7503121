"""Any number of cases, on demand: ``python -m tests.agree.fuzz --cases 100000 --seed 7 --engine quick``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from softcard.engine.riscv.api import Engine, Why
from softcard.engine.riscv.jit.engine import JitEngine
from softcard.engine.riscv.reference import ReferenceEngine
from softcard.ir import llvm
from softcard.ir.object_cache import ObjectCache
from tests.agree import qemu
from tests.agree.bench import Bench
from tests.agree.compare import differences, report
from tests.agree.programs import batch
from tests.agree.qemu import Case, State

ENGINES: dict[str, Callable[[], Engine]] = {
    "reference": ReferenceEngine,
    "quick": lambda: JitEngine(tier=llvm.QUICK, cache=ObjectCache()),
    "optimised": lambda: JitEngine(tier=llvm.OPTIMISED, cache=ObjectCache()),
    "tiered": lambda: JitEngine(cache=ObjectCache()),
}
"""Every way to run a hart; none of them keeps code on disk here."""


def disagreements(engine: Engine, cases: Sequence[Case], expected: Sequence[State]) -> list[str]:
    """Run `cases`, numbered from 0, and report each whose outcome is not as expected."""
    bench = Bench(engine)
    bench.load_code(cases)
    found = []
    for case, state in zip(cases, expected, strict=True):
        result, after = bench.run(case)
        lines = differences(state, after)
        if result.why is not Why.RETURN:
            lines.insert(0, f"ended with {result}, expected to reach the end of the code")
        if lines:
            found.append(report(case, lines))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare with qemu in rounds; 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", choices=ENGINES, default="reference")
    parser.add_argument("--round", type=int, default=5_000, help=f"cases in one qemu program, at most {qemu.SLOTS}")
    given = parser.parse_args(arguments)
    if qemu.QEMU is None:
        print("qemu-riscv64 is not installed", file=sys.stderr)
        return 2
    failed = 0
    for first in range(0, given.cases, given.round):
        cases = batch(f"{given.seed}/{first}", min(given.round, given.cases - first))
        found = disagreements(ENGINES[given.engine](), cases, qemu.run(cases))
        failed += len(found)
        print("\n\n".join([f"{first + len(cases)} cases, {failed} differ", *found[:5]]), flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
