"""Copying many elements at once gives what copying them one by one gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard.core.errors import AccessFault
from softcard.core.space import Ram
from softcard.device.refsi.counters import PerfCounters
from softcard.device.refsi.interfaces import HOST
from softcard.device.refsi.refsidrv.memory import RefsidrvMemory, copy_elements
from softcard.device.refsi.registers import DRAM_BASE, WINDOW_MODE

PATTERN = bytes((37 * k + k // 7) & 0xFF for k in range(600))


@given(st.integers(0, 200), st.integers(0, 200), st.integers(0, 40))
def test_copy_elements(first: int, into: int, count: int) -> None:
    ram = Ram(600)
    ram.view[:] = PATTERN
    expected = bytearray(PATTERN)
    for k in range(0, 8 * count, 8):
        expected[into + k : into + k + 8] = expected[first + k : first + k + 8]
    copy_elements((ram, first), (ram, into), count)
    assert bytes(ram.view) == bytes(expected)


@pytest.mark.parametrize("distance", range(1, 9))
def test_small_distances(distance: int) -> None:
    test_copy_elements.hypothesis.inner_test(0, distance, 40)  # type: ignore[attr-defined]


def test_a_large_copy_is_quick_and_the_last_element_of_a_window_still_refused() -> None:
    memory = RefsidrvMemory(PerfCounters(lambda index: None))
    memory.write(DRAM_BASE, b"12345678", HOST)
    memory.copy64(DRAM_BASE, DRAM_BASE + 8, 1 << 20, HOST)
    assert memory.read(DRAM_BASE + (8 << 20), 8, HOST) == b"12345678"
    memory.window_register(8, 0x30000000)
    memory.window_register(16, DRAM_BASE)
    memory.window_register(24, WINDOW_MODE.encode(ACTIVE=1, SIZE=0xFFF))
    with pytest.raises(AccessFault, match="read of 8 bytes at 0x30000ff8 is refused"):
        memory.copy64(0x30000000, DRAM_BASE + 0x10000000, 0x200, HOST)
    assert memory.read(DRAM_BASE + 0x10000FF0, 16, HOST) == b"12345678" + bytes(8)
