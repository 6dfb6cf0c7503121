"""A server: a socket path, one peer after the other, and a device that outlives them."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Generic, Protocol, Self, TypeVar

from understudy.attach.events import Connected, TurnedAway, Waits
from understudy.attach.sockets import Listener, SocketError
from understudy.core.errors import UnderstudyError
from understudy.core.event import Event, Probes


class Session(Protocol):
    """One connection."""

    @property
    def time(self) -> int:
        """Messages received so far: the clock of the events."""

    def run(self) -> UnderstudyError | None:
        """Serve until the peer is gone; gives the error that ended the session, if one did."""

    def disconnect(self) -> None:
        """End the session from another thread or a signal handler."""


SessionT = TypeVar("SessionT", bound=Session)


class SocketServer(ABC, Generic[SessionT]):
    """Shows a device to one peer at a time.

    `serve` takes the calling thread. `disconnect` and `close` may be called from anywhere, signal handlers included.
    """

    def __init__(self, who: str) -> None:
        """`who` is what messages call a peer."""
        self.probes = Probes()
        self.sessions = 0
        """Peers that came so far."""
        self._who = who
        self._session: SessionT | None = None
        self._listener: Listener | None = None
        self._closed = False
        self._spoken = 0
        """How many of them said anything."""

    def listen(self, path: str | Path) -> None:
        """Make the socket; peers can connect from now on. A socket that a dead server left behind is replaced."""
        self._listener = Listener(Path(path), self._somebody_waits, self._turned_away)

    def serve(self, sessions: int | None = None) -> None:
        """Serve peers, one after the other, until `close`, or until that many have come and gone.

        Those do not count who say nothing: scripts that look whether somebody listens.
        """
        while not self._closed and (sessions is None or sessions > 0):
            if self._listener is None:
                raise SocketError("there is no socket to serve: call listen first")
            sock = self._listener.accept(self._who)
            if sock is None:
                return
            before = self._spoken
            with sock:
                self.serve_socket(sock)
            sessions = None if sessions is None else sessions - (self._spoken - before)

    def serve_socket(self, sock: socket.socket) -> UnderstudyError | None:
        """Serve one connected peer until it is gone; gives the error that ended the session, if one did."""
        self.sessions += 1
        self._session = session = self._begin(sock)
        self._emit(Connected(0, self.sessions))
        if self._closed:
            session.disconnect()
        error: UnderstudyError | None = None
        try:
            error = session.run()
        finally:
            self._session = None
            self._spoken += session.time > 0
            self._emit(self._end(session, error))
        return error

    def disconnect(self) -> None:
        """End the session; the next peer may come."""
        session = self._session
        if session is not None:
            session.disconnect()

    def close(self) -> None:
        """Stop serving: `serve` returns. The device is left to its owner."""
        self._closed = True
        self.disconnect()
        if self._listener is not None:
            self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _begin(self, sock: socket.socket) -> SessionT:
        """The session of a peer that came."""

    @abstractmethod
    def _end(self, session: SessionT, error: UnderstudyError | None) -> Event:
        """A session has ended, by `error` if by one; what to tell of it."""

    def _time(self) -> int:
        session = self._session
        return session.time if session is not None else 0

    def _somebody_waits(self) -> None:
        self._emit(Waits(self._time(), self.sessions))

    def _turned_away(self, why: str) -> None:
        self._emit(TurnedAway(self._time(), why))

    def _emit(self, event: Event) -> None:
        if self.probes.active:
            self.probes.emit(event)
