"""Instructions that stand for their kinds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """An instruction of a kind, which says what the kind is: its words, MODE, and whether its numbers belong to it."""

    words: tuple[int, ...]
    mode: int
    has_fixed_numbers: bool
