"""`understudy report`: a trace as one HTML file that people look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy import __version__
from understudy.cli.files import writing
from understudy.cli.reporting import DOCS_VARIABLE
from understudy.cli.trace import records, refuse_own_input
from understudy.trace.page_file import write_page


def report(
    path: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace in JSON lines; - is standard input.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file to write.")] = Path("report.html"),
    title: Annotated[str, typer.Option("--title", help="What stands above it; the trace's name without.")] = "",
    docs: Annotated[
        str, typer.Option("--docs", metavar="URL", envvar=DOCS_VARIABLE, help="Where links into the docs lead.")
    ] = "",
) -> None:
    """Write a trace as one HTML file that needs no network.

    A timeline of commands, packets, DMA, harts and interrupts, memory and registers at any moment, what was executed
    how often, and what went wrong, with clauses.

    Example: understudy report run.jsonl -o report.html
    """
    refuse_own_input(path, output)
    with records(path) as events:
        text = write_page(events, title or ("standard input" if str(path) == "-" else path.name), __version__, docs)
    with writing(output):
        output.write_text(text, encoding="utf-8", errors="replace")
    print(f"{output}: {len(text) / 1e6:.1f} MB")
