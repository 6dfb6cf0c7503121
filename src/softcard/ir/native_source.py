"""Source code of native functions: lookup, syntax tree, and constant folding."""

from __future__ import annotations

import ast
import ctypes
import linecache
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from threading import Lock
from typing import Any, Final, NoReturn, Protocol, runtime_checkable

from softcard.core.errors import ModelBug

ALL: Final = (1 << 64) - 1
PARSES: Final = 8
"""The number of attempts to parse a source before an error is reported."""


def layout_or_none(found: Any) -> Any:
    """Return the argument if it is a layout (see `native.layout`), else None."""
    return found if isinstance(found, type) and issubclass(found, ctypes.Structure) else None


@runtime_checkable
class Readable(Protocol):
    """The properties of a native function that compilation needs; see `native.Function`."""

    function: Any
    name: str
    scope: dict[str, Any]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters."""

    def __hash__(self) -> int:
        """Return a stable hash, so that functions can be keys of caches."""

    def layout(self, parameter: str) -> Any:
        """Return the layout at the address that a parameter holds; None if the parameter is a plain word."""

    def global_(self, name: str) -> Any:
        """Return the value of a global or builtin name of the function's module; None if it is undefined."""


class SourceChanged(ModelBug):
    """The error for a source file that was changed while this process was running."""


class Source:
    """A function's syntax tree, and the values of its names."""

    def __init__(self, function: Readable, constants: Mapping[str, int] = {}) -> None:
        self.function = function
        self.constants = constants
        """The parameters whose values are known at compile time."""
        code = function.function.__code__
        self.path: str = code.co_filename
        self.locals = set(code.co_varnames)
        linecache.checkcache(self.path)
        text = "".join(linecache.getlines(self.path, function.scope))
        found = _functions(text).get((function.name, code.co_firstlineno))
        if found is None or found[1] != code.co_code:
            raise SourceChanged(
                f"{self.path}:{code.co_firstlineno}: the source of {function.name}() has changed since it was loaded"
            )
        self.tree = found[0]
        self.assigned = _assigned(self.tree)

    def refuse(self, node: ast.AST, why: str = "cannot be compiled to native code") -> NoReturn:
        """Raise a `ModelBug` with file and line for the construct `node`; `why` is the reason."""
        line = getattr(node, "lineno", self.tree.lineno)
        raise ModelBug(f"{self.path}:{line}: {ast.unparse(node).splitlines()[0]!r} {why}")

    def value(self, node: ast.AST) -> Any:
        """Return the object to which a name or attribute from outside the function refers; None if undefined."""
        if isinstance(node, ast.Name) and node.id not in self.locals:
            return self.function.global_(node.id)
        if isinstance(node, ast.Attribute):
            return getattr(self.value(node.value), node.attr, None)
        return None

    def constant(self, node: ast.AST) -> int | None:
        """Return the value of a constant expression; None for other expressions."""
        found: Any = None
        match node:
            case ast.Constant(value=value):
                found = value
            case ast.Name(id=name) if name in self.constants:
                found = self.constants[name]
            case ast.Name() | ast.Attribute():
                found = self.value(node)
            case ast.Call(func=function, args=[made]) if self.value(function) is ctypes.sizeof:
                found = ctypes.sizeof(self.value(made))
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
                found = -value
        if not isinstance(found, int):
            return None
        if not -(1 << 63) <= found <= ALL or (found < 0 and not isinstance(node, ast.UnaryOp)):
            self.refuse(node, "does not fit 64 bits")
        return int(found)

    def static(self, node: ast.expr) -> bool | None:
        """Return the truth value of a condition that is constant; None for other conditions."""
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                found = self.static(operand)
                return None if found is None else not found
            case ast.BoolOp(op=op, values=values):
                decides, each = isinstance(op, ast.Or), [self.static(value) for value in values]
                return decides if decides in each else None if None in each else not decides
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as op], comparators=[right]):
                one, other = self.constant(left), self.constant(right)
                return None if one is None or other is None else (one == other) is isinstance(op, ast.Eq)
        number = self.constant(node)
        return None if number is None else bool(number)

    def layout(self, node: ast.AST) -> Any:
        """Return the layout whose ``from_address`` an expression calls; None for other expressions."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "from_address":
            return layout_or_none(self.value(node.func.value))
        return None


@cache
def _functions(text: str) -> dict[tuple[str, int], tuple[ast.FunctionDef, bytes]]:
    """Return the syntax tree and bytecode of a module's decorated functions, by name and line."""
    codes = {(each.co_name, each.co_firstlineno): each.co_code for each in _codes(compile(text, "native", "exec"))}
    nodes = [node for node in _defined(_parsed(text).body) if node.decorator_list]
    return {place: (node, codes[place]) for node in nodes if (place := (node.name, node.decorator_list[0].lineno))}


def _defined(body: list[ast.stmt]) -> Iterator[ast.FunctionDef]:
    """Yield the functions that the statements `body` define, at any depth.

    It visits statements only: walking through all expressions of a module takes ten times as long."""
    for each in body:
        if isinstance(each, ast.FunctionDef):
            yield each
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from _defined(getattr(each, part, []))


@cache
def _assigned(tree: ast.FunctionDef) -> frozenset[str]:
    """Return the names that a function assigns to."""
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return frozenset(node.id for node in names if isinstance(node.ctx, ast.Store))


_PARSING: Final = Lock()


def _parsed(text: str) -> ast.Module:
    """Return the syntax tree of a module's source.

    Some versions of CPython count the depth of the trees of all threads in one counter (CPython issue 106905).
    `ast.parse` raises a SystemError if another thread, for example of the program that uses Softcard, also parses;
    the call is then repeated.
    """
    for _ in range(PARSES):
        with _PARSING, suppress(SystemError):
            return ast.parse(text)
    return ast.parse(text)


def _codes(code: Any) -> Iterator[Any]:
    """Yield a code object and all code objects nested in it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, type(code)):
            yield from _codes(each)
