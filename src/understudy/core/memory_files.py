"""Files without a name that live in memory (Linux): how processes share it. Seals say what nobody may do to them.

A file that can still become shorter ends every process that has it mapped and touches what is gone (SIGBUS).
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Final

from understudy.core.errors import NoHostMemory

HAS_MEMORY_FILES: Final = hasattr(os, "memfd_create")
"""Whether this system has such files."""

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
    """Descriptor of a file of `size` zeros, which keeps that size for good; `NoHostMemory` where there is none."""
    if sys.platform != "linux":
        raise NoHostMemory("this system has no memory that processes can share safely, expected Linux")
    try:
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as error:
        raise NoHostMemory(f"no memory to share can be made: {error.strerror}") from None
    try:
        os.ftruncate(descriptor, size)
        fcntl.fcntl(descriptor, _ADD, SHRINK | GROW | _SEAL)
    except (OSError, OverflowError) as error:
        os.close(descriptor)
        raise NoHostMemory(f"no {size:#x} bytes of memory to share can be made: {error}") from None
    return descriptor


def is_sealed(descriptor: int, seals: int, *, ask: bool = False) -> bool:
    """Whether a file has all these seals; with `ask` they are asked for first, where that is still possible."""
    if sys.platform != "linux":
        return False
    if ask:
        with suppress(OSError):
            fcntl.fcntl(descriptor, _ADD, seals)
    try:
        return fcntl.fcntl(descriptor, _GET) & seals == seals
    except OSError:  # no file that can be sealed
        return False
