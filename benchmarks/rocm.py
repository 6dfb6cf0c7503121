"""The speed of HIP programs, compiled by hipcc, on a virtual gfx900: `softcard exec` runs kernels/rocm.hip.

Whole programs are timed from the start of `softcard exec` to its end: cold with empty caches, warm with full ones.
Where hipcc is not there nothing is measured, and that is said.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from harness import FOLDER, Row, Samples, latency, main

TITLE: Final = "ROCm: HIP programs on a virtual gfx900"
QUESTION: Final = "rocm"
PROGRAM: Final = FOLDER / "kernels" / "rocm.hip"
EXEC: Final = (
    "import sys; from softcard.cli import main; sys.exit(main(['exec', '--agent', 'gfx900', '--', *sys.argv[1:]]))"
)
MEGA: Final = 20
"""Bits of a vector's length."""


def said(program: str, cache: str, *words: str) -> tuple[float, list[list[float]]]:
    """Seconds that the program took, and the numbers that it prints, line by line."""
    command = [sys.executable, "-c", EXEC, program, *words]
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # Python's own bytecode is there, as after an installation
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - start
    lines = [line.split() for line in done.stdout.splitlines() if line != "said"]
    return seconds, [[float(number) for number in line] for line in lines]


def measure(quick: bool) -> list[Row]:
    """The rows of this benchmark."""
    hipcc = shutil.which("hipcc")
    if hipcc is None:
        print("hipcc is not here: nothing is measured", file=sys.stderr)
        return []
    rounds = 1 if quick else 5
    with tempfile.TemporaryDirectory() as folder:
        program, cache = str(Path(folder, "rocm")), str(Path(folder, "cache"))
        command = [hipcc, "-x", "hip", "--offload-arch=gfx900", "-O2", str(PROGRAM), "-o", program]
        subprocess.run(command, env={**os.environ, "HIP_PLATFORM": "amd"}, check=True)
        said(program, cache, "none")  # native functions and the shim are made once, whatever runs
        vector = "vector", str(1 << MEGA)
        cold = [said(program, cache, *vector)[0]]
        warm = [said(program, cache, *vector)[0] for _ in range(rounds)]
        text = [said(program, cache, "text")[0]]
        calls = said(program, cache, "calls", "200" if quick else "4000")[1]
        copies = said(program, cache, "copies", "32" if quick else "256")[1]
        product = said(program, cache, "product", "512")[1]
    size = (32 if quick else 256) << 20

    def row(what: str, unit: str, seconds: list[float], target: float) -> Row:
        return latency(QUESTION, what, unit, Samples(tuple(seconds)), target=target, absolute=True)

    def rate(what: str, column: int) -> Row:
        rates = sorted(size / line[column] / 1e9 for line in copies)
        return Row(QUESTION, what, "GB/s", rates[-1], rates[len(rates) // 2], target=3, absolute=True)

    return [
        row("vector sum of 1 Mi, whole program, first run", "s", cold, 1),
        row("vector sum of 1 Mi, whole program, later", "s", warm, 0.5),
        row("printf in a kernel, whole program, first run", "s", text, 1),
        row("launch", "us", [line[0] / 1e6 for line in calls], 5),
        row("launch, until all are done", "us", [line[1] / 1e6 for line in calls], 5),
        row("launch and synchronise", "us", [line[2] / 1e6 for line in calls], 40),
        rate("host to device, 256 MiB", 0),
        rate("device to host, 256 MiB", 1),
        row("sgemm 512 (tiles in LDS)", "ms", [line[0] for line in product], 100),
    ]


if __name__ == "__main__":
    main(measure, TITLE)
