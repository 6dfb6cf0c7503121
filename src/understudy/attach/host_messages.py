"""How the libraries in C that host programs load talk to their servers; ``host.h`` holds the same layouts.

A request is one call of the library. A reply has a message of `text_size` bytes for the host's standard error, then
`data_size` bytes; notes may come before it, with `text_size` bytes for the host's own output. Numbers are
little-endian. Both sides are on one machine and come from one installation, so that versions are compared and nothing
is negotiated.
"""

from __future__ import annotations

import struct
from typing import Final

REQUEST: Final = struct.Struct("<IIQQ")
"""op, value, address (or what else the op takes), size in bytes."""
REPLY: Final = struct.Struct("<IIQQ")
"""status, text_size, value, data_size."""
HELLO: Final = 1
"""The first request of each connection: its value is the version, its address the library's magic number."""
MAX_TEXT: Final = 4095
NOTE_OUT: Final = 0x100
NOTE_ERR: Final = 0x101
"""Statuses of what is no reply but text for the host's standard output, or standard error."""
