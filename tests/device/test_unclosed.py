"""Devices that nobody closed leave neither threads nor mappings of memory behind."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from softcard.device.acceldev.commands import Fence, Fill
from softcard.device.fletcher.kernels import find
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.host.acceldev.acceldev import Acceldev
from softcard.host.fletcher.platform import Context, Kernel, Platform
from softcard.host.hsa.gpu import Gpu, demo_code
from softcard.host.refsi.refsi import RefSi
from softcard.image.amdcl2.build import pointer
from tests.device.refsi.test_sharing import PROGRAM
from tests.host.amdcl2.rig import kernel, program

SOON_SECONDS = 60
MAPS = Path("/proc/self/maps")
SLACK = 6
"""Mappings that the host's allocators and code that has become hot may add meanwhile."""
TIMES = 12
"""Devices of which each would have to leave but half of a mapping to be noticed."""


def refsi(**options: Any) -> None:
    device = RefSi.open(**options)
    device.load_elf(PROGRAM)
    data = device.zeros(256, np.uint64)
    device.launch("k_alone", 4, [data, 250_000 if options["engine"] == "jit" else 10])
    device.launch("k_barrier", 4, [data, 5])


def hsa(**options: Any) -> None:
    gpu = Gpu.open("gfx900", **options)
    y, z = gpu.zeros(1 << 18), np.ones(1 << 10, np.float32)
    for _ in range(3):
        gpu.run(demo_code("gfx900"), "saxpy", grid=1 << 10, args=[2.0, z, z])
        if options["engine"] == "jit":
            gpu.run(demo_code("gfx900"), "saxpy", grid=y.size, args=[2.0, y, y])


def acceldev(**options: Any) -> None:
    device = Acceldev.open(**options)
    context = device.open_context()
    buffer = context.create_buffer(8192)
    context.execute(*[Fill(value=7, buffer_slot=buffer.slot or 0, start=0, length=8192)] * 100, Fence())
    context.wait(1)


def fletcher(**options: Any) -> None:
    platform = Platform(find("sum"), **options)
    platform.init()
    context = Context(platform)
    context.queue_record_batch(pa.record_batch([pa.array([1, -3, 3, -7])], schema=find("sum").schemas[0]))
    context.enable()
    job = Kernel(context)
    job.reset()
    job.start()
    job.wait_for_finish()


def amdcl2(**options: Any) -> None:
    found = program("gfx900", kernel("gfx900", "k", "s_endpgm", [pointer("o", "uint*")]), **options)
    found.kernel("k").run(6400, 64, [np.zeros(64, np.uint32)])


DEVICES: dict[str, Callable[[], None]] = {
    "RefSi": lambda: refsi(engine="jit", threads=2),
    "RefSi, reference engine": lambda: refsi(engine="reference"),
    "RefSi, refsidrv": lambda: refsi(engine="jit", profile="refsidrv"),
    "HSA": lambda: hsa(engine="jit", threads=2),
    "HSA, threaded": lambda: hsa(engine="jit", threads=2, execution="threaded"),
    "HSA, reference engine": lambda: hsa(engine="reference"),
    "AMD OpenCL 2.0": lambda: amdcl2(engine=JitEngine(threads=2)),
    "Acceldev": acceldev,
    "Acceldev, threaded": lambda: acceldev(execution="threaded"),
    "Fletcher": fletcher,
    "Fletcher, threaded": lambda: fletcher(execution="threaded"),
}


def collected(threads: int) -> bool:
    """Collect garbage until there are no more threads than that; whether it came so far."""
    end = time.monotonic() + SOON_SECONDS
    while True:
        gc.collect()
        if threading.active_count() <= threads:
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.05)


def mappings() -> int:
    """How many there are; the heap is one, into however many pieces NumPy's advice on huge pages splits it."""
    return len([line for line in MAPS.read_text().splitlines() if not line.endswith("[heap]")])


@pytest.mark.slow
@pytest.mark.skipif(not MAPS.exists(), reason="the host does not tell its mappings")
@pytest.mark.parametrize("name", DEVICES)
def test_they_leave_nothing(name: str) -> None:
    gc.collect()
    threads, found = threading.active_count(), []
    for _ in range(2):  # the first devices bring libraries, handlers and compiled code along
        for _ in range(TIMES):
            DEVICES[name]()
        assert collected(threads), [thread.name for thread in threading.enumerate()]
        found.append(mappings())
    assert found[1] <= found[0] + SLACK
