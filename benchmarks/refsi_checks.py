"""What do the checks cost on RefSi's harts, as a factor over the same kernel without them?

The kernels of refsi_kernels.py, the demo's and those of kernels/refsi_checks.c, with `waits` and `races` alone, with
`init` beside `races` and with all three, in CPU time of one thread, alternately with the unchecked run; results are
compared bit for bit. Peer: our own unchecked run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import refsi_kernels
from harness import FOLDER, Row, Samples, alternate, cpu, main, optimised
from softcard.core.checks import INIT, RACES, WAITS
from softcard.host.refsi.compile import compile_kernels, riscv_compilers
from softcard.refsi import RefSi, demo_kernels

QUESTION: Final = "refsi_checks"
TITLE: Final = "RefSi: what checks cost"
KERNELS: Final = FOLDER / "kernels" / "refsi_checks.c"
MOST: Final = {WAITS: 1.1, RACES: 4.0, f"{INIT},{RACES}": 6.0, f"{WAITS},{INIT},{RACES}": 6.0}
"""What may be spent at most, by checks."""
SETTLING: Final = 12
"""Runs before it counts: hot code is optimised meanwhile."""
LARGE: Final = 1 << 18
SIDE: Final = 64


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel: `count` numbers in both arrays; those of the demo have arrays of their own."""

    what: str
    kernel: str
    instances: int = 4
    count: int = LARGE
    is_demo: bool = False
    has_vectors: bool = False
    """Those are the reference engine's where values are checked."""


CASES: Final = (
    Case("vector add, i32", "vector_add", is_demo=True),
    Case("matmul, f32, 64 x 64", "matmul_f32", SIDE, SIDE * SIDE, is_demo=True),
    Case("bytes copied one by one", "copy_bytes"),
    Case("stencil, with barriers", "smooth"),
    Case("vector add, RVV e32 m8", "vector_add", has_vectors=True),
    Case("strided vector loads, RVV", "vector_stride", has_vectors=True),
    Case("histogram, amoadd", "count"),
    Case("counter, LR/SC", "reserve"),
    Case("sum under a spin lock", "lock"),
    Case("rows passed on by a flag", "pass"),
    Case("tiles by DMA beside work", "tiles"),
    Case("one element an instance", "element", LARGE),
)


def prepared(device: RefSi, case: Case, program: bytes) -> tuple[Callable[[], Any], Any]:
    """A launch of a case, and the array that it leaves something in."""
    device.load_elf(demo_kernels() if case.is_demo else program)
    rng = np.random.default_rng(1)
    if case.is_demo and case.kernel == "matmul_f32":
        square = rng.integers(0, 9, (SIDE, SIDE)).astype(np.float32)
        arrays = [device.array(each) for each in (square, square, np.zeros_like(square))]
        return lambda: device.launch(case.kernel, case.instances, [*arrays, SIDE]), arrays[-1]
    numbers = rng.integers(0, 99, case.count + 64).astype(np.int32)
    if case.is_demo:
        arrays = [device.array(each) for each in (numbers, numbers, np.zeros_like(numbers))]
        return lambda: device.launch(case.kernel, case.instances, [*arrays, case.count // 4]), arrays[-1]
    arrays = [device.array(each) for each in (numbers, np.zeros_like(numbers))]

    def run() -> None:
        arrays[0].array[case.count :] = 0
        arrays[1].array[:] = 0
        device.launch(case.kernel, case.instances, [*arrays, case.count])

    return run, arrays[-1]


def measure_case(case: Case, check: str, program: bytes, rounds: int) -> Row:
    """How many times as long."""
    with ExitStack() as stack:
        sides = []
        for chosen in ("", check):
            device = stack.enter_context(RefSi.open(threads=1, check=chosen))
            run, result = prepared(device, case, program)
            for _ in range(SETTLING):
                run()
                optimised()
            sides.append((run, result, device))
        assert not sides[1][2].findings, f"{case.kernel} is right: {sides[1][2].findings[0]}"
        plain, checked = alternate(rounds, *(lambda run=run: cpu(run) for run, _, _ in sides))
        assert sides[0][1].array.tobytes() == sides[1][1].array.tobytes(), f"{case.kernel} gives the same with checks"
    return factor(case.what, check, plain, checked)


def factor(what: str, check: str, plain: Samples, checked: Samples) -> Row:
    """The row of a kernel."""
    best, typical = checked.best / plain.best, checked.median / plain.median
    name = f"{what}: check={check}"
    return Row(QUESTION, name, "times as long", best, typical, target=MOST[check], lower=True, absolute=True)


def measure_commands(case: refsi_kernels.Case, check: str, rounds: int) -> Row:
    """The same of a kernel that is launched as a driver does it."""
    sides = []
    for chosen in ("", check):
        bench = refsi_kernels.Bench(1, chosen)
        address, size = refsi_kernels.buffer_of(bench, case)
        for _ in range(SETTLING):
            bench.run(address, size)
            optimised()
        assert not bench.device.findings, f"{case.symbol} is right: {bench.device.findings[0]}"
        sides.append((bench, address, size))
    plain, checked = alternate(rounds, *(lambda s=s: cpu(lambda: s[0].run(*s[1:])) for s in sides))
    return factor(f"{case.what}, by commands", check, plain, checked)


def measure(quick: bool = False) -> list[Row]:
    """All rows."""
    if not riscv_compilers():
        print("no compiler for RV64 is installed: nothing measured")
        return []
    program = compile_kernels(KERNELS)
    rounds = 5 if quick else 15
    rows = [measure_commands(case, check, rounds) for check in MOST for case in refsi_kernels.cases(quick)]
    return rows + [
        measure_case(case, check, program, rounds)
        for check in MOST
        for case in CASES
        if INIT not in check or not case.has_vectors
    ]


if __name__ == "__main__":
    main(measure, TITLE)
