"""What a user of the device can choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from understudy.core.checks import FIDELITY, INIT, LANES, RACES, WAITS
from understudy.core.errors import BeyondModel, WireError
from understudy.core.settings import JIT, REFERENCE, KernelSettings
from understudy.device.refsi import registers as r
from understudy.device.refsi.spec.dma import IMMEDIATE, LATE
from understudy.device.refsi.spec.memory import STRICT
from understudy.device.refsi.toolkit.builder import PROFILES, REFSIDRV, SPEC
from understudy.isa.riscv.state import check_vlen

EAGER: Final = "eager"
TRACED: Final = 10_000
"""Instances of a kernel command that events tell of, where nobody says: some 20 MB of a trace in memory."""


@dataclass(frozen=True, slots=True)
class Settings(KernelSettings):
    """Choices of one device, beside those of `KernelSettings`.

    `profile`: "spec" (the document, every error reported) or "refsidrv" (the reference driver, bit for bit; G1 exists
    only there).
    `engine`: "jit" or "reference"; `threads`: how many threads may run groups of a race-free kernel.
    `cores`, `harts` (per core), `coherence` ("eager" or "strict") and `dma` ("late" or "immediate") shape a spec
    device.
    `step_limit` bounds the instructions of one kernel command, as `time_limit_seconds` does its time.
    `profile_level` is the reference's CA_PROFILE_LEVEL, `vlen` its vector length in bits
    (a power of two, 64 to 65,536).
    `seed` is kept for schedules that vary.
    `trace_instances`: events tell of so many instances of a kernel command, the first ones; of how many more there
    were, one event does.
    `snapshots`: events tell of so many times what registers of a hart held: where it failed, and at what
    `RefSiDevice.moments` says.
    With it harts run on the reference engine, which is slow; with the check "waits", too, in the profile refsidrv, with
    strict coherence and where another process shares the memory.
    """

    UNCHECKED: ClassVar[frozenset[str]] = frozenset({FIDELITY, LANES})
    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "profile": PROFILES,
        "engine": (JIT, REFERENCE),
        "coherence": (EAGER, STRICT),
        "dma": (LATE, IMMEDIATE),
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
    vlen: int | None = None
    trace_instances: int = TRACED
    snapshots: int = 0

    def verify(self) -> None:
        """The reference driver's device has one shape."""
        KernelSettings.verify(self)
        if self.snapshots and self.checks & {INIT, WAITS, RACES}:
            raise BeyondModel(f"snapshots with check {self.check!r}, expected one of them")
        if self.checks - {WAITS} and self.profile == REFSIDRV:
            raise BeyondModel(
                f"check {self.check!r} in profile refsidrv: only the profile spec has checks other than waits"
            )
        if INIT in self.checks and self.coherence == STRICT:
            raise BeyondModel(f"check {INIT!r} with coherence {STRICT!r}: what is in data caches has no marks")
        if RACES in self.checks and self.coherence == STRICT:
            raise BeyondModel(f"check {RACES!r} with coherence {STRICT!r}, which shows what harts read that is stale")
        if self.vlen is not None:
            check_vlen(self.vlen)
        if self.profile == REFSIDRV and (self.cores, self.harts, self.coherence) != (r.M1_CORES, r.M1_HARTS, EAGER):
            raise WireError("the profile refsidrv has one core of 4 harts without caches, as the reference driver")
