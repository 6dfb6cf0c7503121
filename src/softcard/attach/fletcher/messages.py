"""The messages between the platform library and the server, and the sealed files that carry data.

``platform.c`` defines the same request numbers in C. The requests HOST_TO_DEVICE, PREPARE and CACHE are
followed by `size` bytes of data. If the value of a PREPARE or CACHE request is IN_FILE, the request is
instead followed by one byte, which carries the descriptor of a file that holds the data. The file is sealed
against every change. With OFFER, the library asks whether the server would accept a later request: its number
is `value`, and it would have `size` bytes of data."""

from __future__ import annotations

import mmap
import os
from enum import IntEnum
from typing import Any, Final, Self

from softcard.attach.host_session import HELLO
from softcard.core.errors import WireError
from softcard.core.files import SHRINK, WRITE, is_sealed

MAGIC: Final = int.from_bytes(b"UFLTCHER", "little")
VERSION: Final = 2

IN_FILE: Final = 1


class Op(IntEnum):
    """The request numbers: HELLO, OFFER, and one for each Fletcher platform function except platformGetName.

    The library implements platformGetName without the server."""

    HELLO = HELLO
    WRITE_MMIO = 2
    READ_MMIO = 3
    MALLOC = 4
    FREE = 5
    HOST_TO_DEVICE = 6
    DEVICE_TO_HOST = 7
    PREPARE = 8
    CACHE = 9
    TERMINATE = 10
    OFFER = 11


class Status(IntEnum):
    """The values of ``fstatus_t``, which Fletcher's platform functions return."""

    OK = 0
    ERROR = 1
    NO_PLATFORM = 2
    DEVICE_OUT_OF_MEMORY = 3


# ---- sealed files ----------------------------------------------------------------------------------------------------
# Anonymous files that a host program fills, seals and sends: data that cannot change any more.
#
# Without the seals a host could shorten the file while the device reads it, which would kill the process, or change
# data after they were checked.


class SealedFile:
    """An owned file descriptor of a file that is sealed against changes.

    Mappings of the file remain valid after the descriptor is closed.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def map(self, size: int) -> memoryview:
        """Map the first `size` bytes read-only and return them.

        Raise `WireError` if the file is not sealed or has fewer bytes."""
        if not is_sealed(self._descriptor, SHRINK | WRITE):
            raise WireError("the host's file lacks seals, expected F_SEAL_WRITE and F_SEAL_SHRINK")
        length = os.fstat(self._descriptor).st_size
        if size > length:
            raise WireError(f"the host's file has {length} bytes, expected {size} or more")
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
