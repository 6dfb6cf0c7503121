"""What a user of programs of AMD OpenCL 2.0 can choose."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.core.settings import KernelSettings


@dataclass(frozen=True, slots=True)
class Settings(KernelSettings):
    """Choices of one program's device: those of `KernelSettings`. Its engine and processor are no settings."""
