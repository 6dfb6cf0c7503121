"""COPY_MEM64 between plain memories: the bytes that copying 8-byte elements one by one, upwards, gives."""

from __future__ import annotations

from typing import Final

import numpy as np

from understudy.device.refsi.refsidrv.devices import Span

ELEMENT: Final = 8


def copy_elements(source: Span, target: Span, count: int) -> None:
    """Copy `count` elements. Where the target starts inside the source, elements are copied that were just written."""
    (from_ram, first), (to_ram, into) = source, target
    size = count * ELEMENT
    distance = into - first
    old = bytes(from_ram.view[first : first + size])
    if from_ram is not to_ram or not 0 < distance < size:
        new = old
    elif distance >= ELEMENT:
        new = (old[:distance] * (size // distance + 1))[:size]
    else:
        new = _onto_itself(old, distance)
    to_ram.view[into : into + size] = new


def _onto_itself(old: bytes, distance: int) -> bytes:
    """The target less than an element ahead: of each element, the first bytes have been written by the one before.

    They were that one's last bytes, some of which may in turn be the first of the one before: fewer each time.
    """
    new = np.frombuffer(old, dtype=np.uint8).reshape(-1, ELEMENT).copy()
    for _ in range(ELEMENT):
        new[1:, :distance] = new[:-1, ELEMENT - distance :].copy()
    return new.tobytes()
