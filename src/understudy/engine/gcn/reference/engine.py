"""The reference engine of waves: meanings evaluated one instruction at a time. Slow, obvious, the judge.

A `Stepper` executes instructions of the waves of one dispatch, one at a time, on the same state blocks as the JIT,
which calls it for whatever it does not translate and to find out exactly which lane faulted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from understudy.core.errors import AccessFault, BeyondModel, GuestFault, ModelBug, UnderstudyError
from understudy.core.registers import with_registers
from understudy.engine.gcn.api import Dispatch, Statistics
from understudy.engine.gcn.group import Groups
from understudy.engine.gcn.memory import GpuMemory
from understudy.engine.gcn.reference.lane_float import quiet
from understudy.engine.gcn.reference.lane_memory import LaneMemory
from understudy.engine.gcn.reference.lanes import Lanes, View
from understudy.engine.gcn.reference.replay import Replay, record
from understudy.isa.gcn.asm.printer import text
from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.encoding.decode import decode
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics.execute import execute, told
from understudy.isa.gcn.state import (
    FAULT_ADDRESS,
    FAULT_LANE,
    FAULT_PC,
    MODE,
    PC,
    RETIRED,
    RUNNING,
    SLEPT,
    STATUS,
    Wave,
)
from understudy.isa.gcn.target import Target

OnRetire = Callable[[Wave, Insn], None]

LONGEST: Final = 3
"""Words that may have to be looked at to decode an instruction."""
NO_LANE: Final = 0xFFFF_FFFF
OFTEN: Final = 16
"""Executions after which an instruction is written down."""
VIEWS: Final = 256
"""Waves whose views are kept."""


@dataclass(slots=True)
class Cached:
    """A decoded instruction, and where its words lie: it holds as long as they are the same.

    `uses` counts executions; `replays` has what was written down of it, by MODE (None: it cannot be).
    """

    insn: Insn
    words: memoryview
    index: int
    first: int
    second: int | None
    uses: int = 0
    replays: dict[int, Replay | None] = field(default_factory=dict)

    def holds(self) -> bool:
        """Whether memory still has these words."""
        words, index = self.words, self.index
        return words[index] == self.first and (self.second is None or words[index + 1] == self.second)

    def execute(self, o: Any, mode: int) -> None:
        """Execute the instruction on an algebra that is set up for it."""
        if not o.replays:
            o.perform(self.insn)
            return
        replay = self.replays.get(mode)
        if replay is not None:
            replay(o)
            return
        self.uses += 1
        if self.uses > OFTEN and mode not in self.replays:
            self.replays[mode] = record(execute, self.insn, o.mode, o.is_plain)
        execute(o, self.insn)


class Stepper:
    """Executes instructions of waves of one dispatch. Not for several threads at once: make one for each.

    `on_retire` is called after every retired instruction. `lanes`: the algebra, if it is not the plain one.
    `code`: what was decoded of the memory as it is mapped now, by address, to go on with. `accesses`: memory,
    if it is not the plain one.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        on_retire: OnRetire | None = None,
        lanes: Lanes | None = None,
        code: dict[int, Cached] | None = None,
        accesses: LaneMemory | None = None,
    ) -> None:
        self.dispatch = dispatch
        self._accesses = accesses
        self.memory = dispatch.memory
        self.on_retire = on_retire
        if lanes is not None:
            self.lanes = lanes
        self._code = {} if code is None else code
        self._version = dispatch.memory.version
        self._views: dict[int, View] = {}
        self._begun: tuple[int, int | None] = -1, None

    @cached_property
    def lanes(self) -> Any:
        """The algebra, made when it is first needed: most launches of translated code never need it."""
        plain = self._plain()
        if self.dispatch.marks is None:
            return plain
        from understudy.engine.gcn.marks.reference import MarkedLanes  # few programs ask for checks

        return MarkedLanes(plain, self.dispatch.marks)

    def _plain(self) -> Lanes:
        """That of plain values."""
        races = self.dispatch.races
        if races is None:
            return Lanes.of(self.dispatch, self._accesses)
        from understudy.engine.gcn.races.lanes import RaceLanes  # few programs ask for checks

        return RaceLanes(self.dispatch, races, self._accesses)

    def begin_group(self, group: int, run: int | None = None) -> None:
        """Waves of this group of the dispatch are next; `run`: in which run, where that is said more than once."""
        if run is not None and (group, run) == self._begun:
            return
        self._begun = group, run
        x, y, z, _ = self.dispatch.groups[group].tolist()
        self.lanes.current.group = x, y, z

    def view(self, wave: Wave) -> View:
        """What this stepper keeps of a wave."""
        # A kept view keeps the block alive, so that no other block can have its address.
        found = self._views.get(wave.address)
        if found is None:
            if len(self._views) >= VIEWS:
                self._views.clear()
            found = self._views[wave.address] = View(wave)
        found.wave = wave
        return found

    def step(self, wave: Wave, lanes: int | None = None) -> Insn:
        """Execute the instruction at the wave's pc, and give it back.

        With `lanes`, only those lanes of EXEC take part, and lane masks keep the bits of the others. A fault leaves the
        wave as it was, but for the words FAULT_PC, FAULT_LANE and FAULT_ADDRESS.
        """
        view = self.view(wave)
        with quiet():
            return self._step(view, lanes)

    @contextmanager
    def counting(self, counts: bool) -> Iterator[None]:
        """Meanwhile count what marks decide, or do not, where that was done before."""
        if self.dispatch.marks is None:
            yield
            return
        self.lanes.counts = counts
        try:
            yield
        finally:
            self.lanes.counts = True

    def run(self, view: View, count: int) -> int:
        """Execute instructions until the wave waits, pauses or ends, at most `count`; how many retired."""
        words, hook = view.words, self.on_retire
        done, slept = 0, words[SLEPT]
        with quiet():
            while done < count and words[STATUS] == RUNNING and words[SLEPT] == slept:
                insn = self._step(view, None)
                done += 1
                if hook is not None:
                    hook(view.wave, insn)
        return done

    def fetch(self, pc: int) -> Insn:
        """The instruction at `pc` for a translator, which may ask ahead and again; a fault where there is none.

        A `BeyondModel` where reading it could have effects: only `step` does, as often as the wave comes there.
        """
        if self.memory.plain(pc, 4) is None and self.memory.find(pc) is not None:
            raise BeyondModel("translating instructions that are not in plain memory").at("pc", pc)
        return self._cached(pc).insn

    def specific(self, wave: Wave) -> Insn:
        """The instruction at the wave's pc, with the numbers that decide what it means now, if any do."""
        insn = self.fetch(wave.pc)
        if insn.op.told is None:
            return insn
        self.lanes.begin(self.view(wave), insn, None)
        return insn.specific(told(Builder(cast("Any", self.lanes)), insn))

    def _cached(self, pc: int) -> Cached:
        if self.memory.version != self._version:
            self._version = self.memory.version
            self._code.clear()
        cached = self._code.get(pc)
        return cached if cached is not None and cached.holds() else self._decode(pc)

    def _decode(self, pc: int) -> Cached:
        if pc & 3:
            raise GuestFault("instructions lie at multiples of 4").at("pc", pc)
        found = self.memory.plain(pc, 4)
        if found is None or (pc - found.base) & 3:
            return Cached(decode(self.dispatch.target, self._slowly(pc), pc), memoryview(b""), 0, 0, None)
        words, index = found.words.data, (pc - found.base) >> 2
        insn = decode(self.dispatch.target, words[index : index + LONGEST].tolist(), pc)
        second = insn.words[1] if len(insn.words) > 1 else None
        cached = self._code[pc] = Cached(insn, words, index, insn.words[0], second)
        return cached

    def _slowly(self, pc: int) -> list[int]:
        """Words of code that does not lie in plain memory by whole dwords."""
        words: list[int] = []
        for at in range(pc, pc + 4 * LONGEST, 4):
            try:
                words.append(int.from_bytes(self.memory.read(at, 4), "little"))
            except AccessFault as fault:
                if not words:
                    raise fault.at("pc", pc, "instruction fetch") from None
                break
        return words

    def _step(self, view: View, lanes: int | None) -> Insn:
        words, o = view.words, self.lanes
        pc = words[PC]
        insn = None
        try:
            cached = self._cached(pc)
            insn = cached.insn
            o.begin(view, insn, lanes)
            cached.execute(o, words[MODE])
            words[PC] = o.target
        except UnderstudyError as error:
            raise self._placed(error, view, pc, insn) from None
        except IndexError as error:
            raise self._placed(_beyond(error), view, pc, insn) from error
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
            bug = ModelBug(f"{type(error).__name__} in a meaning: {error}")
            raise self._placed(bug, view, pc, insn) from error
        words[RETIRED] += 1
        return insn

    def _placed(self, error: UnderstudyError, view: View, pc: int, insn: Insn | None) -> UnderstudyError:
        """The error with its pc; a guest's fault is noted in the wave as well, and has the registers that it read."""
        said = "" if insn is None else _shown(insn)
        if not any(place.kind == "pc" for place in error.path):
            error.at("pc", pc, said)
        if isinstance(error, GuestFault):
            lane = next((int(place.where) for place in error.path if place.kind == "lane"), None)
            view.words[FAULT_PC] = pc
            view.words[FAULT_LANE] = NO_LANE if lane is None else lane
            view.words[FAULT_ADDRESS] = error.address & (1 << 64) - 1 if isinstance(error, AccessFault) else 0
            if insn is not None and error.registers is None:
                from understudy.engine.gcn.reference.fault_registers import registers_read  # few kernels fail

                with suppress(UnderstudyError, IndexError):  # it may be what decides its meaning that failed
                    if insn.op.told is not None:
                        insn = insn.specific(told(Builder(cast("Any", self.lanes)), insn))
                with_registers(error, registers_read(insn, view.wave, lane, said))
        return error


def _shown(insn: Insn) -> str:
    """The instruction's text; its name where it has an operand that cannot be written."""
    try:
        return text(insn)
    except UnderstudyError:
        return insn.name


def _beyond(error: IndexError) -> GuestFault:
    return GuestFault(f"an operand reaches beyond the last register ({error})")


class ReferenceEngine:
    """Runs dispatches by evaluating meanings. `on_retire` is called after every retired instruction.

    `counting`: `instruction_counts` tells how often each was executed.
    What was decoded is kept for the next dispatch over the same memory.
    """

    def __init__(self, on_retire: OnRetire | None = None, counting: bool = False) -> None:
        self.on_retire = self._count if counting else on_retire
        self._further = on_retire if counting else None
        self._counts: Counter[int] | None = Counter() if counting else None
        self._decoded: WeakKeyDictionary[GpuMemory, tuple[tuple[int, Target], dict[int, Cached]]] = WeakKeyDictionary()
        """By memory: the mappings and the target that instructions were decoded for, and these."""

    def __repr__(self) -> str:
        return "<reference engine of waves>"

    def _count(self, wave: Wave, insn: Insn) -> None:
        assert self._counts is not None
        self._counts[insn.pc] += 1
        if self._further is not None:
            self._further(wave, insn)

    def instruction_counts(self) -> dict[int, int]:
        """How often the instruction at each pc has retired, of an engine that counts them; a `ModelBug` of another."""
        if self._counts is None:
            raise ModelBug("this engine does not count instructions")
        return dict(self._counts)

    def stepper(self, dispatch: Dispatch) -> Stepper:
        """What executes single instructions of this dispatch."""
        memory = dispatch.memory
        key, known = (memory.version, dispatch.target), self._decoded.get(memory)
        if known is None or known[0] != key:
            known = self._decoded[memory] = key, {}
        return Stepper(dispatch, self.on_retire, code=known[1])

    def run(self, dispatch: Dispatch) -> Statistics:
        """Run all groups to their end, one after the other."""
        return Groups(dispatch, self.stepper(dispatch)).run()
