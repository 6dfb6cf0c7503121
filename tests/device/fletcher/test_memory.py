"""Device memory: addresses, bounds, and bytes that do not change under those who look at them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard.core.errors import AccessFault, WireError
from softcard.device.fletcher.memory import ALIGNMENT, GUARD, MEMORY_BASE, DeviceMemory, WritableMemory


def test_allocations_are_aligned_and_have_a_page_behind_them() -> None:
    memory = DeviceMemory()
    found = [memory.allocate(size) for size in (12, 3, 0, 4097, 1)]
    assert [hex(each) for each in found] == ["0x100000000", "0x100002000", "0x100004000", "0x100005000", "0x100008000"]
    assert memory.allocated_bytes == 12 + 3 + 4097 + 1
    memory.free(found[1])
    assert memory.allocate(4096) == found[1], "the lowest place that fits"


def test_memory_is_zero_at_first_and_keeps_what_is_written() -> None:
    memory = DeviceMemory()
    address = memory.allocate(8)
    assert memory.read(address, 8) == bytes(8)
    memory.write(address + 2, b"abc")
    assert memory.read(address, 8) == b"\0\0abc\0\0\0"


@pytest.mark.parametrize(
    ("offset", "size", "message"),
    [
        (0, 17, "read of 17 bytes at 0x100000000: only 16 bytes are allocated there"),
        (8, 9, "read of 9 bytes at 0x100000008: only 8 bytes are allocated there"),
        (16, 1, "read of 1 bytes at 0x100000010: no allocation contains this address"),
        (-1, 1, "read of 1 bytes at 0xffffffff: no allocation contains this address"),
        (0, -1, "read of -1 bytes at 0x100000000"),
        (1 << 70, 1, "no allocation contains this address"),
    ],
)
def test_accesses_lie_in_one_allocation(offset: int, size: int, message: str) -> None:
    memory = DeviceMemory()
    base = memory.allocate(16)
    memory.allocate(16)
    with pytest.raises(AccessFault, match=message) as caught:
        memory.read(base + offset, size)
    assert caught.value.address == base + offset


def test_writes_outside_change_nothing() -> None:
    memory = DeviceMemory()
    base = memory.allocate(16)
    with pytest.raises(AccessFault, match="write of 17 bytes"):
        memory.write(base, bytes([1]) * 17)
    assert memory.read(base, 16) == bytes(16)


def test_free_wants_the_start_of_an_allocation() -> None:
    memory = DeviceMemory()
    base = memory.allocate(16)
    with pytest.raises(AccessFault, match="cannot free device address 0x100000008: no allocation starts there"):
        memory.free(base + 8)
    memory.free(base)
    with pytest.raises(AccessFault, match="cannot free device address 0x100000000"):
        memory.free(base)


def test_room_is_bounded() -> None:
    memory = DeviceMemory(size_bytes=2 * (ALIGNMENT + GUARD))
    memory.allocate(1)
    memory.allocate(1)
    with pytest.raises(AccessFault, match="cannot allocate 1 bytes: the 0x4000 bytes"):
        memory.allocate(1)
    with pytest.raises(WireError, match="the size of an allocation is -1 bytes, expected 0 or more"):
        memory.allocate(-1)
    with pytest.raises(AccessFault, match="have no room"):
        DeviceMemory().allocate(1 << 80)
    with pytest.raises(AccessFault, match="the host has not enough memory"):
        DeviceMemory(size_bytes=1 << 62).allocate(1 << 61)


def test_a_host_buffer_is_shared_until_it_is_written() -> None:
    memory = DeviceMemory()
    own = np.arange(4, dtype=np.uint8)
    address = memory.adopt(own)
    own[0] = 9
    assert memory.read(address, 4) == bytes([9, 1, 2, 3]), "no copy"
    memory.write(address, b"\5")
    assert own.tolist() == [9, 1, 2, 3], "the host's bytes stay"
    assert memory.read(address, 4) == bytes([5, 1, 2, 3])


def test_a_pinned_buffer_is_written_in_place() -> None:
    memory = DeviceMemory()
    own = bytearray(4)
    address = memory.adopt(own, pinned=True)
    memory.view(address, 4)
    memory.write(address, b"\1\2\3\4")
    assert own == b"\1\2\3\4"
    state = memory.snapshot()
    memory.write(address, b"\5")
    memory.restore(state)
    assert own == b"\1\2\3\4"
    with pytest.raises(WireError, match="a pinned buffer must be writable, since the device writes to it"):
        memory.adopt(b"abc", pinned=True)


def test_bytes_that_were_lent_do_not_change() -> None:
    memory = DeviceMemory()
    address = memory.allocate(4)
    memory.write(address, b"abcd")
    seen = memory.view(address + 1, 2)
    memory.write(address, b"wxyz")
    assert bytes(seen) == b"bc"
    again = memory.view(address, 4)
    memory.write(address + 1, b"!")
    assert bytes(again) == b"wxyz"
    assert memory.read(address, 4) == b"w!yz"


def test_a_writer_sees_what_it_writes() -> None:
    memory = DeviceMemory()
    address = memory.allocate(4)
    lent = memory.view(address, 4)
    writer = WritableMemory(memory)
    assert writer.extent(address + 1) == 3
    writer.view(address, 2)[:] = b"ab"
    assert bytes(lent) == bytes(4)
    assert memory.read(address, 4) == b"ab\0\0"


def test_extent_counts_to_the_end_of_the_allocation() -> None:
    memory = DeviceMemory()
    base = memory.allocate(10)
    empty = memory.allocate(0)
    assert [memory.extent(base + n) for n in (0, 9, 10)] == [10, 1, None]
    assert memory.extent(empty) == 0


def test_snapshots_keep_everything() -> None:
    memory = DeviceMemory()
    first = memory.allocate(4)
    memory.write(first, b"abcd")
    state = memory.snapshot()
    memory.write(first, b"ABCD")
    second = memory.allocate(4)
    memory.restore(state)
    assert memory.read(first, 4) == b"abcd"
    assert memory.find(second) is None
    memory.write(first, b"xyzw")
    memory.restore(state)
    assert memory.read(first, 4) == b"abcd", "as often as one likes"
    memory.clear()
    assert list(memory) == []


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10000)), max_size=30))
def test_allocations_never_overlap(steps: list[tuple[bool, int]]) -> None:
    memory = DeviceMemory()
    live: dict[int, int] = {}
    for free, number in steps:
        if free and live:
            address = sorted(live)[number % len(live)]
            memory.free(address)
            del live[address]
        else:
            live[memory.allocate(number)] = number
    spans = sorted((base, base + size + GUARD) for base, size in live.items())
    assert all(base >= MEMORY_BASE and base % ALIGNMENT == 0 for base, _ in spans)
    assert all(end <= following for (_, end), (following, _) in pairwise(spans))
