"""The JIT as for a lesser processor against the reference engine: ``python -m tests.agree.narrow x86-64 --cases 200``.

LLVM is told of fewer features than this machine has, in a process of its own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from random import Random

import understudy.ir.host as processor

BASE = "64bit cmov cx8 fxsr mmx sse sse2"
FEATURES = {
    "x86-64": BASE,
    "x86-64-v2": f"{BASE} cx16 popcnt sahf sse3 sse4.1 sse4.2 ssse3",
    "x86-64-v3": f"{BASE} cx16 popcnt sahf sse3 sse4.1 sse4.2 ssse3 avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave",
}
"""Of the levels of the x86-64 psABI."""


def pretend(name: str) -> frozenset[str]:
    """Make this process believe that it has such a processor; gives what its own lacks. Before LLVM is asked."""
    full, wanted = processor.host(), set(FEATURES[name].split())
    assert "understudy.ir.llvm" not in sys.modules
    features = ",".join(f"{'+' if f[1:] in wanted else '-'}{f[1:]}" for f in full.features.split(","))
    found = processor.Host(full.triple, name, features, full.version)
    processor.host = lambda: found  # type: ignore[assignment]
    return frozenset(wanted - full.names)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; 1 if anything differs, 2 if this machine's processor is a lesser one itself."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("processor", choices=FEATURES)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", default="narrow")
    parser.add_argument("--vlen", type=int, default=128)
    parser.add_argument("--names", default="", help="one instruction a case, of these, by commas")
    parser.add_argument("--engine", choices=("quick", "optimised"), default="quick")
    given = parser.parse_args(arguments)
    lacking = pretend(given.processor)
    if lacking:
        print(f"this machine has no {', '.join(sorted(lacking))}")
        return 2
    from tests.agree import vectors
    from tests.agree.fuzz import ENGINES
    from understudy.engine.riscv.jit.engine import JitEngine
    from understudy.ir import llvm

    assert llvm.host_features() <= set(FEATURES[given.processor].split())
    jit = ENGINES[given.engine]()
    assert isinstance(jit, JitEngine)
    names = given.names.split(",")

    def one(random: Random, vlen: int) -> vectors.Case:
        return vectors.make(random, vlen, [random.choice(names)] if given.names else ())

    found, _, memory = vectors.batch(given.seed, given.cases, given.vlen, jit, one)
    wanted, _, expected = vectors.batch(given.seed, given.cases, given.vlen, ENGINES["reference"](), one)
    differ = 0
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.after is not None
        assert theirs.after is not None
        if ours.after != theirs.after:
            differ += 1
            lines = vectors.differences(ours.after, theirs.after, given.vlen)
            print(ours.listing(), *(line.replace("qemu", "reference") for line in lines), sep="\n  ")
    print(f"{given.cases} cases, {differ} differ, memory {'too' if memory != expected else 'does not'}")
    print(f"translated at {len(jit.translations)} places")
    return int(differ > 0 or memory != expected or not jit.translations)


if __name__ == "__main__":
    sys.exit(main())
