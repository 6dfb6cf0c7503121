"""One host program at the socket: its requests carried out one by one, each with its reply."""

from __future__ import annotations

import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final

from understudy.attach.host_messages import HELLO, MAX_TEXT, REPLY, REQUEST
from understudy.core.errors import UnderstudyError, WireError
from understudy.core.event import Event

SPIN_S: Final = 50e-6
"""How long to look for the next request before sleeping."""
SLEEPS_AFTER_SPIN: Final = 15
CHUNK: Final = 4 << 20
"""Bytes received at once where they go to memory that exists already."""


class StreamError(WireError):
    """The stream cannot be followed any further: the connection must end."""


class HostSession(ABC):
    """Serves one connection. `run` returns when it has ended.

    Between requests the device works on, a slice at a time, so that a host which sleeps between two polls waits no
    longer than the work takes.
    """

    MAGIC: ClassVar[int]
    VERSION: ClassVar[int]
    LIBRARY: ClassVar[str]
    """What messages call the library."""
    OTHER_VERSION: ClassVar[int]
    """The status that tells a library of another version to go."""

    def __init__(self, sock: socket.socket, emit: Callable[[Event], None]) -> None:
        self.time = 0
        """Requests received so far: the clock of the events."""
        self._socket = sock
        self._emit = emit
        self._greeted = False
        self._sleeps = 0

    def run(self) -> UnderstudyError | None:
        """Serve until the host is gone; gives the error that ended the session, if one did."""
        header = bytearray(REQUEST.size)
        try:
            while self._next(header):
                self.time += 1
                op, value, address, size = REQUEST.unpack_from(header)
                if not self._greeted:
                    self._greet(op, value, address)
                elif not self._serve(op, value, address, size):
                    return None
        except (BrokenPipeError, ConnectionResetError):
            return None  # the host has gone and waited for no reply
        except OSError as error:
            return StreamError(f"the connection broke: {error.strerror}").at("request", self.time)
        except StreamError as error:
            return error.at("request", self.time)
        return None

    def disconnect(self) -> None:
        """End the session from another thread or a signal handler."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the host was faster

    # ---- what a device adds ----

    @abstractmethod
    def _begin(self) -> None:
        """The host has greeted."""

    @abstractmethod
    def _serve(self, op: int, value: int, address: int, size: int) -> bool:
        """Carry out one request and answer it; False after the last one. `StreamError` where that cannot go on."""

    def _is_working(self) -> bool:
        """Whether the device has work to do that nothing but `_advance` gets done."""
        return False

    def _advance(self) -> None:
        """Let the device do a slice of its work."""
        raise NotImplementedError

    # ---- the stream ----

    def _greet(self, op: int, version: int, magic: int) -> None:
        if op != HELLO or magic != self.MAGIC:
            raise StreamError(f"the first request is no greeting of the {self.LIBRARY}")
        self._greeted = version == self.VERSION
        if not self._greeted:
            text = (
                f"the {self.LIBRARY} speaks version {version}, the server {self.VERSION}: take that of the same package"
            )
            self._reply(self.OTHER_VERSION, text=text)
            raise StreamError(text)
        self._begin()
        self._reply(0)

    def _next(self, header: bytearray) -> bool:
        """Wait for a request; meanwhile the device works. False at the end of the stream."""
        if self._sleeps and not self._is_working():
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
            if self._is_working():
                self._advance()
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

    def _drop(self, size: int) -> None:
        """Read what a refused request has behind it."""
        scratch = memoryview(bytearray(min(size, CHUNK)))
        while size:
            part = scratch[: min(size, CHUNK)]
            self._fill(part)
            size -= len(part)

    def _reply(self, status: int, value: int = 0, text: str = "", data: bytes = b"") -> None:
        said = text.encode("utf-8", "replace")[:MAX_TEXT]
        self._socket.sendall(REPLY.pack(status, len(said), value, len(data)) + said + data)
