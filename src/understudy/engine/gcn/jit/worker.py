"""The waves of one thread: their state blocks, the scheduler's context, and what Python does between its calls."""

from __future__ import annotations

import ctypes
import threading
import time
from contextlib import AbstractContextManager
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from understudy.core.errors import ModelBug, UnderstudyError
from understudy.core.host_address import host_address
from understudy.core.limits import Stopped, note_interrupt
from understudy.core.order import Arbiter
from understudy.core.words import align_up, signed
from understudy.engine.gcn.api import Dispatch, StepLimit, Words32
from understudy.engine.gcn.group import look, start_wave
from understudy.engine.gcn.jit import layout, native_clock
from understudy.engine.gcn.jit.basics import BlockKey, Fetch, Misspeculation
from understudy.engine.gcn.jit.context import AT
from understudy.engine.gcn.jit.home import TWIN
from understudy.engine.gcn.jit.runtime import Runtime
from understudy.engine.gcn.jit.translation import CodeSpace
from understudy.engine.gcn.ticks import TICK_SECONDS, TICKS
from understudy.isa.gcn.state import (
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
    WORDS_AT,
    Mode,
    Wave,
    aligned,
)

if TYPE_CHECKING:
    from understudy.engine.gcn.marks.launch import MarkStarts
    from understudy.engine.gcn.marks.marking import Marking
    from understudy.engine.gcn.races.native_judge import NativeGroup
    from understudy.engine.gcn.races.speculation import Part
    from understudy.engine.gcn.races.watch import RaceWatch
    from understudy.engine.gcn.reference.engine import Stepper
    from understudy.engine.gcn.wave_log import WaveLog
    from understudy.isa.gcn.insn import Insn

_CURSOR: Final = AT["cursor"]
_LAST: Final = AT["last"]
_RUNNING: Final = AT["running"]
_SEEN: Final = AT["seen"]
_LOOKS: Final = AT["looks"]
NAP_SECONDS: Final = 0.00025
"""How long the host's thread pauses where waves do nothing else."""
LENT_SECONDS: Final = TICK_SECONDS / 10
"""How long an earlier kernel goes on in the time of a later one, which began in its time."""
ROUNDS: Final = 16
"""Orders of waves drawn in advance; they repeat."""
KEPT: Final = 64
"""Seeds and numbers of waves whose orders are kept."""
LINE: Final = 64
"""Bytes that LDS begins at a multiple of."""
PATIENCE_SECONDS: Final = 2.0
"""How long waves may take that were expected to take much less, until they run one after the other."""
MOST_FUEL: Final = 1 << 62
"""Turns and limits that are longer never end: translated code counts them in signed words."""
STEPS: Final = 64
"""Instructions done one by one where no translated code begins, before looking again."""
CATCH_UP: Final = 2048
"""Instructions done one by one behind what code that looks at waves could not do, before there is code for them.

They take a tenth of a second; code for a hundred instructions takes longer, and most such places are come to once.
"""


class CodeMaker(Protocol):
    """The engine, as workers know it. `lock` is held where the table of code is changed."""

    lock: AbstractContextManager[Any]
    runtime: Runtime

    def heat(self, slot: int) -> npt.NDArray[np.uint64]:
        """The counters of blocks of a thread."""

    def install(self, code: CodeSpace, place: BlockKey, fetch: Fetch, marked: tuple[int, ...] = ()) -> bool:
        """Make code that can be entered at a place part of the table; False where there is none to be made.

        `marked`: of each kind of marks the vector registers that have any, one bit each.
        """

    def tell(self, code: CodeSpace, place: BlockKey, insn: Insn, fetch: Fetch) -> bool:
        """Have code for what an instruction means with its numbers; False where the reference engine executes that."""


class Worker:
    """Runs ranges of groups of one dispatch on one thread; number `slot` of the workers of that dispatch.

    With a `part`, others run side by side under the check of races: as long as nothing but translated code is executed,
    else a `Misspeculation`.
    """

    def __init__(
        self, engine: CodeMaker, code: CodeSpace, dispatch: Dispatch, slot: int, part: Part | None = None
    ) -> None:
        self.engine = engine
        self.code = code
        self._part = part
        self.dispatch = dispatch
        count = max(dispatch.most_waves, 1)
        marking = dispatch.marks
        kinds = 0 if marking is None else len(marking.kinds)
        states, lds = kinds * TWIN + count * STATE_BYTES, align_up(max(dispatch.lds_bytes, 1), LINE)
        memory = aligned(states + 2 * lds)
        self._states, self._blank_lds = memory[:states], memory[states + lds :]
        self.lds = memory[states : states + max(dispatch.lds_bytes, 1)]
        self._states_at = host_address(memory)
        self._lds_at = self._states_at + states
        blocks = [self._states[n * STATE_BYTES : (n + 1) * STATE_BYTES] for n in range(count)]
        self.waves = [Wave(block, index) for index, block in enumerate(blocks)]
        for n, wave in enumerate(self.waves if kinds else ()):
            starts = [n * STATE_BYTES + (kind + 1) * TWIN for kind in range(kinds)]
            wave.twins = tuple(Wave(self._states[start : start + STATE_BYTES]) for start in starts)
        self.context = np.zeros(len(AT), np.uint64)
        self._words = self.context.data
        self._address = host_address(self.context)
        host = dispatch.clock
        self._clock = None if host is None else native_clock.words(host, engine.runtime.host_clock)
        self._keep: list[object] = []
        self._mark_starts: MarkStarts | None = None
        self.races: NativeGroup | None = None
        """What the check of races knows of the group that runs."""
        self._version = dispatch.memory.version
        self._pause = dispatch.memory.pause
        self._limit = min(dispatch.most_steps, MOST_FUEL)
        self._began = -1, 0.0
        self.looked_up = 0.0
        """Seconds that were spent on finding code."""
        self.is_dropped = False
        """Whether nobody waits for these waves any more."""
        self._lent = layout.TICK
        """How far these waves came in the time of others: see `_lend`."""
        self._lent_error: UnderstudyError | None = None
        self.occupied = threading.Lock()
        """Held by a thread of the engine's own while it runs these waves."""
        self.interpreted = 0
        """Instructions that the reference engine executed since `restart`, or since the last `resume`."""
        self._prepare(slot)

    @cached_property
    def stepper(self) -> Stepper:
        """Executes what translated code does not, and decodes."""
        from understudy.engine.gcn.reference.engine import Stepper  # all of the instruction set goes with it

        return Stepper(self.dispatch)

    @property
    def is_speculating(self) -> bool:
        """Whether what it does may have to be undone."""
        return self._part is not None

    @property
    def group(self) -> int:
        """The group that runs."""
        return int(self._words[AT["cursor"]])

    def restart(self, sgprs: Words32 | None = None) -> None:
        """Before a run: first scalar registers as in the dispatch, or these."""
        first = self.dispatch.sgprs if sgprs is None else sgprs
        self.sgprs[:, : len(first)] = first
        self._words[AT["template"]] += 1
        self._words[AT["retired"]] = 0
        self.is_dropped = False
        self.interpreted = 0
        if self.races is not None:
            self.races.begin()

    def forget_places(self) -> None:
        """Before machine code runs: where waves found memory last is not where it is, if mappings have changed."""
        version = self.dispatch.memory.version
        if self._version != version:
            self._version = version
            for wave in self.waves:
                for each in (wave, *wave.twins):
                    each.words[layout.INLINE_CACHE :] = 0
            if self._mark_starts is not None:
                self._mark_starts.place()

    def run(self, start: int, stop: int) -> None:
        """Run groups start to stop."""
        words = self._words
        words[_CURSOR], words[_LAST], words[_RUNNING] = start, stop, 0
        words[_SEEN] = TICKS.count[0]
        words[_LOOKS] = 0 if self.dispatch.barriers is None else layout.LOOKS
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

    def run_logged(self, group: int, log: WaveLog) -> None:
        """Run one group, and tell what became of its waves."""
        dispatch = self.dispatch
        waves = self.waves[: int(dispatch.shapes.waves[dispatch.groups[group, 3]])]
        failed = None
        try:
            self.run(group, group + 1)
        except UnderstudyError:
            failed = int(self._words[AT["current"]])
            raise
        finally:
            log.over(group, waves, [self._executed(wave) for wave in waves], failed)

    def resume(self, why: int) -> None:
        """Have the waves go on that somebody else's call of the scheduler left for this reason, to their end."""
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
        """Serve what the scheduler left with, and let it go on, until it is done."""
        words, now = self._words, TICKS.count
        while why != layout.DONE:
            if why not in (layout.TICK, layout.DROWSE):
                self._serve(why)
            elif why == layout.DROWSE:
                words[AT["naps"]] = layout.NAPS - layout.SHORT_NAPS
                time.sleep(NAP_SECONDS)
            if words[_SEEN] != now[0]:
                self._lent = layout.TICK
                self._tick()
                if self._lent_error is not None:
                    error, self._lent_error = self._lent_error, None
                    raise error
                if self._lent == layout.DONE:
                    return
            why = self._schedule()

    def _lend(self) -> None:
        """Go on for a moment, or until waves pause, in the time of a later kernel, which may wait for them: see `look`.

        What becomes of them is for `_go_on`, in which they are looked at.
        """
        words, now = self._words, TICKS.count
        words[_SEEN] = now[0]
        recall = threading.Timer(LENT_SECONDS, words.__setitem__, (_SEEN, FULL))
        recall.start()
        try:
            while self._lent != layout.DONE and self._lent_error is None and words[_SEEN] == now[0]:
                self._lent = why = self._schedule()
                if why == layout.DROWSE:
                    return
                if why not in (layout.DONE, layout.TICK):
                    self._serve(why)
        except UnderstudyError as error:
            self._lent_error = error
        finally:
            recall.cancel()
            recall.join()

    def _schedule(self) -> int:
        """Have waves run as machine code until something is up, with memory as it is mapped now; what."""
        pause = self._pause
        try:
            pause.enter(self)
            self.forget_places()
            return self.engine.runtime.schedule(self._address)
        finally:
            pause.leave(self)

    @property
    def retired(self) -> int:
        """Instructions of waves that have ended since `restart`."""
        return int(self._words[AT["retired"]])

    # ---- first state -------------------------------------------------------------------------------------------
    def _prepare(self, slot: int) -> None:
        dispatch, shapes = self.dispatch, self.dispatch.shapes
        most = len(self.waves)
        if len(dispatch.groups):
            words = self._engine_words(slot)
            for number, wave in enumerate(self.waves if dispatch.most_waves else ()):
                start_wave(dispatch, wave, 0, number, slot * most + number, self._lds_at, is_blank=True)
                for index, word in words:
                    wave.words[index] = word
        if dispatch.marks is not None:
            self._prepare_marks(dispatch.marks, slot)
        if dispatch.races is not None:
            self._prepare_races(dispatch.races)
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
        self._keep += arrays.values()
        x, y, z = dispatch.group_id_sgprs
        waves, execs, vgprs = shapes.addresses
        numbers = {
            "shape_waves": waves, "execs": execs, "vgprs": vgprs,
            "states": self._states_at, "lds": self._lds_at, "blank_lds": host_address(self._blank_lds),
            "rounds": ROUNDS, "most_waves": most, "rows": shapes.vgprs.shape[2],
            "group_x": x, "group_y": y, "group_z": z, "info": dispatch.group_info_sgpr,
            "entry": dispatch.entry, "mode": dispatch.mode,
            "turn": min(max(dispatch.turn, layout.LEAST_TURN), MOST_FUEL), "step_limit": self._limit,
            "lds_size": dispatch.lds_bytes,
            "undefined": undefined, "ticks": TICKS.address,
        }  # fmt: skip
        context = self._words
        for name, array in arrays.items():
            context[AT[name]] = host_address(array)
        for name, number in numbers.items():
            context[AT[name]] = number & FULL
        self._enter()

    def _engine_words(self, slot: int) -> list[tuple[int, int]]:
        """The words of each wave that are the engine's, by number."""
        dispatch, engine = self.dispatch, self.engine
        gds = dispatch.gds
        return [
            (layout.HELPERS, engine.runtime.helpers_address),
            (layout.TABLES, dispatch.memory.tables_address),
            (layout.HEAT, host_address(engine.heat(slot))),
            (layout.GDS_BASE, 0 if gds is None else host_address(gds)),
            (layout.GDS_SIZE, 0 if gds is None else len(gds)),
            (layout.CHECKED, dispatch.memory.guard is not None),
            (layout.CLOCK, 0 if self._clock is None else host_address(self._clock)),
        ]

    def _prepare_marks(self, marking: Marking, slot: int) -> None:
        """What twins are told of where marks are, and the first marks of waves."""
        from understudy.engine.gcn.marks.launch import MarkStarts  # few programs ask for checks

        made = MarkStarts(self.dispatch, marking, self.waves, slot * len(self.waves))
        self._keep.append(made)
        self.context[AT["kinds"]], self.context[AT["mark_starts"]] = len(marking.kinds), made.address
        self._mark_starts = made

    def _prepare_races(self, watch: RaceWatch) -> None:
        """What waves tell the check of races by."""
        dispatch = self.dispatch
        fetch = lambda pc: self.stepper.fetch(pc)  # noqa: E731 - made when it is needed first
        judge = self._part or watch.native
        self.races = made = judge.group(dispatch.groups, len(self.waves), dispatch.private, fetch)
        for wave, row in zip(self.waves, made.rows, strict=True):
            wave.words[layout.RACES] = ctypes.addressof(row)
        self.context[AT["races"]], self.context[AT["start_races"]] = made.address, made.start

    # ---- between calls -----------------------------------------------------------------------------------------
    def _tick(self) -> None:
        """Time has passed: end the waves if they must not go on. What runs is known by how often waves have begun."""
        words = self._words
        words[_SEEN] = TICKS.count[0]
        run = words[AT["template"]]
        if self._began[0] != run:
            self._began = run, time.monotonic() - TICK_SECONDS
        wave = self.waves[words[AT["current"]]]
        wave.words[RETIRED] = self._executed(wave)
        try:
            if self._part is not None and (self.is_dropped or time.monotonic() - self._began[1] > PATIENCE_SECONDS):
                raise Misspeculation
            if self.is_dropped:
                raise Stopped("the host gave up waiting while the kernel ran")
            away = look(self.dispatch, wave, self._began[1], self._lend)
        except UnderstudyError as error:
            raise self._placed(error, wave) from None
        words[_SEEN] = TICKS.count[0]
        self._began = run, self._began[1] + away

    def _of_group(self) -> list[Wave]:
        """The waves of the group that runs."""
        dispatch = self.dispatch
        return self.waves[: int(dispatch.shapes.waves[dispatch.groups[self.group, 3]])]

    def _uneven(self) -> None:
        """Tell of work-items that have not come to the barrier that opens."""
        self._be_sure()
        if self.dispatch.barriers is not None:
            self.dispatch.barriers.opens(self.dispatch, self.group, self._of_group())

    def _executed(self, wave: Wave) -> int:
        """Instructions of a wave so far."""
        return self._limit - int(wave.words[layout.LIMIT]) - _fuel(wave) + int(wave.words[SLEPT])

    def _placed(self, error: UnderstudyError, wave: Wave) -> UnderstudyError:
        if self.dispatch.barriers is not None:
            self.dispatch.barriers.fails(self.dispatch, self.group, self._of_group(), wave, error)
        x, y, z, _ = self.dispatch.groups[self.group].tolist()
        return error.at("wave", wave.index).at("work-group", f"{x},{y},{z}")

    def _note(self, cause: BaseException) -> None:
        """Have what a host was interrupted with tell where waves were, if there are any left."""
        if self.group >= len(self.dispatch.groups):
            return
        wave = self.waves[self._words[AT["current"]]]
        x, y, z, _ = self.dispatch.groups[self.group].tolist()
        note_interrupt(cause, ("pc", f"{wave.pc:#x}"), ("wave", wave.index), ("work-group", f"{x},{y},{z}"))

    def _serve(self, why: int) -> None:
        """Do what translated code could not, and let it go on."""
        wave = self.waves[self._words[AT["current"]]]
        wave.words[layout.TEMPLATE] = 0
        try:
            with self.engine.lock:
                dispatch = self.dispatch
                if not (dispatch.memory.guard is None and dispatch.marks is None and dispatch.races is None):
                    self.stepper.begin_group(self.group, int(self._words[AT["template"]]))
                if wave.words[layout.UNMARKED] == layout.MET:
                    self._follow_marks(wave)
                wave.words[layout.UNMARKED] = 0
                if why == layout.MISS:
                    self._miss(wave)
                elif why == layout.STEP:
                    self._steps(wave, 1)
                elif why == layout.UNTOLD and wave.words[layout.KEY] == layout.MARKED_KEY:
                    self._follow_marks(wave, (wave.pc, int(wave.words[MODE])))
                elif why == layout.UNTOLD:
                    self._tell(wave)
                elif why == layout.UNEVEN:
                    self._uneven()
                elif why == layout.RESUME:
                    self._resume(wave)
                    self._catch_up(wave)
                elif why == layout.OUT_OF_FUEL:
                    self._steps(wave, max(_fuel(wave), 0) + 1)
                else:
                    raise ModelBug(f"translated code left with code {why}")
                self._look_up(wave)
        except UnderstudyError as error:
            raise self._placed(error, wave) from None

    def _look_up(self, wave: Wave) -> None:
        """Have this wave, and those of later groups, look into the newest table."""
        address = self.code.table.address
        if wave.words[layout.CODE] != address:
            for each in self.waves:
                each.words[layout.CODE] = address
            self._enter()

    def _enter(self) -> None:
        """Have waves that start look into the newest table, with the vector registers that the code there may read."""
        self._table = table = self.code.table
        words, dispatch = self._words, self.dispatch
        words[AT["code_of_entry"]] = table.address
        given = dispatch.shapes.vgprs.shape[2]
        rows = min(table.live_rows((dispatch.entry, dispatch.mode)), max(dispatch.vgpr_count, given))
        words[AT["first_rows"]], words[AT["blank_rows"]] = min(rows, given), rows

    def _miss(self, wave: Wave) -> None:
        place = (int(wave.words[PC]), int(wave.words[MODE]))
        before = time.perf_counter()
        marked = tuple(_marked(twin) for twin in wave.twins)
        is_there = self.engine.install(self.code, place, lambda pc: self.stepper.fetch(pc), marked)
        self.looked_up += time.perf_counter() - before
        if not is_there:  # under the check of races there may be code behind each single instruction that it looks at
            is_apart = self.dispatch.races is not None or self.code.limit is not None
            self._steps(wave, 1 if is_apart else STEPS)

    def _follow_marks(self, wave: Wave, entry: BlockKey | None = None) -> None:
        """Have code that follows marks, from here on or only where that which ran was entered with some."""
        before = time.perf_counter()
        self.code.follow_marks(int(wave.words[layout.FUNCTION]), entry)
        self.looked_up += time.perf_counter() - before

    def _tell(self, wave: Wave) -> None:
        """Have code for what the instruction means now, and go on with it; or execute the instruction."""
        place = (int(wave.words[PC]), int(wave.words[MODE]))
        before = time.perf_counter()
        wave.words[layout.KEY] = 0
        if self._table.holds((place[0], place[1] | layout.SITE_KEY)):
            self._count(place[0], -1)  # its code has counted it, and does so again
        insn = self.stepper.specific(wave)
        is_there = self.engine.tell(self.code, place, insn, self.stepper.fetch)
        self.looked_up += time.perf_counter() - before
        if is_there:
            wave.words[layout.KEY] = layout.SITE_KEY
        else:
            self._steps(wave, 1)

    def _steps(self, wave: Wave, count: int) -> None:
        """Execute up to `count` instructions one by one, until one of them leads to where translated code begins."""
        self._be_sure()
        words = wave.words
        for _ in range(count):
            if _fuel(wave) <= 0 and not self._refuel(wave):
                raise StepLimit.of(self.dispatch).at("pc", wave.pc)
            words[RETIRED] = self._executed(wave)
            slept = words[SLEPT]
            insn = self.stepper.step(wave)
            self.interpreted += 1
            self._count(insn.pc)
            words[FUEL] -= np.uint64(1)
            if insn.op.name == "s_icache_inv":  # from here on waves see code that was written before
                self.code.check(self.dispatch.memory)
            if words[STATUS] != RUNNING or words[SLEPT] != slept:
                self._stopped(wave)
                return
            if self.code.table.holds((int(words[PC]), int(words[MODE]))):
                return

    def _catch_up(self, wave: Wave) -> None:
        """Go on one by one to where code begins, as long as code of its own from here on is not worth while."""
        place = (int(wave.words[PC]), int(wave.words[MODE]))
        left = CATCH_UP - self.code.caught_up[place]
        if self.code.kinds and left > 0 and not self.code.table.holds(place):
            before = self.interpreted
            self._steps(wave, left)
            self.code.caught_up[place] += self.interpreted - before

    def _be_sure(self) -> None:
        """Something happens that cannot be undone."""
        if self._part is not None:
            raise Misspeculation

    def _count(self, pc: int, times: int = 1) -> None:
        """Count an instruction, where they are counted."""
        if self.code.tally is not None:
            self.code.tally.single[pc] += times

    def _refuel(self, wave: Wave) -> bool:
        """One more instruction from what the step limit leaves. Blocks that are no heads were run on credit."""
        missing, left = 1 - _fuel(wave), int(wave.words[layout.LIMIT])
        if left < missing:
            return False
        wave.words[layout.LIMIT] = left - missing
        wave.words[FUEL] = 1
        return True

    def _stopped(self, wave: Wave) -> None:
        """A wave ended, paused, or came to a barrier, on the reference engine: tell the scheduler."""
        words = self._words
        words[AT["in_turn"]] = 0
        words[AT["position"]] += 1
        if wave.words[STATUS] == RUNNING:
            wave.words[layout.LIMIT] += np.uint64(1)
        elif wave.words[STATUS] == AT_BARRIER:
            words[AT["at_barrier"]] += 1
        elif wave.words[STATUS] == ENDED:
            words[AT["live"]] -= 1
            words[AT["retired"]] += self._executed(wave)

    def _resume(self, wave: Wave) -> None:
        """Finish a strip from lane LANE on, instruction by instruction; or find out which of them faults."""
        self._be_sure()
        words = wave.words
        function, first = int(words[layout.FUNCTION]), int(words[layout.LANE])
        resume = self.code.resume(function, int(words[layout.SIDE_EXIT]), self.stepper.fetch)
        rest = FULL << first & FULL
        behind = int(words[PC])
        before = wave.s64(EXEC) & ~rest
        with self.stepper.counting(not resume.is_counted):
            for insn in resume.insns:
                words[PC] = insn.pc
                self._count(insn.pc, -1)  # until it is done: translated code has counted it
                self.stepper.step(wave, FULL if self._is_phased(insn, wave) else rest)
                self._count(insn.pc)
                self.interpreted += 1
        # Masks last: earlier instructions may read the registers as what they were.
        for number, n in enumerate(resume.masks):
            wave.set_s64(n, int(words[layout.PARTIAL + number]) & before | wave.s64(n) & rest)
        for twin, masks in zip(wave.twins, resume.twins, strict=True):
            for number, n in enumerate(masks):
                twin.set_s64(n, int(twin.words[layout.PARTIAL + number]) & before | twin.s64(n) & rest)
        words[PC] = behind

    def _is_phased(self, insn: Insn, wave: Wave) -> bool:
        """Whether lanes before LANE may have done some of its stores only: then all are done once more.

        Where nobody looks at memory they are never left.
        """
        from understudy.engine.gcn.jit.effects import effects  # all of the instruction set goes with it

        if self.dispatch.memory.guard is None and self.dispatch.races is None:
            return False
        return effects(insn, Mode.decode(int(wave.words[MODE]))).phases > 1


def _marked(twin: Wave) -> int:
    """The vector registers that have marks, one bit each."""
    return sum(1 << n for n in np.flatnonzero(twin.vgpr.any(axis=1)).tolist())


@lru_cache(KEPT)
def _orders(seed: int | None, waves: int) -> npt.NDArray[np.uint32]:
    """The orders in which so many waves run, one behind the other. Not to be written to."""
    arbiter = Arbiter(seed)
    return np.array([arbiter.order(range(waves)) for _ in range(ROUNDS)], np.uint32)


def _fuel(wave: Wave) -> int:
    """FUEL, which is below 0 where blocks were run on credit: only loop heads and entries look at it."""
    return signed(int(wave.words[FUEL]), 64)
