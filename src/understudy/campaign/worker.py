"""What runs in a worker of Dask: batches of tasks, each in the worker's child process."""

from __future__ import annotations

import os
import platform
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import metadata
from itertools import groupby
from typing import Any, Final

from understudy.campaign.child import GRACE_S, Child, Died
from understudy.campaign.dataset import need
from understudy.campaign.errors import CampaignError
from understudy.campaign.task import Task
from understudy.host.compiling import named

REFUSED: Final = "refused"
"""The outcome of what is no task at all: the campaign's file asks for a kernel that there is not, and the like."""
_LOCK: Final = threading.Lock()


@cache
def _child(command: tuple[str, ...], thread: int) -> Child:
    """The child of a worker's thread."""
    with _LOCK:
        return Child(command)


def lacking(compilers: Sequence[str]) -> tuple[str, ...]:
    """Which of these compilers are not on this machine."""
    return tuple(name for name in compilers if named(name) is None)


def run_batch(
    tasks: Sequence[Task], data: Mapping[str, bytes], command: tuple[str, ...], together: int = 1
) -> list[dict[str, Any]]:
    """The rows of some tasks; `data` are their programs' files by name. So many are compiled `together`."""
    child = _child(command, threading.get_ident())
    rows: list[dict[str, Any]] = []
    for some in _joined(tasks, together):
        started = time.time_ns() // 1_000_000
        found = run_some(some, data.get(some[0].program, b""), child, GRACE_S)
        rows += [row_of(task, started) | each for task, each in zip(some, found, strict=True)]
    return rows


def _joined(tasks: Sequence[Task], together: int) -> Iterator[Sequence[Task]]:
    """Tasks behind each other that one source can hold."""
    if together == 1:
        yield from ((task,) for task in tasks)
        return
    for (_, joins), same in groupby(tasks, lambda task: (replace(task, seed=0), task.joins)):
        some = tuple(same)
        size = together if joins else 1
        yield from (some[at : at + size] for at in range(0, len(some), size))


def run_some(tasks: Sequence[Task], data: bytes, child: Child, grace: float) -> list[dict[str, Any]]:
    """What came of tasks, also where one hangs (`grace` seconds longer than they may) or ends its process.

    Of several, halves are tried then, so that nothing is said of the others.
    """
    try:
        return child.run(tasks, data, tasks[0].time_limit + len(tasks) - 1 + grace)
    except TimeoutError:
        text = f"nothing came of it within {tasks[0].time_limit:g} s"
        found = {"outcome": "timeout", "signature": "timeout", "message": text}
    except Died as died:
        found = _death(died.status)
    if len(tasks) == 1:
        return [found]
    half = len(tasks) // 2
    return run_some(tasks[:half], data, child, grace) + run_some(tasks[half:], data, child, grace)


def run_alone(task: Task, data: bytes, child: Child, grace: float) -> dict[str, Any]:
    """What came of one task."""
    return run_some((task,), data, child, grace)[0]


def _death(status: int) -> dict[str, Any]:
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return {"outcome": "died", "signature": f"died {name}", "message": f"its process was ended by {name}"}
    return {"outcome": "died", "signature": f"died {status}", "message": f"its process ended with status {status}"}


def row_of(task: Task, started: int) -> dict[str, Any]:
    """The row of a task of which nothing is known yet."""
    return {
        "id": task.id, "content": task.content, "line": task.line, **task.columns(), "outcome": "", "signature": "",
        "message": "", "digest": "", "compiler_version": "", "version": _version(), "machine": _machine(),
        "worker": _place(), "instructions": 0, "started": started, "compile_seconds": 0.0, "seconds": 0.0,
        "findings": [],
    }  # fmt: skip


def _place() -> str:
    """The worker's address, or, outside of Dask, the machine's name."""
    try:
        return str(need("distributed").get_worker().address)
    except (CampaignError, ValueError):
        return f"{platform.node()} {os.getpid()}"


@cache
def _version() -> str:
    return metadata.version("understudy")


@cache
def _machine() -> str:
    return f"{platform.system()} {platform.machine()} Python {platform.python_version()}"
