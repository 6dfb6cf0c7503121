"""The identity of the translator, which prevents the use of cached code that another version has written.

A digest of the *content* of all sources that determine the generated code is part of every cache key. Names,
sizes and times of files would not suffice: if times are clamped, as in builds of some distributions, a
corrected file of equal size has an equal name, size and time."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from softcard.ir import llvm

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

LAYERS: Final = ("core", "ir", "isa", "engine")
"""The packages of the translator: instruction semantics, state layouts, and everything that these import."""
SUFFIXES: Final = (".py", ".pyc")
CACHE: Final = "__pycache__"
_LOADED_NS: Final = time.time_ns()


@cache
def translator_key() -> bytes:
    """Return a digest of the translator's sources and of the host for which it compiles.

    It is computed at the first call.
    """
    return hashlib.sha256(llvm.host_key().encode() + sources_digest(_package())).digest()


def _package() -> Traversable:
    folder = Path(__file__).parents[1]
    if folder.is_dir():
        return folder
    from importlib.resources import files  # a slow import, for zips only

    return files("softcard")


def sources_digest(package: Traversable) -> bytes:
    """Return a digest of all modules in the subpackages `LAYERS` of `package`, a directory or part of a zip file.

    `LAYERS` names the subpackages that determine generated code. If there are no sources, or if they were
    changed after this module was loaded, the result is a random number, so that later processes do not use the
    code cached with it."""
    digest = hashlib.sha256()
    count = 0
    for layer in LAYERS:
        folder = package / layer
        modules = _files(str(folder), layer) if isinstance(folder, Path) else _modules(folder, layer)
        for name, data in modules:
            if data is None:
                return os.urandom(digest.digest_size)
            digest.update(f"{name} {len(data)}\n".encode())
            digest.update(data)
            count += 1
    return digest.digest() if count else os.urandom(digest.digest_size)


def _modules(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the modules in a folder and its subfolders, in order.

    A compiled module is included only if its source is missing.
    """
    if not folder.is_dir():
        return
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        path = f"{name}/{each.name}"
        if each.name.endswith(SUFFIXES):
            yield path, each.read_bytes()
        elif each.name != CACHE:
            yield from _modules(each, path)


def _files(folder: str, name: str) -> Iterator[tuple[str, bytes | None]]:
    """Yield what `_modules` yields, for a directory; None in place of a file that is younger than this module.

    This takes half the time of `pathlib`, and every process does it before its first kernel."""
    try:
        entries = sorted(os.scandir(folder), key=lambda each: each.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for each in entries:
        path = f"{name}/{each.name}"
        if each.name.endswith(SUFFIXES):
            with open(each.path, "rb", buffering=0) as file:
                is_young = os.fstat(file.fileno()).st_ctime_ns > _LOADED_NS
                yield path, None if is_young else file.read()
        elif each.name != CACHE and each.is_dir():
            yield from _files(each.path, path)
