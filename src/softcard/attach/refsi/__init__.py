"""RefSi host programs in other processes: the driver library in C, and the server that opens devices for them.

`Server` listens at a Unix socket; `build_library` compiles ``librefsidrv.so``, which has the reference driver's C
interface, so that programs built for that driver run unchanged.
"""

from softcard.attach.library import make_private
from softcard.attach.refsi.library import INCLUDE, Library, build_library, default_socket
from softcard.attach.refsi.open_device import Options
from softcard.attach.refsi.server import Server
from softcard.attach.sockets import SocketError

__all__ = [
    "INCLUDE",
    "Library",
    "Options",
    "Server",
    "SocketError",
    "build_library",
    "default_socket",
    "make_private",
]
