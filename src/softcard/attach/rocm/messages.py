"""The messages between shim and server, in addition to those of `attach.host_session`.

``shim.c`` defines the same numbers. A program's first connection opens the driver with OPEN. The reply has a
key for the program, followed by the descriptor of the memory that program and server share. After that, the
roles on this connection are exchanged: the server sends SHARE requests, and the program replies. In addition,
every thread of the program has one connection. The thread first sends JOIN with the program's key, and then
sends IOCTL requests, some of which block."""

from __future__ import annotations

import struct
from typing import Final

MAGIC: Final = 0x6D636F72_79647475
VERSION: Final = 1
OPEN: Final = 2
JOIN: Final = 3
IOCTL: Final = 4
SHARE: Final = 5
REFUSED: Final = 6
"""The request that reports a kernel launch rejected by HIP's library, so that no packet follows for it.

Its value is the hipError_t.
"""
PINNED: Final = 7
"""The request that reports host memory that agents may access from then on: its address and its size."""
UNPINNED: Final = 8
"""The request that reports that pinned host memory is about to be freed; its address is that of the memory."""
SUBMITTED: Final = 9
"""The request that reports work submitted to a stream; later host stores do not happen before that work.

The answer is 1 if there is unfinished work.
"""
HOST_FUNCTION: Final = 10
"""The request that reports the return of a host function for which a stream has waited."""
TOUCHED: Final = 11
"""The request that reports the program's first access since SUBMITTED to a page that agents access.

Its address is that of the page; its value is 1 for a store and 0 for a load.
"""
UNWATCHED: Final = 12
"""The request that reports that the shim cannot observe the host's memory accesses; its value is the errno."""
OTHER_VERSION: Final = 0x10000
"""The reply status for a shim of another version; other statuses are errno values, with 0 for success."""
SHARED: Final = struct.Struct("<Q")
"""The data of a SHARE request: the offset in the shared memory.

The request's value is the mmap protection, with the bit QUIET added.
"""
QUIET: Final = 0x100
