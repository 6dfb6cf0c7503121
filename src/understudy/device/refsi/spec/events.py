"""What the `spec` memory system tells probes beyond the device's own events: lints, never errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from understudy.core.event import Event
from understudy.core.space import Unit
from understudy.device.refsi.spec.windows import unit_name

STALE_READ: Final = "stale-read"
DMA_HAZARD: Final = "dma-hazard"
"""Names of the checks that find these events."""


@dataclass(frozen=True, slots=True)
class StaleRead(Event):
    """`reader` read old data: `holder` has newer bytes, in its cache or (None) in memory behind the reader's cache.

    `address` is physical; `seen` is what the reader got, `newer` what it would have got after a SYNC_CACHE.
    """

    reader: Unit
    address: int
    seen: bytes
    newer: bytes
    holder: Unit | None

    def __str__(self) -> str:
        where = "in memory" if self.holder is None else f"in the cache of {unit_name(self.holder)}"
        return (
            f"{unit_name(self.reader)} reads {self.seen.hex()} at {self.address:#x}, newer bytes are {where}: "
            f"{self.newer.hex()}; expected a SYNC_CACHE in between"
        )


@dataclass(frozen=True, slots=True)
class DmaHazard(Event):
    """`unit` started transfer `id` while transfer `other_id` of `other` was outstanding, and they share bytes.

    `kind` is ``read-after-write`` (the new one reads what the other writes), ``write-after-read`` or
    ``write-after-write``. The controller promises no order: wait for the other one first.
    """

    unit: Unit
    id: int
    other: Unit
    other_id: int
    kind: str

    def __str__(self) -> str:
        return (
            f"DMA transfer {self.id} of {unit_name(self.unit)} and transfer {self.other_id} of "
            f"{unit_name(self.other)}, which nobody has waited for, share bytes: {self.kind}"
        )
