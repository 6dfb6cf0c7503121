"""Fletcher host programs in other processes: a platform library in C, and the server that it talks to.

`Server` shows one virtual device at a Unix socket; `build_library` compiles ``libfletcher_understudy.so``, which an
unmodified program of the Fletcher run-time loads and which passes its calls on.
"""

from understudy.attach.fletcher.library import AUTODETECTED, Library, build_library, default_socket, make_private
from understudy.attach.fletcher.platform import DevicePlatform
from understudy.attach.fletcher.server import Server
from understudy.attach.sockets import SocketError

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
