"""The JIT as for a lesser processor against the reference engine: ``python -m tests.agree.narrow x86-64 --cases 200``.

LLVM is told of fewer features than this machine has, in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from random import Random

import softcard.ir.host as processor


def pretend(name: str) -> frozenset[str]:
    """Make this process believe that it has such a processor; gives what its own lacks. Before LLVM is asked."""
    assert "softcard.ir.llvm" not in sys.modules
    os.environ[processor.VARIABLE] = name
    return processor.LEVELS[name] - processor.this_machine().names


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; 1 if anything differs, 2 if this machine's processor is a lesser one itself."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("processor", choices=processor.LEVELS)
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
    from softcard.engine.riscv.jit.engine import JitEngine
    from softcard.ir import llvm
    from tests.agree import vectors
    from tests.agree.fuzz import ENGINES

    assert llvm.host_features() <= processor.LEVELS[given.processor]
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
