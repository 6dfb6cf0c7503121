"""Where things lie in records: of instructions, and of what is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GLUE: Final = ("enter", "begin", "goto", "fuel", "head", "leave", "hot")
"""Names of the functions of records that are no instructions; see `glue`."""
COUNT_AT: Final = 24
"""Of `fuel` and `head`: instructions of the block, 64 bits."""
HEAT_AT: Final = 32
"""Byte offset of the block's counter in the thread's heat."""
REGION_AT: Final = 40
"""Of `hot`: the optimised function that has taken the block over; behind it the number of its entry."""
FUEL_BYTES: Final = 56
NEEDS_AT: Final = 56
"""Of `head`: how much fuel there must be."""
HEAD_BYTES: Final = 64
TARGET_AT: Final = 24
"""Of `goto`: the record to go on with."""
GOTO_BYTES: Final = 32
CONTROL_AT: Final = 24
"""Of `begin`: the host's float control, 32 bits."""
BEGIN_TARGET_AT: Final = 32
BEGIN_BYTES: Final = 40
CODE_AT: Final = 24
"""Of `leave`: the exit code; what the block has left is given back."""
LEAVE_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Handler:
    """A kind's function and its record: bytes of it, where each part lies, each inline cache, and the jump's target."""

    name: str
    size: int
    places: tuple[int, ...]
    caches: tuple[tuple[str, int], ...]
    target: int
