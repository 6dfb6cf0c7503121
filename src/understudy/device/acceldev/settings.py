"""What a user of the device can choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from understudy.core.errors import WireError

SYNCHRONOUS: Final = "synchronous"
THREADED: Final = "threaded"
IGNORE: Final = "ignore"
CMD_ERROR: Final = "cmd-error"
MACHINE_CODE: Final = "machine-code"
REFERENCE: Final = "reference"

_OPTIONS: Final = {
    "execution": (SYNCHRONOUS, THREADED),
    "partial_command": (IGNORE, CMD_ERROR),
    "engine": (MACHINE_CODE, REFERENCE),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Choices of one device; a value that is none of the possible ones is a `WireError`.

    `execution`: "synchronous" (commands run inside the register access that makes them runnable; same inputs, same
    trace) or "threaded" (they run on a thread of the device's own, registers answer at once).
    `pacing`: synchronous only; None runs everything at once, a number executes at most that many commands, of the
    device and of users, after each register access, and 0 only when `step` is called: a slow device.
    `pause_seconds`: threaded only; rest after each device command: a slow device.
    `poison`: registers that a driver must set hold noise after reset, made from `seed`.
    `strict_access`: odd register accesses raise MEM_ERROR (choice `acceldev/register-access`).
    `partial_command`: "ignore" or "cmd-error" for the rest of a RUN's size (choice `acceldev/run-size`).
    `engine`: "machine-code" for runs of user commands where memory is shared, or "reference".
    `user_command_events`: whether probes hear of every user command, which slows user commands down while somebody
    listens. If not, they do not hear of counted FENCEs either, nor of USER_FENCE_WAIT occurring again once the lint
    "interrupt-coalesced" has told of it.
    """

    execution: str = SYNCHRONOUS
    pacing: int | None = None
    pause_seconds: float = 0.0
    poison: bool = False
    seed: int = 0
    strict_access: bool = False
    partial_command: str = IGNORE
    engine: str = MACHINE_CODE
    user_command_events: bool = True

    def __post_init__(self) -> None:
        for name, known in _OPTIONS.items():
            if getattr(self, name) not in known:
                raise WireError(f"{name} {getattr(self, name)!r}, expected one of {', '.join(known)}")
        if self.pacing is not None and self.pacing < 0:
            raise WireError(f"pacing {self.pacing}, expected 0 or more")
        if self.pacing is not None and self.threaded:
            raise WireError("pacing counts register accesses, expected execution 'synchronous' with it")
        if self.pause_seconds < 0 or (self.pause_seconds and not self.threaded):
            raise WireError(f"pause_seconds {self.pause_seconds}, expected 0 or more, with execution 'threaded'")

    @property
    def threaded(self) -> bool:
        """Whether the device has a thread of its own."""
        return self.execution == THREADED
