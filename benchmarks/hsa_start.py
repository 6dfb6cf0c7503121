"""How long until an OpenCL kernel's first result on a virtual gfx900?

Each number comes from new processes: one with an empty folder for compiled code (cold), then others with what the
first left there (warm). Python's bytecode is there in both. The program opens an agent, loads the demo kernels' code
object, dispatches one of them through an AQL queue and reads the result.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from harness import FOLDER, Row, Samples, latency, main

COLD_TARGET_S: Final = 1.0
WARM_TARGET_S: Final = 0.4
ITEMS: Final = 4096
TITLE: Final = "HSA start: times of new processes"


def child() -> None:
    """In a new process: print seconds of importing, opening, the first launch and a second one, as JSON."""
    begin = time.perf_counter()
    import numpy as np

    from understudy.host.hsa import Gpu, demo_code

    imported = time.perf_counter()
    with Gpu.open("gfx900") as gpu:
        x, y = gpu.array(np.arange(ITEMS, dtype=np.float32)), gpu.zeros(ITEMS)
        code = gpu.load(demo_code())
        opened = time.perf_counter()

        def launch() -> float:
            before = time.perf_counter()
            gpu.run(code, "saxpy", ITEMS, 256, [2.0, x, y])
            return time.perf_counter() - before

        first, second = launch(), launch()
        assert y[7] == 28
    facts = {"import": imported - begin, "open": opened - imported, "first": first, "second": second}
    print(json.dumps(facts))


def new_process(cache: Path, bytecode: Path) -> dict[str, float]:
    """The facts of `child`; `process`: from starting the process to its end; `cpu`: CPU seconds in between."""
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "PYTHONPYCACHEPREFIX": str(bytecode)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    used, before = os.times(), time.perf_counter()
    done = subprocess.run(
        (sys.executable, str(FOLDER / "hsa_start.py"), "--child"),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, now = time.perf_counter() - before, os.times()
    facts: dict[str, float] = json.loads(done.stdout)
    cpu = now.children_user + now.children_system - used.children_user - used.children_system
    return facts | {"process": seconds, "cpu": cpu}


def measure(quick: bool = False) -> list[Row]:
    cold, warm = [], []
    with tempfile.TemporaryDirectory() as top:
        bytecode = Path(top, "bytecode")
        new_process(Path(top, "first"), bytecode)  # so that Python's own bytecode is there, as after an installation
        for number in range(2 if quick else 8):
            cache = Path(top, f"cache{number}")
            cold.append(new_process(cache, bytecode))
            warm += [new_process(cache, bytecode) for _ in range(2)]

    def row(what: str, runs: list[dict[str, float]], name: str, unit: str = "s", **more: object) -> Row:
        return latency("hsa_start", what, unit, Samples(tuple(run[name] for run in runs)), **more)

    return [
        row("whole program to the first results, cold", cold, "process", target=COLD_TARGET_S),
        row("whole program to the first results, warm (code on disk)", warm, "process", target=WARM_TARGET_S),
        row("cold: CPU time of it, all threads", cold, "cpu"),
        row("warm: CPU time of it, all threads", warm, "cpu"),
        row("import", warm, "import", "ms"),
        row("opening an agent, loading a code object", warm, "open", "ms"),
        row("cold: first launch", cold, "first", "ms"),
        row("warm: first launch", warm, "first", "ms"),
        row("warm: the same launch again", warm, "second", "ms"),
    ]


if __name__ == "__main__":
    if "--child" in sys.argv:
        child()
    else:
        main(measure, TITLE)
