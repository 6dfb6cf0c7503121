"""What many rounds of a measured loop access, for whoever looks at all that before them and notes it behind them.

Each access of a round is a stream: a row of a table that compiled functions are given.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from understudy.engine.riscv.jit.strides import Stride, size_of
from understudy.ir.native import inlined, layout, numbers
from understudy.isa.riscv.insn import Insn

MOST_STREAMS: Final = 12
"""Rows of the table."""


@layout
class Stream(ctypes.Structure):
    """What one instruction accesses: in the first round `size` bytes at `host`, a place of this process, in each round
    `step` bytes further on, which is 0 or some times the size.

    `number` says which one it is of those of a round. `hint` and `is_loaded` are words for whoever looks.
    """

    host: int
    step: int
    size: int
    stores: int
    number: int
    hint: int
    is_loaded: int


STREAM_BYTES: Final = ctypes.sizeof(Stream)
STREAM_AT: Final = numbers(Stream)


@inlined
def times(stream: Stream, rounds: int) -> int:
    """In how many of so many rounds it accesses something else than before."""
    return rounds if stream.step else 1


@inlined
def is_whole(stream: Stream, count: int) -> int:
    """Whether so many accesses are of all that lies between their ends."""
    return (stream.step == stream.size) | (count == 1)


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """An access of a round, as it is translated."""

    pc: int
    insn: Insn
    walk: Stride

    @property
    def size(self) -> int:
        """Bytes."""
        return size_of(self.insn)

    @property
    def stores(self) -> bool:
        """Whether it is a store."""
        return self.walk.table == "store"

    @property
    def offset(self) -> int:
        """From where the walk begins in a round."""
        return self.walk.offsets[self.walk.accesses.index(self.pc)] - self.walk.low


class Ahead(Protocol):
    """Writes looks at rounds of a loop together, where it would else write more at each access."""

    def goes_ahead(self, insns: Sequence[Insn], accesses: Sequence[Access]) -> bool:
        """Whether rounds of such a loop may be looked at together: these are all its accesses. Walks were hoisted."""

    def ahead(self, accesses: Sequence[Access], table: str, rounds: str) -> str:
        """Look at so many rounds before them: whether nothing is to be written at each access. `together` was written
        before; behind this, nothing of the loop has been done."""

    def together(self) -> None:
        """What is written next is one of those rounds."""

    def one_by_one(self) -> None:
        """It is none any more."""

    def behind(self, accesses: Sequence[Access], table: str, rounds: str, done: int) -> None:
        """Note what so many rounds have accessed, and the first accesses of one more, so many."""
