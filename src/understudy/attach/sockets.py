"""Unix sockets to listen at: made, made way for, and taken away again.

A socket is for the user who runs the server, and for the superuser: its mode is 0600, and where the platform tells who
connects, everybody else is turned away. Its path appears when it can be connected to, and not earlier.
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

from understudy.core.errors import UnderstudyError

MODE: Final = 0o600
PATH_BYTES: Final = 107 if sys.platform == "linux" else 103
"""The longest path that a Unix socket can have."""
WAITING: Final = 16
"""How many may wait for their turn; who comes then is turned away."""
TRIES: Final = 100
"""How many names are tried that turn out to be taken."""
_UCRED: Final = struct.Struct("3i")


class SocketError(UnderstudyError):
    """The socket cannot be made or used."""


class Listener:
    """A listening stream socket at `path`. One that a dead server left behind is replaced; nothing else is.

    Whoever connects is accepted at once, and `accept` hands them out in their order. `waits` is called when somebody
    has connected who must wait until others have gone, `turned_away` with the reason when somebody was disconnected;
    both in a thread of their own.
    """

    def __init__(
        self, path: Path, waits: Callable[[], None], turned_away: Callable[[str], None], *, waiting: int = WAITING
    ) -> None:
        """`waiting`: how many may wait for their turn."""
        self._path = path
        self._waiting = waiting
        self._waits = waits
        self._turned_away = turned_away
        self._is_closed = False
        self._closing = threading.Lock()
        """Held for ever by the first who closes this."""
        self._is_serving = False
        self._came = 0
        """How many have been accepted; only the thread that accepts counts them."""
        self._gone = 0
        """How many of them have been served, likewise."""
        self._arrived: queue.SimpleQueue[socket.socket | OSError | None] = queue.SimpleQueue()
        """Those who connected; then what went wrong, or None at the end."""
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
        """The next one who connects, whom messages call `who`; None once this is closed, by any thread."""
        if self._is_serving:
            self._is_serving = False
            self._gone += 1
        found = self._arrived.get()
        if isinstance(found, OSError) and not self._is_closed:
            raise SocketError(f"no {who} can be accepted: {found.strerror}") from None
        if not isinstance(found, socket.socket) or self._is_closed:
            self._arrived.put(None)  # so that the next call ends as well
            self._leave(found)
            return None
        self._is_serving = True
        return found

    def close(self) -> None:
        """Let `accept` return, and take the socket away."""
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
            if why := _unwelcome(sock, before, self._waiting):
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


def _unwelcome(sock: socket.socket, before: int, waiting: int) -> str:
    """Why somebody who has connected is not served, `before` others having come and not gone; "" for nothing."""
    user = _peer(sock)
    if user is not None and user not in (0, os.geteuid()):
        return f"user {user} has connected to a socket of user {os.geteuid()}"
    return f"{waiting} others wait already" if before > waiting else ""


def _peer(sock: socket.socket) -> int | None:
    """The user at the other end, where the platform tells."""
    if sys.platform != "linux":
        return None
    try:
        _, user, _ = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    except OSError:
        return None  # gone already
    return int(user)


def _lock_of(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def _lock(path: Path) -> int:
    """Be the one server at `path`, for as long as the descriptor is open that this gives."""
    if len(os.fsencode(path)) > PATH_BYTES:
        raise SocketError(f"cannot listen at {path}: the path is too long, expected {PATH_BYTES} bytes at most")
    if not path.name:
        raise SocketError(f"cannot listen at {path}: a file that is no socket is there")
    file = _lock_of(path)
    while True:
        lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, MODE)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(file, os.fstat(lock)):
                return lock
            os.close(lock)  # the last server took it away while this one opened it
        except BlockingIOError:
            os.close(lock)
            raise SocketError(f"cannot listen at {path}: another server does") from None
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
    """Refuse a path where somebody else listens, or where something is that is no socket."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketError(f"cannot listen at {path}: a file that is no socket is there")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except OSError:
            pass  # it listens, but has no room for us, or is not for us
    raise SocketError(f"cannot listen at {path}: another server does")


def _listen(path: Path, waiting: int) -> tuple[socket.socket, int]:
    """A socket that listens, and its inode. It is made beside its path and moved there when all is done."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    beside: Path | None = None
    try:
        beside = _bind_beside(sock, path)
        os.chmod(beside, MODE)
        sock.listen(waiting)
        inode = os.lstat(beside).st_ino
        os.rename(beside, path)
    except BaseException:
        sock.close()
        if beside is not None:
            beside.unlink(missing_ok=True)
        raise
    return sock, inode


def _bind_beside(sock: socket.socket, path: Path) -> Path:
    """Bind to a new name in the folder of `path`, which is no longer than it where that could be too long."""
    tries = 0
    while True:
        tries += 1
        beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        if len(os.fsencode(beside)) > PATH_BYTES:
            beside = path.with_name(secrets.token_hex(16)[: len(os.fsencode(path.name))])
        try:
            sock.bind(str(beside))
        except OSError as error:
            if error.errno != errno.EADDRINUSE or tries == TRIES:
                raise
        else:
            return beside
