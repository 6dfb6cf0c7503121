"""The messages of vfio-user as records of their binary layout, in the order of the "vfio-user Protocol Specification".

Every message is a `Header` and a payload. Offsets in the records count from the end of the header, as in the
specification. All words have the byte order of the host, which is little-endian wherever Softcard runs.

Source: "vfio-user Protocol Specification" (docs/interop/vfio-user.rst of QEMU) and, for the flags that it borrows, the
VFIO interface of Linux (linux/vfio.h).
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

from softcard.core.record import Record, bits, reserved_bits, u16, u32, u64


class Command(IntEnum):
    """Message command ids ("Commands")."""

    VERSION = 1
    DMA_MAP = 2
    DMA_UNMAP = 3
    DEVICE_GET_INFO = 4
    DEVICE_GET_REGION_INFO = 5
    DEVICE_GET_REGION_IO_FDS = 6
    DEVICE_GET_IRQ_INFO = 7
    DEVICE_SET_IRQS = 8
    REGION_READ = 9
    REGION_WRITE = 10
    DMA_READ = 11
    DMA_WRITE = 12
    DEVICE_RESET = 13
    REGION_WRITE_MULTI = 15
    DEVICE_FEATURE = 16
    MIG_DATA_READ = 17
    MIG_DATA_WRITE = 18


class MessageType(IntEnum):
    """The message types, in bits 0-3 of a header's flags."""

    COMMAND = 0
    REPLY = 1


class Header(Record, size=16):
    """The header of every message ("Header"). `size` is the size of the whole message."""

    message_id: int = u16()
    command: int = u16()
    size: int = u32()
    kind: int = bits(3, 0)
    no_reply: int = bits(4, 4)
    is_error: int = bits(5, 5)
    flags_reserved: int = reserved_bits(31, 6)
    errno: int = u32()


class HeaderFlags(IntFlag):
    """The bits of the flags word in a `Header`."""

    TYPE = 0xF
    REPLY = 0x1
    NO_REPLY = 0x10
    ERROR = 0x20


class VersionHead(Record, size=4):
    """The fixed part of VFIO_USER_VERSION, before the JSON text."""

    major: int = u16()
    minor: int = u16()


class DmaMap(Record, size=32):
    """The payload of VFIO_USER_DMA_MAP."""

    argsz: int = u32()
    flags: int = u32()
    offset: int = u64()
    address: int = u64()
    size: int = u64()


class DmaMapFlags(IntFlag):
    """The flags of VFIO_USER_DMA_MAP: the permitted accesses to a DMA region."""

    READABLE = 1
    WRITEABLE = 2


class DmaUnmap(Record, size=24):
    """The payload of VFIO_USER_DMA_UNMAP."""

    argsz: int = u32()
    flags: int = u32()
    address: int = u64()
    size: int = u64()


class DmaUnmapFlags(IntFlag):
    """The flags of VFIO_USER_DMA_UNMAP.

    The vfio-user specification defines no flags; QEMU sends the flags of Linux's VFIO interface."""

    ALL = 2


class DeviceInfo(Record, size=16):
    """The payload of VFIO_USER_DEVICE_GET_INFO."""

    argsz: int = u32()
    flags: int = u32()
    num_regions: int = u32()
    num_irqs: int = u32()


class DeviceFlags(IntFlag):
    """The flags in `DeviceInfo`, VFIO_DEVICE_FLAGS_*."""

    RESET = 1
    PCI = 2


class RegionInfo(Record, size=32):
    """The payload of VFIO_USER_DEVICE_GET_REGION_INFO."""

    argsz: int = u32()
    flags: int = u32()
    index: int = u32()
    cap_offset: int = u32()
    size: int = u64()
    offset: int = u64()


class RegionFlags(IntFlag):
    """The flags in `RegionInfo`, VFIO_REGION_INFO_FLAG_*."""

    READ = 1
    WRITE = 2
    MMAP = 4
    CAPS = 8


class RegionIndex(IntEnum):
    """Regions of a PCI device (VFIO_PCI_*_REGION_INDEX); 0 to 5 are the BARs."""

    ROM = 6
    CONFIG = 7
    VGA = 8


NUM_REGIONS: Final = 9
"""The number of regions of a PCI device, VFIO_PCI_NUM_REGIONS."""


class IrqInfo(Record, size=16):
    """The payload of VFIO_USER_DEVICE_GET_IRQ_INFO."""

    argsz: int = u32()
    flags: int = u32()
    index: int = u32()
    count: int = u32()


class IrqFlags(IntFlag):
    """The flags in `IrqInfo`, VFIO_IRQ_INFO_*."""

    EVENTFD = 1
    MASKABLE = 2
    AUTOMASKED = 4
    NORESIZE = 8


class IrqIndex(IntEnum):
    """Interrupt types of a PCI device (VFIO_PCI_*_IRQ_INDEX)."""

    INTX = 0
    MSI = 1
    MSIX = 2
    ERR = 3
    REQ = 4


NUM_IRQS: Final = 5
"""The number of interrupt types of a PCI device, VFIO_PCI_NUM_IRQS."""


class IrqSet(Record, size=20):
    """The fixed part of VFIO_USER_DEVICE_SET_IRQS, before its booleans."""

    argsz: int = u32()
    flags: int = u32()
    index: int = u32()
    start: int = u32()
    count: int = u32()


class IrqSetFlags(IntFlag):
    """The flags in `IrqSet`, VFIO_IRQ_SET_*: one of the DATA flags and one of the ACTION flags."""

    DATA_NONE = 0x01
    DATA_BOOL = 0x02
    DATA_EVENTFD = 0x04
    ACTION_MASK = 0x08
    ACTION_UNMASK = 0x10
    ACTION_TRIGGER = 0x20
    DATA = 0x07
    ACTION = 0x38


class RegionAccess(Record, size=16):
    """The fixed part of VFIO_USER_REGION_READ and VFIO_USER_REGION_WRITE, before their data."""

    offset: int = u64()
    region: int = u32()
    count: int = u32()


class DmaAccess(Record, size=16):
    """The fixed part of VFIO_USER_DMA_READ and VFIO_USER_DMA_WRITE, before their data."""

    address: int = u64()
    count: int = u64()


class WriteMultiHead(Record, size=8):
    """The fixed part of VFIO_USER_REGION_WRITE_MULTI, before its writes; the reply consists of this part only."""

    wr_cnt: int = u64()


class SingleWrite(Record, size=24):
    """One write of VFIO_USER_REGION_WRITE_MULTI: the first `count` bytes of `data`, which is little-endian."""

    offset: int = u64()
    region: int = u32()
    count: int = u32()
    data: int = u64()


class DeviceFeature(Record, size=8):
    """The fixed part of VFIO_USER_DEVICE_FEATURE, before its data."""

    argsz: int = u32()
    feature: int = bits(15, 0)
    is_get: int = bits(16, 16)
    is_set: int = bits(17, 17)
    is_probe: int = bits(18, 18)
    flags_reserved: int = reserved_bits(31, 19)


def command_name(number: int) -> str:
    """Return the name of command `number`, or the number as text if it has no name."""
    try:
        return Command(number).name
    except ValueError:
        return f"command {number}"
