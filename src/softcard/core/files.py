"""Files: arguments that are bytes or a path, files that only this user can write, and anonymous files in memory."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from os import PathLike, fspath
from typing import BinaryIO, Final

from softcard.core.display import byte_size
from softcard.core.errors import NoHostMemory, WireError

Source = bytes | bytearray | memoryview | str | PathLike[str]
"""The type of an argument with data: bytes, or the path of a file."""


class Unreadable(WireError):
    """The error for a file that cannot be read.

    `why` is the operating system's message, or states that the file is too large.
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"cannot read {path}: {why}")
        self.why = why


def bytes_of(source: Source, what: str, limit_bytes: int | None = None) -> bytes:
    """Return the bytes of `source`, or of the file that it names; error messages call it `what`.

    Raise `WireError` for another type, and `Unreadable` for a missing file or one above `limit_bytes`.
    """
    if isinstance(source, bytes):
        return source
    if isinstance(source, bytearray | memoryview):
        return bytes(source)
    if not isinstance(source, str | PathLike):
        raise WireError(f"{what} must be a path or bytes, not {_article(source)}")
    path = fspath(source)
    try:
        with open(path, "rb") as file:
            data = file.read() if limit_bytes is None else read_at_most(file, limit_bytes)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise Unreadable(path, getattr(error, "strerror", None) or str(error)) from None
    if data is None:
        raise Unreadable(path, f"the file is larger than {byte_size(limit_bytes or 0)}")
    return data


PIECE_BYTES: Final = 16 << 20
"""The number of bytes that one read of a file asks for."""


def read_at_most(file: BinaryIO, limit_bytes: int) -> bytes | None:
    """Return the rest of a file, or None if the rest has more than `limit_bytes`.

    A file whose size the system reports is not read if it is too long.
    """
    try:
        found = os.fstat(file.fileno())
    except (OSError, ValueError):  # not a file of the operating system
        found = None
    if found is not None and stat.S_ISREG(found.st_mode) and found.st_size - file.tell() > limit_bytes:
        return None
    pieces, left = [], limit_bytes + 1
    while left and (piece := file.read(min(left, PIECE_BYTES))):  # a read sets aside all the memory that it might fill
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces) if left else None


def text_of(value: str, what: str) -> str:
    """Return `value` if it is a text; raise a `WireError` that calls it `what` for another type."""
    if not isinstance(value, str):
        raise WireError(f"{what} must be text, not {_article(value)}")
    return value


def _article(value: object) -> str:
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


OPEN_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""The flags of os.open for files that only this user may write: do not follow links or block on pipes."""
OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def is_own(found: os.stat_result, rights: int = OTHERS_WRITE) -> bool:
    """Return True if a file belongs to this user, and other users have none of the permission bits `rights`."""
    return found.st_uid == os.geteuid() and not found.st_mode & rights


def own_bytes(path: str | os.PathLike[str], folder: int | None = None) -> bytes:
    """Return the contents of a file that only this user can write.

    `path` is relative to the folder whose descriptor is `folder`. Raise `OSError` if the file is missing, a link, not a
    regular file, or writable by others.
    """
    handle = os.open(path, OPEN_FLAGS, dir_fd=folder)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or not is_own(found):
            raise PermissionError(f"{path} must belong to this user, and no other user may have write permission")
        parts = [os.read(handle, found.st_size + 1)]
        while parts[-1]:
            parts.append(os.read(handle, 1 << 20))
        return b"".join(parts)
    finally:
        os.close(handle)


HAS_MEMORY_FILES: Final = hasattr(os, "memfd_create")
"""True if this system has anonymous files in memory."""

if sys.platform == "linux":
    import fcntl

    _ADD, _GET = fcntl.F_ADD_SEALS, fcntl.F_GET_SEALS
    SHRINK: Final = fcntl.F_SEAL_SHRINK
    GROW: Final = fcntl.F_SEAL_GROW
    WRITE: Final = fcntl.F_SEAL_WRITE
    _SEAL: Final = fcntl.F_SEAL_SEAL
else:
    SHRINK = GROW = WRITE = 0


def memory_file(name: str, size: int) -> int:
    """Create an anonymous file of `size` zero bytes whose size is sealed; return its descriptor.

    Raise `NoHostMemory` if that is impossible.
    """
    if sys.platform != "linux":
        raise NoHostMemory("memory shared by processes (memfd_create) requires Linux")
    try:
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as error:
        raise NoHostMemory(f"cannot create shared memory (memfd_create): {error.strerror}") from None
    try:
        os.ftruncate(descriptor, size)
        fcntl.fcntl(descriptor, _ADD, SHRINK | GROW | _SEAL)
    except (OSError, OverflowError) as error:
        os.close(descriptor)
        raise NoHostMemory(f"cannot create {size:#x} bytes of shared memory (memfd_create): {error}") from None
    return descriptor


def is_sealed(descriptor: int, seals: int, *, ask: bool = False) -> bool:
    """Return True if a file has all of the seals in the mask `seals`; with `ask`, first try to add them."""
    if sys.platform != "linux":
        return False
    if ask:
        with suppress(OSError):
            fcntl.fcntl(descriptor, _ADD, seals)
    try:
        return fcntl.fcntl(descriptor, _GET) & seals == seals
    except OSError:  # no file that can be sealed
        return False
