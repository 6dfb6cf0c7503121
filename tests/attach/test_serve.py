"""`understudy serve` in a process of its own, as users start it."""

import signal
import struct
import subprocess
import sys

import pytest

from understudy.attach.vfio_user import Client

SERVE = "import sys; from understudy.cli.serve import app; app(sys.argv[1:])"
INTR_ENABLE, ENABLE, CONFIGS, FREE = 0x04, 0x08, 0x0C, 0x8C


@pytest.fixture
def serve(tmp_path):
    """Start the command for sockets of these names; gives the process and the sockets' paths."""
    started = []

    def start(*names, options=()):
        paths = [tmp_path / name for name in names]
        arguments = [part for path in paths for part in ("--vfio-user", str(path))]
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE, "acceldev", *arguments, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        for path in paths:
            assert process.stdout.readline() == f"{path.name}: listening at {path}\n"
        return process, paths

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_client_is_served_and_told_of(serve):
    process, (path,) = serve("a.sock", options=("--once",))
    with Client.connect(path) as client:
        assert client.read(7, 0, 4) == bytes.fromhex("66061900")
        memory = client.new_memory(0, 1 << 20)
        client.enable()
        client.enable_interrupt()
        for offset, value in ((INTR_ENABLE, 0x3F), (CONFIGS, 0), (CONFIGS + 4, 0), (ENABLE, 1)):
            client.write_u32(offset, value)
        memory.view[0x10000:0x10004] = struct.pack("<I", 0x20000 >> 8 | 1)
        memory.view[0x20000:0x20004] = struct.pack("<I", 9)
        for index, word in enumerate((1, 0x10000, 0, 0, 20)):
            client.write_u32(FREE + 4 * index, word)
        client.wait_interrupt()
        client.read(0, 0x40, 2)
        client.channel.send(1, 99, 0x10, 0, b"", ())
        client.read_u32(FREE)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "a.sock: client 1 connected\n" in output
    assert "a.sock: context 0 errored: header 0x00000009: there is no user command of type 9" in output
    assert "a.sock: lint: odd-access: " in output
    assert "a.sock: refused: there is no command 99, at byte 0x2 (of the header), at message " in output
    assert "a.sock: client 1 is gone\n" in output
    assert not path.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it(serve, number):
    process, paths = serve("a.sock", "b.sock", options=("--quiet",))
    with Client.connect(paths[1]) as client:
        assert client.read_u32(FREE) == 255
        process.send_signal(number)
        output, _ = process.communicate(timeout=30)
    assert (process.returncode, output) == (0, "")
    assert not any(path.exists() for path in paths)


def test_two_devices_are_two_devices(serve):
    _, paths = serve("a.sock", "b.sock")
    with Client.connect(paths[0]) as one, Client.connect(paths[1]) as two:
        one.write_u32(0xA0, 5)
        assert two.read_u32(0xA0) == 0
        assert one.read_u32(0xA0) == 5


def test_the_same_socket_twice(tmp_path):
    path = str(tmp_path / "a.sock")
    done = subprocess.run(
        [sys.executable, "-c", SERVE, "acceldev", "--vfio-user", path, "--vfio-user", path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "--vfio-user names one twice" in done.stderr
