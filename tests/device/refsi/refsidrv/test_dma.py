"""The DMA controller of the profile refsidrv."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard.core.space import Unit
from softcard.device.refsi.counters import PerfCounters
from softcard.device.refsi.events import DmaTransfer, RegisterAccess
from softcard.device.refsi.interfaces import COMMAND_PROCESSOR, HART, HOST
from softcard.device.refsi.refsidrv.devices import ReferenceCrash
from softcard.device.refsi.refsidrv.dma import DmaDevice
from softcard.device.refsi.refsidrv.memory import RefsidrvMemory
from softcard.device.refsi.registers import DMA, DRAM_BASE, DRAM_SIZE

SOURCE, TARGET = DRAM_BASE, DRAM_BASE + 0x1000
STRIDE_DST, STRIDE_SRC = 0x40, 0x80


@pytest.fixture(scope="module")
def shared_memory() -> RefsidrvMemory:
    return RefsidrvMemory(PerfCounters(lambda index: None))


@pytest.fixture
def memory(shared_memory: RefsidrvMemory) -> RefsidrvMemory:
    shared_memory.reset()
    return shared_memory


def start(dma: DmaDevice, control: int, unit: Unit = COMMAND_PROCESSOR, **registers: int) -> bool:
    defaults = {"DMASRCADDR": SOURCE, "DMADSTADDR": TARGET}
    for name, value in (defaults | registers).items():
        assert dma.store(8 * DMA.offset_of(name), value.to_bytes(8, "little"), unit)
    return dma.store(0, (control | 1).to_bytes(8, "little"), unit)


def register(dma: DmaDevice, name: str, unit: Unit = COMMAND_PROCESSOR) -> int:
    data = dma.load(8 * DMA.offset_of(name), 8, unit)
    assert data is not None
    return int.from_bytes(data, "little")


def filled(memory: RefsidrvMemory, size: int = 256) -> bytes:
    data = bytes(range(256))[:size]
    memory.write(SOURCE, data, HOST)
    return data


def test_1d(memory: RefsidrvMemory) -> None:
    data = filled(memory)
    events = []
    cancel = memory.telemetry.probes.subscribe(events.append)
    assert start(memory.dma, 0x10, DMAXFERSIZE0=32)
    cancel()
    assert memory.read(TARGET, 33, HOST) == data[:32] + b"\0"
    assert [register(memory.dma, name) for name in ("DMASTARTSEQ", "DMADONESEQ", "DMACTRL")] == [1, 1, 0x10]
    assert [register(memory.dma, "DMASTARTSEQ", Unit(HART, 0))] == [0], "every unit has its own registers"
    (transfer,) = [event for event in events if isinstance(event, DmaTransfer)]
    assert (transfer.id, transfer.source, transfer.target, transfer.sizes) == (1, SOURCE, TARGET, (32,))
    written = [event.index for event in events if isinstance(event, RegisterAccess) and event.write]
    assert written == [3, 4, 5, 0]


def test_2d_with_both_strides(memory: RefsidrvMemory) -> None:
    data = filled(memory)
    sizes = {"DMAXFERSIZE0": 8, "DMAXFERSIZE1": 3}
    assert start(memory.dma, 0x20 | STRIDE_SRC | STRIDE_DST, DMAXFERSRCSTRIDE0=24, DMAXFERDSTSTRIDE0=16, **sizes)
    expected = data[0:8] + bytes(8) + data[24:32] + bytes(8) + data[48:56] + bytes(8)
    assert memory.read(TARGET, 48, HOST) == expected


def test_2d_broadcast(memory: RefsidrvMemory) -> None:
    data = filled(memory)
    assert start(memory.dma, 0x20 | STRIDE_SRC, DMAXFERSIZE0=8, DMAXFERSIZE1=3, DMAXFERSRCSTRIDE0=0)
    assert memory.read(TARGET, 32, HOST) == data[:8] * 3 + bytes(8)


def test_3d_with_both_strides(memory: RefsidrvMemory) -> None:
    data = filled(memory)
    strides = {"DMAXFERSRCSTRIDE0": 16, "DMAXFERSRCSTRIDE1": 64, "DMAXFERDSTSTRIDE0": 8, "DMAXFERDSTSTRIDE1": 32}
    assert start(memory.dma, 0x30 | STRIDE_SRC | STRIDE_DST, DMAXFERSIZE0=8, DMAXFERSIZE1=2, DMAXFERSIZE2=2, **strides)
    plane = [data[:8] + data[16:24] + bytes(16), data[64:72] + data[80:88] + bytes(16)]
    assert memory.read(TARGET, 64, HOST) == b"".join(plane)


def test_3d_without_strides_overlaps_its_planes(memory: RefsidrvMemory) -> None:
    words = b"".join(bytes([k]) * 8 for k in range(1, 9))
    memory.write(SOURCE, words, HOST)
    assert start(memory.dma, 0x30, DMAXFERSIZE0=8, DMAXFERSIZE1=2, DMAXFERSIZE2=2)
    assert memory.read(TARGET, 24, HOST) == b"\1" * 8 + b"\2" * 8 + b"\3" * 2 + bytes(6)


@pytest.mark.parametrize(
    ("control", "registers"),
    [
        (0x00, {"DMAXFERSIZE0": 8}),
        (0x10 | STRIDE_SRC, {"DMAXFERSIZE0": 8}),
        (0x10 | STRIDE_DST, {"DMAXFERSIZE0": 8}),
        (0x20 | STRIDE_SRC, {"DMAXFERSIZE0": 8, "DMAXFERSIZE1": 2, "DMAXFERSRCSTRIDE0": 7}),
        (0x20 | STRIDE_DST, {"DMAXFERSIZE0": 8, "DMAXFERSIZE1": 2, "DMAXFERDSTSTRIDE0": 0}),
        (0x30 | STRIDE_SRC, {"DMAXFERSIZE0": 8, "DMAXFERSIZE1": 2, "DMAXFERSIZE2": 2}),
        (0x30 | STRIDE_DST, {"DMAXFERSIZE0": 8, "DMAXFERSIZE1": 2, "DMAXFERSIZE2": 2, "DMAXFERDSTSTRIDE0": 8}),
        (0x10, {"DMAXFERSIZE0": 8, "DMASRCADDR": 0x100}),
        (0x10, {"DMAXFERSIZE0": 8, "DMADSTADDR": 0x20002000}),
    ],
)
def test_refused_transfers_get_no_id(memory: RefsidrvMemory, control: int, registers: dict[str, int]) -> None:
    assert not start(memory.dma, control, **registers)
    assert register(memory.dma, "DMASTARTSEQ") == 0
    assert register(memory.dma, "DMACTRL") == control, "the register keeps what was written"


def test_nothing_to_move_gets_no_id(memory: RefsidrvMemory) -> None:
    assert start(memory.dma, 0x10 | STRIDE_SRC, DMAXFERSIZE0=0)
    assert start(memory.dma, 0x30, DMAXFERSIZE0=8, DMAXFERSIZE1=1, DMAXFERSIZE2=0)
    assert register(memory.dma, "DMASTARTSEQ") == 0


def test_waiting(memory: RefsidrvMemory) -> None:
    dma = memory.dma
    assert start(dma, 0x10, DMAXFERSIZE0=8)
    assert dma.store(16, (1).to_bytes(8, "little"), COMMAND_PROCESSOR)
    assert dma.store(16, (1 << 32).to_bytes(8, "little"), COMMAND_PROCESSOR), "IDs have 32 bits"
    assert not dma.store(16, (2).to_bytes(8, "little"), COMMAND_PROCESSOR), "nothing will ever complete it"
    assert dma.store(8, (7).to_bytes(8, "little"), COMMAND_PROCESSOR)
    assert register(dma, "DMASTARTSEQ") == 1, "read-only"


def test_the_stride_of_a_single_plane_may_be_anything(memory: RefsidrvMemory) -> None:
    data = filled(memory)
    sizes = {"DMAXFERSIZE0": 8, "DMAXFERSIZE1": 2, "DMAXFERSIZE2": 1}
    strides = {"DMAXFERSRCSTRIDE0": 16, "DMAXFERSRCSTRIDE1": (1 << 64) - 1}
    assert start(memory.dma, 0x30 | STRIDE_SRC, **sizes, **strides)
    assert memory.read(TARGET, 16, HOST) == data[:8] + data[16:24]
    sizes["DMAXFERSIZE1"] = 1
    assert start(memory.dma, 0x30 | STRIDE_SRC, DMAXFERSRCSTRIDE0=1 << 63, **sizes)


def test_ids_wrap_to_zero(memory: RefsidrvMemory) -> None:
    memory.dma.registers(COMMAND_PROCESSOR)[1] = 0xFFFF_FFFF
    assert start(memory.dma, 0x10, DMAXFERSIZE0=8)
    assert register(memory.dma, "DMADONESEQ") == 0


def test_partial_accesses(memory: RefsidrvMemory) -> None:
    dma = memory.dma
    dma.store(24, (0x1_0000_0002).to_bytes(8, "little"), HOST)
    assert dma.load(24, 4, HOST) == b"\2\0\0\0"
    assert dma.load(28, 4, HOST) == b"\2\0\0\0", "any address inside reaches the register"
    assert dma.load(24, 2, HOST) is None
    assert dma.load(256, 8, HOST) is None
    assert not dma.store(24, bytes(4), HOST)
    assert not dma.store(256, bytes(8), HOST)


def test_overlap_reads_the_whole_row_first(memory: RefsidrvMemory) -> None:
    data = filled(memory)
    assert start(memory.dma, 0x10, DMAXFERSIZE0=64, DMADSTADDR=SOURCE + 8)
    assert memory.read(SOURCE, 72, HOST) == data[:8] + data[:64]


def test_overruns(memory: RefsidrvMemory) -> None:
    end = DRAM_BASE + DRAM_SIZE
    memory.write(end - 4, b"last", HOST)
    memory.write(TARGET, b"?" * 16, HOST)
    assert start(memory.dma, 0x10, DMASRCADDR=end - 4, DMAXFERSIZE0=0x10000)
    assert memory.read(TARGET, 8, HOST) == b"last" + bytes(4)
    assert start(memory.dma, 0x10, DMADSTADDR=end - 2, DMAXFERSIZE0=0x10000, DMASRCADDR=TARGET)
    assert memory.read(end - 4, 4, HOST) == b"lala"
    with pytest.raises(ReferenceCrash, match="a DMA transfer would read 0xfffffffc bytes past the end of a memory"):
        start(memory.dma, 0x10, DMAXFERSIZE0=1 << 32, DMASRCADDR=end - 4)
    big = {"DMAXFERSIZE0": 8, "DMAXFERSIZE1": 1 << 40, "DMAXFERSRCSTRIDE0": 0, "DMASRCADDR": SOURCE}
    with pytest.raises(ReferenceCrash, match="a DMA transfer would write 0x7ff80001000 bytes past the end"):
        start(memory.dma, 0x20 | STRIDE_SRC, **big)


strides = st.integers(0, 40)


@given(
    sizes=st.tuples(st.integers(1, 12), st.integers(1, 4), st.integers(1, 3)),
    source=st.tuples(strides, strides),
    target=st.tuples(strides, strides),
    control=st.sampled_from([0x20, 0x30]),
    flags=st.sampled_from([0, STRIDE_SRC, STRIDE_DST, STRIDE_SRC | STRIDE_DST]),
    distance=st.integers(0, 300),
)
def test_transfers_move_row_by_row(
    shared_memory: RefsidrvMemory,
    sizes: tuple[int, int, int],
    source: tuple[int, int],
    target: tuple[int, int],
    control: int,
    flags: int,
    distance: int,
) -> None:
    memory = shared_memory
    before = bytearray((7 * k + 1) & 0xFF for k in range(1024))
    memory.write(SOURCE, bytes(before), HOST)
    registers = {f"DMAXFERSIZE{k}": size for k, size in enumerate(sizes)}
    registers |= {f"DMAXFERSRCSTRIDE{k}": stride for k, stride in enumerate(source)}
    registers |= {f"DMAXFERDSTSTRIDE{k}": stride for k, stride in enumerate(target)}
    done = start(memory.dma, control | flags, DMADSTADDR=SOURCE + distance, **registers)
    used_source = source if flags & STRIDE_SRC else sizes[:2]
    used_target = target if flags & STRIDE_DST else sizes[:2]
    if done:
        for plane in range(sizes[2] if control == 0x30 else 1):
            for row in range(sizes[1]):
                first = row * used_source[0] + plane * used_source[1]
                into = distance + row * used_target[0] + plane * used_target[1]
                before[into : into + sizes[0]] = before[first : first + sizes[0]]
    assert memory.read(SOURCE, 1024, HOST) == bytes(before)
