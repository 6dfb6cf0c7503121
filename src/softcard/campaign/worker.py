"""The code that runs in a Dask worker: it passes batches of tasks to its child process, which runs them."""

from __future__ import annotations

import os
import pickle
import platform
import selectors
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib import metadata
from itertools import groupby
from typing import Any, BinaryIO, Final, cast

from softcard.campaign.dataset import need
from softcard.campaign.task import CampaignError, Row, Task
from softcard.host.compiling import named

# ---- child process ---------------------------------------------------------------------------------------------------
# A child process that runs tasks, since a task may hang or end its process: both are outcomes of the task.
#
# Its standard input and output carry frames: a length of eight bytes, and a pickle of that length.


GRACE_S: Final = 20.0
"""The time in seconds that a task may take in addition to its limit, to start a process and to compile."""
_LENGTH: Final = struct.Struct("<Q")
_MOST_BYTES: Final = 1 << 32
Performer = Callable[[Sequence[Task], bytes], list[Row]]
"""The type of a function that runs tasks and returns their outcomes, given the content of their program's file."""


class Died(Exception):
    """The error for a child process that ended in the middle of a task."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Child:
    """A child process that runs `command`. It is started at its first use, and restarted if it has ended."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, tasks: Sequence[Task], data: bytes, limit: float) -> list[Row]:
        """Run tasks and return their outcomes; raise `TimeoutError` after `limit` seconds.

        Raise `Died` if the process ends.
        """
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
            found: list[Row] = pickle.loads(self._receive(process.stdout.fileno(), limit))
        except (EOFError, BrokenPipeError):
            status = process.wait()
            self.close()
            raise Died(status) from None
        except BaseException:
            self.close()
            raise
        return found

    def close(self) -> None:
        """Kill the child process and all processes that it started."""
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
    """Serve as the child process: run requested tasks until standard input or the pipe for answers is closed.

    All other output of this process goes to standard error.
    """
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True).start()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while (request := _take(sys.stdin.buffer)) is not None:
        found = perform(*request)
        try:
            _send(answers, found)
        except BrokenPipeError:  # the worker has ended; a traceback would be all that is left of a stopped campaign
            os._exit(1)


def _follow(parent: int) -> None:
    """End this process and its children as soon as its parent, the worker, ends.

    A worker that is killed while a task or compiler hangs cannot end its child itself.
    """
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
    """Read the next value from `stream` and return it; None at the end of the stream."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (size,) = _LENGTH.unpack(head)
    data = stream.read(size)
    return pickle.loads(data) if len(data) == size else None


# ---- worker ----------------------------------------------------------------------------------------------------------


REFUSED: Final = "refused"
"""The outcome of a task that cannot be run, such as one for a missing kernel; it ends the campaign."""
_LOCK: Final = threading.Lock()


@cache
def _child(command: tuple[str, ...], thread: int) -> Child:
    """Return the child process of a worker's thread."""
    with _LOCK:
        return Child(command)


def lacking(compilers: Sequence[str]) -> tuple[str, ...]:
    """Return the names among `compilers` that this machine does not have."""
    return tuple(name for name in compilers if named(name) is None)


def run_batch(
    tasks: Sequence[Task], data: Mapping[str, bytes], command: tuple[str, ...], together: int = 1
) -> list[Row]:
    """Run tasks in the child process of this thread and return their result rows.

    `data` maps the names of programs to the contents of their files. Up to `together` programs are combined
    into one source."""
    child = _child(command, threading.get_ident())
    rows: list[Row] = []
    for some in _joined(tasks, together):
        started = time.time_ns() // 1_000_000
        found = run_some(some, data.get(some[0].program, b""), child, GRACE_S)
        rows += [row_of(task, started) | each for task, each in zip(some, found, strict=True)]
    return rows


def _joined(tasks: Sequence[Task], together: int) -> Iterator[Sequence[Task]]:
    """Yield `tasks` in sequences whose programs can be combined into one source: up to `together` adjacent tasks."""
    if together == 1:
        yield from ((task,) for task in tasks)
        return
    for (_, joins), same in groupby(tasks, lambda task: (replace(task, seed=0), task.joins)):
        some = tuple(same)
        size = together if joins else 1
        yield from (some[at : at + size] for at in range(0, len(some), size))


def run_some(tasks: Sequence[Task], data: bytes, child: Child, grace: float) -> list[Row]:
    """Run tasks in `child` and return their outcomes, even if one of them hangs or ends its process.

    A task hangs if it takes `grace` seconds more than its limit. In such a case the halves of `tasks` are run
    separately, so that the other tasks get their own outcomes.
    """
    try:
        return child.run(tasks, data, tasks[0].time_limit + len(tasks) - 1 + grace)
    except TimeoutError:
        text = f"the task did not end within {tasks[0].time_limit:g} s"
        found: Row = {"outcome": "timeout", "signature": "timeout", "message": text}
    except Died as died:
        found = _death(died.status)
    if len(tasks) == 1:
        return [found]
    half = len(tasks) // 2
    return run_some(tasks[:half], data, child, grace) + run_some(tasks[half:], data, child, grace)


def run_alone(task: Task, data: bytes, child: Child, grace: float) -> Row:
    """Run one task in `child` and return its outcome; `data` and `grace` are as in `run_some`."""
    return run_some((task,), data, child, grace)[0]


def _death(status: int) -> Row:
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return {
            "outcome": "died",
            "signature": f"died {name}",
            "message": f"the process of the task was ended by {name}",
        }
    return {
        "outcome": "died",
        "signature": f"died {status}",
        "message": f"the process of the task ended with status {status}",
    }


def row_of(task: Task, started: int) -> Row:
    """Return a new result row, still without an outcome, for a task that began at time `started`."""
    row: dict[str, object] = {
        "id": task.id, "content": task.content, "line": task.line, **task.columns(), "outcome": "", "signature": "",
        "message": "", "digest": "", "compiler_version": "", "version": _version(), "machine": _machine(),
        "worker": _place(), "instructions": 0, "started": started, "compile_seconds": 0.0, "seconds": 0.0,
        "findings": [],
    }  # fmt: skip
    return cast("Row", row)


def _place() -> str:
    """Return where tasks run, as text: the Dask worker's address, or else the machine's name and the process id."""
    try:
        return str(need("distributed").get_worker().address)
    except (CampaignError, ValueError):
        return f"{platform.node()} {os.getpid()}"


@cache
def _version() -> str:
    return metadata.version("softcard")


@cache
def _machine() -> str:
    return f"{platform.system()} {platform.machine()} Python {platform.python_version()}"
