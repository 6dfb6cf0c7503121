"""What kind of memory lies somewhere: how caches treat it, and who does read-modify-writes on it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol


class Mtype(IntEnum):
    """Memory types by the numbers that SH_MEM_CONFIG and V# of GFX8 have for them.

    The two NC types are kept in the second-level cache of an agent, without regard to anybody else (coarse-grained);
    CC and UC pass it by or are kept equal to memory (fine-grained). NV: not volatile, so that ``buffer_wbinvl1_vol``
    leaves first-level lines alone.
    """

    NC_NV = 0
    NC = 1
    CC = 2
    UC = 3

    @property
    def is_cached(self) -> bool:
        """Whether the second-level cache keeps lines of it that others do not see."""
        return self in (Mtype.NC_NV, Mtype.NC)


class Completer(Protocol):
    """Does read-modify-writes on memory that is not the agent's own: the other end of a PCIe atomic operation."""

    def check(self, kind: str, bits: int, address: int) -> None:
        """Raise an `AccessFault` where a read-modify-write `kind` of the algebra cannot be done there."""

    def update(self, kind: str, bits: int, host: int, value: int, compare: int) -> int:
        """Do one that `check` let pass, atomically, on the memory at a host address; the value before."""


@dataclass(frozen=True, slots=True, eq=False)
class MemoryType:
    """What a mapping is. Without a `completer` the agent itself does all read-modify-writes there."""

    mtype: Mtype = Mtype.NC
    completer: Completer | None = None


COARSE: Final = MemoryType()
"""Memory of the agent, as it is where nobody says otherwise."""
