"""What earlier runs of all benchmarks found: kept, and held against the last one on such a machine.

results/history.jsonl has a line for each run: commit, date, machine, and of each row the best and the median. A row's
noise is how far its typical measurement lies from its best one, in the noisier of two runs.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from harness import FOLDER, ROOT

HISTORY: Final = FOLDER / "results" / "history.jsonl"
LEAST_NOISE: Final = 0.05
"""No difference below this is one."""
KIND: Final = ("cpu", "cores", "system", "python", "numpy", "llvmlite")
"""What makes machines comparable."""

Run = dict[str, Any]


def entry(found: Run) -> Run:
    """A line, of what `run.py` saves."""
    rows = {f"{row['question']}: {row['what']}": _row(row) for row in found["rows"]}
    return {"commit": _commit(), "date": found["date"], "machine": found["machine"], "rows": rows}


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("best", "median", "unit", "lower")}


def _commit() -> str:
    """The commit that is measured; with a plus where the tree differs from it."""
    command = ("git", "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*")
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def read(path: Path = HISTORY) -> list[Run]:
    """All runs, the oldest first."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def add(run: Run, path: Path = HISTORY) -> None:
    """One more."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(run) + "\n")


def alike(run: Run, runs: Sequence[Run]) -> list[Run]:
    """The runs on such a machine."""
    kind = [run["machine"].get(name) for name in KIND]
    return [each for each in runs if [each["machine"].get(name) for name in KIND] == kind]


def last_like(run: Run, runs: Sequence[Run]) -> Run | None:
    """The last run on such a machine."""
    found = alike(run, runs)
    return found[-1] if found else None


def noise(row: dict[str, Any]) -> float:
    """How far the typical measurement lies from the best, as a share of the best."""
    return abs(row["median"] - row["best"]) / row["best"] if row["best"] else 0.0


def slower(now: Run, before: Run) -> list[str]:
    """The rows that became slower by more than noise: by how much, and how much that is."""
    found = []
    for name, row in now["rows"].items():
        old = before["rows"].get(name)
        if old is None or old["unit"] != row["unit"] or not row["best"] or not old["best"]:
            continue
        loss = (row["best"] / old["best"] if row["lower"] else old["best"] / row["best"]) - 1
        allowed = max(LEAST_NOISE, noise(row), noise(old))
        if loss > allowed:
            change = f"{old['best']:.4g} -> {row['best']:.4g} {row['unit']}"
            found.append(f"{name}: {change}, {loss:.0%} slower, noise {allowed:.0%}")
    return found
