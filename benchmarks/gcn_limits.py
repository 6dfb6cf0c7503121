"""How far are GCN kernels from what the machine can do? The same work as C loops and in NumPy, on one core.

The cases of gcn.py for gfx900, on one thread; kernels/limits.c by gcc -O3 -march=native, called on the same arrays;
NumPy where it has the whole thing (matrices: OpenBLAS). All in CPU time.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from gcn import Case, Gpu, cases, check, compiled, settled
from harness import FOLDER, Row, alternate, latency, main
from softcard.engine.gcn.tiered.engine import JitEngine

QUESTION: Final = "gcn_limits"
SOURCE: Final = FOLDER / "kernels" / "limits.c"
OPTIONS: Final = ("-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-shared", "-fPIC")
SAME: Final = {"matmul_tiled": "matmul", "substitution_local": "substitution"}
"""Kernels that compute what another one does, in a way that only a GPU gains from."""
NUMPY: Final[dict[str, Callable[..., Any]]] = {
    "vector_add": lambda a, b, out, _: np.add(a, b, out=out),
    "matmul": lambda a, b, out, n: np.matmul(a.reshape(n, n), b.reshape(n, n), out=out.reshape(n, n)),
    "rows": lambda a, x, out, n: np.matmul(a.reshape(n, n), x, out=out),
    "columns": lambda a, x, out, n: np.matmul(a.reshape(n, n).T, x, out=out),
    "transpose4": lambda a, out, n: np.copyto(out.reshape(n, n), a.reshape(n, n).T),
    "reduction": lambda a, out, _: np.sum(a.reshape(-1, 256), axis=1, out=out),
}


def native(folder: Path) -> ctypes.CDLL:
    """kernels/limits.c as a library."""
    made = folder / "limits.so"
    subprocess.run(["gcc", *OPTIONS, str(SOURCE), "-o", str(made), "-lm"], check=True)
    return ctypes.CDLL(str(made))


def process(action: Callable[[], Any]) -> float:
    """CPU seconds of all threads of this process: those that OpenBLAS starts work as well."""
    before = time.process_time()
    action()
    return time.process_time() - before


def call(library: ctypes.CDLL, case: Case, result: np.ndarray[Any, Any]) -> Callable[[], Any]:
    """The C function that does a case's work on its arrays."""
    function = getattr(library, SAME.get(case.kernel, case.kernel))
    pointers = [ctypes.c_void_p(each.ctypes.data) for each in (*case.inputs, result)]
    count = ctypes.c_uint32(case.number if case.number is not None else case.grid[0] * case.grid[1])
    return lambda: function(*pointers, count)


def rows_of(case: Case, gpu: Gpu, library: ctypes.CDLL, rounds: int) -> list[Row]:
    """Our time beside that of C, and of NumPy where it has such a thing."""
    dispatch, result = gpu.dispatch(case)
    engine = JitEngine(threads=1)
    ready = engine.prepare(dispatch)
    settled(ready)
    theirs = case.result.copy()
    in_c = call(library, case, theirs)
    sides = {"C, one core": lambda: process(in_c)}
    kernel = SAME.get(case.kernel, case.kernel)
    if kernel in NUMPY:
        size = case.number or case.grid[0]
        sides["NumPy"] = lambda: process(lambda: NUMPY[kernel](*case.inputs, theirs, size))
    ours, *others = alternate(rounds, lambda: process(ready.run), *sides.values())
    in_c()
    check(case, result, theirs)
    engine.close()
    return [
        latency(QUESTION, f"gfx900 {case.title}", "ms", ours, peer_name=name, peer=samples.best * 1e3)
        for name, samples in zip(sides, others, strict=True)
    ]


def measure(quick: bool) -> Sequence[Row]:
    """All rows."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        library = native(Path(folder))
        gpu = Gpu(compiled("gfx900", Path(folder)), "gfx900")
        for case in cases(quick):
            rows += rows_of(case, gpu, library, 5 if quick else 15)
    return rows


if __name__ == "__main__":
    main(measure, "GCN kernels and the limit of one core")
