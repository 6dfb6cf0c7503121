"""The memory that the host may write directly, through views.

Code in it may change without a notification to engines.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np


class Views:
    """The address ranges of host memory that were given to the host as views, merged."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, view: memoryview) -> None:
        """Add the bytes of `view`."""
        if not view.nbytes:
            return
        start = int(np.frombuffer(view, dtype=np.uint8).ctypes.data)
        end = start + view.nbytes
        first, last = bisect_left(self._ends, start), bisect_right(self._starts, end)
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]

    def holds(self, start: int, size: int) -> bool:
        """Return True if any of `size` bytes from `start` belongs to an added view."""
        index = bisect_right(self._starts, start + size - 1) - 1
        return index >= 0 and self._ends[index] > start
