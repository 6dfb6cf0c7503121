"""What the platform library and the server say to each other; ``platform.c`` holds the same numbers in C.

HOST_TO_DEVICE, PREPARE and CACHE have `size` bytes of data behind them; with value IN_FILE the latter two have one byte
behind them, and with it the descriptor of a file that holds the data and is sealed against every change. OFFER asks
whether the request `value` would be carried out for `size` bytes, before they are sent.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from understudy.attach.host_messages import HELLO

MAGIC: Final = int.from_bytes(b"UFLTCHER", "little")
VERSION: Final = 2

IN_FILE: Final = 1


class Op(IntEnum):
    """The functions of the platform library, platformGetName aside, which it answers itself; and OFFER."""

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
    """``fstatus_t`` of Fletcher's platform functions."""

    OK = 0
    ERROR = 1
    NO_PLATFORM = 2
    DEVICE_OUT_OF_MEMORY = 3
