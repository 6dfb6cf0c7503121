"""How far a RUN is: what its user commands change besides memory."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.core.snapshot import Stateful
from understudy.device.acceldev.commands import USER_CMD_BYTES, RunCommand
from understudy.device.acceldev.contexts import Context


@dataclass(slots=True)
class Run(Stateful):
    """A RUN being executed: `position` of `count` user commands are done, `used` is a mask of slots filled.

    `fences` user FENCEs were counted.
    """

    STATE = ("position", "used", "fences")

    command: RunCommand
    context: Context
    count: int
    position: int = 0
    used: int = 0
    fences: int = 0

    @property
    def offset(self) -> int:
        """Place of the next user command in the code buffer, in bytes."""
        return self.command.offset + self.position * USER_CMD_BYTES

    @property
    def finished(self) -> bool:
        """Whether all commands are done."""
        return self.position >= self.count
