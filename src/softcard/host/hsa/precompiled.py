"""Precompiled headers of OpenCL C: the built-in functions, read once per compiler, standard and options.

Clang reads the headers in 0.45 seconds, and their precompiled form in 0.02 seconds. A precompiled header depends on the
compiler, the headers and all options that may change how the headers are read. It is cached like compiled objects, in
a folder of its own. Without it, a source is compiled with the headers themselves, to the same object.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from softcard.host.compiling import CompileError, run
from softcard.ir.object_cache import ObjectCache, default_folder

CACHED_BYTES: Final = 256 << 20
"""The maximum size of the cache on disk. One header takes 7 MB."""
REMEMBERED_BYTES: Final = 32 << 20
"""The maximum size of the cache in memory."""
_INDEPENDENT: Final = re.compile(r"-g[\w=-]*|-w|-W(?!p,)[\w=+-]*|-fdebug-[\w=./+-]*")
"""Options that do not change how headers are read: debug information and warnings."""


@cache
def _cache() -> ObjectCache:
    folder = default_folder()
    place = None if folder is None else folder.with_name("headers")
    return ObjectCache(place, CACHED_BYTES, REMEMBERED_BYTES)


def precompiled_header(
    clang: Sequence[str], name: str, identity: Sequence[str], words: Sequence[str], header: Path
) -> bytes | None:
    """Return the precompiled form of a header for the options `words`; None if clang cannot make one.

    `clang` is the compiler's command and `name` its name in messages. `identity` are texts that change when the
    compiler or the header does. Raise `CompileTimeLimit` if clang takes too long."""
    kept = [word for word in words if not _INDEPENDENT.fullmatch(word)]
    text = "\0".join(["header", *identity, *clang, str(header), *kept])
    key = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
    found = _cache().get(key)
    if found is None:
        emit = ["-Xclang", "-emit-pch", "-Xclang", "-fno-pch-timestamp", "-c", str(header), "-o", "header.pch"]
        with tempfile.TemporaryDirectory(prefix="softcard-") as folder:
            try:
                run([*clang, *kept, *emit], folder, name)
                found = Path(folder, "header.pch").read_bytes()
            except (CompileError, OSError):
                return None
        _cache().put(key, found)
    return found
