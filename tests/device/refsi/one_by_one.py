"""The commands once more, one by one and by the memory system alone: what native commands are held to."""

from __future__ import annotations

from softcard.device.refsi import registers as r
from softcard.device.refsi.cmp import CommandProcessor, Progress, _change, unit_of
from softcard.device.refsi.commands import (
    Command,
    CopyMem64,
    Finish,
    LoadReg64,
    Nop,
    StoreImm64,
    StoreReg64,
    SyncCache,
    WriteReg64,
    decode,
)
from softcard.device.refsi.device import RefSiDevice
from softcard.device.refsi.events import CommandFinished, CommandStarted, RegisterAccess
from softcard.device.refsi.interfaces import COMMAND_PROCESSOR
from softcard.device.refsi.profiles import Words


class OneByOne(CommandProcessor):
    """A command processor without native functions."""

    def _execute(self, words: Words, chunks: int, progress: Progress) -> None:
        begun, chunk = bytes(words[:chunks]), 0
        while chunk < chunks:
            progress.chunk, progress.command = chunk, None
            try:
                command, following = decode(words, chunk, end=chunks, lenient=self.profile.lenient)
            except Exception as error:
                error.message += _change(begun, words, chunk)  # type: ignore[attr-defined]
                raise
            progress.command = command
            event = (progress.ticket, progress.done, chunk, command)
            self.telemetry.emit(lambda time, event=event: CommandStarted(time, *event))  # type: ignore[misc]
            self._one(command)
            progress.done += 1
            self.telemetry.emit(lambda time, event=event: CommandFinished(time, *event))  # type: ignore[misc]
            if isinstance(command, Finish):
                return
            chunk = following
        progress.chunk = None

    def _one(self, command: Command) -> None:
        memory, profile = self.profile.memory, self.profile
        match command:
            case Nop() | Finish():
                pass
            case WriteReg64(number, value):
                profile.check_register(number)
                if number >= r.FIRST_WINDOW_REGISTER:
                    memory.window_register(number, value)
                self._set(number, value)
            case LoadReg64(number, address):
                profile.check_register(number)
                value = int.from_bytes(memory.read(address, 8, COMMAND_PROCESSOR), "little")
                if number >= r.FIRST_WINDOW_REGISTER and profile.name == "spec":
                    memory.window_register(number, value)
                self._set(number, value)
            case StoreReg64(number, address):
                profile.check_register(number)
                value = self.registers[number]
                self._note(number, value, False)
                memory.write(address, value.to_bytes(8, "little"), COMMAND_PROCESSOR)
            case StoreImm64(address, value):
                memory.write(address, value.to_bytes(8, "little"), COMMAND_PROCESSOR)
            case CopyMem64(count, source, target, unit):
                memory.copy64(source, target, count, unit_of(unit))
            case SyncCache(flags):
                profile.sync(flags)
            case _:
                self._run_here_only(command)

    def _run_here_only(self, command: Command) -> None:
        run = {"RunInstances": self._run_instances, "RunKernelSlice": self._run_kernel_slice}
        run[type(command).__name__](command)  # type: ignore[operator]

    def _set(self, number: int, value: int) -> None:
        self.registers[number] = value
        self._note(number, value, True)

    def _note(self, number: int, value: int, write: bool) -> None:
        self.telemetry.emit(lambda time: RegisterAccess(time, COMMAND_PROCESSOR, "CMP", number, value, write=write))


def one_by_one(device: RefSiDevice) -> None:
    """Have a device execute commands so."""
    processor = device.processor
    assert processor is not None
    device.processor = OneByOne(processor.profile, processor.telemetry, processor._accelerator, compiled=False)
    device.processor.registers[:] = processor.registers
