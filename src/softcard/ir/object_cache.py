"""The cache of compiled objects: translated code by content, in memory and in a directory on disk.

Only this user can write to the directory; if others could, the directory is ignored. Its content may be deleted at any
time. A file is named by a digest of everything that determines its content (guest code, translator, options, CPU,
library versions). It begins with a digest of its name and the rest of its content, so that a damaged or renamed file is
not found and is never executed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from softcard.core.files import OPEN_FLAGS, is_own, own_bytes

# ---- folder of one user ----------------------------------------------------------------------------------------------
# A folder that only this user can write to, so that its content can be trusted.
#
# A user who can write to a parent folder may replace this folder by a link or another folder at any moment. So
# everything goes through handles: the folder that was checked is the one that is used. No link is followed, neither to
# the folder nor to a file.


_OURS: Final = re.compile(r"[0-9a-f]{64}|\.new-[0-9a-f]{16}")
"""The pattern of names of the cache's files, including temporary names of unfinished files.

Files with other names are never deleted.
"""
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_HAS_HANDLES: Final = {os.open, os.stat, os.unlink, os.mkdir} <= os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")


Stamp = tuple[int, int, int]
"""A file's inode, size and time, which together change each time the file is written."""


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_ino, found.st_size, found.st_mtime_ns


class PrivateFolder:
    """A directory of files named by hex digests, for this user alone.

    Each method raises `OSError` if another user could write to it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, name: str) -> bytes:
        """Return a file's content."""
        with self._opened() as folder:
            return own_bytes(name, folder)

    def stamp(self, name: str) -> Stamp:
        """Return a file's stamp (inode, size, time), which changes when the file is written."""
        with self._opened() as folder:
            return _stamp(os.stat(name, dir_fd=folder, follow_symlinks=False))

    def write(self, files: Mapping[str, bytes]) -> dict[str, Stamp]:
        """Create or replace files, each atomically; return their stamps (inode, size, time)."""
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
        """Return the size in bytes of each file."""
        with self._opened() as folder:
            return [size for _, size, _ in self._files(folder)]

    def prune(self, limit_bytes: int) -> None:
        """Delete the oldest files until the total size is at most `limit_bytes`."""
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
        """Return the modification time, the size and the name of each file."""
        files = []
        for name in filter(_OURS.fullmatch, os.listdir(folder)):
            with contextlib.suppress(FileNotFoundError):  # another process deletes old files at the same time
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode):
                    files.append((found.st_mtime, found.st_size, name))
        return files

    @contextlib.contextmanager
    def _opened(self, is_written: bool = False) -> Iterator[int]:
        """Yield a file descriptor of the directory, after a check of its access rights.

        With `is_written`, create the directory first and remove the access rights of other users.
        """
        if not _HAS_HANDLES:  # as on Windows
            raise PermissionError("this operating system cannot open folders, which a private folder requires")
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
                raise PermissionError(f"{self.path} must belong to this user, and no other user may have access")
            yield handle
        finally:
            os.close(handle)


# ---- cache -----------------------------------------------------------------------------------------------------------


_DIGEST = hashlib.sha256
_SIZE = _DIGEST().digest_size


def default_folder() -> Path | None:
    """Return the default directory of the cache, in the user's cache directory; None for users without a home."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # the XDG specification says to ignore relative paths
        try:
            base = Path.home() / ".cache"
        except RuntimeError:
            return None
    return base / "softcard" / "code"


class ObjectCache:
    """A cache of compiled objects by key, in memory and, with a `folder`, on disk.

    The files take at most about `limit_bytes`, and the objects in memory `memory_bytes`, by default as many. If a
    file cannot be read or written, the object counts as not cached.
    """

    def __init__(
        self, folder: Path | None = None, limit_bytes: int = 256 << 20, memory_bytes: int | None = None
    ) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self.memory_limit = limit_bytes if memory_bytes is None else memory_bytes
        self._memory: dict[str, bytes] = {}
        self._stamps: dict[str, Stamp] = {}
        """The stamps (inode, size, time) of the files whose content is in memory."""
        self._memory_bytes = 0
        self._unpruned = limit_bytes

    def get(self, key: str, fresh: bool = False) -> bytes | None:
        """Return the cached object, or None.

        With `fresh`, read it again if its file on disk has changed, since another process may have replaced the
        file."""
        image = self._memory.get(key)
        if (image is None or (fresh and not self._is_same(key))) and self.folder is not None:
            image = self._read(self.folder, key)
        return image

    def put(self, key: str, image: bytes) -> None:
        """Cache the compiled object `image` under the key `key`."""
        self.put_all({key: image})

    def put_all(self, images: Mapping[str, bytes]) -> None:
        """Cache several objects in the given order."""
        for key, image in images.items():
            self._remember(key, image)
        if self.folder is not None:
            with contextlib.suppress(OSError):
                self._write(self.folder, images)

    def _remember(self, key: str, image: bytes, stamp: Stamp | None = None) -> None:
        """Keep an object in memory; if the objects exceed the limit, drop all others.

        `stamp` is the stamp of the object's file, or None."""
        self._stamps.pop(key, None)
        if stamp is not None:
            self._stamps[key] = stamp
        if key not in self._memory:
            self._memory_bytes += len(image)
        self._memory[key] = image
        if self._memory_bytes > self.memory_limit:
            self._memory = {key: image}
            self._memory_bytes = len(image)

    def _is_same(self, key: str) -> bool:
        """Return True if the file on disk is unchanged since its content was read into memory."""
        if self.folder is None or key not in self._stamps:
            return False
        try:
            return PrivateFolder(self.folder).stamp(key) == self._stamps[key]
        except OSError:
            return False

    def _read(self, folder: Path, key: str) -> bytes | None:
        private = PrivateFolder(folder)
        try:
            stamp = private.stamp(key)  # before reading: a later stamp could be that of a file that replaced this one
            data = private.read(key)
        except OSError:
            return None
        image = data[_SIZE:]
        if _seal(key, image) != data[:_SIZE]:
            return None
        self._remember(key, image, stamp)
        return image

    def _write(self, folder: Path, images: Mapping[str, bytes]) -> None:
        private = PrivateFolder(folder)
        try:
            self._stamps |= private.write({key: _seal(key, image) + image for key, image in images.items()})
        finally:  # also after an error: a full disk needs pruning most
            self._unpruned += sum(map(len, images.values()))
            if self._unpruned > self.limit_bytes // 8:
                self._unpruned = 0
                private.prune(self.limit_bytes)


def _seal(key: str, image: bytes) -> bytes:
    """Return the digest that precedes `image` in its cache file.

    It is computed from `key` and `image`, so a renamed or damaged file does not match."""
    return _DIGEST(key.encode() + image).digest()
