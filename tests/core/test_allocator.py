"""Addresses of device memory allocations: first fit, from the top down."""

from hypothesis import given
from hypothesis import strategies as st

from softcard.core.allocations import Allocator
from softcard.device.refsi.registers import DRAM_BASE, DRAM_SIZE


def fresh() -> Allocator:
    return Allocator(DRAM_BASE, DRAM_SIZE)


def test_addresses_come_from_the_top() -> None:
    memory = fresh()
    assert memory.allocate(0x7FF0000, 4096) == 0xB801_0000, "where the reference's hosts find their executable"
    assert memory.allocate(0x200_0000 * 16, 4096) == 0x9801_0000
    assert memory.allocate(1, 1) == 0x9800_FFFF
    assert memory.allocate(0, 256) == 0x9800_FF00, "size 0 counts as 1; alignment rounds down"


def test_the_lowest_free_block_is_tried_first() -> None:
    memory = Allocator(0x1000, 0x1000)
    low, high = 0x1E00, 0x1F00
    assert memory.allocate(0x100) == high
    assert memory.allocate(0x100) == low
    memory.free(high)
    assert memory.allocate(0x80) == 0x1D80, "the block below has the lower address"
    assert memory.allocate(0x1000) == 0
    assert memory.allocate(0xD80) == 0x1000
    assert memory.allocate(0x100) == high, "the last hole"
    assert memory.allocate(1) == 0


def test_what_alignment_wastes_belongs_to_the_block_above() -> None:
    memory = Allocator(0x1000, 0x1000)
    assert memory.allocate(0x10, 0x100) == 0x1F00
    assert memory.blocks() == [(0x1000, 0xF00, True), (0x1F00, 0x100, False)]
    assert memory.allocate(0x10) == 0x1EF0


def test_bad_requests_give_nothing() -> None:
    memory = Allocator(0x1000, 0x1000)
    assert memory.allocate(1 << 64) == 0
    assert memory.allocate(0x1001) == 0
    assert memory.allocate(8, 0) == 0
    memory.free(0)
    memory.free(0x1234)
    assert memory.blocks() == [(0x1000, 0x1000, True)]


@given(st.lists(st.tuples(st.integers(0, 600), st.sampled_from([1, 8, 64, 256]), st.booleans()), max_size=30))
def test_blocks_never_overlap_and_everything_comes_back(requests: list[tuple[int, int, bool]]) -> None:
    memory = Allocator(0x1_0000, 0x2000)
    held: dict[int, int] = {}
    for size, alignment, keep in requests:
        address = memory.allocate(size, alignment)
        if not address:
            continue
        end = address + max(size, 1)
        assert address % alignment == 0
        assert 0x1_0000 <= address < end <= 0x1_2000
        assert all(end <= other or other + length <= address for other, length in held.items())
        if keep:
            held[address] = max(size, 1)
        else:
            memory.free(address)
    saved = memory.snapshot()
    for address in held:
        memory.free(address)
    assert memory.blocks() == [(0x1_0000, 0x2000, True)]
    memory.restore(saved)
    assert memory.snapshot() == saved


def test_reserved_memory_is_never_given_out() -> None:
    allocator = Allocator(0x1000, 0x1000)
    assert allocator.reserve(0x1800, 0x100)
    assert [allocator.allocate(0x700) for _ in range(3)] == [0x1100, 0x1900, 0]
    assert not allocator.reserve(0x18FF, 1)
    assert not allocator.reserve(0x10FF, 2)
    assert allocator.reserve(0x1000, 0x100)
    allocator.free(0x1000)
    allocator.free(0x1800)
    allocator.free(0x1100)
    allocator.free(0x1900)
    assert allocator.blocks() == [(0x1000, 0x1000, True)]
    assert allocator.reserve(0x1000, 0x1000)
    assert allocator.blocks() == [(0x1000, 0x1000, False)]
    for address, size in ((0, 1), (0x2000, 1), (0x1FFF, 2), (0xFFF, 2)):
        assert not Allocator(0x1000, 0x1000).reserve(address, size)
    assert Allocator(0x1000, 0x1000).reserve(0x1FFF, 0)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 70), st.integers(1, 20)), max_size=30))
def test_reserved_and_allocated_blocks_never_overlap(calls: list[tuple[bool, int, int]]) -> None:
    allocator = Allocator(10, 50)
    taken: dict[int, int] = {}
    for is_reserved, address, size in calls:
        if address in taken:
            allocator.free(address)
            del taken[address]
            continue
        start = address if is_reserved else allocator.allocate(size)
        free = all(start + size <= other or other + length <= start for other, length in taken.items())
        if is_reserved:
            assert allocator.reserve(start, size) == (free and start >= 10 and start + size <= 60)
            if not free or not (start >= 10 and start + size <= 60):
                continue
        elif not start:
            continue
        assert free
        taken[start] = size
    for start in taken:
        allocator.free(start)
    assert allocator.blocks() == [(10, 50, True)]


@given(st.lists(st.tuples(st.sampled_from("arf"), st.integers(0, 70), st.sampled_from([1, 2, 8])), max_size=60))
def test_allocations_are_in_the_first_free_block_that_is_large_enough(calls: list[tuple[str, int, int]]) -> None:
    allocator = Allocator(16, 64)
    for kind, number, alignment in calls:
        if kind == "r":
            allocator.reserve(number, alignment)
        elif kind == "f":
            blocks = allocator.blocks()
            allocator.free(blocks[number % len(blocks)][0])
        else:
            ends = [(start, start + size) for start, size, is_free in allocator.blocks() if is_free]
            size = max(number, 1)
            found = (end - size & -alignment for start, end in ends if end - size & -alignment >= start)
            assert allocator.allocate(number, alignment) == next(found, 0)
