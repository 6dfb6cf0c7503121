"""Listening Unix sockets: creation, replacement of a socket file whose server has ended, and removal.

A socket accepts only the user who runs the server and the superuser. Its mode is 0600, and if the platform reports the
user of a connection, connections of all other users are closed. The socket file appears at its path only once the
socket accepts connections.
"""

from __future__ import annotations

import errno
import fcntl
import os
import queue
import secrets
import socket
import stat
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from softcard.core.errors import SoftcardError

MODE: Final = 0o600
PATH_BYTES: Final = 107 if sys.platform == "linux" else 103
"""The maximum length of a Unix socket's path, in bytes."""
WAITING: Final = 16
"""The default number of connections that may wait to be served; further connections are closed."""
TRIES: Final = 100
"""The maximum number of random names tried for a temporary socket file."""
_UCRED: Final = struct.Struct("3i")


class SocketError(SoftcardError):
    """The error for a Unix socket that cannot be created or used."""


class Listener:
    """A listening Unix socket. It replaces the socket file of a server that has ended, but not any other file.

    A thread accepts each connection as soon as it arrives; `accept` returns the connections in the order of their
    arrival. `waits` is called when a connection has to wait until earlier ones have ended. `turned_away` is
    called with the reason when a connection is closed without being served. The accepting thread makes both
    calls."""

    def __init__(
        self, path: Path, waits: Callable[[], None], turned_away: Callable[[str], None], *, waiting: int = WAITING
    ) -> None:
        """Create the socket at `path` and listen. At most `waiting` connections may wait; further ones are closed."""
        self._path = path
        self._waiting = waiting
        self._waits = waits
        self._turned_away = turned_away
        self._is_closed = False
        self._closing = threading.Lock()
        """The lock that the first thread that closes this listener acquires and never releases."""
        self._is_serving = False
        self._came = 0
        """The number of accepted connections; only the accepting thread counts them."""
        self._gone = 0
        """The number of accepted connections that have ended; only the thread that calls `accept` counts them."""
        self._arrived: queue.SimpleQueue[socket.socket | OSError | None] = queue.SimpleQueue()
        """The queue of accepted connections; its last item is the error that ended accepting, or None."""
        try:
            self._lock = _lock(path)
            try:
                _check_free(path)
                self._socket, self._inode = _listen(path, waiting)
            except BaseException:
                _unlock(path, self._lock)
                raise
        except OSError as error:
            raise SocketError(f"cannot listen at {path}: {error.strerror or error}") from None
        threading.Thread(target=self._accept_all, name="accept", daemon=True).start()

    def accept(self, who: str) -> socket.socket | None:
        """Return the next connection, or None once the listener is closed; `who` is the word for a peer in messages."""
        if self._is_serving:
            self._is_serving = False
            self._gone += 1
        found = self._arrived.get()
        if isinstance(found, OSError) and not self._is_closed:
            raise SocketError(f"cannot accept a connection of a {who}: {found.strerror}") from None
        if not isinstance(found, socket.socket) or self._is_closed:
            self._arrived.put(None)  # so that the next call returns as well
            self._leave(found)
            return None
        self._is_serving = True
        return found

    def close(self) -> None:
        """Let `accept` return, and remove the socket."""
        if not self._closing.acquire(blocking=False):
            return
        self._is_closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with suppress(OSError):
            if os.lstat(self._path).st_ino == self._inode:
                self._path.unlink()
        _unlock(self._path, self._lock)
        with suppress(queue.Empty):
            while True:
                self._leave(self._arrived.get_nowait())
        self._arrived.put(None)

    def _accept_all(self) -> None:
        while True:
            try:
                sock, _ = self._socket.accept()
            except OSError as error:
                self._arrived.put(error)
                return
            before = self._came - self._gone
            if why := _refusal(sock, before, self._waiting):
                sock.close()
                self._turned_away(why)
                continue
            self._came += 1
            self._arrived.put(sock)
            if self._is_closed:
                sock.close()
            elif before:
                self._waits()

    def _leave(self, found: socket.socket | OSError | None) -> None:
        if isinstance(found, socket.socket):
            found.close()


def _refusal(sock: socket.socket, before: int, waiting: int) -> str:
    """Return the reason to close the new connection `sock`, or "" to serve it.

    `before` is the number of earlier connections that have not ended; at most `waiting` connections may wait.
    """
    user = _peer(sock)
    if user is not None and user not in (0, os.geteuid()):
        return f"user {user} has connected to a socket of user {os.geteuid()}, expected the same user or root"
    return f"{waiting} connections are waiting already" if before > waiting else ""


def _peer(sock: socket.socket) -> int | None:
    """Return the user id of the peer of `sock`, or None if the platform does not report it."""
    if sys.platform != "linux":
        return None
    try:
        _, user, _ = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    except OSError:
        return None  # disconnected already
    return int(user)


def _lock_of(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def _lock(path: Path) -> int:
    """Lock `path` for this server and return the descriptor that holds the lock until it is closed."""
    if len(os.fsencode(path)) > PATH_BYTES:
        raise SocketError(f"cannot listen at {path}: the path is too long, expected {PATH_BYTES} bytes at most")
    if not path.name:
        raise SocketError(f"cannot listen at {path}: the existing file is not a socket")
    file = _lock_of(path)
    while True:
        lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, MODE)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(file, os.fstat(lock)):
                return lock
            os.close(lock)  # the last server removed it while this one opened it
        except BlockingIOError:
            os.close(lock)
            raise SocketError(f"cannot listen at {path}: another server listens there") from None
        except OSError:
            os.close(lock)
            raise


def _is_at(file: Path, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.lstat(file), status)
    except FileNotFoundError:
        return False


def _unlock(path: Path, lock: int) -> None:
    with suppress(OSError):
        _lock_of(path).unlink()
    os.close(lock)


def _check_free(path: Path) -> None:
    """Raise `SocketError` if another server listens at `path` or if the file at `path` is not a socket."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketError(f"cannot listen at {path}: the existing file is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except OSError:
            pass  # a server listens, but its queue is full, or it is not for this user
    raise SocketError(f"cannot listen at {path}: another server listens there")


def _listen(path: Path, waiting: int) -> tuple[socket.socket, int]:
    """Return a socket that listens at `path`, and the inode of its file; at most `waiting` connections may wait.

    The socket is bound to a new name in the same folder, and renamed to `path` once it listens.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    temporary: Path | None = None
    try:
        temporary = _bind_temporary(sock, path)
        os.chmod(temporary, MODE)
        sock.listen(waiting)
        inode = os.lstat(temporary).st_ino
        os.rename(temporary, path)
    except BaseException:
        sock.close()
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise
    return sock, inode


def _bind_temporary(sock: socket.socket, path: Path) -> Path:
    """Bind `sock` to a new name in the folder of `path`, and return the path with that name.

    The name is longer than the name of `path`, unless such a path would be too long for a Unix socket. In that
    case, the new name is not longer."""
    tries = 0
    while True:
        tries += 1
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        if len(os.fsencode(temporary)) > PATH_BYTES:
            temporary = path.with_name(secrets.token_hex(16)[: len(os.fsencode(path.name))])
        try:
            sock.bind(str(temporary))
        except OSError as error:
            if error.errno != errno.EADDRINUSE or tries == TRIES:
                raise
        else:
            return temporary
