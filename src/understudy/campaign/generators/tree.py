"""Programs as trees of text, so that they can be made smaller without becoming wrong.

A generator puts into one node what must stand together: a division with the guard of its divisor, a store to LDS with
its barriers. Whatever takes a node's place has its sort, so that a smaller program has defined behaviour as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Node:
    """A piece of a program: `form` with its kids in place of ``{}``, or, where `is_list`, one kid a line.

    `sort` is what it may take the place of: an expression's type, "" for what cannot be exchanged. `zero` is the
    shortest text of that sort. `name` is what it declares, which can be left out where nobody mentions it; `may_go`:
    whether it can be left out of its list.
    """

    form: str
    kids: list[Node] = field(default_factory=list)
    sort: str = ""
    zero: str = ""
    name: str = ""
    may_go: bool = False
    is_list: bool = False

    def text(self) -> str:
        """The program."""
        kids = [kid.text() for kid in self.kids]
        if self.is_list:
            return "\n".join(kids)
        parts = self.form.split("{}")
        return "".join(part + kid for part, kid in zip(parts, [*kids, ""], strict=True))

    def nodes(self) -> Iterator[Node]:
        """It and all below it, from the top down."""
        yield self
        for kid in self.kids:
            yield from kid.nodes()

    def size(self) -> int:
        """How many nodes there are."""
        return sum(1 for _ in self.nodes())

    def become(self, other: Node) -> None:
        """Take over all that another one is."""
        for name in ("form", "kids", "sort", "zero", "name", "may_go", "is_list"):
            setattr(self, name, getattr(other, name))

    def copy(self) -> Node:
        """The same tree once more."""
        kids = [kid.copy() for kid in self.kids]
        return Node(self.form, kids, self.sort, self.zero, self.name, self.may_go, self.is_list)


def leaf(text: str, sort: str = "", zero: str = "") -> Node:
    """A piece of text as it is."""
    return Node(text, [], sort, zero)


def lines(*kids: Node) -> Node:
    """A list of pieces, one a line."""
    return Node("", list(kids), is_list=True)
