"""`softcard serve` in a process of its own, as users start it."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, suppress

import pytest

from softcard.attach.vfio_user import Client, Disconnected
from tests.attach.rig import ended

SERVE = "import sys; from softcard.cli.attach.serve import app; app(sys.argv[1:])"
UNHEARD = """
import signal, threading, time
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
"""
"""The main thread does not wake for a signal, as for one that comes just before it begins to wait."""
INTR_ENABLE, ENABLE, CONFIGS, FREE = 0x04, 0x08, 0x0C, 0x8C


@pytest.fixture
def serve(tmp_path):
    """Start the command for sockets of these names; gives the process and the sockets' paths."""
    started = ExitStack()

    def start(*names, options=()):
        paths = [tmp_path / name for name in names]
        arguments = [part for path in paths for part in ("--vfio-user", str(path))]
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE, "acceldev", *arguments, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.enter_context(ended(process))
        for path in paths:
            assert process.stdout.readline() == f"{path.name}: listening at {path}\n"
        return process, paths

    with started:
        yield start


def test_a_client_is_served_and_reported(serve):
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
    assert "error[acceldev/user-commands]: header 0x00000009: unknown user command type 9\n" in output
    assert "\n  --> a.sock: context 0" in output
    assert "warning[register-access]: " in output
    assert "error[vfio-user/command]: unknown command 99\n  --> a.sock: byte 0x2 (of the header)\n" in output
    assert "a.sock: client 1 has disconnected\n" in output
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


@pytest.mark.parametrize("command", ["acceldev --vfio-user", "fletcher --no-library --socket"])
@pytest.mark.parametrize("when", ["none has come", "one is connected"])
def test_a_signal_that_comes_just_before_it_waits_ends_it(tmp_path, command, when):
    path = tmp_path / "s"
    arguments = [sys.executable, "-c", UNHEARD + SERVE, *command.split(), str(path)]
    with ended(subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)) as process:
        assert "listening at" in process.stdout.readline()
        with socket.socket(socket.AF_UNIX) as client:
            if when == "one is connected":
                client.connect(str(path))
                assert " 1 connected\n" in process.stdout.readline()
            time.sleep(0.1)  # likely it waits by then; without that this tests less
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in output) == (0, False)
    assert not path.exists()


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
    assert "--vfio-user names the same socket twice" in done.stderr


def driver(client):
    """A driver that has started the device; gives its memory and how it submits."""
    memory = client.new_memory(0, 1 << 20)
    client.enable()
    client.enable_interrupt()
    for offset, value in ((INTR_ENABLE, 0x3F), (CONFIGS, 0), (CONFIGS + 4, 0), (ENABLE, 1)):
        client.write_u32(offset, value)

    def submit(*words):
        for index, word in enumerate((*words, *[0] * (5 - len(words)))):
            client.write_u32(FREE + 4 * index, word)

    return memory, submit


def acknowledge(client):
    active = 0
    while not active:
        client.wait_interrupt()
        active = client.read_u32(0)
        client.write_u32(0, active)
        client.unmask()
    return active


@pytest.mark.parametrize("how", ["closed", "blocked"])
def test_an_output_that_nobody_reads_stops_no_device(tmp_path, how):
    path = tmp_path / "a.sock"
    reader, writer = os.pipe()
    if how == "blocked":
        os.set_blocking(writer, False)
        with suppress(BlockingIOError):
            while True:
                os.write(writer, b"x" * 4096)
        os.set_blocking(writer, True)
    else:
        os.close(reader)
    command = [sys.executable, "-c", SERVE, "acceldev", "--vfio-user", str(path)]
    with ended(subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE)) as process:
        os.close(writer)
        wait_for(path, process)
        for _ in range(2):
            with Client.connect(path, timeout_s=30) as client:
                memory, submit = driver(client)
                for _ in range(20):
                    submit(1, 0x40_0000, 0, 0, 20)  # a page table where no memory is
                    assert acknowledge(client) == 1 << 3
                    memory.view[132:133] = b"\0"  # the context is well again
                    client.read(0, 0x41, 1)
                    client.write_u32(0x0, 0)
                assert client.read_u32(FREE) == 255
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, b"")
    if how == "blocked":
        os.close(reader)


def test_truncated_memory_ends_the_server_with_a_message(serve):
    process, (path,) = serve("a.sock", options=("--shared-memory", "any"))
    with Client.connect(path) as client:
        memory, submit = driver(client)
        os.ftruncate(memory.fd, 0)
        with suppress(Disconnected):
            for _ in range(1000):
                submit(1, 0x10000, 0, 0, 20)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGBUS
    assert "Fatal Python error: Bus error" in output


def test_help_says_what_any_memory_may_do():
    done = subprocess.run(
        [sys.executable, "-c", SERVE, "acceldev", "--help"], capture_output=True, text=True, timeout=60, check=True
    )
    assert "SIGBUS" in done.stdout


def wait_for(path, process):
    deadline = time.monotonic() + 60
    while not path.exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_each_failure_is_one_finding_and_all_are_counted(serve):
    process, (path,) = serve("a.sock", options=("--once",))
    with Client.connect(path) as client:
        memory, submit = driver(client)
        for _ in range(8):
            submit(1, 0x40_0000, 0, 0, 20)  # a page table where no memory is
            assert acknowledge(client) == 1 << 3
            memory.view[132:133] = b"\0"  # the context is well again
        memory.view[0x10000:0x10004] = struct.pack("<I", 0x20000 >> 8 | 1)
        memory.view[0x20000:0x20028] = struct.pack("<10I", 1, 0, 0, 0, 0, 1, 0, 0, 0, 0)
        free = client.read_u32(FREE)
        submit(1, 0x10000, 0, 0, 40)
        while memory.view[128] < 2 or client.read_u32(FREE) != free:  # the second fence is to come first
            time.sleep(0.01)
        assert acknowledge(client) == 1 << 5
        for _ in range(100):
            client.channel.send(1, 99, 0x10, 0, b"", ())
        client.write_u32(0xA4, 9)
        submit(3, 9)
        client.wait_interrupt()
    output, _ = process.communicate(timeout=60)
    lines = [line.removeprefix("a.sock: ") for line in output.splitlines()]
    failed = [number for number, line in enumerate(lines) if "nothing is mapped" in line]
    assert len(failed) == 5
    assert all(lines[number].startswith("error[acceldev/table-address]: ") for number in failed)
    assert all(lines[number + 1].startswith("  --> a.sock: context 0") for number in failed)
    assert "   = note: further ones are not shown" in lines[failed[-1] : failed[-1] + 4]
    assert len([line for line in lines if line.startswith("error[vfio-user/command]: ")]) == 5
    assert [line for line in lines if line.startswith("warning[") and "interrupt-un" not in line] == []
    assert "warning[interrupt-unacknowledged]: FENCE_WAIT has been active since command" in output
    assert output.count("[interrupt-unacknowledged]: ") == 1
    assert "client 1 has disconnected" in lines
    first, second = (line for line in lines if line.startswith("summary: "))
    assert first == (
        "summary: 10 commands, at most 1 in the queue; 1 FENCEs, 2 user FENCEs; interrupts raised: 8 x MEM_ERROR, "
        "1 x USER_FENCE_WAIT, 1 x FENCE_WAIT; cleared: 8 x MEM_ERROR, 1 x USER_FENCE_WAIT"
    )
    for count in (
        "8 x error acceldev/table-address",
        "100 x refused vfio-user/command",
        "1 x lint interrupt-unacknowledged",
    ):
        assert count in second
    assert "1 x lint interrupt-coalesced (USER_FENCE_WAIT)" in second


def test_what_ends_a_session_is_one_finding(serve):
    process, (path,) = serve("a.sock", options=("--once",))
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(path))
        sock.send(struct.pack("<HHIII", 1, 4, 16, 0, 0))
        while sock.recv(100):
            pass
    output, _ = process.communicate(timeout=60)
    first, finding, *rest = output.splitlines()
    assert first == "a.sock: client 1 connected"
    assert finding == (
        "error[vfio-user/version-first]: DEVICE_GET_INFO came before the version negotiation: send VERSION first"
    )
    assert rest[0] == "  --> a.sock"
    assert "at message 1 (DEVICE_GET_INFO, id 0x1)" in rest[1]
    assert next(line for line in rest if line.startswith("a.sock: ")) == "a.sock: client 1 has disconnected"
    assert output.count("DEVICE_GET_INFO came before") == 1


def test_who_waits_and_what_coalesces_is_reported(serve):
    process, (path,) = serve("a.sock", options=("--once",))
    with Client.connect(path) as client:
        _, submit = driver(client)
        other = socket.socket(socket.AF_UNIX)
        other.connect(str(path))
        for value in (1, 2):
            client.write_u32(0xA4, value)
            submit(3, value)
            while client.read_u32(0xA0) != value:
                pass
    other.close()
    output, _ = process.communicate(timeout=60)
    assert "a.sock: another client waits: client 1 is connected\n" in output
    assert output.count("warning[interrupt-coalesced]: FENCE_WAIT occurred again while active") == 1


def test_findings_are_one_document_in_another_format(serve):
    """Messages about other events go to standard error."""
    process, (path,) = serve("a.sock", options=("--once", "--format", "json", "--quiet"))
    with Client.connect(path) as client:
        client.read(0, 0x40, 2)
        for _ in range(7):
            client.channel.send(1, 99, 0x10, 0, b"", ())
        client.read_u32(FREE)
    output, _ = process.communicate(timeout=60)
    found = json.loads(output)
    assert Counter(each["check"] for each in found) == {"register-access": 1, "vfio-user/command": 7}
    assert {each["file"] for each in found} == {"a.sock"}
