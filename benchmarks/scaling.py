"""What do two threads bring to a device of four harts?

One command runs four long instances, one on each hart, with one thread and with two, on the clock, in turns: as a
buffer, and as a launch, which copies its arrays besides.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Final

import numpy as np

from harness import Row, alternate, main, rate, wall
from refsi_kernels import APART, DATA, KERNELS, Bench, Case, buffer_of, warm_up
from softcard.host.refsi import RefSi

THREADS: Final = 2
ROWS: Final = 4
WARM_UPS: Final = 3
ELEMENTS: Final = 1 << 20
TITLE: Final = "Four harts on two threads"


def long_cases(quick: bool) -> list[Case]:
    """Kernels whose instances run for some milliseconds each, from plain to bound by memory."""
    iterations = 6_000_000 if quick else 48_000_000
    return [
        Case("integer loop (xorshift)", "k_intloop", 4, (DATA, iterations), 1, 0),
        rows_of_matmul(500),
        vector_add(),
    ]


def vector_add() -> Case:
    """Streams through 48 MiB."""
    a, b, c = DATA, DATA + APART, DATA + 2 * APART
    values = np.arange(4 * ELEMENTS, dtype=np.int32)
    arrays = {a: values, b: values}
    return Case(f"vector add i32, 4 x {ELEMENTS}", "k_vecadd", 4, (a, b, c, ELEMENTS), 1, 0, arrays=arrays)


def rows_of_matmul(size: int) -> Case:
    """One row of a product of f64 matrices for each hart; all of them read the whole second matrix."""
    a, b, c = DATA, DATA + APART, DATA + 2 * APART
    random = np.random.default_rng(1)
    arrays = {a: random.random((ROWS, size)), b: random.random((size, size))}
    what = f"{ROWS} rows of matmul f64 {size}"
    return Case(what, "k_matmul_f64", ROWS, (a, b, c, size), 1, 0, arrays=arrays)


def measure_case(case: Case, rounds: int) -> list[Row]:
    """Both numbers of threads in turns."""
    one, two = Bench(threads=1), Bench(threads=THREADS)
    first, second = buffer_of(one, case), buffer_of(two, case)
    steps = warm_up(one, *first)
    warm_up(two, *second)
    alone, together = alternate(rounds, lambda: wall(lambda: one.run(*first)), lambda: wall(lambda: two.run(*second)))
    base = rate("scaling", f"{case.what}, 1 thread", "MIPS", steps, alone)
    peer = {"peer_name": "1 thread", "peer": base.best}
    return [base, rate("scaling", f"{case.what}, {THREADS} threads", "MIPS", steps, together, **peer)]


def measure_launch(quick: bool, rounds: int) -> list[Row]:
    """`RefSi.launch` of a row of a product of f64 matrices for each hart."""
    size = 500
    random = np.random.default_rng(1)
    arrays = [random.random((ROWS, size)), random.random((size, size)), np.zeros((ROWS, size))]
    devices = [RefSi.open(threads=threads) for threads in (1, THREADS)]
    steps = 0

    def launch(device: RefSi) -> int:
        return device.launch("k_matmul_f64", ROWS, [*arrays, size]).instructions

    for device in devices:
        device.load_elf(KERNELS)
        for _ in range(WARM_UPS):
            steps = launch(device)
    alone, together = alternate(rounds, *(partial(wall, partial(launch, device)) for device in devices))
    what = f"launch of {ROWS} rows of matmul f64 {size}"
    base = rate("scaling", f"{what}, 1 thread", "MIPS", steps, alone)
    peer = {"peer_name": "1 thread", "peer": base.best}
    return [base, rate("scaling", f"{what}, {THREADS} threads", "MIPS", steps, together, **peer)]


def measure(quick: bool = False) -> list[Row]:
    if len(os.sched_getaffinity(0)) < THREADS:
        print("one core only: nothing measured")
        return []
    rounds = 3 if quick else 7
    return [row for case in long_cases(quick) for row in measure_case(case, rounds)] + measure_launch(quick, rounds)


if __name__ == "__main__":
    main(measure, TITLE)
