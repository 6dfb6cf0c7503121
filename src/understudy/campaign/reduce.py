"""Generated programs made smaller: delta debugging on their trees, so that what is left has defined behaviour too.

A reducer of text (cvise, shrinkray) does not know that: it takes away a guard, and what then differs is no bug of the
compiler's. Here statements are left out, blocks take the place of what holds them, and expressions become one of their
parts or nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from understudy.campaign.generators.tree import Node, leaf

MOST_TRIES: Final = 2000
Fails = Callable[[str], bool]
"""Whether a program still shows what is looked for."""


class Reducer:
    """Makes one program smaller; `tries` counts how often it was run."""

    def __init__(self, program: Node, fails: Fails, most_tries: int = MOST_TRIES) -> None:
        self.program = program.copy()
        self.tries = 0
        self._fails, self._most = fails, most_tries
        self._known: dict[str, bool] = {}

    def run(self) -> Node:
        """The program when nothing more can go, or after so many tries."""
        size = -1
        while self.program.size() != size and self.tries < self._most:
            size = self.program.size()
            self._leave_out()
            self._hoist()
            self._simplify()
        return self.program

    def _holds(self) -> bool:
        text = self.program.text()
        if text not in self._known:
            if self.tries >= self._most:
                return False
            self.tries += 1
            self._known[text] = self._fails(text)
        return self._known[text]

    # ---- lists -------------------------------------------------------------------------------------------------------

    def _leave_out(self) -> None:
        """Half of a list, a quarter, ... and at last each alone."""
        for block in [node for node in self.program.nodes() if node.is_list]:
            chunk = max(1, len(block.kids) // 2)
            while chunk:
                self._leave_out_chunks(block, chunk)
                chunk //= 2

    def _leave_out_chunks(self, block: Node, chunk: int) -> None:
        at = len(block.kids)
        while at > 0:
            first = max(0, at - chunk)
            before = block.kids
            gone = [kid for kid in before[first:at] if kid.may_go]
            if gone:
                block.kids = before[:first] + [kid for kid in before[first:at] if not kid.may_go] + before[at:]
                if self._mentioned(gone) or not self._holds():
                    block.kids = before
            at = first

    def _mentioned(self, gone: list[Node]) -> bool:
        """Whether somebody still needs what these declared."""
        names = [kid.name for kid in gone if kid.name]
        return bool(names) and bool(re.search(rf"\b(?:{'|'.join(map(re.escape, names))})\b", self.program.text()))

    # ---- blocks and expressions --------------------------------------------------------------------------------------

    def _hoist(self) -> None:
        """A block in place of the statement that holds it."""
        for node in list(self.program.nodes()):
            if node.may_go and not node.is_list:
                for kid in [each for each in node.kids if each.is_list]:
                    if self._try(node, Node("", kid.kids, may_go=True, is_list=True)):
                        break

    def _simplify(self) -> None:
        """Nothing in place of an expression, or a part of it."""
        for node in list(self.program.nodes()):
            if node.sort and node.text() != node.zero:
                for other in self._smaller(node):
                    if self._try(node, other):
                        break

    @staticmethod
    def _smaller(node: Node) -> Iterator[Node]:
        yield leaf(node.zero, node.sort, node.zero)
        for below in node.nodes():
            if below is not node and below.sort == node.sort:
                yield below.copy()

    def _try(self, node: Node, other: Node) -> bool:
        before = Node("")
        before.become(node)
        node.become(other)
        if self._holds():
            return True
        node.become(before)
        return False
