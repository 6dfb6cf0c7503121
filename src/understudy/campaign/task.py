"""One task of a campaign: a point of its matrix."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Final

from understudy.campaign.generators.registry import COMPILED, GENERATORS

COLUMNS: Final = ("program", "kernel", "input", "agent", "compiler", "options", "engine", "check", "seed")
"""What tells the tasks of a matrix apart."""


@dataclass(frozen=True, slots=True)
class Input:
    """What a kernel is given, in the words of `understudy run`."""

    arguments: tuple[str, ...] = ()
    grid: str = ""
    group: str = ""
    expect: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """One run: `program` is a file, or ``generate:NAME`` for a generated one, whose `seed` says which.

    `content` is the digest of the file, or the generator's version. `line` is where the campaign's file asks for it.
    `limit`: from which byte of the loaded code on the JIT engine leaves it to the reference engine; see `divergence`.
    """

    program: str
    content: str
    kernel: str = ""
    input: str = ""
    given: Input = field(default_factory=Input)
    agent: str = ""
    compiler: str = ""
    options: str = ""
    engine: str = "jit"
    check: str = "plain"
    seed: int = 0
    time_limit: float = 60.0
    line: int = 0
    limit: int | None = None

    @property
    def id(self) -> str:
        """What it is, in 16 digits: the same in every campaign that asks for the same."""
        words = asdict(self)
        del words["line"], words["time_limit"], words["limit"]
        return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def generator(self) -> str:
        """The name of the generator of its program, or ""."""
        return self.program.removeprefix(GENERATE) if self.program.startswith(GENERATE) else ""

    @property
    def joins(self) -> bool:
        """Whether one source can hold its program and others."""
        return bool(self.generator) and GENERATORS[self.generator].runs_as in COMPILED

    def columns(self) -> dict[str, str | int]:
        """What tells it from others."""
        return {name: getattr(self, name) for name in COLUMNS}

    def __str__(self) -> str:
        words = (f"{name}={value}" for name, value in self.columns().items() if value != "")
        return " ".join(words)


GENERATE: Final = "generate:"
"""What stands in front of a generator's name, where a file could stand."""
