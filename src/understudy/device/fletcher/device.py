"""The Fletcher device: the register file on its bus, the kernel behind it, its profile counters, and device memory."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from understudy.core.device import Device
from understudy.core.errors import RuleError, UnderstudyError, WireError
from understudy.core.event import Probes
from understudy.core.snapshot import Stateful
from understudy.core.telemetry import CountingTelemetry
from understudy.device.fletcher.bus import ALL_LANES, Bus, HardwareBus, Reply, Response, check_address
from understudy.device.fletcher.bus_spec import SpecBus
from understudy.device.fletcher.bus_words import FieldStore
from understudy.device.fletcher.events import DeviceReset, KernelText, RegisterAccess, RowsMoved
from understudy.device.fletcher.execution import Execution
from understudy.device.fletcher.fitting import check_kernel
from understudy.device.fletcher.job import Job
from understudy.device.fletcher.kernel import Kernel
from understudy.device.fletcher.lints import HardwareLints, Lints, Shadow
from understudy.device.fletcher.machine import Do, Machine, State
from understudy.device.fletcher.map.layout import BatchLayout, FletcherMap, Mode
from understudy.device.fletcher.memory import DeviceMemory
from understudy.device.fletcher.profiler import Profiler
from understudy.device.fletcher.runner import LiveRegisters
from understudy.device.fletcher.settings import Settings

PROFILE_CLEAR: Final = "Profile_clear"


class FletcherDevice(Stateful, Device[Settings]):
    """A Fletcher design: the registers of a map, and a kernel behind them.

    `read` and `write` are accesses of the bus, at byte addresses. In profile "spec" what the document does not allow is
    a `RuleError`, and what goes wrong in the kernel is raised by the register access that it happens in (by the next
    one, where the kernel has its own thread). In profile "hardware" the bus answers as the generated hardware does, and
    a kernel that goes wrong stays busy; `last_error` says why. A `KernelFailure`, which is a mistake in the kernel
    itself, is raised in both.

    Give `settings`, or options of `Settings` by name. Any thread may call. Probes are called while the device's lock is
    held: they must not wait for another thread that uses the device.
    """

    STATE = ("_store", "_bus", "_machine", "_telemetry", "memory")

    def __init__(
        self,
        layout: FletcherMap,
        kernel: Kernel,
        settings: Settings | None = None,
        *,
        memory: DeviceMemory | None = None,
        **options: Any,
    ) -> None:
        self.map = layout
        self.kernel = kernel
        self.settings = Settings.of(settings, options)
        check_kernel(layout, kernel)
        self.memory = memory if memory is not None else DeviceMemory(size_bytes=self.settings.memory_bytes)
        self._telemetry = CountingTelemetry(self.settings.lints)
        self._lints = Lints(self._telemetry)
        self._store = FieldStore(layout)
        self._watch: HardwareLints | Shadow | None = None
        self._bus = self._make_bus()
        self._machine = Machine(layout, self._store, kernel.handshake)
        self._profiler = Profiler(layout, self._store, counts_elements=self.settings.strict)
        self._execution = Execution(kernel, self.settings, self._machine, self._store, self._telemetry)
        self._initialize()

    def __repr__(self) -> str:
        return f"<FletcherDevice kernel {self.kernel.name}, profile {self.settings.profile}, {self.state.value}>"

    def _made_of(self) -> tuple[Any, ...]:
        return (self.map, self.kernel)

    # ---- what it shows -------------------------------------------------------------------------------------------

    @property
    def probes(self) -> Probes:
        """Where to subscribe to events."""
        return self._telemetry.probes

    @property
    def time(self) -> int:
        """Register accesses since the device was made."""
        return self._telemetry.time

    @property
    def state(self) -> State:
        """What the kernel is doing."""
        return self._machine.state

    @property
    def last_error(self) -> UnderstudyError | None:
        """Why the kernel never finishes, since the last start, stop or reset; None if it does."""
        return self._execution.last_error

    @property
    def is_stuck(self) -> bool:
        """Whether the kernel is busy and never finishes: only stop or reset end that, `last_error` says why."""
        with self._execution.lock:
            return self._execution.is_stuck

    def value(self, name: str) -> int:
        """What the field called `name` holds, without a bus access, as a debugger would see it."""
        with self._execution.lock:
            return self._store.named(name)

    # ---- the bus -------------------------------------------------------------------------------------------------

    def read(self, address: int) -> Reply:
        """Read the bus word at byte `address`: 32 or 64 bits, as wide as the map's bus. Unpacks to value, response."""
        check_address(address)
        with self._telemetry.desk, self._execution.lock:
            self._telemetry.time += 1
            self._execution.after_access()
            reply = self._bus.read(address)
            if self._telemetry.wants_lints:
                self._show(address, reply.value, reply.response, write=False)
            self._execution.raise_pending()
            return reply

    def write(self, address: int, value: int, strobes: int = ALL_LANES) -> Response:
        """Write the bus word at byte `address`; bit n of `strobes` enables byte n of `value`."""
        check_address(address)
        if not 0 <= value < 1 << self.map.bus_width:
            raise WireError(f"write of {value:#x}, expected {self.map.bus_width} bits").at("address", address)
        with self._telemetry.desk, self._execution.lock:
            self._telemetry.time += 1
            written = self._bus.write(address, value, strobes)
            if self._telemetry.wants_lints:
                self._show(address, value, written.response, write=True)
            started = bool(written.pulses) and self._act(written.pulses)
            self._execution.after_access(started=started)
            self._execution.raise_pending()
            return written.response

    def lint(self, check: str, error: RuleError) -> None:
        """Tell of a mistake that the host's library has seen, and passes on as the real one does."""
        with self._telemetry.desk:
            self._lints.tell(check, error.message, error.rule)

    # ---- the kernel ----------------------------------------------------------------------------------------------

    def step(self, slices: int = 1) -> int:
        """Let a synchronous kernel do up to `slices` slices, whatever its pacing; gives how many it did."""
        if self.settings.threaded:
            raise RuleError("a threaded device works by itself, expected execution 'synchronous' for step")
        with self._telemetry.desk, self._execution.lock:
            done = self._execution.slices(slices)
            self._execution.raise_pending()
            return done

    def wait_idle(self, timeout_seconds: float | None = None) -> bool:
        """Wait until a threaded kernel is not busy, or stuck; False if it still is busy. Others are as they are."""
        with self._execution.lock:
            return self._execution.wait_idle(timeout_seconds)

    def reset(self) -> None:
        """Reset of the whole design, as at power-on: registers, kernel and counters. Device memory stays as it is."""
        with self._execution.lock:
            self._execution.end("a reset of the device")
            self._bus.reset()
            if isinstance(self._watch, HardwareLints):
                self._watch.reset()
            self._machine.clear()
            self._machine.enter(State.IDLE)
            self._profiler.clear()
            self._initialize()
            self._telemetry.emit(DeviceReset)

    def close(self) -> None:
        """Stop for good: the kernel's thread ends. Whoever waits for a kernel that worked hears where it was."""
        self._execution.close()

    def snapshot(self) -> Any:
        """Everything, device memory too; `RuleError` while the kernel is busy: a running program cannot be kept."""
        with self._execution.lock:
            if self.state is State.BUSY:
                raise RuleError(f"kernel {self.kernel.name} is busy, expected it to be idle or done for a snapshot")
            return super().snapshot()

    def restore(self, state: Any) -> None:
        """Go back to a state that `snapshot` gave."""
        with self._execution.lock:
            self._execution.end("a restore")
            super().restore(state)
            if isinstance(self._watch, HardwareLints):
                self._watch.reset()

    # ---- inside --------------------------------------------------------------------------------------------------

    def _make_bus(self) -> Bus:
        has_hardware = self.map.profile != "spec"
        if not self.settings.strict:
            if not has_hardware:
                raise WireError("a map of profile 'spec' is of no hardware, expected 'fletchgen' or 'runtime'")
            bus = HardwareBus(self.map, self._store)
            self._watch = HardwareLints(self._lints, self.map.bus_width // 8)
            return bus
        self._watch = shadow = Shadow(self.map, self._store, self._lints) if has_hardware else None
        return SpecBus(self.map, self._store, shadow)

    def _initialize(self) -> None:
        if self.settings.initialize:
            for custom in self.map.customs:
                if custom.init is not None:
                    self._store.set(custom.address, custom.init)
                    if isinstance(self._watch, Shadow):
                        self._watch.set(custom.address, custom.init)

    def _act(self, pulses: tuple[str, ...]) -> bool:
        """What signals of the host do; whether the kernel was started."""
        if PROFILE_CLEAR in pulses:
            self._profiler.clear()
        started = False
        for do in self._machine.control(pulses):
            match do:
                case Do.START:
                    self._start()
                    started = True
                case Do.IGNORE_START:
                    self._lints.start_ignored(self.state.value)
                case Do.STOP | Do.RESET:
                    self._execution.end(f"control {do.value}")
                    if do is Do.RESET:
                        self._machine.clear()
                    self._machine.enter(State.IDLE)
        return started

    def _start(self) -> None:
        self._machine.clear()
        if self._watch is not None:
            self._watch.started()
        self._profiler.started()
        self._execution.start(self._make_job)

    def _make_job(self, registers: LiveRegisters) -> Job:
        return Job(self.map, registers, self.memory, self._moved, self._said)

    def _moved(self, layout: BatchLayout, batch: pa.RecordBatch, *, begins: bool, ends: bool) -> None:
        self._profiler.moved(layout, batch, begins=begins, ends=ends)
        rows, write = batch.num_rows, layout.mode is Mode.WRITE
        self._telemetry.emit(lambda time: RowsMoved(time, layout.name, rows, write))

    def _said(self, text: str) -> None:
        self._telemetry.emit(lambda time: KernelText(time, self.kernel.name, text))

    def _show(self, address: int, value: int, response: Response, *, write: bool) -> None:
        """Tell of an access, and of what is odd about it."""
        word = self._bus.write_word(address) if write else self._bus.read_word(address)
        self._telemetry.emit(lambda time: RegisterAccess(time, address, word.name, value, write, response))
        if isinstance(self._watch, HardwareLints):
            if write:
                self._watch.write(address, word)
            else:
                self._watch.read(address, word, Reply(value, response))
