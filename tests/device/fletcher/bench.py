"""A device with a kernel, and RecordBatches put on it as a host does."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from softcard.core.event import Event
from softcard.device.fletcher.arrays import rebuild
from softcard.device.fletcher.device import FletcherDevice
from softcard.device.fletcher.events import KernelText
from softcard.device.fletcher.kernel import Kernel

START, STOP, RESET = 1, 2, 4
IDLE, BUSY, DONE = 1, 2, 4


class Bench:
    """`kernel` on a device; `settings` are those of the device. Written batches get `room` bytes for each buffer."""

    def __init__(self, kernel: Kernel, *, room: int = 1 << 16, **settings: Any) -> None:
        self.device = FletcherDevice(kernel.map(), kernel, **settings)
        self.map = self.device.map
        self.events: list[Event] = []
        self.device.probes.subscribe(self.events.append)
        self._room = room
        self.addresses: dict[str, list[int]] = {}

    def put(self, name: str, *columns: pa.Array, rows: int | None = None) -> None:
        """Give the device a batch to read."""
        layout = self.map.batch(name)
        addresses = []
        for field, column in zip(layout.schema, columns, strict=True):
            assert column.type == field.type
            for buffer in column.buffers()[1:]:
                addresses.append(self.device.memory.adopt(buffer if buffer is not None else b""))
        self._set(name, addresses, len(columns[0]) if rows is None else rows)

    def room(self, name: str, rows: int) -> None:
        """Give it room for a batch to write."""
        addresses = [self.device.memory.allocate(self._room) for _ in self.map.batch(name).buffers]
        self._set(name, addresses, rows)

    def _set(self, name: str, addresses: list[int], rows: int) -> None:
        layout = self.map.batch(name)
        self.addresses[name] = addresses
        self.device.write(layout.first_index, 0)
        self.device.write(layout.last_index, rows)
        for slot, address in zip(layout.buffers, addresses, strict=True):
            self.write64(slot.address, address)

    def write64(self, address: int, value: int) -> None:
        self.device.write(address, value & 0xFFFF_FFFF)
        self.device.write(address + 4, value >> 32)

    def argument(self, name: str, value: int) -> None:
        """Write a custom register."""
        register = self.map.custom(name)
        self.device.write(register.address, value & 0xFFFF_FFFF)
        if register.width > 32:
            self.device.write(register.address + 4, value >> 32 & 0xFFFF_FFFF)

    def start(self) -> None:
        self.device.write(0, START)
        self.device.write(0, 0)

    def status(self) -> int:
        return self.device.read(4).value

    def run(self) -> int:
        """Start, wait until done; the result."""
        self.start()
        while not self.status() & DONE:
            assert not self.device.is_stuck, self.device.last_error
        return self.device.read(8).value | self.device.read(12).value << 32

    def rows(self, name: str, rows: int) -> pa.RecordBatch:
        """What the kernel has written."""
        return rebuild(self.map.batch(name), self.addresses[name], self.device.memory, 0, rows)

    def said(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, KernelText)]
