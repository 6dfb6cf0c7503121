"""The server: a socket path, one client after the other, and a device that outlives them."""

from __future__ import annotations

import socket
from pathlib import Path

from understudy.attach.sockets import Listener, SocketError
from understudy.attach.vfio_user import events
from understudy.attach.vfio_user.access import Regions
from understudy.attach.vfio_user.dma import DmaMemory
from understudy.attach.vfio_user.intx import Intx
from understudy.attach.vfio_user.negotiation import Settings
from understudy.attach.vfio_user.session import Session
from understudy.core.errors import AccessFault, UnderstudyError
from understudy.core.event import Event, Probes
from understudy.core.pci import PciDevice


class Server:
    """Shows `device` to one vfio-user client at a time.

    `serve` takes the calling thread, which then makes all calls of the device; the device's own thread does DMA and
    drives the line meanwhile. `disconnect` and `close` may be called from anywhere, signal handlers included.
    """

    def __init__(self, device: PciDevice, settings: Settings | None = None) -> None:
        self.probes = Probes()
        self.sessions = 0
        """Clients that came so far."""
        self._settings = settings or Settings()
        self._device = device
        self._session: Session | None = None
        self._listener: Listener | None = None
        self._closed = False
        self._spoken = 0
        """How many of them said anything."""
        self._dma = DmaMemory(self._settings, self._dma_failed, self._memory_gone)
        self._intx = Intx(self._signalled)
        self._regions = Regions(device, self._dma, self._intx, self._settings.max_data_xfer_size)
        device.connect(self._dma)
        self._cancel = device.line.observe(self._intx.set_level)
        self._intx.set_level(device.line.level)

    def listen(self, path: str | Path) -> None:
        """Make the socket; clients can connect from now on. A socket that a dead server left behind is replaced."""
        self._listener = Listener(Path(path), self._somebody_waits, self._turned_away)

    def serve(self, sessions: int | None = None) -> None:
        """Serve clients, one after the other, until `close`, or until that many have come and gone.

        Those do not count who say nothing: scripts that look whether somebody listens.
        """
        while not self._closed and (sessions is None or sessions > 0):
            sock = self._accept()
            if sock is None:
                return
            before = self._spoken
            self.serve_socket(sock)
            sessions = None if sessions is None else sessions - (self._spoken - before)

    def serve_socket(self, sock: socket.socket) -> UnderstudyError | None:
        """Serve one connected client until it is gone; gives the error that ended the session, if one did."""
        self.sessions += 1
        session = Session(sock, self._regions, self._dma, self._intx, self._settings, self.probes)
        self._session = session
        self._emit(events.Connected(0, self.sessions))
        if self._closed:
            session.disconnect()
        error: UnderstudyError | None = None
        try:
            error = session.run()
        finally:
            self._session = None
            self._spoken += session.time > 0
            self._emit(events.Disconnected(session.time, self.sessions, error))
        return error

    def disconnect(self) -> None:
        """Surprise removal: end the session; the next client may come."""
        session = self._session
        if session is not None:
            session.disconnect()

    def close(self) -> None:
        """Stop serving: `serve` returns. The device is left to its owner."""
        self._closed = True
        self._cancel()
        self.disconnect()
        if self._listener is not None:
            self._listener.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> socket.socket | None:
        """The next client; None once the server is closed."""
        if self._listener is None:
            raise SocketError("there is no socket to serve: call listen first")
        return self._listener.accept("client")

    def _signalled(self) -> None:
        self._emit(events.InterruptSignalled(self._time()))

    def _memory_gone(self) -> None:
        self._device.connect(self._dma)

    def _dma_failed(self, error: AccessFault) -> None:
        self._emit(events.DmaFailed(self._time(), error))

    def _time(self) -> int:
        session = self._session
        return session.time if session is not None else 0

    def _somebody_waits(self) -> None:
        self._emit(events.Waits(self._time(), self.sessions))

    def _turned_away(self, why: str) -> None:
        self._emit(events.TurnedAway(self._time(), why))

    def _emit(self, event: Event) -> None:
        if self.probes.active:
            self.probes.emit(event)
