"""A folder of this user alone: what is read from it, nobody else can have written.

Who can write to a folder above may put a link or a folder of his own in its place, at any moment. So everything goes
through handles: what was looked at is what is used. No link is followed, neither to the folder nor to a file.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from understudy.core.own_files import OPEN_FLAGS, is_own, own_bytes

_OURS: Final = re.compile(r"[0-9a-f]{64}|\.new-[0-9a-f]{16}")
"""Names that files of such a folder have, with those that are being written: no other file is ever deleted."""
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_HAS_HANDLES: Final = {os.open, os.stat, os.unlink, os.mkdir} <= os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")


Stamp = tuple[int, int, int]
"""A file's number, size and time: another one after each time that it was written."""


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_ino, found.st_size, found.st_mtime_ns


class PrivateFolder:
    """Files by name, a digest in hex, below `path`. Each method raises `OSError` where that is not private."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, name: str) -> bytes:
        """A file's content."""
        with self._opened() as folder:
            return own_bytes(name, folder)

    def stamp(self, name: str) -> Stamp:
        """What a file has until it is written anew."""
        with self._opened() as folder:
            return _stamp(os.stat(name, dir_fd=folder, follow_symlinks=False))

    def write(self, files: Mapping[str, bytes]) -> dict[str, Stamp]:
        """Make or replace files, each whole: who reads meanwhile sees the old one or the new one. Their stamps."""
        with self._opened(is_written=True) as folder:
            return {name: self._written(folder, name, data) for name, data in files.items()}

    def _written(self, folder: int, name: str, data: bytes) -> Stamp:
        new = f".new-{os.urandom(8).hex()}"
        handle = os.open(new, _NEW, 0o600, dir_fd=folder)
        try:
            try:
                left = memoryview(data)
                while left:
                    left = left[os.write(handle, left) :]
                stamp = _stamp(os.fstat(handle))
            finally:
                os.close(handle)
            os.replace(new, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            os.unlink(new, dir_fd=folder)
            raise
        return stamp

    def sizes(self) -> list[int]:
        """Bytes of each file."""
        with self._opened() as folder:
            return [size for _, size, _ in self._files(folder)]

    def prune(self, limit_bytes: int) -> None:
        """Delete the oldest files where all of them together are larger."""
        with self._opened() as folder:
            files = self._files(folder)
            total = sum(size for _, size, _ in files)
            for _, size, name in sorted(files):
                if total <= limit_bytes:
                    break
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
                total -= size

    def _files(self, folder: int) -> list[tuple[float, int, str]]:
        """Time, size and name of each."""
        files = []
        for name in filter(_OURS.fullmatch, os.listdir(folder)):
            with contextlib.suppress(FileNotFoundError):  # another process prunes
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode):
                    files.append((found.st_mtime, found.st_size, name))
        return files

    @contextlib.contextmanager
    def _opened(self, is_written: bool = False) -> Iterator[int]:
        """A handle of the folder, looked at; one that `is_written` to is made, and others' rights to it taken away."""
        if not _HAS_HANDLES:  # as on Windows
            raise PermissionError("this system has no handles of folders")
        try:
            handle = os.open(self.path, OPEN_FLAGS | os.O_DIRECTORY)
        except FileNotFoundError:
            if not is_written:
                raise
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self.path, OPEN_FLAGS | os.O_DIRECTORY)
        try:
            found = os.fstat(handle)
            if is_written and is_own(found, 0) and found.st_mode & 0o077:
                os.fchmod(handle, 0o700)
                found = os.fstat(handle)
            if not is_own(found, 0o077):
                raise PermissionError(f"{self.path} is not this user's alone")
            yield handle
        finally:
            os.close(handle)
