"""`understudy check`: look at what stands in a file without running it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from understudy.cli import completion
from understudy.cli.engines import known_processor
from understudy.cli.exits import ExitCode, UsageError
from understudy.cli.files import MAX_CODE_BYTES, read_file
from understudy.cli.inspect import CODE
from understudy.cli.kinds import NAMES, FileKind, kind_of
from understudy.core.diagnostic import Diagnostic, Level
from understudy.core.errors import WireError
from understudy.core.shown import count
from understudy.device.hsa.memory_model import Order
from understudy.device.refsi.registers import M1_HARTS

STYLES = {Level.ERROR: "bold red", Level.WARNING: "yellow", Level.NOTE: "cyan"}


def check(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The file; - for standard input.")] = Path("-"),
    as_json: Annotated[bool, typer.Option("--json", help="Findings as a JSON array.")] = False,
    sarif: Annotated[
        bool, typer.Option("--sarif", help="Findings as SARIF 2.1.0, for code hosts and editors.")
    ] = False,
    kind: Annotated[
        FileKind | None, typer.Option("--as", help="What the file is, where its content does not tell.")
    ] = None,
    agent: Annotated[
        str,
        typer.Option(
            "--agent", metavar="NAME", help="For objects that do not name theirs.", autocompletion=completion.processors
        ),
    ] = "",
    memory_model: Annotated[
        bool, typer.Option("--memory-model", help="Code objects: tell the memory order that each atomic has.")
    ] = False,
    order: Annotated[
        Order | None,
        typer.Option(help="An order that all atomics must have at agent scope: what is missing is an error."),
    ] = None,
    pcie: Annotated[
        bool, typer.Option("--pcie", help="Atomics are on memory of the host behind PCIe: what it lacks is an error.")
    ] = False,
    only: Annotated[
        str,
        typer.Option("--check", metavar="NAMES", help="Code: only these kinds of findings, of waits, object, ..."),
    ] = "",
    profile: Annotated[str, typer.Option(help="RefSi: the document's behaviour (spec), or refsidrv's.")] = "spec",
    harts: Annotated[int, typer.Option(min=1, max=255, help="RefSi: harts of the device.")] = M1_HARTS,
) -> None:
    """Look for mistakes in a file without running it.

    Code objects and programs of AMD GPUs: headers, metadata, words that are no
    instruction, waits and wait states that are missing on some path. RISC-V ELF
    files: why RefSi would not run them. Command buffers of RefSi and Acceldev:
    fields, registers, sequences. Arrow schemas: where Fletcher's generator and
    run-time disagree. Traces: what went wrong in them.

    With --memory-model: each atomic, and what the waits and invalidations
    around it make of it. Atomics are read-modify-writes and coherent loads: an
    atomic store is the instruction of an ordinary one and is not listed, nor
    are loads from private memory.

    Exit status 1 where there are errors; warnings and notes are none.

      understudy check commands.bin --sarif > commands.sarif
    """
    if as_json and sarif:
        raise UsageError("--json and --sarif are two forms of one answer: give one of them")
    if profile not in ("spec", "refsidrv"):
        raise UsageError(f"no profile {profile!r}: there are spec, refsidrv")
    known_processor(agent)
    data = read_file(path, MAX_CODE_BYTES)
    orders = memory_model or order is not None or pcie
    try:
        chosen = kind or kind_of(data, path.name)
        if orders and chosen is not FileKind.HSA:
            raise UsageError(f"memory orders are of code objects, and {path} is another thing: {NAMES[chosen]}")
        findings = _only(only, chosen, _findings(chosen, data, agent, profile, harts))
        if orders:
            from understudy.check import files

            findings += files.memory_orders(data, agent, order.value if order else "", pcie)
    except WireError as error:
        raise error.at("file", str(path)) from None
    if sarif:
        from understudy import __version__
        from understudy.check.sarif import to_sarif

        print(json.dumps(to_sarif(path, findings, __version__), indent=2))
    elif as_json:
        print(json.dumps([_plain(each) for each in findings], indent=2))
    else:
        for line in _orders(data, agent) if memory_model else ():
            print(line)
        _tell(NAMES[chosen], findings)
    raise typer.Exit(ExitCode.GUEST if any(each.level is Level.ERROR for each in findings) else ExitCode.OK)


def _findings(kind: FileKind, data: bytes, agent: str, profile: str, harts: int) -> Iterator[Diagnostic]:
    from understudy.check import files

    if kind is FileKind.RISCV:
        return files.riscv(data)
    if kind in CODE:
        from understudy.check import waits

        document: dict[str, Any] = import_module(f"understudy.report.{CODE[kind]}").describe(data, target=agent)
        missing = waits.code_object_waits if kind is FileKind.HSA else waits.program_waits
        return chain(files.code(document), missing(data, agent))
    if kind is FileKind.REFSI:
        from understudy.cli.buffers import to_binary

        return files.refsi(to_binary(data), harts=harts, profile=profile)
    if kind is FileKind.ACCELDEV:
        return files.acceldev(data)
    if kind is FileKind.SCHEMA:
        from understudy.cli.fletcher import need_pyarrow

        need_pyarrow()
        return files.schema(data)
    return _of_trace(data)


def _only(names: str, kind: FileKind, findings: Iterator[Diagnostic]) -> list[Diagnostic]:
    """The findings of the kinds that were asked for; all where none were."""
    from understudy.check.files import CHECKS

    wanted, known = list(filter(None, names.split(","))), CHECKS.get(kind, ())
    for name in wanted:
        if name not in known:
            raise UsageError(f"no check {name!r} of a {NAMES[kind]}: there are {', '.join(known) or 'none to choose'}")
    return [each for each in findings if not wanted or each.check in wanted]


def _of_trace(data: bytes) -> Iterator[Diagnostic]:
    """What went wrong in a run, or most likely did."""
    from understudy.trace.page_file import find_rule
    from understudy.trace.reading import read_records
    from understudy.trace.timeline import finding_of

    for number, record in enumerate(read_records(data.splitlines())):
        found = finding_of(number, record)
        if found is not None:
            rule = find_rule(found.rule) if found.rule else None
            yield Diagnostic(Level.ERROR, found.what, found.message, f"event {number}", rule=rule)


def _plain(finding: Diagnostic) -> dict[str, Any]:
    rule = finding.rule
    return {
        "level": finding.level.value,
        "check": finding.check,
        "message": finding.message,
        "place": finding.place,
        "byte": finding.byte,
        "pc": finding.pc,
        "kernel": finding.kernel,
        "rule": rule.id if rule else "",
        "clause": rule.clause if rule else "",
        "other": finding.other,
        "suggestion": finding.suggestion,
        "count": finding.count,
    }


def _orders(data: bytes, agent: str) -> Iterator[str]:
    """Each atomic of a code object, and the order that it has."""
    from understudy.check.files import BASE, atomics_of
    from understudy.image.hsa.code_object import read_code_object

    code = read_code_object(data, agent)
    for name in sorted(code.kernels):
        found = atomics_of(code, name, agent)
        head = f"{name}: {len(found)} atomics" if found else f"{name}: no atomics"
        yield from chain([head], (f"  {each.pc - BASE:#x} {each.text}: {each.order}" for each in found))


def _tell(what: str, findings: list[Diagnostic]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for each in findings:
        shown = Text(str(each))
        shown.stylize(STYLES[each.level], 0, len(each.level.value))
        console.print(shown)
    counts = Counter(each.level for each in findings)
    console.print(f"{what}: " + ", ".join(count(counts[level], level.value) for level in Level))
