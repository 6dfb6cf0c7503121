"""The Acceldev device: its registers, and who executes its commands."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from understudy.core.device import Device
from understudy.core.errors import ModelBug, RuleError, UnderstudyError, WireError
from understudy.core.event import Probes
from understudy.core.line import Line
from understudy.core.pci import Bar, DmaPort, PciIdentity
from understudy.core.register_file import RegisterFile
from understudy.core.snapshot import copied
from understudy.core.telemetry import CountingTelemetry
from understudy.core.words import U32, mask
from understudy.device.acceldev import registers as r
from understudy.device.acceldev.contexts import Context
from understudy.device.acceldev.events import DeviceReset, RegisterAccess
from understudy.device.acceldev.executor import Executor
from understudy.device.acceldev.interrupts import Interrupts
from understudy.device.acceldev.lints import Lints
from understudy.device.acceldev.memory import Gate, Memory
from understudy.device.acceldev.processor import FEED, Processor, Queued
from understudy.device.acceldev.registers import Interrupt
from understudy.device.acceldev.run import Run
from understudy.device.acceldev.settings import Settings

ACCESS_SIZES: Final = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class DeviceState:
    """Everything that the device itself remembers; main memory is not part of it."""

    registers: dict[str, int]
    queue: tuple[Queued, ...]
    submitted: int
    time: int
    run: Run | None


class AcceldevDevice(Device[Settings]):
    """An Acceldev: a `PciDevice` with BAR0, one interrupt line, and main memory by DMA.

    Give it memory by `connect` before its commands run. Every register access answers at once; what a guest does wrong
    becomes an interrupt, an error bit and an event with an `UnderstudyError` that says where (`last_error` keeps the
    newest). See `Settings` for the options.

    Probes are called while the device's lock is held: they must not wait for another thread that uses the device.
    """

    def __init__(self, settings: Settings | None = None, **options: Any) -> None:
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
        """Interrupts that were active when INTR_ENABLE became 0; a driver may acknowledge them after that."""
        self._power_on()

    def __repr__(self) -> str:
        state = "closed" if self._executor.is_closed else "open"
        return f"<AcceldevDevice {self.settings.execution}, engine {self.settings.engine}, {state}>"

    # ---- what a PCI device shows ---------------------------------------------------------------------------------

    @property
    def identity(self) -> PciIdentity:
        """Vendor, device and class."""
        return r.IDENTITY

    @property
    def bars(self) -> tuple[Bar, ...]:
        """BAR0 only."""
        return (r.BAR0,)

    @property
    def line(self) -> Line:
        """The interrupt line."""
        return self._interrupts.line

    @property
    def probes(self) -> Probes:
        """Where to subscribe to events."""
        return self._telemetry.probes

    @property
    def last_error(self) -> UnderstudyError | None:
        """What went wrong last since reset, with its places and its rule."""
        return self._processor.last_error

    def error_of(self, context: int) -> UnderstudyError | None:
        """What errored a context last since reset."""
        return self._processor.context_errors.get(context)

    @property
    def time(self) -> int:
        """Commands of the device and of users processed since reset."""
        return self._telemetry.time

    def connect(self, dma: DmaPort) -> None:
        """Reach main memory through `dma` from now on, and let go of all memory it does not give any more."""
        self._processor.connect(dma)

    def read_bar(self, bar: int, offset: int, size: int) -> int:
        """The value of `size` bytes at `offset` of BAR0; all ones where no register is (`register-access`)."""
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
        """Write `size` bytes at `offset` of BAR0, likewise; higher bits of `value` are ignored."""
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
        """Bus reset: nothing queued or running, registers as at power-on. No DMA of earlier commands follows."""
        with self._telemetry.desk:
            with self._gate.changed:
                self._tell_unacknowledged("a reset")
                self._processor.forget()
                self._gate.close_all()
            self._power_on()
            self._telemetry.emit(DeviceReset)

    def close(self) -> None:
        """Stop for good: the device's thread ends."""
        if not self._executor.is_closed:
            with self._telemetry.desk:
                self._tell_unacknowledged("the device was closed")
                self._executor.close()

    @property
    def is_closed(self) -> bool:
        """Whether it executes nothing any more."""
        return self._executor.is_closed

    # ---- execution -----------------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs, and nothing would run without a further register access."""
        return self._executor.is_idle

    def wait_idle(self, timeout_seconds: float | None = None) -> bool:
        """Wait until a threaded device is idle; False if it is not in time. Others are idle now or stay as they are."""
        return self._executor.wait_idle(timeout_seconds)

    def step(self, commands: int = 1) -> int:
        """Execute up to `commands` commands, of the device and of users; gives their number (synchronous only)."""
        if self.settings.threaded:
            raise RuleError("a threaded device executes by itself, expected execution 'synchronous' for step")
        with self._telemetry.desk:
            return self._executor.work(commands)

    def context(self, index: int) -> Context:
        """Context `index` as its record in main memory says, at the CONTEXTS_CONFIGS of this moment."""
        if not 0 <= index < r.ACCELDEV_MAX_CONTEXTS:
            raise WireError(f"context {index}, expected 0 to {r.ACCELDEV_MAX_CONTEXTS - 1}")
        return Context(index, self._processor.contexts_configs, self._memory)

    def driver_gone(self) -> None:
        """Say that the driver has left, which the device cannot see: a lint for each interrupt it has not cleared."""
        with self._telemetry.desk, self._gate.lock:
            self._tell_unacknowledged("the driver left")

    def context_freed(self, index: int) -> None:
        """Say that a driver has freed a context, which the device cannot see: a lint if its record is not zero."""
        with self._telemetry.desk:
            self._lints.freed(index, self.context(index).record())

    def snapshot(self) -> DeviceState:
        """The state between two commands; `RuleError` while a thread executes one."""
        with self._gate.lock:
            if self._gate.is_entered:
                raise RuleError("the device executes a command, expected it to be idle or synchronous")
            return DeviceState(
                self._registers.snapshot(),
                tuple(self._processor.queue),
                self._processor.submitted,
                self._telemetry.time,
                copied(self._processor.run),
            )

    def restore(self, state: DeviceState) -> None:
        """Go back to a state; main memory is the caller's business."""
        self.reset()
        with self._gate.lock:
            self._registers.restore(state.registers)
            self._telemetry.time = state.time
            self._lints.configs_written = True
        self._interrupts.settle()
        with self._gate.changed:
            self._processor.queue.extend(state.queue)
            self._processor.submitted, self._processor.run = state.submitted, copied(state.run)
        if self.settings.threaded:
            self._executor.after_access()

    # ---- registers -----------------------------------------------------------------------------------------------

    def _make_registers(self, store: ctypes.Array[ctypes.c_uint32]) -> RegisterFile:
        """What they do besides holding values, under the lock; some give what is to be done when it is let go of."""
        return RegisterFile(
            r.MMIO,
            {r.INTR.name: self._read_intr, r.CMD_MANUAL_FREE.name: lambda held: self._processor.free},
            {
                r.INTR.name: lambda word, before: self._interrupts.cleared(word, before),
                r.INTR_ENABLE.name: self._enabled,
                r.CONTEXTS_CONFIGS_LO.name: lambda word, before: self._lints.configs(bool(self._processor.queue)),
                r.CONTEXTS_CONFIGS_HI.name: lambda word, before: self._lints.configs(bool(self._processor.queue)),
                r.CMD_FENCE_LAST.name: lambda word, before: self._lints.fence_last_written(),
                r.CMD_FENCE_WAIT.name: lambda word, before: self._lints.fence_wait_written(word),
                **{name: partial(self._fed, index) for index, name in enumerate(FEED)},
            },
            store,
        )

    def _read_intr(self, active: int) -> int:
        if pending := active & self._interrupts.enabled & r.INTERRUPTS:
            self._lints.intr_read(Interrupt(pending))
        return active

    def _enabled(self, word: int, before: int) -> Callable[[], None]:
        self._unseen = 0 if word else self._unseen | self._interrupts.active & before
        return self._interrupts.settle

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
            raise WireError(f"access of BAR{bar}, the device has BAR0 only")
        if size not in ACCESS_SIZES:
            raise WireError(f"access of {size} bytes, expected 1, 2, 4 or 8").at("offset", offset, "of BAR0")
        if not 0 <= offset <= r.BAR0.size_bytes - size:
            raise WireError(f"access outside of the {r.BAR0.size_bytes} bytes of BAR0").at("offset", offset, "of BAR0")

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

    def _tell_unacknowledged(self, when: str) -> None:
        unseen = Interrupt(self._interrupts.active & (self._interrupts.enabled | self._unseen) & r.INTERRUPTS)
        self._lints.gone(unseen, when)


def _why(write: bool, offset: int, size: int) -> str:
    if size != r.REGISTER_BYTES:
        return f"expected {r.REGISTER_BYTES} bytes"
    try:
        r.MMIO.find(offset, "w" if write else "r")
    except WireError as error:
        return error.message
    raise ModelBug(f"BAR0 + {offset:#x} is declared but not implemented")
