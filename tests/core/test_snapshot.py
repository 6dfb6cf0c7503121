"""Contents of memory kept and put back, whatever the host knows about its pages."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.core.snapshot import CHUNK, restore_ram, save_ram
from understudy.core.space import Ram

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
