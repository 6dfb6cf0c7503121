"""What is stored to a hardware doorbell, and which packets it makes known: plain arithmetic for both sides.

"Signal kernel machine code", AMD_SIGNAL_KIND_LEGACY_DOORBELL.
"""

from __future__ import annotations

from understudy.core.words import U32, U64
from understudy.device.hsa.packets import PACKET_BYTES
from understudy.isa.gcn.target import GFX7

DWORDS = PACKET_BYTES // 4


def legacy_value(index: int, size: int, level: int) -> int:
    """What a legacy doorbell is given for the index behind the last packet; GFX7: modulo 2 * `size`, in dwords.

    Registers have 32 bits, whatever `size` a damaged queue has.
    """
    if level == GFX7:
        return (index & (size << 1) - 1) * DWORDS & U32
    return index & U32


def limit_of(value: int, level: int, read_id: int, size: int) -> int:
    """The first packet that a doorbell's value does not make known, near `read_id`, where the processor stands.

    A GFX7 value counts dwords in a ring of twice the size, a GFX8 one packets modulo 2**32; a GFX9 one is the id of the
    last packet.
    """
    if level > 8:
        return value + 1 & U64
    if level == GFX7:
        span, index = 2 * size, value // DWORDS
    else:
        span, index = 1 << 32, value
    return read_id + (index - read_id) % span & U64
