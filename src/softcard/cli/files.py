"""The files that the command line names; errors in reading and writing them are usage errors."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

from softcard.cli.exits import UsageError
from softcard.core.display import byte_size, encodable
from softcard.core.errors import SoftcardError, WireError, close_to
from softcard.core.files import Unreadable, read_at_most

MAX_FILE_BYTES: Final = 64 << 20
"""The maximum size in bytes of files whose content is shown."""
MOST_NEAR: Final = 1000
"""The number of files in a folder among which similar names are searched."""
MAX_CODE_BYTES: Final = 1 << 30
"""The maximum size in bytes of code objects: libraries of kernels can have hundreds of MiB."""


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Convert an operating system error in the block to a `UsageError`: the file at `path` cannot be read."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}{near(path, error)}") from None
    except Unreadable as error:
        raise UsageError(f"cannot read {path}: {error.why}") from None


def near(path: Path | str, error: OSError) -> str:
    """Return an addition to the message about a file that does not exist: the similar names in its folder."""
    if error.errno != errno.ENOENT:
        return ""
    wanted = Path(path)
    try:
        with os.scandir(wanted.parent) as entries:
            names = [entry.name for entry in islice(entries, MOST_NEAR)]
    except (OSError, ValueError):
        return ""
    return close_to(wanted.name, names)


@contextmanager
def open_file(path: Path, shown: str = "") -> Iterator[BinaryIO]:
    """Open a file, or standard input for ``-``, which is not closed. `shown` is its name in errors."""
    with reading(shown or path):
        if str(path) == "-":
            if sys.stdin is None:
                raise OSError("standard input is closed")
            opened: AbstractContextManager[BinaryIO] = nullcontext(sys.stdin.buffer)
        else:
            try:
                opened = path.open("rb")
            except ValueError as error:  # a name with a null byte, which a script may hold
                raise OSError(str(error)) from None
    with opened as file:
        yield file


def read_file(path: Path, limit_bytes: int = MAX_FILE_BYTES, shown: str = "") -> bytes:
    """Read the bytes of a file, or of standard input for ``-``. `shown` is its name in errors."""
    with open_file(path, shown) as file, reading(shown or path):
        try:
            data = read_at_most(file, limit_bytes)
        except MemoryError:
            raise OSError("it does not fit into the memory that is left") from None
    if data is None:
        raise too_large(shown or path, limit_bytes)
    return data


def too_large(path: Path | str, limit_bytes: int) -> UsageError:
    """Return the error about a file that is larger than a command reads."""
    return UsageError(f"{path} is larger than {byte_size(limit_bytes)}")


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """Read the text of a file, or of standard input for ``-``."""
    data = read_file(path)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        text = f"byte {data[error.start]:#04x} at {error.start:#x}"
        raise UsageError(f"{path} has {text}, expected text in {encoding.upper()}") from None


def in_text(error: SoftcardError, path: Path, lines: Mapping[int, str]) -> SoftcardError:
    """Return an error in a text with the text's path, if it has none, and the text of its line, by number in `lines`.

    Messages then show the line even if the file cannot be read again, such as standard input.
    """
    error.path = tuple(
        replace(each, line_text=encodable(lines.get(int(each.where), "")))
        if each.kind == "line" and each.where.isdecimal()
        else each
        for each in error.path
    )
    return error if any(each.kind == "file" for each in error.path) else error.at("file", str(path))


def numbered(text: str) -> dict[int, str]:
    """Return the lines of a text by their number, for `in_text`."""
    return dict(enumerate(text.splitlines(), 1))


def is_standard_output(path: Path | None) -> bool:
    """Return True if an option names standard output: ``-``."""
    return path is not None and str(path) == "-"


def check_folder(path: Path) -> None:
    """Raise `UsageError` if --output names standard output, but a command writes several files to a folder."""
    if is_standard_output(path):
        raise UsageError("--output is -, expected a folder: the command writes several files")


def write_file(path: Path, data: bytes | str) -> None:
    """Write a file, or standard output for ``-``.

    Text is written in UTF-8, with ``?`` for characters that UTF-8 cannot encode.
    """
    made = data.encode("utf-8", "replace") if isinstance(data, str) else data
    with writing(path):
        if not is_standard_output(path):
            path.write_bytes(made)
        elif sys.stdout is None:
            raise OSError("standard output is closed")
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(made)
            sys.stdout.buffer.flush()


def print_written(path: Path, text: str) -> None:
    """Print a text about the file that was just written.

    The text goes to standard error if the file itself went to standard output.
    """
    print(text, file=sys.stderr if is_standard_output(path) else sys.stdout)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert an operating system error in the block to a `UsageError`: the file at `path` cannot be written.

    A closed pipe raises `BrokenPipeError` unchanged."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None


def parse_number(token: str, bits: int) -> int:
    """Return the number in `token`, decimal or 0x hex.

    Raise `WireError` unless it is a number of at most `bits` bits.
    """
    try:
        number = int(token, 16) if token[:2] in ("0x", "0X") else int(token, 10)
    except ValueError:
        text = f"{token!r} is not a number, expected decimal or 0x hex"
        raise WireError(text).in_operand(token) from None
    if not 0 <= number < 1 << bits:
        raise WireError(f"{token} does not fit {bits} bits").in_operand(token)
    return number
