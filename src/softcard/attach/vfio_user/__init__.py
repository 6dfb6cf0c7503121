"""vfio-user: a simulated device as a PCI device of a machine emulator, over a Unix socket, in pure Python.

`Server` connects any `softcard.core.pci.PciDevice` to QEMU (10.1 or later, ``-device vfio-user-pci``) or to `Client`.
"""

from softcard.attach.sockets import SocketError
from softcard.attach.vfio_user.client import Client, Memory, ServerError, Timeout
from softcard.attach.vfio_user.negotiation import Capabilities, Settings, SharedMemory
from softcard.attach.vfio_user.server import Server
from softcard.attach.vfio_user.wire import Disconnected

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
