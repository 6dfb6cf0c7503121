"""What a user of the device can choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from understudy.core.errors import WireError
from understudy.core.settings import JIT, REFERENCE, SYNCHRONOUS, THREADED, DeviceSettings

IGNORE: Final = "ignore"
CMD_ERROR: Final = "cmd-error"


@dataclass(frozen=True, slots=True)
class Settings(DeviceSettings):
    """Choices of one device, beside those of `DeviceSettings`.

    `execution`: "synchronous" (commands run inside the register access that makes them runnable; same inputs, same
    trace) or "threaded" (they run on a thread of the device's own, registers answer at once).
    `pacing`: synchronous only; None runs everything at once, a number executes at most that many commands, of the
    device and of users, after each register access, and 0 only when `step` is called: a slow device.
    `pause_seconds`: threaded only; rest after each device command: a slow device.
    `poison`: registers that a driver must set hold noise after reset, made from `seed`.
    `strict_access`: odd register accesses raise MEM_ERROR (choice `acceldev/register-access`).
    `partial_command`: "ignore" or "cmd-error" for the rest of a RUN's size (choice `acceldev/run-size`).
    `engine`: "jit", which runs user commands as machine code where memory is shared, or "reference".
    `user_command_events`: whether probes hear of every user command, which slows user commands down while somebody
    listens. If not, they do not hear of counted FENCEs either, nor of USER_FENCE_WAIT occurring again once the lint
    "interrupt-coalesced" has told of it.
    """

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "execution": (SYNCHRONOUS, THREADED),
        "partial_command": (IGNORE, CMD_ERROR),
        "engine": (JIT, REFERENCE),
    }
    LEAST: ClassVar[Mapping[str, int]] = {"pacing": 0}

    execution: str = SYNCHRONOUS
    pacing: int | None = None
    pause_seconds: float = 0.0
    poison: bool = False
    seed: int = 0
    strict_access: bool = False
    partial_command: str = IGNORE
    engine: str = JIT
    user_command_events: bool = True

    def verify(self) -> None:
        """`pacing` is for synchronous devices, `pause_seconds` for threaded ones."""
        if self.pacing is not None and self.threaded:
            raise WireError("pacing counts register accesses, expected execution 'synchronous' with it")
        if self.pause_seconds < 0 or (self.pause_seconds and not self.threaded):
            raise WireError(f"pause_seconds {self.pause_seconds}, expected 0 or more, with execution 'threaded'")

    @property
    def threaded(self) -> bool:
        """Whether the device has a thread of its own."""
        return self.execution == THREADED
