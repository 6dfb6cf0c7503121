"""The limits of a kernel's running time, and the ways to end a kernel: a timeout, closing the device, Ctrl-C."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from softcard.core.errors import GuestFault, WireError

VARIABLE: Final = "SOFTCARD_TIME_LIMIT"
"""The environment variable with the default time limit of a kernel: seconds, or "none"."""
UNATTENDED_SECONDS: Final = 300.0
"""The default time limit in seconds under pytest and in continuous integration."""
UNATTENDED: Final = ("PYTEST_CURRENT_TEST", "CI")
"""The environment variables that are set under pytest and in continuous integration."""


CLOSED: Final = "the device was closed"
"""The reason for ending a kernel that is running when another thread calls `close`."""


class TimeLimit(GuestFault):
    """The error for a kernel that ran for longer than the device allows."""


class Stopped(GuestFault):
    """The error for a kernel that was running when its device was closed or its host was interrupted."""


def interrupted(cause: BaseException) -> Stopped:
    """Return the error for a kernel during which its host was interrupted, for instance by Ctrl-C."""
    text = (
        f"the host was interrupted ({type(cause).__name__}) while the kernel ran; the kernel has stored only a part "
        "of its results"
    )
    stopped = Stopped(text)
    for note in getattr(cause, "__notes__", ()):
        stopped.add_note(note)
    return stopped


def note_interrupt(cause: BaseException, *places: tuple[str, object]) -> None:
    """Add a note with the location of the interrupted kernel to `cause` (Ctrl-C), unless it has a note already.

    `places` are the parts of the location: pairs of its kind and its number or name."""
    if not isinstance(cause, Exception) and not hasattr(cause, "__notes__"):
        cause.add_note("the run was interrupted before its end, " + ", ".join(f"at {kind} {at}" for kind, at in places))


def default_time_limit() -> float | None:
    """Return the time limit in seconds of devices created without `time_limit_seconds`; None for no limit.

    The environment variable `VARIABLE` sets the limit. Without it, the limit is `UNATTENDED_SECONDS` under pytest
    or if the environment variable CI is set, so that an endless kernel cannot block a build machine for hours.
    Otherwise there is no limit, because a user can press Ctrl-C."""
    text = os.environ.get(VARIABLE, "").strip().lower()
    if text:
        try:
            return None if text == "none" else checked_time_limit(float(text))
        except ValueError:
            raise WireError(f"{VARIABLE} is {text}, expected a number of seconds above 0, or none") from None
    unattended = any(os.environ.get(name, "").lower() not in ("", "0", "false") for name in UNATTENDED)
    return UNATTENDED_SECONDS if unattended else None


def checked_time_limit(seconds: Any) -> float | None:
    """Return `seconds` if it is a time limit: None or a number above 0. Otherwise raise `WireError`."""
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise WireError(f"time_limit_seconds is {seconds!r}, expected a number of seconds above 0, or None")
    return float(seconds)


def past_steps(step_limit: int | None, time_limit_seconds: float | None) -> str:
    """Return both limits as text for an error message: first the instruction limit, which the kernel has exceeded."""
    seconds = "None" if time_limit_seconds is None else f"{time_limit_seconds:g}"
    return f"{step_limit} instructions (step_limit; time_limit_seconds is {seconds})"


def past_time(time_limit_seconds: float, step_limit: int | None) -> str:
    """Return both limits as text for an error message: first the time limit, which the kernel has exceeded."""
    return f"{time_limit_seconds:g} s (time_limit_seconds; step_limit is {step_limit})"


@dataclass(slots=True)
class Watch:
    """The external conditions that end a device's kernels. `stopped` is the reason why kernels must end now, or ""."""

    time_limit_seconds: float | None = field(default_factory=default_time_limit)
    stopped: str = ""
    meanwhile: Callable[[], None] | None = None
    """A function called at each check of a running kernel, on the kernel's thread; see `pass_time`."""

    def pass_time(self) -> float:
        """Call `meanwhile`, if it is set, and return the duration of the call in seconds.

        This duration does not count towards the time limit."""
        if self.meanwhile is None:
            return 0.0
        began = time.monotonic()
        self.meanwhile()
        return time.monotonic() - began

    def poll(self, began: float, doing: Callable[[], str], step_limit: int | None, what: str = "the kernel") -> None:
        """Raise `Stopped` if kernels must end, or `TimeLimit` if the time limit has passed.

        `began` is the start (`time.monotonic`). `doing` returns a description of the state of the run, and `what` names
        the run; the message has both.
        """
        if self.stopped:
            raise Stopped(f"{self.stopped} while {what} ran: {doing()}")
        limit = self.time_limit_seconds
        if limit is not None and time.monotonic() - began > limit:
            raise TimeLimit(f"{what} did not end within {past_time(limit, step_limit)}: {doing()}")


# ---- pieces of copies ------------------------------------------------------------------------------------------------
# Division of large copies into smaller ones, so that limits can be checked in between.


PIECE: Final = 1 << 24
"""The number of bytes to copy between two checks: a few milliseconds, some tens for scattered data."""


def pieces(counts: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Yield the slices, in order, that divide an array of shape `counts` into parts of at most `PIECE` elements."""
    inner = math.prod(counts[1:])
    step = max(PIECE // inner, 1)
    for first in range(0, counts[0], step):
        part = slice(first, min(first + step, counts[0]))
        if inner <= PIECE:
            yield (part,)
        else:
            yield from ((part, *rest) for rest in pieces(counts[1:]))
