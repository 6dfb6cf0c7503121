"""How fast does an Acceldev execute user commands, and how soon do its registers answer meanwhile?

FILL is held against memset of the C library on the same memory, in turns. Buffers are of scattered or of consecutive
pages; the value's bytes are equal (memset's own case) or not.
"""

from __future__ import annotations

import ctypes
import time
from functools import partial
from typing import Final

import numpy as np

from harness import Row, Samples, alternate, latency, main, rate, repeat, wall
from softcard.core.pci import PlainMemory
from softcard.device.acceldev import registers as r
from softcard.device.acceldev.commands import (
    Fence,
    Fill,
    Nop,
    RunCommand,
    UserCommand,
    page_table,
    user_code,
    words_of,
)
from softcard.device.acceldev.device import AcceldevDevice

TITLE: Final = "Acceldev: user commands and registers"
QUESTION: Final = "acceldev"
BASE: Final = 0x1_0000_0000
MEMORY: Final = 64 << 20
PAGE: Final = 4096
TABLE, CODE_TABLE, CODE, DATA = BASE + 0x1_0000, BASE + 0x1_1000, BASE + (8 << 20), BASE + (16 << 20)
BUFFER: Final = 4 << 20
FILL_TARGET: Final = 0.5
NOP_TARGET: Final = 5.0
SIZES: Final = {"64 KiB": 64 << 10, "256 KiB": 256 << 10, "1 MiB": 1 << 20, "4 MiB": 4 << 20}


class Bench:
    """A started device with one data buffer bound to slot 0 of context 0."""

    def __init__(self, scattered: bool = False, **settings: object) -> None:
        self.memory = PlainMemory((BASE, MEMORY))
        self.device = AcceldevDevice(**settings)
        self.device.connect(self.memory)
        step = 2 if scattered else 1
        self.memory.write(TABLE, page_table(range(DATA, DATA + step * BUFFER, step * PAGE)))
        self.memory.write(CODE_TABLE, page_table(range(CODE, CODE + BUFFER, PAGE)))
        self.memory.write(BASE, TABLE.to_bytes(8, "little"))
        self.write(r.CONTEXTS_CONFIGS_LO, BASE & 0xFFFF_FFFF)
        self.write(r.CONTEXTS_CONFIGS_HI, BASE >> 32)
        self.write(r.ENABLE, 1)

    def write(self, register: r.Register, value: int) -> None:
        self.device.write_bar(0, register.offset, 4, value)

    def code(self, command: UserCommand, count: int) -> int:
        """Fill the code buffer; the size of a RUN of all of it."""
        data = user_code([command]) * count
        self.memory.write(CODE, data)
        return len(data)

    def run(self, size: int) -> None:
        """Run the code buffer, and wait where the device has a thread."""
        self.submit(size)
        self.device.wait_idle()

    def submit(self, size: int) -> None:
        command = RunCommand(context=0, table=CODE_TABLE, offset=0, size=size)
        for index, word in enumerate(words_of(command)):
            self.device.write_bar(0, r.CMD_MANUAL_FEED.offset + 4 * index, 4, word)


def measure_fill(name: str, size: int, value: int, scattered: bool, rounds: int, amount: int) -> Row:
    """Bytes per second of FILLs in one RUN, and of as many calls of memset."""
    bench = Bench(scattered)
    count = max(1, amount // size)
    run_size = bench.code(Fill(value=value, buffer_slot=0, start=0, length=size), count)
    view = np.frombuffer(bench.memory.view(DATA, size), np.uint8)
    address = view.ctypes.data
    bench.run(run_size)

    def memset() -> None:
        for _ in range(count):
            ctypes.memset(address, value & 0xFF, size)

    ours, peer = alternate(rounds, lambda: wall(lambda: bench.run(run_size)), lambda: wall(memset))
    pages, repeated = ("scattered", "consecutive")[not scattered], ("byte", "word")[value % 0x0101_0101 != 0]
    what = f"FILL {name}, {pages} pages, one {repeated} repeated"
    peer_rate = count * size / peer.best / 1e6
    return rate(QUESTION, what, "MB/s", count * size, ours, peer_name="memset", peer=peer_rate, target=FILL_TARGET)


def measure_commands(rounds: int, count: int) -> list[Row]:
    """User NOPs and FENCEs per second; the interrupt of FENCEs is never cleared."""
    rows = []
    cases: list[tuple[str, UserCommand, dict[str, object], int, float | None]] = [
        ("user NOP, machine code", Nop(), {}, count, NOP_TARGET),
        ("user NOP, as Python", Nop(), {"engine": "reference"}, count // 20, None),
        ("user FENCE, machine code", Fence(), {}, count, None),
        ("user FENCE, as Python", Fence(), {"engine": "reference"}, count // 20, None),
    ]
    for what, command, settings, number, target in cases:
        bench = Bench(**settings)
        size = bench.code(command, number)
        bench.run(size)
        samples = repeat(rounds, partial(wall, partial(bench.run, size)))
        rows.append(rate(QUESTION, what, "M/s", number, samples, target=target))
    return rows


def measure_latency(reads: int) -> list[Row]:
    """Register reads of this thread while the device's thread executes a RUN without an end in sight."""
    bench = Bench(execution="threaded")
    size = bench.code(Fill(value=3, buffer_slot=0, start=0, length=BUFFER), 200_000)
    bench.submit(size)
    seconds = []
    for _ in range(reads):
        before = time.perf_counter()
        bench.device.read_bar(0, r.CMD_MANUAL_FREE.offset, 4)
        seconds.append(time.perf_counter() - before)
    assert not bench.device.is_idle
    bench.device.close()
    p50, p99 = np.percentile(seconds, [50, 99])
    return [
        latency(QUESTION, f"register read while a RUN executes, {name}", "us", Samples((float(each),)), target=target)
        for name, each, target in (("median", p50, 40), ("p99", p99, 1000))
    ]


def measure(quick: bool = False) -> list[Row]:
    rounds, amount = (2, 64 << 20) if quick else (7, 512 << 20)
    rows = [
        measure_fill(name, size, value, scattered, rounds, amount)
        for name, size in SIZES.items()
        for scattered in (False, True)
        for value in (0x1234_5678, 0x0707_0707)
    ]
    rows += measure_commands(rounds, 20_000 if quick else 200_000)
    return rows + measure_latency(2_000 if quick else 20_000)


if __name__ == "__main__":
    main(measure, TITLE)
