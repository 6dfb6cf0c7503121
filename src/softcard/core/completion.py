"""Completions, which a device signals and a host waits for: interrupt lines, fences and signals.

This module never sleeps or starts threads: the call that causes a change also calls the observers, in the order of
their registration.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Generic, TypeVar

from softcard.core.words import U64, mask, signed

T = TypeVar("T")
Cancel = Callable[[], None]


class Observers(Generic[T]):
    """A list of functions that are called with each new value."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: list[Callable[[T], None]] = []

    def add(self, call: Callable[[T], None]) -> Cancel:
        """Call `call` with each later value.

        The returned function ends these calls; calling it twice has no further effect.
        """

        # Wrapped so that the same callable may be registered twice and each registration be cancelled by itself.
        def entry(value: T) -> None:
            call(value)

        self._calls.append(entry)

        def cancel() -> None:
            if entry in self._calls:
                self._calls.remove(entry)

        return cancel

    def notify(self, value: T) -> None:
        """Call all registered functions with `value`."""
        for call in tuple(self._calls):
            call(value)


class Line:
    """A level-triggered interrupt line. `edges` is the number of rising edges since the last reset."""

    __slots__ = ("_observers", "edges", "level", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.level = False
        self.edges = 0
        self._observers: Observers[bool] = Observers()

    def set(self, level: bool) -> None:
        """Drive the line; observers are called if the level changes."""
        if level == self.level:
            return
        self.level = level
        self.edges += level
        self._observers.notify(level)

    def observe(self, call: Callable[[bool], None]) -> Cancel:
        """Call `call` with the new level at every change. The returned function ends these calls."""
        return self._observers.add(call)

    def reset(self) -> None:
        """Set the line low and the number of edges to 0. The observers stay, and are called if the line falls."""
        self.set(False)
        self.edges = 0


class Fence:
    """A counter of `bits` bits that a device advances as work completes; it wraps around."""

    __slots__ = ("_observers", "bits", "last", "name")

    def __init__(self, name: str, bits: int = 32) -> None:
        self.name = name
        self.bits = bits
        self.last = 0
        self._observers: Observers[int] = Observers()

    def complete(self, value: int) -> None:
        """Signal that all work up to `value` (modulo 2**bits) is complete.

        Observers are called even if the value does not change.
        """
        self.last = value & mask(self.bits)
        self._observers.notify(self.last)

    def reached(self, value: int) -> bool:
        """Return True if the counter's value `last` has reached or passed `value`.

        The counter wraps around: `last` has passed `value` if it is ahead of `value` by up to half of the counter's
        range."""
        return (self.last - value) & mask(self.bits) < 1 << (self.bits - 1)

    def observe(self, call: Callable[[int], None]) -> Cancel:
        """Call `call` with every value that `complete` signals. The returned function ends these calls."""
        return self._observers.add(call)

    def reset(self) -> None:
        """Set the counter to 0 without calling the observers, which stay."""
        self.last = 0


class Condition(Enum):
    """A comparison of a signal's signed value with a given value."""

    EQ = "=="
    NE = "!="
    LT = "<"
    GE = ">="

    def holds(self, value: int, against: int) -> bool:
        """Return True if `value` satisfies this comparison with `against`."""
        match self:
            case Condition.EQ:
                return value == against
            case Condition.NE:
                return value != against
            case Condition.LT:
                return value < against
            case Condition.GE:
                return value >= against


class Signal:
    """A signed 64-bit number that units change and wait for. A doorbell is a signal with an observer.

    `value` is a Python int from -2**63 to 2**63 - 1. Every store calls the observers, even if the number stays the
    same: two stores of one number to a doorbell ring it twice.
    """

    __slots__ = ("_observers", "_value", "name")

    def __init__(self, name: str, value: int = 0) -> None:
        self.name = name
        self._value = signed(value, 64)
        self._observers: Observers[int] = Observers()

    @property
    def value(self) -> int:
        """The number, signed."""
        return self._value

    @property
    def word(self) -> int:
        """The number as an unsigned 64-bit word."""
        return self._value & U64

    def store(self, value: int) -> None:
        """Set the number (modulo 2**64) and call the observers."""
        self._value = signed(value, 64)
        self._observers.notify(self._value)

    def add(self, amount: int) -> int:
        """Add `amount`, wrapping around, call the observers, and return the previous number."""
        return self.exchange(self._value + amount)

    def exchange(self, value: int) -> int:
        """Store `value`, and return the previous number."""
        before = self._value
        self.store(value)
        return before

    def compare_exchange(self, expected: int, value: int) -> int:
        """Store `value` if the number is `expected`; in any case return the previous number."""
        before = self._value
        if before == signed(expected, 64):
            self.store(value)
        return before

    def observe(self, call: Callable[[int], None]) -> Cancel:
        """Call `call` with the number after every store. The returned function ends these calls."""
        return self._observers.add(call)

    def when(self, condition: Condition, against: int, call: Callable[[int], None]) -> Cancel:
        """Call `call` once, as soon as the number satisfies `condition` with `against`; that may be at once.

        The returned function cancels the call.
        """
        done = False

        def check(value: int) -> None:
            nonlocal done
            if not done and condition.holds(value, against):
                done = True
                cancel()
                call(value)

        cancel = self._observers.add(check)
        check(self._value)
        return cancel
