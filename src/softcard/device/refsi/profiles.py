"""The differences between the two profiles of the command processor that are not in the `MemorySystem` classes."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from softcard.core.errors import AccessFault, RuleError, SoftcardError, WireError
from softcard.core.space import Unit
from softcard.device.refsi import rules
from softcard.device.refsi.accelerator import Accelerator, Schedule
from softcard.device.refsi.commands import CACHE_FLAGS, CHUNK_BYTES, MAX_CHUNKS, CacheFlags
from softcard.device.refsi.interfaces import COMMAND_PROCESSOR, HART, Extent, MemorySystem
from softcard.device.refsi.launch import (
    BlockCopy,
    BlockTooLarge,
    KernelPlan,
    KernelSlice,
    OutsideKub,
    plan_slice,
    plan_slice_refsidrv,
)
from softcard.device.refsi.refsidrv.devices import Span
from softcard.device.refsi.refsidrv.memory import RefsidrvMemory, refused
from softcard.device.refsi.refsidrv.schedule import RefsidrvSchedule
from softcard.device.refsi.registers import (
    CMP,
    ENTRY_PT_FN,
    NUM_CMP_REGISTERS,
    REGISTER_BYTES,
)
from softcard.device.refsi.spec.dma import DmaController
from softcard.device.refsi.spec.launch_registers import LaunchRegisters
from softcard.device.refsi.spec.memory import SpecMemory
from softcard.device.refsi.spec.schedule import SpecSchedule

Words: TypeAlias = "memoryview[int]"


class Profile(Protocol):
    """The behaviour of the command processor that differs between profiles."""

    name: str
    lenient: bool
    """True if commands are decoded as the reference driver does (see the module `commands`)."""
    memory: MemorySystem
    schedule: Schedule
    dma: DmaController | None
    """The DMA controller whose plain transfers machine code may start directly; None if it may not."""
    listed: int
    """A bit mask of the CMP registers that commands may name."""
    is_synced: bool
    """True if SYNC_CACHE has no other effect than a call of `synced`."""

    @property
    def mapped(self) -> int | None:
        """A number that changes when results of `direct` become invalid; None if `direct` must not be used."""

    def open_buffer(self, address: int, size: int) -> tuple[Words, int]:
        """Return the chunks from `address` on, and the number of them that belong to the buffer.

        The chunks share memory with the device, so that later writes are visible in them."""

    def check_register(self, number: int) -> None:
        """Raise `RuleError` unless commands may access CMP register `number`."""

    def check_entry(self, value: int) -> None:
        """Raise an error if a kernel command must not use `value`, the contents of CMP_ENTRY_PT_FN."""

    def harts(self, max_harts: int) -> int:
        """Return the number of harts that a command with this MAX_HARTS uses."""

    def plan_slice(self, run: KernelSlice) -> KernelPlan:
        """Return the plan of a RUN_KERNEL_SLICE command: the initial machine states of its instances."""

    def prepare(self, plan: KernelPlan) -> None:
        """Do everything that must precede the start of the harts, such as copying thread-specific data."""

    def finish(self, plan: KernelPlan, is_slice: bool) -> None:
        """Do everything that must follow the end of the harts, whether they succeeded or failed."""

    def sync(self, flags: int) -> None:
        """Carry out SYNC_CACHE with these flags."""

    def synced(self, flags: int) -> None:
        """Record that the command processor's native code has executed SYNC_CACHE with these flags."""

    def direct(self, address: int, access: str) -> Extent | None:
        """Return the extent of plain memory around `address` that the CMP may access directly, or None.

        `access` is "read" or "write". The extent has the start and end address, and the host address minus the device
        address."""

    def dma_registers(self, address: int, access: str) -> Extent | None:
        """Return the extent of DMA registers around `address` for the command processor's native code.

        Return None if that code may not access them. The extent has the start and end address, and the register
        offset minus the device address."""

    def transfer_started(self, number: int, source: tuple[int, int], target: tuple[int, int], size: int) -> None:
        """Record a new 1D transfer of the command processor.

        `source` and `target` are pairs of device address and host address.
        """

    def windows_written(self, values: dict[int, int]) -> None:
        """Record that the command processor's native code has written window registers.

        `values` maps their numbers to the written values, which are valid."""

    def wrote(self, host: int, size: int) -> None:
        """Record that the command processor's native code has written plain memory.

        `host` is the address, in this process, of the `size` bytes written."""


class SpecProfile:
    """The profile of the command processor that follows the RefSi M1 specification, with every error reported."""

    name: str = "spec"
    lenient: bool = False
    listed: int = sum(1 << offset for _, _, offset in CMP.elements())

    def __init__(self, memory: SpecMemory, accelerator: Accelerator, coherent_code: bool) -> None:
        self.memory: MemorySystem = memory
        self.schedule: Schedule = SpecSchedule(accelerator, LaunchRegisters(memory, memory.telemetry))
        self._spec_memory = memory
        self._accelerator = accelerator
        self._coherent_code = coherent_code
        self.dma: DmaController | None = memory.dma
        self.is_synced = coherent_code and not memory.strict

    @property
    def mapped(self) -> int | None:
        """The number of times that memory was remapped; None while listeners need each access.

        Extents of direct memory are valid until this number changes."""
        return None if self._spec_memory.strict else self._spec_memory.generation

    def open_buffer(self, address: int, size: int) -> tuple[Words, int]:
        """Return the buffer's chunks; raise an error unless the buffer is in memory, in whole chunks."""
        if size % CHUNK_BYTES:
            raise WireError(
                f"the command buffer has {size} bytes, expected a multiple of {CHUNK_BYTES}", rule=rules.CHUNKS
            )
        view = self.memory.view(address, size)
        if view is None:
            view = memoryview(self.memory.read(address, size, COMMAND_PROCESSOR))
        return view.cast("B").cast("Q"), size // CHUNK_BYTES

    def check_register(self, number: int) -> None:
        """Raise `RuleError` for a register that the RefSi M1 specification does not list."""
        if not self.listed >> number & 1:
            raise RuleError(
                f"there is no CMP register {number}, expected 0 to 6 or 8 to {NUM_CMP_REGISTERS - 1}",
                rule=rules.REG_IDX,
            )

    def check_entry(self, value: int) -> None:
        """Raise `RuleError` unless the entry point is set, within 32 bits, and even."""
        if ENTRY_PT_FN.reserved_bits(value):
            raise RuleError(
                f"CMP_ENTRY_PT_FN holds {value:#x}, expected an entry point of 32 bits", rule=rules.ENTRY_32_BIT
            )
        if not value:
            raise RuleError(
                "CMP_ENTRY_PT_FN is 0, expected an entry point before a kernel command", rule=rules.ENTRY_SET
            )
        if value & 1:
            raise RuleError(f"CMP_ENTRY_PT_FN holds {value:#x}, expected an even entry point", rule=rules.ENTRY_SET)

    def harts(self, max_harts: int) -> int:
        """Return MAX_HARTS, but at most the number of harts; return the number of harts if MAX_HARTS is 0."""
        available = len(self._accelerator.harts)
        return min(max_harts, available) if max_harts else available

    def plan_slice(self, run: KernelSlice) -> KernelPlan:
        """Return the result of `launch.plan_slice`; add the violated rule to its errors."""
        try:
            return plan_slice(run)
        except OutsideKub as error:
            error.rule = rules.KUB_SIZE_UNIT
            raise
        except BlockTooLarge as error:
            error.rule = rules.TSD_OWN_COPY
            raise

    def prepare(self, plan: KernelPlan) -> None:
        """Copy thread-specific data with the access rights of the CMP.

        Then make the Kernel Uniform Block read-only for harts.
        """
        for copy in plan.copies:
            data = self.memory.read(copy.source, copy.size, COMMAND_PROCESSOR)
            self.memory.write(copy.target, data, COMMAND_PROCESSOR)
        if plan.kub is not None:
            self._spec_memory.protect(*plan.kub)

    def finish(self, plan: KernelPlan, is_slice: bool) -> None:
        """Make the Kernel Uniform Block writable again; after RUN_KERNEL_SLICE (`is_slice`), flush the caches."""
        if plan.kub is not None:
            self._spec_memory.unprotect()
        if is_slice:
            self.sync(CACHE_FLAGS)

    def sync(self, flags: int) -> None:
        """Synchronise the caches that `flags` names."""
        self.memory.sync(flags)
        self.synced(flags)
        if flags & CacheFlags.CMP_CACHE_SYNC_ACC_ICACHE and not self._coherent_code:
            self._accelerator.flush_code()

    def synced(self, flags: int) -> None:
        """Invalidate the engine's cached code, if `flags` contain the flag of the instruction cache."""
        if flags & CacheFlags.CMP_CACHE_SYNC_ACC_ICACHE:
            self._accelerator.engine.code_synced()

    def direct(self, address: int, access: str) -> Extent | None:
        """Return the extent of memory around `address` for direct access by the command processor's native code.

        The extent may be seen through a window. Return None if the device has shadow memory, or if stale reads of
        the extent must be reported."""
        memory = self._spec_memory
        found = memory.decoder.span(address, COMMAND_PROCESSOR, access)
        if found is None or found[2].ram is None or memory.shadows is not None:
            return None
        start, end, place = found
        if access == "read" and memory.cached(place) and memory.hears_of_stale_reads:
            return None
        assert place.ram is not None
        return start, end, place.ram.base_host + place.physical - place.mapping.base - address

    def dma_registers(self, address: int, access: str) -> Extent | None:
        """Return the extent of DMA registers around `address`, which may be seen through a window.

        Return None if there is none, or if its registers are not aligned."""
        found = self._spec_memory.decoder.span(address, COMMAND_PROCESSOR, access)
        if found is None or found[2].mapping.region is not self.dma or self._spec_memory.shadows is not None:
            return None
        start, end, place = found
        offset = place.physical - place.mapping.base - address
        return None if offset % REGISTER_BYTES else (start, end, offset)

    def transfer_started(self, number: int, source: tuple[int, int], target: tuple[int, int], size: int) -> None:
        """Record a transfer that the command processor's native code has started; see `DmaController.started`."""
        memory = self._spec_memory
        sides = [memory.side(host, size) for _, host in (source, target)]
        memory.dma.started(COMMAND_PROCESSOR, number, (source[0], target[0]), sides)

    def windows_written(self, values: dict[int, int]) -> None:
        """Set all window registers in `values` together.

        The order of the writes does not matter, because the command processor's native code made no access through
        a window between them."""
        self._spec_memory.window_registers(values)

    def wrote(self, host: int, size: int) -> None:
        """Report to engines that memory was written, as it may hold code."""
        if self._spec_memory.on_write is not None:
            self._spec_memory.on_write(host, size)


class RefsidrvProfile:
    """The profile of the command processor that follows the reference driver, bit for bit."""

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
        """Return the chunks from `address` on in any memory, and the number of those that belong to the buffer.

        Further chunks may be returned, because a payload may extend past the buffer (choice
        `refsi/truncated-command`)."""
        span = self._refsidrv_memory.span(address, size, COMMAND_PROCESSOR)
        if span is None:
            raise refused("execute", address, size)
        ram, offset = span
        chunks = size // CHUNK_BYTES
        reachable = min(chunks + MAX_CHUNKS, (ram.size - offset) // CHUNK_BYTES)
        return ram.view[offset : offset + reachable * CHUNK_BYTES].cast("Q"), chunks

    def check_register(self, number: int) -> None:
        """Raise `RuleError` if `number` is not one of the 40 registers.

        Register 7 is allowed, although the RefSi M1 specification does not list it."""
        if number >= NUM_CMP_REGISTERS:
            raise RuleError(
                f"there is no CMP register {number}, expected 0 to {NUM_CMP_REGISTERS - 1}", rule=rules.REG_IDX
            )

    def check_entry(self, value: int) -> None:
        """Accept any value."""

    def harts(self, max_harts: int) -> int:
        """Return MAX_HARTS, even if there are fewer harts; return the number of harts if MAX_HARTS is 0."""
        return max_harts or len(self._accelerator.harts)

    def plan_slice(self, run: KernelSlice) -> KernelPlan:
        """Return the result of `launch.plan_slice_refsidrv`."""
        return plan_slice_refsidrv(run)

    def prepare(self, plan: KernelPlan) -> None:
        """Copy thread-specific data of each hart with this hart's view of memory.

        Raise an error if the source or the target is not memory, for example if it is a register."""
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
        """Do nothing (choice `refsi/slice-flush`)."""

    def sync(self, flags: int) -> None:
        """Flush cached instructions, and for flag 1 also address translations (choice `refsi/cache-flags`)."""
        self._accelerator.engine.code_synced()
        if flags & CacheFlags.CMP_CACHE_SYNC_ACC_DCACHE:
            self._accelerator.flush_pages()
        else:
            self._accelerator.flush_code()

    def synced(self, flags: int) -> None:
        """Do nothing: commands never synchronize caches directly in this profile."""

    def direct(self, address: int, access: str) -> Extent | None:
        """Return the extent of plain memory around `address`; None for windows and other devices."""
        found = self._refsidrv_memory.bus.ram_around(address)
        return None if found is None else (found[0], found[1], found[2].base_host - found[0])

    def dma_registers(self, address: int, access: str) -> Extent | None:
        """Return None, as commands never access DMA registers directly in this profile."""

    def transfer_started(self, number: int, source: tuple[int, int], target: tuple[int, int], size: int) -> None:
        """Do nothing: commands never start transfers directly in this profile."""

    def windows_written(self, values: dict[int, int]) -> None:
        """Do nothing: windows open one register after another in this profile."""

    def wrote(self, host: int, size: int) -> None:
        """Do nothing: no engine depends on such writes in this profile."""


def _in_block(copy: BlockCopy, error: AccessFault) -> SoftcardError:
    return error.at("Kernel Thread Block of hart", copy.hart)
