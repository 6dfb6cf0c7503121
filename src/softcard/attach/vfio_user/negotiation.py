"""The negotiation by VFIO_USER_VERSION: a session uses the capabilities that client and server both have."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from softcard.attach.vfio_user import rules
from softcard.attach.vfio_user.messages import VersionHead
from softcard.attach.vfio_user.wire import StreamError
from softcard.core.errors import WireError

MAJOR: Final = 0
MINOR: Final = 0
"""The minor protocol version. The vfio-user specification names no number, and its implementations use 0.0."""
PAGE_SIZE: Final = 4096


class SharedMemory(Enum):
    """The policies for mapping the client's memory. The server uses messages to access memory that it does not map."""

    SEALED = "sealed"
    """Map only files that the client cannot shrink later.

    These are memfds sealed with F_SEAL_SHRINK, such as those of QEMU's memory-backend-memfd.
    """
    ANY = "any"
    """Map every file that the client passes; a client that truncates such a file later kills this process."""
    NONE = "none"
    """Map no memory: all DMA uses messages."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The capabilities that a server offers, and its limits. Sizes are in bytes."""

    max_msg_fds: int = 8
    max_data_xfer_size: int = 1 << 20
    max_dma_maps: int = 65535
    max_direct_maps: int = 256
    """The maximum number of client files mapped into this process at a time.

    DMA regions in further files are accessed by messages.
    """
    shared_memory: SharedMemory = SharedMemory.SEALED
    bus_master: bool = True
    """True if DMA requires the Bus Master bit of the Command register to be set."""
    write_multiple: bool = False
    twin_socket: bool = True
    """True if clients that offer a separate socket for DMA messages get it."""
    dma_reply_timeout_s: float = 5.0
    """The time in seconds for which the device's DMA waits for a client's reply."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of a client or server; the defaults are those of the vfio-user specification."""

    max_msg_fds: int = 1
    max_data_xfer_size: int = 1 << 20
    max_dma_maps: int = 65535
    pgsizes: int = PAGE_SIZE
    twin_socket: bool = False
    twin_fd_index: int | None = None
    write_multiple: bool = False

    def as_json(self) -> bytes:
        """Return the version data of a VERSION message: JSON text with its terminating NUL."""
        values: dict[str, object] = {
            "max_msg_fds": self.max_msg_fds,
            "max_data_xfer_size": self.max_data_xfer_size,
            "max_dma_maps": self.max_dma_maps,
            "pgsizes": self.pgsizes,
        }
        if self.write_multiple:
            values["write_multiple"] = True
        if self.twin_socket:
            twin: dict[str, object] = {"supported": True}
            if self.twin_fd_index is not None:
                twin["fd_index"] = self.twin_fd_index
            values["twin_socket"] = twin
        return json.dumps({"capabilities": values}).encode() + b"\0"


def parse_version(payload: bytes) -> tuple[VersionHead, Capabilities]:
    """Return the header and the capabilities in a VERSION message; raise `StreamError` if it is malformed."""
    try:
        head = VersionHead.parse(payload)
    except WireError as error:
        raise StreamError(error.message, rule=rules.PAYLOAD) from None
    return head, _capabilities(payload[VersionHead.size_bytes :])


def _capabilities(data: bytes) -> Capabilities:
    if not data:
        return Capabilities()
    if data[-1]:
        raise _bad_data("the version data must end with NUL", len(data) - 1)
    try:
        value = json.loads(data[:-1].decode())
    except UnicodeDecodeError as error:
        raise _bad_data(f"the version data must be UTF-8, not {error.object[error.start]:#04x}", error.start) from None
    except json.JSONDecodeError as error:
        raise _bad_data(f"the version data must be JSON: {error.msg}", error.pos) from None
    except RecursionError:
        raise _bad_data("the version data must be JSON: nested too deeply", 0) from None
    except ValueError:  # valid JSON that Python refuses: a number with too many digits
        most = sys.get_int_max_str_digits()
        raise _bad_data(f"the version data must be JSON: a number has more than {most} digits", 0) from None
    given = _member(value, "capabilities", dict, {})
    twin = _member(given, "twin_socket", dict, {})
    return Capabilities(
        max_msg_fds=_number(given, "max_msg_fds", 1),
        max_data_xfer_size=_number(given, "max_data_xfer_size", 1 << 20, least=1),
        max_dma_maps=_number(given, "max_dma_maps", 65535),
        pgsizes=_number(given, "pgsizes", PAGE_SIZE, least=1),
        twin_socket=_member(twin, "supported", bool, False),
        twin_fd_index=_number(twin, "fd_index", 0) if "fd_index" in twin else None,
        write_multiple=_member(given, "write_multiple", bool, False),
    )


def _member(value: object, name: str, kind: type, default: Any) -> Any:
    if not isinstance(value, dict):
        raise _bad_data(f"the version data must be a JSON object, not {_short(value)}", 0)
    found = value.get(name, default)
    if not isinstance(found, kind):
        raise _bad_data(f"{name} must be of type {kind.__name__}, not {_short(found)}", 0)
    return found


def _number(value: dict[str, object], name: str, default: int, least: int = 0) -> int:
    found = value.get(name, default)
    if not isinstance(found, int) or isinstance(found, bool) or not least <= found < 1 << 64:
        raise _bad_data(f"{name} must be a whole number from {least} to 2**64 - 1, not {_short(found)}", 0)
    return found


def _short(value: object) -> str:
    """Return a short text of a value, for messages. Containers are not printed: they may be nested too deeply."""
    if isinstance(value, list | dict):
        kind = "a list" if isinstance(value, list) else "an object"
        return f"{kind} of {len(value)}"
    return f"{value!r:.40}"


def _bad_data(text: str, position: int) -> StreamError:
    return StreamError(text, rule=rules.VERSION_DATA).at("byte", VersionHead.size_bytes + position)


def agree(client: Capabilities, settings: Settings) -> Capabilities:
    """Return the capabilities of the server's reply: its own limits, and the features that both sides support.

    `client` has the client's capabilities, `settings` the server's. The limit on DMA mappings is the lower one
    of both sides."""
    return Capabilities(
        max_msg_fds=settings.max_msg_fds,
        max_data_xfer_size=settings.max_data_xfer_size,
        max_dma_maps=min(settings.max_dma_maps, client.max_dma_maps),
        pgsizes=PAGE_SIZE,
        twin_socket=client.twin_socket and settings.twin_socket,
        twin_fd_index=0 if client.twin_socket and settings.twin_socket else None,
        write_multiple=client.write_multiple and settings.write_multiple,
    )
