"""A RefSi device: memory, harts and, on M1, the command processor. Host libraries use this interface."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Unpack

import numpy as np

from softcard.core.allocations import Allocator
from softcard.core.device import Device, Telemetry
from softcard.core.errors import AccessFault, BeyondModel, RuleError, SoftcardError, WireError
from softcard.core.event import Probes
from softcard.core.findings import Finding, FindingLog, Findings
from softcard.core.limits import CLOSED
from softcard.core.memory_check import guard_of
from softcard.core.settings import AUTO, FIRST, JIT, NOT_COUNTED, OPTIMISED
from softcard.core.snapshot import Stateful
from softcard.core.space import Ram, SharedRam, Unit
from softcard.core.threads import FORKED, BusyLock
from softcard.device.refsi import registers as r
from softcard.device.refsi.accelerator import Accelerator, Failure
from softcard.device.refsi.cmp import CommandProcessor
from softcard.device.refsi.commands import BufferStatus
from softcard.device.refsi.events import BufferSubmitted, RegistersLeftOut, RegistersTaken
from softcard.device.refsi.guarded import GuardedAllocator, GuardedPort
from softcard.device.refsi.interfaces import HOST, MemorySystem
from softcard.device.refsi.profiler import count
from softcard.device.refsi.profiles import Profile, RefsidrvProfile, SpecProfile
from softcard.device.refsi.refsidrv.devices import ReferenceCrash
from softcard.device.refsi.refsidrv.memory import RefsidrvMemory
from softcard.device.refsi.refsidrv.schedule import RefsidrvSchedule
from softcard.device.refsi.settings import EAGER, RefSiOptions, Settings
from softcard.device.refsi.spec.dma import TransferOrder
from softcard.device.refsi.spec.memory import COHERENT, STRICT, SpecMemory
from softcard.device.refsi.spec.port import SpecPort
from softcard.device.refsi.toolkit.builder import REFSIDRV, SPEC
from softcard.engine.hooks import Executions
from softcard.engine.riscv.api import Engine
from softcard.engine.riscv.checks import hart_checks
from softcard.engine.riscv.hooks import HartChecks, Machine
from softcard.engine.riscv.reference import ReferenceEngine
from softcard.isa.riscv.port import HartPort
from softcard.isa.riscv.state import Hart

if TYPE_CHECKING:
    from softcard.device.refsi.spec.memory import MemoryShadow
    from softcard.engine.riscv.evaluate import Evaluator
    from softcard.engine.riscv.hooks import Shadow
    from softcard.engine.riscv.tracepoints import HartTracepoints
    from softcard.isa.riscv.insn import Insn


# ---- views -----------------------------------------------------------------------------------------------------------
# The memory that the host may write directly, through views. Code in it may change without a notification to engines.


class Views:
    """The address ranges of host memory that were given to the host as views, merged."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, view: memoryview) -> None:
        """Add the range of host addresses of `view`, and merge it with ranges that it overlaps or touches."""
        if not view.nbytes:
            return
        start = int(np.frombuffer(view, dtype=np.uint8).ctypes.data)
        end = start + view.nbytes
        first, last = bisect_left(self._ends, start), bisect_right(self._starts, end)
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]

    def holds(self, start: int, size: int) -> bool:
        """Return True if any of `size` bytes from `start` belongs to an added view."""
        index = bisect_right(self._starts, start + size - 1) - 1
        return index >= 0 and self._ends[index] > start


# ---- device ----------------------------------------------------------------------------------------------------------


FAMILIES: Final = ("m", "g")
COHERENCES: Final = {EAGER: COHERENT, STRICT: STRICT}
REFERENCE_TLB_ENTRIES: Final = 256
PROFILE_LEVEL_COUNTING: Final = 3
"""The profile level from which on counters 3 to 17 count; then all harts run on the reference engine."""
WRONG_KIND: Final = 1
"""The value that the reference driver's allocator returns for a kind of memory other than DRAM."""
PAGE: Final = 4096


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """The result of the driver's query about a device; sizes of registers are in bits."""

    family: str
    cores: int
    harts_per_core: int
    isa: str
    vlen: int
    elen: int
    memory_map: tuple[r.MapEntry, ...]


@dataclass(frozen=True, slots=True)
class KernelStatus:
    """The result of a kernel that the host executed directly, without a command buffer (RefSi G1 only)."""

    entry: int
    harts: int
    steps: int
    error: SoftcardError | None = None
    hart: int | None = None
    pc: int | None = None

    @property
    def ok(self) -> bool:
        """True if all harts ended without an error."""
        return self.error is None


class RefSiDevice(Stateful, Device[Settings]):
    """A RefSi M1 (`family` "m") or G1 ("g"). Its options are `settings`, or single options of `Settings` by name.

    Submitted buffers run, in order, when the host waits or accesses the device. Raise `WireError` for an
    invalid option. `ram` makes the device's plain memories; it is `SharedRam` for memory that another process
    maps. `findings` is the list of the findings of checks."""

    STATE = ("memory", "accelerator", "allocator", "processor", "_g1_harts", "_next_ticket", "_finished")

    def __init__(
        self,
        family: str = "m",
        settings: Settings | None = None,
        *,
        ram: Callable[[int], Ram] = Ram,
        **options: Unpack[RefSiOptions],
    ) -> None:
        if family not in FAMILIES:
            raise WireError(f"family is {family!r}, expected one of {', '.join(FAMILIES)}")
        self.settings = settings = Settings.of(settings, options)
        self._ram = ram
        if family == "g" and settings.profile == SPEC:
            raise BeyondModel("RefSi G1 is modelled only in profile refsidrv, since no document describes it")
        self.family, self.profile_name, self.scale_encoding = family, settings.profile, settings.scale_encoding
        self.cores, self.harts_per_core = settings.cores, settings.harts
        self.probes = Probes()
        self.telemetry = Telemetry(self.probes, lints=settings.lints)
        self.findings: list[Finding] = Findings()
        self._log = settings.log(self.findings)
        self._guard = guard = guard_of(settings.checks, self._log)
        self.desk = self.telemetry.desk
        if self._log is not None:
            self._log.report_to(self.desk.found)
        self.checks: HartChecks = hart_checks(settings.checks, self._machine(), self._log, settings.equal_stores)
        """The checks of the device's harts."""
        self.tracepoints = self._make_tracepoints()
        self.engine = self._make_engine()
        self.accelerator = Accelerator(
            self._port,
            self.engine,
            self.telemetry,
            vlen=settings.vlen or (r.M1_VLEN if family == "m" else r.G1_VLEN),
            step_limit=settings.step_limit,
            time_limit_seconds=settings.time_limit_seconds,
            threads=settings.threads if self._has_threads else 1,
            trace_instances=settings.trace_instances,
        )
        self.accelerator.checks = self.checks
        self.accelerator.tracepoints = self.tracepoints
        self.telemetry.clock = lambda: self.accelerator.steps
        self.allocator = Allocator(r.DRAM_BASE, r.DRAM_SIZE)
        self._guarded = GuardedAllocator(self.allocator, guard, self.accelerator.flush_pages) if guard else None
        self.memory: MemorySystem
        self.processor: CommandProcessor | None = None
        self._g1_harts = r.G1_HARTS
        if settings.profile == SPEC:
            self._build_spec(COHERENCES[settings.coherence])
        else:
            self._build_refsidrv()
        self._schedule: RefsidrvSchedule
        self._views = Views()
        self._queue: list[tuple[int, int, int]] = []
        self._finished: list[BufferStatus] = []
        self._next_ticket = 1
        self._busy_lock = BusyLock()
        self._closed = False
        self._open()

    # -- construction ---------------------------------------------------------------------------------------

    @property
    def _has_threads(self) -> bool:
        """True if groups of harts may run on several threads."""
        settings = self.settings
        is_parallel = self.checks.allows_threads and not settings.snapshots
        return settings.coherence == EAGER and settings.engine == JIT and is_parallel

    def _machine(self) -> Machine:
        """Return the device's harts and memories, as checks see them."""
        settings = self.settings
        has_room = self._ram is Ram or self._is_shared
        return Machine(
            self.cores * self.harts_per_core,
            lambda index: self.accelerator.harts[index],
            self._insn_of,
            _place,
            _page,
            self._rams,
            translates=settings.engine == JIT and not settings.snapshots,
            has_shadow_room=self.profile_name == SPEC and settings.coherence == EAGER and has_room,
        )

    def _rams(self) -> tuple[Ram, ...]:
        """Return the memories that harts share; the result is empty in the profile refsidrv."""
        return self.memory.rams if isinstance(self.memory, SpecMemory) else ()

    def _make_tracepoints(self) -> HartTracepoints | None:
        """Return the object that takes snapshots of harts' registers, None if they are disabled."""
        if not self.settings.snapshots:
            return None
        from softcard.engine.riscv.tracepoints import HartTracepoints, Snapshot

        def emit_snapshot(it: Snapshot | None) -> None:
            most, emit = self.settings.snapshots, self.telemetry.emit
            if it is None:
                emit(lambda time: RegistersLeftOut(time, most))
                return
            emit(lambda time: RegistersTaken(time, it.hart, it.why, it.pc, it.instruction, it.scalars, it.vectors))

        return HartTracepoints(self.settings.snapshots, emit_snapshot)

    def _observe(self, evaluator: Evaluator) -> Any:
        """Return the evaluator of a hart's instructions for checks, which may also take snapshots of registers."""
        observed = self.checks.observe(evaluator)
        return observed if self.tracepoints is None else self.tracepoints.observe(observed)

    def _insn_of(self, hart: Hart, pc: int) -> Insn | None:
        """Return the instruction at `pc` as `hart` would fetch it; None if it cannot be fetched."""
        engine = self.engine
        assert isinstance(engine, ReferenceEngine)
        return engine.peek_insn(engine.context(hart), pc)

    def _make_engine(self) -> Engine:
        checks, counting = self.checks, self.settings.count_instructions
        is_observed = checks.observes or self.tracepoints is not None
        observe: dict[str, Any] = {"observe": self._observe} if is_observed else {}
        reference: Callable[..., Engine] = checks.engine or ReferenceEngine
        kind = self._jit_engine() if checks.is_translated else reference
        if self.profile_name == SPEC:
            return kind(coherent=self.settings.coherence == EAGER, counting=counting, **observe)
        entries = REFERENCE_TLB_ENTRIES
        if self.settings.profile_level >= PROFILE_LEVEL_COUNTING:
            return reference(coherent=False, tlb_entries=entries, on_retire=self._count, counting=counting, **observe)
        return kind(coherent=False, tlb_entries=entries, counting=counting, **observe)

    def _jit_engine(self) -> Callable[..., Engine]:
        """Return a constructor of the JIT engine with the device's settings and checks.

        The engine's module is imported here, because the import loads the compiler."""
        from softcard.engine.riscv.jit.engine import JitEngine
        from softcard.ir import llvm

        tier = {AUTO: None, FIRST: llvm.QUICK, OPTIMISED: llvm.OPTIMISED}[self.settings.tier]
        return partial(self.checks.engine or JitEngine, tier=tier, instrumentation=self.checks.instrumentation)

    def instruction_counts(self) -> dict[int, int]:
        """Return how often the instruction at each pc has retired, on all harts, since the device was created.

        The device needs the setting `count_instructions`; raise `WireError` without it.
        """
        if not self.settings.count_instructions:
            raise WireError(NOT_COUNTED)
        return self.engine.instruction_counts()

    def executions(self) -> Executions:
        """Return the executions of each instruction, by address.

        The device needs the setting `count_instructions`; raise `WireError` without it.
        """
        if not self.settings.count_instructions:
            raise WireError(NOT_COUNTED)
        return self.engine.executions()

    def executed_code(self) -> dict[int, bytes]:
        """Return the bytes of the instruction at each pc of `instruction_counts`, as it was fetched.

        If code at a pc has changed, only one of the instructions at this pc is returned. The device needs the setting
        `count_instructions`; raise `WireError` without it."""
        counts = self.instruction_counts()
        found = self.engine.executed()
        return {pc: found[pc].word.to_bytes(found[pc].length, "little") for pc in sorted(counts)}

    def _port(self, index: int) -> HartPort:
        """Return a hart's port to memory."""
        port = self.memory.port(index)
        if self._guard is None:
            return port
        assert isinstance(port, SpecPort)
        return GuardedPort(port, self._guard, lambda: self.accelerator.harts[index])

    def _count(self, hart: Hart, insn: Any) -> None:
        if self._schedule.profiling:
            count(hart, insn)

    @property
    def _kind_of_ram(self) -> Callable[[int], Ram]:
        """The constructor of plain memory, with the shadow memory that checks need.

        Raise `BeyondModel` if shadow memory is needed and the device was created with a kind of `ram` that cannot
        have it."""
        shadowed = self.checks.ram(self._is_shared)
        if shadowed is None:
            return self._ram
        if self._ram is not Ram and not self._is_shared:
            raise BeyondModel(
                f"check {self.settings.check!r} requires memory of the class Ram or SharedRam, not made by `ram`"
            )
        return shadowed

    @property
    def _is_shared(self) -> bool:
        """True if another process shares the memory."""
        return issubclass(self._ram, SharedRam) if isinstance(self._ram, type) else False

    def _build_spec(self, coherence: str) -> None:
        memory = SpecMemory(
            self.accelerator.counters,
            self.telemetry,
            cores=self.cores,
            harts_per_core=self.harts_per_core,
            dma=self.settings.dma,
            coherence=coherence,
            ram=self._kind_of_ram,
            shadows=None if self.checks.shadow is None else _memory_shadow(self.checks.shadow),
            scale_encoding=self.scale_encoding,
        )
        memory.check_limits = self.accelerator.check_data_limits
        memory.on_remap = self.accelerator.flush_pages
        memory.on_write = self.engine.code_written
        self.memory = memory
        if self.checks.tracker is not None:
            memory.dma.watch = transfers = TransferOrder(self.checks.tracker, memory.dma)
            self.accelerator.outstanding = transfers.outstanding
        profile = SpecProfile(memory, self.accelerator, coherence == COHERENT)
        self.processor = self._command_processor(profile)

    def _build_refsidrv(self) -> None:
        memory = RefsidrvMemory(self.accelerator.counters, self.telemetry, self.family, ram=self._ram)
        memory.check_limits = self.accelerator.check_data_limits
        memory.on_remap = self.engine.remapped
        self.memory = memory
        counting = self.settings.profile_level >= PROFILE_LEVEL_COUNTING
        self._schedule = RefsidrvSchedule(self.accelerator, counting)
        if self.family == "m":
            profile = RefsidrvProfile(memory, self.accelerator, self._schedule)
            self.processor = self._command_processor(profile)

    def _command_processor(self, profile: Profile) -> CommandProcessor:
        is_compiled = self.settings.engine == JIT
        return CommandProcessor(profile, self.telemetry, self.accelerator, compiled=is_compiled)

    def __repr__(self) -> str:
        chosen, count = self.settings, len(self._queue)
        waiting = f", {count} buffer{'s' * (count != 1)} waiting" if count else ""
        return f"<RefSiDevice {self.family.upper()}1, profile {chosen.profile}, engine {chosen.engine}{waiting}>"

    def _made_of(self) -> tuple[object, ...]:
        return (self.family,)

    def _open(self) -> None:
        if self.family == "m":
            self.accelerator.create(self.cores * self.harts_per_core)
            return
        self._g1_harts = r.G1_HARTS
        self.accelerator.create(r.G1_HARTS)
        assert isinstance(self.memory, RefsidrvMemory)
        elf = self.allocator.allocate(r.G1_ELF_SIZE, PAGE)
        harts = self.allocator.allocate(r.G1_HART_SIZE * r.G1_MAX_HARTS, PAGE)
        self.memory.open_g1_windows(elf, harts)

    def reset(self) -> None:
        """Reset the device to its state after opening; probes remain.

        Memory and registers are zero then, the queue of buffers is empty, and all memory is free.
        """
        self._check_open()
        self._queue.clear()
        self._finished.clear()
        self._next_ticket = 1
        self.allocator.reset()
        if self._guarded is not None:
            self._guarded.reset()
        self.memory.reset()
        if self.processor is not None:
            self.processor.reset()
        self._open()

    def close(self) -> None:
        """Drop queued buffers and release the host's memory and threads. Every later call raises `RuleError`.

        If another thread is waiting for a running kernel, the kernel is ended (`Stopped`). If a probe closes the
        device, the kernel ends when the probe has returned. Views of device memory stay valid as long as they are
        referenced, with the contents that they had when the device was closed."""
        self._queue.clear()
        self._closed = True
        self.accelerator.watch.stopped = CLOSED
        if self._busy_lock.wait():
            self._give_back()

    def _give_back(self) -> None:
        for status in self._finished:
            if status.error is not None:
                status.error.__traceback__ = None  # the frames of its traceback have arrays of the memory
        self.accelerator.close()
        self.memory.close()
        if self._guard is not None:
            self._guard.closed()
        self.checks.device_closes()
        if self._log is not None:
            self.desk.report()

    def _check_open(self) -> None:
        if self._closed:
            raise RuleError("the device was closed: open a new one")
        if self._busy_lock.is_lost:
            raise RuleError(FORKED)

    # -- properties ----------------------------------------------------------------------------------

    @property
    def info(self) -> DeviceInfo:
        """The number of cores and harts, the instruction set and the memory map."""
        vlen = self.accelerator.vlen
        if self.family == "m":
            return DeviceInfo("m", self.cores, self.harts_per_core, r.M1_ISA, vlen, r.ELEN, r.M1_MAP)
        return DeviceInfo("g", r.M1_CORES, r.G1_MAX_HARTS, r.G1_ISA, vlen, r.ELEN, r.G1_MAP)

    @property
    def memory_map(self) -> tuple[r.MapEntry, ...]:
        """The memories and register files with their addresses, in the driver's order."""
        return self.info.memory_map

    @property
    def registers(self) -> memoryview[int]:
        """The 40 CMP registers; only M1 has them."""
        return self._processor().registers

    @property
    def log(self) -> FindingLog | None:
        """The log of the findings of checks, from which `findings` is read; None without a check."""
        return self._log

    @property
    def steps(self) -> int:
        """The number of instructions retired by all harts since the device was opened."""
        return self.accelerator.steps

    @property
    def interpreted(self) -> int:
        """The number of instructions that were interpreted instead of executed as machine code."""
        return self.accelerator.engine.interpreted

    # -- memory -------------------------------------------------------------------------------------------------

    def allocate(self, size: int, alignment: int = 1, kind: int = r.MemoryKind.DRAM) -> int:
        """Return the address of `size` bytes of DRAM, or 0 if there is too little free DRAM.

        For other kinds of memory see the choice `refsi/alloc-failure`."""
        self._check_open()
        if kind != r.MemoryKind.DRAM:
            return WRONG_KIND if self.profile_name == REFSIDRV else 0
        allocator = self.allocator if self._guarded is None else self._guarded
        address = allocator.allocate(size, alignment)
        if address and size and isinstance(self.memory, SpecMemory) and self.memory.shadows is not None:
            self.memory.shadows.undefined(self.memory.locate(address, size, HOST, "write"))
        return address

    def lint(self, check: str, message: str) -> None:
        """Report a `Lint` that a host library has found."""
        with self.telemetry.desk:
            self.telemetry.lint(check, message)

    def call_memory(self, address: int, name: str) -> None:
        """Set the name that findings of checks give to the allocation at `address`; do nothing without a check."""
        found = None if self._guard is None else self._guard.allocations.at(address)
        if found is not None:
            found.name = name

    def reserve(self, address: int, size: int) -> bool:
        """Allocate `size` bytes of DRAM at `address`; return False if some of them are in use or not in DRAM."""
        self._check_open()
        taken = self.allocator.reserve(address, size)
        if taken and self._guarded is not None:
            self._guarded.taken(address, size)
        return taken

    def free(self, address: int) -> None:
        """Free memory; an address that was not allocated is ignored. Freeing 0 is allowed, as in C."""
        if address:
            with self.desk:
                (self.allocator if self._guarded is None else self._guarded).free(address)

    def read(self, address: int, size: int, unit: Unit = HOST) -> bytes:
        """Run all submitted buffers, then read `size` bytes at `address` of the address space that `unit` sees.

        Raise `AccessFault` for a refused access."""
        with self.telemetry.desk:
            self._drain_for("read", address, size, unit)
            return self.memory.read(address, size, unit)

    def write(self, address: int, data: bytes, unit: Unit = HOST) -> None:
        """Run all submitted buffers, then write `data` at `address` of the address space that `unit` sees.

        Raise `AccessFault` for a refused access."""
        with self.telemetry.desk:
            self._drain_for("write", address, len(data), unit)
            self.memory.write(address, data, unit)

    def check_range(self, address: int, size: int, unit: Unit = HOST, access: str = "write") -> None:
        """Run all submitted buffers, then raise `AccessFault` unless `unit` may access all `size` bytes at `address`.

        `access` is "read" or "write"."""
        self.drain()
        self.memory.check_range(address, size, unit, access)

    def view(self, address: int, size: int) -> memoryview | None:
        """Return `size` bytes at `address` as a view that shares memory with the device.

        Return None if the bytes are not plain memory. If code is written through the view, the next buffer
        executes the new code."""
        if self._log is None:
            return self._view(address, size)
        with self.desk:
            return self._view(address, size)

    def _view(self, address: int, size: int) -> memoryview | None:
        self._drain_for("read", address, size, HOST)
        view = self.memory.view(address, size)
        if view is not None:
            self._views.add(view)
        return view

    def _drain_for(self, access: str, address: int, size: int, unit: Unit) -> None:
        """Run the queued buffers, because the host or another `unit` is about to access `size` bytes at `address`.

        If a check tracks the order of accesses and the host has not waited for these buffers, compare the access with
        those of the buffers."""
        tracker = self.checks.tracker
        if tracker is None or unit != HOST or not self._queue or self._busy_lock or not size:
            self.drain()
            return
        tracker.remember()
        self.drain()
        assert isinstance(self.memory, SpecMemory)
        with suppress(AccessFault):  # the access itself raises the error
            place = self.memory.locate(address, size, HOST, access)
            if place.ram is not None:
                base = place.ram.base_host - place.mapping.base
                tracker.host(access, address, [(base + at, base + at + length) for at, length in place.runs()])

    # -- M1: command buffers ------------------------------------------------------------------------------------

    def submit(self, address: int, size: int) -> int:
        """Queue the command buffer of `size` bytes at `address`; return its ticket."""
        self._check_open()
        self._processor()
        if size < 0:
            raise WireError(f"the size of the buffer is {size} bytes, expected 0 or more")
        ticket = self._next_ticket
        self._next_ticket += 1
        self._queue.append((ticket, address, size))
        if self.probes.active:
            # Probes that access the device do not start the buffer.
            with nullcontext() if self._busy_lock else self._busy_lock:
                self.telemetry.emit(lambda time: BufferSubmitted(time, ticket, address, size))
        return ticket

    def wait(self) -> list[BufferStatus]:
        """Run all submitted buffers until the device is idle; return the statuses that were not yet returned."""
        with self.desk:
            self.drain()
            if self.memory.is_moving:
                self._flush()
        finished, self._finished = self._finished, []
        return finished

    def drain(self) -> None:
        """Run the queued buffers. Do nothing if a buffer is already running: a probe may access the device then."""
        self._check_open()
        if self._busy_lock or not self._queue:
            return
        try:
            with self._busy_lock, self.telemetry.desk:
                self._check_open()
                while self._queue:
                    ticket, address, size = self._queue.pop(0)
                    self.engine.code_exposed(self._views.holds)
                    self._finished.append(self._processor().execute(ticket, address, size))
        finally:
            if self._closed:
                self._give_back()

    def _flush(self) -> None:
        """Complete outstanding DMA transfers."""
        if self._busy_lock.is_mine:
            self.memory.flush()
            return
        try:
            with self._busy_lock:
                if not self._closed:
                    self.accelerator.begin()
                    self.memory.flush()
        finally:
            self.accelerator.rest()
            if self._closed:
                self._give_back()

    def _processor(self) -> CommandProcessor:
        if self.processor is None:
            raise RuleError("RefSi G1 has no command processor: run kernels with execute_kernel")
        return self.processor

    # -- G1: direct execution -----------------------------------------------------------------------------------

    def execute_kernel(self, entry: int, harts: int) -> KernelStatus:
        """Boot `harts` new harts from the loader ROM, and run them until all have exited (RefSi G1 only).

        When hart 0 reaches `entry`, the counters of all harts are set to zero."""
        self._check_open()
        if self.family != "g":
            raise RuleError("RefSi M1 runs kernels only from command buffers: submit a command buffer")
        before = self.steps
        try:
            with self._busy_lock:
                self._check_open()
                failure = self._run_boot(entry, harts)
                steps = self.steps - before
        finally:
            if self._closed:
                self._give_back()
        if failure is None:
            return KernelStatus(entry, harts, steps)
        return KernelStatus(entry, harts, steps, failure.located(), failure.hart, failure.pc)

    def _run_boot(self, entry: int, harts: int) -> Failure | None:
        too_many = max(harts, self._g1_harts) > r.G1_MAX_HARTS
        self._g1_harts = harts
        if too_many:
            return Failure(
                RuleError(f"the kernel needs {harts} harts, but the device has {r.G1_MAX_HARTS}; open the device anew")
            )
        if harts < 1:
            return Failure(
                ReferenceCrash("the kernel would run on 0 harts, for which the reference driver uses a null pointer")
            )
        self.accelerator.create(harts)
        return self._schedule.run_boot(harts, entry, r.G1_RESET_PC)

    # -- snapshots ----------------------------------------------------------------------------------------------

    def snapshot(self) -> object:
        """Run submitted buffers until the device is idle; return its state, an opaque object, for `restore`."""
        self.drain()
        self._flush()
        return super().snapshot()

    def restore(self, state: object) -> None:
        """Return to a snapshot of this device, or of a device with the same options; queued buffers are dropped."""
        self._check_open()
        self._queue.clear()
        super().restore(state)


def _memory_shadow(shadow: Shadow) -> MemoryShadow:
    """Return the shadow memory (definedness) of a device's memory.

    The module is imported here, because few devices need it."""
    from softcard.device.refsi.spec.memory import MemoryShadow

    return MemoryShadow(shadow)


def _place(hart: Hart, address: int) -> int | None:
    """Return the host address of the byte that `hart` accesses at `address`; None if it is not in memory."""
    port = hart.port
    return port.place(address) if isinstance(port, SpecPort | GuardedPort) else None


def _page(hart: Hart, address: int) -> int | None:
    """Return the host address minus the guest address for loads by `hart` from the page that contains `address`.

    Return None if the page cannot be accessed directly. Pages that are not allocated are included even if the
    memory check is enabled."""
    port = hart.port
    return port.whole_page(address) if isinstance(port, GuardedPort) else port.page(address, "load")
