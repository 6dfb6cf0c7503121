"""The layout of records, which are the data of handler calls: records of instructions and of stubs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# ---- examples --------------------------------------------------------------------------------------------------------
# Examples of instructions. Each example represents all instructions that share its handler.


@dataclass(frozen=True, slots=True)
class Example:
    """An instruction that represents all instructions with the same handler: its words, and MODE.

    `has_fixed_numbers` is True if constants are compiled into the handler."""

    words: tuple[int, ...]
    mode: int
    has_fixed_numbers: bool


# ---- layouts ---------------------------------------------------------------------------------------------------------


STUBS: Final = ("enter", "begin", "goto", "fuel", "head", "leave", "hot", "counted_fuel", "counted_head", "taken")
"""The names of stubs, the functions of records that belong to no instruction; see `stubs`."""
COUNT_AT: Final = 24
"""The offset of the block's number of instructions (64 bits) in records of the stubs `fuel` and `head`."""
PROFILE_AT: Final = 32
"""The offset, in records of the stubs `fuel` and `head`, of the byte offset of the block's profile counter."""
REGION_AT: Final = 40
"""The offset, in records of the stub `hot`, of the address of the optimised function for the block.

The number of the function's entry point follows.
"""
FUEL_BYTES: Final = 56
NEEDS_AT: Final = 56
"""The offset, in records of the stub `head`, of the fuel that the block requires."""
HEAD_BYTES: Final = 64
TARGET_AT: Final = 24
"""The offset, in records of the stub `goto`, of the next record's address."""
GOTO_BYTES: Final = 32
TAKEN_PROFILE_AT: Final = 32
"""The offset, in records of the stub `taken`, of the byte offset of the branch's profile counter.

The next record's address is at `TARGET_AT`.
"""
TAKEN_BYTES: Final = 40
ROOM: Final = 1 << 20
"""The number of instructions that a thread can count, for an engine that counts them.

Each has three counters, in three consecutive arrays of this size: all executions, those without an active
lane, and those of branches that were taken. If all are in use, the reference engine executes further code.
"""
IDLE, TAKEN = ROOM, 2 * ROOM
"""The numbers of the first counters of the second and the third array."""
COUNTERS: Final = 3 * ROOM
"""The number of all counters of a thread that counts instructions."""
CONTROL_AT: Final = 24
"""The offset, in records of the stub `begin`, of the host's float control (32 bits)."""
BEGIN_TARGET_AT: Final = 32
BEGIN_BYTES: Final = 40
CODE_AT: Final = 24
"""The offset, in records of the stub `leave`, of the exit code.

The stub refunds the fuel that the block has not used.
"""
LEAVE_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Handler:
    """A handler's function and the layout of its records.

    The layout has the size, and the offsets of slots, inline caches, and the branch target.
    """

    name: str
    size: int
    places: tuple[int, ...]
    caches: tuple[tuple[str, int], ...]
    target: int
