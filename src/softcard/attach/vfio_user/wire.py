"""The messages on a stream socket: message boundaries and file descriptors, independent of the messages' content."""

from __future__ import annotations

import array
import os
import select
import socket
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from softcard.attach.vfio_user import rules
from softcard.attach.vfio_user.messages import Header, HeaderFlags, command_name
from softcard.core.errors import SoftcardError, WireError
from softcard.core.rule import Rule

HEADER: Final = Header.layout
CHUNK: Final = 64 << 10
"""The maximum number of bytes received in one call; it is enough for many small messages."""
FDS_PER_READ: Final = 64
"""The maximum number of descriptors received with one read; no message may have that many."""
TYPE: Final = int(HeaderFlags.TYPE)
REPLY: Final = int(HeaderFlags.REPLY)
NO_REPLY: Final = int(HeaderFlags.NO_REPLY)
ERROR: Final = int(HeaderFlags.ERROR)
ErrorT = TypeVar("ErrorT", bound=SoftcardError)


class StreamError(WireError):
    """The error for a stream that cannot be parsed any further, so that the connection must end."""


class Disconnected(SoftcardError):
    """The error for a peer that has disconnected."""


class Message:
    """One received message. `number` counts from 1; the owner of the message owns its descriptors `fds`."""

    __slots__ = ("command", "errno", "fds", "flags", "message_id", "number", "payload")

    def __init__(
        self, number: int, message_id: int, command: int, flags: int, errno: int, payload: bytes, fds: list[int]
    ) -> None:
        self.number = number
        self.message_id = message_id
        self.command = command
        self.flags = flags
        self.errno = errno
        self.payload = payload
        self.fds = fds

    @property
    def is_reply(self) -> bool:
        """True if the message is a reply to a message that this process has sent."""
        return self.flags & TYPE == REPLY

    @property
    def wants_reply(self) -> bool:
        """True if the message's sender waits for a reply."""
        return not self.flags & NO_REPLY

    def place(self, error: ErrorT) -> ErrorT:
        """Add this message's number and command to the location in `error`, and return `error`."""
        return error.at("message", self.number, f"{command_name(self.command)}, id {self.message_id:#x}")

    def close_fds(self) -> None:
        """Close the descriptors of this message that no handler has taken ownership of."""
        close_all(self.fds)

    def take_fd(self) -> int | None:
        """Return the message's first descriptor, or None if it has no descriptors; the caller must close it."""
        return self.fds.pop(0) if self.fds else None


def close_all(fds: list[int]) -> None:
    """Close all descriptors in `fds` and clear the list."""
    while fds:
        os.close(fds.pop())


class Channel:
    """A connected stream socket that carries messages. One thread receives at a time; any thread may send.

    `max_payload` is the maximum number of payload bytes of a message; a longer message ends the connection.
    """

    def __init__(self, sock: socket.socket, max_payload: int) -> None:
        self._socket = sock
        self._max_size = HEADER.size + max_payload
        self._buffer = bytearray()
        self._start = 0
        """The stream position, in bytes, of the first byte in the buffer."""
        self._fds: deque[tuple[int, list[int]]] = deque()
        """Received descriptors that belong to no message yet, with the stream positions at which they arrived."""
        self._send_lock = threading.Lock()
        self.received = 0
        """The number of messages received so far."""

    def fileno(self) -> int:
        """Return the descriptor, for polling."""
        return self._socket.fileno()

    @property
    def has_message(self) -> bool:
        """True if the next message has been received completely, so that polling the socket would miss it."""
        return len(self._buffer) >= HEADER.size and len(self._buffer) >= HEADER.unpack_from(self._buffer)[2]

    def send(self, message_id: int, command: int, flags: int, errno: int, payload: bytes, fds: Sequence[int]) -> None:
        """Send one message; raise `Disconnected` if the peer has disconnected."""
        data = HEADER.pack(message_id, command, HEADER.size + len(payload), flags, errno) + payload
        try:
            with self._send_lock:
                sent = socket.send_fds(self._socket, [data], fds) if fds else self._socket.send(data)
                if sent < len(data):
                    self._socket.sendall(memoryview(data)[sent:])
        except OSError as error:
            raise Disconnected(f"{command_name(command)} cannot be sent: {error.strerror}") from None

    def receive(self, timeout_s: float | None = None) -> Message | None:
        """Return the next message; None if none arrives within `timeout_s` seconds.

        Raise `Disconnected` at the end of the stream and `StreamError` if the stream is malformed.
        """
        buffer = self._buffer
        while True:
            if len(buffer) >= HEADER.size:
                message = self._extract()
                if message is not None:
                    return message
            if timeout_s is not None and not readable(self._socket, timeout_s):
                return None
            self._fill()

    def _fill(self) -> None:
        """Receive bytes with one call and append them to the buffer.

        If some of the bytes carry descriptors, the kernel returns no bytes beyond them in the same call."""
        try:
            data, ancillary, flags, _ = self._socket.recvmsg(CHUNK, socket.CMSG_SPACE(4 * FDS_PER_READ))
        except OSError as error:
            raise Disconnected(f"the connection broke: {error.strerror}").at("byte", self._position) from None
        if ancillary:
            fds = _descriptors(ancillary)
            self._fds.append((self._position + len(data), fds))
            if flags & socket.MSG_CTRUNC:
                raise StreamError(
                    f"more than {FDS_PER_READ} file descriptors came with one message", rule=rules.FDS
                ).at("byte", self._position)
        if not data:
            if self._buffer:
                raise StreamError(
                    f"the connection ended inside message {self.received + 1}, after {len(self._buffer)} of its bytes",
                    rule=rules.MESSAGE_SIZE,
                ).at("byte", self._position)
            raise Disconnected("the other side closed the connection")
        self._buffer += data

    @property
    def _position(self) -> int:
        return self._start + len(self._buffer)

    def _extract(self) -> Message | None:
        """Remove the first message from the buffer and return it; None if it is incomplete."""
        buffer = self._buffer
        message_id, command, size, flags, errno = HEADER.unpack_from(buffer)
        if not HEADER.size <= size <= self._max_size:
            raise self._broken(
                f"a message must have {HEADER.size} to {self._max_size} bytes, not {size}", command, rules.MESSAGE_SIZE
            )
        if flags & TYPE > REPLY:
            raise self._broken(
                f"the type in flags {flags:#x} is {flags & TYPE:#x}, neither command (0) nor reply (1)",
                command,
                rules.MESSAGE_TYPE,
            )
        if len(buffer) < size:
            return None
        payload = bytes(buffer[HEADER.size : size])
        del buffer[:size]
        end = self._start + size
        fds: list[int] = []
        while self._fds and self._fds[0][0] <= end:
            fds += self._fds.popleft()[1]
        self._start = end
        self.received += 1
        return Message(self.received, message_id, command, flags, errno, payload, fds)

    def _broken(self, text: str, command: int, rule: Rule) -> StreamError:
        error = StreamError(text, rule=rule).at("byte", self._start)
        return error.at("message", self.received + 1, command_name(command))

    def shutdown(self) -> None:
        """End the connection; a thread that is receiving gets `Disconnected`."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the other side has disconnected already

    def close(self) -> None:
        """Close the socket, and all received descriptors that no handler has taken ownership of."""
        self._socket.close()
        while self._fds:
            close_all(self._fds.popleft()[1])


def _descriptors(ancillary: Iterable[tuple[int, int, bytes]]) -> list[int]:
    """Return the descriptors in the ancillary data of a received message, after setting them to close on exec."""
    found = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    for fd in found:
        os.set_inheritable(fd, False)
    return list(found)


def readable(source: socket.socket | int, timeout_s: float) -> bool:
    """Return True if `source` becomes readable within `timeout_s` seconds."""
    poll = select.poll()
    poll.register(source, select.POLLIN)
    return bool(poll.poll(max(0.0, timeout_s) * 1000))
