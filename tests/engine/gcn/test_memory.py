"""The memory of waves: mappings, accesses, faults, and the page table that translated code reads."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softcard.core.errors import AccessFault, ModelBug
from softcard.core.space import PAGE_SIZE, Ram, Unit
from softcard.engine.gcn.memory import (
    COARSE,
    COLUMNS,
    ENTRIES,
    LIMIT,
    MASK64,
    Effects,
    GpuMemory,
    MemoryType,
    Mtype,
    Plain,
)
from softcard.engine.gcn.reference.lane_atomic import LaneAtomics

PAGE = PAGE_SIZE


class Register:
    """A region of four bytes that counts what happens to it."""

    size = 8

    def __init__(self) -> None:
        self.log: list[tuple[str, int, object]] = []

    def read(self, offset: int, size: int, unit: Unit) -> bytes:
        if offset >= 4:
            raise AccessFault("reserved", address=offset, access="read")
        self.log.append(("read", offset, size))
        return bytes([0xA0 + offset + k for k in range(size)])

    def write(self, offset: int, data: bytes, unit: Unit) -> None:
        self.log.append(("write", offset, data))

    def host_address(self, offset: int, unit: Unit) -> int | None:
        return None


def words_of(memory: GpuMemory, address: int) -> tuple[int, int, int, int]:
    """The row of an address as translated code finds it, through host addresses alone."""
    level1 = (ctypes.c_uint64 * ENTRIES).from_address(memory.tables_address)
    level2 = level1[address >> 30]
    if not level2:
        return 0, 0, 0, 0
    row = (ctypes.c_uint64 * COLUMNS).from_address(level2 + (address >> 12 & ENTRIES - 1) * COLUMNS * 8)
    return row[0], row[1], row[2], row[3]


def test_plain_memory_is_shared_without_a_copy() -> None:
    memory, data = GpuMemory(), np.zeros(PAGE, np.uint8)
    memory.map(0x10_0000, data)
    memory.write(0x10_0010, b"abc")
    assert data[0x10:0x13].tobytes() == b"abc"
    data[0x20] = 7
    assert memory.read(0x10_001F, 3) == b"\0\7\0"


@pytest.mark.parametrize("what", [bytearray(64), memoryview(bytearray(64)), np.zeros(16, np.uint32), Ram(64)])
def test_any_writable_buffer_can_be_mapped(what: object) -> None:
    memory = GpuMemory()
    memory.map(0x1000, what)
    memory.write(0x1000 + 60, b"wxyz")
    assert memory.read(0x1000 + 60, 4) == b"wxyz"


def test_a_row_holds_addend_and_extent() -> None:
    memory, ram = GpuMemory(), Ram(4 * PAGE)
    memory.map(0x7F00_0000_0000, ram)
    expected = (ram.base_host - 0x7F00_0000_0000) & MASK64, 0x7F00_0000_0000, 4 * PAGE, 4 * PAGE
    for page in range(4):
        assert words_of(memory, 0x7F00_0000_0000 + page * PAGE) == expected
    assert words_of(memory, 0x7F00_0000_0000 + 4 * PAGE) == (0, 0, 0, 0)
    assert memory.row(0x7F00_0000_0FFF) == expected


def test_edge_pages_have_the_row_of_the_extent() -> None:
    memory, data = GpuMemory(), np.zeros(3 * PAGE, np.uint8)
    memory.map(0x10_0100, data)
    for page in range(4):
        assert words_of(memory, 0x10_0000 + page * PAGE)[1:] == (0x10_0100, 3 * PAGE, 3 * PAGE)
    assert words_of(memory, 0x10_0000 + 4 * PAGE) == words_of(memory, 0x10_0000 - 1) == (0, 0, 0, 0)
    memory.write(0x10_0100, b"x")
    memory.write(0x10_0100 + 3 * PAGE - 1, b"y")
    assert data[0] == ord("x")
    assert data[-1] == ord("y")


def test_read_only_memory_has_no_store_extent() -> None:
    memory = GpuMemory()
    memory.map(0x10_0000, bytes(PAGE), writable=False, name="code")
    assert memory.row(0x10_0000)[2:] == (PAGE, 0)
    with pytest.raises(AccessFault) as caught:
        memory.write(0x10_0004, b"1234")
    assert str(caught.value) == "write of 4 bytes at 0x100004: code is read-only"
    assert caught.value.address == 0x10_0004


def test_neighbours_with_one_addend_are_one_extent() -> None:
    memory, ram = GpuMemory(), Ram(4 * PAGE)
    half = 2 * PAGE + 0x80
    memory.map(0x10_0000, ram.view[:half], name="low")
    assert words_of(memory, 0x10_0000 + 2 * PAGE)[1:] == (0x10_0000, half, half)
    memory.map(0x10_0000 + half, ram.view[half:], name="high")
    for page in range(4):
        assert words_of(memory, 0x10_0000 + page * PAGE)[1:] == (0x10_0000, 4 * PAGE, 4 * PAGE)
    memory.write(0x10_0000 + half - 2, b"abcd")
    assert memory.read(0x10_0000 + half - 2, 4) == b"abcd"
    memory.unmap(0x10_0000)
    assert words_of(memory, 0x10_0000) == words_of(memory, 0x10_0000 + PAGE) == (0, 0, 0, 0)
    for page in (2, 3):
        assert words_of(memory, 0x10_0000 + page * PAGE)[1:] == (0x10_0000 + half, 2 * PAGE - 0x80, 2 * PAGE - 0x80)


def test_unmapping_in_the_middle_leaves_both_sides() -> None:
    memory, ram = GpuMemory(), Ram(6 * PAGE)
    for page in (0, 2, 4):
        memory.map(0x10_0000 + page * PAGE, ram.view[page * PAGE : (page + 2) * PAGE])
    memory.unmap(0x10_0000 + 2 * PAGE)
    assert memory.row(0x10_0000)[1:] == (0x10_0000, 2 * PAGE, 2 * PAGE)
    assert memory.row(0x10_0000 + 2 * PAGE) == (0, 0, 0, 0)
    assert memory.row(0x10_0000 + 4 * PAGE)[1:] == (0x10_0000 + 4 * PAGE, 2 * PAGE, 2 * PAGE)


def test_an_extent_may_cross_a_level_2_table() -> None:
    memory, ram = GpuMemory(), Ram(4 * PAGE)
    base = (1 << 30) - 2 * PAGE
    memory.map(base, ram)
    assert words_of(memory, base) == words_of(memory, 1 << 30)
    assert words_of(memory, base)[1:] == (base, 4 * PAGE, 4 * PAGE)


def test_regions_with_effects_are_read_and_written_through() -> None:
    memory, region = GpuMemory(), Register()
    memory.map(0x10_0000, region, name="doorbell")
    assert memory.row(0x10_0000) == (0, 0, 0, 0)
    assert memory.read(0x10_0001, 2) == b"\xa1\xa2"
    memory.write(0x10_0000, b"1234")
    assert region.log == [("read", 1, 2), ("write", 0, b"1234")]


def test_the_fault_of_a_region_names_the_guest_address_and_the_region() -> None:
    memory = GpuMemory()
    memory.map(0x10_0000, Register(), name="doorbell")
    with pytest.raises(AccessFault) as caught:
        memory.read(0x10_0004, 4)
    assert str(caught.value) == "reserved, at doorbell 0x100000"
    assert caught.value.address == 0x10_0004


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (0x10_0000 + PAGE, "read of 8 bytes at 0x101000: no memory there, heap ends at 0x101000"),
        (0x10_0000 + PAGE - 4, "read of 8 bytes at 0x100ffc: no memory there, heap ends at 0x101000"),
        (0x10_0000 - 8, "read of 8 bytes at 0xffff8: no memory there, heap begins at 0x100000"),
        (0, "read of 8 bytes at 0x0: no memory there"),
        (LIMIT, "read of 8 bytes at 0x1000000000000: the address exceeds the 48 bits of the address space"),
        (MASK64, "read of 8 bytes at 0xffffffffffffffff: the address exceeds the 48 bits of the address space"),
    ],
)
def test_faults_say_what_is_near(address: int, text: str) -> None:
    memory = GpuMemory()
    memory.map(0x10_0000, bytearray(PAGE), name="heap")
    with pytest.raises(AccessFault) as caught:
        memory.read(address, 8)
    assert str(caught.value) == text
    assert caught.value.access == "read"


def test_a_write_that_faults_stores_nothing() -> None:
    memory, data = GpuMemory(), bytearray(16)
    memory.map(0x1000, data)
    with pytest.raises(AccessFault):
        memory.write(0x1000 + 12, bytes(range(8)))
    assert not any(data)


def test_an_access_may_span_mappings_with_different_addends() -> None:
    memory, low, high = GpuMemory(), bytearray(16), bytearray(16)
    memory.map(0x1000, low)
    memory.map(0x1010, high)
    memory.write(0x100E, b"abcd")
    assert memory.read(0x100D, 6) == b"\0abcd\0"
    assert bytes(low[-2:]) == b"ab"


def test_an_address_space_may_be_smaller() -> None:
    memory = GpuMemory(32)
    memory.map(0xFFFF_F000, bytearray(4096))
    with pytest.raises(ModelBug, match="must lie below 0x100000000"):
        memory.map(0x1_0000_0000, bytearray(4096))
    with pytest.raises(
        AccessFault, match="read of 4 bytes at 0x100000000: the address exceeds the 32 bits of the address space"
    ):
        memory.read(0x1_0000_0000, 4)


def test_mistakes_in_mapping_are_refused() -> None:
    memory = GpuMemory()
    memory.map(0x1000, bytearray(0x100), name="first")
    with pytest.raises(ModelBug, match=r"second at 0x10ff\.\.0x1110 overlaps first at 0x1000\.\.0x1100"):
        memory.map(0x10FF, bytearray(0x11), name="second")
    with pytest.raises(ModelBug, match="must lie below 0x1000000000000"):
        memory.map(LIMIT - 1, bytearray(2))
    with pytest.raises(ModelBug, match="must lie below"):
        memory.map(-4, bytearray(2))
    with pytest.raises(ModelBug, match="must have at least one byte"):
        memory.map(0x5000, bytearray(0))
    with pytest.raises(ModelBug, match="its buffer is read-only"):
        memory.map(0x5000, bytes(4))
    with pytest.raises(ModelBug, match="must be a contiguous buffer, a Ram or a Region"):
        memory.map(0x5000, object())
    with pytest.raises(ModelBug, match="must be a contiguous buffer"):
        memory.map(0x5000, np.zeros((4, 4), np.uint8)[:, :2])
    with pytest.raises(ModelBug, match="cannot unmap 0x1004"):
        memory.unmap(0x1004)
    assert [mapped.name for mapped in memory] == ["first"]


def test_version_counts_changes() -> None:
    memory = GpuMemory()
    memory.map(0x1000, bytearray(4))
    memory.unmap(0x1000)
    assert memory.version == 2


code_ranges = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12), st.booleans(), st.booleans()), max_size=12)


@settings(max_examples=60, deadline=None)
@given(code_ranges)
def test_rows_say_exactly_what_can_be_reached_directly(items: list[tuple[int, int, bool, bool]]) -> None:
    """For every page: its row is that of the run of plain memory that has most of it, the first of equals."""
    unit, base = 0x400, (1 << 30) - 20 * PAGE
    ram, memory, owner = Ram(64 * unit), GpuMemory(), {}
    for start, count, writable, unmap in items:
        if any(k in owner for k in range(start, min(start + count, 64))):
            continue
        end = min(start + count, 64)
        mapped = memory.map(base + start * unit, ram.view[start * unit : end * unit], writable=writable)
        if unmap:
            memory.unmap(mapped.base)
        else:
            owner.update(dict.fromkeys(range(start, end), writable))
    for page in range(64 * unit // PAGE):
        cells = range(page * 4, page * 4 + 4)
        runs = [[k for k in cells if _run_of(owner, k) == run] for run in {_run_of(owner, k): 0 for k in cells} if run]
        row = memory.row(base + page * PAGE)
        assert row == words_of(memory, base + page * PAGE)
        if not runs:
            assert row == (0, 0, 0, 0)
            continue
        first = max(runs, key=len)[0]
        low, high = _run_of(owner, first)
        size = (high - low) * unit
        assert row == ((ram.base_host - base) & MASK64, base + low * unit, size, size if owner[first] else 0)


def _run_of(owner: dict[int, bool], cell: int) -> tuple[int, ...]:
    """First and last + 1 of the cells around one that are as it is; nothing where it is empty."""
    if cell not in owner:
        return ()
    low = high = cell
    while owner.get(low - 1) == owner[cell]:
        low -= 1
    while owner.get(high) == owner[cell]:
        high += 1
    return low, high


def test_plain_finds_memory_without_effects_only() -> None:
    memory = GpuMemory()
    memory.map(0x1000, bytearray(16))
    memory.map(0x2000, Register())
    memory.map(0x3000, bytes(16), writable=False)
    assert isinstance(memory.plain(0x1004, 12), Plain)
    assert memory.plain(0x1004, 13) is None
    assert memory.plain(0x2000, 1) is None
    assert memory.plain(0x3000, 1) is not None
    assert memory.plain(0x3000, 1, store=True) is None


class Elsewhere:
    """A completer that takes additions."""

    def check(self, kind: str, bits: int, address: int) -> None:
        if kind != "add":
            raise AccessFault(f"no {kind} there", address=address, access="atomic")

    def update(self, kind: str, bits: int, host: int, value: int, compare: int) -> int:
        cell = ctypes.c_uint32.from_address(host)
        cell.value += value
        return cell.value - value


def test_read_modify_writes_go_to_a_completer() -> None:
    """Such memory is no run with its neighbours, and translated code only loads there."""
    memory, ram = GpuMemory(), Ram(3 * PAGE)
    theirs = MemoryType(Mtype.UC, Elsewhere())
    for page in range(3):
        part = ram.view[page * PAGE : (page + 1) * PAGE]
        memory.map(0x10_0000 + page * PAGE, part, type=theirs if page == 1 else COARSE)
    assert [memory.row(0x10_0000 + page * PAGE)[2:] for page in range(3)] == [(PAGE, PAGE), (PAGE, 0), (PAGE, PAGE)]
    lanes = LaneAtomics(memory)
    assert lanes.scalar_atomic("global", "add", 32, 0x10_1000, 5) == 0
    assert memory.read(0x10_1000, 4) == b"\5\0\0\0"
    with pytest.raises(AccessFault, match="no umax there"):
        lanes.scalar_atomic("global", "umax", 32, 0x10_1000, 9)
    with pytest.raises(AccessFault, match="the address must be a multiple of "):
        lanes.scalar_atomic("global", "add", 32, 0x10_1002, 9)


class Sized(Register):
    """Likewise, of any size."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size


def test_regions_are_split_into_what_fills_their_place() -> None:
    memory, region, parts = GpuMemory(), Sized(0x3000), [np.zeros(0x1000, np.uint8) for _ in range(2)]
    memory.map(0x10000, region, name="whole")
    memory.split(0x10000, [(0x10000, parts[0]), (0x11000, Sized(0x1000)), (0x12000, parts[1])], name="part")
    parts[1][5] = 7
    assert memory.read(0x12005, 1) == b"\7"
    assert [each.name for each in memory] == ["part"] * 3
    assert isinstance(memory.find(0x11800), Effects)
    with pytest.raises(ModelBug, match="cannot split 0x10000: no region begins there"):
        memory.split(0x10000, [])
    with pytest.raises(ModelBug, match=r"gap must fill 0x11000\.\.0x12000"):
        memory.split(0x11000, [(0x11000, np.zeros(0x800, np.uint8))], name="gap")
