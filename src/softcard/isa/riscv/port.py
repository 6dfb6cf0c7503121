"""The memory interface of a hart, through which engines access a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeGuard, runtime_checkable


class HartPort(Protocol):
    """The memory of a device as one hart accesses it, by guest addresses; failing accesses raise `AccessFault`.

    All accesses are aligned to their size and have at most 8 bytes. For a misaligned access, engines raise a trap or
    split it into bytes before they call the port.
    """

    def load(self, address: int, size: int) -> int:
        """Load `size` bytes as a little-endian unsigned number; loads of device registers may have effects."""

    def store(self, address: int, size: int, value: int) -> None:
        """Store the low `size` bytes of `value`."""

    def fetch(self, address: int) -> int:
        """Return the halfword at `address`, as an instruction fetch reads it."""

    def page(self, address: int, access: str) -> int | None:
        """Return the host address minus the guest address (modulo 2**64) of the 4 KiB page that contains `address`.

        With this offset engines access every byte of the page directly in host memory. The result is None if each
        access must use `load`, `store` or `fetch`. `access` is "load" or "store"."""


@runtime_checkable
class ExtentPort(HartPort, Protocol):
    """A port that can return the whole address range in which a result of `page` is valid.

    With such a port engines need not query every page."""

    def extent(self, address: int, access: str) -> tuple[int, int]:
        """Return the guest range (start, end) around `address` in which the offset that `page` returns is valid.

        `access` is "load" or "store"."""


@runtime_checkable
class ReservingPort(HartPort, Protocol):
    """A port with addresses, such as device registers, that load-reserved cannot reserve."""

    def check_reservable(self, address: int, size: int, access: str) -> None:
        """Raise an `AccessFault` if load-reserved or store-conditional is not possible at `address`.

        `access` is "load" for load-reserved, "store" for store-conditional.
        """


@runtime_checkable
class CachingPort(HartPort, Protocol):
    """A port with a modelled data cache, which atomic operations bypass."""

    def load_uncached(self, address: int, size: int) -> int:
        """Load from memory for load-reserved, bypassing the cache."""

    def exchange(self, address: int, size: int, new: Callable[[int], int]) -> int:
        """Replace the number in memory by `new(number)`, bypassing the cache; return the old number."""


@runtime_checkable
class PlacePort(HartPort, Protocol):
    """A port that can return the host address of a memory byte, even where engines must not access it directly."""

    def place(self, address: int) -> int | None:
        """Return the host address of the byte at `address`; None for device registers and inaccessible addresses."""


# The functions below look only for the methods by which the protocols differ from `HartPort`: `isinstance` looks every
# method up at each call, which takes 0.1 ms before Python 3.12. A port may have them as attributes of the object.


def has_extents(port: HartPort) -> TypeGuard[ExtentPort]:
    """Return True if `port` is an `ExtentPort`."""
    return hasattr(port, "extent")


def is_caching(port: HartPort) -> TypeGuard[CachingPort]:
    """Return True if `port` is a `CachingPort`."""
    return hasattr(port, "load_uncached") and hasattr(port, "exchange")


def has_places(port: HartPort) -> TypeGuard[PlacePort]:
    """Return True if `port` is a `PlacePort`."""
    return hasattr(port, "place")
