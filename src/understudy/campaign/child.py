"""A process of its own for tasks, since a task may hang or end its process: both are outcomes of it.

It speaks in frames on its standard input and output: eight bytes of length, and so many of pickle.
"""

from __future__ import annotations

import os
import pickle
import selectors
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, Final

from understudy.campaign.task import Task

GRACE_S: Final = 20.0
"""What a task may take beyond its limit, to begin a process and compile."""
_LENGTH: Final = struct.Struct("<Q")
_MOST_BYTES: Final = 1 << 32
Performer = Callable[[Sequence[Task], bytes], list[dict[str, Any]]]
"""Runs tasks, given their program's file; gives what came of each."""


class Died(Exception):
    """The process ended in the middle of a task."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Child:
    """Such a process, by its command; it is started when it is first needed, and anew after it died."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, tasks: Sequence[Task], data: bytes, limit: float) -> list[dict[str, Any]]:
        """What came of some tasks; `TimeoutError` where nothing did within `limit` seconds, `Died`."""
        process = self._process
        if process is None or process.poll() is not None:
            environment = os.environ | {"PYTHONUNBUFFERED": "1"}
            process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
            )
            self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            _send(process.stdin, (tuple(tasks), data))
            found: list[dict[str, Any]] = pickle.loads(self._receive(process.stdout.fileno(), limit))
        except (EOFError, BrokenPipeError):
            status = process.wait()
            self.close()
            raise Died(status) from None
        except BaseException:
            self.close()
            raise
        return found

    def close(self) -> None:
        """End it and what it started."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()

    @staticmethod
    def _receive(number: int, limit: float) -> bytes:
        end = time.monotonic() + limit
        with selectors.DefaultSelector() as selector:
            selector.register(number, selectors.EVENT_READ)

            def take(size: int) -> bytes:
                data = b""
                while len(data) < size:
                    if not selector.select(max(0.0, end - time.monotonic())):
                        raise TimeoutError
                    more = os.read(number, min(size - len(data), 1 << 20))
                    if not more:
                        raise EOFError
                    data += more
                return data

            (size,) = _LENGTH.unpack(take(_LENGTH.size))
            if size > _MOST_BYTES:
                raise EOFError
            return take(size)


def serve(perform: Performer) -> None:
    """Be such a process: until standard input ends, perform what comes. Whatever else prints, prints on stderr."""
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True).start()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while (request := _take(sys.stdin.buffer)) is not None:
        _send(answers, perform(*request))


def _follow(parent: int) -> None:
    """End with the worker, and with what was started here: it may be killed while a task hangs, or a compiler."""
    while os.getppid() == parent:
        time.sleep(1)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _send(stream: BinaryIO | Any, value: object) -> None:
    data = pickle.dumps(value)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def _take(stream: BinaryIO) -> Any:
    """The next value; None where whoever sends has gone."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (size,) = _LENGTH.unpack(head)
    data = stream.read(size)
    return pickle.loads(data) if len(data) == size else None
