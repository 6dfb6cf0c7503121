"""A program as the driver sees it: its memory through the kernel, and what its shim does when asked."""

from __future__ import annotations

import socket
import threading
from typing import Final

from understudy.attach.host_messages import REPLY, REQUEST
from understudy.attach.rocm.messages import QUIET, SHARE, SHARED
from understudy.device.kfd.client import ProcessMemory

PATIENCE_S: Final = 10.0
"""How long a shim may take for what it is asked; one that takes longer is asked no more."""


class Hands(ProcessMemory):
    """The program at the other end of `sock`, where its shim waits to be asked; see `device.kfd.client.Client`."""

    def __init__(self, pid: int, sock: socket.socket) -> None:
        super().__init__(pid)
        self._socket = sock
        self._lock = threading.Lock()
        self._is_lost = False

    def share(self, address: int, size: int, offset: int, protection: int, *, is_quiet: bool) -> bool:
        """See `Client`."""
        how = protection | (QUIET if is_quiet else 0)
        with self._lock:
            if self._is_lost:
                return False
            try:
                self._socket.settimeout(PATIENCE_S)
                self._socket.sendall(REQUEST.pack(SHARE, how, address, size) + SHARED.pack(offset))
                answer = b""
                while len(answer) < REPLY.size:
                    part = self._socket.recv(REPLY.size - len(answer))
                    if not part:
                        raise ConnectionResetError
                    answer += part
            except OSError:
                self._is_lost = True
                return False
        status: int = REPLY.unpack(answer)[0]
        return status == 0
