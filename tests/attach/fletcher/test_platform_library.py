"""The platform library's 11 functions, called as a run-time calls them, with a device at the other end."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from softcard.attach.fletcher import events
from tests.attach.fletcher.rig import Client, Platform, needs_compiler, platform, served
from tests.attach.rig import ended

pytestmark = needs_compiler

NUMBERS = struct.pack("<4q", 1, -3, 3, -7)
OK, ERROR, NO_PLATFORM, OUT_OF_MEMORY = range(4)


@pytest.fixture
def library() -> Iterator[Platform]:
    found = platform()
    yield found
    found.terminate()


def start(library: Platform, address: int, rows: int = 4) -> list[int]:
    """Start Sum; the statuses of the writes."""
    words = (0, rows, address & 0xFFFF_FFFF, address >> 32)
    return [library.write(index, value) for index, value in (*enumerate(words, 4), (0, 1), (0, 0))]


def done(library: Platform) -> bool:
    status, value = library.read(1)
    assert status == OK
    return bool(value & 4)


def test_the_calls_of_the_sum_example(library: Platform) -> None:
    with served() as host:
        assert library.init(host.path) == OK
        status, address, alloced = library.prepare(NUMBERS, 32)
        assert (status, address, alloced) == (OK, 0x1_0000_0000, 1)
        assert start(library, address) == [OK] * 6
        while not done(library):
            pass
        assert library.read(1) == (OK, 5)
        assert [library.read(2), library.read(3)] == [(OK, 0xFFFF_FFFA), (OK, 0xFFFF_FFFF)]
        assert library.free(address) == OK
        assert library.terminate() == OK
    assert [type(event) for event in host.events] == [events.Connected, events.Disconnected]
    assert host.events[-1] == events.Disconnected(14, 1, None, 0)


def test_memory_comes_back_as_it_was_written(library: Platform) -> None:
    with served() as host:
        library.init(host.path)
        status, address = library.malloc(1 << 23)
        data = bytes(range(256)) * (1 << 15)
        assert status == OK
        assert library.to_device(data, address, len(data)) == OK
        assert library.to_host(address, len(data)) == (OK, data)
        assert library.to_host(address + 1000, 3) == (OK, data[1000:1003])
        assert library.to_device(b"xyz", address + 5, 3) == OK
        assert library.to_host(address + 4, 5) == (OK, b"\x04xyz\x08")
        status, cached = library.cache(data, 5000)
        assert (status, library.to_host(cached, 5000)) == (OK, (OK, data[:5000]))
        assert library.to_device(b"", address, 0) == OK
        assert library.to_host(address, 0) == (OK, b"")
        library.terminate()
    assert host.events[-1].freed == 2


def test_large_buffers_come_whole(library: Platform) -> None:
    """They go by a file; what the host does to its own later is not seen."""
    data = bytearray(range(256)) * (3 << 12)
    with served() as host:
        library.init(host.path)
        given = bytes(data)
        _, prepared, alloced = library.prepare(given, len(given))
        _, cached = library.cache(given, len(given))
        for address in (prepared, cached):
            assert library.to_host(address, len(data)) == (OK, given)
        assert library.to_device(b"!", prepared + 7, 1) == OK
        assert library.to_host(prepared, 9) == (OK, b"\0\1\2\3\4\5\6!\x08")
        assert library.to_host(cached, 9)[1] == given[:9]
        assert alloced == 1
        library.terminate()


def test_a_buffer_of_no_bytes(library: Platform) -> None:
    """What a run-time does for the validity of a field without nulls."""
    with served() as host:
        library.init(host.path)
        status, first, alloced = library.prepare(None, 0)
        assert (status, alloced) == (OK, 1)
        status, second = library.cache(None, 0)
        assert status == OK
        assert first != second
        assert library.free(first) == library.free(second) == OK
        library.terminate()


def test_mistakes_are_reported_to_the_host_too(library: Platform, capfd: pytest.CaptureFixture[str]) -> None:
    with served() as host:
        library.init(host.path)
        assert library.to_device(b"abc", 0x55, 3) == ERROR
        assert library.to_host(0x55, 3) == (ERROR, bytes(3))
        assert library.free(0x55) == ERROR
        assert library.malloc(1 << 60)[0] == OUT_OF_MEMORY
        assert library.write(1, 5) == ERROR
        assert library.read(4711)[0] == ERROR
        assert library.read(1) == (OK, 1)
        library.terminate()
    shown = capfd.readouterr().err
    assert shown.count("   = note: reported by the platform library of Softcard\n") == 6
    said = [line for line in shown.splitlines() if line.startswith("error")]
    assert len(said) == 6
    assert "write of 3 bytes at 0x55: no allocation contains this address" in said[0]
    assert "read of 3 bytes at 0x55: no allocation contains this address" in said[1]
    assert "cannot free device address 0x55: no allocation starts there" in said[2]
    assert said[4].startswith("error[fletcher/status-read-only]: ")
    assert len(host.seen(events.Refused)) == 6


def test_a_kernel_that_goes_wrong_is_reported_to_the_host(library: Platform, capfd: pytest.CaptureFixture[str]) -> None:
    with served() as host:
        library.init(host.path)
        statuses = start(library, 0x1234_0000) + [library.read(1)[0] for _ in range(9)]
        assert sorted(statuses) == [OK] * 14 + [ERROR]
        assert library.read(1) == (OK, 2)  # busy for ever, as in hardware
        library.terminate()
    said = capfd.readouterr().err
    assert "ExampleBatch_number_values = 0x12340000: no device memory is allocated at this address" in said
    assert said.startswith("error[fletcher/buffer-address]: ")


def test_what_no_host_may_pass(library: Platform, capfd: pytest.CaptureFixture[str]) -> None:
    with served() as host:
        library.init(host.path)
        assert library.malloc(-1)[0] == ERROR
        assert library.to_device(b"", 0, -5) == ERROR
        assert library.to_host(0, -5)[0] == ERROR
        assert library.prepare(None, 8)[0] == ERROR
        assert library.cache(None, 8)[0] == ERROR
        assert library.library.platformDeviceMalloc(None, 8) == ERROR
        assert library.library.platformPrepareHostBuffer(NUMBERS, None, 8, None) == ERROR
        assert library.read(1) == (OK, 1)
        library.terminate()
    said = capfd.readouterr().err
    assert "platformDeviceMalloc: a size of -1 bytes, expected 0 or more" in said
    assert "platformPrepareHostBuffer: no host address for 8 bytes" in said


def test_the_next_host_finds_a_device_after_power_on(library: Platform) -> None:
    with served() as host:
        for _ in range(2):
            library.init(host.path)
            assert library.read(1) == (OK, 1)
            _, address, _ = library.prepare(NUMBERS, 32)
            start(library, address)
            while not done(library):
                pass
            library.terminate()
    assert [event.freed for event in host.seen(events.Disconnected)] == [1, 1]
    with served(keep=True) as host:
        for expected in (1, 5):
            library.init(host.path)
            assert library.read(1) == (OK, expected)
            _, address, _ = library.prepare(NUMBERS, 32)
            start(library, address)
            while not done(library):
                pass
            library.terminate()


def test_there_is_no_device(library: Platform, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert library.init(tmp_path / "nothing") == NO_PLATFORM
    assert library.init("x" * 500) == NO_PLATFORM
    assert library.read(1)[0] == ERROR
    assert library.write(1, 0) == ERROR
    said = capfd.readouterr().err.splitlines()
    assert "No such file or directory" in said[0]
    assert said[2] == f"   = help: start it with `softcard serve fletcher --socket {tmp_path / 'nothing'}`"
    assert "File name too long" in said[3]
    assert said[6] == "error: there is no device: platformInit was not called, or the server has gone"


def test_the_server_goes_away(library: Platform, capfd: pytest.CaptureFixture[str]) -> None:
    with served() as host:
        library.init(host.path)
        assert library.read(1)[0] == OK
    assert library.read(1)[0] == ERROR
    assert library.read(1)[0] == ERROR
    said = capfd.readouterr().err.splitlines()
    assert said[:3] == [
        "error: the server has gone",
        "   = note: reported by the library of `softcard serve fletcher` in this program",
        "   = help: read the error of `softcard serve fletcher`, start it again, then start this program again",
    ]


def test_a_second_init_begins_anew(library: Platform) -> None:
    with served() as host:
        assert library.init(host.path) == OK
        library.write(5, 77)
        assert library.init(host.path) == OK
        assert library.read(5) == (OK, 0)
        library.terminate()
    assert len(host.seen(events.Connected)) == 2


# ---- whose server, and whose turn ------------------------------------------------------------------------------------


OTHERS_SERVER = """
import os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
os.setuid(int(sys.argv[2]))
server.listen()
print("listening", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_a_server_of_another_user_is_not_used(
    library: Platform, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s"
    command = [sys.executable, "-c", OTHERS_SERVER, str(path), "4711"]
    with ended(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"listening\n"
        assert library.init(path) == NO_PLATFORM
        assert f"the server at {path} is another user's, and is not used" in capfd.readouterr().err
        server.communicate(timeout=60)


@pytest.mark.parametrize("waiting", [0, 4], ids=["next in turn", "behind others"])
def test_a_host_that_waits_is_reported(library: Platform, waiting: int, capfd: pytest.CaptureFixture[str]) -> None:
    with served() as host:
        first = Client(host.path)
        others = [socket.socket(socket.AF_UNIX) for _ in range(waiting)]
        for each in others:
            each.setblocking(False)
            with suppress(BlockingIOError):
                each.connect(str(host.path))
        answers: list[int] = []
        thread = threading.Thread(target=lambda: answers.append(library.init(host.path)))
        thread.start()
        said = ""
        deadline = time.monotonic() + 60
        while "= note" not in said and time.monotonic() < deadline:
            said += capfd.readouterr().err
            time.sleep(0.01)
        assert said == (
            f"note: waiting for the device at {host.path}: another host program has it\n"
            "   = note: reported by the library of `softcard serve fletcher` in this program\n"
        )
        assert not answers
        for each in (first, *others):
            each.close()
        thread.join(60)
        assert answers == [OK]
        library.terminate()


# ---- data that nobody takes ------------------------------------------------------------------------------------------


def test_what_is_too_large_is_not_sent(library: Platform, capfd: pytest.CaptureFixture[str]) -> None:
    """Nobody could: the bytes are not even there. Afterwards the device is still the host's."""
    with served() as host:
        library.init(host.path)
        _, address = library.malloc(100)
        here = b"these alone"
        assert library.prepare(here, 1 << 40)[0] == OUT_OF_MEMORY
        assert library.cache(here, 1 << 40)[0] == OUT_OF_MEMORY
        assert library.to_device(here, address, 1 << 40) == ERROR
        assert library.read(1) == (OK, 1)
        assert library.to_device(here, address, len(here)) == OK
        library.terminate()
    said = capfd.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in said if line.startswith("error")] == [
        "cannot allocate 1099511627776 bytes",
        "cannot allocate 1099511627776 bytes",
        f"write of 1099511627776 bytes at {address:#x}",
    ]
    assert host.events[-1].freed == 1


def test_host_memory_that_cannot_be_read(library: Platform, capfd: pytest.CaptureFixture[str]) -> None:
    nowhere = ctypes.cast(ctypes.c_void_p(64), ctypes.POINTER(ctypes.c_char))
    with served() as host:
        library.init(host.path)
        assert library.prepare(nowhere, 100)[0] == ERROR  # type: ignore[arg-type]  # an address of no bytes
        library.terminate()
    said = capfd.readouterr().err.splitlines()
    assert said[0] == "error: the 100 bytes at 0x40 of this program cannot be read"
