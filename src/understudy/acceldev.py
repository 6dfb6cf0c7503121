"""Acceldev: the driver in Python, the bare device, its commands and registers."""

from understudy.core.pci import PlainMemory
from understudy.device.acceldev import registers
from understudy.device.acceldev.commands import (
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
from understudy.device.acceldev.device import AcceldevDevice
from understudy.device.acceldev.events import ContextErrored, Lint
from understudy.device.acceldev.settings import Settings
from understudy.host.acceldev.acceldev import CODE, DATA, Acceldev, Buffer, Context, DriverError

__all__ = [
    "CODE",
    "DATA",
    "Acceldev",
    "AcceldevDevice",
    "BindSlotCommand",
    "Buffer",
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
