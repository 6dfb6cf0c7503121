"""What the tests of the `spec` memory system share."""

from collections.abc import Callable

import pytest

from softcard.core.errors import AccessFault
from softcard.core.space import Unit
from softcard.device.refsi.interfaces import COMMAND_PROCESSOR, HART, HOST
from softcard.device.refsi.registers import (
    DMA,
    DMA_BASE,
    WINDOW_BASE,
    WINDOW_MODE,
    WINDOW_SCALE,
    WINDOW_TARGET,
)
from softcard.device.refsi.spec.memory import SpecMemory

WINDOW = 0x3000_0000
SOURCE = 0x5300_0000
TARGET = 0x5400_0000
PATTERN = bytes((7 * i + i // 256) % 251 + 1 for i in range(4096))
STRIDE_MODES = {"": 0, "source": 0x80, "target": 0x40, "both": 0xC0}


def patterned() -> SpecMemory:
    """A memory with PATTERN at SOURCE."""
    made = SpecMemory()
    made.write(SOURCE, PATTERN, HOST)
    return made


def moved(memory: SpecMemory, size: int = 64, target: int = TARGET) -> bytes:
    """What lies at the target of a transfer."""
    return memory.read(target, size, HOST)


def hart(index: int) -> Unit:
    return Unit(HART, index)


def words(*values: int) -> bytes:
    return b"".join(value.to_bytes(8, "little") for value in values)


def open_window(
    memory: SpecMemory,
    number: int = 0,
    base: int = WINDOW,
    target: int = TARGET,
    size: int = 0x1000,
    scale: tuple[int, int] = (0, 0),
    active: int = 1,
    **mode: int | str,
) -> None:
    """Write the four registers of a window; `scale` holds the fields SCALE_A and SCALE_B, `mode` others of MODE."""
    memory.window_register(WINDOW_BASE.offset + number, base)
    memory.window_register(WINDOW_TARGET.offset + number, target)
    memory.window_register(WINDOW_SCALE.offset + number, WINDOW_SCALE.encode(SCALE_A=scale[0], SCALE_B=scale[1]))
    memory.window_register(WINDOW_MODE.offset + number, WINDOW_MODE.encode(ACTIVE=active, SIZE=size - 1, **mode))


def refused(what: Callable[[], object], rule: str, message: str) -> AccessFault:
    """Run `what`; the fault must have this rule and this message."""
    with pytest.raises(AccessFault) as caught:
        what()
    assert caught.value.rule is not None
    assert caught.value.rule.id == f"refsi/{rule}"
    assert caught.value.message == message
    return caught.value


class Dma:
    """The DMA registers by name, as one unit uses them."""

    def __init__(self, memory: SpecMemory, unit: Unit = COMMAND_PROCESSOR) -> None:
        self.memory = memory
        self.unit = unit

    def __setitem__(self, name: str, value: int) -> None:
        self.memory.write(DMA_BASE + 8 * DMA.offset_of(name), words(value), self.unit)

    def __getitem__(self, name: str) -> int:
        return int.from_bytes(self.memory.read(DMA_BASE + 8 * DMA.offset_of(name), 8, self.unit), "little")

    def start(self, *sizes: int, source=SOURCE, target=TARGET, strides="", by=(0, 0), to=(0, 0)) -> int:
        """Start a transfer and give its ID; `by` and `to` are the source and destination strides."""
        self["DMASRCADDR"] = source
        self["DMADSTADDR"] = target
        for number, size in enumerate(sizes):
            self[f"DMAXFERSIZE{number}"] = size
        for number in range(2):
            self[f"DMAXFERSRCSTRIDE{number}"] = by[number]
            self[f"DMAXFERDSTSTRIDE{number}"] = to[number]
        self["DMACTRL"] = 1 | len(sizes) << 4 | STRIDE_MODES[strides]
        return self["DMASTARTSEQ"]

    def run(self, *sizes: int, **how) -> None:
        """Start a transfer and wait for it."""
        self["DMADONESEQ"] = self.start(*sizes, **how)
