"""The server: a socket path, one host program after the other, each with devices of its own."""

from __future__ import annotations

import socket

from understudy.attach.refsi.events import Disconnected
from understudy.attach.refsi.opened import Options
from understudy.attach.refsi.session import Session
from understudy.attach.server import SocketServer
from understudy.core.errors import UnderstudyError


class Server(SocketServer[Session]):
    """Opens RefSi devices for one host program at a time; they end with it, or when it shuts them down.

    `serve` takes the calling thread, which makes all calls of the devices. `disconnect` and `close` may be called from
    anywhere, signal handlers included.
    """

    def __init__(self, options: Options | None = None) -> None:
        super().__init__("host program")
        self._options = Options() if options is None else options

    def _begin(self, sock: socket.socket) -> Session:
        return Session(sock, self._options, self._emit)

    def _end(self, session: Session, error: UnderstudyError | None) -> Disconnected:
        return Disconnected(session.time, self.sessions, error, session.release())
