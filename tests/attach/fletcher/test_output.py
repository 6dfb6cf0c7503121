"""`softcard serve fletcher` if no process reads its output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from softcard.attach.fletcher.server import Op
from tests.attach.fletcher.rig import Client
from tests.attach.rig import ended

SERVE = "import sys; from softcard.cli.attach.serve import app; app(sys.argv[1:])"


@pytest.mark.parametrize("how", ["closed", "blocked", "none"])
def test_an_output_that_nobody_reads_stops_no_device(tmp_path: Path, how: str) -> None:
    path = tmp_path / "s"
    reader, writer = os.pipe()
    if how == "closed":
        os.close(reader)
    else:
        os.set_blocking(writer, False)
        with suppress(BlockingIOError):
            while True:
                os.write(writer, b"x" * 4096)
        os.set_blocking(writer, True)
    command = [sys.executable, "-c", SERVE, "fletcher", "--no-library", "--trace", "--socket", str(path)]
    if how == "none":
        command = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
    with ended(subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE)) as process:
        os.close(writer)
        assert process.stderr is not None
        deadline = time.monotonic() + 60
        while not path.exists():
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        for _ in range(2):
            with Client(path) as client:
                for value in range(200):
                    assert client.ask(Op.WRITE_MMIO, value, 4)[0] == 0
                    assert client.ask(Op.READ_MMIO, 0, 4)[1] == value
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, b"")
    if how != "closed":
        os.close(reader)


def test_who_waits_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "s"
    command = [sys.executable, "-c", SERVE, "fletcher", "--no-library", "--once", "--socket", str(path)]
    with ended(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) as process:
        assert process.stdout is not None
        assert "listening at" in process.stdout.readline()
        with Client(path, greet=False) as first:
            assert process.stdout.readline() == "host 1 connected\n"
            with Client(path, greet=False):
                assert process.stdout.readline() == "another host waits: host 1 is connected, which has sent nothing\n"
            first.send(Op.HELLO)
        assert "error: the first request is 1 with the magic number 0x0, expected the" in process.stdout.readline()
        lines = iter(process.stdout.readline, "host 1 has disconnected\n")
        assert any("sum" in line for line in lines), "the device's name"
        process.wait(60)
