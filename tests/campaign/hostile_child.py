"""A child that does what it is told by the options of a task: it answers, hangs, ends, is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from softcard.campaign.task import Task
from softcard.campaign.worker import serve

ENDLESS = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(1000)"
"""A compiler that does not end, and leaves its number in a file."""


def perform(tasks: Sequence[Task], data: bytes) -> list[dict[str, Any]]:
    if any(task.options == "seed 2 crashes" and task.seed == 2 for task in tasks):
        os.kill(os.getpid(), signal.SIGSEGV)
    return [perform_one(task, data) | {"instructions": len(tasks)} for task in tasks]


def perform_one(task: Task, data: bytes) -> dict[str, Any]:
    print("what a task prints is no answer")
    if task.options == "hang":
        time.sleep(1000)
    if task.options.startswith("compile "):
        subprocess.run([sys.executable, "-c", ENDLESS, task.options.partition(" ")[2]], check=False)
    if task.options == "end":
        sys.stdout.flush()
        os._exit(3)
    if task.options == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    return {"outcome": "ok", "digest": f"{task.seed} {len(data)}", "message": str(os.getpid())}


if __name__ == "__main__":
    serve(perform)
