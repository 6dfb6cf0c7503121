"""Memory of this process that devices take and give back, measured in a process of its own that has lived a while."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import gc, json
import numpy as np
from softcard import Gpu
from softcard.hsa import demo_code

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6

def use(gpu):
    x = np.ones(1000, np.float32)
    gpu.run(demo_code("gfx900"), "saxpy", grid=1000, args=[2.0, x, gpu.zeros(1000)])
    return gpu

def opened():
    return use(Gpu.open("gfx900", threads=1))

opened().close()
found = []
for _ in range(3):
    before = resident()
    gpus = [opened() for _ in range(8)]
    found.append((resident() - before) / 8)
    for gpu in gpus:
        gpu.close()
    del gpu, gpus
    gc.collect()
with opened() as gpu:
    before = resident()
    gpu.array(np.ones(16 << 20, np.uint8))
    kept = gpu.array(np.arange(1000))
    full = resident()
print(json.dumps([found, full - before, resident() - before, int(kept.sum())]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no such file here")
def test_devices_take_little_and_give_it_back() -> None:
    """The C library takes blocks of some MiB from its heap, as it does once a program has freed one: in a heap that was
    used before, zeros would have to be written."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"MALLOC_MMAP_THRESHOLD_": str(32 << 20)},
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    each, array, after, kept = json.loads(done.stdout)
    assert max(each) < 4, f"MB of each device, round by round: {each}"
    assert array > 15
    assert after < 4, f"{after} MB of 16 after close"
    assert kept == 499500
