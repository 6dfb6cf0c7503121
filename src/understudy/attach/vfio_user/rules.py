"""What the protocol demands, as rules; the errno of the reply to whoever breaks one; our choices where it is silent.

The clauses are headings of the "vfio-user Protocol Specification".
"""

from __future__ import annotations

import errno
from typing import Final

from understudy.core.errors import BeyondModel, RuleError, UnderstudyError
from understudy.core.record import Record
from understudy.core.rule import Choice, Fidelity, Rule

_errno: dict[str, int] = {}


def _rule(name: str, clause: str, text: str, number: int = errno.EINVAL, fidelity: Fidelity = Fidelity.EXACT) -> Rule:
    rule = Rule(f"vfio-user/{name}", clause, text, fidelity)
    _errno[rule.id] = number
    return rule


MESSAGE_SIZE = _rule(
    "message-size",
    "Header",
    "Message size contains the size of the entire message, including the header.",
    errno.EMSGSIZE,
)
MESSAGE_TYPE = _rule("message-type", "Header", "The Type bits indicate a command (0) or a reply (1).", errno.EPROTO)
COMMAND = _rule(
    "command", "Commands", "Command specifies the command to be executed, listed in Commands.", errno.ENOTSUP
)
DIRECTION = _rule(
    "direction", "Commands", "DMA_READ and DMA_WRITE go from server to client, all others the other way.", errno.ENOTSUP
)
REPLY_MATCH = _rule("reply-match", "Header", "The message id is echoed in the command's reply message.", errno.EPROTO)
VERSION_FIRST = _rule(
    "version-first",
    "VFIO_USER_VERSION",
    "This is the initial message sent by the client after the socket connection is established.",
    errno.EPROTO,
)
VERSION_ONCE = _rule("version-once", "VFIO_USER_VERSION", "VERSION is the initial message, and no later one.")
VERSION_MAJOR = _rule(
    "version-major", "VFIO_USER_VERSION", "The major version in the reply must be the same as proposed.", errno.ENOTSUP
)
VERSION_DATA = _rule("version-data", "VFIO_USER_VERSION", "The version data is UTF-8 encoded JSON, terminated by NUL.")
PAYLOAD = _rule("payload", "Commands", "A command's payload has the structure given for the command.")
ARGSZ = _rule(
    "argsz",
    "Message sizes",
    "argsz should be at least the size of the fixed reply payload headers; of DMA_MAP and SET_IRQS, of the request.",
)
FDS = _rule("fds", "Message sizes", "File descriptors come only with DMA_MAP and SET_IRQS, at most max_msg_fds.")
ZERO = _rule("zero", "VFIO_USER_DEVICE_GET_*", "All other fields of the request must be zero.")
DMA_MAP_OVERLAP = _rule(
    "dma-map-overlap",
    "VFIO_USER_DMA_MAP",
    "A command to map over an existing region must be failed by the server with EEXIST.",
    errno.EEXIST,
)
DMA_MAP_RANGE = _rule("dma-map-range", "VFIO_USER_DMA_MAP", "address and size give a region of the DMA address space.")
DMA_MAP_FLAGS = _rule("dma-map-flags", "VFIO_USER_DMA_MAP", "Bit 0 of flags is readable, bit 1 writeable.")
DMA_MAP_FD = _rule("dma-map-fd", "VFIO_USER_DMA_MAP", "The region can be mapped via the mmap() system call.")
DMA_MAP_COUNT = _rule(
    "dma-map-count", "VFIO_USER_VERSION", "max_dma_maps windows can be valid simultaneously.", errno.ENOSPC
)
DMA_UNMAP_EXACT = _rule(
    "dma-unmap-exact",
    "VFIO_USER_DMA_UNMAP",
    "The address and size of the DMA region being unmapped must match exactly a previous mapping.",
    errno.EINVAL,
    Fidelity.CHOSEN,
)
DMA_UNMAP_FLAGS = _rule("dma-unmap-flags", "VFIO_USER_DMA_UNMAP", "flags is unused in this version.")
DMA_MAPPED = _rule(
    "dma-mapped", "VFIO_USER_DMA_READ", "This address must have been previously exported with a DMA_MAP message."
)
DMA_ACCESS = _rule("dma-access", "VFIO_USER_DMA_MAP", "readable and writeable say how the region can be accessed.")
DMA_REPLY = _rule("dma-reply", "VFIO_USER_DMA_READ", "The reply gives the address and size of the data transferred.")
REGION_INDEX = _rule("region-index", "VFIO_USER_DEVICE_GET_REGION_INFO", "index is the index of a memory region.")
REGION_BOUNDS = _rule("region-bounds", "VFIO_USER_REGION_READ", "offset and count lie inside the region.")
REGION_COUNT = _rule(
    "region-count",
    "Read and Write Operations",
    "The count field must not exceed the value of max_data_xfer_size of the peer.",
)
WRITE_MULTI = _rule(
    "write-multi",
    "VFIO_USER_VERSION",
    "REGION_WRITE_MULTI messages are supported if write_multiple is true.",
    errno.ENOTSUP,
)
WRITE_MULTI_COUNT = _rule(
    "write-multi-count", "VFIO_USER_REGION_WRITE_MULTI", "This format can only describe writes of 8 bytes or less."
)
IRQ_INDEX = _rule("irq-index", "VFIO_USER_DEVICE_GET_IRQ_INFO", "index is the index of an interrupt type.")
IRQ_FLAGS = _rule("irq-flags", "VFIO_USER_DEVICE_SET_IRQS", "The flags are mutually exclusive for both sets.")
IRQ_RANGE = _rule("irq-range", "VFIO_USER_DEVICE_SET_IRQS", "start and count give sub-indexes of the interrupt type.")
IRQ_DATA = _rule("irq-data", "VFIO_USER_DEVICE_SET_IRQS", "data is an array of booleans, one per sub-index.")
IRQ_FD = _rule("irq-fd", "VFIO_USER_DEVICE_SET_IRQS", "An array of event file descriptors was sent.")
BUS_MASTER = Rule(
    "pci/bus-master",
    "PCI Local Bus 3.0, 6.2.2",
    "A value of 0 in the Command register's Bus Master bit disables the device from generating PCI accesses.",
)
REGION_IO_FDS = _rule(
    "region-io-fds",
    "VFIO_USER_DEVICE_GET_REGION_IO_FDS",
    "An alternative access mechanism via file descriptors; optional.",
    errno.ENOTSUP,
    Fidelity.ABSENT,
)
MASK_EVENTFD = _rule(
    "mask-eventfd",
    "VFIO_USER_DEVICE_SET_IRQS",
    "DATA_EVENTFD with ACTION_MASK generates an event when the guest masks the interrupt.",
    errno.ENOTTY,
    Fidelity.ABSENT,
)
MIGRATION = _rule(
    "migration",
    "VFIO_USER_DEVICE_FEATURE",
    "The only device features supported by vfio-user are those related to migration.",
    errno.ENOTTY,
    Fidelity.ABSENT,
)

RULES: Final = tuple(value for value in list(globals().values()) if isinstance(value, Rule))

CHOICES: Final = (
    Choice(
        "vfio-user/unmask-eventfd",
        "An eventfd given with ACTION_UNMASK: signalled by the server (the document), or watched by it (Linux VFIO)?",
        "Watched: a signal on it unmasks the interrupt.",
        "It is what QEMU needs it for: KVM signals it at the guest's end of interrupt.",
    ),
    Choice(
        "vfio-user/unmap-all",
        "QEMU may send the flag VFIO_DMA_UNMAP_FLAG_ALL, which the document does not have.",
        "With address and size 0 it unmaps everything.",
        "So does Linux.",
    ),
    Choice(
        "vfio-user/unmap-range",
        "QEMU unmaps ranges that hold many windows or none, where the document wants exactly one.",
        "All windows inside the range go, be it none; a range that would cut one is refused with EINVAL.",
        "So does Linux VFIO, whose requests QEMU passes on; with a guest IOMMU windows would stay for ever.",
    ),
    Choice(
        "vfio-user/unsealed-memory",
        "A client can shrink a file after passing it; touching what is gone kills the process.",
        "Only memory sealed against shrinking is mapped, unless told otherwise; the rest is reached by messages.",
        "No client may end the process; messages must be supported by every client anyway.",
    ),
    Choice(
        "vfio-user/access-sizes",
        "A count of an access to a region may be any number.",
        "1, 2, 4 and 8 reach the device as they are; others are cut into naturally aligned accesses, in order.",
        "Linux VFIO does the same.",
    ),
    Choice(
        "vfio-user/dma-in-reset",
        "What becomes of DMA under way at DEVICE_RESET is not said.",
        "What waits for a message fails at once, before the device is reset.",
        "A bus reset ends all transactions.",
    ),
    Choice(
        "vfio-user/bus-master",
        "Whether a server heeds the Bus Master bit is not said.",
        "Without it every DMA fails, unless told otherwise.",
        "PCI demands it, and drivers that forget it work nowhere else.",
    ),
)


def broken(rule: Rule, record: type[Record], field: str, text: str) -> RuleError:
    """The error for a message whose `field` breaks a rule."""
    return RuleError(text, rule=rule).at("byte", record.offset_of(field), field)


def reply_errno(error: UnderstudyError) -> int:
    """The errno that a reply carries for `error`."""
    if error.rule is not None and error.rule.id in _errno:
        return _errno[error.rule.id]
    return errno.ENOTSUP if isinstance(error, BeyondModel) else errno.EINVAL
