"""What the parts of a device need of what is around them, so that none of them needs the device itself."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from understudy.core.errors import UnderstudyError
from understudy.core.lint import LintDesk
from understudy.engine.gcn.memory import GpuMemory


class Exclusive(Protocol):
    """Who keeps packets from being processed."""

    def alone(self) -> AbstractContextManager[None]:
        """Nobody processes packets in here."""


class World(Protocol):
    """What signals need of the device around them."""

    memory: GpuMemory
    desk: LintDesk
    """Lints that the host is to be told of."""
    signal_bits: int
    """Of a signal's value: 64, or 32 in the small machine model."""

    def block(self, address: int) -> object:
        """What was allocated at an address; None where nothing was."""

    def tell_lints(self, error: BaseException | None = None) -> None:
        """A call of the host ends, perhaps by an error: it is told of them, unless it was made inside of a callback."""

    def interrupt(self, event_id: int) -> None:
        """An event was sent: wake whoever waits."""

    def signal_changed(self) -> None:
        """The host changed a signal: packets may wait for it."""

    def waited(self, signal: int) -> None:
        """The host's wait for the signal at this address ended as it should."""

    def saw(self, signal: int) -> None:
        """Somebody has read the value of the signal at this address otherwise."""

    def progress(self) -> bool:
        """Do what can be done now on this thread; False where nothing could be."""

    def await_change(self, seconds: float) -> None:
        """Sleep until something changes or the time is over."""

    def stuck(self, address: int) -> UnderstudyError | None:
        """Why the signal at `address` can change no more without the host; None where it may."""

    def never(self, address: int) -> None:
        """The host waits for it for good: an error comes next."""


class PacketQueue(Protocol):
    """What machine code for packets needs of a queue."""

    address: int
    block_address: int
    """Where its words for machine code lie: see `native_packets.Q`."""
    words: Any

    @property
    def device(self) -> World:
        """Whose queue it is."""

    def packet_address(self, index: int) -> int:
        """Where packet `index` lies in the ring."""
