"""User commands: what a RUN executes on behalf of a context, and all that can go wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from understudy.core.errors import AccessFault, GuestFault, UnderstudyError
from understudy.core.settings import JIT
from understudy.core.telemetry import CountingTelemetry
from understudy.device.acceldev import native_commands as native
from understudy.device.acceldev import rules
from understudy.device.acceldev.commands import SLOT_BYTES, USER_CMD_BYTES, WORD_BYTES, decode_user_command
from understudy.device.acceldev.events import FenceCounted, UserCommandStarted
from understudy.device.acceldev.interrupts import Interrupts
from understudy.device.acceldev.lints import Lints
from understudy.device.acceldev.machine import SOME, Machine
from understudy.device.acceldev.memory import Gate, Memory
from understudy.device.acceldev.pages import check_table, no_page, not_presented, read_entries
from understudy.device.acceldev.registers import ACCELDEV_NUM_BUFFERS, Interrupt
from understudy.device.acceldev.run import Run
from understudy.device.acceldev.settings import Settings

WARM: Final = 64
"""User commands after which a device compiles them; before, it would cost more than it gives."""
WARM_BYTES: Final = 1 << 16
"""Bytes of one FILL after which it does so too."""


class SlotFault(GuestFault):
    """A request for a slot that is not bound."""


def interrupt_of(error: UnderstudyError) -> Interrupt:
    """The interrupt that a failed user command raises."""
    if isinstance(error, SlotFault):
        return Interrupt.SLOT_ERROR
    return Interrupt.MEM_ERROR if isinstance(error, AccessFault) else Interrupt.CMD_ERROR


class UserCommands:
    """Executes user commands; `raise_` is told of interrupts and whether probes hear of every one."""

    def __init__(
        self,
        memory: Memory,
        telemetry: CountingTelemetry,
        lints: Lints,
        settings: Settings,
        interrupts: Interrupts,
        gate: Gate,
        raise_: Callable[[Interrupt, bool], None],
    ) -> None:
        self._gate = gate
        self._memory = memory
        self._lints = lints
        self._interrupts = interrupts
        self._telemetry = telemetry
        self._detailed = settings.user_command_events
        self._raise = raise_
        self._cold = WARM if settings.engine == JIT else -1
        self._machine = Machine(memory, interrupts.active_address)

    def forget_memory(self) -> None:
        """Memory has come or gone: let go of all that is kept of it."""
        self._machine.forget()

    def advance(self, run: Run, limit: int) -> int:
        """Execute some user commands of `run`, at least one and at most `limit`; gives their number.

        What ends the RUN is raised with the places that are known here: the command and its byte in the code buffer.
        """
        before = run.position
        end = min(run.count, before + limit)
        if self._cold >= 0 and not self._machine.is_compiled and run.count - before >= self._cold:
            self._machine.compile()
        try:
            check_table(run.command.table)
            self._machine.open(run)
            some = min(end, before + SOME)
            while self._step(run, end) != native.DONE or self._may_go_on(run, some):
                self._gate.check()
        except UnderstudyError as error:
            raise error.at("user command", run.position).at("byte", run.offset, "of the code buffer") from None
        if self._cold > 0:
            is_large = self._machine.block.filled >= WARM_BYTES
            self._cold = 0 if is_large else max(0, self._cold - (run.position - before))
        return run.position - before

    def _may_go_on(self, run: Run, some: int) -> bool:
        """Whether nobody waits to look in behind a FENCE."""
        return bool(self._machine.block.due) and run.position < some and not self._gate.lock.is_wanted

    def _step(self, run: Run, end: int) -> int:
        """Execute commands up to one that needs something, and give it that; the last result of the machine."""
        listens = self._detailed and self._telemetry.listened
        # Somebody who does not want to hear of every user command hears of the first FENCEs that coalesce.
        every = self._telemetry.listened and (
            self._detailed or not self._lints.is_told_coalesced(Interrupt.USER_FENCE_WAIT)
        )
        why = self._machine.run(end, listens=listens, every=every)
        self._settle(run, listens)
        if why == native.TELL:
            command = decode_user_command(self._machine.words)
            self._telemetry.emit(lambda time: UserCommandStarted(time, run.context.index, run.offset, command))
        elif why == native.COUNT:
            self._machine.block.counted = run.context.count_fence()
            self._machine.block.served = 1
        elif why != native.DONE:
            self._serve(run, why)
        return why

    def _settle(self, run: Run, listens: bool) -> None:
        """Tell the rest of the device what was done."""
        block = self._machine.block
        moved = block.position - run.position
        run.position, run.used, run.fences = block.position, run.used | block.used, run.fences + block.fences
        if block.due:
            self._telemetry.time += moved - 1
            if listens:
                self._telemetry.emit(lambda time: FenceCounted(time, run.context.index, block.counted))
            self._telemetry.time += 1
            self._raise(Interrupt.USER_FENCE_WAIT, self._detailed)
            return
        self._telemetry.time += moved
        if block.fences:
            self._interrupts.raised_again(Interrupt.USER_FENCE_WAIT)

    # ---- what a command needs ------------------------------------------------------------------------------------

    def _serve(self, run: Run, why: int) -> None:
        block = self._machine.block
        if why == native.UNKNOWN:
            decode_user_command(self._machine.words)
        elif why == native.CODE:
            self._machine.give(block.address, self._code(run.command.table, block.virtual, block.address, block.size))
        elif not block.words:
            self._serve_memory(run, why)
        else:
            try:
                self._serve_memory(run, why)
            except UnderstudyError as error:
                what = f"slot {block.slot} start {block.begin:#x} length {block.length:#x}"
                raise error.at("FILL", what) from None

    def _serve_memory(self, run: Run, why: int) -> None:
        """Read or write what was asked for, or say what is wrong."""
        block = self._machine.block
        if why == native.ENTRIES:
            self._machine.give(block.address, read_entries(self._memory, block.table, block.address, block.size))
        elif why == native.SLOT:
            self._machine.give(block.address, run.context.slot(block.slot).to_bytes(SLOT_BYTES, "little"))
        elif why == native.STORE:
            try:
                self._memory.write(block.address, repeated(block.entry, block.size))
            except AccessFault as fault:
                virtual = block.virtual + max(0, fault.address - block.address)
                raise no_page(self._memory, block.table, virtual, fault) from fault
        elif why == native.UNBOUND:
            self._unbound(block.slot)
        else:
            check_table(block.table)
            raise not_presented(block.table, block.virtual, block.entry)

    def _code(self, table: int, virtual: int, physical: int, size: int) -> bytes:
        """Code of one page: the commands from `virtual` on, or as much of the first as can be read."""
        try:
            return self._memory.read(physical, size)
        except AccessFault as fault:
            if size <= USER_CMD_BYTES:
                raise no_page(self._memory, table, virtual, fault) from fault
        return self._code(table, virtual, physical, USER_CMD_BYTES)

    @staticmethod
    def _unbound(slot: int) -> NoReturn:
        if slot >= ACCELDEV_NUM_BUFFERS:
            raise SlotFault(f"slot {slot}, expected one below {ACCELDEV_NUM_BUFFERS}", rule=rules.FILL_SLOT)
        raise SlotFault(f"no buffer is bound to slot {slot}", rule=rules.FILL_SLOT)


def repeated(value: int, size: int) -> bytes:
    """`size` bytes of the repeated little-endian word."""
    return (value.to_bytes(WORD_BYTES, "little") * (-(-size // WORD_BYTES)))[:size]
