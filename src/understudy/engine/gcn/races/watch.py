"""The check `races` of a device: each access of a byte is held against those before it that nothing orders.

What orders two accesses: the wave that does both; a barrier of the work-group; a release that the later one's wave, or
one before it, has acquired; packets that wait for each other. Waves of one launch run as ever, so that nothing but what
is said to order them does: no finding depends on who happened to be first.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final

from understudy.core.checks import LANES, RACES
from understudy.core.errors import NoHostMemory
from understudy.core.findings import FindingLog
from understudy.engine.gcn.races.launches import Launches
from understudy.engine.gcn.races.telling import FREE, LOAD, Met, Telling

if TYPE_CHECKING:
    from understudy.engine.gcn.memory import GpuMemory
    from understudy.engine.gcn.races.events import EventJudge
    from understudy.engine.gcn.races.lane_order import LaneOrder
    from understudy.engine.gcn.races.native_judge import NativeJudge
    from understudy.engine.gcn.races.speculation import Speculation

ATOMIC_BYTES: Final = 8
"""The most that one reads or writes to pass on that something is done."""


class RaceWatch:
    """Looks at the launches of one memory. `equal_stores`: stores that leave it as it is are told of, too.

    `lanes`: those of one wave are held against each other, too; accesses are the reference engine's then.
    """

    def __init__(self, memory: GpuMemory, log: FindingLog, equal_stores: bool = False, lanes: bool = False) -> None:
        self.equal_stores = equal_stores
        self.launches = Launches()
        self.telling = Telling(memory, log)
        self.kinds = (RACES, LANES) if lanes else (RACES,)
        """What translated code is made for."""

    @cached_property
    def lanes(self) -> LaneOrder | None:
        """What judges the accesses of a wave's lanes among each other; None where nobody asked for it."""
        if LANES not in self.kinds:
            return None
        from understudy.engine.gcn.races.lane_order import LaneOrder

        return LaneOrder(self.telling, equal_stores=self.equal_stores)

    @cached_property
    def events(self) -> EventJudge:
        """What judges the accesses of waves on the reference engine."""
        from understudy.engine.gcn.races.events import EventJudge

        return EventJudge(self.launches, self.telling, equal_stores=self.equal_stores)

    @cached_property
    def native(self) -> NativeJudge:
        """What judges those of waves on the JIT engine."""
        from understudy.engine.gcn.races.native_judge import NativeJudge

        return NativeJudge(self.launches, self.telling, equal_stores=self.equal_stores)

    @cached_property
    def speculation(self) -> Speculation | None:
        """Work-groups of one launch side by side; None where this process has no addresses for it."""
        from understudy.engine.gcn.races.speculation import Speculation

        with suppress(NoHostMemory):
            return Speculation(self.native, self.telling.memory)
        return None

    def begin(self, queue: int = 0, packet: int = 0, seen: Mapping[int, int] | None = None) -> None:
        """A kernel runs next, by a packet of a queue; `seen`: packets that each queue has been given by now.

        Without `seen` whatever runs later comes after it.
        """
        if self.launches.begin(queue, packet, seen):
            self._forget()

    def wait(self, queue: int, *, for_all: bool) -> None:
        """A packet of a queue has waited for those before it: of the queue, or `for_all` that anyone may wait for."""
        self.launches.wait(queue, for_all=for_all)

    def forget(self) -> None:
        """Whatever ran so far is over before what runs next."""
        self.launches.forget()
        self._forget()

    def host(self, access: str, address: int, size: int) -> set[int]:
        """The host reads, writes or frees memory: tell of what launches do there that it has not waited for.

        The numbers of those that have told it what it reads: by an atomic, or by what may be one.
        """
        judges = [vars(self)[name] for name in ("events", "native") if name in vars(self)]
        found: list[Met] = [met for judge in judges for met in judge.met(access, address, size)]
        flags = [met for met in found if met.is_atomic and size <= ATOMIC_BYTES and access != FREE]
        told = {met.launch for met in flags if access == LOAD}
        for met in found:
            if met not in flags and met.launch not in told:
                self.telling.tell_host(access, met)
        return told

    def _forget(self) -> None:
        if "events" in vars(self):
            self.events.forget()
        if "native" in vars(self):
            self.native.forget()
