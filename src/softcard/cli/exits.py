"""Exit codes of the command line, and error messages."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import IntEnum
from typing import Any, Final

from softcard import __version__
from softcard.core.display import printable
from softcard.core.errors import BeyondModel, ModelBug, NotInstalled, SoftcardError, did_you_mean

LONGEST_LINE: Final = 2000
FIRST: Final = 1000
LAST: Final = 500
"""The number of characters at the end of a very long error line that are still shown."""


_POSITION: Final = re.compile(r"[^\s:]+:\d+:\d+: (fatal )?error: ")
_COUNT: Final = re.compile(r"(\d+ (error|warning)s?( and )?)+ generated\.")


class ExitCode(IntEnum):
    """The exit statuses of `softcard`."""

    OK = 0
    """The status of success."""
    GUEST = 1
    """The status of a guest program or file that violated a rule."""
    USAGE = 2
    """The status of an invalid command line or script, or of one that needs something that is not installed."""
    BEYOND = 3
    """The status of something that the real device may support, but that Softcard does not model."""
    BUG = 4
    """The status of a bug in Softcard."""


class UsageError(SoftcardError):
    """The error for an invalid command line or script."""


def exit_code(error: SoftcardError) -> ExitCode:
    """Return the exit status for an error that ends a command."""
    match error:
        case UsageError() | NotInstalled():
            return ExitCode.USAGE
        case BeyondModel():
            return ExitCode.BEYOND
        case ModelBug():
            return ExitCode.BUG
        case _:
            return ExitCode.GUEST


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn errors of the block into a `UsageError`, since the block only reads command-line options."""
    try:
        yield
    except (BeyondModel, ModelBug):
        raise
    except SoftcardError as error:
        raise as_usage(error) from None


def as_usage(error: SoftcardError) -> UsageError:
    """Return an error as one about the command line or a file that it names."""
    usage = UsageError(error.message, rule=error.rule, path=error.path)
    usage.operands = error.operands
    return usage


def report(error: SoftcardError) -> None:
    """Print an error on standard error."""
    from softcard.cli.tables import show_diagnostics
    from softcard.core.diagnostics import Location, of_error

    found = of_error(error)
    head, *more = map(_readable, found.message.split("\n"))
    if any(map(_POSITION.match, more)):  # a compiler's messages, which begin with positions themselves
        print(printable("\n".join(each for each in more if not _COUNT.fullmatch(each))), file=sys.stderr)
        found, more = replace(found, location=Location(), notes=()), []
    show_diagnostics([replace(found, message="\n".join([head, *more]))], sys.stderr)


def _readable(line: str) -> str:
    """Return `line` without its middle part if it is too long; the end, which has location and rule, is kept."""
    return line if len(line) <= LONGEST_LINE else f"{line[:FIRST]} ... {line[-LAST:]}"


INTERRUPTED: Final = 130
"""The exit status after Ctrl-C, as in shells."""
_NEAR: Final = re.compile(r"\. Did you mean (?P<near>.*)\?$| \(Possible options: (?P<options>.*)\)$")
"""The suggestions at the end of typer's messages."""

_UNREADABLE: Final = re.compile(r": [^:]*'(.*)' is not readable$")


def is_of_arguments(error: Exception) -> bool:
    """Return True if an exception is typer's error about the arguments of the command line."""
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def report_arguments(error: Any) -> None:
    """Print typer's error about the arguments of the command line, in the form of Softcard's own errors."""
    from softcard.cli.tables import show_diagnostics
    from softcard.core.diagnostics import Diagnostic, Note
    from softcard.core.findings import Level

    if type(error).__name__ == "NoArgsIsHelpError":
        return  # typer has printed the help
    text = error.format_message().removesuffix(".").replace("Value error, ", "")
    if found := _NEAR.search(text):
        near = (found["near"] or found["options"]).replace("'", "")
        text = f"{text[: found.start()]}{did_you_mean(re.split(', | or ', near))}"
    context = getattr(error, "ctx", None)
    notes = []
    if found := _UNREADABLE.search(text):
        text = f"cannot read {found[1]}: Permission denied"
    elif context is not None:
        usage = " ".join(context.get_usage().removeprefix("Usage: ").split())
        notes = [Note(f"usage: {usage}"), Note(f"{context.command_path} --help shows all options", kind="help")]
    message = _readable(f"{text[:1].lower()}{text[1:]}")
    show_diagnostics([Diagnostic(Level.ERROR, "", message, notes=tuple(notes))], sys.stderr)


def report_bug(error: BaseException, arguments: list[str]) -> None:
    """Print the data that a bug report should contain about an unexpected exception, without the traceback."""
    from softcard.cli.tables import show_diagnostics
    from softcard.core.diagnostics import Diagnostic, Note
    from softcard.core.findings import Level

    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{frame.name} (line {frame.lineno})"
    notes = (
        Note(f"in {place}, version {__version__}, arguments: {' '.join(arguments)}"),
        Note("please report it; --debug shows the traceback", kind="help"),
    )
    text = f"{type(error).__name__}: {error}"
    show_diagnostics([Diagnostic(Level.ERROR, "bug in softcard", text, notes=notes)], sys.stderr)
