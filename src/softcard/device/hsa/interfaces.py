"""The interfaces through which parts of a device access the device, so that they do not depend on it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from softcard.core.errors import SoftcardError
from softcard.core.lint import LintDesk
from softcard.engine.gcn.memory import GpuMemory


class Exclusive(Protocol):
    """The interface of an object that can prevent packets from being processed."""

    def alone(self) -> AbstractContextManager[None]:
        """Return a context manager; no thread processes packets during its ``with`` block."""


class World(Protocol):
    """The interface of an HSA device that its signals use."""

    memory: GpuMemory
    desk: LintDesk
    """The queue of lints that have yet to be reported to the host."""
    signal_bits: int
    """The number of bits of a signal's value: 64, or 32 in the small machine model."""

    era: int
    """A number that changes with each reset or restore of the device."""

    def block(self, address: int) -> object:
        """Return an object that identifies the allocation at `address`, or None.

        None means that no allocation contains the address.
        """

    def report_lints(self, error: BaseException | None = None, *, with_findings: bool = True) -> None:
        """Report lints to the host at the end of a call that the host made, which may have raised `error`.

        Do nothing if a callback made the call.
        """

    def interrupt(self, event_id: int) -> None:
        """Wake the threads that wait for the event `event_id`."""

    def check_host_store(self) -> None:
        """Raise `RuleError` if the host changes a signal of a closed device."""

    def signal_changed(self, signal: int) -> None:
        """Handle a change of a signal by the host; packets may wait for the signal."""

    def waited(self, signal: int) -> None:
        """Handle the successful end of the host's wait for the signal at this address."""

    def signal_was_read(self, signal: int) -> None:
        """Handle the host's read of the signal at this address, other than by a wait."""

    def progress(self) -> bool:
        """Process packets on the calling thread; return False if none could be processed."""

    def await_change(self, seconds: float) -> None:
        """Wait until the device's state changes, but at most `seconds`."""

    def stuck(self, address: int) -> SoftcardError | None:
        """Return the error because of which the signal at `address` will not change unless the host changes it.

        Return None if it may change.
        """

    def never(self, address: int) -> None:
        """Report to the checks that the host would wait for ever for the signal at `address`.

        The wait then raises an error.
        """

    def abandon(self, address: int, cause: BaseException) -> None:
        """End the work for which the host was waiting, because its wait was interrupted (Ctrl-C).

        `address` is that of the awaited signal, `cause` the exception that interrupted the wait.
        """


class PacketQueue(Protocol):
    """The interface of an AQL queue for the fast path, on which native code of the simulator processes packets."""

    address: int
    block_address: int
    """The address of the words that the queue shares with machine code: see `native_packets.Q`."""
    words: Any

    @property
    def device(self) -> World:
        """The device of the queue."""

    def packet_address(self, index: int) -> int:
        """Return the address of packet `index` in the ring."""
