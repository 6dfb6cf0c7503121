"""What became of a command buffer."""

from __future__ import annotations

from dataclasses import dataclass, fields

from understudy.core.errors import UnderstudyError
from understudy.core.shown import Rows, Shown


@dataclass(frozen=True, slots=True)
class BufferStatus(Shown):
    """The end of one submitted buffer. `ok` is False with `error` set, else True.

    `commands` counts those that were executed completely, `steps` the instructions its kernels retired. Where
    something failed, `command` is the index of the command in the buffer, `chunk` that of its header and `offset` the
    header's byte offset; `hart`, `pc` and `instance` say who failed if a kernel did.
    """

    ticket: int
    address: int
    size: int
    commands: int = 0
    steps: int = 0
    error: UnderstudyError | None = None
    command: int | None = None
    opcode: str = ""
    chunk: int | None = None
    hart: int | None = None
    pc: int | None = None
    instance: int | None = None

    @property
    def ok(self) -> bool:
        """Whether every command of the buffer was executed."""
        return self.error is None

    @property
    def offset(self) -> int | None:
        """Byte offset of the failing command's header in the buffer."""
        return None if self.chunk is None else self.chunk * 8

    def __repr__(self) -> str:
        return f"<{self}>"

    def _rows(self) -> Rows:
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        places = ("address", "pc")
        return [
            (),
            *((name, f"{value:#x}" if name in places else value) for name, value in values if value not in (None, "")),
        ]

    def __str__(self) -> str:
        if self.error is None:
            return f"buffer {self.ticket} at {self.address:#x}: {self.commands} commands, {self.steps} instructions"
        return f"buffer {self.ticket} at {self.address:#x}: {self.error}"
