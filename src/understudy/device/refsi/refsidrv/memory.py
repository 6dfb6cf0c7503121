"""`MemorySystem` of the profile ``refsidrv``: what each unit sees of the reference driver's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from understudy.core.errors import AccessFault
from understudy.core.snapshot import Stateful
from understudy.core.space import PAGE_SIZE, Ram, Unit
from understudy.core.telemetry import Telemetry
from understudy.device.refsi.counters import PerfCounters
from understudy.device.refsi.interfaces import COMMAND_PROCESSOR, HART, HOST
from understudy.device.refsi.refsidrv.copy import copy_elements
from understudy.device.refsi.refsidrv.devices import (
    MASK64,
    Bus,
    CounterDevice,
    Device,
    RamDevice,
    ReferenceCrash,
    RomDevice,
    Span,
)
from understudy.device.refsi.refsidrv.dma import DmaDevice
from understudy.device.refsi.refsidrv.windows import PER_HART, Config, WindowDevice, make_windows
from understudy.device.refsi.registers import (
    DMA_BASE,
    DRAM_BASE,
    DRAM_SIZE,
    FIRST_WINDOW_REGISTER,
    G1_ELF_BASE,
    G1_ELF_SIZE,
    G1_HART_BASE,
    G1_HART_SIZE,
    NUM_WINDOWS,
    PERF_COUNTERS_BASE,
    REGISTER_BYTES,
    TCDM_BASE,
    TCDM_SIZE,
    TCIM_BASE,
    TCIM_SIZE,
)

ADDRESS_BITS: Final = 56
"""Harts fault on addresses that need more."""
COPY_BLOCK: Final = 1 << 16
"""Bytes that COPY_MEM64 moves at once; blocks follow each other as elements do."""
DEBUG_END: Final = 0x1000
"""Harts cannot reach registers below: the simulator keeps them for its debug module."""


class RefsidrvMemory(Stateful):
    """The reference's memories, registers and windows. `family` is "m" or "g"; `ram` makes plain memory.

    `look` is called now and then while much is copied, and may raise what ends that; `on_remap` when other memory may
    be behind some addresses.
    """

    STATE = ("rams", "dma", "windows")

    def __init__(
        self,
        counters: PerfCounters,
        telemetry: Telemetry | None = None,
        family: str = "m",
        *,
        ram: Callable[[int], Ram] = Ram,
    ) -> None:
        self.family = family
        self.counters = counters
        self.telemetry = Telemetry() if telemetry is None else telemetry
        self.memories: dict[int, Ram] = {TCDM_BASE: ram(TCDM_SIZE), DRAM_BASE: ram(DRAM_SIZE)}
        if family == "g":
            self.memories[TCIM_BASE] = ram(TCIM_SIZE)
        self.look: Callable[[], None] = lambda: None
        self.on_remap: Callable[[], None] = lambda: None
        self._connect()

    def _connect(self) -> None:
        self.bus = Bus()
        self.dma = DmaDevice(lambda address, unit: self.span(address, 0, unit), self.telemetry, lambda: self.look())
        self.windows: tuple[WindowDevice, ...] = make_windows(self.bus)
        places: dict[int, Device] = {
            base: RomDevice(ram) if base == TCIM_BASE else RamDevice(ram) for base, ram in self.memories.items()
        }
        places[PERF_COUNTERS_BASE] = CounterDevice(self.counters)
        if self.family == "m":
            places[DMA_BASE] = self.dma
        for base, device in places.items():
            self.bus.add(base, device)
        self._named: dict[str, Device] = {f"device at {base:#x}": device for base, device in places.items()}
        self._named |= {f"window {window.number}": window for window in self.windows}

    def open_g1_windows(self, elf: int, harts: int) -> None:
        """Open the two windows that G1 has: onto the executable at `elf` and the harts' own memories at `harts`."""
        self.windows[0].open(Config(G1_ELF_BASE, elf, G1_ELF_SIZE))
        self.windows[1].open(Config(G1_HART_BASE, harts, G1_HART_SIZE, PER_HART, G1_HART_SIZE))

    def reset(self) -> None:
        """Back to the state at open: memories zero, windows closed, registers zero."""
        for ram in self.memories.values():
            ram.clear()
        self.counters.reset()
        self._connect()

    def close(self) -> None:
        """Give the host's memory back: the bus is empty."""
        for ram in self.memories.values():
            ram.close()
        self.memories = {}
        self._connect()
        self.bus.replace(())

    # -- accesses -----------------------------------------------------------------------------------------------

    def span(self, address: int, size: int, unit: Unit) -> Span | None:
        """The memory behind `address` for `unit`, None where accesses have effects or nothing is there."""
        found = self.bus.find(address)
        return None if found is None else found[0].span(found[1], size, unit)

    def read(self, address: int, size: int, unit: Unit) -> bytes:
        """Read inside one device; `AccessFault` where that refuses."""
        found = self.bus.find(address)
        if found is not None:
            span = found[0].span(found[1], size, unit)
            if span is not None and size > span[0].size:  # offset and size wrapped around
                raise ReferenceCrash(f"the reference would read {size:#x} bytes of host memory from a RAM")
            data = _peek(span, size) if span is not None else found[0].load(found[1], size, unit)
            if data is not None:
                return data
        raise refused("read", address, size)

    def write(self, address: int, data: bytes, unit: Unit) -> None:
        """Write inside one device; `AccessFault` where that refuses."""
        found = self.bus.find(address)
        if found is not None:
            span = found[0].span(found[1], len(data), unit)
            if span is not None:
                _poke(span, data)
                return
            if found[0].store(found[1], data, unit):
                return
        raise refused("write", address, len(data))

    def view(self, address: int, size: int) -> memoryview | None:
        """The bytes themselves, as the host sees them."""
        span = self.span(address, size, HOST)
        return None if span is None else span[0].view[span[1] : span[1] + size]

    def copy64(self, source: int, target: int, count: int, unit: Unit) -> None:
        """COPY_MEM64: both ranges are checked against the size of their device, then elements go the slow way."""
        if source % REGISTER_BYTES:
            raise AccessFault(f"COPY_MEM64 from {source:#x}: expected a multiple of 8", address=source, access="read")
        size = count * REGISTER_BYTES
        sides = []
        for address, access in ((source, "read"), (target, "write")):
            found = self.bus.find(address)
            if found is None or found[1] + size & MASK64 > found[0].size:
                raise refused(access, address, size)
            sides.append(found)
        for first in range(0, size, COPY_BLOCK):
            self.look()
            self._copy_block(sides, (source, target), first, min(COPY_BLOCK, size - first), unit)

    def _copy_block(
        self, sides: list[tuple[Device, int]], addresses: tuple[int, int], first: int, size: int, unit: Unit
    ) -> None:
        """Copy the `size` bytes from offset `first` on: at once where all of them are memory on both sides."""
        (reader, source), (writer, target) = ((device, offset + first) for device, offset in sides)
        spans = reader.slow_span(source, size, unit), writer.slow_span(target, size, COMMAND_PROCESSOR)
        if spans[0] is not None and spans[1] is not None:
            copy_elements(spans[0], spans[1], size // REGISTER_BYTES)
            return
        for step in range(0, size, REGISTER_BYTES):
            data = reader.load(source + step, REGISTER_BYTES, unit)
            if data is None:
                raise refused("read", addresses[0] + first + step, REGISTER_BYTES)
            if not writer.store(target + step, data, COMMAND_PROCESSOR):
                raise refused("write", addresses[1] + first + step, REGISTER_BYTES)

    def window_register(self, number: int, value: int) -> None:
        """A window register was written; `AccessFault` where the window cannot be opened."""
        array, index = divmod(number - FIRST_WINDOW_REGISTER, NUM_WINDOWS)
        try:
            self.windows[index].write(FIRST_WINDOW_REGISTER + array * NUM_WINDOWS, value)
        finally:
            self.on_remap()

    def port(self, hart: int) -> RefsidrvPort:
        """The memory as hart number `hart` sees it."""
        return RefsidrvPort(self, Unit(HART, hart))

    @property
    def is_moving(self) -> bool:
        """Never: transfers are done at once."""
        return False

    def settle(self) -> None:
        """Nothing is ever under way."""

    def sync(self, flags: int) -> None:
        """Nothing is cached on this side of the harts."""

    # -- snapshots ----------------------------------------------------------------------------------------------

    @property
    def rams(self) -> tuple[Ram, ...]:
        """All plain memory."""
        return tuple(self.memories.values())

    def snapshot(self) -> Any:
        """The state, for `restore`; devices by name."""
        names = {id(device): name for name, device in self._named.items()}
        bus = tuple((base, names[id(device)]) for base, device in self.bus.items())
        leads = tuple(each.target and (names[id(each.target[0])], each.target[1]) for each in self.windows)
        return super().snapshot(), bus, leads

    def restore(self, state: Any) -> None:
        """Go back to a state that `snapshot` gave."""
        own, bus, leads = state
        super().restore(own)
        self.bus.replace((base, self._named[name]) for base, name in bus)
        for window, lead in zip(self.windows, leads, strict=True):
            window.target = lead and (self._named[lead[0]], lead[1])
        self.on_remap()


class RefsidrvPort:
    """A hart's way to `RefsidrvMemory`, as the simulator in the reference asks for it.

    Memory is found by the first byte of an access alone; registers get the whole access.
    """

    def __init__(self, memory: RefsidrvMemory, unit: Unit) -> None:
        self._memory = memory
        self._unit = unit

    def load(self, address: int, size: int) -> int:
        """Read `size` bytes."""
        span = self._span(address)
        data = _peek(span, size) if span is not None else self._load(address, size)
        if data is None:
            raise refused("load", address, size)
        return int.from_bytes(data, "little")

    def store(self, address: int, size: int, value: int) -> None:
        """Write `size` bytes."""
        data = value.to_bytes(8, "little")[:size]
        span = self._span(address)
        if span is not None:
            _poke(span, data)
            return
        found = self._registers(address, size)
        if found is None or not found[0].store(found[1], data, self._unit):
            raise refused("store", address, size)

    def fetch(self, address: int) -> int:
        """The 16-bit parcel at `address`."""
        span = self._span(address)
        data = _peek(span, 2) if span is not None else self._load(address, 2)
        if data is None:
            raise refused("fetch", address, 2)
        return int.from_bytes(data, "little")

    def check_reservable(self, address: int, size: int, access: str) -> None:
        """Memory can be reserved, nothing else (choice `refsi/reserve-registers`)."""
        if self._span(address) is None:
            raise refused(f"reserved {access}", address, size)

    def page(self, address: int, access: str) -> int | None:
        """Host address less guest address of the byte at `address`; the rest of its page may lie outside the memory
        by up to a page, where `Ram` owns the host's memory too."""
        span = self._span(address)
        if span is None:
            return None
        host = span[0].host_address(span[1], self._unit)
        return None if host is None else host - address & MASK64

    def extent(self, address: int, access: str) -> tuple[int, int]:
        """Around `address`, which `page` has an answer for: up to the next devices, and the ends of the memory."""
        span, found = self._span(address), self._memory.bus.neighbours(address)
        assert span is not None
        ram, offset = span
        return max(found[0], address - offset), min(found[1], address - offset + ram.size)

    def string(self, address: int) -> bytes | None:
        """The bytes from `address` up to a NUL, None where they cannot be read: what PUTSTRING prints."""
        span = self._span(address)
        if span is not None:
            ram, offset = span
            return b"".join(_until_nul(ram, offset))
        text = b""
        while b"\0" not in text:
            chunk = self._load(address + len(text), REGISTER_BYTES)
            if chunk is None:
                return None
            text += chunk
        return text[: text.index(b"\0")]

    def _span(self, address: int) -> Span | None:
        return None if address >> ADDRESS_BITS else self._memory.span(address, 1, self._unit)

    def _load(self, address: int, size: int) -> bytes | None:
        found = self._registers(address, size)
        return None if found is None else found[0].load(found[1], size, self._unit)

    def _registers(self, address: int, size: int) -> tuple[Device, int] | None:
        if address + size - 1 >> ADDRESS_BITS or address < DEBUG_END:
            return None
        return self._memory.bus.find(address)


def _until_nul(ram: Ram, offset: int) -> Iterator[bytes]:
    while offset < ram.size:
        chunk = bytes(ram.view[offset : offset + PAGE_SIZE])
        end = chunk.find(b"\0")
        if end >= 0:
            yield chunk[:end]
            return
        yield chunk
        offset += PAGE_SIZE


def _peek(span: Span, size: int) -> bytes:
    """Bytes of a memory; zeros behind its end, where the reference's host memory has them."""
    ram, offset = span
    return bytes(ram.view[offset : offset + size]).ljust(size, b"\0")


def _poke(span: Span, data: bytes) -> None:
    ram, offset = span
    room = min(len(data), ram.size - offset)
    ram.view[offset : offset + room] = data[:room]


def refused(access: str, address: int, size: int) -> AccessFault:
    """The error for an access that no device takes."""
    return AccessFault(f"{access} of {size} bytes at {address:#x} is refused", address=address, access=access)
