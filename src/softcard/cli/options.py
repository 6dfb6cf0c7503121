"""The options that several commands share, each defined once, with value checks and shell completion."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, TypeVar

import typer

from softcard.cli.exits import UsageError, usage_errors
from softcard.cli.files import parse_number, reading
from softcard.core.checks import CHECKS, checks_of, having, read_suppressions
from softcard.core.errors import WireError
from softcard.core.limits import VARIABLE as LIMIT_VARIABLE
from softcard.core.limits import checked_time_limit, default_time_limit

# ---- completion ------------------------------------------------------------------------------------------------------


def complete_agents(incomplete: str) -> list[str]:
    """Return shell completions for an AMD HSA agent or a RISC-V hart."""
    from softcard.device.hsa.agents import AGENTS
    from softcard.image.assembly.program import RISCV_AGENTS

    return beginning(incomplete, (*RISCV_AGENTS, *AGENTS))


def complete_processors(incomplete: str) -> list[str]:
    """Return shell completions for an AMD processor or a RISC-V hart."""
    from softcard.image.assembly.program import RISCV_AGENTS
    from softcard.isa.gcn.target import TARGETS

    return beginning(incomplete, (*RISCV_AGENTS, *TARGETS))


def complete_cards(incomplete: str) -> list[str]:
    """Return shell completions for agents that ROCm programs can find."""
    from softcard.device.kfd.node import PRODUCTS

    return beginning(incomplete, PRODUCTS)


def complete_checks(incomplete: str) -> list[str]:
    """Return shell completions for the last name in a comma-separated list of checks."""
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + each for each in beginning(last, (*CHECKS, "all"))]


def complete_fletcher_kernels(incomplete: str) -> list[str]:
    """Return shell completions for built-in Fletcher kernels."""
    from softcard.device.fletcher.kernels import BUILT_IN

    return beginning(incomplete, BUILT_IN)


def complete_interfaces(incomplete: str) -> list[str]:
    """Return shell completions for interfaces that `bench` measures."""
    from softcard.cli.running.bench_cases import INTERFACES

    return beginning(incomplete, INTERFACES)


def beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    """Return the names that begin with `incomplete`."""
    return [name for name in names if name.startswith(incomplete)]


# ---- output ----------------------------------------------------------------------------------------------------------

TEXT: Final = "text"
JSON: Final = "json"
JsonOption = Annotated[bool, typer.Option("--json", help="Short for --format json.")]


class ResultFormat(StrEnum):
    """The formats of a result."""

    TEXT = TEXT
    JSON = JSON


ResultFormatOption = Annotated[
    ResultFormat, typer.Option("--format", help="Print the result as text, or as one JSON document.")
]


class Format(StrEnum):
    """The formats of findings."""

    TEXT = TEXT
    JSON = JSON
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"


FormatOption = Annotated[
    Format,
    typer.Option(
        "--format",
        help="Print findings as text, JSON, SARIF 2.1.0, JUnit XML, or annotations for workflows of GitHub.",
    ),
]

AnyFormat = TypeVar("AnyFormat", bound=StrEnum)


def chosen_format(form: AnyFormat, as_json: bool, usual: str = TEXT) -> AnyFormat:
    """Return the output format that --format and --json choose; `usual` is the format without these options.

    Raise `UsageError` if the two options choose different formats.
    """
    if not as_json:
        return form
    if form not in (usual, JSON):
        raise UsageError(f"--json and --format {form} choose the format of the same output: give one of them")
    return type(form)(JSON)


def is_json(form: ResultFormat, as_json: bool) -> bool:
    """Return True if --format or --json chooses JSON as the format of a result."""
    return chosen_format(form, as_json) is ResultFormat.JSON


# ---- limits ----------------------------------------------------------------------------------------------------------

TimeLimitOption = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        metavar="SECONDS",
        help=f"Time limit of a kernel, or of a program of `rv64`; by default that of the variable {LIMIT_VARIABLE}.",
    ),
]
ErrorExitCodeOption = Annotated[
    int | None,
    typer.Option(
        "--error-exitcode",
        min=1,
        max=255,
        metavar="N",
        help="Exit status if a check finds errors in a program, or in a kernel, that otherwise succeeds.",
    ),
]


def time_limit_of(seconds: float | None) -> float | None:
    """Return the time limit of a kernel in seconds, the value of --time-limit, or without the option the default.

    Raise `UsageError` for an invalid limit.
    """
    with usage_errors():
        if seconds is None:
            return default_time_limit()
    try:
        return checked_time_limit(seconds)
    except WireError:
        raise UsageError(f"--time-limit is {seconds:g}, expected a number of seconds above 0") from None


def check_error_exitcode(status: int | None, check: str) -> None:
    """Raise `UsageError` if --error-exitcode is given without a check that could find errors."""
    if status is not None and not check:
        raise UsageError(f"--error-exitcode requires --check, with at least one of {', '.join(CHECKS)}")


# ---- engines ---------------------------------------------------------------------------------------------------------


class Engine(StrEnum):
    """The engines that run kernels."""

    JIT = "jit"
    REFERENCE = "reference"


class Tier(StrEnum):
    """The tiers of the JIT engine: how far it optimises code."""

    AUTO = "auto"
    FIRST = "first"
    OPTIMISED = "optimised"


EngineOption = Annotated[Engine, typer.Option("--engine", help="The engine that runs kernels.")]
TierOption = Annotated[
    Tier,
    typer.Option(
        "--tier", help="Machine code of the JIT: auto (optimised where it runs often), or one kind for all code."
    ),
]
BothEnginesOption = Annotated[
    bool,
    typer.Option(
        "--both-engines", help="Run on both engines, and fail unless the results are the same, byte for byte."
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of random arrays.")]
BaseOption = Annotated[
    str, typer.Option("--base", metavar="ADDRESS", help="RISC-V: address to which the code is linked.")
]

# ---- checks and reports ----------------------------------------------------------------------------------------------

CheckOption = Annotated[
    str,
    typer.Option(
        "--check",
        metavar="NAMES",
        help=f"Checks to switch on: {', '.join(CHECKS)}; several separated by commas, or all.",
        autocompletion=complete_checks,
    ),
]
SuppressionsOption = Annotated[
    Path | None,
    typer.Option(
        "--suppressions",
        metavar="FILE",
        help="File with findings to leave out, one CHECK/KIND [KERNEL [PLACE]] per line.",
    ),
]

EqualStoresOption = Annotated[
    bool,
    typer.Option("--equal-stores", help="With --check races: also report racing stores that write the same value."),
]

PoisonOption = Annotated[
    str,
    typer.Option(
        "--poison",
        metavar="WORD",
        help="32-bit word to fill undefined registers and memory of GPUs with; default 0, junk with --check init.",
    ),
]
FindingsOption = Annotated[
    Path | None,
    typer.Option(
        "--findings", metavar="FILE", help="Write the findings of --check to this file: .sarif, .json or .xml (JUnit)."
    ),
]
ReportOption = Annotated[
    Path | None, typer.Option("--report", metavar="FILE.html", help="Write the run as an HTML page; see `report`.")
]
CoverageOption = Annotated[
    Path | None,
    typer.Option(
        "--coverage", metavar="FILE", help="Add the lines and branches of kernels that have run to this LCOV file."
    ),
]
TraceWavesOption = Annotated[
    int,
    typer.Option(
        "--trace-waves",
        min=0,
        metavar="N",
        help="GPUs, RefSi: show the first N waves, or instances, of each launch as bars in traces and reports.",
    ),
]
RegistersAtOption = Annotated[
    list[str] | None,
    typer.Option(
        "--registers-at",
        metavar="WHERE",
        help="GPUs, RefSi: show registers in the report at fault, end, a pc, KERNEL+OFFSET or FILE:LINE; can be "
        "repeated.",
    ),
]


def poison_of(text: str) -> int | None:
    """Return the 32-bit word in `text`, the value of --poison; None if the option was not given.

    The word fills undefined registers and memory. Raise `UsageError` if the text is not a 32-bit number."""
    if not text:
        return None
    try:
        return parse_number(text, 32)
    except WireError as error:
        raise UsageError(f"--poison: {error.message}") from None


def checked(names: str) -> str:
    """Return `names`, the value of the option --check; raise `UsageError` for an unknown name."""
    try:
        checks_of(names)
    except WireError as error:
        raise UsageError(f"--check: {error.message}") from None
    return names


def check_processor(name: str, *more: str) -> None:
    """Raise `UsageError` unless `name` is "", an AMD processor with optional features, or one of `more`."""
    if not name:
        return
    from softcard.image.hsa import targets

    with usage_errors():
        targets.check_processor(name, *more)


def check_outputs(findings: Path | None, suppressions: Path | None, check: str, equal_stores: bool = False) -> None:
    """Raise `UsageError` if --findings, --suppressions or --equal-stores is unusable or does not fit --check."""
    check_equal_stores(equal_stores, check)
    if findings is not None:
        from softcard.report.diagnostic_formats import SUFFIXES

        if findings.suffix not in SUFFIXES:
            raise UsageError(f"--findings is {findings}, expected a name that ends in {', '.join(SUFFIXES)}")
    if (findings or suppressions) and not check:
        raise UsageError("--findings and --suppressions require --check")
    if suppressions:
        with usage_errors(), reading(suppressions):
            read_suppressions(suppressions)


def check_coverage(coverage: Path | None, check: str, engine: str, both_engines: bool = False) -> None:
    """Raise `UsageError` if the coverage cannot be recorded with these checks on this engine, or would be doubled."""
    if coverage is None:
        return
    if both_engines:
        raise UsageError(
            "--coverage cannot be used with --both-engines, which runs the kernel twice: choose one engine"
        )
    slow = sorted(having(checks_of(check), lambda kind: kind.shadows_values or kind.orders_accesses))
    if slow and engine == "jit":
        text = f"--coverage with --check {','.join(slow)} requires --engine reference"
        raise UsageError(f"{text}: use that engine, or two runs, one of them without the check")


def check_equal_stores(equal_stores: bool, check: str) -> None:
    """Raise `UsageError` if --equal-stores is given without a check that it concerns."""
    if equal_stores and not having(checks_of(check), lambda kind: kind.takes_equal_stores):
        (name, *_) = having(CHECKS, lambda kind: kind.takes_equal_stores)
        raise UsageError(f"--equal-stores requires --check {name}")


# ---- RefSi -----------------------------------------------------------------------------------------------------------


class WindowScale(StrEnum):
    """The interpretations of the number in the field SCALE_A of RefSi's windows."""

    DOCUMENT = "document"
    DRIVER = "driver"


WindowScaleOption = Annotated[
    WindowScale | None,
    typer.Option(
        "--window-scale",
        help="RefSi, profile spec: n in SCALE_A of a window means 2^n (document), or 2^(n-1) (driver; default with "
        "--check alone).",
    ),
]
HartsOption = Annotated[int, typer.Option("--harts", min=1, max=255, help="RefSi: number of harts of the device.")]

# ---- Fletcher --------------------------------------------------------------------------------------------------------


class MapProfile(StrEnum):
    """The sources of the register map of a Fletcher device."""

    FLETCHGEN = "fletchgen"
    RUNTIME = "runtime"


FletcherKernelOption = Annotated[
    str,
    typer.Option(
        "--kernel",
        metavar="KERNEL",
        help="Fletcher: a built-in kernel, or FILE.py:NAME for one of your own.",
        autocompletion=complete_fletcher_kernels,
    ),
]
SchemaOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        help="Fletcher: Arrow schema of a RecordBatch instead of the kernel's; can be repeated.",
    ),
]
MapOption = Annotated[
    MapProfile, typer.Option("--map", help="Fletcher: register map of the generator, or of the run-time library.")
]
OffsetOption = Annotated[
    str, typer.Option("--offset", metavar="N", help="Fletcher: address of the first register, decimal or 0x hex.")
]
ThreadedOption = Annotated[
    bool,
    typer.Option(
        "--threaded", help="Fletcher: run the kernel in its own thread, so that register accesses do not wait for it."
    ),
]

# ---- servers ---------------------------------------------------------------------------------------------------------

SocketOption = Annotated[
    Path | None,
    typer.Option(
        "--socket", metavar="PATH", help="Path of the socket to make; by default one in a private folder of the user."
    ),
]
LibraryOption = Annotated[
    bool, typer.Option("--library/--no-library", help="Compile the library for host programs, and print how to use it.")
]
OnceOption = Annotated[bool, typer.Option("--once", help="End after the first host program has disconnected.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Print only the address at which the server listens.")]
