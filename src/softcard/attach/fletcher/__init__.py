"""Fletcher host programs in other processes: a platform library in C, and the server that it talks to.

`Server` offers one emulated device at a Unix socket. `build_library` compiles ``libfletcher_softcard.so``, the platform
library. The Fletcher run-time of an unmodified program loads this library, which forwards each platform call to the
server.
"""

from softcard.attach.fletcher.library import AUTODETECTED, Library, build_library, default_socket, make_private
from softcard.attach.fletcher.server import DevicePlatform, Server
from softcard.attach.sockets import SocketError

__all__ = [
    "AUTODETECTED",
    "DevicePlatform",
    "Library",
    "Server",
    "SocketError",
    "build_library",
    "default_socket",
    "make_private",
]
