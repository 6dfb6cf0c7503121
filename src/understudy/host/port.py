"""The contract between host libraries and devices: registers, memory that both reach, and waiting.

The libraries of RefSi, Acceldev and Fletcher touch their device through these protocols and `FletcherPort` only, so
that what stands behind them can be a device in this process, a recorder in between, or something far away; only what
opens a device of this process names its class. Those of AMD HSA and AMD OpenCL 2.0 share memory and engine with a
device of this process, whose queues and signals are themselves its contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from understudy.core.event import Probes
from understudy.core.findings import FindingLog
from understudy.core.space import Unit
from understudy.device.refsi.device import DeviceInfo, KernelStatus
from understudy.device.refsi.interfaces import HOST
from understudy.device.refsi.registers import MemoryKind
from understudy.device.refsi.status import BufferStatus

if TYPE_CHECKING:
    from understudy.engine.riscv.moments import HartMoments


class MemoryPort(Protocol):
    """Device memory and memory-mapped registers, in bytes at device addresses."""

    def read(self, address: int, size: int, unit: Unit = HOST) -> bytes:
        """Read as `unit`; `AccessFault` where that is refused."""

    def write(self, address: int, data: bytes, unit: Unit = HOST) -> None:
        """Write as `unit`, likewise."""

    def view(self, address: int, size: int) -> memoryview | None:
        """The bytes themselves, writable and shared with the device; None where they are not plain memory."""


class RefSiPort(MemoryPort, Protocol):
    """What the driver of a RefSi device needs of it. `profile_name` is "spec" or "refsidrv"."""

    profile_name: str

    @property
    def info(self) -> DeviceInfo:
        """Cores, harts, instruction set and memory map."""

    @property
    def probes(self) -> Probes:
        """Where to subscribe to the device's events."""

    @property
    def log(self) -> FindingLog | None:
        """Where findings of checks go; None where there is no check."""

    @property
    def moments(self) -> HartMoments | None:
        """When registers of harts are told of, of a device that does so."""

    @property
    def interpreted(self) -> int:
        """Instructions that harts executed one by one instead of as machine code, since the device was opened."""

    def instruction_counts(self) -> dict[int, int]:
        """How often the instruction at each pc has retired, of a device that counts them."""

    def allocate(self, size: int, alignment: int = 1, kind: int = MemoryKind.DRAM) -> int:
        """Address of `size` bytes of device memory; 0 or 1 where there are none."""

    def call_memory(self, address: int, name: str) -> None:
        """What findings of checks shall call the memory that `allocate` gave there; nothing without a check."""

    def reserve(self, address: int, size: int) -> bool:
        """Take `size` bytes of device memory at `address`; False where they are in use or none."""

    def free(self, address: int) -> None:
        """Give memory back."""

    def submit(self, address: int, size: int) -> int:
        """Queue the command buffer of `size` bytes at `address`; gives its ticket."""

    def wait(self) -> list[BufferStatus]:
        """Wait until the device is idle; the statuses of the buffers that ended since the last call."""

    def execute_kernel(self, entry: int, harts: int) -> KernelStatus:
        """Run a kernel directly (G1)."""

    def reset(self) -> None:
        """Back to the state at open."""

    def close(self) -> None:
        """Give the host's memory back; nothing else may be called any more."""
