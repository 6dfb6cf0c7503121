"""The clock of translated code: it calls what a block of words begins with, and gives it how much has retired."""

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
    """What one thread's waves read: which function, and for `host_clock` where clock_gettime(2) is and what it said."""

    function: int
    clock_gettime: int
    id: int
    seconds: int
    nanoseconds: int


_SECONDS_AT: Final = 24
"""Of `Clock.seconds`."""


@native
def retired_clock(clock: Clock, retired: int) -> int:
    """Instructions."""
    return retired


@native
def host_clock(clock: Clock, retired: int) -> int:
    """The host's nanoseconds."""
    call(clock.clock_gettime, clock.id, ctypes.addressof(clock) + _SECONDS_AT)
    return clock.seconds * NANOSECONDS_OF_A_SECOND + clock.nanoseconds


def words(clock: HostClock | None, retired: int, host: int) -> npt.NDArray[np.uint64]:
    """A `Clock`: `retired` and `host` are where the two functions are."""
    found = (retired, 0, 0) if clock is None else (host, clock.function, clock.id)
    return np.array([*found, 0, 0], np.uint64)
