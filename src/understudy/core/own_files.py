"""Files of this user alone: what is read from one, nobody else can have written."""

from __future__ import annotations

import os
import stat
from typing import Final

OPEN_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""How such a file or folder is opened: no link is followed, and a pipe is not waited for."""
OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def is_own(found: os.stat_result, rights: int = OTHERS_WRITE) -> bool:
    """Whether something belongs to this user, and gives others none of `rights`."""
    return found.st_uid == os.geteuid() and not found.st_mode & rights


def own_bytes(path: str | os.PathLike[str], folder: int | None = None) -> bytes:
    """What is in a file; `folder` is a handle that `path` counts from.

    `OSError` where the file is missing, a link, no plain file, or not this user's alone to write.
    """
    handle = os.open(path, OPEN_FLAGS, dir_fd=folder)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or not is_own(found):
            raise PermissionError(f"{path} is not this user's alone")
        parts = [os.read(handle, found.st_size + 1)]
        while parts[-1]:
            parts.append(os.read(handle, 1 << 20))
        return b"".join(parts)
    finally:
        os.close(handle)
