"""The settings of an Acceldev device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from softcard.core.errors import WireError
from softcard.core.settings import JIT, REFERENCE, SYNCHRONOUS, THREADED, DeviceOptions, DeviceSettings

IGNORE: Final = "ignore"
CMD_ERROR: Final = "cmd-error"


class AcceldevOptions(DeviceOptions, total=False):
    """The settings of an Acceldev, as keywords; `Settings` describes them."""

    execution: str
    pacing: int | None
    pause_seconds: float
    poison: bool
    seed: int
    strict_access: bool
    partial_command: str
    engine: str
    user_command_events: bool


@dataclass(frozen=True, slots=True)
class Settings(DeviceSettings):
    """The settings of one Acceldev device, in addition to those of `DeviceSettings`.

    - `execution`: "synchronous" or "threaded". A synchronous device executes commands inside the register access that
      makes them ready; equal inputs give equal traces. A threaded device executes them on its own thread, so that
      register accesses return at once.
    - `pacing`: for synchronous devices, the maximum number of device and user commands that are executed after each
      register access. None sets no limit. With 0, commands are executed only when `step` is called. Small numbers model
      a slow device.
    - `pause_seconds`: for threaded devices, the pause after each device command, which models a slow device.
    - `poison`: if True, registers that a driver must set hold noise after reset, generated from `seed`.
    - `strict_access`: if True, register accesses that no register accepts raise MEM_ERROR (choice
      `acceldev/register-access`).
    - `partial_command`: "ignore" or "cmd-error", the reaction to bytes after the last whole command of a RUN (choice
      `acceldev/run-size`).
    - `engine`: "jit", which runs user commands as machine code if memory is shared, or "reference".
    - `user_command_events`: if True, every user command emits an event, which slows execution down while there are
      subscribers. Otherwise, counted FENCEs emit no events; and USER_FENCE_WAIT emits none after the lint
      "interrupt-coalesced" has reported it.
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
        """Raise `WireError` if a threaded device has `pacing`, or a synchronous one `pause_seconds`."""
        if self.pacing is not None and self.threaded:
            raise WireError("pacing requires execution 'synchronous', since it counts register accesses")
        if self.pause_seconds < 0 or (self.pause_seconds and not self.threaded):
            raise WireError(f"pause_seconds is {self.pause_seconds}, expected 0, or more with execution 'threaded'")

    @property
    def threaded(self) -> bool:
        """True if the device executes commands on its own thread."""
        return self.execution == THREADED
