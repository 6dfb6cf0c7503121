"""Native functions as Python: the same source, with its words kept at 64 bits. See `native` for what they may use."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from typing import Any

from understudy.ir.native_source import ALL, Readable, Source


def interpreted(function: Readable) -> Callable[..., int]:
    """A Python function that gives what the compiled one gives. Layouts may be given by address."""
    source = Source(function)
    tree: Any = ast.fix_missing_locations(_Wrapped().visit(copy.deepcopy(source.tree)))
    tree.decorator_list = []
    scope = function.scope | {_count.__name__: _count}
    exec(compile(ast.Module([tree], []), source.path, "exec", dont_inherit=True), scope)
    made: Any = scope[function.name]
    layouts = [function.layout(name) for name in function.parameters]

    def run(*arguments: Any) -> int:
        given = [
            each if wanted is None or isinstance(each, wanted) else wanted.from_address(each)
            for each, wanted in zip(arguments, layouts, strict=True)
        ]
        return int(made(*given) or 0) & ALL

    return run


def _count(by: int) -> int:
    """No shift by more is another one."""
    return min(by, 64)


class _Wrapped(ast.NodeTransformer):
    """Keeps all words at 64 bits."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Sums, differences, products and shifts wrap around."""
        self.generic_visit(node)
        return _wrapped(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """So do negative words."""
        self.generic_visit(node)
        return node if isinstance(node.op, ast.Not) else _kept(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Beside a signed word, a negative constant is one."""
        sides = [node.left, *node.comparators]
        if not any(isinstance(side, ast.Call) and ast.unparse(side.func).endswith("signed") for side in sides):
            self.generic_visit(node)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """What is stored to memory is cut off there."""
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
    return _kept(node) if isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.LShift | ast.RShift) else node


def _kept(node: ast.expr) -> ast.expr:
    return ast.BinOp(node, ast.BitAnd(), ast.Constant(ALL))


def _call(function: Callable[[int], int], value: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(function.__name__, ast.Load()), [value], [])
