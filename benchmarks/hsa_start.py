"""How long until an OpenCL kernel's first result on a virtual gfx900?

Each number comes from new processes: one with an empty folder for compiled code (cold), then others with what the
first left there (warm). Python's bytecode is there in both. The program opens an agent, loads the demo kernels' code
object, dispatches one of them through an AQL queue and reads the result.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Final

from harness import Row, Samples, latency, main
from processes import cold_and_warm

COLD_TARGET_S: Final = 1.0
WARM_TARGET_S: Final = 0.4
ITEMS: Final = 4096
TITLE: Final = "HSA start: times of new processes"


def child() -> None:
    """In a new process: print seconds of importing, opening, the first launch and a second one, as JSON."""
    begin = time.perf_counter()
    import numpy as np

    from softcard.host.hsa import Gpu, demo_code

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


def measure(quick: bool = False) -> list[Row]:
    cold, warm = cold_and_warm(__file__, quick)

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
