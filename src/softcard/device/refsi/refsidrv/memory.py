"""The `MemorySystem` of the profile ``refsidrv``: the reference driver's memory as each unit sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from softcard.core.device import Telemetry
from softcard.core.errors import AccessFault
from softcard.core.snapshot import Stateful
from softcard.core.space import PAGE_SIZE, Ram, Unit
from softcard.device.refsi.counters import PerfCounters
from softcard.device.refsi.interfaces import COMMAND_PROCESSOR, HART, HOST
from softcard.device.refsi.refsidrv.devices import (
    MASK64,
    Bus,
    CounterDevice,
    Device,
    RamDevice,
    ReferenceCrash,
    RomDevice,
    Span,
)
from softcard.device.refsi.refsidrv.dma import DmaDevice
from softcard.device.refsi.registers import (
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
    WINDOW_BASE,
    WINDOW_MODE,
    WINDOW_MODES,
    WINDOW_SCALE,
    WINDOW_TARGET,
)

# ---- windows ---------------------------------------------------------------------------------------------------------
# The reference driver's memory windows (choices `refsi/window-*`, profile refsidrv).


SHARED: Final = 0
PER_HART: Final = 1
HART_INDEX_MASK: Final = 0xFFFF


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration of a window, as its registers describe it; addresses, size and scale are in bytes."""

    base: int = 0
    target: int = 0
    size: int = 0
    mode: int = SHARED
    scale: int = 0
    active: bool = False


def scaling_factor(scale_a: int, scale_b: int) -> int:
    """Return the scaling factor SCALE of a window, the product of the factors in the fields SCALE_A and SCALE_B.

    If SCALE_A is 0, its factor is 0, otherwise 2**(SCALE_A - 1). The factor of SCALE_B is SCALE_B + 1."""
    return (1 << scale_a - 1) * (scale_b + 1) if scale_a else 0


class WindowDevice(Stateful):
    """One window: a device that forwards accesses to another device.

    The target is looked up once, when the window is mapped.
    """

    STATE = ("config", "mapped")

    def __init__(self, number: int, bus: Bus) -> None:
        self.number = number
        self.config = Config()
        self.mapped = Config()
        self._bus = bus
        self.target: tuple[Device, int] | None = None
        """The device that the window forwards to, and the offset in it. It is not part of the window's state."""

    @property
    def size(self) -> int:
        """The size in bytes at the time of mapping; the size in the registers if the window is not mapped."""
        return self.mapped.size if self.target is not None else self.config.size

    # -- registers ----------------------------------------------------------------------------------------------

    def write(self, register: int, value: int) -> None:
        """Write a register of this window; `register` is the offset of the register array that contains the register.

        If the window is mapped, a change of its configuration unmaps it and clears its ACTIVE bit. If the window is
        then active but not mapped, it is mapped. Raise `AccessFault` if that fails."""
        old = self.config
        if register == WINDOW_BASE.offset:
            self.config = replace(old, base=value)
            changed = value != self.mapped.base
        elif register == WINDOW_TARGET.offset:
            self.config = replace(old, target=value)
            changed = value != self.mapped.target
        elif register == WINDOW_SCALE.offset:
            parts = WINDOW_SCALE.decode(value)
            self.config = replace(old, scale=scaling_factor(parts["SCALE_A"], parts["SCALE_B"]))
            changed = self.config.scale != self.mapped.scale
        else:
            parts = WINDOW_MODE.decode(value)
            self.config = replace(old, active=bool(parts["ACTIVE"]), mode=parts["MODE"], size=parts["SIZE"] + 1)
            changed = (self.config.mode, self.config.size) != (self.mapped.mode, self.mapped.size)
        if changed or not self.config.active:
            self._unmap()
        if self.config.active and self.target is None:
            self._map()

    def open(self, config: Config) -> None:
        """Map the window as `config` describes. G1 uses this, because it has no window registers."""
        self.config = config
        self._map()

    def _map(self) -> None:
        config = self.config
        found = self._bus.find(config.target)
        if found is None:
            raise self._refused("its target is not memory")
        if isinstance(found[0], WindowDevice):
            raise self._refused("its target lies in another window")
        if config.mode not in (SHARED, PER_HART):
            raise self._refused(f"mode {config.mode} ({WINDOW_MODES.get(config.mode, 'reserved')}) is not supported")
        self.config = self.mapped = replace(config, active=True)
        self.target = found
        self._bus.add(config.base, self)

    def _unmap(self) -> None:
        if self.target is None:
            return
        self._bus.remove(self.mapped.base)
        self.config = replace(self.config, active=False)
        self.mapped = Config()
        self.target = None

    def _refused(self, why: str) -> AccessFault:
        return AccessFault(
            f"window {self.number} (base {self.config.base:#x}, target {self.config.target:#x}) cannot be opened: "
            f"{why}",
            address=self.config.target,
        )

    # -- accesses -----------------------------------------------------------------------------------------------

    def _target_at(self, offset: int, unit: Unit) -> tuple[Device, int] | None:
        if self.target is None:
            return None
        device, start = self.target
        if self.mapped.mode == PER_HART:
            if unit.kind != HART:
                return None
            start += (unit.index & HART_INDEX_MASK) * self.mapped.scale
        return device, start + offset & MASK64

    def span(self, offset: int, size: int, unit: Unit) -> Span | None:
        """Return the target's memory at `offset`; the window's own size is not checked."""
        found = self._target_at(offset, unit)
        return None if found is None else found[0].span(found[1], size, unit)

    def load(self, offset: int, size: int, unit: Unit) -> bytes | None:
        """Read bytes from the target device with its method `load`.

        Return None for an access past the end of the window. As in the reference driver, this includes an access
        to the window's last byte."""
        found = self._target_at(offset, unit)
        if found is None or offset + size & MASK64 >= self.config.size:
            return None
        return found[0].load(found[1], size, unit)

    def store(self, offset: int, data: bytes, unit: Unit) -> bool:
        """Write bytes to the target device with its method `store`.

        Return False for an access past the end of the window. As in the reference driver, this includes an access
        to the window's last byte."""
        found = self._target_at(offset, unit)
        if found is None or offset + len(data) & MASK64 >= self.config.size:
            return False
        return found[0].store(found[1], data, unit)

    def slow_span(self, offset: int, size: int, unit: Unit) -> Span | None:
        """Return the memory that the target device's `load` and `store` access for offset `offset` of the window.

        Return None for an access past the end of the window. As in the reference driver, this includes an access
        to the window's last byte."""
        found = self._target_at(offset, unit)
        if found is None or offset + size & MASK64 >= self.config.size:
            return None
        return found[0].slow_span(found[1], size, unit)


def make_windows(bus: Bus) -> tuple[WindowDevice, ...]:
    """Return the eight memory windows, all closed."""
    return tuple(WindowDevice(number, bus) for number in range(NUM_WINDOWS))


# ---- copies ----------------------------------------------------------------------------------------------------------
# COPY_MEM64 between plain memories, with the result of copying 8-byte elements one by one, upwards.


ELEMENT: Final = 8


def copy_elements(source: Span, target: Span, count: int) -> None:
    """Copy `count` elements of 8 bytes, one after the other.

    If the target begins inside the source, later elements are read from bytes that earlier elements have
    overwritten."""
    (from_ram, first), (to_ram, into) = source, target
    size = count * ELEMENT
    distance = into - first
    old = bytes(from_ram.view[first : first + size])
    if from_ram is not to_ram or not 0 < distance < size:
        new = old
    elif distance >= ELEMENT:
        new = (old[:distance] * (size // distance + 1))[:size]
    else:
        new = _onto_itself(old, distance)
    to_ram.view[into : into + size] = new


def _onto_itself(old: bytes, distance: int) -> bytes:
    """Return the result of an element-wise copy of `old` to a target `distance` (1 to 7) bytes later.

    The copy of each element overwrites the first bytes of the next element before that is read. So these bytes
    come from the end of the previous element, and some of them from the element before that one. 8 repetitions
    are enough, because the number of such bytes decreases each time."""
    new = np.frombuffer(old, dtype=np.uint8).reshape(-1, ELEMENT).copy()
    for _ in range(ELEMENT):
        new[1:, :distance] = new[:-1, ELEMENT - distance :].copy()
    return new.tobytes()


# ---- memory system ---------------------------------------------------------------------------------------------------


ADDRESS_BITS: Final = 56
"""The number of address bits of harts; they fault on higher addresses."""
COPY_BLOCK: Final = 1 << 16
"""The number of bytes that COPY_MEM64 moves at once; blocks keep the order of elements."""
DEBUG_END: Final = 0x1000
"""The end of the addresses that harts cannot access, as the simulator has its debug module there."""


class RefsidrvMemory(Stateful):
    """The reference driver's memories, registers and windows. `family` is "m" or "g"; `ram` makes memory.

    `check_limits` is called regularly during long copies, and may raise an error that ends them. `on_remap` is called
    when some addresses may map to other memory.
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
        self.check_limits: Callable[[], None] = lambda: None
        self.on_remap: Callable[[], None] = lambda: None
        self._connect()

    def _connect(self) -> None:
        self.bus = Bus()
        self.dma = DmaDevice(
            lambda address, unit: self.span(address, 0, unit), self.telemetry, lambda: self.check_limits()
        )
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
        """Open the two windows of G1: to the executable at `elf` and to the harts' own memories at `harts`."""
        self.windows[0].open(Config(G1_ELF_BASE, elf, G1_ELF_SIZE))
        self.windows[1].open(Config(G1_HART_BASE, harts, G1_HART_SIZE, PER_HART, G1_HART_SIZE))

    def reset(self) -> None:
        """Reset to the state at open: memories zero, windows closed, registers zero."""
        for ram in self.memories.values():
            ram.clear()
        self.counters.reset()
        self._connect()

    def close(self) -> None:
        """Release the host's memory, and remove all devices from the bus."""
        for ram in self.memories.values():
            ram.close()
        self.memories = {}
        self._connect()
        self.bus.replace(())

    # -- accesses -----------------------------------------------------------------------------------------------

    def span(self, address: int, size: int, unit: Unit) -> Span | None:
        """Return the memory at `address` for `unit`; None if accesses have side effects or no device is there."""
        found = self.bus.find(address)
        return None if found is None else found[0].span(found[1], size, unit)

    def read(self, address: int, size: int, unit: Unit) -> bytes:
        """Read `size` bytes from one device; raise `AccessFault` if the device refuses the access."""
        found = self.bus.find(address)
        if found is not None:
            span = found[0].span(found[1], size, unit)
            if span is not None and size > span[0].size:  # the sum of offset and size wrapped around
                raise ReferenceCrash(
                    f"the reference driver would read {size:#x} bytes past the end of a RAM from host memory"
                )
            data = _peek(span, size) if span is not None else found[0].load(found[1], size, unit)
            if data is not None:
                return data
        raise refused("read", address, size)

    def write(self, address: int, data: bytes, unit: Unit) -> None:
        """Write `data` to one device; raise `AccessFault` if the device refuses the access."""
        found = self.bus.find(address)
        if found is not None:
            span = found[0].span(found[1], len(data), unit)
            if span is not None:
                _poke(span, data)
                return
            if found[0].store(found[1], data, unit):
                return
        raise refused("write", address, len(data))

    def check_range(self, address: int, size: int, unit: Unit, access: str) -> None:
        """Raise `AccessFault` unless `unit` may access all the bytes; see `MemorySystem.check_range`."""
        span = self.span(address, size, unit)
        if span is None or span[1] + size > span[0].size:
            raise refused(access, address, size)

    def view(self, address: int, size: int) -> memoryview | None:
        """Return `size` bytes at `address` of the host's address space, as a view that shares memory with the device.

        Return None if the bytes are not plain memory."""
        span = self.span(address, size, HOST)
        return None if span is None else span[0].view[span[1] : span[1] + size]

    def copy64(self, source: int, target: int, count: int, unit: Unit) -> None:
        """Execute COPY_MEM64: check both ranges against the size of their device, then copy elements.

        Elements are copied in the memory that `slow_span` returns, or else by the devices' `load` and `store`."""
        if source % REGISTER_BYTES:
            raise AccessFault(
                f"the source of COPY_MEM64 is {source:#x}, expected a multiple of 8", address=source, access="read"
            )
        size = count * REGISTER_BYTES
        sides = []
        for address, access in ((source, "read"), (target, "write")):
            found = self.bus.find(address)
            if found is None or found[1] + size & MASK64 > found[0].size:
                raise refused(access, address, size)
            sides.append(found)
        for first in range(0, size, COPY_BLOCK):
            self.check_limits()
            self._copy_block(sides, (source, target), first, min(COPY_BLOCK, size - first), unit)

    def _copy_block(
        self, sides: list[tuple[Device, int]], addresses: tuple[int, int], first: int, size: int, unit: Unit
    ) -> None:
        """Copy `size` bytes, from offset `first` in the source to the same offset in the target.

        `sides` are two pairs of a device and an offset in it, for the start of the source and of the target.
        `addresses` are the device addresses of both. If source and target are plain memory, all elements are copied
        at once."""
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
        """Apply a write of a window register; raise `AccessFault` if the window cannot be opened."""
        array, index = divmod(number - FIRST_WINDOW_REGISTER, NUM_WINDOWS)
        try:
            self.windows[index].write(FIRST_WINDOW_REGISTER + array * NUM_WINDOWS, value)
        finally:
            self.on_remap()

    def port(self, hart: int) -> RefsidrvPort:
        """Return the port to memory of hart number `hart`."""
        return RefsidrvPort(self, Unit(HART, hart))

    @property
    def is_moving(self) -> bool:
        """False, as transfers are performed at their start."""
        return False

    def flush(self) -> None:
        """Do nothing: no transfer is ever outstanding."""

    def sync(self, flags: int) -> None:
        """Do nothing: there are no caches on the memory side."""

    # -- snapshots ----------------------------------------------------------------------------------------------

    @property
    def rams(self) -> tuple[Ram, ...]:
        """The RAM objects of all plain memory."""
        return tuple(self.memories.values())

    def snapshot(self) -> Any:
        """Return the state, for `restore`. In it, the devices are referred to by name."""
        names = {id(device): name for name, device in self._named.items()}
        bus = tuple((base, names[id(device)]) for base, device in self.bus.items())
        leads = tuple(each.target and (names[id(each.target[0])], each.target[1]) for each in self.windows)
        return super().snapshot(), bus, leads

    def restore(self, state: Any) -> None:
        """Return to a state that `snapshot` returned."""
        own, bus, leads = state
        super().restore(own)
        self.bus.replace((base, self._named[name]) for base, name in bus)
        for window, lead in zip(self.windows, leads, strict=True):
            window.target = lead and (self._named[lead[0]], lead[1])
        self.on_remap()


class RefsidrvPort:
    """A hart's port to `RefsidrvMemory`, with the accesses of the reference driver's simulator.

    Only the first byte of an access selects the memory; a register gets the whole access."""

    def __init__(self, memory: RefsidrvMemory, unit: Unit) -> None:
        self._memory = memory
        self._unit = unit

    def load(self, address: int, size: int) -> int:
        """Read `size` bytes at an address; return them as a little-endian number."""
        span = self._span(address)
        data = _peek(span, size) if span is not None else self._load(address, size)
        if data is None:
            raise refused("load", address, size)
        return int.from_bytes(data, "little")

    def store(self, address: int, size: int, value: int) -> None:
        """Write the low `size` bytes of a value to an address."""
        data = value.to_bytes(8, "little")[:size]
        span = self._span(address)
        if span is not None:
            _poke(span, data)
            return
        found = self._registers(address, size)
        if found is None or not found[0].store(found[1], data, self._unit):
            raise refused("store", address, size)

    def fetch(self, address: int) -> int:
        """Return the 16-bit halfword at `address`."""
        span = self._span(address)
        data = _peek(span, 2) if span is not None else self._load(address, 2)
        if data is None:
            raise refused("fetch", address, 2)
        return int.from_bytes(data, "little")

    def check_reservable(self, address: int, size: int, access: str) -> None:
        """Raise `AccessFault` unless the bytes are memory, as registers cannot be reserved.

        See the choice `refsi/reserve-registers`.
        """
        if self._span(address) is None:
            raise refused(f"reserved {access}", address, size)

    def page(self, address: int, access: str) -> int | None:
        """Return the host address minus the guest address of the byte at `address`; None if it is not in memory.

        The memory may end inside the page. The host memory of the rest of that page then also belongs to the `Ram`."""
        span = self._span(address)
        if span is None:
            return None
        host = span[0].host_address(span[1], self._unit)
        return None if host is None else host - address & MASK64

    def extent(self, address: int, access: str) -> tuple[int, int]:
        """Return the range around `address` in which the result of `page` is valid.

        The range ends at other devices and at the ends of the memory."""
        span, found = self._span(address), self._memory.bus.neighbours(address)
        assert span is not None
        ram, offset = span
        return max(found[0], address - offset), min(found[1], address - offset + ram.size)

    def string(self, address: int) -> bytes | None:
        """Return the bytes from `address` to a NUL, for the host call PUTSTRING; None if they cannot be read."""
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
    """Return `size` bytes of a memory; bytes after its end are zero, as in the reference driver's process."""
    ram, offset = span
    return bytes(ram.view[offset : offset + size]).ljust(size, b"\0")


def _poke(span: Span, data: bytes) -> None:
    ram, offset = span
    room = min(len(data), ram.size - offset)
    ram.view[offset : offset + room] = data[:room]


def refused(access: str, address: int, size: int) -> AccessFault:
    """Return the error for an access that every device refuses."""
    return AccessFault(f"{access} of {size} bytes at {address:#x} is refused", address=address, access=access)
