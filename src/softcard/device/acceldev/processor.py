"""The command queue of Acceldev and its execution: device commands run in order, one RUN at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from softcard.core.device import CountingTelemetry
from softcard.core.errors import AccessFault, SoftcardError, WireError
from softcard.core.limits import Stopped
from softcard.core.pci import DmaPort
from softcard.core.register import RegisterFile
from softcard.device.acceldev import rules
from softcard.device.acceldev.commands import (
    USER_CMD_BYTES,
    WORD_BYTES,
    BindSlotCommand,
    DeviceCommand,
    FenceCommand,
    RunCommand,
    decode_device_command,
    device_command_name,
    device_command_type,
)
from softcard.device.acceldev.contexts import Context, Run
from softcard.device.acceldev.events import CommandFinished, CommandQueued, CommandStarted, ContextErrored
from softcard.device.acceldev.interrupts import Interrupts
from softcard.device.acceldev.lints import Lints
from softcard.device.acceldev.memory import Gate, Memory
from softcard.device.acceldev.registers import (
    ACCELDEV_MAX_CONTEXTS,
    ACCELDEV_NUM_BUFFERS,
    CMD_MANUAL_FEED,
    CMDS_BUFFER_SIZE,
    Interrupt,
)
from softcard.device.acceldev.settings import CMD_ERROR, Settings
from softcard.device.acceldev.user import UserCommands, interrupt_of

T = TypeVar("T")

QUANTUM: Final = 1 << 18
"""The maximum number of user commands that are executed before other threads can use the device."""
FEED: Final = tuple(CMD_MANUAL_FEED.element(index) for index in range(CMD_MANUAL_FEED.count))


@dataclass(frozen=True, slots=True)
class Queued:
    """A device command in the queue; `index` counts the commands that entered the queue since reset."""

    index: int
    words: tuple[int, ...]

    @property
    def name(self) -> str:
        """The name of the command in messages."""
        return device_command_name(self.words)


class Processor:
    """The command processor, which executes queued commands, one `step` after another.

    Every step runs between the gate's `enter` and `leave`.
    """

    def __init__(
        self,
        registers: RegisterFile,
        gate: Gate,
        memory: Memory,
        interrupts: Interrupts,
        telemetry: CountingTelemetry,
        lints: Lints,
        settings: Settings,
    ) -> None:
        self.registers = registers
        self.queue: deque[Queued] = deque()
        self.run: Run | None = None
        self.submitted = 0
        self.last_error: SoftcardError | None = None
        self.context_errors: dict[int, SoftcardError] = {}
        self._gate = gate
        self._memory = memory
        self._interrupts = interrupts
        self._telemetry = telemetry
        self._lints = lints
        self._settings = settings
        self._user = UserCommands(memory, telemetry, lints, settings, interrupts, gate, self._raise)
        self._slots_before: bytes | None = None
        self._execute: dict[type[DeviceCommand], Callable[..., None]] = {
            RunCommand: self._start_run,
            BindSlotCommand: self._bind_slot,
            FenceCommand: self._fence,
        }

    def connect(self, port: DmaPort) -> None:
        """Use `port` for all further accesses to main memory, and release the cached ranges of shared memory."""
        self._memory.connect(port)
        self._user.forget_memory()

    # ---- the queue -----------------------------------------------------------------------------------------------

    @property
    def free(self) -> int:
        """The value of CMD_MANUAL_FREE: the number of free queue entries."""
        return CMDS_BUFFER_SIZE - len(self.queue)

    @property
    def contexts_configs(self) -> int:
        """The 64-bit value of both CONTEXTS_CONFIGS registers: the address of the array of context records."""
        return self.registers["CONTEXTS_CONFIGS_LO"] | self.registers["CONTEXTS_CONFIGS_HI"] << 32

    @property
    def runnable(self) -> bool:
        """True if there is a command that can be executed now."""
        return self.run is not None or bool(self.queue and self.registers["ENABLE"])

    def submit(self) -> bool:
        """Queue the command in the FEED registers; return False if the queue is full. The caller holds the lock."""
        entry = Queued(self.submitted, self.registers.array("CMD_MANUAL_FEED"))
        self._lints.submitted(entry.words)
        if not self.free:
            self._lints.overrun(entry.name)
            return False
        self.queue.append(entry)
        self.submitted += 1
        if device_command_type(entry.words) is FenceCommand:
            self._lints.fence_queued(entry.words[FenceCommand.VALUE_WORD])
        self._telemetry.emit(lambda time: CommandQueued(time, entry.index, entry.words, self.free))
        return True

    def forget(self) -> None:
        """Drop queued and running commands, and set ENABLE to 0. The caller holds the lock."""
        self.queue.clear()
        self.run = None
        self.registers["ENABLE"] = 0

    def stop(self, why: str) -> None:
        """Drop queued and running commands. If a RUN is unfinished, store its position, with `why`, in `last_error`."""
        run = self.run
        if run is not None:
            stopped = Stopped(f"{why} while a RUN executed")
            stopped = stopped.at("user command", run.position).at("byte", run.offset, "of the code buffer")
            self._record_error(stopped.at("context", run.context.index), self.queue[0])
        self.forget()

    # ---- execution -----------------------------------------------------------------------------------------------

    def step(self, limit: int = QUANTUM) -> int:
        """Execute one device command, or up to `limit` user commands of the current RUN.

        Return the number of executed commands.
        """
        if self.run is not None:
            return self._advance(self.run, min(limit, QUANTUM))
        with self._gate.lock:
            self._gate.check()
            if not self.queue or not self.registers["ENABLE"]:
                return 0
            entry = self.queue[0]
        try:
            command = decode_device_command(entry.words)
            self._telemetry.emit(lambda time: CommandStarted(time, entry.index, command))
            execute = self._execute.get(type(command))
            if execute is not None:
                execute(command)
        except SoftcardError as error:
            self._record_location(error)
            interrupt = Interrupt.MEM_ERROR if isinstance(error, AccessFault) else Interrupt.CMD_ERROR
            self._lints.refused(entry.name, interrupt, error)
            self._raise(interrupt)
            self._finish(error)
        else:
            if self.run is None:
                self._finish()
        return 1

    def _advance(self, run: Run, limit: int) -> int:
        before = run.position
        error: SoftcardError | None = None
        try:
            self._user.advance(run, limit)
        except SoftcardError as caught:
            error = caught.at("context", run.context.index)
        self._gate.check()
        if error is not None:
            self._record_location(error)
            self._mark(run, error)
        if error is not None or run.finished:
            self._check_slots(run)
            self._finish(error)
        return max(1, run.position - before)

    def _mark(self, run: Run, error: SoftcardError) -> None:
        """Record the `error` that ended `run`, and raise its interrupt.

        The error is recorded in `context_errors`, and by the error bit of the context's record."""
        interrupt = interrupt_of(error)
        self.context_errors[run.context.index] = error
        try:
            run.context.mark_errored()
        except AccessFault:
            interrupt |= Interrupt.MEM_ERROR
        self._telemetry.emit(lambda time: ContextErrored(time, run.context.index, interrupt, error))
        for each in interrupt:
            self._raise(each)

    def _finish(self, error: SoftcardError | None = None) -> None:
        with self._gate.lock:
            self._gate.check()
            entry = self.queue.popleft()
            fences = self.run.fences if self.run is not None else 0
            self.run = None
            self._telemetry.time += 1
            self._telemetry.emit(lambda time: CommandFinished(time, entry.index, error, fences))

    def _record_location(self, error: SoftcardError) -> None:
        """Store the error as `last_error`, with the device command at the head of the queue as location."""
        with self._gate.lock:
            self._gate.check()
            self._record_error(error, self.queue[0])

    def _record_error(self, error: SoftcardError, entry: Queued) -> None:
        self.last_error = error.at("device command", entry.index, entry.name)

    def _raise(self, interrupt: Interrupt, every: bool = True) -> None:
        self._interrupts.raise_(interrupt, every=every)
        self._gate.check()

    # ---- device commands -----------------------------------------------------------------------------------------

    def _start_run(self, command: RunCommand) -> None:
        context = self._context(command.context)
        rest = command.size % USER_CMD_BYTES
        if command.offset % WORD_BYTES:
            raise WireError(
                f"the offset of RUN is {command.offset:#x}, expected a multiple of {WORD_BYTES}", rule=rules.RUN_OFFSET
            )
        if rest and self._settings.partial_command == CMD_ERROR:
            raise WireError(
                f"the size of RUN is {command.size} bytes, expected a multiple of {USER_CMD_BYTES}", rule=rules.RUN_SIZE
            )
        if rest:
            self._lints.partial(command.size, USER_CMD_BYTES)
        if not command.size:
            self._lints.empty_run(context.index)
        if context.errored:
            self._lints.run_errored(context.index)
            return
        self._slots_before = self._read_for_lints(context.slots)
        run = Run(command, context, command.size // USER_CMD_BYTES)
        if not run.finished:
            with self._gate.lock:
                self._gate.check()
                self.run = run

    def _bind_slot(self, command: BindSlotCommand) -> None:
        context = self._context(command.context)
        if command.slot_number >= ACCELDEV_NUM_BUFFERS:
            raise WireError(
                f"the slot number of BIND_SLOT is {command.slot_number}, expected 0 to {ACCELDEV_NUM_BUFFERS - 1}",
                rule=rules.BIND_SLOT_NUMBER,
            )
        context.bind(command.slot_number, command.table)

    def _fence(self, command: FenceCommand) -> None:
        """Execute a device FENCE: store its value in CMD_FENCE_LAST, and raise FENCE_WAIT if CMD_FENCE_WAIT is equal.

        See the choice `fence-order`."""
        with self._gate.lock:
            self._gate.check()
            self.registers["CMD_FENCE_LAST"] = command.value
            is_awaited = command.value == self.registers["CMD_FENCE_WAIT"]
            self._lints.fence_processed(command.value, is_awaited)
        if is_awaited:
            self._raise(Interrupt.FENCE_WAIT)

    def _context(self, index: int) -> Context:
        if index >= ACCELDEV_MAX_CONTEXTS:
            raise WireError(
                f"the context number is {index}, expected 0 to {ACCELDEV_MAX_CONTEXTS - 1}", rule=rules.INTR_CMD_ERROR
            )
        self._lints.configs_used()
        return Context(index, self.contexts_configs, self._memory)

    def _check_slots(self, run: Run) -> None:
        before, self._slots_before = self._slots_before, None
        after = self._read_for_lints(run.context.slots) if run.used else None
        if before is not None and after is not None:
            self._lints.slots_after_run(run.context.index, before, after, run.used)

    def _read_for_lints(self, read: Callable[[], T]) -> T | None:
        """Return the result of `read`; return None if there are no subscribers, or if `read` fails.

        The result is used for lints only, so a failure must not make the command fail."""
        try:
            return read() if self._telemetry.listened else None
        except AccessFault:
            return None
