"""The history of all rows as plots, which the site of docs/ shows: tables in Markdown with a small SVG for each row.

Runs on machines of the newest one's kind, the oldest on the left. A line joins the best measurements; the shade reaches
to the medians, so its height is the noise. Up is better in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby
from math import log
from typing import Any, Final

from harness import number
from history import KIND, Run, alike
from report import TITLES

LABELS: Final = {"cores": "cores:", "python": "Python", "numpy": "NumPy", "llvmlite": "llvmlite"}
WIDTH: Final = 180
HEIGHT: Final = 40
EDGE: Final = 5
LEAST_SPAN: Final = 1.2
"""The ratio of top to bottom at least, so that noise does not look like a cliff."""


def page(runs: Sequence[Run]) -> str:
    """What is known of each row, in Markdown."""
    if not runs:
        return "No run is kept here: `make bench` adds one."
    kept = alike(runs[-1], runs)
    machine = ", ".join(f"{LABELS.get(name, '')} {runs[-1]['machine'][name]}".strip() for name in KIND)
    parts = [f"{len(kept)} of {len(runs)} runs, from {kept[0]['date']} to {kept[-1]['date']}: those on {machine}."]
    for question, names in groupby(runs[-1]["rows"], key=lambda name: name.partition(": ")[0]):
        parts.append(f"## {TITLES.get(question, question)}\n\n| what | history | first | last | change |")
        parts[-1] += "\n|---|---|---:|---:|---:|\n" + "\n".join(_line(name, kept) for name in names)
    return "\n\n".join(parts)


def _line(name: str, runs: Sequence[Run]) -> str:
    last = runs[-1]["rows"][name]
    points = [(run, run["rows"][name]) for run in runs if run["rows"].get(name, {}).get("unit") == last["unit"]]
    first = points[0][1]
    what = escape(name.partition(": ")[2]).replace("|", "\\|")
    values = f"{_value(first)} | {_value(last)}"
    return f"| {what} | {plot(points)} | {values} | {_change(first, last) if len(points) > 1 else ''} |"


def _change(first: dict[str, Any], last: dict[str, Any]) -> str:
    """How many times as fast as at first."""
    if not first["best"] or not last["best"]:
        return ""
    return f"{number(first['best'] / last['best'] if last['lower'] else last['best'] / first['best'])}x"


def plot(points: Sequence[tuple[Run, dict[str, Any]]]) -> str:
    """One row's history as an SVG on one line, with each point's commit, date and value to be pointed at."""
    is_lower_better = points[-1][1]["lower"]
    values = [value for _, row in points for value in (row["best"], row["median"]) if value > 0]
    if not values:
        return ""
    low, high = min(values), max(values)
    spare = max(1.0, (LEAST_SPAN * low / high) ** 0.5)
    low, high = low / spare, high * spare

    def place(index: int, value: float) -> tuple[float, float]:
        share = log(max(value, low) / low) / log(high / low)
        across = EDGE + (WIDTH - 2 * EDGE) * (index / (len(points) - 1) if len(points) > 1 else 0.5)
        return across, EDGE + (HEIGHT - 2 * EDGE) * (share if is_lower_better else 1 - share)

    best, typical = ([place(at, row[kind]) for at, (_, row) in enumerate(points)] for kind in ("best", "median"))
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"><title>{escape(run["commit"])}, {run["date"]}: '
        f"{_value(row)}</title></circle>"
        for (run, row), (x, y) in zip(points, best, strict=True)
    )
    return (
        f'<svg class="history" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">'
        f'<polygon points="{_joined(best + typical[::-1])}"/><polyline points="{_joined(best)}"/>{dots}</svg>'
    )


def _value(row: dict[str, Any]) -> str:
    return f"{number(row['best'])}\N{NO-BREAK SPACE}{escape(row['unit'])}"


def _joined(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
