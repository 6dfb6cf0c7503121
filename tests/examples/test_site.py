"""The site of docs/: Sphinx warns of nothing, names that errors mention have anchors, and pages need no network."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from softcard.core import memory_check
from softcard.core.diagnostics import link, page_of
from softcard.core.rule import load_choices, load_rules
from softcard.trace.page_file import PACKAGES

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; Sphinx must say nothing about it."""
    target = tmp_path_factory.mktemp("site")
    words = ["-q", "-b", "html", "-c", str(ROOT / "docs" / "site"), str(ROOT / "docs"), str(target)]
    # Sphinx's trees stay until its end: a sixth of its time would be searches for garbage in them.
    build = f"import gc; gc.set_threshold(200_000); from sphinx.cmd.build import main; raise SystemExit(main({words}))"
    command = [sys.executable, "-c", build]
    built = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert built.stderr.strip() == ""
    return target


def named() -> Iterator[str]:
    """All ids with an anchor: of rules, choices, and findings of memory, which errors, lints and findings name."""
    documented = {name: package for name, package in PACKAGES.items() if name != "vfio-user"}
    for package in (*documented.values(), "softcard.isa.riscv.vector"):
        yield from load_rules(package)
        yield from load_choices(package)
    for kind in memory_check.SUGGESTIONS:
        yield f"memory/{kind}"


@pytest.mark.slow(seconds=25)
def test_names_have_anchors(site: Path) -> None:
    lacking = []
    for name in named():
        anchor = name if not name.startswith("memory/") else name.partition("/")[2]
        page, _, fragment = link(str(site), page_of(name), anchor).partition("#")
        if f'id="{fragment}"' not in Path(page).read_text(encoding="utf-8"):
            lacking.append(name)
    assert lacking == []


@pytest.mark.slow
def test_pages_load_nothing_from_the_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 80
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert re.findall(r"<(?:script|img|iframe|link)\b[^>]*(?:src|href)=\"(?:https?:)?//[^\"]*", text) == [], page
        assert "language-mermaid" not in text
