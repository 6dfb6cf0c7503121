"""An M1 with the recordings' kernels loaded, and short ways to run commands on it."""

from __future__ import annotations

from functools import cache
from typing import Any

from softcard.core.event import Event
from softcard.device.refsi.commands import (
    BufferStatus,
    Command,
    Finish,
    RunInstances,
    StoreImm64,
    WriteReg64,
    encode_all,
)
from softcard.device.refsi.device import RefSiDevice
from softcard.device.refsi.registers import CMP
from softcard.image.riscv.program import ElfImage, read_elf
from softcard.isa.riscv.decode import assemble
from tests.device.refsi.recordings import FOLDER

BUFFER = 0x4F00_0000
ELF_TARGET = 0x7000_0000
STACK_TOP = 0x1408_0000
RETURN = 0x6007_7000
FLAG = 0x5001_0000
OUT = 0x5000_0000
CODE = 0x6100_0000


@cache
def kernels() -> ElfImage:
    return read_elf((FOLDER / "kernels.elf").read_bytes())


def entry(name: str) -> int:
    return kernels().symbol(name).address


def write(name: str, value: int) -> WriteReg64:
    """WRITE_REG64 by register name, e.g. ``WINDOW_BASE2``."""
    return WriteReg64(CMP.offset_of(name if name.startswith("CMP_") else f"CMP_{name}"), value)


def window(
    index: int, base: int, target: int, size: int, mode: int = 0, scale: int = 0, perms: int = 0
) -> list[Command]:
    """The four register writes that open a window, in the order the reference needs; `scale` is the raw register."""
    return [
        write(f"REG_WINDOW_BASE{index}", base),
        write(f"REG_WINDOW_TARGET{index}", target),
        write(f"REG_WINDOW_SCALE{index}", scale),
        write(f"REG_WINDOW_MODE{index}", (size - 1) << 32 | perms << 4 | mode << 1 | 1),
    ]


class Bench:
    """A device with kernels at 0x10000 (window 0), hart memory at 0x14000000 (window 1) and a return stub."""

    def __init__(self, profile: str = "refsidrv", engine: str = "reference", **options: Any) -> None:
        self.device = RefSiDevice("m", profile=profile, engine=engine, **options)
        self.events: list[Event] = []
        self.device.probes.subscribe(self.events.append)
        segment = kernels().segments[0]
        self.device.write(ELF_TARGET, segment.data)
        self.device.write(RETURN, assemble("addi a0, zero, 0; addi a7, zero, 0; ecall", RETURN))
        scale = 0x7FFFF_00000001 if profile == "refsidrv" else 0x3FFFF_00000001
        status = self.run(
            *window(0, 0x10000, ELF_TARGET, 0x7FF0000),
            *window(1, 0x14000000, 0x10200000, 0x80000, mode=1, scale=scale),
        )
        assert status.ok, status
        self.events.clear()

    def run(self, *commands: Command) -> BufferStatus:
        """Execute these commands and FINISH."""
        return self.words(encode_all([*commands, Finish()]))

    def words(self, data: bytes) -> BufferStatus:
        """Execute these bytes."""
        self.device.write(BUFFER, data)
        self.device.submit(BUFFER, len(data))
        (status,) = self.device.wait()
        return status

    def kernel(
        self,
        kernel: str | int,
        *args: int,
        instances: int = 1,
        harts: int = 0,
        back: int = RETURN,
        stack: int = STACK_TOP,
    ) -> list[Command]:
        """The commands that run a kernel."""
        address = entry(kernel) if isinstance(kernel, str) else kernel
        return [
            write("ENTRY_PT_FN", address),
            write("STACK_TOP", stack),
            write("RETURN_ADDR", back),
            RunInstances(harts, instances, args),
        ]

    def code(self, text: str, at: int = CODE) -> int:
        """Assemble `text` into memory; gives its address."""
        self.device.write(at, assemble(text, at))
        return at

    def r64(self, address: int, count: int = 1) -> list[int]:
        data = self.device.read(address, 8 * count)
        return [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8)]

    def seen(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def flag(value: int = 1) -> StoreImm64:
    """Says that a buffer came this far."""
    return StoreImm64(FLAG, value)
