"""No chain of the package's own classes is longer than three: what is put together is put together from parts."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
LONGEST = 3
ROOT_ERROR = "softcard.core.errors.SoftcardError"
"""Not counted: what is caught as a kind of error is that kind of error, and all are kinds of this one."""


def _names(tree: ast.Module, module: str) -> dict[str, str]:
    """Full names of what a module imports and of its own classes."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module} imports relatively"
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ClassDef):
            names[node.name] = f"{module}.{node.name}"
    return names


def _full_name(base: ast.expr, names: dict[str, str]) -> str:
    if isinstance(base, ast.Subscript):  # a generic class
        base = base.value
    text = ast.unparse(base)
    first, dot, rest = text.partition(".")
    return names.get(first, first) + dot + rest


def _classes() -> Iterator[tuple[str, list[str]]]:
    """All classes with their bases. Protocols are left out: they say what a part can do and have nothing to inherit."""
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = _names(tree, module)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases = [_full_name(base, names) for base in node.bases]
                if "typing.Protocol" not in bases:
                    yield f"{module}.{node.name}", bases


def chains(classes: dict[str, list[str]]) -> dict[str, list[str]]:
    """For each class the longest chain from it to its last own ancestor, itself included."""

    def chain(name: str) -> list[str]:
        if name not in classes or name == ROOT_ERROR:
            return []
        return [name, *max((chain(base) for base in classes[name]), key=len, default=[])]

    return {name: chain(name) for name in classes}


def test_a_chain_is_counted_with_both_its_ends():
    found = chains({"a": ["x"], "b": ["a"], "c": ["x", "b"], "d": [ROOT_ERROR], ROOT_ERROR: ["Exception"]})
    assert found["c"] == ["c", "b", "a"]
    assert found["d"] == ["d"]


def test_no_chain_of_classes_is_longer_than_three():
    found = chains(dict(_classes()))
    assert len(found) > 500, "the classes of the package were not found"
    long = [" <- ".join(chain) for chain in found.values() if len(chain) > LONGEST]
    assert not long, "\n".join(long)
