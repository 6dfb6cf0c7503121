"""The public interface of Acceldev, a virtual PCI accelerator: Python driver, device, commands, registers."""

from softcard.core.pci import PlainMemory
from softcard.device.acceldev import registers
from softcard.device.acceldev.commands import (
    BindSlotCommand,
    Fence,
    FenceCommand,
    Fill,
    Nop,
    NopCommand,
    RunCommand,
    page_table,
    user_code,
    words_of,
)
from softcard.device.acceldev.device import AcceldevDevice
from softcard.device.acceldev.events import CommandFinished, ContextErrored, Lint
from softcard.device.acceldev.settings import Settings
from softcard.host.acceldev.acceldev import CODE, DATA, Acceldev, Buffer, Context, DriverError

__all__ = [
    "CODE",
    "DATA",
    "Acceldev",
    "AcceldevDevice",
    "BindSlotCommand",
    "Buffer",
    "CommandFinished",
    "Context",
    "ContextErrored",
    "DriverError",
    "Fence",
    "FenceCommand",
    "Fill",
    "Lint",
    "Nop",
    "NopCommand",
    "PlainMemory",
    "RunCommand",
    "Settings",
    "page_table",
    "registers",
    "user_code",
    "words_of",
]
