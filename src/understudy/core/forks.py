"""What child processes of os.fork() must forget: threads are not copied, and what they held stays locked for ever."""

from __future__ import annotations

import os
import time
import weakref
from typing import Final, Protocol

FORKED: Final = "another thread was using the device when this process was forked, expected a device of its own"


class Forked(Protocol):
    """Something that has threads."""

    def after_fork(self) -> None:
        """Forget them: this is a child process, on its only thread."""


REST_SECONDS: Final = 0.1
"""How long a fork waits for threads that have nearly done their work, as far as anybody can know."""


class Resting(Protocol):
    """Something whose threads are at work, and at rest in between."""

    @property
    def is_at_rest(self) -> bool:
        """Whether no other thread is amid something that a child process could not finish."""


_resting: Final[weakref.WeakSet[Resting]] = weakref.WeakSet()
_known: Final[weakref.WeakSet[Forked]] = weakref.WeakSet()


def tell_forks(owner: Forked) -> None:
    """Have `after_fork` of an object called in every child process, as long as the object lives."""
    _known.add(owner)


def rest_before_forks(owner: Resting) -> None:
    """Have forks wait a moment until an object is at rest: its host may know of results before its thread is done."""
    _resting.add(owner)


def _before() -> None:
    end = time.monotonic() + REST_SECONDS
    while not all(owner.is_at_rest for owner in list(_resting)) and time.monotonic() < end:
        time.sleep(0.0005)


def _in_child() -> None:
    for owner in list(_known):
        owner.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)
