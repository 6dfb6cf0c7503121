"""`understudy trace`: the events of a run in the form that another program reads."""

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

from understudy.cli.exits import UsageError
from understudy.cli.files import open_file, reading, writing
from understudy.core.errors import WireError
from understudy.trace import ChromeTrace, JsonlTrace, TextTrace
from understudy.trace.reading import Record, read_records
from understudy.trace.speedscope import SpeedscopeTrace
from understudy.trace.vcd import VcdTrace
from understudy.trace.writer import TraceWriter


class Form(Enum):
    """What a trace can be turned into."""

    PERFETTO = "perfetto"
    VCD = "vcd"
    SPEEDSCOPE = "speedscope"
    TEXT = "text"
    JSONL = "jsonl"


def trace(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A trace in JSON lines; - is standard input.")],
    to: Annotated[Form, typer.Option("--to", help="What to make of it.")] = Form.TEXT,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write it; standard output without.")
    ] = None,
) -> None:
    """Turn a trace into what another program reads.

    perfetto: JSON for ui.perfetto.dev and chrome://tracing. vcd: registers, signals and interrupts as waves, for
    GTKWave or Surfer. speedscope: what each unit's time went to. text: a line per event, for people and diff.

    Example: understudy trace run.jsonl --to perfetto -o run.json
    """
    device = path.name.partition(".")[0] or "device"
    with records(path) as events:
        if output is None:
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
                output.unlink()  # half a trace would look like a whole one
            raise


@contextmanager
def records(path: Path) -> Iterator[Iterator[Record]]:
    """The events of a trace file, of which there is at least one; errors in it name the file."""
    with open_file(path) as file:
        try:
            events = read_records(lines_of(file, path))
            first = next(events, None)
            if first is None:
                raise WireError("no event; JsonlTrace writes a trace")
            yield chain([first], events)
        except WireError as error:
            raise error.at("file", str(path)) from None


def lines_of(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """The lines of an open file, none of which fills the memory; `path`: its name in errors."""

    def line() -> bytes:
        with reading(path):
            return file.readline(_MAX_LINE_BYTES)

    return iter(line, b"")


def refuse_own_input(path: Path, output: Path) -> None:
    """`UsageError` where the output would overwrite what is being read."""
    if os.path.exists(output) and os.path.exists(path) and output.samefile(path):  # False for names that are too long
        raise UsageError(f"{output} is the trace itself: name another file with -o")


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
