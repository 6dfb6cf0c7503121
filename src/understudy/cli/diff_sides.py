"""What `understudy diff` compares: two files, and what is wanted of their difference."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from understudy.cli.exits import UsageError
from understudy.cli.files import MAX_FILE_BYTES, reading
from understudy.core.sources import read_at_most

EQUAL: Final = "no difference"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to compare, and how much to show."""

    ignored: tuple[str, ...]
    context: int
    every: bool


Found = dict[str, Any]
"""What --json prints; ``equal`` says whether there is no difference, ``lines`` hold the text for people."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the files, open at its start."""

    path: Path
    file: BinaryIO

    def data(self) -> bytes:
        """All of it."""
        with reading(self.path):
            data = read_at_most(self.file, MAX_FILE_BYTES)
        if data is None:
            raise UsageError(f"{self.path} is larger than {MAX_FILE_BYTES} bytes")
        return data
