"""The server: a socket path, one host program after the other, and a device that outlives them."""

from __future__ import annotations

import socket
from pathlib import Path

from understudy.attach.fletcher import events
from understudy.attach.fletcher.platform import DevicePlatform
from understudy.attach.fletcher.session import Session
from understudy.attach.sockets import Listener, SocketError
from understudy.core.errors import UnderstudyError
from understudy.core.event import Event, Probes


class Server:
    """Shows a device to one host program at a time. What a program leaves allocated is freed when it is gone.

    `serve` takes the calling thread, which makes all calls of the device. `close` may be called from anywhere, signal
    handlers included.
    """

    def __init__(self, platform: DevicePlatform) -> None:
        self.probes = Probes()
        self.sessions = 0
        """Host programs that came so far."""
        self._platform = platform
        self._session: Session | None = None
        self._listener: Listener | None = None
        self._closed = False
        self._spoken = 0
        """How many of them said anything."""

    def listen(self, path: str | Path) -> None:
        """Make the socket; host programs can connect from now on."""
        self._listener = Listener(Path(path), self._somebody_waits, self._turned_away)

    def serve(self, sessions: int | None = None) -> None:
        """Serve host programs, one after the other, until `close`, or until that many have come and gone.

        Those do not count who say nothing: scripts that look whether somebody listens.
        """
        while not self._closed and (sessions is None or sessions > 0):
            sock = self._accept()
            if sock is None:
                return
            before = self._spoken
            with sock:
                self.serve_socket(sock)
            sessions = None if sessions is None else sessions - (self._spoken - before)

    def serve_socket(self, sock: socket.socket) -> UnderstudyError | None:
        """Serve one connected host until it is gone; gives the error that ended the session, if one did."""
        self.sessions += 1
        self._session = session = Session(sock, self._platform, self._emit)
        self._emit(events.Connected(0, self.sessions))
        if self._closed:
            session.shutdown()
        error: UnderstudyError | None = None
        try:
            error = session.run()
        finally:
            self._session = None
            self._spoken += session.requests > 0
            freed = session.release()
            self._emit(events.Disconnected(session.requests, self.sessions, error, freed))
        return error

    def close(self) -> None:
        """Stop serving: `serve` returns. The device is left to its owner."""
        self._closed = True
        session = self._session
        if session is not None:
            session.shutdown()
        if self._listener is not None:
            self._listener.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> socket.socket | None:
        """The next host program; None once the server is closed."""
        if self._listener is None:
            raise SocketError("there is no socket to serve: call listen first")
        return self._listener.accept("host program")

    def _somebody_waits(self) -> None:
        self._emit(events.Waits(self._time(), self.sessions))

    def _turned_away(self, why: str) -> None:
        self._emit(events.TurnedAway(self._time(), why))

    def _time(self) -> int:
        session = self._session
        return session.requests if session is not None else 0

    def _emit(self, event: Event) -> None:
        if self.probes.active:
            self.probes.emit(event)
