"""The protocols by which host libraries access devices: registers, shared memory, and waiting.

The libraries of RefSi, Acceldev and Fletcher access their device only through these protocols and `FletcherPort`. So
the implementation can be a device in this process, a recorder of the accesses, or a remote device; only functions that
open a device of this process name its class. The libraries of AMD HSA and AMD OpenCL 2.0 do not use such protocols:
they share memory and engine with a device of this process, and its queues and signals are their interface.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from softcard.core.event import Probes
from softcard.core.findings import FindingLog
from softcard.core.lint import LintDesk
from softcard.core.space import Unit
from softcard.device.refsi.commands import BufferStatus
from softcard.device.refsi.device import DeviceInfo, KernelStatus
from softcard.device.refsi.interfaces import HOST
from softcard.device.refsi.registers import MemoryKind
from softcard.engine.hooks import Executions

if TYPE_CHECKING:
    from softcard.engine.riscv.tracepoints import HartTracepoints


class MemoryPort(Protocol):
    """Device memory and memory-mapped registers, accessed in bytes at device addresses."""

    def read(self, address: int, size: int, unit: Unit = HOST) -> bytes:
        """Return `size` bytes at `address` in the address space that `unit` (the host or a hart) sees.

        Raise `AccessFault` if the device refuses the access."""

    def write(self, address: int, data: bytes, unit: Unit = HOST) -> None:
        """Write `data` at `address` in the address space that `unit` (the host or a hart) sees.

        Raise `AccessFault` if the device refuses the access."""

    def view(self, address: int, size: int) -> memoryview | None:
        """Return `size` bytes at `address` as a writable view of device memory, without a copy.

        Return None if the range is not plain memory, such as a range of registers.
        """


class RefSiPort(MemoryPort, Protocol):
    """The interface of a RefSi device that its driver library uses.

    `profile_name` is "spec" or "refsidrv"; `scale_encoding` selects how the device's address windows interpret their
    SCALE_A register.
    """

    profile_name: str
    scale_encoding: str

    @property
    def info(self) -> DeviceInfo:
        """The device's cores, harts, instruction set and memory map."""

    @property
    def probes(self) -> Probes:
        """The probes by which observers subscribe to events of the device."""

    @property
    def log(self) -> FindingLog | None:
        """The log of the findings of the device's checks; None if the device runs without checks."""

    @property
    def desk(self) -> LintDesk:
        """The device's collector of lints and findings, a context manager.

        The host library makes its calls to the device inside ``with desk``. When a thread leaves its outermost
        ``with`` block, the lints and findings are reported."""

    @property
    def tracepoints(self) -> HartTracepoints | None:
        """The points at which the device takes snapshots of harts' registers; None if it takes none."""

    @property
    def interpreted(self) -> int:
        """The number of instructions that were interpreted instead of translated since the device was opened."""

    def instruction_counts(self) -> dict[int, int]:
        """Return the number of times that the instruction at each pc has retired.

        The device counts them only if it was opened with ``count_instructions=True``.
        """

    def executions(self) -> Executions:
        """Return the executions of the instruction at each pc.

        The device counts them only if it was opened with ``count_instructions=True``.
        """

    def lint(self, check: str, message: str) -> None:
        """Report a lint: a likely mistake that the host library has found. `check` is the lint's name."""

    def allocate(self, size: int, alignment: int = 1, kind: int = MemoryKind.DRAM) -> int:
        """Return the address of `size` bytes of device memory; 0 and 1 mean that the allocation failed."""

    def call_memory(self, address: int, name: str) -> None:
        """Set the name by which findings refer to the memory at `address`; without checks, the call has no effect."""

    def reserve(self, address: int, size: int) -> bool:
        """Reserve `size` bytes of device memory at `address`; return False if they are in use or do not exist."""

    def free(self, address: int) -> None:
        """Free device memory."""

    def submit(self, address: int, size: int) -> int:
        """Queue the command buffer of `size` bytes at `address`.

        Return its ticket: a number that is also in the buffer's status, which `wait` returns."""

    def wait(self) -> list[BufferStatus]:
        """Wait until the device is idle.

        Return the statuses of the command buffers that ended since the last call.
        """

    def execute_kernel(self, entry: int, harts: int) -> KernelStatus:
        """Run the kernel at the address `entry` on `harts` harts, without a command buffer (RefSi G1)."""

    def reset(self) -> None:
        """Reset the device to its state after opening."""

    def close(self) -> None:
        """Free the host memory and the threads that the device uses; no other call is allowed afterwards."""
