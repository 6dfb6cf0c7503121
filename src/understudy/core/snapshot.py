"""State to keep and to go back to: what a class declares of its own, and memory without touching pages nobody used."""

from __future__ import annotations

import copy
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final, TypeVar

import numpy as np

from understudy.core.space import PAGE_SIZE, Ram

T = TypeVar("T")
CHUNK: Final = 64 << 10
_PRESENT: Final = np.uint64(3 << 62)
"""Flags of a page in Linux's page map: in memory, or swapped out."""


class Stateful:
    """Something whose state is what the attributes named in `STATE` hold; all else of it does not change.

    Containers are copied with what is in them, and get it back in place, so that whoever shares them sees it. What is
    `Stateful` in a list or as a value of a dictionary is copied too; as an attribute, or in a tuple, it and RAM are
    places: they stay, and get their own state back. Anything else is kept as it is.
    """

    __slots__ = ()
    STATE: ClassVar[tuple[str, ...]]

    def snapshot(self) -> Any:
        """The state, for `restore`; to be kept, not to be looked into."""
        return tuple(_kept(getattr(self, name)) for name in self.STATE)

    def restore(self, state: Any) -> None:
        """Go back to a state that `snapshot` gave, of this object or of one that was made alike."""
        for name, saved in zip(self.STATE, state, strict=True):
            now = getattr(self, name)
            back = _back(now, saved)
            if back is not now:
                setattr(self, name, back)


_CONTAINERS: Final = (list, deque, dict, set)
_CHANGING: Final = (Stateful, bytearray, *_CONTAINERS)


def _kept(value: Any) -> Any:
    if isinstance(value, Stateful):
        return value.snapshot()
    if isinstance(value, Ram):
        return save_ram(value)
    if isinstance(value, memoryview):
        return bytes(value)
    return tuple(map(_kept, value)) if _is_tuple_of_places(value) else copied(value)


def _back(now: Any, saved: Any) -> Any:
    """What is there after the way back: places and containers stay."""
    if isinstance(now, Stateful):
        now.restore(saved)
    elif isinstance(now, Ram):
        restore_ram(now, saved)
    elif isinstance(now, memoryview):
        now.cast("B")[:] = saved
    elif _is_tuple_of_places(now):
        for each, its in zip(now, saved, strict=True):
            _back(each, its)
    elif isinstance(now, (list, deque)):
        now.clear()
        now.extend(copied(saved))
    elif isinstance(now, (dict, set)):
        now.clear()
        now.update(copied(saved))
    else:
        return copied(saved)
    return now


def _is_tuple_of_places(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], (Stateful, Ram))


def copied(value: T) -> T:
    """A copy to keep of a container or of something `Stateful`; anything else is itself."""
    made: Any = value
    if isinstance(value, Stateful):
        made = copy.copy(value)
        for name in value.STATE:
            setattr(made, name, copied(getattr(value, name)))
    elif isinstance(value, bytearray):
        made = bytearray(value)
    elif isinstance(value, _CONTAINERS):
        made = value.copy()
        if isinstance(value, dict):
            made.update((key, copied(each)) for key, each in value.items() if isinstance(each, _CHANGING))
        elif isinstance(value, (list, deque)):
            for index, each in enumerate(value):
                if isinstance(each, _CHANGING):
                    made[index] = copied(each)
    return made  # type: ignore[no-any-return]


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
    offsets: Iterable[int] = range(0, ram.size, CHUNK)
    if touched is not None:  # a page may lie in two chunks: memory need not begin where a page of the host does
        pages, pages_per_chunk = np.flatnonzero(touched), CHUNK // PAGE_SIZE
        chunks = np.union1d(pages // pages_per_chunk, (pages - 1) // pages_per_chunk).tolist()
        offsets = (chunk * CHUNK for chunk in chunks if 0 <= chunk * CHUNK < ram.size)
    for offset in offsets:
        yield offset, bytes(ram.view[offset : offset + CHUNK])


def _touched_pages(ram: Ram) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
    """Which of the host's pages from the start of `ram` on were ever touched; None where the host cannot tell."""
    if sys.platform != "linux":
        return None
    first, pages = ram.base_host // PAGE_SIZE, -(-ram.size // PAGE_SIZE) + 1
    try:
        with open("/proc/self/pagemap", "rb") as table:
            table.seek(first * 8)
            data = table.read(pages * 8)
    except OSError:
        return None
    if len(data) != pages * 8:
        return None
    return np.asarray(np.frombuffer(data, dtype=np.uint64) & _PRESENT != 0)
