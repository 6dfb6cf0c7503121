"""The tree of commands, and the last line of defence."""

from __future__ import annotations

import atexit
import errno
import gc
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import typer

from understudy import __version__
from understudy.cli.commands import LazyGroup
from understudy.cli.exits import ExitCode, UsageError, exit_code, report, report_bug
from understudy.cli.output import unwritten
from understudy.core.errors import UnderstudyError

app = typer.Typer(
    name="understudy",
    cls=LazyGroup,
    help="Virtual accelerators: documented host interfaces played bit for bit, kernels really executed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


LOST = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What `print` fails with where standard output takes no more. Files that commands write say so themselves."""


RARELY: Final = 50_000
"""So many objects more than before, and Python looks for those that nobody reaches; else 700, hundreds of times while
modules are loaded."""
atexit.register(gc.freeze)  # what is left goes with the process: nobody looks through it once more


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"understudy {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Virtual accelerators: documented host interfaces played bit for bit, kernels really executed."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command line and give its exit status; nothing gets past it as a traceback, except with --debug."""
    given = sys.argv[1:] if arguments is None else arguments
    status: int = ExitCode.OK
    lost = None
    try:
        with _collecting_rarely(), _printing_any_name():
            status = _run(given)
    except OSError as error:
        lost = error
    lost = unwritten() or lost
    if lost is None or status:  # what was wrong has been said
        return status
    if "--debug" in given:
        raise lost
    if lost.errno == errno.EPIPE:  # whoever reads has seen enough
        return ExitCode.GUEST
    report(UsageError(f"cannot write standard output: {lost.strerror}"))
    return ExitCode.USAGE


@contextmanager
def _collecting_rarely() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(RARELY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def _printing_any_name() -> Iterator[None]:
    """Names of files are bytes to Linux: on standard output they are those bytes again, and no error of Python's."""
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper) or stream.errors != "strict":
        yield
        return
    stream.reconfigure(errors="surrogateescape" if stream.encoding.lower() == "utf-8" else "backslashreplace")
    try:
        yield
    finally:
        stream.reconfigure(errors="strict")


def _run(given: list[str]) -> int:
    try:
        app(args=given, prog_name="understudy")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else ExitCode.OK if ended.code is None else ExitCode.GUEST
    except UnderstudyError as error:
        if "--debug" in given:
            raise
        report(error)
        return exit_code(error)
    except Exception as error:  # whatever is left is a bug of ours, and is reported as one
        if "--debug" in given or (isinstance(error, OSError) and error.filename is None and error.errno in LOST):
            raise
        report_bug(error, given)
        return ExitCode.BUG
    return ExitCode.OK
