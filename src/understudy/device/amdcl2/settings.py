"""What a user of programs of AMD OpenCL 2.0 can choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from understudy.core.settings import KernelSettings


@dataclass(frozen=True, slots=True)
class Settings(KernelSettings):
    """Choices of one program's device, beside those of `KernelSettings`. Its engine and processor are no settings.

    `trace_waves`: events tell of so many waves of a launch, those of its first groups, when each begins and ends.
    Those groups run one by one then.
    """

    LEAST: ClassVar[Mapping[str, int]] = {"trace_waves": 0}

    trace_waves: int = 0
