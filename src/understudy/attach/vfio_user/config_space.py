"""The 256 bytes of a conventional PCI device's configuration space (PCI Local Bus 3.0, chapter 6), header type 0."""

from __future__ import annotations

import struct
from enum import IntFlag
from typing import Final

from understudy.core.errors import ModelBug
from understudy.core.pci import PciDevice
from understudy.core.record import Record, records, reserved, u8, u16, u32
from understudy.core.words import align_down

SIZE: Final = 256
NUM_BARS: Final = 6
SMALLEST_BAR: Final = 16


class BaseAddress(Record, size=4):
    """One base address register; bits 0-3 of a 32-bit memory region are 0."""

    word: int = u32(default=0)


class HeaderType0(Record, size=64):
    """The predefined header."""

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
    """The Command register (6.2.2), as far as a device with memory BARs and INTx uses it."""

    MEMORY_SPACE = 0x002
    BUS_MASTER = 0x004
    PARITY_ERROR_RESPONSE = 0x040
    SERR_ENABLE = 0x100
    INTERRUPT_DISABLE = 0x400


STATUS_INTERRUPT: Final = 0x0008
"""Interrupt Status (6.2.3): the state of the interrupt pin, whether disabled or not."""
_COMMAND: Final = HeaderType0.offset_of("command")
_STATUS: Final = HeaderType0.offset_of("status")
_BARS: Final = HeaderType0.offset_of("base_addresses")
_WHOLE_BYTES: Final = ("cache_line_size", "latency_timer", "interrupt_line")
"""Registers that software may use as it likes."""


class ConfigSpace:
    """Values and which of their bits can be written. The device is asked for identity and BARs once."""

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
                    f"{SMALLEST_BAR} to 2**31, not {bar.index} and {size:#x}"
                )
            struct.pack_into("<I", self._writable, _BARS + 4 * bar.index, align_down(0xFFFF_FFFF, size))
        self._values = bytearray(SIZE)
        self.reset()

    def reset(self) -> None:
        """As after power-on: nothing enabled, no addresses."""
        self._values[:] = self._initial.ljust(SIZE, b"\0")

    def read(self, offset: int, count: int, pin_high: bool) -> bytes:
        """`count` bytes from `offset`, which the caller has checked; `pin_high` is the interrupt pin now."""
        self._values[_STATUS] = STATUS_INTERRUPT if pin_high else 0
        return bytes(self._values[offset : offset + count])

    def write(self, offset: int, data: bytes) -> None:
        """Store the writable bits of `data`; the others keep their value."""
        for at, byte in enumerate(data, offset):
            mask = self._writable[at]
            self._values[at] = self._values[at] & ~mask | byte & mask

    @property
    def command(self) -> CommandBits:
        """The Command register."""
        return CommandBits(int(struct.unpack_from("<H", self._values, _COMMAND)[0]))

    @property
    def interrupt_disabled(self) -> bool:
        """Whether the pin must stay low."""
        return CommandBits.INTERRUPT_DISABLE in self.command

    @property
    def bus_master(self) -> bool:
        """Whether the device may reach memory."""
        return CommandBits.BUS_MASTER in self.command
