"""The translator's own identity: what is kept of one translator is of no use to another.

One digest of the *content* of all sources that decide what code comes out, for every cache. Names, sizes and times of
files would not do: where times are clamped, as builds of some distributions do, a fix of equal size has the same.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from understudy.ir import llvm

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

LAYERS: Final = ("core", "ir", "isa", "engine")
"""Translator, meanings, state layouts, and all that these import."""
_LOADED_NS: Final = time.time_ns()


@cache
def translator_key() -> bytes:
    """A digest of the translator's sources and of the host it compiles for. Made when it is first asked for."""
    return hashlib.sha256(llvm.host_key().encode() + sources_digest(_package())).digest()


def _package() -> Traversable:
    folder = Path(__file__).parents[1]
    if folder.is_dir():
        return folder
    from importlib.resources import files  # for zips and other loaders; takes longer to load than folders to read

    return files("understudy")


def sources_digest(package: Traversable) -> bytes:
    """Of all modules of `LAYERS` in a package, wherever its loader keeps them: in a folder or in a zip.

    Where there are none, or they changed after this module was loaded and are no longer what runs, it is a random
    number: then nothing outlives this process.
    """
    digest = hashlib.sha256()
    count = 0
    for layer in LAYERS:
        for name, module in _modules(package / layer, layer):
            if isinstance(module, Path) and module.stat().st_ctime_ns > _LOADED_NS:
                return os.urandom(digest.digest_size)
            data = module.read_bytes()
            digest.update(f"{name} {len(data)}\n".encode())
            digest.update(data)
            count += 1
    return digest.digest() if count else os.urandom(digest.digest_size)


def _modules(folder: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    """The modules below a folder, with their names, in order. Of compiled ones only those that have no source."""
    if not folder.is_dir():
        return
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        path = f"{name}/{each.name}"
        if each.name.endswith((".py", ".pyc")):
            yield path, each
        elif each.name != "__pycache__":
            yield from _modules(each, path)
