"""Vector clocks of waves and of launches.

The clocks of a work-group's waves are joined at barriers. If a wave acquires a clock that another wave has
released, this clock is joined to its clock. A wave's component in its own clock counts its epochs; a new
epoch begins at each barrier and each release. A clock maps each wave to the last epoch of that wave that
happened before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from softcard.engine.gcn.launches import Launch, Launches
from softcard.engine.races.clocks import AgentClock, Clock, join


@dataclass(slots=True, eq=False)
class WaveClock(AgentClock):
    """The vector clock of one wave of work-group `group`.

    `uid` is the wave's number among all waves, `wave` its number in the work-group."""

    wave: int
    group: tuple[int, int, int]
    launch: Launch
    done: int = 0
    """The wave's last own epoch that its next release includes, because the wave has waited for its stores."""
    is_waited: bool = True
    """True if the wave has waited for all of its stores (`s_waitcnt`)."""
    generation: int = 0
    """The number of barriers that the wave has reached."""
    passed: int = 0
    """The number of barriers whose clocks the wave has joined."""
    acquiring: dict[int, Clock] = field(default_factory=dict)
    """The released clocks that the wave has read. It joins them when it invalidates its cache.

    After a barrier they include those that other waves of its work-group had read before.
    """
    recent: dict[int, Clock] = field(default_factory=dict)
    """The clocks in `acquiring` that the wave has read since its last barrier."""
    deferred: dict[object, Any] = field(default_factory=dict)
    """The deferred races of the wave's loads, by the instructions that race: see `events.Deferred`."""
    version: int = 0
    stored: int = 0
    """The epoch of the wave's last store to global memory that needs a write-back (`WriteBacks`); 0 without one."""
    _released: Clock | None = None

    def released(self) -> Clock:
        """Return the clock that a release publishes now.

        It has the known epochs of other waves, and those epochs of this wave whose stores the wave has waited for."""
        if self._released is None:
            self._released = {**self.known, self.uid: self.done} if self.done else dict(self.known)
        return self._released

    def stores(self, *, is_ordered: bool) -> bool:
        """Prepare a store or an atomic; return True if it is a release.

        It is a release if the wave has waited for all earlier stores, or if `is_ordered` is True: the address space
        (LDS) keeps stores in order without a wait.
        """
        releases = self.is_waited or is_ordered
        self.is_waited = self.is_waited and is_ordered
        if releases:
            self.flush()
        return releases

    def released_with(self, epoch: int) -> Clock:
        """Return the clock that the store of epoch `epoch` publishes, including that epoch; begin the next epoch."""
        clock = {**self.released(), self.uid: epoch}
        self._next()
        return clock

    def ordered_with(self, epoch: int) -> Clock:
        """Return the clock that the store of epoch `epoch` publishes to its work-group; begin the next epoch.

        It includes stores that the wave has not waited for: a work-group's stores to global memory stay in order."""
        clock = {**self.released(), self.uid: epoch}
        self._next()
        return clock

    def flush(self) -> None:
        """Commit the current epoch, so that later releases include it; begin the next epoch."""
        self.done = self.epoch
        self._next()

    def acquire(self) -> None:
        """Join the released clocks of all words that the wave has read; called when the wave has invalidated its
        cache."""
        waiting, self.acquiring, self.recent = self.acquiring, {}, {}
        for clock in waiting.values():
            self.learn(clock)

    def reads(self, clocks: Iterable[Clock]) -> None:
        """Record that the wave has read words to which these clocks were released."""
        found = {id(clock): clock for clock in clocks}
        self.acquiring.update(found)
        self.recent.update(found)

    def wrote_back(self) -> None:
        """Begin the next epoch after a write-back, which is complete when the wave has waited for it."""
        self.is_waited = False
        self._next()

    def changed(self) -> None:
        """Begin the next epoch, since the clock that releases publish has changed."""
        self._next()

    def _next(self) -> None:
        self.epoch += 1
        self.version += 1
        self._released = None


class GroupClock:
    """The vector clocks of the waves of one work-group. These waves have consecutive numbers from `first` on."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.waves: dict[int, WaveClock] = {}
        self._barriers: dict[int, dict[int, int]] = {}
        self._ended: dict[int, int] = {}
        self._read: dict[int, dict[int, Clock]] = {}
        """The released clocks that waves had read when they reached a barrier, by the number of the barrier."""
        self._read_last: dict[int, Clock] = {}
        """The released clocks that waves had read when they ended."""

    def own(self, clock: Clock) -> Clock:
        """Return the components of a clock that belong to this work-group."""
        return {uid: epoch for uid, epoch in clock.items() if uid >= self.first}

    def arrive(self, wave: WaveClock) -> None:
        """Record that a wave reached a barrier: its epochs happen before what other waves do after the barrier."""
        wave.generation += 1
        opens = self._barriers.setdefault(wave.generation, {})
        join(opens, {**wave.known, wave.uid: wave.epoch})
        join(opens, self._ended)
        self._read.setdefault(wave.generation, {}).update(wave.recent | self._read_last)
        wave.recent = {}
        wave.flush()

    def leave(self, wave: WaveClock) -> None:
        """Let a wave pass the barriers that it has reached, and join their clocks."""
        while wave.passed < wave.generation:
            wave.passed += 1
            wave.learn(self._barriers[wave.passed])
            wave.acquiring.update(self._read[wave.passed])

    def end(self, wave: WaveClock) -> None:
        """Record that a wave ended: barriers no longer wait for it, and later barriers include its epochs."""
        clock = {**wave.known, wave.uid: wave.epoch}
        join(self._ended, clock)
        self._read_last |= wave.recent
        for generation, opens in self._barriers.items():
            if generation > wave.generation:
                join(opens, clock)
                self._read[generation] |= wave.recent


class ReleasedClocks:
    """The clocks that atomics have released, by space and address.

    A wave may join a clock that it has read much later, when it invalidates its cache. Therefore a clock that was read
    never changes: the next atomic at its address makes a new one.
    """

    def __init__(self) -> None:
        self._clocks: dict[str, dict[int, dict[int, int]]] = {}
        self._read: dict[str, set[int]] = {}
        """The addresses, by space, whose clocks were read."""

    def at(self, space: str, places: Iterable[int]) -> list[Clock]:
        """Return the clocks that were released at some addresses."""
        clocks = self._clocks.get(space)
        if not clocks:
            return []
        found = [place for place in places if place in clocks]
        self._read[space].update(found)
        return [clocks[place] for place in found]

    def join(self, space: str, place: int, clock: Clock) -> None:
        """Join the clock that an atomic releases into the one of its address."""
        clocks, read = self._clocks.setdefault(space, {}), self._read.setdefault(space, set())
        if place not in clocks or place in read:
            clocks[place] = dict(clocks.get(place, ()))
            read.discard(place)
        join(clocks[place], clock)

    def clear(self, space: str | None = None) -> None:
        """Forget the clocks of a space, or all clocks."""
        for each in (self._clocks, self._read):
            if space is None:
                each.clear()
            else:
                each.pop(space, None)

    def restorer(self, space: str | None = None) -> Callable[[], None]:
        """Return a function that restores the present clocks of a space, or all clocks.

        The caller forgets the clocks before other atomics release theirs.
        """
        spaces = list(self._clocks) if space is None else [space]
        saved = [(each, self._clocks.get(each, {}), self._read.get(each, set())) for each in spaces]

        def restore() -> None:
            for each, clocks, read in saved:
                self._clocks[each], self._read[each] = clocks, read

        return restore


class WriteBacks:
    """The write-backs of second-level caches, on agents with one such cache for each accelerator die (XCC).

    On these agents a store is visible to other work-groups once a wave of its work-group has written the cache back
    after it (``buffer_wbl2 sc1``, LLVM's memory model of gfx942). A release publishes to other work-groups those
    accesses of its own work-group that lie before a write-back that happened before the release. Within a work-group,
    which runs on one die, a release needs no write-back."""

    def __init__(self) -> None:
        self._of: dict[int, list[tuple[int, Clock]]] = {}
        """The epochs of a wave's write-backs, each with the accesses of the work-group that it covers, by wave."""

    def add(self, uid: int, epoch: int, covered: Clock) -> None:
        """Record a write-back by wave `uid` in epoch `epoch`, which covers the accesses `covered` of its work-group."""
        self._of.setdefault(uid, []).append((epoch, covered))

    def visible(self, uid: int, clock: Clock, own: Mapping[int, int], stored: int | None) -> dict[int, int]:
        """Return the part of the clock that wave `uid` releases which other work-groups acquire.

        `own` has the components of `clock` that belong to the wave's work-group. `stored` is the epoch of the wave's
        last store that needs a write-back (0 without one), or None if the releasing access is itself such a store."""
        found = {each: epoch for each, epoch in clock.items() if each not in own}
        for each, epoch in own.items():
            covered = next((covered for at, covered in reversed(self._of.get(each, ())) if at <= epoch), NOTHING)
            join(found, covered)
        found.setdefault(uid, 0)
        if stored is not None and stored <= found[uid]:
            found[uid] = max(found[uid], clock.get(uid, 0))
        return found

    def forget(self) -> None:
        """Forget all write-backs, since the accesses before them happened before everything that runs next."""
        self._of.clear()


# ---- clocks of launches ----------------------------------------------------------------------------------------------
# Vector clocks of launches: what their waves have acquired from other launches, for the launches that follow.


NOTHING: Final[Clock] = {}


class LaunchClocks:
    """The clocks with which launches begin and end. `launch_of` returns the launch of a wave, given its number.

    A stream that waits for a value does so by a kernel that reads a word, or by a packet. Everything that the
    last store to the word has released happens before everything that follows in the stream: the storing wave's
    accesses so far, what that wave had acquired, and the launches that ended before its launch."""

    def __init__(self, launches: Launches, launch_of: Callable[[int], Launch]) -> None:
        self._launches = launches
        self._launch_of = launch_of
        self._first: dict[int, Clock] = {}
        """The clock with which the waves of a launch begin, by launch number."""
        self._last: dict[int, dict[int, int]] = {}
        """The clock that a launch's waves have acquired from other launches by its end, by launch number."""
        self._of_queue: dict[int, dict[int, int]] = {}
        """The clock that packets other than kernels have acquired for later launches of a queue, by queue."""

    def begin(self) -> None:
        """Begin a launch. Its waves begin with the clock that earlier launches and packets have acquired."""
        launches = self._launches
        clock: dict[int, int] = {}
        for each in launches.earlier if self._last else ():
            if each.number in self._last and launches.is_before(each):
                join(clock, self._last[each.number])
        join(clock, self._of_queue.get(launches.present.queue, NOTHING))
        clock = {uid: epoch for uid, epoch in clock.items() if not launches.is_before(self._launch_of(uid))}
        if clock:
            self._first[launches.present.number] = clock
            self._last[launches.present.number] = dict(clock)

    @property
    def is_used(self) -> bool:
        """True if any launch began with a clock that is not empty."""
        return bool(self._first)

    def first(self, launch: Launch) -> Clock:
        """Return the clock with which the waves of a launch begin."""
        return self._first.get(launch.number, NOTHING)

    def acquired(self, clocks: Iterable[Clock]) -> None:
        """Record that a wave of the present launch has read words to which these clocks were released.

        The launches that begin later start with these clocks."""
        if self._launches.is_alone:
            return
        present = self._launches.present
        for clock in clocks:
            others = self._others(clock)
            if others:
                present.acquired |= self._launches.acquired_from(others.values())
                join(self._last.setdefault(present.number, {}), {uid: clock[uid] for uid in others})

    def relied_on(self, clocks: Iterable[Clock]) -> bool:
        """Record that a wave has invalidated its caches after it read words to which these clocks were released.

        Return True if this shows, for further launches, that they ended before the present launch began."""
        if self._launches.is_alone:
            return False
        present, before = self._launches.present, self._launches.present.before
        for clock in clocks:
            present.before |= self._launches.acquired_from(self._others(clock).values())
        return present.before != before

    def read_by_packet(self, queue: int, index: int, clocks: Iterable[Clock]) -> int:
        """Record that a packet has read words to which these clocks were released.

        The queue's next launches inherit the clocks. Return the number of the last launch that released one of the
        clocks and began after the packet was submitted; 0 if there is none."""
        latest = 0
        for clock in clocks:
            launches = [self._launch_of(uid) for uid in clock]
            self._launches.acquired_by_packet(queue, self._launches.acquired_from(launches))
            join(self._of_queue.setdefault(queue, {}), clock)
            latest = max(latest, *(each.number for each in launches if each.seen.get(queue, 0) > index), 0)
        return latest

    def forget(self) -> None:
        """Forget everything recorded so far, because all of it happened before everything that runs next."""
        self._first.clear()
        self._last.clear()
        self._of_queue.clear()

    def _others(self, clock: Clock) -> dict[int, Launch]:
        """Return the waves in `clock` that do not belong to the present launch, with their launches.

        A clock maps each wave to an epoch of that wave."""
        found = {uid: self._launch_of(uid) for uid in clock}
        present = self._launches.present
        return {uid: launch for uid, launch in found.items() if launch is not present}
