"""A socket server for one device.

The server serves one peer after another. The device keeps its state when a peer disconnects. Observers
receive events."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, Self, TypeVar

from softcard.attach.sockets import Listener, SocketError
from softcard.core.errors import SoftcardError
from softcard.core.event import Event, Probes

# ---- events ----------------------------------------------------------------------------------------------------------
# Events that every server sends to its observers. `time` counts the messages of the session so far.


@dataclass(frozen=True, slots=True)
class Connected(Event):
    """The event for a peer that has connected; sessions are numbered from 1."""

    session: int


@dataclass(frozen=True, slots=True)
class Waits(Event):
    """The event for a peer that waits after connecting, until the peer of session number `session` disconnects.

    `time` is 0 if the peer of `session` had not sent anything yet.
    """

    session: int


@dataclass(frozen=True, slots=True)
class TurnedAway(Event):
    """The event for a connection that was closed at once, for the given reason, without being served."""

    reason: str


# ---- server ----------------------------------------------------------------------------------------------------------


class Session(Protocol):
    """One connection of a peer to a server."""

    @property
    def time(self) -> int:
        """The number of messages received so far: the `time` of the session's events."""

    def run(self) -> SoftcardError | None:
        """Serve until the peer disconnects; return the error that ended the session, or None."""

    def disconnect(self) -> None:
        """End the session from another thread or a signal handler."""


SessionT = TypeVar("SessionT", bound=Session)


class SocketServer(ABC, Generic[SessionT]):
    """A server that connects a device to one peer at a time.

    `serve` blocks the calling thread. `disconnect` and `close` may be called from any thread and from signal handlers.
    """

    def __init__(self, who: str) -> None:
        """Create a server that is not listening yet; `who` is the word for a peer in messages."""
        self.probes = Probes()
        self.sessions = 0
        """The number of peers that have connected so far."""
        self._who = who
        self._session: SessionT | None = None
        self._listener: Listener | None = None
        self._closed = False
        self._spoken = 0
        """The number of peers that have sent a message so far."""

    def listen(self, path: str | Path) -> None:
        """Create the socket, replacing the socket of a dead server; peers can connect from now on."""
        self._listener = Listener(Path(path), self._peer_waits, self._turned_away)

    def serve(self, sessions: int | None = None) -> None:
        """Serve peers, one after another, until `close`, or until `sessions` of them have connected and disconnected.

        Peers that send nothing are not counted, since scripts connect only to check whether a server listens."""
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

    def serve_socket(self, sock: socket.socket) -> SoftcardError | None:
        """Serve one connected peer until it disconnects; return the error that ended the session, or None."""
        self.sessions += 1
        self._session = session = self._begin(sock)
        self._emit(Connected(0, self.sessions))
        if self._closed:
            session.disconnect()
        error: SoftcardError | None = None
        try:
            error = session.run()
        finally:
            self._session = None
            self._spoken += session.time > 0
            self._emit(self._end(session, error))
        return error

    def disconnect(self) -> None:
        """End the present session; the next peer may connect."""
        session = self._session
        if session is not None:
            session.disconnect()

    def close(self) -> None:
        """Stop serving: `serve` returns. The device stays open: its owner closes it."""
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
        """Return the session for a peer that has connected."""

    @abstractmethod
    def _end(self, session: SessionT, error: SoftcardError | None) -> Event:
        """Return the event for the end of `session`; `error` is the error that ended it, or None."""

    def _time(self) -> int:
        session = self._session
        return session.time if session is not None else 0

    def _peer_waits(self) -> None:
        self._emit(Waits(self._time(), self.sessions))

    def _turned_away(self, why: str) -> None:
        self._emit(TurnedAway(self._time(), why))

    def _emit(self, event: Event) -> None:
        if self.probes.active:
            self.probes.emit(event)
