"""Translated code, kept: compiled objects by content in memory and on disk.

A file is named by a digest of everything that decides its content (guest code, translator, options, CPU, library
versions) and begins with a digest of its name and the rest, so that a damaged or renamed file is a miss and never
code. The folder belongs to the user alone, else it is as if there were none; nothing in it is needed, all of it may
be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from understudy.ir.private_folder import PrivateFolder, Stamp

_DIGEST = hashlib.sha256
_SIZE = _DIGEST().digest_size


def default_folder() -> Path | None:
    """Where objects are kept unless told otherwise: the user's cache folder. None for users without a home."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # such a value is to be ignored
        try:
            base = Path.home() / ".cache"
        except RuntimeError:
            return None
    return base / "understudy" / "code"


class ObjectCache:
    """Objects by key, in memory and, with a `folder`, on disk. Disk errors are misses, never failures."""

    def __init__(self, folder: Path | None = None, limit_bytes: int = 256 << 20) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self._memory: dict[str, bytes] = {}
        self._stamps: dict[str, Stamp] = {}
        """Of files whose content is in memory."""
        self._kept = 0
        self._unpruned = limit_bytes

    def get(self, key: str, fresh: bool = False) -> bytes | None:
        """The object, or None. With `fresh` as it is on disk now, where another process may have replaced it."""
        image = self._memory.get(key)
        if (image is None or (fresh and not self._is_same(key))) and self.folder is not None:
            image = self._read(self.folder, key)
        return image

    def put(self, key: str, image: bytes) -> None:
        """Keep an object."""
        self.put_all({key: image})

    def put_all(self, images: Mapping[str, bytes]) -> None:
        """Keep objects, in order."""
        for key, image in images.items():
            self._keep(key, image)
        if self.folder is not None:
            with contextlib.suppress(OSError):
                self._write(self.folder, images)

    def _keep(self, key: str, image: bytes, stamp: Stamp | None = None) -> None:
        """In memory, as long as there is room; `stamp` is the file's."""
        self._stamps.pop(key, None)
        if stamp is not None:
            self._stamps[key] = stamp
        if key not in self._memory:
            self._kept += len(image)
        self._memory[key] = image
        if self._kept > self.limit_bytes:
            self._memory = {key: image}
            self._kept = len(image)

    def _is_same(self, key: str) -> bool:
        """Whether the file is the one whose content is in memory."""
        if self.folder is None or key not in self._stamps:
            return False
        try:
            return PrivateFolder(self.folder).stamp(key) == self._stamps[key]
        except OSError:
            return False

    def _read(self, folder: Path, key: str) -> bytes | None:
        private = PrivateFolder(folder)
        try:
            stamp = private.stamp(key)  # before it is read: a later one would be that of what replaced it meanwhile
            data = private.read(key)
        except OSError:
            return None
        image = data[_SIZE:]
        if _seal(key, image) != data[:_SIZE]:
            return None
        self._keep(key, image, stamp)
        return image

    def _write(self, folder: Path, images: Mapping[str, bytes]) -> None:
        private = PrivateFolder(folder)
        try:
            self._stamps |= private.write({key: _seal(key, image) + image for key, image in images.items()})
        finally:  # a disk that is full is one more reason
            self._unpruned += sum(map(len, images.values()))
            if self._unpruned > self.limit_bytes // 8:
                self._unpruned = 0
                private.prune(self.limit_bytes)


def _seal(key: str, image: bytes) -> bytes:
    """What a file begins with: a file under another's name does not fit either."""
    return _DIGEST(key.encode() + image).digest()
