"""Hardware doorbells: a page of memory that can only be stored to, one doorbell for each queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from understudy.core.errors import AccessFault
from understudy.core.space import Unit
from understudy.device.hsa import rules
from understudy.isa.gcn.target import GFX9

DOORBELL_BYTES: Final = 8
"""From one doorbell to the next."""
DOORBELL_PAGES: Final = 2
DOORBELLS: Final = DOORBELL_PAGES * 4096 // DOORBELL_BYTES


class DoorbellPage:
    """The region that doorbells lie in. `ring` is called with the number of a doorbell and what was stored to it."""

    def __init__(self, level: int, ring: Callable[[int, int], None]) -> None:
        self.level = level
        self.size = DOORBELLS * DOORBELL_BYTES
        self._ring = ring
        self.width = 8 if level == GFX9 else 4

    def host_address(self, offset: int, unit: Unit) -> int | None:
        """Nowhere: stores have effects."""
        return None

    def read(self, offset: int, size: int, unit: Unit) -> bytes:
        """Refused: doorbells are write-only."""
        raise AccessFault(
            f"read of {size} bytes from doorbell {offset // DOORBELL_BYTES}, which can only be stored to",
            address=offset, access="read", rule=rules.DOORBELL_WRITE_ONLY,
        )  # fmt: skip

    def write(self, offset: int, data: bytes, unit: Unit) -> None:
        """Ring a doorbell; an `AccessFault` for stores of another width or between doorbells."""
        number, rest = divmod(offset, DOORBELL_BYTES)
        if rest or len(data) != self.width:
            raise AccessFault(
                f"store of {len(data)} bytes at byte {rest} of doorbell {number}, expected {self.width} at byte 0",
                address=offset, access="write", rule=rules.DOORBELL_WIDTH,
            )  # fmt: skip
        self._ring(number, int.from_bytes(data, "little"))
