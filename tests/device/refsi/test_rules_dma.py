"""Rules of the DMA controller, by commands and kernels; see also `tests/device/refsi/spec/test_dma_waits.py`."""

from __future__ import annotations

import pytest

from softcard.device.refsi.commands import Command, CopyMem64, StoreImm64
from softcard.device.refsi.registers import DMA_BASE
from tests.device.refsi.m1 import OUT, Bench
from tests.device.refsi.rig import PATTERN, SOURCE, TARGET, dma, read_dma, refused, transfer

LOOK = CopyMem64(8, TARGET, OUT)
"""What is at the destination at this moment goes to OUT."""


@pytest.fixture(autouse=True)
def pattern(bench: Bench) -> None:
    bench.device.write(SOURCE, PATTERN)


def moved(bench: Bench, *commands: Command, size: int = 64, at: int = TARGET) -> bytes:
    """The first bytes of the destination after `commands`."""
    assert bench.run(*commands).ok
    return bench.device.read(at, size)


def rows(*starts: int, length: int = 8) -> bytes:
    return b"".join(PATTERN[start : start + length] for start in starts)


# ---- registers


def test_refsi_dma_context(bench: Bench) -> None:
    """What the CMP writes no hart sees, and the other way round."""
    source = DMA_BASE + 8 * 3
    harts = [*bench.kernel("k_peek", source, OUT, instances=4), *bench.kernel("k_poke", source, 0xBB, instances=4)]
    assert bench.run(dma("DMASRCADDR", 0xAA), *harts, *read_dma("DMASRCADDR", OUT + 64)).ok
    assert bench.r64(OUT, 9) == [0, 0, 0, 0, 0, 0, 0, 0, 0xAA]


@pytest.mark.parametrize("index", [12, 31])
def test_refsi_dma_register(bench: Bench, index: int) -> None:
    text = f"write of DMA register {index}: write in the reserved range 0xc..0x1f of DMA"
    refused(bench, "dma-register", text, StoreImm64(DMA_BASE + 8 * index, 1))


def test_refsi_dma_source(bench: Bench) -> None:
    refused(bench, "dma-source", "DMA source: read of 8 bytes at 0x100: no memory there", *transfer(8, source=0x100))
    text = "DMA source: 0x20002000 lies in DMA, which holds registers, expected memory"
    refused(bench, "dma-source", text, *transfer(8, source=DMA_BASE))


def test_refsi_dma_destination(bench: Bench) -> None:
    text = "DMA destination: write of 24 bytes at 0xbffffff0 exceeds the bounds of DRAM (0x40000000..0xc0000000)"
    refused(bench, "dma-destination", text, *transfer(8, 3, target=0xBFFF_FFF0))
    assert bench.r64(0xBFFF_FFF0, 2) == [0, 0], "nothing moves"
    text = "DMA destination: 0x20002008 lies in DMA, which holds registers, expected memory"
    refused(bench, "dma-destination", text, *transfer(8, target=DMA_BASE + 8))


def test_refsi_dma_ctrl_reserved(bench: Bench) -> None:
    for bits in (0x2, 0x8, 0x100, 1 << 63):
        text = f"DMA: DMACTRL = {0x10 | bits:#x}: bits {bits:#x} are reserved, expected 0"
        refused(bench, "dma-ctrl-reserved", text, dma("DMACTRL", 0x10 | bits))


def test_refsi_dma_start(bench: Bench) -> None:
    *settings, start = transfer(8)
    assert moved(bench, *settings, dma("DMACTRL", 0x10), size=8) == bytes(8), "bit 0 was not set"
    assert moved(bench, start, *read_dma("DMACTRL"), size=8) == PATTERN[:8]
    assert bench.r64(OUT) == [0x10]


def test_refsi_dma_startseq(bench: Bench) -> None:
    again = dma("DMACTRL", 0x11)
    assert bench.run(*transfer(8), again, *read_dma("DMASTARTSEQ"), again, *read_dma("DMASTARTSEQ", OUT + 8)).ok
    assert bench.run(*bench.kernel("k_peek", DMA_BASE + 8, OUT + 16)).ok
    assert bench.r64(OUT, 3) == [2, 3, 0], "a hart has started none"


def test_refsi_dma_startseq_ro(bench: Bench) -> None:
    assert bench.run(*transfer(8), dma("DMASTARTSEQ", 77), *read_dma("DMASTARTSEQ")).ok
    assert bench.r64(OUT) == [1]


# ---- shapes


def test_refsi_dma_size(bench: Bench) -> None:
    assert moved(bench, *transfer(5)) == PATTERN[:5] + bytes(59)
    assert moved(bench, *transfer(4, 3, target=TARGET + 64), at=TARGET + 64) == PATTERN[:12] + bytes(52)
    assert moved(bench, *transfer(3, 2, 5, target=TARGET + 128), at=TARGET + 128) == PATTERN[:30] + bytes(34)


@pytest.mark.parametrize("sizes", [(0,), (8, 0), (8, 2, 0)])
def test_refsi_dma_size_zero(bench: Bench, sizes: tuple[int, ...]) -> None:
    assert moved(bench, *transfer(*sizes, source=0x100), *read_dma("DMASTARTSEQ")) == bytes(64)
    assert bench.r64(OUT) == [0]


def test_refsi_dma_stride(bench: Bench) -> None:
    both = transfer(8, 2, strides="both", by=(24, 0), to=(16, 0))
    assert moved(bench, *both, size=24) == rows(0) + bytes(8) + rows(24)
    source = transfer(8, 2, 2, strides="source", by=(16, 64), to=(1, 1), target=TARGET + 64)
    assert moved(bench, *source, size=32, at=TARGET + 64) == rows(0, 16, 64, 80)


def test_refsi_dma_sequential(bench: Bench) -> None:
    target = transfer(8, 2, 2, strides="target", by=(1, 1), to=(8, 24))
    assert moved(bench, *target, size=40) == rows(0, 8) + bytes(8) + rows(16, 24)
    assert moved(bench, *transfer(8, 4, target=TARGET + 64), size=32, at=TARGET + 64) == PATTERN[:32]


def test_refsi_dma_dimension(bench: Bench) -> None:
    text = "DMA: the dimension of the transfer is 0, expected 1, 2 or 3"
    refused(bench, "dma-dimension", text, *transfer(8)[:-1], dma("DMACTRL", 1))


@pytest.mark.parametrize("strides", ["source", "target", "both"])
def test_refsi_dma_stride_1d(bench: Bench, strides: str) -> None:
    refused(
        bench,
        "dma-stride-1d",
        "DMA: the dimension of the transfer is 1, expected 2 or 3 with STRIDE_SRC or STRIDE_DST",
        *transfer(8, strides=strides),
    )


def test_refsi_dma_overlap(bench: Bench) -> None:
    text = "DMA: the source 0x54000000..0x54000040 and the destination 0x54000008..0x54000048 overlap"
    refused(bench, "dma-overlap", text, *transfer(64, target=SOURCE + 8))
    woven = transfer(8, 4, target=SOURCE + 8, strides="both", by=(16, 0), to=(16, 0))
    assert moved(bench, *woven, at=SOURCE) == rows(0, 0, 16, 16, 32, 32, 48, 48), "no byte in common"


def test_refsi_dma_rows(bench: Bench) -> None:
    for stride in (4, 7):
        strides = f"the stride is {stride:#x} to the next row and 0x10 to the next slice"
        text = f"DMA: the destination rows of 8 bytes overlap each other: {strides}"
        refused(bench, "dma-rows", text, *transfer(8, 2, strides="target", to=(stride, 0)))


# ---- when


def test_refsi_dma_pending(bench: Bench) -> None:
    changed = [dma("DMASRCADDR", 0), dma("DMADSTADDR", 0), dma("DMAXFERSIZE0", 1), dma("DMACTRL", 0x20)]
    assert moved(bench, *transfer(8), *changed, size=8) == PATTERN[:8]


def test_refsi_dma_async(bench: Bench) -> None:
    late = StoreImm64(SOURCE, 7)
    assert bench.run(*transfer(16), LOOK, late, dma("DMADONESEQ", 1), CopyMem64(2, TARGET, OUT + 64)).ok
    assert bench.r64(OUT, 2) == [0, 0], "not before the wait"
    assert bench.device.read(OUT + 64, 16) == late.imm_val.to_bytes(8, "little") + PATTERN[8:16]


def three() -> list[Command]:
    """Start three transfers of 8 bytes, to TARGET, TARGET + 8 and TARGET + 16."""
    return [command for k in range(3) for command in transfer(8, source=SOURCE + 8 * k, target=TARGET + 8 * k)]


def test_refsi_dma_doneseq(bench: Bench) -> None:
    assert bench.run(*three(), *read_dma("DMADONESEQ", OUT + 64), LOOK).ok
    (done,) = bench.r64(OUT + 64)
    assert bench.device.read(OUT, 24) == PATTERN[: 8 * done] + bytes(24 - 8 * done)
    assert bench.run(*read_dma("DMADONESEQ")).ok
    assert bench.r64(OUT) == [3], "an idle device has done everything"


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_refsi_dma_wait(bench: Bench, number: int) -> None:
    assert bench.run(*three(), dma("DMADONESEQ", number), LOOK).ok
    assert bench.device.read(OUT, 24) == PATTERN[: 8 * number] + bytes(24 - 8 * number)


@pytest.mark.parametrize("number", [4, (1 << 64) - 1])
def test_refsi_dma_wait_all(bench: Bench, number: int) -> None:
    assert bench.run(*three(), dma("DMADONESEQ", number), LOOK).ok
    assert bench.device.read(OUT, 24) == PATTERN[:24]
