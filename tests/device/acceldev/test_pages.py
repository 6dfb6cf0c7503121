"""Page tables and what they present."""

from __future__ import annotations

import pytest

from softcard.core.errors import WireError
from softcard.device.acceldev import registers as r
from softcard.device.acceldev.commands import Fence, PageTableEntry, page_table
from softcard.device.acceldev.registers import Interrupt
from tests.device.acceldev.rig import ALL, BEYOND, HIGH, NOWHERE, RAM, Machine, fill


def test_virtual_addresses(machine: Machine) -> None:
    scattered = [machine.page(3) for _ in range(4)]
    machine.bind(0, machine.table(*reversed(scattered)))
    machine.run(fill(0, 0, 4 * 4096, 9))
    assert all(machine.memory.read(page, 4) == b"\t\0\0\0" for page in scattered)


def test_physical_40_bit(machine: Machine) -> None:
    machine.bind(0, machine.table(HIGH + 0xF_F000))
    machine.run(fill(0, 0, 4))
    assert machine.memory.read(HIGH + 0xF_F000, 4) == bytes.fromhex("11223344")
    with pytest.raises(
        WireError, match="page address 0x10000000000 is invalid, expected a multiple of 0x1000 below 0x10000000000"
    ):
        page_table([1 << 40])


@pytest.mark.parametrize("high", [1 << 40, 1 << 63, 0xFFFF << 48])
def test_tables_beyond_40_bits_are_a_mem_error(machine: Machine, high: int) -> None:
    table, _ = machine.buffer()
    machine.bind(0, table + high)
    machine.run(fill(0, 0, 4))
    assert (machine.intr, machine.status()) == (Interrupt.MEM_ERROR, 1)
    assert "is too large, expected at most 40 bits" in str(machine.device.last_error)


def test_tables_beyond_40_bits_are_refused_even_where_memory_is(machine: Machine) -> None:
    page = machine.page()
    machine.memory.write(BEYOND, page_table([page]))
    machine.bind(0, BEYOND)
    machine.run(fill(0, 0, 4))
    assert (machine.intr, machine.memory.read(page, 4)) == (Interrupt.MEM_ERROR, bytes(4))
    machine.run_at(BEYOND, 0, 20, context=1)
    assert machine.status(1) == 1


def test_virtual_22_bit(machine: Machine) -> None:
    first = machine.bound(0, 1024)
    machine.run(fill(0, (4 << 20) - 2, 2))
    assert machine.status() == 0
    machine.run(fill(0, (4 << 20) - 2, 4))
    assert machine.intr == Interrupt.MEM_ERROR
    assert machine.memory.read(first, 2) == b"\0\0", "no wrap-around"
    assert machine.memory.read(first + (4 << 20) - 2, 2) == b"\x11\x22"
    assert "virtual address 0x400000 is too large, expected less than 0x400000 (22 bits)" in str(
        machine.device.last_error
    )


@pytest.mark.parametrize("start", [4 << 20, ALL])
def test_fills_that_begin_beyond_the_buffer(machine: Machine, start: int) -> None:
    machine.bound(0, 1)
    machine.run(fill(0, start, ALL))
    assert machine.intr == Interrupt.MEM_ERROR


def test_code_beyond_the_buffer(machine: Machine) -> None:
    table, _ = machine.buffer(1024)
    machine.run_at(table, (4 << 20) - 40, 60)
    assert machine.intr == Interrupt.MEM_ERROR
    assert "at user command 2, at byte 0x400000 (of the code buffer)" in str(machine.device.last_error)
    machine.record()[132] = 0
    machine.run_at(table, 0xFFFF_FFFC, 20)
    assert machine.status() == 1


def test_page_size(machine: Machine) -> None:
    pages = [machine.page() for _ in range(2)]
    machine.bind(0, machine.table(pages[1], pages[0]))
    machine.run(fill(0, 4095, 1, 1), fill(0, 4096, 1, 2))
    assert (machine.memory.read(pages[1] + 4095, 1), machine.memory.read(pages[0], 1)) == (b"\1", b"\2")


def test_single_level(machine: Machine) -> None:
    table, page = machine.buffer()
    machine.memory.write(page, page_table([NOWHERE]))
    machine.bind(0, table)
    machine.run(fill(0, 0, 4))
    assert machine.memory.read(page, 4) == bytes.fromhex("11223344"), "what a page holds is never taken for a table"


@pytest.mark.parametrize("offset", [1, 4, 0x800])
def test_table_address(machine: Machine, offset: int) -> None:
    table, _ = machine.buffer()
    machine.bind(0, table + offset)
    machine.run(fill(0, 0, 4))
    assert machine.intr == Interrupt.MEM_ERROR
    assert "expected a multiple of 4 KiB" in str(machine.device.last_error)
    machine.write(r.INTR, ALL)
    machine.run_at(table + offset, 0, 20, context=1)
    assert (machine.intr, machine.status(1)) == (Interrupt.MEM_ERROR, 1)


def test_unaligned_tables_are_refused_even_if_they_present_all(machine: Machine) -> None:
    page, table = machine.page(), machine.page(2)
    machine.memory.write(table, page_table([page] * 1024) * 2)
    machine.bind(0, table + 4)
    machine.run(fill(0, 0, 4))
    assert (machine.intr, machine.memory.read(page, 4)) == (Interrupt.MEM_ERROR, bytes(4))


def test_code_that_straddles_into_an_absent_page(machine: Machine) -> None:
    table, first = machine.buffer(2)
    entry = machine.memory.read(table + 4, 4)
    machine.memory.write(table + 4, bytes([entry[0] & ~1, *entry[1:]]))
    machine.memory.write(first + 4092, (1).to_bytes(4, "little"))
    machine.run_at(table, 4072, 20)
    assert machine.status() == 0
    machine.run_at(table, 4092, 20)
    assert (machine.intr, machine.status(), machine.fences()) == (Interrupt.MEM_ERROR, 1, 0)
    machine.record()[132] = 0
    machine.memory.write(first + 4092, bytes(4))
    machine.run_at(table, 4092, 20)
    assert machine.status() == 1, "all five words are read, whatever the command"


@pytest.mark.parametrize("index", [0, 1, 511, 1023])
def test_page_index(machine: Machine, index: int) -> None:
    page = machine.page()
    machine.bind(0, machine.table(*[None] * index, page))
    machine.run(fill(0, index << 12, 4))
    assert machine.memory.read(page, 4) == bytes.fromhex("11223344")


@pytest.mark.parametrize("offset", [0, 4, 2048, 4092])
def test_page_offset(machine: Machine, offset: int) -> None:
    page = machine.bound()
    machine.run(fill(0, offset, 4))
    assert machine.memory.read(page, 4096) == bytes(offset) + bytes.fromhex("11223344") + bytes(4092 - offset)


def test_table_size(machine: Machine) -> None:
    pages = [machine.page() for _ in range(1024)]
    table = machine.table(*pages)
    assert machine.memory.read(table + 4092, 4) == (pages[1023] >> 8 | 1).to_bytes(4, "little")
    machine.bind(0, table)
    machine.run(fill(0, 0, 4 << 20))
    assert machine.status() == 0
    with pytest.raises(WireError, match="1025 pages do not fit one page table, expected at most 1024"):
        page_table([*pages, RAM])


def test_pte_present(machine: Machine) -> None:
    page = machine.page()
    table = machine.table(page)
    machine.memory.write(table, (page >> 8 | 0xE).to_bytes(4, "little"))
    machine.bind(0, table)
    machine.run(fill(0, 0, 4))
    assert (machine.intr, machine.status()) == (Interrupt.MEM_ERROR, 1)
    assert machine.memory.read(page, 4) == bytes(4)
    assert f"entry 0 of the page table at {table:#x} is" in str(machine.device.last_error)


def test_pte_pa(machine: Machine) -> None:
    page = HIGH + 0x4000
    table = machine.page()
    assert PageTableEntry.of(page).pack() == (page >> 12 << 4 | 1).to_bytes(4, "little")
    machine.memory.write(table, (page >> 12 << 4 | 0xF).to_bytes(4, "little"))
    machine.bind(0, table)
    machine.run(fill(0, 0, 4), Fence())
    assert machine.memory.read(page, 4) == bytes.fromhex("11223344"), "unused bits are ignored"
    with pytest.raises(WireError, match="page address 0x1001 is invalid, expected a multiple of 0x1000"):
        page_table([0x1001])


# ---- entries, tables and records that are there and wrong ------------------------------------------------------------


def reported(machine: Machine) -> str:
    error = machine.device.last_error
    assert error is not None
    assert machine.intr == Interrupt.MEM_ERROR
    return str(error)


def test_pte_pa_of_no_memory_under_code(machine: Machine) -> None:
    table, _ = machine.buffer(2)
    machine.memory.write(table + 4, page_table([NOWHERE])[:3] + b"\x00")
    entry = int.from_bytes(machine.memory.read(table + 4, 4), "little") | 0xF  # bits 1 to 3 are shown as they are
    machine.memory.write(table + 4, entry.to_bytes(4, "little"))
    machine.run_at(table, 4096 + 40, 20)
    page = (entry & 0xFFFF_FFF0) << 8
    text = reported(machine)
    assert text.startswith(
        f"virtual address 0x1028: entry 1 of the page table at {table:#x} is {entry:#010x}, expected a page of memory, "
        f"not {page:#x}: "
    )
    assert "[acceldev/pte-pa: Buffers and Paging]" in text
    assert "at user command 0, at byte 0x1028 (of the code buffer), at context 0" in text


def test_pte_pa_of_no_memory_under_the_second_half_of_a_command(machine: Machine) -> None:
    table, first = machine.buffer(1)
    machine.memory.write(table + 4, page_table([NOWHERE])[:4])
    machine.memory.write(first + 4092, (1).to_bytes(4, "little"))
    machine.run_at(table, 4092, 20)
    assert f"virtual address 0x1000: entry 1 of the page table at {table:#x} is " in reported(machine)


def test_pte_pa_of_no_memory_under_a_fill(machine: Machine) -> None:
    pages = [machine.page(), NOWHERE, machine.page()]
    table = machine.table(*pages)
    machine.bind(0, table)
    machine.run(fill(0, 4, 3 * 4096 - 4, 7))
    text = reported(machine)
    assert f"virtual address 0x1000: entry 1 of the page table at {table:#x} is {NOWHERE >> 8 | 1:#010x}, " in text
    assert f"expected a page of memory, not {NOWHERE:#x}: " in text
    assert "[acceldev/pte-pa: Buffers and Paging]" in text
    assert "at FILL slot 0 start 0x4 length 0x2ffc" in text


def test_table_address_of_no_memory(machine: Machine) -> None:
    machine.run_at(NOWHERE, 0, 20)
    assert reported(machine).startswith(f"cannot read the page table at {NOWHERE:#x}: ")
    assert "[acceldev/table-address: Buffers and Paging]" in reported(machine)
    machine.write(r.INTR, ALL)
    machine.record()[132] = 0
    machine.bind(0, NOWHERE)
    machine.run(fill(0, 0, 4))
    assert reported(machine).startswith(f"cannot read the page table at {NOWHERE:#x}: ")


def test_contexts_array_in_no_memory(machine: Machine) -> None:
    """The halves of CONTEXTS_CONFIGS swapped."""
    table, _ = machine.buffer()
    configs = machine.device.read_bar(0, r.CONTEXTS_CONFIGS_LO.offset, 4)
    machine.write(r.CONTEXTS_CONFIGS_LO, 0)
    machine.write(r.CONTEXTS_CONFIGS_HI, configs)
    for command in (lambda: machine.run_at(table, 0, 20, context=2), lambda: machine.bind(0, table, context=2)):
        machine.write(r.INTR, ALL)
        command()
        assert reported(machine).startswith(
            f"cannot access the record of context 2 at {(configs << 32) + 384:#x} (CONTEXTS_CONFIGS is "
            f"{configs << 32:#x}): "
        )
        assert "[acceldev/contexts-array: Control Registers]" in reported(machine)
