"""The functions of the RefSi driver as Python methods.

They raise errors where the original functions return error codes, which callers may ignore.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Final, Self, Unpack

from softcard.core.display import RichDisplay, Rows
from softcard.core.errors import RuleError, SoftcardError
from softcard.core.findings import Finding
from softcard.core.space import Unit
from softcard.device.refsi.commands import BufferStatus
from softcard.device.refsi.device import DeviceInfo, KernelStatus, RefSiDevice
from softcard.device.refsi.interfaces import HOST
from softcard.device.refsi.registers import MapEntry, MemoryKind
from softcard.device.refsi.settings import RefSiOptions
from softcard.device.refsi.toolkit.builder import CommandBuffer
from softcard.host.port import RefSiPort

BUFFER_ALIGNMENT: Final = 4096
"""The alignment in bytes of command buffers and data that this library places in device memory."""
FAILED_ALLOCATIONS: Final = (0, 1)
"""The results of the driver's allocation that mean a failure.

0 means that memory is exhausted, 1 that this kind of memory cannot be allocated.
"""


class OutOfDeviceMemory(SoftcardError):
    """The error that an allocation raises if the device has too little free memory of the requested kind."""


class RefSiDriver(RichDisplay):
    """An open RefSi device with the driver's functions.

    Addresses and sizes are in bytes. Every refused call raises a `SoftcardError`: `AccessFault` for memory, `RuleError`
    for calls that the device's family does not have or that come after `shutdown`.
    """

    def __init__(self, port: RefSiPort) -> None:
        self._port: RefSiPort | None = port
        self._unclaimed: list[BufferStatus] = []

    @classmethod
    def open(cls, family: str = "m", **settings: Unpack[RefSiOptions]) -> Self:
        """Open a fresh virtual device: RefSi M1 (`family` "m") or G1 ("g", in profile "refsidrv" only).

        `settings` are those of the device: profile ("spec" or "refsidrv"), engine ("jit" or "reference"), cores, harts,
        coherence, dma, step_limit, lints and the others that `Settings` lists.
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

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.port,)

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def port(self) -> RefSiPort:
        """The interface to the device. Reading it after `shutdown` raises `RuleError`."""
        if self._port is None:
            raise RuleError("the device was shut down: open a new one")
        return self._port

    def _check_open(self) -> None:
        """Raise a `RuleError` if the device has been shut down."""
        assert self.port is not None

    def shutdown(self) -> None:
        """Close the device, drop submitted commands that did not start, and release its memory to the host.

        Existing arrays and views of device memory stay valid with their last contents, and keep that memory.
        """
        if self._port is not None:
            self._port.close()
            self._port = None

    def close(self) -> None:
        """Close the device as `shutdown` does; all devices of this package have a method `close`."""
        self.shutdown()

    # ---- queries -------------------------------------------------------------------------------------------------

    @property
    def info(self) -> DeviceInfo:
        """The device's family, cores, harts, instruction set and register sizes."""
        return self.port.info

    @property
    def memory_map(self) -> tuple[MapEntry, ...]:
        """The memories and register files of the device, in the driver's order."""
        return self.port.info.memory_map

    @property
    def findings(self) -> list[Finding]:
        """The findings of the device's checks so far, one for each code location.

        The list is empty without ``check="memory"``."""
        log = self.port.log
        return [] if log is None else log.kept

    # ---- memory --------------------------------------------------------------------------------------------------

    def allocate(self, size: int, alignment: int = BUFFER_ALIGNMENT, kind: MemoryKind = MemoryKind.DRAM) -> int:
        """Return the address of `size` newly allocated bytes of device memory.

        The address is a multiple of `alignment`, a power of two. Only DRAM can be allocated. Raise
        `OutOfDeviceMemory` if there is not enough."""
        if size < 0 or alignment < 1 or alignment & (alignment - 1):
            raise RuleError(
                f"cannot allocate {size} bytes with alignment {alignment}, expected 0 bytes or more and an alignment "
                "that is a power of two"
            )
        address = self.port.allocate(size, alignment, kind)
        if address in FAILED_ALLOCATIONS:
            raise OutOfDeviceMemory(f"{kind.name} has no room for {size:#x} bytes with alignment {alignment:#x}")
        return address

    def free(self, address: int) -> None:
        """Free the device memory at `address`; ignore an address that was not allocated, as the original driver does.

        After `shutdown` the call has no effect."""
        port = self._port
        if port is not None:
            port.free(address)

    def read(self, address: int, size: int, unit: Unit = HOST) -> bytes:
        """Return `size` bytes of device memory or registers at `address`.

        `address` is an address as `unit`, the host or a hart, sees it. PER_HART windows and performance counters
        can be read only as a hart."""
        return self.port.read(address, size, unit)

    def write(self, address: int, data: bytes, unit: Unit = HOST) -> None:
        """Write `data` to device memory or registers at `address`, as `unit` (the host or a hart) sees that address."""
        self.port.write(address, data, unit)

    def map(self, address: int, size: int) -> memoryview | None:
        """Return device memory as a view without a copy; None for memory-mapped registers."""
        return self.port.view(address, size)

    def flush(self, address: int, size: int) -> None:
        """Do nothing: flushing is unnecessary, as mapped memory is the device's own memory."""
        self._check_open()

    def invalidate(self, address: int, size: int) -> None:
        """Do nothing: invalidation is unnecessary, as mapped memory is the device's own memory."""
        self._check_open()

    # ---- execution -----------------------------------------------------------------------------------------------

    def execute_command_buffer(self, address: int, size: int) -> int:
        """Queue the command buffer of `size` bytes at `address` in device memory (RefSi M1).

        Return its ticket: a number that is also in the buffer's status, which `wait` returns."""
        return self.port.submit(address, size)

    def wait(self) -> list[BufferStatus]:
        """Wait until the device is idle; return the statuses of all buffers that ended since the last call.

        Errors are not raised here: check `BufferStatus.ok` and `error`.
        """
        found, self._unclaimed = self._unclaimed + self.port.wait(), []
        return found

    def execute_kernel(self, entry: int, harts: int) -> KernelStatus:
        """Boot `harts` harts from the loader ROM, and run the kernel at `entry` to its end (RefSi G1)."""
        return self.port.execute_kernel(entry, harts)

    def submit(self, buffer: CommandBuffer | bytes | Iterable[int]) -> tuple[int, int]:
        """Place a command buffer in device memory and queue it; return (ticket, address).

        The caller must free the memory.
        """
        data = buffer_bytes(buffer)
        address = self.allocate(len(data))
        self.write(address, data)
        return self.execute_command_buffer(address, len(data)), address

    def run(self, buffer: CommandBuffer | bytes | Iterable[int]) -> BufferStatus:
        """Place a command buffer in device memory, execute it, wait, and free the memory.

        Return the buffer's status if it succeeded. Otherwise raise its error, which names the command, its byte offset,
        and the hart and pc of a failed kernel.
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
    """Return the bytes of a command buffer that is given as bytes, as a `CommandBuffer`, or as 64-bit words."""
    if isinstance(buffer, bytes | bytearray):
        return bytes(buffer)
    if isinstance(buffer, CommandBuffer):
        return buffer.to_bytes()
    return CommandBuffer().chunks(*buffer).to_bytes()
