"""Which bytes of a device's memory nobody has written: marks beside them, moved by whatever moves the bytes."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from understudy.core.space import Mapping, Ram
from understudy.device.refsi.registers import TCDM_BASE
from understudy.device.refsi.spec.decode import Location
from understudy.device.refsi.spec.transfer import Side
from understudy.engine.riscv.marks.block import MarkedRam
from understudy.engine.riscv.marks.check import MarkCheck

UNDEFINED: Final = 0xFF
Bytes = npt.NDArray[np.uint8]


class MemoryMarks:
    """The marks of one device's memory, and who tells of them."""

    def __init__(self, check: MarkCheck) -> None:
        self.check = check

    def opened(self, mappings: list[Mapping]) -> None:
        """Fresh memory: nobody has written TCDM; of DRAM that is what is allocated."""
        for each in mappings:
            if isinstance(each.region, MarkedRam) and each.base == TCDM_BASE:
                each.region.marks[:] = UNDEFINED

    def forgotten(self, rams: tuple[Ram, ...]) -> None:
        """Memory is another one: nothing is known of it."""
        for ram in rams:
            if isinstance(ram, MarkedRam):
                ram.marks[:] = 0

    def undefined(self, place: Location) -> None:
        """The host got memory that nobody has written."""
        self._set(place, UNDEFINED)

    def written(self, place: Location) -> None:
        """The host, or a command, wrote memory."""
        self._set(place, 0)

    def _set(self, place: Location, value: int) -> None:
        for marks, _ in parts(place):
            marks[:] = value

    def copied(self, source: Location, target: Location) -> None:
        """COPY_MEM64."""
        found = np.concatenate([marks for marks, _ in parts(source)])
        done = 0
        for marks, _ in parts(target):
            marks[:] = found[done : done + len(marks)]
            done += len(marks)

    def moved(self, source: Side, target: Side) -> None:
        """A DMA transfer."""
        for start, end in zip(source.rows(), target.rows(), strict=True):
            self.copied(start, end)

    def read_back(self, address: int, place: Location) -> None:
        """The host gets what is there."""
        self.check.read_back(address, [(host, marks) for marks, host in parts(place)])
        self.written(place)


def parts(place: Location) -> list[tuple[Bytes, int]]:
    """The marks of what lies side by side, and where in this process it lies."""
    ram = place.ram
    assert isinstance(ram, MarkedRam)
    base = place.mapping.base
    marks = ram.marks
    return [(marks[at - base : at - base + size], ram.base_host + at - base) for at, size in place.runs()]
