"""A server of RefSi devices, the driver library loaded into this process, and host programs in C."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from softcard.attach.refsi import Options, Server, build_library
from softcard.attach.refsi.library import SOCKET_VARIABLE
from softcard.core.event import Event
from softcard.device.refsi.toolkit.builder import CommandBuffer

HERE = Path(__file__).parent
VECTORS = HERE.parents[1] / "vectors" / "refsi"
COMPILERS = ("cc", "gcc", "clang")
SUCCESS, FAILURE, INVALID_DEVICE, DEVICE_CLOSED, NOT_SUPPORTED = range(5)
M, G = 1, 2
DRAM, TCDM = 0x4000_0000, 0x1000_0000
EXTERNAL = 1 << 24
BUFFER, CODE = 0x4F00_0000, 0x4F10_0000
FOREVER = 0x0000_006F
"""The instruction `j .`."""

needs_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C compiler")


def compiled(name: str, folder: Path) -> str:
    """A host program from a C file of this folder."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)))
    command = [compiler, "-std=gnu11", "-O1", "-Wall", "-Werror", str(HERE / f"{name}.c"), "-o", str(folder / name)]
    subprocess.run([*command, *build_library().flags.split(), "-lpthread"], check=True)
    return str(folder / name)


class Served:
    """A server in a thread; what it says is in `events`."""

    def __init__(self, path: Path, options: Options) -> None:
        self.path = path
        self.events: list[Event] = []
        self.server = Server(options)
        self.server.probes.subscribe(self.events.append)
        self.server.listen(path)
        self._thread = threading.Thread(target=self.server.serve)
        self._thread.start()

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, **build_library().environment(self.path)}

    def seen(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def close(self) -> None:
        self.server.close()
        self._thread.join(20)
        assert not self._thread.is_alive()


@contextmanager
def served(*, shared_memory: bool = True, **settings: Any) -> Iterator[Served]:
    """RefSi devices behind a socket, in a thread of this process."""
    options = Options(tuple(({"profile": "refsidrv"} | settings).items()), shared_memory)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # short, as paths of sockets must be
        found = Served(Path(folder, "s"), options)
        try:
            yield found
        finally:
            found.close()


class Info(ctypes.Structure):
    _fields_ = [
        ("family", ctypes.c_int),
        ("num_cores", ctypes.c_uint),
        ("num_harts_per_core", ctypes.c_uint),
        ("num_memory_map_entries", ctypes.c_uint),
        ("core_isa", ctypes.c_char_p),
        ("core_vlen", ctypes.c_uint),
        ("core_elen", ctypes.c_uint),
    ]


class Entry(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("start", ctypes.c_uint64), ("size", ctypes.c_size_t)]


@cache
def functions() -> ctypes.CDLL:
    """The library, with the types of its functions."""
    found = ctypes.CDLL(str(build_library().path))
    handle, address, size, word = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_uint32
    for name, result, *arguments in (
        ("refsiInitialize", ctypes.c_int),
        ("refsiTerminate", ctypes.c_int),
        ("refsiOpenDevice", handle, ctypes.c_int),
        ("refsiShutdownDevice", ctypes.c_int, handle),
        ("refsiQueryDeviceInfo", ctypes.c_int, handle, handle),
        ("refsiQueryDeviceMemoryMap", ctypes.c_int, handle, size, handle),
        ("refsiAllocDeviceMemory", address, handle, size, size, ctypes.c_int),
        ("refsiFreeDeviceMemory", ctypes.c_int, handle, address),
        ("refsiGetMappedAddress", handle, handle, address, size),
        ("refsiFlushDeviceMemory", ctypes.c_int, handle, address, size),
        ("refsiInvalidateDeviceMemory", ctypes.c_int, handle, address, size),
        ("refsiReadDeviceMemory", ctypes.c_int, handle, handle, address, size, word),
        ("refsiWriteDeviceMemory", ctypes.c_int, handle, address, handle, size, word),
        ("refsiExecuteCommandBuffer", ctypes.c_int, handle, address, size),
        ("refsiWaitForDeviceIdle", None, handle),
        ("refsiExecuteKernel", ctypes.c_int, handle, address, word),
        ("refsiDecodeCMPCommand", ctypes.c_int, address, handle, handle, handle),
        ("refsiEncodeCMPCommand", address, ctypes.c_int, word, word),
    ):
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    return found


class Driver:
    """The driver's calls on one handle, in this process."""

    def __init__(self, path: Path, family: int = M) -> None:
        self.lib = functions()
        os.environ[SOCKET_VARIABLE] = str(path)
        try:
            self.handle = self.lib.refsiOpenDevice(family)
        finally:
            del os.environ[SOCKET_VARIABLE]

    def read(self, address: int, size: int, unit: int = EXTERNAL) -> tuple[int, bytes]:
        room = ctypes.create_string_buffer(b"\xee" * size, max(size, 1))
        return self.lib.refsiReadDeviceMemory(self.handle, room, address, size, unit), room.raw[:size]

    def write(self, address: int, data: bytes, unit: int = EXTERNAL) -> int:
        return self.lib.refsiWriteDeviceMemory(self.handle, address, data, len(data), unit)

    def allocate(self, size: int, alignment: int = 8, kind: int = 1) -> int:
        return self.lib.refsiAllocDeviceMemory(self.handle, size, alignment, kind)

    def pointer(self, address: int, size: int) -> int | None:
        return self.lib.refsiGetMappedAddress(self.handle, address, size)

    def submit(self, buffer: CommandBuffer, address: int = BUFFER) -> int:
        data = buffer.to_bytes()
        assert self.write(address, data) == SUCCESS
        return self.lib.refsiExecuteCommandBuffer(self.handle, address, len(data))

    def wait(self) -> None:
        self.lib.refsiWaitForDeviceIdle(self.handle)

    def run(self, buffer: CommandBuffer) -> None:
        assert self.submit(buffer) == SUCCESS
        self.wait()

    def shut_down(self) -> int:
        return self.lib.refsiShutdownDevice(self.handle)


@contextmanager
def opened(family: int = M, **options: Any) -> Iterator[Driver]:
    """A driver with its own server."""
    with served(**options) as server:
        driver = Driver(server.path, family)
        try:
            yield driver
        finally:
            driver.lib.refsiTerminate()


def endless(profile: str = "refsidrv") -> CommandBuffer:
    """A buffer that never ends, for code at CODE."""
    buffer = CommandBuffer(profile).kernel(CODE, stack_top=BUFFER, return_address=0xDEAD_0000)
    return buffer.run_instances(1).finish()
