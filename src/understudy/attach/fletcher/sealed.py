"""Files without a name that a host program fills and seals, and hands over: data that cannot change any more.

Without the seals a host could shorten the file while the device reads it, which ends the process, or change what was
checked already.
"""

from __future__ import annotations

import mmap
import os
from typing import Any, Self

from understudy.core.errors import WireError
from understudy.core.memory_files import SHRINK, WRITE, is_sealed


class SealedFile:
    """The file of a descriptor, which it owns until it is closed. Mappings outlive it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def map(self, size: int) -> memoryview:
        """The first `size` bytes, to be read; `WireError` where the file is not sealed, or smaller."""
        if not is_sealed(self._descriptor, SHRINK | WRITE):
            raise WireError(
                "the host's file may still change, expected one that is sealed against writes and shrinking"
            )
        length = os.fstat(self._descriptor).st_size
        if size > length:
            raise WireError(f"the host's file has {length} bytes, expected {size}")
        if not size:
            return memoryview(b"")
        options: dict[str, Any] = {"flags": mmap.MAP_PRIVATE | getattr(mmap, "MAP_POPULATE", 0), "prot": mmap.PROT_READ}
        try:
            return memoryview(mmap.mmap(self._descriptor, size, **options))
        except (OSError, OverflowError, ValueError) as error:
            raise WireError(f"the host's file cannot be mapped: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
