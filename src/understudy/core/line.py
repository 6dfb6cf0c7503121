"""What a device changes and others wait for: interrupt lines, fences and signals.

Nothing here sleeps or starts threads: whoever waits observes, and is called at the moment of the change, inside the
call that caused it. Observers are called in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Generic, TypeVar

from understudy.core.words import U64, mask, signed

T = TypeVar("T")
Cancel = Callable[[], None]


class Observers(Generic[T]):
    """Callables that want to hear of a value."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: list[Callable[[T], None]] = []

    def add(self, call: Callable[[T], None]) -> Cancel:
        """Call `call` from now on; the result cancels that (a second time has no effect)."""

        # Wrapped so that the same callable may observe twice and each registration be cancelled by itself.
        def entry(value: T) -> None:
            call(value)

        self._calls.append(entry)

        def cancel() -> None:
            if entry in self._calls:
                self._calls.remove(entry)

        return cancel

    def tell(self, value: T) -> None:
        """Call everyone who observes at this moment."""
        for call in tuple(self._calls):
            call(value)


class Line:
    """A level-triggered interrupt line. `edges` counts how often it rose since reset."""

    __slots__ = ("_observers", "edges", "level", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.level = False
        self.edges = 0
        self._observers: Observers[bool] = Observers()

    def set(self, level: bool) -> None:
        """Drive the line; observers hear of changes only."""
        if level == self.level:
            return
        self.level = level
        self.edges += level
        self._observers.tell(level)

    def observe(self, call: Callable[[bool], None]) -> Cancel:
        """Call `call` with the new level at every change; the result cancels that."""
        return self._observers.add(call)

    def reset(self) -> None:
        """Low, no edges counted; observers stay and hear of the fall."""
        self.set(False)
        self.edges = 0


class Fence:
    """A counter of `bits` bits that a device moves forward as work completes; it wraps around."""

    __slots__ = ("_observers", "bits", "last", "name")

    def __init__(self, name: str, bits: int = 32) -> None:
        self.name = name
        self.bits = bits
        self.last = 0
        self._observers: Observers[int] = Observers()

    def complete(self, value: int) -> None:
        """Work up to `value` (modulo 2**bits) is complete; observers hear of it even where the value is the same."""
        self.last = value & mask(self.bits)
        self._observers.tell(self.last)

    def reached(self, value: int) -> bool:
        """Whether `last` is at or behind `value`, where half of the range counts as behind."""
        return (self.last - value) & mask(self.bits) < 1 << (self.bits - 1)

    def observe(self, call: Callable[[int], None]) -> Cancel:
        """Call `call` with every completed value; the result cancels that."""
        return self._observers.add(call)

    def reset(self) -> None:
        """Back to 0, silently; observers stay."""
        self.last = 0


class Condition(Enum):
    """How a waiter compares a signal's signed value with its own."""

    EQ = "=="
    NE = "!="
    LT = "<"
    GE = ">="

    def holds(self, value: int, against: int) -> bool:
        """Whether ``value <condition> against``."""
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
    """A signed 64-bit number that units change and wait for; a doorbell is one that somebody observes.

    `value` is a Python int from -2**63 to 2**63 - 1. Every store tells the observers, even one that changes nothing:
    ringing a doorbell twice with the same number rings twice.
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
        """Set the number (modulo 2**64) and tell the observers."""
        self._value = signed(value, 64)
        self._observers.tell(self._value)

    def add(self, amount: int) -> int:
        """Add, wrapping around; gives the number before."""
        return self.exchange(self._value + amount)

    def exchange(self, value: int) -> int:
        """Store `value`; gives the number before."""
        before = self._value
        self.store(value)
        return before

    def compare_exchange(self, expected: int, value: int) -> int:
        """Store `value` if the number is `expected`; gives the number before."""
        before = self._value
        if before == signed(expected, 64):
            self.store(value)
        return before

    def observe(self, call: Callable[[int], None]) -> Cancel:
        """Call `call` with the number after every store; the result cancels that."""
        return self._observers.add(call)

    def when(self, condition: Condition, against: int, call: Callable[[int], None]) -> Cancel:
        """Call `call` once, as soon as the condition holds: at once if it does already; the result cancels that."""
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
