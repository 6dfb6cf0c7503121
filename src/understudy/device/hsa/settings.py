"""What a user of the device can choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from understudy.core.checks import LEAKS, MARKED, MEMORY, SYNC
from understudy.core.errors import BeyondModel, WireError
from understudy.core.settings import JIT, REFERENCE, SYNCHRONOUS, THREADED, KernelSettings
from understudy.engine.gcn.api import STEP_LIMIT

MANUAL: Final = "manual"
INSTRUCTIONS: Final = "instructions"
HOST: Final = "host"
COHERENT: Final = "coherent"
STRICT: Final = "strict"
LARGE: Final = "large"
LOW: Final = "low"
HIGH: Final = "high"
SMALL: Final = "small"


@dataclass(frozen=True, slots=True)
class Settings(KernelSettings):
    """Choices of one device, beside those of `KernelSettings`.

    `execution`: "synchronous" (packets are processed inside the doorbell's store), "manual" (when `process` is called
    or somebody waits) or "threaded" (by a thread of the device's own).
    `engine`: "jit" or "reference", which decides how waves run; `threads` of the former.
    `coherence`: "coherent", or "strict" for compute units with caches of their own, a second level that fences of
    packets bring in line with the host, and stores that take their time, on an engine as slow as the reference: what
    may come out stale does, and `HsaDevice.findings` tells where.
    `machine_model`: "large", where pointers have 64 bits, or "small", where they have 32: all memory lies below 4 GiB
    then, signals have 32 bits, and only kernels whose is_ptr64 is 0 run.
    `own_addresses`: where the device places what it allocates itself: "low", or "high", from 2**47 up, so that whoever
    maps at addresses of a process of the host (`HsaDevice.map_at`) never meets it.
    `seed`: decides which queue is next, for how many packets, and the order of waves; None: queues take turns.
    `quantum`: packets of one queue before it is another's turn.
    `step_limit`: instructions of one wave, s_sleep apart; None: `time_limit_seconds` alone ends kernels, for those that
    wait for the host. `poison`: what undefined registers and LDS hold.
    `dynamic_scratch`: private memory is allocated when a packet needs it, as the runtime's error handler does.
    `profiling`: queues write timestamps into completion signals. `timestamps` says what these count: "instructions", as
    `HsaDevice.time` does, or "host" for nanoseconds of the host's clock, which differ from run to run.
    `pcie_atomics`: whether the platform has them, for memory allocated or mapped with ``host=True``; None: as the
    agent's table says.
    `machine_code`: whether repeated launches are processed by machine code, while somebody listens up to their ends.
    `trace_waves`: events tell of so many waves of a launch, those of its first groups, when each begins and ends.
    Launches are then made anew each time, and those groups run one by one.
    `snapshots`: events tell of so many times what registers of a wave held: where it failed or trapped, and at what
    `HsaDevice.moments` says. Waves run on the reference engine then, where registers are all there.
    """

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "execution": (SYNCHRONOUS, MANUAL, THREADED),
        "engine": (JIT, REFERENCE),
        "coherence": (COHERENT, STRICT),
        "machine_model": (LARGE, SMALL),
        "own_addresses": (LOW, HIGH),
        "timestamps": (INSTRUCTIONS, HOST),
        **KernelSettings.CHOICES,
    }
    LEAST: ClassVar[Mapping[str, int]] = {"quantum": 1, "threads": 1, "step_limit": 1, "trace_waves": 0, "snapshots": 0}

    execution: str = SYNCHRONOUS
    engine: str = JIT
    coherence: str = COHERENT
    machine_model: str = LARGE
    own_addresses: str = LOW
    timestamps: str = INSTRUCTIONS
    threads: int | None = None
    seed: int | None = None
    quantum: int = 1024
    step_limit: int | None = STEP_LIMIT
    poison: int | None = None
    dynamic_scratch: bool = True
    profiling: bool = False
    pcie_atomics: bool | None = None
    machine_code: bool = True
    trace_waves: int = 0
    snapshots: int = 0

    def verify(self) -> None:
        """A strict memory's engine counts nothing and has no check but "sync"; translated code counts or has marks."""
        KernelSettings.verify(self)
        if self.count_instructions and self.coherence == STRICT:
            raise WireError("count_instructions: the engine of a strict memory does not count them")
        if self.count_instructions and self.checks & MARKED and self.engine == JIT:
            what = f"count_instructions with check {self.check!r}"
            raise BeyondModel(f"{what} on the engine {JIT!r}: the engine {REFERENCE!r} has both")
        if self.snapshots and (self.checks - {MEMORY, LEAKS, SYNC} or self.coherence == STRICT):
            what = f"check {self.check!r}" if self.coherence == COHERENT else f"coherence {STRICT!r}"
            raise BeyondModel(f"snapshots with {what}, expected one of them")
        if self.checks - {SYNC} and self.coherence == STRICT:
            raise BeyondModel(f"check {self.check!r} with coherence {STRICT!r}, expected one of them")

    @property
    def translates(self) -> bool:
        """Whether waves run as machine code; the reference engine alone takes snapshots."""
        is_plain = self.coherence == COHERENT and not self.counts_races_too and not self.snapshots
        return self.engine == JIT and is_plain

    @property
    def small(self) -> bool:
        """Whether it is the small machine model."""
        return self.machine_model == SMALL

    @property
    def threaded(self) -> bool:
        """Whether the device has a thread of its own."""
        return self.execution == THREADED
