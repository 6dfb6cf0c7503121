"""The server: a socket for any number of programs, each with connections for its threads, and the files of sysfs."""

from __future__ import annotations

import secrets
import socket
import threading
from pathlib import Path
from typing import Final, Self

from understudy.attach.events import Connected, TurnedAway
from understudy.attach.rocm.session import Session
from understudy.attach.sockets import Listener, SocketError
from understudy.core.errors import UnderstudyError
from understudy.core.event import Event, Probes
from understudy.device.kfd.device import KfdDevice

MOST_WAITING: Final = 1024
"""Connections that may come at once: a program with many threads."""
LSMOD: Final = '#!/bin/sh\ncat "$UNDERSTUDY_ROCM_ROOT/proc/modules"\n'
"""What is asked whether the driver is loaded, for machines that have none."""


class Server:
    """Shows the agents of a `KfdDevice` to programs, many at a time; the device is left to its owner.

    `serve` takes the calling thread; each connection has one of its own. `close` may be called from anywhere.
    """

    def __init__(self, device: KfdDevice) -> None:
        self.probes = Probes()
        self.sessions = 0
        """Connections that came so far."""
        self._device = device
        self._lock = threading.Lock()
        self._open: dict[Session, threading.Thread] = {}
        self._keys: dict[int, int] = {}
        self._listener: Listener | None = None
        self._closed = False

    # ---- keys ----------------------------------------------------------------------------------------------------

    def add(self, number: int) -> int:
        """See `session.Keys`."""
        key = secrets.randbits(63) | 1
        self._keys[key] = number
        return key

    def find(self, key: int) -> int:
        """See `session.Keys`."""
        return self._keys.get(key, 0)

    def drop(self, key: int) -> None:
        """See `session.Keys`."""
        self._keys.pop(key, None)

    # ---- serving -------------------------------------------------------------------------------------------------

    def write_files(self, root: Path) -> None:
        """Write what sysfs shows of the driver into folder `root`, which programs are told of."""
        for name, text in self._device.files().items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="ascii")
        for node in self._device.nodes:
            path = root / f"dev/dri/renderD{node.minor}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        lsmod = root / "bin" / "lsmod"
        lsmod.parent.mkdir(exist_ok=True)
        lsmod.write_text(LSMOD, encoding="ascii")
        lsmod.chmod(0o755)

    def listen(self, path: str | Path) -> None:
        """Make the socket; programs can connect from now on."""
        self._listener = Listener(Path(path), lambda: None, self._turned_away, waiting=MOST_WAITING)

    def serve(self) -> None:
        """Serve programs until `close`."""
        if self._listener is None:
            raise SocketError("there is no socket to serve: call listen first")
        while (sock := self._listener.accept("program")) is not None:
            self._begin(sock)
        for thread in tuple(self._open.values()):
            thread.join()

    def _begin(self, sock: socket.socket) -> None:
        self.sessions += 1
        number = self.sessions
        session = Session(sock, self._device, self, self._emit)
        thread = threading.Thread(
            target=self._serve, args=(session, sock, number), name=f"understudy-rocm-{number}", daemon=True
        )
        with self._lock:
            self._open[session] = thread
            thread.start()
        if self._closed:
            session.disconnect()

    def _serve(self, session: Session, sock: socket.socket, number: int) -> None:
        self._emit(Connected(0, number))
        with sock:
            try:
                error = session.run()
            finally:
                with self._lock:
                    self._open.pop(session, None)
        if isinstance(error, UnderstudyError):
            self._turned_away(str(error))

    def close(self) -> None:
        """Stop serving: `serve` returns when all connections have ended."""
        self._closed = True
        if self._listener is not None:
            self._listener.close()
        with self._lock:
            sessions = tuple(self._open)
        for session in sessions:
            session.disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _turned_away(self, why: str) -> None:
        self._emit(TurnedAway(0, why))

    def _emit(self, event: Event) -> None:
        if self.probes.active:
            self.probes.emit(event)
