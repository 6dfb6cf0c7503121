"""Options that say what runs kernels, and how: the same words in every command."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli import completion
from understudy.cli.exits import UsageError
from understudy.cli.files import reading
from understudy.core.checks import CHECKS, RACES, checks_of, read_suppressions
from understudy.core.errors import WireError


class Engine(StrEnum):
    """What runs kernels."""

    JIT = "jit"
    REFERENCE = "reference"


class Tier(StrEnum):
    """How the JIT engine makes machine code."""

    AUTO = "auto"
    FIRST = "first"
    OPTIMISED = "optimised"


CheckOption = Annotated[
    str,
    typer.Option(
        "--check",
        metavar="NAMES",
        help=f"What to look for while kernels run: {', '.join(CHECKS)}; several with commas, or all.",
        autocompletion=completion.checks,
    ),
]
SuppressionsOption = Annotated[
    Path | None,
    typer.Option("--suppressions", metavar="FILE", help="Findings to leave out: CHECK/KIND [KERNEL [PLACE]] a line."),
]

EqualStoresOption = Annotated[
    bool, typer.Option("--equal-stores", help="With --check races: tell of stores of what is there already, too.")
]


def checked(names: str) -> str:
    """What --check says; `UsageError` for a name that is none."""
    try:
        checks_of(names)
    except WireError as error:
        raise UsageError(f"--check: {error.message}") from None
    return names


def known_processor(name: str, *more: str) -> None:
    """`UsageError` where that is none of AMD's, perhaps with features; "" says nothing. `more`: what else there is."""
    if not name:
        return
    from understudy.image.hsa import targets
    from understudy.isa.gcn.target import TARGETS

    processor, _ = targets.of_name(f"amdgcn-amd-amdhsa--{name}")
    if targets.read_as(processor) not in TARGETS:
        raise UsageError(f"no agent {name!r}: there are {', '.join((*more, *TARGETS))}")


def check_outputs(findings: Path | None, suppressions: Path | None, check: str, equal_stores: bool = False) -> None:
    """`UsageError` where --findings, --suppressions and --equal-stores do not go with what is checked, or cannot be
    used."""
    check_equal_stores(equal_stores, check)
    if findings is not None and findings.suffix not in (".sarif", ".json"):
        raise UsageError(f"--findings {findings}: expected a name that ends in .sarif or .json")
    if (findings or suppressions) and not check:
        raise UsageError("--findings and --suppressions go with --check")
    if suppressions:
        with reading(suppressions):
            read_suppressions(suppressions)


def check_equal_stores(equal_stores: bool, check: str) -> None:
    """`UsageError` where --equal-stores has nothing to say about what is checked."""
    if equal_stores and RACES not in checks_of(check):
        raise UsageError("--equal-stores goes with --check races")


EngineOption = Annotated[Engine, typer.Option("--engine", help="What runs kernels.")]
TierOption = Annotated[
    Tier,
    typer.Option("--tier", help="Machine code of the JIT: auto (optimised where it is hot), or one kind for all code."),
]
