"""The type of memory.

It determines how the memory is cached, and which unit executes read-modify-writes on it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol


class Mtype(IntEnum):
    """The memory types, with the numbers that SH_MEM_CONFIG and the V# of GFX8 use.

    The two NC types are cached in the second-level cache of an agent, which is not coherent with other agents
    (coarse-grained). CC and UC bypass this cache or are kept coherent with memory (fine-grained). NV stands for
    "not volatile": ``buffer_wbinvl1_vol`` does not invalidate first-level lines of such memory."""

    NC_NV = 0
    NC = 1
    CC = 2
    UC = 3

    @property
    def is_cached(self) -> bool:
        """True if the second-level cache may hold lines of this memory that other agents do not see."""
        return self in (Mtype.NC_NV, Mtype.NC)


class Completer(Protocol):
    """The unit that executes read-modify-writes on memory outside the agent: a PCIe atomic completer."""

    def check(self, kind: str, bits: int, address: int) -> None:
        """Raise `AccessFault` if a read-modify-write at `address` cannot be executed.

        `kind` is an atomic operation's name in the operations interface; `bits` is the width of the operation.
        """

    def update(self, kind: str, bits: int, host: int, value: int, compare: int) -> int:
        """Execute a read-modify-write that `check` accepted, atomically; return the old value.

        `host` is the host address of the memory.
        """


@dataclass(frozen=True, slots=True, eq=False)
class MemoryType:
    """The type of a mapping. If `completer` is None, the agent itself executes all read-modify-writes on the memory."""

    mtype: Mtype = Mtype.NC
    completer: Completer | None = None


COARSE: Final = MemoryType()
"""The default type: coarse-grained memory of the agent."""
