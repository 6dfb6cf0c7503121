"""Any amount of hostile input, on demand: ``python -m tests.hostile.fuzz --cases 100000 --seed 7 --kind kernels``.

Case number N of a seed is always the same input: a failure is run again with ``--first N --cases 1``.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from softcard.device.hsa.queues import signals
from tests.hostile import (
    accesses,
    amdcl2,
    checks,
    elves,
    fletcher,
    generate,
    hsa,
    kernels,
    kfd,
    lives,
    programs,
    scripts,
    vectors,
)


def _buffers(random: Random, folder: Path) -> None:
    checks.check_buffer(generate.buffer(random), generate.code(random))


def _registers(random: Random, folder: Path) -> None:
    accesses.check_steps(accesses.steps(random))


def _shapes(random: Random, folder: Path) -> None:
    accesses.check_shapes(random)


def _recordings(random: Random, folder: Path) -> None:
    with checks.in_time():
        scripts.check_script(scripts.mutated(random), scripts.settings(random))


def _kernels(random: Random, folder: Path) -> None:
    kernels.check_case(kernels.case(random))


def _vector_kernels(random: Random, folder: Path) -> None:
    kernels.check_case(kernels.vector_case(random))


def _boots(random: Random, folder: Path) -> None:
    kernels.check_boot(random)


def _elves(random: Random, folder: Path) -> None:
    elves.check_file(elves.mutated(random), folder)


def _vectors(random: Random, folder: Path) -> None:
    vectors.check(random)


def _programs(random: Random, folder: Path) -> None:
    programs.check(random)


def _schemas(random: Random, folder: Path) -> None:
    fletcher.check_schema(random)


def _fletcher(random: Random, folder: Path) -> None:
    fletcher.check_device(random)


def _amdcl2(random: Random, folder: Path) -> None:
    amdcl2.check(amdcl2.mutated(random))


def _aql(random: Random, folder: Path) -> None:
    signals.LOCK_SECONDS = 0.0  # hostile hosts leave locks taken
    hsa.check_device(str(random.getrandbits(64)))
    hsa.check_agreement(str(random.getrandbits(64)))
    hsa.check_snapshot(str(random.getrandbits(64)))


def _checked_aql(random: Random, folder: Path) -> None:
    signals.LOCK_SECONDS = 0.0
    hsa.check_device(str(random.getrandbits(64)), random.choice(hsa.CHECKS))


def _lives(random: Random, folder: Path) -> None:
    lives.check_life(str(random.getrandbits(64)))


def _kfd(random: Random, folder: Path) -> None:
    kfd.check(random)


KINDS: dict[str, Callable[[Random, Path], None]] = {
    "buffers": _buffers,
    "registers": _registers,
    "shapes": _shapes,
    "recordings": _recordings,
    "kernels": _kernels,
    "vector-kernels": _vector_kernels,
    "boots": _boots,
    "elves": _elves,
    "vectors": _vectors,
    "programs": _programs,
    "schemas": _schemas,
    "fletcher": _fletcher,
    "aql": _aql,
    "checked-aql": _checked_aql,
    "lives": _lives,
    "amdcl2": _amdcl2,
    "kfd": _kfd,
}


def run(kind: str, seed: str, number: int, folder: Path) -> None:
    """One case; an exception of any kind is a finding."""
    KINDS[kind](Random(f"{kind}/{seed}/{number}"), folder)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run cases of all kinds in turn, or of one; 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--kind", choices=KINDS, action="append")
    given = parser.parse_args(arguments)
    kinds = given.kind or list(KINDS)
    found: Counter[str] = Counter()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        for number in range(given.first, given.first + given.cases):
            kind = kinds[number % len(kinds)]
            try:
                run(kind, given.seed, number, Path(folder))
            except Exception as error:  # noqa: BLE001 - everything that comes out is a finding
                checks.device.cache_clear()
                where = traceback.extract_tb(error.__traceback__)[-1]
                what = f"{kind}: {type(error).__name__} in {Path(where.filename).name}:{where.lineno}"
                found[what] += 1
                if found[what] == 1:
                    print(f"case {number} of seed {given.seed}: {what}\n{traceback.format_exc()}"[:4000], flush=True)
    print(f"{given.cases} cases in {time.monotonic() - begin:.0f} s, {found.total()} findings")
    for what, count in found.most_common():
        print(f"{count:6} {what}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
