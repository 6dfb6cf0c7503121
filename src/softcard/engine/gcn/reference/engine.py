"""The reference engine of waves, which evaluates the semantics of one instruction at a time.

It is slow and simple, and defines the results that the JIT must reproduce. A `Stepper` executes instructions of the
waves of one dispatch, on the same state blocks as the JIT. The JIT calls it for everything that it does not translate,
and to find the lane that faulted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from softcard.core.errors import AccessFault, GuestFault, ModelBug, SoftcardError, with_registers
from softcard.engine.gcn.api import Dispatch, Statistics
from softcard.engine.gcn.hooks import ATOMIC, LOAD, STORE, Observer
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.reference.decoded import Cached, DecodedCode
from softcard.engine.gcn.reference.groups import Groups
from softcard.engine.gcn.reference.lane_atomic import LaneAtomics
from softcard.engine.gcn.reference.lane_float import quiet
from softcard.engine.gcn.reference.lane_integer import Value
from softcard.engine.gcn.reference.lane_memory import LaneMemory
from softcard.engine.gcn.reference.lanes import Lanes, View, specialised
from softcard.engine.gcn.reference.replay import record
from softcard.engine.gcn.tracepoints import Tracepoints
from softcard.engine.hooks import BEFORE, END, FAULT, TRAP, Executions
from softcard.isa.gcn.asm.printer import text
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.semantics.execute import execute
from softcard.isa.gcn.state import (
    ENDED,
    EXEC,
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
from softcard.isa.gcn.target import Target

# ---- observed instructions -------------------------------------------------------------------------------------------
# The reference engine's operations interface with observers. Checks register observers, which are called for single
# instructions.


def observed_lanes(dispatch: Dispatch, accesses: LaneMemory | None = None) -> Lanes:
    """Return the operations interface for a dispatch's waves, which calls the observers of the dispatch's checks.

    `accesses` is its component for memory accesses; if it is None, the standard component is used."""
    if accesses is None:
        accesses = dispatch.checks.accesses(dispatch) or LaneAtomics(dispatch.memory, dispatch.gds)
    observers = dispatch.checks.observers(dispatch, accesses)
    if not observers:
        return Lanes.of(dispatch, accesses)
    return ObservedLanes(dispatch, cast("LaneAtomics", accesses), observers)


class ObservedLanes(Lanes):
    """The operations interface `Lanes`, extended to call the observers that checks have registered."""

    def __init__(self, dispatch: Dispatch, accesses: LaneAtomics, observers: Sequence[Observer]) -> None:
        super().__init__(
            dispatch.memory,
            dispatch.gds,
            dispatch.on_hint,
            dispatch.on_trap,
            dispatch.vgpr_count,
            dispatch.sgpr_count,
            cast("LaneAtomics", ObservedAccesses(accesses, observers)),
            clock=dispatch.clock,
        )
        self._observers = observers

    def begin(self, view: View, insn: Insn, lanes: int | None = None) -> None:
        """Prepare for one instruction of a wave, and call the observers."""
        super().begin(view, insn, lanes)
        for each in self._observers:
            each.begin(view, self.current.group, insn, lanes)

    def prepare(self, view: View, insn: Insn) -> None:
        """Prepare for reading the registers of an instruction that is not executed: the observers are not called."""
        super().begin(view, insn)

    def order(self, what: str, n: int = 0) -> None:
        """Call the observers for a wait or a cache operation, and perform it."""
        super().order(what, n)
        for each in self._observers:
            each.order(what, n)

    def barrier(self) -> None:
        """Wait for the other waves of the work-group, and call the observers."""
        super().barrier()
        for each in self._observers:
            each.barrier()

    def end(self) -> None:
        """End the wave, and call the observers."""
        super().end()
        for each in self._observers:
            each.end()


class ObservedAccesses:
    """Memory accesses of a wave's lanes that call the observers first, and then access memory through `plain`."""

    def __init__(self, plain: LaneAtomics, observers: Sequence[Observer]) -> None:
        self.plain = plain
        self.current = plain.current
        self._observers = observers

    def load(self, space: str, bits: int, address: Value, where: Value | None = None) -> list[Value]:
        """Call the observers, and load values for lanes."""
        for each in self._observers:
            each.access(LOAD, space, bits, address, where, ())
        return self.plain.load(space, bits, address, where)

    def store(self, space: str, bits: int, address: Value, values: Sequence[Value], where: Value | None = None) -> None:
        """Call the observers, and store values of lanes."""
        for each in self._observers:
            each.access(STORE, space, bits, address, where, values)
        self.plain.store(space, bits, address, values, where)

    def atomic(
        self,
        space: str,
        kind: str,
        bits: int,
        address: Value,
        v: Value,
        compare: Value | None = None,
        where: Value | None = None,
    ) -> Value:
        """Call the observers, and perform an atomic operation of each lane, lane after lane."""
        for each in self._observers:
            each.access(ATOMIC, space, bits, address, where, ())
        return self.plain.atomic(space, kind, bits, address, v, compare, where)

    def scalar_load(self, dwords: int, address: int, where: int | None = None) -> list[int]:
        """Call the observers, and load dwords from a guest address."""
        if where != 0:
            self._scalar(LOAD, "global", address & ~3, 4 * dwords)
        return self.plain.scalar_load(dwords, address, where)

    def scalar_store(self, address: int, values: Sequence[int], where: int | None = None) -> None:
        """Call the observers, and store dwords to a guest address."""
        if where != 0:
            self._scalar(STORE, "global", address & ~3, 4 * len(values))
        self.plain.scalar_store(address, values, where)

    def scalar_atomic(
        self,
        space: str,
        kind: str,
        bits: int,
        address: int,
        v: int,
        compare: int | None = None,
        where: int | None = None,
    ) -> int:
        """Call the observers, and execute one scalar atomic operation."""
        if where != 0:
            self._scalar(ATOMIC, space, address, bits >> 3)
        return self.plain.scalar_atomic(space, kind, bits, address, v, compare, where)

    def _scalar(self, access: str, space: str, address: int, size: int) -> None:
        for each in self._observers:
            each.scalar_access(access, space, address, size)

    def aperture(self, which: str) -> int:
        """Return the base or the last byte of a flat aperture."""
        return self.plain.aperture(which)


# ---- engine ----------------------------------------------------------------------------------------------------------


OnRetire = Callable[[Wave, Insn], None]

NO_LANE: Final = 0xFFFF_FFFF
OFTEN: Final = 16
"""The number of executions after which an instruction is recorded for replay."""
VIEWS: Final = 256
"""The maximum number of waves whose views are cached."""


def _execute(cached: Cached, o: Any, mode: int) -> None:
    """Execute a decoded instruction on the operations interface `o`, for which `begin` has been called."""
    if not o.replays:
        o.perform(cached.insn)
        return
    replay = cached.replays.get(mode)
    if replay is not None:
        replay(o)
        return
    cached.uses += 1
    if cached.uses > OFTEN and mode not in cached.replays:
        cached.replays[mode] = record(execute, cached.insn, o.mode, o.is_plain)
    execute(o, cached.insn)


class Stepper:
    """The executor of single instructions for the waves of one dispatch.

    It is not thread-safe: each thread needs its own. `on_retire` is called after every retired instruction.
    `lanes` is the operations interface, the object whose methods the semantics call; `accesses` is its component
    for memory accesses. If one of these is None, the standard object is used. `code` is the cache of decoded
    instructions; if it is None, the stepper has a new one. `executions` counts the executed instructions, unless it is
    None."""

    def __init__(
        self,
        dispatch: Dispatch,
        on_retire: OnRetire | None = None,
        lanes: Lanes | None = None,
        code: DecodedCode | None = None,
        accesses: LaneMemory | None = None,
    ) -> None:
        self.dispatch = dispatch
        self._accesses = accesses
        self.memory = dispatch.memory
        self.on_retire = on_retire
        if lanes is not None:
            self.lanes = lanes
        self.code = DecodedCode(dispatch.target, dispatch.memory) if code is None else code
        self._views: dict[int, View] = {}
        self._begun: tuple[int, int | None] = -1, None
        self.executions: Executions | None = None

    @cached_property
    def lanes(self) -> Any:
        """The operations interface, created on first use: most launches of translated code never need it."""
        checks = self.dispatch.checks
        make = observed_lanes if checks.observes else Lanes.of
        plain, shadow = make(self.dispatch, self._accesses), checks.shadow
        return plain if shadow is None else shadow.operations(plain)

    def begin_group(self, group: int, run: int | None = None) -> None:
        """Begin work-group `group` of the dispatch.

        `run` is a number that the caller increments for each run of waves. If the last call had the same `group`
        and `run`, do nothing, unless `run` is None."""
        if run is not None and (group, run) == self._begun:
            return
        self._begun = group, run
        x, y, z, _ = self.dispatch.groups[group].tolist()
        self.lanes.current.group = x, y, z

    def view(self, wave: Wave) -> View:
        """Return the view of a wave (quick access to its registers) from the cache, or a new one."""
        # A cached view keeps the block alive, so that no other block can have its address.
        found = self._views.get(wave.address)
        if found is None:
            if len(self._views) >= VIEWS:
                self._views.clear()
            found = self._views[wave.address] = View(wave, bool(self.dispatch.target.matrix))
        found.wave = wave
        return found

    def step(self, wave: Wave, lanes: int | None = None) -> Insn:
        """Execute the instruction at the wave's pc, and return it.

        If `lanes` is given, only lanes of EXEC in this mask take part, and lane masks that the instruction writes
        keep the bits of other lanes. A fault leaves the wave unchanged, except for the words FAULT_PC, FAULT_LANE and
        FAULT_ADDRESS."""
        view = self.view(wave)
        with quiet():
            return self._step(view, lanes)

    @contextmanager
    def counting(self, counts: bool) -> Iterator[None]:
        """Return a context in which the counting of uses of undefined values is enabled or disabled.

        Counting is disabled for instructions whose uses translated code has already counted."""
        if self.dispatch.checks.shadow is None:
            yield
            return
        self.lanes.counts = counts
        try:
            yield
        finally:
            self.lanes.counts = True

    def run(self, view: View, count: int) -> int:
        """Execute at most `count` instructions until the wave waits, pauses or ends; return the number that retired."""
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
        """Return the instruction at `pc` for a translator; see `DecodedCode.fetch`."""
        return self.code.fetch(pc)

    def specific(self, wave: Wave) -> Insn:
        """Return the instruction at the wave's pc.

        If register values select its semantics, return it specialised for the present values.
        """
        insn = self.fetch(wave.pc)
        if insn.op.selectors is None:
            return insn
        view = self.view(wave)
        if isinstance(self.lanes, ObservedLanes):
            self.lanes.prepare(view, insn)
        else:
            self.lanes.begin(view, insn, None)
        return specialised(self.lanes, insn)

    def _step(self, view: View, lanes: int | None) -> Insn:
        words, o = view.words, self.lanes
        pc = words[PC]
        is_idle = self.executions is not None and is_without_lanes(view.wave)
        insn = None
        try:
            cached = self.code.at(pc)
            insn = cached.insn
            o.begin(view, insn, lanes)
            _execute(cached, o, words[MODE])
            words[PC] = o.target
        except SoftcardError as error:
            raise self._placed(error, view, pc, insn) from None
        except IndexError as error:
            raise self._placed(_beyond(error), view, pc, insn) from error
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
            bug = ModelBug(f"{type(error).__name__} in an instruction's semantics: {error}")
            raise self._placed(bug, view, pc, insn) from error
        words[RETIRED] += 1
        if self.executions is not None:
            self.executions.counts[pc] += 1
            if is_idle:
                self.executions.idle[pc] += 1
            if o.target != insn.next_pc and is_conditional_branch(insn):
                self.executions.taken[pc] += 1
        return insn

    def _placed(self, error: SoftcardError, view: View, pc: int, insn: Insn | None) -> SoftcardError:
        """Return an error, extended by its pc and the registers that the instruction reads.

        If it is a fault, also record its pc, lane and address in the wave's state."""
        said = "" if insn is None else _shown(insn)
        if not any(place.kind == "pc" for place in error.path):
            error.at("pc", pc, said)
        if isinstance(error, GuestFault):
            lane = next((int(place.where) for place in error.path if place.kind == "lane"), None)
            view.words[FAULT_PC] = pc
            view.words[FAULT_LANE] = NO_LANE if lane is None else lane
            view.words[FAULT_ADDRESS] = error.address & (1 << 64) - 1 if isinstance(error, AccessFault) else 0
            if insn is not None and error.registers is None:
                from softcard.engine.gcn.effects import registers_read  # few kernels fail

                with suppress(SoftcardError, IndexError):  # its specialisation may be what failed
                    insn = specialised(self.lanes, insn)
                with_registers(error, registers_read(insn, view.wave, lane, said))
        return error


def is_without_lanes(wave: Wave) -> bool:
    """Return True if no lane of a wave is active."""
    return not wave.s64(EXEC)


def is_conditional_branch(insn: Insn) -> bool:
    """Return True if an instruction is a conditional branch with a constant target."""
    return insn.form == "SOPP" and insn.op.name.startswith("s_cbranch_")


def _shown(insn: Insn) -> str:
    """Return the instruction as assembly text, or its name if an operand cannot be shown as text."""
    try:
        return text(insn)
    except SoftcardError:
        return insn.name


def _beyond(error: IndexError) -> GuestFault:
    return GuestFault(f"an operand reaches beyond the last register ({error})")


class ReferenceEngine:
    """The engine that runs dispatches by evaluating instruction semantics.

    `on_retire` is called after every retired instruction. With `counting`, the executions of each instruction are
    counted (`instruction_counts`). Decoded instructions are cached for the next dispatch with the same memory.
    """

    def __init__(self, on_retire: OnRetire | None = None, counting: bool = False) -> None:
        self.on_retire = on_retire
        self._executions = Executions() if counting else None
        self._decoded: WeakKeyDictionary[GpuMemory, tuple[tuple[int, Target], dict[int, Cached]]] = WeakKeyDictionary()
        """The decoded instructions by memory, with the version of the mappings and the target they depend on."""

    def __repr__(self) -> str:
        return "<reference engine of waves>"

    def instruction_counts(self) -> dict[int, int]:
        """Return the number of executions by pc; see `executions`."""
        return dict(self.executions().counts)

    def executions(self) -> Executions:
        """Return the executions of the instruction at each pc; raise `ModelBug` if the engine does not count them."""
        if self._executions is None:
            raise ModelBug("the engine does not count instructions: make it with counting=True")
        return self._executions.copy()

    def stepper(self, dispatch: Dispatch) -> Stepper:
        """Return a stepper for this dispatch."""
        memory = dispatch.memory
        key, known = (memory.version, dispatch.target), self._decoded.get(memory)
        if known is None or known[0] != key:
            known = self._decoded[memory] = key, {}
        stepper = Stepper(dispatch, self.on_retire, code=DecodedCode(dispatch.target, memory, known[1]))
        stepper.executions = self._executions
        return stepper

    def run(self, dispatch: Dispatch) -> Statistics:
        """Run all work-groups to their end, one after the other."""
        if dispatch.resident > 1:
            dispatch.check_alone("engine 'reference'")
        stepper = self.stepper(dispatch)
        if not dispatch.checks.is_around:
            return Groups(dispatch, stepper).run()
        with dispatch.checks.running(dispatch, stepper.fetch, is_translated=False):
            return Groups(dispatch, stepper).run()


# ---- register snapshots ----------------------------------------------------------------------------------------------
# The reference engine extended by register snapshots; see `engine.gcn.tracepoints`.


TRAPPING: Final = "s_trap"


class TracepointEngine(ReferenceEngine):
    """The reference engine, extended by register snapshots."""

    def __init__(self, tracepoints: Tracepoints, counting: bool = False) -> None:
        super().__init__(counting=counting)
        self._tracepoints = tracepoints

    def stepper(self, dispatch: Dispatch) -> Stepper:
        """Return a stepper for this dispatch that takes snapshots."""
        stepper = TracepointStepper(dispatch, self.on_retire)
        stepper.tracepoints = self._tracepoints
        stepper.executions = self._executions
        return stepper


class TracepointStepper(Stepper):
    """The executor of single instructions that takes register snapshots."""

    tracepoints: Tracepoints

    def _step(self, view: View, lanes: int | None) -> Insn:
        wave, pc = view.wave, view.words[PC]
        if pc in self.tracepoints.pcs:
            self._take(BEFORE, wave, pc, self._text(pc))
        try:
            if pc not in self.tracepoints.pcs and self._is_trap(pc):
                self._take(TRAP, wave, pc, self._text(pc))
            insn = super()._step(view, lanes)
        except SoftcardError:
            self._take(FAULT, wave, pc, self._text(pc))
            raise
        if self.tracepoints.at_end and view.words[STATUS] == ENDED:
            self._take(END, wave, pc, text(insn))
        return insn

    def _is_trap(self, pc: int) -> bool:
        return self.code.at(pc).insn.op.name == TRAPPING

    def _take(self, why: str, wave: Wave, pc: int, said: str) -> None:
        x, y, z = self.lanes.current.group
        self.tracepoints.take(why, self.dispatch, (x, y, z), wave, pc, said)

    def _text(self, pc: int) -> str:
        """Return the text of the instruction at `pc`, or "" if memory holds none there."""
        try:
            return text(self.code.at(pc).insn)
        except SoftcardError:
            return ""
