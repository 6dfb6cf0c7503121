"""The buffer that kernels' ``printf`` writes into, in the layout of AMD's OpenCL device library.

Two dwords stand in front: how many bytes behind them are used, and how many there are.
"""

from __future__ import annotations

from typing import Final

SIZE_BYTES: Final = 1 << 16
_HEADER: Final = 8
EMPTY: Final = bytes(4) + (SIZE_BYTES - _HEADER).to_bytes(4, "little")
"""What an empty one begins with."""


def written(buffer: bytes | memoryview) -> bytes:
    """What kernels wrote into a buffer of SIZE_BYTES."""
    used = int.from_bytes(buffer[:4], "little")
    return bytes(buffer[_HEADER : _HEADER + min(used, SIZE_BYTES - _HEADER)])
