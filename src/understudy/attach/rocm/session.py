"""One connection of a program: that which opened the driver, or that of one of its threads."""

from __future__ import annotations

import errno
import select
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from understudy.attach.host_session import HostSession, StreamError
from understudy.attach.rocm import messages
from understudy.attach.rocm.hands import Hands
from understudy.core.errors import NoHostMemory
from understudy.core.event import Event
from understudy.device.kfd.device import KfdDevice
from understudy.device.kfd.errors import Refused
from understudy.device.kfd.ioctls import MOST_BYTES

if TYPE_CHECKING:
    from understudy.device.kfd.shared_memory import SharedMemory

MARK_BYTES: Final = 8
_UCRED: Final = struct.Struct("3i")


class Keys(Protocol):
    """Which programs have opened the driver."""

    def add(self, number: int) -> int:
        """A key for the program with this number of the driver's."""

    def find(self, key: int) -> int:
        """The number of the program with this key; 0 where there is none."""

    def drop(self, key: int) -> None:
        """It has gone."""


class Session(HostSession):
    """Serves one connection until the program closes it."""

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
        """Nothing is known of a program yet."""

    def _serve(self, op: int, value: int, address: int, size: int) -> bool:
        if op == messages.OPEN and not size:
            return self._open(address)
        if op == messages.JOIN and not size:
            self._number = self._keys.find(address)
            self._reply(0 if self._number else errno.ENODEV)
            return True
        if op != messages.IOCTL or size > MOST_BYTES:
            raise StreamError(f"request {op} with {size} bytes is none of a {self.LIBRARY}")
        data = bytearray(size)
        self._fill(memoryview(data))
        try:
            answer = self._device.ioctl(self._number, value, bytes(data), address)
        except Refused as error:
            self._reply(error.errno)
        else:
            self._reply(0, data=answer)
        return True

    def _open(self, mark: int) -> bool:
        """The program opens the driver; the connection is the server's from then on, until the program is gone.

        `mark` is an address of the program, where the magic number lies: calls cannot be answered where that cannot be
        read.
        """
        pid, _, _ = _UCRED.unpack(self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
        files: list[int] = []
        try:
            Hands(pid, self._socket).read(mark, MARK_BYTES)
        except Refused as error:
            text = f"the server cannot read this program's memory ({error.message}): it has to be its parent, and "
            self._reply(errno.EPERM, text=text + "process_vm_readv(2) allowed in its container")
            return False

        def client(shared: SharedMemory) -> Hands:
            files.append(shared.descriptor)
            return Hands(pid, self._socket)

        try:
            number, _ = self._device.open(client, pid)
        except NoHostMemory as error:
            self._reply(errno.ENOMEM, text=error.message)
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
