"""A hart's way to memory: the contract between engines and devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable


class HartPort(Protocol):
    """Memory as one hart sees it. Addresses are guest addresses; every refusal is an `AccessFault`.

    Accesses here are aligned to their size and at most 8 bytes; engines trap misaligned ones first.
    """

    def load(self, address: int, size: int) -> int:
        """The little-endian unsigned number of `size` bytes at `address`; may have effects (registers)."""

    def store(self, address: int, size: int, value: int) -> None:
        """Store the low `size` bytes of `value`."""

    def fetch(self, address: int) -> int:
        """The 16-bit parcel at `address`, for execution."""

    def page(self, address: int, access: str) -> int | None:
        """How engines may reach the whole 4 KiB page around `address` directly.

        Gives host address minus guest address (modulo 2**64), valid for every byte of the page, or None where each
        access must come through `load`, `store` or `fetch`. `access` is "load" or "store".
        """


@runtime_checkable
class ExtentPort(HartPort, Protocol):
    """A port that can say how far a page's difference holds, so that engines need not ask page by page."""

    def extent(self, address: int, access: str) -> tuple[int, int]:
        """The guest range (start, end) around `address` in which the difference that `page` gives holds."""


@runtime_checkable
class ReservingPort(HartPort, Protocol):
    """A port that has places where nothing can be reserved: registers."""

    def check_reservable(self, address: int, size: int, access: str) -> None:
        """`AccessFault` where load-reserved (`access` "load") and store-conditional ("store") are refused."""


@runtime_checkable
class CachingPort(HartPort, Protocol):
    """A port with a modelled data cache, which atomic operations go past."""

    def load_uncached(self, address: int, size: int) -> int:
        """Like `load`, but from memory: load-reserved."""

    def exchange(self, address: int, size: int, new: Callable[[int], int]) -> int:
        """Replace the number at `address` in memory by `new` of it and give the old one."""


@runtime_checkable
class PlacePort(HartPort, Protocol):
    """A port that can say where in this process a byte of memory lies, whether engines may reach it directly or not."""

    def place(self, address: int) -> int | None:
        """The host address of the byte at `address`; None for registers, and where nothing may be read or written."""
