"""How much memory does a long session of mixed launches hold?

`python benchmarks/soak.py [SECONDS [objects]]`, 180 seconds by default: launches on every device in turns, with arrays
that come and go, devices that are closed and devices that are dropped. Resident memory, threads and mappings are
printed as it goes on; with `objects`, which takes long, also what Python objects hold, and at the end where they were
made. It has no row in `make bench`.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from softcard.device.acceldev.commands import Fence, Fill
from softcard.device.fletcher.kernels import find
from softcard.host.acceldev import Acceldev
from softcard.host.fletcher import Context, Kernel, Platform
from softcard.host.hsa import Gpu, demo_code
from softcard.host.refsi import RefSi, demo_kernels

SECONDS: Final = 180.0
LINES: Final = 12
"""Lines that are printed."""
KEPT: Final = 20
"""Rounds after which the device that lives long is opened anew."""


def refsi(device: RefSi, size: int) -> None:
    """A launch over arrays of the host."""
    a, b, c = np.arange(size, dtype=np.int32), np.ones(size, np.int32), np.zeros(size, np.int32)
    device.launch("vector_add", 4, [a, b, c, size // 4])


def opened(**options: Any) -> RefSi:
    """A device with its program."""
    device = RefSi.open(**options)
    device.load_elf(demo_kernels())
    return device


def hsa(gpu: Gpu, size: int) -> None:
    """One over the device's own arrays, and one over the host's."""
    x = gpu.array(np.ones(size, np.float32))
    gpu.run(demo_code("gfx900"), "saxpy", grid=size, args=[2.0, x, x])
    y = np.ones(size, np.float32)
    gpu.run(demo_code("gfx900"), "saxpy", grid=size, args=[2.0, y, y])


def acceldev() -> None:
    """A device that is closed."""
    with Acceldev.open(memory_bytes=4 << 20) as device, device.open_context() as context:
        buffer = context.create_buffer(1 << 20)
        context.execute(*[Fill(value=7, buffer_slot=buffer.slot or 0, start=0, length=1 << 20)] * 20, Fence())


def fletcher(size: int) -> None:
    """Another one."""
    with Platform(find("sum")) as platform, Context(platform) as context:
        batch = pa.record_batch([pa.array(np.arange(size))], schema=find("sum").schemas[0])
        context.queue_record_batch(batch)
        context.enable()
        job = Kernel(context)
        job.reset()
        job.start()
        job.wait_for_finish()


def resident_mib() -> float:
    """Memory of this process that the host holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / (1 << 20)


def soak(seconds: float, tell: Callable[[str], None] = print) -> float:
    """Launch for so long; the most MiB that were resident when a line was printed."""
    random = np.random.default_rng(1)
    begun, most, rounds, told = time.monotonic(), 0.0, 0, 0
    gpu, device, old = Gpu.open("gfx900"), opened(), opened(profile="refsidrv")
    while (passed := time.monotonic() - begun) < seconds:
        size = 64 << int(random.integers(0, 9))
        hsa(gpu, size)
        refsi(device, size)
        refsi(old, size)
        acceldev()
        fletcher(size)
        rounds += 1
        if not rounds % KEPT:
            gpu, device = Gpu.open("gfx900"), opened(threads=2)  # the ones before are dropped
        if passed >= told * seconds / LINES:
            told += 1
            gc.collect()
            most = max(most, resident_mib())
            objects = (
                f", {tracemalloc.get_traced_memory()[0] / (1 << 20):5.1f} of Python objects" * tracemalloc.is_tracing()
            )
            maps = len(Path("/proc/self/maps").read_text().splitlines())
            tell(
                f"{passed:6.1f} s  {rounds:6} rounds  {resident_mib():6.1f} MiB resident{objects}, "
                f"{threading.active_count()} threads, {maps} mappings"
            )
    return most


if __name__ == "__main__":
    if "objects" in sys.argv:
        tracemalloc.start()
    most = soak(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)
    print(f"most: {most:.1f} MiB")
    for each in tracemalloc.take_snapshot().statistics("filename")[:LINES] if tracemalloc.is_tracing() else ():
        print(f"{each.size / (1 << 20):7.2f} MiB in {each.count:7} objects  {Path(each.traceback[0].filename).name}")
