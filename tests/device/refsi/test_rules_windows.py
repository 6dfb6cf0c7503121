"""Rules of the window registers, by commands and kernels."""

from __future__ import annotations

import pytest

from softcard.device.refsi.commands import StoreImm64, WriteReg64
from softcard.device.refsi.registers import TCDM_BASE, WINDOW_MODE, WINDOW_SCALE
from tests.device.refsi.m1 import OUT, Bench, flag, window, write
from tests.device.refsi.rig import PHYSICAL, WHO, WINDOW, refused

SHARED, PER_HART, PER_CORE = range(3)
SIZE = 0x1000
HERE = "window 2 (SHARED 0x30000000..0x30001000)"


def scale(a: int, b: int) -> int:
    return WINDOW_SCALE.encode(SCALE_A=a, SCALE_B=b)


def who(bench: Bench, *places: int, base: int = WINDOW, harts: int = 4) -> list[int]:
    """Let each hart store its ID plus one at `base`, hart 0 first; what is at `places` afterwards."""
    assert bench.run(*bench.kernel(bench.code(WHO), base, instances=harts, harts=harts)).ok
    return [bench.r64(place)[0] for place in places]


# ---- BASE and TARGET


def test_refsi_window_base(bench: Bench) -> None:
    base = WINDOW + 0x1238
    assert bench.run(*window(2, base, PHYSICAL, SIZE)).ok
    assert who(bench, PHYSICAL, base=base, harts=1) == [1]
    text = f"write of 8 bytes at {base - 8:#x}: no memory there"
    refused(bench, "store-imm-address", text, StoreImm64(base - 8, 1))


def test_refsi_window_target(bench: Bench) -> None:
    assert bench.run(*window(2, WINDOW, PHYSICAL, SIZE), StoreImm64(WINDOW + 8, 1)).ok
    assert bench.run(write("REG_WINDOW_TARGET2", PHYSICAL + 0x8004), StoreImm64(WINDOW + 8, 2)).ok
    assert bench.r64(PHYSICAL + 8) + bench.r64(PHYSICAL + 0x800C) == [1, 2]


def test_refsi_window_target_physical(bench: Bench) -> None:
    text = f"write of 8 bytes at {WINDOW:#x} through {HERE}: its target 0x100..0x108 is outside of every memory"
    refused(bench, "window-target-physical", text, *window(2, WINDOW, 0x100, SIZE), StoreImm64(WINDOW, 1))
    nested = f"{WINDOW + SIZE:#x} through window 3 (SHARED 0x30001000..0x30002000)"
    text = (
        f"write of 8 bytes at {nested}: its target 0x30000000..0x30000008 is a window, expected a physical memory area"
    )
    refused(
        bench,
        "window-target-physical",
        text,
        *window(2, WINDOW, PHYSICAL, SIZE),
        *window(3, WINDOW + SIZE, WINDOW, SIZE),
        StoreImm64(WINDOW + SIZE, 1),
    )


def test_refsi_memory_overlap(bench: Bench) -> None:
    text = (
        "write of 8 bytes at 0x10000000: the address is claimed by window 2 (SHARED 0x10000000..0x10001000) and TCDM, "
        "expected only one of them"
    )
    refused(bench, "memory-overlap", text, *window(2, TCDM_BASE, PHYSICAL, SIZE), StoreImm64(TCDM_BASE, 1))
    assert bench.run(StoreImm64(TCDM_BASE + SIZE, 1)).ok, "only what both claim has no meaning"


# ---- MODE


def test_refsi_window_active(bench: Bench) -> None:
    assert bench.run(*window(2, WINDOW, PHYSICAL, SIZE), StoreImm64(WINDOW, 1)).ok
    assert bench.r64(PHYSICAL) == [1]
    text = f"write of 8 bytes at {WINDOW:#x}: {HERE} is not active"
    closed = write("REG_WINDOW_MODE2", (SIZE - 1) << 32)
    refused(bench, "window-active", text, closed, StoreImm64(WINDOW, 2))
    refused(bench, "window-active", text, *bench.kernel("k_poke", WINDOW, 2))


def test_refsi_window_shared(bench: Bench) -> None:
    assert bench.run(*window(2, WINDOW, PHYSICAL, SIZE, mode=SHARED, scale=scale(12, 0))).ok
    assert who(bench, PHYSICAL, PHYSICAL + 0x1000) == [4, 0], "SCALE has no part in it"
    assert bench.run(StoreImm64(WINDOW + 8, 9), *bench.kernel("k_peek", WINDOW + 8, OUT, instances=4)).ok
    assert bench.r64(OUT, 4) == [9] * 4


def test_refsi_window_per_hart(bench: Bench) -> None:
    assert bench.run(*window(2, WINDOW, PHYSICAL, SIZE, mode=PER_HART, scale=scale(12, 0))).ok
    assert who(bench, *(PHYSICAL + 0x1000 * hart for hart in range(4))) == [1, 2, 3, 4]
    where = f"{WINDOW:#x} through window 2 (PER_HART 0x30000000..0x30001000)"
    text = f"write of 8 bytes at {where} as the CMP, which has no hart_id"
    refused(bench, "window-per-hart", text, StoreImm64(WINDOW, 1))


def test_refsi_window_per_core() -> None:
    bench = Bench("spec", cores=2, harts=2)
    assert bench.run(*window(2, WINDOW, PHYSICAL, SIZE, mode=PER_CORE, scale=scale(12, 0))).ok
    assert who(bench, PHYSICAL, PHYSICAL + 0x1000, PHYSICAL + 0x2000) == [2, 4, 0], "the last hart of each core"
    where = f"{WINDOW:#x} through window 2 (PER_CORE 0x30000000..0x30001000)"
    text = f"write of 8 bytes at {where} as the CMP, which has no core_id"
    refused(bench, "window-per-core", text, StoreImm64(WINDOW, 1))


def test_refsi_window_mode_reserved(bench: Bench) -> None:
    text = "CMP_REG_WINDOW_MODE2 = 0xfff00000007: MODE 3 is reserved, expected 0 (SHARED), 1 (PER_HART) or 2 (PER_CORE)"
    refused(bench, "window-mode-reserved", text, *window(2, WINDOW, PHYSICAL, SIZE, mode=3))


@pytest.mark.parametrize(
    ("register", "value", "bits"),
    [("MODE2", 1 << 7, 0x80), ("MODE2", 1 << 31, 0x8000_0000), ("SCALE2", 0x20, 0x20)],
)
def test_refsi_window_reserved(bench: Bench, register: str, value: int, bits: int) -> None:
    text = f"CMP_REG_WINDOW_{register} = {value:#x}: bits {bits:#x} are reserved, expected 0"
    refused(bench, "window-reserved", text, flag(0), write(f"REG_WINDOW_{register}", value))


def interleaved(stride: int) -> list[WriteReg64]:
    """A PER_HART window whose target is interleaved."""
    mode = WINDOW_MODE.encode(ACTIVE=1, MODE=PER_HART, INTERLEAVE=1, STRIDE=stride, SIZE=SIZE - 1)
    return [
        write("REG_WINDOW_BASE2", WINDOW),
        write("REG_WINDOW_TARGET2", PHYSICAL),
        write("REG_WINDOW_MODE2", mode),
    ]


def test_refsi_window_interleave(bench: Bench) -> None:
    """Granules of the harts lie in turn: two stores of each hart in neighbouring granules of its own."""
    assert bench.run(*interleaved(stride=3)).ok
    assert who(bench, *range(PHYSICAL, PHYSICAL + 32, 8)) == [1, 2, 3, 4]
    assert who(bench, *range(PHYSICAL + 32, PHYSICAL + 64, 8), base=WINDOW + 8) == [1, 2, 3, 4]


@pytest.mark.parametrize("stride", [3, 6, 12])
def test_refsi_window_stride(bench: Bench, stride: int) -> None:
    assert bench.run(*interleaved(stride)).ok
    assert who(bench, *(PHYSICAL + (hart << stride) for hart in range(4))) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("perms", "kernel", "access"),
    [
        (1, "k_poke", "write of 8 bytes at {0:#x} through {1}: the window's PERMS 0b001 do not permit writing"),
        (2, "k_peek", "read of 8 bytes at {0:#x} through {1}: the window's PERMS 0b010 do not permit reading"),
        (3, None, "execute of 2 bytes at {0:#x} through {1}: the window's PERMS 0b011 do not permit executing"),
    ],
)
def test_refsi_window_perms(bench: Bench, perms: int, kernel: str | None, access: str) -> None:
    bench.code("jalr zero, 0(ra)", PHYSICAL)
    run = bench.kernel(kernel or WINDOW, WINDOW, OUT)
    text = access.format(WINDOW, HERE)
    refused(bench, "window-perms", text, *window(2, WINDOW, PHYSICAL, SIZE, perms=perms), *run)
    assert bench.run(*window(2, WINDOW, PHYSICAL, SIZE, perms=7), *run).ok
    assert bench.run(*window(2, WINDOW, PHYSICAL, SIZE, perms=0), *run).ok


def test_refsi_window_size(bench: Bench) -> None:
    assert bench.run(*window(2, WINDOW, PHYSICAL, SIZE), StoreImm64(WINDOW + SIZE - 8, 1)).ok
    text = f"write of 8 bytes at 0x30000ffc through {HERE} exceeds the bounds of the window"
    refused(bench, "window-size", text, StoreImm64(WINDOW + SIZE - 4, 1))
    text = f"write of 8 bytes at 0x30001010: no memory there, 0x10 bytes past the end of {HERE}"
    refused(bench, "window-size", text, *bench.kernel("k_poke", WINDOW + SIZE + 0x10, 1))
    assert bench.run(*window(2, WINDOW, PHYSICAL, 1), *bench.kernel("k_lb", WINDOW, OUT)).ok
    assert bench.run(*window(2, 1 << 40, 0x4000_0000, 1 << 32), *bench.kernel("k_poke", (1 << 40) + 0x7FFF_FFF8, 5)).ok
    assert bench.r64(0xBFFF_FFF8) == [5]


# ---- SCALE


@pytest.mark.parametrize(("a", "b", "factor"), [(3, 0, 8), (4, 2, 0x30), (1, 0x7FF, 0x1000), (12, 0, 0x1000)])
def test_refsi_window_scale(bench: Bench, a: int, b: int, factor: int) -> None:
    assert bench.run(*window(2, WINDOW, PHYSICAL, SIZE, mode=PER_HART, scale=scale(a, b))).ok
    assert who(bench, *(PHYSICAL + factor * hart for hart in range(4))) == [1, 2, 3, 4]


@pytest.mark.parametrize(("field", "factor"), [(0, 0), (3, 1 << 3), (20, 1 << 20), (31, 1 << 31)])
def test_refsi_window_scale_a(bench: Bench, field: int, factor: int) -> None:
    """From TCDM, since DRAM has no room for the largest."""
    assert bench.run(*window(2, WINDOW, TCDM_BASE, SIZE, mode=PER_HART, scale=scale(field, 0))).ok
    assert who(bench, TCDM_BASE + factor, harts=2) == [2]


@pytest.mark.parametrize("field", [0, 1, 0xFFF])
def test_refsi_window_scale_b(bench: Bench, field: int) -> None:
    assert bench.run(*window(2, WINDOW, PHYSICAL, SIZE, mode=PER_HART, scale=scale(3, field))).ok
    assert who(bench, PHYSICAL + 8 * (field + 1), harts=2) == [2]
    largest = window(2, WINDOW, PHYSICAL, SIZE, mode=PER_HART, scale=scale(3, 0xFFFF_FFFF))
    text = (
        "write of 8 bytes at 0x30000000 through window 2 (PER_HART 0x30000000..0x30001000): its target "
        "0x852000000..0x852000008 is outside of every memory (TARGET 0x52000000 + SCALE 0x800000000 * hart 1, "
        "see choice refsi/window-scale-fields)"
    )
    refused(bench, "window-target-physical", text, *largest, *bench.kernel("k_poke", WINDOW, 1, instances=2))
