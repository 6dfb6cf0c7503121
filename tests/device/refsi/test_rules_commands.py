"""Rules of FINISH, WRITE_REG64, LOAD_REG64, STORE_REG64, STORE_IMM64 and COPY_MEM64."""

from __future__ import annotations

import pytest

from softcard.core.errors import WireError
from softcard.device.refsi import rules
from softcard.device.refsi.commands import (
    Command,
    CopyMem64,
    Finish,
    LoadReg64,
    StoreImm64,
    StoreReg64,
    WriteReg64,
    encode_all,
)
from softcard.device.refsi.events import BufferFinished, BufferStarted, RegisterAccess
from softcard.device.refsi.registers import CMP, PERF_COUNTERS_BASE
from softcard.device.refsi.toolkit.builder import CommandBuffer
from tests.device.refsi.m1 import FLAG, OUT, Bench, flag, window, write
from tests.device.refsi.rig import PATTERN, PHYSICAL, SOURCE, TARGET, WINDOW, finished, refused, refused_words, transfer

NOWHERE = 0x100
HART_1 = 3 << 24 | 1
PER_HART_WINDOW = 0x1400_0000
VALUE = 0xFEDC_BA98_7654_3210

# ---- FINISH


def test_refsi_finish_end(bench: Bench) -> None:
    status = bench.words(encode_all([Finish(), flag()]) + b"\xff" * 8)
    assert status.ok
    assert status.commands == 1
    assert bench.r64(FLAG) == [0]


def test_refsi_finish_signal(bench: Bench) -> None:
    for number in range(2):
        address = OUT + 0x100 * number
        bench.device.write(address, finished(StoreImm64(TARGET + 8 * number, 7)))
        bench.device.submit(address, 0x18)
    statuses = bench.device.wait()
    seen = [event for event in bench.events if isinstance(event, BufferStarted | BufferFinished)]
    assert [type(event) for event in seen] == [BufferStarted, BufferFinished] * 2
    assert [event.status for event in bench.seen(BufferFinished)] == statuses
    assert bench.r64(TARGET, 2) == [7, 7]


# ---- registers


@pytest.mark.parametrize("name", ["CMP_SCRATCH", "CMP_ENTRY_PT_FN", "CMP_KUB_DESC", "CMP_REG_WINDOW_BASE7"])
def test_refsi_write_reg64(bench: Bench, name: str) -> None:
    index = CMP.offset_of(name)
    assert bench.run(WriteReg64(index, VALUE), StoreReg64(index, OUT)).ok
    assert bench.r64(OUT) == [VALUE]
    assert [(event.index, event.value, event.write) for event in bench.seen(RegisterAccess)] == [
        (index, VALUE, True),
        (index, VALUE, False),
    ]


@pytest.mark.parametrize("index", [7, 40, 0xFFFF_FFFF])
@pytest.mark.parametrize("command", [WriteReg64, LoadReg64, StoreReg64])
def test_refsi_reg_idx(bench: Bench, command: type[Command], index: int) -> None:
    text = f"there is no CMP register {index}, expected 0 to 6 or 8 to 39"
    refused(bench, "reg-idx", text, WriteReg64(39, 1), command(index, OUT))  # type: ignore[call-arg]


def test_refsi_load_reg64(bench: Bench) -> None:
    mode = 0xFFF_0000_0001
    assert bench.run(StoreImm64(OUT, mode), *window(2, WINDOW, PHYSICAL, 0x1000)[:3], LoadReg64(26, OUT)).ok
    assert bench.device.registers[26] == mode
    assert bench.run(StoreImm64(WINDOW + 8, VALUE)).ok, "the window is open"
    assert bench.r64(PHYSICAL + 8) == [VALUE]


def test_refsi_load_address(bench: Bench) -> None:
    text = f"read of 8 bytes at {NOWHERE:#x}: no memory there"
    refused(bench, "load-address", text, flag(0), LoadReg64(0, NOWHERE))
    refused(
        bench,
        "load-address",
        "read of 8 bytes at 0xbffffffc exceeds the bounds of DRAM (0x40000000..0xc0000000)",
        LoadReg64(0, 0xBFFF_FFFC),
    )
    assert bench.run(LoadReg64(0, 0xBFFF_FFF8)).ok


def test_refsi_store_reg64(bench: Bench) -> None:
    assert bench.run(WriteReg64(0, VALUE), StoreReg64(0, OUT + 1), StoreReg64(6, OUT + 16)).ok
    assert bench.device.read(OUT, 24) == b"\0" + VALUE.to_bytes(8, "little") + bytes(15)


def test_refsi_store_address(bench: Bench) -> None:
    text = f"write of 8 bytes at {1 << 63:#x}: no memory there"
    refused(bench, "store-address", text, write("SCRATCH", 1), StoreReg64(0, 1 << 63))


# ---- STORE_IMM64


def test_refsi_store_imm64(bench: Bench) -> None:
    assert bench.run(StoreImm64(OUT + 8, VALUE)).ok
    assert bench.r64(OUT, 3) == [0, VALUE, 0]


def test_refsi_store_imm_address(bench: Bench) -> None:
    text = f"write of 8 bytes at {NOWHERE:#x}: no memory there"
    refused(bench, "store-imm-address", text, flag(0), flag(0), StoreImm64(NOWHERE, 1))
    text = (
        "write of 8 bytes at 0x14000000 through window 1 (PER_HART 0x14000000..0x14080000) as the CMP, "
        "which has no hart_id"
    )
    refused(bench, "window-per-hart", text, StoreImm64(PER_HART_WINDOW, 1))


def test_refsi_store_imm_32_bit(bench: Bench) -> None:
    high = window(2, 1 << 32, PHYSICAL, 0x1000)
    assert bench.run(*high, StoreImm64(0xBFFF_FFF8, 1), WriteReg64(0, 2), StoreReg64(0, 1 << 32)).ok
    assert bench.r64(0xBFFF_FFF8) + bench.r64(PHYSICAL) == [1, 2]
    with pytest.raises(WireError, match="STORE_IMM64: DST_ADDR_LO is 0x100000000, expected a 32-bit address") as caught:
        CommandBuffer().store_imm64(1 << 32, 3)
    assert caught.value.rule is rules.STORE_IMM_32_BIT


def test_refsi_store_imm_dma(bench: Bench) -> None:
    """The same registers at the same addresses as a kernel uses, with the same effect."""
    bench.device.write(SOURCE, PATTERN[:16])
    assert bench.run(*transfer(8)).ok
    assert bench.run(*bench.kernel("k_dmahb", SOURCE + 8, TARGET + 8)).ok
    assert bench.device.read(TARGET, 24) == PATTERN[:16] + bytes(8)


# ---- COPY_MEM64


@pytest.mark.parametrize("count", [0, 1, 5])
def test_refsi_copy_mem64(bench: Bench, count: int) -> None:
    bench.device.write(SOURCE, PATTERN)
    assert bench.run(CopyMem64(count, SOURCE + 3, TARGET)).ok
    assert bench.device.read(TARGET, 48) == PATTERN[3 : 3 + 8 * count] + bytes(48 - 8 * count)


def test_refsi_copy_one_by_one(bench: Bench) -> None:
    bench.device.write(SOURCE, PATTERN[:64])
    assert bench.run(CopyMem64(4, SOURCE, SOURCE + 8)).ok
    assert bench.device.read(SOURCE, 48) == PATTERN[:8] * 5 + PATTERN[40:48], "each element after the one before"
    assert bench.run(*bench.kernel("k_empty"), CopyMem64(3, PERF_COUNTERS_BASE, OUT, 3 << 24)).ok
    assert bench.r64(OUT, 3) == [1, 0, 1], "registers of 8 bytes each"


def test_refsi_copy_address(bench: Bench) -> None:
    refused(bench, "copy-address", "read of 16 bytes at 0x100: no memory there", CopyMem64(2, NOWHERE, OUT))
    bench.device.write(SOURCE, PATTERN[:16])
    text = "write of 16 bytes at 0xbffffff8 exceeds the bounds of DRAM (0x40000000..0xc0000000)"
    refused(bench, "copy-address", text, flag(0), CopyMem64(2, SOURCE, 0xBFFF_FFF8))
    assert bench.r64(0xBFFF_FFF8) == [0], "nothing is copied"


def test_refsi_copy_unit(bench: Bench) -> None:
    assert bench.run(*bench.kernel(bench.code("sd a0, 0(sp); jalr zero, 0(ra)"), instances=2, stack=0x1407_0000)).ok
    assert bench.run(CopyMem64(1, 0x1407_0000, OUT, HART_1)).ok
    assert bench.r64(OUT) == [1], "what hart 1 stored in its own memory"
    text = (
        "COPY_MEM64: UNIT 0x5000000 is not a unit ID, expected a kind of 0..4 in bits 31-24 and an index in bits 15-0"
    )
    refused_words(bench, "copy-unit", text, CopyMem64(1, OUT, OUT, 5 << 24).encode())
