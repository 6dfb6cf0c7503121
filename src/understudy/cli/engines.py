"""Options that say what runs kernels, and how: the same words in every command."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Engine(StrEnum):
    """What runs kernels."""

    JIT = "jit"
    REFERENCE = "reference"


class Tier(StrEnum):
    """How the JIT engine makes machine code."""

    AUTO = "auto"
    FIRST = "first"
    OPTIMISED = "optimised"


EngineOption = Annotated[Engine, typer.Option("--engine", help="What runs kernels.")]
TierOption = Annotated[
    Tier,
    typer.Option("--tier", help="Machine code of the JIT: auto (optimised where it is hot), or one kind for all code."),
]
