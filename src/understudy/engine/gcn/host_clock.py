"""A clock of the host, which s_memtime and s_memrealtime may tell in place of the wave's instructions."""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from typing import Final

from understudy.core.errors import BeyondModel

CLOCK_ID: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
"""The clock whose time a kernel driver tells as the system's: it goes on while the machine sleeps."""


@dataclass(frozen=True, slots=True)
class HostClock:
    """Nanoseconds. `function`: where the host has clock_gettime(2), for machine code; `id`: what that is asked."""

    function: int
    id: int

    @classmethod
    def find(cls) -> HostClock:
        """That of this host; `BeyondModel` where there is none."""
        try:
            function = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value or 0
        except (AttributeError, OSError, TypeError):
            function = 0
        if not function or CLOCK_ID is None:
            raise BeyondModel("timestamps='host' on a host without clock_gettime")
        return cls(function, CLOCK_ID)

    def now(self) -> int:
        """The time."""
        return time.clock_gettime_ns(self.id)
