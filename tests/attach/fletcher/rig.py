"""A served device, a client that speaks the protocol, and the platform library loaded into this process."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from softcard.attach.fletcher import DevicePlatform, Server, build_library
from softcard.attach.fletcher.library import SOCKET_VARIABLE
from softcard.attach.fletcher.server import MAGIC, VERSION, Op
from softcard.attach.host_session import REPLY, REQUEST
from softcard.core.event import Event
from softcard.device.fletcher.device import FletcherDevice
from softcard.device.fletcher.kernel import Kernel
from softcard.device.fletcher.kernels import find

ROOT = Path(__file__).resolve().parents[3]
RUNTIME = ROOT / "build" / "pyfletcher" / "bin" / "python"
"""A Python 3.9 with the real run-time library, as tools/pyfletcher.sh makes it."""

needs_compiler = pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler")
needs_runtime = pytest.mark.skipif(not RUNTIME.exists(), reason="no pyfletcher: sh tools/pyfletcher.sh installs it")


class Served:
    """A device at a socket. `events` are the server's, `device_events` the device's."""

    def __init__(self, device: FletcherDevice, path: Path, *, keep: bool = False) -> None:
        self.device = device
        self.path = path
        self.events: list[Event] = []
        self.device_events: list[Event] = []
        self.server = Server(DevicePlatform(device, keep=keep))
        self.server.probes.subscribe(self.events.append)
        device.probes.subscribe(self.device_events.append)
        self.server.listen(path)
        self._thread = threading.Thread(target=self.server.serve)
        self._thread.start()

    def close(self) -> None:
        self.server.close()
        self._thread.join(20)
        assert not self._thread.is_alive()

    def seen(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@contextmanager
def served(kernel: Kernel | str = "sum", *, keep: bool = False, **settings: Any) -> Iterator[Served]:
    """A kernel behind a socket, in a thread of this process."""
    chosen = find(kernel) if isinstance(kernel, str) else kernel
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # short, as paths of sockets must be
        found = Served(FletcherDevice(chosen.map(), chosen, **settings), Path(folder, "s"), keep=keep)
        try:
            yield found
        finally:
            found.close()


class Client:
    """Requests as bytes. Replies are (status, value, text, data)."""

    def __init__(self, path: Path, *, greet: bool = True) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(20)
        self.socket.connect(str(path))
        if greet:
            assert self.ask(Op.HELLO, VERSION, MAGIC)[0] == 0

    def send(self, op: int, value: int = 0, address: int = 0, size: int = 0, data: bytes = b"") -> None:
        self.socket.sendall(REQUEST.pack(op, value, address, size) + data)

    def reply(self) -> tuple[int, int, str, bytes]:
        status, text_size, value, data_size = REPLY.unpack(self.receive(REPLY.size))
        return status, value, self.receive(text_size).decode(), self.receive(data_size)

    def ask(
        self, op: int, value: int = 0, address: int = 0, size: int = 0, data: bytes = b""
    ) -> tuple[int, int, str, bytes]:
        self.send(op, value, address, size, data)
        return self.reply()

    def receive(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = self.socket.recv(size - len(found))
            if not part:
                raise EOFError
            found += part
        return found

    def is_hung_up(self) -> bool:
        return self.socket.recv(1) == b""

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Platform:
    """The 11 functions of the platform library, in this process."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        for name in NAMES:
            getattr(self.library, name).restype = ctypes.c_uint64

    def init(self, socket_path: Path | str) -> int:
        os.environ[SOCKET_VARIABLE] = str(socket_path)
        try:
            return int(self.library.platformInit(None))
        finally:
            del os.environ[SOCKET_VARIABLE]

    def write(self, index: int, value: int) -> int:
        return int(self.library.platformWriteMMIO(ctypes.c_uint64(index), ctypes.c_uint32(value)))

    def read(self, index: int) -> tuple[int, int]:
        value = ctypes.c_uint32(0xAAAAAAAA)
        return int(self.library.platformReadMMIO(ctypes.c_uint64(index), ctypes.byref(value))), value.value

    def malloc(self, size: int) -> tuple[int, int]:
        address = ctypes.c_uint64()
        return int(self.library.platformDeviceMalloc(ctypes.byref(address), ctypes.c_int64(size))), address.value

    def free(self, address: int) -> int:
        return int(self.library.platformDeviceFree(ctypes.c_uint64(address)))

    def to_device(self, data: bytes | None, address: int, size: int) -> int:
        return int(
            self.library.platformCopyHostToDevice(data, ctypes.c_uint64(address), ctypes.c_int64(size)),
        )

    def to_host(self, address: int, size: int) -> tuple[int, bytes]:
        room = ctypes.create_string_buffer(max(size, 1))
        status = self.library.platformCopyDeviceToHost(ctypes.c_uint64(address), room, ctypes.c_int64(size))
        return int(status), room.raw[: max(size, 0)]

    def prepare(self, data: bytes | None, size: int) -> tuple[int, int, int]:
        address, alloced = ctypes.c_uint64(), ctypes.c_int(7)
        status = self.library.platformPrepareHostBuffer(
            data, ctypes.byref(address), ctypes.c_int64(size), ctypes.byref(alloced)
        )
        return int(status), address.value, alloced.value

    def cache(self, data: bytes | None, size: int) -> tuple[int, int]:
        address = ctypes.c_uint64()
        status = self.library.platformCacheHostBuffer(data, ctypes.byref(address), ctypes.c_int64(size))
        return int(status), address.value

    def terminate(self) -> int:
        return int(self.library.platformTerminate(None))


NAMES = (
    "platformGetName",
    "platformInit",
    "platformWriteMMIO",
    "platformReadMMIO",
    "platformDeviceMalloc",
    "platformDeviceFree",
    "platformCopyHostToDevice",
    "platformCopyDeviceToHost",
    "platformPrepareHostBuffer",
    "platformCacheHostBuffer",
    "platformTerminate",
)


def platform() -> Platform:
    """The library, built at the first call of a test run."""
    return Platform(build_library().path)
