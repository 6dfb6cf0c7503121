"""The Fletcher device: the register file on its bus, a kernel, its profile counters, and device memory."""

from __future__ import annotations

from typing import Final, Unpack

import pyarrow as pa

from softcard.core.device import CountingTelemetry, Device
from softcard.core.errors import RuleError, SoftcardError, WireError
from softcard.core.event import Probes
from softcard.core.snapshot import Stateful
from softcard.device.fletcher.bus import ALL_LANES, Bus, FieldStore, HardwareBus, Reply, Response, check_address
from softcard.device.fletcher.bus_spec import SpecBus
from softcard.device.fletcher.events import DeviceReset, KernelText, RegisterAccess, RowsMoved
from softcard.device.fletcher.execution import Execution
from softcard.device.fletcher.job import Job
from softcard.device.fletcher.kernel import FLETCHER_MODE, FLETCHER_NAME, Kernel
from softcard.device.fletcher.lints import HardwareLints, Lints, Shadow
from softcard.device.fletcher.machine import Do, Machine, State
from softcard.device.fletcher.map.flatten import type_of
from softcard.device.fletcher.map.layout import BatchLayout, FletcherMap, Mode
from softcard.device.fletcher.map.registers import parse_custom
from softcard.device.fletcher.memory import DeviceMemory
from softcard.device.fletcher.profiler import Profiler
from softcard.device.fletcher.runner import LiveRegisters
from softcard.device.fletcher.settings import FletcherOptions, Settings

# ---- fit of a kernel -------------------------------------------------------------------------------------------------
# The check that a kernel fits a register map: the map must contain all that the kernel needs.


def check_kernel(layout: FletcherMap, kernel: Kernel) -> None:
    """Raise a `WireError` if the map `layout` lacks registers or RecordBatches that `kernel` needs.

    The error message lists them."""
    try:
        for schema in kernel.schemas:
            _check_schema(layout, schema)
        for text in kernel.custom:
            wanted = parse_custom(text)
            found = layout.custom(wanted.name)
            if (found.behaviour, found.width) != (wanted.behaviour, wanted.width):
                raise WireError(
                    f"custom register {found.name} of the register map is {found.behaviour}:{found.width}, "
                    f"but the kernel needs {wanted.behaviour}:{wanted.width}"
                )
    except SoftcardError as error:
        raise error.at("kernel", kernel.name) from None


def _check_schema(layout: FletcherMap, schema: pa.Schema) -> None:
    metadata = schema.metadata or {}
    name = metadata.get(FLETCHER_NAME, b"").decode("utf-8", "replace")
    mode = metadata.get(FLETCHER_MODE, b"read").decode("utf-8", "replace")
    batch = layout.batch(name)
    if batch.mode.value != mode:
        raise WireError(
            f"RecordBatch {name} of the register map has mode {batch.mode.value!r}, but the kernel needs {mode!r}"
        )
    wanted = [(field.name, field.type, field.nullable) for field in schema]
    given = [(field.name, field.type, field.nullable) for field in batch.schema]
    if wanted != given:
        raise WireError(
            f"RecordBatch {name} of the register map has {_text(batch.schema)}, but the kernel needs {_text(schema)}"
        )


def _text(schema: pa.Schema) -> str:
    return "{" + ", ".join(type_of(field, named=True) for field in schema) + "}"


# ---- device ----------------------------------------------------------------------------------------------------------


PROFILE_CLEAR: Final = "Profile_clear"


class FletcherDevice(Stateful, Device[Settings]):
    """A Fletcher design: the registers of a map, and the kernel that they control.

    `read` and `write` are accesses on the bus, at byte addresses.

    In profile "spec", an access that the Fletcher specification does not allow raises a `RuleError`. An error in the
    kernel is raised by the register access in which it occurs, or by the next one if the kernel has its own thread.

    In profile "hardware", the bus answers as the generated hardware does, and a kernel that fails stays busy;
    `last_error` has the reason. A `KernelFailure`, which is a bug in the kernel itself, is raised in both profiles.

    Give `settings`, or options of `Settings` by name. Any thread may call the methods. Probes are called while the
    device's lock is held: they must not wait for another thread that uses the device.
    """

    STATE = ("_store", "_bus", "_machine", "_telemetry", "memory")

    def __init__(
        self,
        layout: FletcherMap,
        kernel: Kernel,
        settings: Settings | None = None,
        *,
        memory: DeviceMemory | None = None,
        **options: Unpack[FletcherOptions],
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
        self._is_closed = False
        self._execution = Execution(kernel, self.settings, self._machine, self._store, self._telemetry)
        self._initialize()

    def __repr__(self) -> str:
        return f"<FletcherDevice kernel {self.kernel.name}, profile {self.settings.profile}, {self.state.value}>"

    def _made_of(self) -> tuple[object, ...]:
        return (self.map, self.kernel)

    # ---- properties ------------------------------------------------------------------------------------------------

    @property
    def probes(self) -> Probes:
        """The probes of the device, through which observers subscribe to events."""
        return self._telemetry.probes

    @property
    def time(self) -> int:
        """The number of register accesses since the device was created."""
        return self._telemetry.time

    @property
    def state(self) -> State:
        """The state of the kernel: idle, busy or done."""
        return self._machine.state

    @property
    def last_error(self) -> SoftcardError | None:
        """The reason why the kernel never finishes, or None; start, stop and reset clear it."""
        return self._execution.last_error

    @property
    def is_stuck(self) -> bool:
        """True if the kernel is busy and never finishes; `last_error` has the reason.

        Only stop or reset end this state.
        """
        with self._execution.lock:
            return self._execution.is_stuck

    def value(self, name: str) -> int:
        """Return the value of the field called `name`, without a bus access, as a debugger would."""
        with self._execution.lock:
            return self._store.named(name)

    # ---- the bus -------------------------------------------------------------------------------------------------

    def read(self, address: int) -> Reply:
        """Read the bus word at byte `address`; it has 32 or 64 bits, the width of the map's bus.

        The result can be unpacked as value and response.
        """
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
            raise WireError(f"the written value {value:#x} does not fit {self.map.bus_width} bits").at(
                "address", address
            )
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
        """Emit the lint `check` about `error`, a mistake that the host's library has detected.

        The library tolerates the mistake, as Fletcher's real library does.
        """
        with self._telemetry.desk:
            self._lints.report(check, error.message, error.rule)

    # ---- the kernel ----------------------------------------------------------------------------------------------

    def step(self, slices: int = 1) -> int:
        """Execute up to `slices` slices of a synchronous kernel; return the number of executed slices.

        The device's setting `pacing`, the number of slices in each register access, has no effect here. Raise
        `RuleError` if the kernel has its own thread."""
        self._check_open()
        if self.settings.threaded:
            raise RuleError("step requires execution 'synchronous': a threaded device executes by itself")
        with self._telemetry.desk, self._execution.lock:
            done = self._execution.slices(slices)
            self._execution.raise_pending()
            return done

    def wait_idle(self, timeout_seconds: float | None = None) -> bool:
        """Wait until a threaded kernel is idle, done or stuck; return False if it is still busy.

        Return at once for a synchronous kernel.
        """
        with self._execution.lock:
            return self._execution.wait_idle(timeout_seconds)

    def abandon(self, cause: BaseException) -> None:
        """End the running kernel because the host stopped waiting for it.

        `cause` is the reason, for example Ctrl-C. Until a reset, the kernel stays busy and never finishes; `last_error`
        has the reason.
        """
        with self._execution.lock:
            self._execution.abandon(cause)

    def reset(self) -> None:
        """Reset the whole design to its power-on state: registers, kernel and counters.

        Device memory is unchanged.
        """
        self._check_open()
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
        """Stop the device permanently; the kernel's thread ends.

        A thread that waits for a running kernel gets an error with the kernel's current line.
        """
        self._execution.close()
        self._is_closed = True

    @property
    def is_closed(self) -> bool:
        """True if the device was closed with `close`."""
        return self._is_closed

    def _check_open(self) -> None:
        if self.is_closed:
            raise RuleError("the device was closed: open a new one")

    def snapshot(self) -> object:
        """Return the whole state, including device memory, for `restore`.

        Raise `RuleError` if the kernel is busy.
        """
        self._check_open()
        with self._execution.lock:
            if self.state is State.BUSY:
                raise RuleError(
                    f"cannot take a snapshot while kernel {self.kernel.name} is busy: wait until it is done"
                )
            return super().snapshot()

    def restore(self, state: object) -> None:
        """Return to a state that `snapshot` returned."""
        self._check_open()
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
                raise WireError(
                    "profile 'hardware' requires a register map of profile 'fletchgen' or 'runtime', not 'spec'"
                )
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
        """Carry out the actions of the strobe fields called `pulses`, which the host wrote.

        Return True if the kernel was started.
        """
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
        return Job(self.map, registers, self.memory, self._moved, self._noted)

    def _moved(self, layout: BatchLayout, batch: pa.RecordBatch, *, begins: bool, ends: bool) -> None:
        self._profiler.moved(layout, batch, begins=begins, ends=ends)
        rows, write = batch.num_rows, layout.mode is Mode.WRITE
        self._telemetry.emit(lambda time: RowsMoved(time, layout.name, rows, write))

    def _noted(self, text: str) -> None:
        self._telemetry.emit(lambda time: KernelText(time, self.kernel.name, text))

    def _show(self, address: int, value: int, response: Response, *, write: bool) -> None:
        """Emit the event of a register access, and the lints about the access."""
        word = self._bus.write_word(address) if write else self._bus.read_word(address)
        self._telemetry.emit(lambda time: RegisterAccess(time, address, word.name, value, write, response))
        if isinstance(self._watch, HardwareLints):
            if write:
                self._watch.write(address, word)
            else:
                self._watch.read(address, word, Reply(value, response))
