"""The accesses REGION_READ, REGION_WRITE and REGION_WRITE_MULTI to BARs and to the configuration space."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntFlag
from typing import Final

from softcard.attach.vfio_user import rules
from softcard.attach.vfio_user.dma import DmaMemory
from softcard.attach.vfio_user.interrupts import Intx
from softcard.attach.vfio_user.messages import RegionAccess, RegionIndex, SingleWrite, WriteMultiHead
from softcard.core.errors import ModelBug, RuleError, WireError
from softcard.core.pci import PciDevice
from softcard.core.record import Record, records, reserved, u8, u16, u32
from softcard.core.words import align_down

# ---- configuration space ---------------------------------------------------------------------------------------------
# The 256 bytes of a conventional PCI device's configuration space (PCI Local Bus 3.0, chapter 6), header type 0.


SIZE: Final = 256
NUM_BARS: Final = 6
SMALLEST_BAR: Final = 16


class BaseAddress(Record, size=4):
    """One base address register; bits 0-3 of a 32-bit memory region are 0."""

    word: int = u32(default=0)


class HeaderType0(Record, size=64):
    """The predefined header of the configuration space (type 0)."""

    vendor_id: int = u16()
    device_id: int = u16()
    command: int = u16(default=0)
    status: int = u16(default=0)
    revision_id: int = u8()
    prog_if: int = u8()
    sub_class: int = u8()
    base_class: int = u8()
    cache_line_size: int = u8(default=0)
    latency_timer: int = u8(default=0)
    header_type: int = u8(default=0)
    bist: int = u8(default=0)
    base_addresses: tuple[BaseAddress, ...] = records(BaseAddress, NUM_BARS, default=(BaseAddress(),) * NUM_BARS)
    cardbus_cis: int = u32(default=0)
    subsystem_vendor_id: int = u16()
    subsystem_id: int = u16()
    expansion_rom: int = u32(default=0)
    capabilities_pointer: int = u8(default=0)
    reserved_35: bytes = reserved(7)
    interrupt_line: int = u8(default=0)
    interrupt_pin: int = u8()
    min_gnt: int = u8(default=0)
    max_lat: int = u8(default=0)


class CommandBits(IntFlag):
    """The bits of the PCI Command register that a device with memory BARs and INTx uses.

    Source: PCI Local Bus Specification 3.0, 6.2.2."""

    MEMORY_SPACE = 0x002
    BUS_MASTER = 0x004
    PARITY_ERROR_RESPONSE = 0x040
    SERR_ENABLE = 0x100
    INTERRUPT_DISABLE = 0x400


STATUS_INTERRUPT: Final = 0x0008
"""The Interrupt Status bit (6.2.3 of the PCI specification): the level of the interrupt pin.

It shows the level even while the interrupt is disabled.
"""
_COMMAND: Final = HeaderType0.offset_of("command")
_STATUS: Final = HeaderType0.offset_of("status")
_BARS: Final = HeaderType0.offset_of("base_addresses")
_WHOLE_BYTES: Final = ("cache_line_size", "latency_timer", "interrupt_line")
"""The names of the one-byte registers whose bits software can all write."""


class ConfigSpace:
    """The register values of the configuration space, with masks of the writable bits.

    The device's identity and BARs are read once, when this object is created.
    """

    def __init__(self, device: PciDevice) -> None:
        who = device.identity
        self._initial = HeaderType0(
            vendor_id=who.vendor_id,
            device_id=who.device_id,
            revision_id=who.revision_id,
            prog_if=who.class_code & 0xFF,
            sub_class=who.class_code >> 8 & 0xFF,
            base_class=who.class_code >> 16,
            subsystem_vendor_id=who.subsystem_vendor_id,
            subsystem_id=who.subsystem_id,
            interrupt_pin=who.interrupt_pin,
        ).pack()
        self._writable = bytearray(SIZE)
        struct.pack_into("<H", self._writable, _COMMAND, sum(CommandBits))
        for name in _WHOLE_BYTES:
            self._writable[HeaderType0.offset_of(name)] = 0xFF
        for bar in device.bars:
            size = bar.size_bytes
            if bar.index not in range(NUM_BARS) or size < SMALLEST_BAR or size & (size - 1) or size > 1 << 31:
                raise ModelBug(
                    f"a BAR must have an index from 0 to {NUM_BARS - 1} and a size that is a power of two from "
                    f"{SMALLEST_BAR} to 2**31, not index {bar.index} and size {size:#x}"
                )
            struct.pack_into("<I", self._writable, _BARS + 4 * bar.index, align_down(0xFFFF_FFFF, size))
        self._values = bytearray(SIZE)
        self.reset()

    def reset(self) -> None:
        """Reset the registers to their power-on state: nothing is enabled, and no BAR has an address."""
        self._values[:] = self._initial.ljust(SIZE, b"\0")

    def read(self, offset: int, count: int, pin_high: bool) -> bytes:
        """Return `count` bytes from `offset`, a range that the caller has checked.

        `pin_high` is the level of the interrupt pin at the time.
        """
        self._values[_STATUS] = STATUS_INTERRUPT if pin_high else 0
        return bytes(self._values[offset : offset + count])

    def write(self, offset: int, data: bytes) -> None:
        """Store the bits of `data` that are writable at `offset`; the other bits keep their values."""
        for at, byte in enumerate(data, offset):
            mask = self._writable[at]
            self._values[at] = self._values[at] & ~mask | byte & mask

    @property
    def command(self) -> CommandBits:
        """The Command register."""
        return CommandBits(int(struct.unpack_from("<H", self._values, _COMMAND)[0]))

    @property
    def interrupt_disabled(self) -> bool:
        """True if the device's interrupt is disabled, so that its pin stays low."""
        return CommandBits.INTERRUPT_DISABLE in self.command

    @property
    def bus_master(self) -> bool:
        """True if the device may access memory as a bus master."""
        return CommandBits.BUS_MASTER in self.command


# ---- accesses --------------------------------------------------------------------------------------------------------


ACCESS: Final = RegionAccess.layout
CONFIG: Final = int(RegionIndex.CONFIG)
DEVICE_SIZES: Final = frozenset({1, 2, 4, 8})


class Regions:
    """The device's BARs and configuration space, by region index. The configuration space persists across sessions."""

    def __init__(self, device: PciDevice, dma: DmaMemory, intx: Intx, limit: int) -> None:
        self._device = device
        self._config = ConfigSpace(device)
        self._dma = dma
        self._intx = intx
        self._limit = limit
        self._sizes = {bar.index: bar.size_bytes for bar in device.bars} | {CONFIG: SIZE}
        self.has_interrupt = bool(device.identity.interrupt_pin)
        self._config_changed()

    def size_of(self, region: int) -> int:
        """Return the size of a region in bytes; 0 if the device does not have it."""
        return self._sizes.get(region, 0)

    def reset(self) -> None:
        """Reset device and configuration space to their state after power-on."""
        self._device.reset()
        self._config.reset()
        self._config_changed()

    def read(self, payload: bytes) -> bytes:
        """Carry out REGION_READ: take the payload of the command, and return the payload of the reply."""
        if len(payload) != ACCESS.size:
            raise _wrong_size(f"the payload of REGION_READ must have {ACCESS.size} bytes, not {len(payload)}", payload)
        offset, region, count = ACCESS.unpack(payload)
        self._check(offset, region, count, 0)
        if region == CONFIG:
            return payload + self._config.read(offset, count, self._device.line.level)
        read = self._device.read_bar
        if count in DEVICE_SIZES:
            return payload + read(region, offset, count).to_bytes(count, "little")
        return payload + b"".join(read(region, at, size).to_bytes(size, "little") for at, size in _cut(offset, count))

    def write(self, payload: bytes) -> bytes:
        """Carry out REGION_WRITE: take the payload of the command, and return the payload of the reply."""
        if len(payload) < ACCESS.size:
            raise _wrong_size(
                f"the payload of REGION_WRITE must have {ACCESS.size} bytes and data, not {len(payload)}", payload
            )
        offset, region, count = ACCESS.unpack_from(payload)
        if len(payload) != ACCESS.size + count:
            raise _wrong_size(
                f"the data of REGION_WRITE must have {count} bytes (its count), not {len(payload) - ACCESS.size}",
                payload,
            )
        self._check(offset, region, count, 0)
        self._write(offset, region, payload[ACCESS.size :])
        return payload[: ACCESS.size]

    def write_multi(self, payload: bytes) -> bytes:
        """Carry out REGION_WRITE_MULTI and return the payload of the reply.

        All writes are checked before the first one is made.
        """
        head = WriteMultiHead.parse(payload)
        room, rest = divmod(len(payload) - WriteMultiHead.size_bytes, SingleWrite.size_bytes)
        if rest or head.wr_cnt != room:
            raise _wrong_size(
                f"the writes of REGION_WRITE_MULTI must have {head.wr_cnt} (its wr_cnt) times {SingleWrite.size_bytes} "
                f"bytes, not {len(payload) - WriteMultiHead.size_bytes}",
                payload,
            )
        starts = range(WriteMultiHead.size_bytes, len(payload), SingleWrite.size_bytes)
        writes = [(start, SingleWrite.parse(payload, start)) for start in starts]
        for start, write in writes:
            if write.count > SingleWrite.slot("data").size_bytes:
                raise RuleError(
                    f"one write of REGION_WRITE_MULTI must have at most 8 bytes, not {write.count}",
                    rule=rules.WRITE_MULTI_COUNT,
                ).at("byte", start + SingleWrite.offset_of("count"))
            self._check(write.offset, write.region, write.count, start)
        for _, write in writes:
            self._write(write.offset, write.region, write.data.to_bytes(8, "little")[: write.count])
        return head.pack()

    def _write(self, offset: int, region: int, data: bytes) -> None:
        count = len(data)
        if region == CONFIG:
            self._config.write(offset, data)
            self._config_changed()
        elif count in DEVICE_SIZES:
            self._device.write_bar(region, offset, count, int.from_bytes(data, "little"))
        else:
            for at, size in _cut(offset, count):
                piece = data[at - offset : at - offset + size]
                self._device.write_bar(region, at, size, int.from_bytes(piece, "little"))

    def _config_changed(self) -> None:
        self._dma.set_bus_master(self._config.bus_master)
        self._intx.set_disabled(self._config.interrupt_disabled)

    def _check(self, offset: int, region: int, count: int, start: int) -> None:
        """Raise an error for an access outside its region; `start` is the access's position in the payload."""
        size = self._sizes.get(region, 0)
        if offset + count <= size and 0 < count <= self._limit:
            return
        if not size:
            raise RuleError(f"the device has no region {region}", rule=rules.REGION_INDEX).at(
                "byte", start + RegionAccess.offset_of("region")
            )
        if not 0 < count <= self._limit:
            raise RuleError(f"count must be 1 to {self._limit}, not {count}", rule=rules.REGION_COUNT).at(
                "byte", start + RegionAccess.offset_of("count")
            )
        raise RuleError(
            f"{count} bytes at {offset:#x} do not lie in region {region} of {size:#x} bytes", rule=rules.REGION_BOUNDS
        ).at("byte", start + RegionAccess.offset_of("offset"))


def _cut(offset: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield (offset, size) of the accesses that make up `count` bytes at `offset`.

    Each access is naturally aligned and has at most 8 bytes."""
    end = offset + count
    while offset < end:
        size = min(8, offset & -offset or 8, 1 << (end - offset).bit_length() - 1)
        yield offset, size
        offset += size


def _wrong_size(text: str, payload: bytes) -> WireError:
    return WireError(text, rule=rules.PAYLOAD).at("byte", len(payload), "end of the payload")
