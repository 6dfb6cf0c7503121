"""What timestamps of completion signals count: the device's instructions, or the host's nanoseconds."""

from __future__ import annotations

import ctypes
import time
from typing import Any, Final

from understudy.core.errors import BeyondModel
from understudy.device.hsa.native_packets import Q
from understudy.device.hsa.settings import HOST, Settings

CLOCK_ID: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
"""The clock whose time a kernel driver tells as the system's: it goes on while the machine sleeps."""


class Timestamps:
    """Timestamps of one device, whose own clock is `ticks`."""

    def __init__(self, settings: Settings, ticks: memoryview) -> None:
        self._ticks = ticks
        self.is_host = settings.timestamps == HOST
        self._function = _clock_gettime() if self.is_host else 0

    def now(self) -> int:
        """The time."""
        return time.clock_gettime_ns(CLOCK_ID) if self.is_host and CLOCK_ID is not None else self._ticks[0]

    def tell(self, words: Any) -> None:
        """Have machine code of a queue, whose words these are, take it from there too."""
        words[Q["clock_gettime"]], words[Q["clock_id"]] = self._function, CLOCK_ID or 0


def _clock_gettime() -> int:
    """Where the host's C library has clock_gettime(2)."""
    try:
        return ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value or 0
    except (AttributeError, OSError, TypeError):
        raise BeyondModel("timestamps='host' on a host without clock_gettime") from None
