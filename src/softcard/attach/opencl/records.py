"""Diagnostics of the OpenCL platform's servers, which they send to the command that has started the host program.

`softcard exec` starts programs, and each program starts a server of its own. A server connects to the socket that the
variable `RECORDS_VARIABLE` names, and sends its diagnostics there. The connection ends when the server ends.
"""

from __future__ import annotations

import pickle
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from softcard.attach.opencl.variables import RECORDS_VARIABLE
from softcard.core.diagnostics import Diagnostic

_SIZE_BYTES: Final = 8
PATIENCE_SECONDS: Final = 60.0
"""The maximum time for which a server may run after its program has ended."""


class Sender:
    """The server's side of the connection. It sends diagnostics only if `RECORDS_VARIABLE` is set."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        if path := environment.get(RECORDS_VARIABLE):
            self._socket = socket.socket(socket.AF_UNIX)
            with suppress(OSError):  # the command has ended, and its program still runs
                self._socket.connect(path)
            self._send(b"")

    def send(self, found: Diagnostic) -> None:
        """Send a diagnostic without its registers."""
        if self._socket is not None:
            self._send(pickle.dumps(replace(found, registers=None)))

    def close(self) -> None:
        """End the connection, so that the command does not wait for this server any more."""
        if self._socket is not None:
            self._socket.close()

    def _send(self, data: bytes) -> None:
        """Send the length of `data`, and `data`; the first message is empty."""
        assert self._socket is not None
        with self._lock, suppress(OSError):
            self._socket.sendall(len(data).to_bytes(_SIZE_BYTES, "little") + data)


class Receiver:
    """The command's side of the connection: a socket at `path`, from which threads read.

    `on_diagnostic` is called with each diagnostic.

    Only processes of this user can connect, since the path is in a private folder. They run the same program as this
    process, so their data are trusted.
    """

    def __init__(self, path: Path, on_diagnostic: Callable[[Diagnostic], None]) -> None:
        self._path = str(path)
        self.count = 0
        """The number of servers that have connected."""
        self._on_diagnostic = on_diagnostic
        self._readers: list[threading.Thread] = []
        self._is_closing = False
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self._path)
        self._socket.listen(64)
        self._accepting = threading.Thread(target=self._accept, name="records", daemon=True)
        self._accepting.start()

    def close(self) -> bool:
        """Wait until all servers have ended, and stop. Return False if one still runs after `PATIENCE_SECONDS`."""
        self._is_closing = True
        with socket.socket(socket.AF_UNIX) as waker:
            waker.connect(self._path)
            self._accepting.join()
        self._socket.close()
        for each in self._readers:
            each.join(PATIENCE_SECONDS)
        return not any(each.is_alive() for each in self._readers)

    def _accept(self) -> None:
        """Start a thread for each connection; after the one of `close`, only for those that are waiting already."""
        while True:
            try:
                connection, _ = self._socket.accept()
            except BlockingIOError:
                return
            if self._is_closing:
                self._socket.setblocking(False)
            connection.setblocking(True)
            reader = threading.Thread(target=self._read, args=(connection,), name="records", daemon=True)
            self._readers.append(reader)
            reader.start()

    def _read(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as file:
            while len(size := file.read(_SIZE_BYTES)) == _SIZE_BYTES:
                if data := file.read(int.from_bytes(size, "little")):
                    self._on_diagnostic(pickle.loads(data))
                else:
                    self.count += 1
