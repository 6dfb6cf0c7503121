"""Memory that is shared with the device goes between two looks at it: no address in it is used any more."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from softcard.core.pci import DirectRange
from softcard.device.acceldev import native_commands as native
from softcard.device.acceldev.commands import Fill, page_table, user_code
from softcard.device.acceldev.native_commands import Machine

PAGE = 0x1000
TABLE, DATA_TABLE, CODE, RECORD, DATA = (n * PAGE for n in range(1, 6))
AWAY = 0x100 * PAGE
"""A page that only calls reach."""


class Shared:
    """Memory from address 0 on that is shared, until it is not."""

    def __init__(self) -> None:
        self.data = bytearray(16 * PAGE)
        self.ranges: tuple[DirectRange, ...] = (DirectRange(0, memoryview(self.data)),)

    def host_range(self, address: int, size: int, write: bool = False) -> int | None:
        if not self.ranges or address + size > len(self.data):
            return None
        return ctypes.addressof(ctypes.c_char.from_buffer(self.data)) + address

    def put(self, address: int, data: bytes) -> None:
        self.data[address : address + len(data)] = data


@pytest.fixture(params=["python", "compiled"])
def at(request: pytest.FixtureRequest) -> tuple[Shared, Machine]:
    """A FILL of two pages is about to be executed; the first of them is away."""
    memory = Shared()
    memory.put(TABLE, page_table([CODE]))
    memory.put(DATA_TABLE, page_table([AWAY, DATA]))
    memory.put(RECORD, DATA_TABLE.to_bytes(8, "little"))
    memory.put(CODE, user_code([Fill(value=0x01020304, buffer_slot=0, start=0, length=2 * PAGE)]))
    interrupts = ctypes.c_uint32()
    shared: Any = memory
    machine = Machine(shared, ctypes.addressof(interrupts))
    machine.interrupts = interrupts  # type: ignore[attr-defined]  # keeps it
    if request.param == "compiled":
        machine.compile()
    run: Any = SimpleNamespace(
        command=SimpleNamespace(offset=0, table=TABLE), position=0, context=SimpleNamespace(address=RECORD)
    )
    machine.open(run)
    return memory, machine


def go(memory: Shared, machine: Machine) -> None:
    """As when a client hangs up."""
    memory.ranges = ()
    memory.data[:] = bytes(len(memory.data))
    machine.forget()


def test_before_the_first_command(at: tuple[Shared, Machine]) -> None:
    memory, machine = at
    go(memory, machine)
    assert machine.run(1, listens=False, every=False) == native.ENTRIES
    assert (machine.block.entries, machine.block.slots, machine.block.counter) == (0, 0, 0)


def test_amid_a_fill(at: tuple[Shared, Machine]) -> None:
    memory, machine = at
    assert machine.run(1, listens=False, every=False) == native.STORE
    assert (machine.block.address, machine.block.size) == (AWAY, PAGE)
    go(memory, machine)
    assert machine.run(1, listens=False, every=False) == native.STORE
    assert (machine.block.address, machine.block.size) == (DATA, PAGE)
    assert machine.run(1, listens=False, every=False) == native.DONE
    assert not any(memory.data)


def test_amid_a_fill_that_stays(at: tuple[Shared, Machine]) -> None:
    memory, machine = at
    assert machine.run(1, listens=False, every=False) == native.STORE
    assert machine.run(1, listens=False, every=False) == native.DONE
    assert memory.data[DATA : DATA + PAGE] == bytes([4, 3, 2, 1]) * (PAGE // 4)
