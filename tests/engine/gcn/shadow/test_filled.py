"""Memory with a junk fill: a host program's writes show, and gaps of structures differ from holes."""

from __future__ import annotations

import numpy as np
import pytest

from softcard.engine.gcn.shadow.program_memory import CHUNK, FilledMemory, Runs

WORD = 0xFFF5_A5D3
AT = 0x10000


def filled(size: int = 2 * CHUNK) -> tuple[FilledMemory, np.ndarray, np.ndarray]:
    data = np.full(size // 4, WORD, np.uint32).view(np.uint8)
    shadow = np.full(size, 0xFF, np.uint8)
    memory = FilledMemory(WORD)
    memory.add(AT, data, shadow, "allocation")
    return memory, data, shadow


def undefined(shadow: np.ndarray) -> int:
    return int(np.count_nonzero(shadow))


def test_words_that_the_host_has_changed_are_defined() -> None:
    memory, data, shadow = filled()
    memory.define_written()
    assert undefined(shadow) == shadow.size
    data[100:200] = 0
    data[CHUNK + 8] = 1
    memory.define_written()
    assert not shadow[100:200].any()
    assert not shadow[CHUNK + 8 : CHUNK + 12].any()
    assert undefined(shadow) == shadow.size - 102 - 6  # and a byte before and after


def test_a_byte_that_equals_the_fill_is_defined_with_its_neighbours() -> None:
    memory, data, shadow = filled()
    data[0:5] = [1, 2, 3, 4, WORD & 0xFF]
    memory.define_written()
    assert not shadow[:5].any()
    assert shadow[5:8].all()


def test_what_the_device_has_stored_stays_undefined_until_the_host_writes_it() -> None:
    memory, data, shadow = filled()
    data[0:64] = 7  # undefined values of a kernel
    memory.remember()
    memory.define_written()
    assert shadow[:64].all()
    data[0:32] = 8
    memory.define_written()
    assert not shadow[:32].any()
    assert shadow[33:64].all()


def test_what_kernels_have_defined_says_nothing_of_bytes_beside_it() -> None:
    memory, data, shadow = filled()
    data[0:2], shadow[0:2] = 5, 0
    memory.define_written()
    assert shadow[2:].all()


def test_only_what_is_copied_is_settled() -> None:
    memory, data, shadow = filled()
    data[:] = 0
    memory.define_written(AT, AT + 8)
    assert not shadow[:CHUNK].any()
    assert shadow[CHUNK:].all()
    memory.remove(AT)
    memory.define_written()
    assert shadow[CHUNK:].all()
    assert memory.find(AT) is None


def shadow_of(size: int, *gaps: tuple[int, int]) -> np.ndarray:
    found = np.zeros(size, np.uint8)
    for start, end in gaps:
        found[start:end] = 0xFF
    return found


def reported(size: int | None, shadow: np.ndarray, address: int = 0x1000) -> list[tuple[int, int]]:
    runs = Runs.of(shadow).without_padding(address, size)
    return list(zip(runs.starts.tolist(), runs.ends.tolist(), strict=True))


@pytest.mark.parametrize(
    "shadow",
    [
        shadow_of(8, (1, 4)),
        shadow_of(16, (4, 8)),
        shadow_of(24, (18, 24)),
        shadow_of(240, *((24 * i + 4, 24 * i + 8) for i in range(10))),
        shadow_of(240, *((24 * i + a, 24 * i + b) for i in range(10) for a, b in ((1, 4), (18, 24)))),
        shadow_of(4000, *((at + 18, at + 24) for at in range(0, 3976, 24))),
    ],
    ids=["char, int", "int, double", "short last", "array", "array of two gaps", "part of an array"],
)
def test_gaps_of_structures_are_tolerated(shadow: np.ndarray) -> None:
    assert not reported(shadow.size, shadow)
    assert not reported(None, shadow)


@pytest.mark.parametrize(
    ("shadow", "expected"),
    [
        (shadow_of(4, (0, 4)), [(0, 4)]),
        (shadow_of(8, (4, 8)), [(4, 8)]),
        (shadow_of(4000, (3996, 4000)), [(3996, 4000)]),
        (shadow_of(64, (8, 12)), [(8, 12)]),
        (shadow_of(64, (16, 32)), [(16, 32)]),
        (shadow_of(4000, (4, 8), (20, 24), (3996, 4000)), [(4, 8), (20, 24), (3996, 4000)]),
    ],
    ids=["all", "second of two", "last element", "even element", "four elements", "no period"],
)
def test_holes_are_reported(shadow: np.ndarray, expected: list[tuple[int, int]]) -> None:
    assert reported(shadow.size, shadow) == expected


def test_alignment_counts_from_address_0() -> None:
    shadow = shadow_of(240, *((24 * i, 24 * i + 4) for i in range(10)))
    assert not reported(240, shadow, 0x1004)
    assert reported(240, shadow, 0x1000)
