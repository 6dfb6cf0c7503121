"""A hart's way to memory: the contract between engines and devices."""

from __future__ import annotations

from typing import Protocol


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
