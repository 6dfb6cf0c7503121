"""What child processes of os.fork() must forget: threads are not copied, and what they held stays locked for ever."""

from __future__ import annotations

import os
import weakref
from typing import Final, Protocol

FORKED: Final = "another thread was using the device when this process was forked, expected a device of its own"


class Forked(Protocol):
    """Something that has threads."""

    def after_fork(self) -> None:
        """Forget them: this is a child process, on its only thread."""


_known: Final[weakref.WeakSet[Forked]] = weakref.WeakSet()


def tell_forks(owner: Forked) -> None:
    """Have `after_fork` of an object called in every child process, as long as the object lives."""
    _known.add(owner)


def _in_child() -> None:
    for owner in list(_known):
        owner.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
