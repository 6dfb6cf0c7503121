"""What users give as "these bytes, or the file of this path", and as text: one way to take it, one way to refuse it."""

from __future__ import annotations

from os import PathLike, fspath

from understudy.core.errors import WireError

Source = bytes | bytearray | memoryview | str | PathLike[str]
"""Bytes, or the path of a file."""


class Unreadable(WireError):
    """A file that cannot be read; `why` is the operating system's word."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"cannot read {path}: {why}")
        self.why = why


def bytes_of(source: Source, what: str, limit_bytes: int | None = None) -> bytes:
    """The bytes of `what`; `WireError` for another type or a larger file, `Unreadable` for no file."""
    if isinstance(source, bytes):
        return source
    if isinstance(source, bytearray | memoryview):
        return bytes(source)
    if not isinstance(source, str | PathLike):
        raise WireError(f"{what} is a path or its bytes, not {_article(source)}")
    path = fspath(source)
    try:
        with open(path, "rb") as file:
            data = file.read(-1 if limit_bytes is None else limit_bytes + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise Unreadable(path, getattr(error, "strerror", None) or str(error)) from None
    if limit_bytes is not None and len(data) > limit_bytes:
        raise WireError(f"{path} is larger than {limit_bytes} bytes")
    return data


def text_of(value: str, what: str) -> str:
    """The same, where it is text; `WireError` for another type."""
    if not isinstance(value, str):
        raise WireError(f"{what} is text, not {_article(value)}")
    return value


def _article(value: object) -> str:
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
