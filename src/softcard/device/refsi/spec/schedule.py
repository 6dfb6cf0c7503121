"""The schedule of harts in the `spec` profile: groups, barriers, and faults, which end their command."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from softcard.core.errors import AccessFault, GuestFault, RuleError, SoftcardError, with_registers
from softcard.core.limits import note_interrupt
from softcard.device.refsi import rules
from softcard.device.refsi.accelerator import (
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
from softcard.device.refsi.events import (
    BarrierReached,
    ConsoleOutput,
    DmaTransfer,
    HartFault,
    InstanceEnded,
    InstanceStarted,
    KernelLaunch,
    RegisterAccess,
)
from softcard.device.refsi.launch import MASK64, KernelPlan, start
from softcard.device.refsi.refsidrv.schedule import fault_text
from softcard.device.refsi.spec.events import DmaHazard, StaleRead
from softcard.device.refsi.spec.launch_registers import LaunchRegisters
from softcard.engine.hooks import END, FAULT
from softcard.engine.riscv.api import CAUSES, ECALL_M, Exit, Why
from softcard.engine.riscv.group import Group
from softcard.engine.riscv.tracepoints import registers_of
from softcard.isa.riscv.csrnames import MCAUSE, MEPC, MTVAL
from softcard.isa.riscv.state import (
    FOREVER,
    NO_ADDRESS,
    POLLS,
    RESERVED_ADDRESS,
    RETURN_ADDRESS,
    SHARED,
    SYNCHRONIZED,
    Hart,
    M,
)

if TYPE_CHECKING:
    from softcard.device.refsi.spec.native_instances import Crowd

SLICE: Final = 200_000
"""The number of instructions of a hart's first time slice; race-free kernels cannot observe it."""
LATER_SLICE: Final = 20_000_000
"""The number of instructions of every later time slice.

It is high, as synchronising threads costs as much as a hundred thousand instructions.
"""
SYNCHRONIZED_SLICE: Final = 50_000
"""The number of instructions of a time slice after a hart of the group has polled or synchronised.

It has executed an atomic or a fence then, and may wait for others in a way that is not recognised.
"""
POLLING_ROUNDS: Final = 25
"""The number of polling loop iterations after which a hart's time slice ends."""
CROWD_SLICE: Final = 20_000_000
"""The number of instructions after which limits are checked while machine code runs groups."""
LONGEST_PAUSE: Final = 64
"""The maximum number of groups to run without machine code, after machine code has failed several times."""
EVENTS_OF_HARTS: Final = (DmaTransfer, RegisterAccess, DmaHazard, StaleRead)
"""The types of events for a hart's own accesses, whose time depends on the schedule."""
ECALL_BYTES: Final = 4
LONGEST_STRING: Final = 1 << 16
WORD: Final = 8


@dataclass(frozen=True, slots=True)
class Begun:
    """The progress of a group in which all harts before `hart` have returned.

    Hart `hart` has retired `done` instructions of its time slice. `has_polled` states that it has used up its
    polling iterations."""

    hart: int
    done: int
    has_polled: bool


@dataclass(slots=True)
class Seat:
    """The state of one instance of a kernel, and the hart that runs it."""

    hart: Hart
    instance: int
    running: bool = True
    link: int | None = None
    time_slices: int = 0
    begun: Begun | None = None
    """The progress of the instance in its first time slice, if machine code has begun it."""


class KernelFailed(Exception):
    """The exception that ends a group; `failure` is the reason."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure.error))
        self.failure = failure


class SpecSchedule:
    """The scheduler that runs kernel commands, group by group.

    Each hart of a group first gets one time slice. If a hart does not finish in it, the harts run in parallel on
    threads. After a hart's first atomic or fence, or when a hart polls, harts run one at a time again, with
    shorter time slices, until the next barrier. Therefore results and counts do not depend on the number of
    threads, and a reservation holds during a time slice, in which no other hart can store."""

    def __init__(self, accelerator: Accelerator, registers: LaunchRegisters) -> None:
        self._accelerator = accelerator
        self._registers = registers
        self._one_thread = Group(1)
        self._steps_left: int | None = None
        self._seats: list[Seat] = []

    def run(self, plan: KernelPlan) -> Failure | None:
        """Run all instances; return None if all succeed. After a failure all harts are reset."""
        accelerator, width = self._accelerator, len(plan.harts)
        accelerator.telemetry.emit(lambda time: KernelLaunch(time, plan.entry, plan.instances, width))
        self._steps_left = accelerator.step_limit
        accelerator.begin()
        accelerator.checks.kernel_begins(plan.entry, len(plan.harts[0].args) if plan.harts else 0)
        ends = self._registers.return_addresses(plan) if plan.instances else ()
        for hart, address in zip(accelerator.harts, ends, strict=False):
            hart.words[RETURN_ADDRESS] = address
        accelerator.instance_filter.begin(plan.instances, width)
        try:
            traced = (
                accelerator.instance_filter.traced if accelerator.telemetry.wants(InstanceStarted, InstanceEnded) else 0
            )
            crowd, first, wait, pause = self._crowd(plan, traced), 0, 0, 1
            while first < plan.instances:
                before, begun = first, None
                accelerator.instance_filter.begin_group(first)
                if crowd is not None and first >= traced:
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
            accelerator.instance_filter.end()
            accelerator.checks.kernel_ends()
        return None

    # -- groups -------------------------------------------------------------------------------------------------

    def _crowd(self, plan: KernelPlan, traced: int) -> Crowd | None:
        """Return the executor that runs groups in compiled code; None if Python must run all groups.

        `traced` is the number of instances that emit events. Python must run these."""
        harts = self._accelerator.harts[: len(plan.harts)]
        if plan.instances - traced <= len(harts):
            return None
        if not self._accelerator.engine.translates:
            return None
        from softcard.device.refsi.spec.native_instances import Crowd  # needed only where kernels run

        starter = self._accelerator.checks.starter
        return Crowd(self._accelerator.engine, plan, harts, SLICE, POLLING_ROUNDS, starter)

    def _run_crowd(self, crowd: Crowd, first: int) -> tuple[int, Begun | None]:
        """Run groups from instance `first` on, while all harts of a group return in their first time slice.

        Return the first instance of the next group, and the progress of that group if it has begun.
        """
        if self._steps_left is not None and self._steps_left <= 0:
            return first, None
        self._accelerator.begin_group()
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
        """Run one group, or the rest of a group that has already `begun`."""
        seats = [Seat(self._accelerator.harts[j], instance) for j, instance in enumerate(instances)]
        self._seats = seats
        if begun is None:
            self._accelerator.begin_group()
        for j, seat in enumerate(seats):
            if begun is not None:
                seat.running, seat.time_slices = j >= begun.hart, int(j < begun.hart)
                seat.begun = begun if j == begun.hart else None
                continue
            seat.hart.privilege = M
            seat.hart.csr[MCAUSE] = 0
            seat.hart.words[SYNCHRONIZED] = 0
            start(seat.hart, plan, j, seat.instance)
            self._accelerator.checks.instance_begins(seat.hart, len(plan.harts[j].args))
            self._accelerator.telemetry.emit(
                lambda time, seat=seat: InstanceStarted(time, seat.hart.index, seat.instance)  # type: ignore[misc]
            )
        running = [seat for seat in seats if seat.running]
        turn = 0
        while running:
            synchronized = turn > 0 and any(seat.hart.words[SYNCHRONIZED] for seat in seats)
            if turn == 0 or synchronized or len(running) < 2:
                length = _time_slice_length(len(running) if turn else len(seats), synchronized)
                for seat in running:
                    self._run_slice(seat, length)
            else:
                self._run_slices(running)
            turn += 1
            running = [seat for seat in seats if seat.running] or self._pass_barrier(seats)

    # -- one hart -----------------------------------------------------------------------------------------------

    def _run_slice(self, seat: Seat, length: tuple[int, int]) -> None:
        fuel = self._fuel(seat, length[0], 1)
        before, begun = seat.hart.retired, seat.begun
        if begun is None:
            seat.hart.words[POLLS] = length[1]
        else:
            before, fuel, seat.begun = before - begun.done, fuel - begun.done, None
        try:
            if begun is not None and begun.has_polled:
                exit_: Exit | SoftcardError = Exit(Why.WAIT, seat.hart.pc)
            else:
                exit_ = self._accelerator.engine.run(seat.hart, fuel)
        except SoftcardError as error:
            exit_ = error
        self._flush(seat, exit_, before)

    def _run_slices(self, seats: list[Seat]) -> None:
        """Run harts that need more time slices, on threads.

        Run them one after another if only one thread is available, or if a probe listens to their accesses.
        """
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
            self._flush(seat, exit_, retired)

    def _fuel(self, seat: Seat, wanted: int, sharers: int) -> int:
        """Return the number of instructions, at most `wanted`, that each of `sharers` harts may run now."""
        try:
            self._accelerator.check_limits(seat.hart)
        except SoftcardError as error:
            raise self._failed(seat, error) from None
        if self._steps_left is None:
            return wanted
        if self._steps_left <= 0:
            raise self._failed(seat, StepLimit(self._unfinished()))
        return max(min(wanted, self._steps_left // sharers), 1)

    def _unfinished(self) -> str:
        """Return the error message for a command that reached its instruction limit."""
        text = StepLimit.of(self._accelerator).message
        running = [seat for seat in self._seats if seat.running]
        if len(running) > 1:
            shares = ", ".join(f"hart {seat.hart.index} had {_time_slices(seat.time_slices)}" for seat in running)
            text += f"; of the harts that still run, {shares}"
        if any(not seat.time_slices for seat in running):
            text += ": those with no time slice have executed nothing yet, and others may wait for them"
        return text

    def _flush(self, seat: Seat, exit_: Exit | SoftcardError, retired_before: int) -> None:
        seat.time_slices += 1
        seat.hart.words[POLLS], seat.hart.words[RESERVED_ADDRESS] = FOREVER, NO_ADDRESS
        if isinstance(exit_, SoftcardError):
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
        """Handle a trap of a hart: either a host call, after which the hart continues or ends, or an error.

        Guest code cannot handle traps: the schedule plays the role of the machine-mode trap handler."""
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
            message = f"ecall has a7 = {call:#x}, expected 0 (EXIT), 1 (PUTSTRING) or 2 (BARRIER)"
            self._fault(seat, exit_, RuleError(message, rule=rules.HOST_CALL))
        hart = seat.hart
        hart.csr[MCAUSE] = hart.csr[MTVAL] = hart.csr[MEPC] = 0
        hart.pc = exit_.pc + ECALL_BYTES

    def _fault(self, seat: Seat, exit_: Exit, error: SoftcardError) -> None:
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
                    message = f"the string of PUTSTRING at {address:#x} has more than {LONGEST_STRING} bytes"
                    self._fault(seat, exit_, RuleError(message, rule=rules.HOST_CALL))
        except AccessFault as fault:
            self._fault(seat, exit_, fault)
        return bytes(text[: text.index(0)])

    def _end(self, seat: Seat, how: str) -> None:
        seat.running = False
        self._accelerator.take_registers(END, seat.hart, seat.hart.pc)
        self._accelerator.telemetry.emit(lambda time: InstanceEnded(time, seat.hart.index, seat.instance, how))

    def _failed(self, seat: Seat, error: SoftcardError, pc: int | None = None, instruction: str = "") -> KernelFailed:
        at = seat.hart.pc if pc is None else pc
        return KernelFailed(Failure(error, seat.hart.index, at, seat.instance, instruction))

    # -- barriers -----------------------------------------------------------------------------------------------

    def _pass_barrier(self, seats: list[Seat]) -> list[Seat]:
        """Wake the harts that wait at a barrier if all have arrived; return the instances that run then.

        Raise an error if a hart of the group has ended, or waits at another barrier. Call it when no hart runs.
        """
        waiting = [seat for seat in seats if seat.link is not None]
        if not waiting:
            return []
        gone = [seat for seat in seats if seat.link is None]
        if gone:
            wait = "wait" if len(waiting) > 1 else "waits"
            message = f"{_names(waiting)} {wait} at a barrier, but {_names(gone)} returned"
            raise self._failed(waiting[0], RuleError(message, rule=rules.BARRIER_ALL_HARTS))
        if len({seat.link for seat in waiting}) > 1:
            links = ", ".join(f"hart {seat.hart.index} at {seat.link:#x}" for seat in waiting)
            raise self._failed(
                waiting[0], RuleError(f"harts wait at different barriers: {links}", rule=rules.BARRIER_SAME)
            )
        self._accelerator.checks.barrier_opens()
        for seat in waiting:
            seat.link, seat.running = None, True
            seat.hart.words[SYNCHRONIZED] = 0
        return waiting


def _some_bytes(hart: Hart, address: int) -> bytes:
    """Return the bytes at `address` as the hart sees them: a word if it is aligned and readable, else one byte."""
    if address % WORD == 0:
        with suppress(AccessFault):
            return hart.port.load(address, WORD).to_bytes(WORD, "little")
    return bytes((hart.port.load(address, 1),))


def _names(seats: list[Seat]) -> str:
    return ("harts " if len(seats) > 1 else "hart ") + ", ".join(str(seat.hart.index) for seat in seats)


def _time_slice_length(running: int, synchronized: bool) -> tuple[int, int]:
    """Return the length of a hart's time slice: the maximum numbers of instructions and of polling iterations.

    `running` is the number of running harts; a hart that runs alone need not yield. `synchronized` states that a
    hart of the group has polled or synchronised."""
    if running < 2:
        return LATER_SLICE, FOREVER
    return SYNCHRONIZED_SLICE if synchronized else SLICE, POLLING_ROUNDS


def _time_slices(number: int) -> str:
    return {0: "no time slice", 1: "1 time slice"}.get(number, f"{number} time slices")


def _error_of(exit_: Exit) -> SoftcardError:
    if isinstance(exit_.error, SoftcardError):
        return exit_.error
    return GuestFault(exit_.detail or CAUSES.get(exit_.cause, f"exception {exit_.cause:#x}"))
