"""The settings of a RefSi device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from softcard.core.checks import CHECKS, having
from softcard.core.errors import BeyondModel, WireError
from softcard.core.settings import AUTO, JIT, REFERENCE, KernelOptions, KernelSettings
from softcard.device.refsi import registers as r
from softcard.device.refsi.events import TRACED
from softcard.device.refsi.spec.dma import IMMEDIATE, LATE
from softcard.device.refsi.spec.memory import STRICT
from softcard.device.refsi.toolkit.builder import PROFILES, REFSIDRV, SPEC
from softcard.isa.riscv.state import check_vlen

EAGER: Final = "eager"
DOCUMENT: Final = "document"
DRIVER: Final = "driver"


class RefSiOptions(KernelOptions, total=False):
    """The settings of a RefSi device, as keywords; `Settings` describes them."""

    profile: str
    engine: str
    cores: int
    harts: int
    coherence: str
    threads: int | None
    step_limit: int | None
    profile_level: int
    seed: int
    dma: str
    window_scale: str
    vlen: int | None
    trace_instances: int
    snapshots: int


@dataclass(frozen=True, slots=True)
class Settings(KernelSettings):
    """The settings of one device, in addition to those of `KernelSettings`.

    - `profile`: "spec" (the RefSi M1 specification, every error reported) or "refsidrv" (the behaviour of the
      reference driver, bit for bit). The RefSi G1 exists only in the profile "refsidrv".
    - `engine`: "jit" or "reference".
    - `threads`: the number of host threads that may run groups of a race-free kernel.
    - `cores`, `harts` (per core), `coherence` ("eager" or "strict") and `dma` ("late" or "immediate"): the
      properties of a device with profile "spec".
    - `window_scale`: the meaning of the field SCALE_A of windows. With "document", n stands for 2^n, as in the
      RefSi M1 specification. With "driver", n stands for 2^(n-1), as in the reference driver and the hosts
      written for it. "auto" selects the meaning that the profile defines.
    - `step_limit`: the maximum number of instructions of one kernel command.
    - `time_limit_seconds`: the maximum time of one kernel command.
    - `profile_level`: the equivalent of CA_PROFILE_LEVEL in the reference driver. From level 3 on, the device
      counts executed instructions by class.
    - `vlen`: the vector length in bits (a power of two, 64 to 65,536).
    - `seed`: a number that is stored, but has no effect on the present schedules.
    - `trace_instances`: the number of instances of a kernel command for which all events are emitted. These are
      the first instances; one event states how many more there are.
    - `snapshots`: the maximum number of events that contain a hart's registers. They are emitted at a
      failure, and at the points of `RefSiDevice.tracepoints`. If it is not 0, harts run on the slow reference
      engine. The check "waits" also selects that engine if the profile is "refsidrv" or coherence is strict."""

    RUNS_HARTS: ClassVar[bool] = True
    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "profile": PROFILES,
        "engine": (JIT, REFERENCE),
        "coherence": (EAGER, STRICT),
        "dma": (LATE, IMMEDIATE),
        "window_scale": (AUTO, DOCUMENT, DRIVER),
        **KernelSettings.CHOICES,
    }
    LEAST: ClassVar[Mapping[str, int]] = {
        "cores": 1,
        "harts": 1,
        "threads": 1,
        "step_limit": 1,
        "profile_level": 0,
        "trace_instances": 0,
        "snapshots": 0,
    }

    profile: str = SPEC
    engine: str = JIT
    cores: int = r.M1_CORES
    harts: int = r.M1_HARTS
    coherence: str = EAGER
    threads: int | None = None
    step_limit: int | None = None
    profile_level: int = 0
    seed: int = 0
    dma: str = LATE
    window_scale: str = AUTO
    vlen: int | None = None
    trace_instances: int = TRACED
    snapshots: int = 0

    @property
    def scale_encoding(self) -> str:
        """The profile ("spec" or "refsidrv") whose definition of the field SCALE_A applies."""
        return {DOCUMENT: SPEC, DRIVER: REFSIDRV}.get(self.window_scale, self.profile)

    def why_not_covered(self) -> str | None:
        """Return "", because all engines and checks of the device count instructions."""
        return ""

    def verify(self) -> None:
        """Raise an error for a combination of settings that is not supported.

        For example, the profile "refsidrv" supports only the numbers of cores and harts of the RefSi M1."""
        KernelSettings.verify(self)
        if self.snapshots and having(self.checks, lambda kind: not kind.with_snapshots):
            raise BeyondModel(f"snapshots cannot be used with check {self.check!r}: set only one of the two")
        if self.profile == REFSIDRV and having(self.checks, lambda kind: not kind.only_engine):
            others = ", ".join(sorted(having(CHECKS, lambda kind: kind.only_engine)))
            raise BeyondModel(
                f"check {self.check!r} is not supported in profile refsidrv, which supports only {others}: use "
                "profile='spec' (--profile spec); if the host was written for the reference driver, also set "
                "window_scale='driver' (--window-scale driver)"
            )
        if self.profile == REFSIDRV and self.window_scale == DOCUMENT:
            raise WireError(
                "window_scale='document' cannot be used with profile refsidrv, which reads window scales as the "
                "driver does"
            )
        if self.coherence == STRICT:
            for name in sorted(having(self.checks, lambda kind: kind.shadows_values)):
                raise BeyondModel(
                    f"check {name!r} cannot be used with coherence {STRICT!r}, whose data caches have no shadow memory"
                )
            for name in sorted(having(self.checks, lambda kind: kind.orders_accesses)):
                raise BeyondModel(
                    f"check {name!r} cannot be used with coherence {STRICT!r}, which reports stale reads itself"
                )
        if self.vlen is not None:
            check_vlen(self.vlen)
        if self.profile == REFSIDRV and (self.cores, self.harts, self.coherence) != (r.M1_CORES, r.M1_HARTS, EAGER):
            raise WireError(
                f"profile refsidrv requires cores={r.M1_CORES}, harts={r.M1_HARTS} and coherence={EAGER!r}, which the "
                "reference driver has"
            )
