"""Configuration of the Sphinx site of docs/ (`make docs`): pages are plain Markdown, site-only additions are here."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

from docutils import nodes
from pygments.lexers.python import PythonLexer
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

ROOT = Path(__file__).resolve().parents[2]
_project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "Softcard"
author = _project["authors"][0]["name"]
version = release = _project["version"]
extensions = ["myst_parser", "sphinx_copybutton"]
copybutton_prompt_text = "$ "
copybutton_here_doc_delimiter = "END"
copybutton_selector = "div:not(.highlight-text):not(.highlight-plain):not(.highlight-none) > div.highlight pre"
exclude_patterns = ["site/*.py"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = f"Softcard {version}"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
linkcheck_anchors = False

OPCODES = ("opcodes/scalar", "opcodes/vector", "opcodes/comparisons", "opcodes/memory")
RECORDS = sorted(f"design/{page.stem}" for page in (ROOT / "docs" / "design").glob("[0-9]*.md"))
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
    "Machine code": ["gcn", "gcn-opcodes", *OPCODES, "riscv-vectors", "engines"],
    "Checks": [f"checks/{name}" for name in ("index", "memory", "races", "values", "waits", "sync")],
    "Tools": ["command-line", "assembly-and-running", "reports", "campaigns", "findings"],
    "How to": [
        "pytest",
        "howto/ci",
        "howto/coverage",
        "howto/qemu",
        "howto/hip",
        "howto/opencl",
        "howto/triton",
        "howto/tinygrad",
        "howto/iree",
        "howto/debugging",
    ],
    "Reference": [
        "exact",
        "opencl-conformance",
        "rules",
        "public",
        "api",
        "performance",
        "performance-tables",
        "performance-history",
        "glossary",
    ],
    "Inside": ["architecture", "design/index", *RECORDS, "site/contributing", "site/security", "site/changes"],
}
"""The pages of the site, in the order of its menu. A page that no group names is an error."""
BESIDE = {"site/contributing": "CONTRIBUTING.md", "site/security": "SECURITY.md", "site/changes": "CHANGELOG.md"}
"""Pages of the site that are files of the repository outside docs/."""
MEASURED = {"performance-history": "history", "performance-tables": "tables"}
"""Pages with a comment that is replaced by results of the benchmarks, and its text."""


def benchmarks(name: str) -> str:
    """Return the plots of all runs ("history") or the tables of the last run ("tables")."""
    folder = ROOT / "benchmarks"
    if not folder.is_dir():
        return "This copy of Softcard has no benchmarks: see the repository."
    sys.path.insert(0, str(folder))
    try:
        from history import read
        from plots import page
        from report import tables
    finally:
        sys.path.remove(str(folder))
    return page(read()) if name == "history" else tables()


def layers(graph: re.Match[str]) -> str:
    """Return a Mermaid graph whose arrows lead from layer to layer as HTML, which needs no script from a network."""
    texts = dict(re.findall(r'^ +(\w+)\["(.*)"\]$', graph[1], re.MULTILINE))
    steps = [step for line in graph[1].splitlines() if "-->" in line for step in line.split("-->")]
    rows = dict.fromkeys(tuple(re.findall(r"\w+", step)) for step in steps)
    boxes = ["".join(f"<p>{texts[name]}</p>" for name in row) for row in rows]
    return '<div class="layers">' + "".join(f"<div>{row}</div>" for row in reversed(boxes)) + "</div>"


def adapt(app: Sphinx, name: str, source: list[str]) -> None:
    """Add the menu to the first page, the text to pages of files outside docs/, and site links to such files."""
    if name in BESIDE:
        source[0] = (ROOT / BESIDE[name]).read_text(encoding="utf-8").replace("](docs/", "](../")
    to_root = "" if name in BESIDE else "../"
    to_site = "" if name in BESIDE else "site/"
    for page, file in BESIDE.items():
        source[0] = source[0].replace(f"]({to_root}{file})", f"]({to_site}{Path(page).name}.md)")
    source[0] = re.sub(r"^```mermaid\n(.*?)^```$", layers, source[0], flags=re.DOTALL | re.MULTILINE)
    if name in MEASURED:
        source[0] = source[0].replace(f"<!-- {MEASURED[name]} -->", benchmarks(MEASURED[name]))
    if name == "index":
        for caption, pages in CONTENTS.items():
            lines = [":hidden:", f":caption: {caption}", "", *pages]
            source[0] += "\n```{toctree}\n" + "\n".join(lines) + "\n```\n"


ID = re.compile(r"(?:[a-z][\w-]*/)?[a-z0-9]+(?:-[a-z0-9]+)*")
"""The id of a rule, a choice, a lint or a kind of finding; single words are ids on the pages of checks only."""


def anchors(app: Sphinx, document: nodes.document) -> None:
    """Make ids of rules, choices, lints and findings that begin a cell or an item anchors, and links to themselves."""
    for first in document.findall(lambda node: isinstance(node, nodes.entry | nodes.list_item)):
        if not first.children or not isinstance(first[0], nodes.paragraph):
            continue
        for name in list(first[0].children):
            text = name.astext()
            is_id = ID.fullmatch(text) and (re.search("[-/]", text) or app.env.docname.startswith("checks/"))
            if isinstance(name, nodes.literal) and is_id and text not in document.ids:
                link = nodes.reference("", "", name.deepcopy(), internal=True, refid=text, ids=[text])
                first[0].replace(name, link)
                document.note_explicit_target(link)
            elif not isinstance(name, nodes.literal) and text != ", ":
                break


def remade(app: Sphinx, env: BuildEnvironment, *changes: set[str]) -> list[str]:
    """Return pages whose text comes from elsewhere: Sphinx cannot see that it has changed."""
    return [*BESIDE, *MEASURED, "index"]


def setup(app: Sphinx) -> None:
    """Register what this file adds, when Sphinx loads it."""
    app.add_lexer("plain", TextLexer)
    app.add_lexer("ipython", PythonLexer)
    app.connect("doctree-read", anchors)
    app.connect("source-read", adapt)
    app.connect("env-get-outdated", remade)
