"""vfio-user: a device of the bench as a PCI device of a machine emulator, over a Unix socket, in pure Python.

`Server` shows any `understudy.core.pci.PciDevice` to QEMU (10.1 or later, ``-device vfio-user-pci``) or to `Client`.
"""

from understudy.attach.sockets import SocketError
from understudy.attach.vfio_user.client import Client, Memory, ServerError, Timeout
from understudy.attach.vfio_user.negotiation import Capabilities, Settings, SharedMemory
from understudy.attach.vfio_user.server import Server
from understudy.attach.vfio_user.wire import Disconnected

__all__ = [
    "Capabilities",
    "Client",
    "Disconnected",
    "Memory",
    "Server",
    "ServerError",
    "Settings",
    "SharedMemory",
    "SocketError",
    "Timeout",
]
