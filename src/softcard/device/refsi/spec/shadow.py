"""The shadow memory (definedness) of a device's memory, which every write and copy of bytes updates."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from softcard.core.space import Mapping, Ram
from softcard.device.refsi.registers import TCDM_BASE
from softcard.device.refsi.spec.decode import Location
from softcard.device.refsi.spec.transfer import Side
from softcard.engine.riscv.hooks import Shadow
from softcard.engine.riscv.shadow_layout import ShadowedRam

UNDEFINED: Final = 0xFF
Bytes = npt.NDArray[np.uint8]


class MemoryShadow:
    """The shadow memory of one device's memory; `shadow` checks the bytes that the host reads."""

    def __init__(self, shadow: Shadow) -> None:
        self._shadow = shadow

    def opened(self, mappings: list[Mapping]) -> None:
        """Initialise the shadow memory of new memory: TCDM is undefined from the start.

        DRAM becomes undefined when it is allocated.
        """
        for each in mappings:
            if isinstance(each.region, ShadowedRam) and each.base == TCDM_BASE:
                each.region.shadows[:] = UNDEFINED

    def forgotten(self, rams: tuple[Ram, ...]) -> None:
        """Mark all bytes of `rams` as defined, after their contents were restored from a snapshot."""
        for ram in rams:
            if isinstance(ram, ShadowedRam):
                ram.clear_shadows()

    def undefined(self, place: Location) -> None:
        """Mark the bytes of `place`, which the host has allocated, as undefined."""
        self._set(place, UNDEFINED)

    def written(self, place: Location) -> None:
        """Mark the bytes of `place`, which the host or a command has written, as defined."""
        self._set(place, 0)

    def _set(self, place: Location, value: int) -> None:
        for shadows, _ in parts(place):
            shadows[:] = value

    def copied(self, source: Location, target: Location) -> None:
        """Copy the definedness of bytes that COPY_MEM64 copies."""
        found = np.concatenate([shadows for shadows, _ in parts(source)])
        done = 0
        for shadows, _ in parts(target):
            shadows[:] = found[done : done + len(shadows)]
            done += len(shadows)

    def moved(self, source: Side, target: Side) -> None:
        """Copy the definedness of bytes that a DMA transfer copies."""
        for start, end in zip(source.rows(), target.rows(), strict=True):
            self.copied(start, end)

    def read_back(self, address: int, place: Location) -> None:
        """Report undefined bytes that the host reads, then mark them as defined."""
        self._shadow.read_back(address, [(host, shadows) for shadows, host in parts(place)])
        self.written(place)


def parts(place: Location) -> list[tuple[Bytes, int]]:
    """Return the shadow bytes of each contiguous range of a location, with the host address of the range."""
    ram = place.ram
    assert isinstance(ram, ShadowedRam)
    base = place.mapping.base
    shadows = ram.shadows
    return [(shadows[at - base : at - base + size], ram.base_host + at - base) for at, size in place.runs()]
