"""The engine with worst-case memory: compute units with first-level caches, and delayed stores.

Hardware shows violations of the memory model (section "Memory model" of the ROCm Code Object document) only if accesses
happen to be late. On this engine, loads without GLC hit lines that were cached long ago, and stores arrive in any order
some time before ``s_waitcnt`` lets their wave continue. Missing waits are reported (`engine.gcn.waits`). Memory that is
shared with the host is cached in a second level, which the fences of packets write back and invalidate. Every finding
about a stale value names both the load and the store. All work-groups of a dispatch run concurrently, assigned to
compute units round-robin.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from softcard.core.errors import SoftcardError
from softcard.core.order import Prng
from softcard.core.snapshot import Stateful
from softcard.engine.gcn.api import Dispatch, Statistics, StepLimit
from softcard.engine.gcn.group import poll_watch, start_wave
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.reference.engine import Stepper
from softcard.engine.gcn.strict.caches import NONE, SCOPES, SYSTEM, Caches, System
from softcard.engine.gcn.strict.findings import STORED, Finding, Host
from softcard.engine.gcn.strict.lanes import Ledger, StrictLanes
from softcard.isa.gcn.state import AT_BARRIER, RETIRED, RUNNING, SLEPT, STATUS, Wave, aligned


class StrictEngine(Stateful):
    """The engine that runs dispatches with the worst-case memory.

    It has `units` compute units on each of `xccs` accelerator dies. `findings` are those of the last run.

    Caches persist from run to run. Every run begins with an acquire fence and ends with a release fence at system
    scope. With `fenced`, the packet processor calls `acquire` and `release` instead. Agents that share memory may share
    a `system`.
    """

    STATE = ("_caches", "_chance")

    def __init__(
        self, units: int = 2, seed: int = 0, fenced: bool = False, system: System | None = None, xccs: int = 1
    ) -> None:
        self.units = units
        self.xccs = xccs
        self.seed = seed
        self.fenced = fenced
        self.findings: list[Finding] = []
        self.statistics = Statistics(0, 0, 0)
        self._system = System() if system is None else system
        self._caches: Caches | None = None
        self._packet = ""
        self._acquired = ""
        self._released: dict[str, str] = {}
        """For each packet that ended without a release fence at system scope, a description of its release."""
        self._owners = 0
        self._chance = Prng(seed ^ 0x5DEECE66D)

    # ---- fences ----------------------------------------------------------------------------------------------------
    def caches(self, memory: GpuMemory) -> Caches:
        """Return the caches through which waves access `memory`. Create them if necessary."""
        if self._caches is None or self._caches.memory is not memory:
            if self._caches is not None:
                self._system.caches.remove(self._caches)
            self._caches = Caches(memory, self.units * self.xccs, self.seed, self._system, self.xccs)
        self._caches.purge()
        return self._caches

    def acquire(self, memory: GpuMemory, scope: int = SYSTEM, packet: str = "") -> None:
        """Perform the acquire fence of a packet, whose waves are launched next."""
        self.caches(memory).acquire(scope)
        self._packet = packet
        self._acquired = f"{packet} acquired at scope {SCOPES[scope]}" if packet else ""

    def release(self, memory: GpuMemory, scope: int = SYSTEM) -> None:
        """Perform the release fence of a packet, whose waves have ended."""
        self.caches(memory).release(scope)
        if scope == NONE and self._packet:
            self._released[self._packet] = f"{self._packet} released at scope {SCOPES[scope]}"

    def unseen(self, memory: GpuMemory, host: Host, fence: str, address: int = 0, size: int = 1 << 64) -> list[Finding]:
        """Return findings about stores to a range of memory that the host does not see yet.

        There is one for each storing instruction. `host` describes the host's access, `fence` the release fence that is
        too weak.
        """
        found: dict[int, Finding] = {}
        for at, store in self.caches(memory).unseen(address, size):
            place = STORED if store is None else store.place
            found.setdefault(place.pc, Finding("not released", host, place, at, fence))
        return list(found.values())

    def snapshot(self) -> Any:
        """Return the state of the caches and of delayed stores, for `restore`."""
        return self._caches, super().snapshot()

    def restore(self, state: Any) -> None:
        """Restore a state that `snapshot` returned for the same memory."""
        self._caches, own = state
        super().restore(own)

    # ---- waves -----------------------------------------------------------------------------------------------------
    def run(self, dispatch: Dispatch) -> Statistics:
        """Run all work-groups concurrently to their end. Errors are those of `api.Engine`."""
        for _ in self.steps(dispatch):
            pass
        return self.statistics

    def steps(self, dispatch: Dispatch) -> Iterator[None]:
        """Run all work-groups in small steps, between which the caller may access the memory."""
        if not self.fenced:
            self.acquire(dispatch.memory)
        caches = self.caches(dispatch.memory)
        ledger = Ledger(
            caches, dispatch.target, self._packet, self._acquired, self._released, tg_split=dispatch.tg_split
        )
        stepper = StrictStepper(dispatch, ledger)
        groups = [self._start(dispatch, stepper, group) for group in range(len(dispatch.groups))]
        self.findings = []
        try:
            yield from self._run_round_robin(dispatch, stepper, groups)
            self._log(dispatch, groups)
        except SoftcardError as error:
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
    def _log(dispatch: Dispatch, groups: list[tuple[list[Wave], object]], error: SoftcardError | None = None) -> None:
        """Record the end of each wave in the wave log, if there is one.

        The wave that `error` names has failed.
        """
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
            of_die = (group // self.xccs + dispatch.tg_split * number) % self.units
            stepper.ledger.owners[wave.address] = (self._owners, group, group % self.xccs + self.xccs * of_die)
        return waves, lds

    def _run_round_robin(
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
                began += poll_watch(dispatch, wave, began)
                _run_time_slice(dispatch, stepper, wave, 1 + chance.below(8))
            except SoftcardError as error:
                x, y, z, _ = dispatch.groups[number].tolist()
                if dispatch.checks.at_barriers:
                    dispatch.checks.group_fails(dispatch, number, groups[number][0], wave, error)
                raise error.at("wave", wave.index).at("work-group", f"{x},{y},{z}") from None
            yield


class StrictStepper(Stepper):
    """The executor of single instructions on `StrictLanes`."""

    def __init__(self, dispatch: Dispatch, ledger: Ledger) -> None:
        super().__init__(dispatch, lanes=StrictLanes(dispatch, ledger))
        self.ledger = ledger


def _run_time_slice(dispatch: Dispatch, stepper: StrictStepper, wave: Wave, count: int) -> None:
    """Execute up to `count` instructions of a wave."""
    for _ in range(count):
        if not _runs(wave):
            return
        slept = wave.words[SLEPT]
        if wave.words[RETIRED] - slept >= dispatch.most_steps:
            raise StepLimit.of(dispatch).at("pc", wave.pc)
        before = wave.pc
        stepper.step(wave)
        stepper.ledger.finish()
        if wave.pc == before or wave.words[SLEPT] != slept:  # it waits for stores or pauses: run other waves
            return


def _runs(wave: Wave) -> bool:
    return bool(wave.words[STATUS] == RUNNING)


def _open_barrier(dispatch: Dispatch, group: int, waves: list[Wave]) -> None:
    """Open a work-group's barrier if all of its waves that have not ended wait there."""
    if any(_runs(wave) for wave in waves):
        return
    if dispatch.checks.at_barriers and any(wave.words[STATUS] == AT_BARRIER for wave in waves):
        dispatch.checks.barrier_opens(dispatch, group, waves)
    for wave in waves:
        if wave.words[STATUS] == AT_BARRIER:
            wave.words[STATUS] = RUNNING
