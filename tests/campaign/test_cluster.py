"""What ends a campaign: workers that lack something, and what its file asks for in vain."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from understudy.campaign import cluster
from understudy.campaign.dataset import Dataset
from understudy.campaign.errors import CampaignError
from understudy.campaign.plan import parse_plan
from understudy.cli import main

pytest.importorskip("distributed")
Capture = pytest.CaptureFixture[str]


class Workers:
    """A client whose workers answer this."""

    dashboard_link = "http://nowhere"

    def __init__(self, **answers: Any) -> None:
        self._answers = answers

    def wait_for_workers(self, count: int, timeout: float) -> None:
        if not self._answers:
            raise TimeoutError("none came")

    def run(self, function: Any, compilers: Any, on_error: str) -> dict[str, Any]:
        assert compilers == ("clang-19",)
        return self._answers


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        (Workers(), "no worker has come within 30 s: none came"),
        (Workers(a=(), b=("clang-19",)), "worker b has no compiler clang-19"),
        (Workers(a=(), b=ImportError("no understudy")), "worker b cannot run tasks: ImportError: no understudy"),
    ],
)
def test_a_worker_that_lacks_something_is_named(workers: Workers, message: str, tmp_path: Path) -> None:
    text = "[[matrix]]\nprograms = ['generate:rv64']\ncompilers = ['clang-19']"
    with pytest.raises(CampaignError) as caught:
        cluster.run(parse_plan(text, "c.toml", tmp_path), Dataset(tmp_path), workers, ("python",))
    assert str(caught.value) == message


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense://x"])
def test_a_scheduler_that_is_not_there(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.5)
    before = threading.enumerate()
    with pytest.raises(CampaignError, match=f"cannot reach the scheduler {address}: "), cluster.connected(address, 1):
        pass
    assert not set(threading.enumerate()) - set(before)  # (one of before may have ended)


def test_a_kernel_that_there_is_not_is_told_with_its_line(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "k.s").write_text(
        (Path(__file__).parents[2] / "examples" / "campaigns" / "kernels" / "scale.s").read_text()
    )
    file = tmp_path / "c.toml"
    file.write_text('[[matrix]]\nprograms = ["k.s"]\n\nkernels = ["scal"]')
    task = next(parse_plan(file.read_text(), str(file), tmp_path).tasks())
    assert main(["campaign", str(file), "--only", task.id]) == 2
    assert capsys.readouterr().err == f"error: no kernel 'scal'; close to it: scale, at line {file}:4\n"
    assert main(["campaign", str(file)]) == 2
    assert capsys.readouterr().err == "error: --output is missing: the folder where results go\n"
    file.write_text("[[matrix]\n")
    assert main(["campaign", str(file)]) == 2
    assert f"at line {file}:1" in capsys.readouterr().err
