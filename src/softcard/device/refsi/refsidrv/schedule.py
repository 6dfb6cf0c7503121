"""The reference driver's schedule of harts, reproduced exactly.

The outcome of races and faults depends on this schedule. One thread steps the harts round robin, 5000
instructions each. After a hart's time slice its mcause is checked. If it is not zero, the hart traps then,
even if mcause was set earlier. A fault does not reset mcause, so the device cannot run later kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from softcard.core.errors import AccessFault, GuestFault, SoftcardError, with_registers
from softcard.core.limits import note_interrupt
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
    Diagnostic,
    HartFault,
    InstanceEnded,
    InstanceStarted,
    KernelLaunch,
)
from softcard.device.refsi.launch import KernelPlan, start
from softcard.device.refsi.profiler import count_trapped
from softcard.device.refsi.refsidrv.devices import ReferenceCrash
from softcard.device.refsi.refsidrv.memory import RefsidrvPort
from softcard.engine.hooks import END, FAULT
from softcard.engine.riscv.api import (
    BREAKPOINT,
    ECALL_M,
    FETCH_ACCESS,
    ILLEGAL,
    LOAD_ACCESS,
    LOAD_MISALIGNED,
    STORE_ACCESS,
    STORE_MISALIGNED,
    Exit,
    Why,
)
from softcard.engine.riscv.tracepoints import registers_of
from softcard.isa.riscv import csr
from softcard.isa.riscv.csrnames import MCAUSE, MCYCLE, MEPC, MINSTRET, MTVAL
from softcard.isa.riscv.state import NO_ADDRESS, RESERVED_ADDRESS, Hart

QUANTUM: Final = 5000
FAULT_CODE: Final = 0x8000_0000
MISMATCH: Final = -1

NAMES: Final = {
    FETCH_ACCESS: "Instruction Access Fault",
    ILLEGAL: "Illegal Instruction",
    LOAD_ACCESS: "Load Access Fault",
    STORE_ACCESS: "Store/AMO Access Fault",
    LOAD_MISALIGNED: "Misaligned Load",
    STORE_MISALIGNED: "Misaligned Store",
}
WITHOUT_ADDRESS: Final = (FETCH_ACCESS, ILLEGAL)


def fault_text(cause: int, pc: int, value: int) -> str:
    """Return the line that the reference driver prints about a trap.

    `cause` and `value` are mcause and mtval, `pc` is the address of the instruction.
    """
    name = NAMES.get(cause)
    if name is None:
        return f"error: unknown exception was raised @ {pc:#x} (cause = {cause:x})"
    address = "" if cause in WITHOUT_ADDRESS else f" (badaddr = {value:#x})"
    return f"error: '{name}' exception was raised @ {pc:#x}{address}"


class RefsidrvSchedule:
    """The executor of kernel commands in the reference driver's order.

    If `profiling` is True, counters 3 to 17 count instructions (see `profiler.py`)."""

    def __init__(self, accelerator: Accelerator, profile: bool = False) -> None:
        self._accelerator = accelerator
        self._profile = profile
        self.profiling = False
        self._running: list[bool] = []
        self._links: list[int] = []
        self._current = 0
        self._exit_code: int | None = None
        self._return_address = NO_ADDRESS
        self._instances: list[int] = []
        self._failure: Failure | None = None
        self._last_exit: Exit | None = None
        self._was_wedged = False
        self._problem = ""
        self._steps_left: int | None = None

    # -- commands -----------------------------------------------------------------------------------------------

    def run(self, plan: KernelPlan) -> Failure | None:
        """Run a kernel command of M1, one group of harts after another, until one fails."""
        accelerator, width = self._accelerator, len(plan.harts)
        accelerator.active = width
        if width > len(accelerator.harts):
            raise ReferenceCrash(
                f"MAX_HARTS is {width}, but the device has {len(accelerator.harts)} harts: the reference driver uses "
                "a null pointer"
            )
        accelerator.telemetry.emit(lambda time: KernelLaunch(time, plan.entry, plan.instances, width))
        self._return_address = plan.return_address
        self._steps_left = accelerator.step_limit
        accelerator.begin()
        accelerator.set_return_address(width, plan.return_address)
        accelerator.instance_filter.begin(plan.instances, width)
        try:
            for first in range(0, plan.instances, width):
                accelerator.instance_filter.begin_group(first)
                if self._steps_left is not None and self._steps_left < 0:
                    return self._failed(self._endless())
                instances = range(first, min(first + width, plan.instances))
                accelerator.active = len(instances)
                self._instances = list(instances)
                for j, instance in enumerate(instances):
                    start(accelerator.harts[j], plan, j, instance)
                    self._note_start(j, instance)
                failure = self._group(self._profile_all)
                if failure is not None:
                    return failure
            return None
        except BaseException as cause:
            note_interrupt(cause, *accelerator.places(width))
            raise
        finally:
            accelerator.active = width
            accelerator.set_return_address(width)
            accelerator.instance_filter.end()

    def run_boot(self, count: int, entry: int, pc: int) -> Failure | None:
        """Run `count` new harts from `pc` (RefSi G1 only).

        Time slices have one instruction until hart 0 reaches `entry`."""
        accelerator = self._accelerator
        accelerator.active = count
        self._return_address = NO_ADDRESS
        self._steps_left = accelerator.step_limit
        accelerator.begin()
        self._instances = list(range(count))
        for hart in accelerator.harts:
            hart.pc = pc
        try:
            return self._group(lambda: self._boot(entry))
        except BaseException as cause:
            note_interrupt(cause, *accelerator.places(count))
            raise

    def _boot(self, entry: int) -> None:
        while self._exit_code is None and self._accelerator.harts[0].pc != entry:
            self._step(1)
        self.profiling = self._profile
        for hart in self._accelerator.harts[: self._accelerator.active_count]:
            hart.csr[MINSTRET] = hart.csr[MCYCLE] = -hart.retired & csr.MASK64

    def _profile_all(self) -> None:
        self.profiling = self._profile

    # -- one group ----------------------------------------------------------------------------------------------

    def _group(self, before: Callable[[], None]) -> Failure | None:
        accelerator = self._accelerator
        self._exit_code, self._failure = None, None
        self._current, self.profiling = 0, False
        self._running = [index < accelerator.active_count for index in range(len(accelerator.harts))]
        self._links = [0] * len(accelerator.harts)
        try:
            before()
            while self._exit_code is None:
                self._step(QUANTUM)
        except SoftcardError as error:
            return self._failed(error)
        finally:
            self.profiling = False
        if self._exit_code & 0xFFFF_FFFF == 0:
            return None
        return self._failure or self._failed(KernelExit(f"the kernel exited with code {self._exit_code:#x}"))

    def _step(self, quantum: int) -> None:
        """Run the current hart for `quantum` instructions, if it is running; then make the next hart current."""
        hart = self._accelerator.harts[self._current]
        if self._running[hart.index]:
            self._run_slice(hart, quantum)
        if self._running[hart.index]:
            hart.words[RESERVED_ADDRESS] = NO_ADDRESS
        self._current += 1
        if self._current >= self._accelerator.active_count:
            self._current = 0

    def _run_slice(self, hart: Hart, quantum: int) -> None:
        accelerator, before = self._accelerator, hart.retired
        accelerator.check_limits(hart)
        if self.profiling:
            accelerator.engine.flush_code(hart)  # the profiling loop of the reference has no instruction cache
        self._was_wedged, self._problem = bool(hart.csr.get(MCAUSE, 0)), ""
        accelerator.counters.begin_time_slice(hart)
        try:
            self._last_exit = accelerator.engine.run(hart, quantum)
        finally:
            accelerator.counters.end_time_slice()
        done = hart.retired - before
        self._check_return(hart, self._last_exit, done < quantum)
        if hart.csr.get(MCAUSE, 0):
            self._trap(hart)
        elif hart.pc == self._return_address:
            self._exited(hart, 0, "return")
        self._spend(max(done, 1))

    def _check_return(self, hart: Hart, exit_: Exit, early: bool) -> None:
        """Reproduce the fetch at an instance's return address; it faults if there is no memory at this address.

        The reference driver fetches at this address before it checks for the end of the instance, except at the end
        of a time slice. `early` is True if the instance ended before the end of its time slice."""
        if self.profiling:
            if exit_.why is Why.TRAP:
                count_trapped(hart, exit_.pc)
        elif exit_.why is Why.RETURN and early:
            try:
                hart.port.fetch(hart.pc)
            except AccessFault:
                csr.enter_trap(hart, FETCH_ACCESS, hart.pc, hart.pc)
                self._accelerator.engine.trapped(hart)

    def _spend(self, steps: int) -> None:
        if self._steps_left is None:
            return
        self._steps_left -= steps
        if self._steps_left < 0 and self._exit_code is None:
            raise self._endless()

    def _endless(self) -> StepLimit:
        return StepLimit.of(self._accelerator)

    # -- traps --------------------------------------------------------------------------------------------------

    def _trap(self, hart: Hart) -> None:
        pc = hart.csr.get(MEPC, 0)
        if not self._handled(hart, hart.csr[MCAUSE], pc):
            return
        hart.csr[MCAUSE] = hart.csr[MTVAL] = hart.csr[MEPC] = 0
        hart.pc = pc + _length_at(hart, pc) & csr.MASK64

    def _handled(self, hart: Hart, cause: int, pc: int) -> bool:
        if cause in (FETCH_ACCESS, BREAKPOINT) and pc == self._return_address:
            self._exited(hart, 0, "return")
            return True
        if cause == ECALL_M and self._host_call(hart):
            return True
        self._report(hart, cause, pc)
        self._exited(hart, FAULT_CODE | cause, "stopped")
        return False

    def _report(self, hart: Hart, cause: int, pc: int) -> None:
        value = hart.csr.get(MTVAL, 0)
        text = fault_text(cause, pc, value)
        instance = self._instance(hart)
        last = self._last_exit
        error = last.error if last is not None and isinstance(last.error, SoftcardError) else None
        message, rule = (error.message, error.rule.id if error.rule else "") if error is not None else ("", "")
        said = last.instruction if last is not None else ""
        registers = registers_of(hart, pc, said)
        self._accelerator.take_registers(FAULT, hart, pc, said)
        self._accelerator.telemetry.emit(
            lambda time: HartFault(time, hart.index, instance, pc, cause, value, text, message, rule, registers)
        )
        if self._was_wedged:
            self._problem = "an exception of an earlier kernel is still set: open the device anew"
        elif last is not None and last.why is not Why.TRAP:
            self._problem = "the kernel itself wrote mcause"
        elif last is not None and isinstance(last.error, SoftcardError):
            self._failure = self._failed(with_registers(last.error, registers), last.instruction)
            return
        problem = f" ({self._problem})" if self._problem else ""
        instruction = "" if self._was_wedged or last is None or last.why is not Why.TRAP else last.instruction
        failed = with_registers(GuestFault(text.removeprefix("error: ") + problem), registers)
        self._failure = self._failed(failed, instruction)

    def _host_call(self, hart: Hart) -> bool:
        call, argument = hart.x(A7), hart.x(A0)
        if call == HOST_EXIT:
            self._exited(hart, argument, "exit")
            return True
        if call == HOST_PUTSTRING:
            return self._print(hart, argument)
        if call == HOST_BARRIER:
            return self._barrier(hart, argument)
        self._problem = f"ecall has a7 = {call:#x}, expected 0 (EXIT), 1 (PUTSTRING) or 2 (BARRIER)"
        return False

    def _print(self, hart: Hart, address: int) -> bool:
        assert isinstance(hart.port, RefsidrvPort)
        text = hart.port.string(address)
        if text is None:
            self._problem = f"PUTSTRING cannot read the string at {address:#x}"
            return False
        self._accelerator.telemetry.emit(lambda time: ConsoleOutput(time, hart.index, text))
        return True

    def _barrier(self, hart: Hart, link: int) -> bool:
        """Put the hart to sleep at the barrier with link address `link`.

        The last hart to arrive wakes all harts. Return False if they wait at barriers with different link addresses.
        """
        self._accelerator.telemetry.emit(lambda time: BarrierReached(time, hart.index, link))
        self._links[hart.index] = link
        self._running[hart.index] = False
        if any(self._running):
            return True
        group = range(self._accelerator.active_count)
        if any(self._links[index] != self._links[0] for index in group):
            self._accelerator.telemetry.emit(
                lambda time: Diagnostic(time, "error: all threads must hit the same barrier")
            )
            links = ", ".join(f"hart {index}: {self._links[index]:#x}" for index in group)
            self._problem = f"harts wait at different barriers, or some at none ({links})"
            self._exited(hart, MISMATCH, "stopped")
            return False
        for index in group:
            self._links[index] = 0
            self._running[index] = True
        return True

    def _exited(self, hart: Hart, code: int, how: str) -> None:
        """End a hart. A `code` other than 0 stops all harts; with 0, the last running hart ends the group.

        `how` is the reason in the event `InstanceEnded`."""
        instance = self._instance(hart)
        if how != "stopped":
            self._accelerator.take_registers(END, hart, hart.pc)
        if instance is not None:
            self._accelerator.telemetry.emit(lambda time: InstanceEnded(time, hart.index, instance, how, code))
        if code:
            self._running = [False] * len(self._running)
        else:
            self._running[hart.index] = False
            if any(self._running):
                return
        self._exit_code = code

    # -- help ---------------------------------------------------------------------------------------------------

    def _instance(self, hart: Hart) -> int | None:
        return self._instances[hart.index] if hart.index < len(self._instances) else None

    def _failed(self, error: SoftcardError, instruction: str = "") -> Failure:
        hart = self._accelerator.harts[self._current]
        pc = hart.csr.get(MEPC, 0) if hart.csr.get(MCAUSE, 0) else hart.pc
        return Failure(error, hart.index, pc, self._instance(hart), instruction)

    def _note_start(self, hart: int, instance: int) -> None:
        self._accelerator.telemetry.emit(lambda time: InstanceStarted(time, hart, instance))


def _length_at(hart: Hart, pc: int) -> int:
    """Return the length of the instruction at `pc`, 0 if it cannot be fetched."""
    try:
        parcel = hart.port.fetch(pc)
        if parcel & 3 == 3:
            hart.port.fetch(pc + 2)
    except AccessFault:
        return 0
    if parcel & 3 != 3:
        return 2
    if parcel & 0x1F != 0x1F:
        return 4
    return 6 if parcel & 0x3F != 0x3F else 8
