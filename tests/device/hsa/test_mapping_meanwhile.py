"""Mappings that change while waves run: those go on with what is there then, on every engine and on all threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from softcard.core.errors import AccessFault
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.queues.signals import Condition, Signal
from tests.device.hsa.rig import COUNT, Bench, dispatch

AT: Final = 0x7F12_3456_0000
TIMEOUT: Final = 60.0
COUNTED: Final = 500
WAYS: Final = [("jit", 1), ("jit", 2), ("reference", 1)]
FOLLOW: Final = """
    v_lshlrev_b32 v8, 3, s2
    v_add_co_u32 v0, vcc, s0, v8
    v_mov_b32 v1, s1
    v_addc_co_u32 v1, vcc, v1, 0, vcc     ; v[0:1]: where this group's pointer comes to lie
    v_mov_b32 v6, 1
again:
    flat_load_dwordx2 v[2:3], v[0:1] glc
    s_waitcnt vmcnt(0) lgkmcnt(0)
    v_cmp_ne_u32 vcc, 0, v2
    s_cbranch_vccz again
    flat_atomic_add v[2:3], v6
    s_endpgm
"""
"""Waits until the host gives it a pointer, then counts there."""
HAMMER: Final = """
    v_mov_b32 v0, s0
    v_mov_b32 v1, s1
    v_mov_b32 v2, 1
    s_load_dwordx2 s[4:5], s[0:1], 8
    s_waitcnt lgkmcnt(0)
    v_mov_b32 v4, s4
    v_mov_b32 v5, s5
again:
    flat_atomic_add v[4:5], v2
    s_load_dword s6, s[0:1], 0 glc
    s_waitcnt vmcnt(0) lgkmcnt(0)
    s_cmp_eq_u32 s6, 0
    s_cbranch_scc1 again
    s_endpgm
"""
"""Counts where its second argument points until the first is not 0."""
GROUP_ID: Final = 1 << 7
"""rsrc2: the work-group's x."""


def there(holds: Callable[[], Any]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + TIMEOUT
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


class Running:
    """A kernel that runs until the host says something."""

    def __init__(self, text: str, engine: str, threads: int, groups: int, target: int = 0, cells: Any = None) -> None:
        self.rig = Bench(execution="manual", engine=engine, step_limit=1 << 60)
        self.device = HsaDevice("gfx900", execution="threaded", engine=engine, threads=threads, step_limit=1 << 60)
        self.rig.device = self.device
        self.rig.queue = self.rig.new_queue()
        self.address, self.words = self.rig.words(64)
        self.words[2:4] = target & 0xFFFF_FFFF, target >> 32
        self.done: Signal = self.device.create_signal(1)
        if cells is not None:
            self.device.map_at(AT, cells)
        kernel = self.rig.kernel(text, rsrc2=GROUP_ID)
        self.rig.queue.submit(dispatch(kernel, self.address, self.done, workgroup_size_x=1, grid_size_x=groups))

    def end(self) -> None:
        self.done.wait(Condition.EQ, 0, timeout_seconds=TIMEOUT)
        assert self.done.load() == 0

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.device.close()


@pytest.mark.parametrize(("engine", "threads"), WAYS)
def test_memory_that_comes(engine: str, threads: int) -> None:
    """A kernel waits for a pointer to memory that is mapped, or allocated, only while it waits."""
    groups = threads
    with Running(FOLLOW, engine, threads, groups) as running:
        device = running.device
        there(lambda: not device.is_idle)
        time.sleep(0.05)
        cells = np.zeros(4096 * 64, np.uint32)
        for number in range(64):
            device.map_at(AT + number * 0x4000, cells[4096 * number :][:4096])
        pointers = [AT + 0x4000 * 63 + 8, device.allocate(1 << 16)]
        for group in range(groups):
            low, high = pointers[group] & 0xFFFF_FFFF, pointers[group] >> 32
            running.words[2 * group + 1] = high
            running.words[2 * group] = low
        running.end()
        assert cells[4096 * 63 + 2] == 1
        assert cells.sum() == 1
        assert groups == 1 or device.array(pointers[1], 1, "u4")[0] == 1


@pytest.mark.parametrize(("engine", "threads"), WAYS)
def test_memory_that_goes(engine: str, threads: int) -> None:
    """A kernel that has accessed it all the time faults; nothing is stored any more when `unmap_at` is back."""
    cells = np.zeros(1024, np.uint32)
    with Running(HAMMER, engine, threads, 2, AT + 16, cells) as running:
        there(lambda: cells[4])
        running.device.unmap_at(AT, 4096)
        if engine == "jit":  # the other engine may be amid an instruction
            count = int(cells[4])
            time.sleep(0.02)
            assert cells[4] == count
        there(lambda: running.rig.queue.error)
        error = running.rig.queue.error
        assert isinstance(error, AccessFault)
        assert (error.address, error.path[0].kind) == (AT + 16, "lane")


@pytest.mark.parametrize(("engine", "threads"), WAYS)
def test_memory_that_is_replaced(engine: str, threads: int) -> None:
    """Each access finds the one or the other, none finds nothing."""
    first, second = np.zeros(1024, np.uint32), np.zeros(1024, np.uint32)
    with Running(
        HAMMER.replace("s_load_dwordx2", "s_sleep 1\ns_load_dwordx2"), engine, threads, 2, AT, first
    ) as running:
        there(lambda: first[0])
        for _ in range(20):
            for array in (second, first):
                before = int(array[0])
                running.device.map_at(AT, array, replace=True)
                there(lambda array=array, before=before: array[0] != before)
        running.words[0] = 1
        running.end()
        assert running.rig.queue.error is None


@pytest.mark.parametrize("machine_code", [True, False])
def test_between_small_launches(machine_code: bool) -> None:
    """Launches that repeat meet what is mapped when they run."""
    rig = Bench(execution="threaded", machine_code=machine_code)
    device, cells = rig.device, np.zeros(1024, np.uint32)
    device.map_at(AT, cells)
    kernel, done = rig.kernel(COUNT), device.create_signal(COUNTED)
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            device.map_at(AT + 0x10_0000, np.zeros(512, np.uint8))
            device.free(device.allocate(64))
            device.unmap_at(AT + 0x10_0000, 512)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(COUNTED // 50):
            rig.queue.submit(*[dispatch(kernel, AT, done)] * 50)
        done.wait(Condition.EQ, 0, timeout_seconds=TIMEOUT)
    finally:
        stop.set()
        thread.join()
        device.close()
    assert (cells[0], done.load(), rig.errors) == (COUNTED, 0, [])


class Promoted:
    """A region that becomes plain memory when a wave first reads it."""

    size = 4096

    def __init__(self, device: HsaDevice, cells: np.ndarray[Any, Any]) -> None:
        self.device, self.cells = device, cells

    def host_address(self, offset: int, unit: Any) -> None:
        return None

    def read(self, offset: int, size: int, unit: Any) -> bytes:
        self.device.map_at(AT, self.cells, replace=True)
        return bytes(self.cells.view(np.uint8)[offset : offset + size])

    def write(self, offset: int, data: bytes, unit: Any) -> None:
        raise AssertionError("it is read first")


@pytest.mark.parametrize(("engine", "threads"), WAYS)
def test_mapped_by_an_access(engine: str, threads: int) -> None:
    """A region may put memory in its own place, while other threads run waves and map."""
    rig = Bench(engine=engine)
    rig.device = device = HsaDevice("gfx900", engine=engine, threads=threads)
    rig.queue = rig.new_queue()
    cells = np.arange(1024, dtype=np.uint32)
    out, words = rig.words(1024)
    text = f"""
    v_lshlrev_b32 v2, 6, s2
    v_add_u32 v2, v2, v0
    v_lshlrev_b32 v2, 2, v2
    v_mov_b32 v4, {AT & 0xFFFFFFFF:#x}
    v_mov_b32 v5, {AT >> 32:#x}
    v_add_co_u32 v4, vcc, v4, v2
    v_addc_co_u32 v5, vcc, v5, 0, vcc
    v_add_co_u32 v6, vcc, s0, v2
    v_mov_b32 v7, s1
    v_addc_co_u32 v7, vcc, v7, 0, vcc
    flat_load_dword v3, v[4:5]
    s_waitcnt vmcnt(0) lgkmcnt(0)
    flat_store_dword v[6:7], v3
    s_endpgm
    """
    kernel, done = rig.kernel(text, rsrc2=GROUP_ID), device.create_signal(0)
    for _ in range(4):
        words[:] = 0
        device.map_at(AT, Promoted(device, cells), replace=True)
        done.store(1)
        rig.queue.submit(dispatch(kernel, out, done, workgroup_size_x=64, grid_size_x=1024))
        assert (done.load(), rig.errors) == (0, [])
        assert (words == cells).all()
        assert device.memory.plain(AT, 4096) is not None
    device.close()
