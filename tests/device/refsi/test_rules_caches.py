"""Rules about what caches hide and when that ends: SYNC_CACHE, RUN_KERNEL_SLICE and RUN_INSTANCES."""

from __future__ import annotations

import pytest

from softcard.device.refsi.commands import CopyMem64, RunKernelSlice, StoreImm64, SyncCache
from softcard.device.refsi.registers import TCDM_BASE
from tests.device.refsi.m1 import OUT, Bench, entry
from tests.device.refsi.rig import refused_words, slice_setup

DCACHE, ICACHE, BOTH = SyncCache(1), SyncCache(2), SyncCache(3)
RETURN_AT_ONCE = int.from_bytes(bytes.fromhex("67800000 67800000"), "little")


def stored(bench: Bench, *between: SyncCache) -> int:
    """What the command behind a kernel (and `between`) finds where the kernel stored 7."""
    assert bench.run(*bench.kernel("k_poke", OUT, 7), *between, CopyMem64(1, OUT, OUT + 0x1000)).ok
    return bench.r64(OUT + 0x1000)[0]


def test_refsi_sync_flush(strict: Bench) -> None:
    assert stored(strict) == 0
    assert strict.run(BOTH).ok
    assert strict.r64(OUT) == [7]


@pytest.mark.parametrize(("between", "seen"), [((), 1), ((ICACHE,), 1), ((DCACHE,), 2), ((BOTH,), 2)])
def test_refsi_sync_invalidate(strict: Bench, between: tuple[SyncCache, ...], seen: int) -> None:
    look = strict.kernel("k_peek", OUT, TCDM_BASE)
    assert strict.run(StoreImm64(OUT, 1), *look, StoreImm64(OUT, 2), *between, *look).ok
    assert strict.r64(TCDM_BASE) == [seen]


@pytest.mark.parametrize("flags", [4, 7, 0x8000_0000])
def test_refsi_sync_flags(bench: Bench, flags: int) -> None:
    text = f"SYNC_CACHE: flags {flags:#x} name caches that do not exist, expected 1 (data), 2 (instructions) or both"
    refused_words(bench, "sync-flags", text, SyncCache(flags).encode())
    assert bench.run(SyncCache(0), DCACHE, ICACHE, BOTH).ok


@pytest.mark.parametrize(("flags", "seen"), [(0, 0), (1, 7), (2, 0), (3, 7)])
def test_refsi_sync_dcache(strict: Bench, flags: int, seen: int) -> None:
    assert stored(strict, SyncCache(flags)) == seen


@pytest.mark.parametrize(("flags", "seen"), [(0, 9), (1, 9), (2, 7), (3, 7)])
def test_refsi_sync_icache(strict: Bench, flags: int, seen: int) -> None:
    """A kernel replaced by a mere return stores nothing, once its instructions are looked at again."""
    first, second = (strict.kernel("k_poke", TCDM_BASE, value) for value in (7, 9))
    assert strict.run(*first, StoreImm64(entry("k_poke") + 0x6FFF_0000, RETURN_AT_ONCE), SyncCache(flags), *second).ok
    assert strict.r64(TCDM_BASE) == [seen]


def test_refsi_slice_flush(strict: Bench) -> None:
    setup = slice_setup(strict)
    assert strict.run(*setup, RunKernelSlice(0, 4, 0), CopyMem64(1, OUT + 0xC0, OUT + 0x1000)).ok
    assert strict.r64(OUT + 0x1000) == [3], "the instance ID that hart 3 stored"


def test_refsi_run_no_flush(strict: Bench) -> None:
    assert stored(strict) == 0
    assert stored(strict, DCACHE) == 7
    assert stored(Bench("spec")) == 7, "without modelled caches"
