"""The host's clock, for Python and for translated code.

s_memtime and s_memrealtime can return its time instead of a wave's instruction count."""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from softcard.core.errors import BeyondModel
from softcard.ir.native import call, layout, native

CLOCK_ID: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
"""The clock that kernel drivers report as the system clock; it includes the time of suspension."""


@dataclass(frozen=True, slots=True)
class HostClock:
    """A clock of the host, in nanoseconds.

    `function` is the host address of clock_gettime(2), which compiled code calls; `id` is its argument."""

    function: int
    id: int

    @classmethod
    def find(cls) -> HostClock:
        """Return the host's clock; raise `BeyondModel` if the host has no clock_gettime(2)."""
        try:
            function = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value or 0
        except (AttributeError, OSError, TypeError):
            function = 0
        if not function or CLOCK_ID is None:
            raise BeyondModel("timestamps='host' requires a host with clock_gettime")
        return cls(function, CLOCK_ID)

    def now(self) -> int:
        """Return the time of the clock in nanoseconds."""
        return time.clock_gettime_ns(self.id)


# ---- the clock of translated code ------------------------------------------------------------------------------------
# The host's clock for translated code, which calls the function at the start of a block of words.


NANOSECONDS_OF_A_SECOND: Final = 1_000_000_000


@layout
class Clock(ctypes.Structure):
    """The data with which the waves of one thread read the host's clock.

    It holds the addresses of `host_clock` and of clock_gettime(2), and the latter's argument and result."""

    function: int
    clock_gettime: int
    id: int
    seconds: int
    nanoseconds: int


_SECONDS_AT: Final = 24
"""The offset of `Clock.seconds` in the structure, in bytes."""


@native
def host_clock(clock: Clock) -> int:
    """Read the host's clock and return the time in nanoseconds."""
    call(clock.clock_gettime, clock.id, ctypes.addressof(clock) + _SECONDS_AT)
    return clock.seconds * NANOSECONDS_OF_A_SECOND + clock.nanoseconds


def words(clock: HostClock, function: int) -> npt.NDArray[np.uint64]:
    """Return a `Clock` as 64-bit words, for translated code; `function` is the address of `host_clock`."""
    return np.array([function, clock.function, clock.id, 0, 0], np.uint64)
