"""How Sphinx makes the site of docs/ (`make docs`): the pages are plain Markdown, what only a site needs is here."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

ROOT = Path(__file__).resolve().parents[2]
_project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "Understudy"
author = _project["authors"][0]["name"]
version = release = _project["version"]
extensions = ["myst_parser", "sphinxcontrib.mermaid"]
exclude_patterns = ["site/*.py"]
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
html_theme = "furo"
html_title = f"Understudy {version}"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
linkcheck_anchors = False

OPCODES = ("opcodes/scalar", "opcodes/vector", "opcodes/comparisons", "opcodes/memory")
CONTENTS = {
    "Ten minutes": [
        "installing",
        "tutorials/refsi",
        "tutorials/hsa",
        "tutorials/gcn",
        "tutorials/acceldev",
        "tutorials/fletcher",
    ],
    "Interfaces": [
        "refsi",
        "refsi-kernels",
        "acceldev",
        "hsa-host",
        "opencl",
        "hsa",
        "amdcl2",
        "fletcher",
        "fletcher-maps",
    ],
    "Machine code": ["gcn", "waits", "gcn-opcodes", *OPCODES, "riscv-vectors", "engines"],
    "Tools": ["command-line", "assembly-and-running", "checks-of-values", "sync", "reports", "campaigns", "findings"],
    "How to": [
        "pytest",
        "howto/checks",
        "howto/ci",
        "howto/qemu",
        "howto/hip",
        "howto/rocm",
        "howto/debugging",
        "howto/vscode",
    ],
    "Reference": ["exact", "rules", "public", "api", "performance", "performance-history", "glossary"],
    "Inside": ["architecture", "decisions", "site/contributing", "site/security", "site/changes"],
}
"""The pages of the site, in the order of its menu. A page that is in none of the groups is an error."""
BESIDE = {"site/contributing": "CONTRIBUTING.md", "site/security": "SECURITY.md", "site/changes": "CHANGELOG.md"}
"""Pages of the site that are files of the repository beside docs/."""


def history() -> str:
    """Plots of what all benchmarks found, where there are benchmarks: distributions have none."""
    folder = ROOT / "benchmarks"
    if not folder.is_dir():
        return "Of this copy of Understudy the benchmarks are no part."
    sys.path.insert(0, str(folder))
    try:
        from history import read
        from plots import page
    finally:
        sys.path.remove(str(folder))
    return page(read())


def adapt(app: Sphinx, name: str, source: list[str]) -> None:
    """Give the first page the menu, pages of files beside docs/ their text, and links to those files their pages."""
    if name in BESIDE:
        source[0] = (ROOT / BESIDE[name]).read_text(encoding="utf-8").replace("](docs/", "](../")
    to_root = "" if name in BESIDE else "../"
    to_site = "" if name in BESIDE else "site/"
    for page, file in BESIDE.items():
        source[0] = source[0].replace(f"]({to_root}{file})", f"]({to_site}{Path(page).name}.md)")
    if name == "performance-history":
        source[0] = source[0].replace("<!-- history -->", history())
    if name == "index":
        for caption, pages in CONTENTS.items():
            lines = [":hidden:", f":caption: {caption}", "", *pages]
            source[0] += "\n```{toctree}\n" + "\n".join(lines) + "\n```\n"


def remade(app: Sphinx, env: BuildEnvironment, *changes: set[str]) -> list[str]:
    """Pages whose text comes from elsewhere: Sphinx cannot see that it has changed."""
    return [*BESIDE, "index", "performance-history"]


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_lexer("plain", TextLexer)
    app.connect("source-read", adapt)
    app.connect("env-get-outdated", remade)
