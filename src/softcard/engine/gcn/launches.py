"""The order of kernel launches, as packets and waves establish it.

Packets order launches by the barrier bit, by signals, and by the time of their submission. Waves order
launches as well. If a wave of launch R reads a word that a wave of launch W released, all launches that ended
before W happen before everything that follows R. The module also records the launches whose end the host has
not observed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Launch:
    """One launch of a kernel, with the queue and the packet that started it.

    `seen` is the number of packets that each queue had at the start. `is_stream` is True if the queue belongs
    to the run-time library of another program, which uses it for its streams. `before` and `acquired` are
    sets of launches as bit masks, see `Launches.bit`. `before` has the launches that ended before this one
    began. `acquired` has further launches that happen before everything that follows this launch, because its
    waves have read what other launches released."""

    number: int
    queue: int = 0
    packet: int = 0
    seen: Mapping[int, int] = field(default_factory=dict)
    is_stream: bool = False
    before: int = 0
    acquired: int = 0
    has_acquired: bool = False
    """True if a wave has read global memory by an atomic or past the caches.

    Such a read may observe a word that the host has stored.
    """


class Launches:
    """The launches over one memory, beginning with the oldest one that may still run.

    `present` is the launch that began last."""

    def __init__(self) -> None:
        self.present = Launch(0)
        self.running: list[Launch] = []
        """The launches that have not ended; each one began while the previous one was running."""
        self.earlier: list[Launch] = []
        self.unseen: set[int] = set()
        """The numbers of launches that the host has not waited for."""
        self._latest = 0
        self._over = 0
        """The number of the last launch up to which all launches have ended.

        Other fields may still contain these launches.
        """
        self._waited: dict[int, int] = {}
        """For each queue, the launches, as bits, that have ended before the next launches of that queue begin."""
        self._own: dict[int, int] = {}
        """For each queue, the number of its last launch that has ended before its next launches begin."""

    def begin(
        self,
        queue: int,
        packet: int,
        seen: Mapping[int, int] | None,
        done: Mapping[int, int] | None = None,
        *,
        is_stream: bool = False,
    ) -> bool:
        """Begin a launch; return True if it is ordered with all other launches.

        That means that all others ended before it, and happen before everything that runs later. `RaceWatch.begin`
        describes the arguments."""
        self._latest += 1
        self.present = present = Launch(self._latest, queue, packet, {} if seen is None else dict(seen), is_stream)
        for each in self.earlier:
            if self.is_before(each):
                present.before |= self.bit(each) | each.before | each.acquired
        is_alone = all(self.is_before(each) and _is_before_others(each, queue, done) for each in self.earlier)
        if is_alone:
            self._forget(self.present.number - 1)
        self.earlier.append(self.present)
        return is_alone

    @property
    def is_alone(self) -> bool:
        """True if all other launches ended before the present one began."""
        return self.earlier == [self.present]

    @property
    def latest(self) -> int:
        """The number of the launch that began last."""
        return self._latest

    def bit(self, launch: Launch) -> int:
        """Return the bit that represents a launch in sets of launches; 0 if it and all earlier launches have ended."""
        return 1 << launch.number - self._over - 1 if launch.number > self._over else 0

    def wait(self, queue: int, *, for_all: bool) -> None:
        """Record that a packet has waited for earlier packets of its queue, or of all queues (`for_all`)."""
        if not for_all:
            self._own[queue] = self._latest
            return
        over = (1 << self._latest - self._over) - 1
        for each in self.running:
            over &= ~self.bit(each)
        self.acquired_by_packet(queue, over)

    def acquired_by_packet(self, queue: int, launches: int) -> None:
        """Record that a packet has observed the end of launches, which then happen before the queue's next launches.

        `launches` is a bit mask with one bit for each of them, see `bit`."""
        self._waited[queue] = self._waited.get(queue, 0) | launches

    def acquired_from(self, launches: Iterable[Launch]) -> int:
        """Return, as a bit mask, the launches that happen before every release by the given launches."""
        found = 0
        for each in launches:
            if each.number > self._over:
                found |= each.before | each.acquired
        return found

    def is_before(self, launch: Launch) -> bool:
        """Return True if `launch` happens before the present launch, or may do so.

        If the present launch's packet was submitted after `launch` ended, the host may have waited for that end."""
        present = self.present
        if launch is present or launch in self.running:
            return False
        if self.is_over(launch) or launch.seen.get(present.queue, 0) <= present.packet:
            return True
        if (self._waited.get(present.queue, 0) | present.before) & self.bit(launch):
            return True
        return launch.queue == present.queue and self._own.get(present.queue, 0) >= launch.number

    def is_over(self, launch: Launch) -> bool:
        """Return True if `launch` ended before any launch that may run concurrently with the present launch began."""
        return launch.number <= self._over

    def forget(self) -> None:
        """Record that all launches have ended."""
        self._forget(self._latest)

    def _forget(self, last: int) -> None:
        self._over = last
        self.earlier.clear()
        self._waited.clear()
        self._own.clear()
        for each in (*self.running, self.present):
            each.before = each.acquired = 0


def _is_before_others(launch: Launch, queue: int, done: Mapping[int, int] | None) -> bool:
    """Return True if all outstanding packets of other queues were submitted after the end of a launch.

    `done` is the number of completed packets of each queue."""
    return done is None or all(each == queue or done.get(each, end) >= end for each, end in launch.seen.items())
