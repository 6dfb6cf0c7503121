"""User commands, which a RUN executes for a context, and their errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from softcard.core.device import CountingTelemetry
from softcard.core.errors import AccessFault, GuestFault, SoftcardError
from softcard.core.settings import JIT
from softcard.device.acceldev import native_commands as native
from softcard.device.acceldev import rules
from softcard.device.acceldev.commands import SLOT_BYTES, USER_CMD_BYTES, WORD_BYTES, decode_user_command
from softcard.device.acceldev.contexts import Run
from softcard.device.acceldev.events import FenceCounted, UserCommandStarted
from softcard.device.acceldev.interrupts import Interrupts
from softcard.device.acceldev.lints import Lints
from softcard.device.acceldev.memory import Gate, Memory, check_table, no_page, not_presented, read_entries
from softcard.device.acceldev.native_commands import SOME, Machine
from softcard.device.acceldev.registers import ACCELDEV_NUM_BUFFERS, Interrupt
from softcard.device.acceldev.settings import Settings

WARM: Final = 64
"""The number of user commands after which a device compiles their native function.

For fewer commands, compilation takes longer than it saves.
"""
WARM_BYTES: Final = 1 << 16
"""The number of bytes of a single FILL after which a device compiles the native function of user commands."""


class SlotFault(GuestFault):
    """The error of a user command that accesses a slot without a bound buffer."""


def interrupt_of(error: SoftcardError) -> Interrupt:
    """Return the interrupt that a failed user command raises."""
    if isinstance(error, SlotFault):
        return Interrupt.SLOT_ERROR
    return Interrupt.MEM_ERROR if isinstance(error, AccessFault) else Interrupt.CMD_ERROR


class UserCommands:
    """The executor of user commands.

    For an interrupt, it calls `raise_` with the interrupt, and with True if each request must emit an event."""

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
        """Release all references to shared memory ranges, after the memory of the device has changed."""
        self._machine.forget()

    def advance(self, run: Run, limit: int) -> int:
        """Execute at least one and at most `limit` user commands of `run`; return their number.

        An error that ends the RUN gets two locations: the number of the user command, and its byte offset in the code
        buffer."""
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
        except SoftcardError as error:
            raise error.at("user command", run.position).at("byte", run.offset, "of the code buffer") from None
        if self._cold > 0:
            is_large = self._machine.block.filled >= WARM_BYTES
            self._cold = 0 if is_large else max(0, self._cold - (run.position - before))
        return run.position - before

    def _may_go_on(self, run: Run, some: int) -> bool:
        """Return True if the native function stopped at a FENCE for its interrupt, and `run` may continue at once.

        It may continue while no other thread waits for the device's lock, up to user command number `some`."""
        return bool(self._machine.block.due) and run.position < some and not self._gate.lock.is_wanted

    def _step(self, run: Run, end: int) -> int:
        """Execute user commands of `run` up to number `end` at most, until the native function returns to Python.

        Provide what it requests, such as memory or an event. Return the reason why it returned."""
        listens = self._detailed and self._telemetry.listened
        # Without an event for every user command, the first coalescing FENCEs still have events.
        every = self._telemetry.listened and (
            self._detailed or not self._lints.has_reported_coalesced(Interrupt.USER_FENCE_WAIT)
        )
        why = self._machine.run(end, listens=listens, every=every)
        self._report_executed(run, listens)
        if why == native.REPORT:
            command = decode_user_command(self._machine.words)
            self._telemetry.emit(lambda time: UserCommandStarted(time, run.context.index, run.offset, command))
        elif why == native.COUNT:
            self._machine.block.counted = run.context.count_fence()
            self._machine.block.served = 1
        elif why != native.DONE:
            self._serve(run, why)
        return why

    def _report_executed(self, run: Run, listens: bool) -> None:
        """Update the progress of `run` and the time after commands were executed.

        Also emit the lints, events and interrupts of these commands. `listens` is True if every user command emits
        an event."""
        block = self._machine.block
        if block.swapped:
            self._lints.swapped_code(run.context.index, run.position, block.position - 1)
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
            self._interrupts.note_occurrence(Interrupt.USER_FENCE_WAIT)

    # ---- requests of a command ------------------------------------------------------------------------------------

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
            except SoftcardError as error:
                what = f"slot {block.slot} start {block.begin:#x} length {block.length:#x}"
                raise error.at("FILL", what) from None

    def _serve_memory(self, run: Run, why: int) -> None:
        """Perform the memory access that the native function requested, or raise the error of the command.

        `why` is the reason why the function returned, such as ENTRIES."""
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
        """Return the `size` bytes of code at virtual address `virtual`, all of them in one page.

        If some of them are not readable, return only the bytes of the first command; raise `AccessFault` if those are
        not readable either. `table` is the page table's address, and `physical` the physical address of the code."""
        try:
            return self._memory.read(physical, size)
        except AccessFault as fault:
            if size <= USER_CMD_BYTES:
                raise no_page(self._memory, table, virtual, fault) from fault
        return self._code(table, virtual, physical, USER_CMD_BYTES)

    @staticmethod
    def _unbound(slot: int) -> NoReturn:
        if slot >= ACCELDEV_NUM_BUFFERS:
            raise SlotFault(
                f"the slot number is {slot}, expected 0 to {ACCELDEV_NUM_BUFFERS - 1}", rule=rules.FILL_SLOT
            )
        raise SlotFault(f"no buffer is bound to slot {slot}", rule=rules.FILL_SLOT)


def repeated(value: int, size: int) -> bytes:
    """Return `size` bytes that repeat the little-endian 32-bit word `value`."""
    return (value.to_bytes(WORD_BYTES, "little") * (-(-size // WORD_BYTES)))[:size]
