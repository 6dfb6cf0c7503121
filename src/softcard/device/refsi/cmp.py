"""The command processor, which executes command buffers in order and returns a status for each buffer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from softcard.core.device import Telemetry
from softcard.core.errors import AccessFault, ModelBug, SoftcardError
from softcard.core.event import Event
from softcard.core.limits import note_interrupt
from softcard.core.rule import Rule
from softcard.core.snapshot import Stateful
from softcard.core.space import Unit
from softcard.device.refsi import launch, rules
from softcard.device.refsi import native_commands as native
from softcard.device.refsi import registers as r
from softcard.device.refsi.accelerator import Accelerator, Failure
from softcard.device.refsi.commands import (
    CHUNK_BYTES,
    COMMANDS,
    BufferStatus,
    Command,
    CopyMem64,
    LoadReg64,
    Nop,
    RunInstances,
    RunKernelSlice,
    StoreImm64,
    StoreReg64,
    WriteReg64,
    decode,
)
from softcard.device.refsi.events import (
    BufferFinished,
    BufferStarted,
    CommandFinished,
    CommandStarted,
    RegisterAccess,
)
from softcard.device.refsi.interfaces import COMMAND_PROCESSOR
from softcard.device.refsi.profiles import Profile, Words

if TYPE_CHECKING:
    from softcard.device.refsi.native_commands import Machine

UNIT_KIND_SHIFT: Final = 24
UNIT_INDEX_MASK: Final = (1 << UNIT_KIND_SHIFT) - 1
UNIT_ID_MASK: Final = 0xFFFF_FFFF
EVENTS: Final = (CommandStarted, CommandFinished, RegisterAccess)
REMEMBERED: Final = 1 << 13
"""The number of 64-bit words of a command buffer that are saved at its start, to detect later overwriting."""
ADDRESS_RULES: Final[dict[type[Command], tuple[Rule, tuple[str, ...]]]] = {
    LoadReg64: (rules.LOAD_ADDRESS, ("src_addr",)),
    StoreReg64: (rules.STORE_ADDRESS, ("dst_addr",)),
    StoreImm64: (rules.STORE_IMM_ADDRESS, ("dst_addr_lo",)),
    CopyMem64: (rules.COPY_ADDRESS, ("src_addr", "dst_addr")),
}
"""The rule about each command's addresses, and the names of the fields that hold the addresses."""


def unit_of(chunk: int) -> Unit:
    """Return the unit that the number `chunk` identifies: the UNIT word of COPY_MEM64, or a driver's unit ID.

    See the choice `refsi/unit-id`."""
    number = chunk & UNIT_ID_MASK
    return Unit(number >> UNIT_KIND_SHIFT, number & UNIT_INDEX_MASK)


class CommandProcessor(Stateful):
    """The executor of command buffers.

    `registers` are the 40 CMP registers, 64-bit words that other components of the device access, too.
    `accelerator` has the harts and the time limits. The functions of `native_commands` execute most commands;
    if `compiled`, these functions run as machine code, otherwise as Python code."""

    STATE = ("registers",)

    def __init__(self, profile: Profile, telemetry: Telemetry, accelerator: Accelerator, *, compiled: bool) -> None:
        self.profile = profile
        self.telemetry = telemetry
        self._accelerator = accelerator
        self._compiled = compiled
        self._buffer = np.zeros(r.NUM_CMP_REGISTERS, dtype=np.uint64)
        self.registers: memoryview[int] = self._buffer.data.cast("B").cast("Q")
        self._failure: Failure | None = None

    @cached_property
    def machine(self) -> Machine:
        """The executor of single commands."""
        from softcard.device.refsi.native_commands import Machine  # needs LLVM; decoding buffers does not

        return Machine(self.registers, self.profile, compiled=self._compiled)

    def reset(self) -> None:
        """Set all registers to zero."""
        self._buffer[:] = 0

    # -- buffers ------------------------------------------------------------------------------------------------

    def execute(self, ticket: int, address: int, size: int) -> BufferStatus:
        """Execute the buffer of `size` bytes at `address`, submitted as number `ticket`.

        An error ends the buffer and is part of the returned status.
        """
        self.telemetry.emit(lambda time: BufferStarted(time, ticket, address, size))
        before = self._accelerator.steps
        progress = Progress(ticket)
        error = self._run(address, size, progress)
        status = BufferStatus(ticket, address, size, progress.done, self._accelerator.steps - before)
        if error is not None:
            status = self._failed(status, progress, error)
        self.telemetry.emit(lambda time: BufferFinished(time, status))
        return status

    def _run(self, address: int, size: int, progress: Progress) -> SoftcardError | None:
        self._failure = None
        try:
            words, chunks = self.profile.open_buffer(address, size)
            self._execute(words, chunks, progress)
        except ModelBug:
            raise
        except SoftcardError as error:
            return error
        return None

    def _execute(self, words: Words, chunks: int, progress: Progress) -> None:
        begun = bytes(words[: min(chunks, REMEMBERED)])
        machine = self.machine
        machine.open(words, chunks)
        self._accelerator.begin()
        try:
            while True:
                probes = self.telemetry.probes
                why = machine.run(probes.wants(*EVENTS), probes.wants_at_once(*EVENTS))
                machine.flush()
                progress.done = machine.block.done
                if machine.block.noted:
                    probes.emit_all(self._noted(progress))
                if why == native.DONE:
                    return
                progress.chunk, progress.command = machine.block.position, None
                self._accelerator.check_data_limits()
                if why != native.REPORT:
                    self._serve(why, words, chunks, begun, progress)
                progress.chunk = None
        except SoftcardError:
            raise
        except BaseException as cause:
            note_interrupt(cause, ("byte", CHUNK_BYTES * machine.block.position), ("buffer", progress.ticket))
            raise
        finally:
            self._accelerator.rest()
            machine.flush()

    def _serve(self, why: int, words: Words, chunks: int, begun: bytes, progress: Progress) -> None:
        """Carry out the request with which the native function stopped at a command, or raise the command's error.

        `why` is the request, a constant of `native_commands`. The buffer is the first `chunks` elements of `words`.
        `begun` is a copy of the buffer's first bytes, made before its first command."""
        machine = self.machine
        at = machine.block.position
        try:
            command, following = decode(words, at, end=chunks, lenient=self.profile.lenient)
        except SoftcardError as error:
            error.message += _change(begun, words, at)
            raise
        progress.command = command
        if why == native.ELSEWHERE:
            self._run_here(command, progress)
            machine.skip(following)
        else:
            self._answer(why, command)
            machine.serve(why)

    def _answer(self, why: int, command: Command) -> None:
        block, memory = self.machine.block, self.profile.memory
        if why == native.READ:
            block.value = int.from_bytes(memory.read(block.address, r.REGISTER_BYTES, COMMAND_PROCESSOR), "little")
        elif why == native.WRITE:
            memory.write(block.address, block.value.to_bytes(r.REGISTER_BYTES, "little"), COMMAND_PROCESSOR)
        elif why == native.WINDOW:
            memory.window_register(block.number, block.value)
        elif why == native.SYNC:
            self.profile.sync(block.value)
        elif isinstance(command, CopyMem64) and why == native.COPY:
            memory.copy64(command.src_addr, command.dst_addr, command.count, unit_of(command.unit))
        elif isinstance(command, (WriteReg64, LoadReg64, StoreReg64)) and why == native.REFUSED:
            self.profile.check_register(command.reg_idx)
            memory.window_register(block.number, block.value)
            raise ModelBug(f"{command} was refused without a reason")
        else:
            raise ModelBug(f"{command} stopped with {why}")

    def _run_here(self, command: Command, progress: Progress) -> None:
        """Execute, in Python, a command that needs harts, or that has a long payload.

        Count the command in the buffer's `progress`."""
        event = (progress.ticket, progress.done, progress.chunk or 0, command)
        self.telemetry.emit(lambda time: CommandStarted(time, *event))
        if isinstance(command, RunInstances):
            self._run_instances(command)
        elif isinstance(command, RunKernelSlice):
            self._run_kernel_slice(command)
        self._accelerator.begin()
        progress.done += 1
        self.telemetry.emit(lambda time: CommandFinished(time, *event))

    def _noted(self, progress: Progress) -> Iterator[Event]:
        """Yield the events of the commands that the native function has executed since the last call."""
        time, ticket = self.telemetry.clock(), progress.ticket
        _, index, chunk, command = progress.event
        for kind, at, place, header, one, two, three in self.machine.events():
            if kind == native.STARTED:
                index, chunk = at, place
                command = _command(header, one, two, three)
                yield CommandStarted(time, ticket, index, chunk, command)
            elif kind == native.FINISHED:
                yield CommandFinished(time, ticket, index, chunk, command)
            else:
                yield RegisterAccess(time, COMMAND_PROCESSOR, r.CMP.name, one, two, kind == native.REGISTER_WRITTEN)
        progress.event = ticket, index, chunk, command

    def _failed(self, status: BufferStatus, progress: Progress, error: SoftcardError) -> BufferStatus:
        name = "" if progress.command is None else progress.command.opcode.name
        failure = self._failure
        _name_address_rule(error, progress.command)
        if progress.chunk is not None:
            error = error.at("command", progress.done, name)
            if not any(place.kind == "byte" for place in error.path):
                error = error.at("byte", progress.chunk * 8)
        error = error.at("buffer", status.ticket)
        return replace(
            status,
            error=error,
            command=None if progress.chunk is None else progress.done,
            opcode=name,
            chunk=progress.chunk,
            hart=None if failure is None else failure.hart,
            pc=None if failure is None else failure.pc,
            instance=None if failure is None else failure.instance,
        )

    # -- kernels ------------------------------------------------------------------------------------------------

    def _run_instances(self, command: RunInstances) -> None:
        entry = self._entry()
        plan = launch.plan_instances(
            launch.RunInstances(
                entry=entry,
                return_address=self.registers[r.RETURN_ADDR.offset],
                stack_top=self.registers[r.STACK_TOP.offset],
                instances=command.num_instances,
                harts=self.profile.harts(command.max_harts),
                extra_args=command.extra_args,
            )
        )
        self._launch(plan, is_slice=False)

    def _run_kernel_slice(self, command: RunKernelSlice) -> None:
        entry = self._entry()
        kub = r.KUB_DESC.decode(self.registers[r.KUB_DESC.offset])
        kargs = r.KARGS_INFO.decode(self.registers[r.KARGS_INFO.offset])
        tsd = r.TSD_INFO.decode(self.registers[r.TSD_INFO.offset])
        run = launch.KernelSlice(
            entry=entry,
            return_address=self.registers[r.RETURN_ADDR.offset],
            stack_top=self.registers[r.STACK_TOP.offset],
            instances=command.num_instances,
            harts=self.profile.harts(command.max_harts),
            slice_id=command.slice_id,
            kub_addr=kub["KUB_ADDR"],
            kub_size=kub["KUB_SIZE"],
            kargs_offset=kargs["KARGS_OFFSET"],
            kargs_size=kargs["KARGS_SIZE"],
            tsd_offset=tsd["TSD_OFFSET"],
            tsd_size=tsd["TSD_SIZE"],
            shares=(r.TCDM_HART_BASE, r.TCDM_HART_SIZE),
        )
        self._launch(self.profile.plan_slice(run), is_slice=True)

    # -- help ---------------------------------------------------------------------------------------------------

    def _launch(self, plan: launch.KernelPlan, is_slice: bool) -> None:
        try:
            self.profile.prepare(plan)
            self._failure = self.profile.schedule.run(plan)
        finally:
            self.profile.finish(plan, is_slice)
        if self._failure is not None:
            raise self._failure.located()

    def _entry(self) -> int:
        value = self.registers[r.ENTRY_PT_FN.offset]
        self.profile.check_entry(value)
        return r.ENTRY_PT_FN.get(value, "ENTRY_POINT_ADDR")


def _command(header: int, *payload: int) -> Command:
    """Return the command with this header.

    `payload` has the command's payload chunks; additional chunks are ignored."""
    kind: Any = COMMANDS[header >> 8 & 0xFF]
    command: Command = kind(header >> 32, *payload[: len(kind.CHUNKS)])
    return command


def _change(begun: bytes, words: Words, chunk: int) -> str:
    """Return a suffix for an error message if chunk `chunk` of the buffer was overwritten, else "".

    A chunk is a 64-bit word. `begun` is a copy of the buffer's first bytes, made before its first command.
    `words` are its present contents."""
    if CHUNK_BYTES * chunk >= len(begun):
        return ""
    then = int.from_bytes(begun[CHUNK_BYTES * chunk :][:CHUNK_BYTES], "little")
    now = words[chunk]
    if then == now:
        return ""
    return f" (the buffer was overwritten while it ran: this chunk is {now:#018x}, but was {then:#018x} at the start)"


def _name_address_rule(error: SoftcardError, command: Command | None) -> None:
    """Add the command's rule to an error about an address that no memory contains.

    Do this only if the address is in a field of the command. Other errors already have their rules."""
    if command is None or not isinstance(error, AccessFault) or error.rule not in (None, rules.MEMORY_MAP):
        return
    rule, fields = ADDRESS_RULES.get(type(command), (error.rule, ()))
    if any(error.address == getattr(command, field) for field in fields):
        error.rule = rule


@dataclass(slots=True)
class Progress:
    """The progress of a buffer: the number of completed commands, and the command that Python handles."""

    ticket: int
    done: int = 0
    chunk: int | None = None
    command: Command | None = None
    event: tuple[int, int, int, Command] = (0, 0, 0, Nop())
    """Ticket, index, chunk and command of the last event that listeners have got."""
