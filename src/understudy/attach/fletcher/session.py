"""One Fletcher host program at the socket: its requests carried out one by one, each with its reply."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final

import numpy as np

from understudy.attach.fletcher import events
from understudy.attach.fletcher.messages import IN_FILE, MAGIC, VERSION, Op, Status
from understudy.attach.fletcher.platform import DevicePlatform
from understudy.attach.fletcher.sealed import SealedFile
from understudy.attach.host_messages import REPLY
from understudy.attach.host_session import CHUNK, HostSession, StreamError
from understudy.core.errors import UnderstudyError, WireError
from understudy.core.event import Event
from understudy.host.fletcher.port import StatusError

DONE: Final = REPLY.pack(Status.OK, 0, 0, 0)


class Session(HostSession):
    """Serves one connection. `run` returns when it has ended."""

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
        """Free what the host has left allocated; how many allocations that were."""
        left = sorted(self._owned)
        for address in left:
            self._platform.device_free(address)
        self._owned.clear()
        return len(left)

    def _file(self) -> SealedFile:
        """Receive the descriptor of a file."""
        data, descriptors, _, _ = socket.recv_fds(self._socket, 1, 1)
        if len(data) != 1 or len(descriptors) != 1:
            raise StreamError("the host announced a file, and sent none")
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
            raise StreamError(f"request {op} is none, expected {Op.WRITE_MMIO.value} to {Op.OFFER.value}")
        try:
            handler(value, address, size)
        except StreamError:
            raise
        except UnderstudyError as error:
            self._emit(events.Refused(self.time, error))
            status = Status(error.status) if isinstance(error, StatusError) else Status.ERROR
            self._reply(status, text=str(error))
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
        except UnderstudyError:
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
        """Say whether data would be taken that the host has not sent yet."""
        if op == Op.HOST_TO_DEVICE:
            self._platform.check_range(address, size, "write")
        elif op in (Op.PREPARE, Op.CACHE):
            self._platform.check_room(size)
        else:
            raise WireError(f"offer of data for request {op}, which takes none")
        self._socket.sendall(DONE)

    def _device_to_host(self, _value: int, address: int, size: int) -> None:
        self._platform.check_range(address, size, "read")
        self._socket.sendall(REPLY.pack(Status.OK, 0, 0, size))
        for start in range(0, size, CHUNK):
            self._socket.sendall(self._platform.copy_device_to_host(address + start, min(CHUNK, size - start)))

    def _adopt(self, value: int, _address: int, size: int) -> None:
        """Receive memory that becomes the device's. Nothing is copied once more."""
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
            raise StatusError(f"this machine has no memory for {size} bytes", Status.DEVICE_OUT_OF_MEMORY) from None
        except UnderstudyError:
            self._drop(size)
            raise
        self._fill(data)
        self._own(self._platform.adopt(data))

    def _own(self, address: int) -> None:
        self._owned.add(address)
        self._reply(Status.OK, address)
