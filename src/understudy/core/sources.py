"""What users give as "these bytes, or the file of this path", and as text: one way to take it, one way to refuse it."""

from __future__ import annotations

import os
import stat
from os import PathLike, fspath
from typing import BinaryIO

from understudy.core.errors import WireError

Source = bytes | bytearray | memoryview | str | PathLike[str]
"""Bytes, or the path of a file."""


class Unreadable(WireError):
    """A file that cannot be read; `why` is the operating system's word, or that it is too large."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"cannot read {path}: {why}")
        self.why = why


def bytes_of(source: Source, what: str, limit_bytes: int | None = None) -> bytes:
    """The bytes of `what`; `WireError` for another type, `Unreadable` for no file or a larger one."""
    if isinstance(source, bytes):
        return source
    if isinstance(source, bytearray | memoryview):
        return bytes(source)
    if not isinstance(source, str | PathLike):
        raise WireError(f"{what} is a path or its bytes, not {_article(source)}")
    path = fspath(source)
    try:
        with open(path, "rb") as file:
            data = file.read() if limit_bytes is None else read_at_most(file, limit_bytes)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise Unreadable(path, getattr(error, "strerror", None) or str(error)) from None
    if data is None:
        raise Unreadable(path, f"it is larger than {limit_bytes} bytes")
    return data


def read_at_most(file: BinaryIO, limit_bytes: int) -> bytes | None:
    """All that is left of a file; None where that is more, without reading it where the system knows the size."""
    try:
        found = os.fstat(file.fileno())
    except (OSError, ValueError):  # no file of the system's
        found = None
    if found is not None and stat.S_ISREG(found.st_mode) and found.st_size - file.tell() > limit_bytes:
        return None
    data = file.read(limit_bytes + 1)
    return None if len(data) > limit_bytes else data


def text_of(value: str, what: str) -> str:
    """The same, where it is text; `WireError` for another type."""
    if not isinstance(value, str):
        raise WireError(f"{what} is text, not {_article(value)}")
    return value


def _article(value: object) -> str:
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
