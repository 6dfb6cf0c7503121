"""A campaign's task, which is one point of the campaign's matrix, and the error that ends a campaign."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, TypedDict, cast

from softcard.campaign.generators.registry import COMPILED, GENERATORS
from softcard.core.errors import SoftcardError

COLUMNS: Final = ("program", "kernel", "input", "agent", "compiler", "options", "engine", "check", "seed")
"""The columns that identify a task of a matrix."""


@dataclass(frozen=True, slots=True)
class Input:
    """The arguments, sizes and expected results of a kernel, as for the command `softcard run`."""

    arguments: tuple[str, ...] = ()
    grid: str = ""
    group: str = ""
    expect: tuple[str, ...] = ()


class Row(TypedDict, total=False):
    """A row of a dataset: one task with its outcome.

    `dataset.schema` describes the columns. A row may lack columns that a later step of the campaign fills.
    """

    id: str
    program: str
    content: str
    kernel: str
    input: str
    agent: str
    compiler: str
    options: str
    engine: str
    check: str
    outcome: str
    signature: str
    message: str
    digest: str
    compiler_version: str
    version: str
    machine: str
    worker: str
    seed: int
    line: int
    instructions: int
    started: int
    compile_seconds: float
    seconds: float
    findings: list[str]


def column(row: Row, name: str) -> str | int:
    """Return the value of one of `COLUMNS` in a row."""
    return cast("Mapping[str, str | int]", row)[name]


@dataclass(frozen=True, slots=True)
class Task:
    """One run: `program` is a file, or ``generate:NAME`` for the program that generator NAME makes from `seed`.

    `content` is the digest of the file, or the generator's version. `line` is the task's line in the campaign's file.
    `limit` is the byte offset in the loaded code from which on the reference engine runs the code instead of the JIT
    engine; see `bisection`.
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
        """A 16-digit identifier of the task, which is equal in all campaigns that have this task."""
        words = asdict(self)
        del words["line"], words["time_limit"], words["limit"]
        return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def generator(self) -> str:
        """The name of the program's generator; "" for a file."""
        return self.program.removeprefix(GENERATE) if self.program.startswith(GENERATE) else ""

    @property
    def joins(self) -> bool:
        """True if the task's program can be combined with others into one source."""
        return bool(self.generator) and self.engine != "native" and GENERATORS[self.generator].runs_as in COMPILED

    def columns(self) -> dict[str, str | int]:
        """Return the task's values of the columns in `COLUMNS`, by column name."""
        return {name: getattr(self, name) for name in COLUMNS}

    def __str__(self) -> str:
        words = (f"{name}={value}" for name, value in self.columns().items() if value != "")
        return " ".join(words)


GENERATE: Final = "generate:"
"""The prefix of a program's name that distinguishes a generator from a file."""


class CampaignError(SoftcardError):
    """The error for a campaign that cannot be run or continued.

    Causes are an invalid file, a missing compiler, or results that cannot be written.
    """
