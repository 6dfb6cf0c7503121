"""How harts take turns in the `spec` profile: groups, barriers, and no fault that outlives its command."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from understudy.core.errors import AccessFault, GuestFault, RuleError, UnderstudyError
from understudy.core.limits import note_interrupt
from understudy.core.registers import with_registers
from understudy.device.refsi import rules
from understudy.device.refsi.accelerator import (
    A0,
    A7,
    HOST_BARRIER,
    HOST_EXIT,
    HOST_PUTSTRING,
    Accelerator,
    Failure,
    KernelExit,
    StepLimit,
)
from understudy.device.refsi.events import (
    BarrierReached,
    ConsoleOutput,
    DmaTransfer,
    HartFault,
    InstanceEnded,
    InstanceStarted,
    KernelLaunch,
    RegisterAccess,
)
from understudy.device.refsi.launch import MASK64, KernelPlan, start
from understudy.device.refsi.refsidrv.schedule import fault_text
from understudy.device.refsi.spec.events import DmaHazard, StaleRead
from understudy.engine.moments import END, FAULT
from understudy.engine.riscv.group import Group
from understudy.engine.riscv.moments import registers_of
from understudy.engine.riscv.stops import CAUSES, ECALL_M, Exit, Why
from understudy.isa.riscv.csrnames import MCAUSE, MEPC, MTVAL
from understudy.isa.riscv.state import (
    FOREVER,
    NO_ADDRESS,
    POLLS,
    RESERVED_ADDRESS,
    SHARED,
    SYNCHRONIZED,
    Hart,
    M,
)

if TYPE_CHECKING:
    from understudy.device.refsi.spec.native_instances import Crowd

SLICE: Final = 200_000
"""Instructions a hart runs in its first turn; race-free kernels cannot tell."""
LATER_SLICE: Final = 20_000_000
"""Instructions of every later turn: threads that meet cost as much as a hundred thousand of them."""
SYNCHRONIZED_SLICE: Final = 50_000
"""Instructions of a turn once a hart of the group has polled or executed an atomic or fence: it may wait for others in
a way that nobody recognises."""
POLLING_ROUNDS: Final = 25
"""Rounds for which a hart may poll before its turn ends."""
CROWD_SLICE: Final = 20_000_000
"""Instructions after which somebody looks at what machine code does."""
LONGEST_PAUSE: Final = 64
"""Groups run one by one where machine code alone has come to nothing several times."""
EVENTS_OF_HARTS: Final = (DmaTransfer, RegisterAccess, DmaHazard, StaleRead)
"""What a hart's own accesses make known, at a time that turns decide."""
ECALL_BYTES: Final = 4
LONGEST_STRING: Final = 1 << 16
WORD: Final = 8


@dataclass(frozen=True, slots=True)
class Begun:
    """A group under way: the harts before `hart` have returned; that one has retired `done` instructions of its turn,
    and may have polled as often as it may."""

    hart: int
    done: int
    has_polled: bool


@dataclass(slots=True)
class Seat:
    """One instance on its hart."""

    hart: Hart
    instance: int
    running: bool = True
    link: int | None = None
    turns: int = 0
    begun: Begun | None = None
    """What it has done of its first turn."""


class KernelFailed(Exception):
    """Ends a group; `failure` says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure.error))
        self.failure = failure


class SpecSchedule:
    """Runs kernel commands group by group.

    The harts of a group have a turn each, and run side by side, on threads, where that is not enough. From the
    first atomic or fence of a hart on, or when one polls, they take turns again, shorter ones, until they meet at a
    barrier: so results and counts do not depend on threads, and a reservation lasts for a turn in which nobody else
    can store.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        self._one_thread = Group(1)
        self._steps_left: int | None = None
        self._seats: list[Seat] = []

    def run(self, plan: KernelPlan) -> Failure | None:
        """Run all instances; None if all went well. After a failure all harts are as after reset."""
        accelerator, width = self._accelerator, len(plan.harts)
        accelerator.telemetry.emit(lambda time: KernelLaunch(time, plan.entry, plan.instances, width))
        self._steps_left = accelerator.step_limit
        accelerator.begin()
        if accelerator.marks is not None:
            accelerator.marks.launch(plan.entry, len(plan.harts[0].args) if plan.harts else 0)
        accelerator.set_return_address(width, plan.return_address)
        accelerator.teller.begin(plan.instances, width)
        try:
            told = accelerator.teller.told if accelerator.telemetry.wants(InstanceStarted, InstanceEnded) else 0
            crowd, first, wait, pause = self._crowd(plan, told), 0, 0, 1
            while first < plan.instances:
                before, begun = first, None
                accelerator.teller.begin_group(first)
                if crowd is not None and first >= told:
                    if wait == 0:
                        first, begun = self._run_crowd(crowd, first)
                        pause = 1 if first > before else min(2 * pause, LONGEST_PAUSE)
                        wait = pause
                    wait -= 1
                if first < plan.instances:
                    self._group(plan, range(first, min(first + width, plan.instances)), begun)
                first += width
        except KernelFailed as failed:
            for hart in accelerator.harts:
                accelerator.revive(hart)
            return failed.failure
        except BaseException as cause:
            note_interrupt(cause, *accelerator.places(width))
            raise
        finally:
            accelerator.set_return_address(width)
            accelerator.teller.end()
            if accelerator.marks is not None:
                accelerator.marks.tell()
            if accelerator.races is not None:
                accelerator.races.end()
        return None

    # -- groups -------------------------------------------------------------------------------------------------

    def _crowd(self, plan: KernelPlan, told: int) -> Crowd | None:
        """What runs group after group as machine code; None where each is to be run here, as those `told` of are."""
        harts = self._accelerator.harts[: len(plan.harts)]
        if plan.instances - told <= len(harts):
            return None
        if not self._accelerator.engine.translates:
            return None
        from understudy.device.refsi.spec.native_instances import Crowd  # wanted only where kernels run

        races = self._accelerator.races
        starter = (0, 0) if races is None else races.starter
        return Crowd(self._accelerator.engine, plan, harts, SLICE, POLLING_ROUNDS, starter)

    def _run_crowd(self, crowd: Crowd, first: int) -> tuple[int, Begun | None]:
        """Run groups from instance `first` on while all their harts return in their first turn.

        Gives the first instance of the group that is next, and how far that is if it has begun.
        """
        if self._steps_left is not None and self._steps_left <= 0:
            return first, None
        if self._accelerator.races is not None:
            self._accelerator.races.begin_group(self._accelerator.outstanding())
        for hart in crowd.harts:
            hart.privilege = M
            hart.csr[MCAUSE] = 0
        following, spent, begun = crowd.run(
            first, MASK64 if self._steps_left is None else self._steps_left, CROWD_SLICE
        )
        if self._steps_left is not None:
            self._steps_left -= spent
        return following, begun

    def _group(self, plan: KernelPlan, instances: range, begun: Begun | None = None) -> None:
        """Run one group, or what is left to do of one that has `begun`."""
        seats = [Seat(self._accelerator.harts[j], instance) for j, instance in enumerate(instances)]
        self._seats = seats
        if self._accelerator.races is not None and begun is None:
            self._accelerator.races.begin_group(self._accelerator.outstanding())
        for j, seat in enumerate(seats):
            if begun is not None:
                seat.running, seat.turns = j >= begun.hart, int(j < begun.hart)
                seat.begun = begun if j == begun.hart else None
                continue
            seat.hart.privilege = M
            seat.hart.csr[MCAUSE] = 0
            seat.hart.words[SYNCHRONIZED] = 0
            start(seat.hart, plan, j, seat.instance)
            if self._accelerator.marks is not None:
                self._accelerator.marks.begin(seat.hart, len(plan.harts[j].args))
            self._accelerator.telemetry.emit(
                lambda time, seat=seat: InstanceStarted(time, seat.hart.index, seat.instance)  # type: ignore[misc]
            )
        running = [seat for seat in seats if seat.running]
        turn = 0
        while running:
            synchronized = turn > 0 and any(seat.hart.words[SYNCHRONIZED] for seat in seats)
            if turn == 0 or synchronized or len(running) < 2:
                length = _turn_length(len(running) if turn else len(seats), synchronized)
                for seat in running:
                    self._turn(seat, length)
            else:
                self._turn_together(running)
            turn += 1
            running = [seat for seat in seats if seat.running] or self._pass_barrier(seats)

    # -- one hart -----------------------------------------------------------------------------------------------

    def _turn(self, seat: Seat, length: tuple[int, int]) -> None:
        fuel = self._fuel(seat, length[0], 1)
        before, begun = seat.hart.retired, seat.begun
        if begun is None:
            seat.hart.words[POLLS] = length[1]
        else:
            before, fuel, seat.begun = before - begun.done, fuel - begun.done, None
        try:
            if begun is not None and begun.has_polled:
                exit_: Exit | UnderstudyError = Exit(Why.WAIT, seat.hart.pc)
            else:
                exit_ = self._accelerator.engine.run(seat.hart, fuel)
        except UnderstudyError as error:
            exit_ = error
        self._settle(seat, exit_, before)

    def _turn_together(self, seats: list[Seat]) -> None:
        """Long-running harts, on threads; one after the other where there is one thread only, and where a probe wants
        to know what they do meanwhile."""
        accelerator = self._accelerator
        is_alone = accelerator.telemetry.wants(*EVENTS_OF_HARTS)
        group = self._one_thread if is_alone else accelerator.group
        fuel = self._fuel(seats[0], LATER_SLICE, len(seats))
        before = [seat.hart.retired for seat in seats]
        for seat in seats:
            seat.hart.words[POLLS], seat.hart.words[SHARED] = POLLING_ROUNDS, 1
        try:
            exits = group.run(accelerator.engine, [seat.hart for seat in seats], fuel)
        finally:
            for seat in seats:
                seat.hart.words[SHARED] = 0
        for seat, exit_, retired in zip(seats, exits, before, strict=True):
            self._settle(seat, exit_, retired)

    def _fuel(self, seat: Seat, wanted: int, sharers: int) -> int:
        """Instructions each of `sharers` harts may run now."""
        try:
            self._accelerator.look(seat.hart)
        except UnderstudyError as error:
            raise self._failed(seat, error) from None
        if self._steps_left is None:
            return wanted
        if self._steps_left <= 0:
            raise self._failed(seat, StepLimit(self._unfinished()))
        return max(min(wanted, self._steps_left // sharers), 1)

    def _unfinished(self) -> str:
        """What a kernel command did that used up its instructions: one hart may have had them all."""
        text = StepLimit.of(self._accelerator).message
        running = [seat for seat in self._seats if seat.running]
        if len(running) > 1:
            shares = ", ".join(f"hart {seat.hart.index} had {_turns(seat.turns)}" for seat in running)
            text += f"; of the harts still running {shares}"
        if any(not seat.turns for seat in running):
            text += ": those without one have not begun, and others may wait for them"
        return text

    def _settle(self, seat: Seat, exit_: Exit | UnderstudyError, retired_before: int) -> None:
        seat.turns += 1
        seat.hart.words[POLLS], seat.hart.words[RESERVED_ADDRESS] = FOREVER, NO_ADDRESS
        if isinstance(exit_, UnderstudyError):
            raise self._failed(seat, exit_)
        if self._steps_left is not None:
            self._steps_left -= max(seat.hart.retired - retired_before, 1)
        if exit_.why is Why.RETURN:
            self._end(seat, "return")
        elif exit_.why is Why.WAIT:
            seat.hart.words[SYNCHRONIZED] = 1
        elif exit_.why is Why.TRAP and seat.hart.privilege == M:
            self._trap(seat, exit_)

    def _trap(self, seat: Seat, exit_: Exit) -> None:
        """The device takes every trap to machine mode itself; harts go on behind host calls."""
        if exit_.cause != ECALL_M:
            self._fault(seat, exit_, _error_of(exit_))
        call, argument = seat.hart.x(A7), seat.hart.x(A0)
        if call == HOST_EXIT:
            if argument:
                self._fault(seat, exit_, KernelExit(f"the kernel exited with code {argument:#x}"))
            self._end(seat, "exit")
        elif call == HOST_PUTSTRING:
            text = self._string(seat, exit_, argument)
            self._accelerator.telemetry.emit(lambda time: ConsoleOutput(time, seat.hart.index, text))
        elif call == HOST_BARRIER:
            self._accelerator.telemetry.emit(lambda time: BarrierReached(time, seat.hart.index, argument))
            seat.link, seat.running = argument, False
        else:
            message = f"ecall with a7 = {call:#x}, expected 0 EXIT, 1 PUTSTRING or 2 BARRIER"
            self._fault(seat, exit_, RuleError(message, rule=rules.HOST_CALL))
        hart = seat.hart
        hart.csr[MCAUSE] = hart.csr[MTVAL] = hart.csr[MEPC] = 0
        hart.pc = exit_.pc + ECALL_BYTES

    def _fault(self, seat: Seat, exit_: Exit, error: UnderstudyError) -> None:
        hart, cause, pc, value = seat.hart.index, exit_.cause, exit_.pc, exit_.value
        text = fault_text(cause, pc, value)
        held = registers_of(seat.hart, pc, exit_.instruction)
        with_registers(error, held)
        self._accelerator.take_registers(FAULT, seat.hart, pc, exit_.instruction)
        if not isinstance(error, KernelExit):
            rule = error.rule.id if error.rule else ""
            self._accelerator.telemetry.emit(
                lambda time: HartFault(time, hart, seat.instance, pc, cause, value, text, error.message, rule, held)
            )
        raise self._failed(seat, error, pc, "" if isinstance(error, KernelExit) else exit_.instruction)

    def _string(self, seat: Seat, exit_: Exit, address: int) -> bytes:
        text = bytearray()
        try:
            while b"\0" not in text[-WORD:]:
                text += _some_bytes(seat.hart, address + len(text))
                if len(text) > LONGEST_STRING:
                    message = f"PUTSTRING of a string of more than {LONGEST_STRING} bytes at {address:#x}"
                    self._fault(seat, exit_, RuleError(message, rule=rules.HOST_CALL))
        except AccessFault as fault:
            self._fault(seat, exit_, fault)
        return bytes(text[: text.index(0)])

    def _end(self, seat: Seat, how: str) -> None:
        seat.running = False
        self._accelerator.take_registers(END, seat.hart, seat.hart.pc)
        self._accelerator.telemetry.emit(lambda time: InstanceEnded(time, seat.hart.index, seat.instance, how))

    def _failed(self, seat: Seat, error: UnderstudyError, pc: int | None = None, instruction: str = "") -> KernelFailed:
        at = seat.hart.pc if pc is None else pc
        return KernelFailed(Failure(error, seat.hart.index, at, seat.instance, instruction))

    # -- barriers -----------------------------------------------------------------------------------------------

    def _pass_barrier(self, seats: list[Seat]) -> list[Seat]:
        """Nobody runs: wake those at the barrier, if everybody is there; the seats that run then."""
        waiting = [seat for seat in seats if seat.link is not None]
        if not waiting:
            return []
        gone = [seat for seat in seats if seat.link is None]
        if gone:
            wait = "wait" if len(waiting) > 1 else "waits"
            message = f"{_names(waiting)} {wait} at a barrier, but {_names(gone)} returned"
            raise self._failed(waiting[0], RuleError(message, rule=rules.BARRIER_EVERYBODY))
        if len({seat.link for seat in waiting}) > 1:
            links = ", ".join(f"hart {seat.hart.index} at {seat.link:#x}" for seat in waiting)
            raise self._failed(
                waiting[0], RuleError(f"harts wait at different barriers: {links}", rule=rules.BARRIER_SAME)
            )
        if self._accelerator.races is not None:
            self._accelerator.races.barrier()
        for seat in waiting:
            seat.link, seat.running = None, True
            seat.hart.words[SYNCHRONIZED] = 0
        return waiting


def _some_bytes(hart: Hart, address: int) -> bytes:
    """The next bytes as the hart sees them: a word where that is possible, one byte otherwise."""
    if address % WORD == 0:
        with suppress(AccessFault):
            return hart.port.load(address, WORD).to_bytes(WORD, "little")
    return bytes((hart.port.load(address, 1),))


def _names(seats: list[Seat]) -> str:
    return ("harts " if len(seats) > 1 else "hart ") + ", ".join(str(seat.hart.index) for seat in seats)


def _turn_length(running: int, synchronized: bool) -> tuple[int, int]:
    """Instructions of a turn, and rounds of polling that end it; a hart that is the only one has nobody to serve."""
    if running < 2:
        return LATER_SLICE, FOREVER
    return SYNCHRONIZED_SLICE if synchronized else SLICE, POLLING_ROUNDS


def _turns(number: int) -> str:
    return {0: "no turn", 1: "1 turn"}.get(number, f"{number} turns")


def _error_of(exit_: Exit) -> UnderstudyError:
    if isinstance(exit_.error, UnderstudyError):
        return exit_.error
    return GuestFault(exit_.detail or CAUSES.get(exit_.cause, f"exception {exit_.cause:#x}"))
