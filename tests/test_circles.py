"""No circles of imports: of the modules of the package at most two import each other.

Every import counts, inside functions and under TYPE_CHECKING too: what cannot be read without each other is one thing.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.test_layers import imported_modules

SOURCE = Path(__file__).parents[1] / "src"
MOST = 2
"""Modules of a circle: two halves of one subject may name each other."""

Graph = Mapping[str, set[str]]


@cache
def imports() -> dict[str, set[str]]:
    """What each module of the package imports of it. A package counts where its own names are imported from it."""
    files = {}
    for path in (SOURCE / "softcard").rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    graph = {}
    for module, path in files.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        named = (name for _, name in imported_modules(tree, module, path.name == "__init__.py"))
        found = {name if name in files else name.rpartition(".")[0] for name in named}
        graph[module] = (found & files.keys()) - {module}
    return graph


def circles(graph: Graph) -> Iterator[list[str]]:
    """Groups of two or more modules each of which leads to all others (Tarjan's strongly connected components)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []

    def visit(module: str) -> Iterator[list[str]]:
        number[module] = low[module] = len(number)
        path.append(module)
        for other in sorted(graph.get(module, ())):
            if other not in number:
                yield from visit(other)
            if other in path:
                low[module] = min(low[module], low[other])
        if low[module] == number[module]:
            group = path[path.index(module) :]
            del path[path.index(module) :]
            if len(group) > 1:
                yield sorted(group)

    for module in sorted(graph):
        if module not in number:
            yield from visit(module)


def test_no_more_than_two_modules_import_each_other():
    found = [group for group in circles(imports()) if len(group) > MOST]
    assert not found, "\n".join(", ".join(group) for group in found)


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"a": {"b"}, "b": set()}, []),
        ({"a": {"b"}, "b": {"a"}}, [["a", "b"]]),
        ({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}, [["a", "b", "c"]]),
        ({"a": {"b", "c"}, "b": {"a"}, "c": {"d"}, "d": {"e"}, "e": {"c"}}, [["c", "d", "e"], ["a", "b"]]),
        ({"a": {"b"}, "b": {"c", "d"}, "c": {"b"}, "d": {"a"}}, [["a", "b", "c", "d"]]),
    ],
)
def test_the_search_itself(graph, expected):
    assert list(circles(graph)) == expected


def test_every_import_is_seen():
    graph = imports()
    assert "softcard.core.errors" in graph["softcard.device.hsa.device"]
    assert "softcard.attach.fletcher" in graph["softcard.cli.attach.serve_fletcher"]  # inside a function, of a package
