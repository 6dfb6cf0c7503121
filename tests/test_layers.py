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

PACKAGE = Path(__file__).parents[1] / "src" / "softcard"
LAYERS = (
    ("core",),
    ("ir",),
    ("isa",),
    ("engine",),
    ("image",),
    ("device",),
    ("host",),
    ("trace", "check", "report"),
    ("attach",),
    ("campaign",),
    ("cli", "testing"),
)
FACES = ("acceldev", "amdcl2", "fletcher", "gcn", "hsa", "refsi", "riscv")
"""What the package shows of its layers, interface by interface: names from below, and nothing that is their own. The
outermost layers may use them as everybody does."""
OUTERMOST = len(LAYERS) - 1
WITH_EFFECT = ("triton",)
"""Public modules whose import has an effect: that of Triton selects the driver."""
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
RANK |= dict.fromkeys((*FACES, *WITH_EFFECT), OUTERMOST - 1)
PLUGINS = ("coverage",)
"""Public modules that are plug-ins of other programs. No module of the package imports them."""
RANK |= dict.fromkeys(PLUGINS, OUTERMOST + 1)


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
    if top != "softcard":
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
    for line, name in imported_modules(ast.parse(source), ".".join(["softcard", *parts]), is_package):
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
    assert {name for _, name in imported_modules(ast.parse(text), "softcard.__main__", False)} == {
        "sys", "softcard.cli.main",
    }  # fmt: skip


def test_no_layer_imports_one_to_its_right():
    found = [line for path in FILES for line in complaints((PACKAGE / path).read_text(encoding="utf-8"), path)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        ("core/a.py", "import softcard.isa.b", ["core/a.py:1: core may not import isa (softcard.isa.b)"]),
        ("core/a.py", "from softcard import isa", ["core/a.py:1: core may not import isa (softcard.isa)"]),
        ("isa/a.py", "from softcard.core import words\nimport numpy", []),
        (
            "core/a.py",
            "def f():\n    from ..engine.riscv.api import Why",
            ["core/a.py:2: core may not import engine (softcard.engine.riscv.api.Why)"],
        ),
        ("core/__init__.py", "from . import words", []),
        (
            "core/__init__.py",
            "from .. import isa",
            ["core/__init__.py:1: core may not import isa (softcard.isa)"],
        ),
        ("device/refsi/a.py", "from .commands import X\nfrom ...core import words\nfrom ..hsa import y", []),
        (
            "isa/a.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from softcard.host.port import Port",
            ["isa/a.py:3: isa may not import host (softcard.host.port.Port)"],
        ),
        (
            "trace/a.py",
            "import softcard.report.rules",
            ["trace/a.py:1: trace may not import report (softcard.report.rules)"],
        ),
        (
            "host/a.py",
            "from softcard import RuleError",
            ["host/a.py:1: host may not import from the package's public face (softcard.RuleError)"],
        ),
        ("cli/a.py", "from softcard import __version__\nfrom softcard.campaign import x", []),
        ("__init__.py", "from softcard.host import x", []),
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


# ---- folders of engines and devices ----------------------------------------------------------------------------------

FOLDERS = {
    "engine/gcn": (
        (".",),
        ("matrix",),
        ("jit",),
        ("reference", "threaded"),
        ("tiered",),
        ("shadow", "races", "waits"),
        ("strict",),
        ("checks",),
    ),
    "engine/riscv": ((".",), ("jit",), ("shadow", "races"), ("code_stores",), ("checks",)),
    "device/refsi": (
        (".",),
        ("toolkit",),
        ("refsidrv",),
        ("spec",),
        ("settings", "guarded", "profiles"),
        ("native_commands",),
        ("cmp",),
        ("device",),
    ),
}
"""The order of the folders in a folder, "." for its own modules: none imports one of its level or of a later one.

A module of the folder that depends on other folders has a level of its own.
"""
CHECKS = {
    "engine/gcn": ("shadow", "races", "waits", "checks"),
    "engine/riscv": ("shadow", "races", "code_stores", "checks"),
}
"""The folders with checks: engines know none by name."""
REGISTRIES = (
    "softcard.engine.gcn.checks.registry",
    "softcard.engine.riscv.checks",
    "softcard.core.memory_check.guard_of",
)
"""What devices and hosts import of checks: modules and a function that make checks from their names."""

SCOREBOARD = {"strict": "softcard.engine.gcn.waits."}
"""The strict memory shows the results of loads after the waits for them, by the scoreboard of the check `waits`."""


def folder(name: str, inside: str) -> str | None:
    """The folder of a module or of a name in it, below the folder `inside`; None for what lies elsewhere."""
    start = f"softcard.{inside.replace('/', '.')}."
    if not name.startswith(start):
        return None
    first = name.removeprefix(start).partition(".")[0]
    is_own = any(first in names for names in FOLDERS[inside])
    return first if is_own or (PACKAGE / inside / first).is_dir() else "."


def wrong_arrows(source: str, path: str, inside: str) -> list[str]:
    """The imports of one file that do not go down from its folder in `inside`; `path` is relative to the package."""
    module = f"softcard.{path.removesuffix('.py').replace('/', '.')}"
    rank = {name: number for number, names in enumerate(FOLDERS[inside]) for name in names}
    own = folder(module, inside)
    if own not in rank:
        return [f"{path}:1: {own} has no place in the order of folders"]
    found = []
    for line, name in imported_modules(ast.parse(source), module, path.endswith("__init__.py")):
        other = folder(name, inside)
        if other is None or other == own:
            continue
        if other not in rank:
            found.append(f"{path}:{line}: {other} has no place in the order of folders")
        elif rank[other] >= rank[own]:
            found.append(f"{path}:{line}: {own} may not import {other} ({name})")
    return found


@pytest.mark.parametrize("inside", FOLDERS)
def test_no_folder_imports_a_later_one(inside):
    files = [path for path in FILES if path.startswith(f"{inside}/")]
    assert files
    found = [
        line for path in files for line in wrong_arrows((PACKAGE / path).read_text(encoding="utf-8"), path, inside)
    ]
    assert not found, "\n".join(found)


def test_the_check_of_folders_itself():
    path, gcn = "engine/gcn/jit/a.py", "softcard.engine.gcn"
    wrong = [f"{path}:1: jit may not import races ({gcn}.races.watch)"]
    assert wrong_arrows(f"import {gcn}.races.watch", path, "engine/gcn") == wrong
    assert wrong_arrows(f"from {gcn}.hooks import Check\nfrom {gcn}.jit import layout", path, "engine/gcn") == []
    assert wrong_arrows(f"from {gcn}.threaded import b", "engine/gcn/reference/a.py", "engine/gcn")
    assert wrong_arrows(f"from {gcn}.jit import b", "engine/gcn/api.py", "engine/gcn")


def imports_of(path: str) -> list[str]:
    """The full names of everything that a file of the package imports."""
    tree = ast.parse((PACKAGE / path).read_text(encoding="utf-8"))
    module = f"softcard.{path.removesuffix('.py').replace('/', '.')}"
    return [name for _, name in imported_modules(tree, module, path.endswith("__init__.py"))]


def is_of_check(name: str) -> bool:
    """Return True if a module or a name belongs to a check, and is no registry of checks."""
    if name.startswith(REGISTRIES):
        return False
    is_in_folder = any(folder(name, inside) in folders for inside, folders in CHECKS.items())
    return is_in_folder or name.startswith("softcard.core.memory_check")


@pytest.mark.parametrize("inside", CHECKS)
def test_engines_know_no_check_by_name(inside):
    for path in FILES:
        own = folder(f"softcard.{path.removesuffix('.py').replace('/', '.')}", inside)
        if own is not None and own not in CHECKS[inside]:
            names = [name for name in imports_of(path) if not name.startswith(SCOREBOARD.get(own, "-"))]
            assert not [name for name in names if is_of_check(name) or name.startswith("softcard.core.checks")], path


def test_devices_and_hosts_import_checks_from_registries_only():
    for path in FILES:
        if path.startswith(("device/", "host/")):
            assert not [name for name in imports_of(path) if is_of_check(name)], path


def test_the_check_of_checks_itself():
    assert is_of_check("softcard.engine.riscv.races.watch.HartRaces")
    assert is_of_check("softcard.engine.gcn.shadow")
    assert is_of_check("softcard.core.memory_check.MemoryCheck")
    assert not is_of_check("softcard.core.memory_check.guard_of")
    assert not is_of_check("softcard.engine.riscv.checks.hart_checks")
    assert not is_of_check("softcard.engine.riscv.hooks.HartCheck")


NAMES = {"MEMORY", "LEAKS", "INIT", "FIDELITY", "WAITS", "SYNC", "RACES", "LANES"}
NAME_A_CHECK = {
    "cli/demo_cases.py": NAMES,
    "core/memory_check.py": {"MEMORY"},
    "device/hsa/sync.py": {"SYNC"},
    "engine/gcn/checks/barriers.py": {"SYNC"},
    "engine/gcn/checks/bounds.py": {"MEMORY"},
    "engine/gcn/checks/registry.py": NAMES - {"LANES"},
    "engine/riscv/checks.py": {"INIT", "RACES", "WAITS"},
}
"""Modules outside of the folders of checks that import the name of a check: demos, registries, and code of checks."""
MOST_FILES = 5


def named_checks(path: str) -> set[str]:
    """The names of checks that a file imports."""
    return {name.rpartition(".")[2] for name in imports_of(path) if name.startswith("softcard.core.checks.")} & NAMES


def test_settings_and_devices_treat_checks_by_their_kind():
    own = [f"{inside}/{name}/" for inside, names in CHECKS.items() for name in names if name != "checks"]
    own.append("engine/races/")
    found = {path: names for path in FILES if not path.startswith(tuple(own)) and (names := named_checks(path))}
    assert found == NAME_A_CHECK
    for name in NAMES:
        assert len([names for names in found.values() if name in names]) < MOST_FILES, name  # and core/checks.py


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
        for _, name in imported_modules(tree, f"softcard.host.{module}", False):
            if name.rpartition(".")[2] in found:
                found[name.rpartition(".")[2]].add(module)
    assert found == OPENERS
