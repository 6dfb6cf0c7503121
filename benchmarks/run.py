"""Run all benchmarks, each in a process of its own, and save what they found: results/latest.json.

`--only` runs some, and puts their rows in the place of those that are there; when and where is kept beside them.

`report.py` makes the tables of docs/ from it; `history.py` keeps what all runs found and tells what became
slower.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import history
from harness import FOLDER, machine

SCRIPTS: Final = (
    *(
        "rv64_engine",
        "rv64_vectors",
        "rv64_extensions",
        "refsi_kernels",
        "refsi_commands",
        "refsi_driver",
        "start",
        "shell_start",
        "scaling",
        "acceldev",
        "vfio_user",
    ),
    *(
        "gcn",
        "gcn_limits",
        "gcn_left",
        "hsa_queue",
        "hsa_start",
        "library_load",
        "amdcl2_load",
        "campaign",
        "fletcher_map",
        "fletcher_sum",
        "fletcher_mmio",
        "shipped",
        "gcn_checks",
        "refsi_checks",
        "checks",
        "rocm",
        "opencl_platform",
    ),
)
RESULTS: Final = FOLDER / "results" / "latest.json"


def run(name: str, quick: bool) -> list[dict[str, Any]]:
    """Run one script, which prints its table; its rows."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.json")
        command = [sys.executable, str(FOLDER / f"{name}.py"), "--json", str(path)]
        subprocess.run(command + ["--quick"] * quick, check=True)
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Run all benchmarks and save the results.")
    parser.add_argument("--quick", action="store_true", help="less work: for trying out, not for numbers to keep")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where to save the results")
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", choices=SCRIPTS, help="these, in place of their rows there"
    )
    options = parser.parse_args()
    begin = time.monotonic()
    found: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
        "command": "make bench" if not options.quick else "python benchmarks/run.py --quick",
        "machine": machine(),
    }
    found["rows"] = [row for name in options.only or SCRIPTS for row in run(name, options.quick)]
    found["seconds"] = round(time.monotonic() - begin)
    print(f"{len(found['rows'])} results in {found['seconds']} s: {options.output}")
    if options.only:
        found["command"] = f"python benchmarks/run.py --only {' '.join(options.only)}"
        found = instead(json.loads(options.output.read_text(encoding="utf-8")), found, options.only)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if not options.quick and not options.only:
        compare(found)


def instead(found: dict[str, Any], now: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Results with the rows of some questions as they are now, and with what is known of these in `later`."""
    rows = {name: [row for row in found["rows"] if row["question"] == name] for name in SCRIPTS}
    rows |= {name: [row for row in now["rows"] if row["question"] == name] for name in names}
    own = {key: now[key] for key in ("date", "command", "machine", "seconds")} | {"questions": list(names)}
    later = [
        each | {"questions": [name for name in each["questions"] if name not in names]}
        for each in found.get("later", [])
    ]
    return found | {
        "rows": [row for name in SCRIPTS for row in rows[name]],
        "later": [each for each in [*later, own] if each["questions"]],
    }


def compare(found: dict[str, Any]) -> None:
    """Add the results to the history, and say what became slower since the last run on such a machine."""
    now = history.entry(found)
    before = history.last_like(now, history.read())
    history.add(now)
    if before is None:
        print("the first run on such a machine: nothing to compare with")
        return
    rows = history.slower(now, before)
    print(f"slower than at {before['commit']} of {before['date']} by more than noise: {len(rows) or 'nothing'}")
    for row in rows:
        print(f"  {row}")


if __name__ == "__main__":
    main()
