"""The DMA controller of the `spec` profile: shapes, and every refusal to start a transfer."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from softcard.core.errors import AccessFault, BeyondModel
from softcard.device.refsi.interfaces import HOST
from softcard.device.refsi.registers import (
    DMA_BASE,
    DRAM_BASE,
    DRAM_SIZE,
)
from softcard.device.refsi.spec.memory import SpecMemory
from softcard.device.refsi.spec.transfer import Shape, rows_overlap
from tests.device.refsi.spec.rig import (
    PATTERN,
    SOURCE,
    TARGET,
    WINDOW,
    Dma,
    hart,
    moved,
    open_window,
    patterned,
    refused,
)


@pytest.fixture
def memory():
    return patterned()


@pytest.fixture
def dma(memory):
    return Dma(memory)


# ---- shapes


def test_refsi_dma_size_1d(memory, dma):
    dma.run(32)
    assert moved(memory) == PATTERN[:32] + bytes(32)


def test_refsi_dma_stride_2d_both(memory, dma):
    dma.run(8, 3, strides="both", by=(24, 0), to=(16, 0))
    rows = [PATTERN[24 * row :][:8] + bytes(8) for row in range(3)]
    assert moved(memory, 48) == b"".join(rows)


def test_refsi_dma_stride_source_zero_repeats_a_row(memory, dma):
    dma.run(8, 3, strides="source")
    assert moved(memory, 32) == PATTERN[:8] * 3 + bytes(8)


def test_refsi_dma_stride_source_zero_repeats_planes(memory, dma):
    dma.run(8, 2, 3, strides="source", by=(16, 0))
    assert moved(memory, 48) == (PATTERN[:8] + PATTERN[16:24]) * 3


def test_refsi_dma_sequential_3d(memory, dma):
    dma.run(8, 2, 2)
    assert moved(memory) == PATTERN[:32] + bytes(32)


def test_refsi_dma_sequential_source_of_a_3d_transfer(memory, dma):
    dma.run(8, 2, 2, strides="target", to=(16, 40))
    row = [PATTERN[8 * k :][:8] for k in range(4)]
    gap = bytes(8)
    assert moved(memory, 72) == row[0] + gap + row[1] + gap + gap + row[2] + gap + row[3] + gap


def test_refsi_dma_stride_is_not_used_outside_its_mode(memory, dma):
    dma.run(8, 2, by=(1, 1), to=(1, 1))
    assert moved(memory, 24) == PATTERN[:16] + bytes(8)


STRIDE = st.integers(0, 60)


@given(
    st.integers(1, 12),
    st.integers(1, 5),
    st.integers(1, 4),
    st.sampled_from(["", "source", "target", "both"]),
    st.tuples(STRIDE, STRIDE),
    st.tuples(STRIDE, STRIDE),
    st.integers(1, 3),
    st.integers(0, 300),
)
def test_refsi_dma_agrees_with_copying_byte_by_byte(length, rows, planes, mode, by, to, dimension, distance):
    """Transfers inside one buffer: either each byte is where it belongs, or the right rule refused it."""
    assume(dimension > 1 or not mode)
    memory = _shared
    memory.write(SOURCE, PATTERN[:1024], HOST)
    rows, planes = (rows if dimension > 1 else 1), (planes if dimension > 2 else 1)
    use = {"source": mode in ("source", "both"), "target": mode in ("target", "both")}
    at = {}
    for side, strides in (("source", by), ("target", to)):
        row, plane = strides if use[side] else (length, length * rows)
        at[side] = [p * plane + r * row + i for p in range(planes) for r in range(rows) for i in range(length)]
    reads = at["source"]
    writes = [position + distance for position in at["target"]]
    dma = Dma(memory, hart(1))
    sizes = (length, rows, planes)[:dimension]

    def run():
        dma.run(*sizes, target=SOURCE + distance, strides=mode, by=by, to=to)

    if len(set(writes)) < len(writes):
        with pytest.raises(AccessFault, match=r"destination rows .* overlap") as caught:
            run()
        assert caught.value.rule.id == "refsi/dma-rows"
    elif set(reads) & set(writes):
        with pytest.raises(AccessFault, match=r"source .* and the destination .* overlap") as caught:
            run()
        assert caught.value.rule.id == "refsi/dma-overlap"
    else:
        expected = bytearray(PATTERN[:1024])
        for position, place in zip(reads, writes, strict=True):
            expected[place] = PATTERN[position]
        run()
        assert memory.read(SOURCE, 1024, HOST) == expected


_shared = SpecMemory()


@given(st.integers(1, 9), st.tuples(st.integers(1, 9), st.integers(1, 9)), st.tuples(STRIDE, STRIDE))
def test_refsi_dma_rows_overlap_is_exact(length, counts, strides):
    shape = Shape(length, *counts)
    starts = [r * strides[0] + p * strides[1] for r in range(counts[0]) for p in range(counts[1])]
    places = [start + i for start in starts for i in range(length)]
    assert rows_overlap(shape, strides) == (len(set(places)) < len(places))


def test_many_rows_move_at_once(memory, dma):
    dma.run(1, 1 << 21, strides="both", by=(2, 0), to=(4, 0))
    assert moved(memory, 64) == b"".join(bytes([PATTERN[2 * k], 0, 0, 0]) for k in range(16))


# ---- refusals


@pytest.mark.parametrize("strides", ["source", "target", "both"])
def test_refsi_dma_stride_1d(dma, strides):
    refused(
        lambda: dma.start(8, strides=strides),
        "dma-stride-1d",
        "DMA: the dimension of the transfer is 1, expected 2 or 3 with STRIDE_SRC or STRIDE_DST",
    )
    assert dma["DMASTARTSEQ"] == 0


def test_refsi_dma_overlap(memory, dma):
    refused(
        lambda: dma.start(64, target=SOURCE + 8),
        "dma-overlap",
        "DMA: the source 0x53000000..0x53000040 and the destination 0x53000008..0x53000048 overlap",
    )
    dma.start(64, target=SOURCE + 64)


def test_refsi_dma_overlap_through_a_window(memory, dma):
    open_window(memory, target=SOURCE)
    with pytest.raises(
        AccessFault, match=r"the source 0x53000000\.\.0x53000040 and the destination 0x53000020..0x53000060"
    ):
        dma.start(64, target=WINDOW + 0x20)


def test_refsi_dma_source_bounds_of_the_whole_transfer(memory, dma):
    end = DRAM_BASE + DRAM_SIZE
    refused(
        lambda: dma.start(0x10000, source=end - 0x1000),
        "dma-source",
        "DMA source: read of 65536 bytes at 0xbffff000 exceeds the bounds of DRAM (0x40000000..0xc0000000)",
    )
    refused(
        lambda: dma.start(8, 1 << 62, strides="source", by=(1 << 63, 0)),
        "dma-source",
        f"DMA source: read of {8 + ((1 << 62) - 1 << 63)} bytes at 0x53000000 exceeds the bounds of DRAM "
        "(0x40000000..0xc0000000)",
    )
    assert dma["DMASTARTSEQ"] == 0


def test_refsi_dma_destination_bounds_before_any_byte_moves(memory, dma):
    end = DRAM_BASE + DRAM_SIZE
    refused(
        lambda: dma.start(8, 3, target=end - 16),
        "dma-destination",
        "DMA destination: write of 24 bytes at 0xbffffff0 exceeds the bounds of DRAM (0x40000000..0xc0000000)",
    )
    memory.flush()
    assert moved(memory, 16, end - 16) == bytes(16)


def test_refsi_dma_source_unmapped(dma):
    refused(lambda: dma.start(8, source=0x100), "dma-source", "DMA source: read of 8 bytes at 0x100: no memory there")


def test_refsi_dma_source_registers(dma):
    refused(
        lambda: dma.start(8, source=DMA_BASE),
        "dma-source",
        "DMA source: 0x20002000 lies in DMA, which holds registers, expected memory",
    )


def test_refsi_dma_destination_registers(dma):
    refused(
        lambda: dma.start(8, target=DMA_BASE + 8),
        "dma-destination",
        "DMA destination: 0x20002008 lies in DMA, which holds registers, expected memory",
    )


def test_refsi_window_perms_bind_dma(memory, dma):
    open_window(memory, PERMS=1)
    refused(
        lambda: dma.start(8, target=WINDOW),
        "window-perms",
        "DMA destination: write of 8 bytes at 0x30000000 through window 0 (SHARED 0x30000000..0x30001000): "
        "the window's PERMS 0b001 do not permit writing",
    )


def test_refsi_kub_read_only_for_dma_of_harts(memory, dma):
    memory.protect(TARGET, 0x100)
    refused(
        lambda: Dma(memory, hart(1)).start(8, target=TARGET + 0xF8),
        "kub-read-only",
        "DMA destination: hart 1 writes 8 bytes at 0x540000f8 into the Kernel Uniform Block, which kernels must not "
        "write",
    )
    dma.run(8)


def test_refsi_window_per_hart_addresses_of_dma(memory, dma):
    open_window(memory, MODE="PER_HART", INTERLEAVE=1, STRIDE=3, size=0x100)
    Dma(memory, hart(1)).run(24, target=WINDOW + 4)
    expected = bytearray(96)
    data = PATTERN[:24]
    expected[12:16], expected[40:48], expected[72:80] = data[:4], data[4:12], data[12:20]
    assert moved(memory, 96) == expected
    assert moved(memory, 4, TARGET + 104) == data[20:]
    with pytest.raises(AccessFault, match="as the CMP, which has no hart_id"):
        dma.start(8, target=WINDOW)


def test_refsi_dma_overlap_of_interleaved_windows_is_to_the_byte(memory):
    open_window(memory, MODE="PER_HART", INTERLEAVE=1, STRIDE=3, size=0x100)
    dma = Dma(memory, hart(2))
    dma.run(8, source=WINDOW, target=TARGET + 8)
    with pytest.raises(AccessFault, match="overlap"):
        dma.start(16, source=WINDOW, target=TARGET + 8)


def test_interleaved_dma_in_very_many_pieces_is_beyond_the_model(memory):
    open_window(memory, MODE="PER_HART", INTERLEAVE=1, STRIDE=0, size=1 << 24)
    with pytest.raises(
        BeyondModel, match=r"a DMA transfer would have more than 1048576 pieces in the interleaved window 0"
    ):
        Dma(memory, hart(0)).start((1 << 21) + 1, source=WINDOW)


def test_interwoven_dma_of_very_many_rows_is_beyond_the_model(dma):
    with pytest.raises(
        BeyondModel, match="with interleaved source and destination is modelled only with at most 2\\^20 rows"
    ):
        dma.start(1, 1 << 21, target=SOURCE + 1, strides="both", by=(2, 0), to=(2, 0))


def test_a_transfer_that_a_check_refuses_is_not_under_way(memory, dma):
    """Else it would be refused again in every later kernel."""

    class Refusing:
        def started(self, transfer):
            raise BeyondModel("more rows than a check has room for")

    memory.dma.watch = Refusing()
    with pytest.raises(BeyondModel, match="more rows"):
        dma.start(8, 3, strides="source")
    memory.dma.watch = None
    assert memory.dma.outstanding() == []
    dma.run(32)
    assert moved(memory) == PATTERN[:32] + bytes(32)
