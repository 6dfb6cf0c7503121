"""Events of the `spec` memory system in addition to the device's own events: lints, never errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from softcard.core.event import Event
from softcard.core.space import Unit
from softcard.device.refsi.spec.windows import unit_name

STALE_READ: Final = "stale-read"
DMA_HAZARD: Final = "dma-hazard"
"""The name of the check whose lints are `DmaHazard` events: overlapping transfers.

`STALE_READ` is the name of the check for `StaleRead` events.
"""


@dataclass(frozen=True, slots=True)
class StaleRead(Event):
    """The event that `reader` read old data, because a data cache hid newer bytes.

    If `holder` is not None, the newer bytes are in the data cache of hart `holder`. Otherwise they are in
    memory, and the reader's own cache holds old bytes. `address` is physical; `seen` are the bytes read,
    `newer` the bytes that a SYNC_CACHE would have made visible."""

    reader: Unit
    address: int
    seen: bytes
    newer: bytes
    holder: Unit | None

    def __str__(self) -> str:
        where = "in memory" if self.holder is None else f"in the cache of {unit_name(self.holder)}"
        return (
            f"{unit_name(self.reader)} reads {self.seen.hex()} at {self.address:#x}, but newer bytes are {where}: "
            f"{self.newer.hex()}; execute SYNC_CACHE before the read"
        )


@dataclass(frozen=True, slots=True)
class DmaHazard(Event):
    """The event that `unit` started transfer `id` while an overlapping transfer was outstanding.

    `other_id` is the ID of the outstanding transfer, and `other` the unit that started it. `kind` is
    ``read-after-write`` (the new transfer reads what the outstanding one writes), ``write-after-read`` or
    ``write-after-write``. The controller guarantees no order of outstanding transfers, so the program must wait
    for the first before it starts the second."""

    unit: Unit
    id: int
    other: Unit
    other_id: int
    kind: str

    def __str__(self) -> str:
        return (
            f"DMA transfer {self.id} of {unit_name(self.unit)} and transfer {self.other_id} of "
            f"{unit_name(self.other)}, which has not completed, access the same bytes: {self.kind}"
        )
