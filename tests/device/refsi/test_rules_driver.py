"""Rules of the driver's interface: memory map, units, registers in memory, counters and host calls of kernels."""

from __future__ import annotations

import pytest

from softcard.core.errors import AccessFault
from softcard.core.space import Unit
from softcard.device.refsi import rules
from softcard.device.refsi.commands import CopyMem64, StoreImm64
from softcard.device.refsi.events import ConsoleOutput, InstanceEnded
from softcard.device.refsi.interfaces import HART
from softcard.device.refsi.registers import DMA_BASE, DRAM_BASE, PERF_COUNTERS_BASE, TCDM_BASE, MemoryKind
from tests.device.refsi.m1 import FLAG, OUT, Bench, entry
from tests.device.refsi.rig import refused

RETIRED = PERF_COUNTERS_BASE + 16
GLOBAL = PERF_COUNTERS_BASE + 8 * 40


def test_refsi_memory_map(bench: Bench) -> None:
    memories = [area for area in bench.device.memory_map if area.kind in (MemoryKind.TCDM, MemoryKind.DRAM)]
    assert [area.base for area in memories] == [TCDM_BASE, DRAM_BASE]
    for area in memories:
        assert bench.run(*bench.kernel("k_poke", area.base, 1), *bench.kernel("k_poke", area.end - 8, 2)).ok
        assert bench.r64(area.base) + bench.r64(area.end - 8) == [1, 2]
        with pytest.raises(AccessFault, match="no memory there") as caught:
            bench.device.read(area.end, 8)
        assert caught.value.rule is rules.MEMORY_MAP
    status = refused(bench, "memory-map", "read of 8 bytes at 0x8: no memory there", *bench.kernel("k_loadfault"))
    assert (status.hart, status.pc) == (0, entry("k_loadfault") + 4)


def test_refsi_unit_exists(bench: Bench) -> None:
    text = "read at 0x50000000 as hart 4: the unit does not exist, expected a hart below 4 or a core below 1"
    refused(bench, "unit-exists", text, CopyMem64(1, OUT, OUT + 8, 3 << 24 | 4))
    assert bench.run(CopyMem64(1, OUT, OUT + 8, 3 << 24 | 3), CopyMem64(1, OUT, OUT + 8, 4 << 24)).ok
    with pytest.raises(AccessFault, match="as hart 4: the unit does not exist"):
        bench.device.read(OUT, 8, Unit(HART, 4))


def test_refsi_register_whole(bench: Bench) -> None:
    text = "write of 8 bytes at byte 0x4 of the DMA registers, expected a whole register of 8 bytes"
    refused(bench, "register-whole", text, StoreImm64(DMA_BASE + 4, 1))
    text = "write of 4 bytes at byte 0x18 of the DMA registers, expected a whole register of 8 bytes"
    refused(bench, "register-whole", text, *bench.kernel("k_poke32", DMA_BASE + 0x18, 1))


def test_refsi_execute_memory(bench: Bench) -> None:
    text = "execute of 2 bytes at 0x20002000: DMA holds registers, expected memory"
    refused(bench, "execute-memory", text, *bench.kernel(DMA_BASE))


def test_refsi_counter_slot(bench: Bench) -> None:
    assert bench.run(*bench.kernel("k_empty", instances=3), *bench.kernel("k_poke", GLOBAL, 5)).ok
    counts = [CopyMem64(1, RETIRED, OUT + 8 * hart, 3 << 24 | hart) for hart in range(4)]
    assert bench.run(*counts, CopyMem64(1, GLOBAL, OUT + 32)).ok
    assert bench.r64(OUT, 5) == [3, 1, 1, 0, 5], "k_poke retires two instructions on hart 0"
    text = "read of 8 bytes at counter offset 0x10, expected whole 8-byte slots (0-31 only as a hart)"
    refused(bench, "counter-slot", text, CopyMem64(1, RETIRED, OUT))


def test_refsi_host_call(bench: Bench) -> None:
    bench.device.write(OUT + 0x100, b"from the device\0")
    assert bench.run(*bench.kernel("k_puts", OUT + 0x100), *bench.kernel("k_exit0")).ok
    assert [event.data for event in bench.seen(ConsoleOutput)] == [b"from the device"]
    assert [event.how for event in bench.seen(InstanceEnded)] == ["return", "exit"]
    text = "ecall has a7 = 0x63, expected 0 (EXIT), 1 (PUTSTRING) or 2 (BARRIER)"
    status = refused(bench, "host-call", text, *bench.kernel("k_badecall"))
    assert status.pc == entry("k_badecall") + 4


def test_refsi_barrier_same(bench: Bench) -> None:
    assert bench.run(*bench.kernel("k_barrier", OUT, instances=4)).ok
    assert bench.r64(OUT + 64, 4) == [4] * 4, "each saw what all had stored before the barrier"
    different = bench.code("addi a7, zero, 2; ecall; jalr zero, 0(ra)")
    text = "harts wait at different barriers: hart 0 at 0x0, hart 1 at 0x1"
    refused(bench, "barrier-same", text, *bench.kernel(different, instances=2))


def test_refsi_barrier_all_harts(bench: Bench) -> None:
    text = "harts 1, 2, 3 wait at a barrier, but hart 0 returned"
    refused(bench, "barrier-all-harts", text, *bench.kernel("k_barrier_early", OUT, instances=4))
    assert bench.r64(FLAG) == [0]
