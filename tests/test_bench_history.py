"""The history of benchmarks: which runs are compared, and what counts as slower."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
MACHINE = {"cpu": "one", "cores": 2, "system": "Linux", "python": "3.11", "numpy": "2", "llvmlite": "0.50"}


@pytest.fixture(scope="module")
def modules() -> Iterator[tuple[Any, Any]]:
    """`history` and `plots`."""
    sys.path.insert(0, str(BENCHMARKS))
    before = set(sys.modules)
    try:
        yield importlib.import_module("history"), importlib.import_module("plots")
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in set(sys.modules) - before:
            if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]


@pytest.fixture(scope="module")
def history(modules: tuple[Any, Any]) -> Any:
    return modules[0]


@pytest.fixture(scope="module")
def plots(modules: tuple[Any, Any]) -> Any:
    return modules[1]


def found(best: float, median: float, *, lower: bool = True, **machine: object) -> dict[str, Any]:
    row = {"question": "start", "what": "first", "unit": "ms", "best": best, "median": median, "lower": lower}
    return {"date": "2026-11-23", "machine": MACHINE | machine, "rows": [row | {"note": "", "peer": None}]}


def test_runs_are_kept_in_order(history: Any, tmp_path: Path) -> None:
    path = tmp_path / "results" / "history.jsonl"
    assert history.read(path) == []
    for best in (3.0, 4.0):
        history.add(history.entry(found(best, 5.0)), path)
    assert [run["rows"]["start: first"]["best"] for run in history.read(path)] == [3.0, 4.0]
    assert len(path.read_text().splitlines()) == 2
    assert json.loads(path.read_text().splitlines()[0])["commit"]


def test_only_runs_on_such_a_machine_are_compared(history: Any) -> None:
    first, other, second = (history.entry(found(n, n, **more)) for n, more in ((1, {}), (2, {"cpu": "two"}), (3, {})))
    now = history.entry(found(4, 4, load_before=7.5))
    assert history.last_like(now, [first, second, other]) is second
    assert history.last_like(now, [other]) is None


@pytest.mark.parametrize(
    ("before", "now", "lower", "is_slower"),
    [
        ((100, 101), (104, 105), True, False),  # below what counts as a difference
        ((100, 101), (107, 108), True, True),
        ((100, 130), (120, 121), True, False),  # the earlier run was noisy
        ((100, 101), (120, 150), True, False),  # this one is
        ((100, 101), (50, 51), True, False),
        ((100, 99), (80, 79), False, True),  # rates
        ((100, 99), (120, 119), False, False),
    ],
)
def test_slower_by_more_than_noise(
    history: Any, before: tuple[float, float], now: tuple[float, float], lower: bool, is_slower: bool
) -> None:
    old, new = (history.entry(found(*each, lower=lower)) for each in (before, now))
    assert [text.split(":")[0] for text in history.slower(new, old)] == ["start"] * is_slower


def test_rows_that_came_went_or_changed_their_unit_are_not_compared(history: Any) -> None:
    old, new = history.entry(found(1, 1)), history.entry(found(9, 9))
    new["rows"]["start: first"]["unit"] = "us"
    new["rows"]["start: other"] = old["rows"]["start: first"]
    assert history.slower(new, old) == []


def heights(svg: str) -> list[float]:
    """Of the line's points, the highest with the smallest number."""
    [line] = re.findall(r'<polyline points="([^"]*)"', svg)
    return [float(point.partition(",")[2]) for point in line.split()]


def test_plots_show_runs_on_such_a_machine_and_better_is_up(history: Any, plots: Any) -> None:
    runs = [history.entry(found(best, best * 1.1)) for best in (4.0, 2.0, 1.0)]
    other = history.entry(found(1, 1, cpu="another"))
    text = plots.page([runs[0], other, *runs[1:]]).replace("\xa0", " ")
    assert "3 of 4 runs" in text
    assert "| 4.00 ms | 1.00 ms | 4.00x |" in text
    slow, middle, fast = heights(text)
    assert slow > middle > fast
    assert middle - fast == pytest.approx(slow - middle, abs=0.2)  # by ratios
    assert 0 <= fast < slow <= plots.HEIGHT
    rates = [history.entry(found(best, best, lower=False)) for best in (1.0, 1.01)]
    slow, fast = heights(plots.page(rates))
    assert 0 < slow - fast < 0.1 * plots.HEIGHT  # noise is no cliff


def test_plots_of_one_run_of_rows_of_nothing_and_of_odd_names(history: Any, plots: Any) -> None:
    run = history.entry(found(1, 1))
    run["rows"]["new: a|b <c>"] = {"best": 0, "median": 0, "unit": "ms", "lower": True}
    text = plots.page([run]).replace("\xa0", " ")
    assert "| 1.00 ms | 1.00 ms |  |" in text
    assert "| a\\|b &lt;c&gt; |  | 0 ms | 0 ms |  |" in text
    assert "make bench" in plots.page([])


def test_some_rows_may_be_measured_later(modules: tuple[Any, Any]) -> None:
    """They stand in the place of those that were there, and it is said when and on what."""
    run, report = importlib.import_module("run"), importlib.import_module("report")
    rows = [{"question": name, "what": "a", "best": 1.0} for name in ("gcn", "gcn_checks", "checks")]
    facts = MACHINE | {"cpu": "other", "load_before": 0.5}
    now = {"date": "2026-11-26", "command": "run", "machine": facts, "seconds": 3}
    first = run.instead({"rows": rows}, now | {"rows": [rows[1] | {"best": 2.0}] * 2}, ["gcn_checks"])
    assert [(row["question"], row["best"]) for row in first["rows"]] == [
        ("gcn", 1.0), ("gcn_checks", 2.0), ("gcn_checks", 2.0), ("checks", 1.0),
    ]  # fmt: skip
    again = run.instead(first, now | {"rows": [], "date": "2026-11-27"}, ["gcn_checks", "gcn"])
    assert [row["question"] for row in again["rows"]] == ["checks"]
    (later,) = again["later"]
    assert report.later_line(later) == (
        "- but `gcn_checks`, `gcn`: other, 2 cores, 2026-11-27, `run`: 3 s, with a load average of 0.5 when it began"
    )


def test_all_results_are_of_a_script(modules: tuple[Any, Any]) -> None:
    run = importlib.import_module("run")
    found = json.loads(run.RESULTS.read_text(encoding="utf-8"))
    assert {row["question"] for row in found["rows"]} <= set(run.SCRIPTS)
