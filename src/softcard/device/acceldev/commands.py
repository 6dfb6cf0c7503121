"""The layout of the data that Acceldev reads from memory and FEED registers: commands, contexts, page tables.

Everything consists of little-endian 32-bit words, in the order of the Acceldev specification. This module defines the
layout only; it executes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import ClassVar, Final

from softcard.core.errors import WireError
from softcard.core.record import Record, bits, raw, reserved, u8, u32, u64, words
from softcard.device.acceldev import rules
from softcard.device.acceldev.registers import (
    ACCELDEV_NUM_BUFFERS,
    ACCELDEV_PAGE_SIZE,
    ACCELDEV_USER_CMD_WORDS,
    PHYSICAL_BITS,
    VIRTUAL_BITS,
)

WORD_BYTES: Final = 4
USER_CMD_BYTES: Final = ACCELDEV_USER_CMD_WORDS * WORD_BYTES
CMD_TYPE_MASK: Final = 0xF
"""The mask of the bits in a command's header word that hold the command type."""

# ---- device commands ---------------------------------------------------------------------------------------------


class DeviceCmdType(IntEnum):
    """The device command types, ``ACCELDEV_DEVICE_CMD_TYPE_*``."""

    NOP = 0
    RUN = 1
    BIND_SLOT = 2
    FENCE = 3


class NopCommand(Record, size=20):
    """The device command NOP, which does nothing. Only its words 0 and 4 need to be written."""

    TYPE: ClassVar = DeviceCmdType.NOP
    WORDS_USED: ClassVar = (0,)
    type: int = bits(3, 0, default=DeviceCmdType.NOP)
    unused_header: int = bits(31, 4, default=0)
    unused: bytes = raw(16, default=bytes(16))


class RunCommand(Record, size=20):
    """The device command RUN: executes the user commands in the code buffer of a context.

    The commands occupy `size` bytes from byte `offset` of the code buffer. `table` is the address of the code buffer's
    page table.
    """

    TYPE: ClassVar = DeviceCmdType.RUN
    WORDS_USED: ClassVar = (0, 1, 2, 3, 4)
    type: int = bits(3, 0, default=DeviceCmdType.RUN)
    context: int = bits(31, 4)
    table: int = u64()
    offset: int = u32()
    size: int = u32()


class BindSlotCommand(Record, size=20):
    """The device command that binds a buffer to slot `slot_number` of a context.

    `table` is the address of the buffer's page table; 0 leaves the slot without a buffer.
    """

    TYPE: ClassVar = DeviceCmdType.BIND_SLOT
    WORDS_USED: ClassVar = (0, 1, 2, 3)
    type: int = bits(3, 0, default=DeviceCmdType.BIND_SLOT)
    context: int = bits(31, 4)
    slot_number: int = u32()
    table: int = u64()
    unused: int = u32(default=0)


class FenceCommand(Record, size=20):
    """The device command that signals that all commands submitted before it have been processed."""

    TYPE: ClassVar = DeviceCmdType.FENCE
    WORDS_USED: ClassVar = (0, 1)
    VALUE_WORD: ClassVar = 1
    type: int = bits(3, 0, default=DeviceCmdType.FENCE)
    unused_header: int = bits(31, 4, default=0)
    value: int = u32()
    unused: bytes = raw(12, default=bytes(12))


DeviceCommand = NopCommand | RunCommand | BindSlotCommand | FenceCommand
DEVICE_COMMANDS: Final[dict[int, type[DeviceCommand]]] = {
    int(kind.TYPE): kind for kind in (NopCommand, RunCommand, BindSlotCommand, FenceCommand)
}
"""The record type of each device command type."""


def device_command_type(feed: Sequence[int]) -> type[DeviceCommand] | None:
    """Return the record type of the device command in `feed`, its five 32-bit words; None for an unknown type."""
    return DEVICE_COMMANDS.get(feed[0] & CMD_TYPE_MASK)


def device_command_name(feed: Sequence[int]) -> str:
    """Return the name, for messages, of the device command in `feed`, its five 32-bit words."""
    kind = device_command_type(feed)
    return "unknown" if kind is None else kind.TYPE.name


def decode_device_command(feed: Sequence[int]) -> DeviceCommand:
    """Return the device command in `feed`, its five 32-bit words; raise `WireError` for an unknown type."""
    kind = device_command_type(feed)
    if kind is None:
        raise WireError(
            f"header {feed[0]:#010x}: unknown device command type {feed[0] & CMD_TYPE_MASK}",
            rule=rules.INTR_CMD_ERROR,
        )
    return kind.parse(b"".join(word.to_bytes(WORD_BYTES, "little") for word in feed))


def words_of(command: Record) -> tuple[int, ...]:
    """Return the 32-bit words of a command, as they go into the FEED registers or a code buffer."""
    data = command.pack()
    return tuple(int.from_bytes(data[at : at + WORD_BYTES], "little") for at in range(0, len(data), WORD_BYTES))


# ---- user commands -----------------------------------------------------------------------------------------------


class UserCmdType(IntEnum):
    """The user command types, ``ACCELDEV_USER_CMD_TYPE_*``."""

    NOP = 0
    FENCE = 1
    FILL = 2


class Nop(Record, size=20):
    """The user command NOP, which does nothing."""

    TYPE: ClassVar = UserCmdType.NOP
    type: int = bits(3, 0, default=UserCmdType.NOP)
    unused_header: int = bits(31, 4, default=0)
    unused: bytes = raw(16, default=bytes(16))


class Fence(Record, size=20):
    """The user command FENCE: increments the context's ``fence_counter`` and triggers ``USER_FENCE_WAIT``."""

    TYPE: ClassVar = UserCmdType.FENCE
    type: int = bits(3, 0, default=UserCmdType.FENCE)
    unused_header: int = bits(31, 4, default=0)
    unused: bytes = raw(16, default=bytes(16))


class Fill(Record, size=20):
    """The user command FILL: sets a range of the buffer that is bound to a slot to a repeated 32-bit `value`.

    The range has `length` bytes and begins at virtual address `start` of the buffer.
    """

    TYPE: ClassVar = UserCmdType.FILL
    type: int = bits(3, 0, default=UserCmdType.FILL)
    unused_header: int = bits(31, 4, default=0)
    value: int = u32()
    buffer_slot: int = u32()
    start: int = u32()
    length: int = u32()


UserCommand = Nop | Fence | Fill
USER_COMMANDS: Final[dict[int, type[UserCommand]]] = {int(kind.TYPE): kind for kind in (Nop, Fence, Fill)}
"""The record type of each user command type."""


def decode_user_command(data: bytes) -> UserCommand:
    """Return the user command in `data`, its 20 bytes; raise `WireError` for an unknown type."""
    header = int.from_bytes(data[:WORD_BYTES], "little")
    kind = USER_COMMANDS.get(header & CMD_TYPE_MASK)
    if kind is None:
        raise WireError(
            f"header {header:#010x}: unknown user command type {header & CMD_TYPE_MASK}",
            rule=rules.USER_COMMANDS,
        )
    return kind.parse(data)


def user_code(commands: Iterable[UserCommand]) -> bytes:
    """Return the bytes of a code buffer that consists of `commands`."""
    return b"".join(command.pack() for command in commands)


# ---- context records ---------------------------------------------------------------------------------------------

STATUS_ERROR: Final = 1
"""The error bit in the ``status`` word of a context's record; it is set after an error in the context."""


class ContextConfig(Record, size=192):
    """The record of one context in main memory, ``acceldev_context_on_device_config``."""

    buffers_slots: tuple[int, ...] = words(64, ACCELDEV_NUM_BUFFERS, default=(0,) * ACCELDEV_NUM_BUFFERS)
    fence_counter: int = u32(default=0)
    status: int = u8(default=0)
    padding: bytes = reserved(59)


SLOT_BYTES: Final = 8
FENCE_COUNTER: Final = ContextConfig.offset_of("fence_counter")
STATUS: Final = ContextConfig.offset_of("status")

# ---- page tables -------------------------------------------------------------------------------------------------

PTE_BYTES: Final = 4
PTES: Final = ACCELDEV_PAGE_SIZE // PTE_BYTES
BUFFER_BYTES: Final = 1 << VIRTUAL_BITS
"""The size of a buffer's virtual address range."""
PAGE_MASK: Final = ACCELDEV_PAGE_SIZE - 1
MAX_TABLE: Final = (1 << PHYSICAL_BITS) - ACCELDEV_PAGE_SIZE
"""The highest physical address at which a page table or a page can begin."""


class PageTableEntry(Record, size=4):
    """One word of a page table. `frame` holds bits 12-39 of the page's physical address."""

    present: int = bits(0, 0)
    unused: int = bits(3, 1, default=0)
    frame: int = bits(31, 4)

    @classmethod
    def of(cls, address: int) -> PageTableEntry:
        """Return the entry, with its PRESENT bit set, for the page at `address`.

        Raise `WireError` unless `address` is page-aligned and has at most 40 bits.
        """
        if address & PAGE_MASK or not 0 <= address <= MAX_TABLE:
            raise WireError(
                f"page address {address:#x} is invalid, expected a multiple of {ACCELDEV_PAGE_SIZE:#x} below "
                f"{1 << PHYSICAL_BITS:#x}",
                rule=rules.PHYSICAL_40_BIT,
            )
        return cls(present=1, frame=address >> 12)


PTE_PRESENT: Final = 1
PTE_FRAME_MASK: Final = 0xFFFF_FFF0
PTE_SHIFT: Final = 8
"""The number of bits by which an entry's frame bits are shifted left to give the page's address."""


def page_table(pages: Iterable[int | None]) -> bytes:
    """Return the 4096 bytes of a page table that maps consecutive virtual pages to `pages`.

    Each item is the physical address of a page, or None for an entry that is not present. Raise `WireError` for an
    address that an entry cannot express, or for more than 1024 pages.
    """
    entries = [b"\0" * PTE_BYTES if page is None else PageTableEntry.of(page).pack() for page in pages]
    if len(entries) > PTES:
        raise WireError(
            f"{len(entries)} pages do not fit one page table, expected at most {PTES}", rule=rules.TABLE_SIZE
        )
    return b"".join(entries).ljust(ACCELDEV_PAGE_SIZE, b"\0")
