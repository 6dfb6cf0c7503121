"""Stale data caches of `coherence="strict"`."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard.core.space import Ram, Unit
from softcard.device.refsi.commands import CacheFlags
from softcard.device.refsi.interfaces import COMMAND_PROCESSOR, HART, HOST
from softcard.device.refsi.registers import (
    DMA,
    DMA_BASE,
    DRAM_BASE,
    DRAM_SIZE,
    M1_VLEN,
    TCDM_BASE,
    WINDOW_BASE,
    WINDOW_MODE,
    WINDOW_TARGET,
)
from softcard.device.refsi.spec.coherence import LINE_BYTES, DataCaches, Newer
from softcard.device.refsi.spec.events import StaleRead
from softcard.device.refsi.spec.memory import SpecMemory
from softcard.engine.riscv.reference import ReferenceEngine
from softcard.isa.riscv import csr
from softcard.isa.riscv.state import Hart

DATA = int(CacheFlags.CMP_CACHE_SYNC_ACC_DCACHE)
INSTRUCTIONS = int(CacheFlags.CMP_CACHE_SYNC_ACC_ICACHE)
A = 0x5000_0000
WINDOW = 0x3000_0000


def hart(index: int) -> Unit:
    return Unit(HART, index)


@pytest.fixture
def memory():
    return SpecMemory(coherence="strict")


def word(memory, address=A, unit=HOST):
    return int.from_bytes(memory.read(address, 8, unit), "little")


def test_refsi_run_no_flush_stores_of_a_hart_are_its_own(memory):
    memory.port(0).store(A, 8, 5)
    assert memory.port(0).load(A, 8) == 5
    assert memory.port(1).load(A, 8) == 0
    assert word(memory) == word(memory, unit=COMMAND_PROCESSOR) == word(memory, unit=hart(0)) == 0


def test_refsi_sync_flush_and_sync_invalidate(memory):
    memory.port(0).store(A, 8, 5)
    memory.port(1).load(A, 8)
    memory.sync(INSTRUCTIONS)
    assert word(memory) == 0
    memory.sync(DATA)
    assert word(memory) == memory.port(1).load(A, 8) == 5


def test_refsi_sync_invalidate_of_clean_lines(memory):
    assert memory.port(0).load(A, 8) == 0
    memory.write(A, b"\7", HOST)
    assert memory.port(0).load(A + 8, 8) == memory.port(0).load(A, 8) == 0
    memory.sync(DATA | INSTRUCTIONS)
    assert memory.port(0).load(A, 8) == 7


def test_refsi_sync_flush_writes_only_dirty_bytes(memory):
    memory.port(0).store(A, 1, 1)
    memory.port(1).store(A + 1, 1, 2)
    memory.port(2).store(A + 63, 1, 3)
    memory.write(A + 2, b"\x0b", HOST)
    memory.sync(DATA)
    assert memory.read(A, 3, HOST) + memory.read(A + 63, 1, HOST) == b"\1\2\x0b\3"


def test_a_coherent_device_needs_no_sync():
    memory = SpecMemory()
    memory.port(0).store(A, 8, 5)
    assert memory.port(1).load(A, 8) == word(memory) == 5
    memory.sync(DATA | INSTRUCTIONS)
    assert memory.port(0).page(A, "store") is not None


def test_refsi_cache_dram_pages_come_one_by_one(memory):
    assert memory.port(0).page(A, "load") is None
    assert memory.port(0).page(A, "store") is None
    assert memory.port(0).page(TCDM_BASE, "store") is not None


def test_refsi_cache_dram_tcdm_is_not_cached(memory):
    memory.port(0).store(TCDM_BASE, 8, 5)
    assert memory.port(1).load(TCDM_BASE, 8) == 5


def test_fetches_read_memory(memory):
    memory.port(0).store(A, 2, 0x1234)
    assert memory.port(0).fetch(A) == 0
    memory.sync(DATA)
    assert memory.port(0).fetch(A) == 0x1234


def test_windows_share_lines_with_the_memory_behind(memory):
    memory.window_register(WINDOW_BASE.offset, WINDOW)
    memory.window_register(WINDOW_TARGET.offset, A + 60)
    memory.window_register(WINDOW_MODE.offset, WINDOW_MODE.encode(ACTIVE=1, SIZE=0xFFF))
    memory.port(0).store(WINDOW, 8, 0x1122_3344_5566_7788)
    assert memory.port(0).load(A + 56, 8) == 0x5566_7788_0000_0000
    assert memory.port(0).load(WINDOW, 8) == 0x1122_3344_5566_7788
    assert word(memory, A + 64) == 0


def test_refsi_cache_atomic_works_in_memory(memory):
    first, second = memory.port(0), memory.port(1)
    first.store(A + 8, 8, 9)
    assert first.load(A, 8) == second.load(A, 8) == 0
    assert first.exchange(A, 8, lambda old: old + 1) == 0
    assert second.exchange(A, 8, lambda old: old + 1) == 1
    assert word(memory) == 2
    assert word(memory, A + 8) == 9
    assert second.load(A, 8) == second.load_uncached(A, 8) == 2
    assert first.load_uncached(A, 8) == 2


def test_atomics_outside_of_dram(memory):
    port = memory.port(0)
    assert port.exchange(TCDM_BASE, 4, lambda old: old - 1) == 0
    assert port.load_uncached(TCDM_BASE, 8) == 0xFFFF_FFFF
    source = DMA_BASE + 8 * DMA.offset_of("DMASRCADDR")
    assert port.exchange(source, 8, lambda old: 4) == 0
    assert port.load_uncached(source, 8) == 4


def test_dma_reads_and_writes_memory(memory):
    port = memory.port(0)
    port.store(A, 8, 5)
    assert port.load(A + 0x1000, 8) == 0
    for name, value in (("DMASRCADDR", A), ("DMADSTADDR", A + 0x1000), ("DMAXFERSIZE0", 8), ("DMACTRL", 0x11)):
        port.store(DMA_BASE + 8 * DMA.offset_of(name), 8, value)
    memory.write(A, b"\3", HOST)
    memory.flush()
    assert port.load(A + 0x1000, 8) == 0
    memory.sync(DATA)
    assert port.load(A + 0x1000, 8) == 3


def test_reset_drops_dirty_lines(memory):
    memory.port(0).store(A, 8, 5)
    memory.reset()
    memory.sync(DATA)
    assert word(memory) == memory.port(0).load(A, 8) == 0


def test_write_back_is_reported_to_engines(memory):
    sizes = []
    memory.on_write = lambda host, size: sizes.append(size)
    memory.port(0).store(A, 4, 5)
    memory.port(0).store(A + 8, 8, 5)
    assert sizes == []
    memory.sync(DATA)
    assert sizes == [4, 8]


# ---- the lint


def stale(memory):
    events = []
    memory.telemetry.probes.subscribe(events.append)
    return events


def u64(value):
    return value.to_bytes(8, "little")


def test_stale_read_of_memory_that_a_hart_has_newer(memory):
    events = stale(memory)
    memory.telemetry.clock = lambda: 12
    memory.port(2).store(A, 8, 5)
    assert events == []
    memory.read(A, 8, HOST)
    memory.copy64(A, TCDM_BASE, 1, COMMAND_PROCESSOR)
    assert events == [
        StaleRead(12, HOST, A, u64(0), u64(5), hart(2)),
        StaleRead(12, COMMAND_PROCESSOR, A, u64(0), u64(5), hart(2)),
    ]


def test_stale_read_of_a_hart_behind_memory_and_other_harts(memory):
    memory.port(0).load(A, 8)
    memory.write(A, b"\7", HOST)
    memory.port(1).store(A, 8, 6)
    events = stale(memory)
    assert memory.port(0).load(A, 8) == 0
    assert events == [StaleRead(0, hart(0), A, u64(0), u64(7), None), StaleRead(0, hart(0), A, u64(0), u64(6), hart(1))]


def test_stale_read_is_not_reported_where_the_bytes_are_equal(memory):
    events = stale(memory)
    memory.port(0).load(A, 8)
    memory.port(1).store(A, 8, 0)
    memory.port(1).load(A, 8)
    memory.port(0).load(A, 8)
    memory.read(A, 8, HOST)
    assert events == []


def test_stale_read_by_dma(memory):
    port = memory.port(1)
    port.store(A + 16, 8, 5)
    port.store(A + 24, 8, 6)
    registers = {
        "DMASRCADDR": A,
        "DMADSTADDR": TCDM_BASE,
        "DMAXFERSIZE0": 8,
        "DMAXFERSIZE1": 2,
        "DMAXFERSRCSTRIDE0": 16,
        "DMACTRL": 0xA1,
    }
    for name, value in registers.items():
        port.store(DMA_BASE + 8 * DMA.offset_of(name), 8, value)
    events = stale(memory)
    memory.flush()
    assert [event for event in events if isinstance(event, StaleRead)] == [
        StaleRead(0, hart(1), A + 16, u64(0), u64(5), hart(1))
    ]


# ---- the model against an oracle


STEP = st.tuples(st.sampled_from(["load", "store", "drop", "memory", "sync"]), st.integers(0, 2), st.integers(0, 150))


@given(st.lists(st.tuples(STEP, st.integers(1, 8), st.integers(1, 255)), max_size=40))
def test_caches_agree_with_a_byte_by_byte_oracle(steps):
    ram = Ram(4096)
    caches = DataCaches(ram, 0x1000, 3, lambda address, size: None)
    memory = bytearray(256)
    cached: list[dict[int, int]] = [{}, {}, {}]
    dirty: list[set[int]] = [set(), set(), set()]

    def fill(who, start, size):
        for at in range(start & -LINE_BYTES, (start + size - 1 | LINE_BYTES - 1) + 1):
            cached[who].setdefault(at, memory[at])

    def drop(who, lines):
        for at in sorted(cached[who]):
            if at & -LINE_BYTES in lines:
                if at in dirty[who]:
                    memory[at] = cached[who][at]
                    dirty[who].discard(at)
                del cached[who][at]

    for (kind, who, start), size, value in steps:
        address = 0x1000 + start
        span = range(start, start + size)
        if kind == "load":
            fill(who, start, size)
            seen = caches.load(who, address, size)
            assert seen == bytes(cached[who][at] for at in span)
            newer = list(caches.newer(address, seen, who))
            truth = bytes(cached[who][at] if at in dirty[who] else memory[at] for at in span)
            assert [found for found in newer if found.holder is None] == (
                [Newer(address, seen, truth, None)] if truth != seen else []
            )
        elif kind == "store":
            fill(who, start, size)
            caches.store(who, address, bytes([value] * size))
            cached[who].update(dict.fromkeys(span, value))
            dirty[who].update(span)
        elif kind == "drop":
            caches.drop(who, address, size)
            drop(who, {at & -LINE_BYTES for at in span})
        elif kind == "memory":
            ram.write(start, bytes([value] * size), HOST)
            memory[start : start + size] = bytes([value] * size)
        else:
            caches.sync()
            for index in range(3):
                drop(index, set(range(0, 256, LINE_BYTES)))
    assert ram.read(0, 256, HOST) == memory
    for holder, found in ((found.holder, found) for found in caches.newer(0x1000, bytes(memory))):
        assert holder is not None
        assert found.newer == bytes(cached[holder][at] if at in dirty[holder] else memory[at] for at in range(256))


def test_reads_of_all_of_dram_find_few_dirty_lines():
    caches = DataCaches(Ram(DRAM_SIZE), DRAM_BASE, 1, lambda address, size: None)
    caches.store(0, DRAM_BASE + 100, b"x")
    assert [found.holder for found in caches.newer(DRAM_BASE, bytes(1 << 20))] == [0]
    caches.clear()
    assert list(caches.newer(DRAM_BASE, bytes(128))) == []


# ---- with an engine

AMOADD_D_X6_X5_X10 = 0x0055_332F
LD_X7_X10 = 0x0005_3383
SD_X5_X10 = 0x0055_3023


def test_refsi_cache_atomic_instructions_of_an_engine(memory):
    memory.write(TCDM_BASE, struct.pack("<4I", AMOADD_D_X6_X5_X10, LD_X7_X10, SD_X5_X10, LD_X7_X10), HOST)
    engine = ReferenceEngine(coherent=False)
    harts = [Hart(index, memory.port(index)) for index in range(2)]
    for hart_ in harts:
        csr.reset(hart_, M1_VLEN)
        hart_.pc = TCDM_BASE
        hart_.set_x(5, 7)
        hart_.set_x(10, A)
        engine.run(hart_, 2)
    assert [(hart_.x(6), hart_.x(7)) for hart_ in harts] == [(0, 7), (7, 14)]
    engine.run(harts[1], 2)
    assert harts[1].x(7) == 7
    assert word(memory) == memory.port(0).load(A, 8) + 7 == 14
