"""The measurements of `softcard bench`, and the recorded figures that it prints beside a user's own.

`report.py` writes them where the package has them, `src/softcard/data/bench.json`.
"""

from __future__ import annotations

from typing import Final

from harness import Row, main
from softcard.cli.running.bench_cases import BENCHES

QUESTION: Final = "shipped"
TITLE: Final = "What `softcard bench` measures"
SECONDS: Final = 1.5


def measure(quick: bool) -> list[Row]:
    """A row for each."""
    rows = []
    for bench in BENCHES:
        speed = bench.measure(SECONDS / 10 if quick else SECONDS)
        rows.append(Row(QUESTION, bench.name, bench.unit, speed.best, speed.median, lower=bench.is_time))
    return rows


if __name__ == "__main__":
    main(measure, TITLE)
