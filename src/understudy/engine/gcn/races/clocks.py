"""What is ordered before what: a clock for each wave, joined at barriers and where one acquires what another released.

A wave's own clock counts *ticks*: stretches between barriers and releases. A clock says, by wave, up to which tick all
that the wave did came before.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from understudy.engine.clocks import Clock, join
from understudy.engine.gcn.races.launches import Launch


@dataclass(slots=True, eq=False)
class WaveClock:
    """The clock of one wave: `uid` is its number of all waves, `wave` that in its work-group `group`."""

    uid: int
    wave: int
    group: tuple[int, int, int]
    launch: Launch
    known: dict[int, int] = field(default_factory=dict)
    """What came before, but for its own."""
    tick: int = 1
    done: int = 0
    """The last tick that is released with what it stores."""
    is_waited: bool = True
    """Whether its stores have been waited for."""
    generation: int = 0
    """Barriers that it has come to."""
    passed: int = 0
    """Barriers whose clocks it knows."""
    acquiring: dict[int, Clock] = field(default_factory=dict)
    """What it has read of others' releases, until it invalidates its cache."""
    version: int = 0
    _released: Clock | None = None

    def knows(self, uid: int, tick: int) -> bool:
        """Whether a tick of a wave came before what this one does now."""
        return uid == self.uid or self.known.get(uid, 0) >= tick

    def released(self) -> Clock:
        """What comes before whatever acquires from here: what it knows, and of its own what it has waited for."""
        if self._released is None:
            self._released = {**self.known, self.uid: self.done} if self.done else dict(self.known)
        return self._released

    def stores(self, *, is_ordered: bool) -> bool:
        """A store or an atomic is next. Whether it releases what came before, and itself: all that has been waited for.

        `is_ordered`: stores of its space need no waits.
        """
        releases = self.is_waited or is_ordered
        self.is_waited = self.is_waited and is_ordered
        if releases:
            self.settle()
        return releases

    def released_with(self, tick: int) -> Clock:
        """What the store of the present tick releases: itself, too. What comes behind it has another tick."""
        clock = {**self.released(), self.uid: tick}
        self._next()
        return clock

    def settle(self) -> None:
        """What was done so far comes before what is released from now on."""
        self.done = self.tick
        self._next()

    def learn(self, clock: Clock) -> None:
        """What a clock says came before, came before what this wave does from now on."""
        known, is_new = self.known, False
        for uid, tick in clock.items():
            if uid != self.uid and known.get(uid, 0) < tick:
                known[uid] = tick
                is_new = True
        if is_new:
            self._next()

    def acquire(self) -> None:
        """The cache is invalidated: what was released can be relied on."""
        waiting, self.acquiring = self.acquiring, {}
        for clock in waiting.values():
            self.learn(clock)

    def _next(self) -> None:
        self.tick += 1
        self.version += 1
        self._released = None


class GroupClock:
    """The waves of one work-group. `first` is the number of its first wave: those from there on are its waves."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.waves: dict[int, WaveClock] = {}
        self._barriers: dict[int, dict[int, int]] = {}
        self._ended: dict[int, int] = {}

    def own(self, clock: Clock) -> Clock:
        """The part of a clock that is about this work-group."""
        return {uid: tick for uid, tick in clock.items() if uid >= self.first}

    def arrive(self, wave: WaveClock) -> None:
        """A wave has come to a barrier: what it did comes before what others do behind it."""
        wave.generation += 1
        opens = self._barriers.setdefault(wave.generation, {})
        join(opens, {**wave.known, wave.uid: wave.tick})
        join(opens, self._ended)
        wave.settle()

    def leave(self, wave: WaveClock) -> None:
        """The barriers that a wave has come to are open: it goes on."""
        while wave.passed < wave.generation:
            wave.passed += 1
            wave.learn(self._barriers[wave.passed])

    def end(self, wave: WaveClock) -> None:
        """A wave has ended: barriers do not wait for it, and those that did open behind what it did."""
        clock = {**wave.known, wave.uid: wave.tick}
        join(self._ended, clock)
        for generation, opens in self._barriers.items():
            if generation > wave.generation:
                join(opens, clock)
