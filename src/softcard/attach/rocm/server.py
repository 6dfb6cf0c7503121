"""The server of ROCm programs, and the sysfs files that the emulated driver offers.

One socket serves any number of programs, each with one connection for each of its threads.
"""

from __future__ import annotations

import errno
import os
import secrets
import select
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, Self

from softcard.attach.host_session import REPLY, REQUEST, HostSession, StreamError
from softcard.attach.rocm import messages
from softcard.attach.rocm.messages import QUIET, SHARE, SHARED
from softcard.attach.server import Connected, TurnedAway
from softcard.attach.sockets import Listener, SocketError
from softcard.core.diagnostics import Diagnostic
from softcard.core.errors import NoHostMemory, SoftcardError
from softcard.core.event import Event, Probes
from softcard.core.findings import Level
from softcard.device.kfd.client import ProcessMemory
from softcard.device.kfd.device import KfdDevice
from softcard.device.kfd.ioctls import MOST_BYTES, Refused

if TYPE_CHECKING:
    from softcard.device.kfd.host_races import PinnedOrder
    from softcard.device.kfd.shared_memory import SharedMemory


# ---- connection ------------------------------------------------------------------------------------------------------
# One connection of a program: the connection that opened the driver, or that of one of its threads.


# ---- memory of the client and requests to its shim -------------------------------------------------------------------
# Access to a client program of the driver: its memory through process_vm_readv(2), and requests to its shim.


REPLY_TIMEOUT_S: Final = 10.0
"""The time in seconds within which a shim has to reply; the server sends no more requests to a slower shim."""


class ShimClient(ProcessMemory):
    """A program whose shim receives the server's requests through `sock`; see `device.kfd.client.Client`."""

    def __init__(self, pid: int, sock: socket.socket) -> None:
        super().__init__(pid)
        self._socket = sock
        self._lock = threading.Lock()
        self._is_lost = False

    def share(self, address: int, size: int, offset: int, protection: int, *, is_quiet: bool) -> bool:
        """Ask the program's shim to replace pages by shared memory; return True if it did. See `Client.share`."""
        how = protection | (QUIET if is_quiet else 0)
        with self._lock:
            if self._is_lost:
                return False
            try:
                self._socket.settimeout(REPLY_TIMEOUT_S)
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


# ---- connection ------------------------------------------------------------------------------------------------------


MARK_BYTES: Final = 8
_HOST_ORDER: Final[dict[int, Callable[[PinnedOrder, int, int, int], bool | None]]] = {
    messages.PINNED: lambda order, value, address, size: order.add(address, size),
    messages.UNPINNED: lambda order, value, address, size: order.remove(address),
    messages.SUBMITTED: lambda order, value, address, size: order.submitted(),
    messages.HOST_FUNCTION: lambda order, value, address, size: order.accept(),
    messages.TOUCHED: lambda order, value, address, size: order.touched(address, is_store=bool(value)),
    messages.UNWATCHED: lambda order, value, address, size: order.refused(_why_unwatched(value)),
}
"""The handlers of requests about accesses by the host; they take the request's value, address and size."""
_UCRED: Final = struct.Struct("3i")


def _why_unwatched(number: int) -> str:
    """Return the reason why the shim cannot watch memory accesses of the program's host code.

    `number` is the errno with which watching failed. The text names a remedy if there is one."""
    if number == errno.ENOSPC:
        return "the program has more allocations at the same time than the shim can watch"
    why = f"userfaultfd(2) failed ({os.strerror(number)})"
    if number == errno.EPERM:
        return f"{why}: set vm.unprivileged_userfaultfd to 1 with sysctl, or run as root"
    return f"{why}: watching accesses requires Linux 5.18 or later"


class Keys(Protocol):
    """A table of the programs that have opened the driver."""

    def add(self, number: int) -> int:
        """Add the program to which the driver gave `number`; return its key, by which `find` finds it."""

    def find(self, key: int) -> int:
        """Return the number of the program with this key; 0 if the key is unknown."""

    def drop(self, key: int) -> None:
        """Forget the key of a program that has ended."""


class Session(HostSession):
    """One connection of a ROCm program: it serves the program's requests until the program closes the connection."""

    MAGIC: ClassVar[int] = messages.MAGIC
    VERSION: ClassVar[int] = messages.VERSION
    LIBRARY: ClassVar[str] = "ROCm shim"
    OTHER_VERSION: ClassVar[int] = messages.OTHER_VERSION

    def __init__(self, sock: socket.socket, device: KfdDevice, keys: Keys, emit: Callable[[Event], None]) -> None:
        super().__init__(sock, emit)
        self._device = device
        self._keys = keys
        self._number = 0

    def _begin(self) -> None:
        """Do nothing: the driver is opened by the request OPEN."""

    def _serve(self, op: int, value: int, address: int, size: int) -> bool:
        if op == messages.OPEN and not size:
            return self._open(address)
        if op == messages.JOIN and not size:
            self._number = self._keys.find(address)
            self._reply(0 if self._number else errno.ENODEV)
            return True
        if op == messages.REFUSED and not size:
            self._device.launch_refused(self._number, value)
            self._reply(0)
            return True
        if op in _HOST_ORDER:
            order = self._device.host_order(self._number)
            answer = None if order is None else _HOST_ORDER[op](order, value, address, size)
            self._reply(0, int(bool(answer)))
            return True
        if op != messages.IOCTL or size > MOST_BYTES:
            text = f"the {self.LIBRARY} sent request {op} with {size} bytes"
            if op == messages.IOCTL:
                raise StreamError(f"{text}, expected at most {MOST_BYTES} bytes for an ioctl")
            raise StreamError(f"{text}, expected {messages.IOCTL} (ioctl), or another known request without data")
        data = bytearray(size)
        self._fill(memoryview(data))
        try:
            result = self._device.ioctl(self._number, value, bytes(data), address)
        except Refused as error:
            self._reply(error.errno)
        else:
            self._reply(0, data=result)
        return True

    def _open(self, mark: int) -> bool:
        """Open the emulated driver for the program, and keep the connection open until the program closes it.

        Meanwhile the server sends requests to the program on this connection. `mark` is the address, in the program,
        of a magic number. Opening fails if the server cannot read that number: without access to the program's
        memory, it could not carry out driver calls."""
        pid, _, _ = _UCRED.unpack(self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
        files: list[int] = []
        try:
            ShimClient(pid, self._socket).read(mark, MARK_BYTES)
        except Refused as error:
            text = f"the server cannot read this program's memory ({error.message})"
            advice = "start the program from the server, and allow process_vm_readv(2) in their container"
            self._reply(errno.EPERM, found=Diagnostic(Level.ERROR, "", text, suggestion=advice))
            return False

        def client(shared: SharedMemory) -> ShimClient:
            files.append(shared.descriptor)
            return ShimClient(pid, self._socket)

        try:
            number, _ = self._device.open(client, pid)
        except NoHostMemory as error:
            self._reply(errno.ENOMEM, found=error)
            return False
        key = self._keys.add(number)
        try:
            self._reply(0, key)
            socket.send_fds(self._socket, [b"\0"], files)
            gone = select.poll()
            gone.register(self._socket, select.POLLRDHUP)
            gone.poll()
        finally:
            self._keys.drop(key)
            self._device.close_process(number)
        return False


# ---- server ----------------------------------------------------------------------------------------------------------


MOST_WAITING: Final = 1024
"""The maximum number of connections waiting to be accepted; a program can have many threads."""
LSMOD: Final = '#!/bin/sh\ncat "$SOFTCARD_ROCM_ROOT/proc/modules"\n'
"""The text of an ``lsmod`` script that lists the emulated driver, for machines without such a tool."""


class Server:
    """A server through which many programs at a time use the agents of a `KfdDevice`; the owner closes the device.

    `serve` blocks the calling thread; each connection has a thread of its own. `close` may be called from any thread.
    """

    def __init__(self, device: KfdDevice) -> None:
        self.probes = Probes()
        self.sessions = 0
        """The number of connections so far."""
        self._device = device
        self._lock = threading.Lock()
        self._open: dict[Session, threading.Thread] = {}
        self._keys: dict[int, int] = {}
        self._listener: Listener | None = None
        self._closed = False

    # ---- keys ----------------------------------------------------------------------------------------------------

    def add(self, number: int) -> int:
        """Add program `number` under a new random key and return the key; see `Keys`."""
        key = secrets.randbits(63) | 1
        self._keys[key] = number
        return key

    def find(self, key: int) -> int:
        """Return the number of the program with this key; see `Keys`."""
        return self._keys.get(key, 0)

    def drop(self, key: int) -> None:
        """Forget a key; see `Keys`."""
        self._keys.pop(key, None)

    # ---- serving -------------------------------------------------------------------------------------------------

    def write_files(self, root: Path) -> None:
        """Write the emulated driver's sysfs files into folder `root`.

        Programs find the folder through the environment variable `ROOT_VARIABLE`.
        """
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
        """Create the socket; programs can connect from now on."""
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
            target=self._serve, args=(session, sock, number), name=f"softcard-rocm-{number}", daemon=True
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
        if isinstance(error, SoftcardError):
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
