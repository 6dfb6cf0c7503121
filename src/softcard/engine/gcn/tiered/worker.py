"""The execution of one thread's waves.

It has their state blocks, the scheduler's context, and the work between scheduler calls.
"""

from __future__ import annotations

import ctypes
import threading
import time
from contextlib import AbstractContextManager
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from softcard.core.errors import ModelBug, SoftcardError
from softcard.core.limits import Stopped, note_interrupt
from softcard.core.order import Arbiter
from softcard.core.space import host_address
from softcard.core.words import align_up, signed
from softcard.engine.gcn import host_clock
from softcard.engine.gcn.api import Dispatch, StepLimit, Words32
from softcard.engine.gcn.group import poll_watch, start_wave
from softcard.engine.gcn.instrumentation import NO_HOOKS
from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.jit.basics import BlockKey, Fetch, Misspeculation
from softcard.engine.gcn.jit.layout import SHADOW_DISTANCE
from softcard.engine.gcn.pause import TICK_SECONDS, TICKS
from softcard.engine.gcn.tiered.context import AT
from softcard.engine.gcn.tiered.runtime import Runtime
from softcard.engine.gcn.tiered.translation import CodeSpace
from softcard.isa.gcn.state import (
    AT_BARRIER,
    ENDED,
    EXEC,
    FUEL,
    FULL,
    MODE,
    PC,
    RETIRED,
    RUNNING,
    SGPR_AT,
    SLEPT,
    STATE_BYTES,
    STATUS,
    VGPRS,
    WORDS_AT,
    Mode,
    Wave,
    aligned,
)
from softcard.isa.gcn.target import Target

if TYPE_CHECKING:
    from softcard.engine.gcn.hooks import GroupState, Shadow, ShadowStarts, Tracker
    from softcard.engine.gcn.reference.decoded import DecodedCode
    from softcard.engine.gcn.reference.engine import Stepper
    from softcard.engine.gcn.wave_log import WaveLog
    from softcard.isa.gcn.insn import Insn

_CURSOR: Final = AT["cursor"]
_LAST: Final = AT["last"]
_RUNNING: Final = AT["running"]
_SEEN: Final = AT["seen"]
_BARRIER_CHECK: Final = AT["barrier_check"]
SLEEP_SECONDS: Final = 0.00025
"""The time, in seconds, that the host's thread sleeps when all of its waves only pause."""
BORROWED_SECONDS: Final = TICK_SECONDS / 10
"""The time, in seconds, that an earlier kernel runs whenever a later kernel interrupts itself for it."""
ROUNDS: Final = 16
"""The number of random orders of waves that are drawn in advance and then repeat."""
CACHED_ORDERS: Final = 64
"""The maximum number of cached orders of waves. The cache key is the seed and the number of waves."""
LINE: Final = 64
"""The alignment of LDS in host memory, in bytes."""
TIMEOUT_SECONDS: Final = 2.0
"""The time, in seconds, after which a speculative run is abandoned and its work-groups run serially."""
MOST_FUEL: Final = 1 << 62
"""The maximum length of a time slice or step limit, since translated code counts in signed words."""
STEPS: Final = 64
"""The number of instructions without translated code that run one by one before the next look-up."""
CATCH_UP: Final = 2048
"""The number of instructions that run one by one after a side exit under checks before code is compiled.

They take a tenth of a second. Compiling a hundred instructions takes longer, and most such places are rarely reached.
"""


class CodeMaker(Protocol):
    """The interface of the engine that workers use. `lock` is held while the table of code changes."""

    lock: AbstractContextManager[Any]
    runtime: Runtime

    def profile(self, slot: int) -> npt.NDArray[np.uint64]:
        """Return the profile counters of thread `slot`."""

    def install(self, code: CodeSpace, place: BlockKey, fetch: Fetch, shadowed: tuple[int, ...] = ()) -> bool:
        """Add code that can be entered at `place` to the table of translated code.

        Return False if code cannot be made for it. `shadowed` has, for each kind of shadow register, a mask of the
        vector registers with shadow bits set.
        """

    def specialise(self, code: CodeSpace, place: BlockKey, insn: Insn, fetch: Fetch) -> bool:
        """Specialise an instruction for its register values.

        Return False if the reference engine has to execute it.
        """

    def follow_shadow(self, code: CodeSpace, function: int, entry: BlockKey | None) -> None:
        """Compile the variant of a region that evaluates shadow bits; see `CodeSpace.follow_shadow`."""


class Worker:
    """The executor of ranges of work-groups of one dispatch on one thread. `slot` is the worker's number.

    `part` is the worker's state of a speculative run (`hooks.Speculation`), or None. In a speculative run,
    workers run concurrently although a check tracks accesses. They may then only execute translated code;
    anything else raises `Misspeculation`."""

    def __init__(self, engine: CodeMaker, code: CodeSpace, dispatch: Dispatch, slot: int, part: Any = None) -> None:
        self.engine = engine
        self.code = code
        self._part = part
        self.dispatch = dispatch
        count = max(dispatch.most_waves, 1)
        shadow = dispatch.checks.shadow
        kinds = 0 if shadow is None else len(shadow.kinds)
        states, lds = kinds * SHADOW_DISTANCE + count * STATE_BYTES, align_up(max(dispatch.lds_bytes, 1), LINE)
        memory = aligned(states + 2 * lds)
        self._states, self._blank_lds = memory[:states], memory[states + lds :]
        self.lds = memory[states : states + max(dispatch.lds_bytes, 1)]
        self._states_at = host_address(memory)
        self._lds_at = self._states_at + states
        blocks = [self._states[n * STATE_BYTES : (n + 1) * STATE_BYTES] for n in range(count)]
        self.waves = [Wave(block, index) for index, block in enumerate(blocks)]
        for n, wave in enumerate(self.waves if kinds else ()):
            starts = [n * STATE_BYTES + (kind + 1) * SHADOW_DISTANCE for kind in range(kinds)]
            wave.shadows = tuple(Wave(self._states[start : start + STATE_BYTES]) for start in starts)
        self.context = np.zeros(len(AT), np.uint64)
        self._words = self.context.data
        self._address = host_address(self.context)
        host = dispatch.clock
        self._clock = None if host is None else host_clock.words(host, engine.runtime.host_clock)
        self._alive: list[object] = []
        self._shadow_starts: ShadowStarts | None = None
        self.tracked: GroupState | None = None
        """The running work-group's state in a check that tracks accesses, or None without such a check."""
        self._version = dispatch.memory.version
        self._pause = dispatch.memory.pause
        self._limit = min(dispatch.most_steps, MOST_FUEL)
        self._began = -1, 0.0, 0.0
        """The number of the run being timed, its start time, and the value of `lookup_seconds` at its start."""
        self.lookup_seconds = 0.0
        """The time, in seconds, spent on finding or compiling code. It does not count as run time."""
        self.is_dropped = False
        """True if the launch was abandoned, so that the results of these waves are not needed any more."""
        self._borrowed_exit = layout.TICK
        """The last exit code of these waves when they ran during a later kernel; see `_run_borrowed`."""
        self._borrowed_error: SoftcardError | None = None
        self.busy_lock = threading.Lock()
        """The lock that a thread of the engine's pool holds while it runs these waves."""
        self.interpreted = 0
        """The number of instructions that the reference engine executed since `restart` or the last `resume`."""
        self._ticked = TICKS.count[0]
        """The tick at which `advance` last polled the dispatch's watch."""
        self._prepare(slot)

    @cached_property
    def decoded(self) -> DecodedCode:
        """The decoded instructions, for translation and for the reference engine."""
        from softcard.engine.gcn.reference.decoded import DecodedCode  # imports the whole instruction set

        return DecodedCode(self.dispatch.target, self.dispatch.memory)

    @cached_property
    def stepper(self) -> Stepper:
        """The executor of single instructions on the reference engine, for untranslated code."""
        from softcard.engine.gcn.reference.engine import Stepper

        stepper = Stepper(self.dispatch, code=self.decoded)
        if self.code.tally is not None:
            stepper.executions = self.code.tally.single
        return stepper

    @property
    def is_speculating(self) -> bool:
        """True if the effects of the running work-groups may have to be undone."""
        return self._part is not None

    @property
    def group(self) -> int:
        """The number of the running work-group."""
        return int(self._words[AT["cursor"]])

    def restart(self, sgprs: Words32 | None = None) -> None:
        """Prepare a run with the dispatch's initial scalar registers, or with `sgprs`."""
        first = self.dispatch.sgprs if sgprs is None else sgprs
        self.sgprs[:, : len(first)] = first
        self._words[AT["template"]] += 1
        self._words[AT["retired"]] = 0
        self.is_dropped = False
        self.interpreted = 0
        if self.tracked is not None:
            self.tracked.begin()

    def forget_places(self) -> None:
        """Clear the waves' inline caches of memory ranges if mappings have changed; called before translated code
        runs."""
        version = self.dispatch.memory.version
        if self._version != version:
            self._version = version
            for wave in self.waves:
                for each in (wave, *wave.shadows):
                    each.words[layout.INLINE_CACHE :] = 0
            if self._shadow_starts is not None:
                self._shadow_starts.place()

    def run(self, start: int, stop: int) -> None:
        """Run work-groups `start` to `stop` - 1."""
        words = self._words
        words[_CURSOR], words[_LAST], words[_RUNNING] = start, stop, 0
        words[_SEEN] = TICKS.count[0]
        words[_BARRIER_CHECK] = layout.BARRIER_CHECKED if self.dispatch.checks.at_barriers else 0
        if self._table is not self.code.table:
            self._enter()
        TICKS.begin(self)
        try:
            self._go_on(self._schedule())
        except BaseException as cause:
            self._note(cause)
            raise
        finally:
            TICKS.end(self)

    def begin(self, group: int) -> None:
        """Prepare to run one work-group by `advance`."""
        words = self._words
        words[_CURSOR], words[_LAST], words[_RUNNING] = group, group + 1, 0
        words[_BARRIER_CHECK] = layout.BARRIER_CHECKED if self.dispatch.checks.at_barriers else 0

    def advance(self) -> bool:
        """Run one time slice of each wave of the work-group of `begin`; return True if the work-group has ended."""
        words, now = self._words, TICKS.count
        if self._table is not self.code.table:
            self._enter()
        TICKS.begin(self)
        try:
            for _ in self.waves:
                words[_SEEN] = FULL  # so that translated code returns after one time slice
                why = self._schedule()
                if why == layout.DONE:
                    return True
                if why not in (layout.TICK, layout.DROWSE):
                    self._serve(why)
            if self._ticked != now[0]:
                self._ticked = now[0]
                self._tick()
        except BaseException as cause:
            self._note(cause)
            raise
        finally:
            TICKS.end(self)
        return False

    def run_logged(self, group: int, log: WaveLog) -> None:
        """Run one work-group, and log the ends of its waves."""
        dispatch = self.dispatch
        waves = self.waves[: int(dispatch.shapes.waves[dispatch.groups[group, 3]])]
        failed = None
        try:
            self.run(group, group + 1)
        except SoftcardError:
            failed = int(self._words[AT["current"]])
            raise
        finally:
            log.over(group, waves, [self._executed(wave) for wave in waves], failed)

    def resume(self, why: int) -> None:
        """Run waves to their end, after a call of the scheduler by other code has returned the exit code `why`."""
        self.interpreted = 0
        TICKS.begin(self)
        try:
            self._go_on(why)
        except BaseException as cause:
            self._note(cause)
            raise
        finally:
            TICKS.end(self)

    def _go_on(self, why: int) -> None:
        """Handle the exit code `why` of a scheduler call; repeat the call until the work-groups have ended."""
        words, now = self._words, TICKS.count
        while why != layout.DONE:
            if why not in (layout.TICK, layout.DROWSE):
                self._serve(why)
            elif why == layout.DROWSE:
                words[AT["pauses"]] = layout.PAUSES - layout.MORE_PAUSES
                time.sleep(SLEEP_SECONDS)
            if words[_SEEN] != now[0]:
                self._borrowed_exit = layout.TICK
                self._tick()
                if self._borrowed_error is not None:
                    error, self._borrowed_error = self._borrowed_error, None
                    raise error
                if self._borrowed_exit == layout.DONE:
                    return
            why = self._schedule()

    def _run_borrowed(self) -> None:
        """Run these waves briefly while a later kernel that may wait for them runs on this thread; see `poll_watch`.

        The run ends early if the waves pause. `_go_on`, which is suspended in between, handles the exit code
        afterwards."""
        words, now = self._words, TICKS.count
        words[_SEEN] = now[0]
        recall = threading.Timer(BORROWED_SECONDS, words.__setitem__, (_SEEN, FULL))
        recall.start()
        try:
            while self._borrowed_exit != layout.DONE and self._borrowed_error is None and words[_SEEN] == now[0]:
                self._borrowed_exit = why = self._schedule()
                if why == layout.DROWSE:
                    return
                if why not in (layout.DONE, layout.TICK):
                    self._serve(why)
        except SoftcardError as error:
            self._borrowed_error = error
        finally:
            recall.cancel()
            recall.join()

    def _schedule(self) -> int:
        """Run waves in translated code, with the present mappings, until an exit is necessary; return the exit code."""
        pause = self._pause
        try:
            pause.enter(self)
            self.forget_places()
            return self.engine.runtime.schedule(self._address)
        finally:
            pause.leave(self)

    @property
    def retired(self) -> int:
        """The number of instructions retired since `restart`, by waves that have ended."""
        return int(self._words[AT["retired"]])

    # ---- initial state -----------------------------------------------------------------------------------------
    def _prepare(self, slot: int) -> None:
        dispatch, shapes = self.dispatch, self.dispatch.shapes
        most = len(self.waves)
        if len(dispatch.groups):
            words = self._engine_words(slot)
            for number, wave in enumerate(self.waves if dispatch.most_waves else ()):
                start_wave(dispatch, wave, 0, number, slot * most + number, self._lds_at, is_blank=True)
                for index, word in words:
                    wave.words[index] = word
        if dispatch.checks.shadow is not None:
            self._prepare_shadow(dispatch.checks.shadow, slot)
        if dispatch.checks.tracker is not None:
            self._prepare_tracker(dispatch.checks.tracker)
        blocks = self._states[: most * STATE_BYTES].reshape(most, STATE_BYTES)
        self.sgprs = blocks[:, SGPR_AT:WORDS_AT].view(np.uint32).copy()
        undefined = dispatch.poison or 0
        if undefined:
            self._blank_lds[: dispatch.lds_bytes & ~3].view(np.uint32)[:] = undefined
        further = shapes.execs.shape[1] - 1
        info = np.array([[1 << 31 | count, *[count] * further] for count in shapes.waves.tolist()], np.uint32)
        arrays: dict[str, npt.NDArray[Any]] = {
            "groups": np.ascontiguousarray(dispatch.groups), "order": _orders(dispatch.seed, most),
            "sgprs": self.sgprs, "info_words": info,
        }  # fmt: skip
        self._alive += arrays.values()
        x, y, z = dispatch.group_id_sgprs
        waves, execs, vgprs = shapes.addresses
        numbers = {
            "shape_waves": waves, "execs": execs, "vgprs": vgprs,
            "states": self._states_at, "lds": self._lds_at, "blank_lds": host_address(self._blank_lds),
            "rounds": ROUNDS, "most_waves": most, "rows": shapes.vgprs.shape[2],
            "group_x": x, "group_y": y, "group_z": z, "info": dispatch.group_info_sgpr,
            "entry": dispatch.entry, "mode": dispatch.mode,
            "time_slice": min(max(dispatch.turn, layout.LEAST_TIME_SLICE), MOST_FUEL), "step_limit": self._limit,
            "lds_size": dispatch.lds_bytes, "last_xcc": dispatch.xccs - 1,
            "undefined": undefined, "ticks": TICKS.address,
        }  # fmt: skip
        context = self._words
        for name, array in arrays.items():
            context[AT[name]] = host_address(array)
        for name, number in numbers.items():
            context[AT[name]] = number & FULL
        self._enter()

    def _engine_words(self, slot: int) -> list[tuple[int, int]]:
        """Return the words that the engine sets in each wave's state, as pairs of index and value."""
        dispatch, engine = self.dispatch, self.engine
        gds = dispatch.gds
        return [
            (layout.HELPERS, engine.runtime.helpers_address),
            (layout.TABLES, dispatch.memory.tables_address),
            (layout.PROFILE, host_address(engine.profile(slot))),
            (layout.GDS_BASE, 0 if gds is None else host_address(gds)),
            (layout.GDS_SIZE, 0 if gds is None else len(gds)),
            (layout.CHECKED, layout.NOTED if dispatch.memory.guard is None else layout.REPORTED),
            (layout.CLOCK, 0 if self._clock is None else host_address(self._clock)),
        ]

    def _prepare_shadow(self, shadow: Shadow, slot: int) -> None:
        """Store the addresses of shadow memory, and the initial shadow state of waves, in the context."""
        made = shadow.starts(self.dispatch, self.waves, slot * len(self.waves))
        self._alive.append(made)
        self.context[AT["shadows"]], self.context[AT["shadow_starts"]] = len(shadow.kinds), made.address
        self._shadow_starts = made

    def _prepare_tracker(self, tracker: Tracker) -> None:
        """Store the addresses of a check's state: the work-group's in the context, the waves' in their words."""
        dispatch = self.dispatch
        fetch = lambda pc: self.decoded.fetch(pc)  # noqa: E731 - made when it is needed first
        made = tracker.group(self._part, dispatch.groups, len(self.waves), dispatch.private, fetch)
        self.tracked = made
        for wave, row in zip(self.waves, made.rows, strict=True):
            wave.words[layout.TRACKED] = ctypes.addressof(row)
        self.context[AT["tracked"]], self.context[AT["start_tracked"]] = made.address, made.start

    # ---- between calls -----------------------------------------------------------------------------------------
    def _tick(self) -> None:
        """Poll the dispatch's watch, which may stop the waves by an exception."""
        words = self._words
        words[_SEEN] = TICKS.count[0]
        run = words[AT["template"]]
        if self._began[0] != run:
            self._began = run, time.monotonic() - TICK_SECONDS, self.lookup_seconds
        _, began, lookup_seconds = self._began
        since = began + self.lookup_seconds - lookup_seconds  # compiling code is not running it
        wave = self.waves[words[AT["current"]]]
        wave.words[RETIRED] = self._executed(wave)
        try:
            if self._part is not None and (self.is_dropped or time.monotonic() - since > TIMEOUT_SECONDS):
                raise Misspeculation
            if self.is_dropped:
                raise Stopped("the host gave up waiting while the kernel ran")
            away = poll_watch(self.dispatch, wave, since, self._run_borrowed)
        except SoftcardError as error:
            raise self._placed(error, wave) from None
        words[_SEEN] = TICKS.count[0]
        self._began = run, began + away, lookup_seconds

    def _of_group(self) -> list[Wave]:
        """Return the waves of the running work-group."""
        dispatch = self.dispatch
        return self.waves[: int(dispatch.shapes.waves[dispatch.groups[self.group, 3]])]

    def _uneven(self) -> None:
        """Report work-items that have not reached the barrier that is about to open."""
        self._be_sure()
        self.dispatch.checks.barrier_opens(self.dispatch, self.group, self._of_group())

    def _executed(self, wave: Wave) -> int:
        """Return the number of instructions that a wave has executed so far."""
        return self._limit - int(wave.words[layout.LIMIT]) - _fuel(wave) + int(wave.words[SLEPT])

    def _placed(self, error: SoftcardError, wave: Wave) -> SoftcardError:
        if self.dispatch.checks.at_barriers:
            self.dispatch.checks.group_fails(self.dispatch, self.group, self._of_group(), wave, error)
        x, y, z, _ = self.dispatch.groups[self.group].tolist()
        return error.at("wave", wave.index).at("work-group", f"{x},{y},{z}")

    def _note(self, cause: BaseException) -> None:
        """Add the position of the current wave to an exception that interrupts the run, such as Ctrl-C."""
        if self.group >= len(self.dispatch.groups):
            return
        wave = self.waves[self._words[AT["current"]]]
        x, y, z, _ = self.dispatch.groups[self.group].tolist()
        note_interrupt(cause, ("pc", f"{wave.pc:#x}"), ("wave", wave.index), ("work-group", f"{x},{y},{z}"))

    def _serve(self, why: int) -> None:
        """Handle the exit code `why` of translated code, so that the code can continue."""
        wave = self.waves[self._words[AT["current"]]]
        wave.words[layout.TEMPLATE] = 0
        before = time.perf_counter()
        try:
            with self.engine.lock:
                self.lookup_seconds += time.perf_counter() - before  # another thread may have been compiling
                dispatch = self.dispatch
                if dispatch.memory.guard is not None or dispatch.checks.observes:
                    self.stepper.begin_group(self.group, int(self._words[AT["template"]]))
                if wave.words[layout.CLEAN] == layout.MET:
                    self._follow_shadow(wave)
                wave.words[layout.CLEAN] = 0
                if why == layout.MISS:
                    self._miss(wave)
                elif why == layout.STEP:
                    self._steps(wave, 1)
                elif why == layout.UNSPECIALISED and wave.words[layout.KEY] == layout.SHADOWED_KEY:
                    self._follow_shadow(wave, (wave.pc, int(wave.words[MODE])))
                elif why == layout.UNSPECIALISED:
                    self._specialise(wave)
                elif why == layout.UNEVEN:
                    self._uneven()
                elif why == layout.RESUME:
                    self._resume(wave)
                    self._catch_up(wave)
                elif why == layout.OUT_OF_FUEL:
                    self._steps(wave, max(_fuel(wave), 0) + 1)
                else:
                    raise ModelBug(f"translated code returned unknown exit code {why}")
                self._look_up(wave)
        except SoftcardError as error:
            raise self._placed(error, wave) from None

    def _look_up(self, wave: Wave) -> None:
        """Make this thread's waves, and those of later work-groups, use the current table of translated code."""
        address = self.code.table.address
        if wave.words[layout.CODE] != address:
            for each in self.waves:
                each.words[layout.CODE] = address
            self._enter()

    def _enter(self) -> None:
        """Make new waves use the current table of translated code.

        Also have them initialise the vector registers that the code at the kernel's entry may read.
        """
        self._table = table = self.code.table
        words, dispatch = self._words, self.dispatch
        words[AT["code_of_entry"]] = table.address
        given = dispatch.shapes.vgprs.shape[2]
        live = table.live_rows((dispatch.entry, dispatch.mode))
        rows = min(live, max(dispatch.vgpr_count, given))
        words[AT["first_rows"]], words[AT["blank_rows"]] = min(rows, given), rows
        words[AT["accumulators"]] = max(live - VGPRS, 0) if dispatch.target.matrix else 0
        if dispatch.target.matrix:
            self.engine.runtime.provide_matrices()

    def _miss(self, wave: Wave) -> None:
        place = (int(wave.words[PC]), int(wave.words[MODE]))
        before = time.perf_counter()
        shadowed = tuple(_shadowed(shadow, self.dispatch.target) for shadow in wave.shadows)
        is_there = self.engine.install(self.code, place, lambda pc: self.decoded.fetch(pc), shadowed)
        self.lookup_seconds += time.perf_counter() - before
        if not is_there:  # code may begin again after each instruction that the reference engine executes for a check
            is_apart = self.code.instrumentation.points is not NO_HOOKS or self.code.limit is not None
            self._steps(wave, 1 if is_apart else STEPS)

    def _follow_shadow(self, wave: Wave, entry: BlockKey | None = None) -> None:
        """Switch a wave to code that evaluates shadow bits.

        With an `entry`, this code is used only when the region is entered there with shadow bits set, else always.
        """
        before = time.perf_counter()
        self.engine.follow_shadow(self.code, int(wave.words[layout.FUNCTION]), entry)
        self.lookup_seconds += time.perf_counter() - before

    def _specialise(self, wave: Wave) -> None:
        """Specialise a wave's instruction for its register values, or execute it if that is impossible."""
        place = (int(wave.words[PC]), int(wave.words[MODE]))
        before = time.perf_counter()
        wave.words[layout.KEY] = 0
        if self._table.holds((place[0], place[1] | layout.INLINE_CACHE_KEY)):
            self._discount(wave, place[0])  # its code has counted it, and counts it again
        insn = self.stepper.specific(wave)
        is_there = self.engine.specialise(self.code, place, insn, self.decoded.fetch)
        self.lookup_seconds += time.perf_counter() - before
        if is_there:
            wave.words[layout.KEY] = layout.INLINE_CACHE_KEY
        else:
            self._steps(wave, 1)

    def _steps(self, wave: Wave, count: int) -> None:
        """Execute up to `count` instructions on the reference engine; stop where translated code exists."""
        self._be_sure()
        words = wave.words
        for _ in range(count):
            if _fuel(wave) <= 0 and not self._refuel(wave):
                raise StepLimit.of(self.dispatch).at("pc", wave.pc)
            words[RETIRED] = self._executed(wave)
            slept = words[SLEPT]
            insn = self.stepper.step(wave)
            self.interpreted += 1
            words[FUEL] -= np.uint64(1)
            if insn.op.name == "s_icache_inv":  # from here on waves execute code that was written before
                self.code.check(self.dispatch.memory)
            if words[STATUS] != RUNNING or words[SLEPT] != slept:
                self._stopped(wave)
                return
            if self.code.table.holds((int(words[PC]), int(words[MODE]))):
                return

    def _catch_up(self, wave: Wave) -> None:
        """Execute instructions one by one until translated code is reached.

        If this has happened too often at this pc, return without executing any, so that code is compiled for it.
        """
        place = (int(wave.words[PC]), int(wave.words[MODE]))
        left = CATCH_UP - self.code.caught_up[place]
        if self.code.kinds and left > 0 and not self.code.table.holds(place):
            before = self.interpreted
            self._steps(wave, left)
            self.code.caught_up[place] += self.interpreted - before

    def _be_sure(self) -> None:
        """Raise `Misspeculation` if the run is speculative; called before effects that `Speculation.undo` cannot
        undo."""
        if self._part is not None:
            raise Misspeculation

    def _discount(self, wave: Wave, pc: int) -> None:
        """Subtract an execution of the instruction at `pc`, which a wave is about to begin once more."""
        if self.code.tally is not None:
            self.code.tally.single.counts[pc] -= 1
            self.code.tally.single.idle[pc] -= not wave.s64(EXEC)

    def _refuel(self, wave: Wave) -> bool:
        """Let a wave execute one more instruction within its step limit; return False if the limit is reached.

        Its fuel may be negative before, since blocks without a fuel check run without enough fuel.
        """
        missing, left = 1 - _fuel(wave), int(wave.words[layout.LIMIT])
        if left < missing:
            return False
        wave.words[layout.LIMIT] = left - missing
        wave.words[FUEL] = 1
        return True

    def _stopped(self, wave: Wave) -> None:
        """Update the scheduler's context after a wave stopped on the reference engine.

        The wave has ended, paused, or reached a barrier.
        """
        words = self._words
        words[AT["in_time_slice"]] = 0
        words[AT["position"]] += 1
        if wave.words[STATUS] == RUNNING:
            wave.words[layout.LIMIT] += np.uint64(1)
        elif wave.words[STATUS] == AT_BARRIER:
            words[AT["at_barrier"]] += 1
        elif wave.words[STATUS] == ENDED:
            words[AT["live"]] -= 1
            words[AT["retired"]] += self._executed(wave)

    def _resume(self, wave: Wave) -> None:
        """Complete a strip-mined loop on the reference engine, from the lane in the word LANE on.

        It executes one instruction at a time for all remaining lanes, so the lane of a fault is known."""
        self._be_sure()
        words = wave.words
        function, first = int(words[layout.FUNCTION]), int(words[layout.LANE])
        resume = self.code.resume(function, int(words[layout.SIDE_EXIT]), self.decoded.fetch)
        rest = FULL << first & FULL
        resume_pc = int(words[PC])
        before = wave.s64(EXEC) & ~rest
        with self.stepper.counting(not resume.is_counted):
            for insn in resume.insns:
                words[PC] = insn.pc
                self._discount(wave, insn.pc)  # translated code has counted it
                self.stepper.step(wave, FULL if self._is_phased(insn, wave) else rest)
                self.interpreted += 1
        # Masks last: earlier instructions may read the old registers.
        for number, n in enumerate(resume.masks):
            wave.set_s64(n, int(words[layout.PARTIAL + number]) & before | wave.s64(n) & rest)
        for shadow, masks in zip(wave.shadows, resume.shadows, strict=True):
            for number, n in enumerate(masks):
                shadow.set_s64(n, int(shadow.words[layout.PARTIAL + number]) & before | shadow.s64(n) & rest)
        words[PC] = resume_pc

    def _is_phased(self, insn: Insn, wave: Wave) -> bool:
        """Return True if all lanes must repeat an instruction, because some lanes may have made only some of its
        stores.

        Without checks of accesses this cannot happen, as there are no side exits between the stores of an
        instruction."""
        from softcard.engine.gcn.effects import effects  # imports the whole instruction set

        if self.dispatch.memory.guard is None and self.dispatch.checks.tracker is None:
            return False
        return effects(insn, Mode.decode(int(wave.words[MODE]))).phases > 1


def _shadowed(shadow: Wave, target: Target) -> int:
    """Return a mask of the vector registers that have shadow bits set."""
    found = sum(1 << n for n in np.flatnonzero(shadow.vgpr.any(axis=1)).tolist())
    if target.matrix:
        found |= sum(1 << VGPRS + n for n in np.flatnonzero(shadow.acc.any(axis=1)).tolist())
    return found


@lru_cache(CACHED_ORDERS)
def _orders(seed: int | None, waves: int) -> npt.NDArray[np.uint32]:
    """Return the orders in which waves run, one order for each round, as a read-only array."""
    arbiter = Arbiter(seed)
    return np.array([arbiter.order(range(waves)) for _ in range(ROUNDS)], np.uint32)


def _fuel(wave: Wave) -> int:
    """Return the wave's FUEL as a signed number.

    It may be negative, since blocks without a fuel check run without enough fuel.
    """
    return signed(int(wave.words[FUEL]), 64)
