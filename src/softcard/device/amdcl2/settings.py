"""The settings of AMD OpenCL 2.0 programs."""

from __future__ import annotations

from dataclasses import dataclass

from softcard.core.settings import KernelOptions, KernelSettings
from softcard.device.hsa.settings import WaveFields, WaveOptions, check_waves, fill_of


class ProgramOptions(KernelOptions, WaveOptions, total=False):
    """The settings of a program, as keywords; `Settings` describes them."""


@dataclass(frozen=True, slots=True)
class Settings(WaveFields, KernelSettings):
    """The settings of one program's device: those of `KernelSettings` and `WaveFields`.

    The engine and the processor cannot be selected here. If `snapshots` is not 0, the device takes snapshots of
    registers at faults, at traps and at the pcs in `Program.tracepoints`.
    The option `poison` of a single run overrides the setting, except for private memory."""

    def verify(self) -> None:
        """Raise an error for combinations of settings that are not supported."""
        KernelSettings.verify(self)
        check_waves(self, self)

    @property
    def fill(self) -> int | None:
        """The 32-bit word that fills undefined registers and memory; None if they are filled with 0."""
        return fill_of(self.poison, self.checks)
