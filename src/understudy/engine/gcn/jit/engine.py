"""The JIT engine of waves: guest code as machine code of the host, everything else on the reference engine.

Tiers: a region is compiled quickly when it is first reached and again, optimised, by a background thread; the better
code is taken up between batches of work-groups. Groups are handed out to threads in batches; machine code runs without
the interpreter lock.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from understudy.core.errors import BeyondModel, ModelBug, UnderstudyError
from understudy.core.forks import tell_forks
from understudy.core.shown import count
from understudy.engine.gcn.api import Dispatch, Statistics, Words32
from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.basics import BlockKey, Fetch, Misspeculation, Observed, Untranslated
from understudy.engine.gcn.jit.counters import ROOM, Tally
from understudy.engine.gcn.jit.runtime import shared_runtime
from understudy.engine.gcn.jit.tier import Tier
from understudy.engine.gcn.jit.translation import CodeSpace, Compiled
from understudy.engine.gcn.jit.worker import Worker
from understudy.engine.gcn.memory import GpuMemory
from understudy.engine.gcn.threaded.library import shared_library
from understudy.engine.gcn.threaded.program import HEAT
from understudy.engine.gcn.ticks import TICK_SECONDS
from understudy.ir import llvm
from understudy.ir.background import BACKGROUND, Task
from understudy.ir.object_cache import ObjectCache, default_folder
from understudy.ir.slow_host import WAVES, warn_where_slow
from understudy.isa.gcn.target import Target

if TYPE_CHECKING:
    from understudy.core.thread_pool import PinnedPool
    from understudy.engine.gcn.races.speculation import Speculation
    from understudy.engine.gcn.races.watch import RaceWatch
    from understudy.isa.gcn.insn import Insn

BATCH_SECONDS: Final = 0.002
"""What a batch of groups should take: long against the hand-over of the interpreter lock."""
SHARED_SECONDS: Final = 0.0006
"""Work that is worth waking other threads for."""
SHARES: Final = 2
"""Parts of what is left for a thread that a batch is one of, at most."""
LEAST_SECONDS: Final = 0.00003
"""What a batch should take at least."""
MOST: Final = 1 << 16
"""Groups of a batch."""
HOT: Final = 50_000
"""Visits of a block after which to optimise it: then the time that it takes is soon saved."""
STAGE_SECONDS: Final = 0.25
"""What groups that run side by side while races are looked for should take one after the other, at most."""
SPECULATING: Final = 8
"""Threads that do so at most: what each of them knows, one of them makes one."""
LOOK_SECONDS: Final = 0.005
"""Time between looks at what is hot."""


class JitEngine:
    """Runs dispatches as machine code of the host.

    `threads`: how many work-groups run side by side; by default one per processor of this process. `tier` fixes the
    tier instead of tiering up. `lanes` fixes the width of a chunk. `cache`: where objects are kept.
    `observed`: whether somebody looks at vector registers that the program will not read again.
    `counting`: `instruction_counts` tells how often each instruction was executed; nothing is optimised then.
    """

    def __init__(
        self,
        threads: int | None = None,
        tier: Tier | None = None,
        lanes: int | None = None,
        cache: ObjectCache | None = None,
        observed: Observed = Observed.NEVER,
        counting: bool = False,
    ) -> None:
        warn_where_slow(WAVES)
        self.threads = threads if threads is not None else _processors()
        self.tier = Tier.THREADED if counting else tier
        self.tally = Tally() if counting else None
        self.observed = observed
        self.cache = cache if cache is not None else ObjectCache(default_folder())
        self.lanes = lanes if lanes is not None else layout.chunk_lanes(llvm.host_features())
        self.runtime = shared_runtime(self.cache.folder, self.lanes)
        self.library = shared_library(self.cache.folder, self.lanes)
        self.lock: AbstractContextManager[Any] = threading.RLock()
        self._codes: weakref.WeakKeyDictionary[GpuMemory, dict[tuple[str, ...], CodeSpace]] = (
            weakref.WeakKeyDictionary()
        )
        self._tiering_up: dict[Task[Compiled | None], CodeSpace] = {}
        self._heats: dict[int, npt.NDArray[np.uint64]] = {}
        self._next_look = 0.0
        self._pool: PinnedPool | None = None
        self.limit: int | None = None
        """Code from this address on is the reference engine's: so it is found out where the two do not agree."""
        self.keeps_programs = True
        """Whether programs are kept for the next process. Set before the first dispatch."""
        self.is_beside = False
        """While a dispatch runs beside another one, in its time: that may have all threads but the calling one."""
        tell_forks(self)

    def __repr__(self) -> str:
        return f"<JIT engine of waves, {count(self.threads, 'thread')}>"

    def after_fork(self) -> None:
        """In a child process: what another thread was compiling is hot here too, and found once more."""
        self.lock = threading.RLock()
        for code in self._tiering_up.values():
            code.tried.clear()
        self._tiering_up = {}

    def run(self, dispatch: Dispatch) -> Statistics:
        """Run all groups to their end; see `api.Engine`."""
        return self.prepare(dispatch).run()

    def prepare(self, dispatch: Dispatch) -> Launch:
        """Make ready what the waves of a dispatch need, to be run once or often."""
        return Launch(self, dispatch)

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.close()
        self._pool = None
        self._tiering_up = {}

    def pool(self) -> PinnedPool:
        """Threads that run groups beside the calling one."""
        if self._pool is None:
            from understudy.core.thread_pool import PinnedPool

            self._pool = PinnedPool(max(self.threads - 1, 1), "understudy-waves")
        return self._pool

    # ---- code --------------------------------------------------------------------------------------------------
    def code(
        self, target: Target, memory: GpuMemory, kinds: tuple[str, ...] = (), knows_ends: bool = False
    ) -> CodeSpace:
        """Translated code of a memory, for waves with these kinds of marks, or races.

        `knows_ends`: where they end is told.
        """
        observed = Observed.PLACE if knows_ends and self.observed is Observed.NEVER else self.observed
        with self.lock:
            spaces, key = self._codes.setdefault(memory, {}), (target.name, observed.value, *kinds, str(self.limit))
            if key not in spaces:
                # What ends at a limit is of no use to others.
                programs = self.cache if self.keeps_programs and self.limit is None else ObjectCache()
                parts = self.library, self.cache, programs, observed
                spaces[key] = CodeSpace(target, *parts, memory, self.tally, kinds, self.limit)
            return spaces[key]

    def install(self, code: CodeSpace, place: BlockKey, fetch: Fetch, marked: tuple[int, ...] = ()) -> bool:
        """Make code that can be entered at a place part of the table; False where there is none to be made.

        The caller holds the lock. `marked`: of each kind of marks the vector registers that have any, one bit each.
        """
        try:
            code.install(place, fetch, self.tier, marked)
        except Untranslated:
            return False
        return True

    def tell(self, code: CodeSpace, place: BlockKey, insn: Insn, fetch: Fetch) -> bool:
        """Have code for what an instruction means with its numbers; False where the reference engine executes that.

        The caller holds the lock.
        """
        return code.tell(place, insn, fetch)

    # ---- hot code ------------------------------------------------------------------------------------------------
    def heat(self, slot: int) -> npt.NDArray[np.uint64]:
        """How often the thread of that number has run each block of programs."""
        return self._heats.setdefault(slot, np.zeros(HEAT if self.tally is None else ROOM, np.uint64))

    def instruction_counts(self) -> dict[int, int]:
        """How often the instruction at each pc has retired, of an engine that counts them; a `ModelBug` of another."""
        if self.tally is None:
            raise ModelBug("this engine does not count instructions")
        with self.lock:
            return self.tally.counts(sum(self._heats.values(), np.zeros(ROOM, np.uint64)))

    @property
    def is_tiering_up(self) -> bool:
        """Whether optimised code is on its way."""
        return bool(self._tiering_up)

    def adopt(self) -> None:
        """Take up what the background thread has finished, and give it what has become hot."""
        self.runtime.adopt()
        self.library.adopt()
        if self.tier is not None:
            return
        now = time.perf_counter()
        if now < self._next_look and not any(task.done for task in tuple(self._tiering_up)):
            return
        self._next_look = now + LOOK_SECONDS
        with self.lock:
            for task in [task for task in self._tiering_up if task.done]:
                code = self._tiering_up.pop(task)
                made, memory = task.result(), code.memory()
                linked = None if made is None else made.linked()
                if linked is not None and memory is not None and linked.holds(memory):
                    code.keep(linked)
                    for visits in self._heats.values():
                        visits[code.heats(linked)] = 0
            if not self._tiering_up:
                self._heat_up()

    def _heat_up(self) -> None:
        """Have the hottest code optimised, on the background thread."""
        visits = np.sum(list(self._heats.values()), axis=0) if self._heats else np.zeros(HEAT, np.uint64)
        if visits.max() < HOT:
            return
        for spaces in list(self._codes.values()):
            for code in spaces.values():
                found = code.hot(visits, HOT)
                if found is not None:
                    self._tiering_up[BACKGROUND.submit(partial(code.optimise, *found))] = code
                    return


class Launch:
    """A dispatch that is ready to run. Not for two threads at once: make one for each."""

    def __init__(self, engine: JitEngine, dispatch: Dispatch) -> None:
        self.engine = engine
        self.dispatch = dispatch
        kinds = () if dispatch.marks is None else dispatch.marks.kinds
        if dispatch.races is not None:
            kinds = *kinds, *dispatch.races.kinds
        if kinds and engine.tally is not None:
            text = f"instructions are not counted while checks ({', '.join(kinds)}) look at waves"
            raise BeyondModel(f"{text}: run once for each, or on the engine 'reference'")
        self.code = engine.code(dispatch.target, dispatch.memory, kinds, dispatch.barriers is not None)
        self._workers = [Worker(engine, self.code, dispatch, 0)]
        self._waves = int(dispatch.shapes.waves[dispatch.groups[:, 3]].sum())
        self._pace = 0.0
        self._next = 0
        self._stop = len(dispatch.groups)
        self._helpers = 1
        self._failed: dict[int, UnderstudyError] = {}
        self._speculating: list[Worker] = []
        self._misspeculated = False
        self._speculated = 0
        """Instructions of groups that ran side by side while races were looked for."""
        self._lock = threading.Lock()

    def run(self, sgprs: Words32 | None = None) -> Statistics:
        """Run all groups to their end; with `sgprs` in place of the dispatch's first scalar registers."""
        races = self.dispatch.races
        if races is None:
            return self._run(sgprs)
        try:
            found = self._run(sgprs)
        finally:
            races.native.tell(self.first.stepper.fetch)
        races.native.check()
        return found

    def _run(self, sgprs: Words32 | None) -> Statistics:
        self._next, self._failed, self._speculated = 0, {}, 0
        self.engine.adopt()
        if self.dispatch.marks is not None:
            self.dispatch.marks.follow()
        with self.engine.lock:
            self.code.check(self.dispatch.memory)
        first = self._workers[0]
        first.restart(sgprs)
        count, self._helpers = len(self.dispatch.groups), 1
        while self._next < count and not self._failed and (self._pace == 0 or self._left < SHARED_SECONDS):
            self._work(first, 1)
        if self._next < count and not self._failed and self.dispatch.races is not None:
            self._speculate(self.dispatch.races, sgprs)
        if self._next < count and not self._failed:
            self._helpers = 1 if self.dispatch.races is not None else min(self._threads(), count - self._next)
            while len(self._workers) < self._helpers:
                self._workers.append(Worker(self.engine, self.code, self.dispatch, len(self._workers)))
            for worker in self._workers[1 : self._helpers]:
                worker.restart(sgprs)
            self._share(self._workers[: self._helpers])
        return self._result()

    def _speculate(self, races: RaceWatch, sgprs: Words32 | None) -> None:
        """Run groups side by side, stage by stage, as long as their order is found to make no difference.

        The check of races looks at one after the other, so that no finding depends on who came first.
        """
        dispatch, count = self.dispatch, len(self.dispatch.groups)
        helpers = min(self._threads(), SPECULATING, count - self._next)
        is_apart = (
            dispatch.waves is None
            and races.lanes is None
            and dispatch.watch.meanwhile is None
            and races.launches.is_alone
        )
        if helpers < 2 or not is_apart or races.speculation is None or not races.speculation.is_due(dispatch.entry):
            return
        parts = races.speculation.parts(helpers)
        if len(parts) < 2:
            return
        for number in range(len(self._speculating), len(parts)):
            self._speculating.append(Worker(self.engine, self.code, dispatch, number, parts[number]))
        while self._next < count:
            if not self._stage(races.speculation, self._speculating[:helpers], sgprs):
                races.speculation.failed(dispatch.entry)
                return

    def _stage(self, speculation: Speculation, workers: list[Worker], sgprs: Words32 | None) -> bool:
        """Run as many groups as should take a moment; False where they have to run one after the other."""
        start, count = self._next, len(self.dispatch.groups)
        these = range(start, min(count, start + max(int(STAGE_SECONDS / self._pace), len(workers))))
        for worker in workers:
            worker.restart(sgprs)
        first, *groups = (each.races for each in (self.first, *workers) if each.races is not None)
        sizes = count, self.dispatch.most_waves
        if not speculation.begin(groups, first.group.launch, these, *sizes, self.dispatch.marks):
            return False
        self._stop, self._helpers, self._misspeculated = these.stop, len(workers), False
        before = time.perf_counter()
        try:
            self._share(workers)
            shared = time.perf_counter() - before
            is_fine = not self._misspeculated and speculation.merge()
        except BaseException:
            speculation.forget()
            raise
        finally:
            self._stop, self._helpers = count, 1
        if is_fine:
            self._speculated += sum(worker.retired for worker in workers)
            if time.perf_counter() - before > 2 * shared:  # they touch little of much memory
                speculation.failed(self.dispatch.entry)
        else:
            speculation.undo()
            self._next = start
        return is_fine

    def _share(self, workers: list[Worker]) -> None:
        """Do what is left, on this thread and on others."""
        from concurrent.futures import wait

        try:
            others = [self.engine.pool().submit(self._help, worker) for worker in workers[1:]]
            self._work(workers[0])
            watch = self.dispatch.watch
            while wait(others, None if watch.meanwhile is None else TICK_SECONDS).not_done:
                watch.pass_time()
        except BaseException:  # Ctrl-C, for one: the others must not run on into memory that nobody expects them in
            self._next = self._stop
            for worker in workers[1:]:
                worker.is_dropped = True
            for worker in workers[1:]:
                with worker.occupied:  # where `submit` was interrupted, there is nothing else to wait for
                    pass
            raise
        for other in others:
            other.result()

    def _help(self, worker: Worker) -> None:
        """The work of another thread. One that comes too late finds nothing to do."""
        with worker.occupied:
            self._work(worker)

    @property
    def first(self) -> Worker:
        """The waves of the first thread."""
        return self._workers[0]

    def _result(self) -> Statistics:
        if self._failed:
            raise self._failed[min(self._failed)]
        instructions = self._speculated + sum(worker.retired for worker in self._workers[: self._helpers])
        interpreted = sum(worker.interpreted for worker in self._workers[: self._helpers])
        return Statistics(instructions, self._waves, len(self.dispatch.groups), interpreted)

    @property
    def _left(self) -> float:
        """Seconds that the rest should take."""
        return (len(self.dispatch.groups) - self._next) * self._pace

    def _threads(self) -> int:
        dispatch = self.dispatch
        if self.engine.is_beside:
            return 1
        if dispatch.scratch_lane_bytes:
            return min(self.engine.threads, dispatch.scratch_slots // max(dispatch.most_waves, 1))
        return self.engine.threads

    def _size(self, count: int) -> int:
        """Groups of the next batch: enough for a while, but towards the end a share that others can keep up with."""
        share = (count - self._next) // (SHARES * self._helpers)
        return max(1, int(LEAST_SECONDS / self._pace), min(int(BATCH_SECONDS / self._pace), share, MOST))

    def _work(self, worker: Worker, batches: int | None = None) -> None:
        """Take batches of groups until there are none, or `batches` of them."""
        while batches is None or batches > 0:
            with self._lock:
                start = self._next
                size = self._size(self._stop) if self._pace else 1
                stop = min(start + size, self._stop, min(self._failed, default=1 << 62))
                if start >= stop:
                    return
                self._next = stop
            before = time.perf_counter() - worker.looked_up
            try:
                self._batch(worker, start, stop)
            except Misspeculation:
                self._give_up()
                return
            except UnderstudyError as error:
                if worker.is_speculating:
                    self._give_up()
                    return
                with self._lock:
                    self._failed[worker.group] = error
                return
            # How long a group takes decides the size of batches and the number of threads: nothing but speed.
            spent = time.perf_counter() - worker.looked_up - before
            self._pace = max(spent / (stop - start), 1e-9)
            self.engine.adopt()
            batches = None if batches is None else batches - 1

    def _give_up(self) -> None:
        """Groups that run side by side have to run one after the other."""
        with self._lock:
            self._misspeculated, self._next = True, self._stop
        for worker in self._speculating:
            worker.is_dropped = True

    def _batch(self, worker: Worker, start: int, stop: int) -> None:
        """Run groups: one by one as far as somebody wants to know of their waves."""
        log = self.dispatch.waves
        logged = start if log is None else min(max(log.groups, start), stop)
        for group in range(start, logged):
            assert log is not None
            worker.run_logged(group, log)
        if logged < stop:
            worker.run(logged, stop)


def _processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
