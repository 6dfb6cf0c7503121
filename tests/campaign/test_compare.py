"""What is different between campaigns and between columns, and how it is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from softcard.campaign.compare import MOST_SHOWN, Comparison, Kind, as_html, as_junit, as_text, compare, compare_columns
from softcard.campaign.dataset import Dataset
from softcard.campaign.task import CampaignError, Task
from softcard.campaign.worker import row_of
from softcard.cli import main

Capture = pytest.CaptureFixture[str]


def row(seed: int, outcome: str = "ok", digest: str = "d", seconds: float = 0.1, **more: Any) -> dict[str, Any]:
    columns = {"outcome": outcome, "digest": digest, "seconds": seconds, "signature": "", "message": "", **more}
    fields = {name: columns.pop(name) for name in ("options", "engine") if name in columns}
    return row_of(Task("a.cl", "0", seed=seed, **fields), 0) | columns


BEFORE = [
    row(0), row(1), row(2, "fault", signature="fault a"), row(3, "fault", signature="fault a"), row(4), row(5), row(6),
    row(7, "fault", signature="fault a"), row(8, seconds=0.001),
]  # fmt: skip
AFTER = [
    row(0), row(1, "died", signature="died SIGSEGV", message="its process <ended> \x01"), row(2),
    row(3, "fault", signature="fault b"),
    row(4, digest="e"), row(5, seconds=0.2), row(6, seconds=0.05), row(7, "fault", signature="fault a"),
    row(8, seconds=0.009), row(10),
]  # fmt: skip


@pytest.fixture
def found() -> Comparison:
    return compare([*BEFORE, row(9)], AFTER, ("before", "after"))


def test_kinds_of_differences(found: Comparison) -> None:
    assert {each.row["seed"]: each.kind for each in found.differences} == {
        1: Kind.NEW, 2: Kind.FIXED, 3: Kind.OTHER, 4: Kind.CHANGED, 5: Kind.SLOWER, 6: Kind.FASTER, 9: Kind.MISSING,
        10: Kind.ADDED,
    }  # fmt: skip
    assert [each.kind for each in found.differences] == list(Kind)
    assert (found.common, found.is_worse) == (9, True)
    assert not compare(BEFORE[:1], AFTER[:1], ("a", "b")).is_worse
    assert not compare([BEFORE[2]], [AFTER[2]], ("a", "b")).is_worse


def test_names_that_xml_cannot_hold() -> None:
    """Control characters, surrogates and noncharacters of names and messages: written escaped."""
    hostile = "k\x1b\x00\ud800\udcff\ufffe\r"
    after = row(1, "died", message=hostile, signature=hostile) | {"program": hostile, "kernel": hostile}
    before = row(1) | {"id": after["id"], "program": hostile, "kernel": hostile}
    found = compare([before], [after], (hostile, "b"))
    [suite] = ElementTree.fromstring(as_junit(found).encode())
    shown = r"k\x1b\x00\ud800\xff\ufffe\x0d"
    assert suite.get("name") == f"{shown} and b"
    case = suite[1]
    assert case.get("classname") == shown
    assert f"kernel={shown}" in str(case.get("name"))
    assert case[0].text == f"task {after['id']}\n{shown}"
    assert shown.encode() in as_html(found).encode()


def test_as_text(found: Comparison) -> None:
    lines = as_text(found).splitlines()
    assert lines[0] == (
        "before and after: 9 tasks of both, 1 new failure, 1 other failure, 1 changed digest, 1 fixed, 1 slower, "
        "1 faster, 1 missing, 1 added"
    )
    at = lines.index("new failure:")
    task = "program=a.cl engine=jit check=plain seed"
    assert lines[at + 1] == f"  {AFTER[1]['id']}  {task}=1: ok before, died (died SIGSEGV) after"
    assert lines[lines.index("slower:") + 1].endswith("seed=5: 100.0 ms before, 200.0 ms after")
    assert lines[lines.index("changed digest:") + 1].endswith("seed=4: d before, e after")
    assert lines[lines.index("added:") + 1].endswith("seed=10: ok")
    many = as_text(compare([], [row(n) for n in range(30)], ("a", "b")))
    assert many.count("seed=") == MOST_SHOWN
    assert many.endswith("... and 10 more")


def test_as_junit(found: Comparison) -> None:
    [suite] = ElementTree.fromstring(as_junit(found))
    assert (suite.get("tests"), suite.get("failures")) == ("9", "3")
    cases = {case.get("name"): case for case in suite}
    assert "3 without a difference" in cases
    failure = cases["program=a.cl engine=jit check=plain seed=1"].find("failure")
    assert failure is not None
    assert failure.text == f"task {AFTER[1]['id']}\nits process <ended> \\x01"
    assert cases["program=a.cl engine=jit check=plain seed=2"].find("failure") is None


def test_as_a_page(found: Comparison) -> None:
    page = as_html(found)
    assert "<h2 class=bad>new failure: 1</h2>" in page
    assert "<h2>fixed: 1</h2>" in page
    assert page.count("<tr><td>") == len(found.differences)
    assert "its process <ended>" not in page


def test_columns_of_one_campaign() -> None:
    rows = [row(n, digest=f"{n}{'x' if (n, engine) == (2, 'jit') else ''}", engine=engine)
            for n in range(3) for engine in ("jit", "reference")]  # fmt: skip
    found = compare_columns(rows, "engine=reference", "engine=jit")
    assert found.common == 3
    assert [(each.kind, each.row["seed"]) for each in found.differences] == [(Kind.CHANGED, 2)]
    assert "engine" not in found.keys
    assert compare_columns(rows, "engine=jit,seed=0", "engine=reference,seed=0").common == 1


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        (
            "engin=jit",
            "engine=jit",
            "unknown column 'engin=jit', expected NAME=VALUE with a NAME of program, ",
        ),
        ("engine", "engine=jit", "unknown column 'engine'"),
        ("engine=jit", "options=-O0", "'engine=jit' and 'options=-O0' must name the same columns"),
        ("options=-O3", "options=-O0", "no task has options=-O3: in the results, options is "),
    ],
)
def test_columns_that_there_are_not(one: str, other: str, message: str) -> None:
    with pytest.raises(CampaignError) as caught:
        compare_columns(BEFORE, one, other)
    assert str(caught.value).startswith(message)


def test_the_command(tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("pyarrow")
    for name, rows in (("a", BEFORE), ("b", AFTER)):
        Dataset(tmp_path / name).append(rows)
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    files = ["--junit", str(tmp_path / "x.xml"), "--html", str(tmp_path / "x.html")]
    assert main(["compare", a, b, *files]) == 1
    assert f"{a} and {b}: 9 tasks of both, 1 new failure" in capsys.readouterr().out
    assert ElementTree.parse(tmp_path / "x.xml").getroot().tag == "testsuites"
    assert (tmp_path / "x.html").read_text().startswith("<!doctype html>")
    assert main(["compare", a, "seed=0", "seed=5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"common": 1, "counts": {}, "differences": []}
    assert main(["compare", a, "sed=0", "seed=5"]) == 2
    assert "unknown column 'sed=0', expected NAME=VALUE with a NAME of program, " in (err := capsys.readouterr().err)
    assert "; did you mean 'seed'?" in " ".join(err.split())
    assert main(["compare", str(tmp_path), b]) == 2
    assert f"{tmp_path} has no folder results, expected the output of a campaign" in capsys.readouterr().err
