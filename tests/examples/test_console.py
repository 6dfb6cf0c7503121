"""Commands in the documentation are run, page by page, and print what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PAGES = [page for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]) if BLOCK.search(page.read_text())]


def commands(page: Path) -> Iterator[tuple[str, str]]:
    """Each command of a page, with its here-document, and what it prints."""
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            head, _, rest = part.partition("\n")
            document = re.search(r"<<'(\w+)'", head)
            if document:
                body, _, rest = rest.partition(f"{document[1]}\n")
                head = f"{head}\n{body}{document[1]}\n"
            yield head, rest


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "100"}
    for command, expected in commands(page):
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environment, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.stdout == expected, command
