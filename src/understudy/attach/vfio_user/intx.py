"""The one level-triggered interrupt of a PCI device, carried by an eventfd that knows edges only.

A high pin signals the eventfd once and masks itself (VFIO_IRQ_INFO_AUTOMASKED); the client unmasks at the guest's end
of interrupt, and if the pin is still high then, the eventfd is signalled again. So no interrupt is lost, and none
repeats while the guest has not dealt with the last.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable

EVENTFD_LINK = "anon_inode:[eventfd]"


def is_eventfd(fd: int) -> bool:
    """Whether a descriptor is an eventfd."""
    return os.readlink(f"/proc/self/fd/{fd}") == EVENTFD_LINK


def signal(fd: int) -> None:
    """Signal an eventfd, unless its counter is full: its owner has been signalled then, and does not look.

    Whether it blocks is a property of the open file, which its owner can change back at any time: so it is made not to
    block before each use, and asked whether it would.
    """
    os.set_blocking(fd, False)
    try:
        if _is_ready(fd, select.POLLOUT):
            os.eventfd_write(fd, 1)
    except BlockingIOError:
        return  # somebody else has filled it since


def take_signal(fd: int) -> bool:
    """Whether an eventfd was signalled; it is not any more then. Never blocks, likewise."""
    os.set_blocking(fd, False)
    try:
        return _is_ready(fd, select.POLLIN) and os.eventfd_read(fd) > 0
    except BlockingIOError:
        return False


def _is_ready(fd: int, for_what: int) -> bool:
    poll = select.poll()
    poll.register(fd, for_what)
    return any(events & for_what for _, events in poll.poll(0))


class Intx:
    """Pin level, mask and eventfds. `set_level` may come from any thread, all else from the one that receives."""

    def __init__(self, signalled: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._signalled = signalled
        self._high = False
        self._disabled = False
        self._masked = False
        self._trigger: int | None = None
        self.unmask_fd: int | None = None
        """Watched by the session: a signal there unmasks."""

    @property
    def masked(self) -> bool:
        """Whether the client must unmask before it hears of the pin again."""
        return self._masked

    def set_level(self, high: bool) -> None:
        """The device drives its pin."""
        with self._lock:
            self._high = high
            fired = self._evaluate()
        self._tell(fired)

    def set_disabled(self, disabled: bool) -> None:
        """Interrupt Disable in the Command register keeps the pin low."""
        with self._lock:
            self._disabled = disabled
            fired = self._evaluate()
        self._tell(fired)

    def set_masked(self, masked: bool) -> None:
        """The client masks or unmasks."""
        with self._lock:
            self._masked = masked
            fired = self._evaluate()
        self._tell(fired)

    def set_trigger(self, fd: int | None) -> None:
        """Signal `fd` (ours from now on) instead of the last one; None: nobody listens."""
        with self._lock:
            if self._trigger is not None:
                os.close(self._trigger)
            self._trigger = fd
            fired = self._evaluate()
        self._tell(fired)

    def set_unmask_fd(self, fd: int | None) -> None:
        """Watch `fd` (ours from now on) instead of the last one."""
        if self.unmask_fd is not None:
            os.close(self.unmask_fd)
        self.unmask_fd = fd

    def fire(self) -> None:
        """Signal at the client's own request, whatever the pin's level."""
        with self._lock:
            self._signal()
        self._tell(True)

    def disable(self) -> None:
        """Forget eventfds and mask, as at the end of a session; the pin stays as it is."""
        self.set_unmask_fd(None)
        with self._lock:
            if self._trigger is not None:
                os.close(self._trigger)
            self._trigger = None
            self._masked = False

    def _evaluate(self) -> bool:
        if not self._high or self._disabled or self._masked or self._trigger is None:
            return False
        self._masked = True
        self._signal()
        return True

    def _signal(self) -> None:
        if self._trigger is not None:
            signal(self._trigger)

    def _tell(self, fired: bool) -> None:
        if fired:
            self._signalled()
