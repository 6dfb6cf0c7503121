"""Of equal findings the first few are said, and all are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from understudy.core.errors import UnderstudyError

REPEATED: Final = 5
"""How often one kind of finding is told."""


class Repeated:
    """Says findings, of each kind the first few."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.counts: Counter[str] = Counter()
        """How many there were of each kind, told or not."""

    def tell(self, kind: str, text: str) -> bool:
        """Say `text`, unless enough was said of its kind; whether it was."""
        self.counts[kind] += 1
        is_said = self.counts[kind] <= REPEATED
        if is_said:
            more = ", and further ones are not shown" if self.counts[kind] == REPEATED else ""
            self._say(f"{text}{more}")
        return is_said

    def count(self, kind: str) -> None:
        """Count a finding that is not told by itself."""
        self.counts[kind] += 1


def rule_of(error: UnderstudyError) -> str:
    """The kind of an error: its rule, or else its type."""
    return error.rule.id if error.rule is not None else type(error).__name__
