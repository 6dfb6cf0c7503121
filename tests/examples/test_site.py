"""The site of docs/: Sphinx finds every page in the menu, and nothing that it would warn of."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def site(source: Path, target: Path) -> str:
    """What Sphinx says of a site that it reads and resolves, and does not write."""
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "dummy", "-c", source / "site", source, target]
    return subprocess.run(command, capture_output=True, text=True, timeout=500, check=False).stderr.strip()


@pytest.mark.slow
def test_there_is_nothing_to_warn_of(tmp_path: Path) -> None:
    assert site(ROOT / "docs", tmp_path) == ""
