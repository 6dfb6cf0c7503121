"""Snapshots of memory: mappings, contents, and the table that translated code reads."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from softcard.core.space import PAGE_SIZE, Ram, Unit
from softcard.engine.gcn.memory import GpuMemory, Plain

PAGE = PAGE_SIZE
PLACES = 6


class Region:
    size = PAGE

    def read(self, offset: int, size: int, unit: Unit) -> bytes:
        return bytes(size)

    def write(self, offset: int, data: bytes, unit: Unit) -> None:
        raise AssertionError

    def host_address(self, offset: int, unit: Unit) -> int | None:
        return None


def seen(memory: GpuMemory) -> list[Any]:
    """What can be found out about a memory: what lies where, its bytes, and the rows of all pages."""
    maps = [(each.base, each.end, each.name, isinstance(each, Plain)) for each in memory]
    data = [bytes(each.bytes) for each in memory if isinstance(each, Plain)]
    return [maps, data, [memory.row(page * PAGE) for page in range(2 * PLACES + 2)]]


def test_what_was_unmapped_comes_back_and_what_is_new_goes() -> None:
    memory, ram, array = GpuMemory(), Ram(PAGE), np.zeros(PAGE, np.uint8)
    memory.map(0, ram)
    memory.map(2 * PAGE, array)
    memory.write(0, b"old")
    memory.write(2 * PAGE, b"OLD")
    at, state, version = seen(memory), memory.snapshot(), memory.version
    memory.unmap(0)
    memory.unmap(2 * PAGE)
    ram.view[:3] = b"new"
    array[:3] = 9
    newer = Ram(3 * PAGE)
    memory.map(0, newer)
    memory.write(0, b"newer")
    memory.restore(state)
    assert seen(memory) == at
    assert memory.version > version
    assert (bytes(ram.view[:3]), bytes(array[:3]), bytes(newer.view[:5])) == (b"old", b"OLD", b"newer")


def test_memory_that_nobody_may_write_is_left_alone() -> None:
    memory = GpuMemory()
    memory.map(0, b"constant", writable=False)
    state = memory.snapshot()
    memory.unmap(0)
    memory.restore(state)
    assert memory.read(0, 8) == b"constant"


THINGS = st.lists(
    st.tuples(st.sampled_from(["ram", "array", "region", "unmap", "write"]), st.integers(0, PLACES - 1), st.binary())
)


@settings(deadline=None, max_examples=100)
@given(before=THINGS, after=THINGS)
def test_any_changes_are_undone(before: list[Any], after: list[Any]) -> None:
    memory = GpuMemory()

    def do(things: list[Any]) -> None:
        for what, place, data in things:
            address = 2 * PAGE * place
            there = memory.find(address)
            if what == "unmap" and there is not None:
                memory.unmap(address)
            elif what == "write" and isinstance(there, Plain):
                memory.write(address, data)
            elif what in ("ram", "array", "region") and there is None:
                made = {"ram": Ram(2 * PAGE), "array": np.zeros(PAGE + 100, np.uint8), "region": Region()}
                memory.map(address, made[what])

    do(before)
    at, state = seen(memory), memory.snapshot()
    do(after)
    memory.restore(state)
    assert seen(memory) == at
    do(after)
    memory.restore(state)
    assert seen(memory) == at
