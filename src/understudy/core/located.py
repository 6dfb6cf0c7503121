"""Where in its code and its source an instruction is: who knows a device's code tells, findings and errors say so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.core.errors import Place, UnderstudyError

if TYPE_CHECKING:
    from understudy.core.findings import Finding


@dataclass(frozen=True, slots=True)
class CodePlace:
    """`at`: function and offset; `kernel`: the function, if it is one; `source`: file and line. "" is not known."""

    at: str = ""
    kernel: str = ""
    source: str = ""


def in_function(name: str, offset: int) -> str:
    """``kernel+0x10``."""
    return f"{name}+{offset:#x}" if offset else name


Locator = Callable[[int], CodePlace | None]
"""What is known of the instruction at an address; None for one in other code."""


class Locators:
    """All who know code of a device: each is `known` as long as its code is in device memory."""

    def __init__(self) -> None:
        self.known: list[Locator] = []

    def at(self, pc: int) -> CodePlace:
        """Where the instruction at an address is."""
        return next((found for each in tuple(self.known) if (found := each(pc)) is not None), CodePlace())

    def complete(self, finding: Finding) -> None:
        """Say where a finding is."""
        if finding.pc is None:
            return
        found = self.at(finding.pc)
        finding.at = found.at or finding.at
        finding.source = found.source or finding.source
        finding.kernel = found.kernel or finding.kernel

    def place(self, error: UnderstudyError) -> None:
        """Say it of each pc of an error."""
        error.path = tuple(self._placed(place) if place.kind == "pc" else place for place in error.path)

    def _placed(self, place: Place) -> Place:
        found = self.at(int(place.where, 16))
        return Place(place.kind, place.where, ", ".join(filter(None, (found.at, place.what, found.source))))
