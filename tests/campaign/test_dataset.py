"""Results on disk: nothing that was reported is lost, and nothing counts twice."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from softcard.campaign import dataset
from softcard.campaign.dataset import FOLDER, Dataset, count
from softcard.campaign.task import CampaignError, Task
from softcard.campaign.worker import row_of

pytest.importorskip("pyarrow")


def row(seed: int, outcome: str = "ok") -> dict[str, Any]:
    return row_of(Task("a.cl", "0", seed=seed), 5) | {"outcome": outcome, "findings": ["told"]}


def test_rows_come_back_and_count_once(tmp_path: Path) -> None:
    results = Dataset(tmp_path)
    assert (results.rows(), results.outcomes()) == ([], {})
    results.append([])
    results.append([row(1), row(2)])
    results.append([row(2, "fault"), row(3)])
    assert list(results.outcomes().values()) == ["ok", "ok", "ok"]
    assert [each["seed"] for each in Dataset(tmp_path).rows()] == [1, 2, 3]
    assert results.rows()[0] == row(1)
    results.append([row(4) | {"message": "no file \udcff"}])
    assert results.rows()[-1]["message"] == r"no file \udcff"


def test_many_parts_become_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "MOST_PARTS", 3)
    results = Dataset(tmp_path)
    for seed in range(9):
        results.append([row(seed)])
        assert len(list((tmp_path / FOLDER).iterdir())) <= 3
    results.compact()
    assert len(list((tmp_path / FOLDER).iterdir())) == 1
    assert sorted(each["seed"] for each in results.rows()) == list(range(9))


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_full_disk_takes_nothing_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    results = Dataset(tmp_path)
    results.append([row(1)])

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os if call == "fsync" else Path, call, full)
        with pytest.raises(CampaignError, match=r"cannot write .*: No space left on device"):
            results.append([row(2)])
    assert [each["seed"] for each in results.rows()] == [1]
    assert len(list((tmp_path / FOLDER).iterdir())) == 1
    results.append([row(2)])
    assert [each["seed"] for each in results.rows()] == [1, 2]


def test_a_killed_writer_leaves_nothing_that_is_read(tmp_path: Path) -> None:
    results = Dataset(tmp_path)
    results.append([row(1)])
    (tmp_path / FOLDER / ".part-0.parquet").write_bytes(b"PAR1 half of i")
    assert [each["seed"] for each in results.rows()] == [1]


def test_a_part_that_is_damaged_is_named(tmp_path: Path) -> None:
    results = Dataset(tmp_path)
    (tmp_path / FOLDER / "part-0.parquet").write_bytes(b"nothing")
    with pytest.raises(CampaignError, match=r"cannot read .*part-0\.parquet"):
        results.rows()


def test_where_results_cannot_go(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CampaignError, match=r"cannot make .*: Not a directory"):
        Dataset(tmp_path / "file")


def test_without_an_extra_there_is_the_line_that_gets_it() -> None:
    with pytest.raises(CampaignError, match=r"campaigns need nomodule: pip install 'softcard\[dask\]'"):
        dataset.need("nomodule.inside")


def test_outcomes_are_counted() -> None:
    assert list(count(["ok", "fault", "ok", "died"]).items()) == [("ok", 2), ("died", 1), ("fault", 1)]
