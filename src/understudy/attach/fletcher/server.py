"""The server: a socket path, one host program after the other, and a device that outlives them."""

from __future__ import annotations

import socket

from understudy.attach.fletcher.events import Disconnected
from understudy.attach.fletcher.platform import DevicePlatform
from understudy.attach.fletcher.session import Session
from understudy.attach.server import SocketServer
from understudy.core.errors import UnderstudyError


class Server(SocketServer[Session]):
    """Shows a device to one host program at a time. What a program leaves allocated is freed when it is gone.

    `serve` takes the calling thread, which makes all calls of the device. `disconnect` and `close` may be called from
    anywhere, signal handlers included.
    """

    def __init__(self, platform: DevicePlatform) -> None:
        super().__init__("host program")
        self._platform = platform

    def _begin(self, sock: socket.socket) -> Session:
        return Session(sock, self._platform, self._emit)

    def _end(self, session: Session, error: UnderstudyError | None) -> Disconnected:
        return Disconnected(session.time, self.sessions, error, session.release())
