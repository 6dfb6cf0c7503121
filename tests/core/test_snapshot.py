"""Contents of memory kept and put back, whatever the host knows about its pages."""

from __future__ import annotations

import sys
from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softcard.core.snapshot import CHUNK, Stateful, restore_ram, save_ram
from softcard.core.space import Ram

SIZE = 5 * CHUNK + 300


def test_only_what_is_not_zero_is_kept() -> None:
    ram = Ram(1 << 30)
    assert save_ram(ram) == {}
    ram.view[3 * CHUNK + 5] = 7
    ram.view[(1 << 30) - 1] = 8
    ram.view[CHUNK] = 0  # touched, but still zero
    assert sorted(save_ram(ram)) == [3 * CHUNK, (1 << 30) - CHUNK]


@pytest.mark.parametrize("platform", ["linux", "elsewhere"])
def test_without_a_page_map(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    ram = Ram(SIZE)
    ram.view[CHUNK : CHUNK + 3] = b"abc"
    state = save_ram(ram)
    assert list(state) == [CHUNK]
    ram.view[0] = 1
    restore_ram(ram, state)
    assert bytes(ram.view) == bytes(CHUNK) + b"abc" + bytes(SIZE - CHUNK - 3)


WRITES = st.lists(st.tuples(st.integers(0, SIZE - 1), st.binary(min_size=1, max_size=9)), max_size=8)


@settings(deadline=None, max_examples=50)
@given(before=WRITES, after=WRITES)
def test_any_writes_are_undone(before: list[tuple[int, bytes]], after: list[tuple[int, bytes]]) -> None:
    ram = Ram(SIZE)
    host = np.frombuffer(ram.view, np.uint8)

    def write(writes: list[tuple[int, bytes]]) -> bytes:
        for at, data in writes:
            ram.view[at : at + len(data)] = data[: SIZE - at]
        return bytes(ram.view)

    was = write(before)
    state = save_ram(ram)
    write(after)
    restore_ram(ram, state)
    assert bytes(ram.view) == host.tobytes() == was


class Cell(Stateful):
    """A value in a list, or a place where it is an attribute."""

    STATE = ("words",)

    def __init__(self, *words: int) -> None:
        self.words = list(words)


class Machine(Stateful):
    STATE = ("count", "cell", "pair", "cells", "by_name", "queue", "memory", "rams", "nothing")

    def __init__(self) -> None:
        self.count = 1
        self.cell = Cell(1)
        self.pair = (Cell(2), Cell(3))
        self.cells = [Cell(4)]
        self.by_name = {"a": Cell(5)}
        self.queue = deque([6])
        self.memory = memoryview(bytearray(b"seven"))
        self.rams = (Ram(CHUNK),)
        self.nothing: int | None = None
        self.unkept = 0

    def change(self) -> None:
        self.count = 9
        for cell in (self.cell, *self.pair, *self.cells, *self.by_name.values()):
            cell.words[0] += 10
            cell.words.append(9)
        self.cells.append(Cell(9))
        self.by_name["b"] = Cell(9)
        self.queue.append(9)
        self.memory[:] = b"nine!"
        self.rams[0].view[5] = 9
        self.nothing = 9
        self.unkept = 9

    @property
    def seen(self) -> list[object]:
        cells = [tuple(each.words) for each in (self.cell, *self.pair, *self.cells, *self.by_name.values())]
        ram = bytes(self.rams[0].view[:8])
        return [self.count, cells, list(self.by_name), list(self.queue), bytes(self.memory), ram, self.nothing]


def test_what_a_class_declares_goes_back_as_often_as_one_likes() -> None:
    machine = Machine()
    was, shared = machine.seen, (machine.cell, machine.pair, machine.cells, machine.by_name, machine.queue)
    state = machine.snapshot()
    assert machine.snapshot()[:3] == state[:3]
    for _ in range(2):
        machine.change()
        assert machine.seen != was
        machine.restore(state)
        assert machine.seen == was
    assert machine.unkept == 9
    assert all(
        now is then
        for now, then in zip(
            (machine.cell, machine.pair, machine.cells, machine.by_name, machine.queue), shared, strict=True
        )
    )


def test_a_state_goes_to_another_that_was_made_alike() -> None:
    one, other = Machine(), Machine()
    one.change()
    other.restore(one.snapshot())
    was = one.seen
    assert other.seen == was
    other.change()
    assert one.seen == was
