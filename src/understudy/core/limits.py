"""How long a kernel may run, and how it is ended from outside: by time, by a device that closes, by Ctrl-C."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from understudy.core.errors import GuestFault, WireError

VARIABLE: Final = "UNDERSTUDY_TIME_LIMIT"
"""Environment variable: seconds that a kernel may run where nothing else is said, or "none"."""
UNATTENDED_SECONDS: Final = 300.0
"""The same where that is not set and nobody watches: under pytest and in continuous integration."""
UNATTENDED: Final = ("PYTEST_CURRENT_TEST", "CI")
"""Variables that tell of it."""


CLOSED: Final = "the device was closed"
"""Why a kernel must not go on that runs when somebody calls `close`."""


class TimeLimit(GuestFault):
    """A kernel ran for longer than the device allows, and has not ended."""


class Stopped(GuestFault):
    """A kernel was running when its device was closed, or when its host was interrupted."""


def note_interrupt(cause: BaseException, *places: tuple[str, object]) -> None:
    """Have what a host was interrupted with (Ctrl-C) tell where its kernel or RUN was, if nobody has yet."""
    if not isinstance(cause, Exception) and not hasattr(cause, "__notes__"):
        cause.add_note("what ran is not finished, " + ", ".join(f"at {kind} {at}" for kind, at in places))


def default_time_limit() -> float | None:
    """Seconds that a kernel may run on a device that was made without `time_limit_seconds`; None: any number.

    The environment says (see `VARIABLE`); else `UNATTENDED_SECONDS` under pytest and where CI is set, none elsewhere:
    an endless kernel must not use up a build machine's hour, and where somebody watches there is Ctrl-C.
    """
    text = os.environ.get(VARIABLE, "").strip().lower()
    if text:
        try:
            return None if text == "none" else checked_time_limit(float(text))
        except ValueError:
            raise WireError(f"{VARIABLE}={text}, expected a number of seconds or none") from None
    unattended = any(os.environ.get(name, "").lower() not in ("", "0", "false") for name in UNATTENDED)
    return UNATTENDED_SECONDS if unattended else None


def checked_time_limit(seconds: Any) -> float | None:
    """`seconds` as a time limit; `WireError` for what is none."""
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise WireError(f"time_limit_seconds {seconds!r}, expected a number of seconds above 0, or None")
    return float(seconds)


def past_steps(step_limit: int | None, time_limit_seconds: float | None) -> str:
    """What ended a kernel that executed too many instructions, with the other limit there is."""
    seconds = "None" if time_limit_seconds is None else f"{time_limit_seconds:g}"
    return f"{step_limit} instructions (step_limit; time_limit_seconds is {seconds})"


def past_time(time_limit_seconds: float, step_limit: int | None) -> str:
    """What ended a kernel that took too long, likewise."""
    return f"{time_limit_seconds:g} s (time_limit_seconds; step_limit is {step_limit})"


@dataclass(slots=True)
class Watch:
    """What may end the kernels of a device from outside. `stopped`: why they must not go on, if so."""

    time_limit_seconds: float | None = field(default_factory=default_time_limit)
    stopped: str = ""
    meanwhile: Callable[[], None] | None = None
    """Called whenever a kernel is looked at, after that, on the thread that does: see `pass_time`."""

    def pass_time(self) -> float:
        """Have others do what they have to while a kernel runs; the seconds that took, which do not count for it."""
        if self.meanwhile is None:
            return 0.0
        began = time.monotonic()
        self.meanwhile()
        return time.monotonic() - began

    def look(self, began: float, doing: Callable[[], str], step_limit: int | None, what: str = "the kernel") -> None:
        """`Stopped`, or `TimeLimit` for a kernel that began at `began` (`time.monotonic`) and is `doing` that.

        `what` it is if no kernel.
        """
        if self.stopped:
            raise Stopped(f"{self.stopped} while {what} ran: {doing()}")
        limit = self.time_limit_seconds
        if limit is not None and time.monotonic() - began > limit:
            raise TimeLimit(f"{what} did not end within {past_time(limit, step_limit)}: {doing()}")
