"""A strict memory: waves on several compute units, each with a first-level cache, and stores that take their time.

What the ROCm Code Object document's "Memory model" asks of machine code is only visible on hardware that may be late:
here loads without GLC hit lines that were cached long ago, stores arrive in any order some time before ``s_waitcnt``
lets their wave go on, and what a wave does not wait for is told (`engine.gcn.waits`). What is shared with the host lies
behind a second level, which the fences of packets write back and invalidate. Everything that came out stale is reported
with both places. All work-groups of a dispatch are in flight at once, on compute units in turn.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from understudy.core.errors import UnderstudyError
from understudy.core.order import Prng
from understudy.core.snapshot import Stateful
from understudy.engine.gcn.api import Dispatch, Statistics, StepLimit
from understudy.engine.gcn.group import look, start_wave
from understudy.engine.gcn.memory import GpuMemory
from understudy.engine.gcn.reference.engine import Stepper
from understudy.engine.gcn.strict.caches import NONE, SCOPES, SYSTEM, Caches, System
from understudy.engine.gcn.strict.findings import STORED, Finding, Host
from understudy.engine.gcn.strict.lanes import Ledger, StrictLanes
from understudy.isa.gcn.state import AT_BARRIER, RETIRED, RUNNING, SLEPT, STATUS, Wave, aligned


class StrictEngine(Stateful):
    """Runs dispatches on `units` compute units with the strict memory; `findings` are those of the last run.

    Caches outlive runs. Every run begins with an acquire and ends with a release fence at system scope, unless it is
    `fenced`: then whoever runs packets calls `acquire` and `release`. Agents that share memory may share a `system`.
    """

    STATE = ("_caches", "_chance")

    def __init__(self, units: int = 2, seed: int = 0, fenced: bool = False, system: System | None = None) -> None:
        self.units = units
        self.seed = seed
        self.fenced = fenced
        self.findings: list[Finding] = []
        self.statistics = Statistics(0, 0, 0)
        self._system = System() if system is None else system
        self._caches: Caches | None = None
        self._packet = ""
        self._acquired = ""
        self._released: dict[str, str] = {}
        """Packets whose stores nothing waited for."""
        self._owners = 0
        self._chance = Prng(seed ^ 0x5DEECE66D)

    # ---- fences ----------------------------------------------------------------------------------------------------
    def caches(self, memory: GpuMemory) -> Caches:
        """The caches over a memory."""
        if self._caches is None or self._caches.memory is not memory:
            if self._caches is not None:
                self._system.caches.remove(self._caches)
            self._caches = Caches(memory, self.units, self.seed, self._system)
        self._caches.purge()
        return self._caches

    def acquire(self, memory: GpuMemory, scope: int = SYSTEM, packet: str = "") -> None:
        """The acquire fence of a packet, whose waves are launched next."""
        self.caches(memory).acquire(scope)
        self._packet = packet
        self._acquired = f"{packet} acquired at scope {SCOPES[scope]}" if packet else ""

    def release(self, memory: GpuMemory, scope: int = SYSTEM) -> None:
        """The release fence of a packet, whose waves have ended."""
        self.caches(memory).release(scope)
        if scope == NONE and self._packet:
            self._released[self._packet] = f"{self._packet} released at scope {SCOPES[scope]}"

    def unseen(self, memory: GpuMemory, host: Host, fence: str, address: int = 0, size: int = 1 << 64) -> list[Finding]:
        """One finding for each instruction whose stores to some memory the host does not see yet."""
        found: dict[int, Finding] = {}
        for at, store in self.caches(memory).unseen(address, size):
            place = STORED if store is None else store.place
            found.setdefault(place.pc, Finding("not released", host, place, at, fence))
        return list(found.values())

    def snapshot(self) -> Any:
        """What caches hold and what is on its way, for `restore`."""
        return self._caches, super().snapshot()

    def restore(self, state: Any) -> None:
        """Go back to a state that `snapshot` gave, of the same memory."""
        self._caches, own = state
        super().restore(own)

    # ---- waves -----------------------------------------------------------------------------------------------------
    def run(self, dispatch: Dispatch) -> Statistics:
        """Run all groups side by side to their end. Errors as of `api.Engine`."""
        for _ in self.steps(dispatch):
            pass
        return self.statistics

    def steps(self, dispatch: Dispatch) -> Iterator[None]:
        """The same in small steps, so that others can access the memory in between."""
        if not self.fenced:
            self.acquire(dispatch.memory)
        caches = self.caches(dispatch.memory)
        stepper = StrictStepper(dispatch, Ledger(caches, dispatch.target, self._packet, self._acquired, self._released))
        groups = [self._start(dispatch, stepper, group) for group in range(len(dispatch.groups))]
        self.findings = []
        try:
            yield from self._turns(dispatch, stepper, groups)
            self._log(dispatch, groups)
        except UnderstudyError as error:
            self._log(dispatch, groups, error)
            raise
        finally:
            if not self.fenced:
                self.release(dispatch.memory)
            self.findings = list(stepper.ledger.findings.values())
        waves = [wave for group, _ in groups for wave in group]
        instructions = sum(int(wave.words[RETIRED]) for wave in waves)
        self.statistics = Statistics(instructions, len(waves), len(groups), instructions)

    @staticmethod
    def _log(dispatch: Dispatch, groups: list[tuple[list[Wave], object]], error: UnderstudyError | None = None) -> None:
        """Tell what became of waves, if anybody is to know: the one that an error names has failed."""
        if dispatch.waves is None:
            return
        places = {} if error is None else {place.kind: str(place.where) for place in error.path}
        for number, (waves, _) in enumerate(groups):
            x, y, z, _ = dispatch.groups[number].tolist()
            failed = int(places["wave"]) if places.get("work-group") == f"{x},{y},{z}" else None
            dispatch.waves.over(number, waves, [int(wave.words[RETIRED]) for wave in waves], failed)

    def _start(self, dispatch: Dispatch, stepper: StrictStepper, group: int) -> tuple[list[Wave], object]:
        count = int(dispatch.shapes.waves[dispatch.groups[group, 3]])
        lds = aligned(max(dispatch.lds_bytes, 1))
        waves = []
        for number in range(count):
            wave = Wave(index=number)
            slot = (group * dispatch.most_waves + number) % max(dispatch.scratch_slots, 1)
            start_wave(dispatch, wave, group, number, slot, int(lds.ctypes.data))
            waves.append(wave)
            self._owners += 1
            stepper.ledger.owners[wave.address] = (self._owners, group, group % self.units)
        return waves, lds

    def _turns(
        self, dispatch: Dispatch, stepper: StrictStepper, groups: list[tuple[list[Wave], object]]
    ) -> Iterator[None]:
        chance, began = self._chance, time.monotonic()
        while True:
            for number, (waves, _) in enumerate(groups):
                _open_barrier(dispatch, number, waves)
            ready = [(number, wave) for number, (waves, _) in enumerate(groups) for wave in waves if _runs(wave)]
            if not ready:
                return
            number, wave = ready[chance.below(len(ready))]
            try:
                began += look(dispatch, wave, began)
                _turn(dispatch, stepper, wave, 1 + chance.below(8))
            except UnderstudyError as error:
                x, y, z, _ = dispatch.groups[number].tolist()
                if dispatch.barriers is not None:
                    dispatch.barriers.fails(dispatch, number, groups[number][0], wave, error)
                raise error.at("wave", wave.index).at("work-group", f"{x},{y},{z}") from None
            yield


class StrictStepper(Stepper):
    """Executes single instructions on `StrictLanes`, never from a recording."""

    def __init__(self, dispatch: Dispatch, ledger: Ledger) -> None:
        super().__init__(dispatch, lanes=StrictLanes(dispatch, ledger))
        self.ledger = ledger


def _turn(dispatch: Dispatch, stepper: StrictStepper, wave: Wave, count: int) -> None:
    """Some instructions of a wave."""
    for _ in range(count):
        if not _runs(wave):
            return
        slept = wave.words[SLEPT]
        if wave.words[RETIRED] - slept >= dispatch.most_steps:
            raise StepLimit.of(dispatch).at("pc", wave.pc)
        before = wave.pc
        stepper.step(wave)
        stepper.ledger.finish()
        if wave.pc == before or wave.words[SLEPT] != slept:  # it waits for its stores or pauses: let others see
            return


def _runs(wave: Wave) -> bool:
    return bool(wave.words[STATUS] == RUNNING)


def _open_barrier(dispatch: Dispatch, group: int, waves: list[Wave]) -> None:
    """A barrier opens when all that live wait there."""
    if any(_runs(wave) for wave in waves):
        return
    if dispatch.barriers is not None and any(wave.words[STATUS] == AT_BARRIER for wave in waves):
        dispatch.barriers.opens(dispatch, group, waves)
    for wave in waves:
        if wave.words[STATUS] == AT_BARRIER:
            wave.words[STATUS] = RUNNING
