"""`softcard trace` converts a trace to the format of another program; `softcard report` writes it as one HTML file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import Annotated, BinaryIO, Final, TextIO

import typer

from softcard import __version__
from softcard.cli.exits import UsageError
from softcard.cli.files import is_standard_output, open_file, print_written, read_file, reading, write_file, writing
from softcard.cli.progress import BYTES, counted, progress, size_of
from softcard.core.diagnostics import DOCS_VARIABLE
from softcard.core.errors import WireError
from softcard.trace import ChromeTrace, JsonlTrace, TextTrace
from softcard.trace.code import Listing
from softcard.trace.executed_code import CodeOfTrace
from softcard.trace.page_file import write_page
from softcard.trace.speedscope import SpeedscopeTrace
from softcard.trace.timeline import Timeline
from softcard.trace.values import Record, read_records
from softcard.trace.vcd import VcdTrace
from softcard.trace.writer import TraceWriter


class Form(Enum):
    """The output formats of a trace."""

    PERFETTO = "perfetto"
    VCD = "vcd"
    SPEEDSCOPE = "speedscope"
    TEXT = "text"
    JSONL = "jsonl"


def trace(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A trace in JSON lines; - for standard input.")],
    to: Annotated[Form, typer.Option("--format", help="Output format.")] = Form.TEXT,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write to; by default standard output.")
    ] = None,
) -> None:
    """Convert a trace to the format of another program.

    perfetto: JSON for ui.perfetto.dev and chrome://tracing. vcd: registers, signals and interrupts as waves, for
    GTKWave or Surfer. speedscope: a profile of each unit. text: a line per event, for people and diff.

    Example: softcard trace run.jsonl --format perfetto -o run.json
    """
    device = path.name.partition(".")[0] or "device"
    is_printed = (output is None or is_standard_output(output)) and sys.stdout is not None and sys.stdout.isatty()
    with records(path, is_quiet=is_printed) as events:
        if output is None or is_standard_output(output):
            with writing(Path("standard output")):
                _write(events, to, device, sys.stdout)
                sys.stdout.flush()
            return
        refuse_own_input(path, output)
        try:
            with writing(output), output.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
                _write(events, to, device, file)
        except WireError:
            if output.is_file():
                output.unlink()  # a partial trace would look like a complete one
            raise


@contextmanager
def records(path: Path, *, is_quiet: bool = False) -> Iterator[Iterator[Record]]:
    """Provide an iterator over the events of the trace file `path`; unless `is_quiet`, show the progress of reading.

    Raise a `WireError` that names the file if it is invalid or has no event."""
    with open_file(path) as file, progress(f"reading {path.name}", size_of(file), BYTES, is_quiet=is_quiet) as bar:
        try:
            events = read_records(counted(lines_of(file, path), bar))
            first = next(events, None)
            if first is None:
                raise WireError("the file has no event, expected a trace in JSON lines, as JsonlTrace writes it")
            yield chain([first], events)
        except WireError as error:
            raise error.at("file", str(path)) from None


def lines_of(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Return an iterator over the lines of an open file; `path` is the file's name in errors.

    A line that exceeds the maximum length is returned in pieces."""

    def line() -> bytes:
        with reading(path):
            return file.readline(_MAX_LINE_BYTES)

    return iter(line, b"")


def refuse_own_input(path: Path, output: Path) -> None:
    """Raise `UsageError` if the output would overwrite the input."""
    if is_standard_output(output) or not (os.path.exists(output) and os.path.exists(path)):  # or the name is too long
        return
    if output.samefile(path):
        raise UsageError(f"the output {output} is also the input: name another file with -o")


def _write(events: Iterator[Record], to: Form, device: str, file: TextIO) -> None:
    with _WRITERS[to](file, device) as writer:
        for event in events:
            writer.write(event)


_MAX_LINE_BYTES: Final = 16 << 20
_WRITERS: Final[dict[Form, Callable[[TextIO, str], TraceWriter]]] = {
    Form.PERFETTO: ChromeTrace,
    Form.VCD: lambda file, device: VcdTrace(file),
    Form.SPEEDSCOPE: SpeedscopeTrace,
    Form.TEXT: lambda file, device: TextTrace(file),
    Form.JSONL: lambda file, device: JsonlTrace(file),
}


# ---- report ----------------------------------------------------------------------------------------------------------

MOST_NAMES: Final = 8
"""The maximum number of kernels that a message names."""


def report(
    path: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace in JSON lines; - for standard input.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file to write.")] = Path("report.html"),
    title: Annotated[str, typer.Option("--title", help="Heading of the page; by default the name of the trace.")] = "",
    code: Annotated[
        list[Path] | None,
        typer.Option(
            "--code",
            metavar="FILE",
            help="Show the code of this program or code object, which the traced device had loaded; can be repeated.",
        ),
    ] = None,
    docs: Annotated[
        str,
        typer.Option(
            "--docs",
            metavar="URL",
            envvar=DOCS_VARIABLE,
            help="Address of the documentation that links on the page lead to.",
        ),
    ] = "",
) -> None:
    """Write a trace as one HTML file that needs no network.

    A timeline of commands, packets, DMA, harts and interrupts, memory and registers at any time, executed code with
    counts, and mistakes with the clauses of the rules.

    A trace has no code of GPUs and harts. --code FILE takes it from the program
    that was loaded: a code object, a RISC-V program, or a host program that
    contains one.

      softcard report run.jsonl -o report.html

      softcard report run.jsonl --code kernels.co
    """
    refuse_own_input(path, output)
    for each in code or ():
        read_file(each)  # the usual error for a file that cannot be read, before the trace is read
    traced = CodeOfTrace()
    with records(path) as events:
        timeline = Timeline(traced.observe(events))
    listings = [listing for each in code or () for listing in _code_in(each, traced)]
    name = title or ("standard input" if str(path) == "-" else path.name)
    text = write_page(timeline, name, __version__, docs, listings)
    write_file(output, text)
    print_written(output, f"{output}: {len(text) / 1e6:.1f} MB")


def _code_in(path: Path, traced: CodeOfTrace) -> list[Listing]:
    """Return the listings of the code in a file that the trace names; raise `UsageError` if it has none of it."""
    found = traced.listings(path)
    if not found:
        names = traced.names()
        some = ", ".join(names[:MOST_NAMES]) + ", ..." * (len(names) > MOST_NAMES)
        raise UsageError(
            f"{path} has no code that the trace names, expected the file with {some or 'a kernel: none ran'}"
        )
    return found
