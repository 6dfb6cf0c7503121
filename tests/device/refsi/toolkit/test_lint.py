"""The linter: one finding per mistake, none for what real hosts submit."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softcard.device.refsi.commands import LoadReg64, StoreImm64, WriteReg64
from softcard.device.refsi.toolkit.builder import CommandBuffer
from softcard.device.refsi.toolkit.lint import CHECKS, Finding, Severity, lint

RECORDINGS = Path(__file__).parents[3] / "vectors" / "refsi"
DRAM = 0x5000_0000
CTRL = 0x2000_2000


def buffer() -> CommandBuffer:
    return CommandBuffer()


def hart_window(into: CommandBuffer, **changes: int) -> CommandBuffer:
    given = {"base": 0x1400_0000, "target": 0x1020_0000, "size": 0x80000, "scale": 0x80000} | changes
    return into.window(1, mode="PER_HART", **given)


def kernel(target: CommandBuffer, **changes: int) -> CommandBuffer:
    given = {"entry": 0x10000, "stack_top": 0x1408_0000, "return_address": 0x6007_7000} | changes
    return target.kernel(given["entry"], stack_top=given["stack_top"], return_address=given["return_address"])


def ready() -> CommandBuffer:
    return kernel(hart_window(buffer()))


def slice_(size: int, kargs: tuple[int, int], tsd: tuple[int, int] = (0, 0), **harts: int) -> CommandBuffer:
    return ready().uniform_block(DRAM, size, kargs=kargs, tsd=tsd).run_kernel_slice(4, **harts).finish()


MISTAKES: dict[str, tuple[Callable[[], CommandBuffer], str, int]] = {
    "header-packet-id": (lambda: buffer().chunks(0x80000000).finish(), "packet identifier (bits 31-30) is 2", 0),
    "header-reserved": (lambda: buffer().chunks(0xC0000001).finish(), "reserved bits 7-0 are 0x1", 0),
    "header-opcode": (lambda: buffer().nop().chunks(0xC0000A00).finish(), "unknown opcode 10", 8),
    "header-count": (
        lambda: buffer().chunks(0x300C0060800, 1, 2, 3).finish(),
        "announces 3 payload chunks, expected 4",
        0,
    ),
    "chunks": (lambda: buffer().chunks(0xC0020200), "the buffer ends after 0", 0),
    "zero-extension": (lambda: ready().chunks(0x800C0020800, 1).finish(), "bits 0x800 outside of its fields", 112),
    "copy-unit": (lambda: buffer().chunks(0x1C0060600, DRAM, DRAM, 1 << 40).finish(), "is not a unit ID", 0),
    "sync-flags": (lambda: buffer().sync_cache(0xFC).finish(), "flags 0xfc name caches that do not exist", 0),
    "nop": (lambda: buffer().nop().finish(), "the document has no opcode 0", 0),
    "finish-missing": (lambda: buffer().write_reg64(0, 1), "does not end with FINISH", 16),
    "chunks-after-finish": (
        lambda: buffer().finish().write_reg64(0, 1),
        "the last 2 chunks of the command buffer are never read, since FINISH comes before them",
        8,
    ),
    "register": (lambda: buffer().add(WriteReg64(40, 1)).finish(), "no CMP register 40, expected 0 .. 6 or 8 .. 39", 0),
    "register-reserved": (
        lambda: buffer().write_reg64("CMP_KARGS_INFO", 5).finish(),
        "reserved bits 0x5 of CMP_KARGS_INFO are set",
        0,
    ),
    "entry-32-bit": (lambda: buffer().write_reg64(1, 1 << 32).finish(), "0x100000000 does not fit 32 bits", 0),
    "address": (lambda: buffer().store_imm64(0x100, 1).finish(), "DST_ADDR_LO 0x100 is in no memory", 0),
    "register-access": (lambda: buffer().store_imm64(CTRL + 4, 1).finish(), "inside a memory-mapped register", 0),
    "copy-alignment": (lambda: buffer().copy_mem64(1, DRAM + 4, DRAM).finish(), "0x50000004 is not a multiple of 8", 0),
    "copy-range": (
        lambda: buffer().copy_mem64(2, 0xBFFF_FFF8, DRAM).finish(),
        "0x10 bytes at SRC_ADDR 0xbffffff8 exceed the end of the memory at 0xc0000000",
        0,
    ),
    "counter-unit": (lambda: buffer().copy_mem64(1, 0x2010_0000, DRAM).finish(), "expected a hart (kind 3)", 0),
    "window-order": (
        lambda: hart_window(buffer()).write_reg64("CMP_REG_WINDOW_BASE1", 0x1500_0000).finish(),
        "CMP_REG_WINDOW_BASE1 is written while window 1 is active",
        64,
    ),
    "window-load": (lambda: buffer().load_reg64(8, DRAM).finish(), "CMP_REG_WINDOW_BASE0 is loaded from memory", 0),
    "window-mode": (lambda: buffer().write_reg64(24, 6).finish(), "window mode 3 is reserved", 0),
    "window-per-core": (lambda: buffer().write_reg64(24, 4).finish(), "aborts at window mode PER_CORE", 0),
    "window-interleave": (lambda: buffer().write_reg64(24, 8).finish(), "ignores INTERLEAVE and STRIDE", 0),
    "window-alignment": (
        lambda: buffer().window(0, base=0x3000_0100, target=DRAM, size=0x1000).finish(),
        "window 0 has a base of 0x30000100",
        48,
    ),
    "window-target": (
        lambda: buffer().window(0, base=0x3000_0000, target=0, size=0x1000).finish(),
        "window 0 has target 0x0, where there is no memory",
        48,
    ),
    "window-overlap": (
        lambda: buffer().window(0, base=0x1000_0000, target=DRAM, size=0x1000).finish(),
        "window 0 at 0x10000000..0x10001000 overlaps TCDM",
        48,
    ),
    "window-scale": (
        lambda: hart_window(buffer(), scale=0x1000).finish(),
        "0x80000 bytes every 0x1000: the areas of harts overlap",
        48,
    ),
    "window-sync": (
        lambda: ready().run_instances(4).close_window(1).run_instances(4).finish(),
        "window 1 was changed after a kernel ran, without a SYNC_CACHE",
        144,
    ),
    "max-harts": (lambda: ready().run_instances(4, max_harts=5).finish(), "MAX_HARTS 5 exceeds the device's 4", 112),
    "no-instances": (lambda: ready().run_instances(0).finish(), "NUM_INSTANCES is 0: nothing runs", 112),
    "run-registers": (
        lambda: buffer().write_reg64(1, 0x10000).run_instances(1).finish(),
        "this buffer does not set CMP_STACK_TOP, CMP_RETURN_ADDR",
        16,
    ),
    "entry-zero": (
        lambda: kernel(hart_window(buffer()), entry=0).run_instances(1).finish(),
        "CMP_ENTRY_PT_FN is 0",
        112,
    ),
    "stack-alignment": (lambda: buffer().write_reg64(5, 0x1408_0008).finish(), "not a multiple of 16", 0),
    "stack-shared": (
        lambda: kernel(buffer(), stack_top=DRAM).run_instances(4).finish(),
        "stack top 0x50000000 is plain memory: all harts share one stack",
        48,
    ),
    "kernel-sync": (
        lambda: ready().run_instances(4).copy_mem64(1, DRAM, DRAM + 8).finish(),
        "COPY_MEM64 reads memory after RUN_INSTANCES without a SYNC_CACHE",
        128,
    ),
    "kub-range": (lambda: slice_(256, (200, 100)), "KARGS ends at 0x12c, past the 0x100 bytes", 160),
    "kub-missing": (
        lambda: ready().write_reg64("CMP_KARGS_INFO", KARGS_SIZE=8).run_kernel_slice(4).finish(),
        "CMP_KARGS_INFO is set, but this buffer does not set CMP_KUB_DESC",
        128,
    ),
    "tsd-share": (
        lambda: slice_(0x100000, (0, 0), (0, 0x80001)),
        "TSD_SIZE 0x80001 exceeds the 0x80000 bytes of TCDM",
        160,
    ),
    "dma-control": (lambda: buffer().store_imm64(CTRL, 1).wait_dma().finish(), "started with dimension 0", 0),
    "dma-planes": (lambda: buffer().store_imm64(CTRL, 0x31).wait_dma().finish(), "lets its third dimension overlap", 0),
    "dma-wait": (lambda: buffer().dma_1d(DRAM, DRAM + 64, 8).finish(), "without a wait for its last DMA transfer", 64),
}


def checks(findings: list[Finding]) -> set[str]:
    return {finding.check for finding in findings}


@pytest.mark.parametrize("check", MISTAKES)
def test_one_mistake_one_finding(check: str) -> None:
    make, text, offset = MISTAKES[check]
    findings = lint(make().to_bytes())
    (found,) = [finding for finding in findings if finding.check == check]
    assert text in found.message
    assert found.offset == offset
    assert found.chunk == offset // 8
    assert found.severity is CHECKS[check]
    assert checks(findings) - {check} <= {"nop", "finish-missing"}


def test_every_check_has_its_mistake() -> None:
    assert set(MISTAKES) | {"trailing-bytes"} == set(CHECKS)


def test_trailing_bytes() -> None:
    findings = lint(buffer().write_reg64(0, 1).to_bytes() + b"abc")
    assert [(found.check, found.offset) for found in findings] == [("trailing-bytes", 16), ("finish-missing", 16)]
    assert findings[0].message == "the last 3 bytes are not a whole chunk of 8 bytes"


@pytest.mark.parametrize(
    ("make", "check", "text"),
    [
        (lambda: buffer().chunks(0xC0030200, 5).finish(), "header-count", "is 3, expected an even number"),
        (lambda: buffer().chunks(0xC0020100, 5).finish(), "header-count", "FINISH: count announces 1 payload chunks"),
        (lambda: buffer().write_reg64(7 + 1, 0).add(WriteReg64(7, 0)).finish(), "register", "no CMP register 7"),
        (lambda: buffer().add(LoadReg64(99, DRAM)).finish(), "register", "no CMP register 99"),
        (lambda: buffer().store_imm64(0x2000_20F8, 1).finish(), "register-access", "0x200020f8 is not a DMA register"),
        (lambda: buffer().add(StoreImm64(0xBFFF_FFFC, 1)).finish(), "address", "exceeds the end of DRAM"),
        (lambda: buffer().store_imm64(CTRL, 0x51).wait_dma().finish(), "dma-control", "1D transfer is started"),
        (lambda: buffer().store_imm64(CTRL, 0x113).wait_dma().finish(), "dma-control", "reserved bits 0x102"),
        (lambda: ready().dma_1d(DRAM, DRAM + 64, 8).run_instances(1).finish(), "dma-wait", "kernel runs while a DMA"),
        (lambda: buffer().copy_mem64(1, DRAM, DRAM, 0x3000004).finish(), "counter-unit", "hart 4, but the device has"),
        (lambda: hart_window(buffer(), target=0x1030_0000).finish(), "window-target", "reaches up to 0x10500000"),
        (lambda: buffer().write_reg64(24, 1).finish(), "window-order", "before this buffer has written its BASE"),
        (lambda: buffer().write_reg64(24, 0x80).finish(), "register-reserved", "0x80 of the window's MODE"),
        (lambda: slice_(256, (0, 0), (200, 100)), "kub-range", "TSD ends at 0x12c"),
        (lambda: hart_window(hart_window(buffer()).close_window(1)).window(
            2, base=0x1404_0000, target=DRAM, size=0x1000).finish(), "window-overlap", "overlaps window 1"),
    ],
)  # fmt: skip
def test_other_forms(make: Callable[[], CommandBuffer], check: str, text: str) -> None:
    messages = [finding.message for finding in lint(make().to_bytes()) if finding.check == check]
    assert any(text in message for message in messages), messages


def test_good_buffers_are_clean() -> None:
    good = ready().dma_2d(DRAM, DRAM + 4096, (8, 4)).wait_dma().sync_cache().run_instances(4, DRAM).sync_cache()
    good.copy_mem64(32, 0x2010_0000, DRAM, 3 << 24).finish()
    assert lint(good.to_bytes()) == []
    assert lint(slice_(256, (0, 64), (64, 64)).to_bytes()) == []
    assert (
        lint(ready().run_instances(4).sync_cache().close_window(1).sync_cache().run_instances(4).finish().to_bytes())
        == []
    )


def test_addresses_in_open_windows_are_known() -> None:
    assert lint(hart_window(buffer()).store_reg64(0, 0x1400_0000).finish().to_bytes()) == []


def test_harts_of_a_larger_device() -> None:
    data = ready().run_instances(4, max_harts=8).finish().to_bytes()
    assert "max-harts" not in checks(lint(data, harts=8))


def test_windows_of_the_reference_host_are_clean_in_its_profile() -> None:
    script = json.loads((RECORDINGS / "1D_32_bytes.json").read_text())["script"]
    data = struct.pack("<17Q", *(int(word, 0) for word in script[1].split()[1:]))
    assert lint(data, profile="refsidrv") == []
    assert checks(lint(data)) == {"window-target"}  # the document's scale is twice as large: hart 3 leaves TCDM


def test_text_of_a_finding() -> None:
    (found,) = lint(buffer().store_imm64(0x100, 1).finish().to_bytes())
    assert str(found) == (
        "warning: address: DST_ADDR_LO 0x100 is in no memory and in no window that this buffer opens, "
        "at byte 0x0, chunk 0 (STORE_IMM64) [refsi/store-imm-address: STORE_IMM64 command (Opcode: 5)]"
    )


def test_severities_are_ordered_words() -> None:
    assert [severity.value for severity in Severity] == ["error", "warning", "note"]


HEADERS = (0xC0000100, 0xC0020200, 0x18C0020200, 0xC0060600, 0xC0040700, 0x7C0100800)
WORDS = st.sampled_from(HEADERS) | st.integers(0, (1 << 64) - 1)


@settings(max_examples=150, deadline=None)
@given(st.lists(WORDS, max_size=20), st.binary(max_size=7))
def test_any_bytes_are_survived(words: list[int], rest: bytes) -> None:
    for finding in lint(struct.pack(f"<{len(words)}Q", *words) + rest):
        assert finding.check in CHECKS


def test_recorded_buffers_are_survived() -> None:
    for path in sorted(RECORDINGS.glob("*.json")):
        for line in json.loads(path.read_text())["script"]:
            if line.startswith("cb "):
                words = [int(word, 0) for word in line.split()[1:]]
                lint(struct.pack(f"<{len(words)}Q", *words), profile="refsidrv")
