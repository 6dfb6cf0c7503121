"""What the driver library and the server say to each other; ``refsidrv.c`` holds the same numbers and layouts in C.

A request's op has the device's family above its low 16 bits. FREE and SUBMIT are not answered. READ is answered with
`size` bytes, WRITE has them behind it. MAP is answered with the address at which the memory map has the same memory.
The reply to OPEN is a description, and behind it, where memory is shared, a byte with the files; its value, as that of
the reply to WAIT, has a bit for each shared memory that the host now reaches at the memory map's address.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

from understudy.attach.host_messages import HELLO

MAGIC: Final = int.from_bytes(b"UREFSIDR", "little")
VERSION: Final = 1
FAMILY_SHIFT: Final = 16
OP_MASK: Final = 0xFFFF
FAMILIES: Final = {1: "m", 2: "g"}
"""The driver's numbers of families."""
UNIT_KIND_SHIFT: Final = 24
UNIT_INDEX_MASK: Final = 0xFFFF

MAX_ENTRIES: Final = 8
MAX_MEMORIES: Final = 4
DESCRIPTION: Final = struct.Struct("<6IQ40s")
"""cores, harts, vlen, elen, entries of the memory map, shared memories, offset of memories in their files, ISA."""
ENTRY: Final = struct.Struct("<3Q")
"""kind, start, size; `MAX_ENTRIES` of them follow the description."""
MEMORY: Final = struct.Struct("<2Q")
"""base, size; `MAX_MEMORIES` of them follow the entries."""


class Op(IntEnum):
    """What the library asks for; a query, a header and what is plain memory it answers itself."""

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
"""WAIT for everything; 0 waits for command buffers alone."""


class Result(IntEnum):
    """``refsi_result``."""

    SUCCESS = 0
    FAILURE = 1
    INVALID_DEVICE = 2
    DEVICE_CLOSED = 3
    NOT_SUPPORTED = 4
