"""What shim and server say to each other, beside `attach.host_messages`; ``shim.c`` holds the same numbers.

The first connection of a program opens the driver: the reply to OPEN brings the program's key and, behind it, the
memory that both share. From then on the server asks there, and the program answers: SHARE. Every thread of the program
has a connection of its own, which JOINs with that key and carries IOCTLs, since some of them wait.
"""

from __future__ import annotations

import struct
from typing import Final

MAGIC: Final = 0x6D636F72_79647475
VERSION: Final = 1
OPEN: Final = 2
JOIN: Final = 3
IOCTL: Final = 4
SHARE: Final = 5
OTHER_VERSION: Final = 0x10000
"""Status for a shim of another version; others are numbers of errors of the system, 0 for none."""
SHARED: Final = struct.Struct("<Q")
"""Behind a SHARE request: the offset in the shared memory. Its value is the protection, and QUIET."""
QUIET: Final = 0x100
