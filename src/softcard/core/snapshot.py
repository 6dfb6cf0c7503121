"""Snapshots of the state of objects: the values of declared attributes, and the used pages of memory."""

from __future__ import annotations

import copy
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final, TypeVar

import numpy as np

from softcard.core.space import PAGE_SIZE, Ram

T = TypeVar("T")
CHUNK: Final = 64 << 10
_PRESENT: Final = np.uint64(3 << 62)
"""The flags, in a page's entry of Linux's /proc/self/pagemap, of a page that is in memory or swapped out."""


class Stateful:
    """A base class of objects whose changing state is in the attributes named in `STATE`.

    All other attributes are constant. A snapshot copies containers with their contents. Restoring changes
    containers in place, so that every object that refers to a container sees the restored contents. `Stateful`
    objects that are elements of a list or values of a dictionary are copied as well. `Stateful` objects and RAM
    that are attributes, or elements of a tuple, keep their identity, and their state is restored. Any other value
    is stored as it is."""

    __slots__ = ()
    STATE: ClassVar[tuple[str, ...]]

    def snapshot(self) -> object:
        """Return the state as an opaque value for `restore`."""
        return tuple(_copied(getattr(self, name)) for name in self.STATE)

    def restore(self, state: object) -> None:
        """Restore a state that `snapshot` of this object, or of an object with an equal configuration, returned."""
        assert isinstance(state, tuple)
        for name, saved in zip(self.STATE, state, strict=True):
            now = getattr(self, name)
            back = _back(now, saved)
            if back is not now:
                setattr(self, name, back)


_CONTAINERS: Final = (list, deque, dict, set)
_CHANGING: Final = (Stateful, bytearray, *_CONTAINERS)


def _copied(value: Any) -> Any:
    if isinstance(value, Stateful):
        return value.snapshot()
    if isinstance(value, Ram):
        return save_ram(value)
    if isinstance(value, memoryview):
        return bytes(value)
    return tuple(map(_copied, value)) if _is_tuple_of_places(value) else copied(value)


def _back(now: Any, saved: Any) -> Any:
    """Return an attribute's value after its state was set back to `saved`; `now` is its present value.

    Containers, and objects that keep their identity, are updated in place."""
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
    """Return a copy of a container or of a `Stateful` object; return any other value itself."""
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
    """Return the blocks of `ram` that contain nonzero bytes, by offset."""
    return {offset: data for offset, data in _used(ram) if data.count(0) != len(data)}


def restore_ram(ram: Ram, saved: dict[int, bytes]) -> None:
    """Restore the contents of `ram` that `save_ram` returned; its host address does not change."""
    ram.clear()
    for offset, data in saved.items():
        ram.view[offset : offset + len(data)] = data


def _used(ram: Ram) -> Iterator[tuple[int, bytes]]:
    touched = _touched_pages(ram)
    offsets: Iterable[int] = range(0, ram.size, CHUNK)
    if touched is not None:  # a page may lie in two chunks: memory need not begin at a page boundary of the host
        pages, pages_per_chunk = np.flatnonzero(touched), CHUNK // PAGE_SIZE
        chunks = np.union1d(pages // pages_per_chunk, (pages - 1) // pages_per_chunk).tolist()
        offsets = (chunk * CHUNK for chunk in chunks if 0 <= chunk * CHUNK < ram.size)
    for offset in offsets:
        yield offset, bytes(ram.view[offset : offset + CHUNK])


def _touched_pages(ram: Ram) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
    """Return, for each host page of `ram`, True if it was ever touched; None if the host does not report it."""
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
