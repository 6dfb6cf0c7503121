"""The settings of AMD OpenCL 2.0 programs."""

from __future__ import annotations

from dataclasses import dataclass

from softcard.device.hsa.settings import WaveOptions, WaveSettings


class ProgramOptions(WaveOptions, total=False):
    """The settings of a program, as keywords; `Settings` describes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(WaveSettings):
    """The settings of one program's device: those of `WaveSettings`.

    Engine and processor are not settings. The points of `snapshots` are those of `Program.tracepoints`. An option of a
    run overrides `poison`, except for private memory.
    """
