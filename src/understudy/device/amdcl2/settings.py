"""What a user of programs of AMD OpenCL 2.0 can choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from understudy.core.checks import LEAKS, MEMORY, SYNC
from understudy.core.errors import BeyondModel
from understudy.core.settings import KernelSettings


@dataclass(frozen=True, slots=True)
class Settings(KernelSettings):
    """Choices of one program's device, beside those of `KernelSettings`. Its engine and processor are no settings.

    `trace_waves`: events tell of so many waves of a launch, those of its first groups, when each begins and ends.
    Those groups run one by one then.
    `snapshots`: events tell of so many times what registers of a wave held: where it failed or trapped, and at what
    `Program.moments` says. Waves run on the reference engine then, where registers are all there.
    """

    LEAST: ClassVar[Mapping[str, int]] = {"trace_waves": 0, "snapshots": 0}

    trace_waves: int = 0
    snapshots: int = 0

    def verify(self) -> None:
        """Of checks those of memory and of barriers look at the reference engine's waves as they are."""
        KernelSettings.verify(self)
        if self.snapshots and self.checks - {MEMORY, LEAKS, SYNC}:
            raise BeyondModel(f"snapshots with check {self.check!r}, expected one of them")
