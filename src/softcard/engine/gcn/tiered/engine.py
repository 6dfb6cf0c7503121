"""The JIT engine of waves.

It translates guest code to machine code of the host; the reference engine executes what is not translated.
Code is compiled without optimisation when it is first reached; when it is hot, a background thread optimises
it. Optimised code is installed between batches of work-groups. Threads run batches of work-groups; machine
code runs without Python's global interpreter lock."""

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

from softcard.core.display import count
from softcard.core.errors import BeyondModel, ModelBug, SoftcardError
from softcard.core.space import lazy_zeros
from softcard.core.threads import reset_after_fork
from softcard.engine.gcn.api import Dispatch, Statistics, Words32
from softcard.engine.gcn.instrumentation import PLAIN, Instrumentation
from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.jit.basics import BlockKey, Fetch, Misspeculation, Observed, Untranslated
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.pause import TICK_SECONDS
from softcard.engine.gcn.threaded.library import shared_library
from softcard.engine.gcn.threaded.program import PROFILE, Tally
from softcard.engine.gcn.threaded.records import COUNTERS
from softcard.engine.gcn.tiered.runtime import shared_runtime
from softcard.engine.gcn.tiered.translation import CodeSpace, Compiled, Tier, Translation
from softcard.engine.gcn.tiered.worker import Worker
from softcard.engine.hooks import Executions
from softcard.ir import llvm
from softcard.ir.background import BACKGROUND, Task
from softcard.ir.llvm import WAVES, warn_where_slow
from softcard.ir.object_cache import ObjectCache, default_folder
from softcard.isa.gcn.target import Target

if TYPE_CHECKING:
    from softcard.core.threads import PinnedPool
    from softcard.engine.gcn.hooks import Speculation, Tracker
    from softcard.isa.gcn.insn import Insn

BATCH_SECONDS: Final = 0.002
"""The target duration of a batch of work-groups, in seconds.

It is long compared with a hand-over of the global interpreter lock.
"""
SHARED_SECONDS: Final = 0.0006
"""The minimum duration of remaining work, in seconds, for which other threads are woken."""
SHARES: Final = 2
"""The minimum number of batches into which a thread's share of the remaining work is divided."""
LEAST_SECONDS: Final = 0.00003
"""The minimum duration of a batch, in seconds."""
MOST: Final = 1 << 16
"""The maximum number of work-groups in a batch."""
HOT: Final = 50_000
"""The number of executions after which a block is hot.

Optimising a hot block soon saves more time than it costs.
"""
STAGE_SECONDS: Final = 0.25
"""The maximum duration, in seconds, of a stage of concurrent work-groups if it must be repeated serially.

While a check tracks accesses, work-groups run concurrently, stage by stage.
"""
SPECULATING: Final = 8
"""The maximum number of threads of a speculative run.

It is limited because one of them merges the shadow memories of all.
"""
MOST_RESIDENT: Final = 4096
"""The maximum number of waves of work-groups that make progress together; their registers need 0.5 GB."""
POLL_SECONDS: Final = 0.005
"""The period, in seconds, of the tests for hot code."""


class JitEngine:
    """The engine that runs dispatches as machine code of the host.

    `threads` is the number of concurrent work-groups, by default one per processor of this process. `tier`
    fixes the tier; by default code starts in the first tier and is optimised when it is hot. `lanes` fixes the
    number of lanes in a vector of compiled code. `cache` is the cache of compiled objects. `observed` tells
    when registers can be observed from outside of compiled code, which then stores even dead registers. With
    `counting`, executions are counted (`instruction_counts`), and nothing is optimised."""

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
        self._tiering_up: dict[Task[Compiled | None], tuple[CodeSpace, Translation | None]] = {}
        """The optimisations in the background: the code's space and, for code with checks, the present code."""
        self._profiles: dict[int, npt.NDArray[np.uint64]] = {}
        self._next_poll = 0.0
        self._pool: PinnedPool | None = None
        self.limit: int | None = None
        """The address from which on the reference engine runs all code, or None.

        It serves to bisect differences between the engines.
        """
        self.caches_programs = True
        """True if programs are cached for later processes. It is set before the first dispatch."""
        self.is_concurrent = False
        """True while a dispatch runs nested in another one, so that only the calling thread may be free."""
        reset_after_fork(self)

    def __repr__(self) -> str:
        return f"<JIT engine of waves, {count(self.threads, 'thread')}>"

    def after_fork(self) -> None:
        """Reset locks and tasks in a child process. Code whose compilation was pending may become hot again."""
        self.lock = threading.RLock()
        for code, _ in self._tiering_up.values():
            code.tried.clear()
        self._tiering_up = {}

    def run(self, dispatch: Dispatch) -> Statistics:
        """Run all work-groups of a dispatch until they end; see `api.Engine`."""
        return self.prepare(dispatch).run()

    def prepare(self, dispatch: Dispatch) -> Launch:
        """Prepare the waves of a dispatch, to be run once or repeatedly."""
        return Launch(self, dispatch)

    def close(self) -> None:
        """End the engine's threads."""
        if self._pool is not None:
            self._pool.close()
        self._pool = None
        self._tiering_up = {}

    def pool(self) -> PinnedPool:
        """Return the threads that run work-groups concurrently with the calling thread."""
        if self._pool is None:
            from softcard.core.threads import PinnedPool

            self._pool = PinnedPool(max(self.threads - 1, 1), "softcard-waves")
        return self._pool

    # ---- code --------------------------------------------------------------------------------------------------
    def code(
        self,
        target: Target,
        memory: GpuMemory,
        instrumentation: Instrumentation = PLAIN,
        knows_ends: bool = False,
    ) -> CodeSpace:
        """Return the translated code of a memory, with the instrumentation of checks.

        `knows_ends` is True if the pc at which each wave ends must be known (see `Observed.PLACE`).
        """
        observed = Observed.PLACE if knows_ends and self.observed is Observed.NEVER else self.observed
        with self.lock:
            spaces = self._codes.setdefault(memory, {})
            key = target.name, observed.value, *instrumentation.kinds, str(self.limit)
            if key not in spaces:
                # Code that ends at a limit is useless to others.
                programs = self.cache if self.caches_programs and self.limit is None else ObjectCache()
                parts = self.library, self.cache, programs, observed
                spaces[key] = CodeSpace(target, *parts, memory, self.tally, instrumentation, self.limit)
            return spaces[key]

    def install(self, code: CodeSpace, place: BlockKey, fetch: Fetch, shadowed: tuple[int, ...] = ()) -> bool:
        """Add code that can be entered at `place` to the table of translated code.

        Return False if code cannot be made for it. The caller holds the engine's lock. `shadowed` has, for each kind of
        shadow register, a mask of the vector registers with shadow bits set.
        """
        try:
            code.install(place, fetch, self.tier, shadowed)
        except Untranslated:
            return False
        return True

    def specialise(self, code: CodeSpace, place: BlockKey, insn: Insn, fetch: Fetch) -> bool:
        """Specialise an instruction for its register values.

        Return False if the reference engine has to execute it. The caller holds the engine's lock.
        """
        return code.specialise(place, insn, fetch)

    def follow_shadow(self, code: CodeSpace, function: int, entry: BlockKey | None) -> None:
        """Compile the variant of a region that evaluates shadow bits; see `CodeSpace.follow_shadow`.

        The caller holds the engine's lock.
        """
        code.follow_shadow(function, entry, self.tier)

    # ---- hot code ------------------------------------------------------------------------------------------------
    def profile(self, slot: int) -> npt.NDArray[np.uint64]:
        """Return the profile counters of thread `slot`: how often it has run each block of programs."""
        found = self._profiles.get(slot)
        if found is None:
            room: npt.NDArray[np.uint64] = lazy_zeros(PROFILE if self.tally is None else COUNTERS, np.uint64)
            found = self._profiles.setdefault(slot, room)
        return found

    def instruction_counts(self) -> dict[int, int]:
        """Return the number of times that the instruction at each pc has retired; see `executions`."""
        return dict(self.executions().counts)

    def executions(self) -> Executions:
        """Return the executions of the instruction at each pc; raise `ModelBug` if the engine does not count them."""
        if self.tally is None:
            raise ModelBug("the engine does not count instructions: make it with counting=True")
        with self.lock:
            return self.tally.executions(sum(self._profiles.values(), np.zeros(COUNTERS, np.uint64)))

    @property
    def is_tiering_up(self) -> bool:
        """True if optimised code is being compiled in the background."""
        return bool(self._tiering_up)

    def adopt(self) -> None:
        """Install code that the background thread has finished, and submit code that has become hot to it."""
        self.runtime.adopt()
        self.library.adopt()
        if self.tier is not None:
            return
        now = time.perf_counter()
        if now < self._next_poll and not any(task.done for task in tuple(self._tiering_up)):
            return
        self._next_poll = now + POLL_SECONDS
        with self.lock:
            for task in [task for task in self._tiering_up if task.done]:
                code, quick = self._tiering_up.pop(task)
                made, memory = task.result(), code.memory()  # None, also if it failed: the present code stays
                linked = None if made is None else made.linked()
                if quick is not None:
                    code.replace(quick, linked)
                elif linked is not None and memory is not None and linked.holds(memory):
                    code.keep(linked)
                    for visits in self._profiles.values():
                        visits[code.profiles(linked)] = 0
            if not self._tiering_up:
                self._submit_hot()

    def _submit_hot(self) -> None:
        """Submit the hottest code for optimisation in the background."""
        for code in [code for spaces in list(self._codes.values()) for code in spaces.values()]:
            worth = code.worth()
            if worth is not None:
                self._tiering_up[BACKGROUND.submit(worth[1])] = code, worth[0]
                return
        visits = np.sum(list(self._profiles.values()), axis=0) if self._profiles else np.zeros(PROFILE, np.uint64)
        if visits.max() < HOT:
            return
        for spaces in list(self._codes.values()):
            for code in spaces.values():
                found = code.hot(visits, HOT)
                if found is not None:
                    self._tiering_up[BACKGROUND.submit(partial(code.optimise, *found))] = code, None
                    return


class Launch:
    """A dispatch that is prepared to run. Not thread-safe: each thread needs its own."""

    def __init__(self, engine: JitEngine, dispatch: Dispatch) -> None:
        self.engine = engine
        self.dispatch = dispatch
        checks = dispatch.checks
        kinds = checks.instrumentation.kinds
        if kinds and engine.tally is not None:
            names = ", ".join(kinds)
            text = f"engine 'jit' does not count instructions with check {names}"
            raise BeyondModel(f"{text}: count them in a run without the check, or use engine 'reference'")
        self.code = engine.code(dispatch.target, dispatch.memory, checks.instrumentation, checks.at_barriers)
        self._workers = [Worker(engine, self.code, dispatch, 0)]
        self._waves = int(dispatch.shapes.waves[dispatch.groups[:, 3]].sum())
        self._pace = 0.0
        self._next = 0
        self._stop = len(dispatch.groups)
        self._helpers = 1
        self._failed: dict[int, SoftcardError] = {}
        self._speculating: list[Worker] = []
        self._misspeculated = False
        self._speculated = 0
        """The number of instructions of work-groups that ran speculatively while a check tracked accesses."""
        self._lock = threading.Lock()

    def run(self, sgprs: Words32 | None = None) -> Statistics:
        """Run all work-groups to their end; `sgprs` replaces the dispatch's initial scalar registers."""
        checks = self.dispatch.checks
        if not checks.is_around:
            return self._run(sgprs)
        with checks.running(self.dispatch, self.first.decoded.fetch, is_translated=True):
            return self._run(sgprs)

    def _run(self, sgprs: Words32 | None) -> Statistics:
        self._next, self._failed, self._speculated = 0, {}, 0
        self.engine.adopt()
        checks = self.dispatch.checks
        if checks.shadow is not None:
            checks.shadow.follow()
        with self.engine.lock:
            self.code.check(self.dispatch.memory)
        if self.dispatch.resident > 1:
            return self._together(sgprs)
        first = self._workers[0]
        first.restart(sgprs)
        count, self._helpers = len(self.dispatch.groups), 1
        while self._next < count and not self._failed and (self._pace == 0 or self._left < SHARED_SECONDS):
            self._work(first, 1)
        if self._next < count and not self._failed and checks.tracker is not None:
            self._speculate(checks.tracker, sgprs)
        if self._next < count and not self._failed:
            self._helpers = 1 if checks.tracker is not None else min(self._threads(), count - self._next)
            while len(self._workers) < self._helpers:
                self._workers.append(Worker(self.engine, self.code, self.dispatch, len(self._workers)))
            for worker in self._workers[1 : self._helpers]:
                worker.restart(sgprs)
            self._share(self._workers[: self._helpers])
        return self._result()

    def _together(self, sgprs: Words32 | None) -> Statistics:
        """Run work-groups in turn, as many as are resident; `sgprs` replaces the dispatch's initial scalar registers.

        When a work-group has ended, the next one takes its place.
        """
        dispatch, count = self.dispatch, len(self.dispatch.groups)
        if dispatch.checks.tracker is not None:
            dispatch.check_alone("a check that tracks accesses")
        places = min(dispatch.resident, count, MOST_RESIDENT // max(dispatch.most_waves, 1))
        if dispatch.scratch_lane_bytes:
            places = min(places, dispatch.scratch_slots // max(dispatch.most_waves, 1))
        if places < min(dispatch.resident, count):
            text = f"{count} work-groups of {dispatch.most_waves} waves have to make progress together"
            raise BeyondModel(
                f"{text}, expected at most {places}, for whose registers and private memory there is room"
            )
        while len(self._workers) < places:
            self._workers.append(Worker(self.engine, self.code, dispatch, len(self._workers)))
        self._helpers = places
        running = self._workers[:places]
        for group, worker in enumerate(running):
            worker.restart(sgprs)
            worker.begin(group)
        following = places
        while running:
            for worker in list(running):
                if not worker.advance():
                    continue
                if following < count:
                    worker.begin(following)
                    following += 1
                else:
                    running.remove(worker)
            self.engine.adopt()
        return self._result()

    def _speculate(self, tracker: Tracker, sgprs: Words32 | None) -> None:
        """Run stages of concurrent work-groups until none is left, or until the order of a stage's groups matters.

        Without speculation, a check that tracks accesses requires that work-groups run one after the other, so that
        findings do not depend on timing. `sgprs` replaces the dispatch's initial scalar registers."""
        dispatch, count = self.dispatch, len(self.dispatch.groups)
        helpers = min(self._threads(), SPECULATING, count - self._next)
        is_apart = dispatch.waves is None and dispatch.watch.meanwhile is None and tracker.launches.is_alone
        speculation = tracker.speculation if helpers >= 2 and is_apart else None
        if speculation is None or not speculation.is_due(dispatch.entry):
            return
        parts = speculation.parts(helpers)
        if len(parts) < 2:
            return
        for number in range(len(self._speculating), len(parts)):
            self._speculating.append(Worker(self.engine, self.code, dispatch, number, parts[number]))
        while self._next < count:
            if not self._stage(speculation, self._speculating[:helpers], sgprs):
                speculation.failed(dispatch.entry)
                return

    def _stage(self, speculation: Speculation, workers: list[Worker], sgprs: Words32 | None) -> bool:
        """Run one stage of work-groups speculatively; return False if they have to run serially instead."""
        start, count = self._next, len(self.dispatch.groups)
        these = range(start, min(count, start + max(int(STAGE_SECONDS / self._pace), len(workers))))
        for worker in workers:
            worker.restart(sgprs)
        first, *groups = (each.tracked for each in (self.first, *workers) if each.tracked is not None)
        sizes = count, self.dispatch.most_waves
        if not speculation.begin(groups, first, these, *sizes, self.dispatch.checks.shadow):
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
            if time.perf_counter() - before > 2 * shared:  # the merge is slow: little is touched of much memory
                speculation.failed(self.dispatch.entry)
        else:
            speculation.undo()
            self._next = start
        return is_fine

    def _share(self, workers: list[Worker]) -> None:
        """Run the remaining work-groups, on this thread and on others."""
        from concurrent.futures import wait

        try:
            others = [self.engine.pool().submit(self._help, worker) for worker in workers[1:]]
            self._work(workers[0])
            watch = self.dispatch.watch
            while wait(others, None if watch.meanwhile is None else TICK_SECONDS).not_done:
                watch.pass_time()
        except BaseException:  # Ctrl-C, for example: other threads must not run on
            self._next = self._stop
            for worker in workers[1:]:
                worker.is_dropped = True
            for worker in workers[1:]:
                with worker.busy_lock:  # `submit` may have been interrupted, so there may be no future to wait for
                    pass
            raise
        for other in others:
            other.result()

    def _help(self, worker: Worker) -> None:
        """Run work-groups on another thread of the pool. If it starts late, there may be none left to run."""
        with worker.busy_lock:
            self._work(worker)

    @property
    def first(self) -> Worker:
        """The worker that runs on the calling thread."""
        return self._workers[0]

    def _result(self) -> Statistics:
        if self._failed:
            raise self._failed[min(self._failed)]
        instructions = self._speculated + sum(worker.retired for worker in self._workers[: self._helpers])
        interpreted = sum(worker.interpreted for worker in self._workers[: self._helpers])
        return Statistics(instructions, self._waves, len(self.dispatch.groups), interpreted)

    @property
    def _left(self) -> float:
        """The expected duration of the remaining work-groups, in seconds."""
        return (len(self.dispatch.groups) - self._next) * self._pace

    def _threads(self) -> int:
        dispatch = self.dispatch
        if self.engine.is_concurrent:
            return 1
        if dispatch.scratch_lane_bytes:
            return min(self.engine.threads, dispatch.scratch_slots // max(dispatch.most_waves, 1))
        return self.engine.threads

    def _size(self, count: int) -> int:
        """Return the number of work-groups in the next batch.

        A batch runs for about `BATCH_SECONDS`, but is smaller towards the end, so that all threads get a share of the
        rest.
        """
        share = (count - self._next) // (SHARES * self._helpers)
        return max(1, int(LEAST_SECONDS / self._pace), min(int(BATCH_SECONDS / self._pace), share, MOST))

    def _work(self, worker: Worker, batches: int | None = None) -> None:
        """Run batches of work-groups until none is left, or at most `batches` of them."""
        while batches is None or batches > 0:
            with self._lock:
                start = self._next
                size = self._size(self._stop) if self._pace else 1
                stop = min(start + size, self._stop, min(self._failed, default=1 << 62))
                if start >= stop:
                    return
                self._next = stop
            before, retired = time.perf_counter() - worker.lookup_seconds, worker.retired
            try:
                self._batch(worker, start, stop)
            except Misspeculation:
                self._give_up()
                return
            except SoftcardError as error:
                if worker.is_speculating:
                    self._give_up()
                    return
                with self._lock:
                    self._failed[worker.group] = error
                return
            # The duration of a group decides the size of batches and the number of threads, and nothing else.
            spent = time.perf_counter() - worker.lookup_seconds - before
            self._pace = max(spent / (stop - start), 1e-9)
            self.code.count(worker.retired - retired)
            self.engine.adopt()
            batches = None if batches is None else batches - 1

    def _give_up(self) -> None:
        """Abandon the speculative run; its work-groups have to run serially."""
        with self._lock:
            self._misspeculated, self._next = True, self._stop
        for worker in self._speculating:
            worker.is_dropped = True

    def _batch(self, worker: Worker, start: int, stop: int) -> None:
        """Run work-groups `start` to `stop` - 1; run them one by one if the ends of their waves are logged."""
        log = self.dispatch.waves
        logged = start if log is None else min(max(log.groups, start), stop)
        for group in range(start, logged):
            assert log is not None
            worker.run_logged(group, log)
        if logged < stop:
            worker.run(logged, stop)


def _processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
