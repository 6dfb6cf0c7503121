"""Doorbells are memory of the program: who serves queues has to look at them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from understudy.device.kfd.shared_memory import DOORBELL_BYTES
from understudy.ir.native import U64, V32, V64, link, native
from understudy.ir.object_cache import ObjectCache, default_folder

SLOTS: Final = 1024
NEVER_RUNG: Final = (1 << 64) - 1


@native
def find_rung(places: int, seen: int, count: int, narrow: int, turns: int) -> int:
    """The first of `count` doorbells that is not as it was `seen`, looked for `turns` times; `count` for none."""
    for _ in range(turns):
        for each in range(count):
            place = U64.at(places)[each]
            now = V32[place] if narrow else V64[place]
            if now != U64.at(seen)[each]:
                return each
    return count


@cache
def _find_rung() -> Callable[..., int]:
    """Machine code of it, which lets other threads of Python run meanwhile."""
    word = ctypes.c_uint64
    code = link(ObjectCache(default_folder()), find_rung)
    found: Callable[..., int] = code.function(find_rung.name, word, *[word] * 5)
    return found


class Doorbells:
    """The doorbells of one agent that somebody looks at: `page` is their memory. For one thread."""

    def __init__(self, page: npt.NDArray[np.uint8], *, is_legacy: bool) -> None:
        self._narrow = int(is_legacy)
        self._width = 4 if is_legacy else DOORBELL_BYTES // SLOTS
        self._words: Any = page.view(np.uint32 if is_legacy else np.uint64)
        self._base = int(page.ctypes.data)
        self._slots: list[int] = []
        self._places = self._seen = np.zeros(0, np.uint64)

    def offset(self, slot: int) -> int:
        """Of a doorbell, in the page."""
        return slot * self._width

    def clear(self, slot: int, value: int) -> None:
        """Set a doorbell to what nobody rings it with, before its queue begins."""
        self._words[slot] = value

    def watch(self, slots: dict[int, int]) -> None:
        """Look at these doorbells, each with what was seen of it last."""
        self._slots = list(slots)
        self._places = np.array([self._base + self.offset(slot) for slot in slots], np.uint64)
        self._seen = np.array(list(slots.values()), np.uint64)

    def next(self, turns: int) -> tuple[int, int] | None:
        """A doorbell that was rung, and its value; None for none after so many looks."""
        count = len(self._slots)
        if not count:
            return None
        found = _find_rung()(self._places.ctypes.data, self._seen.ctypes.data, count, self._narrow, turns)
        if found == count:
            return None
        value = int(self._words[self._slots[found]])
        self._seen[found] = value
        return self._slots[found], value
