"""The commands that the server sends to the client, DMA_READ and DMA_WRITE, and the wait for their replies."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from softcard.attach.vfio_user import rules
from softcard.attach.vfio_user.messages import Command, DmaAccess, HeaderFlags
from softcard.attach.vfio_user.wire import Channel, Disconnected, Message
from softcard.core.errors import AccessFault, RuleError, SoftcardError

DMA_ACCESS: Final = DmaAccess.layout
LAST_ID: Final = 0xFFFF


class _Waiter:
    """A command that waits for its reply.

    Once `done` is set, `reply` holds the reply; if none came, `failure` holds the reason.
    """

    __slots__ = ("command", "done", "failure", "reply")

    def __init__(self, command: int) -> None:
        self.command = command
        self.done = threading.Event()
        self.reply: Message | None = None
        self.failure = ""


class Requests:
    """The sender of commands to the client; it also passes each received reply to the command that waits for it.

    Any thread may send, but only the receiving thread calls `answer`. If the receiving thread itself has to wait
    for a reply, it calls `pump(deadline)`, which receives and handles one message. A device without its own
    thread can therefore do DMA while a register write is being served."""

    def __init__(
        self, channel: Channel, limit: int, timeout_s: float, pump: Callable[[float], None], receiver: int | None
    ) -> None:
        self._channel = channel
        self._limit = limit
        self._timeout_s = timeout_s
        self._pump = pump
        self._receiver = receiver
        self._lock = threading.Lock()
        self._waiting: dict[int, _Waiter] = {}
        self._next_id = 0
        self._refused = ""

    def read_memory(self, address: int, count: int) -> bytes:
        """Read memory with DMA_READ, in as many messages as the client's max_data_xfer_size requires."""
        parts = []
        for at in range(address, address + count, self._limit):
            part = min(self._limit, address + count - at)
            reply = self._call(Command.DMA_READ, at, part, b"")
            if len(reply) != DMA_ACCESS.size + part or DMA_ACCESS.unpack_from(reply) != (at, part):
                raise _bad_reply(Command.DMA_READ, at, part, reply)
            parts.append(reply[DMA_ACCESS.size :])
        return b"".join(parts)

    def write_memory(self, address: int, data: bytes) -> None:
        """Write memory with DMA_WRITE, in as many messages as the client's max_data_xfer_size requires."""
        for start in range(0, len(data), self._limit):
            part = data[start : start + self._limit]
            at = address + start
            reply = self._call(Command.DMA_WRITE, at, len(part), part)
            # The document gives this count 4 bytes and that of DMA_READ 8; both are accepted.
            if len(reply) not in (12, 16) or reply[:12] != DMA_ACCESS.pack(at, len(part))[:12]:
                raise _bad_reply(Command.DMA_WRITE, at, len(part), reply)

    def answer(self, message: Message) -> None:
        """Pass the reply `message` to the pending command with its id; raise `RuleError` if no command has this id."""
        with self._lock:
            waiter = self._waiting.get(message.message_id)
            if waiter is not None and waiter.command == message.command and not waiter.done.is_set():
                waiter.reply = message
                waiter.done.set()
                return
        raise RuleError("the client replied to a command that the server did not send", rule=rules.REPLY_MATCH)

    def fail(self, reason: str) -> None:
        """Fail all pending and all future commands with `reason`."""
        with self._lock:
            self._refused = reason
            for waiter in self._waiting.values():
                waiter.failure = reason
                waiter.done.set()

    @contextmanager
    def failing(self, reason: str) -> Iterator[None]:
        """Fail all pending commands with `reason`, and all new commands until the ``with`` block ends."""
        self.fail(reason)
        try:
            yield
        finally:
            with self._lock:
                self._refused = ""

    def _call(self, command: Command, address: int, count: int, data: bytes) -> bytes:
        """Send one command and return the payload of its reply; raise `AccessFault` for any failure."""
        access = "read" if command is Command.DMA_READ else "write"
        what = f"{access} of {count} bytes at {address:#x}"
        message_id, waiter = self._enter(command, what, address, access)
        try:
            self._channel.send(message_id, command, 0, 0, DMA_ACCESS.pack(address, count) + data, ())
            self._wait(waiter)
        except Disconnected as error:
            raise AccessFault(f"{what}: {error.message}", address=address, access=access) from None
        finally:
            with self._lock:
                del self._waiting[message_id]
        reply = waiter.reply
        if reply is None:
            why = waiter.failure or f"the client has not replied within {self._timeout_s:g} s"
            raise AccessFault(f"{what}: {why}", address=address, access=access)
        if reply.flags & HeaderFlags.ERROR:
            raise AccessFault(f"{what}: the client replied with errno {reply.errno}", address=address, access=access)
        return reply.payload

    def _enter(self, command: Command, what: str, address: int, access: str) -> tuple[int, _Waiter]:
        waiter = _Waiter(command)
        with self._lock:
            if self._refused:
                raise AccessFault(f"{what}: {self._refused}", address=address, access=access)
            while self._next_id in self._waiting:
                self._next_id = (self._next_id + 1) & LAST_ID
            message_id = self._next_id
            self._next_id = (message_id + 1) & LAST_ID
            self._waiting[message_id] = waiter
        return message_id, waiter

    def _wait(self, waiter: _Waiter) -> None:
        deadline = time.monotonic() + self._timeout_s
        if threading.get_ident() != self._receiver:
            waiter.done.wait(self._timeout_s)
            return
        while not waiter.done.is_set() and (left := deadline - time.monotonic()) > 0:
            self._pump(left)


def _bad_reply(command: Command, address: int, count: int, reply: bytes) -> AccessFault:
    got = ", ".join(f"{value:#x}" for value in DMA_ACCESS.unpack_from(reply.ljust(DMA_ACCESS.size, b"\0")))
    error = AccessFault(
        f"the reply of {len(reply)} bytes does not have address {address:#x} and count {count}",
        address=address,
        access="read" if command is Command.DMA_READ else "write",
        rule=rules.DMA_REPLY,
    )
    return error.at("reply", command.name, f"address, count = {got}")


def receive_replies(channel: Channel, requests: Requests, refused: Callable[[SoftcardError], None]) -> None:
    """Pass each reply that arrives on `channel` to `requests` until the connection ends; the body of a thread.

    `refused` is called with the error of each message that is not a reply to a pending command."""
    reason = "the client has disconnected"
    try:
        while True:
            message = channel.receive()
            assert message is not None
            message.close_fds()
            try:
                if not message.is_reply:
                    raise RuleError(
                        "the client sent a command on the socket of the server's commands, expected only replies",
                        rule=rules.DIRECTION,
                    )
                requests.answer(message)
            except RuleError as error:
                refused(message.place(error))
    except Disconnected:
        pass
    except SoftcardError as error:
        refused(error)
        reason = error.message
    finally:
        requests.fail(reason)
