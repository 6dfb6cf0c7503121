"""What does a command cost, and what does a command buffer cost?

Long buffers of small commands in million commands per second, by kind; short buffers in microseconds from submit to
the end of wait. The peer is the reference driver's published cost per command (the lower end of each range).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from statistics import median
from typing import Final

from harness import REFERENCE, Row, Samples, cpu, main, rate, repeat
from softcard.device.refsi.device import RefSiDevice
from softcard.device.refsi.toolkit.builder import CommandBuffer, dma_address

COMMANDS: Final = 100_000
DATA: Final = 0x5000_0000
DATA_BYTES: Final = 1 << 20
TARGET_RATE: Final = 2
TARGET_SHARE: Final = 0.5
"""Of the reference's rate."""
TARGET_LATENCY_US: Final = 10
REFERENCE_SUBMIT_US: Final = 15
TITLE: Final = "RefSi commands, profile spec"

Fill = Callable[[CommandBuffer, int], object]


def _data(number: int) -> int:
    return DATA + number * 8 % DATA_BYTES


MIXED: Final[tuple[Fill, ...]] = (
    lambda buffer, _: buffer.nop(),
    lambda buffer, n: buffer.write_reg64("CMP_SCRATCH", n),
    lambda buffer, n: buffer.store_imm64(_data(n), n),
    lambda buffer, n: buffer.load_reg64("CMP_SCRATCH", _data(n)),
    lambda buffer, n: buffer.store_reg64("CMP_SCRATCH", _data(n + 1)),
)
"""Nanoseconds that these cost the reference: 3, 6, 15, 14, 14."""
MIXED_REFERENCE_NS: Final = (3 + 6 + 15 + 14 + 14) / 5


def _window(buffer: CommandBuffer, number: int) -> object:
    """Four of the five writes that move a window; closing it is the fifth."""
    return buffer.close_window(0).window(0, base=0x1000_0000, target=DATA + number % 16 * 4096, size=4096)


def _dma(buffer: CommandBuffer, number: int) -> object:
    """A transfer of 64 bytes and its wait: six commands."""
    return buffer.dma_1d(DATA + DATA_BYTES + number * 64 % DATA_BYTES, DATA, 64).wait_dma()


_SOURCE: Final = dma_address("DMASRCADDR")
KINDS: Final[tuple[tuple[str, Fill, int, int, float], ...]] = (
    ("NOP", lambda buffer, _: buffer.nop(), 1, COMMANDS, 3),
    ("WRITE_REG64", lambda buffer, n: buffer.write_reg64("CMP_SCRATCH", n), 1, COMMANDS, 6),
    ("STORE_IMM64 to DRAM", lambda buffer, n: buffer.store_imm64(_data(n), n), 1, COMMANDS, 15),
    ("LOAD_REG64", lambda buffer, n: buffer.load_reg64("CMP_SCRATCH", _data(n)), 1, COMMANDS, 14),
    ("STORE_REG64", lambda buffer, n: buffer.store_reg64("CMP_SCRATCH", _data(n)), 1, COMMANDS, 14),
    (
        "STORE_IMM64 to a DMA register",
        lambda buffer, n: buffer.store_imm64(dma_address("DMASRCADDR"), n),
        1,
        COMMANDS,
        23,
    ),
    ("window moved (5 WRITE_REG64)", _window, 5, COMMANDS, 113 / 5),
    ("DMA of 64 bytes (6 commands)", _dma, 6, COMMANDS, 128 / 6),
    ("COPY_MEM64 of 32", lambda buffer, _: buffer.copy_mem64(32, DATA, DATA + DATA_BYTES), 1, COMMANDS, 384),
    ("SYNC_CACHE", lambda buffer, _: buffer.sync_cache(), 1, COMMANDS, 1300),
)
"""What, how to append it, commands in it, commands in the buffer, and the reference's nanoseconds per command."""


class Bench:
    """An open device."""

    def __init__(self) -> None:
        self.device = RefSiDevice(profile="spec")

    def place(self, buffer: CommandBuffer) -> tuple[int, int]:
        """Put a buffer into device memory; its address and size."""
        data = buffer.to_bytes()
        address = self.device.allocate(len(data), 4096)
        self.device.write(address, data)
        return address, len(data)

    def run(self, address: int, size: int) -> None:
        """Submit and wait."""
        self.device.submit(address, size)
        (status,) = self.device.wait()
        if status.error is not None:
            raise status.error


def buffer_of(fills: tuple[Fill, ...], times: int) -> CommandBuffer:
    """Commands of these kinds in turn, `times` in all, and FINISH."""
    buffer = CommandBuffer()
    for number in range(times):
        fills[number % len(fills)](buffer, number)
    return buffer.finish()


def long_buffer(bench: Bench, fills: tuple[Fill, ...], times: int, rounds: int) -> Samples:
    """CPU seconds of one run of a long buffer."""
    place = bench.place(buffer_of(fills, times))
    bench.run(*place)
    return repeat(rounds, lambda: cpu(lambda: bench.run(*place)))


def settle(bench: Bench) -> None:
    """Until the optimised form of the commands is in use, which is made behind buffers that are worth it."""
    place = bench.place(buffer_of(MIXED, COMMANDS))
    for _ in range(20):
        bench.run(*place)
        time.sleep(0.1)


def throughput(rounds: int) -> list[Row]:
    """The mixed buffer, alone and with a listener, then each kind."""
    bench = Bench()
    settle(bench)
    mixed = long_buffer(bench, MIXED, COMMANDS, rounds)
    peer = {"peer_name": REFERENCE, "peer": 1e3 / MIXED_REFERENCE_NS}
    rows = [
        rate(
            "refsi_commands",
            "100,000 mixed small commands",
            "M/s",
            COMMANDS,
            mixed,
            target=TARGET_RATE,
            absolute=True,
            **peer,
        )
    ]
    few = COMMANDS // 10
    for when, later in (("", False), (" that takes them later", True)):
        heard = count()
        cancel = bench.device.probes.subscribe(lambda event, heard=heard: next(heard), later=later)
        traced = long_buffer(bench, MIXED, few, rounds)
        cancel()
        events, target = next(heard) // (rounds + 1), {"target": 1.0, "absolute": True} if later else {}
        rows.append(rate("refsi_commands", f"mixed: events to a listener{when}", "M/s", events, traced, **target))
    for what, fill, commands, total, nanoseconds in KINDS:
        samples = long_buffer(bench, (fill,), total // commands, rounds)
        amount = total // commands * commands
        rows.append(
            rate(
                "refsi_commands",
                what,
                "M/s",
                amount,
                samples,
                peer_name=REFERENCE,
                peer=1e3 / nanoseconds,
                target=TARGET_SHARE,
            )
        )
    return rows


def short_buffer(bench: Bench, what: str, buffer: CommandBuffer, times: int, batches: int) -> list[Row]:
    """Microseconds from submit to the end of wait: median and 99th percentile, of each of several batches."""
    place = bench.place(buffer)
    middles, tails = [], []
    for _ in range(batches):
        seconds = []
        for _ in range(times):
            before = time.perf_counter()
            bench.run(*place)
            seconds.append(time.perf_counter() - before)
        seconds.sort()
        middles.append(median(seconds) * 1e6)
        tails.append(seconds[times * 99 // 100] * 1e6)
    return [
        Row(
            "refsi_commands",
            f"submit + wait, {what}, median",
            "us",
            min(middles),
            median(middles),
            peer_name=REFERENCE,
            peer=REFERENCE_SUBMIT_US,
            target=TARGET_LATENCY_US,
            lower=True,
            absolute=True,
        ),
        Row("refsi_commands", f"submit + wait, {what}, 99th percentile", "us", min(tails), median(tails), lower=True),
    ]


def measure(quick: bool = False) -> list[Row]:
    rounds, times, batches = (3, 300, 3) if quick else (7, 2000, 7)
    rows = throughput(rounds)
    bench = Bench()
    rows += short_buffer(bench, "FINISH only", CommandBuffer().finish(), times, batches)
    rows += short_buffer(bench, "5 commands", buffer_of(MIXED, 4), times, batches)
    return rows


if __name__ == "__main__":
    main(measure, TITLE)
