"""Exit codes of the command line, and how errors end up as one."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Final

from understudy import __version__
from understudy.core.errors import BeyondModel, ModelBug, NotInstalled, UnderstudyError

LONGEST_LINE: Final = 2000
FIRST: Final = 1000
LAST: Final = 500
"""Letters of an error's line that are shown, and those that are left of a longer one."""


class ExitCode(IntEnum):
    """What the exit status of `understudy` says."""

    OK = 0
    """As expected."""
    GUEST = 1
    """The guest, or what stood in its file, broke a rule."""
    USAGE = 2
    """The command line, or a script, cannot be understood, or what it asks for is not installed."""
    BEYOND = 3
    """The real thing may do this; Understudy does not model it."""
    BUG = 4
    """Our own mistake."""


class UsageError(UnderstudyError):
    """The command line, or a script given to it, cannot be understood."""


def exit_code(error: UnderstudyError) -> ExitCode:
    """The exit status for an error that ends a command."""
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
def of_options() -> Iterator[None]:
    """What is done inside looks only at what the command line says: what is wrong there is a `UsageError`."""
    try:
        yield
    except (BeyondModel, ModelBug):
        raise
    except UnderstudyError as error:
        raise UsageError(error.message, rule=error.rule, path=error.path) from None


def report(error: UnderstudyError) -> None:
    """Say on stderr what an error is about."""
    kind = {ExitCode.BEYOND: "not modelled", ExitCode.BUG: "bug in understudy"}.get(exit_code(error), "error")
    print("\n".join(map(_readable, f"{kind}: {error.in_full()}".split("\n"))), file=sys.stderr)


def _readable(line: str) -> str:
    """A line that quotes too much of a file or argument, without its middle: places and rule stand at the end."""
    return line if len(line) <= LONGEST_LINE else f"{line[:FIRST]} ... {line[-LAST:]}"


def report_bug(error: BaseException, arguments: list[str]) -> None:
    """Say on stderr what to send us about an exception that should not have come out; no traceback."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{frame.name} (line {frame.lineno})"
    print(
        f"bug in understudy: {type(error).__name__}: {error}\n"
        f"  in {place}, version {__version__}, arguments: {' '.join(arguments)}\n"
        "  This is our mistake, please report it. Run again with --debug to see the whole traceback.",
        file=sys.stderr,
    )
