"""How harts take turns in the `spec` profile: groups, barriers, and no fault that outlives its command."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from understudy.core.errors import AccessFault, GuestFault, RuleError, UnderstudyError
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
    HartFault,
    InstanceEnded,
    InstanceStarted,
    KernelLaunch,
)
from understudy.device.refsi.schedule_refsidrv import fault_text
from understudy.engine.group import SHARED_FUEL
from understudy.engine.stops import CAUSES, ECALL_M, Exit, Why
from understudy.isa.riscv.csrnames import MCAUSE, MEPC, MTVAL
from understudy.isa.riscv.state import Hart, M
from understudy.launch.refsi import KernelPlan, start

SLICE: Final = 200_000
"""Instructions a hart runs in its first turn; race-free kernels cannot tell."""
LATER_SLICE: Final = 5_000_000
"""Instructions of every later turn: each turn costs as much as tens of thousands of them."""
ECALL_BYTES: Final = 4
LONGEST_STRING: Final = 1 << 16
WORD: Final = 8


@dataclass(slots=True)
class Seat:
    """One instance on its hart."""

    hart: Hart
    instance: int
    running: bool = True
    link: int | None = None


class KernelFailed(Exception):
    """Ends a group; `failure` says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure.error))
        self.failure = failure


class SpecSchedule:
    """Runs kernel commands group by group; harts of a group take turns of `SLICE` instructions, or run on threads
    when that is not enough and nobody listens."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        self._steps_left: int | None = None

    def run(self, plan: KernelPlan) -> Failure | None:
        """Run all instances; None if all went well. After a failure all harts are as after reset."""
        accelerator, width = self._accelerator, len(plan.harts)
        accelerator.telemetry.emit(lambda time: KernelLaunch(time, plan.entry, plan.instances, width))
        self._steps_left = accelerator.step_limit
        accelerator.set_return_address(width, plan.return_address)
        try:
            for first in range(0, plan.instances, width):
                self._group(plan, range(first, min(first + width, plan.instances)))
        except KernelFailed as failed:
            for hart in accelerator.harts:
                accelerator.revive(hart)
            return failed.failure
        finally:
            accelerator.set_return_address(width)
        return None

    def _group(self, plan: KernelPlan, instances: range) -> None:
        seats = [Seat(self._accelerator.harts[j], instance) for j, instance in enumerate(instances)]
        for j, seat in enumerate(seats):
            seat.hart.privilege = M
            seat.hart.csr[MCAUSE] = 0
            start(seat.hart, plan, j, seat.instance)
            self._accelerator.telemetry.emit(
                lambda time, seat=seat: InstanceStarted(time, seat.hart.index, seat.instance)  # type: ignore[misc]
            )
        running = seats
        alone = True  # short kernels end in their first turn and never see a thread
        while running:
            if alone or len(running) < 2 or self._accelerator.group.threads < 2 or self._accelerator.telemetry.listened:
                for seat in running:
                    self._turn(seat, SLICE if alone else LATER_SLICE)
            else:
                self._turn_together(running)
            alone = False
            running = [seat for seat in seats if seat.running] or self._pass_barrier(seats)

    # -- one hart -----------------------------------------------------------------------------------------------

    def _turn(self, seat: Seat, wanted: int) -> None:
        fuel = self._fuel(seat, wanted, 1)
        before = seat.hart.retired
        try:
            exit_: Exit | UnderstudyError = self._accelerator.engine.run(seat.hart, fuel)
        except UnderstudyError as error:
            exit_ = error
        self._settle(seat, exit_, before)

    def _turn_together(self, seats: list[Seat]) -> None:
        """Long-running harts, each on a thread."""
        fuel = self._fuel(seats[0], SHARED_FUEL, len(seats))
        before = [seat.hart.retired for seat in seats]
        exits = self._accelerator.group.run(self._accelerator.engine, [seat.hart for seat in seats], fuel)
        for seat, exit_, retired in zip(seats, exits, before, strict=True):
            self._settle(seat, exit_, retired)

    def _fuel(self, seat: Seat, wanted: int, sharers: int) -> int:
        """Instructions each of `sharers` harts may run now."""
        if self._steps_left is None:
            return wanted
        if self._steps_left <= 0:
            limit = self._accelerator.step_limit
            raise self._failed(seat, StepLimit(f"the kernel command has not ended after {limit} instructions"))
        return max(min(wanted, self._steps_left // sharers), 1)

    def _settle(self, seat: Seat, exit_: Exit | UnderstudyError, retired_before: int) -> None:
        if isinstance(exit_, UnderstudyError):
            raise self._failed(seat, exit_)
        if self._steps_left is not None:
            self._steps_left -= max(seat.hart.retired - retired_before, 1)
        if exit_.why is Why.RETURN:
            self._end(seat, "return")
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
        if not isinstance(error, KernelExit):
            self._accelerator.telemetry.emit(lambda time: HartFault(time, hart, seat.instance, pc, cause, value, text))
        raise self._failed(seat, error, pc)

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
        self._accelerator.telemetry.emit(lambda time: InstanceEnded(time, seat.hart.index, seat.instance, how))

    def _failed(self, seat: Seat, error: UnderstudyError, pc: int | None = None) -> KernelFailed:
        return KernelFailed(Failure(error, seat.hart.index, seat.hart.pc if pc is None else pc, seat.instance))

    # -- barriers -----------------------------------------------------------------------------------------------

    def _pass_barrier(self, seats: list[Seat]) -> list[Seat]:
        """Nobody runs: wake those at the barrier, if everybody is there; the seats that run then."""
        waiting = [seat for seat in seats if seat.link is not None]
        if not waiting:
            return []
        gone = [seat for seat in seats if seat.link is None]
        if gone:
            raise self._failed(
                waiting[0],
                RuleError(
                    f"{_names(waiting)} wait at a barrier, but {_names(gone)} returned", rule=rules.BARRIER_EVERYBODY
                ),
            )
        if len({seat.link for seat in waiting}) > 1:
            links = ", ".join(f"hart {seat.hart.index} at {seat.link:#x}" for seat in waiting)
            raise self._failed(
                waiting[0], RuleError(f"harts wait at different barriers: {links}", rule=rules.BARRIER_SAME)
            )
        for seat in waiting:
            seat.link, seat.running = None, True
        return waiting


def _some_bytes(hart: Hart, address: int) -> bytes:
    """The next bytes as the hart sees them: a word where that is possible, one byte otherwise."""
    if address % WORD == 0:
        with suppress(AccessFault):
            return hart.port.load(address, WORD).to_bytes(WORD, "little")
    return bytes((hart.port.load(address, 1),))


def _names(seats: list[Seat]) -> str:
    return ("harts " if len(seats) > 1 else "hart ") + ", ".join(str(seat.hart.index) for seat in seats)


def _error_of(exit_: Exit) -> UnderstudyError:
    if isinstance(exit_.error, UnderstudyError):
        return exit_.error
    return GuestFault(exit_.detail or CAUSES.get(exit_.cause, f"exception {exit_.cause:#x}"))
