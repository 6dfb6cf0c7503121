"""The `spec` memory system: memory map, registers, ports and pages, the Kernel Uniform Block."""

import ctypes
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard.core.errors import AccessFault, RuleError, WireError
from softcard.device.refsi.counters import PerfCounters
from softcard.device.refsi.interfaces import COMMAND_PROCESSOR, HOST
from softcard.device.refsi.registers import (
    DMA_BASE,
    DRAM_BASE,
    DRAM_SIZE,
    PERF_COUNTERS_BASE,
    TCDM_BASE,
    TCDM_SIZE,
    WINDOW_BASE,
    WINDOW_MODE,
    WINDOW_TARGET,
)
from softcard.device.refsi.spec.memory import SpecMemory
from softcard.isa.riscv.state import Hart
from tests.device.refsi.spec.rig import TARGET, WINDOW, hart, refused, words
from tests.device.refsi.spec.rig import open_window as open_any_window

DRAM_END = DRAM_BASE + DRAM_SIZE
MASK64 = (1 << 64) - 1


open_window = partial(open_any_window, size=0x2000)


@pytest.fixture
def memory():
    return SpecMemory()


def test_unknown_configurations_are_refused():
    with pytest.raises(WireError, match=r"unknown DMA timing 'soon', expected one of late, immediate"):
        SpecMemory(dma="soon")
    with pytest.raises(WireError, match=r"unknown coherence 'lax', expected one of coherent, strict"):
        SpecMemory(coherence="lax")
    with pytest.raises(WireError, match=r"the device has 0 cores of 4 harts, expected at least 1 of each"):
        SpecMemory(cores=0)


# ---- memory map


@pytest.mark.parametrize(("base", "size"), [(TCDM_BASE, TCDM_SIZE), (DRAM_BASE, DRAM_SIZE)])
def test_refsi_memory_map_ends_exactly(memory, base, size):
    memory.write(base, b"first", HOST)
    memory.write(base + size - 4, b"last", hart(3))
    assert memory.read(base, 5, hart(0)) + memory.read(base + size - 4, 4, COMMAND_PROCESSOR) == b"firstlast"
    name = "TCDM" if base == TCDM_BASE else "DRAM"
    refused(
        lambda: memory.write(base + size - 4, bytes(8), COMMAND_PROCESSOR),
        "memory-map",
        f"write of 8 bytes at {base + size - 4:#x} exceeds the bounds of {name} ({base:#x}..{base + size:#x})",
    )


@pytest.mark.parametrize("address", [0, 0x100, TCDM_BASE - 8, DRAM_END, 1 << 56, MASK64 - 7])
def test_refsi_memory_map_holes(memory, address):
    fault = refused(
        lambda: memory.read(address, 8, hart(0)), "memory-map", f"read of 8 bytes at {address:#x}: no memory there"
    )
    assert fault.address == address
    assert fault.access == "read"


def test_accesses_of_no_bytes_do_nothing(memory):
    assert memory.read(0, 0, HOST) == b""
    memory.write(0, b"", HOST)
    memory.copy64(0, 0, 0, HOST)
    memory.protect(0, 0)


def test_refsi_tcdm_one_for_all_cores():
    memory = SpecMemory(cores=2, harts_per_core=2)
    memory.write(TCDM_BASE, b"x", hart(0))
    assert memory.read(TCDM_BASE, 1, hart(3)) == b"x"


# ---- registers


def test_refsi_register_whole_dma(memory):
    for size, offset in ((4, 0), (8, 4), (16, 0), (1, 8)):
        refused(
            lambda size=size, offset=offset: memory.read(DMA_BASE + offset, size, hart(0)),
            "register-whole",
            f"read of {size} bytes at byte {offset:#x} of the DMA registers, expected a whole register of 8 bytes",
        )
    fault = refused(
        lambda: memory.port(0).store(DMA_BASE + 0x18, 4, 5),
        "register-whole",
        "write of 4 bytes at byte 0x18 of the DMA registers, expected a whole register of 8 bytes",
    )
    assert fault.address == DMA_BASE + 0x18


def test_refsi_dma_register_unlisted(memory):
    refused(
        lambda: memory.write(DMA_BASE + 0xF8, bytes(8), HOST),
        "dma-register",
        "write of DMA register 31: write in the reserved range 0xc..0x1f of DMA",
    )


def test_refsi_counter_slot():
    harts: list[Hart] = []
    counters = PerfCounters(lambda index: harts[index] if index < len(harts) else None)
    memory = SpecMemory(counters=counters)
    harts += [Hart(index, memory.port(index)) for index in range(4)]
    memory.write(PERF_COUNTERS_BASE + 8 * 5, words(7), hart(2))
    assert memory.read(PERF_COUNTERS_BASE + 8 * 5, 8, hart(2)) == words(7)
    assert memory.read(PERF_COUNTERS_BASE + 8 * 5, 8, hart(1)) == words(0)
    memory.write(PERF_COUNTERS_BASE + 8 * 40, words(9), HOST)
    assert memory.port(3).load(PERF_COUNTERS_BASE + 8 * 40, 8) == 9
    fault = refused(
        lambda: memory.read(PERF_COUNTERS_BASE, 8, COMMAND_PROCESSOR),
        "counter-slot",
        "read of 8 bytes at counter offset 0x0, expected whole 8-byte slots (0-31 only as a hart)",
    )
    assert fault.address == PERF_COUNTERS_BASE
    memory.copy64(PERF_COUNTERS_BASE + 8 * 5, TARGET, 1, hart(2))
    assert memory.read(TARGET, 8, HOST) == words(7)


# ---- views, ports, pages


def test_view_shares_memory_and_windows(memory):
    open_window(memory)
    view = memory.view(WINDOW + 8, 4)
    assert view is not None
    view[:] = b"view"
    assert memory.read(TARGET + 8, 4, hart(0)) == b"view"


def test_view_is_none_where_the_bytes_are_not_plain_memory(memory):
    assert memory.view(DMA_BASE, 8) is None
    assert memory.view(0, 8) is None
    assert memory.view(DRAM_END - 4, 8) is None
    open_window(memory, PERMS=1)
    assert memory.view(WINDOW, 8) is None
    open_window(memory, MODE="PER_HART")
    assert memory.view(WINDOW, 8) is None


def test_port_loads_and_stores_little_endian(memory):
    port = memory.port(1)
    port.store(TARGET, 4, 0x1_1234_5678)
    assert memory.read(TARGET, 8, HOST) == b"\x78\x56\x34\x12\0\0\0\0"
    assert port.load(TARGET, 2) == 0x5678
    assert port.fetch(TARGET + 2) == 0x1234
    assert memory.port(1) is port


def test_refsi_unit_exists_for_ports(memory):
    with pytest.raises(RuleError, match="there is no hart 4, expected 0 to 3"):
        memory.port(4)


def reach(memory, index, address, access="load"):
    """The byte behind `address` by way of the page, or None."""
    addend = memory.port(index).page(address, access)
    return None if addend is None else ctypes.c_uint8.from_address((address + addend) & MASK64).value


def test_pages_of_memory_are_direct(memory):
    for address in (TCDM_BASE, TCDM_BASE + TCDM_SIZE - 1, DRAM_BASE + 5, DRAM_END - 1):
        memory.write(address, b"\x5a", HOST)
        assert reach(memory, 0, address) == reach(memory, 3, address, "store") == 0x5A
    assert memory.port(0).extent(DRAM_BASE + 5, "load") == (DRAM_BASE, DRAM_END)
    assert memory.port(0).page(DMA_BASE, "load") is None
    assert memory.port(0).page(0, "load") is None
    assert memory.port(0).extent(0, "load") == (0, 0)


def test_pages_of_windows_are_direct_per_hart(memory):
    open_window(memory, scale=(13, 0), target=TARGET + 0x123, MODE="PER_HART")
    memory.write(WINDOW + 0x1001, b"\x11", hart(0))
    memory.write(WINDOW + 0x1001, b"\x22", hart(2))
    assert reach(memory, 0, WINDOW + 0x1001) == 0x11
    assert reach(memory, 2, WINDOW + 0x1001) == 0x22
    assert memory.port(2).extent(WINDOW + 0x1001, "load") == (WINDOW, WINDOW + 0x2000)


def test_pages_partly_outside_a_window_are_not_direct(memory):
    open_window(memory, base=WINDOW + 0x100)
    assert reach(memory, 0, WINDOW + 0x100) is None
    assert reach(memory, 0, WINDOW + 0x1000) == 0
    assert reach(memory, 0, WINDOW + 0x2000) is None
    assert memory.port(0).load(WINDOW + 0x2000, 8) == 0


def test_pages_partly_outside_the_target_are_not_direct(memory):
    open_window(memory, target=DRAM_END - 0x1800)
    assert memory.port(0).extent(WINDOW, "load") == (WINDOW, WINDOW + 0x1800)
    assert reach(memory, 0, WINDOW) == 0
    assert reach(memory, 0, WINDOW + 0x1000) is None


def test_pages_with_an_overlap_are_not_direct(memory):
    open_window(memory, base=TCDM_BASE + 0x2800, size=0x1000)
    assert memory.port(0).extent(TCDM_BASE, "load") == (TCDM_BASE, TCDM_BASE + 0x2800)
    assert memory.port(0).extent(TCDM_BASE + 0x3900, "load") == (TCDM_BASE + 0x3800, TCDM_BASE + TCDM_SIZE)
    assert reach(memory, 0, TCDM_BASE + 0x2000) is None
    assert reach(memory, 0, TCDM_BASE + 0x2800) is None
    assert reach(memory, 0, TCDM_BASE + 0x4000) == 0


@pytest.mark.parametrize(("perms", "load", "store"), [(0, True, True), (1, True, False), (2, False, True)])
def test_pages_follow_the_permissions(memory, perms, load, store):
    open_window(memory, PERMS=perms)
    assert (reach(memory, 0, WINDOW, "load") is not None) is load
    assert (reach(memory, 0, WINDOW, "store") is not None) is store


@pytest.mark.parametrize(("stride", "direct"), [(11, False), (12, True), (14, True)])
def test_pages_of_interleaved_windows(memory, stride, direct):
    open_window(memory, MODE="PER_HART", INTERLEAVE=1, STRIDE=stride)
    memory.write(WINDOW + 0x1004, b"\x77", hart(1))
    assert reach(memory, 1, WINDOW + 0x1004) == (0x77 if direct else None)


@given(st.integers(0, 7), st.integers(0, 0x3FFF), st.integers(0, 3), st.integers(0, 0x2FFF), st.integers(8, 15))
def test_pages_and_loads_see_the_same_bytes(mode, size, index, shift, stride):
    memory = _shared
    memory.reset()
    fields = {"MODE": mode % 3, "INTERLEAVE": mode // 4, "STRIDE": stride}
    open_window(memory, scale=(9, 4), base=WINDOW + shift, target=TARGET + shift // 3, size=size + 1, **fields)
    port = memory.port(index)
    for address in range(WINDOW, WINDOW + 0x7000, 0x3FF):
        try:
            port.store(address, 1, address % 251)
        except AccessFault:
            assert port.page(address, "load") is None
            continue
        found = reach(memory, index, address)
        assert found in (None, port.load(address, 1))
        start, end = port.extent(address, "load")
        assert start <= address < end


_shared = SpecMemory()


def test_on_remap_is_called_when_windows_change(memory):
    calls = []
    memory.on_remap = lambda: calls.append(memory.generation)
    memory.window_register(WINDOW_BASE.offset, WINDOW)
    assert calls == []
    memory.window_register(WINDOW_MODE.offset, 1)
    memory.window_register(WINDOW_MODE.offset, 1)
    memory.window_register(WINDOW_TARGET.offset, TARGET)
    memory.protect(TARGET, 8)
    memory.unprotect()
    memory.unprotect()
    memory.reset()
    assert calls == [1, 2, 3, 4, 5]


def test_on_write_is_reported_every_write_past_the_pages(memory):
    calls = []
    memory.on_write = lambda host, size: calls.append((host, size))
    memory.write(TARGET, b"abc", HOST)
    memory.port(0).store(TARGET + 8, 8, 1)
    memory.copy64(TARGET, TARGET + 0x100, 2, HOST)
    base = memory.port(0).page(TARGET, "load")
    assert [(host - base & MASK64, size) for host, size in calls] == [
        (TARGET, 3),
        (TARGET + 8, 8),
        (TARGET + 0x100, 16),
    ]


def test_reset_zeroes_everything(memory):
    open_window(memory)
    memory.write(TARGET, b"x", HOST)
    memory.write(DMA_BASE + 0x18, bytes([9] * 8), HOST)
    memory.protect(TARGET, 8)
    memory.reset()
    assert memory.read(TARGET, 1, HOST) == b"\0"
    assert memory.read(DMA_BASE + 0x18, 8, HOST) == bytes(8)
    memory.port(0).store(TARGET, 8, 1)
    with pytest.raises(AccessFault, match="no memory there"):
        memory.read(WINDOW, 1, HOST)


# ---- Kernel Uniform Block


def test_refsi_kub_read_only_to_every_access_of_harts(memory):
    open_window(memory, target=TARGET)
    memory.protect(TARGET + 0x1100, 0x100)
    port = memory.port(0)
    port.load(TARGET + 0x1100, 8)
    for address in (TARGET + 0x1100, WINDOW + 0x11F8):
        refused(
            lambda address=address: port.store(address, 8, 1),
            "kub-read-only",
            f"write of 8 bytes at {address:#x} by hart 0 into the Kernel Uniform Block, which kernels must not write",
        )
        refused(
            lambda address=address: port.exchange(address, 8, lambda old: old),
            "kub-read-only",
            f"write of 8 bytes at {address:#x} by hart 0 into the Kernel Uniform Block, which kernels must not write",
        )
    port.store(TARGET + 0x10F8, 8, 1)
    port.store(TARGET + 0x1200, 8, 1)
    memory.write(TARGET + 0x1100, b"cmp", COMMAND_PROCESSOR)
    memory.write(TARGET + 0x1100, b"host", HOST)
    memory.unprotect()
    port.store(TARGET + 0x1100, 8, 1)


def test_refsi_kub_read_only_pages_are_not_direct_for_stores(memory):
    open_window(memory, target=TARGET)
    memory.protect(WINDOW + 0x1100, 0x100)
    assert reach(memory, 0, TARGET + 0x1000, "load") == 0
    for address in (TARGET + 0x1000, WINDOW + 0x1000, TARGET + 0x1100):
        assert reach(memory, 0, address, "store") is None
    assert reach(memory, 0, TARGET, "store") == 0
    assert reach(memory, 0, TARGET + 0x2000, "store") == 0
    assert memory.port(0).extent(WINDOW, "store") == (WINDOW, WINDOW + 0x1100)
    assert memory.port(0).extent(TARGET + 0x1FFF, "store") == (TARGET + 0x1200, DRAM_END)


def test_refsi_kub_read_only_must_be_memory(memory):
    refused(
        lambda: memory.protect(DMA_BASE, 0x100),
        "kub-read-only",
        "the Kernel Uniform Block of 0x100 bytes at 0x20002000 lies in registers, expected memory",
    )
    with pytest.raises(AccessFault, match="no memory there"):
        memory.protect(0x100, 0x100)


def test_refsi_ports_ask_for_registers_once(monkeypatch):
    """Until windows change what lies there; memory beside them is memory."""
    memory, asked = SpecMemory(), []
    port, span = memory.port(0), memory.decoder.span
    monkeypatch.setattr(memory.decoder, "span", lambda *where: asked.append(where) or span(*where))
    for _ in range(3):
        assert [port.page(DMA_BASE + offset, "load") for offset in (0, 8, 64)] == [None] * 3
    assert len(asked) == 1
    assert port.page(TARGET, "load") is not None
    open_window(memory)
    assert [port.page(place, "load") is None for place in (DMA_BASE, WINDOW)] == [True, False]
    open_window(memory, target=DMA_BASE & -0x1000)
    assert [port.page(place, "load") is None for place in (DMA_BASE, WINDOW, TARGET)] == [True, True, False]
