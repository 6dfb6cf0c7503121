"""The memory system of the `spec` profile: the documents' rules, with every error reported by its rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from softcard.core.device import Telemetry
from softcard.core.errors import AccessFault, BeyondModel, ModelBug, RuleError, WireError
from softcard.core.lint import Lint
from softcard.core.rule import Rule
from softcard.core.snapshot import Stateful
from softcard.core.space import AddressSpace, Mapping, Ram, Unit
from softcard.device.refsi import rules
from softcard.device.refsi.commands import CacheFlags
from softcard.device.refsi.counters import PerfCounters
from softcard.device.refsi.interfaces import COMMAND_PROCESSOR, HART, HOST
from softcard.device.refsi.registers import (
    DMA_BASE,
    DRAM_BASE,
    DRAM_SIZE,
    M1_CORES,
    M1_HARTS,
    PERF_COUNTERS_BASE,
    REGISTER_BYTES,
    TCDM_BASE,
    TCDM_SIZE,
)
from softcard.device.refsi.spec.coherence import DataCaches
from softcard.device.refsi.spec.decode import Decoder, Location
from softcard.device.refsi.spec.dma import LATE, DmaController
from softcard.device.refsi.spec.events import STALE_READ, StaleRead
from softcard.device.refsi.spec.port import SpecPort
from softcard.device.refsi.spec.transfer import Shape, Side, check_pieces, read_place, slice_of, write_place
from softcard.device.refsi.spec.windows import Topology, WindowFile
from softcard.device.refsi.toolkit.builder import SPEC
from softcard.engine.riscv.hooks import Shadow
from softcard.engine.riscv.shadow_layout import ShadowedRam

# ---- shadow bits -----------------------------------------------------------------------------------------------------
# The shadow memory (definedness) of a device's memory, which every write and copy of bytes updates.


UNDEFINED: Final = 0xFF
Bytes = npt.NDArray[np.uint8]


class MemoryShadow:
    """The shadow memory of one device's memory; `shadow` checks the bytes that the host reads."""

    def __init__(self, shadow: Shadow) -> None:
        self._shadow = shadow

    def opened(self, mappings: list[Mapping]) -> None:
        """Initialise the shadow memory of new memory: TCDM is undefined from the start.

        DRAM becomes undefined when it is allocated.
        """
        for each in mappings:
            if isinstance(each.region, ShadowedRam) and each.base == TCDM_BASE:
                each.region.shadows[:] = UNDEFINED

    def forgotten(self, rams: tuple[Ram, ...]) -> None:
        """Mark all bytes of `rams` as defined, after their contents were restored from a snapshot."""
        for ram in rams:
            if isinstance(ram, ShadowedRam):
                ram.clear_shadows()

    def undefined(self, place: Location) -> None:
        """Mark the bytes of `place`, which the host has allocated, as undefined."""
        self._set(place, UNDEFINED)

    def written(self, place: Location) -> None:
        """Mark the bytes of `place`, which the host or a command has written, as defined."""
        self._set(place, 0)

    def _set(self, place: Location, value: int) -> None:
        for shadows, _ in parts(place):
            shadows[:] = value

    def copied(self, source: Location, target: Location) -> None:
        """Copy the definedness of bytes that COPY_MEM64 copies."""
        found = np.concatenate([shadows for shadows, _ in parts(source)])
        done = 0
        for shadows, _ in parts(target):
            shadows[:] = found[done : done + len(shadows)]
            done += len(shadows)

    def moved(self, source: Side, target: Side) -> None:
        """Copy the definedness of bytes that a DMA transfer copies."""
        for start, end in zip(source.rows(), target.rows(), strict=True):
            self.copied(start, end)

    def read_back(self, address: int, place: Location) -> None:
        """Report undefined bytes that the host reads, then mark them as defined."""
        self._shadow.read_back(address, [(host, shadows) for shadows, host in parts(place)])
        self.written(place)


def parts(place: Location) -> list[tuple[Bytes, int]]:
    """Return the shadow bytes of each contiguous range of a location, with the host address of the range."""
    ram = place.ram
    assert isinstance(ram, ShadowedRam)
    base = place.mapping.base
    shadows = ram.shadows
    return [(shadows[at - base : at - base + size], ram.base_host + at - base) for at, size in place.runs()]


# ---- memory ----------------------------------------------------------------------------------------------------------
COHERENT: Final = "coherent"
STRICT: Final = "strict"
COHERENCES: Final = (COHERENT, STRICT)

MAX_ELEMENTS: Final = 1 << 20
"""The maximum number of elements for COPY_MEM64 if they must be copied one by one, as they overlap."""
PIECE, SCATTERED_PIECE = 1 << 21, 1 << 14
"""The number of elements to copy between two checks of limits.

`SCATTERED_PIECE` is the number for elements that are not contiguous.
"""
MAX_RUNS_CHECKED: Final = 1 << 12
"""The maximum number of rows of a transfer's source that are looked up in caches, for `StaleRead` only."""


class SpecMemory(Stateful):
    """The device memory of RefSi M1 as its specification defines it; implements `interfaces.MemorySystem`.

    `cores` and `harts_per_core` are the numbers of cores and harts. `dma` is "late" (transfers happen when a
    unit waits for them) or "immediate"; `coherence` is "coherent" or "strict" (harts have data caches that may
    hold stale data, see the module `coherence`). Without `counters`, the addresses of the performance counters
    are not mapped. `ram` is a function that creates plain memory of a given size; `shadows` is the shadow
    memory of its bytes. `scale_encoding` is the profile that determines the interpretation of SCALE_A in
    windows.

    `on_remap` is called when a hart's view of some address may have changed (windows, protection): engines must
    drop page translations. `on_write` is called with (host address, size) of every write to plain memory that
    did not go through a page handed to an engine: engines must drop code from there. `check_limits` is called
    regularly during long copies, and may raise an error that ends them. `generation` counts calls of
    `on_remap`.

    The caller of `snapshot` must first complete outstanding transfers (`flush`)."""

    STATE = ("rams", "windows", "dma", "caches")

    def __init__(
        self,
        counters: PerfCounters | None = None,
        telemetry: Telemetry | None = None,
        *,
        cores: int = M1_CORES,
        harts_per_core: int = M1_HARTS,
        dma: str = LATE,
        coherence: str = COHERENT,
        ram: Callable[[int], Ram] = Ram,
        shadows: MemoryShadow | None = None,
        scale_encoding: str = SPEC,
    ) -> None:
        if coherence not in COHERENCES:
            raise WireError(f"unknown coherence {coherence!r}, expected one of {', '.join(COHERENCES)}")
        if cores < 1 or harts_per_core < 1:
            raise WireError(f"the device has {cores} cores of {harts_per_core} harts, expected at least 1 of each")
        self.topology = Topology(cores, harts_per_core)
        self.windows = WindowFile(scale_encoding)
        self.dma = DmaController(self, dma)
        self.strict = coherence == STRICT
        self.telemetry = Telemetry() if telemetry is None else telemetry
        self.generation = 0
        self.check_limits: Callable[[], None] = lambda: None
        self.on_remap: Callable[[], None] | None = None
        self.on_write: Callable[[int, int], None] | None = None
        self._ram = ram
        self.shadows = shadows
        self._counters = counters
        self._protected: tuple[tuple[int, int], ...] = ()
        self._ports: dict[int, SpecPort] = {}
        self._viewed: tuple[int, int, memoryview] | None = None
        """The last view that was returned: address, size and the view. It is valid until the next remap."""
        self._build()

    def _build(self) -> None:
        """Make new memory, all zero."""
        space = AddressSpace()
        space.map(TCDM_BASE, self._ram(TCDM_SIZE), "TCDM")
        self._dram = space.map(DRAM_BASE, self._ram(DRAM_SIZE), "DRAM")
        space.map(DMA_BASE, self.dma, "DMA")
        if self._counters is not None:
            space.map(PERF_COUNTERS_BASE, self._counters, "PERF_COUNTERS")
        self.decoder = Decoder(space, self.windows, self.topology)
        assert isinstance(self._dram.region, Ram)
        if self.shadows is not None:
            self.shadows.opened(list(space))
        self.caches: DataCaches | None = None
        if self.strict:
            self.caches = DataCaches(self._dram.region, DRAM_BASE, self.topology.harts, self._written_back)

    # ---- accesses

    def read(self, address: int, size: int, unit: Unit) -> bytes:
        """Read `size` bytes as `unit`, without regard to data caches (choice `refsi/cache-copy`).

        Raise `AccessFault`, with the rule that is broken, if the access is invalid."""
        place = self._locate(address, size, unit, "read")
        if place is None:
            return b""
        if place.ram is None:
            return self.read_register(place, address, unit)
        check_pieces(f"a read of {size} bytes at {address:#x}", place)
        data = read_place(place)
        self._note_memory_read(unit, place, data)
        if self.shadows is not None and unit == HOST:
            self.shadows.read_back(address, place)
        return data

    def write(self, address: int, data: bytes, unit: Unit) -> None:
        """Write `data` as `unit`.

        If the access is invalid, raise `AccessFault` with the rule that it breaks, and write nothing."""
        place = self._locate(address, len(data), unit, "write")
        if place is None:
            return
        if place.ram is None:
            self.write_register(place, address, data, unit)
        else:
            check_pieces(f"a write of {len(data)} bytes at {address:#x}", place)
            write_place(place, data)
            if self.shadows is not None:
                self.shadows.written(place)
            self.wrote(place)

    def check_range(self, address: int, size: int, unit: Unit, access: str) -> None:
        """Raise `AccessFault` unless `unit` may access all the bytes; see `MemorySystem.check_range`."""
        place = self._locate(address, size, unit, access)
        if place is not None and place.ram is None:
            raise AccessFault(
                f"{access} of {size} bytes at {address:#x}: {place.mapping.name} holds registers, expected memory",
                address=address,
                access=access,
            )

    def view(self, address: int, size: int) -> memoryview | None:
        """Return a view of the bytes; None unless the host may read and write all of them.

        `address` is as the host sees it. Also return None if the bytes are registers or are not contiguous. The
        view is valid until `reset`. A later change of a window does not move it."""
        if self._viewed is not None and self._viewed[:2] == (address, size) and self.shadows is None:
            return self._viewed[2][:]
        try:
            self.decoder.locate(address, max(size, 1), HOST, "read")
            place = self.decoder.locate(address, max(size, 1), HOST, "write")
        except AccessFault:
            return None
        if place.ram is None or not place.contiguous:
            return None
        offset = place.physical - place.mapping.base
        if self.shadows is not None:
            self.shadows.read_back(address, place)
        view = place.ram.view[offset : offset + size]
        self._viewed = address, size, view
        return view[:]

    def read_register(self, place: Location, address: int, unit: Unit) -> bytes:
        """Read the memory-mapped register at `place`; `address` is the address by which `unit` accesses the
        register."""
        self._check_register(place, address, "read")
        try:
            return place.mapping.region.read(place.physical - place.mapping.base, place.size, unit)
        except AccessFault as fault:
            raise _relocated(fault, address) from None

    def write_register(self, place: Location, address: int, data: bytes, unit: Unit) -> None:
        """Write the memory-mapped register at `place`; `address` is the address by which `unit` accesses the
        register."""
        self._check_register(place, address, "write")
        try:
            place.mapping.region.write(place.physical - place.mapping.base, data, unit)
        except AccessFault as fault:
            raise _relocated(fault, address) from None

    # ---- commands

    def copy64(self, source: int, target: int, count: int, unit: Unit) -> None:
        """Carry out COPY_MEM64: check both ranges first, then copy elements one by one, in ascending order."""
        size = count * REGISTER_BYTES
        from_place = self._locate(source, size, unit, "read")
        to_place = self._locate(target, size, COMMAND_PROCESSOR, "write")
        if from_place is None or to_place is None:
            return
        if from_place.ram is None or to_place.ram is None:
            for skip in range(0, size, REGISTER_BYTES):
                element = self.read(source + skip, REGISTER_BYTES, unit)
                self.write(target + skip, element, COMMAND_PROCESSOR)
            return
        check_pieces("COPY_MEM64", from_place)
        check_pieces("COPY_MEM64", to_place)
        self._note_memory_read(unit, from_place, None)
        _copy_elements(from_place, to_place, count, self.check_limits)
        if self.shadows is not None:
            self.shadows.copied(from_place, to_place)
        self.wrote(to_place)

    def window_register(self, number: int, value: int) -> None:
        """Set CMP register 8..39 to `value`, effective at once. Raise `RuleError` for reserved bits and modes."""
        if self.windows.write(number, value):
            self._remapped()

    def window_registers(self, values: dict[int, int]) -> None:
        """Set several window registers. `values` maps CMP register numbers to values; the caller has checked the
        values."""
        if self.windows.take(values):
            self._remapped()

    @property
    def is_moving(self) -> bool:
        """True if a DMA transfer is outstanding."""
        return self.dma.is_moving

    def flush(self) -> None:
        """Complete all outstanding DMA transfers, so that the device is idle."""
        self.dma.flush()

    def sync(self, flags: int) -> None:
        """Write back and invalidate the data caches if `flags`, the operand of SYNC_CACHE, includes them.

        The implicit flush of RUN_KERNEL_SLICE also calls this method."""
        if flags & CacheFlags.CMP_CACHE_SYNC_ACC_DCACHE and self.caches is not None:
            self.caches.sync()

    def reset(self) -> None:
        """Reset to the state after opening: all memory is zero, no window is active, and no transfer is outstanding.

        Data caches become empty. Views and pages become invalid."""
        self.windows.reset()
        self.dma.reset()
        if self._counters is not None:
            self._counters.reset()
        self._protected = ()
        rams, self._viewed = self.rams, None
        self._build()
        for ram in rams:
            ram.close()
        self._remapped()

    def close(self) -> None:
        """Release the memory of the emulating process that holds the device memory. No address is mapped any more."""
        for ram in self.rams:
            ram.close()
        for port in self._ports.values():
            port.forget()
        self._ports.clear()
        self.caches = None
        self.decoder = Decoder(AddressSpace(), self.windows, self.topology)
        self.generation += 1
        self._viewed = None

    def restore(self, state: Any) -> None:
        """Restore a state that `snapshot` returned; all memory becomes writable for harts."""
        super().restore(state)
        if self.on_write is not None:
            for ram in self.rams:
                self.on_write(ram.base_host, ram.size)
        if self.shadows is not None:
            self.shadows.forgotten(self.rams)
        self._protected = ()
        self._remapped()

    @property
    def rams(self) -> tuple[Ram, ...]:
        """The RAM objects of all plain memory."""
        return tuple(mapping.region for mapping in self.decoder.space if isinstance(mapping.region, Ram))

    def port(self, hart: int) -> SpecPort:
        """Return the port to memory of hart number `hart`."""
        if hart not in self._ports:
            if not 0 <= hart < self.topology.harts:
                raise RuleError(
                    f"there is no hart {hart}, expected 0 to {self.topology.harts - 1}", rule=rules.UNIT_EXISTS
                )
            self._ports[hart] = SpecPort(self, Unit(HART, hart))
        return self._ports[hart]

    # ---- the Kernel Uniform Block

    def protect(self, address: int, size: int) -> None:
        """Make these bytes read-only for harts, through all windows, until `unprotect` (rule kub-read-only).

        `address` is as the CMP sees it. Raise `AccessFault` unless all of it is memory.
        """
        place = self._locate(address, size, COMMAND_PROCESSOR, "read")
        if place is None:
            return
        if place.ram is None:
            raise AccessFault(
                f"the Kernel Uniform Block of {size:#x} bytes at {address:#x} lies in registers, expected memory",
                address=address,
                access="read",
                rule=rules.KUB_READ_ONLY,
            )
        self._protected = (*self._protected, *((start, start + length) for start, length in place.runs()))
        self._remapped()

    def unprotect(self) -> None:
        """Make all memory writable for harts again."""
        if self._protected:
            self._protected = ()
            self._remapped()

    def protected(self, place: Location) -> bool:
        """Return True if a byte of `place` is protected."""
        if not self._protected:
            return False
        return any(
            start < end and first < start + length for start, length in place.runs() for first, end in self._protected
        )

    @property
    def protected_ranges(self) -> tuple[tuple[int, int], ...]:
        """The protected physical (start, end) ranges."""
        return self._protected

    # ---- between parts of the memory system

    def locate(self, address: int, size: int, unit: Unit, access: str) -> Location:
        """Return the location of these bytes (1 or more) for `unit`; raise `AccessFault` if it has none."""
        return self.decoder.locate(address, size, unit, access)

    def side(self, host: int, size: int) -> Side:
        """Return the `size` bytes of plain memory at host address `host` as source or destination of a 1D transfer."""
        for mapping in self.decoder.space:
            if isinstance(mapping.region, Ram) and 0 <= host - mapping.region.base_host < mapping.region.size:
                place = Location(mapping, mapping.base + host - mapping.region.base_host, size)
                return Side(place, Shape(size), (size, size))
        raise ModelBug(f"the host address {host:#x} does not lie in memory of this device")

    def cached(self, place: Location) -> bool:
        """Return True if harts access `place` through their data caches."""
        return self.caches is not None and place.mapping is self._dram

    def wrote(self, place: Location) -> None:
        """Report to engines, through `on_write`, that the memory at `place` was written."""
        if self.on_write is not None:
            for start, size in place.runs():
                self._written(place.mapping, start, size)

    def moved(self, unit: Unit, source: Side, target: Side) -> None:
        """Report the end of a DMA transfer of `unit` to engines and shadow memory."""
        start, end = target.span
        if self.shadows is not None:
            self.shadows.moved(source, target)
        self._written(target.place.mapping, start, end - start)
        if self.caches is None or not self.hears_of_stale_reads or not self.cached(source.place):
            return
        runs = source.runs()
        if runs is not None and len(runs[0]) <= MAX_RUNS_CHECKED:
            for first, length in zip(runs[0].tolist(), runs[1].tolist(), strict=True):
                self._note_memory_read(unit, Location(source.place.mapping, first, length), None)

    @property
    def hears_of_stale_reads(self) -> bool:
        """True if a further stale read would be reported as a lint, or if a probe listens to `StaleRead` events."""
        return self.telemetry.wants_lint(STALE_READ, StaleRead)

    def report_stale(self, reader: Unit, address: int, seen: bytes, hart: int | None) -> None:
        """Emit `StaleRead` for each holder of newer bytes than `seen`, which `reader` read at physical `address`.

        `hart` is the hart from whose data cache `seen` was read; None if it was read from memory."""
        assert self.caches is not None
        for newer in self.caches.newer(address, seen, hart):
            holder = None if newer.holder is None else Unit(HART, newer.holder)
            stale = StaleRead(self.telemetry.clock(), reader, newer.address, newer.seen, newer.newer, holder)
            self.telemetry.report(stale, Lint(stale.time, STALE_READ, str(stale), rules.RUN_NO_FLUSH))

    # ---- internal

    def _locate(self, address: int, size: int, unit: Unit, access: str) -> Location | None:
        return self.decoder.locate(address, size, unit, access) if size else None

    def _check_register(self, place: Location, address: int, access: str) -> None:
        if not place.contiguous:
            raise _fault(
                f"{access} of {place.size} bytes at {address:#x}: a register cannot be accessed in pieces through an "
                "interleaved window",
                address,
                access,
                rules.REGISTER_WHOLE,
            )

    def _note_memory_read(self, reader: Unit, place: Location, data: bytes | None) -> None:
        if self.caches is None or not self.hears_of_stale_reads or not self.cached(place):
            return
        done = 0
        for start, size in place.runs():
            if data is None:
                seen = read_place(Location(place.mapping, start, size))
            else:
                seen = data[done : done + size]
            self.report_stale(reader, start, seen, None)
            done += size

    def _written_back(self, address: int, size: int) -> None:
        self._written(self._dram, address, size)

    def _written(self, mapping: Mapping, address: int, size: int) -> None:
        if self.on_write is not None and isinstance(mapping.region, Ram):
            self.on_write(mapping.region.base_host + address - mapping.base, size)

    def _remapped(self) -> None:
        self.generation += 1
        self._viewed = None
        if self.on_remap is not None:
            self.on_remap()


def _copy_elements(source: Location, target: Location, count: int, check_limits: Callable[[], None]) -> None:
    """Copy `count` 8-byte elements in plain memory for COPY_MEM64, and call `check_limits` regularly."""
    (first, end), (to_first, to_end) = _bounds(source), _bounds(target)
    contiguous = source.contiguous and target.contiguous
    meet = first < to_end and to_first < end
    one_by_one = meet and not (contiguous and (to_first < first or (to_first - first) % REGISTER_BYTES == 0))
    if count > MAX_ELEMENTS and one_by_one:
        raise BeyondModel(
            f"COPY_MEM64 of {count} elements with overlapping source and destination is modelled only with at most "
            f"{MAX_ELEMENTS} elements"
        )
    most = PIECE if contiguous else SCATTERED_PIECE
    for begin in range(0, count, most):
        check_limits()
        skip, elements = begin * REGISTER_BYTES, min(most, count - begin)
        size = elements * REGISTER_BYTES
        _copy_piece(source.at(skip, size), target.at(skip, size), elements)


def _copy_piece(source: Location, target: Location, count: int) -> None:
    """Copy `count` elements in plain memory, with the same result as copying them one by one in ascending order.

    Do it in one operation where possible."""
    size = count * REGISTER_BYTES
    (first, end), (to_first, to_end) = _bounds(source), _bounds(target)
    contiguous = source.contiguous and target.contiguous
    distance = to_first - first
    if contiguous and (distance <= 0 or distance >= size):
        slice_of(target)[:] = slice_of(source)
    elif contiguous and distance % REGISTER_BYTES == 0:
        _repeat(slice_of(source)[:distance], slice_of(target))
    elif end <= to_first or to_end <= first:
        write_place(target, read_place(source))
    else:
        for skip in range(0, size, REGISTER_BYTES):
            write_place(target.at(skip, REGISTER_BYTES), read_place(source.at(skip, REGISTER_BYTES)))


def _repeat(period: memoryview, target: memoryview) -> None:
    """Fill `target`, which follows `period` in memory, with repetitions of the bytes of `period`."""
    done = len(period)
    target[:done] = period
    while done < len(target):
        more = min(done, len(target) - done)
        target[done : done + more] = target[:more]
        done += more


def _bounds(place: Location) -> tuple[int, int]:
    """Return the first physical address of a location, and the one after the last."""
    last = place.at(place.size - 1, 1).physical
    return place.physical, last + 1


def _relocated(fault: AccessFault, address: int) -> AccessFault:
    """Return the fault of an access to memory-mapped registers, with the guest address and a rule.

    The given `fault` has an offset in the register region in place of the guest address."""
    fault.address = address
    fault.rule = fault.rule or rules.COUNTER_SLOT
    return fault


def _fault(message: str, address: int, access: str, rule: Rule) -> AccessFault:
    return AccessFault(message, address=address, access=access, rule=rule)
