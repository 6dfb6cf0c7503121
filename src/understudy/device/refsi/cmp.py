"""The command processor: executes one command buffer after the other, and says what became of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from understudy.core.errors import AccessFault, ModelBug, UnderstudyError
from understudy.core.rule import Rule
from understudy.core.snapshot import Stateful
from understudy.core.space import Unit
from understudy.core.telemetry import Telemetry
from understudy.device.refsi import launch, rules
from understudy.device.refsi import registers as r
from understudy.device.refsi.accelerator import Failure
from understudy.device.refsi.commands import (
    CHUNK_BYTES,
    Command,
    CopyMem64,
    Finish,
    LoadReg64,
    Nop,
    RunInstances,
    RunKernelSlice,
    StoreImm64,
    StoreReg64,
    SyncCache,
    WriteReg64,
    decode,
)
from understudy.device.refsi.events import (
    BufferFinished,
    BufferStarted,
    CommandFinished,
    CommandStarted,
    RegisterAccess,
)
from understudy.device.refsi.interfaces import COMMAND_PROCESSOR
from understudy.device.refsi.profiles import Profile, Words
from understudy.device.refsi.spec.events import StaleRead
from understudy.device.refsi.status import BufferStatus

if TYPE_CHECKING:
    from understudy.device.refsi.fast_path import Bulk

UNIT_KIND_SHIFT: Final = 24
UNIT_INDEX_MASK: Final = (1 << UNIT_KIND_SHIFT) - 1
UNIT_ID_MASK: Final = 0xFFFF_FFFF
REMEMBERED: Final = 1 << 13
"""Chunks of a buffer that are kept as they were when it began."""
WORTH_WHILE: Final = 32
"""Chunks below which a buffer is not worth starting machine code for."""
ADDRESS_RULES: Final[dict[type[Command], tuple[Rule, tuple[str, ...]]]] = {
    LoadReg64: (rules.LOAD_ADDRESS, ("src_addr",)),
    StoreReg64: (rules.STORE_ADDRESS, ("dst_addr",)),
    StoreImm64: (rules.STORE_IMM_ADDRESS, ("dst_addr_lo",)),
    CopyMem64: (rules.COPY_ADDRESS, ("src_addr", "dst_addr")),
}
"""The rule about a command's addresses, and the fields that hold them."""


def unit_of(chunk: int) -> Unit:
    """The unit that the UNIT chunk of COPY_MEM64, or a unit ID of the driver, names (choice `refsi/unit-id`)."""
    number = chunk & UNIT_ID_MASK
    return Unit(number >> UNIT_KIND_SHIFT, number & UNIT_INDEX_MASK)


class CommandProcessor(Stateful):
    """Executes buffers. `registers` are the 40 CMP registers, 64-bit words shared with whoever wants them.

    `steps` gives the instructions retired so far. With `written`, plain commands run in bulk as machine code, and it
    is told (host address, size) what they wrote.
    """

    STATE = ("registers",)

    def __init__(
        self,
        profile: Profile,
        telemetry: Telemetry,
        steps: Callable[[], int],
        written: Callable[[int, int], None] | None = None,
    ) -> None:
        self.profile = profile
        self.telemetry = telemetry
        self._steps = steps
        self._buffer = np.zeros(r.NUM_CMP_REGISTERS, dtype=np.uint64)
        self.registers: memoryview[int] = self._buffer.data.cast("B").cast("Q")
        self._failure: Failure | None = None
        self._written = written
        self._bulk: Bulk | None = None
        self._handlers: dict[type[Command], Callable[[Any], None]] = {
            Nop: self._nothing,
            Finish: self._nothing,
            WriteReg64: self._write_reg64,
            LoadReg64: self._load_reg64,
            StoreReg64: self._store_reg64,
            StoreImm64: self._store_imm64,
            CopyMem64: self._copy_mem64,
            RunKernelSlice: self._run_kernel_slice,
            RunInstances: self._run_instances,
            SyncCache: self._sync_cache,
        }

    def reset(self) -> None:
        """All registers zero."""
        self._buffer[:] = 0

    # -- buffers ------------------------------------------------------------------------------------------------

    def execute(self, ticket: int, address: int, size: int) -> BufferStatus:
        """Execute the buffer of `size` bytes at `address`; errors end it and are told in its status."""
        self.telemetry.emit(lambda time: BufferStarted(time, ticket, address, size))
        before = self._steps()
        progress = Progress()
        status = BufferStatus(ticket, address, size)
        error = self._run(ticket, address, size, progress)
        steps = self._steps() - before
        if error is None:
            status = BufferStatus(ticket, address, size, progress.done, steps)
        else:
            status = self._failed(status, progress, steps, error)
        self.telemetry.emit(lambda time: BufferFinished(time, status))
        return status

    def _run(self, ticket: int, address: int, size: int, progress: Progress) -> UnderstudyError | None:
        self._failure = None
        try:
            words, chunks = self.profile.open_buffer(address, size)
            self._execute(ticket, words, chunks, progress)
        except ModelBug:
            raise
        except UnderstudyError as error:
            return error
        return None

    def _execute(self, ticket: int, words: Words, chunks: int, progress: Progress) -> None:
        lax = self.profile.lax
        begun = bytes(words[: min(chunks, REMEMBERED)])
        chunk = 0
        while chunk < chunks:
            if chunks - chunk >= WORTH_WHILE and self._written is not None and not self._watched():
                chunk = self._plain(words, chunk, chunks, progress)
                if chunk == chunks:
                    break
            progress.begin(chunk)
            try:
                command, following = decode(words, chunk, end=chunks, lax=lax)
            except UnderstudyError as error:
                error.message += _change(begun, words, chunk)
                raise
            progress.command = command
            event = (ticket, progress.done, chunk, command)
            self.telemetry.emit(lambda time, event=event: CommandStarted(time, *event))  # type: ignore[misc]
            self._handlers[type(command)](command)
            progress.done += 1
            self.telemetry.emit(lambda time, event=event: CommandFinished(time, *event))  # type: ignore[misc]
            if isinstance(command, Finish):
                return
            chunk = following
        progress.chunk = None

    def _watched(self) -> bool:
        """Whether somebody wants what machine code would not tell."""
        return self.telemetry.wants(CommandStarted, CommandFinished, RegisterAccess, StaleRead)

    def _plain(self, words: Words, chunk: int, chunks: int, progress: Progress) -> int:
        """Run the plain commands from `chunk` on; the chunk of the first other one."""
        assert self._written is not None
        if self._bulk is None:
            from understudy.device.refsi.fast_path import Bulk  # LLVM, wanted by nobody who only looks at buffers

            self._bulk = Bulk(self.registers, self.profile.direct, self._written, self.profile.lax)
        chunk, done = self._bulk.run(words, chunk, chunks)
        progress.done += done
        return chunk

    def _failed(self, status: BufferStatus, progress: Progress, steps: int, error: UnderstudyError) -> BufferStatus:
        name = "" if progress.command is None else progress.command.opcode.name
        failure = self._failure
        _name_address_rule(error, progress.command)
        if progress.chunk is not None:
            error = error.at("command", progress.done, name)
            if not any(place.kind == "byte" for place in error.path):
                error = error.at("byte", progress.chunk * 8)
        error = error.at("buffer", status.ticket)
        return BufferStatus(
            status.ticket,
            status.address,
            status.size,
            progress.done,
            steps,
            error,
            command=None if progress.chunk is None else progress.done,
            opcode=name,
            chunk=progress.chunk,
            hart=None if failure is None else failure.hart,
            pc=None if failure is None else failure.pc,
            instance=None if failure is None else failure.instance,
        )

    # -- commands -----------------------------------------------------------------------------------------------

    def _nothing(self, command: Command) -> None:
        """NOP and FINISH."""

    def _write_reg64(self, command: WriteReg64) -> None:
        number, value = command.reg_idx, command.imm_val
        self.profile.check_register(number)
        if number >= r.FIRST_WINDOW_REGISTER:
            self.profile.memory.window_register(number, value)
        self._set(number, value)

    def _load_reg64(self, command: LoadReg64) -> None:
        self.profile.check_register(command.reg_idx)
        data = self.profile.memory.read(command.src_addr, r.REGISTER_BYTES, COMMAND_PROCESSOR)
        value = int.from_bytes(data, "little")
        self.profile.register_loaded(command.reg_idx, value)
        self._set(command.reg_idx, value)

    def _store_reg64(self, command: StoreReg64) -> None:
        self.profile.check_register(command.reg_idx)
        value = self.registers[command.reg_idx]
        self._note(command.reg_idx, value, write=False)
        self.profile.memory.write(command.dst_addr, value.to_bytes(r.REGISTER_BYTES, "little"), COMMAND_PROCESSOR)

    def _store_imm64(self, command: StoreImm64) -> None:
        data = command.imm_val.to_bytes(r.REGISTER_BYTES, "little")
        self.profile.memory.write(command.dst_addr_lo, data, COMMAND_PROCESSOR)

    def _copy_mem64(self, command: CopyMem64) -> None:
        self.profile.memory.copy64(command.src_addr, command.dst_addr, command.count, unit_of(command.unit))

    def _sync_cache(self, command: SyncCache) -> None:
        self.profile.sync(command.flags)

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

    def _set(self, number: int, value: int) -> None:
        self.registers[number] = value
        self._note(number, value, write=True)

    def _note(self, number: int, value: int, write: bool) -> None:
        self.telemetry.emit(
            lambda time: RegisterAccess(time, COMMAND_PROCESSOR, r.CMP.name, number, value, write=write)
        )


def _change(begun: bytes, words: Words, chunk: int) -> str:
    """What a chunk that is no header was when the buffer began, where that was something else."""
    if CHUNK_BYTES * chunk >= len(begun):
        return ""
    then = int.from_bytes(begun[CHUNK_BYTES * chunk :][:CHUNK_BYTES], "little")
    now = words[chunk]
    if then == now:
        return ""
    return f" (the buffer was overwritten while it ran: this chunk is {now:#018x}, and was {then:#018x} when it began)"


def _name_address_rule(error: UnderstudyError, command: Command | None) -> None:
    """A command's own address that is in no memory breaks its rule; other reasons have rules of their own."""
    if command is None or not isinstance(error, AccessFault) or error.rule not in (None, rules.MEMORY_MAP):
        return
    rule, fields = ADDRESS_RULES.get(type(command), (error.rule, ()))
    if any(error.address == getattr(command, field) for field in fields):
        error.rule = rule


class Progress:
    """How far a buffer has come: commands done, and the one under way."""

    def __init__(self) -> None:
        self.done = 0
        self.chunk: int | None = None
        self.command: Command | None = None

    def begin(self, chunk: int) -> None:
        """The command whose header is chunk `chunk` is next."""
        self.chunk, self.command = chunk, None
