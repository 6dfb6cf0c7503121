"""Plain memory as a DMA port."""

import pytest

from softcard.core.errors import AccessFault, ModelBug
from softcard.core.pci import DirectRange, DmaPort, PlainMemory


@pytest.fixture
def memory():
    return PlainMemory((0x9000, 0x1000), (0x1000, 0x2000))


def test_reads_and_writes_in_every_range(memory: DmaPort):
    memory.write(0x1FFE, b"abcd")
    memory.write(0x9FFC, b"efgh")
    assert memory.read(0x1FFF, 2) == b"bc"
    assert memory.read(0x9FFC, 4) == b"efgh"


@pytest.mark.parametrize(("address", "size"), [(0, 1), (0xFFF, 2), (0x2FFF, 2), (0x8FFF, 1), (0xA000, 1), (1 << 64, 8)])
def test_what_is_no_memory_is_refused(memory, address, size):
    with pytest.raises(AccessFault, match=f"read of {size} bytes at {address:#x}: no memory there"):
        memory.read(address, size)
    with pytest.raises(AccessFault, match="no memory there"):
        memory.write(address, bytes(size))
    with pytest.raises(AccessFault, match="there is no memory at this address"):
        memory.view(address, size)


def test_direct_ranges_are_sorted_and_stay_the_same_object(memory):
    ranges = memory.direct()
    assert [(each.base, each.end) for each in ranges] == [(0x1000, 0x3000), (0x9000, 0xA000)]
    assert memory.direct() is ranges
    ranges[1].view[5] = 7
    assert memory.read(0x9005, 1) == b"\7"
    assert not ranges[0].view.readonly


def test_views_share_the_memory(memory):
    memory.view(0x1800, 4)[:] = b"wxyz"
    assert memory.read(0x1800, 4) == b"wxyz"
    memory.clear()
    assert memory.read(0x1800, 4) == bytes(4)


def test_ranges_may_not_overlap():
    with pytest.raises(ModelBug, match="overlaps RAM"):
        PlainMemory((0, 0x2000), (0x1000, 0x1000))


def test_the_end_of_a_range_counts_bytes():
    assert DirectRange(0x100, memoryview(bytearray(32))).end == 0x120
