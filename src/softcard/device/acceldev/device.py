"""The Acceldev device: its registers, and the executor that runs its commands."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Unpack

from softcard.core.completion import Line
from softcard.core.device import CountingTelemetry, Device
from softcard.core.errors import ModelBug, RuleError, SoftcardError, WireError
from softcard.core.event import Probes
from softcard.core.pci import Bar, DmaPort, PciIdentity
from softcard.core.register import RegisterFile
from softcard.core.snapshot import copied
from softcard.core.words import U32, mask
from softcard.device.acceldev import registers as r
from softcard.device.acceldev.contexts import Context, Run
from softcard.device.acceldev.events import DeviceReset, RegisterAccess
from softcard.device.acceldev.executor import Executor
from softcard.device.acceldev.interrupts import Interrupts
from softcard.device.acceldev.lints import Lints
from softcard.device.acceldev.memory import Gate, Memory
from softcard.device.acceldev.processor import FEED, Processor, Queued
from softcard.device.acceldev.registers import Interrupt
from softcard.device.acceldev.settings import AcceldevOptions, Settings

ACCESS_SIZES: Final = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class DeviceState:
    """The state of an Acceldev without main memory, as `snapshot` returns it and `restore` accepts it."""

    registers: dict[str, int]
    queue: tuple[Queued, ...]
    submitted: int
    time: int
    run: Run | None


class AcceldevDevice(Device[Settings]):
    """An Acceldev: a `PciDevice` with BAR0, one interrupt line, and main memory by DMA.

    Call `connect` to give it memory before its commands run. Every register access returns at once. A mistake of
    the guest causes an interrupt, an error bit, and an event with a `SoftcardError` that has the location;
    `last_error` is the most recent error. See `Settings` for the options.

    Probes are called while the device's lock is held: they must not wait for another thread that uses the device."""

    def __init__(self, settings: Settings | None = None, **options: Unpack[AcceldevOptions]) -> None:
        self.settings = Settings.of(settings, options)
        self._gate = Gate()
        self._telemetry = CountingTelemetry(self.settings.lints)
        self._lints = Lints(self._telemetry)
        self._memory = Memory(self._gate)
        store = (ctypes.c_uint32 * sum(1 for _ in r.MMIO.elements()))()
        self._registers = self._make_registers(store)
        self._reads, self._writes = self._registers.reads, self._registers.writes
        intr = ctypes.addressof(store) + r.REGISTER_BYTES * self._registers.number(r.INTR.name)
        self._interrupts = Interrupts(self._registers, intr, self._gate, self._telemetry, self._lints)
        self._processor = Processor(
            self._registers, self._gate, self._memory, self._interrupts, self._telemetry, self._lints, self.settings
        )
        self._noise = random.Random(self.settings.seed)
        self._executor = Executor(self._gate, self._processor, self.settings, self._telemetry.desk)
        self._unseen = 0
        """A mask of the interrupts that were active and enabled when the driver wrote 0 to INTR_ENABLE.

        A driver may still acknowledge them. Those that it has not acknowledged when it disconnects are reported by a
        lint.
        """
        self._power_on()

    def __repr__(self) -> str:
        state = "closed" if self._executor.is_closed else "open"
        return f"<AcceldevDevice {self.settings.execution}, engine {self.settings.engine}, {state}>"

    # ---- the interface of a PCI device --------------------------------------------------------------------------

    @property
    def identity(self) -> PciIdentity:
        """The PCI vendor, device and class."""
        return r.IDENTITY

    @property
    def bars(self) -> tuple[Bar, ...]:
        """BAR0 only."""
        return (r.BAR0,)

    @property
    def line(self) -> Line:
        """The PCI interrupt line that the device drives."""
        return self._interrupts.line

    @property
    def probes(self) -> Probes:
        """The probes, by which observers subscribe to events."""
        return self._telemetry.probes

    @property
    def last_error(self) -> SoftcardError | None:
        """The last error since reset, with its location and rule; or None."""
        return self._processor.last_error

    def error_of(self, context: int) -> SoftcardError | None:
        """Return the last error of the context with number `context` since reset, or None."""
        return self._processor.context_errors.get(context)

    @property
    def time(self) -> int:
        """The number of device and user commands processed since reset."""
        return self._telemetry.time

    def connect(self, dma: DmaPort) -> None:
        """Use `dma` for all further accesses to main memory, and release the cached ranges of shared memory."""
        self._check_open()
        self._processor.connect(dma)

    def read_bar(self, bar: int, offset: int, size: int) -> int:
        """Return `size` bytes at `offset` of BAR0 as a little-endian number.

        An address without a register reads as all ones (choice `register-access`).
        """
        found = self._reads.get(offset) if size == r.REGISTER_BYTES and bar == r.BAR0.index else None
        if found is None:
            self._check_access(bar, offset, size)
        with self._telemetry.desk:
            if found is None:
                self._odd(False, offset, size)
                value = mask(8 * size)
            else:
                name, read = found
                with self._gate.lock:
                    self._lints.register_access(name, False)
                    value = read()
                    self._telemetry.emit(lambda time: RegisterAccess(time, name, value, False))
            self._executor.after_access()
            return value

    def write_bar(self, bar: int, offset: int, size: int, value: int) -> None:
        """Write the low `size` bytes of `value` at `offset` of BAR0.

        Writes to addresses without a register are ignored.
        """
        found = self._writes.get(offset) if size == r.REGISTER_BYTES and bar == r.BAR0.index else None
        if found is None:
            self._check_access(bar, offset, size)
        with self._telemetry.desk:
            if found is None:
                self._odd(True, offset, size)
            else:
                name, write = found
                word = value & U32
                with self._gate.lock:
                    self._lints.register_access(name, True)
                    self._telemetry.emit(lambda time: RegisterAccess(time, name, word, True))
                    unlocked = write(word)
                if unlocked is not None:
                    unlocked()
            self._executor.after_access()

    def reset(self) -> None:
        """Reset the device as the PCI bus does: empty the command queue, set registers to power-on values.

        After this call, commands that were queued or running do not access memory any more."""
        self._check_open()
        with self._telemetry.desk:
            with self._gate.changed:
                self._lint_unacknowledged("a reset")
                self._processor.forget()
                self._gate.close_all()
            self._power_on()
            self._telemetry.emit(DeviceReset)

    def close(self) -> None:
        """Stop the device permanently; its thread ends."""
        if not self._executor.is_closed:
            with self._telemetry.desk:
                self._lint_unacknowledged("the device was closed")
                self._executor.close()

    @property
    def is_closed(self) -> bool:
        """True if the device was closed and executes nothing any more."""
        return self._executor.is_closed

    def _check_open(self) -> None:
        if self.is_closed:
            raise RuleError("the device was closed: open a new one")

    # ---- execution -----------------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """True if no command is running, and none can start before the next register access."""
        return self._executor.is_idle

    def wait_idle(self, timeout_seconds: float | None = None) -> bool:
        """Wait until a threaded device is idle, or cannot continue; return False after the timeout.

        Do not wait for a synchronous device: return True if it is idle."""
        return self._executor.wait_idle(timeout_seconds)

    def step(self, commands: int = 1) -> int:
        """Execute up to `commands` device and user commands on a synchronous device.

        Return the number of executed commands.
        """
        self._check_open()
        if self.settings.threaded:
            raise RuleError("step requires execution 'synchronous': a threaded device executes by itself")
        with self._telemetry.desk:
            return self._executor.work(commands)

    def context(self, index: int) -> Context:
        """Return the context with number `index`, whose record is in the array at the current CONTEXTS_CONFIGS."""
        if not 0 <= index < r.ACCELDEV_MAX_CONTEXTS:
            raise WireError(f"context index is {index}, expected 0 to {r.ACCELDEV_MAX_CONTEXTS - 1}")
        return Context(index, self._processor.contexts_configs, self._memory)

    def driver_gone(self) -> None:
        """Note that the driver has disconnected; emit a lint for each interrupt that is still active."""
        with self._telemetry.desk, self._gate.lock:
            self._lint_unacknowledged("the driver disconnected")

    def context_freed(self, index: int) -> None:
        """Note that a driver has freed context `index`; emit a lint if the context's record is not all zeros."""
        with self._telemetry.desk:
            self._lints.freed(index, self.context(index).record())

    def snapshot(self) -> DeviceState:
        """Return the device's state, for `restore`.

        Raise `RuleError` while a thread executes a command.
        """
        self._check_open()
        with self._gate.lock:
            if self._gate.is_entered:
                raise RuleError(
                    "cannot take a snapshot while the device executes a command: wait until it is idle, or use "
                    "execution 'synchronous'"
                )
            return DeviceState(
                self._registers.snapshot(),
                tuple(self._processor.queue),
                self._processor.submitted,
                self._telemetry.time,
                copied(self._processor.run),
            )

    def restore(self, state: DeviceState) -> None:
        """Return to a state that `snapshot` returned; the caller restores main memory."""
        self._check_open()
        self.reset()
        with self._gate.lock:
            self._registers.restore(state.registers)
            self._telemetry.time = state.time
            self._lints.configs_written = self._lints.is_started = True
        self._interrupts.update_line()
        with self._gate.changed:
            self._processor.queue.extend(state.queue)
            self._processor.submitted, self._processor.run = state.submitted, copied(state.run)
        if self.settings.threaded:
            self._executor.after_access()

    # ---- registers -----------------------------------------------------------------------------------------------

    def _make_registers(self, store: ctypes.Array[ctypes.c_uint32]) -> RegisterFile:
        """Return the register file, whose values are in `store`, with functions that perform the effects of accesses.

        Such a function runs while the device's lock is held. It may return another function, which is called after
        the lock is released."""
        return RegisterFile(
            r.MMIO,
            {
                r.INTR.name: self._read_intr,
                r.CMD_MANUAL_FREE.name: self._read_free,
                r.CMD_FENCE_LAST.name: self._read_fence,
            },
            {
                r.INTR.name: lambda word, before: self._interrupts.cleared(word, before),
                r.INTR_ENABLE.name: self._enabled,
                r.ENABLE.name: lambda word, before: self._lints.enable_written(word),
                r.CONTEXTS_CONFIGS_LO.name: lambda word, before: self._lints.configs(bool(self._processor.queue)),
                r.CONTEXTS_CONFIGS_HI.name: lambda word, before: self._lints.configs(bool(self._processor.queue)),
                r.CMD_FENCE_LAST.name: lambda word, before: self._lints.fence_last_written(),
                r.CMD_FENCE_WAIT.name: lambda word, before: self._lints.fence_wait_written(word),
                **{name: partial(self._fed, index) for index, name in enumerate(FEED)},
            },
            store,
        )

    def _read_free(self, held: int) -> int:
        free = self._processor.free
        if not free:
            self._lints.progress_read(r.CMD_MANUAL_FREE.name, len(self._processor.queue))
        return free

    def _read_fence(self, last: int) -> int:
        if not self._lints.is_started:
            self._lints.progress_read(r.CMD_FENCE_LAST.name, len(self._processor.queue))
        return last

    def _read_intr(self, active: int) -> int:
        if not self._lints.is_started:
            self._lints.progress_read(r.INTR.name, len(self._processor.queue))
        if pending := active & self._interrupts.enabled & r.INTERRUPTS:
            self._lints.intr_read(Interrupt(pending))
        return active

    def _enabled(self, word: int, before: int) -> Callable[[], None]:
        self._unseen = 0 if word else self._unseen | self._interrupts.active & before
        return self._interrupts.update_line

    def _fed(self, index: int, word: int, before: int) -> Callable[[], None] | None:
        self._lints.feed(index)
        if index < len(FEED) - 1 or self._processor.submit():
            return None
        return lambda: self._interrupts.raise_(Interrupt.FEED_ERROR)

    def _odd(self, write: bool, offset: int, size: int) -> None:
        if self._telemetry.wants_lints:
            self._lints.odd_access(write, size, offset, _why(write, offset, size))
        if self.settings.strict_access:
            self._interrupts.raise_(Interrupt.MEM_ERROR)

    def _check_access(self, bar: int, offset: int, size: int) -> None:
        if bar != r.BAR0.index:
            raise WireError(f"access to BAR{bar}, but the device has BAR0 only")
        if size not in ACCESS_SIZES:
            raise WireError(f"the access has {size} bytes, expected 1, 2, 4 or 8").at("offset", offset, "of BAR0")
        if not 0 <= offset <= r.BAR0.size_bytes - size:
            raise WireError(f"the access is outside of the {r.BAR0.size_bytes} bytes of BAR0").at(
                "offset", offset, "of BAR0"
            )

    def _power_on(self) -> None:
        with self._gate.lock:
            self._registers.reset()
            self._processor.submitted = 0
            self._processor.last_error = None
            self._processor.context_errors.clear()
            self._telemetry.time = 0
            self._lints.reset()
            self._unseen = 0
            intr = 0
            if self.settings.poison:
                intr = self._noise.getrandbits(6)
                for name in (r.CMD_FENCE_LAST.name, r.CMD_FENCE_WAIT.name, *FEED):
                    self._registers[name] = self._noise.getrandbits(32)
        self._interrupts.reset(intr)

    def _lint_unacknowledged(self, when: str) -> None:
        unseen = Interrupt(self._interrupts.active & (self._interrupts.enabled | self._unseen) & r.INTERRUPTS)
        self._lints.gone(unseen, when)
        self._lints.never_enabled(len(self._processor.queue), f"before {when}")


def _why(write: bool, offset: int, size: int) -> str:
    if size != r.REGISTER_BYTES:
        return f"expected {r.REGISTER_BYTES} bytes"
    try:
        r.MMIO.find(offset, "w" if write else "r")
    except WireError as error:
        return error.message
    raise ModelBug(f"the register at BAR0 + {offset:#x} is declared, but the device does not implement it")
