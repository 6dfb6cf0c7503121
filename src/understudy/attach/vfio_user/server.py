"""The server: a socket path, one client after the other, and a device that outlives them."""

from __future__ import annotations

import socket

from understudy.attach.server import SocketServer
from understudy.attach.vfio_user.access import Regions
from understudy.attach.vfio_user.dma import DmaMemory
from understudy.attach.vfio_user.events import Disconnected, DmaFailed, InterruptSignalled
from understudy.attach.vfio_user.intx import Intx
from understudy.attach.vfio_user.negotiation import Settings
from understudy.attach.vfio_user.session import Session
from understudy.core.errors import AccessFault, UnderstudyError
from understudy.core.pci import PciDevice


class Server(SocketServer[Session]):
    """Shows `device` to one vfio-user client at a time.

    `serve` takes the calling thread, which then makes all calls of the device; the device's own thread does DMA and
    drives the line meanwhile. `disconnect`, which is a surprise removal, and `close` may be called from anywhere,
    signal handlers included.
    """

    def __init__(self, device: PciDevice, settings: Settings | None = None) -> None:
        super().__init__("client")
        self._settings = settings or Settings()
        self._device = device
        self._dma = DmaMemory(self._settings, self._dma_failed, self._memory_gone)
        self._intx = Intx(self._signalled)
        self._regions = Regions(device, self._dma, self._intx, self._settings.max_data_xfer_size)
        device.connect(self._dma)
        self._cancel = device.line.observe(self._intx.set_level)
        self._intx.set_level(device.line.level)

    def close(self) -> None:
        """Stop serving: `serve` returns. The device is left to its owner."""
        self._cancel()
        super().close()

    def _begin(self, sock: socket.socket) -> Session:
        return Session(sock, self._regions, self._dma, self._intx, self._settings, self.probes)

    def _end(self, session: Session, error: UnderstudyError | None) -> Disconnected:
        return Disconnected(session.time, self.sessions, error)

    def _signalled(self) -> None:
        self._emit(InterruptSignalled(self._time()))

    def _memory_gone(self) -> None:
        self._device.connect(self._dma)

    def _dma_failed(self, error: AccessFault) -> None:
        self._emit(DmaFailed(self._time(), error))
