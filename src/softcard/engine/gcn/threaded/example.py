"""Examples of instructions. Each example represents all instructions that share its handler."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """An instruction that represents all instructions with the same handler: its words, and MODE.

    `has_fixed_numbers` is True if constants are compiled into the handler."""

    words: tuple[int, ...]
    mode: int
    has_fixed_numbers: bool
