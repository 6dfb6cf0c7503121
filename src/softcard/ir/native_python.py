"""Interpretation of native functions as Python, from one source, with all words masked to 64 bits.

See `native` for the accepted Python.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from typing import Any, Final

from softcard.ir.lanes import Flags, Vector
from softcard.ir.native_source import ALL, Readable, Source


def interpreted(function: Readable) -> Callable[..., Any]:
    """Return a Python function that computes the same results as the machine code of `function`, slowly.

    Arguments that are layouts may be passed by address."""
    source = Source(function)
    tree: Any = ast.fix_missing_locations(_Wrapped().visit(copy.deepcopy(source.tree)))
    tree.decorator_list = []
    scope = function.scope | {_count.__name__: _count, Flags.__name__: Flags}
    exec(compile(ast.Module([tree], []), source.path, "exec", dont_inherit=True), scope)
    made: Any = scope[function.name]
    layouts = [function.layout(name) for name in function.parameters]

    def run(*arguments: Any) -> Any:
        given = [
            each if wanted is None or isinstance(each, wanted) else wanted.from_address(each)
            for each, wanted in zip(arguments, layouts, strict=True)
        ]
        found = made(*given)
        return found if isinstance(found, Vector) else int(found or 0) & ALL

    return run


def _count(by: Any) -> Any:
    """Return a shift count limited to 64, which gives the same word as any larger count."""
    return by if isinstance(by, Vector) else min(by, 64)


_TEST: Final = "_test"
"""The name of the variable for a condition that may be a vector of flags."""


class _Wrapped(ast.NodeTransformer):
    """An AST transformer that masks the results of word operations to 64 bits."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Mask the results of sums, differences, products and shifts to 64 bits."""
        self.generic_visit(node)
        return _wrapped(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Mask negated and inverted words to 64 bits."""
        self.generic_visit(node)
        return node if isinstance(node.op, ast.Not) else _truncated(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Keep a negative constant unmasked if it is compared with a signed word."""
        sides = [node.left, *node.comparators]
        if not any(isinstance(side, ast.Call) and ast.unparse(side.func).endswith("signed") for side in sides):
            self.generic_visit(node)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Turn a conditional expression into a selection lane by lane if its condition is a vector of flags."""
        self.generic_visit(node)
        test = ast.NamedExpr(ast.Name(_TEST, ast.Store()), node.test)
        again = ast.Name(_TEST, ast.Load())
        is_flags = ast.Call(ast.Name(isinstance.__name__, ast.Load()), [test, ast.Name(Flags.__name__, ast.Load())], [])
        select = ast.Call(ast.Attribute(again, Flags.select.__name__, ast.Load()), [node.body, node.orelse], [])
        return ast.IfExp(is_flags, select, ast.IfExp(again, node.body, node.orelse))

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """Do not mask a result that is stored to memory: the store truncates it."""
        self.generic_visit(node)
        if isinstance(node.target, ast.Name):
            value = _wrapped(ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value))
            return ast.Assign([node.target], value)
        if isinstance(node.op, ast.LShift):
            node.value = _call(_count, node.value)
        return node


def _wrapped(node: ast.BinOp) -> ast.expr:
    if isinstance(node.op, ast.LShift):
        node.right = _call(_count, node.right)
    return _truncated(node) if isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.LShift | ast.RShift) else node


def _truncated(node: ast.expr) -> ast.expr:
    return ast.BinOp(node, ast.BitAnd(), ast.Constant(ALL))


def _call(function: Callable[[int], int], value: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(function.__name__, ast.Load()), [value], [])
