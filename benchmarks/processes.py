"""New processes, measured: with an empty folder for compiled code (cold), then with what the first left (warm)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

Facts = dict[str, float]


def cold_and_warm(script: str, quick: bool) -> tuple[list[Facts], list[Facts]]:
    """The facts that ``script --child`` prints as JSON, of several processes each.

    To them come `process`, seconds from its start to its end, and `cpu`, CPU seconds in between.
    """
    cold, warm = [], []
    with tempfile.TemporaryDirectory() as top:
        bytecode = Path(top, "bytecode")
        # Once before, so that Python's own bytecode is there, as after an installation.
        _new_process(script, Path(top, "first"), bytecode)
        for number in range(2 if quick else 8):
            cache = Path(top, f"cache{number}")
            cold.append(_new_process(script, cache, bytecode))
            warm += [_new_process(script, cache, bytecode) for _ in range(2)]
    return cold, warm


def _new_process(script: str, cache: Path, bytecode: Path) -> Facts:
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "PYTHONPYCACHEPREFIX": str(bytecode)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    used, before = os.times(), time.perf_counter()
    done = subprocess.run(
        (sys.executable, script, "--child"), env=environment, capture_output=True, text=True, check=True
    )
    seconds, now = time.perf_counter() - before, os.times()
    facts: Facts = json.loads(done.stdout)
    cpu = now.children_user + now.children_system - used.children_user - used.children_system
    return facts | {"process": seconds, "cpu": cpu}
