"""A RefSi device that a host has opened, with its memories and the description that the library receives."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from softcard.attach.refsi.messages import DESCRIPTION, ENTRY, MAX_ENTRIES, MAX_MEMORIES, MEMORY
from softcard.core.errors import AccessFault
from softcard.core.files import HAS_MEMORY_FILES
from softcard.core.lint import OFF
from softcard.core.space import Ram, SharedRam
from softcard.device.refsi.device import RefSiDevice
from softcard.device.refsi.interfaces import HOST
from softcard.device.refsi.registers import MemoryKind
from softcard.device.refsi.spec.memory import SpecMemory

MEMORIES: Final = (MemoryKind.TCIM, MemoryKind.TCDM, MemoryKind.DRAM)
"""The kinds of entries of a memory map that are plain memory."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options with which a server opens devices for hosts. `settings` are settings of `RefSiDevice`.

    With `shared_memory`, hosts map the devices' memories into their address space if the system supports that.
    Otherwise they access all memory by messages, and refsiGetMappedAddress returns 0. `on_open` is called with each
    device before its host gets it, and `on_close` before the device is closed.
    """

    settings: tuple[tuple[str, Any], ...] = (("profile", "refsidrv"),)
    shared_memory: bool = True
    on_open: Callable[[RefSiDevice], None] | None = None
    on_close: Callable[[RefSiDevice], None] | None = None


class OpenDevice:
    """A newly opened RefSi device of `family`.

    With the check `init`, hosts read and write by messages, so that the device knows which bytes are defined. Whenever
    a command buffer is submitted, memory at the addresses that refsiGetMappedAddress has returned becomes defined.
    """

    def __init__(self, family: str, options: Options, profile_level: int, vlen: int) -> None:
        settings = dict(options.settings) | {"profile_level": profile_level, "lints": OFF}  # sessions report them
        if vlen:
            settings["vlen"] = vlen
        is_shared = options.shared_memory and HAS_MEMORY_FILES
        self.family = family
        self.device = RefSiDevice(family, ram=SharedRam if is_shared else Ram, **settings)
        self._mapped: set[tuple[int, int]] = set()
        self.shared: list[tuple[int, int, SharedRam]] = []
        """The base, the size and the memory of each memory that the host maps."""
        for entry in self.device.memory_map if is_shared else ():
            if entry.kind in MEMORIES:
                ram = self._ram_at(entry.base, entry.size)
                assert isinstance(ram, SharedRam)
                self.shared.append((entry.base, entry.size, ram))

    def _ram_at(self, base: int, size: int) -> Ram:
        """Return the memory that holds the `size` bytes at address `base` of the memory map.

        Unless hosts access memory by messages, also let the device check this memory for code changes, since the
        host can change code in it without sending a message."""
        shadows = self._shadowed_memory
        if shadows is not None:  # a view of all of it would define all of it
            found = shadows.locate(base, 1, HOST, "write").ram
            assert found is not None
            return found
        view = self.device.view(base, size)
        assert view is not None
        host = _host_address(view)
        return next(ram for ram in self.device.memory.rams if ram.base_host == host)

    @property
    def _shadowed_memory(self) -> SpecMemory | None:
        """The device's memory if it has shadow memory for the check `init`, or else None."""
        memory = self.device.memory
        return memory if isinstance(memory, SpecMemory) and memory.shadows is not None else None

    def define_mapped(self) -> None:
        """Treat the memory that the host has mapped as defined, since it may have written without a message."""
        memory = self._shadowed_memory
        if memory is None or memory.shadows is None:
            return
        for address, size in self._mapped:
            with suppress(AccessFault):  # the window may be closed by now
                memory.shadows.written(memory.locate(address, size, HOST, "write"))

    @property
    def description(self) -> bytes:
        """The description of the device that the reply to OPEN carries."""
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
        """The file descriptors of the shared memories."""
        return [ram.descriptor for _, _, ram in self.shared]

    @property
    def plain(self) -> int:
        """A bit mask of the shared memories that the host can access at their address in the memory map.

        The bit of a memory is 0 if a RefSi memory window covers it or maps another memory at its address. With the
        check `init` all bits are 0, since hosts access memory by messages.
        """
        if self._shadowed_memory is not None:
            return 0
        found = 0
        for bit, (base, size, ram) in enumerate(self.shared):
            view = self.device.memory.view(base, size)
            if view is not None and _host_address(view) == ram.base_host:
                found |= 1 << bit
        return found

    def map(self, address: int, size: int) -> int:
        """Return where the memory that `address` refers to lies in the device's memory map.

        `address` may belong to a RefSi memory window. Return 0 if the `size` bytes at `address` are not shared
        memory."""
        view = self.device.view(address, max(size, 1))
        if view is None:
            return 0
        if self._shadowed_memory is not None:
            self._mapped.add((address, max(size, 1)))
        host = _host_address(view)
        return next((base + host - ram.base_host for base, _, ram in self.shared if _holds(ram, host)), 0)


def _holds(ram: Ram, host: int) -> bool:
    return 0 <= host - ram.base_host < ram.size


def _host_address(view: memoryview) -> int:
    return int(np.frombuffer(view, dtype=np.uint8).ctypes.data)
