"""The host's clock for translated code, which calls what a block of words begins with."""

from __future__ import annotations

import ctypes
from typing import Final

import numpy as np
import numpy.typing as npt

from understudy.engine.gcn.host_clock import HostClock
from understudy.ir.native import call, layout, native

NANOSECONDS_OF_A_SECOND: Final = 1_000_000_000


@layout
class Clock(ctypes.Structure):
    """What one thread's waves read: `host_clock`, where clock_gettime(2) is, and what it said."""

    function: int
    clock_gettime: int
    id: int
    seconds: int
    nanoseconds: int


_SECONDS_AT: Final = 24
"""Of `Clock.seconds`."""


@native
def host_clock(clock: Clock) -> int:
    """The host's nanoseconds."""
    call(clock.clock_gettime, clock.id, ctypes.addressof(clock) + _SECONDS_AT)
    return clock.seconds * NANOSECONDS_OF_A_SECOND + clock.nanoseconds


def words(clock: HostClock, function: int) -> npt.NDArray[np.uint64]:
    """A `Clock`: `function` is where `host_clock` is."""
    return np.array([function, clock.function, clock.id, 0, 0], np.uint64)
