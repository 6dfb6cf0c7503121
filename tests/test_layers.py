"""Imports go one way: no layer of the package imports one to its right.

Every import counts: inside functions and under TYPE_CHECKING too. The package's own `__init__` collects the public
names of all layers, so only the outermost layers may import from it.
"""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "understudy"
LAYERS = (
    ("core",),
    ("ir",),
    ("isa",),
    ("engine",),
    ("image",),
    ("device",),
    ("host",),
    ("trace", "check", "attach", "report"),
    ("campaign",),
    ("cli", "testing"),
)
FACES = ("acceldev", "amdcl2", "fletcher", "gcn", "hsa", "refsi", "riscv")
"""What the package shows of its layers, interface by interface: names from below, and nothing that is their own. The
outermost layers may use them as everybody does."""
OUTERMOST = len(LAYERS) - 1
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names} | dict.fromkeys(FACES, OUTERMOST - 1)


def imported_modules(tree: ast.AST, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """Line and full name of everything that `module` imports; names imported from a package count as its modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                parts = parts[: len(parts) - node.level + is_package]
                base = ".".join([*parts, *([base] if base else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def layer(module: str) -> str | None:
    """The layer of a module of the package, "" for the package itself, None for what belongs to others."""
    top, *rest = module.split(".")
    if top != "understudy":
        return None
    return rest[0] if rest and (rest[0] in RANK or is_module(rest[0])) else ""


def is_module(name: str) -> bool:
    return (PACKAGE / name / "__init__.py").exists() or (PACKAGE / f"{name}.py").exists()


def complaints(source: str, path: str) -> list[str]:
    """What is wrong with the imports of one file; `path` is relative to the package."""
    parts = path.removesuffix(".py").split("/")
    is_package = parts[-1] == "__init__"
    parts = parts[:-1] if is_package else parts
    own = parts[0] if parts else ""
    if not own:
        return []
    if own not in RANK:
        return [f"{path}:1: {own} has no place in the order of layers"]
    found = []
    for line, name in imported_modules(ast.parse(source), ".".join(["understudy", *parts]), is_package):
        other = layer(name)
        if other is None or other == own:
            continue
        if other == "":
            if RANK[own] < OUTERMOST:
                found.append(f"{path}:{line}: {own} may not import from the package's public face ({name})")
        elif other not in RANK:
            found.append(f"{path}:{line}: {other} has no place in the order of layers")
        elif RANK[other] >= RANK[own]:
            found.append(f"{path}:{line}: {own} may not import {other} ({name})")
    return sorted(set(found))


DOOR = "__main__.py"
FILES = sorted({path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")} - {DOOR})


def test_the_door_leads_to_the_command_line_alone():
    text = (PACKAGE / DOOR).read_text(encoding="utf-8")
    assert {name for _, name in imported_modules(ast.parse(text), "understudy.__main__", False)} == {
        "sys", "understudy.cli.main",
    }  # fmt: skip


def test_no_layer_imports_one_to_its_right():
    found = [line for path in FILES for line in complaints((PACKAGE / path).read_text(encoding="utf-8"), path)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        ("core/a.py", "import understudy.isa.b", ["core/a.py:1: core may not import isa (understudy.isa.b)"]),
        ("core/a.py", "from understudy import isa", ["core/a.py:1: core may not import isa (understudy.isa)"]),
        ("isa/a.py", "from understudy.core import words\nimport numpy", []),
        (
            "core/a.py",
            "def f():\n    from ..engine.riscv.stops import Why",
            ["core/a.py:2: core may not import engine (understudy.engine.riscv.stops.Why)"],
        ),
        ("core/__init__.py", "from . import words", []),
        (
            "core/__init__.py",
            "from .. import isa",
            ["core/__init__.py:1: core may not import isa (understudy.isa)"],
        ),
        ("device/refsi/a.py", "from .commands import X\nfrom ...core import words\nfrom ..hsa import y", []),
        (
            "isa/a.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from understudy.host.port import Port",
            ["isa/a.py:3: isa may not import host (understudy.host.port.Port)"],
        ),
        (
            "trace/a.py",
            "import understudy.report.rules",
            ["trace/a.py:1: trace may not import report (understudy.report.rules)"],
        ),
        (
            "host/a.py",
            "from understudy import RuleError",
            ["host/a.py:1: host may not import from the package's public face (understudy.RuleError)"],
        ),
        ("cli/a.py", "from understudy import __version__\nfrom understudy.campaign import x", []),
        ("__init__.py", "from understudy.host import x", []),
        ("poems/a.py", "", ["poems/a.py:1: poems has no place in the order of layers"]),
    ],
)
def test_the_check_itself(path, source, expected):
    assert complaints(source, path) == expected


@pytest.mark.parametrize("face", FACES)
def test_faces_only_name_what_is_below(face):
    tree = ast.parse((PACKAGE / f"{face}.py").read_text(encoding="utf-8"))
    doc, *body = tree.body
    assert isinstance(doc, ast.Expr)
    assert all(isinstance(node, ast.ImportFrom) for node in body[:-1])
    assert isinstance(body[-1], ast.Assign)  # __all__


# ---- what is said of it ----------------------------------------------------------------------------------------------


def picture() -> tuple[set[str], set[tuple[str, str]]]:
    """Nodes and arrows of the picture in docs/architecture.md; `a --> b & c --> d` as Mermaid reads it."""
    text = (PACKAGE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    [graph] = re.findall(r"^```mermaid\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    nodes, arrows = set(), set()
    for line in graph.splitlines()[1:]:
        if node := re.match(r"\s*(\w+)\[", line):
            nodes.add(node[1])
            continue
        steps = [[name.strip() for name in step.split("&")] for step in line.split("-->")]
        arrows |= {(a, b) for below, above in pairwise(steps) for a in below for b in above}
    return nodes, arrows


def test_the_picture_of_the_architecture_is_the_order_of_imports():
    nodes, arrows = picture()
    floors = [[name for name in names if is_module(name)] for names in LAYERS]
    floors = [names for names in floors if names]
    assert nodes == {name for names in floors for name in names}
    assert arrows == {(a, b) for below, above in pairwise(floors) for a in below for b in above}


OPENERS = {
    "RefSiDevice": {"refsi.driver"},
    "AcceldevDevice": {"acceldev.port"},
    "FletcherDevice": {"fletcher.platform", "fletcher.port"},
}
"""Modules of `host` that name a device's class: to open one in this process. host/port.py says so."""


def test_host_libraries_reach_devices_through_their_ports():
    found = {name: set() for name in OPENERS}
    for path in (PACKAGE / "host").rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE / "host").with_suffix("").parts)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for _, name in imported_modules(tree, f"understudy.host.{module}", False):
            if name.rpartition(".")[2] in found:
                found[name.rpartition(".")[2]].add(module)
    assert found == OPENERS
