"""Interrupt lines, fences and signals."""

import pytest

from softcard.core.completion import Condition, Fence, Line, Observers, Signal


def test_a_line_reports_changes_only():
    line, seen = Line("irq"), []
    line.observe(seen.append)
    for level in (False, True, True, False, True):
        line.set(level)
    assert seen == [True, False, True]
    assert line.edges == 2


def test_a_line_resets_low_and_keeps_its_observers():
    line, seen = Line("irq"), []
    line.observe(seen.append)
    line.set(True)
    line.reset()
    assert (line.level, line.edges, seen) == (False, 0, [True, False])


def test_cancelled_observers_hear_nothing_more():
    line, seen = Line("irq"), []
    cancel = line.observe(seen.append)
    line.observe(seen.append)
    cancel()
    cancel()
    line.set(True)
    assert seen == [True]


def test_observers_are_called_in_the_order_they_came():
    observers, seen = Observers(), []
    observers.add(lambda value: seen.append(("first", value)))
    observers.add(lambda value: seen.append(("second", value)))
    observers.notify(1)
    assert seen == [("first", 1), ("second", 1)]


def test_an_observer_may_cancel_another_while_called():
    observers, seen = Observers(), []
    cancels = []
    observers.add(lambda value: cancels[0]())
    cancels.append(observers.add(seen.append))
    observers.notify(1)
    observers.notify(2)
    assert seen == [1]


def test_a_fence_counts_around():
    fence, seen = Fence("cmd"), []
    fence.observe(seen.append)
    fence.complete(0xFFFF_FFFF)
    assert fence.reached(0xFFFF_FFFE)
    assert not fence.reached(0)
    fence.complete(1 << 32)
    assert fence.reached(0xFFFF_FFFF)
    assert seen == [0xFFFF_FFFF, 0]
    fence.reset()
    assert fence.last == 0


@pytest.mark.parametrize(
    ("condition", "below", "same", "above"),
    [
        (Condition.EQ, False, True, False),
        (Condition.NE, True, False, True),
        (Condition.LT, True, False, False),
        (Condition.GE, False, True, True),
    ],
)
def test_conditions(condition, below, same, above):
    assert [condition.holds(value, 5) for value in (4, 5, 6)] == [below, same, above]


def test_signal_values_are_signed_64_bit_numbers():
    signal = Signal("completion", 1)
    assert signal.add(-2) == 1
    assert (signal.value, signal.word) == (-1, 0xFFFF_FFFF_FFFF_FFFF)
    assert signal.exchange(1 << 63) == -1
    assert signal.value == -(1 << 63)
    assert signal.add(-1) == -(1 << 63)
    assert signal.value == (1 << 63) - 1


def test_compare_exchange_stores_only_on_the_expected_number():
    signal = Signal("s", -1)
    assert signal.compare_exchange(0, 9) == -1
    assert signal.value == -1
    assert signal.compare_exchange(0xFFFF_FFFF_FFFF_FFFF, 9) == -1
    assert signal.value == 9


def test_a_doorbell_rings_at_every_store():
    doorbell, rings = Signal("doorbell"), []
    doorbell.observe(rings.append)
    doorbell.store(4)
    doorbell.store(4)
    assert rings == [4, 4]


def test_when_calls_once_at_the_moment_it_holds():
    signal, seen = Signal("s", 2), []
    signal.when(Condition.LT, 1, seen.append)
    signal.add(-1)
    assert seen == []
    signal.add(-1)
    signal.add(-1)
    assert seen == [0]


def test_when_calls_at_once_where_it_holds_already():
    seen = []
    Signal("s", 0).when(Condition.EQ, 0, seen.append)
    assert seen == [0]


def test_when_can_be_cancelled():
    signal, seen = Signal("s", 1), []
    signal.when(Condition.EQ, 0, seen.append)()
    signal.store(0)
    assert seen == []
