"""What checks cost: the kernels of benchmarks/gcn.py and two of RefSi's with each check, against the same without.

CPU seconds of one thread, taken alternately; results are compared bit for bit. With Oclgrind (`--check-api` apart, as
it comes) the same OpenCL C side by side.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np

from gcn import SETTLING, Case, cases, compiled
from harness import Row, Samples, alternate, cpu, main, optimised, wall
from softcard.hsa import Gpu
from softcard.refsi import RefSi, demo_kernels

QUESTION: Final = "checks"
CHECKS: Final = {"memory": 1.1, "sync": 1.1}
"""Each with the factor that it may cost."""
OF_HARTS: Final = {"memory": 1.1, "init": 2.5}
"""Those of RefSi's harts."""
TIMES_OCLGRIND: Final = 1000.0
SAXPY: Final = """
kernel void saxpy(float a, global const float *x, global float *y) {
    int i = get_global_id(0);
    y[i] = a * x[i] + y[i];
}
"""


def factor(what: str, check: str, plain: Samples, checked: Samples) -> Row:
    """How many times as long."""
    best, typical = checked.best / plain.best, checked.median / plain.median
    name = f"{what}: check={check}"
    target = (CHECKS | OF_HARTS)[check]
    return Row(QUESTION, name, "times as long", best, typical, target=target, lower=True, absolute=True)


def run_gpu(gpu: Gpu, path: Path, case: Case) -> tuple[Callable[[], Any], np.ndarray[Any, Any]]:
    """A launch of a case with arrays on the device, and what it writes."""
    inputs, result = [gpu.array(each) for each in case.inputs], gpu.zeros(case.result.shape, case.result.dtype)
    args = [*inputs, result, *([] if case.number is None else [case.number])]
    code = gpu.load(path)
    return (lambda: gpu.run(code, case.kernel, case.grid, case.group, args)), result


def waves(path: Path, processor: str, case: Case, check: str, rounds: int) -> Row:
    """One kernel on a GPU."""
    with ExitStack() as stack:
        sides = []
        for chosen in ("", check):
            gpu = stack.enter_context(Gpu.open(processor, threads=1, check=chosen))
            run, result = run_gpu(gpu, path, case)
            for _ in range(SETTLING):
                run()
                optimised()
            sides.append((run, result, gpu))
        assert not sides[1][2].findings, f"{case.kernel} is right"
        plain, checked = alternate(rounds, *(lambda run=run: cpu(run) for run, _, _ in sides))
        assert sides[0][1].tobytes() == sides[1][1].tobytes(), f"{case.kernel} gives the same with checks"
    return factor(f"{processor} {case.title}", check, plain, checked)


def harts(check: str, rounds: int, quick: bool) -> list[Row]:
    """Two kernels on RefSi."""
    count, side, rows = 1 << (16 if quick else 18), 64, []
    numbers, square = np.arange(count, dtype=np.int32), np.ones((side, side), np.float32)
    for kernel, instances, arrays, tail in (
        ("vector_add", 4, (numbers, numbers, np.zeros_like(numbers)), (count // 4,)),
        ("matmul_f32", side, (square, square, np.zeros_like(square)), (side,)),
    ):
        with ExitStack() as stack:
            sides = []
            for chosen in ("", check):
                device = stack.enter_context(RefSi.open(threads=1, check=chosen))
                device.load_elf(demo_kernels())
                buffers = [device.array(each) for each in arrays]
                run = lambda d=device, b=buffers, k=kernel, n=instances, t=tail: d.launch(k, n, [*b, *t])  # noqa: E731
                for _ in range(SETTLING // 4):
                    run()
                    optimised()
                sides.append((run, buffers[-1], device))
            assert not sides[1][2].findings
            plain, checked = alternate(rounds, *(lambda run=run: cpu(run) for run, _, _ in sides))
            assert sides[0][1].array.tobytes() == sides[1][1].array.tobytes()
        rows.append(factor(f"RefSi {kernel}", check, plain, checked))
    return rows


def oclgrind(quick: bool, rounds: int) -> list[Row]:
    """saxpy with the check of memory, and with those of initialisation and races, too: work-items a second, both."""
    program = shutil.which("oclgrind-kernel")
    if program is None:
        print("no peer: Oclgrind is not installed")
        return []
    return [
        beside_oclgrind("with the check of memory", "memory", [program], quick, rounds),
        beside_oclgrind(
            "with memory, init and races", "memory,init,races",
            [program, "--uninitialized", "--data-races"], quick, rounds,
        ),
    ]  # fmt: skip


def beside_oclgrind(title: str, check: str, program: Sequence[str], quick: bool, rounds: int) -> Row:
    """The same checks of the same source."""
    small, many = 1 << (14 if quick else 17), 1 << (16 if quick else 20)
    with tempfile.TemporaryDirectory() as folder, Gpu.open("gfx900", threads=1, check=check) as gpu:
        Path(folder, "saxpy.cl").write_text(SAXPY, encoding="utf-8")
        buffers = "".join(f"<size={4 * small} fill=1.0 float>\n" for _ in range(2))
        text = f"saxpy.cl\nsaxpy\n{small} 1 1\n64 1 1\n\n<size=4 float>\n2.0\n{buffers}"
        Path(folder, "saxpy.sim").write_text(text, encoding="utf-8")
        command = [*program, "--num-threads", "1", "saxpy.sim"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        code, x, y = gpu.compile(SAXPY), gpu.zeros(many), gpu.zeros(many)
        for _ in range(SETTLING):
            gpu.run(code, "saxpy", many, 256, [2.0, x, y])
            optimised()
        theirs, ours = alternate(
            rounds,
            lambda: wall(lambda: subprocess.run(command, cwd=folder, check=True, capture_output=True)),
            lambda: wall(lambda: gpu.run(code, "saxpy", many, 256, [2.0, x, y])),
        )
        assert not gpu.findings
    best, typical = many / ours.best / 1e6, many / ours.median / 1e6
    peer = small / theirs.best / 1e6
    return Row(QUESTION, f"saxpy {title}", "M work-items/s", best, typical, "Oclgrind", peer, target=TIMES_OCLGRIND)


def measure(quick: bool) -> Sequence[Row]:
    """All rows."""
    rounds = 5 if quick else 15
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for processor in ("gfx803", "gfx900"):
            path = compiled(processor, Path(folder))
            for check in CHECKS:
                rows += [waves(path, processor, case, check, rounds) for case in cases(quick)]
    for check in OF_HARTS:
        rows += harts(check, rounds, quick)
    return [*rows, *oclgrind(quick, rounds)]


if __name__ == "__main__":
    main(measure, "Checks of running kernels")
