"""The AMD OpenCL 2.0 part of `understudy demo`: a program for three cards, written, read again and run."""

from __future__ import annotations

import time
from typing import Final

import numpy as np

from understudy.host.amdcl2.demo import demo_program
from understudy.host.amdcl2.program import Program
from understudy.image.amdcl2.container import read_container

CARDS: Final = (("bonaire", 180005), ("tonga", 200406), ("gfx900", 252700))
"""A card of each generation, with a driver of each generation of containers."""
MEGA: Final = 1e6


def lines(n: int) -> tuple[list[str], bool]:
    """What happened on each card with `n` elements, and whether all results are right."""
    found, all_good = [], True
    for device, driver in CARDS:
        data = demo_program(device, driver)
        program = Program(read_container(data))
        x = np.arange(n, dtype=np.float32)
        y = np.ones(n, np.float32)
        expected = np.float32(0.5) * x + y
        program.kernel("saxpy").run(64, 64, [x[:64].copy(), y[:64].copy(), 0.5])  # translates the code
        start = time.perf_counter()
        result = program.kernel("saxpy").run(n, 256, [x, y, 0.5])
        seconds = time.perf_counter() - start
        good = bool((y == expected).all())
        all_good = all_good and good
        speed = result.statistics.instructions / seconds / MEGA
        text = f"{device:8} driver {driver}, {len(data):5} bytes: {n:,} elements, {speed:,.0f} M wave instructions/s"
        found.append(f"{text}, {'OK' if good else 'WRONG'}")
    return found, all_good
