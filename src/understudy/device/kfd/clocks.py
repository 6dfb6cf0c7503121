"""The clock that everything of the driver shows: nanoseconds since the host began, sleep included."""

from __future__ import annotations

import time
from typing import Final

FREQUENCY: Final = 1_000_000_000


def nanoseconds() -> int:
    """The time now."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
