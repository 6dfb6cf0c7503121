"""Files that the command line names: what cannot be read or written is a mistake of its user, said in one way."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, Final

from understudy.cli.exits import UsageError
from understudy.core.sources import Unreadable, read_at_most

MAX_FILE_BYTES: Final = 64 << 20
"""Larger files are refused where somebody reads what is shown of them."""
MAX_CODE_BYTES: Final = 1 << 30
"""Larger code objects are refused: libraries of kernels have hundreds of MiB."""


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """`UsageError` where what is done inside cannot read the file."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    except Unreadable as error:
        raise UsageError(f"cannot read {path}: {error.why}") from None


@contextmanager
def open_file(path: Path, shown: str = "") -> Iterator[BinaryIO]:
    """A file to read, or standard input for ``-``, which is not ours to close. `shown`: its name in errors."""
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
    """The bytes of a file, or of standard input for ``-``. `shown`: its name in errors."""
    with open_file(path, shown) as file, reading(shown or path):
        data = read_at_most(file, limit_bytes)
    if data is None:
        raise UsageError(f"{shown or path} is larger than {limit_bytes} bytes")
    return data


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """The text of a file, or of standard input for ``-``."""
    data = read_file(path)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text: byte {data[error.start]:#04x} at {error.start:#x}") from None


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """`UsageError` where what is done inside cannot write the file."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
