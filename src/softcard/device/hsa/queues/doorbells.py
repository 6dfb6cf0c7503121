"""Hardware doorbells: a write-only page with one doorbell per queue, and the encoding of doorbell values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from softcard.core.errors import AccessFault
from softcard.core.space import Unit
from softcard.core.words import U32, U64
from softcard.device.hsa import rules
from softcard.device.hsa.queues.packets import PACKET_BYTES
from softcard.isa.gcn.target import GFX7, GFX9

DOORBELL_BYTES: Final = 8
"""The distance in bytes between the addresses of two doorbells."""
DOORBELL_PAGES: Final = 2
DOORBELLS: Final = DOORBELL_PAGES * 4096 // DOORBELL_BYTES


class DoorbellPage:
    """The memory region of doorbells. A store calls `ring` with the doorbell's number and the stored value."""

    def __init__(self, level: int, ring: Callable[[int, int], None]) -> None:
        self.level = level
        self.size = DOORBELLS * DOORBELL_BYTES
        self._ring = ring
        self.width = 8 if level == GFX9 else 4

    def host_address(self, offset: int, unit: Unit) -> int | None:
        """Return None, so that code does not access this region directly: stores to it have side effects."""
        return None

    def read(self, offset: int, size: int, unit: Unit) -> bytes:
        """Raise `AccessFault`: doorbells are write-only."""
        raise AccessFault(
            f"read of {size} bytes from doorbell {offset // DOORBELL_BYTES}, which is write-only",
            address=offset, access="read", rule=rules.DOORBELL_WRITE_ONLY,
        )  # fmt: skip

    def write(self, offset: int, data: bytes, unit: Unit) -> None:
        """Ring a doorbell; raise `AccessFault` for stores of another width or between doorbells."""
        number, rest = divmod(offset, DOORBELL_BYTES)
        if rest or len(data) != self.width:
            raise AccessFault(
                f"store of {len(data)} bytes at byte {rest} of doorbell {number}, expected {self.width} at byte 0",
                address=offset, access="write", rule=rules.DOORBELL_WIDTH,
            )  # fmt: skip
        self._ring(number, int.from_bytes(data, "little"))


# ---- values of doorbells ---------------------------------------------------------------------------------------------
# The values of hardware doorbells, and the packets that they announce: plain arithmetic for both sides.
#
# "Signal kernel machine code", AMD_SIGNAL_KIND_LEGACY_DOORBELL.


DWORDS = PACKET_BYTES // 4


def legacy_value(index: int, size: int, level: int) -> int:
    """Return the value to write to a legacy doorbell in order to announce all packets before `index`.

    On GFX7 the value counts dwords, modulo twice the ring size `size`. Doorbells have 32 bits, whatever size a
    damaged queue has."""
    if level == GFX7:
        return (index & (size << 1) - 1) * DWORDS & U32
    return index & U32


def limit_of(value: int, level: int, read_id: int, size: int) -> int:
    """Return the index after the last packet that the doorbell value `value` announces.

    A GFX7 value counts dwords modulo twice the ring size `size`, a GFX8 value counts packets modulo 2**32. Such a
    value stands for several indices; the result is the one nearest to `read_id`, the packet processor's read
    index. A GFX9 value is the id of the last packet."""
    if level > 8:
        return value + 1 & U64
    if level == GFX7:
        span, index = 2 * size, value // DWORDS
    else:
        span, index = 1 << 32, value
    return read_id + (index - read_id) % span & U64
