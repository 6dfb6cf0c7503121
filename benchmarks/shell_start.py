"""How long does a program take, as the shell sees it?

From the start of the interpreter to its end, with the package installed from its wheel: README's program for AMD HSA,
with an empty folder for compiled code and with what an earlier run left there, and imports alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from hatchling.builders.wheel import WheelBuilder

from harness import ROOT, Row, Samples, latency, main

COLD_TARGET_MS: Final = 500
WARM_TARGET_MS: Final = 250
IMPORT_TARGET_MS: Final = 50
TITLE: Final = "Start: whole programs from an installed wheel, as the shell sees them"
PROGRAM: Final = """
import numpy as np
from softcard import Gpu
from softcard.hsa import demo_code

with Gpu.open("gfx900") as gpu:
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    gpu.run(demo_code("gfx900"), "saxpy", grid=1000, group=128, args=[2.0, x, y])
assert (y == 2 * x + 1).all()
"""


def install(folder: Path) -> Path:
    """The package, installed from its wheel with its bytecode, without what it needs."""
    [wheel] = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    site = folder / "site"
    options = ("--quiet", "--no-deps", "--no-index", "--no-warn-script-location", "--target", str(site))
    subprocess.run((sys.executable, "-m", "pip", "install", *options, wheel), check=True)
    return site


def seconds(site: Path, cache: Path, text: str) -> float:
    """One process from its start to its end."""
    environment = os.environ | {"PYTHONPATH": str(site), "XDG_CACHE_HOME": str(cache)}
    before = time.perf_counter()
    subprocess.run((sys.executable, "-c", text), env=environment, cwd=site, check=True)
    return time.perf_counter() - before


def measure(quick: bool = False) -> list[Row]:
    rounds = 3 if quick else 10
    cold, warm, bare, numpy, ours = [], [], [], [], []
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top)
        site = install(folder)
        seconds(site, folder / "first", PROGRAM)
        for number in range(rounds):
            cache = folder / f"cache{number}"
            cold.append(seconds(site, cache, PROGRAM))
            warm.append(min(seconds(site, cache, PROGRAM) for _ in range(2)))
            bare.append(seconds(site, cache, "pass"))
            numpy.append(seconds(site, cache, "import numpy"))
            ours.append(seconds(site, cache, "import softcard"))

    def row(what: str, found: list[float], target: float | None = None) -> Row:
        return latency("shell_start", what, "ms", Samples(tuple(found)), target=target)

    return [
        row("README's HSA program, code on disk", warm, WARM_TARGET_MS),
        row("README's HSA program, nothing on disk", cold, COLD_TARGET_MS),
        row("import softcard", ours, IMPORT_TARGET_MS),
        row("import numpy", numpy),
        row("an interpreter that does nothing", bare),
    ]


if __name__ == "__main__":
    main(measure, TITLE)
