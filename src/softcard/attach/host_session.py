"""The session of one host program: it carries out the program's requests one by one and replies to each.

Requests and replies have the format that the host libraries in C define in ``host.h``."""

from __future__ import annotations

import socket
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Final

from softcard.core.diagnostics import Diagnostic, Note, of_error
from softcard.core.errors import SoftcardError, WireError
from softcard.core.event import Event
from softcard.report.diagnostic_text import as_text

# ---- messages --------------------------------------------------------------------------------------------------------
# The message format between servers and the libraries in C that host programs load; ``host.h`` has the same layouts.
#
# A request is one call of the library. A reply has a diagnostic of `text_size` bytes for the host's user, then
# `data_size` bytes; notes may come before it, with `text_size` bytes for the host's own output. Numbers are
# little-endian. Both sides run on one machine and come from one installation, so versions are compared, not negotiated.


REQUEST: Final = struct.Struct("<IIQQ")
"""The fields of a request: op, value, address (or another operand of the op), size in bytes."""
REPLY: Final = struct.Struct("<IIQQ")
"""The fields of a reply: status, text_size, value, data_size."""
HELLO: Final = 1
"""The op of a connection's first request: `value` is the protocol version, `address` the library's magic number."""
MAX_TEXT: Final = 4095
NOTE_OUT: Final = 0x100
NOTE_ERR: Final = 0x101
"""The status of a note, a message that replies to no request: its text is for the host's standard error."""


# ---- session ---------------------------------------------------------------------------------------------------------


SPIN_S: Final = 50e-6
"""The time in seconds for which a session polls for the next request before it blocks."""
SLEEPS_AFTER_SPIN: Final = 15
CHUNK: Final = 4 << 20
"""The maximum number of bytes that one receive call stores in a given buffer."""


class StreamError(WireError):
    """The error for a stream that cannot be parsed any further, so that the connection must end."""


class HostSession(ABC):
    """A connection to one host program. `run` serves it and returns when the connection has ended.

    While no request arrives, the session runs the device, one time slice after another. The device therefore
    makes progress even while the host program sleeps between two polls."""

    MAGIC: ClassVar[int]
    VERSION: ClassVar[int]
    LIBRARY: ClassVar[str]
    """The library's name in error messages."""
    OTHER_VERSION: ClassVar[int]
    """The reply status that rejects a library with another protocol version."""

    def __init__(self, sock: socket.socket, emit: Callable[[Event], None]) -> None:
        self.time = 0
        """The number of requests received so far: the `time` of the session's events."""
        self._socket = sock
        self._emit = emit
        self._greeted = False
        self._sleeps = 0

    def run(self) -> SoftcardError | None:
        """Serve until the host disconnects; return the error that ended the session, or None."""
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
            return None  # the host has disconnected and does not wait for a reply
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
            return  # the host has disconnected already

    # ---- to be implemented for a device ----

    @abstractmethod
    def _begin(self) -> None:
        """Prepare to serve requests, after a valid HELLO from the host."""

    @abstractmethod
    def _serve(self, op: int, value: int, address: int, size: int) -> bool:
        """Carry out one request and reply to it; return False if it was the session's last request.

        Raise `StreamError` if the rest of the stream cannot be parsed.
        """

    def _is_working(self) -> bool:
        """Return True if the device has work left that is done only when `_advance` is called."""
        return False

    def _advance(self) -> None:
        """Let the device work for one time slice."""
        raise NotImplementedError

    # ---- the stream ----

    def _greet(self, op: int, version: int, magic: int) -> None:
        if op != HELLO or magic != self.MAGIC:
            raise StreamError(
                f"the first request is {op} with the magic number {magic:#x}, expected the greeting of the "
                f"{self.LIBRARY} ({HELLO} with {self.MAGIC:#x})"
            )
        self._greeted = version == self.VERSION
        if not self._greeted:
            text = (
                f"the {self.LIBRARY} has protocol version {version}, but the server has {self.VERSION}: use the "
                "library "
                "of the server's Softcard"
            )
            error = StreamError(text)
            self._reply(self.OTHER_VERSION, found=error)
            raise error
        self._begin()
        self._reply(0)

    def _next(self, header: bytearray) -> bool:
        """Wait for a request, store it in `header`, and run the device meanwhile.

        Return False at the end of the stream.
        """
        if self._sleeps and not self._is_working():
            self._sleeps -= 1
            got = self._socket.recv_into(header)
        else:
            got = self._poll(header)
        if 0 < got < REQUEST.size:
            self._fill(memoryview(header)[got:])
        return got > 0

    def _poll(self, header: bytearray) -> int:
        """Poll for a request and store what arrives in `header`; return the number of bytes read.

        Polling avoids a sleep, since waking up takes longer than most requests. After a poll without success, the
        session waits for the next requests with a blocking read.
        """
        deadline = time.perf_counter() + SPIN_S
        while True:
            try:
                return self._socket.recv_into(header, REQUEST.size, socket.MSG_DONTWAIT)
            except BlockingIOError:
                pass  # an exception raised below should not have this one as its context
            if self._is_working():
                self._advance()
            elif time.perf_counter() > deadline:
                self._sleeps = SLEEPS_AFTER_SPIN
                return self._socket.recv_into(header)

    def _fill(self, view: memoryview) -> None:
        """Receive exactly as many bytes as fit in `view`, and store them there."""
        while view:
            got = self._socket.recv_into(view)
            if not got:
                raise StreamError(f"the host disconnected before it sent the last {len(view)} bytes of a request")
            view = view[got:]

    def _drop(self, size: int) -> None:
        """Read and discard the `size` bytes of data that follow a refused request."""
        scratch = memoryview(bytearray(min(size, CHUNK)))
        while size:
            part = scratch[: min(size, CHUNK)]
            self._fill(part)
            size -= len(part)

    def _shown(self, found: SoftcardError | Diagnostic) -> str:
        """Return an error or another diagnostic as text for the user of the host program."""
        shown = of_error(found) if isinstance(found, SoftcardError) else found
        return as_text([replace(shown, notes=(*shown.notes, Note(f"reported by the {self.LIBRARY} of Softcard")))])

    def _reply(
        self, status: int, value: int = 0, found: SoftcardError | Diagnostic | None = None, data: bytes = b""
    ) -> None:
        """Send a reply; the library prints the diagnostic `found` on standard error."""
        said = b"" if found is None else self._shown(found).encode("utf-8", "replace")[:MAX_TEXT]
        self._socket.sendall(REPLY.pack(status, len(said), value, len(data)) + said + data)
