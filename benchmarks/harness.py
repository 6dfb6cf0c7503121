"""What all benchmarks share: repeated measurements, rows that hold them against a peer and a target, and printing.

A benchmark is a script with a function `measure(quick)` that gives rows. Nothing here judges: a missed target is
printed, never an error.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from math import floor
from pathlib import Path
from statistics import median
from typing import Any, Final

from rich.console import Console
from rich.table import Table

FOLDER: Final = Path(__file__).resolve().parent
ROOT: Final = FOLDER.parent
REFERENCE: Final = "RefSi reference, published"
"""The reference driver with its simulator; numbers of November 2026 on another machine, see docs/performance.md."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Repeated measurements of one thing, in seconds."""

    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        """The least disturbed one."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The typical one."""
        return median(self.seconds)


@dataclass(frozen=True, slots=True)
class Row:
    """One result. `best` and `median` are in `unit`; so is `peer`, the best that `peer_name` reached.

    `target` bounds the ratio to the peer (at least) or, where there is no peer or `absolute`, the number itself.
    `lower` says that smaller numbers are better.
    """

    question: str
    what: str
    unit: str
    best: float
    median: float
    peer_name: str = ""
    peer: float | None = None
    target: float | None = None
    lower: bool = False
    absolute: bool = False
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times better than the peer."""
        if not self.peer or not self.best:
            return None
        return self.peer / self.best if self.lower else self.best / self.peer

    @property
    def met(self) -> bool | None:
        """Whether the target is met, None where there is none."""
        if self.target is None:
            return None
        if self.ratio is not None and not self.absolute:
            return self.ratio >= self.target
        return self.best <= self.target if self.lower else self.best >= self.target

    def cells(self) -> tuple[str, ...]:
        """The row as text: what, target, best, median, peer, ratio, met."""
        bound = ""
        if self.target is not None:
            relative = self.peer is not None and not self.absolute
            bound = f">= {self.target:g}x" if relative else f"{'<' if self.lower else '>='} {self.target:g} {self.unit}"
        peer = "" if self.peer is None else f"{self.peer_name}: {number(self.peer)}"
        ratio = "" if self.ratio is None else f"{number(round_down(self.ratio))}x"
        met = {True: "yes", False: "no", None: ""}[self.met]
        return self.what, bound, f"{number(self.best)} {self.unit}", number(self.median), peer, ratio, met


HEADINGS: Final = ("what", "target", "best", "median", "peer", "ratio", "met")


def number(value: float) -> str:
    """About three digits that count, thousands apart."""
    for least, form in ((100, ",.0f"), (10, ".1f"), (0.1, ".2f")):
        if value >= least:
            return format(value, form)
    return f"{value:.2g}"


def round_down(value: float) -> float:
    """At most `value`, so that what is shown as 2 is no less: cut after two decimals, where it has that many."""
    return floor(value * 100) / 100 if value >= 0.1 else value


def alternate(rounds: int, *sides: Callable[[], float]) -> list[Samples]:
    """Run each side once per round, in turn, so that all meet the same weather; the seconds each one gave."""
    found: list[list[float]] = [[] for _ in sides]
    gc.collect()
    for _ in range(rounds):
        for side, seconds in zip(sides, found, strict=True):
            seconds.append(side())
    return [Samples(tuple(seconds)) for seconds in found]


def repeat(rounds: int, side: Callable[[], float]) -> Samples:
    """Run one side several times."""
    return alternate(rounds, side)[0]


def cpu(action: Callable[[], Any]) -> float:
    """CPU seconds of this thread."""
    before = time.thread_time()
    action()
    return time.thread_time() - before


def wall(action: Callable[[], Any]) -> float:
    """Seconds on the clock."""
    before = time.perf_counter()
    action()
    return time.perf_counter() - before


def rate(question: str, what: str, unit: str, amount: float, samples: Samples, **more: Any) -> Row:
    """A row of `amount` per second, in units of a million (MIPS, M/s)."""
    best, typical = amount / samples.best / 1e6, amount / samples.median / 1e6
    return Row(question, what, unit, best, typical, **more)


def latency(question: str, what: str, unit: str, samples: Samples, **more: Any) -> Row:
    """A row of seconds in `unit` (s, ms, us)."""
    scale = {"s": 1, "ms": 1e3, "us": 1e6}[unit]
    return Row(question, what, unit, samples.best * scale, samples.median * scale, lower=True, **more)


# ---- the machine ---------------------------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    import llvmlite
    import numpy as np

    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "llvmlite": llvmlite.__version__,
        "qemu": _first_line("qemu-riscv64", "--version"),
        "compiler": _first_line("riscv64-unknown-elf-gcc", "--version"),
        "load_before": round(os.getloadavg()[0], 2),
    }


def _cpu_model() -> str:
    facts: dict[str, str] = {}
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            facts.setdefault(name.strip(), value.strip())
    except OSError:
        return platform.processor() or "unknown"
    numbers = f"family {facts.get('cpu family', '?')}, model {facts.get('model', '?')}"
    return f"{facts.get('model name', 'unknown')} ({numbers})"


def _first_line(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.splitlines()[0].split(", Copyright")[0].strip()


# ---- a script of its own -------------------------------------------------------------------------------------------


def show(rows: Iterable[Row], title: str) -> None:
    """Print a table."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading in ("best", "median", "ratio") else "left")
    notes = []
    for row in rows:
        style = {True: "green", False: "red", None: ""}[row.met]
        table.add_row(*row.cells(), style=style)
        if row.note:
            notes.append(f"{row.what}: {row.note}")
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(table)
    for note in notes:
        console.print(f"  {note}", style="dim", highlight=False)


def optimised() -> None:
    """Wait until all that was asked for has been optimised."""
    from softcard.ir.background import BACKGROUND

    behind = BACKGROUND.submit(lambda: None)
    while not behind.done:
        time.sleep(0.0005)


def main(measure: Callable[[bool], Sequence[Row]], title: str) -> None:
    """Run one benchmark as a script: print its table, with --json PATH also save its rows."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("--quick", action="store_true", help="less work: for trying out, not for numbers to keep")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(
        ignore_cleanup_errors=True
    ) as cache:  # compiled code of earlier runs must not matter
        os.environ["XDG_CACHE_HOME"] = cache
        rows = measure(options.quick)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")
    show(rows, title)
