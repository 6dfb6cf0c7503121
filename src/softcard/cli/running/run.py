"""`softcard run`: runs one kernel of a file, of any interface, with arguments from the command line."""

from __future__ import annotations

import copy
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from softcard.cli.exits import ExitCode, UsageError
from softcard.cli.files import parse_number
from softcard.cli.options import (
    BaseOption,
    BothEnginesOption,
    CheckOption,
    CoverageOption,
    Engine,
    EngineOption,
    EqualStoresOption,
    ErrorExitCodeOption,
    FindingsOption,
    Format,
    FormatOption,
    JsonOption,
    PoisonOption,
    RegistersAtOption,
    ReportOption,
    SeedOption,
    SuppressionsOption,
    Tier,
    TierOption,
    TimeLimitOption,
    TraceWavesOption,
    check_coverage,
    check_error_exitcode,
    check_outputs,
    checked,
    chosen_format,
    complete_agents,
    poison_of,
    time_limit_of,
)
from softcard.cli.output import exact, show_line
from softcard.cli.progress import compiled_code, progress
from softcard.cli.records import RunSummary, covering, print_findings, reporting, write_findings
from softcard.core.checks import default_checks
from softcard.core.display import demangled
from softcard.core.errors import SoftcardError, WireError
from softcard.core.findings import Level

if TYPE_CHECKING:
    from softcard.cli.running.kernel_files import KernelFile, Options, Outcome, RawHeader


MOST_SIZE: Final = (1 << 32) - 1
"""The largest grid or group size in one dimension that all interfaces support."""
MOST_SHOWN: Final = 8
"""The number of elements of an array that are printed."""
SEED: Final = 2024
WAVES: Final = 1000
"""The default of --trace-waves: the number of waves that a report shows."""
NOTEWORTHY: Final = 10_000
"""The number of interpreted instructions above which they are reported, if they are also more than 5 % of all."""


class Model(StrEnum):
    """The pointer sizes of AMD GPU code: 64 bits (large) or 32 bits (small)."""

    LARGE = "large"
    SMALL = "small"


Header = Annotated[int, typer.Option(min=0, rich_help_panel="Raw GPU code")]


def run(
    file: Annotated[
        Path,
        typer.Argument(help="A file with kernels, OpenCL C (.cl), HIP (.hip), C or C++, assembly (.s), or raw code."),
    ],
    kernel: Annotated[str, typer.Argument(help="Name of the kernel; not needed if the file has one kernel only.")] = "",
    grid: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="Number of work-items, of Triton's programs, or of RefSi's instances: 1024, 64x64 or 8x8x8.",
        ),
    ] = "",
    group: Annotated[
        str,
        typer.Option(
            metavar="SIZE", help="Work-items of a work-group; by default the size that the kernel requires, or 64."
        ),
    ] = "",
    arguments: Annotated[
        list[str] | None,
        typer.Option(
            "--arg",
            metavar="VALUE",
            help="A value for the next argument of the kernel (forms: see above); can be repeated.",
        ),
    ] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N=VALUE",
            help="Fail unless argument N (from 0) holds these numbers, or a file's array, afterwards.",
        ),
    ] = None,
    tolerance: Annotated[float, typer.Option(min=0, help="Tolerance of --expect, relative and absolute.")] = 0.0,
    save: Annotated[
        list[str] | None,
        typer.Option(metavar="N=FILE", help="Write argument N to this file afterwards, as .npy or as bytes."),
    ] = None,
    agent: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Device to run on: gfx900, ...; rv64gc for raw code. By default the one of the file.",
            autocompletion=complete_agents,
        ),
    ] = "",
    engine: EngineOption = Engine.JIT,
    both_engines: BothEnginesOption = False,
    tier: TierOption = Tier.AUTO,
    seed: SeedOption = SEED,
    time_limit: TimeLimitOption = None,
    as_json: JsonOption = False,
    form: FormatOption = Format.TEXT,
    report: ReportOption = None,
    coverage: CoverageOption = None,
    trace_waves: TraceWavesOption = WAVES,
    registers_at: RegistersAtOption = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="HSA: let an access to the first byte past the end of an array fault.")
    ] = False,
    check: CheckOption = "",
    suppressions: SuppressionsOption = None,
    equal_stores: EqualStoresOption = False,
    poison: PoisonOption = "",
    findings: FindingsOption = None,
    error_exitcode: ErrorExitCodeOption = None,
    machine_model: Annotated[
        Model, typer.Option(help="HSA: machine model; in the small one, pointers have 32 bits.")
    ] = Model.LARGE,
    base: BaseOption = "0x10000",
    vgprs: Header = 256,
    sgprs: Header = 96,
    kernarg: Header = 256,
    lds: Header = 0,
    scratch: Header = 0,
    user_sgprs: Annotated[
        list[str] | None,
        typer.Option(
            "--user-sgpr",
            metavar="NAME",
            help="User SGPRs that the code takes, if not kernarg_segment_ptr only.",
            rich_help_panel="Raw GPU code",
        ),
    ] = None,
) -> None:
    """Run one kernel of any interface, and print its arrays afterwards.

    FILE is a code object (HSA), an AMD OpenCL 2.0 program, a RISC-V program (for
    RefSi), OpenCL C, C or C++ (for RefSi) if a compiler is found, assembly text,
    or raw code (.bin, .raw, or any file with --agent).

    Each --arg is one argument, in order: 7, 2.5, 0x10; u32=7 with its type;
    an array f32:1024:random (or zeros, ones, range, 2.5, or 1,2,3), i32:64x64;
    a file's array @in.npy, or its bytes as f32:@in.bin; local:1024 for bytes of
    LDS; null.

    Without --grid there is a work-item for each element of the largest array;
    on RefSi, one instance; for a kernel from Triton's cache (NAME.hsaco with
    NAME.json beside it), one program. Raw GPU code needs arguments with types; it has
    s[0:1] = their address, s2 to s4 = the work-group, v0 to v2 = the work-item.

    With --check memory the accesses of the kernel are checked, and it continues
    after a mistake: findings follow the arrays, with lane, line and argument.

    With --registers-at, the report shows all registers of waves or harts before
    the instruction at a pc (0x...), at kernel+0x10 or at file.cl:12, before an
    instruction that fails (fault), or where a wave or hart ends (end). The waves
    or harts then run on the reference engine.

    Exit status 1 if the kernel fails, an array is not as expected, the engines
    differ, or a check finds an error (then N with --error-exitcode N).

      softcard run k.co saxpy --arg 2.5 --arg f32:64:range --arg f32:64

      softcard run k.bin --arg u32:64:range --expect 0=@wanted.npy

      softcard run k.co saxpy --arg 2.5 --arg f32:64 --arg f32:64 --report run.html"""
    from softcard.cli.running.kernel_files import Options, RawHeader
    from softcard.cli.running.kernel_values import numbered

    words = arguments or []
    values = parsed(words, seed)
    wanted = [numbered(text, len(words), "--expect") for text in expect or ()]
    saved = [numbered(text, len(words), "--save") for text in save or ()]
    for number, _ in (*wanted, *saved):
        if not hasattr(values[number], "dtype") or not values[number].shape:
            raise UsageError(
                f"argument {number} is {words[number]!r}, expected an array: results can be stored only in arrays"
            )
    try:
        place = parse_number(base, 64)
    except WireError as error:
        raise UsageError(str(error)) from None
    check = checked(check) or default_checks()
    form = chosen_format(form, as_json)
    if form not in (Format.TEXT, Format.JSON) and not check:
        raise UsageError(f"--format {form} requires --check: it is a format of findings")
    as_json = form is Format.JSON
    check_outputs(findings, suppressions, check, equal_stores)
    check_error_exitcode(error_exitcode, check)
    check_coverage(coverage, check, engine.value, both_engines)
    skipped = str(suppressions) if suppressions else None
    options = Options(agent, engine.value, tier.value, exact, machine_model.value, place)
    options = replace(
        options,
        with_lines=report is not None or coverage is not None,
        check=check,
        suppressions=skipped,
        waves=trace_waves,
    )
    options = replace(options, equal_stores=equal_stores, registers_at=tuple(registers_at or ()))
    options = replace(options, poison=poison_of(poison), time_limit=time_limit_of(time_limit))
    if registers_at and report is None:
        raise UsageError("--registers-at requires --report FILE.html, which shows the registers")
    if registers_at and both_engines:
        raise UsageError(
            "--registers-at cannot be used with --both-engines: only the reference engine takes register snapshots"
        )
    header = RawHeader(vgprs, sgprs, kernarg, lds, scratch, tuple(user_sgprs or ("kernarg_segment_ptr",)))
    found, name, sizes = prepared(file, kernel, (grid, group), values, options, header)
    expectations = _expectations(wanted, values)
    try:
        with reporting(report, f"{file.name}: {name}") as wanted_report, recorded(coverage):
            options = replace(options, report=wanted_report)
            with progress(f"running {name}", state=compiled_code):
                outcome, engines_differ = _run(found, name, sizes, values, options, both_engines)
    except SoftcardError as error:
        if as_json and not isinstance(error, UsageError):
            print(json.dumps(_failed(name, error, options), indent=2))
        elif not as_json:
            if error.text:
                print(error.text, end="" if error.text.endswith("\n") else "\n", flush=True)
            if form is not Format.TEXT:
                print_findings(options.findings, sys.stdout, RunSummary(1, None, unfinished=1), form, file)
            elif options.findings:
                print_findings(options.findings, sys.stderr, RunSummary(1, None, unfinished=1), form, file)
        raise
    finally:
        if findings is not None:
            write_findings(findings, file, options.findings)
    wrong = _wrong(expectations, values, tolerance)
    for number, text in saved:
        from softcard.cli.running.kernel_values import save as write

        write(Path(text), values[number])
    document = _document(found, name, sizes, values, outcome, options)
    document |= {"expected": {number: wrong.get(number, "") for number, _ in wanted}}
    if both_engines:
        document |= {"engine": "reference and jit", "engines": engines_differ}
    if check:
        document["findings"] = [each.as_dict() for each in options.findings]
    if as_json:
        print(json.dumps(document, indent=2))
    else:
        if form is Format.TEXT:
            _show(document)
        if check:
            print_findings(options.findings, sys.stdout, RunSummary(1, outcome.result.instructions), form, file)
    if wrong or engines_differ:
        raise typer.Exit(ExitCode.GUEST)
    if any(each.level is Level.ERROR for each in options.findings):
        raise typer.Exit(error_exitcode or ExitCode.GUEST)


Sizes = tuple[tuple[int, ...] | None, tuple[int, ...] | None]
"""The type of the sizes of grid and work-group, each with None for a size that the user did not give."""


@contextmanager
def recorded(path: Path | None) -> Iterator[None]:
    """Record the coverage of kernels in the block, and add it to the LCOV file at `path`, unless it is None."""
    with covering(path) as found:
        if found is None:
            yield
            return
        from softcard.host.coverage import record

        with record() as recording:
            try:
                yield
            finally:
                found.merge(recording.read())


def parsed(arguments: list[str], seed: int) -> list[Any]:
    """Return the kernel arguments that the values of --arg describe; `seed` determines random arrays."""
    from softcard.cli.running.kernel_values import parse

    return [parse(text, seed, number) for number, text in enumerate(arguments)]


def prepared(
    file: Path, kernel: str, size: tuple[str, str], values: list[Any], options: Options, header: RawHeader
) -> tuple[KernelFile, str, Sizes]:
    """Read the kernel file; return it, the kernel's name, and the sizes of grid and work-group.

    `size` has the texts of --grid and --group, `values` the kernel arguments.
    """
    from softcard.cli.running.kernel_files import C_SUFFIXES, GPU_SUFFIXES, read_kernels

    verb = "compiling" if file.suffix in (*C_SUFFIXES, *GPU_SUFFIXES) else "reading"
    sizes = _sizes(size[0]) if size[0] else None, _sizes(size[1]) if size[1] else None
    try:
        with progress(f"{verb} {file.name}"):
            found = read_kernels(file, options, header)
    except UsageError:
        raise
    except SoftcardError as error:
        raise error.at("file", str(file)) from None
    name = found.kernel(kernel)
    if sizes[0] is None and found.counts_elements:
        sizes = (max([1, *map(_elements, values)]),), sizes[1]
    return found, name, sizes


def _run(
    found: KernelFile, name: str, sizes: Sizes, values: list[Any], options: Options, both: bool
) -> tuple[Outcome, str]:
    """Run the kernel once, or on both the JIT and the reference engine if `both` is True.

    Return the outcome, and a text about the first array in which the engines' results differ, or ""."""
    if not both:
        return found.run(name, *sizes, values, options), ""
    from softcard.cli.running.kernel_values import difference

    others = copy.deepcopy(values)
    found.run(name, *sizes, others, replace(options, engine="reference", report=None))
    outcome = found.run(name, *sizes, values, replace(options, engine="jit"))
    for number, (mine, theirs) in enumerate(zip(values, others, strict=True)):
        if _elements(mine) and mine.tobytes() != theirs.tobytes():
            what = difference(mine, theirs, 0) or "NaNs have other bits"
            return outcome, f"argument {number}: {what.replace('expected', 'on the reference engine')}"
    return outcome, ""


def _expectations(wanted: list[tuple[int, str]], values: list[Any]) -> list[tuple[int, Any]]:
    from softcard.cli.running.kernel_values import expected

    return [(number, expected(text, values[number])) for number, text in wanted]


def _wrong(expectations: list[tuple[int, Any]], values: list[Any], tolerance: float) -> dict[int, str]:
    from softcard.cli.running.kernel_values import difference

    found = ((number, difference(values[number], wanted, tolerance)) for number, wanted in expectations)
    return {number: text for number, text in found if text}


def _elements(value: Any) -> int:
    """Return the number of elements of an array; 0 for other values."""
    return int(value.size) if hasattr(value, "dtype") and value.shape else 0


def _document(
    found: KernelFile, name: str, sizes: Sizes, values: list[Any], outcome: Outcome, options: Options
) -> dict[str, Any]:
    arrays = [(number, each) for number, each in enumerate(values) if _elements(each)]
    return {
        "kernel": name,
        "interface": found.interface,
        "agent": found.agent,
        "engine": options.engine,
        "grid": list(sizes[0] or (1,)),
        "instructions": outcome.result.instructions,
        "unit": found.unit,
        "seconds": outcome.result.time,
        "rate": outcome.result.rate,
        "bytes": outcome.result.bytes,
        "bandwidth": outcome.result.bandwidth,
        "interpreted": outcome.result.interpreted,
        "printed": outcome.printed,
        "arrays": {
            number: {"type": str(each.dtype), "shape": list(each.shape), "first": _plain(each.reshape(-1)[:MOST_SHOWN])}
            for number, each in arrays
        },
    }


def _failed(name: str, error: SoftcardError, options: Options) -> dict[str, Any]:
    """Return the output of --json for a kernel that failed."""
    held = None if error.registers is None else error.registers.as_dict()
    document = {"kernel": name, "engine": options.engine, "error": str(error), "printed": error.text, "registers": held}
    return document | ({"findings": [each.as_dict() for each in options.findings]} if options.check else {})


def _plain(array: Any) -> list[Any]:
    """Return the elements of an array as Python numbers, floats with as few digits as identify the value."""
    return [float(str(each)) if array.dtype.kind == "f" else int(each) for each in array]


def _show(document: dict[str, Any]) -> None:
    if document["printed"]:
        text = document["printed"]
        print(text, end="" if text.endswith("\n") else "\n", file=exact(sys.stdout))
    show_line(
        f"{demangled(document['kernel'])}:",
        f"{document['instructions']:,} {document['unit']}",
        f"in {_time(document['seconds'])}, {_rate(document['rate'])};",
        f"{document['bytes']:,} bytes of arrays",
        f"({document['interface']}, {document['agent']}, {document['engine']})",
    )
    if document["engine"] == "jit" and document["interpreted"] > max(NOTEWORTHY, document["instructions"] // 20):
        show_line(
            f"{document['interpreted']:,} of them one by one on the reference engine, which is slow:",
            "the JIT could not translate them, or had not translated them yet",
        )
    for number, array in document["arrays"].items():
        size = 1
        for each in array["shape"]:
            size *= each
        more = " ..." if size > MOST_SHOWN else ""
        shown = [*map(str, array["first"][:-1]), f"{array['first'][-1]}{more}"]
        show_line(f"argument {number}, {array['type']}{array['shape']}:", *shown)
    for number, text in document["expected"].items():
        show_line(f"argument {number}: {f'differs from --expect: {text}' if text else 'is as expected'}")
    if "engines" in document:
        show_line(
            f"engines differ: {document['engines']}"
            if document["engines"]
            else "the results of both engines are the same"
        )


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"


def _rate(rate: float) -> str:
    return f"{rate / 1e6:,.1f} M/s" if rate >= 1e5 else f"{rate:,.0f}/s"


def _sizes(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d{1,20}(x\d{1,20}){0,2}", text):
        raise UsageError(f"{text!r} is not a size, expected one like 1024, 64x64 or 8x8x8")
    sizes = tuple(map(int, text.split("x")))
    if not all(1 <= each <= MOST_SIZE for each in sizes):
        raise UsageError(f"size {text!r} is too small or too large, expected 1 to {MOST_SIZE} in each dimension")
    return sizes
