"""A platform that writes down its calls as the recorded plug-in did (see tests/vectors/fletcher/ORIGIN.md)."""

from __future__ import annotations

from typing import Any

from softcard.core.errors import SoftcardError
from softcard.device.fletcher.device import FletcherDevice
from softcard.device.fletcher.map.layout import FletcherMap
from softcard.host.fletcher.port import LocalPort


class TracePort:
    """The recorded plug-in: it allocates and copies for prepare and cache alike."""

    def __init__(self, device: FletcherDevice) -> None:
        self.inner = LocalPort(device, "vtrace")
        self.name = "vtrace"
        self.strict = self.inner.strict
        self.lines: list[str] = []

    @property
    def map(self) -> FletcherMap | None:
        return self.inner.map

    def init(self) -> None:
        self.lines.append("Init arg=(nil)")
        self.inner.init()

    def terminate(self) -> None:
        self.lines.append("Terminate arg=(nil)")
        self.inner.terminate()

    def write_mmio(self, index: int, value: int) -> None:
        self.lines.append(f"W {index:4} (byte {4 * index:#05x}) <= {value:#010x}")
        self.inner.write_mmio(index, value)

    def read_mmio(self, index: int) -> int:
        value = self.inner.read_mmio(index)
        self.lines.append(f"R {index:4} (byte {4 * index:#05x}) => {value:#010x}")
        return value

    def device_malloc(self, size: int) -> int:
        address = self.inner.device_malloc(size)
        self.lines.append(f"Malloc {size} -> {address:#x}")
        return address

    def device_free(self, address: int) -> None:
        self.lines.append(f"Free {address:#x}")
        self.inner.device_free(address)

    def copy_host_to_device(self, data: Any, address: int) -> None:
        self.lines.append(f"H2D dev={address:#x} size={len(data)} host=ptr")
        self.inner.copy_host_to_device(data, address)

    def copy_device_to_host(self, address: int, size: int) -> bytes:
        self.lines.append(f"D2H dev={address:#x} size={size} host=ptr")
        return self.inner.copy_device_to_host(address, size)

    def prepare_host_buffer(self, data: Any | None, size: int) -> tuple[int, bool]:
        self.lines.append(f"Prepare host={'(nil)' if data is None else 'ptr'} size={size}")
        return self._allocate_and_copy(data, size), True

    def cache_host_buffer(self, data: Any | None, size: int) -> int:
        self.lines.append(f"Cache host={'(nil)' if data is None else 'ptr'} size={size}")
        return self._allocate_and_copy(data, size)

    def stuck(self) -> SoftcardError | None:
        return self.inner.stuck()

    def wait(self, timeout_seconds: float | None) -> None:
        self.inner.wait(timeout_seconds)

    def _allocate_and_copy(self, data: Any | None, size: int) -> int:
        address = self.device_malloc(size)
        if data is not None:
            self.copy_host_to_device(memoryview(data).cast("B")[:size], address)
        return address
