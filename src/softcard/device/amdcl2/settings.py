"""The settings of AMD OpenCL 2.0 programs."""

from __future__ import annotations

from dataclasses import dataclass

from softcard.device.hsa.settings import WaveOptions, WaveSettings


class ProgramOptions(WaveOptions, total=False):
    """The settings of a program, as keywords; `Settings` describes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(WaveSettings):
    """The settings of one program's device: those of `WaveSettings`.

    The engine and the processor cannot be selected here. The points of `snapshots` are those of `Program.tracepoints`.
    The option `poison` of a single run overrides the setting, except for private memory."""
