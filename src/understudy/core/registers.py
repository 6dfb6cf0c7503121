"""What registers held where an instruction failed, as errors tell of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from understudy.core.errors import UnderstudyError

Failed = TypeVar("Failed", bound=UnderstudyError)

WIDTH = 110
"""Columns of a line of text."""
MANY = 16
"""Scalar registers beyond which text leaves out those of 0."""


@dataclass(frozen=True, slots=True)
class Registers:
    """Registers at the instruction at `pc` that failed, by name, before it changed anything; only what is certain.

    Of a hart `scalars` are all integer registers. Of a wave they are EXEC and the scalar registers that the
    instruction reads, and `vectors` the vector registers that it reads, in the `lane` that failed; others translated
    code does not keep.
    """

    pc: int
    instruction: str
    scalars: Mapping[str, int]
    vectors: Mapping[str, int] = field(default_factory=dict)
    lane: int | None = None

    def __getitem__(self, name: str) -> int:
        """The register of that name."""
        return self.scalars[name] if name in self.scalars else self.vectors[name]

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values, for JSON: registers in hex."""
        return {
            "pc": f"{self.pc:#x}",
            "instruction": self.instruction,
            "lane": self.lane,
            "scalars": {name: f"{value:#x}" for name, value in self.scalars.items()},
            "vectors": {name: f"{value:#x}" for name, value in self.vectors.items()},
        }

    def __str__(self) -> str:
        from textwrap import fill  # few programs need it

        many = len(self.scalars) > MANY
        parts = [f"{name} = {value:#x}" for name, value in self.scalars.items() if value or not many]
        parts += ["others 0"] * (len(parts) < len(self.scalars))
        of_lane = [f"{name} = {value:#x}" for name, value in self.vectors.items()]
        text = ", ".join(parts) + (f"; lane {self.lane}: {', '.join(of_lane)}" if of_lane else "")
        return fill(f"registers: {text}", WIDTH, subsequent_indent="  ", break_long_words=False)


def with_registers(error: Failed, registers: Registers) -> Failed:
    """The error, which tells from now on what registers held; tracebacks show it as a note."""
    error.registers = registers
    error.add_note(str(registers))
    return error
