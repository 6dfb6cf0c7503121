"""The cost of a launch in Python: calls of the package's functions, whose number is the same in every run."""

import struct
import sys
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import softcard
from softcard.device.hsa.fast_path import Templates
from softcard.device.hsa.native_packets import OTHER
from softcard.host.hsa.arguments import Packed
from softcard.hsa import Gpu, demo_code
from tests.interrupting import wait_for_background

PACKAGE = Path(softcard.__file__).parent
ENGINE = ("engine/gcn/reference/engine.py", "run")
BEFORE_ENGINE = 111
"""From `Gpu.dispatch` to the engine: arguments, packet, queue, doorbell, packet processor, first state."""
WHOLE = 552
"""From `Gpu.dispatch` to the end of `wait`."""
BY_MACHINE_CODE = 115
"""Of the same launch where machine code processes its packet."""
OF_RUN = 85
"""Of `Gpu.run`, from the kernel and packed arguments to the result, where machine code processes the packet."""
WARM = 20
"""Launches after which nothing is made that the next ones use."""
MEASURED = 5
"""Launches of which the one with the fewest calls counts: the clock interrupts some, which then take more calls."""


def calls_of(engine: str, is_run: bool = False) -> list[tuple[str, str]]:
    """File and name of each function that a launch calls, generators whenever they go on.

    It is a launch by `Gpu.run` with packed arguments if `is_run`, else by `Gpu.dispatch`.
    """
    found: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            found.append((Path(code.co_filename).relative_to(PACKAGE).as_posix(), code.co_name))

    with Gpu.open("gfx900", engine=engine) as gpu:
        x, y = gpu.array(np.arange(64, dtype=np.float32)), gpu.zeros(64)
        kernel, queue = gpu.load(demo_code("gfx900")).kernel("saxpy"), gpu.queue()
        packed = Packed(struct.pack("<fxxxxQQ", 2.0, gpu.address(x), gpu.address(y)))

        def launch() -> None:
            if is_run:
                gpu._run(kernel, (64, 1, 1), (64, 1, 1), packed, {})
            else:
                gpu.dispatch(kernel, 64, 64, [2.0, x, y], queue=queue).wait()

        for _ in range(WARM):
            launch()
        wait_for_background()  # a launch after which compiled code arrives has more calls
        launch()
        before = sys.getprofile()
        shortest: list[tuple[str, str]] = []
        for _ in range(MEASURED):
            found = []
            sys.setprofile(note)
            try:
                launch()
            finally:
                sys.setprofile(before)
            shortest = found if not shortest or len(found) < len(shortest) else shortest
        assert (y == 2 * (WARM + 1 + MEASURED) * x).all()
    return shortest


def test_a_launch_takes_few_calls() -> None:
    calls = calls_of("reference")
    assert ENGINE in calls
    assert len(list(takewhile(lambda call: call != ENGINE, calls))) < BEFORE_ENGINE
    assert len(calls) < WHOLE


def test_arrays_mapped_for_each_launch_leave_it_to_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """They lie at the same device addresses each time, and somewhere else in this process."""
    run, taken, alive = Templates.consume, [], []

    def noted(*given: Any) -> int:
        taken.append(run(*given))
        return taken[-1]

    monkeypatch.setattr(Templates, "consume", noted)
    with Gpu.open("gfx900") as gpu:
        kernel = gpu.load(demo_code("gfx900"))
        for number in range(2 * WARM):
            x, y = np.arange(64, dtype=np.float32) + number, np.full(64, number, np.float32)
            alive.append((x, y))
            gpu.run(kernel, "saxpy", 64, 64, [2.0, x, y])
    assert all((y == 2 * x + number).all() for number, (x, y) in enumerate(alive))
    assert OTHER not in taken[-WARM:]


def test_a_launch_by_machine_code_takes_few_calls() -> None:
    calls = calls_of("jit")
    assert ("device/hsa/fast_path.py", "consume") in calls
    assert len(calls) < BY_MACHINE_CODE


def test_run_takes_few_calls() -> None:
    calls = calls_of("jit", is_run=True)
    assert ("device/hsa/fast_path.py", "consume") in calls
    assert len(calls) < OF_RUN
