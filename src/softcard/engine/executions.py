"""The executions of instructions that an engine counts, by the address of the instruction."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


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
