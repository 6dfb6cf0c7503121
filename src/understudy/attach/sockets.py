"""Unix sockets to listen at: made, and made way for."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from understudy.core.errors import UnderstudyError


class SocketError(UnderstudyError):
    """The socket cannot be made or used."""


def listen_at(path: Path) -> socket.socket:
    """A listening stream socket at `path`. One that a dead server left behind is replaced; nothing else is."""
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        listener.listen(1)
    except OSError as error:
        listener.close()
        raise SocketError(f"cannot listen at {path}: {error.strerror or error}") from None
    return listener


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
