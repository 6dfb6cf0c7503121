"""The seeded arbiter: same seed, same order, everywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard.core.errors import ModelBug
from softcard.core.order import Arbiter, Prng


def test_the_generator_is_splitmix64():
    # The sequence that the generator's authors publish for the seed 1234567.
    prng = Prng(1234567)
    assert [prng.next_u64() for _ in range(3)] == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(st.integers(), st.integers(1, 1 << 64))
def test_below_stays_below(seed, limit):
    assert 0 <= Prng(seed).below(limit) < limit


def test_below_is_even():
    prng = Prng(0)
    counts = [0] * 3
    for _ in range(3000):
        counts[prng.below(3)] += 1
    assert min(counts) > 900


@pytest.mark.parametrize("limit", [0, -1, (1 << 64) + 1])
def test_a_limit_must_lie_in_range(limit):
    with pytest.raises(ModelBug, match=rf"^a limit must lie in 1\.\.2\*\*64, not {limit}$"):
        Prng(0).below(limit)


def test_without_a_seed_all_run_as_they_come():
    arbiter = Arbiter()
    assert arbiter.order([3, 1, 2]) == [3, 1, 2]
    assert arbiter.pick("abc") == "a"


def test_a_seed_fixes_every_later_choice():
    first, second, other = Arbiter(7), Arbiter(7), Arbiter(8)
    picks = [first.pick(range(10)) for _ in range(20)]
    assert picks == [second.pick(range(10)) for _ in range(20)]
    assert picks != [other.pick(range(10)) for _ in range(20)]
    first.reset()
    assert picks == [first.pick(range(10)) for _ in range(20)]


def test_the_order_of_a_seed_is_part_of_the_contract():
    assert Arbiter(1).order(range(8)) == [4, 3, 2, 7, 5, 6, 0, 1]


@given(st.integers(), st.lists(st.integers()))
def test_an_order_holds_everyone_once(seed, items):
    assert sorted(Arbiter(seed).order(items)) == sorted(items)


def test_snapshot_and_restore_repeat_choices():
    arbiter = Arbiter(3)
    arbiter.pick(range(5))
    state = arbiter.snapshot()
    later = [arbiter.pick(range(100)) for _ in range(5)]
    arbiter.restore(state)
    assert later == [arbiter.pick(range(100)) for _ in range(5)]


def test_unseeded_snapshot_restores():
    arbiter = Arbiter()
    arbiter.restore(arbiter.snapshot())
    assert arbiter.pick([4, 5]) == 4


def test_a_snapshot_of_another_kind_is_refused():
    with pytest.raises(ModelBug, match="the snapshot and the arbiter must both have a seed, or both have none"):
        Arbiter().restore(5)


def test_nobody_to_pick_from_is_refused():
    with pytest.raises(ModelBug, match=r"^an arbiter must have at least one unit to choose from$"):
        Arbiter(1).pick([])
