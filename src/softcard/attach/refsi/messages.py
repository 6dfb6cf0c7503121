"""The messages between driver library and server; ``refsidrv.c`` has the same numbers and layouts in C.

In a request, the low 16 bits of the field `op` are an `Op`, and the bits above are the number of the device's
family. FREE and SUBMIT have no reply. The request WRITE and the reply to READ are followed by `size` bytes of
data. The reply to MAP has the address of the requested memory in the device's memory map.

The reply to OPEN is followed by a description of the device. If the device's memory is shared with the host,
one byte with the file descriptors follows. In the replies to OPEN and WAIT, the value has one bit for each
shared memory. The bit is set if the host can currently access that memory at its address in the memory map."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

from softcard.attach.host_session import HELLO

MAGIC: Final = int.from_bytes(b"UREFSIDR", "little")
VERSION: Final = 1
FAMILY_SHIFT: Final = 16
OP_MASK: Final = 0xFFFF
FAMILIES: Final = {1: "m", 2: "g"}
"""The device family for each family number of the RefSi driver's interface."""
UNIT_KIND_SHIFT: Final = 24
UNIT_INDEX_MASK: Final = 0xFFFF

MAX_ENTRIES: Final = 8
MAX_MEMORIES: Final = 4
DESCRIPTION: Final = struct.Struct("<6IQ40s")
"""The description of a device.

Its fields are the numbers of cores and harts, vlen, elen, the numbers of memory map entries and shared memories, the
offset of the memories in their files, and the ISA.
"""
ENTRY: Final = struct.Struct("<3Q")
"""A memory map entry: kind, start, size. `MAX_ENTRIES` entries follow the description."""
MEMORY: Final = struct.Struct("<2Q")
"""A shared memory: base, size. `MAX_MEMORIES` of these follow the memory map entries."""


class Op(IntEnum):
    """The numbers of the library's requests to the server.

    The library answers queries, and accesses headers and plain memory, without the server.
    """

    HELLO = HELLO
    OPEN = 2
    SHUTDOWN = 3
    ALLOCATE = 4
    FREE = 5
    MAP = 6
    READ = 7
    WRITE = 8
    SUBMIT = 9
    WAIT = 10
    EXECUTE = 11


UNTIL_IDLE: Final = 1
"""The value of a WAIT request that waits until the device is idle; value 0 waits for command buffers only."""


class Result(IntEnum):
    """The values of ``refsi_result``, the status that functions of the RefSi driver return."""

    SUCCESS = 0
    FAILURE = 1
    INVALID_DEVICE = 2
    DEVICE_CLOSED = 3
    NOT_SUPPORTED = 4
