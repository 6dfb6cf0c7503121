"""LLVM in a separate process (the compile process), so that compilations do not block threads of this process.

llvmlite holds one lock around each call. So a long compilation on another thread would delay every short one in this
process, and would take processor time from its threads. The compile process runs while there are compilations to do,
and ends with this process at the latest. If it cannot be started, or crashes, this process compiles.
"""

from __future__ import annotations

import atexit
import os
import struct
import sys
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from softcard.core.errors import ModelBug
from softcard.ir import llvm

if TYPE_CHECKING:
    import subprocess

REQUEST: Final = struct.Struct("<QQ")
"""The header of a request: the tier and the length of the text that follows."""
ANSWER: Final = struct.Struct("<QQ")
"""The header of a response: 1 if the compilation failed, and the length of the object or error message that follows."""
NICENESS: Final = 10
"""The increase of the niceness (Unix priority) of the compile process."""
_START: Final = "import sys; sys.path[:] = {!r}; from softcard.ir.compile_process import serve; serve()"


class ProcessEnds(EOFError):
    """The error of a compilation that is requested while this process is ending, when LLVM must not start."""


class CompileProcess:
    """A compiler that runs in another process, one module after another. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_missing = False
        self._is_over = False

    def compile_ir(self, text: str, tier: int) -> bytes:
        """Return the object that `llvm.compile_ir` would return, compiled in the compile process.

        Raise `ProcessEnds` while this process is ending, since LLVM must not be running then.
        """
        with self._lock:
            if not self._is_missing and not self._is_over:
                try:
                    made = self._request(text.encode(), tier)
                    llvm.STATISTICS.add(text)
                    return made
                except (OSError, EOFError):
                    self._is_missing = True
                    self.close()
                except ValueError:  # `end` has closed the pipe on another thread
                    if not self._is_over:
                        raise
        if self._is_over:
            raise ProcessEnds("the compiling process is ending")
        return llvm.compile_ir(text, tier)

    def _request(self, text: bytes, tier: int) -> bytes:
        if self._process is None:
            import subprocess

            command = [sys.executable, "-c", _START.format(_paths())]
            # In a session of its own, so that Ctrl-C in the terminal does not reach it.
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
        """End the compile process; the next compilation starts another one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def end(self) -> None:
        """End the compile process because this process is ending; later compilations raise `ProcessEnds`."""
        self._is_over = True
        self.close()

    def forget(self) -> None:
        """Drop the reference to the compile process without ending it.

        It is called in a forked child: the compile process belongs to the parent.
        """
        self._lock = threading.Lock()
        process, self._process = self._process, None
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                os.close(pipe.fileno())
            process.returncode = 0  # this process is not its parent and cannot wait for it


PROCESS: Final = CompileProcess()
"""The compile process of this process."""
atexit.register(PROCESS.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PROCESS.forget)


def serve() -> None:
    """Run the compile process: answer the requests on standard input until that input ends."""
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
        except BrokenPipeError:  # the parent has ended
            os._exit(0)


def _paths() -> list[str]:
    """Return the `sys.path` of the compile process: this package's directory, then this process's path."""
    return [str(Path(__file__).parents[2]), *sys.path]


def _read(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError("the compiling process ended before its reply was complete")
    return data
