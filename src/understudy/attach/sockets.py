"""Unix sockets to listen at: made, made way for, and taken away again."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

from understudy.core.errors import UnderstudyError


class SocketError(UnderstudyError):
    """The socket cannot be made or used."""


class Listener:
    """A listening stream socket at `path`. One that a dead server left behind is replaced; nothing else is."""

    def __init__(self, path: Path) -> None:
        _remove_stale(path)
        self._path = path
        self._is_closed = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(str(path))
            self._socket.listen(1)
        except OSError as error:
            self._socket.close()
            raise SocketError(f"cannot listen at {path}: {error.strerror or error}") from None

    def accept(self, who: str) -> socket.socket | None:
        """The next one who connects, whom messages call `who`; None once this is closed, by any thread."""
        try:
            sock, _ = self._socket.accept()
        except OSError as error:
            if self._is_closed:
                return None
            raise SocketError(f"no {who} can be accepted: {error.strerror}") from None
        return sock

    def close(self) -> None:
        """Let `accept` return, and take the socket away."""
        if self._is_closed:
            return
        self._is_closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._path.unlink(missing_ok=True)


def _remove_stale(path: Path) -> None:
    """Make way for a new socket, unless somebody listens there or it is no socket."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketError(f"cannot listen at {path}: a file that is no socket is there")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise SocketError(f"cannot listen at {path}: another server does")
