"""How long does a driver wait for a register of a device that is plugged in over vfio-user?

`softcard serve` in a process of its own, a client in this one, Acceldev between them. Each round makes many reads of
one register; the device is idle, or executes RUNs of user commands all the while. The peer is the bare round trip:
two Python processes that only pass the same bytes back and forth over such a socket.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from harness import Row, Samples, latency, main
from softcard.attach.vfio_user import Client, Disconnected

TITLE: Final = "vfio-user: a register's round trip"
QUESTION: Final = "vfio_user"
MEDIAN_TARGET_US: Final = 40
P99_TARGET_US: Final = 1000
RAM: Final = 16 << 20
TABLE, DATA_TABLE, CODE, DATA = 0x10000, 0x11000, 0x100000, 0x800000
COMMANDS: Final = (4 << 20) // 20
INTR_ENABLE, ENABLE, CONFIGS, FREE, FENCE_LAST = 0x04, 0x08, 0x0C, 0x8C, 0xA0
QUEUE: Final = 255
SERVE: Final = "import sys; from softcard.cli.attach.serve import app; app(sys.argv[1:])"


def per_read(reads: int, read: Callable[[], object]) -> list[float]:
    """Seconds of each of many reads, sorted."""
    found = []
    for _ in range(reads):
        before = time.perf_counter()
        read()
        found.append(time.perf_counter() - before)
    return sorted(found)


def bare(reads: int) -> list[float]:
    """The same bytes between two processes that do nothing with them."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if not child:
        ours.close()
        while theirs.recv(4096):
            theirs.send(bytes(36))
        os._exit(0)
    theirs.close()

    def read() -> None:
        ours.send(bytes(32))
        ours.recv(4096)

    found = per_read(reads, read)
    ours.close()
    os.waitpid(child, 0)
    return found


def connect(path: Path) -> Client:
    """Wait for the server to listen."""
    for _ in range(1000):
        try:
            return Client.connect(path)
        except Disconnected:
            time.sleep(0.01)
    raise SystemExit("the server does not start")


class Work:
    """Fills the queue with RUNs of one kind of user command."""

    def __init__(self, client: Client, command: tuple[int, ...]) -> None:
        self.client = client
        view = client.windows[0].view
        code = struct.pack("<5I", *command)
        view[CODE : CODE + COMMANDS * 20] = code * COMMANDS
        for table, first in ((TABLE, CODE), (DATA_TABLE, DATA)):
            view[table : table + 4096] = struct.pack("<1024I", *(first + 4096 * i >> 8 | 1 for i in range(1024)))

    def feed(self, runs: int) -> None:
        """Queue that many."""
        for _ in range(runs):
            for index, word in enumerate((1, TABLE, 0, 0, COMMANDS * 20)):
                self.client.write_u32(FREE + 4 * index, word, posted=True)

    def reads(self, count: int) -> list[float]:
        """Seconds of reads while the device works all the while."""
        found: list[float] = []
        free = self.client.read_u32(FREE)
        while len(found) < count:
            if free > QUEUE // 2:
                self.feed(free - 1)
                self.client.read_u32(FREE)  # behind the posted writes, which are no part of this question
            found += per_read(50, lambda: self.client.read_u32(FENCE_LAST))
            free = self.client.read_u32(FREE)
            assert free < QUEUE, "the device ran out of work"
        self.client.reset()
        start(self.client)
        return sorted(found)


def start(client: Client) -> None:
    """What a driver does first."""
    client.enable()
    client.windows[0].view[: 255 * 192] = bytes(255 * 192)
    for offset, value in ((INTR_ENABLE, 0), (CONFIGS, 0), (CONFIGS + 4, 0), (ENABLE, 1)):
        client.write_u32(offset, value)
    for index, word in enumerate((2, 0, DATA_TABLE, 0, 0)):
        client.write_u32(FREE + 4 * index, word, posted=True)


PLACES: Final = (("median", 0.5, MEDIAN_TARGET_US), ("p99", 0.99, P99_TARGET_US))


def rows(what: str, rounds: list[list[float]], peers: list[list[float]], *, busy: bool) -> list[Row]:
    """Median and 99th percentile of rounds of sorted reads; the best round, and the typical one.

    Targets are for a `busy` device: where nothing runs at all, most of the time goes by until a core wakes up.
    """
    found = []
    for name, place, target in PLACES:
        samples, peer = (
            Samples(tuple(seconds[int(len(seconds) * place)] for seconds in side)) for side in (rounds, peers)
        )
        more = {"peer_name": "bare", "peer": peer.best * 1e6, "target": target if busy else None}
        more["absolute"] = busy
        found.append(latency(QUESTION, f"{what}, {name}", "us", samples, **more))
    return found


KINDS: Final = (
    ("NOPs", (0, 0, 0, 0, 0)),
    ("FILLs of 64 bytes", (2, 7, 0, 0, 64)),
    ("FILLs of 4 MiB", (2, 7, 0, 0, 4 << 20)),
    ("FENCEs", (1, 0, 0, 0, 0)),
)


def measure(quick: bool) -> list[Row]:
    """The rows of this benchmark."""
    reads, rounds = (500, 2) if quick else (4000, 5)
    raw = [bare(reads) for _ in range(rounds)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "device.sock")
        command = [sys.executable, "-c", SERVE, "acceldev", "--vfio-user", str(path), "--quiet", "--once"]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        with connect(path) as client:
            client.new_memory(0, RAM)
            start(client)
            idle = [per_read(reads, lambda: client.read_u32(FENCE_LAST)) for _ in range(rounds)]
            found = rows("idle", idle, raw, busy=False)
            for name, words in KINDS:
                work = Work(client, words)
                busy = [work.reads(reads) for _ in range(rounds)]
                found += rows(f"while a RUN of {name} executes", busy, raw, busy=True)
        server.wait(20)
    return found


if __name__ == "__main__":
    main(measure, TITLE)
