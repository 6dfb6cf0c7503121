"""RefSi host programs in other processes: the driver library in C, and the server that opens devices for them.

`Server` waits at a Unix socket; `build_library` compiles ``librefsidrv.so``, which has the reference driver's C
interface, so that programs made for that driver run without being changed.
"""

from understudy.attach.library import make_private
from understudy.attach.refsi.library import INCLUDE, Library, build_library, default_socket
from understudy.attach.refsi.opened import Options
from understudy.attach.refsi.server import Server
from understudy.attach.sockets import SocketError

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
