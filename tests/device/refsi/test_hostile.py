"""No command buffer whatsoever may do more than end with an error in its status."""

from __future__ import annotations

import random

import pytest

from softcard.core.errors import AccessFault, ModelBug, SoftcardError
from softcard.device.refsi.commands import (
    Command,
    CopyMem64,
    Finish,
    LoadReg64,
    RunInstances,
    RunKernelSlice,
    StoreImm64,
    StoreReg64,
    SyncCache,
    WriteReg64,
    encode_all,
)
from tests.device.refsi.m1 import BUFFER, RETURN, Bench, kernels, window

PLACES = (0, 0x100, 0x10000, 0x10000000, 0x10200000, 0x103FFFF8, 0x14000000, 0x1407FFF8, 0x20002000, 0x20002018)
PLACES += (0x20100000, 0x201001F8, 0x30000000, 0x30000FF8, 0x40000000, BUFFER, 0x50000000, RETURN, 0x70000000)
PLACES += (0xBFFFFFF8, 0xC0000000, 0xFFFFFFF8, 1 << 32, 1 << 48, (1 << 64) - 8)
VALUES = (0, 1, 2, 8, 0x11, 0x21, 0x31, 0xE1, 0x71, 0xFFF00000001, 0xFFF00000003, 0xFFF00000C09, 0x1000053000000)
VALUES += (0x100000080000, 0x100000400000)
KERNELS = [symbol.address for name, symbol in (kernels().symbols or {}).items() if name.startswith("k_")]


class Author:
    """Writes commands that are nearly right."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self) -> int:
        kind = self.random.randrange(10)
        if kind < 5:
            return self.random.choice(PLACES)
        if kind < 7:
            return self.random.choice(VALUES)
        if kind < 9:
            return self.random.choice(PLACES) + self.random.randrange(-16, 4096) & (1 << 64) - 1
        return self.random.getrandbits(64)

    def commands(self) -> list[Command]:
        pick = self.random.randrange
        kernel = WriteReg64(1, self.random.choice(KERNELS))
        args = tuple(self.value() for _ in range(pick(8)))
        unit = self.random.choice((0, 0x1000000, 0x2000000, 0x3000001, 0x3000007, 0x4000000))
        choices: tuple[list[Command], ...] = (
            [WriteReg64(pick(40), self.value())],
            [WriteReg64(pick(8, 40), self.value())],
            [StoreImm64(0x20002000 + 8 * pick(12), self.value())],
            [StoreImm64(self.value() & 0xFFFFFFFF, self.value()), LoadReg64(pick(40), self.value())],
            [StoreReg64(pick(40), self.value())],
            [CopyMem64(self.random.choice((0, 1, 33, 600)), self.value(), self.value(), unit), SyncCache(pick(4))],
            [kernel, WriteReg64(6, RETURN), RunInstances(pick(6), pick(7), args)],
            [kernel, RunKernelSlice(pick(5), pick(5), self.value())],
            window(pick(8), self.value(), self.value(), self.random.choice((8, 0x100, 0x1000)), pick(4), self.value()),
        )
        return self.random.choice(choices)

    def buffer(self) -> bytes:
        parts = [command for _ in range(self.random.randrange(1, 20)) for command in self.commands()]
        data = bytearray(encode_all([*parts, Finish()]))
        if self.random.random() < 0.2:
            data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
        return bytes(data)


@pytest.mark.parametrize("profile", ["refsidrv", "spec"])
@pytest.mark.parametrize("seed", range(4))
def test_hostile_buffers(profile: str, seed: int) -> None:
    author = Author(seed)
    for _ in range(12):
        bench = Bench(profile, step_limit=2000)
        for _ in range(12):
            data = author.buffer()
            try:
                bench.device.write(BUFFER, data)
            except AccessFault:
                break  # a window has taken DRAM away
            bench.device.submit(BUFFER, len(data))
            (status,) = bench.device.wait()
            assert status.ok or isinstance(status.error, SoftcardError)
            assert not isinstance(status.error, ModelBug), status
