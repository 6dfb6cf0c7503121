"""A machine with an Acceldev in it: memory, page tables, and the few lines of a driver that tests need."""

from __future__ import annotations

from typing import Any

from softcard.core.event import Event
from softcard.core.pci import DmaPort, PlainMemory
from softcard.core.record import Record
from softcard.device.acceldev import registers as r
from softcard.device.acceldev.commands import (
    USER_CMD_BYTES,
    BindSlotCommand,
    FenceCommand,
    Fill,
    NopCommand,
    RunCommand,
    UserCommand,
    page_table,
    user_code,
    words_of,
)
from softcard.device.acceldev.device import AcceldevDevice
from softcard.device.acceldev.events import Lint
from softcard.device.acceldev.registers import Interrupt

RAM = 0x1000_0000
RAM_BYTES = 32 << 20
HIGH = 0xFF_0000_0000
"""RAM that only 40-bit addresses reach."""
HIGH_BYTES = 1 << 20
BEYOND = 0x1_2345_0000_0000
"""RAM that only more than 40 bits reach."""
BEYOND_BYTES = 1 << 20
CONFIGS = RAM
FIRST_PAGE = RAM + 0x1_0000
NOWHERE = 0x9_0000_0000
"""Physical address without memory."""
ALL = 0xFFFF_FFFF


class CallsOnly:
    """The same memory without shared ranges: every access is a call."""

    def __init__(self, memory: PlainMemory) -> None:
        self.memory = memory
        self.calls = 0

    def read(self, address: int, size: int) -> bytes:
        self.calls += 1
        return self.memory.read(address, size)

    def write(self, address: int, data: bytes) -> None:
        self.calls += 1
        self.memory.write(address, data)

    def direct(self) -> tuple[()]:
        return ()


class Machine:
    """One device, started unless told otherwise, and its events."""

    def __init__(self, *, start: bool = True, calls_only: bool = False, listen: bool = True, **settings: Any) -> None:
        self.memory = PlainMemory((RAM, RAM_BYTES), (HIGH, HIGH_BYTES), (BEYOND, BEYOND_BYTES))
        self.port: DmaPort = CallsOnly(self.memory) if calls_only else self.memory
        self.device = AcceldevDevice(**settings)
        self.events: list[Event] = []
        if listen:
            self.device.probes.subscribe(self.events.append)
        self.device.connect(self.port)
        self.next_page = FIRST_PAGE
        if start:
            self.start()

    # ---- registers

    def read(self, register: r.Register) -> int:
        return self.device.read_bar(0, register.offset, 4)

    def write(self, register: r.Register, value: int) -> None:
        self.device.write_bar(0, register.offset, 4, value)

    @property
    def intr(self) -> Interrupt:
        return Interrupt(self.read(r.INTR))

    def start(self, configs: int = CONFIGS) -> None:
        """The start-up procedure, all interrupts enabled."""
        self.write(r.INTR, ALL)
        self.write(r.INTR_ENABLE, r.INTERRUPTS)
        self.write(r.CONTEXTS_CONFIGS_LO, configs & ALL)
        self.write(r.CONTEXTS_CONFIGS_HI, configs >> 32)
        self.write(r.ENABLE, 1)

    # ---- memory

    def page(self, count: int = 1) -> int:
        """The address of `count` fresh zeroed pages that follow each other."""
        address = self.next_page
        self.next_page += count * 4096
        return address

    def table(self, *pages: int | None) -> int:
        """A page table that presents these pages."""
        address = self.page()
        self.memory.write(address, page_table(pages))
        return address

    def buffer(self, pages: int = 1) -> tuple[int, int]:
        """Fresh pages that follow each other; their page table and the address of the first."""
        first = self.page(pages)
        return self.table(*(first + index * 4096 for index in range(pages))), first

    def record(self, context: int = 0, configs: int = CONFIGS) -> memoryview:
        return self.memory.view(configs + context * 192, 192)

    def slot(self, slot: int, context: int = 0) -> int:
        return int.from_bytes(self.record(context)[8 * slot : 8 * slot + 8], "little")

    def fences(self, context: int = 0) -> int:
        return int.from_bytes(self.record(context)[128:132], "little")

    def status(self, context: int = 0) -> int:
        return self.record(context)[132]

    # ---- commands

    def feed(self, *words: int) -> None:
        for index, word in enumerate(words):
            self.device.write_bar(0, 0x8C + 4 * index, 4, word)

    def submit(self, *commands: Record) -> None:
        for command in commands:
            self.feed(*words_of(command))
        assert self.device.wait_idle(60) or not self.device.settings.threaded

    def nop(self) -> None:
        self.submit(NopCommand())

    def fence(self, value: int) -> None:
        self.submit(FenceCommand(value=value))

    def bind(self, slot: int, table: int, context: int = 0) -> None:
        self.submit(BindSlotCommand(context=context, slot_number=slot, table=table))

    def bound(self, slot: int = 0, pages: int = 1, context: int = 0) -> int:
        """Bind a fresh buffer; the address of its first page."""
        table, first = self.buffer(pages)
        self.bind(slot, table, context)
        return first

    def code(self, *commands: UserCommand | bytes, offset: int = 0) -> int:
        """A code buffer with these commands at `offset`; its page table."""
        data = bytes(offset) + b"".join(each if isinstance(each, bytes) else user_code([each]) for each in commands)
        table, first = self.buffer(-(-max(1, len(data)) // 4096))
        self.memory.write(first, data)
        return table

    def run(self, *commands: UserCommand | bytes, context: int = 0, offset: int = 0) -> None:
        """Put commands into a fresh code buffer and run them all."""
        self.run_at(self.code(*commands, offset=offset), offset, len(commands) * USER_CMD_BYTES, context)

    def run_at(self, table: int, offset: int, size: int, context: int = 0) -> None:
        self.submit(RunCommand(context=context, table=table, offset=offset, size=size))

    # ---- events

    def seen(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def lints(self) -> list[str]:
        return [event.check for event in self.seen(Lint)]


def fill(slot: int, start: int, length: int, value: int = 0x4433_2211) -> Fill:
    return Fill(value=value, buffer_slot=slot, start=start, length=length)
