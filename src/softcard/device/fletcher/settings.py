"""The settings of a Fletcher device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from softcard.core.errors import WireError
from softcard.core.settings import SYNCHRONOUS, THREADED, DeviceOptions, DeviceSettings
from softcard.device.fletcher.memory import MEMORY_BYTES

SPEC: Final = "spec"
HARDWARE: Final = "hardware"


class FletcherOptions(DeviceOptions, total=False):
    """The settings of a Fletcher device, as keywords; `Settings` describes them."""

    profile: str
    execution: str
    pacing: int | None
    latency: int
    initialize: bool
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Settings(DeviceSettings):
    """The settings of one Fletcher device, in addition to those of `DeviceSettings`.

    - `profile`: "spec" or "hardware". With "spec", the registers are those of the Fletcher specification, and every
      access that it does not allow raises a `RuleError`. With "hardware", the register file is that of the generated
      hardware, bit for bit; accesses by a host are never errors, and lints report mistakes.
    - `execution`: "synchronous" or "threaded". A synchronous kernel works inside register accesses; equal inputs give
      equal traces. A threaded kernel works on its own thread, so that register accesses return at once.
    - `pacing`: for synchronous execution, the number of slices that the kernel executes in each register access while
      it is busy. With None, it executes all slices in the write that starts it. With 0, it executes only those that
      `step` requests.
    - `latency`: for synchronous execution, the number of register accesses after a start before the kernel executes its
      first slice.
    - `initialize`: if True, a reset writes the custom registers' <init> values, as a simulation of the design does.
    - `memory_bytes`: the maximum bytes of allocations in device memory.
    """

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "profile": (SPEC, HARDWARE),
        "execution": (SYNCHRONOUS, THREADED),
    }
    LEAST: ClassVar[Mapping[str, int]] = {"pacing": 0, "latency": 0, "memory_bytes": 0}

    profile: str = SPEC
    execution: str = SYNCHRONOUS
    pacing: int | None = 1
    latency: int = 0
    initialize: bool = False
    memory_bytes: int = MEMORY_BYTES

    def verify(self) -> None:
        """Raise `WireError` if a threaded device has `pacing` or `latency`."""
        if self.threaded and (self.pacing != 1 or self.latency):
            raise WireError("pacing and latency require execution 'synchronous', since they count register accesses")

    @property
    def threaded(self) -> bool:
        """True if the kernel has its own thread."""
        return self.execution == THREADED

    @property
    def strict(self) -> bool:
        """True if accesses that the Fletcher specification does not allow are errors."""
        return self.profile == SPEC
