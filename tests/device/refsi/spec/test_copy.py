"""COPY_MEM64 in the `spec` profile."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard.core.errors import AccessFault, BeyondModel
from softcard.device.refsi.interfaces import COMMAND_PROCESSOR, HOST
from softcard.device.refsi.registers import (
    DMA_BASE,
    DRAM_BASE,
    DRAM_SIZE,
    TCDM_BASE,
    WINDOW_BASE,
    WINDOW_MODE,
    WINDOW_TARGET,
)
from softcard.device.refsi.spec.memory import SpecMemory
from tests.device.refsi.spec.rig import TARGET, WINDOW, hart, refused, words
from tests.device.refsi.spec.rig import open_window as open_any_window

DRAM_END = DRAM_BASE + DRAM_SIZE


open_window = partial(open_any_window, size=0x2000)


@pytest.fixture
def memory():
    return SpecMemory()


def test_refsi_copy_mem64(memory):
    memory.write(TARGET, words(1, 2, 3), HOST)
    memory.copy64(TARGET, TCDM_BASE, 3, HOST)
    assert memory.read(TCDM_BASE, 32, HOST) == words(1, 2, 3, 0)


def test_refsi_copy_unit_reads_as_that_hart(memory):
    open_window(memory, scale=(12, 0), MODE="PER_HART")
    memory.write(WINDOW, words(0xE1), hart(1))
    memory.copy64(WINDOW, TCDM_BASE, 1, hart(1))
    assert memory.read(TCDM_BASE, 8, HOST) == words(0xE1)
    refused(
        lambda: memory.copy64(TCDM_BASE, WINDOW, 1, hart(1)),
        "window-per-hart",
        "write of 8 bytes at 0x30000000 through window 0 (PER_HART 0x30000000..0x30002000) as the CMP, "
        "which has no hart_id",
    )


def test_refsi_copy_address_is_checked_before_anything_is_copied(memory):
    memory.write(TARGET, words(1, 2), HOST)
    with pytest.raises(AccessFault, match="exceeds the bounds of DRAM"):
        memory.copy64(TARGET, DRAM_END - 8, 2, HOST)
    assert memory.read(DRAM_END - 8, 8, HOST) == words(0)


def test_refsi_copy_last_bytes_of_a_window(memory):
    open_window(memory)
    memory.write(TARGET + 0x1FF8, words(5), HOST)
    memory.copy64(WINDOW + 0x1FF8, TCDM_BASE, 1, HOST)
    assert memory.read(TCDM_BASE, 8, HOST) == words(5)


def one_by_one(data, source, target, count):
    for k in range(0, 8 * count, 8):
        data[target + k : target + k + 8] = data[source + k : source + k + 8]


@given(st.integers(0, 64), st.integers(0, 64), st.integers(0, 12), st.booleans(), st.booleans())
def test_refsi_copy_one_by_one(source, target, count, by_source, by_target):
    memory = _copied
    memory.write(TARGET, bytes(range(1, 201)), HOST)
    for number, used in ((0, by_source), (1, by_target)):
        memory.window_register(WINDOW_BASE.offset + number, WINDOW + 0x1000 * number)
        memory.window_register(WINDOW_TARGET.offset + number, TARGET)
        mode = WINDOW_MODE.encode(ACTIVE=int(used), SIZE=0xFFF)
        memory.window_register(WINDOW_MODE.offset + number, mode)
    expected = bytearray(range(1, 201))
    one_by_one(expected, source, target, count)
    first = (WINDOW if by_source else TARGET) + source
    second = (WINDOW + 0x1000 if by_target else TARGET) + target
    memory.copy64(first, second, count, HOST)
    assert memory.read(TARGET, 200, HOST) == expected


_copied = SpecMemory()


def test_refsi_copy_one_by_one_through_an_interleaved_window():
    memory = SpecMemory()
    open_window(memory, MODE="PER_HART", INTERLEAVE=1, STRIDE=3)
    memory.write(TARGET, words(*range(16)), HOST)
    memory.copy64(WINDOW, TCDM_BASE, 3, hart(1))
    assert memory.read(TCDM_BASE, 24, HOST) == words(1, 5, 9)
    memory.copy64(WINDOW, TARGET + 8 * 5, 3, hart(1))
    assert memory.read(TARGET, 64, HOST) == words(0, 1, 2, 3, 4, 1, 1, 9)


def test_copy_mem64_of_very_many_overlapping_elements_is_beyond_the_model(memory):
    with pytest.raises(
        BeyondModel,
        match="COPY_MEM64 of 1048577 elements with overlapping source and destination is modelled only with at most "
        "1048576",
    ):
        memory.copy64(TARGET, TARGET + 4, (1 << 20) + 1, HOST)
    memory.write(TARGET, words(7, 8), HOST)
    memory.copy64(TARGET, TARGET + 16, 1 << 20, HOST)
    assert memory.read(TARGET + (1 << 23), 16, HOST) == words(7, 8)


def test_refsi_copy_mem64_from_registers(memory):
    memory.write(DMA_BASE + 0x18, words(11), hart(2))
    memory.write(DMA_BASE + 0x20, words(12), hart(2))
    memory.copy64(DMA_BASE + 0x18, TARGET, 2, hart(2))
    assert memory.read(TARGET, 16, HOST) == words(11, 12)
    memory.copy64(TARGET, DMA_BASE + 0x18, 2, HOST)
    assert memory.read(DMA_BASE + 0x20, 8, COMMAND_PROCESSOR) == words(12)


def test_copy_mem64_in_very_many_pieces_is_beyond_the_model(memory):
    open_window(memory, size=1 << 24, MODE="PER_HART", INTERLEAVE=1, STRIDE=0)
    with pytest.raises(
        BeyondModel, match=r"COPY_MEM64 would have more than 1048576 pieces in the interleaved window 0"
    ):
        memory.copy64(WINDOW, TCDM_BASE, 1 << 18, hart(0))
