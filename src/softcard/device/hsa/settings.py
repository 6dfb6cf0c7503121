"""The settings of an HSA device."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, TypedDict

from softcard.core.checks import having
from softcard.core.errors import BeyondModel, WireError
from softcard.core.settings import JIT, REFERENCE, SYNCHRONOUS, THREADED, KernelOptions, KernelSettings
from softcard.core.words import U32
from softcard.engine.gcn.api import STEP_LIMIT

MANUAL: Final = "manual"
INSTRUCTIONS: Final = "instructions"
HOST: Final = "host"
COHERENT: Final = "coherent"
STRICT: Final = "strict"
LARGE: Final = "large"
LOW: Final = "low"
HIGH: Final = "high"
SMALL: Final = "small"
JUNK: Final = 0xFFF5_A5D3
"""The default word for undefined registers and memory.

It is not a finite number in single or double precision, and not a valid index or address.
"""


def fill_of(poison: int | None, checks: Collection[str]) -> int | None:
    """Return the word that fills undefined registers and memory; None to fill them with 0.

    The setting `poison` determines it if it is not None, otherwise the selected checks do.
    """
    return JUNK if poison is None and having(checks, lambda kind: kind.fills_junk) else poison


class WaveOptions(TypedDict, total=False):
    """The settings of `WaveFields`, as keywords."""

    trace_waves: int
    snapshots: int
    poison: int | None


@dataclass(frozen=True, kw_only=True)
class WaveFields:
    """The settings that all devices with waves have in addition to those of `KernelSettings`.

    - `trace_waves`: the number of waves of each launch that emit an event when they start and when they end. They
      are the waves of its first work-groups, which then run one after another. Launches are then not cached.
    - `snapshots`: the maximum number of events that contain a wave's registers. They are emitted at a failure or
      trap, and at the tracepoints of the device. Waves then run on the reference engine, which has all registers.
    - `poison`: the 32-bit word that undefined registers, LDS and memory hold. None selects `JUNK` with check
      "init", and 0 otherwise."""

    LEAST: ClassVar[Mapping[str, int]] = {"trace_waves": 0, "snapshots": 0, "poison": 0}

    trace_waves: int = 0
    snapshots: int = 0
    poison: int | None = None


def check_waves(waves: WaveFields, settings: KernelSettings) -> None:
    """Raise `WireError` for an invalid `poison`, and `BeyondModel` for `snapshots` with an unsuitable check.

    `poison` may have at most 32 bits. A check is unsuitable if it cannot run on the reference engine, which
    takes the snapshots."""
    if waves.poison is not None and waves.poison > U32:
        raise WireError(f"poison {waves.poison:#x} does not fit 32 bits")
    if waves.snapshots and having(settings.checks, lambda kind: not kind.with_snapshots):
        raise BeyondModel(f"snapshots cannot be used with check {settings.check!r}: set only one of the two")


class GpuOptions(KernelOptions, WaveOptions, total=False):
    """The settings of a GPU, as keywords; `Settings` describes them."""

    execution: str
    engine: str
    coherence: str
    machine_model: str
    own_addresses: str
    timestamps: str
    threads: int | None
    seed: int | None
    quantum: int
    step_limit: int | None
    dynamic_scratch: bool
    profiling: bool
    pcie_atomics: bool | None
    machine_code: bool


@dataclass(frozen=True, slots=True)
class Settings(WaveFields, KernelSettings):
    """The settings of one HSA device, in addition to those of `KernelSettings` and `WaveFields`.

    - `execution`: "synchronous" (packets are processed inside the store to the doorbell), "manual" (they are
      processed when `process` is called or a thread waits) or "threaded" (a thread of the device processes
      them).
    - `engine`: the engine that executes the waves, "jit" or "reference". `threads` applies to "jit" only.
    - `coherence`: "coherent" or "strict". With "strict", compute units have caches of their own, fences of
      packets synchronise a second-level cache with the host, and stores are delayed. A read that may return
      stale data then does return it, and `HsaDevice.findings` reports the read. Waves run as slowly as on the
      reference engine.
    - `machine_model`: "large" (64-bit pointers) or "small" (32-bit pointers). In the small model all memory
      is below 4 GiB, signals have 32 bits, and only kernels whose is_ptr64 is 0 run.
    - `own_addresses`: the range of addresses for the device's own allocations, "low" or "high". The range
      "high" begins at 2**47, so that mappings at addresses of a host process (`HsaDevice.map_at`) never
      overlap it.
    - `seed`: determines the order of queues, the number of packets in each time slice, and the order of
      waves. With None, queues are served round robin.
    - `quantum`: the number of packets in the time slice of one queue.
    - `step_limit`: the maximum number of instructions of one wave, s_sleep not counted. With None, only
      `time_limit_seconds` ends kernels. Use None for kernels that wait for the host.
    - `dynamic_scratch`: True if private memory is allocated when a packet needs it, as the runtime's error
      handler does.
    - `profiling`: True if queues write timestamps into completion signals.
    - `timestamps`: the unit of these timestamps: "instructions", as in `HsaDevice.time`, or "host" for
      nanoseconds of the host's clock, which differ from run to run.
    - `pcie_atomics`: True if the platform has PCIe atomics, for memory allocated or mapped with
      ``host=True``. None selects the value in the agent table.
    - `machine_code`: True if the packets of repeated launches are processed by native code of the simulator;
      False if Python code processes all packets. If probes have subscribers, the native code may run only a
      packet's waves, and Python code then completes the packet."""

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "execution": (SYNCHRONOUS, MANUAL, THREADED),
        "engine": (JIT, REFERENCE),
        "coherence": (COHERENT, STRICT),
        "machine_model": (LARGE, SMALL),
        "own_addresses": (LOW, HIGH),
        "timestamps": (INSTRUCTIONS, HOST),
        **KernelSettings.CHOICES,
    }
    LEAST: ClassVar[Mapping[str, int]] = {**WaveFields.LEAST, "quantum": 1, "threads": 1, "step_limit": 1}

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
    dynamic_scratch: bool = True
    profiling: bool = False
    pcie_atomics: bool | None = None
    machine_code: bool = True

    def verify(self) -> None:
        """Raise an error for combinations of settings that are not supported."""
        KernelSettings.verify(self)
        check_waves(self, self)
        if self.count_instructions and self.coherence == STRICT:
            raise WireError(f"count_instructions is not supported with coherence={STRICT!r}")
        if self.count_instructions and self.engine == JIT and having(self.checks, lambda kind: kind.shadows_values):
            what = f"count_instructions with check={self.check!r}"
            raise BeyondModel(f"{what} is not supported by engine {JIT!r}: use engine {REFERENCE!r}")
        if self.snapshots and self.coherence == STRICT:
            raise BeyondModel(f"snapshots cannot be used with coherence {STRICT!r}: set only one of the two")
        if self.coherence == STRICT and having(self.checks, lambda kind: not kind.with_strict_waves):
            raise BeyondModel(f"check {self.check!r} cannot be used with coherence {STRICT!r}: set only one of the two")

    def why_not_covered(self) -> str | None:
        """Return the setting with which the coverage of kernels cannot be recorded; "" if it can be recorded.

        The first tier counts instructions, and checks that need optimised code cannot use it."""
        if self.coherence == STRICT:
            return f"coherence={STRICT!r}"
        slow = having(self.checks, lambda kind: kind.shadows_values or kind.orders_accesses)
        return f"check={','.join(sorted(slow))!r} on engine {JIT!r}" if slow and self.engine == JIT else ""

    @property
    def translates(self) -> bool:
        """True if the engine translates waves to machine code; False if the reference engine interprets them.

        Only the reference engine takes snapshots of registers."""
        is_plain = self.coherence == COHERENT and not self.counts_races_too and not self.snapshots
        return self.engine == JIT and is_plain

    @property
    def fill(self) -> int | None:
        """The 32-bit word that fills undefined registers and memory; None if they are filled with 0."""
        return fill_of(self.poison, self.checks)

    @property
    def small(self) -> bool:
        """True if the settings select the small machine model."""
        return self.machine_model == SMALL

    @property
    def threaded(self) -> bool:
        """True if the device processes packets on its own thread."""
        return self.execution == THREADED
