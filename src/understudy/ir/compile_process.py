"""LLVM in a process of its own: whoever waits for code in this one finds neither its lock nor its processor taken.

llvmlite holds one lock around each call, so that a long compilation on another thread would delay every short one here.
The process is there while there is work, and ends with this one. Where none can be started, or it breaks down, the
work is done here.
"""

from __future__ import annotations

import atexit
import os
import struct
import sys
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from understudy.core.errors import ModelBug
from understudy.ir import llvm

if TYPE_CHECKING:
    import subprocess

REQUEST: Final = struct.Struct("<QQ")
"""Tier and bytes of the text that follows."""
ANSWER: Final = struct.Struct("<QQ")
"""Whether it failed, and bytes of the object, or of the reason, that follow."""
NICENESS: Final = 10
"""What the process yields to others."""
_START: Final = "import sys; sys.path[:] = {!r}; from understudy.ir.compile_process import serve; serve()"


class CompileProcess:
    """Compiles modules one after the other elsewhere; callable from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_missing = False
        self._is_over = False

    def compile_ir(self, text: str, tier: int) -> bytes:
        """As `llvm.compile_ir`; `EOFError` when this process ends: LLVM must not be at work here then."""
        with self._lock:
            if not self._is_missing and not self._is_over:
                try:
                    return self._ask(text.encode(), tier)
                except (OSError, EOFError):
                    self._is_missing = True
                    self.close()
        if self._is_over:
            raise EOFError("this process ends")
        return llvm.compile_ir(text, tier)

    def _ask(self, text: bytes, tier: int) -> bytes:
        if self._process is None:
            import subprocess

            command = [sys.executable, "-c", _START.format(_paths())]
            # Not of the terminal's group: Ctrl-C is for the program.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(REQUEST.pack(tier, len(text)) + text)
        stdin.flush()
        failed, size = ANSWER.unpack(_read(stdout, ANSWER.size))
        answer = _read(stdout, size)
        if failed:
            raise ModelBug(answer.decode())
        return answer

    def close(self) -> None:
        """End the process; another one is started when there is need."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def end(self) -> None:
        """This process ends: whoever waits for code gets none."""
        self._is_over = True
        self.close()

    def forget(self) -> None:
        """In a forked child: the process is the parent's."""
        self._lock = threading.Lock()
        process, self._process = self._process, None
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                os.close(pipe.fileno())
            process.returncode = 0  # not this process's to wait for


PROCESS: Final = CompileProcess()
"""The one of this process."""
atexit.register(PROCESS.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PROCESS.forget)


def serve() -> None:
    """Answer requests on the standard streams until there are no more."""
    os.nice(NICENESS)
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while head := requests.read(REQUEST.size):
        tier, size = REQUEST.unpack(head)
        text = requests.read(size).decode()
        try:
            failed, answer = 0, llvm.compile_ir(text, tier)
        except ModelBug as error:
            failed, answer = 1, error.message.encode()
        try:
            answers.write(ANSWER.pack(failed, len(answer)) + answer)
            answers.flush()
        except BrokenPipeError:  # nobody waits any more
            os._exit(0)


def _paths() -> list[str]:
    """Where the process finds the package first, and all else as this one does."""
    return [str(Path(__file__).parents[2]), *sys.path]


def _read(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError("the compiling process ended")
    return data
