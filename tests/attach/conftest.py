"""What the tests of sockets share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder of a short name wherever temporary files are kept: the path of a socket has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="u", dir="/tmp") as folder:
        yield Path(folder).resolve()
