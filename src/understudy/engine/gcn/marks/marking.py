"""The marks of a device: which kinds there are, what of its memory is marked, and what was seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from understudy.core.checks import FIDELITY, INIT
from understudy.core.errors import ModelBug
from understudy.engine.gcn.marks.memory import MarkMemory
from understudy.engine.gcn.marks.sights import Sights

if TYPE_CHECKING:
    from understudy.engine.gcn.memory import GpuMemory

KINDS: Final = (INIT, FIDELITY)
"""Undefined: never written. Approximate: hardware may give other bits."""


@dataclass(slots=True, eq=False)
class Marking:
    """Kinds of marks, in the order of their twins, for the waves that see one memory."""

    memory: GpuMemory
    kinds: tuple[str, ...]
    sights: Sights = field(init=False)
    planes: tuple[MarkMemory, ...] = field(init=False)
    """The marks of its bytes, by kind."""

    def __post_init__(self) -> None:
        if not self.kinds or any(kind not in KINDS for kind in self.kinds):
            raise ModelBug(f"kinds of marks {self.kinds}, expected some of {KINDS}")
        self.sights = Sights(self.kinds)
        self.planes = tuple(MarkMemory(self.memory) for _ in self.kinds)

    def follow(self) -> None:
        """Bring the marks in line with what is mapped: before waves run, and before marking something."""
        for plane in self.planes:
            plane.follow(self.memory)

    def undefined(self, address: int, size: int) -> None:
        """The host got memory that nobody has written."""
        self._mark(INIT, address, size, True)

    def written(self, address: int, size: int) -> None:
        """The host wrote memory."""
        for kind in self.kinds:
            self._mark(kind, address, size, False)

    def _mark(self, kind: str, address: int, size: int, marked: bool) -> None:
        for each, plane in zip(self.kinds, self.planes, strict=True):
            if each == kind:
                plane.follow(self.memory)
                plane.mark(address, size, marked)
