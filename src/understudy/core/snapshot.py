"""Memory contents to keep and to go back to, without touching pages nobody used."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from understudy.core.space import PAGE_SIZE, Ram

CHUNK: Final = 64 << 10
_PRESENT: Final = np.uint64(3 << 62)
"""Flags of a page in Linux's page map: in memory, or swapped out."""


def save_ram(ram: Ram) -> dict[int, bytes]:
    """The chunks of `ram` that hold anything but zeros, by offset."""
    return {offset: data for offset, data in _used(ram) if data.count(0) != len(data)}


def restore_ram(ram: Ram, saved: dict[int, bytes]) -> None:
    """Make `ram` what it was; host addresses stay."""
    ram.clear()
    for offset, data in saved.items():
        ram.view[offset : offset + len(data)] = data


def _used(ram: Ram) -> Iterator[tuple[int, bytes]]:
    touched = _touched_pages(ram)
    pages_per_chunk = CHUNK // PAGE_SIZE
    for offset in range(0, ram.size, CHUNK):
        first = offset // PAGE_SIZE
        if touched is None or touched[first : first + pages_per_chunk + 1].any():
            yield offset, bytes(ram.view[offset : offset + CHUNK])


def _touched_pages(ram: Ram) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
    """Which of the host's pages from the start of `ram` on were ever touched; None where the host cannot tell."""
    if sys.platform != "linux":
        return None
    first, pages = ram.base_host // PAGE_SIZE, -(-ram.size // PAGE_SIZE) + 1
    try:
        with Path("/proc/self/pagemap").open("rb") as table:
            table.seek(first * 8)
            data = table.read(pages * 8)
    except OSError:
        return None
    if len(data) != pages * 8:
        return None
    return np.asarray(np.frombuffer(data, dtype=np.uint64) & _PRESENT != 0)
