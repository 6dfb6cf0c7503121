"""One host program at the socket: its requests carried out one by one, each with its reply.

Between requests the device works on, a slice at a time, so that a host which sleeps between two polls waits no longer
than the work takes.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Final

import numpy as np

from understudy.attach.fletcher import events
from understudy.attach.fletcher.messages import IN_FILE, MAGIC, MAX_TEXT, REPLY, REQUEST, VERSION, Op, Status
from understudy.attach.fletcher.platform import DevicePlatform
from understudy.attach.fletcher.sealed import SealedFile
from understudy.core.errors import UnderstudyError, WireError
from understudy.core.event import Event
from understudy.host.fletcher.port import StatusError

SPIN_S: Final = 50e-6
"""How long to look for the next request before sleeping."""
SLEEPS_AFTER_SPIN: Final = 15
CHUNK: Final = 4 << 20
"""Bytes received at once where they go to memory that exists already."""
DONE: Final = REPLY.pack(Status.OK, 0, 0, 0)


class StreamError(WireError):
    """The stream cannot be followed any further: the connection must end."""


class Session:
    """Serves one connection. `run` returns when it has ended."""

    def __init__(self, sock: socket.socket, platform: DevicePlatform, emit: Callable[[Event], None]) -> None:
        self.time = 0
        """Requests received so far: the clock of the events."""
        self._socket = sock
        self._platform = platform
        self._emit = emit
        self._greeted = False
        self._sleeps = 0
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

    def run(self) -> UnderstudyError | None:
        """Serve until the host is gone; gives the error that ended the session, if one did."""
        header = bytearray(REQUEST.size)
        try:
            while self._next(header):
                self.time += 1
                if not self._serve(*REQUEST.unpack_from(header)):
                    return None
        except OSError as error:
            return StreamError(f"the connection broke: {error.strerror}").at("request", self.time)
        except StreamError as error:
            return error.at("request", self.time)
        return None

    def release(self) -> int:
        """Free what the host has left allocated; how many allocations that were."""
        left = sorted(self._owned)
        for address in left:
            self._platform.device_free(address)
        self._owned.clear()
        return len(left)

    def disconnect(self) -> None:
        """End the session from another thread or a signal handler."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the host was faster

    # ---- the stream ----

    def _next(self, header: bytearray) -> bool:
        """Wait for a request; meanwhile the device works. False at the end of the stream."""
        if self._sleeps and not self._platform.is_working:
            self._sleeps -= 1
            got = self._socket.recv_into(header)
        else:
            got = self._look(header)
        if 0 < got < REQUEST.size:
            self._fill(memoryview(header)[got:])
        return got > 0

    def _look(self, header: bytearray) -> int:
        """Look for a request without sleeping, as waking up takes longer than most; gives the bytes received.

        Where that was in vain the next requests are waited for asleep.
        """
        deadline = time.perf_counter() + SPIN_S
        while True:
            try:
                return self._socket.recv_into(header, REQUEST.size, socket.MSG_DONTWAIT)
            except BlockingIOError:
                pass  # what the kernel raises below comes of none
            if self._platform.is_working:
                self._platform.advance()
            elif time.perf_counter() > deadline:
                self._sleeps = SLEEPS_AFTER_SPIN
                return self._socket.recv_into(header)

    def _fill(self, view: memoryview) -> None:
        """Receive exactly that much."""
        while view:
            got = self._socket.recv_into(view)
            if not got:
                raise StreamError(f"the host went away with {len(view)} bytes of a request to come")
            view = view[got:]

    def _file(self) -> SealedFile:
        """Receive the descriptor of a file."""
        data, descriptors, _, _ = socket.recv_fds(self._socket, 1, 1)
        if len(data) != 1 or len(descriptors) != 1:
            raise StreamError("the host announced a file, and sent none")
        return SealedFile(descriptors[0])

    def _drop(self, size: int) -> None:
        """Read what a refused request has behind it."""
        scratch = memoryview(bytearray(min(size, CHUNK)))
        while size:
            part = scratch[: min(size, CHUNK)]
            self._fill(part)
            size -= len(part)

    def _reply(self, status: Status, value: int = 0, text: str = "") -> None:
        said = text.encode("utf-8", "replace")[:MAX_TEXT]
        self._socket.sendall(REPLY.pack(status, len(said), value, 0) + said)

    # ---- requests ----

    def _serve(self, op: int, value: int, address: int, size: int) -> bool:
        """Carry out one request and answer it; False after the last one. `StreamError` where that cannot go on."""
        if not self._greeted:
            return self._greet(op, value, address)
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

    def _greet(self, op: int, version: int, magic: int) -> bool:
        if op != Op.HELLO or magic != MAGIC:
            raise StreamError("the first request is no greeting of the platform library")
        self._greeted = version == VERSION
        if not self._greeted:
            text = f"the platform library speaks version {version}, the server {VERSION}: take that of the same package"
            self._reply(Status.NO_PLATFORM, text=text)
            raise StreamError(text)
        self._platform.init()
        self._socket.sendall(DONE)
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
