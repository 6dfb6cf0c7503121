"""A device that a host has opened: its memories, and its description for the library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from understudy.attach.refsi.messages import DESCRIPTION, ENTRY, MAX_ENTRIES, MAX_MEMORIES, MEMORY
from understudy.core.memory_files import HAS_MEMORY_FILES
from understudy.core.space import Ram, SharedRam
from understudy.device.refsi.device import RefSiDevice
from understudy.device.refsi.registers import MemoryKind

MEMORIES: Final = (MemoryKind.TCIM, MemoryKind.TCDM, MemoryKind.DRAM)
"""What of a memory map is plain memory."""


@dataclass(frozen=True, slots=True)
class Options:
    """What devices are opened for hosts. `settings` are those of `RefSiDevice`.

    With `shared_memory` hosts map the devices' memories, where the system can do that; without they reach everything by
    messages, and refsiGetMappedAddress gives nothing. `on_open` is given each device before its host hears of it,
    `on_close` before it is closed.
    """

    settings: tuple[tuple[str, Any], ...] = (("profile", "refsidrv"),)
    shared_memory: bool = True
    on_open: Callable[[RefSiDevice], None] | None = None
    on_close: Callable[[RefSiDevice], None] | None = None


class OpenDevice:
    """A device of `family`, freshly opened."""

    def __init__(self, family: str, options: Options, profile_level: int, vlen: int) -> None:
        settings = dict(options.settings) | {"profile_level": profile_level}
        if vlen:
            settings["vlen"] = vlen
        is_shared = options.shared_memory and HAS_MEMORY_FILES
        self.family = family
        self.device = RefSiDevice(family, ram=SharedRam if is_shared else Ram, **settings)
        self.shared: list[tuple[int, int, SharedRam]] = []
        """Base and size of each memory that the host maps, and itself."""
        for entry in self.device.memory_map if is_shared else ():
            if entry.kind in MEMORIES:
                ram = self._ram_at(entry.base, entry.size)
                assert isinstance(ram, SharedRam)
                self.shared.append((entry.base, entry.size, ram))

    def _ram_at(self, base: int, size: int) -> Ram:
        """The memory at an address of the map. The device learns that code may change there without notice."""
        view = self.device.view(base, size)
        assert view is not None
        host = _host_address(view)
        return next(ram for ram in self.device.memory.rams if ram.base_host == host)

    @property
    def description(self) -> bytes:
        """What the library has to know."""
        info = self.device.info
        counts = len(info.memory_map), len(self.shared)
        isa = info.isa.encode()
        head = DESCRIPTION.pack(
            info.cores, info.harts_per_core, info.vlen, info.elen, *counts, SharedRam.FILE_OFFSET, isa
        )
        entries = b"".join(ENTRY.pack(entry.kind, entry.base, entry.size) for entry in info.memory_map)
        memories = b"".join(MEMORY.pack(base, size) for base, size, _ in self.shared)
        return head + entries.ljust(MAX_ENTRIES * ENTRY.size, b"\0") + memories.ljust(MAX_MEMORIES * MEMORY.size, b"\0")

    @property
    def files(self) -> list[int]:
        """Descriptors of the shared memories."""
        return [ram.descriptor for _, _, ram in self.shared]

    @property
    def plain(self) -> int:
        """A bit for each shared memory that the host reaches as the memory map says.

        Windows can cover one, or take its place.
        """
        found = 0
        for bit, (base, size, ram) in enumerate(self.shared):
            view = self.device.memory.view(base, size)
            if view is not None and _host_address(view) == ram.base_host:
                found |= 1 << bit
        return found

    def map(self, address: int, size: int) -> int:
        """Where the memory map has the `size` bytes that the host sees at `address`; 0 where they are no memory."""
        view = self.device.view(address, max(size, 1))
        if view is None:
            return 0
        host = _host_address(view)
        return next((base + host - ram.base_host for base, _, ram in self.shared if _holds(ram, host)), 0)


def _holds(ram: Ram, host: int) -> bool:
    return 0 <= host - ram.base_host < ram.size


def _host_address(view: memoryview) -> int:
    return int(np.frombuffer(view, dtype=np.uint8).ctypes.data)
