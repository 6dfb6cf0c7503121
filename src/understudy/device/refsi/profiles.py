"""Where the two profiles of the command processor differ. What differs in memory lives in the `MemorySystem`s."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from understudy.core.errors import AccessFault, RuleError, UnderstudyError, WireError
from understudy.core.space import Unit
from understudy.device.refsi import rules
from understudy.device.refsi.accelerator import Accelerator, Schedule
from understudy.device.refsi.commands import CACHE_FLAGS, CHUNK_BYTES, MAX_CHUNKS, CacheFlags
from understudy.device.refsi.interfaces import COMMAND_PROCESSOR, HART, Extent, MemorySystem
from understudy.device.refsi.launch import (
    BlockCopy,
    BlockTooLarge,
    KernelPlan,
    KernelSlice,
    OutsideKub,
    plan_slice,
    plan_slice_refsidrv,
)
from understudy.device.refsi.refsidrv.devices import Span
from understudy.device.refsi.refsidrv.memory import RefsidrvMemory, refused
from understudy.device.refsi.refsidrv.schedule import RefsidrvSchedule
from understudy.device.refsi.registers import (
    CMP,
    ENTRY_PT_FN,
    NUM_CMP_REGISTERS,
    REGISTER_BYTES,
)
from understudy.device.refsi.spec.dma import DmaController
from understudy.device.refsi.spec.memory import SpecMemory
from understudy.device.refsi.spec.schedule import SpecSchedule

Words: TypeAlias = "memoryview[int]"


class Profile(Protocol):
    """What the command processor asks its profile."""

    name: str
    lenient: bool
    """Whether commands are decoded as the reference driver does (see `commands`)."""
    memory: MemorySystem
    schedule: Schedule
    dma: DmaController | None
    """What commands may start plain transfers of by themselves."""
    listed: int
    """A bit for each CMP register that commands may name."""
    is_synced: bool
    """Whether SYNC_CACHE has nothing to do but what `synced` does."""

    @property
    def mapped(self) -> int | None:
        """A number that changes with what `direct` gives; None where there is none."""

    def open_buffer(self, address: int, size: int) -> tuple[Words, int]:
        """The chunks at `address`, live, and how many belong to the buffer; the former may be longer."""

    def check_register(self, number: int) -> None:
        """`RuleError` unless commands may name CMP register `number`."""

    def check_entry(self, value: int) -> None:
        """A kernel command is about to use CMP_ENTRY_PT_FN, which holds `value`."""

    def harts(self, max_harts: int) -> int:
        """How many harts a command with this MAX_HARTS uses."""

    def plan_slice(self, run: KernelSlice) -> KernelPlan:
        """First machine states of RUN_KERNEL_SLICE."""

    def prepare(self, plan: KernelPlan) -> None:
        """Copy the thread-specific data and do what else must come before the harts start."""

    def finish(self, plan: KernelPlan, is_slice: bool) -> None:
        """Do what must come after they ended, well or badly."""

    def sync(self, flags: int) -> None:
        """SYNC_CACHE."""

    def synced(self, flags: int) -> None:
        """Commands have done it by themselves."""

    def direct(self, address: int, access: str) -> Extent | None:
        """Start and end of the plain memory around `address` as the command processor reaches it for "read" or
        "write", and host minus device address; None where there is none."""

    def dma_registers(self, address: int, access: str) -> Extent | None:
        """Likewise the registers of `dma`, and the offset in them minus the device address."""

    def transfer_started(self, number: int, source: tuple[int, int], target: tuple[int, int], size: int) -> None:
        """A 1D transfer of the command processor is under way; device address and host address of each side."""

    def windows_written(self, values: dict[int, int]) -> None:
        """Commands wrote these window registers, by number, with values that they may have."""

    def wrote(self, host: int, size: int) -> None:
        """Commands wrote plain memory at this address of the process."""


class SpecProfile:
    """The document, every error reported."""

    name: str = "spec"
    lenient: bool = False
    listed: int = sum(1 << offset for _, _, offset in CMP.elements())

    def __init__(self, memory: SpecMemory, accelerator: Accelerator, coherent_code: bool) -> None:
        self.memory: MemorySystem = memory
        self.schedule: Schedule = SpecSchedule(accelerator)
        self._spec_memory = memory
        self._accelerator = accelerator
        self._coherent_code = coherent_code
        self.dma: DmaController | None = memory.dma
        self.is_synced = coherent_code and not memory.strict

    @property
    def mapped(self) -> int | None:
        """The memory's generation, unless it matters who listens."""
        return None if self._spec_memory.strict else self._spec_memory.generation

    def open_buffer(self, address: int, size: int) -> tuple[Words, int]:
        """Whole chunks in memory."""
        if size % CHUNK_BYTES:
            raise WireError(f"a buffer of {size} bytes, expected a multiple of {CHUNK_BYTES}", rule=rules.CHUNKS)
        view = self.memory.view(address, size)
        if view is None:
            view = memoryview(self.memory.read(address, size, COMMAND_PROCESSOR))
        return view.cast("B").cast("Q"), size // CHUNK_BYTES

    def check_register(self, number: int) -> None:
        """Only registers that the document lists."""
        if not self.listed >> number & 1:
            raise RuleError(
                f"there is no CMP register {number}, expected 0 to 6 or 8 to {NUM_CMP_REGISTERS - 1}",
                rule=rules.REG_IDX,
            )

    def check_entry(self, value: int) -> None:
        """Set, within 32 bits, and where an instruction can be."""
        if ENTRY_PT_FN.reserved_bits(value):
            raise RuleError(f"CMP_ENTRY_PT_FN holds {value:#x}, expected a 32-bit entry point", rule=rules.ENTRY_32_BIT)
        if not value:
            raise RuleError("CMP_ENTRY_PT_FN was not set before a kernel command", rule=rules.ENTRY_SET)
        if value & 1:
            raise RuleError(f"CMP_ENTRY_PT_FN holds {value:#x}, expected an even entry point", rule=rules.ENTRY_SET)

    def harts(self, max_harts: int) -> int:
        """At most as many as there are; 0 for all."""
        available = len(self._accelerator.harts)
        return min(max_harts, available) if max_harts else available

    def plan_slice(self, run: KernelSlice) -> KernelPlan:
        """See `launch.refsi.plan_slice`; errors get their rule."""
        try:
            return plan_slice(run)
        except OutsideKub as error:
            error.rule = rules.KUB_SIZE_UNIT
            raise
        except BlockTooLarge as error:
            error.rule = rules.TSD_OWN_COPY
            raise

    def prepare(self, plan: KernelPlan) -> None:
        """Copy as the CMP, then make the Kernel Uniform Block read-only for harts."""
        for copy in plan.copies:
            data = self.memory.read(copy.source, copy.size, COMMAND_PROCESSOR)
            self.memory.write(copy.target, data, COMMAND_PROCESSOR)
        if plan.kub is not None:
            self._spec_memory.protect(*plan.kub)

    def finish(self, plan: KernelPlan, is_slice: bool) -> None:
        """RUN_KERNEL_SLICE flushes caches implicitly."""
        if plan.kub is not None:
            self._spec_memory.unprotect()
        if is_slice:
            self.sync(CACHE_FLAGS)

    def sync(self, flags: int) -> None:
        """The caches that the flags name."""
        self.memory.sync(flags)
        self.synced(flags)
        if flags & CacheFlags.CMP_CACHE_SYNC_ACC_ICACHE and not self._coherent_code:
            self._accelerator.flush_code()

    def synced(self, flags: int) -> None:
        """The engine is told."""
        if flags & CacheFlags.CMP_CACHE_SYNC_ACC_ICACHE:
            self._accelerator.engine.code_synced()

    def direct(self, address: int, access: str) -> Extent | None:
        """Memory, through windows or not, unless somebody hears of each stale read of it."""
        memory = self._spec_memory
        found = memory.decoder.span(address, COMMAND_PROCESSOR, access)
        if found is None or found[2].ram is None or memory.marks is not None:
            return None
        start, end, place = found
        if access == "read" and memory.cached(place) and memory.hears_of_stale_reads:
            return None
        assert place.ram is not None
        return start, end, place.ram.base_host + place.physical - place.mapping.base - address

    def dma_registers(self, address: int, access: str) -> Extent | None:
        """The registers, through windows or not, where they are aligned."""
        found = self._spec_memory.decoder.span(address, COMMAND_PROCESSOR, access)
        if found is None or found[2].mapping.region is not self.dma or self._spec_memory.marks is not None:
            return None
        start, end, place = found
        offset = place.physical - place.mapping.base - address
        return None if offset % REGISTER_BYTES else (start, end, offset)

    def transfer_started(self, number: int, source: tuple[int, int], target: tuple[int, int], size: int) -> None:
        """See `DmaController.started`."""
        memory = self._spec_memory
        sides = [memory.side(host, size) for _, host in (source, target)]
        memory.dma.started(COMMAND_PROCESSOR, number, (source[0], target[0]), sides)

    def windows_written(self, values: dict[int, int]) -> None:
        """All of them at once: nobody has used them in between."""
        self._spec_memory.window_registers(values)

    def wrote(self, host: int, size: int) -> None:
        """Engines are told."""
        if self._spec_memory.on_write is not None:
            self._spec_memory.on_write(host, size)


class RefsidrvProfile:
    """The reference driver, bit for bit."""

    name: str = "refsidrv"
    lenient: bool = True
    listed: int = (1 << NUM_CMP_REGISTERS) - 1
    is_synced: bool = False
    dma: DmaController | None = None
    mapped: int | None = None

    def __init__(self, memory: RefsidrvMemory, accelerator: Accelerator, schedule: RefsidrvSchedule) -> None:
        self.memory: MemorySystem = memory
        self.schedule: Schedule = schedule
        self._refsidrv_memory = memory
        self._accelerator = accelerator

    def open_buffer(self, address: int, size: int) -> tuple[Words, int]:
        """Any memory; payload may lie behind the buffer (choice `refsi/truncated-command`)."""
        span = self._refsidrv_memory.span(address, size, COMMAND_PROCESSOR)
        if span is None:
            raise refused("execute", address, size)
        ram, offset = span
        chunks = size // CHUNK_BYTES
        reachable = min(chunks + MAX_CHUNKS, (ram.size - offset) // CHUNK_BYTES)
        return ram.view[offset : offset + reachable * CHUNK_BYTES].cast("Q"), chunks

    def check_register(self, number: int) -> None:
        """All 40, number 7 included."""
        if number >= NUM_CMP_REGISTERS:
            raise RuleError(
                f"there is no CMP register {number}, expected 0 to {NUM_CMP_REGISTERS - 1}", rule=rules.REG_IDX
            )

    def check_entry(self, value: int) -> None:
        """Anything will do."""

    def harts(self, max_harts: int) -> int:
        """As many as the command says, even if there are fewer; 0 for all."""
        return max_harts or len(self._accelerator.harts)

    def plan_slice(self, run: KernelSlice) -> KernelPlan:
        """See `launch.refsi.plan_slice_refsidrv`."""
        return plan_slice_refsidrv(run)

    def prepare(self, plan: KernelPlan) -> None:
        """Copy as each hart, memory only."""
        for copy in plan.copies:
            target = self._block(copy, copy.target, "write")
            source = self._block(copy, copy.source, "read")
            target[0].view[target[1] : target[1] + copy.size] = bytes(source[0].view[source[1] : source[1] + copy.size])

    def _block(self, copy: BlockCopy, address: int, access: str) -> Span:
        span = self._refsidrv_memory.span(address & (1 << 64) - 1, copy.size, Unit(HART, copy.hart))
        if span is None:
            raise _in_block(copy, refused(access, address, copy.size))
        return span

    def finish(self, plan: KernelPlan, is_slice: bool) -> None:
        """Nothing (choice `refsi/slice-flush`)."""

    def sync(self, flags: int) -> None:
        """Flag 1: translations and instructions; anything else: instructions (choice `refsi/cache-flags`)."""
        self._accelerator.engine.code_synced()
        if flags & CacheFlags.CMP_CACHE_SYNC_ACC_DCACHE:
            self._accelerator.flush_pages()
        else:
            self._accelerator.flush_code()

    def synced(self, flags: int) -> None:
        """Never."""

    def direct(self, address: int, access: str) -> Extent | None:
        """Memory itself; windows are not worth while here."""
        found = self._refsidrv_memory.bus.ram_around(address)
        return None if found is None else (found[0], found[1], found[2].base_host - found[0])

    def dma_registers(self, address: int, access: str) -> Extent | None:
        """None."""

    def transfer_started(self, number: int, source: tuple[int, int], target: tuple[int, int], size: int) -> None:
        """Never."""

    def windows_written(self, values: dict[int, int]) -> None:
        """Never: windows open one register after the other."""

    def wrote(self, host: int, size: int) -> None:
        """Nobody need be told."""


def _in_block(copy: BlockCopy, error: AccessFault) -> UnderstudyError:
    return error.at("Kernel Thread Block of hart", copy.hart)
