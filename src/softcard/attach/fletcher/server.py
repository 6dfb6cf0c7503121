"""The server of Fletcher host programs.

The server listens at a socket path and serves one program after another, each in a session. The device keeps
its state between sessions, unless it is reset for each program. Its kernel continues to work while the host
sends no requests."""

from __future__ import annotations

import mmap
import os
import socket
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, Self

import numpy as np

from softcard.attach.fletcher import events
from softcard.attach.fletcher.events import Disconnected
from softcard.attach.host_session import CHUNK, HELLO, REPLY, HostSession, StreamError
from softcard.attach.server import SocketServer
from softcard.core.errors import AccessFault, SoftcardError, WireError
from softcard.core.event import Event
from softcard.core.files import SHRINK, WRITE, is_sealed
from softcard.device.fletcher.device import FletcherDevice
from softcard.device.fletcher.machine import State
from softcard.host.fletcher.port import DEVICE_OUT_OF_MEMORY, LocalPort, StatusError

# ---- messages --------------------------------------------------------------------------------------------------------
# The messages between the platform library and the server, and the sealed files that carry data. ``platform.c`` defines
# the same request numbers in C. The requests HOST_TO_DEVICE, PREPARE and CACHE are followed by `size` bytes of data. If
# the value of a PREPARE or CACHE request is IN_FILE, the request is instead followed by one byte, which carries the
# descriptor of a file that holds the data. The file is sealed against every change. With OFFER, the library asks
# whether the server would accept a later request: its number is `value`, and it would have `size` bytes of data.


MAGIC: Final = int.from_bytes(b"UFLTCHER", "little")
VERSION: Final = 2

IN_FILE: Final = 1


class Op(IntEnum):
    """The request numbers: HELLO, OFFER, and one for each Fletcher platform function except platformGetName.

    The library implements platformGetName without the server."""

    HELLO = HELLO
    WRITE_MMIO = 2
    READ_MMIO = 3
    MALLOC = 4
    FREE = 5
    HOST_TO_DEVICE = 6
    DEVICE_TO_HOST = 7
    PREPARE = 8
    CACHE = 9
    TERMINATE = 10
    OFFER = 11


class Status(IntEnum):
    """The values of ``fstatus_t``, which Fletcher's platform functions return."""

    OK = 0
    ERROR = 1
    NO_PLATFORM = 2
    DEVICE_OUT_OF_MEMORY = 3


# ---- sealed files ----------------------------------------------------------------------------------------------------
# Anonymous files that a host program fills, seals and sends: data that cannot change any more.
#
# Without the seals a host could shorten the file while the device reads it, which would kill the process, or change
# data after they were checked.


class SealedFile:
    """An owned file descriptor of a file that is sealed against changes.

    Mappings of the file remain valid after the descriptor is closed.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def map(self, size: int) -> memoryview:
        """Map the first `size` bytes read-only and return them.

        Raise `WireError` if the file is not sealed or has fewer bytes."""
        if not is_sealed(self._descriptor, SHRINK | WRITE):
            raise WireError("the host's file lacks seals, expected F_SEAL_WRITE and F_SEAL_SHRINK")
        length = os.fstat(self._descriptor).st_size
        if size > length:
            raise WireError(f"the host's file has {length} bytes, expected {size} or more")
        if not size:
            return memoryview(b"")
        options: dict[str, Any] = {"flags": mmap.MAP_PRIVATE | getattr(mmap, "MAP_POPULATE", 0), "prot": mmap.PROT_READ}
        try:
            return memoryview(mmap.mmap(self._descriptor, size, **options))
        except (OSError, OverflowError, ValueError) as error:
            raise WireError(f"the host's file cannot be mapped: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


# ---- device ----------------------------------------------------------------------------------------------------------
# The device of a server: a local platform whose kernel works while its host is silent.


class DevicePlatform(LocalPort):
    """The platform that carries out the platform calls of host programs on `device`.

    If the kernel fails between two calls, the next register access raises the error. Each host program finds the device
    in its power-on state, or with `keep` in the state that the previous host program left.
    """

    def __init__(self, device: FletcherDevice, *, keep: bool = False) -> None:
        super().__init__(device)
        self._keep = keep
        self._is_synchronous = not device.settings.threaded
        self._owed: SoftcardError | None = None

    def init(self) -> None:
        """Reset the device for a new host program, unless the platform was created with `keep`.

        Also drop the error of an earlier kernel that no register access has raised yet."""
        self._owed = None
        if not self._keep:
            self.device.reset()

    def terminate(self) -> None:
        """Do nothing: the device stays for the next host program."""

    def write_mmio(self, index: int, value: int) -> None:
        """Write the 32-bit register `index`."""
        if self._owed is not None:
            self._raise_owed()
        super().write_mmio(index, value)

    def read_mmio(self, index: int) -> int:
        """Read the 32-bit register `index`."""
        if self._owed is not None:
            self._raise_owed()
        return super().read_mmio(index)

    def adopt(self, data: Any) -> int:
        """Use `data` as device memory without copying it; return its device address.

        The host must not write to `data` from then on.
        """
        return self.prepare_host_buffer(data, len(data))[0]

    def check_range(self, address: int, size: int, access: str) -> None:
        """Raise `AccessFault` unless one allocation holds all `size` bytes at `address`.

        `access` is the kind of access that the error names."""
        extent = self.device.memory.extent(address)
        if extent is None or size > extent:
            held = "no allocation contains this address"
            if extent is not None:
                held = f"only {extent} bytes are allocated there"
            raise AccessFault(f"{access} of {size} bytes at {address:#x}: {held}", address=address, access=access)

    def check_room(self, size: int) -> None:
        """Raise `StatusError` unless device memory has room for `size` more bytes."""
        try:
            self.device.memory.check_room(size)
        except AccessFault as error:
            raise StatusError(error.message, DEVICE_OUT_OF_MEMORY) from None

    @property
    def is_working(self) -> bool:
        """True if the kernel has work left that is done only in calls of `advance`."""
        return self._is_synchronous and self.device.state is State.BUSY and not self.device.is_stuck

    def advance(self) -> None:
        """Let the kernel work for one time slice."""
        try:
            self.device.step()
        except SoftcardError as error:
            self._owed = error

    def _raise_owed(self) -> None:
        error, self._owed = self._owed, None
        if error is not None:
            raise error


# ---- session ---------------------------------------------------------------------------------------------------------
# The session of one Fletcher host program: carries out its requests one by one and replies to each.


DONE: Final = REPLY.pack(Status.OK, 0, 0, 0)


class Session(HostSession):
    """A connection to one host program. `run` serves it and returns when the connection has ended."""

    MAGIC = MAGIC
    VERSION = VERSION
    LIBRARY = "platform library"
    OTHER_VERSION = Status.NO_PLATFORM

    def __init__(self, sock: socket.socket, platform: DevicePlatform, emit: Callable[[Event], None]) -> None:
        super().__init__(sock, emit)
        self._platform = platform
        self._owned: set[int] = set()
        self._handlers: dict[int, Callable[[int, int, int], None]] = {
            Op.WRITE_MMIO: self._write_mmio,
            Op.READ_MMIO: self._read_mmio,
            Op.MALLOC: self._malloc,
            Op.FREE: self._free,
            Op.HOST_TO_DEVICE: self._host_to_device,
            Op.DEVICE_TO_HOST: self._device_to_host,
            Op.PREPARE: self._adopt,
            Op.CACHE: self._adopt,
            Op.OFFER: self._offer,
        }

    def release(self) -> int:
        """Free the allocations that the host has not freed; return their number."""
        left = sorted(self._owned)
        for address in left:
            self._platform.device_free(address)
        self._owned.clear()
        return len(left)

    def _file(self) -> SealedFile:
        """Receive one byte and the file descriptor that it carries from the host; return the file."""
        data, descriptors, _, _ = socket.recv_fds(self._socket, 1, 1)
        if len(data) != 1 or len(descriptors) != 1:
            raise StreamError("the host announced a file but sent no descriptor")
        return SealedFile(descriptors[0])

    def _is_working(self) -> bool:
        return self._platform.is_working

    def _advance(self) -> None:
        self._platform.advance()

    # ---- requests ----

    def _begin(self) -> None:
        self._platform.init()

    def _serve(self, op: int, value: int, address: int, size: int) -> bool:
        if op == Op.TERMINATE:
            self._socket.sendall(DONE)
            return False
        handler = self._handlers.get(op)
        if handler is None:
            raise StreamError(f"unknown request {op}, expected {Op.WRITE_MMIO.value} to {Op.OFFER.value}")
        try:
            handler(value, address, size)
        except StreamError:
            raise
        except SoftcardError as error:
            self._emit(events.Refused(self.time, error))
            status = Status(error.status) if isinstance(error, StatusError) else Status.ERROR
            self._reply(status, found=error)
        return True

    def _write_mmio(self, value: int, index: int, _size: int) -> None:
        self._platform.write_mmio(index, value)
        self._socket.sendall(DONE)

    def _read_mmio(self, _value: int, index: int, _size: int) -> None:
        self._socket.sendall(REPLY.pack(Status.OK, 0, self._platform.read_mmio(index), 0))

    def _malloc(self, _value: int, _address: int, size: int) -> None:
        self._own(self._platform.device_malloc(size))

    def _free(self, _value: int, address: int, _size: int) -> None:
        self._platform.device_free(address)
        self._owned.discard(address)
        self._socket.sendall(DONE)

    def _host_to_device(self, _value: int, address: int, size: int) -> None:
        try:
            self._platform.check_range(address, size, "write")
        except SoftcardError:
            self._drop(size)
            raise
        scratch = memoryview(bytearray(min(size, CHUNK)))
        done = 0
        while done < size:
            part = scratch[: min(size - done, CHUNK)]
            self._fill(part)
            self._platform.copy_host_to_device(part, address + done)
            done += len(part)
        self._socket.sendall(DONE)

    def _offer(self, op: int, address: int, size: int) -> None:
        """Reply to the host whether the server would accept request `op` with `size` bytes of data.

        The host sends the request itself later."""
        if op == Op.HOST_TO_DEVICE:
            self._platform.check_range(address, size, "write")
        elif op in (Op.PREPARE, Op.CACHE):
            self._platform.check_room(size)
        else:
            raise WireError(f"the host offered data for request {op}, which takes no data")
        self._socket.sendall(DONE)

    def _device_to_host(self, _value: int, address: int, size: int) -> None:
        self._platform.check_range(address, size, "read")
        self._socket.sendall(REPLY.pack(Status.OK, 0, 0, size))
        for start in range(0, size, CHUNK):
            self._socket.sendall(self._platform.copy_device_to_host(address + start, min(CHUNK, size - start)))

    def _adopt(self, value: int, _address: int, size: int) -> None:
        """Receive `size` bytes into new memory and use that memory as device memory, without a further copy."""
        if value == IN_FILE:
            with self._file() as file:
                self._platform.check_room(size)
                self._own(self._platform.adopt(file.map(size)))
            return
        try:
            self._platform.check_room(size)
            data = np.empty(size, np.uint8).data
        except MemoryError:
            self._drop(size)
            raise StatusError(
                f"the server cannot allocate {size} bytes of memory", Status.DEVICE_OUT_OF_MEMORY
            ) from None
        except SoftcardError:
            self._drop(size)
            raise
        self._fill(data)
        self._own(self._platform.adopt(data))

    def _own(self, address: int) -> None:
        self._owned.add(address)
        self._reply(Status.OK, address)


# ---- server ----------------------------------------------------------------------------------------------------------


class Server(SocketServer[Session]):
    """A server that connects a device to one host program at a time.

    When a program ends, the server frees its allocations. `serve` blocks the calling thread, which makes all calls of
    the device. `disconnect` and `close` may be called from any thread and from signal handlers.
    """

    def __init__(self, platform: DevicePlatform) -> None:
        super().__init__("host program")
        self._platform = platform

    def _begin(self, sock: socket.socket) -> Session:
        return Session(sock, self._platform, self._emit)

    def _end(self, session: Session, error: SoftcardError | None) -> Disconnected:
        return Disconnected(session.time, self.sessions, error, session.release())
