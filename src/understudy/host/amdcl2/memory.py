"""Buffers of the host as memory of the device, without copies, for the time of a run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from understudy.core.errors import WireError
from understudy.device.amdcl2.device import OpenclDevice


class Mappings:
    """Buffers that are mapped for one run, each once; `release` also does what was deferred, in order."""

    def __init__(self, device: OpenclDevice) -> None:
        self.device = device
        self._by_place: dict[tuple[int, int], tuple[int, bool]] = {}
        self._addresses: list[int] = []
        self._deferred: list[Callable[[], None]] = []
        self._given: list[tuple[int, np.ndarray, str]] = []
        """Arrays, and what their arguments are called."""
        self.bytes = 0
        """Of all arrays, as often as they are arguments."""

    def array(self, array: np.ndarray, name: str) -> int:
        """The address of a NumPy array, shared without a copy; `WireError` where it is not contiguous or empty."""
        if not array.flags.c_contiguous:
            raise WireError(f"array for {name} must be contiguous")
        if not array.nbytes:
            raise WireError(f"array for {name} must not be empty")
        if array.dtype.hasobject:
            raise WireError(f"array for {name} must hold numbers, not Python objects")
        self.bytes += array.nbytes
        place = int(array.ctypes.data), array.nbytes
        known = self._by_place.get(place)
        if known is not None and known[1] == array.flags.writeable:
            return known[0]
        flat = array.reshape(-1).view(np.uint8)
        address = self.keep(self.device.map(flat, name, array.flags.writeable))
        self._by_place[place] = address, array.flags.writeable
        self._given.append((address, array, name))
        return address

    def copy(self, data: bytes | bytearray, name: str) -> tuple[int, memoryview]:
        """The address of a copy of `data` in pages of its own, and the copy."""
        address, ram = self.device.allocate(len(data), name)
        ram.view[: len(data)] = data
        return self.keep(address), ram.view

    def keep(self, address: int) -> int:
        """Release `address` at the end of the run."""
        self._addresses.append(address)
        return address

    def defer(self, action: Callable[[], None]) -> None:
        """Do something at the end of a run that went well."""
        self._deferred.append(action)

    def finish(self) -> None:
        """Do what was deferred, and have checks look at what the host gets back."""
        for address, array, name in self._given if self.device.marks is not None else ():
            assert self.device.marks is not None
            self.device.marks.read_back(address, array, f"the array for {name}")
        for action in self._deferred:
            action()

    def release(self) -> None:
        """Take all buffers away again."""
        for address in self._addresses:
            self.device.release(address)
        self._addresses.clear()
