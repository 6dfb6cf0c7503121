"""Programs as trees of text, and the source of a generator's random choices.

A tree can be reduced without losing the program's defined behaviour. A generator puts text that belongs
together into one node: a division with the guard of its divisor, or a store to LDS with its barriers. A node
is only replaced by a node of the same sort, which preserves defined behaviour."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar


@dataclass(slots=True, eq=False)
class Node:
    """A node of a program's tree: the text `form`, with the child nodes `kids` in place of each ``{}``.

    If `is_list` is True, the node is a list with one child on each line. `sort` says which nodes can replace each
    other: it is an expression's type, or "" for a node that cannot be replaced. `zero` is the shortest text of
    that sort. `name` is the name that the node declares; the node can only be removed if no other node uses this
    name. `may_go` is True if the node can be removed from its list."""

    form: str
    kids: list[Node] = field(default_factory=list)
    sort: str = ""
    zero: str = ""
    name: str = ""
    may_go: bool = False
    is_list: bool = False

    def text(self) -> str:
        """Return the node with all its descendants as text."""
        kids = [kid.text() for kid in self.kids]
        if self.is_list:
            return "\n".join(kids)
        parts = self.form.split("{}")
        return "".join(part + kid for part, kid in zip(parts, [*kids, ""], strict=True))

    def nodes(self) -> Iterator[Node]:
        """Yield the node and all its descendants, in preorder."""
        yield self
        for kid in self.kids:
            yield from kid.nodes()

    def size(self) -> int:
        """Return the number of nodes in this tree."""
        return sum(1 for _ in self.nodes())

    def become(self, other: Node) -> None:
        """Replace all fields of this node by the fields of `other`."""
        for name in ("form", "kids", "sort", "zero", "name", "may_go", "is_list"):
            setattr(self, name, getattr(other, name))

    def copy(self) -> Node:
        """Return a deep copy of this tree."""
        kids = [kid.copy() for kid in self.kids]
        return Node(self.form, kids, self.sort, self.zero, self.name, self.may_go, self.is_list)


def leaf(text: str, sort: str = "", zero: str = "") -> Node:
    """Return a node that consists of `text` only."""
    return Node(text, [], sort, zero)


def lines(*kids: Node) -> Node:
    """Return a list node, with one kid on each line."""
    return Node("", list(kids), is_list=True)


# ---- choices ---------------------------------------------------------------------------------------------------------
# The source of a generator's choices: a seed, or another object with that interface (hypothesis).


T = TypeVar("T")
_MASK: Final = (1 << 64) - 1


class Choices(Protocol):
    """The interface through which generators make choices."""

    def integer(self, low: int, high: int) -> int:
        """Choose a number from `low` to `high`."""
        ...


class Seeded:
    """A random generator (SplitMix64) with a seed string. A seed gives the same numbers on every machine."""

    def __init__(self, seed: str) -> None:
        self._state = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "little")

    def integer(self, low: int, high: int) -> int:
        """Choose a number from `low` to `high`, a range of at most 64 bits."""
        return low + self._next() % (high - low + 1)

    def _next(self) -> int:
        self._state = (self._state + 0x9E37_79B9_7F4A_7C15) & _MASK
        word = self._state
        word = (word ^ word >> 30) * 0xBF58_476D_1CE4_E5B9 & _MASK
        word = (word ^ word >> 27) * 0x94D0_49BB_1331_11EB & _MASK
        return word ^ word >> 31


def pick(choices: Choices, values: Sequence[T]) -> T:
    """Choose one of `values`."""
    return values[choices.integer(0, len(values) - 1)]


def chance(choices: Choices, percent: int) -> bool:
    """Return True with a probability of `percent` percent."""
    return choices.integer(0, 99) >= 100 - percent
