"""User commands: what a RUN executes on behalf of a context, and all that can go wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from understudy.core.errors import AccessFault, GuestFault, UnderstudyError
from understudy.core.settings import JIT
from understudy.core.telemetry import CountingTelemetry
from understudy.device.acceldev import rules
from understudy.device.acceldev.commands import (
    CMD_TYPE_MASK,
    USER_CMD_BYTES,
    Fill,
    UserCmdType,
    decode_user_command,
)
from understudy.device.acceldev.events import FenceCounted, UserCommandStarted
from understudy.device.acceldev.interrupts import Interrupts
from understudy.device.acceldev.lints import Lints
from understudy.device.acceldev.memory import Gate, Memory, rotated
from understudy.device.acceldev.pages import PAGE_BITS, locate, no_page, translate
from understudy.device.acceldev.registers import (
    ACCELDEV_NUM_BUFFERS,
    ACCELDEV_PAGE_SIZE,
    ACCELDEV_USER_CMD_WORDS,
    Interrupt,
)
from understudy.device.acceldev.run import Run
from understudy.device.acceldev.settings import Settings

if TYPE_CHECKING:
    from understudy.device.acceldev.fast_path import Bulk

WARM: Final = 64
"""User commands after which a device begins to use machine code; before, it would cost more than it gives."""
WARM_BYTES: Final = 1 << 16
SOME: Final = 16
"""User commands that are executed one by one before somebody may look in, unless somebody waits to."""


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
        self._bulk: Bulk | None = None

    def forget_memory(self) -> None:
        """Memory has come or gone: let go of all that is kept of it."""
        if self._bulk is not None:
            self._bulk.forget()

    def advance(self, run: Run, limit: int) -> int:
        """Execute some user commands of `run`, at least one and at most `limit`; gives their number.

        What ends the RUN is raised with the places that are known here: the command and its byte in the code buffer.
        """
        before = run.position
        end = min(run.count, before + limit)
        if self._is_bulk(run) and self._in_bulk(run, end):
            return run.position - before
        try:
            self._fetch_and_execute(run, end)
            some = min(end, before + SOME)
            while run.position < some and not self._gate.lock.is_wanted and not self._is_bulk(run):
                self._gate.check()
                self._fetch_and_execute(run, end)
        except UnderstudyError as error:
            raise error.at("user command", run.position).at("byte", run.offset, "of the code buffer") from None
        return run.position - before

    # ---- machine code --------------------------------------------------------------------------------------------

    def _is_bulk(self, run: Run) -> bool:
        if self._cold < 0 or (self._detailed and self._telemetry.listened):
            return False
        if self._cold > 0 and run.count - run.position < self._cold:
            return False
        if self._bulk is None:
            from understudy.device.acceldev.fast_path import Bulk

            self._bulk = Bulk(self._memory, self._interrupts.active_address)
            self._cold = 0
        return True

    def _in_bulk(self, run: Run, end: int) -> bool:
        assert self._bulk is not None
        # Somebody who does not want to hear of every user command hears of the first FENCEs that coalesce.
        is_heard = self._telemetry.listened and not self._lints.is_told_coalesced(Interrupt.USER_FENCE_WAIT)
        done = self._bulk.run(run, end, fences=not is_heard)
        moved = done.position - run.position
        run.position, run.used = done.position, run.used | done.used
        run.fences += done.fences
        self._telemetry.time += moved
        if done.is_raise_due:
            self._raise(Interrupt.USER_FENCE_WAIT, self._detailed)
        elif done.fences:
            self._interrupts.raised_again(Interrupt.USER_FENCE_WAIT)
        return moved > 0

    # ---- one by one ----------------------------------------------------------------------------------------------

    def _fetch_and_execute(self, run: Run, end: int) -> None:
        """NOPs, or one command: what it writes may be the next one."""
        data = self._fetch(run, end)
        kind = data[0] & CMD_TYPE_MASK
        if kind == UserCmdType.NOP:
            self._nops(run, data)
        elif kind == UserCmdType.FENCE:
            self._fence(run, data)
        else:
            self._execute(run, data[:USER_CMD_BYTES])

    def _fetch(self, run: Run, end: int) -> bytes:
        """The next commands, as far as their page goes; of one command where it straddles a page."""
        address, table = run.offset, run.command.table
        physical = locate(self._memory, table, address)
        left = ACCELDEV_PAGE_SIZE - address % ACCELDEV_PAGE_SIZE
        count = min(end - run.position, left // USER_CMD_BYTES)
        if count == 0:
            behind = (address >> PAGE_BITS) + 1 << PAGE_BITS
            rest = locate(self._memory, table, behind)
            data = self._code(table, address, physical, left) + self._code(table, behind, rest, USER_CMD_BYTES - left)
        else:
            try:
                data = self._memory.read(physical, count * USER_CMD_BYTES)
            except AccessFault:
                data = self._code(table, address, physical, USER_CMD_BYTES)
        return data

    def _code(self, table: int, virtual: int, physical: int, size: int) -> bytes:
        """Bytes of one page of the code buffer."""
        try:
            return self._memory.read(physical, size)
        except AccessFault as fault:
            raise no_page(self._memory, table, virtual, fault) from fault

    def _nops(self, run: Run, data: bytes) -> None:
        others = np.flatnonzero(np.frombuffer(data, "<u4")[::ACCELDEV_USER_CMD_WORDS] & CMD_TYPE_MASK)
        count = int(others[0]) if others.size else len(data) // USER_CMD_BYTES
        if self._detailed and self._telemetry.listened:
            for at in range(0, count * USER_CMD_BYTES, USER_CMD_BYTES):
                self._tell(run, data[at : at + USER_CMD_BYTES])
                self._done(run, 1)
        else:
            self._done(run, count)

    def _fence(self, run: Run, data: bytes) -> None:
        self._tell(run, data)
        counter = run.context.count_fence()
        run.fences += 1
        if self._detailed and self._telemetry.listened:
            self._telemetry.emit(lambda time: FenceCounted(time, run.context.index, counter))
        self._done(run, 1)
        self._raise(Interrupt.USER_FENCE_WAIT, self._detailed)

    def _execute(self, run: Run, data: bytes) -> None:
        command = decode_user_command(data)
        assert isinstance(command, Fill)
        self._tell(run, data)
        try:
            self._fill(run, command)
        except UnderstudyError as error:
            what = f"slot {command.buffer_slot} start {command.start:#x} length {command.length:#x}"
            raise error.at("FILL", what) from None
        if self._cold > 0 and command.length >= WARM_BYTES:
            self._cold = 0
        self._done(run, 1)

    def _fill(self, run: Run, command: Fill) -> None:
        """Choices `fill-slot`, `fill-partial`, `fill-translation`, `fill-alignment`, `fill-nothing`."""
        if command.buffer_slot >= ACCELDEV_NUM_BUFFERS:
            raise SlotFault(
                f"slot {command.buffer_slot}, expected one below {ACCELDEV_NUM_BUFFERS}", rule=rules.FILL_SLOT
            )
        table = run.context.slot(command.buffer_slot)
        if table == 0:
            raise SlotFault(f"no buffer is bound to slot {command.buffer_slot}", rule=rules.FILL_SLOT)
        run.used |= 1 << command.buffer_slot
        if command.length == 0:
            return
        translation = translate(self._memory, table, command.start, command.length)
        for piece in translation.pieces:
            value = rotated(command.value, piece.virtual - command.start)
            try:
                self._memory.fill(piece.physical, piece.size, value)
            except AccessFault as fault:
                virtual = piece.virtual + max(0, fault.address - piece.physical)
                raise no_page(self._memory, table, virtual, fault) from fault
        if translation.fault is not None:
            raise translation.fault

    def _tell(self, run: Run, data: bytes) -> None:
        if self._detailed and self._telemetry.listened:
            command = decode_user_command(data)
            self._telemetry.emit(lambda time: UserCommandStarted(time, run.context.index, run.offset, command))

    def _done(self, run: Run, count: int) -> None:
        run.position += count
        self._telemetry.time += count
        if self._cold > 0:
            self._cold = max(0, self._cold - count)
