"""What a user of the device can choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from understudy.core.errors import WireError
from understudy.core.settings import SYNCHRONOUS, THREADED, DeviceSettings
from understudy.device.fletcher.memory import MEMORY_BYTES

SPEC: Final = "spec"
HARDWARE: Final = "hardware"


@dataclass(frozen=True, slots=True)
class Settings(DeviceSettings):
    """Choices of one device, beside those of `DeviceSettings`.

    `profile`: "spec" (the document's registers; every access it does not allow is a `RuleError`) or "hardware" (the
    generated register file, bit for bit; nothing a host does is refused, lints tell of it).
    `execution`: "synchronous" (the kernel works inside register accesses: same inputs, same trace) or "threaded" (on a
    thread of its own, registers answer at once).
    `pacing`: synchronous only; slices that the kernel does in each register access while it is busy. None does all in
    the write that starts it, 0 only what `step` asks for.
    `latency`: synchronous only; register accesses after a start that go by before the kernel does its first slice.
    `initialize`: write the custom registers' <init> on reset, as a simulation of the design does.
    `memory_bytes`: room for allocations in device memory.
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
        """Pacing and latency are for synchronous devices."""
        if self.threaded and (self.pacing != 1 or self.latency):
            raise WireError("pacing and latency count register accesses, expected execution 'synchronous' with them")

    @property
    def threaded(self) -> bool:
        """Whether the kernel has a thread of its own."""
        return self.execution == THREADED

    @property
    def strict(self) -> bool:
        """Whether accesses that the document does not allow are errors."""
        return self.profile == SPEC
