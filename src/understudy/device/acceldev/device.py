"""The Acceldev device: its registers, and who executes its commands."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from understudy.core.errors import ModelBug, RuleError, UnderstudyError, WireError
from understudy.core.event import Probes
from understudy.core.line import Line
from understudy.core.pci import Bar, DmaPort, PciIdentity
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
from understudy.device.acceldev.processor import Processor, Queued, Registers
from understudy.device.acceldev.registers import Interrupt
from understudy.device.acceldev.run import Run
from understudy.device.acceldev.settings import Settings

ACCESS_SIZES: Final = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class DeviceState:
    """Everything that the device itself remembers; main memory is not part of it."""

    intr: int
    intr_enable: int
    registers: Registers
    queue: tuple[Queued, ...]
    submitted: int
    time: int
    run: Run | None


class AcceldevDevice:
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
        self._interrupts = Interrupts(self._gate, self._telemetry, self._lints)
        self._processor = Processor(
            self._gate, self._memory, self._interrupts, self._telemetry, self._lints, self.settings
        )
        self._noise = random.Random(self.settings.seed)
        self._reads: dict[int, tuple[str, Callable[[], int]]] = self._read_side()
        self._writes: dict[int, tuple[str, Callable[[int], None]]] = self._write_side()
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
        self._check_access(bar, offset, size)
        with self._telemetry.desk:
            found = self._reads.get(offset) if size == r.REGISTER_BYTES else None
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
        self._check_access(bar, offset, size)
        with self._telemetry.desk:
            found = self._writes.get(offset) if size == r.REGISTER_BYTES else None
            if found is None:
                self._odd(True, offset, size)
            else:
                name, write = found
                word = value & U32
                with self._gate.lock:
                    self._lints.register_access(name, True)
                    self._telemetry.emit(lambda time: RegisterAccess(time, name, word, True))
                write(word)
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
        return Context(index, self._processor.registers.contexts_configs, self._memory)

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
            processor = self._processor
            return DeviceState(
                self._interrupts.active,
                self._interrupts.enabled,
                copied(processor.registers),
                tuple(processor.queue),
                processor.submitted,
                self._telemetry.time,
                copied(processor.run),
            )

    def restore(self, state: DeviceState) -> None:
        """Go back to a state; main memory is the caller's business."""
        self.reset()
        with self._gate.changed:
            processor = self._processor
            processor.registers.restore(state.registers.snapshot())
            processor.registers.enable = 0  # nothing is executed before the interrupts are back
            processor.queue.extend(state.queue)
            processor.submitted, processor.run = state.submitted, copied(state.run)
            self._telemetry.time = state.time
            self._lints.configs_written = True
        self._interrupts.reset(state.intr)
        self._interrupts.enable(state.intr_enable)
        self._set_enable(state.registers.enable)
        if self.settings.threaded:
            self._executor.after_access()

    # ---- registers -----------------------------------------------------------------------------------------------

    def _read_side(self) -> dict[int, tuple[str, Callable[[], int]]]:
        registers = self._processor.registers
        return _side(
            (r.INTR, self._read_intr),
            (r.INTR_ENABLE, lambda: self._interrupts.enabled),
            (r.ENABLE, lambda: registers.enable),
            (r.CONTEXTS_CONFIGS_LO, lambda: registers.contexts_configs & U32),
            (r.CONTEXTS_CONFIGS_HI, lambda: registers.contexts_configs >> 32),
            (r.CMD_MANUAL_FREE, lambda: self._processor.free),
            (r.CMD_FENCE_LAST, lambda: registers.fence_last),
            (r.CMD_FENCE_WAIT, lambda: registers.fence_wait),
        )

    def _write_side(self) -> dict[int, tuple[str, Callable[[int], None]]]:
        found: dict[int, tuple[str, Callable[[int], None]]] = _side(
            (r.INTR, self._interrupts.clear),
            (r.INTR_ENABLE, self._set_intr_enable),
            (r.ENABLE, self._set_enable),
            (r.CONTEXTS_CONFIGS_LO, lambda value: self._set_configs(0, value)),
            (r.CONTEXTS_CONFIGS_HI, lambda value: self._set_configs(32, value)),
            (r.CMD_FENCE_LAST, self._set_fence_last),
            (r.CMD_FENCE_WAIT, self._set_fence_wait),
        )
        for index in range(r.CMD_MANUAL_FEED.count):
            offset = r.CMD_MANUAL_FEED.offset_of(index, r.MMIO.unit_bytes)
            found[offset] = (r.CMD_MANUAL_FEED.element(index), self._feeder(index))
        return found

    def _read_intr(self) -> int:
        active = self._interrupts.active
        if pending := active & self._interrupts.enabled & r.INTERRUPTS:
            self._lints.intr_read(Interrupt(pending))
        return active

    def _set_intr_enable(self, value: int) -> None:
        with self._gate.lock:
            self._unseen = 0 if value else self._unseen | self._interrupts.active & self._interrupts.enabled
        self._interrupts.enable(value)

    def _set_enable(self, value: int) -> None:
        with self._gate.changed:
            self._processor.registers.enable = value

    def _set_configs(self, shift: int, value: int) -> None:
        with self._gate.lock:
            registers = self._processor.registers
            self._lints.configs(bool(self._processor.queue))
            registers.contexts_configs = registers.contexts_configs & ~(U32 << shift) | value << shift

    def _set_fence_last(self, value: int) -> None:
        with self._gate.lock:
            self._processor.registers.fence_last = value
            self._lints.fence_last_written()

    def _set_fence_wait(self, value: int) -> None:
        with self._gate.lock:
            self._processor.registers.fence_wait = value
            self._lints.fence_wait_written(value)

    def _feeder(self, index: int) -> Callable[[int], None]:
        is_last = r.CMD_MANUAL_FEED.offset_of(index, r.MMIO.unit_bytes) == r.FEED_LAST

        def write(value: int) -> None:
            with self._gate.lock:
                self._processor.registers.feed[index] = value
                self._lints.feed(index)
                accepted = not is_last or self._processor.submit()
            if not accepted:
                self._interrupts.raise_(Interrupt.FEED_ERROR)

        return write

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
            registers = self._processor.registers
            registers.enable = registers.contexts_configs = registers.fence_last = registers.fence_wait = 0
            registers.feed[:] = [0] * len(registers.feed)
            self._processor.submitted = 0
            self._processor.last_error = None
            self._processor.context_errors.clear()
            self._telemetry.time = 0
            self._lints.reset()
            self._unseen = 0
            intr = 0
            if self.settings.poison:
                intr = self._noise.getrandbits(6)
                registers.fence_last, registers.fence_wait = self._noise.getrandbits(32), self._noise.getrandbits(32)
                registers.feed[:] = [self._noise.getrandbits(32) for _ in registers.feed]
        self._interrupts.reset(intr)

    def _tell_unacknowledged(self, when: str) -> None:
        unseen = Interrupt(self._interrupts.active & (self._interrupts.enabled | self._unseen) & r.INTERRUPTS)
        self._lints.gone(unseen, when)


def _side(*entries: tuple[Any, Any]) -> dict[int, tuple[str, Any]]:
    return {register.offset: (register.name, act) for register, act in entries}


def _why(write: bool, offset: int, size: int) -> str:
    if size != r.REGISTER_BYTES:
        return f"expected {r.REGISTER_BYTES} bytes"
    try:
        r.MMIO.find(offset, "w" if write else "r")
    except WireError as error:
        return error.message
    raise ModelBug(f"BAR0 + {offset:#x} is declared but not implemented")
