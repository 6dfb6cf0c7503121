"""Closed devices give their memory back at once, and what is still looked at stays."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from softcard.core.errors import AccessFault, NoHostMemory, RuleError
from softcard.core.space import Ram, Unit
from softcard.device.refsi.device import RefSiDevice
from softcard.host.refsi.refsi import RefSi, demo_kernels

DEVICE_BYTES = 2 << 30
WAYS = [
    {"profile": profile, "engine": engine} | more
    for profile, engine, more in (
        ("spec", "jit", {}),
        ("spec", "reference", {}),
        ("spec", "jit", {"coherence": "strict"}),
        ("refsidrv", "jit", {}),
        ("refsidrv", "reference", {}),
    )
]
linux = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the host does not tell its address space")


def mapped() -> int:
    """Bytes of address space that this process has."""
    return int(re.findall(r"VmSize:\s+(\d+)", Path("/proc/self/status").read_text())[0]) << 10


def use(device: RefSi) -> np.ndarray:
    """Launch kernels, which makes harts, page tables and translations; an array that is still device memory."""
    device.load_elf(demo_kernels())
    c = device.zeros(64, np.int32)
    device.launch("vector_add", 4, [np.arange(64, dtype=np.int32), np.ones(64, np.int32), c, 16])
    return c.array


@linux
@pytest.mark.parametrize("options", WAYS)
def test_closing_unmaps_at_once(options: dict[str, str]) -> None:
    with RefSi.open(**options) as device:
        use(device)
    gc.collect()
    gc.disable()
    try:
        before = mapped()
        for _ in range(3):
            with RefSi.open(**options) as device:
                array = use(device)
                assert mapped() > before + DEVICE_BYTES
                del array
        assert mapped() < before + (64 << 20)
    finally:
        gc.enable()


@linux
def test_an_array_that_is_still_checked_stays() -> None:
    for _ in range(2):
        device = RefSi.open()
        array = use(device)
        gc.collect()
        before = mapped()
        device.shutdown()
        assert (array == np.arange(1, 65)).all()
        array[0] = 99
        assert array[0] == 99
        assert mapped() > before - DEVICE_BYTES, "the array keeps its memory"
        del array
        assert mapped() < before - DEVICE_BYTES, "and that goes with it"


@pytest.mark.parametrize("profile", ["spec", "refsidrv"])
def test_nothing_works_on_a_closed_device(profile: str) -> None:
    device = RefSiDevice(profile=profile)
    state = device.snapshot()
    device.submit(0x5000_0000, 8)
    device.close()
    device.close()
    for call in (
        lambda: device.read(0x5000_0000, 1),
        lambda: device.write(0x5000_0000, b"1"),
        lambda: device.view(0x5000_0000, 1),
        lambda: device.submit(0x5000_0000, 8),
        device.wait,
        device.drain,
        device.reset,
        device.snapshot,
        lambda: device.restore(state),
        lambda: device.execute_kernel(0, 1),
    ):
        with pytest.raises(RuleError, match="the device was closed: open a new one"):
            call()
    with pytest.raises(AccessFault):
        device.memory.read(0x5000_0000, 1, Unit(1))
    assert device.memory.view(0x5000_0000, 1) is None


def test_closing_ends_the_threads() -> None:
    before = set(threading.enumerate())
    with RefSi.open(threads=2) as device:
        device.load_elf(Path(__file__).parents[2] / "vectors" / "refsi" / "sharing.elf")
        device.launch("k_alone", 4, [device.zeros(256, np.uint64), 1_000_000])
        mine = set(threading.enumerate()) - before
        assert 1 + [thread.name.startswith("softcard-hart") for thread in mine].count(True) == 2, "one is the caller"
    assert not any(thread.is_alive() for thread in mine if thread.name.startswith("softcard-hart"))


def test_a_closed_memory_holds_nothing() -> None:
    ram = Ram(8192)
    view = ram.view[10:20]
    view[0] = 7
    ram.close()
    ram.close()
    assert (view[0], ram.size) == (7, 0)
    with pytest.raises(AccessFault):
        ram.read(0, 1, Unit(0))
    assert ram.host_address(0, Unit(0)) is None
    ram.clear()


@linux
def test_no_address_space_is_a_typed_error() -> None:
    program = """
import resource
from softcard.core.errors import NoHostMemory
from softcard.host.refsi.refsi import RefSi
with RefSi.open() as device:
    pass
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
for _ in range(4):
    with RefSi.open() as device:
        try:
            RefSi.open()
        except NoHostMemory as error:
            print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.count("this process has no address space for 0x8000") == 4
    assert "close devices that are no longer used, drop views of their memory, or raise the limit" in done.stdout
    with pytest.raises(NoHostMemory):
        Ram(1 << 60)
