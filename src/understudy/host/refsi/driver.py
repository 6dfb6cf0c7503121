"""The functions of the RefSi driver, with errors raised instead of lost."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final, Self

from understudy.core.errors import RuleError, UnderstudyError
from understudy.core.findings import Finding
from understudy.core.shown import Rows, Shown
from understudy.core.space import Unit
from understudy.device.refsi.device import DeviceInfo, KernelStatus, RefSiDevice
from understudy.device.refsi.interfaces import HOST
from understudy.device.refsi.registers import MapEntry, MemoryKind
from understudy.device.refsi.status import BufferStatus
from understudy.device.refsi.toolkit.builder import CommandBuffer
from understudy.host.port import RefSiPort

BUFFER_ALIGNMENT: Final = 4096
"""Alignment of command buffers and data that this library places in device memory, in bytes."""
FAILED_ALLOCATIONS: Final = (0, 1)
"""What the driver's allocation gives where it fails: no room, or a kind of memory that it does not share out."""


class OutOfDeviceMemory(UnderstudyError):
    """The device has no memory of the asked size and kind left."""


class RefSiDriver(Shown):
    """One open RefSi device and the driver's calls.

    Addresses and sizes are in bytes. Every refusal is an `UnderstudyError`: `AccessFault` for memory, `RuleError` for
    calls that the device's family does not have or that come after `shutdown`.
    """

    def __init__(self, port: RefSiPort) -> None:
        self._port: RefSiPort | None = port
        self._unclaimed: list[BufferStatus] = []

    @classmethod
    def open(cls, family: str = "m", **settings: Any) -> Self:
        """Open a fresh virtual device: RefSi M1 (`family` "m") or G1 ("g", in profile "refsidrv" only).

        `settings` are those of the device: profile ("spec" or "refsidrv"), engine ("jit" or "reference"), cores, harts,
        coherence, dma, step_limit, lints and what else `Settings` lists.
        """
        return cls(RefSiDevice(family, **settings))

    def __repr__(self) -> str:
        if self._port is None:
            return f"<{type(self).__name__} closed>"
        info = self._port.info
        return f"<{type(self).__name__} {info.family}, profile {self._port.profile_name}, open>"

    def _rows(self) -> Rows:
        yield "memory", "address", "bytes"
        for entry in () if self._port is None else self._port.info.memory_map:
            yield entry.kind.name, f"{entry.base:#x}", f"{entry.size:#x}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.port,)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def port(self) -> RefSiPort:
        """The way to the device; `RuleError` after `shutdown`."""
        if self._port is None:
            raise RuleError("the device was shut down, expected an open one")
        return self._port

    def shutdown(self) -> None:
        """Close the device: what was submitted and did not start is dropped, its memory goes back to the host.

        Arrays and views of device memory that somebody still has stay valid, with what was there at the end; they keep
        that memory.
        """
        if self._port is not None:
            self._port.close()
            self._port = None

    def close(self) -> None:
        """The same: every device of this package has it."""
        self.shutdown()

    # ---- queries -------------------------------------------------------------------------------------------------

    @property
    def info(self) -> DeviceInfo:
        """Family, cores, harts, instruction set and register sizes."""
        return self.port.info

    @property
    def memory_map(self) -> tuple[MapEntry, ...]:
        """Memories and register files, in the driver's order."""
        return self.port.info.memory_map

    @property
    def findings(self) -> list[Finding]:
        """What checks have found so far (`check="memory"`), by site."""
        log = self.port.log
        return [] if log is None else log.kept

    # ---- memory --------------------------------------------------------------------------------------------------

    def allocate(self, size: int, alignment: int = BUFFER_ALIGNMENT, kind: MemoryKind = MemoryKind.DRAM) -> int:
        """Address of `size` bytes of device memory at a multiple of the power of two `alignment`.

        Only DRAM is shared out. `OutOfDeviceMemory` where there is none.
        """
        if size < 0 or alignment < 1 or alignment & (alignment - 1):
            raise RuleError(f"cannot allocate {size} bytes at a multiple of {alignment}, expected a power of two")
        address = self.port.allocate(size, alignment, kind)
        if address in FAILED_ALLOCATIONS:
            raise OutOfDeviceMemory(f"no room for {size:#x} bytes of {kind.name} at a multiple of {alignment:#x}")
        return address

    def free(self, address: int) -> None:
        """Give device memory back. An address that was not allocated is ignored, as the driver does.

        After `shutdown` nothing is left to give back.
        """
        port = self._port
        if port is not None:
            port.free(address)

    def read(self, address: int, size: int, unit: Unit = HOST) -> bytes:
        """Read device memory or registers as `unit`: PER_HART windows and counters need a hart."""
        return self.port.read(address, size, unit)

    def write(self, address: int, data: bytes, unit: Unit = HOST) -> None:
        """Write device memory or registers as `unit`."""
        self.port.write(address, data, unit)

    def map(self, address: int, size: int) -> memoryview | None:
        """Device memory as the host's own, without a copy; None for memory-mapped registers."""
        return self.port.view(address, size)

    def flush(self, address: int, size: int) -> None:
        """Write mapped memory back to the device. Mapped memory is the device's own here: nothing to do."""

    def invalidate(self, address: int, size: int) -> None:
        """Read mapped memory anew. Mapped memory is the device's own here: nothing to do."""

    # ---- execution -----------------------------------------------------------------------------------------------

    def execute_command_buffer(self, address: int, size: int) -> int:
        """Queue a command buffer that is in device memory (M1); gives a ticket that its status will carry."""
        return self.port.submit(address, size)

    def wait(self) -> list[BufferStatus]:
        """Wait until the device is idle; the statuses of all buffers that ended since the last call.

        Nothing is raised here: look at `BufferStatus.ok` and `error`.
        """
        found, self._unclaimed = self._unclaimed + self.port.wait(), []
        return found

    def execute_kernel(self, entry: int, harts: int) -> KernelStatus:
        """Boot `harts` harts from the loader ROM and run them to their end (G1)."""
        return self.port.execute_kernel(entry, harts)

    def submit(self, buffer: CommandBuffer | bytes | Iterable[int]) -> tuple[int, int]:
        """Place a command buffer in device memory and queue it; (ticket, address). The memory is the caller's."""
        data = buffer_bytes(buffer)
        address = self.allocate(len(data))
        self.write(address, data)
        return self.execute_command_buffer(address, len(data)), address

    def run(self, buffer: CommandBuffer | bytes | Iterable[int]) -> BufferStatus:
        """Place a command buffer in device memory, execute it, wait, and free the memory.

        Gives its status if all went well, else raises the status' error: it names the command and its byte offset,
        and hart and pc where a kernel failed.
        """
        ticket, address = self.submit(buffer)
        mine: BufferStatus | None = None
        try:
            for status in self.port.wait():
                if status.ticket == ticket:
                    mine = status
                else:
                    self._unclaimed.append(status)
        finally:
            self.free(address)
        assert mine is not None, "the device gives a status for every ticket"
        if mine.error is not None:
            raise mine.error
        return mine


def buffer_bytes(buffer: CommandBuffer | bytes | Iterable[int]) -> bytes:
    """The bytes of a command buffer given as such, as a builder, or as 64-bit words."""
    if isinstance(buffer, bytes | bytearray):
        return bytes(buffer)
    if isinstance(buffer, CommandBuffer):
        return buffer.to_bytes()
    return CommandBuffer().chunks(*buffer).to_bytes()
