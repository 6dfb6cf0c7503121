"""The performance counter region."""

import pytest

from softcard.core.errors import AccessFault
from softcard.core.space import Unit
from softcard.device.refsi.counters import PerfCounters, clear_counters
from softcard.device.refsi.interfaces import COMMAND_PROCESSOR, HART, HOST
from softcard.isa.riscv import csr
from softcard.isa.riscv.state import RETIRED, Hart

HART0 = Unit(HART, 0)


@pytest.fixture
def hart() -> Hart:
    hart = Hart(0, None)  # type: ignore[arg-type]
    csr.reset(hart)
    clear_counters(hart)
    return hart


@pytest.fixture
def counters(hart: Hart) -> PerfCounters:
    return PerfCounters(lambda index: hart if index == 0 else None)


def value(counters: PerfCounters, slot: int, unit: Unit = HART0) -> int:
    return int.from_bytes(counters.read(8 * slot, 8, unit), "little")


def test_cycles_and_retired_instructions_count(hart: Hart, counters: PerfCounters) -> None:
    hart.words[RETIRED] = 7
    assert [value(counters, slot) for slot in range(4)] == [7, 0, 7, 0]
    assert counters.load(0, 24, HART0) == (7).to_bytes(8, "little") + bytes(8) + (7).to_bytes(8, "little")


def test_writes_take_the_value_less_one(hart: Hart, counters: PerfCounters) -> None:
    hart.words[RETIRED] = 7
    counters.write(16, (1000).to_bytes(8, "little"), HART0)
    hart.words[RETIRED] += 2
    assert value(counters, 2) == 1001
    assert value(counters, 0) == 9
    counters.write(24, (5).to_bytes(8, "little"), HART0)
    counters.write(8, (5).to_bytes(8, "little"), HART0)
    assert (value(counters, 3), value(counters, 1)) == (5, 0), "slot 3 is storage, slot 1 is not supported"
    assert csr.read(hart, 0xB03, 3) == 5


def test_a_turn_shows_at_its_end(hart: Hart, counters: PerfCounters) -> None:
    hart.words[RETIRED] = 7
    counters.begin_time_slice(hart)
    hart.words[RETIRED] = 20
    assert value(counters, 2) == 7
    counters.write(16, (100).to_bytes(8, "little"), HART0)
    counters.end_time_slice()
    assert value(counters, 2) == 99 + 13, "the whole turn is added"


def test_shared_slots_are_storage_for_everybody(counters: PerfCounters) -> None:
    counters.write(8 * 32, b"abcdefgh", HOST)
    assert counters.read(8 * 32, 8, COMMAND_PROCESSOR) == b"abcdefgh"
    counters.reset()
    assert counters.read(8 * 63, 8, HOST) == bytes(8)


def test_harts_that_take_no_part_read_zero(counters: PerfCounters) -> None:
    assert value(counters, 0, Unit(HART, 3)) == 0
    counters.write(0, b"abcdefgh", Unit(HART, 3))


@pytest.mark.parametrize(
    ("offset", "size", "unit"),
    [
        (0, 8, HOST),
        (0, 8, COMMAND_PROCESSOR),
        (4, 8, HART0),
        (0, 4, HART0),
        (0, 0, HART0),
        (8 * 64, 8, HOST),
        (8 * 63, 16, HOST),
    ],
)
def test_refused_reads(counters: PerfCounters, offset: int, size: int, unit: Unit) -> None:
    with pytest.raises(AccessFault, match=f"read of {size} bytes at counter offset {offset:#x}, expected whole 8-byte"):
        counters.read(offset, size, unit)


@pytest.mark.parametrize(("offset", "size", "unit"), [(0, 8, HOST), (0, 16, HART0), (3, 8, HART0), (512, 8, HOST)])
def test_refused_writes(counters: PerfCounters, offset: int, size: int, unit: Unit) -> None:
    with pytest.raises(AccessFault, match=f"write of {size} bytes"):
        counters.write(offset, bytes(size), unit)


def test_the_reference_drivers_looser_ways(hart: Hart, counters: PerfCounters) -> None:
    hart.words[RETIRED] = 0x1_0000_0007
    assert counters.load(0, 4, HART0) == b"\7\0\0\0"
    assert counters.load(0, 1, HART0) == b"\0"
    assert counters.load(4, 4, HART0) is None
    assert counters.store(16, b"\5\0\0\0", HART0)
    assert value(counters, 2) == 4
    assert not counters.store(16, b"\5", HART0)
    assert counters.host_address(0, HART0) is None
