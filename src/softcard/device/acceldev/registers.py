"""The layout of Acceldev's BAR0, its six interrupts, its PCI identity and its limits.

Offsets count bytes. Names and numbers are those of the Acceldev specification and of ``acceldev.h``.
"""

from __future__ import annotations

from enum import IntFlag
from typing import Final

from softcard.core.pci import Bar, PciIdentity
from softcard.core.register import Access, Field, Register, RegisterMap

IDENTITY: Final = PciIdentity(vendor_id=0x0666, device_id=0x0019, class_code=0x0B4000)
"""The PCI identity of an Acceldev device, which has the class of a co-processor.

``acceldev.h`` defines vendor and device; the class is a choice (`acceldev/pci-class`).
"""
BAR0: Final = Bar(0, 64 << 10)

ACCELDEV_MAX_CONTEXTS: Final = 255
ACCELDEV_NUM_BUFFERS: Final = 16
ACCELDEV_PAGE_SIZE: Final = 4096
ACCELDEV_DEVICE_CMD_WORDS: Final = 5
ACCELDEV_USER_CMD_WORDS: Final = 5
CMDS_BUFFER_SIZE: Final = 255

REGISTER_BYTES: Final = 4
PHYSICAL_BITS: Final = 40
VIRTUAL_BITS: Final = 22


class Interrupt(IntFlag):
    """The bits of ``INTR`` and ``INTR_ENABLE``, one for each interrupt."""

    FENCE_WAIT = 1 << 0
    FEED_ERROR = 1 << 1
    CMD_ERROR = 1 << 2
    MEM_ERROR = 1 << 3
    SLOT_ERROR = 1 << 4
    USER_FENCE_WAIT = 1 << 5


INTERRUPTS: Final = sum(Interrupt)

_DESCRIPTIONS: Final = {
    Interrupt.FENCE_WAIT: "completion of a FENCE command",
    Interrupt.FEED_ERROR: "command queue full",
    Interrupt.CMD_ERROR: "invalid device command",
    Interrupt.MEM_ERROR: "invalid memory access",
    Interrupt.SLOT_ERROR: "request for inactive slot",
    Interrupt.USER_FENCE_WAIT: "user FENCE command triggered",
}


def _interrupts(access: Access) -> tuple[Field, ...]:
    return tuple(
        Field(str(bit.name), bit.bit_length() - 1, 1, access, doc=meaning) for bit, meaning in _DESCRIPTIONS.items()
    )


def _word(name: str, offset: int, doc: str, field: str = "VALUE", *, side: str = "rw", count: int = 1) -> Register:
    return Register(name, offset, (Field(field, 0, 32),), 32, doc, count=count, side=side)


INTR: Final = Register("INTR", 0x00, _interrupts(Access.W1C), 32, "interrupt status: 1 is active, writing a 1 clears")
INTR_ENABLE: Final = Register(
    "INTR_ENABLE",
    0x04,
    (*_interrupts(Access.RW), Field("KEPT", 6, 26, doc="no meaning; reads what was written")),
    32,
    "interrupt enable, same bits as INTR",
)
ENABLE: Final = _word("ENABLE", 0x08, "commands are processed unless this is 0")
CONTEXTS_CONFIGS_LO: Final = _word("CONTEXTS_CONFIGS_LO", 0x0C, "address of the contexts' records, lower 32 bits")
CONTEXTS_CONFIGS_HI: Final = _word("CONTEXTS_CONFIGS_HI", 0x10, "address of the contexts' records, upper 32 bits")
CMD_MANUAL_FREE: Final = _word(
    "CMD_MANUAL_FREE", 0x8C, "full commands that may be queued before a FEED_ERROR", "FREE", side="r"
)
CMD_MANUAL_FEED: Final = _word(
    "CMD_MANUAL_FEED",
    0x8C,
    "words of a device command; writing the last one submits it",
    "WORD",
    side="w",
    count=ACCELDEV_DEVICE_CMD_WORDS,
)
CMD_FENCE_LAST: Final = _word("CMD_FENCE_LAST", 0xA0, "VAL of the last FENCE that was processed")
CMD_FENCE_WAIT: Final = _word("CMD_FENCE_WAIT", 0xA4, "VAL of the FENCE that triggers FENCE_WAIT")

MMIO: Final = RegisterMap(
    "MMIO",
    (
        INTR,
        INTR_ENABLE,
        ENABLE,
        CONTEXTS_CONFIGS_LO,
        CONTEXTS_CONFIGS_HI,
        CMD_MANUAL_FREE,
        CMD_MANUAL_FEED,
        CMD_FENCE_LAST,
        CMD_FENCE_WAIT,
    ),
    doc="registers in BAR0; 32 bits, little-endian, to be accessed by aligned 32-bit reads and writes",
)
FEED_END: Final = CMD_MANUAL_FEED.offset + ACCELDEV_DEVICE_CMD_WORDS * REGISTER_BYTES
"""The offset of the first byte after the FEED registers."""
