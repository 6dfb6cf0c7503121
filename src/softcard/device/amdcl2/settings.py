"""The settings of AMD OpenCL 2.0 programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from softcard.core.checks import having
from softcard.core.errors import BeyondModel
from softcard.core.settings import KernelOptions, KernelSettings
from softcard.device.hsa.settings import check_poison, fill_of


class ProgramOptions(KernelOptions, total=False):
    """The settings of a program, as keywords; `Settings` describes them."""

    trace_waves: int
    snapshots: int
    poison: int | None


@dataclass(frozen=True, slots=True)
class Settings(KernelSettings):
    """The settings of one program's device, in addition to those of `KernelSettings`.

    The engine and the processor cannot be selected here.

    `trace_waves`: the number of waves of each launch that emit an event when they start and when they end. They
    are the waves of the launch's first work-groups, which then run one after another.

    `snapshots`: the maximum number of events that contain a wave's registers. Such events are emitted at a
    failure, at a trap, and at the points of `Program.tracepoints`. If this is not 0, waves run on the reference
    engine, which has all registers.

    `poison`: the 32-bit word that fills undefined registers, LDS and private memory. None means 0, or 0xfff5a5d3
    with check "init". The option `poison` of a single run overrides it."""

    LEAST: ClassVar[Mapping[str, int]] = {"trace_waves": 0, "snapshots": 0, "poison": 0}

    trace_waves: int = 0
    snapshots: int = 0
    poison: int | None = None

    def verify(self) -> None:
        """Raise `BeyondModel` if `snapshots` is set together with a check that cannot run on the reference engine."""
        KernelSettings.verify(self)
        check_poison(self.poison)
        if self.snapshots and having(self.checks, lambda kind: not kind.with_snapshots):
            raise BeyondModel(f"snapshots cannot be used with check {self.check!r}: set only one of the two")

    @property
    def fill(self) -> int | None:
        """The word that fills undefined registers and memory; None for 0."""
        return fill_of(self.poison, self.checks)
