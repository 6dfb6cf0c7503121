"""The DMA controller of the `spec` profile: registers, asynchrony, waits, and what others are told."""

import pytest

from softcard.device.refsi.events import DmaTransfer, RegisterAccess
from softcard.device.refsi.interfaces import COMMAND_PROCESSOR, HOST
from softcard.device.refsi.registers import (
    DMA_CTRL,
    WINDOW_MODE,
)
from softcard.device.refsi.spec.dma import LAST_ID
from softcard.device.refsi.spec.events import DmaHazard
from softcard.device.refsi.spec.memory import SpecMemory
from tests.device.refsi.spec.rig import PATTERN, SOURCE, TARGET, WINDOW, Dma, hart, moved, open_window, patterned


@pytest.fixture
def memory():
    return patterned()


@pytest.fixture
def dma(memory):
    return Dma(memory)


# ---- registers


def test_refsi_dma_context_of_every_unit(memory, dma):
    dma["DMASRCADDR"] = 0xAA
    Dma(memory, hart(0))["DMASRCADDR"] = 0xBB
    assert [Dma(memory, unit)["DMASRCADDR"] for unit in (COMMAND_PROCESSOR, hart(0), hart(1), HOST)] == [
        0xAA,
        0xBB,
        0,
        0,
    ]


def test_refsi_dma_start_reads_zero(dma):
    dma["DMACTRL"] = 0x10
    assert dma["DMACTRL"] == 0x10
    assert dma["DMASTARTSEQ"] == 0
    dma.start(8, 1, strides="both", by=(8, 8), to=(8, 8))
    assert dma["DMACTRL"] == 0xE0


def test_refsi_dma_startseq_ro(dma):
    dma["DMASTARTSEQ"] = 0x37
    assert dma["DMASTARTSEQ"] == 0


def test_refsi_dma_startseq_counts_per_unit(memory, dma):
    assert [dma.start(8, target=TARGET + 8 * k) for k in range(3)] == [1, 2, 3]
    assert Dma(memory, hart(0)).start(8, target=TARGET + 24) == 1


@pytest.mark.parametrize("sizes", [(0,), (8, 0), (8, 2, 0), (0, 2)])
def test_refsi_dma_size_zero(memory, dma, sizes):
    assert dma.start(*sizes, source=0x100) == 0
    memory.flush()
    assert moved(memory) == bytes(64)


# ---- asynchrony


def test_refsi_dma_async_moves_nothing_until_waited_for(memory, dma):
    number = dma.start(8)
    assert moved(memory, 8) == bytes(8)
    memory.write(SOURCE, b"newbytes", HOST)
    dma["DMADONESEQ"] = number
    assert moved(memory, 8) == b"newbytes"


def test_refsi_dma_async_completes_at_idle(memory, dma):
    dma.start(8)
    Dma(memory, hart(2)).start(8, target=TARGET + 8)
    memory.flush()
    assert moved(memory, 16) == PATTERN[:8] * 2
    assert dma["DMADONESEQ"] == 1


def test_refsi_dma_immediate():
    memory = SpecMemory(dma="immediate")
    memory.write(SOURCE, PATTERN, HOST)
    dma = Dma(memory)
    dma.start(8)
    assert moved(memory, 8) == PATTERN[:8]
    assert dma["DMADONESEQ"] == 1


def test_refsi_dma_pending_keeps_its_registers_and_windows(memory, dma):
    open_window(memory)
    dma.start(8, target=WINDOW)
    dma["DMASRCADDR"] = 0
    dma["DMAXFERSIZE0"] = 0
    memory.window_register(WINDOW_MODE.offset, 0)
    dma["DMADONESEQ"] = 1
    assert moved(memory, 8) == PATTERN[:8]


def test_refsi_dma_wait_covers_lower_ids_only(memory, dma):
    for k in range(3):
        dma.start(8, target=TARGET + 8 * k)
    dma["DMADONESEQ"] = 2
    assert moved(memory, 24) == PATTERN[:8] * 2 + bytes(8)


@pytest.mark.parametrize("number", [3, 1 << 31, (1 << 64) - 1])
def test_refsi_dma_wait_all(memory, dma, number):
    dma.start(8)
    dma.start(8, target=TARGET + 8)
    dma["DMADONESEQ"] = number
    assert moved(memory, 16) == PATTERN[:8] * 2
    assert dma["DMADONESEQ"] == 2


def test_refsi_dma_wait_of_completed_or_no_transfers_returns(dma):
    dma["DMADONESEQ"] = 0
    dma["DMADONESEQ"] = 5
    assert dma["DMADONESEQ"] == 0


def test_refsi_dma_wait_does_not_cover_other_units(memory, dma):
    dma.start(8)
    Dma(memory, hart(0))["DMADONESEQ"] = 1
    assert moved(memory, 8) == bytes(8)


def test_refsi_dma_doneseq_reads_complete_one_transfer_each(memory, dma):
    for k in range(2):
        dma.start(8, target=TARGET + 8 * k)
    assert dma["DMADONESEQ"] == 1
    assert moved(memory, 16) == PATTERN[:8] + bytes(8)
    assert dma["DMADONESEQ"] == 2
    assert dma["DMADONESEQ"] == 2


def test_refsi_dma_order_is_not_that_of_the_starts(memory, dma):
    dma.start(8)
    dma["DMADONESEQ"] = dma.start(8, source=TARGET, target=TARGET + 8)
    assert moved(memory, 16) == PATTERN[:8] + bytes(8)


def test_refsi_dma_id_overflow(memory, dma):
    context = memory.dma.context(COMMAND_PROCESSOR)
    context.started = context.done = LAST_ID - 1
    assert [dma.start(8, target=TARGET + 8 * k) for k in range(3)] == [LAST_ID, 1, 2]
    dma["DMADONESEQ"] = 1
    assert moved(memory, 24) == bytes(8) + PATTERN[:8] + bytes(8)
    assert context.done == LAST_ID - 1
    dma["DMADONESEQ"] = LAST_ID
    assert context.done == 2
    assert moved(memory, 24) == PATTERN[:8] * 3


# ---- what others are told


def test_dma_reports_its_probes_and_engines(memory, dma):
    events, writes = [], []
    memory.telemetry.probes.subscribe(events.append)
    memory.on_write = lambda host, size: writes.append(size)
    memory.telemetry.clock = lambda: 77
    dma.run(8, 2, strides="both", by=(32, 0), to=(16, 0))
    (event,) = [event for event in events if isinstance(event, DmaTransfer)]
    assert event == DmaTransfer(77, COMMAND_PROCESSOR, 1, SOURCE, TARGET, (8, 2), (32,), (16,))
    accesses = [event for event in events if isinstance(event, RegisterAccess)]
    assert accesses[0] == RegisterAccess(77, COMMAND_PROCESSOR, "DMA", 3, SOURCE, True)
    assert RegisterAccess(77, COMMAND_PROCESSOR, "DMA", DMA_CTRL.offset, 0xE1, True) in accesses
    assert RegisterAccess(77, COMMAND_PROCESSOR, "DMA", 1, 1, False) in accesses
    assert writes == [24]


@pytest.mark.parametrize(
    ("second", "kind"),
    [
        ({"source": TARGET, "target": TARGET + 64}, "read-after-write"),
        ({"source": TARGET + 64, "target": SOURCE}, "write-after-read"),
        ({"source": SOURCE + 64, "target": TARGET + 4}, "write-after-write"),
    ],
)
def test_dma_reports_hazards_between_outstanding_transfers(memory, dma, second, kind):
    events = []
    memory.telemetry.probes.subscribe(events.append)
    dma.start(8)
    Dma(memory, hart(3)).start(8, **second)
    hazards = [event for event in events if isinstance(event, DmaHazard)]
    assert hazards == [DmaHazard(0, hart(3), 1, COMMAND_PROCESSOR, 1, kind)]
    memory.flush()
    Dma(memory, hart(3)).start(8, **second)
    assert len([event for event in events if isinstance(event, DmaHazard)]) == 1
