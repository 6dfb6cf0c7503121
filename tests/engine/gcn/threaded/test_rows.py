"""Rows of numbers, and places that are alike."""

from __future__ import annotations

import numpy as np

from softcard.engine.gcn.threaded.rows import LARGE, Rows, alike, spread


def test_rows_grow_and_keep_what_they_hold() -> None:
    rows = Rows(2)
    assert rows.add([]) == 0
    firsts = [rows.add([(n, 7), (n, 8)]) for n in range(100)]
    assert firsts == list(range(0, 200, 2))
    rows.table[3, 1] = 9
    assert rows.table.tolist() == [[n // 2, 9 if n == 3 else 7 + n % 2] for n in range(200)]


def test_rows_of_many_are_side_by_side() -> None:
    owner, row = spread(np.array([5, 0, 2]), np.array([2, 0, 3]))
    assert owner.tolist() == [0, 0, 2, 2, 2]
    assert row.tolist() == [5, 6, 2, 3, 4]
    assert [len(each) for each in spread(np.zeros(0, np.int64), np.zeros(0, np.int64))] == [0, 0]


def test_what_is_alike_in_all_keys_comes_together_in_order() -> None:
    one, other = np.array([3, 1, 3, 1, 3]), np.array([0, 0, 5, 0, 0])
    found = alike(one, other)
    pairs = zip(found.cuts.tolist(), found.sizes.tolist(), strict=True)
    assert sorted(found.order[cut : cut + size].tolist() for cut, size in pairs) == [[0, 4], [1, 3], [2]]
    assert [len(each) for each in alike(np.zeros(0, np.int64))] == [0, 0, 0]


def test_places_meet_all_rows_of_their_group() -> None:
    """Whether a group is large or not."""
    keys = np.repeat([4, 9, 5], [LARGE, LARGE - 1, 2])
    found = alike(keys)
    first = {4: 10, 5: 20, 9: 30}
    counts = {4: 2, 5: 0, 9: 3}
    of_groups = [keys[place] for place in found.order[found.cuts].tolist()]
    met: set[tuple[int, int]] = set()
    for places, row in found.with_rows(*(np.array([each[key] for key in of_groups]) for each in (first, counts))):
        met |= set(zip(places.tolist(), np.broadcast_to(row, places.shape).tolist(), strict=True))
    assert met == {(place, first[key] + n) for place, key in enumerate(keys.tolist()) for n in range(counts[key])}
