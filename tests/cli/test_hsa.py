"""`understudy hsa`."""

from __future__ import annotations

import pytest

from understudy.cli import main

Capture = pytest.CaptureFixture[str]


def test_agents(capsys: Capture) -> None:
    code, out, _ = main(["hsa", "agents"]), *capsys.readouterr()
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()][:2] == ["gfx700", "gfx701"]
    assert "gfx803  64 CUs, 40 waves each, 1/16 double rate" in out
