"""The source of native functions: found, parsed, and what of it is constant."""

from __future__ import annotations

import ast
import ctypes
import linecache
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NoReturn, Protocol

from understudy.core.errors import ModelBug

ALL: Final = (1 << 64) - 1


def layout_or_none(found: Any) -> Any:
    """What was found, if it is a layout."""
    return found if isinstance(found, type) and issubclass(found, ctypes.Structure) else None


class Readable(Protocol):
    """What is known of a native function: see `native.Function`."""

    function: Any
    name: str
    scope: dict[str, Any]

    @property
    def parameters(self) -> tuple[str, ...]:
        """Their names."""

    def layout(self, parameter: str) -> Any:
        """The layout at whose address a parameter points; None for plain words."""

    def global_(self, name: str) -> Any:
        """What a name of the module, or a builtin one, stands for; None where there is none."""


class SourceChanged(ModelBug):
    """Somebody changed a source under this process."""


class Source:
    """A function's syntax tree, and what its names stand for."""

    def __init__(self, function: Readable) -> None:
        self.function = function
        code = function.function.__code__
        self.path: str = code.co_filename
        self.locals = set(code.co_varnames)
        linecache.checkcache(self.path)
        text = "".join(linecache.getlines(self.path, function.scope))
        found = _functions(text).get((function.name, code.co_firstlineno))
        if found is None or found[1] != code.co_code:
            raise SourceChanged(f"{self.path}:{code.co_firstlineno}: {function.name}() cannot be read as it was loaded")
        self.tree = found[0]

    def refuse(self, node: ast.AST, why: str = "has no native form") -> NoReturn:
        """Say what cannot be compiled, and where it stands."""
        line = getattr(node, "lineno", self.tree.lineno)
        raise ModelBug(f"{self.path}:{line}: {ast.unparse(node).splitlines()[0]!r} {why}")

    def value(self, node: ast.AST) -> Any:
        """The object that a name or attribute outside the function stands for; None where there is none."""
        if isinstance(node, ast.Name) and node.id not in self.locals:
            return self.function.global_(node.id)
        if isinstance(node, ast.Attribute):
            return getattr(self.value(node.value), node.attr, None)
        return None

    def constant(self, node: ast.AST) -> int | None:
        """The number that stands for an expression wherever it is known beforehand; None elsewhere."""
        found: Any = None
        match node:
            case ast.Constant(value=value):
                found = value
            case ast.Name() | ast.Attribute():
                found = self.value(node)
            case ast.Call(func=function, args=[made]) if self.value(function) is ctypes.sizeof:
                found = ctypes.sizeof(self.value(made))
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
                found = -value
        if not isinstance(found, int):
            return None
        if not -(1 << 63) <= found <= ALL or (found < 0 and not isinstance(node, ast.UnaryOp)):
            self.refuse(node, "is no word of 64 bits")
        return int(found)

    def layout(self, node: ast.AST) -> Any:
        """The layout whose ``from_address`` an expression calls; None for others."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "from_address":
            return layout_or_none(self.value(node.func.value))
        return None


@cache
def _functions(text: str) -> dict[tuple[str, int], tuple[ast.FunctionDef, bytes]]:
    """The decorated functions of a module by name and line, and their compiled code."""
    codes = {(each.co_name, each.co_firstlineno): each.co_code for each in _codes(compile(text, "native", "exec"))}
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef) and node.decorator_list]
    return {place: (node, codes[place]) for node in nodes if (place := (node.name, node.decorator_list[0].lineno))}


def _codes(code: Any) -> Iterator[Any]:
    """A code object and all inside it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, type(code)):
            yield from _codes(each)
