"""A RefSi device: memory, harts and, on M1, the command processor. What host libraries and players drive."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from understudy.core.allocator import Allocator
from understudy.core.checks import INIT, RACES, WAITS
from understudy.core.device import Device
from understudy.core.errors import AccessFault, BeyondModel, RuleError, UnderstudyError, WireError
from understudy.core.event import Probes
from understudy.core.findings import Finding, FindingLog
from understudy.core.forks import FORKED
from understudy.core.limits import CLOSED
from understudy.core.memory_check import MemoryCheck, log_of
from understudy.core.occupied import Occupied
from understudy.core.settings import AUTO, FIRST, JIT, NOT_COUNTED, OPTIMISED
from understudy.core.snapshot import Stateful
from understudy.core.space import Ram, Unit
from understudy.core.telemetry import Telemetry
from understudy.device.refsi import registers as r
from understudy.device.refsi.accelerator import Accelerator, Failure
from understudy.device.refsi.checked import CheckedAllocator, CheckedPort
from understudy.device.refsi.cmp import CommandProcessor
from understudy.device.refsi.events import BufferSubmitted, RegistersLeftOut, RegistersTaken
from understudy.device.refsi.interfaces import HOST, MemorySystem
from understudy.device.refsi.profiler import count
from understudy.device.refsi.profiles import Profile, RefsidrvProfile, SpecProfile
from understudy.device.refsi.refsidrv.devices import ReferenceCrash
from understudy.device.refsi.refsidrv.memory import RefsidrvMemory
from understudy.device.refsi.refsidrv.schedule import RefsidrvSchedule
from understudy.device.refsi.settings import EAGER, Settings
from understudy.device.refsi.spec.memory import COHERENT, STRICT, SpecMemory
from understudy.device.refsi.spec.port import SpecPort
from understudy.device.refsi.status import BufferStatus
from understudy.device.refsi.toolkit.builder import REFSIDRV, SPEC
from understudy.device.refsi.views import Views
from understudy.engine.riscv.api import Engine
from understudy.engine.riscv.reference import ReferenceEngine
from understudy.isa.riscv.port import HartPort
from understudy.isa.riscv.state import Hart

if TYPE_CHECKING:
    from understudy.device.refsi.spec.marks import MemoryMarks
    from understudy.engine.riscv.evaluate import Evaluator
    from understudy.engine.riscv.marks.check import MarkCheck
    from understudy.engine.riscv.moments import HartMoments
    from understudy.engine.riscv.races.watch import Races
    from understudy.isa.riscv.insn import Insn

FAMILIES: Final = ("m", "g")
COHERENCES: Final = {EAGER: COHERENT, STRICT: STRICT}
REFERENCE_TLB_ENTRIES: Final = 256
PROFILE_LEVEL_COUNTING: Final = 3
"""From this level on counters 3 to 17 count; then everything runs on the reference engine."""
WRONG_KIND: Final = 1
"""What the reference's allocator gives for memory other than DRAM."""
PAGE: Final = 4096


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What the driver's query tells: sizes of registers in bits."""

    family: str
    cores: int
    harts_per_core: int
    isa: str
    vlen: int
    elen: int
    memory_map: tuple[r.MapEntry, ...]


@dataclass(frozen=True, slots=True)
class KernelStatus:
    """What became of a kernel that the host executed directly (G1)."""

    entry: int
    harts: int
    steps: int
    error: UnderstudyError | None = None
    hart: int | None = None
    pc: int | None = None

    @property
    def ok(self) -> bool:
        """Whether all harts ended well."""
        return self.error is None


class RefSiDevice(Stateful, Device[Settings]):
    """RefSi M1 (`family` "m") or G1 ("g"). Give `settings`, or options of `Settings` by name.

    Submitted buffers run, in order, when somebody waits or looks at the device. A bad option is a `WireError`. `ram`
    makes its plain memories: `SharedRam` for one that another process reaches without asking. `findings` are those of
    checks, by site.
    """

    STATE = ("memory", "accelerator", "allocator", "processor", "_g1_harts", "_next_ticket", "_finished")

    def __init__(
        self,
        family: str = "m",
        settings: Settings | None = None,
        *,
        ram: Callable[[int], Ram] = Ram,
        **options: Any,
    ) -> None:
        if family not in FAMILIES:
            raise WireError(f"family {family!r}, expected one of {', '.join(FAMILIES)}")
        self.settings = settings = Settings.of(settings, options)
        self._ram = ram
        if family == "g" and settings.profile == SPEC:
            raise BeyondModel("RefSi G1 has no command processor and no document: it exists in the profile refsidrv")
        self.family, self.profile_name = family, settings.profile
        self.cores, self.harts_per_core = settings.cores, settings.harts
        self.probes = Probes()
        self.telemetry = Telemetry(self.probes, lints=settings.lints)
        self.findings: list[Finding] = []
        self._check = check = MemoryCheck.of(settings, self.findings)
        self._log = check.log if check is not None else log_of(settings, self.findings) if settings.checks else None
        self._marks, self._races = self._make_marks(), self._make_races()
        self.moments = self._make_moments()
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
        self.accelerator.marks, self.accelerator.races = self._marks, self._races
        self.accelerator.moments = self.moments
        self.telemetry.clock = lambda: self.accelerator.steps
        self.allocator = Allocator(r.DRAM_BASE, r.DRAM_SIZE)
        self._checked = CheckedAllocator(self.allocator, check, self.accelerator.flush_pages) if check else None
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
        self._occupied = Occupied()
        self._closed = False
        self._open()

    # -- making the parts ---------------------------------------------------------------------------------------

    @property
    def _has_threads(self) -> bool:
        """Whether groups may run on several threads."""
        settings = self.settings
        is_alone = settings.checks & {WAITS, RACES} or settings.snapshots
        return settings.coherence == EAGER and settings.engine == JIT and not is_alone

    def _make_marks(self) -> MarkCheck | None:
        """What looks for values that nobody has written, where that is asked for."""
        if INIT not in self.settings.checks or self._log is None:
            return None
        from understudy.engine.riscv.marks.check import MarkCheck

        return MarkCheck(self._log, self._insn_of)

    def _make_races(self) -> Races | None:
        """What looks for races, where that is asked for."""
        if RACES not in self.settings.checks or self._log is None:
            return None
        if self._is_translated:
            from understudy.engine.riscv.races.native_judge import NativeHartRaces

            count = self.cores * self.harts_per_core
            return NativeHartRaces(
                self._log,
                _place,
                self.settings.equal_stores,
                count,
                lambda index: self.accelerator.harts[index],
                self._insn_of,
                self._rams,
            )
        from understudy.engine.riscv.races.watch import HartRaces

        return HartRaces(self._log, _place, self.settings.equal_stores)

    @property
    def _is_translated(self) -> bool:
        """Whether harts run as machine code."""
        checks, count = self.settings.checks, self.cores * self.harts_per_core
        if self.settings.engine != JIT or self.settings.snapshots:
            return False
        if not checks & {RACES, WAITS}:
            return True
        if WAITS in checks and not self._notes_stores:
            return False
        from understudy.engine.riscv.races.codes import MOST_HARTS
        from understudy.ir import llvm

        return llvm.is_x86() and (RACES not in checks or count <= MOST_HARTS)

    @property
    def _notes_stores(self) -> bool:
        """Whether translated code may note its stores: its code is coherent, and there is room beside memory."""
        return self.profile_name == SPEC and self.settings.coherence == EAGER and self._ram is Ram

    def _rams(self) -> tuple[Ram, ...]:
        """The memories that harts share."""
        return self.memory.rams if isinstance(self.memory, SpecMemory) else ()

    def _make_moments(self) -> HartMoments | None:
        """What takes registers of harts, where that is asked for."""
        if not self.settings.snapshots:
            return None
        from understudy.engine.riscv.moments import HartMoments, Snapshot

        def tell(it: Snapshot | None) -> None:
            most, emit = self.settings.snapshots, self.telemetry.emit
            if it is None:
                emit(lambda time: RegistersLeftOut(time, most))
                return
            emit(lambda time: RegistersTaken(time, it.hart, it.why, it.pc, it.instruction, it.scalars, it.vectors))

        return HartMoments(self.settings.snapshots, tell)

    def _dress(self, evaluator: Evaluator) -> Any:
        """What instructions are executed on where values are checked, and perhaps accesses."""
        assert self._marks is not None
        return self._marks.dress(evaluator if self._races is None else self._races.dress(evaluator))

    def _insn_of(self, hart: Hart, pc: int) -> Insn | None:
        """The instruction that a hart has at an address."""
        engine = self.engine
        assert isinstance(engine, ReferenceEngine)
        return engine.peek_insn(engine.context(hart), pc)

    def _make_engine(self) -> Engine:
        reference: Callable[..., Engine] = ReferenceEngine
        waits = self._log if WAITS in self.settings.checks else None
        if waits is not None:
            reference = _code_store_engine(waits)
        kind = self._jit_engine(waits) if self._is_translated else reference
        counting = self.settings.count_instructions
        if self._marks is not None:
            return kind(coherent=True, counting=counting, dress=self._dress)
        if self._races is not None:
            return kind(coherent=True, counting=counting, dress=self._races.dress)
        dressed: dict[str, Any] = {} if self.moments is None else {"dress": self.moments.dress}
        if self.profile_name == SPEC:
            return kind(coherent=self.settings.coherence == EAGER, counting=counting, **dressed)
        entries = REFERENCE_TLB_ENTRIES
        if self.settings.profile_level >= PROFILE_LEVEL_COUNTING:
            return reference(coherent=False, tlb_entries=entries, on_retire=self._count, counting=counting, **dressed)
        return kind(coherent=False, tlb_entries=entries, counting=counting, **dressed)

    def _jit_engine(self, waits: FindingLog | None) -> Callable[..., Engine]:
        """Imported where it is needed: it brings the compiler along."""
        from understudy.engine.riscv.jit.engine import JitEngine
        from understudy.ir import llvm

        made: Callable[..., Engine] = JitEngine
        more: dict[str, Any] = {}
        if waits is not None:
            from understudy.engine.riscv.code_stores.translated import TranslatedCodeStoreEngine

            made = partial(TranslatedCodeStoreEngine, waits.note, rams=self._rams, page=_page)
        if self._marks is not None:
            from understudy.engine.riscv.marks.translated import MARKING

            more["performing"] = MARKING
        if self._races is not None:
            from understudy.engine.riscv.races.translated import looking

            more["looking"] = looking(self.cores * self.harts_per_core)
        tier = {AUTO: None, FIRST: llvm.QUICK, OPTIMISED: llvm.OPTIMISED}[self.settings.tier]
        return partial(made, tier=tier, **more)

    def instruction_counts(self) -> dict[int, int]:
        """How often the instruction at each pc has retired, on all harts, since the device was made.

        For a device of the setting `count_instructions`; `WireError` for another.
        """
        if not self.settings.count_instructions:
            raise WireError(NOT_COUNTED)
        return self.engine.instruction_counts()

    def executed_code(self) -> dict[int, bytes]:
        """The instruction at each pc that `instruction_counts` has, as it was fetched: where there were several, one.

        For a device of the setting `count_instructions`; `WireError` for another.
        """
        counts = self.instruction_counts()
        found = self.engine.executed()
        return {pc: found[pc].word.to_bytes(found[pc].length, "little") for pc in sorted(counts)}

    def _port(self, index: int) -> HartPort:
        """A hart's way to memory."""
        port = self.memory.port(index)
        if self._check is None:
            return port
        assert isinstance(port, SpecPort)
        return CheckedPort(port, self._check, lambda: self.accelerator.harts[index])

    def _count(self, hart: Hart, insn: Any) -> None:
        if self._schedule.profiling:
            count(hart, insn)

    @property
    def _kind_of_ram(self) -> Callable[[int], Ram]:
        """What makes plain memory; `BeyondModel` where that has to have room for marks and is shared."""
        if self._marks is not None and self._ram is not Ram:
            raise BeyondModel(f"check {INIT!r} of a device whose memory another process shares")
        if WAITS in self.settings.checks and self._is_translated:
            return _store_ram()
        return self._ram if self._marks is None else _marked_ram()

    def _build_spec(self, coherence: str) -> None:
        memory = SpecMemory(
            self.accelerator.counters,
            self.telemetry,
            cores=self.cores,
            harts_per_core=self.harts_per_core,
            dma=self.settings.dma,
            coherence=coherence,
            ram=self._kind_of_ram,
            marks=None if self._marks is None else _memory_marks(self._marks),
        )
        memory.look = self.accelerator.look_at_data
        memory.on_remap = self.accelerator.flush_pages
        memory.on_write = self.engine.code_written
        self.memory = memory
        if self._races is not None:
            from understudy.device.refsi.spec.races import TransferRaces

            memory.dma.watch = transfers = TransferRaces(self._races, memory.dma)
            self.accelerator.outstanding = transfers.outstanding
        profile = SpecProfile(memory, self.accelerator, coherence == COHERENT)
        self.processor = self._command_processor(profile)

    def _build_refsidrv(self) -> None:
        memory = RefsidrvMemory(self.accelerator.counters, self.telemetry, self.family, ram=self._ram)
        memory.look = self.accelerator.look_at_data
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

    def _made_of(self) -> tuple[Any, ...]:
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
        """As after opening: memory and registers zero, nothing queued, nothing allocated. Probes stay."""
        self._check_open()
        self._queue.clear()
        self._finished.clear()
        self._next_ticket = 1
        self.allocator.reset()
        if self._checked is not None:
            self._checked.reset()
        self.memory.reset()
        if self.processor is not None:
            self.processor.reset()
        self._open()

    def close(self) -> None:
        """Drop what is queued and give the host's memory and threads back. Every later call is a `RuleError`.

        A kernel that another thread waits for is ended (`Stopped`); where a probe closes the device, it is when the
        probe has returned. Views of device memory stay valid as long as somebody has them, with what was there at the
        end.
        """
        self._queue.clear()
        self._closed = True
        self.accelerator.watch.stopped = CLOSED
        if self._occupied.wait():
            self._give_back()

    def _give_back(self) -> None:
        for status in self._finished:
            if status.error is not None:
                status.error.__traceback__ = None  # its frames have arrays of the memory
        self.accelerator.close()
        self.memory.close()
        if self._check is not None:
            self._check.closed()

    def _check_open(self) -> None:
        if self._closed:
            raise RuleError("the device was closed, expected an open one")
        if self._occupied.is_lost:
            raise RuleError(FORKED)

    # -- what the host can ask ----------------------------------------------------------------------------------

    @property
    def info(self) -> DeviceInfo:
        """Cores, harts, instruction set and memory map."""
        vlen = self.accelerator.vlen
        if self.family == "m":
            return DeviceInfo("m", self.cores, self.harts_per_core, r.M1_ISA, vlen, r.ELEN, r.M1_MAP)
        return DeviceInfo("g", r.M1_CORES, r.G1_MAX_HARTS, r.G1_ISA, vlen, r.ELEN, r.G1_MAP)

    @property
    def memory_map(self) -> tuple[r.MapEntry, ...]:
        """Memories and register files, in the driver's order."""
        return self.info.memory_map

    @property
    def registers(self) -> memoryview[int]:
        """The 40 CMP registers (M1)."""
        return self._processor().registers

    @property
    def log(self) -> FindingLog | None:
        """Where findings of checks go, which `findings` has; None where there is no check."""
        return self._log

    @property
    def steps(self) -> int:
        """Instructions retired by all harts since the device was opened."""
        return self.accelerator.steps

    @property
    def interpreted(self) -> int:
        """Those of them that were executed one by one instead of as machine code."""
        return self.accelerator.engine.interpreted

    # -- memory -------------------------------------------------------------------------------------------------

    def allocate(self, size: int, alignment: int = 1, kind: int = r.MemoryKind.DRAM) -> int:
        """Address of `size` bytes of DRAM, 0 if there is no room; other kinds: see choice `refsi/alloc-failure`."""
        if kind != r.MemoryKind.DRAM:
            return WRONG_KIND if self.profile_name == REFSIDRV else 0
        allocator = self.allocator if self._checked is None else self._checked
        address = allocator.allocate(size, alignment)
        if address and size and isinstance(self.memory, SpecMemory) and self.memory.marks is not None:
            self.memory.marks.undefined(self.memory.locate(address, size, HOST, "write"))
        return address

    def call_memory(self, address: int, name: str) -> None:
        """What findings of checks shall call the memory that `allocate` gave there; nothing without a check."""
        found = None if self._check is None else self._check.allocations.at(address)
        if found is not None:
            found.name = name

    def reserve(self, address: int, size: int) -> bool:
        """Take the DRAM at `address`, as `allocate` would have given it; False where it is in use or none."""
        taken = self.allocator.reserve(address, size)
        if taken and self._checked is not None:
            self._checked.taken(address, size)
        return taken

    def free(self, address: int) -> None:
        """Give memory back; an address that was not allocated is ignored."""
        (self.allocator if self._checked is None else self._checked).free(address)

    def read(self, address: int, size: int, unit: Unit = HOST) -> bytes:
        """Read `size` bytes as `unit`, after all submitted buffers; `AccessFault` where that is refused."""
        with self.telemetry.desk:
            self._drain_for("read", address, size, unit)
            return self.memory.read(address, size, unit)

    def write(self, address: int, data: bytes, unit: Unit = HOST) -> None:
        """Write as `unit`, likewise."""
        with self.telemetry.desk:
            self._drain_for("write", address, len(data), unit)
            self.memory.write(address, data, unit)

    def view(self, address: int, size: int) -> memoryview | None:
        """The bytes themselves, shared with the device, or None where they are not plain memory.

        Code written there is seen by the next buffer.
        """
        self._drain_for("read", address, size, HOST)
        view = self.memory.view(address, size)
        if view is not None:
            self._views.add(view)
        return view

    def _drain_for(self, access: str, address: int, size: int, unit: Unit) -> None:
        """Run what is queued before the host accesses memory: it has not waited for that."""
        races = self._races
        if races is None or unit != HOST or not self._queue or self._occupied or not size:
            self.drain()
            return
        races.keep()
        self.drain()
        assert isinstance(self.memory, SpecMemory)
        with suppress(AccessFault):  # the access itself is refused, and says why
            place = self.memory.locate(address, size, HOST, access)
            if place.ram is not None:
                base = place.ram.base_host - place.mapping.base
                races.host(access, address, [(base + at, base + at + length) for at, length in place.runs()])

    # -- M1: command buffers ------------------------------------------------------------------------------------

    def submit(self, address: int, size: int) -> int:
        """Queue the command buffer of `size` bytes at `address`; gives its ticket."""
        self._check_open()
        self._processor()
        if size < 0:
            raise WireError(f"a buffer of {size} bytes")
        ticket = self._next_ticket
        self._next_ticket += 1
        self._queue.append((ticket, address, size))
        if self.probes.active:
            # Probes that look at the device do not start the buffer.
            with nullcontext() if self._occupied else self._occupied:
                self.telemetry.emit(lambda time: BufferSubmitted(time, ticket, address, size))
        return ticket

    def wait(self) -> list[BufferStatus]:
        """Run everything that was submitted until the device is idle; gives the statuses not yet given."""
        self.drain()
        if self.memory.is_moving:
            self._settle()
        finished, self._finished = self._finished, []
        return finished

    def drain(self) -> None:
        """Run the buffers that are queued; nothing while one runs, so that probes may look at the device."""
        self._check_open()
        if self._occupied or not self._queue:
            return
        try:
            with self._occupied, self.telemetry.desk:
                self._check_open()
                while self._queue:
                    ticket, address, size = self._queue.pop(0)
                    self.engine.code_exposed(self._views.holds)
                    self._finished.append(self._processor().execute(ticket, address, size))
        finally:
            if self._closed:
                self._give_back()

    def _settle(self) -> None:
        """Have nothing under way."""
        if self._occupied.is_mine:
            self.memory.settle()
            return
        try:
            with self._occupied:
                if not self._closed:
                    self.accelerator.begin()
                    self.memory.settle()
        finally:
            self.accelerator.rest()
            if self._closed:
                self._give_back()

    def _processor(self) -> CommandProcessor:
        if self.processor is None:
            raise RuleError("RefSi G1 has no command processor: kernels are executed directly")
        return self.processor

    # -- G1: direct execution -----------------------------------------------------------------------------------

    def execute_kernel(self, entry: int, harts: int) -> KernelStatus:
        """Boot `harts` new harts from the loader ROM and run them until all have exited (G1).

        Their counters start at zero when hart 0 reaches `entry`.
        """
        self._check_open()
        if self.family != "g":
            raise RuleError("RefSi M1 executes kernels by command buffers only")
        before = self.steps
        try:
            with self._occupied:
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
                RuleError(
                    f"{harts} harts asked for, at most {r.G1_MAX_HARTS} exist; the device needs to be opened anew"
                )
            )
        if harts < 1:
            return Failure(ReferenceCrash("a kernel on 0 harts: the reference uses a null pointer"))
        self.accelerator.create(harts)
        return self._schedule.run_boot(harts, entry, r.G1_RESET_PC)

    # -- snapshots ----------------------------------------------------------------------------------------------

    def snapshot(self) -> Any:
        """The state when everything submitted is done and the device is idle, for `restore`; not to be looked into."""
        self.drain()
        self._settle()
        return super().snapshot()

    def restore(self, state: Any) -> None:
        """Go back to a snapshot of this device, or of one with the same options; what is queued is dropped."""
        self._check_open()
        self._queue.clear()
        super().restore(state)


def _marked_ram() -> Callable[[int], Ram]:
    """Memory with room for marks."""
    from understudy.engine.riscv.marks.block import MarkedRam

    return MarkedRam


def _store_ram() -> Callable[[int], Ram]:
    """And for stores."""
    from understudy.engine.riscv.code_stores.codes import StoreRam

    return StoreRam


def _memory_marks(check: MarkCheck) -> MemoryMarks:
    """Imported where it is needed."""
    from understudy.device.refsi.spec.marks import MemoryMarks

    return MemoryMarks(check)


def _code_store_engine(log: FindingLog) -> Callable[..., Engine]:
    """Imported where it is needed: few devices are checked."""
    from understudy.engine.riscv.code_stores.judge import CodeStoreEngine

    return partial(CodeStoreEngine, log.note, page=_page)


def _place(hart: Hart, address: int) -> int | None:
    """Where in this process lies what a hart sees at an address."""
    port = hart.port
    return port.place(address) if isinstance(port, SpecPort | CheckedPort) else None


def _page(hart: Hart, address: int) -> int | None:
    """Of a hart's port, whether memory is checked or not."""
    port = hart.port
    return port.whole_page(address) if isinstance(port, CheckedPort) else port.page(address, "load")
