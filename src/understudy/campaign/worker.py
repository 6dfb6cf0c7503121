"""What runs in a worker of Dask: batches of tasks, each in the worker's child process."""

from __future__ import annotations

import os
import platform
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
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


def run_batch(tasks: Sequence[Task], data: Mapping[str, bytes], command: tuple[str, ...]) -> list[dict[str, Any]]:
    """The rows of some tasks; `data` are their programs' files by name."""
    child = _child(command, threading.get_ident())
    return [_run(task, data.get(task.program, b""), child) for task in tasks]


def _run(task: Task, data: bytes, child: Child) -> dict[str, Any]:
    started = time.time_ns() // 1_000_000
    return row_of(task, started) | run_alone(task, data, child, GRACE_S)


def run_alone(task: Task, data: bytes, child: Child, grace: float) -> dict[str, Any]:
    """What came of a task, also where it hangs (`grace` seconds longer than it may) or ends its process."""
    try:
        found = child.run(task, data, task.time_limit + grace)
    except TimeoutError:
        text = f"nothing came of it within {task.time_limit:g} s"
        found = {"outcome": "timeout", "signature": "timeout", "message": text}
    except Died as died:
        found = _death(died.status)
    return found


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
