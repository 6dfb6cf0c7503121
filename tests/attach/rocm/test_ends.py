"""Ends of `softcard exec` and its program beside a kernel that spins: the exit status, and that nothing is left."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.attach.rocm.rig import TIMEOUT_S, hip_program, needs_compiler, needs_rocm
from tests.device.kfd.rig import eventually

pytestmark = [pytest.mark.oracle, pytest.mark.slow, needs_compiler, needs_rocm]
EXEC = "import sys; from softcard.cli import main; sys.exit(main(['exec', '--agent', 'gfx900', *sys.argv[1:]]))"
CTRL_C = b"\x03"


class Terminal:
    """`softcard exec` with a terminal of its own, whose program has begun to spin in a kernel."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-c", EXEC, *options, "--", hip_program("programs"), "endless"]
        self.shared = set(os.listdir("/dev/shm"))
        self.pid, self._terminal = pty.fork()
        if not self.pid:
            os.execve(sys.executable, command, {**os.environ, "TMPDIR": str(folder)})
        self.said = b""
        while b"begun" not in self.said:
            assert self._hear(), self.said
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text(encoding="ascii").split()
        (self.program,) = map(int, children)

    def _hear(self) -> bool:
        ready, _, _ = select.select([self._terminal], [], [], TIMEOUT_S)
        try:
            data = os.read(self._terminal, 4096) if ready else b""
        except OSError:  # the other side is closed
            data = b""
        self.said += data
        return bool(data)

    def press(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def status(self) -> int:
        """Of `softcard exec`, when all that is said has been heard."""
        while self._hear():
            pass
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def leaves(self) -> tuple[bool, set[str]]:
        """Return True if a process of it lives, and the new files in /dev/shm that this program has left there."""
        try:
            os.killpg(self.pid, 0)
            lives = True
        except ProcessLookupError:
            lives = False
        new = set(os.listdir("/dev/shm")) - self.shared
        return lives, {each for each in new if "hsakmt" not in each and not each.startswith("sem.mp-")}


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="u", dir="/tmp") as made:  # short, as paths of sockets must be
        yield Path(made)


@pytest.mark.parametrize("how", ["ctrl-c", "terminated", "program killed", "time limit"])
def test_ends(how: str) -> None:
    options = ("--check", "races", *(("--time-limit", "1") if how == "time limit" else ()))
    with folder() as place:
        there = Terminal(place, *options)
        assert len(list(place.iterdir())) == 1
        match how:
            case "ctrl-c":
                there.press(CTRL_C)
            case "terminated":
                os.kill(there.pid, signal.SIGTERM)
            case "program killed":
                os.kill(there.program, signal.SIGKILL)
        status = there.status()
        assert not list(place.iterdir())
    number = {
        "ctrl-c": signal.SIGINT, "terminated": signal.SIGTERM, "program killed": signal.SIGKILL,
        "time limit": signal.SIGABRT,
    }[how]  # fmt: skip
    assert status == 128 + number, there.said
    assert there.leaves() == (False, set())
    why = b"did not end within 1 s" if how == "time limit" else b"the device was closed while the kernel ran"
    assert b"on agent gfx900" in there.said
    assert why in there.said
    assert b", kernel endless_kernel" in there.said
    assert b", 1 did not finish; " in b" ".join(there.said.split())  # the line is wrapped between its phrases
    assert there.said.endswith(b"checked in part: 1 kernel did not finish; there were no findings until then\r\n")


def test_the_program_ends_with_its_server() -> None:
    """One that is killed can tell nobody; without a terminal no other signal comes either."""
    command = [sys.executable, "-c", EXEC, "--", hip_program("programs"), "endless"]
    with folder() as place, (place / "said").open("wb") as said:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=said, env={**os.environ, "TMPDIR": str(place)},
            start_new_session=True,
        ) as server:  # fmt: skip
            assert server.stdout is not None
            assert server.stdout.readline() == b"begun\n"
            time.sleep(0.1)
            server.kill()
            assert server.wait(TIMEOUT_S) == -signal.SIGKILL
            assert server.stdout.read() == b"", "the program, which has it open too, has ended"
        assert b"the server has gone, and the GPUs of this program with it" in (place / "said").read_bytes()

        def is_gone() -> bool:
            try:
                os.killpg(server.pid, 0)
            except ProcessLookupError:
                return True
            return False

        eventually(is_gone)
