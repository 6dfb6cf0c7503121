"""`softcard inspect` and `softcard check`: the content of a file, and the mistakes in it. Nothing is run."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import typer

from softcard.cli.exits import ExitCode, UsageError, exit_code, report
from softcard.cli.file_kinds import HEAD_BYTES, NAMES, FileKind, buffer_of, is_trace, kind_of
from softcard.cli.files import MAX_CODE_BYTES, MAX_FILE_BYTES, open_file, read_file, reading, too_large
from softcard.cli.options import (
    Format,
    FormatOption,
    HartsOption,
    JsonOption,
    ResultFormat,
    ResultFormatOption,
    check_processor,
    chosen_format,
    complete_processors,
    is_json,
)
from softcard.cli.progress import BYTES, counted, progress, size_of
from softcard.cli.records import annotate, formatted
from softcard.cli.tables import show_diagnostics
from softcard.core.diagnostics import STDIN, Diagnostic, diagnostic_of, diagnostics_of
from softcard.core.display import count
from softcard.core.errors import SoftcardError, WireError, close_to
from softcard.core.findings import Level
from softcard.device.hsa.memory.memory_model import Order
from softcard.device.refsi.registers import M1_HARTS

Document = dict[str, Any]
"""The content of a file as JSON data: numbers, strings, lists, dicts."""
FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILE", help="The files to read; by default, and for -, standard input."),
]
CODE: Final = {FileKind.HSA: "hsa_code", FileKind.AMDCL2: "amdcl2", FileKind.RISCV: "riscv_program"}
"""The report module of each kind of file with code."""


def inspect(
    files: FilesArgument = None,
    as_json: JsonOption = False,
    form: ResultFormatOption = ResultFormat.TEXT,
    kernel: Annotated[str, typer.Option("--kernel", help="Show only this kernel or function.")] = "",
    code: Annotated[bool, typer.Option("--code/--no-code", help="Show the disassembled code, or leave it out.")] = True,
    agent: Annotated[
        str,
        typer.Option(
            "--agent",
            metavar="NAME",
            help="Processor, if the file does not name the right one.",
            autocompletion=complete_processors,
        ),
    ] = "",
    zeros: Annotated[bool, typer.Option("--all", help="Show also fields that are 0.")] = False,
    kind: Annotated[
        FileKind | None, typer.Option("--as", help="The kind of file, if its content does not show it.")
    ] = None,
) -> None:
    """Show the content of a file.

    Code objects and programs of AMD GPUs: headers, kernels, arguments,
    registers, disassembly. RISC-V ELF files: segments, instruction set,
    functions, and why RefSi would not run them. Command buffers of RefSi and
    Acceldev: commands. Arrow schemas: fields and Fletcher's registers. Traces:
    events by kind, and what went wrong.

    The content of each of several files is below its name; in JSON, it is an
    object with file and content.

    Exit status 1 if a file cannot be decoded as the kind of file that it is.
    Unusual content that can be decoded only gives a warning.

      softcard inspect saxpy.co --kernel saxpy"""
    as_json = is_json(form, as_json)
    check_processor(agent)

    def described_file(file: Path, source: BinaryIO) -> Described:
        with reading(file):
            head = source.read(HEAD_BYTES)
        if kind is FileKind.TRACE or (kind is None and is_trace(head)):
            return _trace(head, source, file)
        with progress(f"reading {file.name}"):
            with reading(file):
                data = head + source.read(MAX_FILE_BYTES + 1 - len(head))
            if len(data) > MAX_FILE_BYTES:
                raise too_large(file, MAX_FILE_BYTES)
            return described(kind or kind_of(data, file.name), data, kernel, code, agent, zeros)

    chosen = files or [Path("-")]
    documents: list[Document] = []

    def show(file: Path) -> None:
        with open_file(file) as source:
            try:
                document, lines = described_file(file, source)
            except WireError as error:
                raise _with_file(error, file) from None
        if as_json:
            documents.append(document if len(chosen) == 1 else {"file": str(file), "content": document})
            return
        for line in lines:
            print(line)

    status = _of_each(chosen, show, with_headings=not as_json)
    if as_json:
        print(json.dumps(documents if len(chosen) > 1 else documents[0], indent=2))
    raise typer.Exit(status)


def _with_file(error: WireError, path: Path) -> WireError:
    """Return an error with the name of its file, if it has none yet."""
    return error if any(each.kind == "file" for each in error.path) else error.at("file", str(path))


def _of_each(files: Sequence[Path], act: Callable[[Path], None], *, with_headings: bool) -> ExitCode:
    """Call `act` for each file, with the file's name printed above if there are several.

    An error of one of several files is printed, and the next file follows. Return the worst exit status of the errors.
    """
    if len(files) == 1:
        act(files[0])
        return ExitCode.OK
    worst = ExitCode.OK
    for number, file in enumerate(files):
        if with_headings:
            print("\n" * (number > 0) + f"==> {file} <==", flush=True)
        try:
            act(file)
        except SoftcardError as error:
            report(error)
            worst = max(worst, exit_code(error))
    return worst


Described = tuple[Document, Iterator[str]]
"""The type of a file's content in two forms: as JSON data, and as lines of text."""


def _trace(head: bytes, source: BinaryIO, file: Path) -> Described:
    from softcard.cli.traces import lines_of
    from softcard.trace.timeline import describe, lines
    from softcard.trace.values import read_records

    rest = lines_of(source, file)
    begun = head.split(b"\n")
    joined = chain(begun[:-1], [begun[-1] + next(rest, b"")], rest)
    with progress(f"reading {file.name}", size_of(source), BYTES) as bar:
        document = describe(read_records(counted(joined, bar)))
    return document, lines(document)


def described(
    kind: FileKind, data: bytes, kernel: str = "", code: bool = True, agent: str = "", zeros: bool = False
) -> Described:
    """Return the content of a file that is not a trace, as JSON data and as lines of text."""
    if kind in CODE:
        report = import_module(f"softcard.report.{CODE[kind]}")  # here, since it imports the tables of instructions
        document: Document = report.describe(data, kernel=kernel, code=code, target=agent)
        return document, report.lines(document, zeros=zeros)
    if kind is FileKind.SCHEMA:
        from softcard.cli.fletcher import need_pyarrow

        need_pyarrow()
        from softcard.report import fletcher

        document = fletcher.describe(data)
        return document, fletcher.lines(document)
    from softcard.cli.file_kinds import to_binary
    from softcard.report import layouts

    document = layouts.describe_refsi(to_binary(data)) if kind is FileKind.REFSI else layouts.describe_acceldev(data)
    return document, layouts.lines(document)


# ---- check -----------------------------------------------------------------------------------------------------------


def check(
    paths: FilesArgument = None,
    as_json: JsonOption = False,
    form: FormatOption = Format.TEXT,
    kind: Annotated[
        FileKind | None, typer.Option("--as", help="The kind of file, if its content does not show it.")
    ] = None,
    agent: Annotated[
        str,
        typer.Option(
            "--agent",
            metavar="NAME",
            help="Processor, for code objects that do not name theirs.",
            autocompletion=complete_processors,
        ),
    ] = "",
    memory_model: Annotated[
        bool, typer.Option("--memory-model", help="Code objects: list the memory order that each atomic has.")
    ] = False,
    order: Annotated[
        Order | None,
        typer.Option(help="Memory order that all atomics must have at agent scope; a weaker one is an error."),
    ] = None,
    pcie: Annotated[
        bool,
        typer.Option(
            "--pcie", help="Assume atomics on host memory over PCIe; one that PCIe does not support is an error."
        ),
    ] = False,
    only: Annotated[
        str,
        typer.Option(
            "--check", metavar="NAMES", help="Code: show only findings of these checks, such as waits or object."
        ),
    ] = "",
    profile: Annotated[
        str, typer.Option(help="RefSi: behaviour of the document (spec) or of the reference driver (refsidrv).")
    ] = "spec",
    harts: HartsOption = M1_HARTS,
) -> None:
    """Look for mistakes in a file without running it.

    Code objects and programs of AMD GPUs: headers, metadata, words that cannot
    be decoded, waits and wait states that are missing on some path. RISC-V ELF
    files: why RefSi would not run them. Command buffers of RefSi and Acceldev:
    fields, registers, sequences. Arrow schemas: where Fletcher's generator and
    run-time disagree. Traces: what went wrong in them.

    With --memory-model: each atomic, with the memory order that the waits and
    invalidations around it give it. Atomics are read-modify-writes and coherent
    loads: an atomic store is the same instruction as an ordinary one and is not
    listed, nor are loads from private memory.

    Several files make one report. Exit status 1 if there are errors, 0 if there
    are only warnings and notes.

      softcard check commands.bin --format sarif > commands.sarif
    """
    form = chosen_format(form, as_json)
    if profile not in ("spec", "refsidrv"):
        raise UsageError(f"unknown profile {profile!r}, expected spec or refsidrv")
    check_processor(agent)
    orders = memory_model or order is not None or pcie
    chosen = paths or [Path("-")]
    found: list[Diagnostic] = []

    def look_at(path: Path) -> None:
        with progress(f"checking {path.name}"):
            data, what, findings = examined(path)
        if form is Format.TEXT:
            for line in _orders(data, agent) if memory_model else ():
                print(line)
            print_diagnostics(path, NAMES[what], findings)
        found.extend(findings if len(chosen) == 1 else [_in_file(diagnostic_of(each), path) for each in findings])

    def examined(path: Path) -> tuple[bytes, FileKind, list[Diagnostic]]:
        data = read_file(path, MAX_CODE_BYTES)
        try:
            what = kind or kind_of(data, path.name)
            if orders and what is not FileKind.HSA:
                raise UsageError(
                    f"--memory-model, --order and --pcie require a code object, but {path} is of kind {NAMES[what]}"
                )
            findings = _only(only, what, _findings(what, data, path, agent, profile, harts))
            if orders:
                from softcard.check import files

                findings += files.memory_orders(data, agent, order.value if order else "", pcie)
        except WireError as error:
            raise _with_file(error, path) from None
        return data, what, findings

    status = _of_each(chosen, look_at, with_headings=form is Format.TEXT)
    if form is not Format.TEXT:
        print(formatted(form, chosen[0], found), end="")
    raise typer.Exit(max(status, ExitCode.GUEST if any(each.level is Level.ERROR for each in found) else ExitCode.OK))


def _findings(kind: FileKind, data: bytes, path: Path, agent: str, profile: str, harts: int) -> Iterator[Diagnostic]:
    from softcard.check import files

    if kind is FileKind.RISCV:
        return files.riscv(data)
    if kind in CODE:
        from softcard.check import waits

        document: dict[str, Any] = import_module(f"softcard.report.{CODE[kind]}").describe(data, target=agent)
        if kind is FileKind.AMDCL2:
            return chain(files.code(document), waits.program_waits(data, agent))
        found = chain(files.code(document), waits.code_object_waits(data, agent), files.registers(data, agent))
        return files.with_source_lines(data, agent, found)
    if kind is FileKind.REFSI:
        buffer = buffer_of(data, path)
        return map(buffer.located, files.refsi(buffer.data, harts=harts, profile=profile))
    if kind is FileKind.ACCELDEV:
        return files.acceldev(data)
    if kind is FileKind.SCHEMA:
        from softcard.cli.fletcher import need_pyarrow

        need_pyarrow()
        return files.schema(data)
    return _of_trace(data)


def _only(names: str, kind: FileKind, findings: Iterator[Diagnostic]) -> list[Diagnostic]:
    """Return the findings of the checks in `names`, which are separated by commas, or all findings if it is empty."""
    from softcard.check.files import CHECKS

    wanted, known = list(filter(None, names.split(","))), CHECKS.get(kind, ())
    for name in wanted:
        if name not in known:
            listed = f"one of {', '.join(known)}{close_to(name, known)}" if known else "no --only: it has no checks"
            raise UsageError(f"unknown check {name!r} for a file of kind {NAMES[kind]}, expected {listed}")
    return [each for each in findings if not wanted or each.check in wanted]


def _of_trace(data: bytes) -> Iterator[Diagnostic]:
    """Yield the certain and the likely mistakes of the host or guest that a trace shows."""
    from softcard.trace.page_file import find_rule
    from softcard.trace.timeline import finding_of
    from softcard.trace.values import read_records

    for number, record in enumerate(read_records(data.splitlines())):
        found = finding_of(number, record)
        if found is not None:
            rule = find_rule(found.rule) if found.rule else None
            yield Diagnostic(Level.ERROR, found.what, found.message, f"event {number}", rule=rule)


def _orders(data: bytes, agent: str) -> Iterator[str]:
    """Yield a line about each atomic of a code object, with its memory order."""
    from softcard.check.files import BASE, atomics_of
    from softcard.image.hsa.code_object import read_code_object

    code = read_code_object(data, agent)
    for name in sorted(code.kernels):
        found = atomics_of(code, name, agent)
        head = f"{name}: {count(len(found), 'atomic')}" if found else f"{name}: no atomics"
        yield from chain([head], (f"  {each.pc - BASE:#x} {each.text}: {each.order}" for each in found))


def print_diagnostics(path: Path, what: str, findings: Sequence[Diagnostic]) -> None:
    """Print the diagnostics of the file at `path`, and their numbers after `what`."""
    found = [_in_file(each, path) for each in diagnostics_of(findings)]
    if found:
        print()
        show_diagnostics(found, sys.stdout)
        print()
    counts = Counter(each.level for each in found)
    print((f"{what}: " if what else "") + ", ".join(count(counts[level], level.value) for level in Level))
    annotate(path, found, sys.stdout)


def _in_file(found: Diagnostic, path: Path) -> Diagnostic:
    """Return a diagnostic whose position names the file."""
    position = found.position
    name = STDIN if str(path) == "-" else str(path)
    return found if position.file else replace(found, location=replace(position, file=name))
