"""Parts that engines of waves and of harts share: checks by hook point, points of snapshots, counts of executions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from softcard.core.errors import ModelBug

T = TypeVar("T")


def hooks_of(base: type) -> tuple[str, ...]:
    """Return the names of all hooks of the base class of checks: its public methods."""
    return tuple(name for name, value in vars(base).items() if not name.startswith("_") and callable(value))


def by_hook(checks: Sequence[T], base: type[T]) -> dict[str, tuple[T, ...]]:
    """Return, for each hook of the base class, the checks whose class overrides it."""
    return {hook: tuple(each for each in checks if _overrides(each, base, hook)) for hook in hooks_of(base)}


def only(what: str, found: Iterable[T | None]) -> T | None:
    """Return the object in `found` that is not None, or None; `what` describes it.

    Raise `ModelBug` if there are several.
    """
    made = [each for each in found if each is not None]
    if len(made) > 1:
        raise ModelBug(f"{len(made)} checks use {what}, expected one at most")
    return made[0] if made else None


def _overrides(check: object, base: type, hook: str) -> bool:
    return getattr(type(check), hook) is not getattr(base, hook)


# ---- points of snapshots ---------------------------------------------------------------------------------------------
# The names of the kinds of points at which snapshots of the registers of waves and harts are taken.


BEFORE: Final = "before"
"""The snapshot point before an instruction."""
FAULT: Final = "fault"
TRAP: Final = "trap"
END: Final = "end"
"""The snapshot point at the end of a wave, or of a kernel's instance on a hart."""


# ---- counts of executions --------------------------------------------------------------------------------------------
# The executions of instructions that an engine counts, by the address of the instruction.


@dataclass(slots=True)
class Executions:
    """The numbers of executions of instructions, by address.

    - `counts`: the number of times that the instruction has retired.
    - `idle`: the number of these times at which no lane was active (waves only: EXEC was 0 when the instruction began).
    - `taken`: for a conditional branch with a constant target, the number of these times at which it was taken.
    """

    counts: Counter[int] = field(default_factory=Counter)
    idle: Counter[int] = field(default_factory=Counter)
    taken: Counter[int] = field(default_factory=Counter)

    def __add__(self, other: Executions) -> Executions:
        """Return the sums of the numbers, without numbers below 1."""
        return Executions(self.counts + other.counts, self.idle + other.idle, self.taken + other.taken)

    def __sub__(self, other: Executions) -> Executions:
        """Return the differences of the numbers, without numbers below 1."""
        return Executions(self.counts - other.counts, self.idle - other.idle, self.taken - other.taken)

    def within(self, start: int, end: int) -> Executions:
        """Return the numbers of instructions from address `start` up to `end`, exclusive."""

        def part(numbers: Counter[int]) -> Counter[int]:
            return Counter({pc: number for pc, number in numbers.items() if start <= pc < end})

        return Executions(part(self.counts), part(self.idle), part(self.taken))

    def copy(self) -> Executions:
        """Return a copy."""
        return Executions(self.counts.copy(), self.idle.copy(), self.taken.copy())
