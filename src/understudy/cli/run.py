"""`understudy run`: one kernel of a file, of any interface, with arguments from the command line."""

from __future__ import annotations

import copy
import json
import re
import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from understudy.cli import completion
from understudy.cli.buffers import parse_number
from understudy.cli.engines import (
    CheckOption,
    Engine,
    EngineOption,
    EqualStoresOption,
    SuppressionsOption,
    Tier,
    TierOption,
    check_outputs,
    checked,
)
from understudy.cli.exits import ExitCode, UsageError
from understudy.cli.reporting import ReportOption, reporting
from understudy.cli.told import tell_findings, write_findings
from understudy.core.checks import default_checks
from understudy.core.errors import UnderstudyError, WireError
from understudy.core.findings import Level

if TYPE_CHECKING:
    from understudy.cli.kernel_files import KernelFile, Options, Outcome, RawHeader

MOST_SIZE: Final = (1 << 32) - 1
"""What every interface has room for in a dimension."""
SHOWN: Final = 8
"""Elements of an array that are printed."""
SEED: Final = 2024
WAVES: Final = 1000
"""Waves that a report shows, unless --trace-waves says otherwise."""
NOTEWORTHY: Final = 10_000
"""Instructions that left translated code, from which on that is said, if they are more than a twentieth of all."""


class Model(StrEnum):
    """How wide pointers are."""

    LARGE = "large"
    SMALL = "small"


Header = Annotated[int, typer.Option(min=0, rich_help_panel="Raw GPU code")]


def run(
    file: Annotated[
        Path,
        typer.Argument(help="A file with kernels, OpenCL C (.cl), HIP (.hip), C or C++, assembly (.s), or raw code."),
    ],
    kernel: Annotated[str, typer.Argument(help="The kernel's name; not needed where there is one.")] = "",
    grid: Annotated[
        str, typer.Option(metavar="SIZE", help="Work-items, or RefSi's instances: 1024, 64x64 or 8x8x8; see above.")
    ] = "",
    group: Annotated[
        str, typer.Option(metavar="SIZE", help="Work-items of a work-group; by default as the kernel says, or 64.")
    ] = "",
    arguments: Annotated[list[str] | None, typer.Option("--arg", metavar="VALUE", help="See above.")] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(metavar="N=VALUE", help="Argument N (from 0) holds this afterwards: numbers, or a file's array."),
    ] = None,
    tolerance: Annotated[float, typer.Option(min=0, help="How far --expect may be off, relative and absolute.")] = 0.0,
    save: Annotated[
        list[str] | None, typer.Option(metavar="N=FILE", help="Write argument N afterwards: .npy, or its bytes.")
    ] = None,
    agent: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="gfx900, ...; rv64gc for raw code. By default what the file is for.",
            autocompletion=completion.agents,
        ),
    ] = "",
    engine: EngineOption = Engine.JIT,
    both_engines: Annotated[
        bool, typer.Option("--both-engines", help="Run on both engines: results must be the same, byte for byte.")
    ] = False,
    tier: TierOption = Tier.AUTO,
    seed: Annotated[int, typer.Option(min=0, help="Of random arrays.")] = SEED,
    as_json: Annotated[bool, typer.Option("--json", help="What came of it as JSON.")] = False,
    report: ReportOption = None,
    trace_waves: Annotated[
        int,
        typer.Option("--trace-waves", min=0, metavar="N", help="Bars for the first N waves, or RefSi's instances."),
    ] = WAVES,
    registers_at: Annotated[
        list[str] | None,
        typer.Option("--registers-at", metavar="WHERE", help="Registers there in the report; see above."),
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="HSA: the first byte behind an array is a fault.")] = False,
    check: CheckOption = "",
    suppressions: SuppressionsOption = None,
    equal_stores: EqualStoresOption = False,
    findings: Annotated[
        Path | None,
        typer.Option("--findings", metavar="FILE", help="Write what --check finds: .sarif, or .json."),
    ] = None,
    machine_model: Annotated[Model, typer.Option(help="HSA; small: the code's pointers have 32 bits.")] = Model.LARGE,
    base: Annotated[str, typer.Option(metavar="ADDRESS", help="Where raw RISC-V code is linked.")] = "0x10000",
    vgprs: Header = 256,
    sgprs: Header = 96,
    kernarg: Header = 256,
    lds: Header = 0,
    scratch: Header = 0,
    user_sgprs: Annotated[
        list[str] | None,
        typer.Option(
            "--user-sgpr", metavar="NAME", help="In place of kernarg_segment_ptr.", rich_help_panel="Raw GPU code"
        ),
    ] = None,
) -> None:
    """Run one kernel of any interface, and print what its arrays hold then.

    Of code objects (HSA), AMD OpenCL 2.0 programs, RISC-V programs (on RefSi),
    OpenCL C, C and C++ (for RefSi) where a compiler is found, assembly text, and
    raw code (.bin, .raw, or any file with --agent).

    Each --arg is one argument, in order: 7, 2.5, 0x10; u32=7 with its type;
    an array f32:1024:random (or zeros, ones, range, 2.5, or 1,2,3), i32:64x64;
    a file's array @in.npy, or its bytes as f32:@in.bin; local:1024 for bytes of
    LDS; null.

    Without --grid there is a work-item for each element of the largest array;
    on RefSi, one instance. Raw GPU code needs arguments with types; it has
    s[0:1] = their address, s2 to s4 = the work-group, v0 to v2 = the work-item.

    With --check memory the kernel is watched, and goes on where it is wrong:
    what is found is said behind the arrays, with lane, line and argument.

    --registers-at fault, end, a pc (0x...), kernel+0x10 or file.cl:12 shows
    all registers of waves or harts in the report then: before the instruction,
    where one fails, or ends. They run on the reference engine for that.

    Exit status 1 where the kernel fails, an array is not as expected, the
    engines differ, or a check finds an error.

      understudy run k.co saxpy --arg 2.5 --arg f32:64:range --arg f32:64

      understudy run k.bin --arg u32:64:range --expect 0=@wanted.npy

      understudy run k.co saxpy --arg 2.5 --arg f32:64 --arg f32:64 --report run.html
    """
    from understudy.cli.kernel_files import Options, RawHeader
    from understudy.cli.kernel_values import numbered

    given = arguments or []
    values = parsed(given, seed)
    wanted = [numbered(text, len(given), "--expect") for text in expect or ()]
    saved = [numbered(text, len(given), "--save") for text in save or ()]
    for number, _ in (*wanted, *saved):
        if not hasattr(values[number], "dtype") or not values[number].shape:
            raise UsageError(f"argument {number} is {given[number]!r}: only arrays hold something afterwards")
    try:
        place = parse_number(base, 64)
    except WireError as error:
        raise UsageError(str(error)) from None
    check = checked(check) or default_checks()
    check_outputs(findings, suppressions, check, equal_stores)
    skipped = str(suppressions) if suppressions else None
    options = Options(agent, engine.value, tier.value, exact, machine_model.value, place)
    options = replace(options, with_lines=report is not None, check=check, suppressions=skipped, waves=trace_waves)
    options = replace(options, equal_stores=equal_stores, registers_at=tuple(registers_at or ()))
    if registers_at and report is None:
        raise UsageError("--registers-at: a report shows them, say which with --report")
    if registers_at and both_engines:
        raise UsageError("--registers-at and --both-engines: the reference engine alone takes registers")
    header = RawHeader(vgprs, sgprs, kernarg, lds, scratch, tuple(user_sgprs or ("kernarg_segment_ptr",)))
    found, name, sizes = prepared(file, kernel, (grid, group), values, options, header)
    expectations = _expectations(wanted, values)
    try:
        with reporting(report, f"{file.name}: {name}") as wanted_report:
            options = replace(options, report=wanted_report)
            outcome, engines_differ = _run(found, name, sizes, values, options, both_engines)
    except UnderstudyError as error:
        if as_json and not isinstance(error, UsageError):
            print(json.dumps(_failed(name, error, options), indent=2))
        elif options.findings and not as_json:
            tell_findings(options.findings, sys.stderr)
        raise
    finally:
        if findings is not None:
            write_findings(findings, file, options.findings)
    wrong = _wrong(expectations, values, tolerance)
    for number, text in saved:
        from understudy.cli.kernel_values import save as write

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
        _show(document, given)
        if check:
            tell_findings(options.findings, sys.stdout)
    if wrong or engines_differ or any(each.level is Level.ERROR for each in options.findings):
        raise typer.Exit(ExitCode.GUEST)


Sizes = tuple[tuple[int, ...] | None, tuple[int, ...] | None]
"""Grid and group."""


def parsed(arguments: list[str], seed: int) -> list[Any]:
    """What --arg says."""
    from understudy.cli.kernel_values import parse

    return [parse(text, seed, number) for number, text in enumerate(arguments)]


def prepared(
    file: Path, kernel: str, size: tuple[str, str], values: list[Any], options: Options, header: RawHeader
) -> tuple[KernelFile, str, Sizes]:
    """The file, the kernel's name, and its grid and group, from what the command line says of them."""
    from understudy.cli.kernel_files import read_kernels

    sizes = _sizes(size[0]) if size[0] else None, _sizes(size[1]) if size[1] else None
    try:
        found = read_kernels(file, options, header)
    except UsageError:
        raise
    except UnderstudyError as error:
        raise error.at("file", str(file)) from None
    name = found.kernel(kernel)
    if sizes[0] is None and found.counts_elements:
        sizes = (max([1, *map(_elements, values)]),), sizes[1]
    return found, name, sizes


def _run(
    found: KernelFile, name: str, sizes: Sizes, values: list[Any], options: Options, both: bool
) -> tuple[Outcome, str]:
    """Run once, or on both engines; what came of it, and the first array in which they differ, "" for none."""
    if not both:
        return found.run(name, *sizes, values, options), ""
    from understudy.cli.kernel_values import difference

    others = copy.deepcopy(values)
    found.run(name, *sizes, others, replace(options, engine="reference", report=None))
    outcome = found.run(name, *sizes, values, replace(options, engine="jit"))
    for number, (mine, theirs) in enumerate(zip(values, others, strict=True)):
        if _elements(mine) and mine.tobytes() != theirs.tobytes():
            what = difference(mine, theirs, 0) or "NaNs have other bits"
            return outcome, f"argument {number}: {what.replace('expected', 'on the reference engine')}"
    return outcome, ""


def _expectations(wanted: list[tuple[int, str]], values: list[Any]) -> list[tuple[int, Any]]:
    from understudy.cli.kernel_values import expected

    return [(number, expected(text, values[number])) for number, text in wanted]


def _wrong(expectations: list[tuple[int, Any]], values: list[Any], tolerance: float) -> dict[int, str]:
    from understudy.cli.kernel_values import difference

    found = ((number, difference(values[number], wanted, tolerance)) for number, wanted in expectations)
    return {number: text for number, text in found if text}


def _elements(value: Any) -> int:
    """Elements of an array; 0 for what is none."""
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
        "instructions": outcome.took.instructions,
        "unit": found.unit,
        "seconds": outcome.took.time,
        "rate": outcome.took.rate,
        "bytes": outcome.took.bytes,
        "bandwidth": outcome.took.bandwidth,
        "interpreted": outcome.took.interpreted,
        "printed": outcome.printed,
        "arrays": {
            number: {"type": str(each.dtype), "shape": list(each.shape), "first": _plain(each.reshape(-1)[:SHOWN])}
            for number, each in arrays
        },
    }


def _failed(name: str, error: UnderstudyError, options: Options) -> dict[str, Any]:
    """What --json says of a kernel that failed."""
    held = None if error.registers is None else error.registers.as_dict()
    document = {"kernel": name, "engine": options.engine, "error": str(error), "registers": held}
    return document | ({"findings": [each.as_dict() for each in options.findings]} if options.check else {})


def _plain(array: Any) -> list[Any]:
    """Elements as Python's numbers, with no more digits than tell them apart."""
    return [float(str(each)) if array.dtype.kind == "f" else int(each) for each in array]


def _show(document: dict[str, Any], given: list[str]) -> None:
    if document["printed"]:
        print(document["printed"], end="" if document["printed"].endswith("\n") else "\n")
    print(
        f"{document['kernel']}: {document['instructions']:,} {document['unit']} in {_time(document['seconds'])}, "
        f"{_rate(document['rate'])}; {document['bytes']:,} bytes of arrays "
        f"({document['interface']}, {document['agent']}, {document['engine']})"
    )
    if document["engine"] == "jit" and document["interpreted"] > max(NOTEWORTHY, document["instructions"] // 20):
        print(
            f"{document['interpreted']:,} of them one by one on the reference engine, which is slow: "
            "translated code has no form of them, or was not made yet"
        )
    for number, array in document["arrays"].items():
        size = 1
        for each in array["shape"]:
            size *= each
        more = " ..." if size > SHOWN else ""
        print(f"argument {number}, {array['type']}{array['shape']}: {' '.join(map(str, array['first']))}{more}")
    for number, text in document["expected"].items():
        print(f"argument {number}: {f'not as expected: {text}' if text else 'as expected'}")
    if "engines" in document:
        print(f"engines differ: {document['engines']}" if document["engines"] else "both engines give the same")


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"


def _rate(rate: float) -> str:
    return f"{rate / 1e6:,.1f} M/s" if rate >= 1e5 else f"{rate:,.0f}/s"


def _sizes(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d{1,20}(x\d{1,20}){0,2}", text):
        raise UsageError(f"{text!r} is no size, expected 1024, 64x64 or 8x8x8")
    sizes = tuple(map(int, text.split("x")))
    if not all(1 <= each <= MOST_SIZE for each in sizes):
        raise UsageError(f"{text!r} is no size: expected 1 to {MOST_SIZE} in each dimension")
    return sizes
