"""Kernels that run, and which of them are over before others by rule: the barrier bit, signals, the end of a queue.

And of which of them the host does not know yet that they are over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """A kernel that runs: the queue and the packet that it came by; `seen` is how far each queue was filled then."""

    number: int
    queue: int = 0
    packet: int = 0
    seen: Mapping[int, int] = field(default_factory=dict)


class Launches:
    """The kernels of one memory, from the first on that may not be over; `present` is the one that began last."""

    def __init__(self) -> None:
        self.present = Launch(0)
        self.earlier: list[Launch] = []
        self.unseen: set[int] = set()
        """Numbers of launches that the host may not rely on: it has not waited for them."""
        self._over = 0
        """Up to this number all are over, whatever the others say."""
        self._behind: dict[int, int] = {}
        """By queue: the launch from which on, backwards, all are over before its next ones."""
        self._own: dict[int, int] = {}
        """Likewise those of the queue itself."""

    def begin(self, queue: int, packet: int, seen: Mapping[int, int] | None) -> bool:
        """A kernel runs next. Whether all others are over; see `RaceWatch.begin`."""
        self.present = Launch(self.present.number + 1, queue, packet, {} if seen is None else dict(seen))
        is_alone = all(map(self.is_before, self.earlier))
        if is_alone:
            self._forget(self.present.number - 1)
        self.earlier.append(self.present)
        return is_alone

    @property
    def is_alone(self) -> bool:
        """Whether all others are over before the present one."""
        return self.earlier == [self.present]

    def wait(self, queue: int, *, for_all: bool) -> None:
        """A packet of a queue has waited for those before it: of the queue, or `for_all` that anyone may wait for."""
        (self._behind if for_all else self._own)[queue] = self.present.number

    def is_before(self, launch: Launch) -> bool:
        """Whether one is over before the present one by rule. What was not submitted then may have been waited for."""
        queue = self.present.queue
        if launch is self.present:
            return False
        if self.is_over(launch) or launch.seen.get(queue, 0) <= self.present.packet:
            return True
        if self._behind.get(queue, 0) >= launch.number:
            return True
        return launch.queue == queue and self._own.get(queue, 0) >= launch.number

    def is_over(self, launch: Launch) -> bool:
        """Whether one was over before all that may run beside the present one."""
        return launch.number <= self._over

    def forget(self) -> None:
        """All are over."""
        self._forget(self.present.number)

    def _forget(self, last: int) -> None:
        self._over = last
        self.earlier.clear()
        self._behind.clear()
        self._own.clear()
